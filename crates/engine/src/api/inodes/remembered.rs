//! The inodes that a kernel knows by number, counted as in FUSE: each reply with a number adds one
//! look-up, and the kernel forgets as many later.
//!
//! *Invariants*: a number is here as long as its count is above 0, and leads to the inode that was
//! remembered last; one that was freed meanwhile does not take the place of another. If a number
//! is freed and used again, look-ups of both inodes are counted together: the kernel forgets by
//! number alone.
//! *Locking*: one short lock, under which no other is taken.
use super::Inode;
use crate::ranks;
use extant_block::ShortLock;
use extant_format::Ino;
use rustc_hash::FxHashMap;

/// Inodes by number, with the look-ups that are not forgotten yet.
pub struct Remembered {
    inodes: ShortLock<FxHashMap<Ino, Counted>>,
}

struct Counted {
    inode: Inode,
    lookups: u64,
}

impl Default for Remembered {
    fn default() -> Remembered {
        Remembered { inodes: ShortLock::ranked(ranks::LAST, FxHashMap::default()) }
    }
}

impl Remembered {
    /// None yet.
    pub fn new() -> Remembered {
        Remembered::default()
    }

    /// Adds one look-up of an inode.
    pub fn remember(&self, inode: &Inode) {
        let mut inodes = self.inodes.lock();
        let counted = inodes.entry(inode.number());
        let counted = counted.or_insert_with(|| Counted { inode: inode.clone(), lookups: 0 });
        counted.lookups = counted.lookups.saturating_add(1);
        // The old reference is dropped after the lock: it may be the last one.
        let before = match counted.inode.is_same(inode) || inode.is_freed() {
            true => None,
            false => Some(std::mem::replace(&mut counted.inode, inode.clone())),
        };
        drop(inodes);
        drop(before);
    }

    /// Subtracts look-ups of a number, at most as many as there are. With the last one the inode
    /// is no longer remembered.
    pub fn forget(&self, number: Ino, lookups: u64) {
        let mut inodes = self.inodes.lock();
        let Some(counted) = inodes.get_mut(&number) else { return };
        counted.lookups = counted.lookups.saturating_sub(lookups);
        let gone = if counted.lookups == 0 { inodes.remove(&number) } else { None };
        drop(inodes);
        drop(gone);
    }

    /// The inode remembered for a number.
    pub fn get(&self, number: Ino) -> Option<Inode> {
        self.inodes.lock().get(&number).map(|counted| counted.inode.clone())
    }

    /// How many inodes are remembered.
    pub fn len(&self) -> usize {
        self.inodes.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
