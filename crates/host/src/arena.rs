//! Memory for long runs: one arena of the C library's allocator in place of one for each thread.
//!
//! What one thread gives back another cannot use when each has an arena of its own, and an arena
//! keeps the most that it ever had. In the laboratory every process of a machine is a thread: a run
//! of all posts at full size takes almost twice the memory that it uses. A mount's server grows
//! past its `cache=` for as long as it runs: `bench/mount-memory`. How many arenas there are is
//! read once, when a program starts; so the program replaces itself by itself, with the setting in
//! its environment. Other C libraries ignore the setting.
use crate::itself;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What the C library reads.
const SETTING: &str = "MALLOC_ARENA_MAX";
/// One arena, in a way of writing it that tells our own setting from one of the user's.
const ONE: &str = "01";

/// Starts the program anew with one arena, unless a number is chosen already. Returns if
/// it is set, or if that is not possible; then all goes on as it is.
pub fn share() {
    if std::env::var_os(SETTING).is_some() {
        return;
    }
    let mut command = itself::again();
    begin(&mut command);
    // It comes back only with an error.
    let _ = command.exec();
}

/// Has this program, which a command starts, begin with one arena, unless a number is chosen.
pub fn begin(command: &mut Command) {
    if std::env::var_os(SETTING).is_none() {
        command.env(SETTING, ONE);
    }
}

/// Takes the setting out of the environment of a program that is not ours, unless it is the user's.
pub fn end(command: &mut Command) {
    if std::env::var_os(SETTING).is_some_and(|value| value == ONE) {
        command.env_remove(SETTING);
    }
}
