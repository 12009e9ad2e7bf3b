//! The journal of ext3 and ext4 (jbd2): its superblock, the blocks of its log, and
//! fast commits.
//!
//! Everything but fast commits is big-endian. Each block of the log but the copies of blocks begins
//! with a header; a copy that would begin with the magic number has a zero there instead, and its
//! tag says that it is *escaped*.
//!
//! ```text
//! journal      | superblock | log, a ring of blocks .................... | fast commits |
//! transaction  | revoke ... | descriptor | copies | descriptor | copies | ... | commit |
//! descriptor   | header: 12 | tag | UUID: 16 | tag | tag | ...         | checksum: 4 |
//! revoke       | header: 12 | bytes in use: 4 | block | block | ...    | checksum: 4 |
//! header       | magic: 4 | kind: 4 | sequence: 4 |
//! ```
//!
//! ```text
//! superblock   what the journal is, and where the log begins
//! checked      a superblock in which everything is possible, and how it is stored again
//! log_format   what its features decide about the blocks: sizes, checksums
//! descriptor   which copies follow, and where they belong     revoke       blocks not to replay
//! commit       the end of a transaction                       fast_commit  changes in few bytes
//! checksum     crc32 with its high bit first, of version 1
//! ```
mod checked;
mod checksum;
pub mod commit;
pub mod descriptor;
pub mod fast_commit;
mod log_format;
pub mod revoke;
mod superblock;

pub use checked::JournalSuperblock;
pub use checksum::TransactionChecksum;
pub use log_format::{BlockNumbers, Checksums, LogFormat};
pub use superblock::{
    BLOCKS_MIN, CHECKSUM_CRC32, CHECKSUM_CRC32C, NewJournal, SUPERBLOCK_BYTES, SUPERBLOCK_V1,
    SUPERBLOCK_V2, StoredJournal, add_user, compat, default_blocks, incompat, initialize,
    initialize_device,
};
use superblock::{RawJournal, VERSION_1_BYTES};

use std::fmt;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The number by which a block of the journal is known.
pub const MAGIC: u32 = 0xc03b_3998;

/// The number of a transaction. Numbers wrap, so that one is before or after another only within
/// half of their range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Sequence(pub u32);

impl Sequence {
    /// That of the next transaction.
    pub fn next(self) -> Sequence {
        Sequence(self.0.wrapping_add(1))
    }

    /// Whether it is a later transaction than `other`: less than 2^31 numbers after it.
    pub fn is_after(self, other: Sequence) -> bool {
        self.distance_from(other) > 0
    }

    /// How many transactions after `other` it is; negative before it.
    pub fn distance_from(self, other: Sequence) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a block of the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKind {
    /// Names the blocks that are copied after it.
    Descriptor,
    /// Ends a transaction.
    Commit,
    /// The first block of the journal.
    Superblock,
    /// Names blocks whose older copies must not be replayed.
    Revoke,
    /// None that is known.
    Other(u32),
}

impl BlockKind {
    fn from_number(number: u32) -> BlockKind {
        match number {
            1 => BlockKind::Descriptor,
            2 => BlockKind::Commit,
            SUPERBLOCK_V1 | SUPERBLOCK_V2 => BlockKind::Superblock,
            5 => BlockKind::Revoke,
            other => BlockKind::Other(other),
        }
    }

    fn number(self) -> u32 {
        match self {
            BlockKind::Descriptor => 1,
            BlockKind::Commit => 2,
            BlockKind::Superblock => SUPERBLOCK_V2,
            BlockKind::Revoke => 5,
            BlockKind::Other(other) => other,
        }
    }
}

/// The beginning of a block of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the block is.
    pub kind: BlockKind,
    /// The transaction that it belongs to.
    pub sequence: Sequence,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: U32,
    kind: U32,
    sequence: U32,
}

const HEADER_BYTES: usize = size_of::<RawHeader>();

impl Header {
    /// Of a block of the log; `None` without the magic number.
    pub fn parse(block: &[u8]) -> Option<Header> {
        let (raw, _) = RawHeader::ref_from_prefix(block).ok()?;
        (raw.magic.get() == MAGIC).then(|| Header {
            kind: BlockKind::from_number(raw.kind.get()),
            sequence: Sequence(raw.sequence.get()),
        })
    }

    /// A block of zeros that begins with this header.
    fn block(self, format: &LogFormat) -> Vec<u8> {
        let mut block = vec![0; format.block_size as usize];
        let raw = RawHeader {
            magic: MAGIC.into(),
            kind: self.kind.number().into(),
            sequence: self.sequence.0.into(),
        };
        put(&mut block, 0, raw.as_bytes());
        block
    }
}

/// Writes bytes at an offset; what does not fit is left out.
fn put(block: &mut [u8], offset: usize, bytes: &[u8]) {
    let place = block.get_mut(offset..).unwrap_or_default();
    for (to, from) in place.iter_mut().zip(bytes) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_compared_across_their_wrap() {
        let (last, first) = (Sequence(u32::MAX), Sequence(0));
        assert_eq!(last.next(), first);
        assert!(first.is_after(last) && !last.is_after(first) && !first.is_after(first));
        assert_eq!(Sequence(3).distance_from(Sequence(u32::MAX - 1)), 5);
    }
}
