//! The classic map: twelve direct blocks and three trees, on plain bytes.
//!
//! ```text
//! i_block  | 0 .. 11: data | 12: single | 13: double | 14: triple |
//!                              n data     n x n        n x n x n        n = pointers in a block
//! ```
use crate::FileBlock;
use std::ops::Range;

/// Pointers in the inode before the trees.
pub const DIRECT: u32 = 12;
/// Which pointers in the inode are the roots of the trees: single, double, triple.
pub const TREES: [u32; 3] = [12, 13, 14];
/// Pointers in the inode.
pub const ROOTS: u32 = 15;

/// The way to a file block: how many steps (1 for direct, up to 4), and the index at each: first
/// into `i_block`, then into each indirect block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// 1..=4.
    pub depth: usize,
    /// `index[0]` is in 0..15; the others in 0..pointers-per-block.
    pub index: [u32; 4],
}

/// log2 of the pointers in a block: 8 for 1 KiB, 14 for 64 KiB.
pub fn pointers_log2(block_size_log2: u8) -> u32 {
    debug_assert!((10..=16).contains(&block_size_log2), "blocks of 2^{block_size_log2} bytes");
    u32::from(block_size_log2).saturating_sub(2)
}

/// The file blocks under the tree of this height (1..=3).
pub fn tree(height: u32, block_size_log2: u8) -> Range<u64> {
    let log2 = pointers_log2(block_size_log2);
    // At most 2^42 blocks under the triple tree of 64 KiB blocks.
    let size = |height: u32| 1_u64 << height.saturating_mul(log2);
    let start =
        (1..height).fold(u64::from(DIRECT), |start, height| start.saturating_add(size(height)));
    start..start.saturating_add(size(height))
}

/// The path of a file block; `None` beyond the triple tree.
pub fn path(block: FileBlock, block_size_log2: u8) -> Option<Path> {
    if block.0 < DIRECT {
        return Some(Path { depth: 1, index: [block.0, 0, 0, 0] });
    }
    let log2 = pointers_log2(block_size_log2);
    let mask = 1_u64.checked_shl(log2)?.checked_sub(1)?;
    let block = u64::from(block.0);
    let (height, offset) = (1..=3).find_map(|height| {
        let tree = tree(height, block_size_log2);
        tree.contains(&block).then(|| (height, block.saturating_sub(tree.start)))
    })?;
    let mut index = [DIRECT.saturating_add(height).saturating_sub(1), 0, 0, 0];
    for (slot, level) in index.iter_mut().skip(1).zip((0..height).rev()) {
        *slot = ((offset >> level.saturating_mul(log2)) & mask) as u32;
    }
    Some(Path { depth: height.saturating_add(1) as usize, index })
}

/// The pointer at `index` of an indirect block or of `i_block`. Panics beyond their end.
// The documented panic: an index comes from `path`, not from the disk.
#[allow(clippy::indexing_slicing)]
pub fn pointer(bytes: &[u8], index: u32) -> u32 {
    u32::from_le_bytes(bytes.as_chunks().0[index as usize])
}

/// All pointers of an indirect block or of `i_block`, in order.
pub fn pointers(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word))
}

/// Stores a pointer. Panics as `pointer`.
#[allow(clippy::indexing_slicing)] // as above
pub fn set_pointer(bytes: &mut [u8], index: u32, block: u32) {
    bytes.as_chunks_mut().0[index as usize] = block.to_le_bytes();
}

/// How many indirect blocks a file needs whose mapped blocks are the ranges given (rising,
/// disjoint), in all. Blocks that no path leads to count nothing. Takes a time proportional to the
/// number of ranges.
pub fn blocks_needed(ranges: impl IntoIterator<Item = Range<u32>>, block_size_log2: u8) -> u64 {
    let log2 = pointers_log2(block_size_log2);
    let trees = [1, 2, 3].map(|height| (height, tree(height, block_size_log2)));
    // Per tree and level: the last indirect block that was counted. Ranges rise, so only it can be
    // met again.
    let mut last = [[None::<u64>; 3]; 3];
    let mut blocks = 0_u64;
    for range in ranges {
        for ((height, tree), last) in trees.iter().zip(&mut last) {
            let start = u64::from(range.start).max(tree.start);
            let end = u64::from(range.end).min(tree.end);
            if start >= end {
                continue;
            }
            let first_offset = start.saturating_sub(tree.start);
            let last_offset = end.saturating_sub(tree.start).saturating_sub(1);
            // A block of level 1 points at data, one of level `height` is the tree's root.
            for (level, last) in (1..=*height).zip(last) {
                let shift = level.saturating_mul(log2);
                let (from, to) = (first_offset >> shift, last_offset >> shift);
                let known = u64::from(*last == Some(from));
                blocks = blocks.saturating_add(
                    to.saturating_sub(from).saturating_add(1).saturating_sub(known),
                );
                *last = Some(to);
            }
        }
    }
    blocks
}

/// File blocks reachable: 12 + n + n^2 + n^3, capped at 2^32 - 1.
pub fn capacity(block_size_log2: u8) -> u64 {
    tree(3, block_size_log2).end.min(u64::from(u32::MAX))
}
