//! The gate between operations and sweeps: open while operations change metadata, closed while a
//! sweep freezes it.
//!
//! *Locking*: a sleeping lock. A sweep that waits stops operations that come later; those that are
//! open end without waiting for any of them, for they lock no inode.
use crate::ranks;
use extant_block::lock::{SleepReadGuard, SleepWriteGuard};
use extant_block::{Clock, SleepRwLock};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// See the head of the file.
pub(super) struct Gate {
    lock: SleepRwLock<()>,
    /// Sweeps that wait for it to be free.
    waiting: AtomicU32,
}

thread_local! {
    /// Whether this thread has an operation open. Kept in debug builds only.
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
}

/// In debug builds panics when this thread has an operation open: a second one, or a sweep, would
/// wait for a sweep that waits for the first.
fn assert_no_operation(doing: &str) {
    if cfg!(debug_assertions) && !std::thread::panicking() {
        assert!(!IS_OPEN.get(), "{doing} while this thread has an operation open");
    }
}

/// Keeps the gate open.
pub(super) struct Pass<'a> {
    _open: SleepReadGuard<'a, ()>,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            IS_OPEN.set(false);
        }
    }
}

impl Gate {
    /// Open.
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Gate {
        Gate {
            lock: SleepRwLock::new(Arc::clone(clock), ()).ranked(ranks::GATE),
            waiting: AtomicU32::new(0),
        }
    }

    /// An operation begins; waits while it is closed.
    pub(super) fn pass(&self) -> Pass<'_> {
        assert_no_operation("an operation begins");
        let pass = Pass { _open: self.lock.read() };
        if cfg!(debug_assertions) {
            IS_OPEN.set(true);
        }
        pass
    }

    /// Closes it, as long as the guard lives. Waits until no operation is open.
    pub(super) fn close(&self) -> SleepWriteGuard<'_, ()> {
        assert_no_operation("a sweep begins");
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let closed = self.lock.write();
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        closed
    }

    /// Whether a sweep waits until the operations that are open have ended.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}
