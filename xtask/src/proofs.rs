//! `xtask mount-proofs`: what others say of `extant mount`, and of the kernel's ext4 by the same
//! words: suites of system calls, loads, real programs, power cuts.
//!
//! Each proof makes its own images, mounts them by a [`System`], and has e2fsck look at them
//! afterwards. What it finds on the kernel's mount is no fault of ours, and says so.
//!
//! ```text
//! model      random system calls, answered as the kernel answers them
//! pjdfstest  the suite of that name
//! fsx        the exerciser of one file
//! loads      dbench, fs_mark, postmark, bonnie++, stress-ng: figures beside the kernel's
//! programs   git, sqlite, PostgreSQL, a build, rsync, overlayfs, a root to live in, layers
//! cuts       a server killed, or its device cut, under load; promises checked
//! shell      words for the shell, run on a mount
//! ```

mod cuts;
mod fsx;
mod loads;
mod model;
mod pjdfstest;
mod programs;
mod shell;

use std::path::PathBuf;

pub use cuts::load;

use crate::command::{self, program};
use crate::repository;

use extant_testkit::system::System;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Proofs {
    /// Which; all if none is named.
    only: Vec<String>,
    /// The first seed.
    pub seed: u64,
    /// Operations of those that count them; each has its own number otherwise.
    pub operations: Option<u64>,
    /// Rounds of those that have them.
    pub rounds: Option<u64>,
    /// The command that is judged.
    pub extant: PathBuf,
    /// The server whose device can be cut; built where none is named.
    pub cut_server: Option<PathBuf>,
    /// Whether it is the kernel that is judged, to prove the proofs.
    subject: Subject,
    /// Where images are.
    pub folder: PathBuf,
}

/// Whose mount is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Extant,
    Kernel,
}

/// The two ways in which FUSE is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The user who mounts has it alone; the server checks nothing.
    OneUser,
    /// All users have it, and the kernel checks what they may do.
    AllUsers,
}

impl Sharing {
    /// Both.
    pub const ALL: [Sharing; 2] = [Sharing::OneUser, Sharing::AllUsers];

    /// What the lines of results call it.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::OneUser => "one user",
            Sharing::AllUsers => "all users",
        }
    }
}

impl Proofs {
    /// The system to be judged, with more options of mount(8), or none.
    pub fn subject(&self, sharing: Sharing, more: &str) -> System {
        let own = match (self.subject, sharing) {
            (Subject::Extant, Sharing::AllUsers) => "allow_other,default_permissions",
            _ => "",
        };
        let words: Vec<&str> = [own, more].into_iter().filter(|words| !words.is_empty()).collect();
        match self.subject {
            Subject::Extant => System::Extant(self.extant.clone(), words.join(",")),
            Subject::Kernel => System::Kernel(words.join(",")),
        }
    }

    /// The name of what is judged.
    pub fn subject_name(&self) -> &'static str {
        match self.subject {
            Subject::Extant => "extant",
            Subject::Kernel => "kernel",
        }
    }
}

/// One row a proof: its word for `--only`, and what runs it.
type Proof = (&'static str, fn(&Proofs) -> Result<(), String>);

const PROOFS: &[Proof] = &[
    ("model", model::prove),
    ("pjdfstest", pjdfstest::prove),
    ("fsx", fsx::prove),
    ("cuts", cuts::prove),
    ("programs", programs::prove),
    ("loads", loads::prove),
];

/// `mount-proofs [--only WORD,..] [--seed S] [--operations N] [--rounds N] [--extant FILE]
/// [--cut-server FILE] [--kernel] [--folder FOLDER]`: runs the proofs one after the other, all of
/// them even where one fails. With `--kernel` the kernel's ext4 is judged instead, which proves the
/// proofs.
///
/// # Errors
/// A word is wrong, `extant` cannot be built, or a proof fails; each failure was printed.
pub fn run(words: &[String]) -> Result<(), String> {
    let mut proofs = parse(words)?;
    std::fs::create_dir_all(&proofs.folder)
        .map_err(|error| format!("{}: {error}", proofs.folder.display()))?;
    if proofs.extant.as_os_str().is_empty() {
        proofs.extant = built()?;
    }
    let mut failed = Vec::new();
    for (name, prove) in PROOFS {
        if !proofs.only.is_empty() && !proofs.only.iter().any(|only| only == name) {
            continue;
        }
        println!("{name} ({}):", proofs.subject_name());
        if let Err(error) = prove(&proofs) {
            println!("{name}: FAILED\n{error}");
            failed.push(*name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("not proved: {}", failed.join(", "))) }
}

fn parse(words: &[String]) -> Result<Proofs, String> {
    let mut proofs = Proofs {
        only: Vec::new(),
        seed: 1,
        operations: None,
        rounds: None,
        extant: PathBuf::new(),
        cut_server: None,
        subject: Subject::Extant,
        folder: repository().join("target/mount-proofs"),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--kernel" {
            proofs.subject = Subject::Kernel;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} {value}: no number"));
        match word.as_str() {
            "--only" => proofs.only = value.split(',').map(str::to_owned).collect(),
            "--seed" => proofs.seed = number()?,
            "--operations" => proofs.operations = Some(number()?),
            "--rounds" => proofs.rounds = Some(number()?),
            "--extant" => proofs.extant = PathBuf::from(value),
            "--cut-server" => proofs.cut_server = Some(PathBuf::from(value)),
            "--folder" => proofs.folder = PathBuf::from(value),
            _ => return Err(format!("no option {word}")),
        }
    }
    let is_known = |word: &&String| PROOFS.iter().any(|(name, _)| name == word);
    if let Some(word) = proofs.only.iter().find(|word| !is_known(word)) {
        let names: Vec<&str> = PROOFS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no proof {word}; there are {}", names.join(", ")));
    }
    Ok(proofs)
}

/// The command, built with the optimisation of a demonstration.
fn built() -> Result<PathBuf, String> {
    let mut cargo = program("cargo");
    cargo.args(["build", "--quiet", "--profile", "demo", "-p", "extant-cli"]);
    command::output(cargo.current_dir(repository()))?;
    Ok(repository().join("target/demo/extant"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_mean_nothing_are_named() {
        let parse = |words: &[&str]| {
            parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        let known = parse(&["--only", "fsx,model", "--seed", "7"]).expect("both are there");
        assert_eq!((known.only.len(), known.seed), (2, 7));
        assert!(parse(&["--only", "fsy"]).is_err_and(|error| error.contains("pjdfstest")));
        assert!(parse(&["--seed", "many"]).is_err());
        assert!(parse(&["--seed"]).is_err());
    }
}
