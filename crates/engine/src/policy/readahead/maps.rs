//! Map blocks ahead of a stream of reads (the second post, 2007): if the next indirect blocks of a
//! file are clustered on disk, a sequential stream reads several at once, without waiting.
//!
//! Whether they are clustered is decided by where they are, not by an option: they follow each
//! other in the file, and are fewer blocks apart on disk than one of them maps, so that the data
//! between them is not theirs. Indirect blocks beside their data never are; those of a metacluster
//! are, whichever program made it.
//!
//! Nothing is read ahead before a stream has read 1 MiB in sequence, so that random reads (the
//! post's pieces of 512 bytes, and of 512 KB) never cause it; nor for the first few indirect blocks
//! of a file, which files of a few MiB have. After that four are read at once, and more the longer
//! the stream is, up to 32, which is as many as a group full of one file has.
use super::Access;
use std::ops::Range;

/// Which map blocks are read ahead of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MapReadAhead {
    /// Each alone, when it is wanted.
    #[default]
    None,
    /// Those that are clustered with the next one.
    Metacluster,
}

/// How many bytes a stream has to read without a jump first.
const BYTES_MIN: u64 = 1 << 20;
/// Map blocks that are read at once: at first, and at most.
const BLOCKS_MIN: u64 = 4;
const BLOCKS_MAX: u64 = 32;

/// How long a stream has gone on without a jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Going {
    /// The block after the last one read.
    next: u32,
    /// Blocks read since the last jump.
    blocks: u64,
    /// The first block whose map block was not returned yet.
    looked: u32,
}

impl Going {
    /// Called for each read.
    pub fn note(&mut self, access: &Access) {
        let goes_on = access.block == self.next || access.block.saturating_add(1) == self.next;
        let before = if goes_on { self.blocks } else { 0 };
        self.blocks = before.saturating_add(access.count.into());
        self.next = access.end();
        if !goes_on {
            self.looked = 0;
        }
    }

    /// The first block of a range of the file whose map block was not returned yet, and how many
    /// map blocks may be read from that one on; `None` for none. Each is returned once. A map block
    /// maps `mapped` blocks of `block_size` bytes; the first `direct` blocks of a file have none.
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
