//! Why a container cannot be read.
use std::fmt;
use std::io;

/// A failure, without the name of the file.
#[derive(Debug)]
pub enum Error {
    /// The host's, while the container was read.
    Read(io::Error),
    /// The host's, while it was unpacked to a file without a name.
    Spool(io::Error),
    /// It is damaged: what, and at which byte of the file.
    Damaged {
        /// What is wrong.
        what: String,
        /// The byte of the file.
        byte: u64,
    },
    /// Something that is known and not read: a sentence.
    Unsupported(String),
    /// The counts of a qcow2 image do not fit what it uses, so that it is not written: a sentence.
    Uncounted(String),
    /// A compressed file was opened as a disk.
    NotUnpacked,
}

impl Error {
    pub(crate) fn damaged(what: impl Into<String>, byte: u64) -> Error {
        Error::Damaged { what: what.into(), byte }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read(error) | Error::Spool(error) => error.fmt(f),
            Error::Damaged { what, byte } => write!(f, "{what} (at byte {byte} of the file)"),
            Error::Unsupported(sentence) | Error::Uncounted(sentence) => f.write_str(sentence),
            Error::NotUnpacked => f.write_str("is compressed"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Read(error)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Read(error) | Error::Spool(error) => error,
            damaged @ Error::Damaged { .. } => {
                io::Error::new(io::ErrorKind::InvalidData, damaged.to_string())
            }
            other => io::Error::new(io::ErrorKind::Unsupported, other.to_string()),
        }
    }
}
