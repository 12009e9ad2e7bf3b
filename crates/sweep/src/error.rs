//! What goes wrong with a sweep: one line that names the file, the line or the job, and a hint
//! where there is something to do.
use std::fmt;
use std::io;
use std::path::Path;

/// A failure, as its user reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// One line.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<String>,
}

/// The result of what can fail so.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure without a hint.
    pub fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), hint: None }
    }
    /// The same with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Error {
        Error { hint: Some(hint.into()), ..self }
    }
    /// A system call on a file that failed.
    pub fn io(path: &Path, error: &io::Error) -> Error {
        let failure = Error::new(format!("{}: {}", path.display(), reason(error)));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint("results that are written stay: make room, and run the same again")
            }
            _ => failure,
        }
    }
}

/// What the host says, without its number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_owned()
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
