//! Map blocks ahead of a stream of reads (the second post, 2007): where the next indirect blocks of
//! a file lie together, a stream that goes on reads several at once, and does not wait for them.
//!
//! That they lie together is seen from where they are, not from an option: next to each other in
//! the file, and fewer blocks apart on the disk than one of them maps, so that the data between
//! them is not theirs. Indirect blocks beside their data never are; those of a metacluster are,
//! whoever made it.
//!
//! Nothing is read ahead for a stream that has not gone on for a MiB yet, so that reads here and
//! there (the post's pieces of 512 bytes, and of 512 KB) never are followed by one; nor for the
//! first few indirect blocks of a file, which files of some MiB have. Then four at once, and up to
//! 32 the longer the stream goes on: as many as a group full of one file has.
use super::Access;
use std::ops::Range;

/// Which map blocks are read ahead of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MapReadAhead {
    /// Each alone, when it is wanted.
    #[default]
    None,
    /// Those that lie together with the next one.
    Metacluster,
}

/// A stream has to have read so many bytes without a jump.
const BYTES_MIN: u64 = 1 << 20;
/// Map blocks that are read at once: at first, and at most.
const BLOCKS_MIN: u64 = 4;
const BLOCKS_MAX: u64 = 32;

/// How long a stream has gone on without a jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Going {
    /// The block behind the last one read.
    next: u32,
    /// Blocks read since the last jump.
    blocks: u64,
    /// The first block whose map block was not looked for yet.
    looked: u32,
}

impl Going {
    /// Told of each read.
    pub fn note(&mut self, access: &Access) {
        let goes_on = access.block == self.next || access.block.saturating_add(1) == self.next;
        let before = if goes_on { self.blocks } else { 0 };
        self.blocks = before.saturating_add(access.count.into());
        self.next = access.end();
        if !goes_on {
            self.looked = 0;
        }
    }

    /// The first block of a range of the file whose map block was not looked for yet, and how many
    /// map blocks may be read from that one on; `None` for none. Each answer comes once. A map
    /// block maps `mapped` blocks of `block_size` bytes, behind the first `direct` ones.
    pub fn maps(
        &mut self,
        range: &Range<u32>,
        block_size: u32,
        mapped: u32,
        direct: u32,
    ) -> Option<(u32, u32)> {
        let block = range.start.max(self.looked);
        if block >= range.end || self.blocks.saturating_mul(block_size.into()) < BYTES_MIN {
            return None;
        }
        let mapped = mapped.max(1);
        let index = block.saturating_sub(direct) / mapped;
        self.looked = (index + 1).saturating_mul(mapped).saturating_add(direct);
        let passed = self.blocks / u64::from(mapped);
        Some((block, (BLOCKS_MIN * (passed + 1)).min(BLOCKS_MAX) as u32))
    }
}
