//! `xtask fuzz`: builds and runs the bodies of `extant-fuzz`, a program of its own: the other tasks
//! need no engine.

use std::os::unix::process::ExitStatusExt;

use crate::command::program;
use crate::scratch::Scratch;

/// `fuzz [--target NAME] [--seconds N] [--seed S] WORD..`: the words are those of the program;
/// without any that it knows it says which. A program that is ended (by a stack or a memory that
/// has no end) has left a note of what it was at.
///
/// # Errors
/// An input that hurts, or words that it does not know.
pub fn run(words: &[String]) -> Result<(), String> {
    let folder = Scratch::new("fuzz-note");
    let note = folder.join("note");
    let mut cargo = program("cargo");
    cargo.args(["run", "--quiet", "-p", "extant-fuzz", "--bin", "fuzz", "--"]);
    cargo.args(words).arg("--note").arg(&note);
    let status = cargo.status().map_err(|error| format!("cargo run: {error}"))?;
    // Cargo says 101 of a program that a signal ended.
    if status.success() || (status.signal().is_none() && status.code() != Some(101)) {
        return if status.success() { Ok(()) } else { Err(format!("fuzz: {status}")) };
    }
    let at = std::fs::read_to_string(&note).unwrap_or_default();
    let mut words = at.split_whitespace();
    match (words.next(), words.next()) {
        (Some(target), Some(seed)) => {
            Err(format!("it was ended: xtask fuzz --target {target} --seed {seed} --rounds 1"))
        }
        _ => Err(format!("fuzz: {status}")),
    }
}
