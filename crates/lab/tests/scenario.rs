//! Scenarios: what files may say, what running them gives, and what becomes of the file systems.
use extant_lab::scenario::{self, RunOptions, Scenario};
use std::path::Path;

fn parse(text: &str) -> Scenario {
    scenario::parse("test.toml", text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn show() {
    let s = scenario::find("read-cold").unwrap();
    let out = scenario::run(
        &s,
        &RunOptions {
            scale: 4,
            ..Default::default()
        },
    )
    .unwrap_or_else(|e| panic!("{e}"));
    println!("{}", out.report.to_text());
}
