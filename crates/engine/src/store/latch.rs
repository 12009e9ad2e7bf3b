//! The latch of a volume: the first failure that stops all writing, and the writes that had begun
//! before it.
//!
//! *Invariants*: a write that enters is counted until it leaves; once closed, none enters. So
//! whoever has found it closed and waits until it is empty (`settle`) knows that the device gets no
//! further write.
//! *Locking*: `state` is a short lock and comes last; only `settle` waits.
use crate::error::{Corrupt, Error, ErrorKind, Result};
use crate::ranks;
use extant_block::{Clock, ShortLock, WaitQueue};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
struct State {
    /// Writes that entered and have not left.
    under_way: u64,
    closed: bool,
    /// What closed it, if that was a failure.
    cause: Option<Cause>,
}

/// The failure that closed a latch, kept so that every later caller is given the same reason.
enum Cause {
    /// The device failed.
    Device(Arc<io::Error>),
    /// Damage was met half-way through a change.
    Corrupt(Corrupt),
    /// Anything else that stopped a write, in words.
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

    /// The error, for one more caller.
    fn again(&self) -> Error {
        match self {
            Cause::Device(error) => io::Error::new(error.kind(), Earlier(Arc::clone(error))).into(),
            Cause::Corrupt(corrupt) => ErrorKind::Corrupt(corrupt.clone()).into(),
            Cause::Other(words) => io::Error::other(words.clone()).into(),
        }
    }
}

/// Stops all writes of a volume at once.
pub(crate) struct Latch {
    state: ShortLock<State>,
    emptied: WaitQueue,
    /// The same as in `state`, for those who only look.
    closed: AtomicBool,
}

impl Latch {
    /// Open, with nothing under way.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Arc<Latch> {
        Arc::new(Latch {
            state: ShortLock::ranked(ranks::LAST, State::default()),
            emptied: WaitQueue::new(Arc::clone(clock)),
            closed: AtomicBool::new(false),
        })
    }

    /// A write may begin; one that was let in has to leave. Behind a failure none is.
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        let mut state = self.state.lock();
        if !state.closed {
            state.under_way += 1;
        }
        !state.closed
    }

    /// A write that was let in has ended.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        state.under_way -= 1;
        let is_empty = state.under_way == 0;
        drop(state);
        if is_empty && self.is_closed() {
            self.emptied.wake_all();
        }
    }

    /// Closes it: from now on no write begins. `None` is a volume that was closed in order; of
    /// failures, the first is kept.
    pub(crate) fn close(&self, failure: Option<&Error>) {
        let mut state = self.state.lock();
        // What follows from an earlier failure is not the cause.
        if !state.closed {
            state.cause = failure.map(Cause::of);
        }
        state.closed = true;
        self.closed.store(true, Ordering::Release);
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Fails with what closed it.
    ///
    /// # Errors
    /// The first failure; `ReadOnly` when the volume was closed in order.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_closed() {
            return Ok(());
        }
        Err(match &self.state.lock().cause {
            None => ErrorKind::ReadOnly.into(),
            Some(cause) => cause.again(),
        })
    }

    /// If it is closed: waits until all writes that had begun have ended. Called before an error is
    /// told, with no lock held that a completion needs.
    pub(crate) fn settle(&self) {
        if self.is_closed() {
            self.emptied.wait_until(&self.state, |state| (state.under_way == 0).then_some(()));
        }
    }
}

/// An error that was met earlier, told once more.
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
