//! What stands behind the `extant` command: its commands, and what they read and write on the host.
//!
//! ```text
//! command     one file a command; one table feeds the parser, the help, the completions and the man pages
//! source      what an image is built from: directories and tar archives, laid over each other
//! tree        the merged tree of all sources, in memory
//! format_options  what a new file system is to be like, in mke2fs's words
//! build       from the tree to the image: its size, its order, its writing
//! export      from an image to an archive: in which order, in which words
//! image       an image that is looked at: IMAGE:/path, and what is said when it cannot be opened
//! recognise   what a file is that is no ext volume; partitions: where the volumes of a disk begin
//! listing     an object of an image as a record and as a line; date: a time as text
//! preload     fakeroot and its kin: whether they reach this program
//! notice      what a user should know although nothing failed: counted, the first few by name
//! target      the file or device that is written: refused when in use, whole or not there at all
//! cleanup     what is removed when a signal comes
//! console     stdout, stderr, JSON; progress: the line that moves
//! size        "512M", "20%"
//! ```
//!
//! # Exit codes
//! 0 done; 1 failed, or done with files left out (`--keep-going`); 2 wrong usage; 128 + n on signal
//! n (130 SIGINT, 143 SIGTERM). A closed pipe on standard output ends a command quietly with 0.
//! `check` speaks fsck's: 0 clean, 4 problems, 8 not able to check, 16 wrong usage.

pub mod build;
pub mod cleanup;
pub mod command;
pub mod console;
pub mod date;
pub mod error;
pub mod export;
pub mod format_options;
pub mod held;
pub mod image;
pub mod listing;
pub mod notice;
pub mod partitions;
pub mod preload;
pub mod progress;
pub mod recognise;
pub mod size;
pub mod source;
pub mod target;
pub mod tree;

pub use error::Error;

use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line, first word the program's name, and says how it ended.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    match command::Extant::try_parse_from(&words) {
        Ok(line) => command::run(line),
        Err(refusal) => command::refuse(&refusal, &words),
    }
}
