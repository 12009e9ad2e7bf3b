//! The laboratory: how fast virtual time runs, the posts at full size, and a drive of 400 GB with
//! millions of files.

use super::{Bench, extant, once, words};
use crate::command::{self, program};
use crate::repository;
use crate::sheet::Sheet;

/// A drive of 400 GB that is filled with files; see there.
const LARGE: &str = "bench/large-drive.toml";

/// Prints all three. A line of measurements that failed says why.
///
/// # Errors
/// The example that measures the clock cannot be built.
pub fn tables(_: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    speed(sheet)?;
    let extant = extant()?;
    let large = repository().join(LARGE).to_string_lossy().into_owned();
    sheet.say("\nthe laboratory: real time and memory\n");
    sheet.say(&format!("| {:<44} | {:>9} | {:>9} |", "", "time", "memory"));
    sheet.say(&format!("| {:-<44} | {:->9} | {:->9} |", "", ":", ":"));
    let runs = [
        ("extant lab posts, quick", words(&[&extant, "lab", "posts", "-q"])),
        ("extant lab posts --full", words(&[&extant, "lab", "posts", "--full", "-q"])),
        (
            "400 GB, 4 million files made and looked at",
            words(&[&extant, "lab", "run", "-q", &large]),
        ),
    ];
    runs.iter().for_each(|(name, run)| sheet.say(&line(name, run)));
    Ok(())
}

/// Simulated I/Os, waits and switches a second of real time: what the crate's own example measures.
fn speed(sheet: &mut Sheet) -> Result<(), String> {
    sheet.say("\nsimulated I/Os a second of real time\n");
    let mut cargo = program("cargo");
    cargo.current_dir(repository());
    cargo.args(["run", "--release", "--quiet", "-p", "extant-sim", "--example", "speed"]);
    let output = command::output(&mut cargo)?;
    sheet.say(String::from_utf8_lossy(&output.stdout).trim_end());
    Ok(())
}

/// A run of the posts that misses a row ends with 1, and is measured all the same.
fn line(name: &str, run: &[String]) -> String {
    let script = "\"$@\"; code=$?; [ $code -le 1 ]";
    let mut guarded = words(&["sh", "-c", script, "sh"]);
    guarded.extend_from_slice(run);
    match once(&guarded, None) {
        Ok(measured) => {
            let memory = measured.peak_kib.map_or("-".into(), |kib| format!("{} MiB", kib >> 10));
            format!("| {name:<44} | {:>7.1} s | {memory:>9} |", measured.seconds)
        }
        Err(failure) => format!("| {name:<44} | failed: {} |", failure.replace('\n', " ")),
    }
}
