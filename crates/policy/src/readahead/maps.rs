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
//!
//! `neighbours` is ours: it reads so, and a map block that is missing is not read alone either,
//! whatever asks for it. The way from a cluster to the data is longer than from a map block beside
//! them, but it is gone once for up to 32 map blocks. If the block above leads to others in the
//! cluster, these are read: random reads in a large file need them later. A file with one map block
//! shows only that it is far from its data; there the blocks around it are read, most of which are
//! the maps of other files of the same directory, and bytes that are never asked for otherwise.
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
    /// These, and with any map block that is missing those around it in its cluster.
    Neighbours,
}

/// Map blocks that are read with one that is missing, itself among them, at most.
const NEIGHBOURS_MAX: u32 = 32;

/// What is known about a map block that is not in memory, before it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingMap {
    /// Its block number.
    pub block: u32,
    /// Its place among the pointers of the block (or the inode) that leads to it.
    pub index: u32,
    /// How many pointers these are.
    pub pointers: u32,
    /// How many blocks it maps, if it is of the lowest level.
    pub mapped: u32,
}

impl MissingMap {
    /// The indices of the map blocks around it that are clustered with it, as [`is_near`] says,
    /// itself among them: at most 32. `at` returns the pointer with an index, 0 for none.
    pub fn siblings(&self, at: impl Fn(u32) -> u32) -> Range<u32> {
        let chained = |one: u32, other: u32| is_near(at(one), at(other), self.mapped);
        let most = NEIGHBOURS_MAX - 1;
        let last = self.pointers.min(self.index.saturating_add(NEIGHBOURS_MAX));
        let after = (self.index + 1..last).take_while(|next| chained(next - 1, *next)).count();
        let first = self.index.saturating_sub(most);
        let before = (first..self.index).rev().take_while(|at| chained(at + 1, *at)).count();
        let (after, before) = (after as u32, before as u32);
        // Half of them on each side, and more on one where there are fewer on the other.
        let before = before.min(most - after.min(most / 2));
        let after = after.min(most - before);
        self.index - before..self.index + after + 1
    }

    /// The blocks of the volume around it, itself among them, of which nothing is known but that
    /// they are near: at most 32.
    pub fn surroundings(&self) -> Range<u32> {
        let first = self.block - self.block % NEIGHBOURS_MAX;
        first..first.saturating_add(NEIGHBOURS_MAX)
    }
}

/// Whether two map blocks are clustered: fewer blocks apart than one of them maps, so that the
/// data between them is not theirs. 0 is near nothing.
pub fn is_near(one: u32, other: u32, mapped: u32) -> bool {
    one != 0 && other != 0 && one.abs_diff(other) < mapped
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
