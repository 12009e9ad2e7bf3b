//! Why a volume, or a part of it, cannot be read.
use extant_format::superblock::SuperblockError;
use std::fmt;
use std::io;

/// Why reading a volume failed.
#[derive(Debug)]
pub enum Error {
    /// The device failed; for a truncated image this is `UnexpectedEof`.
    Device(io::Error),
    /// There is no superblock at this byte, or none that says where things are.
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
    /// The superblock claims more groups than are described: most descriptors are zeros, as no
    /// group has them.
    TooManyGroups {
        /// Groups that the superblock claims.
        claimed: u32,
        /// Descriptors that were found to hold something.
        described: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Device(error) => error.fmt(f),
            Error::Superblock { byte, error } => write!(f, "byte {byte}: {error}"),
            Error::Outside { what, block } => {
                write!(f, "{what}: block {block} is not on the device")
            }
            Error::NoInode(ino) => write!(f, "there is no inode {ino}"),
            Error::TooManyGroups { claimed, described } => write!(
                f,
                "more groups ({claimed}) than are described: the device holds {described} \
                 descriptors, and zeros after them"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Device(error) => Some(error),
            Error::Superblock { error, .. } => Some(error),
            Error::Outside { .. } | Error::NoInode(_) | Error::TooManyGroups { .. } => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Device(error)
    }
}
