//! Which inodes were changed and are not in their table, or not on the disk.
//!
//! *Invariants*: an inode in `inodes` has a node in memory.
//! *Locking*: both locks are short, and nothing else is taken under them.
use crate::ranks;
use extant_block::ShortLock;
use extant_format::{BlockNo, Ino};
use std::collections::{BTreeMap, BTreeSet};

/// See the head of the file.
pub(crate) struct Unstored {
    /// Inodes that were changed in memory and not yet in their table, and since when (by the
    /// clock): where table blocks are read late, and where only access times changed.
    pub(crate) inodes: ShortLock<BTreeMap<Ino, u64>>,
    /// Table blocks of inodes that were changed: what a call on a synchronous mount has to write.
    pub(crate) tables: ShortLock<BTreeSet<BlockNo>>,
}

impl Default for Unstored {
    /// None.
    fn default() -> Unstored {
        Unstored {
            inodes: ShortLock::ranked(ranks::INNER, BTreeMap::new()),
            tables: ShortLock::ranked(ranks::LAST, BTreeSet::new()),
        }
    }
}
