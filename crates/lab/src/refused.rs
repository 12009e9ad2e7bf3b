//! Why something that a user asks of the laboratory is not done.
use std::fmt;
use std::io;

/// Why something that was asked for is not done. Shows as one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// One line that begins with what it is about.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<String>,
    /// Where the reason is.
    pub reason: Reason,
}

/// Where the reason of a refusal is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// In the words that were given.
    Words,
    /// In what a file holds.
    Content,
    /// What the host said of this path, with its number where it has one.
    Host {
        /// The path.
        path: String,
        /// As in errno.
        number: Option<i32>,
        /// Its kind.
        kind: io::ErrorKind,
    },
}

impl Refused {
    /// Words that mean nothing.
    pub fn words(message: impl Into<String>) -> Refused {
        Refused { message: message.into(), hint: None, reason: Reason::Words }
    }

    /// Something wrong in a file.
    pub fn content(message: impl Into<String>) -> Refused {
        Refused { reason: Reason::Content, ..Refused::words(message) }
    }

    /// What the host says of a path.
    pub fn host(path: impl fmt::Display, error: &io::Error) -> Refused {
        let path = path.to_string();
        let message = format!("{path}: {}", extant_archive::reason(error));
        let reason = Reason::Host { path, number: error.raw_os_error(), kind: error.kind() };
        Refused { message, hint: None, reason }
    }

    /// The same, with a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Refused {
        Refused { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}
