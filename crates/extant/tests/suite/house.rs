//! What the crate has behind it: what it links.
use extant_testkit::command;
use std::process::Command;

/// No laboratory, no mount, no command line: what a program takes with this crate is what it needs.
#[test]
fn nothing_of_the_laboratory_the_mount_and_the_command_is_linked() {
    let words = ["tree", "--offline", "-p", "extant", "-e", "normal", "--prefix", "none"];
    let mut tree = Command::new(env!("CARGO"));
    tree.args(words).current_dir(extant_testkit::repository());
    let output = command::output(&mut tree).expect("cargo tree");
    let text = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"extant-engine") && names.len() > 20, "{names:?}");
    for forbidden in [
        "extant-lab",
        "extant-sim",
        "extant-chart",
        "extant-mount",
        "extant-cli",
        "extant-daemon",
        "extant-host",
        "extant-names",
        "extant-crash",
        "extant-testkit",
        "clap",
        "signal-hook",
        "toml",
    ] {
        assert!(!names.contains(&forbidden), "{forbidden}: {names:?}");
    }
}
