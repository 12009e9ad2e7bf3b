//! `extant lab capsule`: scenarios with all that they refer to and what they gave, in one file; and
//! the same run again.
use super::failure;
use clap::Subcommand;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::capsule::{self, Capsule, Verified};
use extant_lab::report::MODEL_VERSION;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Pack scenarios with all that they refer to, and what they gave, into one file.
///
/// The capsule is JSON, printed unless --to names a file: the scenarios, their drive files and
/// listings, seeds, the versions of program and models, and what each run gave, with hashes of its
/// trace and its report. `extant lab capsule verify FILE` runs all of it again. Exit code 1 when
/// something differs.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  extant lab capsule mine.toml --to mine.capsule
  extant lab capsule read-cold untar --seed 7 > both.capsule
  extant lab capsule verify mine.capsule")]
pub struct Arguments {
    #[command(subcommand)]
    pub action: Option<Action>,
    /// Built-in scenarios, or files
    #[arg(value_name = "SCENARIO", required = true)]
    pub scenarios: Vec<String>,
    /// Write the capsule to this file; a capsule that is there is replaced, any other file is not
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// In place of the scenarios' seeds
    #[arg(long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Divide counts of files, bytes, pieces and calls by this, but not those of `repeat`
    #[arg(long, value_name = "NUMBER", default_value = "1",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub scale: u64,
    /// Policies of every file system: a preset, columns to change, or both, with commas between
    #[arg(long, value_name = "POLICIES", visible_alias = "policies")]
    pub preset: Option<String>,
}

/// What is done with a capsule.
#[derive(Subcommand)]
pub enum Action {
    /// Run a capsule again, and say whether it gives the same
    Verify {
        /// The capsule
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// What `verify --json` prints.
#[derive(Serialize)]
struct Outcome<'a> {
    made_by: &'a str,
    model_version: u32,
    model_version_now: u32,
    same: bool,
    parts: &'a [Verified],
}

/// Packs, or verifies. With `--json` verifying prints what each scenario came to.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    match &arguments.action {
        Some(Action::Verify { file }) => verify(file, console),
        None => pack(arguments, console),
    }
}

fn pack(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    arguments.preset.as_deref().map(failure::setup).transpose()?;
    for word in &arguments.scenarios {
        failure::scenario(word)?;
    }
    arguments.to.as_deref().map_or(Ok(()), check)?;
    let Arguments { scenarios, seed, scale, preset, .. } = arguments;
    let packed = capsule::pack(scenarios, *seed, *scale, preset.as_deref());
    let json = packed.map_err(|error| Error::new(error.to_string()))?.to_json();
    match &arguments.to {
        Some(path) => std::fs::write(path, json).map_err(|error| Error::io(name(path), &error))?,
        None => console.print(&json)?,
    }
    Ok(Exit::Complete)
}

fn name(path: &Path) -> String {
    format!("--to {}", path.display())
}

/// What is there is a capsule, or empty.
fn check(path: &Path) -> Result<(), Error> {
    let there = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
    if there && read(path).is_err() {
        return Err(Error::new(format!("{}: exists, and is no capsule", name(path)))
            .hint("name another file, or remove this one"));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Capsule, Error> {
    let wrong = |words: String| Error::new(format!("{}: {words}", path.display()));
    let bytes = failure::contents(path, capsule::BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("is no capsule: not text".to_owned()))?;
    Capsule::parse(&text).map_err(|error| wrong(error.to_string()))
}

fn verify(path: &Path, console: &Console) -> Result<Exit, Error> {
    let capsule = read(path)?;
    let verified = capsule.verify();
    let parts = verified.map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
    let same = parts.iter().all(|part| part.difference.is_none());
    if console.is_json() {
        console.print_json(
            "extant-lab-capsule-verified/1",
            &Outcome {
                made_by: &capsule.program,
                model_version: capsule.model_version,
                model_version_now: MODEL_VERSION,
                same,
                parts: &parts,
            },
        )?;
    } else {
        let mut text = String::new();
        if capsule.model_version != MODEL_VERSION {
            let was = capsule.model_version;
            text.push_str(&format!("made with model {was}; this is model {MODEL_VERSION}\n"));
        }
        for part in &parts {
            text.push_str(&match &part.difference {
                None => format!("{}: the same, {} rows\n", part.scenario, part.rows),
                Some(words) => format!("{}: differs: {words}\n", part.scenario),
            });
        }
        console.print(&text)?;
    }
    Ok(if same { Exit::Complete } else { Exit::Incomplete })
}
