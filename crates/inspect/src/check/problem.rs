//! Problems as data: what is wrong and where, with the numbers that a repair would need.
//!
//! *Invariants*: the order of problems depends on what they say alone, never on when or by which
//! thread they were found, nor on what is found out about them later (`path`, `cause`).
use super::codes::{Code, Rule};
use extant_format::{BlockNo, GroupNo, Ino};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::fmt;

/// One thing that is wrong. What does not apply to its code stays `None`.
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
    /// A name, as its bytes are in the directory or attribute.
    pub name: Option<Vec<u8>>,
    /// Another inode that has to do with it.
    pub other: Option<Ino>,
    /// What is on the disk.
    pub found: Option<u64>,
    /// What should be there.
    pub expected: Option<u64>,
    /// What the inode is called, from the root; `None` where no name leads to it.
    pub path: Option<Vec<u8>>,
    /// The problem of the report that this one follows from, by its place there.
    pub cause: Option<usize>,
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
            path: None,
            cause: None,
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

    /// The same, with what is on the disk.
    #[must_use]
    pub fn found(self, found: impl Into<u64>) -> Problem {
        Problem { found: Some(found.into()), ..self }
    }

    /// The same, with what should be there.
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
        let mut fields = serializer.serialize_struct("Problem", 15)?;
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
        let path = self.path.as_deref().map(|path| path.escape_ascii().to_string());
        fields.serialize_field("path", &path)?;
        fields.serialize_field("cause", &self.cause)?;
        fields.end()
    }
}
