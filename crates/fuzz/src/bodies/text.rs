//! Texts that people write: drives, scenarios.
use extant_lab::scenario::{self, BUILTINS, POST_SCENARIOS};
use extant_sim::drive::{file, presets::PRESETS};
use std::hint::black_box;
use std::path::Path;

/// The drives that are built in.
pub fn drives() -> Vec<Vec<u8>> {
    PRESETS.iter().map(|preset| preset.text.as_bytes().to_vec()).collect()
}

/// A file of a drive, which is built if it is one.
pub fn drive(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match file::parse("a drive.toml", &text) {
        Ok(spec) => drop(black_box(spec.build(1))),
        Err(error) => one_line(&error.to_string()),
    }
    if let Err(error) = file::parse_facts("facts.toml", &text) {
        one_line(&error.to_string());
    }
}

/// The scenarios that are built in.
pub fn scenarios() -> Vec<Vec<u8>> {
    let all = BUILTINS.iter().chain(POST_SCENARIOS);
    all.map(|builtin| builtin.text.as_bytes().to_vec()).collect()
}

/// A file of a scenario; nothing of it is run.
pub fn scenario(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Err(error) = scenario::parse("a scenario.toml", &text, Path::new("/nowhere")) {
        one_line(&error.to_string());
    }
}

/// Whoever wrote the text is told where it is wrong, in one line.
fn one_line(said: &str) {
    assert!(said.starts_with("a ") || said.starts_with("facts"), "no file is named: {said:?}");
}
