//! What a process does: few files in a folder of its own, written, cut, renamed and synced by
//! chance, until it has done enough or its file system is gone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::notes::{Id, Note, Writer};
use crate::content::{RECORD, record};
use crate::numbers::Numbers;

/// Names in the folder of a process, and bytes of its largest file.
const NAMES: u64 = 10;
const SIZE_MAX: u64 = 300_000;

/// A load of one process.
#[derive(Clone, Debug)]
pub struct Load {
    /// The folder, which must be there and empty.
    pub folder: PathBuf,
    /// Where it notes.
    pub notes: PathBuf,
    /// What it does is drawn from this.
    pub seed: u64,
    /// Which one it is: files of two processes have different numbers.
    pub process: u32,
    /// The most that it does.
    pub operations: u64,
}

/// Does it, until the file system is gone or it is done.
///
/// # Errors
/// Notes cannot be written. What fails otherwise is in the notes.
pub fn run(load: &Load) -> Result<(), String> {
    let mut process = Process {
        folder: load.folder.clone(),
        notes: Writer::new(&load.notes)?,
        numbers: Numbers::new(load.seed),
        names: BTreeMap::new(),
        next: load.process << 16,
        writes: 0,
    };
    for _ in 0..load.operations {
        let Some(note) = process.draw() else { continue };
        process.notes.begin(&note)?;
        match process.perform(&note) {
            Ok(()) => process.notes.done()?,
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return process.notes.failed(&format!("{note:?}: {error}")),
        }
    }
    Ok(())
}

/// Whether the error is what programs get when a server or a device has gone.
fn is_gone(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    const ENODEV: i32 = 19;
    const EROFS: i32 = 30;
    const ECONNABORTED: i32 = 103;
    const ENOTCONN: i32 = 107;
    const ESHUTDOWN: i32 = 108;
    let gone = [EIO, ENODEV, EROFS, ECONNABORTED, ENOTCONN, ESHUTDOWN];
    error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

struct Process {
    folder: PathBuf,
    notes: Writer,
    numbers: Numbers,
    names: BTreeMap<String, Id>,
    next: Id,
    writes: u32,
}

impl Process {
    /// The next operation, if what was drawn is possible.
    fn draw(&mut self) -> Option<Note> {
        let name = format!("n{}", self.numbers.below(NAMES));
        let to = format!("n{}", self.numbers.below(NAMES));
        let kind = self.numbers.below(32);
        let Some(id) = self.names.get(&name).copied() else {
            self.next += 1;
            return Some(Note::Create { id: self.next, name });
        };
        let place = |numbers: &mut Numbers, limit| numbers.below(limit) / 16 * 16;
        Some(match kind {
            0..=13 => {
                self.writes += 1;
                let most = if kind < 4 { 100_000 } else { 6_000 };
                let length = 16 + place(&mut self.numbers, most);
                let offset = place(&mut self.numbers, SIZE_MAX - length);
                Note::Write { id, write: self.writes, offset, length }
            }
            14 | 15 => Note::Truncate { id, length: place(&mut self.numbers, SIZE_MAX) },
            16..=18 => Note::Rename { from: name, to },
            19 => Note::Unlink { name },
            20 | 21 if !self.names.contains_key(&to) => Note::Link { from: name, to },
            22..=25 => Note::Sync { id },
            26..=28 => Note::SyncData { id },
            29 | 30 => Note::SyncFolder,
            _ => return None,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn open(&self, id: Id) -> io::Result<File> {
        let name = self.names.iter().find(|(_, known)| **known == id);
        let (name, _) = name.ok_or(io::ErrorKind::NotFound)?;
        File::options().read(true).write(true).open(self.path(name))
    }

    fn perform(&mut self, note: &Note) -> io::Result<()> {
        match note {
            Note::Create { id, name } => {
                File::options().write(true).create_new(true).open(self.path(name))?;
                self.names.insert(name.clone(), *id);
            }
            Note::Rename { from, to } => {
                fs::rename(self.path(from), self.path(to))?;
                rename(&mut self.names, from, to);
            }
            Note::Link { from, to } => {
                fs::hard_link(self.path(from), self.path(to))?;
                if let Some(id) = self.names.get(from).copied() {
                    self.names.insert(to.clone(), id);
                }
            }
            Note::Unlink { name } => {
                fs::remove_file(self.path(name))?;
                self.names.remove(name);
            }
            Note::Write { id, write, offset, length } => {
                let bytes = record(*id, *write, *offset, *length);
                self.open(*id)?.write_all_at(&bytes, *offset)?;
            }
            Note::Truncate { id, length } => self.open(*id)?.set_len(*length)?,
            Note::Sync { id } => self.open(*id)?.sync_all()?,
            Note::SyncData { id } => self.open(*id)?.sync_data()?,
            Note::SyncFolder => File::open(&self.folder)?.sync_all()?,
        }
        Ok(())
    }
}

/// What a rename does to names: nothing, where both lead to one file.
pub(super) fn rename(names: &mut BTreeMap<String, Id>, from: &str, to: &str) {
    if names.get(from) != names.get(to)
        && let Some(id) = names.remove(from)
    {
        names.insert(to.to_owned(), id);
    }
}

/// An image of mke2fs's over a device full of bytes that belong to no file: what a file shows of
/// free blocks is found out.
///
/// # Errors
/// The file cannot be written.
pub fn fill_with_secrets(image: &Path, bytes: u64) -> io::Result<()> {
    let file = File::create(image)?;
    let piece = 1 << 20;
    for at in (0..bytes).step_by(piece) {
        file.write_all_at(&record(crate::content::SECRET, 1, at, piece as u64), at)?;
    }
    debug_assert_eq!(piece % RECORD, 0);
    Ok(())
}
