//! Memory for long runs: one arena of the C library's allocator in place of one for each thread.
//!
//! Every process of a machine is a thread, and what one gives back another cannot use when each has
//! an arena of its own: a run of all posts at full size then takes almost twice the memory that it
//! uses. How many arenas there are is read once, when a program starts; so the program replaces
//! itself by itself, with the setting in its environment. Other C libraries ignore the setting.
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What the C library reads.
const SETTING: &str = "MALLOC_ARENA_MAX";

/// Starts the program anew with one arena, unless a number is chosen already. Returns if
/// it is set, or if that is not possible; then all goes on as it is.
pub fn share() {
    let Ok(program) = std::env::current_exe() else { return };
    if std::env::var_os(SETTING).is_some() {
        return;
    }
    let mut words = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    // It comes back only with an error.
    let _ = command.args(words).env(SETTING, "1").exec();
}
