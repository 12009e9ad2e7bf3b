//! The command, run and read.
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// The command with these words, in a folder.
pub fn command<W: AsRef<OsStr>>(words: &[W], folder: &Path) -> Command {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    command.args(words).current_dir(folder).env_remove("SOURCE_DATE_EPOCH").env_remove("TMPDIR");
    command
}

/// How the command ends.
pub fn extant<W: AsRef<OsStr>>(words: &[W], folder: &Path) -> Output {
    command(words, folder).output().expect("it runs")
}

/// Standard output of a command that must have ended with 0 and said nothing else.
pub fn told(words: &[&str], folder: &Path) -> Vec<u8> {
    let output = extant(words, folder);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{words:?}: {errors}");
    output.stdout
}

/// Exit code and standard error of a command that must not have ended with 0.
pub fn refused(words: &[&str], folder: &Path) -> (i32, String) {
    let output = extant(words, folder);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().unwrap_or(-1);
    assert!(code > 0 && !errors.contains("panicked"), "{words:?}: {code}: {errors}");
    (code, errors)
}
