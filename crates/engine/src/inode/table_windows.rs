//! How much of the inode tables is read at once, learned from what became of it.
//!
//! A window of a table is read around a block that is wanted. Whether the other blocks of a window
//! are wanted later depends on the work: a walk in the order of the table wants all of them at
//! once, one over a tree that months have scattered wants them one by one, or never. Each block
//! that was brought along and is wanted saves a read, and a read costs a disk, a network volume or
//! an object store about what [`WORTH_BLOCKS`] more blocks of a read that is made anyway do. So
//! windows double while at least one block in that many is wanted, and halve while fewer than one
//! in four times as many is.
//!
//! *Invariants*: `ahead` has only blocks that were brought along and not wanted since; it is
//! emptied when it has [`CHUNKS_MAX`] entries, so its memory is bounded. A window has
//! [`BLOCKS_MIN`] to [`BLOCKS_MAX`] blocks.
//! *Locking*: `state` is a short lock under which no other is taken. `left` is read without it.
use crate::ranks;
use extant_block::ShortLock;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Windows have at least this many blocks: what ext4 reads, 32 KiB.
pub(super) const BLOCKS_MIN: u32 = 8;
/// Windows have at most this many blocks: with blocks of 4 KiB what a disk passes in the time of a
/// short seek, and the size of a request that most hosts send as one.
const BLOCKS_MAX: u32 = 64;
/// How many blocks a read that is made anyway can bring along for what a read of its own costs: a
/// seek and half a turn are 10 ms, in which a slow disk passes 512 KiB.
const WORTH_BLOCKS: u64 = 128;
/// A window shrinks only after this many blocks, so that a few unlucky ones do not decide. What is
/// older than that is forgotten.
const SHRINK_BLOCKS: u64 = 8 * WORTH_BLOCKS;
/// Entries of `ahead` at most, of 64 blocks each: 64 KiB of memory.
const CHUNKS_MAX: usize = 4096;

/// What is known of the windows of one volume.
pub(crate) struct TableWindows {
    state: ShortLock<State>,
    /// Blocks in `ahead`. Most blocks are wanted when there are none, and need no lock then.
    left: AtomicU64,
}

struct State {
    /// How many blocks the next window has.
    blocks: u32,
    /// Blocks brought along since the size last changed, and how many of them were wanted.
    brought: u64,
    wanted: u64,
    /// Blocks brought along and not wanted yet: a bit each, by their number over 64.
    ahead: FxHashMap<u64, u64>,
    /// How many bits of `ahead` are set.
    left: u64,
}

impl Default for TableWindows {
    fn default() -> TableWindows {
        let ahead = FxHashMap::default();
        let state = State { blocks: BLOCKS_MIN, brought: 0, wanted: 0, ahead, left: 0 };
        TableWindows { state: ShortLock::ranked(ranks::LAST, state), left: AtomicU64::new(0) }
    }
}

impl TableWindows {
    /// Notes that a block of a table is wanted.
    pub(super) fn want(&self, block: u64) {
        if self.left.load(Ordering::Acquire) > 0 {
            let mut state = self.state.lock();
            state.want(block);
            self.left.store(state.left, Ordering::Release);
        }
    }

    /// How many blocks the next window has.
    pub(super) fn blocks(&self) -> u32 {
        self.state.lock().blocks
    }

    /// Notes which blocks are read with one that is wanted.
    pub(super) fn bring(&self, along: impl Iterator<Item = u64>) {
        // The caller's cache is asked before the lock is taken.
        let along: Vec<u64> = along.collect();
        let mut state = self.state.lock();
        along.into_iter().for_each(|block| state.bring(block));
        state.decide();
        self.left.store(state.left, Ordering::Release);
    }
}

impl State {
    fn want(&mut self, block: u64) {
        if let Some(bits) = self.ahead.get_mut(&(block / 64)) {
            let bit = 1 << (block % 64);
            let was_brought = u64::from(*bits & bit != 0);
            self.wanted += was_brought;
            self.left -= was_brought;
            *bits &= !bit;
        }
    }

    fn bring(&mut self, block: u64) {
        if self.ahead.len() >= CHUNKS_MAX && !self.ahead.contains_key(&(block / 64)) {
            self.ahead.clear();
            self.left = 0;
        }
        let (bits, bit) = (self.ahead.entry(block / 64).or_default(), 1 << (block % 64));
        self.left += u64::from(*bits & bit == 0);
        *bits |= bit;
        self.brought += 1;
    }

    /// Changes the size if what is known says so.
    fn decide(&mut self) {
        let before = self.blocks;
        if self.wanted > 0 && self.wanted.saturating_mul(WORTH_BLOCKS) >= self.brought {
            self.blocks = (before * 2).min(BLOCKS_MAX);
        } else if self.brought >= SHRINK_BLOCKS
            && self.wanted.saturating_mul(4 * WORTH_BLOCKS) < self.brought
        {
            self.blocks = (before / 2).max(BLOCKS_MIN);
        }
        if self.blocks != before || self.brought >= SHRINK_BLOCKS {
            (self.brought, self.wanted) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the window of a block, aligned, unless an earlier one brought it.
    fn look(windows: &TableWindows, read: &mut std::collections::BTreeSet<u64>, block: u64) {
        windows.want(block);
        if !read.contains(&block) {
            let blocks = u64::from(windows.blocks());
            let first = block - block % blocks;
            let along = first..first + blocks;
            windows.bring(along.filter(|at| *at != block && !read.contains(at)));
            read.extend(first..first + blocks);
        }
    }

    #[test]
    fn windows_grow_while_what_they_bring_is_wanted() {
        let (windows, mut read) = (TableWindows::default(), Default::default());
        (0..8).for_each(|block| look(&windows, &mut read, block));
        assert_eq!(windows.blocks(), 8, "nothing is known before the second window");
        (8..200).for_each(|block| look(&windows, &mut read, block));
        assert_eq!(windows.blocks(), BLOCKS_MAX);
    }

    #[test]
    fn windows_shrink_while_nothing_of_them_is_wanted() {
        let (windows, mut read) = (TableWindows::default(), Default::default());
        (0..200).for_each(|block| look(&windows, &mut read, block));
        let far = |number: u64| 1_000_000 + 1_000 * number;
        (0..20).for_each(|number| look(&windows, &mut read, far(number)));
        assert!(windows.blocks() > BLOCKS_MIN, "a few unlucky ones do not decide");
        (20..200).for_each(|number| look(&windows, &mut read, far(number)));
        assert_eq!(windows.blocks(), BLOCKS_MIN);
    }

    #[test]
    fn a_block_that_is_wanted_twice_saves_one_read() {
        let windows = TableWindows::default();
        windows.bring(1..8);
        (0..5).for_each(|_| windows.want(3));
        assert_eq!(windows.state.lock().wanted, 1);
        windows.want(0);
        assert_eq!(windows.state.lock().wanted, 1, "the block that was wanted first");
    }

    #[test]
    fn memory_is_bounded() {
        let windows = TableWindows::default();
        (0..100_000).for_each(|number| windows.bring(number * 64 + 1..number * 64 + 8));
        assert!(windows.state.lock().ahead.len() <= CHUNKS_MAX);
    }
}
