//! `xtask loop`: how long it takes to see a change of one crate tested, crate by crate.

use std::fs::read_dir;
use std::path::PathBuf;
use std::process::Stdio;

use crate::command::program;
use crate::measure::seconds_now;
use crate::repository;
use crate::sheet::{Print, Sheet};
use crate::suites::run_side_by_side;

/// The document whose section `bench-loop` holds the table.
const GUIDE: &str = "CONTRIBUTING.md";

/// What a change adds: code that has to be compiled and linked again, in every build.
const ANOTHER_FUNCTION: &str = "
/// A change.
#[doc(hidden)]
#[inline(never)]
pub fn changed_to_be_measured(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, byte| (sum ^ u64::from(*byte)).rotate_left(9))
}
";

/// `loop [--write] [CRATE..]`: changes the code of each crate in turn, by a function at the end of
/// its root, and says how many seconds `cargo test -p` then takes to build it with its tests, and
/// how many to run them. All crates without words; what they build on is built before. `--write`
/// puts the rows into the table of CONTRIBUTING.md, whose other rows stay. The roots are as before
/// afterwards.
///
/// # Errors
/// There is no such crate, something does not build, or a test fails.
pub fn run(words: &[String]) -> Result<(), String> {
    let write = words.iter().any(|word| word == "--write");
    let wanted: Vec<&String> = words.iter().filter(|word| *word != "--write").collect();
    let crates = crates()?;
    if let Some(word) = wanted.iter().find(|word| !crates.contains(word)) {
        return Err(format!("no crate {word}: {}", crates.join(", ")));
    }
    let mut sheet = Sheet::new(Print::Lines);
    sheet.say("| a change of | build, s | its tests, s | both, s |");
    sheet.say("| --- | ---: | ---: | ---: |");
    let guide = repository().join(GUIDE);
    let text = std::fs::read_to_string(&guide).map_err(|error| format!("{GUIDE}: {error}"))?;
    for name in &crates {
        let is_wanted = wanted.is_empty() || wanted.contains(&name);
        match row_of(name, &text).filter(|_| !is_wanted) {
            Some(row) if write => sheet.say(row),
            None if is_wanted => {
                let (build, tests) = turn(name)?;
                sheet.say(&format!("| {name} | {build:.0} | {tests:.0} | {:.0} |", build + tests));
            }
            _ => {}
        }
    }
    if write { sheet.write(&guide, "loop") } else { Ok(()) }
}

/// The row of a crate in the table, as it was measured before.
fn row_of<'a>(name: &str, text: &'a str) -> Option<&'a str> {
    let (_, table) = text.split_once("<!-- bench-loop:begin -->")?;
    let (table, _) = table.split_once("<!-- bench-loop:end -->")?;
    table.lines().find(|line| line.starts_with(&format!("| {name} | ")))
}

