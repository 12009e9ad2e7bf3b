//! `xtask bench`: the tables of speed and memory.
//!
//! All of them flush: a run ends when its image is on the disk (`fsync` of the image is part of the
//! measured time), and dirty pages of the run before are written out before the next begins.

mod build;
mod check;
mod engine;
mod extract;
mod input;
mod lab;
mod layout;
mod limits;
mod memory;
mod mount;
mod read;

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::command::{self, find, program};
use crate::measure::{self, Contender, Measured, measure};
use crate::repository;
use crate::sheet::{Print, Sheet};

pub use input::Input;

/// What was asked for, and where.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Rounds of every table.
    pub rounds: usize,
    /// Where inputs and images are.
    pub folder: PathBuf,
    /// Which tables; all if none is named.
    pub only: Option<String>,
    /// Which input; both if none is named.
    pub input: Option<String>,
    /// What of the table of calls.
    pub engine: engine::Choice,
    /// What is printed.
    pub print: Print,
    /// Whether fuse2fs takes part in the table of mounts.
    pub slow_peer: SlowPeer,
}

/// Whether a peer that takes twenty times as long as others takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlowPeer {
    /// In one round.
    Measured,
    /// Not at all: the document does not change.
    LeftOut,
}

/// A table, or several: its word for `--only`, and what measures it.
type Tables = (&'static str, fn(&Bench, &mut Sheet) -> Result<(), String>);

const TABLES: &[Tables] = &[
    ("engine", engine::tables),
    ("build", build::tables),
    ("read", read::tables),
    ("extract", extract::tables),
    ("limits", limits::tables),
    ("check", check::tables),
    ("layout", layout::tables),
    ("lab", lab::tables),
    ("mount", mount::tables),
];

/// Rounds that a median is worth writing down after.
const ROUNDS: usize = 5;

/// The document that has the tables.
const DOCUMENT: &str = "docs/BENCHMARKS.md";

/// `bench [--rounds N] [--folder FOLDER] [--only
/// engine|build|read|extract|limits|check|layout|lab|mount] [--input linux|small|FILE.tar]
/// [--rows WORDS] [--count N] [--json] [--without-fuse2fs]`: prints
/// the tables, and puts them into `docs/BENCHMARKS.md` unless they are of fewer rounds, of one
/// input, or of some rows. With `--json` prints one object in the end, and no document changes.
///
/// # Errors
/// A word is wrong, an input cannot be made, the command that all are compared to fails, or the
/// document cannot be written.
pub fn run(words: &[String]) -> Result<(), String> {
    let bench = parse(words)?;
    std::fs::create_dir_all(&bench.folder)
        .map_err(|error| format!("{}: {error}", bench.folder.display()))?;
    let mut sections = Vec::new();
    for (name, tables) in TABLES {
        if bench.only.as_deref().is_some_and(|only| only != *name) {
            continue;
        }
        let mut sheet = Sheet::new(bench.print);
        sheet.say(&format!("{}; {} rounds; {}", measure::machine(), bench.rounds, commit()));
        tables(&bench, &mut sheet)?;
        match bench.print {
            Print::Json => sections.push(sheet.to_json(name)),
            Print::Lines if bench.is_complete() => {
                sheet.write(&repository().join(DOCUMENT), name)?;
                println!("\n{DOCUMENT}: section {name} is of this run");
            }
            Print::Lines => {}
        }
    }
    if bench.print == Print::Json {
        println!("{:#}", serde_json::Value::Array(sections));
    }
    Ok(())
}

impl Bench {
    /// Whether the tables are what the document shows.
    fn is_complete(&self) -> bool {
        self.rounds >= ROUNDS
            && self.input.is_none()
            && self.engine.is_complete()
            && self.slow_peer == SlowPeer::Measured
    }
}

/// Which sources are measured.
fn commit() -> String {
    let mut git = program("git");
    git.current_dir(repository()).args(["describe", "--always", "--dirty"]);
    match command::output(&mut git) {
        Ok(output) => format!("commit {}", String::from_utf8_lossy(&output.stdout).trim()),
        Err(_) => "commit unknown".into(),
    }
}

fn parse(words: &[String]) -> Result<Bench, String> {
    let mut bench = Bench {
        rounds: ROUNDS,
        folder: repository().join("target/bench"),
        only: None,
        input: None,
        engine: engine::Choice::default(),
        print: Print::Lines,
        slow_peer: SlowPeer::Measured,
    };
    let mut words = words.iter();
    while let Some(option) = words.next() {
        if option == "--json" {
            bench.print = Print::Json;
            continue;
        }
        if option == "--without-fuse2fs" {
            bench.slow_peer = SlowPeer::LeftOut;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{option} {value}: no number"));
        match option.as_str() {
            "--rounds" => bench.rounds = number()? as usize,
            "--folder" => bench.folder = value.into(),
            "--only" if TABLES.iter().any(|(name, _)| name == value) => {
                bench.only = Some(value.clone())
            }
            "--input" => bench.input = Some(value.clone()),
            "--rows" => bench.engine.rows = engine::Choice::rows(value)?,
            "--count" => bench.engine.count = Some(number()?),
            _ => return Err(format!("no option {option} {value}")),
        }
    }
    if bench.rounds == 0 { Err("--rounds 0: nothing to measure".into()) } else { Ok(bench) }
}

/// Words as a command takes them.
pub(crate) fn words(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// Text of a path for a shell, in quotes.
pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// The binary `extant` of the same build as this one.
///
/// # Errors
/// It was not built.
pub fn extant() -> Result<String, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = here.with_file_name("extant");
    if path.is_file() {
        return Ok(path.to_string_lossy().into_owned());
    }
    Err(format!("{} is missing: build it with --workspace --bins and this profile", path.display()))
}

/// Writes what is dirty, so that the next run does not pay for the last one.
pub(crate) fn settle() {
    rustix::fs::sync();
}

/// Removes `output` and writes what is dirty.
pub(crate) fn fresh(output: &Path) -> Result<(), String> {
    match std::fs::remove_file(output) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", output.display()))
        }
        _ => {
            settle();
            Ok(())
        }
    }
}

/// Puts `output` on the disk.
pub(crate) fn flush(output: &Path) -> Result<(), String> {
    let synced = File::open(output).and_then(|file| file.sync_all());
    synced.map_err(|error| format!("{}: {error}", output.display()))
}

/// A contender that makes the file `output` from nothing.
pub(crate) fn maker<'a>(name: &str, words: Vec<String>, output: &'a Path) -> Contender<'a> {
    Contender {
        name: name.into(),
        prepare: Box::new(move || fresh(output)),
        run: Box::new(move || measure(&words, || flush(output))),
    }
}

/// One run on its own, for what has nothing to be compared to.
pub(crate) fn once(words: &[String], output: Option<&Path>) -> Result<Measured, String> {
    settle();
    measure(words, || output.map_or(Ok(()), flush))
}

/// Whether `tool` takes part.
pub(crate) fn is_here(tool: &str) -> bool {
    find(tool).is_some()
}

/// Removes a tree that may be deeper than any path.
pub(crate) fn remove_tree(path: &Path) -> Result<(), String> {
    crate::command::output(program("rm").arg("-rf").arg(path)).map(|_| ())
}

/// An example of the same build as this program.
///
/// # Errors
/// It was not built.
pub(crate) fn example(name: &str) -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = here.with_file_name("examples").join(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("{} is missing: build it with --examples and this profile", path.display()))
}
