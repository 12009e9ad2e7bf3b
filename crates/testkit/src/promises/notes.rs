//! The operations of one process, as lines of a file outside of the file system under test: one
//! before an operation, one after it has returned.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The number of a file, in all its names.
pub type Id = u32;

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "lines that explain themselves")]
pub enum Note {
    Create {
        id: Id,
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Link {
        from: String,
        to: String,
    },
    Unlink {
        name: String,
    },
    Write {
        id: Id,
        write: u32,
        offset: u64,
        length: u64,
    },
    Truncate {
        id: Id,
        length: u64,
    },
    /// fsync(2) of a file.
    Sync {
        id: Id,
    },
    /// fdatasync(2) of a file.
    SyncData {
        id: Id,
    },
    /// fsync(2) of the folder.
    SyncFolder,
}

/// What one process noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Its operations in order.
    pub operations: Vec<Note>,
    /// How many of them had returned for sure: the others may have happened or not.
    pub done: usize,
    /// An error that no end of the file system explains.
    pub failure: Option<String>,
}

impl Note {
    fn line(&self) -> String {
        match self {
            Note::Create { id, name } => format!("create {id} {name}"),
            Note::Rename { from, to } => format!("rename {from} {to}"),
            Note::Link { from, to } => format!("link {from} {to}"),
            Note::Unlink { name } => format!("unlink {name}"),
            Note::Write { id, write, offset, length } => {
                format!("write {id} {write} {offset} {length}")
            }
            Note::Truncate { id, length } => format!("truncate {id} {length}"),
            Note::Sync { id } => format!("sync {id}"),
            Note::SyncData { id } => format!("syncdata {id}"),
            Note::SyncFolder => "syncfolder".into(),
        }
    }

    fn parse(line: &str) -> Option<Note> {
        let words: Vec<&str> = line.split(' ').collect();
        let id = |at: usize| words.get(at)?.parse::<u32>().ok();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let name = |at: usize| words.get(at).map(|word| (*word).to_owned());
        Some(match *words.first()? {
            "create" => Note::Create { id: id(1)?, name: name(2)? },
            "rename" => Note::Rename { from: name(1)?, to: name(2)? },
            "link" => Note::Link { from: name(1)?, to: name(2)? },
            "unlink" => Note::Unlink { name: name(1)? },
            "write" => {
                Note::Write { id: id(1)?, write: id(2)?, offset: number(3)?, length: number(4)? }
            }
            "truncate" => Note::Truncate { id: id(1)?, length: number(2)? },
            "sync" => Note::Sync { id: id(1)? },
            "syncdata" => Note::SyncData { id: id(1)? },
            "syncfolder" => Note::SyncFolder,
            _ => return None,
        })
    }
}

impl Notes {
    /// Reads what [`Writer`] wrote.
    ///
    /// # Errors
    /// The file cannot be read, or a line means nothing.
    pub fn read(path: &Path) -> Result<Notes, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            // A process that had not begun.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let mut notes = Notes::default();
        for line in text.lines() {
            match line.split_once(' ') {
                None if line == "done" => notes.done = notes.operations.len(),
                Some(("begin", rest)) => {
                    let note = Note::parse(rest).ok_or_else(|| format!("no note: {line}"))?;
                    notes.operations.push(note);
                }
                Some(("failed", rest)) => notes.failure = Some(rest.to_owned()),
                _ => return Err(format!("no note: {line}")),
            }
        }
        Ok(notes)
    }
}

/// Where a process notes.
pub(super) struct Writer {
    file: File,
}

impl Writer {
    pub(super) fn new(path: &Path) -> Result<Writer, String> {
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Writer { file })
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        // One write for each line, so that none is torn when this process is killed.
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())
    }

    pub(super) fn begin(&mut self, note: &Note) -> Result<(), String> {
        self.line(&format!("begin {}", note.line()))
    }

    pub(super) fn done(&mut self) -> Result<(), String> {
        self.line("done")
    }

    pub(super) fn failed(&mut self, error: &str) -> Result<(), String> {
        self.line(&format!("failed {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn what_is_noted_is_read() {
        let folder = Scratch::new("notes");
        let path = folder.join("notes");
        let notes = [
            Note::Create { id: 65537, name: "n1".into() },
            Note::Write { id: 65537, write: 1, offset: 16, length: 32 },
            Note::Rename { from: "n1".into(), to: "n2".into() },
            Note::Truncate { id: 65537, length: 16 },
            Note::SyncFolder,
            Note::Sync { id: 65537 },
        ];
        let mut writer = Writer::new(&path).expect("a file");
        for note in &notes[..5] {
            writer.begin(note).expect("noted");
            writer.done().expect("noted");
        }
        writer.begin(&notes[5]).expect("noted");
        let read = Notes::read(&path).expect("they are read");
        assert_eq!(read.operations, notes);
        assert!(read.done == 5 && read.failure.is_none());
    }
}
