//! How many blocks of metadata the steps of an operation change at most. Debug builds count what is
//! changed and panic when it is more.
//!
//! Group descriptors and the superblock are not counted: they are stored once for all operations
//! that a sweep contains.
//!
//! | operation | blocks, or blocks of one step |
//! | --- | --- |
//! | change of mode, owner, times, attributes, access lists | [`CHANGE`] |
//! | new inode with its name | `MAKE`: [`NEW_INODE`] + [`ATTRIBUTES`] + [`NAME`] + 2 |
//! | name for an inode that is there | [`NAME`] + 2 + [`ORPHAN`] |
//! | removal of a name | `UNLINK`: 4, then as freeing |
//! | rename | `RENAME`: [`NAME`] + 17, then as freeing |
//! | freeing, truncation, hole, allocation, zeroing, write-back | steps of [`STEP`] |
//! | collapse, insertion, making a map dense | one step if that is enough, else steps |
//!
//! No step changes more than [`STEP_MAX`] blocks, so that four fit into a transaction of a log of
//! 1,024 blocks. Work of any length is a loop of steps (`unfinished::pause`). What makes a volume
//! (mkfs, import), which no journal records, may need more at once.

/// No step changes more blocks than this.
pub(crate) const STEP_MAX: u32 = 64;

/// The block of the inode table that holds an inode.
pub(crate) const INODE: u32 = 1;

/// The table block of the orphan before one that leaves the list.
pub(crate) const ORPHAN: u32 = 1;

/// Levels of a map below the inode: an extent tree has at most five, a map of indirect blocks
/// three.
const LEVELS: u32 = 5;

/// Groups that a run touches which one step allocates or frees, at most.
pub(crate) const GROUPS: u32 = 8;

/// Adding or removing a run in a map: the nodes on the path to it; two new ones beside each,
/// because with data first a node that splits moves to new blocks; a bitmap for each node that is
/// new or freed; the bitmaps of the run, and of a window that is given back.
pub(crate) const RUN: u32 = LEVELS + 2 * LEVELS + 3 * LEVELS + GROUPS + 2;

/// One step of long work on a map, with the store of the inode at its end.
pub(crate) const STEP: u32 = RUN + INODE;

/// The attributes of an inode: its own block, a shared block that loses a reference, two bitmaps.
pub(crate) const ATTRIBUTES: u32 = 4;

/// Changing an inode and its attributes, in its table entry and in their block.
pub(crate) const CHANGE: u32 = ATTRIBUTES + INODE;

/// Adding a name to a directory: the leaf, two levels of index above it, and two new blocks, which
/// are mapped one after the other at the end of the directory, so that the second one needs no node
/// and one bitmap more.
pub(crate) const NAME: u32 = 1 + 2 + 2 + RUN + 1;

/// A new inode: two bitmaps, its table block and the one before it, and a first block of its own
/// with that block's bitmap.
pub(crate) const NEW_INODE: u32 = 2 + 2 + 1 + 1;

/// A new entry of a quota file, beside what an operation said: the head, four blocks of the tree, a
/// leaf and the one after it, and up to four blocks by which the file grows, with their bitmaps.
pub(crate) const QUOTA_ENTRY: u32 = 1 + 4 + 2 + RUN + 2 * 4 + INODE;

const _: () = assert!(STEP <= STEP_MAX && NAME + INODE + ORPHAN <= STEP_MAX);
