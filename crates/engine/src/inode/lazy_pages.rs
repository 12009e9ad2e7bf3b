//! The pages of an inode, made when they are first wanted: most inodes in memory are only looked
//! at, and what a file with pages needs is several times the inode.
//!
//! *Invariants*: an inode is counted in `Paged` from before its pages are made until they are
//! dropped, once for each node that has pages: a number may be given to another inode while a file
//! that had it is still open. Pages that were never made are clean.
//! *Locking*: `Paged::inodes` is a short lock, under which no other is taken.
use crate::inode::pages::{Held, PAGES_BYTES, Pages, Share};
use crate::ranks;
use extant_block::{Clock, ShortLock, Task, Unparked, Waker, WallTime};
use extant_format::Ino;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// The inodes in memory that have pages, and what pages are made with.
///
/// It is also the clock of each node's lock: a node that is made or dropped then counts references
/// here, and not beside the time that every call reads.
pub(crate) struct Paged {
    clock: Arc<dyn Clock>,
    /// With the number of nodes that have pages.
    inodes: ShortLock<BTreeMap<Ino, u32>>,
    /// Where the memory of pages is counted.
    held: Arc<Held>,
}

impl Paged {
    /// None yet.
    pub(crate) fn new(clock: &Arc<dyn Clock>, held: &Arc<Held>) -> Arc<Paged> {
        let inodes = ShortLock::ranked(ranks::LAST, BTreeMap::new());
        Arc::new(Paged { clock: Arc::clone(clock), inodes, held: Arc::clone(held) })
    }

    /// Their numbers, rising.
    pub(crate) fn inodes(&self) -> Vec<Ino> {
        self.inodes.lock().keys().copied().collect()
    }

    fn add(&self, ino: Ino) {
        *self.inodes.lock().entry(ino).or_default() += 1;
    }

    fn remove(&self, ino: Ino) {
        let mut inodes = self.inodes.lock();
        if let Some(nodes) = inodes.get_mut(&ino) {
            *nodes -= 1;
            if *nodes == 0 {
                inodes.remove(&ino);
            }
        }
    }
}

impl Clock for Paged {
    fn now(&self) -> u64 {
        self.clock.now()
    }
    fn wall(&self) -> WallTime {
        self.clock.wall()
    }
    fn waker(&self) -> Waker {
        self.clock.waker()
    }
    fn park(&self, deadline: Option<u64>) -> Unparked {
        self.clock.park(deadline)
    }
    fn park_for_lock(&self, deadline: Option<u64>) -> Unparked {
        self.clock.park_for_lock(deadline)
    }
    fn overtaking_ns(&self) -> u64 {
        self.clock.overtaking_ns()
    }
    fn comes_true_soon(&self, is_true: &mut dyn FnMut() -> bool) -> bool {
        self.clock.comes_true_soon(is_true)
    }
    fn process_number(&self) -> u32 {
        self.clock.process_number()
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.clock.spawn(name, body)
    }
    fn charge(&self, cpu_ns: u64) {
        self.clock.charge(cpu_ns);
    }
}

/// See the head of the file. Any use of it as [`Pages`] makes them.
pub(crate) struct LazyPages {
    ino: Ino,
    made: OnceLock<Box<Pages>>,
    paged: Arc<Paged>,
}

impl LazyPages {
    /// None yet.
    pub(crate) fn new(ino: Ino, paged: &Arc<Paged>) -> LazyPages {
        LazyPages { ino, made: OnceLock::new(), paged: Arc::clone(paged) }
    }

    /// As [`Pages::is_clean`].
    pub(crate) fn is_clean(&self) -> bool {
        self.made.get().is_none_or(|pages| pages.is_clean())
    }

    /// As [`Pages::is_dirty`].
    pub(crate) fn is_dirty(&self) -> bool {
        self.made.get().is_some_and(|pages| pages.is_dirty())
    }

    /// As [`Pages::has_placed`].
    pub(crate) fn has_placed(&self) -> bool {
        self.made.get().is_some_and(|pages| pages.has_placed())
    }

    /// The pages, if they were made.
    pub(crate) fn made(&self) -> Option<&Pages> {
        self.made.get().map(|pages| &**pages)
    }
}

impl Deref for LazyPages {
    type Target = Pages;
    fn deref(&self) -> &Pages {
        self.made.get_or_init(|| {
            self.paged.add(self.ino);
            let share = Share::new(&self.paged.held, PAGES_BYTES);
            Box::new(Pages::new(&self.paged.clock, share))
        })
    }
}

impl Drop for LazyPages {
    fn drop(&mut self) {
        if self.made.get().is_some() {
            self.paged.remove(self.ino);
        }
    }
}
