//! `xtask crash`: builds and runs the checker of promises, which is a program of its own: the other
//! tasks need no engine.

use crate::command::program;

/// `crash [--release] WORD..`: the words are those of the program; without any that it knows it
/// says which.
///
/// # Errors
/// A state that is not as promised, or words that it does not know.
pub fn run(words: &[String]) -> Result<(), String> {
    let mut cargo = program("cargo");
    cargo.args(["run", "--quiet", "-p", "extant-crash", "--bin", "crash"]);
    let words = match words {
        [first, rest @ ..] if first == "--release" => {
            cargo.arg("--release");
            rest
        }
        _ => words,
    };
    cargo.arg("--").args(words);
    let status = cargo.status().map_err(|error| format!("cargo run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("crash: {status}")) }
}
