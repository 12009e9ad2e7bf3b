//! Memory is held within `cache_bytes`: as the process has it (`resident`), and as the engine asks
//! the allocator for it (`held`).
//!
//! Each case is tried in a process of its own, which this one starts: what a process takes includes
//! what other tests took before.
mod held;
mod resident;

use cap::Cap;
use extant_testkit::scratch::Scratch;
use std::alloc::System;
use std::path::Path;
use std::process::Command;

/// Counts what is asked for and not given back.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// A folder in memory, where there is room: most of the time would go into waiting for a disk.
fn in_memory(name: &str) -> Scratch {
    let folder = Path::new("/dev/shm");
    match folder.is_dir() {
        true => Scratch::inside(folder, name),
        false => Scratch::new(name),
    }
}

/// Runs one test of this program again, in a process with this variable, and gives what it said.
fn again(test: &str, (variable, value): (&str, &str)) -> (bool, String) {
    let this = std::env::current_exe().expect("this program");
    let mut work = Command::new(this);
    work.args(["--exact", test, "--nocapture"]).env(variable, value);
    let output = work.output().expect("this program again");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}
