//! The command, run and read.
use std::ffi::OsStr;
use std::fmt::Debug;
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The command with these words; nothing of the caller's environment changes its bytes.
pub fn command<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Command {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    command.args(words).env_remove("SOURCE_DATE_EPOCH");
    command
}

/// How the command ends, run with these words.
pub fn extant<W: AsRef<OsStr>>(words: &[W]) -> Output {
    command(words).output().expect("it runs")
}

/// The same, at a fixed time.
pub fn extant_dated<W: AsRef<OsStr>>(words: &[W]) -> Output {
    command(words).env("SOURCE_DATE_EPOCH", "1700000000").output().expect("it runs")
}

/// Standard output of a command that must have ended with 0 and said nothing else.
pub fn printed(words: &[impl Debug], output: Output) -> Vec<u8> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{words:?}: {errors}");
    output.stdout
}

/// [`printed`] as text.
pub fn printed_text(words: &[impl Debug], output: Output) -> String {
    String::from_utf8(printed(words, output)).expect("text")
}

/// What `lab posts 3` prints and ends with, run once for all who look at it.
pub fn post_3() -> &'static Output {
    static RUN: LazyLock<Output> = LazyLock::new(|| extant(&["lab", "posts", "3"]));
    &RUN
}
