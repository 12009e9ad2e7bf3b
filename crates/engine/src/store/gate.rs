//! The gate between operations and sweeps: open while operations change metadata, closed while a
//! sweep freezes it.
//!
//! *Invariants*: while the gate is closed, no operation has a pass.
//! *Locking*: a sleeping lock. A waiting sweep holds up operations that begin later. Those already
//! open always end, because an operation with a pass locks no inode.
use crate::ranks;
use extant_block::lock::{SleepReadGuard, SleepWriteGuard};
use extant_block::{Clock, SleepRwLock};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The gate of one volume.
pub(super) struct Gate {
    lock: SleepRwLock<()>,
    /// Sweeps that wait for the open operations to end.
    waiting: AtomicU32,
}

thread_local! {
    /// Whether this thread has an operation open. Maintained in debug builds only.
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
}

/// Panics in debug builds if this thread has an operation open. A second operation, or a sweep,
/// would wait for a sweep that waits for the first operation.
fn assert_no_operation(doing: &str) {
    if cfg!(debug_assertions) && !std::thread::panicking() {
        assert!(!IS_OPEN.get(), "{doing} while this thread has an operation open");
    }
}

/// Keeps the gate open until it is dropped.
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
    /// An open gate.
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Gate {
        Gate {
            lock: SleepRwLock::new(Arc::clone(clock), ()).ranked(ranks::GATE),
            waiting: AtomicU32::new(0),
        }
    }

    /// Begins an operation; waits while the gate is closed.
    pub(super) fn pass(&self) -> Pass<'_> {
        assert_no_operation("an operation begins");
        let pass = Pass { _open: self.lock.read() };
        if cfg!(debug_assertions) {
            IS_OPEN.set(true);
        }
        pass
    }

    /// Closes the gate until the guard is dropped. Waits until no operation is open.
    pub(super) fn close(&self) -> SleepWriteGuard<'_, ()> {
        assert_no_operation("a sweep begins");
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let closed = self.lock.write();
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        closed
    }

    /// Whether a sweep waits for the open operations to end.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}
