//! The command `extant`, which is the whole one.
use extant_host::itself::{self, Host};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the command with its words, first the name that it was called by; its exit code.
/// `program` and `before` start it once more.
#[pyfunction]
pub fn main(
    py: Python<'_>,
    words: Vec<OsString>,
    program: PathBuf,
    before: Vec<OsString>,
    called: PathBuf,
) -> u8 {
    itself::is_within(Host { program, before, called });
    py.detach(|| {
        let code = extant_cli::run(words);
        // Python knows nothing of what Rust keeps back; a reader that is gone is no news.
        let _ = std::io::stdout().flush();
        number(code)
    })
}

/// The number in a code, which the standard library only compares.
fn number(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}
