//! Fast commits: changes in few bytes, after the last full commit. Little-endian.
//!
//! ```text
//! area     | tag | tag | ... | tail, to the end of the block | tag | ... | pad | tag | .. | tail |
//! tag      | kind: 2 | bytes of its value: 2 | value |
//! head     | features: 4 | transaction: 4 |         the first tag of the area
//! tail     | transaction: 4 | checksum: 4 | zeros |
//! ```
//!
//! A fast commit ends with a tail, whose checksum covers every byte after the tail before, up to
//! itself. Tags do not cross blocks. A commit that is not whole, or of another transaction than the
//! one that the full commits led to, ends the area: it is older, or was never finished.
use super::Sequence;
use crate::checksum::crc32c;
use crate::extent::Extent;
use crate::stored::{u16_at, u32_at};
use crate::{FileBlock, Ino};

const TAG_HEADER_BYTES: usize = 4;
const HEAD_BYTES: usize = 8;
const TAIL_BYTES: usize = 8;
const NAME_BYTES_MAX: usize = 255;
/// Bytes of an inode that every volume has.
const INODE_BYTES_MIN: usize = 128;

/// One change. Inodes, blocks and names are as they are stored: nothing is checked against the
/// volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The file has these blocks now.
    AddRange {
        /// The file.
        ino: Ino,
        /// Its new extent; `length` is at least 1.
        extent: Extent,
    },
    /// The file has no blocks there any more.
    DeleteRange {
        /// The file.
        ino: Ino,
        /// The first block that it loses.
        first: FileBlock,
        /// How many, at least 0.
        length: u32,
    },
    /// A new inode got its first name.
    Create(Entry),
    /// An inode got another name.
    Link(Entry),
    /// An inode lost a name.
    Unlink(Entry),
    /// An inode, as it is in the inode table but for its map.
    Inode {
        /// Its number.
        ino: Ino,
        /// Its bytes, at least 128; Linux writes at most as many as an inode of the volume has.
        bytes: Vec<u8>,
    },
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The directory.
    pub parent: Ino,
    /// What the name leads to.
    pub ino: Ino,
    /// The name, of 1 to 255 bytes.
    pub name: Vec<u8>,
}

/// Why fast commits ended where they did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// No fast commit follows: the area begins with something else, or it ended after a tail.
    Clean,
    /// They are of another transaction than expected: older.
    OtherTransaction(Sequence),
    /// A tag or tail that cannot be: the commit that it belongs to was never finished.
    Unfinished,
    /// The head asks for features that are not known.
    UnknownFeatures(u32),
}

/// The changes of the whole fast commits of one transaction, read block by block.
#[derive(Debug)]
pub struct Reader {
    expected: Sequence,
    /// Whether the head was read.
    is_open: bool,
    checksum: u32,
    changes: Vec<Change>,
    /// How many of the changes are in whole commits.
    whole: usize,
    commits: u32,
    end: Option<End>,
}

/// What a [`Reader`] found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FastCommits {
    /// The changes of all whole fast commits, in order.
    pub changes: Vec<Change>,
    /// How many fast commits are whole.
    pub commits: u32,
    /// Why there are no more.
    pub end: End,
}

impl Reader {
    /// Reads fast commits that follow the transaction before `expected`.
    pub fn new(expected: Sequence) -> Reader {
        Reader {
            expected,
            is_open: false,
            checksum: 0,
            changes: Vec::new(),
            whole: 0,
            commits: 0,
            end: None,
        }
    }

    /// Reads the next block of the area. Returns whether more are wanted.
    pub fn read(&mut self, block: &[u8]) -> bool {
        let mut rest = block;
        while self.end.is_none() && rest.len() >= TAG_HEADER_BYTES {
            let value_bytes = usize::from(u16_at(rest, 2));
            let tag_bytes = TAG_HEADER_BYTES.saturating_add(value_bytes);
            let Some((tag, after)) = rest.split_at_checked(tag_bytes) else {
                self.end = Some(self.end_of_area());
                break;
            };
            self.read_tag(u16_at(tag, 0), tag);
            rest = after;
        }
        self.end.is_none()
    }

