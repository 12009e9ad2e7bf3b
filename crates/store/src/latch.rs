//! The latch of a volume: the first failure closes it, and no write starts after that.
//!
//! *Invariants*: a write that has entered is counted until it leaves, and none enters once the
//! latch is closed. So after `wait_until_empty` on a closed latch, the device gets no further
//! write.
//! *Locking*: `state` is a short lock, the last one in the order. Only `wait_until_empty` waits.
use crate::error::{Corrupt, Error, ErrorKind, Result};
use crate::ranks;
use extant_block::{Clock, ShortLock, WaitQueue};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
struct LatchState {
    /// Writes that have entered and not left.
    under_way: u64,
    closed: bool,
    /// What closed it, if it was a failure.
    cause: Option<Cause>,
}

/// The failure that closed a latch, kept so that every later caller gets the same reason.
enum Cause {
    /// The device failed.
    Device(Arc<io::Error>),
    /// Damage was found in the middle of a change.
    Corrupt(Corrupt),
    /// Any other error that stopped a write, as text.
    Other(String),
}

impl Cause {
    fn of(error: &Error) -> Cause {
        match &error.kind {
            ErrorKind::Device(error) => Cause::Device(Arc::new(match error.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(error.kind(), error.to_string()),
            })),
            ErrorKind::Corrupt(corrupt) => Cause::Corrupt(corrupt.clone()),
            other => Cause::Other(other.to_string()),
        }
    }

    /// The error once more, for a later caller.
    fn again(&self) -> Error {
        match self {
            Cause::Device(error) => io::Error::new(error.kind(), Earlier(Arc::clone(error))).into(),
            Cause::Corrupt(corrupt) => ErrorKind::Corrupt(corrupt.clone()).into(),
            Cause::Other(words) => io::Error::other(words.clone()).into(),
        }
    }
}

/// Stops all writes of a volume at once.
pub struct Latch {
    state: ShortLock<LatchState>,
    emptied: WaitQueue,
    /// Copy of `state.closed` that is read without the lock.
    closed: AtomicBool,
}

impl Latch {
    /// An open latch with no writes under way.
    pub fn new(clock: &Arc<dyn Clock>) -> Arc<Latch> {
        Arc::new(Latch {
            state: ShortLock::ranked(ranks::LAST, LatchState::default()),
            emptied: WaitQueue::new(Arc::clone(clock)),
            closed: AtomicBool::new(false),
        })
    }

    /// Asks to start a write. A write that is let in has to call `leave`; a closed latch lets none
    /// in.
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        let mut state = self.state.lock();
        if !state.closed {
            state.under_way += 1;
        }
        !state.closed
    }

    /// Counts a write that was let in as ended.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        state.under_way -= 1;
        let is_empty = state.under_way == 0;
        drop(state);
        if is_empty && self.is_closed() {
            self.emptied.wake_all();
        }
    }

    /// Closes the latch: no write starts from now on. `None` means that the volume was closed in
    /// order. Only the first failure is kept.
    pub fn close(&self, failure: Option<&Error>) {
        let mut state = self.state.lock();
        // A failure that follows from an earlier one is not the cause.
        if !state.closed {
            state.cause = failure.map(Cause::of);
        }
        state.closed = true;
        self.closed.store(true, Ordering::Release);
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Fails with what closed it.
    ///
    /// # Errors
    /// The first failure; `ReadOnly` when the volume was closed in order.
    pub fn check(&self) -> Result<()> {
        if !self.is_closed() {
            return Ok(());
        }
        Err(match &self.state.lock().cause {
            None => ErrorKind::ReadOnly.into(),
            Some(cause) => cause.again(),
        })
    }

    /// If the latch is closed, waits until all writes that had started have ended. Called before an
    /// error is reported, without any lock that a completion needs.
    pub fn wait_until_empty(&self) {
        if self.is_closed() {
            self.emptied.wait_until(&self.state, |state| (state.under_way == 0).then_some(()));
        }
    }
}

/// A device error that was met earlier, reported again.
#[derive(Debug)]
struct Earlier(Arc<io::Error>);

impl fmt::Display for Earlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl std::error::Error for Earlier {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::RealClock;

    fn latch() -> Arc<Latch> {
        let clock: Arc<dyn Clock> = RealClock::new();
        Latch::new(&clock)
    }

    fn device(errno: i32) -> Error {
        io::Error::from_raw_os_error(errno).into()
    }

    #[test]
    fn the_first_failure_is_the_cause_whatever_follows() {
        let (io, full) = (5, 28);
        let latch = latch();
        latch.close(Some(&device(io)));
        let first = latch.check().unwrap_err().to_string();
        for later in [Some(device(full)), Some(ErrorKind::ReadOnly.into()), None] {
            latch.close(later.as_ref());
            let error = latch.check().unwrap_err();
            assert_eq!((error.errno(), error.to_string()), (io, first.clone()), "{later:?}");
        }
    }

    #[test]
    fn what_was_closed_in_order_stays_so() {
        let latch = latch();
        latch.close(None);
        latch.close(Some(&device(5)));
        assert!(matches!(latch.check().unwrap_err().kind, ErrorKind::ReadOnly));
        assert!(!latch.enter(), "it lets a write in");
    }
}
