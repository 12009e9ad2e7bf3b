//! One processor of the host for the threads of a run.
//!
//! Only one of them runs at a time, and to wake a thread on the processor that one runs on takes
//! half the time of waking one elsewhere. It changes nothing but speed; where the host does not let
//! us, nothing happens.
//!
//! *Locking*: `TAKEN` is held for the choice alone.
use extant_block::ShortLock;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// How many runs of this program have each processor.
static TAKEN: ShortLock<Vec<u32>> = ShortLock::new(Vec::new());

/// A processor, as long as it lives.
pub(super) struct Pin {
    processor: usize,
}

impl Pin {
    /// The processor that the fewest runs have: of several the one on which this thread runs, since
    /// the host found that best.
    pub fn take() -> Option<Pin> {
        let allowed = sched_getaffinity(None).ok()?;
        let here = sched_getcpu();
        let mut taken = TAKEN.lock();
        taken.resize(CpuSet::MAX_CPU, 0);
        let allowed = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
        let processor = allowed.min_by_key(|processor| (taken[*processor], *processor != here))?;
        taken[processor] += 1;
        Some(Pin { processor })
    }

    /// Its number.
    pub fn processor(&self) -> usize {
        self.processor
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(taken) = TAKEN.lock().get_mut(self.processor) {
            *taken -= 1;
        }
    }
}

/// From now on this thread runs on that processor.
pub(super) fn stay_on(processor: usize) {
    if processor < CpuSet::MAX_CPU {
        let mut set = CpuSet::new();
        set.set(processor);
        // Only speed is lost.
        let _ = sched_setaffinity(None, &set);
    }
}
