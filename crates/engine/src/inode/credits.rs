//! How many blocks of metadata the steps of an operation change at most.
//!
//! Group descriptors and the superblock are not counted: a sweep stores them once for all
//! operations that it contains.

/// The block of the inode table that holds an inode.
pub(crate) const INODE: u32 = 1;

/// Adding or removing a run in a map: the nodes on the path to it and a new one beside each (an
/// extent tree has at most five levels below the inode), the bitmaps that the new nodes come from,
/// those of the run itself, and those of a window that is given back.
pub(crate) const RUN: u32 = 6 + 6 + 6 + 4;

/// The attributes of an inode: its own block, a shared block that loses a reference, two bitmaps.
pub(crate) const ATTRIBUTES: u32 = 4;

/// Changing an inode and its attributes, in its table entry and in their block.
pub(crate) const CHANGE: u32 = ATTRIBUTES + INODE;

/// Adding a name to a directory: the leaf and a new one, three levels of index and a new block for
/// each, and what mapping these takes. They are mapped one after the other, so the nodes on the
/// path count once.
pub(crate) const NAME: u32 = 2 + 3 + 4 + RUN + 4;

/// A new inode: two bitmaps, its table block and the one before it, and a first block of its own
/// with that block's bitmap.
pub(crate) const NEW_INODE: u32 = 2 + 2 + 1 + 1;
