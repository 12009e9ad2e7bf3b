//! Values of attributes that no attribute has any more, and that are to be freed: see `value`.
//!
//! *Invariants*: each of them is an orphan.
//! *Locking*: a short lock, under which no other is taken.
use crate::ranks;
use extant_block::ShortLock;
use extant_format::Ino;
use std::sync::atomic::{AtomicBool, Ordering};

/// Values that no entry has any more, and that are not free yet.
pub(crate) struct Released {
    inodes: ShortLock<Vec<Ino>>,
    /// Whether there are any: most volumes never have one.
    is_some: AtomicBool,
}

impl Default for Released {
    /// None.
    fn default() -> Released {
        Released {
            inodes: ShortLock::ranked(ranks::LAST, Vec::new()),
            is_some: AtomicBool::new(false),
        }
    }
}

impl Released {
    /// Notes an orphan that is to be freed.
    pub(super) fn note(&self, ino: Ino) {
        self.inodes.lock().push(ino);
        self.is_some.store(true, Ordering::Release);
    }

    fn is_some(&self) -> bool {
        self.is_some.load(Ordering::Acquire)
    }

    /// Takes one of them.
    pub(crate) fn take(&self) -> Option<Ino> {
        if !self.is_some() {
            return None;
        }
        let mut inodes = self.inodes.lock();
        let ino = inodes.pop();
        self.is_some.store(!inodes.is_empty(), Ordering::Release);
        ino
    }
}
