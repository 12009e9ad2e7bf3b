//! Which inodes were changed in memory and are not in their table, or not on disk.
//!
//! *Invariants*: an inode in `inodes` has a node in memory, and enters and leaves under that node's
//! lock. `count` is its length.
//! *Locking*: three short locks. Under `inodes` only `space.windows` may be taken, under `tables`
//! and `maps` no other lock.
use crate::ranks;
use extant_block::ShortLock;
use extant_format::{BlockNo, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Changed inodes of one volume.
pub(crate) struct Unstored {
    /// Inodes that are not in their table yet, and since when, in nanoseconds of the clock: where
    /// inodes are stored late, or only access times changed.
    pub(crate) inodes: ShortLock<BTreeMap<Ino, u64>>,
    /// How many there are: where there are none, which is most of the time, no lock is needed to
    /// know that.
    count: AtomicUsize,
    /// Table blocks with changed inodes, which a call on a synchronous mount has to write.
    pub(crate) tables: ShortLock<BTreeSet<BlockNo>>,
    /// New indirect blocks, which the call that made them has to write under `mount=sync-maps`.
    pub(crate) maps: ShortLock<BTreeSet<BlockNo>>,
}

impl Default for Unstored {
    /// None.
    fn default() -> Unstored {
        Unstored {
            inodes: ShortLock::ranked(ranks::INNER, BTreeMap::new()),
            count: AtomicUsize::new(0),
            tables: ShortLock::ranked(ranks::LAST, BTreeSet::new()),
            maps: ShortLock::ranked(ranks::LAST, BTreeSet::new()),
        }
    }
}

impl Unstored {
    /// Notes an inode, unstored since `now` unless it was before. Returns how many are unstored if
    /// this adds one. Its node is locked.
    pub(crate) fn note(&self, ino: Ino, now: u64) -> Option<usize> {
        let mut inodes = self.inodes.lock();
        let before = inodes.len();
        inodes.entry(ino).or_insert(now);
        self.count.store(inodes.len(), Ordering::Release);
        (inodes.len() > before).then_some(inodes.len())
    }

    /// Notes that an inode is stored. Its node is locked.
    pub(crate) fn remove(&self, ino: Ino) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut inodes = self.inodes.lock();
            inodes.remove(&ino);
            self.count.store(inodes.len(), Ordering::Release);
        }
    }
}
