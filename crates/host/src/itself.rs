//! How this program is started once more: the mount's server and its errands are processes of it.
//!
//! A program of its own is `/proc/self/exe`, called by the name `extant`. Where the command is a
//! library under another program (an interpreter), that says once how it is called.
//!
//! *Locking*: one mutex around what was said, held for a copy.
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The program that has the command in it.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its file.
    pub program: PathBuf,
    /// What comes before the words of the command.
    pub before: Vec<OsString>,
    /// The file that users call, which links may lead to.
    pub called: PathBuf,
}

static HOST: Mutex<Option<Host>> = Mutex::new(None);
static WORDS: Mutex<Option<Vec<OsString>>> = Mutex::new(None);

/// Says which program has the command in it. To be called before the command runs.
pub fn is_within(host: Host) {
    *HOST.lock().unwrap_or_else(PoisonError::into_inner) = Some(host);
}

/// Keeps the words of the command, first the name that it was called by.
pub fn is_called(words: &[OsString]) {
    *WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some(words.to_vec());
}

/// The words of the command, first the name that it was called by.
pub fn words() -> Vec<OsString> {
    let said = WORDS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    said.unwrap_or_else(|| std::env::args_os().collect())
}

/// What starts this program once more; the words of the command follow.
pub fn command() -> Command {
    named("extant".into())
}

/// What starts it once more with its own words.
pub fn again() -> Command {
    let mut words = words().into_iter();
    let mut command = named(words.next().unwrap_or_else(|| "extant".into()));
    command.args(words);
    command
}

/// The file that is this program for who calls it.
///
/// # Errors
/// The host does not tell it.
pub fn file() -> io::Result<PathBuf> {
    match HOST.lock().unwrap_or_else(PoisonError::into_inner).clone() {
        Some(host) => Ok(host.called),
        None => std::env::current_exe(),
    }
}

fn named(name: OsString) -> Command {
    match HOST.lock().unwrap_or_else(PoisonError::into_inner).clone() {
        // An interpreter finds its own files by the name that it is called by.
        Some(Host { program, before, .. }) => {
            let mut command = Command::new(program);
            command.args(before);
            command
        }
        None => {
            let mut command = Command::new("/proc/self/exe");
            command.arg0(name);
            command
        }
    }
}
