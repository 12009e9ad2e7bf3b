//! The wheel in a fresh environment of every Python that is here: those that its name promises take
//! it and run it, the others refuse it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::command::{self, program};
use crate::dist::text;
use crate::python::{self, Reach};
use crate::scratch::Scratch;

/// Prints the second number of the version, 1 if there is no global lock, and the first number.
const ASK: &str = "import sys, sysconfig, venv, ensurepip
print(sys.version_info[1], sysconfig.get_config_var('Py_GIL_DISABLED') or 0, sys.version_info[0])";

/// What is done with the package before any other is there.
const TRY: &str = "import sys, extantfs
from extantfs import Entry
built = extantfs.build([Entry('/etc/name', 'words\\n')], sys.argv[1], free=1 << 20)
with extantfs.open(sys.argv[1], 'r+') as image:
    with image.transaction() as change:
        change.write('/etc/more', 'more\\n')
    print((image / 'etc' / 'name').read_text(), (image / 'etc' / 'more').read_text(), sep='')";

/// A Python, by what a wheel has to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    minor: u32,
    is_free: bool,
}

impl Kind {
    /// Whether `cp310-abi3` is for it: the stable interface is not that of a Python without its
    /// lock.
    fn is_promised(self) -> bool {
        self.minor >= 10 && !self.is_free
    }

    fn shown(self) -> String {
        format!("Python 3.{}{}", self.minor, if self.is_free { "t" } else { "" })
    }
}

/// Installs and runs the wheel in each of them, and the package's tests where the index of packages
/// has what they need.
///
/// # Errors
/// One that has to take it does not, or the reverse; or a test fails; or no Python is here.
pub fn judge(wheel: &Path) -> Result<(), String> {
    let mut found = interpreters();
    // One of those that are too old speaks for all.
    let newest = found.keys().filter(|kind| kind.minor < 10).max().copied();
    found.retain(|kind, _| kind.minor >= 10 || Some(*kind) == newest);
    if !found.keys().any(|kind| kind.is_promised()) {
        return Err("no Python from 3.10 on with venv".to_owned());
    }
    for (kind, python) in found {
        let what = in_environment(kind, &python, wheel)
            .map_err(|words| format!("{}: {words}", kind.shown()))?;
        println!("dist: {}: {what}", kind.shown());
    }
    Ok(())
}

fn in_environment(kind: Kind, python: &Path, wheel: &Path) -> Result<&'static str, String> {
    let scratch = Scratch::new("extant-python");
    let fresh = scratch.join("fresh");
    python::environment(python, &fresh)?;
    let name = wheel.display().to_string();
    let mut pip = program(&fresh.join("bin/python").display().to_string());
    pip.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", &name]);
    match (kind.is_promised(), command::output(&mut pip)) {
        (true, installed) => installed?,
        (false, Err(words)) if words.contains("is not a supported wheel") => {
            return Ok("refuses the wheel, as its name says");
        }
        (false, Err(words)) => return Err(words),
        (false, Ok(_)) => return Err("takes a wheel that is not for it".to_owned()),
    };
    let mut tried = program(&fresh.join("bin/python").display().to_string());
    let said = text(tried.args(["-c", TRY]).arg(scratch.join("disk.img")))?;
    if said != "words\nmore" {
        return Err(format!("reads {said:?}"));
    }
    extant_testkit::oracle::e2fsck(&scratch.join("disk.img"))?;
    let mut check = program(&fresh.join("bin/extant").display().to_string());
    text(check.arg("check").arg(scratch.join("disk.img")))?;
    if python::install(&fresh, &python::requirements(Reach::Light)).is_err() {
        return Ok("installs and runs the wheel; ITS TESTS ARE NOT RUN, for want of packages");
    }
    python::pytest(&fresh, Reach::Light, &[])?;
    Ok("installs and runs the wheel, and passes the package's tests")
}

/// One Python 3 of each kind that makes environments: of PATH, and of pyenv and uv, which keep them
/// side by side.
fn interpreters() -> BTreeMap<Kind, PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let pyenv = std::env::var_os("PYENV_ROOT").map_or_else(|| home.join(".pyenv"), PathBuf::from);
    for keeper in [pyenv.join("versions"), home.join(".local/share/uv/python")] {
        let entries = std::fs::read_dir(keeper).into_iter().flatten().flatten();
        folders.extend(entries.map(|entry| entry.path().join("bin")));
    }
    let mut found = BTreeMap::new();
    for folder in folders {
        for path in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = path.file_name().to_string_lossy().into_owned();
            let version = name.strip_prefix("python3").unwrap_or("none");
            let rest = version.trim_start_matches(['.', 't']);
            if !rest.chars().all(|letter| letter.is_ascii_digit() || letter == 't') {
                continue;
            }
            let mut asked = program(&path.path().display().to_string());
            // A name that only stands for another (pyenv's) may stand for none.
            let Ok(said) = text(asked.args(["-I", "-c", ASK])) else { continue };
            if let Some(kind) = kind(&said) {
                found.entry(kind).or_insert_with(|| path.path());
            }
        }
    }
    found
}

/// What [`ASK`] printed.
fn kind(said: &str) -> Option<Kind> {
    let words: Vec<u32> = said.split(' ').map_while(|word| word.parse().ok()).collect();
    match words[..] {
        [minor, free, 3] => Some(Kind { minor, is_free: free != 0 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_wheel_is_for_those_that_it_says() {
        let kinds = ["9 0 3", "10 0 3", "14 0 3", "14 1 3"].map(|said| kind(said).expect("a kind"));
        assert_eq!(kinds.map(Kind::is_promised), [false, true, true, false]);
        assert_eq!(kinds[3].shown(), "Python 3.14t");
        assert_eq!(kind("7 0 2"), None);
        assert_eq!(kind("no words"), None);
    }
}
