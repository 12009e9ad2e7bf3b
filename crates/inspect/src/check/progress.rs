//! How far a check is: counters that all threads add to, shown to a listener now and then.
use super::rule::Pass;
use extant_block::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a pass is shown, about.
const STEPS: u64 = 200;

/// How far a pass is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The pass.
    pub pass: Pass,
    /// Bytes that it has read so far.
    pub done_bytes: u64,
    /// Bytes that it will have read, by what is known now.
    pub expected_bytes: u64,
    /// Nanoseconds since the pass began, by the clock of the device.
    pub elapsed_ns: u64,
    /// Nanoseconds that are left of the pass, at the speed that it had so far; `None` at its
    /// beginning.
    pub left_ns: Option<u64>,
}

/// What is called with the progress.
pub type Listener = Arc<dyn Fn(Progress) + Send + Sync>;

/// The counters of the pass that runs.
pub(crate) struct Meter {
    listener: Option<Listener>,
    pass: AtomicU64,
    started_ns: AtomicU64,
    done: AtomicU64,
    expected: AtomicU64,
}

const PASSES: [Pass; 7] = [
    Pass::Volume,
    Pass::Inodes,
    Pass::Duplicates,
    Pass::Directories,
    Pass::Connectivity,
    Pass::Links,
    Pass::Bitmaps,
];

impl Meter {
    pub(crate) fn new(listener: Option<Listener>) -> Meter {
        Meter {
            listener,
            pass: AtomicU64::new(0),
            started_ns: AtomicU64::new(0),
            done: AtomicU64::new(0),
            expected: AtomicU64::new(0),
        }
    }

    /// A pass begins, which will read about `expected_bytes`.
    pub(crate) fn begin(&self, pass: Pass, expected_bytes: u64, clock: &dyn Clock) {
        self.pass.store(pass as u64, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.expected.store(expected_bytes, Ordering::Relaxed);
        if self.listener.is_some() {
            self.started_ns.store(clock.now(), Ordering::Relaxed);
        }
        self.show(0, clock);
    }

    /// Bytes were read.
    pub(crate) fn add(&self, bytes: u64, clock: &dyn Clock) {
        let before = self.done.fetch_add(bytes, Ordering::Relaxed);
        if self.listener.is_none() {
            return;
        }
        let step = (self.expected.load(Ordering::Relaxed) / STEPS).max(1);
        if before / step != before.saturating_add(bytes) / step {
            self.show(before.saturating_add(bytes), clock);
        }
    }

    fn show(&self, done_bytes: u64, clock: &dyn Clock) {
        let Some(listener) = &self.listener else { return };
        let expected_bytes = self.expected.load(Ordering::Relaxed).max(done_bytes);
        let elapsed_ns = clock.now().saturating_sub(self.started_ns.load(Ordering::Relaxed));
        let left = u128::from(expected_bytes - done_bytes) * u128::from(elapsed_ns);
        let index = usize::try_from(self.pass.load(Ordering::Relaxed)).unwrap_or(0);
        listener(Progress {
            pass: PASSES.get(index).copied().unwrap_or(Pass::Volume),
            done_bytes,
            expected_bytes,
            elapsed_ns,
            left_ns: left
                .checked_div(done_bytes.into())
                .map(|left| u64::try_from(left).unwrap_or(u64::MAX)),
        });
    }
}
