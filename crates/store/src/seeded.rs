//! Mistakes that tests put into the engine on purpose, to show that they would be found.
//!
//! Without the feature `testing` [`bug`] is a constant `false` and costs nothing. With it one
//! mistake at a time is on, for the whole process, after [`plant`].
//!
//! *Invariants*: at most one mistake is on. None is on until a test plants it.
//! *Locking*: none; one atomic number, read without order.
#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicUsize, Ordering};

/// A mistake that a journal could make. Those that are only in the order or the bytes of what the
/// device is asked for need no place here: tests make them in the log of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A freed block is given again before its freeing has committed.
    FreedBlockGivenEarly,
    /// The superblock is written in place without going through the log.
    SuperblockAroundLog,
    /// An unlinked or truncated inode does not become an orphan in the handle that changes it.
    OrphanNotLinked,
}

/// 0 for none, else the number of the mistake plus 1.
#[cfg(feature = "testing")]
static PLANTED: AtomicUsize = AtomicUsize::new(0);

/// Whether this mistake is to be made.
#[cfg(feature = "testing")]
#[must_use]
pub fn bug(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as usize + 1
}

/// Whether this mistake is to be made: never, without the feature `testing`.
#[cfg(not(feature = "testing"))]
#[must_use]
pub const fn bug(_bug: Bug) -> bool {
    false
}

/// Has this mistake made from now on in the whole process, and no other one.
#[cfg(feature = "testing")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(0, |bug| bug as usize + 1), Ordering::Relaxed);
}
