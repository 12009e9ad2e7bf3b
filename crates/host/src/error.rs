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
    /// The reader of our output went away: quiet, and 141 as for who was ended by SIGPIPE.
    PipeClosed,
    /// What a check found, in e2fsck's codes.
    Checked(u8),
    /// The host lacks something that is needed: no memory, no process, no /dev/fuse. As a failure,
    /// but for mounts: 2.
    System,
    /// Ended by a signal before it was done. As a failure, but for mounts: 8.
    Interrupted,
    /// The code of a program that was run (`extant mount IMAGE -- PROGRAM`).
    OfProgram(u8),
}

/// What exit codes mean to a caller: most commands have one convention, checks have that of fsck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Convention {
    /// 0 done, 1 failed or incomplete, 2 wrong usage.
    Plain,
    /// 0 clean, 4 problems left, 8 not able to check, 16 wrong usage.
    Fsck,
    /// That of diff(1): 0 equal, 1 different, 2 failed or wrong usage.
    Diff,
    /// That of mount(8): 0 done, 1 wrong usage, 2 the host lacks something, 8 interrupted, 32
    /// failed.
    Mount,
}

impl Convention {
    /// That of the command of this name.
    pub fn of(command: &str) -> Convention {
        match command {
            "check" | "repair" | "heal" => Convention::Fsck,
            "diff" => Convention::Diff,
            "mount" | "umount" => Convention::Mount,
            _ => Convention::Plain,
        }
    }
    /// The code for the shell.
    pub fn code(self, exit: Exit) -> u8 {
        match (self, exit) {
            (_, Exit::Complete) => 0,
            (_, Exit::PipeClosed) => 141,
            (_, Exit::Checked(code) | Exit::OfProgram(code)) => code,
            (Convention::Plain, Exit::Usage) | (Convention::Diff, _) => 2,
            (Convention::Plain, _) => 1,
            (Convention::Fsck, Exit::Usage) => 16,
            (Convention::Fsck, _) => 8,
            (Convention::Mount, Exit::Usage) => 1,
            (Convention::Mount, Exit::System) => 2,
            (Convention::Mount, Exit::Interrupted) => 8,
            (Convention::Mount, Exit::Incomplete | Exit::Failure) => 32,
        }
    }

    /// What a code of this convention means. Codes of signals mean the same in all.
    pub fn meaning(self, code: u8) -> String {
        let meaning = match (self, code) {
            (_, 141) => "the reader of the output went away",
            (_, 129..=159) => return format!("stopped by signal {}", code - 128),
            (Convention::Diff, 0) => "nothing differs",
            (Convention::Diff, 1) => "something differs",
            (Convention::Diff, 2) => "it could not be compared, or the words are wrong",
            (Convention::Mount, 1) | (Convention::Plain, 2) => "the words are wrong",
            (Convention::Mount, 2) => "the host lacks something",
            (Convention::Mount, 8) => "interrupted",
            (Convention::Mount, 32) => "the mount, or its end, failed",
            (Convention::Mount | Convention::Plain, 0) => "done",
            (Convention::Plain, 1) => "failed, or files were left out",
            (Convention::Fsck, 0) => {
                "nothing was wrong, or looked for; a journal may have been replayed"
            }
            (Convention::Fsck, code) => return of_fsck(code),
            _ => "as the program that was run has it",
        };
        meaning.to_owned()
    }
}

/// What the bits of a code of fsck mean, each alone.
fn of_fsck(code: u8) -> String {
    let bits = [
        (1, "problems were mended, or would be"),
        (2, "the system should be restarted"),
        (4, "problems are left"),
        (8, "it could not be done, which says nothing of the volume"),
        (16, "the words are wrong"),
        (32, "stopped by the user"),
        (128, "a library failed"),
    ];
    let said = bits.iter().filter(|(bit, _)| code & bit != 0).map(|(_, words)| *words);
    said.collect::<Vec<_>>().join("; ")
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
    /// The same, ending in another way.
    #[must_use]
    pub fn exit(self, exit: Exit) -> Error {
        Error { exit, ..self }
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
        match is_full(error.kind()) {
            true => failure.hint(HOST_IS_FULL),
            false => failure,
        }
    }
    /// A folder of the host that is not there.
    pub fn no_folder(folder: impl fmt::Display) -> Error {
        Error::new(format!("{folder}: there is no such folder"))
            .hint(format!("mkdir -p {folder} makes it"))
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

/// What is said where the image has room.
pub(crate) const HOST_IS_FULL: &str = "the host file system is full, not the image";

/// Whether an error of the host says that there is no room.
pub(crate) fn is_full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// As it says itself, where no image is known that its paths are in.
impl From<extant_edit::Error> for Error {
    fn from(error: extant_edit::Error) -> Error {
        let failure = Error::new(error.to_string());
        match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
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
    fn mounts_end_as_mount_8_says() {
        let codes = [Exit::Complete, Exit::Usage, Exit::System, Exit::Interrupted, Exit::Failure];
        let code = |exit| Convention::of("umount").code(exit);
        assert_eq!(codes.map(code), [0, 1, 2, 8, 32]);
        assert_eq!(code(Exit::OfProgram(77)), 77);
        assert_eq!(codes.map(|exit| Convention::Plain.code(exit)), [0, 2, 1, 1, 1]);
    }

    #[test]
    fn a_full_disk_is_the_hosts() {
        let error = Error::io("x.img", &io::Error::from_raw_os_error(28));
        assert_eq!(error.message, "x.img: No space left on device");
        assert!(error.hint.is_some());
    }
}
