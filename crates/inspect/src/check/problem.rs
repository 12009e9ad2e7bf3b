//! Problems as data: what is wrong, how much it matters, and what a repair would do about it.
//!
//! *Invariants*: a problem's place in the report depends on what it says alone, never on when or by
//! which thread it was found; how many are kept is bounded, how many were found is exact.
//! *Locking*: [`Sink`] has one short lock, held for an insertion.
use super::codes::{Code, Rule};
use extant_block::ShortLock;
use extant_format::{BlockNo, GroupNo, Ino};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Problems that are kept for the report; of more only the number is known.
const KEPT_MAX: usize = 100_000;

/// How much a problem matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing is wrong for anybody who uses the volume: the exit code is as without it.
    Advice,
    /// The volume is damaged: exit code 4.
    Error,
    /// The volume is damaged, and what follows cannot be judged until that is mended: exit code 4 +
    /// 8.
    Stopping,
    /// Nothing can be checked: exit code 8.
    Fatal,
}

/// The passes, in the order in which they run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// The superblock, descriptors and the journal.
    Volume,
    /// Inodes and their maps.
    Inodes,
    /// Blocks that two files claim.
    Duplicates,
    /// The blocks of directories.
    Directories,
    /// What is reached from the root.
    Connectivity,
    /// Link counts.
    Links,
    /// Bitmaps and counters.
    Bitmaps,
}

/// What a repair would do: the seam for a writer that is not there yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// Nothing that a program should do by itself.
    None,
    /// Write the superblock (or its copies) anew.
    RewriteSuperblock,
    /// Write the group descriptor anew.
    RewriteDescriptor,
    /// Give the group a bitmap or an inode table elsewhere.
    RelocateMetadata,
    /// Replay or clear the journal.
    RecoverJournal,
    /// Make the journal anew.
    RecreateJournal,
    /// Free the inode.
    ClearInode,
    /// Set a field of the inode to what is expected.
    RewriteInode,
    /// Clear the pointer or extent to a block.
    ClearPointer,
    /// Build the inode's map anew from what is left of it.
    RebuildMap,
    /// Give each file its own copy of a shared block.
    CopyBlock,
    /// Clear the attribute, or the attribute block.
    ClearAttributes,
    /// Remove the entry from its directory.
    RemoveEntry,
    /// Set a field of the directory entry to what is expected.
    RewriteEntry,
    /// Write the directory block's entries anew from what is left of them.
    RebuildDirectoryBlock,
    /// Build the directory's index anew.
    RebuildIndex,
    /// Give the inode a name in `lost+found`.
    ReconnectToLostFound,
    /// Make the directory (the root, `lost+found`) anew.
    CreateDirectory,
    /// Store the count that was found.
    Recount,
    /// Write the bitmap anew.
    RewriteBitmap,
    /// Compute the checksum anew.
    RewriteChecksum,
    /// Write the quota file anew.
    RewriteQuota,
}

/// One thing that is wrong. What a code does not tell about stays `None`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// What is wrong.
    pub code: Code,
    /// The group that it is about.
    pub group: Option<GroupNo>,
    /// The inode that it is about.
    pub ino: Option<Ino>,
    /// The block of that file.
    pub file_block: Option<u64>,
    /// The block of the volume.
    pub block: Option<BlockNo>,
    /// A name, as its bytes stand in the directory or attribute.
    pub name: Option<Vec<u8>>,
    /// Another inode that has to do with it.
    pub other: Option<Ino>,
    /// What stands on the disk.
    pub found: Option<u64>,
    /// What should stand there.
    pub expected: Option<u64>,
}

impl Problem {
    /// A problem of that code, about nothing in particular yet.
    pub fn new(code: Code) -> Problem {
        Problem {
            code,
            group: None,
            ino: None,
            file_block: None,
            block: None,
            name: None,
            other: None,
            found: None,
            expected: None,
        }
    }

    /// The same, about this group.
    #[must_use]
    pub fn group(self, group: GroupNo) -> Problem {
        Problem { group: Some(group), ..self }
    }

    /// The same, about this inode.
    #[must_use]
    pub fn ino(self, ino: Ino) -> Problem {
        Problem { ino: Some(ino), ..self }
    }

    /// The same, about this block of the file.
    #[must_use]
    pub fn file_block(self, file_block: u64) -> Problem {
        Problem { file_block: Some(file_block), ..self }
    }

    /// The same, about this block.
    #[must_use]
    pub fn block(self, block: BlockNo) -> Problem {
        Problem { block: Some(block), ..self }
    }

    /// The same, about this name.
    #[must_use]
    pub fn name(self, name: &[u8]) -> Problem {
        Problem { name: Some(name.to_vec()), ..self }
    }

