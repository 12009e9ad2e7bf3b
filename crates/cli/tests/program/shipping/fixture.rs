//! A source, the command, programs run.
use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with some files, of which an image is made.
pub fn source(folder: &Scratch) -> PathBuf {
    let source = folder.join("source");
    fs::create_dir_all(source.join("etc")).unwrap();
    fs::write(source.join("etc/motd"), "hello\n").unwrap();
    let mut state = 1_u32;
    let mut step = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    fs::write(source.join("noise"), (0..3_000_001).map(|_| step()).collect::<Vec<u8>>()).unwrap();
    fs::write(source.join("zeros"), vec![0; 1 << 20]).unwrap();
    source
}

/// `extant WORDS..`, words as one line; paths are those of `folder`.
pub fn command(folder: &Scratch, words: &str) -> Command {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    command.args(words.split_whitespace()).current_dir(folder.path());
    command.env_remove("SOURCE_DATE_EPOCH");
    command
}

/// Builds with these words, and gives the report.
pub fn build(folder: &Scratch, words: &str) -> Value {
    let output = command(folder, &format!("build --json {words}")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "build {words}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a program in the folder; it has to succeed. Gives what it printed.
pub fn told(folder: &Scratch, tool: &str, words: &[&str]) -> String {
    let mut command = program(tool);
    let output = output(command.args(words).current_dir(folder.path()));
    let output = output.unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program in the folder, and gives how it ended.
pub fn ended(folder: &Scratch, tool: &str, words: &[&str]) -> Output {
    program(tool).args(words).current_dir(folder.path()).output().unwrap()
}

/// Asserts that two files have the same bytes.
pub fn same(left: &Path, right: &Path) {
    let (left_bytes, right_bytes) = (fs::read(left).unwrap(), fs::read(right).unwrap());
    assert_eq!(left_bytes.len(), right_bytes.len(), "{} {}", left.display(), right.display());
    let differs = left_bytes.iter().zip(&right_bytes).position(|(left, right)| left != right);
    assert_eq!(differs, None, "{} {}", left.display(), right.display());
}

/// A field of a report as a number.
pub fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {report}"))
}

/// A field of a report as text.
pub fn text<'a>(report: &'a Value, pointer: &str) -> &'a str {
    report.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {report}"))
}
