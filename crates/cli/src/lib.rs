//! What the `extant` command is made of: its commands, and what they read and write on the host.
//!
//! ```text
//! command          one file a command; one table feeds the parser, the help, the completions and
//!                  the man pages
//! format_options   what a new file system is to be like, in mke2fs's words
//! source_options   what an image is built from, and how it is read
//! advice           what can be done about a failure to build or export
//! image            an image that is looked at: IMAGE:/path, and why it cannot be opened
//! recovery         a volume whose journal has to be replayed, as it is after that
//! place            IMAGE@2: which part of a disk; disk: plain, compressed or in a container
//! recognise        what a file is that is no ext volume; held: what a new file system would
//!                  destroy
//! listing          an object of an image as a record and as a line
//! target           the file or device that is written: refused when in use, whole or not there
//! leftover         temporary files of programs that were killed
//! output           the file, pipe or device that takes an archive
//! shipping         what an image is shipped in: hash tree, partition table, formats
//! editing          what the commands that change an image have in common: cp, rm, edit
//! mounting         what mount and umount are made of
//! names            mke2fs, e2fsck, dumpe2fs, e2label: this program under their names
//! arena            memory for programs that run long
//! cleanup          what is removed when a signal comes
//! console          stdout, stderr, JSON; progress: the line that moves
//! error            a failure as the user sees it; size: "512M", "20%"
//! troubles         what could not be read of a tree, while the rest goes on
//! ```
//!
//! # Exit codes
//! 0 done; 1 failed, or done with files left out (`--keep-going`); 2 wrong usage; 128 + n on signal
//! n (130 SIGINT, 143 SIGTERM). A closed pipe on standard output ends a command quietly with 141,
//! as SIGPIPE ends others.
//! `diff` ends as diff(1): 0 equal, 1 different, 2 failed or wrong usage.
//! `check` speaks fsck's: 0 clean, 4 problems, 8 not able to check, 16 wrong usage. `mount` and
//! `umount` speak mount(8)'s: 1 wrong usage, 2 the host lacks something, 8 interrupted, 32 failed;
//! and a program that was run beside a mount has its own.

pub mod advice;
mod arena;
pub mod cleanup;
pub mod command;
pub mod console;
pub mod disk;
pub mod editing;
pub mod error;
pub mod format_options;
pub mod held;
pub mod image;
pub mod leftover;
pub mod listing;
pub mod mounting;
pub mod names;
pub mod output;
pub mod place;
pub mod progress;
pub mod recognise;
pub mod recovery;
pub mod shipping;
pub mod size;
pub mod source_options;
pub mod target;
pub mod troubles;

pub use error::Error;

use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line, first word the program's name, and says how it ended.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    name_process(&words);
    if let Some(errand) = mounting::errand::called(&words) {
        return mounting::errand::run(errand);
    }
    if let Some(call) = names::called(&words) {
        return names::run(call);
    }
    let words = mounting::mount_8::translate(words);
    match command::Extant::try_parse_from(&words) {
        Ok(line) => command::run(line),
        Err(refusal) => command::refuse(&refusal, &words),
    }
}

/// What ps shows of a process that this program made of itself: it was started as `/proc/self/exe`,
/// whose last word Linux took for its name. Threads have names of their own.
fn name_process(words: &[OsString]) {
    let is_ours = words.iter().any(|word| word == mounting::background::ANNOUNCE);
    if is_ours || mounting::errand::called(words).is_some() {
        // A name is a courtesy.
        let _ = rustix::thread::set_name(c"extant");
    }
}
