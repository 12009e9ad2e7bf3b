//! What a user reads when something fails: one line, and a hint where there is something to do.
use extant_archive::reason;
use std::fmt;
use std::io;

/// A failure as the user sees it. Printed as `extant: COMMAND: MESSAGE`, and ` hint: HINT` below
/// it; with `--json` as one line `{"command":..,"error":..,"hint":..,"exit":..}`, on stderr too,
/// because stdout may carry data.
#[derive(Debug)]
pub struct Error {
    /// One line, beginning with the thing that it is about: a path, an option.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<String>,
    /// How the process ends.
    pub exit: Exit,
}

/// How a process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// All was done: 0.
    Complete,
    /// Done, but with files left out, each named before (`--keep-going`): 1.
    Incomplete,
    /// Failed: 1.
    Failure,
    /// The words of the command line are wrong: 2.
    Usage,
    /// The reader of our output went away: quiet, 0.
    PipeClosed,
    /// What a check found, in e2fsck's codes.
    Checked(u8),
}

/// What exit codes mean to a caller: most commands have one convention, checks have that of fsck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Convention {
    /// 0 done, 1 failed or incomplete, 2 wrong usage.
    Plain,
    /// 0 clean, 4 problems left, 8 not able to check, 16 wrong usage.
    Fsck,
}

impl Convention {
    /// That of the command of this name.
    pub fn of(command: &str) -> Convention {
        match command {
            "check" => Convention::Fsck,
            _ => Convention::Plain,
        }
    }
    /// The code for the shell.
    pub fn code(self, exit: Exit) -> u8 {
        match (self, exit) {
            (_, Exit::Complete | Exit::PipeClosed) => 0,
            (_, Exit::Checked(code)) => code,
            (Convention::Plain, Exit::Incomplete | Exit::Failure) => 1,
            (Convention::Plain, Exit::Usage) => 2,
            (Convention::Fsck, Exit::Incomplete | Exit::Failure) => 8,
            (Convention::Fsck, Exit::Usage) => 16,
        }
    }
}

impl Error {
    /// A failure.
    pub fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), hint: None, exit: Exit::Failure }
    }
    /// Wrong usage: exit 2.
    pub fn usage(message: impl Into<String>) -> Error {
        Error { exit: Exit::Usage, ..Error::new(message) }
    }
    /// The same, with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }
    /// A failed system call on `subject`. Says "no space" with the hint that the host, not the
    /// image, is full.
    pub fn io(subject: impl fmt::Display, error: &io::Error) -> Error {
        let failure = Error::new(format!("{subject}: {}", reason(error)));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint("the host file system is full, not the image")
            }
            _ => failure,
        }
    }
    /// A failed write to stdout: a closed pipe ends the command quietly.
    pub fn stdout(error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => {
                Error { exit: Exit::PipeClosed, ..Error::new("standard output was closed") }
            }
            _ => Error::io("standard output", error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_the_hosts() {
        let error = Error::io("x.img", &io::Error::from_raw_os_error(28));
        assert_eq!(error.message, "x.img: No space left on device");
        assert!(error.hint.is_some());
    }
}
