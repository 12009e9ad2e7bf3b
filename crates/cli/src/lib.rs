//! What the `extant` command is made of: its commands, and what they read and write on the host.
//!
//! ```text
//! command          one file a command; one table feeds the parser, the help, the completions and
//!                  the man pages
//! editing          what the commands that change an image have in common: cp, rm, edit
//! listing          an object of an image as a record and as a line
//! output           the file, pipe or device that takes an archive
//! remade           a volume that is built anew: repack, normalize
//! shipping         what an image is shipped in: hash tree, partition table, formats
//! troubles         what could not be read of a tree, while the rest goes on
//! ```
//!
//! What they share with the mount's process (`extant-daemon`) and with the names of other programs
//! (`extant-names`) is in `extant-host`.
//!
//! # Exit codes
//! 0 done; 1 failed, or done with files left out (`--keep-going`); 2 wrong usage; 128 + n on signal
//! n (130 SIGINT, 143 SIGTERM). A closed pipe on standard output ends a command quietly with 141,
//! as SIGPIPE ends others.
//! `diff` ends as diff(1): 0 equal, 1 different, 2 failed or wrong usage.
//! `check` speaks fsck's: 0 clean, 4 problems, 8 not able to check, 16 wrong usage. `mount` and
//! `umount` speak mount(8)'s: 1 wrong usage, 2 the host lacks something, 8 interrupted, 32 failed;
//! and a program that was run beside a mount has its own.

mod command;
mod editing;
mod listing;
mod output;
mod remade;
mod shipping;
mod troubles;

pub use command::table;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line, first word the program's name, and says how it ended.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    extant_host::itself::is_called(&words);
    name_process(&words);
    if let Some(errand) = extant_daemon::errand::called(&words) {
        return extant_daemon::errand::run(errand);
    }
    if let Some(call) = extant_names::called(&words) {
        return extant_names::run(call);
    }
    if let Some(code) = extant_names::refused(&words) {
        return code;
    }
    let words = command::translated(words);
    match command::parse(&words) {
        Ok(line) => command::run(line),
        Err(refusal) => command::refuse(&refusal, &words),
    }
}

/// Says on stderr, for a command that is linked statically and loads nothing, that who runs it
/// under fakeroot or pseudo is not heard.
pub fn warn_of_preloads() {
    let preloads = std::env::var("LD_PRELOAD").unwrap_or_default();
    if let Some(name) = ["fakeroot", "pseudo"].into_iter().find(|name| preloads.contains(name)) {
        eprintln!(
            "extant: warning: this command is linked statically and does not hear {name}: owners \
             and devices are those of the host (--owner and --rules say others)"
        );
    }
}

/// What ps shows of a process that this program made of itself: it was started as `/proc/self/exe`,
/// whose last word Linux took for its name. Threads have names of their own.
fn name_process(words: &[OsString]) {
    let is_ours = words.iter().any(|word| word == extant_daemon::ANNOUNCE);
    if is_ours || extant_daemon::errand::called(words).is_some() {
        // A name is a courtesy.
        let _ = rustix::thread::set_name(c"extant");
    }
}