/// The crates, by the names of their folders.
pub(crate) fn crates() -> Result<Vec<String>, String> {
    let folder = repository().join("crates");
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in read_dir(&folder).map_err(said)? {
        let entry = entry.map_err(said)?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Seconds for the build and for the tests of one crate after a change of its root.
fn turn(name: &str) -> Result<(f64, f64), String> {
    let package = package(name)?;
    cargo(&["test", "-p", &package, "--no-run"])?;
    let changed = Changed::at(root(name)?)?;
    let began = seconds_now();
    cargo(&["test", "-p", &package, "--no-run"])?;
    let built = seconds_now();
    cargo(&["test", "-p", &package])?;
    let tested = seconds_now();
    drop(changed);
    Ok((built - began, tested - built))
}

/// A file with a function more than it has, until this is dropped.
struct Changed {
    path: PathBuf,
    text: String,
}

impl Changed {
    fn at(path: PathBuf) -> Result<Changed, String> {
        let said = |error: std::io::Error| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(said)?;
        std::fs::write(&path, format!("{text}{ANOTHER_FUNCTION}")).map_err(said)?;
        Ok(Changed { path, text })
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(&self.path, &self.text) {
            eprintln!("{}: still changed: {error}", self.path.display());
        }
    }
}

/// What cargo calls the crate in this folder.
pub(crate) fn package(name: &str) -> Result<String, String> {
    let manifest = repository().join("crates").join(name).join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest)
        .map_err(|error| format!("{}: {error}", manifest.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("name = "));
    let found = line.map(|word| word.trim_matches('"').to_owned());
    found.ok_or_else(|| format!("{}: no name", manifest.display()))
}

fn root(name: &str) -> Result<PathBuf, String> {
    let source = repository().join("crates").join(name).join("src");
    let roots = ["lib.rs", "main.rs"].map(|file| source.join(file));
    roots.into_iter().find(|root| root.is_file()).ok_or(format!("{}: no root", source.display()))
}

fn cargo(words: &[&str]) -> Result<(), String> {
    let mut cargo = program("cargo");
    run_side_by_side(&mut cargo);
    cargo.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    let failed = || format!("cargo {}: {status}", words.join(" "));
    if status.success() { Ok(()) } else { Err(failed()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::command::{output, program};

    use super::{crates, package, root, row_of};

    /// Every library that the tests of `scope` are built of, with its features.
    fn libraries(scope: &[&str]) -> BTreeSet<String> {
        let mut tree = program("cargo");
        tree.args(["tree", "--offline", "--prefix", "none", "--format", "{p} {f}"]).args(scope);
        let said = output(&mut tree).expect("cargo tree");
        let text = String::from_utf8(said.stdout).expect("text");
        text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    }

    #[test]
    fn the_tests_of_one_crate_build_no_library_again() {
        let all = libraries(&["--workspace"]);
        assert!(all.len() > 50, "{all:?}");
        for name in crates().unwrap() {
            let package = package(&name).unwrap();
            let alone = libraries(&["-p", &package]);
            let again: Vec<&String> = alone.difference(&all).collect();
            assert!(again.is_empty(), "{package}: {again:?}: see crates/testkit/Cargo.toml");
        }
    }

    /// A library that a macro builds on is built with lines for a debugger only where a program
    /// links it too.
    #[test]
    fn what_macros_build_on_is_linked_by_the_tests_of_each_crate_if_by_any() {
        let linked = ["-e", "normal,dev,no-proc-macro"];
        let by_any = libraries(&["--workspace", linked[0], linked[1]]);
        assert!(by_any.iter().any(|library| library.starts_with("quote v")), "{by_any:?}");
        for name in crates().unwrap() {
            let package = package(&name).unwrap();
            let all = libraries(&["-p", &package]);
            let here = libraries(&["-p", &package, linked[0], linked[1]]);
            let apart: Vec<&String> =
                all.intersection(&by_any).filter(|library| !here.contains(*library)).collect();
            assert!(apart.is_empty(), "{package}: {apart:?}: see crates/testkit/Cargo.toml");
        }
    }

    #[test]
    fn rows_that_are_not_measured_stay() {
        let text = "| cli | 1 | 1 | 2 |\n<!-- bench-loop:begin -->\n| cli | 6 | 131 | 138 |\n\
                    | image | 4 | 8 | 12 |\n<!-- bench-loop:end -->\n| mount | 1 | 1 | 2 |\n";
        assert_eq!(row_of("cli", text), Some("| cli | 6 | 131 | 138 |"));
        assert_eq!(row_of("mount", text), None);
    }

    #[test]
    fn each_crate_has_a_name_and_a_root() {
        let crates = crates().unwrap();
        assert!(crates.iter().any(|name| name == "engine"), "{crates:?}");
        for name in crates {
            assert!(package(&name).unwrap().starts_with("extant"), "{name}");
            assert!(root(&name).is_ok(), "{name}");
        }
    }
}
