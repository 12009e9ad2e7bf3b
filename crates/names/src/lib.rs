//! The names that scripts call: this program under the name of one of e2fsprogs's.
//!
//! ```text
//! getopt      the words of a command line as getopt(3) reads them
//! mke2fs      mke2fs, mkfs.ext2, mkfs.ext3, mkfs.ext4
//! e2fsck      e2fsck, fsck.ext2, fsck.ext3, fsck.ext4
//! dumpe2fs    what a volume is like
//! e2label     its label
//! resize2fs   another size for one
//! tune2fs     label, UUID, features, journal and settings of one
//! features    what is done with each feature of the format
//! format_options  what a new file system is to be like, in mke2fs's words: also for commands
//! in_place    the superblock and its copies, changed where they are
//! ```
//! A link with one of these names to the program, or `extant --as NAME`, takes that program's
//! options, prints in its shape and ends with its exit codes. Where it does less, that is refused
//! by name.
mod dumpe2fs;
mod e2fsck;
mod e2label;
pub mod features;
pub mod format_options;
mod getopt;
mod in_place;
mod mke2fs;
mod resize2fs;
mod tune2fs;

use extant_host::console::{Chatter, Console, Form};
use extant_host::error::{Error, Exit};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

/// The release of e2fsprogs whose options and output these are.
const TOOLS_VERSION: &str = "1.47.0";

/// The exit code of a command line that is none.
const USAGE: u8 = 2;

/// A program that this one can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// mke2fs and its names by type, which the type is of.
    Mke2fs(Option<&'static str>),
    /// e2fsck.
    E2fsck,
    /// dumpe2fs.
    Dumpe2fs,
    /// e2label.
    E2label,
    /// resize2fs.
    Resize2fs,
    /// tune2fs.
    Tune2fs,
}

/// Every name, and what it stands for.
pub const NAMES: [(&str, Program); 13] = [
    ("mke2fs", Program::Mke2fs(None)),
    ("mkfs.ext2", Program::Mke2fs(Some("ext2"))),
    ("mkfs.ext3", Program::Mke2fs(Some("ext3"))),
    ("mkfs.ext4", Program::Mke2fs(Some("ext4"))),
    ("e2fsck", Program::E2fsck),
    ("fsck.ext2", Program::E2fsck),
    ("fsck.ext3", Program::E2fsck),
    ("fsck.ext4", Program::E2fsck),
    ("dumpe2fs", Program::Dumpe2fs),
    ("e2label", Program::E2label),
    ("resize2fs", Program::Resize2fs),
    ("tune2fs", Program::Tune2fs),
    ("mkfs.ext4dev", Program::Mke2fs(Some("ext4"))),
];

/// A program, the name that it was called by, and its words.
#[derive(Clone, Debug)]
pub struct Call {
    program: Program,
    name: &'static str,
    words: Vec<OsString>,
}

fn known(name: &OsStr) -> Option<(&'static str, Program)> {
    let base = Path::new(name).file_name()?.to_str()?;
    NAMES.into_iter().find(|(known, _)| *known == base)
}

/// Whether a command line, first word the program's name, is one of such a program.
pub fn called(words: &[OsString]) -> Option<Call> {
    let (first, rest) = words.split_first()?;
    if let Some((name, program)) = known(first) {
        return Some(Call { program, name, words: rest.to_vec() });
    }
    let (flag, rest) = rest.split_first()?;
    let (as_name, rest) = match flag.to_str()?.strip_prefix("--as=") {
        Some(name) => (OsString::from(name), rest),
        None if flag == "--as" => {
            let (name, rest) = rest.split_first()?;
            (name.clone(), rest)
        }
        None => return None,
    };
    let (name, program) = known(&as_name)?;
    Some(Call { program, name, words: rest.to_vec() })
}

/// Says that `--as` has no such name, where it has none; the exit code then.
pub fn refused(words: &[OsString]) -> Option<ExitCode> {
    let flag = words.get(1)?.to_str()?;
    let name = match flag.strip_prefix("--as=") {
        Some(name) => name.to_owned(),
        None if flag == "--as" => {
            words.get(2).map_or("", |name| name.to_str().unwrap_or("?")).into()
        }
        None => return None,
    };
    if known(OsStr::new(&name)).is_some() {
        return None;
    }
    let names = NAMES.map(|(name, _)| name).join(", ");
    complain(&format!("extant: --as {name}: is none of the names of other programs: {names}"));
    Some(ExitCode::from(USAGE))
}

