//! Which inodes were changed in memory and are not in their table, or not on disk.
//!
//! *Invariants*: an inode in `inodes` has a node in memory.
//! *Locking*: two short locks. Under `inodes` only `space.windows` may be taken, under `tables` no
//! other lock.
use crate::ranks;
use extant_block::ShortLock;
use extant_format::{BlockNo, Ino};
use std::collections::{BTreeMap, BTreeSet};

/// Changed inodes of one volume.
pub(crate) struct Unstored {
    /// Inodes that are not in their table yet, and since when, in nanoseconds of the clock: where
    /// inodes are stored late, or only access times changed.
    pub(crate) inodes: ShortLock<BTreeMap<Ino, u64>>,
    /// Table blocks with changed inodes, which a call on a synchronous mount has to write.
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