    /// What was found until now.
    pub fn finish(mut self) -> FastCommits {
        let end = self.end.unwrap_or_else(|| self.end_of_area());
        self.changes.truncate(self.whole);
        FastCommits { changes: self.changes, commits: self.commits, end }
    }

    /// Clean right after a tail and before the head, unfinished within a commit.
    fn end_of_area(&self) -> End {
        if self.whole == self.changes.len() { End::Clean } else { End::Unfinished }
    }

    fn read_tag(&mut self, kind: u16, tag: &[u8]) {
        const HEAD: u16 = 9;
        const TAIL: u16 = 8;
        const PAD: u16 = 7;
        let value = tag.get(TAG_HEADER_BYTES..).unwrap_or_default();
        let is_first = !self.is_open;
        if is_first && (kind != HEAD || value.len() != HEAD_BYTES) {
            self.end = Some(End::Clean);
            return;
        }
        match kind {
            HEAD => self.read_head(value),
            TAIL => return self.read_tail(tag, value),
            PAD => {}
            _ => match Change::parse(kind, value) {
                Some(change) => self.changes.push(change),
                None => self.end = Some(self.end_of_area()),
            },
        }
        self.checksum = crc32c(self.checksum, tag);
    }

    fn read_head(&mut self, value: &[u8]) {
        let (features, sequence) = (u32_at(value, 0), Sequence(u32_at(value, 4)));
        self.is_open = true;
        if features != 0 {
            self.end = Some(End::UnknownFeatures(features));
        } else if sequence != self.expected {
            self.end = Some(End::OtherTransaction(sequence));
        }
    }

    fn read_tail(&mut self, tag: &[u8], value: &[u8]) {
        let sequence = Sequence(u32_at(value, 0));
        let covered = tag.get(..TAG_HEADER_BYTES.saturating_add(4)).unwrap_or_default();
        let is_whole = value.len() >= TAIL_BYTES
            && sequence == self.expected
            && crc32c(self.checksum, covered) == u32_at(value, 4);
        if !is_whole {
            let other = End::OtherTransaction(sequence);
            self.end = Some(if sequence == self.expected { End::Unfinished } else { other });
            return;
        }
        self.checksum = 0;
        self.whole = self.changes.len();
        self.commits = self.commits.saturating_add(1);
    }
}

impl Change {
    /// Of a tag's value; `None` for an unknown kind, or a length that is not possible.
    fn parse(kind: u16, value: &[u8]) -> Option<Change> {
        match kind {
            1 => {
                let (ino, extent) = value.split_first_chunk::<4>()?;
                let extent = Extent::from_bytes(extent.try_into().ok()?);
                (extent.length > 0)
                    .then_some(Change::AddRange { ino: Ino(u32::from_le_bytes(*ino)), extent })
            }
            2 => (value.len() == 12).then(|| Change::DeleteRange {
                ino: Ino(u32_at(value, 0)),
                first: FileBlock(u32_at(value, 4)),
                length: u32_at(value, 8),
            }),
            3 => Entry::parse(value).map(Change::Create),
            4 => Entry::parse(value).map(Change::Link),
            5 => Entry::parse(value).map(Change::Unlink),
            6 => {
                let (ino, bytes) = value.split_first_chunk::<4>()?;
                (bytes.len() >= INODE_BYTES_MIN).then(|| Change::Inode {
                    ino: Ino(u32::from_le_bytes(*ino)),
                    bytes: bytes.to_vec(),
                })
            }
            _ => None,
        }
    }
}

impl Entry {
    fn parse(value: &[u8]) -> Option<Entry> {
        let name = value.get(8..)?;
        (1..=NAME_BYTES_MAX).contains(&name.len()).then(|| Entry {
            parent: Ino(u32_at(value, 0)),
            ino: Ino(u32_at(value, 4)),
            name: name.to_vec(),
        })
    }
}
