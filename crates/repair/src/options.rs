//! How a volume is mended.
use extant_inspect::{Listener, SuperblockPlace};
use std::fs::File;
use std::num::NonZeroU32;

/// What may be mended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// What e2fsck mends under `-p`, without asking anybody.
    Preen,
    /// All that loses no byte of a file, no name and no attribute.
    Safe,
    /// Everything.
    All,
}

/// When a directory `lost+found` is made that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostFound {
    /// When something gets a name in it.
    WhereNeeded,
    /// Always, as e2fsck does.
    Always,
}

/// What is made smaller or faster where nothing is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Optimize {
    /// Nothing.
    Nothing,
    /// Directories of three blocks and more get an index, as by e2fsck with any of its options that
    /// write.
    Directories,
    /// Those, and extent trees get the fewest blocks, as by `e2fsck -y`.
    DirectoriesAndTrees,
}

/// How a volume is mended.
pub struct RepairOptions {
    /// What may be mended.
    pub scope: Scope,
    /// The superblock by which it is mended, written to the first place; without one, the first one
    /// or the copy that fits best.
    pub superblock: Option<SuperblockPlace>,
    /// When `lost+found` is made.
    pub lost_found: LostFound,
    /// What is made smaller or faster when nothing is wrong any more.
    pub optimize: Optimize,
    /// Threads of each check.
    pub threads: NonZeroU32,
    /// An empty file for the changes that do not fit into memory.
    pub spool: Option<File>,
    /// The time that is written into inodes and the superblock, in seconds since 1970.
    pub now_seconds: u64,
    /// Called now and then with how far a check is.
    pub progress: Option<Listener>,
}
