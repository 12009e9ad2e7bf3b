//! The gate between operations and sweeps: open while operations change metadata, closed while a
//! sweep freezes it.
//!
//! ```text
//!            pass                    close                        the last one leaves
//!  (open) ---------> n are in   (open) ------> closing: none comes in ------------> closed
//!                                  ^                                                  |
//!                                  +---------------- Closed is dropped ---------------+
//! ```
//!
//! *Invariants*: while the gate is closed, no operation has a pass. `state` is the number of passes
//! (and, for a moment, of threads that tried to pass a closed gate), with [`CLOSED`] from the
//! moment when a sweep wants it closed. One sweep closes it at a time.
//! *Locking*: for those that wait it is a sleeping lock. A waiting sweep holds up operations that
//! begin later. Those already open always end, because an operation with a pass locks no inode.
//! `waiting` is a short lock, taken only by those that wait and those that wake them.
use crate::ranks;
use extant_block::order::HeldRank;
use extant_block::{Apart, Clock, ShortLock, WaitQueue};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A sweep wants the gate closed, or has closed it.
const CLOSED: u32 = 1 << 31;

/// See the head of the file.
pub struct Gate {
    state: Apart<AtomicU32>,
    /// Orders a look at `state` before a wait with a change of it before a wake.
    waiting: ShortLock<()>,
    /// Operations that wait until it is open.
    opened: WaitQueue,
    /// The sweep that waits until no operation is in.
    emptied: WaitQueue,
}

thread_local! {
    /// Whether this thread has an operation open. Kept in debug builds only.
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
}

/// In debug builds panics when this thread has an operation open: a second one, or a sweep, would
/// wait for a sweep that waits for the first.
#[track_caller]
fn assert_no_operation(doing: &str) {
    if cfg!(debug_assertions) && !std::thread::panicking() {
        assert!(!IS_OPEN.get(), "{doing} while this thread has an operation open");
    }
}

/// Keeps the gate open.
pub(super) struct Pass<'a> {
    gate: &'a Gate,
    _held: HeldRank,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            IS_OPEN.set(false);
        }
        self.gate.leave();
    }
}

/// Keeps the gate closed.
pub(super) struct Closed<'a> {
    gate: &'a Gate,
    _held: HeldRank,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.gate.state.fetch_and(!CLOSED, Ordering::AcqRel);
        drop(self.gate.waiting.lock());
        self.gate.opened.wake_all();
    }
}

impl Gate {
    /// An open gate.
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Gate {
        Gate {
            state: Apart(AtomicU32::new(0)),
            waiting: ShortLock::ranked(ranks::LAST, ()),
            opened: WaitQueue::new(Arc::clone(clock)),
            emptied: WaitQueue::new(Arc::clone(clock)),
        }
    }

    /// Begins an operation; waits while the gate is closed.
    pub(super) fn pass(&self) -> Pass<'_> {
        assert_no_operation("an operation begins");
        let held = HeldRank::new(ranks::GATE);
        while self.state.fetch_add(1, Ordering::AcqRel) & CLOSED != 0 {
            self.leave();
            self.opened.wait_until(&self.waiting, |()| {
                (self.state.load(Ordering::Acquire) & CLOSED == 0).then_some(())
            });
        }
        if cfg!(debug_assertions) {
            IS_OPEN.set(true);
        }
        Pass { gate: self, _held: held }
    }

    fn leave(&self) {
        if self.state.fetch_sub(1, Ordering::AcqRel) == CLOSED | 1 {
            drop(self.waiting.lock());
            self.emptied.wake_all();
        }
    }

    /// Closes the gate until the guard is dropped. Waits until no operation is open. The caller is
    /// the only one that sweeps.
    pub(super) fn close(&self) -> Closed<'_> {
        assert_no_operation("a sweep begins");
        let held = HeldRank::new(ranks::GATE);
        let before = self.state.fetch_or(CLOSED, Ordering::AcqRel);
        debug_assert_eq!(before & CLOSED, 0, "two sweeps close the gate");
        let closed = Closed { gate: self, _held: held };
        self.emptied.wait_until(&self.waiting, |()| {
            (self.state.load(Ordering::Acquire) == CLOSED).then_some(())
        });
        closed
    }

    /// Whether a sweep waits until the open operations have ended.
    pub(super) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::RealClock;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn no_operation_is_open_while_the_gate_is_closed() {
        let clock: Arc<dyn Clock> = RealClock::new();
        let shared = Arc::new((Gate::new(&clock), AtomicU64::new(0), AtomicU64::new(0)));
        let operate = {
            let shared = Arc::clone(&shared);
            move || {
                let (gate, inside, _) = &*shared;
                for _ in 0..20_000 {
                    let _pass = gate.pass();
                    inside.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            }
        };
        let sweep = {
            let shared = Arc::clone(&shared);
            move || {
                let (gate, inside, sweeps) = &*shared;
                for _ in 0..5_000 {
                    let _closed = gate.close();
                    assert_eq!(inside.load(Ordering::SeqCst), 0);
                    sweeps.fetch_add(1, Ordering::SeqCst);
                }
            }
        };
        let mut tasks = vec![clock.spawn("sweeps", Box::new(sweep))];
        for _ in 0..3 {
            tasks.push(clock.spawn("operates", Box::new(operate.clone())));
        }
        tasks.into_iter().for_each(|task| task.join());
        assert_eq!(shared.2.load(Ordering::SeqCst), 5_000);
    }
}
