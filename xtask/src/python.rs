//! `xtask python`: the Python package, built, installed in a fresh virtual environment, and tested
//! there.
//!
//! What is built shares its libraries with the tests of the other crates. maturin, which makes the
//! wheel, is kept in an environment of its own below `target/python`; the one that the tests run in
//! is made anew each time, so that nothing is found there but what the package asks for.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{find, is_gate, program};
use crate::{command, repository};

/// What makes the wheel.
const MATURIN: &str = "maturin>=1.9,<2";

const MISSING: &str = "no Python from 3.10 on with venv";

/// What is added to a message of pip.
pub(crate) const UNREACHED: &str = " (is the index of packages not reached?)";

/// Which tests are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Those that need no large library.
    Light,
    /// All.
    Heavy,
}

/// `python [--level test|all|night] [WORD..]`: the tests of `python/tests`, those that are marked
/// heavy from `all` on; other words go to pytest.
///
/// # Errors
/// The package cannot be built, a test fails; at the gate, also without Python. Where the index of
/// packages is not reached nothing is tested, which is said: it is no part of the machine.
pub fn run(words: &[String]) -> Result<(), String> {
    let (reach, words) = reach(words)?;
    let folder = repository().join("target/python");
    let fresh = folder.join("fresh");
    let python = match interpreter() {
        Some(python) => python,
        None if is_gate() => return Err(MISSING.into()),
        None => return not_tested(MISSING),
    };
    let prepared = tools().and_then(|tools| {
        environment(&python, &fresh)?;
        install(&fresh, &requirements(reach))?;
        Ok(tools)
    });
    let tools = match prepared {
        Ok(tools) => tools,
        Err(message) => return not_tested(&format!("{message}{UNREACHED}")),
    };
    let wheel = wheel(&tools, &folder.join("wheels"))?;
    install(&fresh, &["--no-deps".into(), wheel])?;
    types(&fresh)?;
    let mut words = words.to_vec();
    words.push("--durations=5".into());
    pytest(&fresh, reach, &words)
}

/// Runs the tests in an environment that the package is installed in.
///
/// # Errors
/// One fails.
pub(crate) fn pytest(fresh: &Path, reach: Reach, words: &[String]) -> Result<(), String> {
    let mut pytest = program(&shown(&fresh.join("bin/python")));
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    if reach == Reach::Light {
        pytest.args(["-m", "not heavy"]);
    }
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    // Not the package of the sources, which has no library.
    pytest.current_dir(tests()).args(words);
    succeeded(&mut pytest, "pytest")
}

/// Where the tests are.
fn tests() -> PathBuf {
    repository().join("python/tests")
}

/// The environment with maturin in it, made if there is none.
///
/// # Errors
/// There is no Python, or maturin cannot be had.
pub(crate) fn tools() -> Result<PathBuf, String> {
    let tools = repository().join("target/python/tools");
    if !tools.join("bin/maturin").exists() {
        environment(&interpreter().ok_or(MISSING)?, &tools)?;
        install(&tools, &[MATURIN.into()])?;
    }
    Ok(tools)
}

/// Says that nothing is tested, and why.
fn not_tested(why: &str) -> Result<(), String> {
    eprintln!("xtask python: {why}: THE PYTHON PACKAGE IS NOT TESTED");
    Ok(())
}

/// The lists of what the tests ask for.
pub(crate) fn requirements(reach: Reach) -> Vec<String> {
    let lists: &[&str] = match reach {
        Reach::Light => &["light.txt"],
        Reach::Heavy => &["light.txt", "heavy.txt"],
    };
    lists.iter().flat_map(|list| ["-r".into(), shown(&tests().join(list))]).collect()
}

/// The level that the first words ask for, and the other words.
fn reach(words: &[String]) -> Result<(Reach, &[String]), String> {
    match words {
        [option, level, rest @ ..] if option == "--level" => match level.as_str() {
            "test" => Ok((Reach::Light, rest)),
            "all" | "night" => Ok((Reach::Heavy, rest)),
            _ => Err(format!("--level {level}: test, all or night")),
        },
        _ => Ok((Reach::Light, words)),
    }
}

/// A Python that makes environments.
fn interpreter() -> Option<PathBuf> {
    const SCRIPT: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
    let found = find("python3")?;
    let mut asked = program(&shown(&found));
    command::output(asked.args(["-c", SCRIPT])).ok().map(|_| found)
}

/// Makes an environment anew, without what was in it.
pub(crate) fn environment(python: &Path, folder: &Path) -> Result<(), String> {
    let mut venv = program(&shown(python));
    succeeded(venv.args(["-m", "venv", "--clear"]).arg(folder), "venv")
}

/// Has pip install these words into an environment.
pub(crate) fn install(environment: &Path, wanted: &[String]) -> Result<(), String> {
    let mut pip = program(&shown(&environment.join("bin/python")));
    pip.args(["-m", "pip", "install", "-q", "--disable-pip-version-check"]).args(wanted);
    succeeded(&mut pip, "pip")
}

/// Builds the wheel, and returns where it is.
fn wheel(tools: &Path, folder: &Path) -> Result<String, String> {
    // One of an earlier version would be taken for it.
    let _ = std::fs::remove_dir_all(folder);
    let mut maturin = program(&shown(&tools.join("bin/maturin")));
    maturin.args(["build", "-q", "--profile", "dev", "--features", "beside-tests", "--locked"]);
    maturin.arg("--manifest-path").arg(repository().join("python/Cargo.toml"));
    maturin.arg("--out").arg(folder).current_dir(repository());
    succeeded(&mut maturin, "maturin")?;
    let made = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut made = made.flatten().map(|entry| entry.path());
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|end| end == "whl");
    made.find(is_wheel).map(|path| shown(&path)).ok_or_else(|| "maturin made no wheel".into())
}

/// The types of the package, as its users' checkers see them.
fn types(environment: &Path) -> Result<(), String> {
    let mut mypy = program(&shown(&environment.join("bin/python")));
    mypy.args(["-m", "mypy", "--strict", "--no-error-summary", "--cache-dir=/dev/null"]);
    mypy.args(["--ignore-missing-imports", "-p", "extantfs"]).current_dir("/");
    succeeded(&mut mypy, "mypy")
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn succeeded(command: &mut Command, name: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_says_how_much_is_tested() {
        let words = ["--level", "all", "-k", "x"].map(str::to_owned);
        assert_eq!(reach(&words), Ok((Reach::Heavy, &words[2..])));
        assert_eq!(reach(&words[2..]), Ok((Reach::Light, &words[2..])));
        assert!(reach(&["--level", "x"].map(str::to_owned)).is_err());
    }
}