/// Runs it.
pub fn run(call: Call) -> ExitCode {
    let Call { program, name, words } = call;
    if extant_host::cleanup::watch_signals().is_err() {
        complain(&format!("{name}: signals cannot be watched"));
    }
    let code = match program {
        Program::Mke2fs(file_system) => mke2fs::run(name, file_system, &words),
        Program::E2fsck => e2fsck::run(name, &words),
        Program::Dumpe2fs => dumpe2fs::run(name, &words),
        Program::E2label => e2label::run(name, &words),
        Program::Resize2fs => resize2fs::run(name, &words),
        Program::Tune2fs => tune2fs::run(name, &words),
    };
    ExitCode::from(code_after_output(name, program, code))
}

/// A console for what is shared with commands, which says nothing but warnings.
fn console(name: &'static str) -> Console {
    Console { command: name, form: Form::Text, chatter: Chatter::Normal }
}

/// Where logs of devices are, which have no place for one beside them: nobody else writes there,
/// and the next run on the device ends what was cut.
const LOGS: &str = "/var/lib/extant";

/// Where the log of a device is, for a change of this kind; `None` for a file.
fn log_of_device(path: &Path, kind: &str) -> Result<Option<PathBuf>, Error> {
    let Some(metadata) = std::fs::metadata(path).ok().filter(|it| it.file_type().is_block_device())
    else {
        return Ok(None);
    };
    let folder = Path::new(LOGS);
    let made = std::fs::DirBuilder::new().mode(0o700).recursive(true).create(folder);
    made.map_err(|error| {
        Error::io(folder.display(), &error)
            .hint(format!("extant {kind} --log FILE {} keeps its log elsewhere", path.display()))
    })?;
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    Ok(Some(folder.join(format!("{kind}-{major}-{minor}"))))
}

/// A line on stderr.
fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Why what a program said was not taken, the first time that it was not.
static UNSAID: OnceLock<Error> = OnceLock::new();

/// Text on stdout. What it does not take is known in the end, when the work is done.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The first one says why.
        let _ = UNSAID.set(Error::stdout(&error));
    }
}

/// What `-V` says, which these programs have on stderr, in place of work.
fn say_version(program: &str) {
    if let Err(error) = writeln!(io::stderr().lock(), "{}", version(program)) {
        let _ = UNSAID.set(Error::io("standard error", &error));
    }
}

/// How a program names itself.
fn version(program: &str) -> String {
    format!("{program} {TOOLS_VERSION} (extant {})", env!("CARGO_PKG_VERSION"))
}

/// The exit code of a program that ends with `code`, after what it said was not all taken. A reader
/// that went away is no failure.
fn code_after_output(name: &str, program: Program, code: u8) -> u8 {
    match UNSAID.get() {
        Some(error) if error.exit != Exit::PipeClosed => {
            complain(&one_line(name, error));
            match program {
                // e2fsck's is a sum.
                Program::E2fsck => code | e2fsck::FAILED,
                _ => code.max(1),
            }
        }
        _ => code,
    }
}

/// What a message and its hint look like here: one line.
fn one_line(name: &str, error: &Error) -> String {
    match &error.hint {
        Some(hint) => format!("{name}: {} ({hint})", error.message),
        None => format!("{name}: {}", error.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_the_option_says_which_program_it_is() {
        let call = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            called(&words).map(|call| (call.name, call.words.len()))
        };
        assert_eq!(call("/sbin/mkfs.ext4 -F x.img"), Some(("mkfs.ext4", 2)));
        assert_eq!(call("extant --as e2label x.img"), Some(("e2label", 1)));
        assert_eq!(call("extant --as=fsck.ext3 -p x"), Some(("fsck.ext3", 2)));
        assert_eq!(call("extant mkfs x.img"), None);
        assert_eq!(call("extant --as debugfs x"), None);
        assert_eq!(call("extant"), None);
    }
}
