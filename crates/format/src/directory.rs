//! Directory blocks on plain bytes: entries, and the nodes of the hash index.
//!
//! A leaf block is a chain of entries that covers the block exactly; with metadata_csum its last 12 bytes are a tail
//! that looks like an unused entry. Record lengths of 65,536 are stored specially in 64 KiB blocks.
use crate::superblock::HashVersion;
use crate::{Fault, FileBlock, Ino};
use crate::inode::FileType;

/// Longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// What all blocks of directories on one volume have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Bytes of a block.
    pub block_size: u32,
    /// Entries hold a type byte (filetype).
    pub typed: bool,
    /// Blocks end with a checksum tail (metadata_csum).
    pub checksummed: bool,
}

/// One entry, borrowed from its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Byte offset in the block.
    pub offset: usize,
    /// 0 marks an unused one.
    pub ino: Ino,
    /// `None` where the volume keeps no types or the code is unknown.
    pub file_type: Option<FileType>,
    /// 1..=255 bytes.
    pub name: &'a [u8],
}

impl Style {
    /// Bytes that an entry with a name of this length needs: 8 + length, rounded up to 4.
    pub fn entry_size(&self, _name_length: usize) -> usize {
        todo!()
    }
    /// Bytes for entries in a leaf.
    pub fn leaf_capacity(&self) -> usize {
        todo!()
    }
    /// Walks the used entries of a leaf (also "." and ".."; not the tail). An item is an error, and the last one, where
    /// the chain is broken: length not a multiple of 4, too short for the name, across the end, name of no bytes.
    pub fn entries<'a>(&self, _bytes: &'a [u8]) -> impl Iterator<Item = Result<Entry<'a>, Fault>> + 'a {
        std::iter::empty()
    }
    /// Finds a name in a leaf.
    pub fn find<'a>(&self, _bytes: &'a [u8], _name: &[u8]) -> Result<Option<Entry<'a>>, Fault> {
        todo!()
    }
    /// Makes `bytes` an empty leaf: one unused entry over all of it, and the tail.
    pub fn initialize(&self, _bytes: &mut [u8]) {
        todo!()
    }
    /// Inserts an entry where there is room (an unused entry, or the slack behind a used one); false if there is none.
    pub fn insert(&self, _bytes: &mut [u8], _name: &[u8], _ino: Ino, _file_type: FileType) -> Result<bool, Fault> {
        todo!()
    }
    /// Whether `insert` of a name of this length would find room.
    pub fn has_room(&self, _bytes: &[u8], _name_length: usize) -> Result<bool, Fault> {
        todo!()
    }
    /// Removes a name (its space goes to the entry before it); false if it is not there.
    pub fn remove(&self, _bytes: &mut [u8], _name: &[u8]) -> Result<bool, Fault> {
        todo!()
    }
    /// Points an existing name at another inode; false if it is not there.
    pub fn replace(&self, _bytes: &mut [u8], _name: &[u8], _ino: Ino, _file_type: FileType) -> Result<bool, Fault> {
        todo!()
    }
    /// Makes `bytes` a leaf that holds exactly these entries, packed, in this order. Panics when they do not fit.
    pub fn pack<'n>(&self, _bytes: &mut [u8], _entries: impl Iterator<Item = (&'n [u8], Ino, FileType)>) {
        todo!()
    }
    /// The first block of a new directory: "." and ".." .
    pub fn initialize_first(&self, _bytes: &mut [u8], _ino: Ino, _parent: Ino) {
        todo!()
    }
    /// Stores the checksum of a leaf or index block (it tells which by its content), when checksummed.
    /// `is_first` says that this is block 0, which may be an index root.
    pub fn seal(&self, _bytes: &mut [u8], _block: FileBlock, _indexed: bool, _inode_seed: u32) {
        todo!()
    }
    /// Verifies what `seal` stores.
    pub fn verify(&self, _bytes: &[u8], _block: FileBlock, _indexed: bool, _inode_seed: u32) -> Result<(), Fault> {
        todo!()
    }

    // The hash index. A root is block 0: entries "." and ".." and behind them the index; a node is a later block.

    /// Makes `bytes` an index root with one entry that covers everything, for `child`. Keeps nothing of what was there.
    pub fn initialize_root(&self, _bytes: &mut [u8], _ino: Ino, _parent: Ino, _hash: HashVersion, _unsigned: bool, _child: FileBlock) {
        todo!()
    }
    /// Makes `bytes` an index node without entries (count 0).
    pub fn initialize_node(&self, _bytes: &mut [u8]) {
        todo!()
    }
    /// Checks block 0 of an indexed directory and gives its index. Refuses unknown hash versions, flags and levels.
    pub fn root<'a>(&self, _bytes: &'a [u8]) -> Result<(RootInfo, IndexView<'a>), Fault> {
        todo!()
    }
    /// Checks an index node below the root and gives its index.
    pub fn node<'a>(&self, _bytes: &'a [u8]) -> Result<IndexView<'a>, Fault> {
        todo!()
    }
    /// Entries that fit in the root, and in a node.
    pub fn index_capacity(&self, _level: IndexPlace) -> usize {
        todo!()
    }
    /// Inserts an entry behind entry `at - 1`. Panics when full or `at` is 0 or beyond the count.
    pub fn insert_index(&self, _bytes: &mut [u8], _place: IndexPlace, _at: usize, _hash: u32, _child: FileBlock) {
        todo!()
    }
    /// Replaces all entries of a root or node. `entries[0].0` is ignored (the first covers from 0).
    pub fn set_index(&self, _bytes: &mut [u8], _place: IndexPlace, _entries: &[(u32, FileBlock)]) {
        todo!()
    }
    /// Sets the number of index levels below the root in the root's info.
    pub fn set_levels(&self, _root: &mut [u8], _levels: u8) {
        todo!()
    }
}

/// Where an index stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexPlace {
    /// Block 0.
    Root,
    /// A later block.
    Node,
}

/// What the root says of the whole index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootInfo {
    /// The hash.
    pub hash: HashVersion,
    /// Stored as the unsigned variant (3..=5).
    pub unsigned: bool,
    /// Index levels below the root: 0..=1 (2 only with largedir, which is refused).
    pub levels: u8,
}

/// The entries of an index block: sorted by hash; the first covers from 0.
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    bytes: &'a [u8],
}

impl IndexView<'_> {
    /// Entries in use, at least 1.
    pub fn len(&self) -> usize {
        let _ = self.bytes;
        todo!()
    }
    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }
    /// Entry `at`: lowest hash covered (0 for the first; the lowest bit set marks that the chain of equal hashes goes on
    /// from the block before) and the block.
    pub fn get(&self, _at: usize) -> (u32, FileBlock) {
        todo!()
    }
    /// The last entry whose hash is <= `hash`.
    pub fn find(&self, _hash: u32) -> usize {
        todo!()
    }
}
