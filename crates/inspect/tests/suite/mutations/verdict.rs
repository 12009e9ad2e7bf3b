//! What the check and e2fsck say of a volume.
//!
//! e2fsck runs where nothing of the host counts: no configuration, a fixed time. Where a log waits
//! it is replayed on the copy first, and both judge what is there after that.
use crate::damage::harness::{Image, sentences};
use extant_inspect::Severity;
use extant_testkit::command::program;
use extant_testkit::scratch::Scratch;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

/// How two judges differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Difference {
    /// e2fsck finds something, the check nothing.
    Missed,
    /// The other way round.
    False,
    /// Both find something, with different exit codes.
    Code,
    /// e2fsck did not end with a code of its own.
    Ended,
}

/// Both verdicts.
pub struct Verdicts {
    /// The exit code of `e2fsck -fn`; `None` where a signal ended it.
    theirs: Option<i32>,
    their_words: Vec<String>,
    ours: u8,
    our_words: Vec<String>,
    first: String,
}

/// Features that say that a log waits.
const INCOMPAT: usize = 1024 + 0x60;
const RECOVER: u8 = 4;

fn e2fsck(words: &[&str], path: &Path) -> (Option<i32>, Vec<String>) {
    let mut command: Command = program("timeout");
    command.arg("20").arg("e2fsck").args(words).arg(path);
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    command.env("E2FSCK_CONFIG", "/dev/null").env("E2FSCK_TIME", "1700000000");
    let output = command.output().expect("e2fsck runs");
    let code = output.status.code().filter(|code| *code < 100 && code & 64 == 0);
    let said = String::from_utf8_lossy(&output.stdout);
    let is_finding = |line: &&str| {
        let is_usual = line.starts_with("Pass ") || line.contains("FILE SYSTEM WAS MODIFIED");
        !(line.is_empty() || is_usual)
    };
    let lines = said.lines().map(str::trim).filter(is_finding);
    (code, lines.take(6).map(str::to_owned).collect())
}

impl Verdicts {
    /// Asks both.
    pub fn of(image: &Image, scratch: &Scratch) -> Verdicts {
        let path = scratch.join("image");
        fs::write(&path, &image.bytes).expect("a file");
        let replayed = (image.bytes[INCOMPAT] & RECOVER != 0).then(|| {
            let _ = e2fsck(&["-y", "-E", "journal_only"], &path);
            Image { bytes: fs::read(&path).expect("the file") }
        });
        let report = replayed.as_ref().unwrap_or(image).check(1);
        let (theirs, their_words) = e2fsck(&["-fn"], &path);
        let our_words = sentences(&report).into_iter().take(6).collect();
        let errors = report.problems.iter().map(extant_inspect::Problem::rule);
        let first = errors.into_iter().find(|rule| rule.severity > Severity::Advice);
        let first = first.map_or("", |rule| rule.name).to_owned();
        Verdicts { theirs, their_words, ours: report.exit_code(), our_words, first }
    }

    /// Whether e2fsck finds something.
    pub fn is_damaged(&self) -> bool {
        self.theirs != Some(0)
    }

    /// The first code of an error that the check has.
    pub fn code(&self) -> String {
        self.first.clone()
    }

    /// How they differ, if they do.
    pub fn difference(&self) -> Option<Difference> {
        match (self.theirs, i32::from(self.ours)) {
            (None, _) => Some(Difference::Ended),
            (Some(theirs), ours) if theirs == ours => None,
            (Some(0), _) => Some(Difference::False),
            (Some(_), 0) => Some(Difference::Missed),
            _ => Some(Difference::Code),
        }
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let theirs = self.theirs.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
        write!(
            f,
            "e2fsck {theirs} {:?}, check {} {:?}",
            self.their_words, self.ours, self.our_words
        )
    }
}
