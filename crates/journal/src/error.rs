//! Why a journal cannot be used. Nothing was written because of it.
use extant_format::journal::Sequence;
use extant_format::superblock::SuperblockError;
use extant_format::{BlockNo, Fault, Ino};
use std::fmt;
use std::io;

/// Why a journal cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The device failed.
    Device(io::Error),
    /// The superblock of the volume.
    Volume(SuperblockError),
    /// The journal is on another device, with this UUID.
    External([u8; 16]),
    /// The device that was given for the journal is not that of the volume.
    NotItsJournal(String),
    /// The device is itself the journal of another volume.
    JournalDevice,
    /// The volume says that it has a journal, and not where.
    Missing,
    /// The volume has a journal in an inode, and names another device for it too.
    Two,
    /// The volume asks for recovery, and has no journal.
    NoJournal,
    /// The journal's inode cannot be that of a journal.
    Inode {
        /// Its number.
        ino: Ino,
        /// What it is: "no regular file".
        reason: String,
    },
    /// The map of the journal's inode.
    Map {
        /// The block of the journal that it is about.
        block: u64,
        /// What is wrong with it: "a hole".
        reason: &'static str,
    },
    /// The superblock of the journal, or a block of its log.
    Log(Fault),
    /// A copy in the log belongs where none may be written.
    Target {
        /// Its transaction.
        sequence: Sequence,
        /// Where it belongs.
        target: BlockNo,
        /// What is there: "outside the volume".
        reason: &'static str,
    },
    /// The log holds transactions, or the volume asks for recovery: it has to be replayed before it
    /// is written.
    Busy,
    /// The log holds more than is replayed, or has no room for what is to be written.
    TooLarge {
        /// What: "blocks".
        what: &'static str,
        /// At most this many are replayed.
        limit: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Device(error) => error.fmt(f),
            Error::Volume(error) => error.fmt(f),
            Error::External(uuid) => {
                write!(f, "the journal is on another device (UUID {})", shown(uuid))
            }
            Error::NotItsJournal(reason) => {
                write!(f, "the journal that is given is not its own: {reason}")
            }
            Error::JournalDevice => f.write_str("this is the journal of another volume"),
            Error::Missing => f.write_str("the superblock names no inode of a journal"),
            Error::Two => f.write_str(
                "the superblock names a journal in an inode and one on another device: which one \
                 is right is not known",
            ),
            Error::NoJournal => {
                f.write_str("the superblock asks for recovery, but the volume has no journal")
            }
            Error::Inode { ino, reason } => write!(f, "journal: inode {} {reason}", ino.0),
            Error::Map { block, reason } => write!(f, "journal: block {block} is {reason}"),
            Error::Log(fault) => fault.fmt(f),
            Error::Target { sequence, target, reason } => {
                let block = target.0;
                write!(f, "journal: transaction {sequence} has a copy for block {block}, {reason}")
            }
            Error::Busy => f.write_str("journal: its transactions were not replayed"),
            Error::TooLarge { what, limit } => write!(f, "journal: more than {limit} {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Device(error) => Some(error),
            Error::Volume(error) => Some(error),
            Error::Log(fault) => Some(fault),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Device(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Log(fault)
    }
}

/// A UUID as it is written: `0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0`.
pub(crate) fn shown(uuid: &[u8; 16]) -> String {
    let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32];
    let groups = groups.map(|group| digits.get(group).unwrap_or_default());
    groups.join("-")
}
