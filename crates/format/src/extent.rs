//! Extent trees: nodes on plain bytes. A node is `i_block` (60 bytes) or a block (with a checksum tail).
use crate::{BlockNo, Fault, FileBlock};

/// Longest initialised extent, in blocks; one less for uninitialised ones.
pub const MAX_LENGTH: u32 = 32768;
/// Deepest tree: the root's depth field.
pub const MAX_DEPTH: u16 = 5;

/// Whether an extent's blocks hold data or read as zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum State {
    /// Holds data.
    Written,
    /// Allocated, reads as zeros.
    Unwritten,
}

/// A leaf entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First file block.
    pub file_block: FileBlock,
    /// Blocks: 1..=32768 (32767 when unwritten).
    pub length: u32,
    /// First block on the volume.
    pub start: BlockNo,
    /// Data or zeros.
    pub state: State,
}

/// An index entry: the child node covers file blocks from `file_block` up to the next entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Index {
    /// First file block covered.
    pub file_block: FileBlock,
    /// The child.
    pub child: BlockNo,
}

/// A checked view of a node's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    bytes: &'a [u8],
}

impl<'a> Node<'a> {
    /// Checks header (magic, entries <= max <= what fits, depth == `depth` when given), and that entries rise, do not
    /// overlap, have lengths and lie inside `blocks_count`. Not the checksum.
    pub fn parse(_bytes: &'a [u8], _depth: Option<u16>, _blocks_count: u64) -> Result<Node<'a>, Fault> {
        todo!()
    }
    /// 0 for a leaf.
    pub fn depth(&self) -> u16 {
        todo!()
    }
    /// Entries in use.
    pub fn len(&self) -> usize {
        let _ = self.bytes;
        todo!()
    }
    /// Whether no entry is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Entries that fit.
    pub fn capacity(&self) -> usize {
        todo!()
    }
    /// Entry `at` of a leaf. Panics when `at >= len()` or not a leaf: the caller knows both.
    pub fn extent(&self, _at: usize) -> Extent {
        todo!()
    }
    /// Entry `at` of an index node. Panics as `extent`.
    pub fn index(&self, _at: usize) -> Index {
        todo!()
    }
    /// The last entry whose first file block is <= `block` (binary search); `None` before the first.
    pub fn find(&self, _block: FileBlock) -> Option<usize> {
        todo!()
    }
}

/// Entries that fit in a node of that many bytes (60, or a block; a block leaves 4 bytes for the checksum tail always).
pub fn capacity(_bytes: usize) -> usize {
    todo!()
}
/// Writes an empty node's header over `bytes`.
pub fn initialize(_bytes: &mut [u8], _depth: u16) {
    todo!()
}
/// Inserts an entry at `at` of a leaf that has room. Panics when full.
pub fn insert_extent(_bytes: &mut [u8], _at: usize, _extent: Extent) {
    todo!()
}
/// Overwrites entry `at` of a leaf.
pub fn set_extent(_bytes: &mut [u8], _at: usize, _extent: Extent) {
    todo!()
}
/// Inserts an entry at `at` of an index node that has room. Panics when full.
pub fn insert_index(_bytes: &mut [u8], _at: usize, _index: Index) {
    todo!()
}
/// Overwrites entry `at` of an index node.
pub fn set_index(_bytes: &mut [u8], _at: usize, _index: Index) {
    todo!()
}
/// Removes entry `at` of either kind.
pub fn remove(_bytes: &mut [u8], _at: usize) {
    todo!()
}
/// Moves the entries from `at` on to the start of the empty node `to` (initialised with the same depth).
pub fn split_off(_bytes: &mut [u8], _at: usize, _to: &mut [u8]) {
    todo!()
}
/// Copies a whole node (all entries, same depth) from `from` into `to`, whose capacity may be larger (root grows deeper,
/// or a child collapses into the root); the destination's max is its own.
pub fn copy(_from: &[u8], _to: &mut [u8]) {
    todo!()
}
/// Stores the checksum tail of an extent block.
pub fn seal(_bytes: &mut [u8], _inode_seed: u32) {
    todo!()
}
/// Verifies the checksum tail of an extent block.
pub fn verify(_bytes: &[u8], _inode_seed: u32) -> Result<(), Fault> {
    todo!()
}
