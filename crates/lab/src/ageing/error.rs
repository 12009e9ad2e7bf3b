//! What goes wrong while a volume ages: one line.
use extant_sim::drive::file::FileError;
use std::fmt;

/// Why ageing ended early. Shows as one line.
#[derive(Debug)]
pub enum AgeingError {
    /// A profile or experiment: `FILE:LINE: KEY: REASON`.
    File(FileError),
    /// Policies that are none: the words, and why.
    Policies(String, String),
    /// The volume: what was being done, and what the engine says.
    Filesystem(&'static str, Box<extant_engine::Error>),
    /// A volume that cannot be read from outside.
    Inspect(Box<extant_inspect::Error>),
    /// A drive that is too small, or a run that ended in a deadlock or a panic.
    Run(String),
}

impl fmt::Display for AgeingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgeingError::File(error) => error.fmt(f),
            AgeingError::Policies(words, reason) => write!(f, "{words}: {reason}"),
            AgeingError::Filesystem(doing, error) => write!(f, "{doing}: {error}"),
            AgeingError::Inspect(error) => error.fmt(f),
            AgeingError::Run(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for AgeingError {}

impl From<FileError> for AgeingError {
    fn from(error: FileError) -> AgeingError {
        AgeingError::File(error)
    }
}

impl From<extant_inspect::Error> for AgeingError {
    fn from(error: extant_inspect::Error) -> AgeingError {
        AgeingError::Inspect(Box::new(error))
    }
}

/// An answer of the engine, with what was being done.
pub(super) fn doing<T>(
    what: &'static str,
    answer: extant_engine::Result<T>,
) -> Result<T, AgeingError> {
    answer.map_err(|error| AgeingError::Filesystem(what, Box::new(error)))
}
