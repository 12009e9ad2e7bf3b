//! Why a volume cannot be mended.
use std::fmt;
use std::io;

/// Why a volume cannot be mended; nothing was written.
#[derive(Debug)]
pub enum Error {
    /// The device, or memory for the changes.
    Device(io::Error),
    /// The volume cannot be read.
    Volume(extant_inspect::Error),
    /// The engine refuses it.
    Engine(extant_engine::Error),
    /// It is not clean, and only one that is gets another size or is trimmed: the first problem.
    Unclean(String),
    /// There is no room before its new end for what is after that.
    NoRoom,
    /// It is no volume, or of a kind that is not mended, for this reason.
    Refused(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Device(error) => error.fmt(f),
            Error::Volume(error) => error.fmt(f),
            Error::Engine(error) => error.fmt(f),
            Error::Unclean(problem) => write!(f, "it is not clean: {problem}"),
            Error::NoRoom => {
                f.write_str("there is no room before the new end for what is after it")
            }
            Error::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Device(error) => Some(error),
            Error::Volume(error) => Some(error),
            Error::Engine(error) => Some(error),
            Error::Unclean(_) | Error::NoRoom | Error::Refused(_) => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Device(error)
    }
}

impl From<extant_inspect::Error> for Error {
    fn from(error: extant_inspect::Error) -> Error {
        Error::Volume(error)
    }
}

impl From<extant_engine::Error> for Error {
    fn from(error: extant_engine::Error) -> Error {
        Error::Engine(error)
    }
}
