//! The order of all locks. A thread takes them in this order; debug builds panic when it does not.
//!
//! ```text
//! sleeping   renaming > inode (several: ancestor first, parent before child, children by number)
//!            > loading > sweep > checkpoint > gate > quotas > superblock
//!            > flushing
//! short      nodes > group > orphans > shard > dirty list > frame > arrivals > inner > last
//! ```
//!
//! Sleeping locks may be held while the device is waited for, short ones may not. There is no lock
//! on the superblock in the way of an allocation: free space is one atomic promise, exact counts
//! are in the groups. (`superblock` is such a lock, for the presets of systems that had it.)
use extant_block::Rank;

/// Held by a rename, so that the tree of directories stays as it is.
pub const RENAMING: Rank = Rank::one(1, "the lock of renames");
/// An inode in memory.
pub const INODE: Rank = Rank::several(2, "an inode");
/// Held while an inode is read from its table.
pub const LOADING: Rank = Rank::one(3, "the lock of loading inodes");
/// Held by the thread that writes frames.
pub(crate) const SWEEP: Rank = Rank::one(4, "the lock of sweeps");
/// Held by the thread that writes committed blocks to their place.
pub(crate) const CHECKPOINT: Rank = Rank::one(5, "the lock of checkpoints");
/// Held shared by an operation, exclusively by a sweep that freezes.
pub(crate) const GATE: Rank = Rank::one(6, "the gate");
/// Held while the entry of an owner is looked up in a quota file, or made there.
pub const QUOTAS: Rank = Rank::one(7, "the lock of quotas");
/// Held while bitmaps are read, where the policy says so.
pub(crate) const SUPERBLOCK: Rank = Rank::one(8, "the lock of the superblock");
/// Held while the device flushes, and while a failure is noted on it.
pub(crate) const FLUSHING: Rank = Rank::one(9, "the lock of flushes");
/// A shard of the table of nodes.
pub const NODES: Rank = Rank::one(10, "a shard of nodes");
/// A group.
pub(crate) const GROUP: Rank = Rank::one(11, "a group");
/// The list of orphans.
pub const ORPHANS: Rank = Rank::one(12, "the list of orphans");
/// A shard of the cache.
pub(crate) const SHARD: Rank = Rank::one(13, "a shard of the cache");
/// The list of dirty frames.
pub(crate) const DIRTY_LIST: Rank = Rank::one(14, "the list of dirty frames");
/// A frame.
pub(crate) const FRAME: Rank = Rank::one(15, "a frame");
/// What is on its way into the pages of a file.
pub const ARRIVALS: Rank = Rank::one(16, "arriving pages");
/// The pages of a file; the list of inodes that are not stored.
pub const INNER: Rank = Rank::one(17, "pages, or a list of inodes");
/// Nothing is taken under these: windows, the lists of groups, pages, writes under way, the latch,
/// the budget.
pub const LAST: Rank = Rank::one(18, "a lock that comes last");
