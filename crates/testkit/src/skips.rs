//! Tests that do nothing here, or less than elsewhere: each says so, and the gate takes only what
//! [`Known`] lists.
//!
//! A line is written past cargo's capture of output, so that `xtask suites` can make a row of its
//! table of it: a test that passes because it did nothing is seen by whoever reads the table.

use std::fmt::Display;
use std::io::Write;

use crate::command::{is_gate, is_root};

/// What each line begins with.
pub const MARK: &str = "skipped: ";

/// What follows in a line the name of a [`Known`].
const KNOWN_MARK: &str = " [known: ";

/// What may be missing at the gate too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Damaged images and measured drives.
    Collections,
    /// Features, of ext4 for most, that a kernel is built with or without.
    KernelFeatures,
    /// Blocks above the size of a page.
    LargeBlocks,
    /// Archives of a package that cargo has unpacked for another project, or has not.
    ForeignArchives,
    /// Sparse files of terabytes.
    HugeFiles,
    /// What root may do, where the test is of what others may not.
    OrdinaryUser,
    /// What is true of the command that ships only.
    Released,
    /// Rounds that a variable of [`crate::variables`] leaves to `make test-all`.
    Rounds,
}

impl Known {
    /// Why the gate does without it.
    pub fn reason(self) -> &'static str {
        match self {
            Known::Collections => "the folder ../shared is not part of the project",
            Known::KernelFeatures => {
                "casefold, quota and device-mapper are options of the kernel's build"
            }
            Known::LargeBlocks => "before Linux 6.19 ext4 takes no block above a page",
            Known::ForeignArchives => "the archives are another package's, which cargo fetched",
            Known::HugeFiles => "the file system of the folder for temporary files sets the limit",
            Known::OrdinaryUser => "the suite build of cli tries it as another user",
            Known::Released => "make test-release judges what ships",
            Known::Rounds => "make test-all does it",
        }
    }
}

/// Says that this test is skipped for want of `what`.
///
/// # Panics
/// This is the gate (`CI=true`).
pub fn skip(what: impl Display) {
    say(&format!("{what}"));
    assert!(!is_gate(), "{what}: the gate needs it");
}

/// Says that this test, or a part of it, is skipped for want of `what`, which is `known` to be
/// missing even at the gate.
pub fn skip_known(known: Known, what: impl Display) {
    say(&format!("{what}{KNOWN_MARK}{known:?}: {}]", known.reason()));
}

/// Whether this process is the superuser; if not, a line says so.
///
/// # Panics
/// It is not, and this is the gate.
pub fn require_root() -> bool {
    if !is_root() {
        skip("not root");
    }
    is_root()
}

/// One write for the whole line: the tests beside this one print too.
fn say(what: &str) {
    let thread = std::thread::current();
    let _ = std::io::stderr().write_all(line(thread.name(), what).as_bytes());
}

/// What a program said may have several lines; this has one.
fn line(test: Option<&str>, what: &str) -> String {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{MARK}{}: {what}\n", test.unwrap_or("a thread"))
}

/// What a line of a suite's output says was skipped: `TEST: WHAT`.
pub fn skipped_by(line: &str) -> Option<Skipped<'_>> {
    let what = line.trim_end().split_once(MARK)?.1;
    Some(Skipped { what, is_known: what.contains(KNOWN_MARK) })
}

/// A skipped test, as a line says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped<'l> {
    /// `TEST: WHAT`, and the reason of what is known.
    pub what: &'l str,
    /// Whether the gate does without it.
    pub is_known: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let plain = "skipped: reads::a_test: no zstd\n";
        let expected = Skipped { what: "reads::a_test: no zstd", is_known: false };
        assert_eq!(skipped_by(plain), Some(expected));
        let what = format!("no x:\n  why{KNOWN_MARK}Rounds: {}]", Known::Rounds.reason());
        let known = line(Some("b"), &what);
        assert_eq!(known.lines().count(), 1, "{known}");
        assert!(skipped_by(&known).is_some_and(|skipped| skipped.is_known));
        assert_eq!(skipped_by("test reads::a_test ... ok"), None);
    }
}
