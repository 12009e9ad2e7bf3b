//! The laboratory: how fast virtual time runs, the posts at full size, and a drive of 400 GB with
//! millions of files.

use super::{Bench, extant, once, words};
use crate::command::{self, program};
use crate::repository;

/// A drive of 400 GB that is filled with files; see there.
const LARGE: &str = "bench/large-drive.toml";

/// Prints all three. A line of measurements that failed says why.
///
/// # Errors
/// The example that measures the clock cannot be built.
pub fn tables(_: &Bench) -> Result<(), String> {
    speed()?;
    let extant = extant()?;
    let large = repository().join(LARGE).to_string_lossy().into_owned();
    println!("\nthe laboratory: real time and memory\n");
    println!("| {:<44} | {:>9} | {:>9} |", "", "time", "memory");
    println!("| {:-<44} | {:->9} | {:->9} |", "", ":", ":");
    line("extant lab posts, quick", &words(&[&extant, "lab", "posts", "-q"]));
    line("extant lab posts --full", &words(&[&extant, "lab", "posts", "--full", "-q"]));
    line(
        "400 GB, 4 million files made and looked at",
        &words(&[&extant, "lab", "run", "-q", &large]),
    );
    Ok(())
}

/// Simulated I/Os, waits and switches a second of real time: what the crate's own example measures.
fn speed() -> Result<(), String> {
    println!("\nsimulated I/Os a second of real time\n");
    let mut cargo = program("cargo");
    cargo.current_dir(repository());
    cargo.args(["run", "--release", "--quiet", "-p", "extant-sim", "--example", "speed"]);
    let output = command::output(&mut cargo)?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// A run of the posts that misses a row ends with 1, and is measured all the same.
fn line(name: &str, run: &[String]) {
    let script = "\"$@\"; code=$?; [ $code -le 1 ]";
    let mut guarded = words(&["sh", "-c", script, "sh"]);
    guarded.extend_from_slice(run);
    match once(&guarded, None) {
        Ok(measured) => {
            let memory = measured.peak_kib.map_or("-".into(), |kib| format!("{} MiB", kib >> 10));
            println!("| {name:<44} | {:>7.1} s | {memory:>9} |", measured.seconds);
        }
        Err(failure) => println!("| {name:<44} | failed: {} |", failure.replace('\n', " ")),
    }
}
