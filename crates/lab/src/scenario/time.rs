//! The clock of a run: virtual, or the host's.
use extant_block::{Clock, RealClock, Unparked};
use extant_sim::clock::VirtualClock;
use std::sync::Arc;

/// The clock of a run.
#[derive(Clone)]
pub(super) enum Time {
    /// Time of the model.
    Virtual(Arc<VirtualClock>),
    /// Time of the host.
    Real(Arc<RealClock>),
}

impl Time {
    /// As the seam.
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Time::Virtual(clock) => Arc::clone(clock) as Arc<dyn Clock>,
            Time::Real(clock) => Arc::clone(clock) as Arc<dyn Clock>,
        }
    }

    /// The time of the calling process, with the CPU work that has not passed yet.
    pub(super) fn now(&self) -> u64 {
        match self {
            Time::Virtual(clock) => clock.local_now(),
            Time::Real(clock) => clock.now(),
        }
    }

    /// The same, after that work has passed for all.
    pub(super) fn settled(&self) -> u64 {
        if let Time::Virtual(clock) = self {
            clock.settle();
        }
        self.now()
    }

    /// Waits until then.
    pub(super) fn sleep_until(&self, deadline: u64) {
        self.settled();
        let clock = self.clock();
        while clock.now() < deadline {
            // A wake that was meant for an earlier wait is none for this one.
            if clock.park(Some(deadline)) == Unparked::TimedOut {
                return;
            }
        }
    }
}
