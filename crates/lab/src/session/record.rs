//! A file trace: one request of a mount a line, as JSON, in the order in which they were answered.
//!
//! The first line is [`HEAD`]. Nodes have the numbers of their inodes, but for the root, which is
//! node 1. What is written is not kept, only where and how much. What a record does not name
//! (times, owners, attributes) is a call of the kind `other`, and is not lived again.
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io::{self, Write};

/// The first line of a file trace.
pub const HEAD: &str = "{\"schema\":\"extant-file-trace/1\"}";

/// One request that was answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileRecord {
    /// When it began, in nanoseconds of the server's clock.
    pub at_ns: u64,
    /// How long it took.
    pub took_ns: u64,
    /// What it was asked of.
    pub node: u64,
    /// The number of the error; 0 if it was done.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub error: i32,
    /// What was asked.
    #[serde(flatten)]
    pub call: Call,
}

fn is_zero(error: &i32) -> bool {
    *error == 0
}

/// What was asked. Modes are whole, with the type of what is made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Call {
    Lookup { name: Name, found: Option<u64> },
    Create { name: Name, mode: u32, made: Option<u64> },
    CreateNameless { mode: u32, made: Option<u64> },
    MakeNode { name: Name, mode: u32, made: Option<u64> },
    MakeSymlink { name: Name, target: Name, made: Option<u64> },
    Link { from: u64, name: Name },
    Unlink { name: Name },
    RemoveDirectory { name: Name },
    Rename { name: Name, to: u64, to_name: Name, flags: u32 },
    Open,
    Close,
    Read { offset: u64, bytes: u64 },
    Write { offset: u64, bytes: u64 },
    SetSize { size: u64 },
    Allocate { offset: u64, bytes: u64, mode: u32 },
    Sync,
    SyncData,
    SyncAll,
    List { cookie: u64 },
    Stat,
    ReadLink,
    StatFs,
    Other { what: String },
}

impl Call {
    /// Its kind, as in the trace.
    pub fn kind(&self) -> &str {
        match self {
            Call::Lookup { .. } => "lookup",
            Call::Create { .. } => "create",
            Call::CreateNameless { .. } => "create-nameless",
            Call::MakeNode { .. } => "make-node",
            Call::MakeSymlink { .. } => "make-symlink",
            Call::Link { .. } => "link",
            Call::Unlink { .. } => "unlink",
            Call::RemoveDirectory { .. } => "remove-directory",
            Call::Rename { .. } => "rename",
            Call::Open => "open",
            Call::Close => "close",
            Call::Read { .. } => "read",
            Call::Write { .. } => "write",
            Call::SetSize { .. } => "set-size",
            Call::Allocate { .. } => "allocate",
            Call::Sync => "sync",
            Call::SyncData => "sync-data",
            Call::SyncAll => "sync-all",
            Call::List { .. } => "list",
            Call::Stat => "stat",
            Call::ReadLink => "read-link",
            Call::StatFs => "stat-fs",
            Call::Other { what } => what,
        }
    }
}

/// A name or a symlink's target. In the trace, bytes that are no printable ASCII, and "%", are
/// written as "%" and two hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name(pub Vec<u8>);

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.0.len());
        for byte in &self.0 {
            match byte {
                b' '..=b'~' if *byte != b'%' => text.push(char::from(*byte)),
                _ => text.push_str(&format!("%{byte:02x}")),
            }
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom(format!("{text:?}: \"%\" and no two digits"));
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            rest = tail;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.ok_or_else(wrong)?);
            rest = &tail[2..];
        }
        Ok(Name(bytes))
    }
}

/// What is wrong with a session, or its replay.
#[derive(Debug)]
pub enum SessionError {
    /// A line of the trace that says nothing sensible.
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The volume, or the drive.
    Volume(extant_engine::Error),
    /// The contents do not fit, or the run did not end.
    Run(String),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Line { line, reason } => write!(f, "line {line}: {reason}"),
            SessionError::Volume(error) => error.fmt(f),
            SessionError::Run(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<extant_engine::Error> for SessionError {
    fn from(error: extant_engine::Error) -> SessionError {
        SessionError::Volume(error)
    }
}

/// Writes one line.
///
/// # Errors
/// The writer's.
pub fn write_line(record: &FileRecord, writer: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *writer, record)?;
    writer.write_all(b"\n")
}

/// Reads a file trace; the records by the time at which they began.
///
/// # Errors
/// The first line that is none.
pub fn read(text: &str) -> Result<Vec<FileRecord>, SessionError> {
    let mut lines = text.lines().zip(1..);
    if lines.next().is_none_or(|(head, _)| head != HEAD) {
        let reason = format!("is not {HEAD}: it is no file trace");
        return Err(SessionError::Line { line: 1, reason });
    }
    let records = lines.map(|(text, line)| {
        serde_json::from_str(text)
            .map_err(|error| SessionError::Line { line, reason: error.to_string() })
    });
    let mut records: Vec<FileRecord> = records.collect::<Result<_, _>>()?;
    records.sort_by_key(|record| record.at_ns);
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let record = |at_ns, call| FileRecord { at_ns, took_ns: 5, node: 1, error: 0, call };
        let records = [
            record(1, Call::Lookup { name: Name(b"a %\xff\n".to_vec()), found: Some(12) }),
            FileRecord { error: 2, ..record(2, Call::Stat) },
            record(3, Call::Read { offset: 0, bytes: 4096 }),
            record(4, Call::Other { what: "ioctl".to_owned() }),
        ];
        let mut text = format!("{HEAD}\n").into_bytes();
        // As they are answered, which is not the order in which they began.
        for record in records.iter().rev() {
            write_line(record, &mut text).unwrap();
        }
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\"name\":\"a %25%ff%0a\""), "{text}");
        assert_eq!(read(&text).unwrap(), records);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("").starts_with("line 1: "));
        let wrong = format!("{HEAD}\n{{\"at_ns\":1}}\n");
        assert!(message(&wrong).starts_with("line 2: missing field"), "{}", message(&wrong));
        let wrong = r#"{"at_ns":1,"took_ns":1,"node":1,"call":"unlink","name":"%4"}"#;
        assert!(message(&format!("{HEAD}\n{wrong}")).contains("no two digits"));
    }
}
