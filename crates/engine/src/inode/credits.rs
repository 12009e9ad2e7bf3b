//! How many blocks of metadata an operation changes at most, step by step.
//!
//! Descriptors of groups and the superblock are not counted: a sweep stores them once for all
//! operations that it contains.

/// The block of the inode table that an inode is in.
pub(crate) const INODE: u32 = 1;

/// One run more in a map, or one less: the nodes on the way to it and a new one beside each (an
/// extent tree has at most five levels below the inode), the bitmaps that the new nodes come from,
/// those that the run is in, and those of a window that is given back.
pub(crate) const RUN: u32 = 6 + 6 + 6 + 4;

/// The attributes of an inode: its own block, a shared one with a reference less, and two bitmaps.
pub(crate) const ATTRIBUTES: u32 = 4;

/// One name more in a directory: the leaf and a new one, three levels of index and a new block for
/// each, and what mapping these takes. They are mapped in a row, so that nodes on the way count
/// once.
pub(crate) const NAME: u32 = 2 + 3 + 4 + RUN + 4;

/// A new inode: two bitmaps, its table block and the one before it, and a first block of its own
/// with the bitmap that it comes from.
pub(crate) const NEW_INODE: u32 = 2 + 2 + 1 + 1;
