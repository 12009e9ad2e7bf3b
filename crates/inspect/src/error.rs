//! Why a volume cannot be looked at, or a part of it.
use extant_format::superblock::SuperblockError;
use std::fmt;
use std::io;

/// Why looking failed.
#[derive(Debug)]
pub enum Error {
    /// The device answered with an error; a truncated image with `UnexpectedEof`.
    Device(io::Error),
    /// What stands at this byte is not a superblock that tells where things are.
    Superblock {
        /// Byte on the device.
        byte: u64,
        /// What is wrong with it.
        error: SuperblockError,
    },
    /// A block that the volume points to is not on the device.
    Outside {
        /// What should be there, in words: "inode bitmap".
        what: &'static str,
        /// The block.
        block: u64,
    },
    /// No such inode: 0, or above the inode count.
    NoInode(u32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Device(error) => error.fmt(f),
            Error::Superblock { byte, error } => write!(f, "byte {byte}: {error}"),
            Error::Outside { what, block } => write!(f, "{what}: block {block} is not on the device"),
            Error::NoInode(ino) => write!(f, "there is no inode {ino}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Device(error) => Some(error),
            Error::Superblock { error, .. } => Some(error),
            Error::Outside { .. } | Error::NoInode(_) => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Device(error)
    }
}