    /// The same, with another inode.
    #[must_use]
    pub fn other(self, other: Ino) -> Problem {
        Problem { other: Some(other), ..self }
    }

    /// The same, with what stands on the disk.
    #[must_use]
    pub fn found(self, found: impl Into<u64>) -> Problem {
        Problem { found: Some(found.into()), ..self }
    }

    /// The same, with what should stand there.
    #[must_use]
    pub fn expected(self, expected: impl Into<u64>) -> Problem {
        Problem { expected: Some(expected.into()), ..self }
    }

    /// What is known of its code.
    pub fn rule(&self) -> &'static Rule {
        self.code.rule()
    }

    /// The order of a report: by pass, then by place.
    fn key(&self) -> impl Ord + '_ {
        let place = (self.group, self.ino, self.file_block, self.block);
        (self.rule().pass, place, self.code, (&self.name, self.other, self.found, self.expected))
    }
}

impl PartialOrd for Problem {
    fn partial_cmp(&self, other: &Problem) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Problem {
    fn cmp(&self, other: &Problem) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The sentence: the template of the code with its blanks filled in.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.rule().sentence;
        while let Some((before, after)) = rest.split_once('{') {
            f.write_str(before)?;
            let (blank, after) = after.split_once('}').unwrap_or((after, ""));
            self.fill(f, blank)?;
            rest = after;
        }
        f.write_str(rest)
    }
}

impl Problem {
    fn fill(&self, f: &mut fmt::Formatter<'_>, blank: &str) -> fmt::Result {
        let number = match blank {
            "group" => self.group.map(|group| group.0.into()),
            "ino" => self.ino.map(|ino| ino.0.into()),
            "file_block" => self.file_block,
            "block" => self.block.map(|block| block.0),
            "other" => self.other.map(|other| other.0.into()),
            "found" => self.found,
            "expected" => self.expected,
            "name" => {
                return write!(f, "'{}'", self.name.as_deref().unwrap_or_default().escape_ascii());
            }
            _ => None,
        };
        match number {
            Some(number) => write!(f, "{number}"),
            None => f.write_str("?"),
        }
    }
}

/// As `{"code", "pass", "severity", "repair", "sentence"}` and what else is known of it. A name is
/// text with escapes.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rule = self.rule();
        let mut fields = serializer.serialize_struct("Problem", 13)?;
        fields.serialize_field("code", rule.name)?;
        fields.serialize_field("pass", &rule.pass)?;
        fields.serialize_field("severity", &rule.severity)?;
        fields.serialize_field("repair", &rule.repair)?;
        fields.serialize_field("sentence", &self.to_string())?;
        fields.serialize_field("group", &self.group.map(|group| group.0))?;
        fields.serialize_field("ino", &self.ino.map(|ino| ino.0))?;
        fields.serialize_field("file_block", &self.file_block)?;
        fields.serialize_field("block", &self.block.map(|block| block.0))?;
        let name = self.name.as_deref().map(|name| name.escape_ascii().to_string());
        fields.serialize_field("name", &name)?;
        fields.serialize_field("other", &self.other.map(|other| other.0))?;
        fields.serialize_field("found", &self.found)?;
        fields.serialize_field("expected", &self.expected)?;
        fields.end()
    }
}

/// Where problems are put by all threads.
#[derive(Default)]
pub(crate) struct Sink(ShortLock<Found>);

/// What was found so far: the first in order, and how many of each code.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) problems: BTreeSet<Problem>,
    pub(crate) counts: BTreeMap<Code, u64>,
}

impl Sink {
    /// Adds a problem; one that is there already counts once.
    pub(crate) fn add(&self, problem: Problem) {
        let mut found = self.0.lock();
        let code = problem.code;
        if found.problems.insert(problem) {
            *found.counts.entry(code).or_default() += 1;
        }
        if found.problems.len() > KEPT_MAX {
            found.problems.pop_last();
        }
    }

    /// Whether a problem was found that is at least so severe.
    pub(crate) fn has(&self, severity: Severity) -> bool {
        let found = self.0.lock();
        found.counts.keys().any(|code| code.rule().severity >= severity)
    }

    /// How many of this code were found.
    pub(crate) fn count(&self, code: Code) -> u64 {
        self.0.lock().counts.get(&code).copied().unwrap_or(0)
    }

    /// Everything, and leaves nothing.
    pub(crate) fn take(&self) -> Found {
        std::mem::take(&mut self.0.lock())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Advice => "advice",
            Severity::Error => "error",
            Severity::Stopping => "stopping",
            Severity::Fatal => "fatal",
        })
    }
}
