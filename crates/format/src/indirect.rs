//! The classic map: twelve direct blocks and three trees, on plain bytes.
use crate::FileBlock;

/// Pointers in the inode before the trees.
pub const DIRECT: u32 = 12;

/// The way to a file block: how many steps (1 for direct, up to 4), and the index at each: first into `i_block`, then
/// into each indirect block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// 1..=4.
    pub depth: usize,
    /// `index[0]` is in 0..15; the others in 0..pointers-per-block.
    pub index: [u32; 4],
}

/// The path of a file block; `None` beyond the triple tree.
pub fn path(_block: FileBlock, _block_size_log2: u8) -> Option<Path> {
    todo!()
}
/// The pointer at `index` of an indirect block or of `i_block`.
pub fn pointer(_bytes: &[u8], _index: u32) -> u32 {
    todo!()
}
/// Stores a pointer.
pub fn set_pointer(_bytes: &mut [u8], _index: u32, _block: u32) {
    todo!()
}
/// How many indirect blocks a file needs whose mapped blocks are the ranges given (rising, disjoint), in all.
pub fn blocks_needed(_ranges: impl IntoIterator<Item = std::ops::Range<u32>>, _block_size_log2: u8) -> u64 {
    todo!()
}
/// File blocks reachable: 12 + n + n^2 + n^3, capped at 2^32 - 1.
pub fn capacity(_block_size_log2: u8) -> u64 {
    todo!()
}
