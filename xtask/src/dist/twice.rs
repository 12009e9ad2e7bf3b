//! Whether two compilations in two places give the same bytes.

use std::path::{Path, PathBuf};

use super::binaries::Binaries;
use super::{Release, pack, read, text, wheel};
use crate::command::{self, program};
use crate::scratch::Scratch;
use crate::shipped::Checkout;

/// Compiles the commit once more in a clone elsewhere, with the crates of others in another place,
/// and compares each file with the one in `out`. What differs is kept.
///
/// # Errors
/// The work tree is not the commit, something does not build, or files differ.
pub fn run(release: &Release, here: &Checkout, out: &Path) -> Result<(), String> {
    let mut git = program("git");
    let changed = text(git.current_dir(&here.root).args(["status", "--porcelain"]))?;
    if let Some(first) = changed.lines().next() {
        return Err(format!("{first}: what is not committed is in no clone"));
    }
    let scratch = Scratch::new("extant-twice");
    let other = elsewhere(here, &scratch)?;
    let binaries = Binaries::build(&other)?;
    binaries.judge(&other.paths())?;
    if wheel::only_wheel(out).is_ok() {
        wheel::build(&other).map_err(wheel::Failure::words)?;
    }
    let again = scratch.join("dist");
    let made = pack(release, &binaries, &again)?;
    let names = differences(&made, out)?;
    if names.is_empty() {
        println!("dist: {} files, the same bytes when they are compiled elsewhere", made.len());
        return Ok(());
    }
    let kept = here.root.join("target/dist-twice");
    let _ = std::fs::remove_dir_all(&kept);
    made_folder(&kept)?;
    let mut copy = program("cp");
    command::output(copy.arg("-r").arg(&again).arg(other.target.join("made")).arg(&kept))?;
    Err(format!("other bytes, kept in {}: {}", kept.display(), names.join(", ")))
}

fn made_folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A clone of the commit below `scratch`, with copies of the crates that cargo fetched.
fn elsewhere(here: &Checkout, scratch: &Scratch) -> Result<Checkout, String> {
    let other = Checkout {
        root: scratch.join("another/place/checkout"),
        target: scratch.join("built"),
        home: scratch.join("crates-of-others"),
    };
    let mut git = program("git");
    git.args(["clone", "--quiet"]).arg(&here.root).arg(&other.root);
    command::output(&mut git)?;
    made_folder(&other.home)?;
    for name in ["registry", "config.toml"] {
        let from = here.home.join(name);
        if from.exists() {
            command::output(program("cp").arg("-a").arg(from).arg(other.home.join(name)))?;
        }
    }
    Ok(other)
}

/// The names of the files that are not the same in `out`.
///
/// # Errors
/// One cannot be read.
pub fn differences(made: &[PathBuf], out: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for path in made {
        let name = path.file_name().unwrap_or_default();
        if read(path)? != read(&out.join(name))? {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}
