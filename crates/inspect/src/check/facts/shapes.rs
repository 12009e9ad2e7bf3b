//! The maps and directories that could be smaller, or be searched faster: nothing of them is wrong.
//!
//! *Invariants*: no list holds more than [`LISTED_MAX`]; what is read of it is sorted, and has each
//! inode once, whoever walked its map.
//! *Locking*: one short lock around each list, held for a push or a copy.
use extant_block::ShortLock;
use extant_format::Ino;
use std::sync::atomic::{AtomicU32, Ordering};

/// Inodes of a list that are kept.
const LISTED_MAX: usize = 500_000;

/// What could be smaller or faster.
#[derive(Default)]
pub(crate) struct Shapes {
    large_trees: ShortLock<Vec<Ino>>,
    unindexed: ShortLock<Vec<Ino>>,
    /// `lost+found` of the root; 0 while it was not met.
    lost_found: AtomicU32,
}

impl Shapes {
    /// Adds a file whose extent tree could be smaller.
    pub(crate) fn add_large_tree(&self, ino: Ino) {
        push(&self.large_trees, ino);
    }

    /// Adds a directory that could have an index and has none.
    pub(crate) fn add_unindexed(&self, ino: Ino) {
        push(&self.unindexed, ino);
    }

    /// The directory of that name was met.
    pub(crate) fn set_lost_found(&self, ino: Ino) {
        self.lost_found.store(ino.0, Ordering::Relaxed);
    }

    /// Files whose extent tree could be smaller, rising.
    pub(crate) fn large_trees(&self) -> Vec<Ino> {
        sorted(&self.large_trees)
    }

    /// Directories that could have an index and have none, rising. What is in lost+found is looked
    /// at once, and its blocks are kept for what comes.
    pub(crate) fn unindexed(&self) -> Vec<Ino> {
        let mut unindexed = sorted(&self.unindexed);
        unindexed.retain(|ino| ino.0 != self.lost_found.load(Ordering::Relaxed));
        unindexed
    }
}

fn push(list: &ShortLock<Vec<Ino>>, ino: Ino) {
    let mut list = list.lock();
    if list.len() < LISTED_MAX {
        list.push(ino);
    }
}

fn sorted(list: &ShortLock<Vec<Ino>>) -> Vec<Ino> {
    let mut list = list.lock().clone();
    list.sort_unstable();
    list.dedup();
    list
}
