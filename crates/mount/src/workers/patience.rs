//! Whether it pays to look for the next request for a moment, instead of going to sleep at once.
//!
//! A processor that has nothing to do halts, and waking it takes longer than most requests: on a
//! virtual machine with a processor to spare, files made one after another take twice the time.
//! Where the processors are busy the client cannot ask before the server sleeps, so looking only
//! costs. Which of the two it is shows by itself: looks that find a request are done again, and
//! looks that find none are given up for a while.
//!
//! *Invariants*: of requests that no look finds, at most about one in sixty is looked for.
//! *Locking*: none; only the thread in the seat uses it, and what it counts are hints.
use extant_block::Clock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Nanoseconds that a look takes at most: about as long as waking a halted processor.
const LOOK_NS: u64 = 20_000;
/// The score with which it begins, and its limits. A look that finds a request adds 1, one that
/// finds none takes `MISS`.
const BEGIN: u32 = 6;
const MOST: u32 = 16;
const MISS: u32 = 3;
/// From this score on it looks.
const ENOUGH: u32 = 4;
/// After this many requests without a look it tries again.
const REST: u32 = 128;

/// What the last looks have found.
pub(super) struct Patience {
    score: AtomicU32,
    rested: AtomicU32,
}

impl Patience {
    pub(super) fn new() -> Patience {
        Patience { score: AtomicU32::new(BEGIN), rested: AtomicU32::new(0) }
    }

    /// What `look` finds within a moment, if looking has paid lately.
    pub(super) fn find<T>(
        &self,
        clock: &dyn Clock,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let score = self.score.load(Ordering::Relaxed);
        if score < ENOUGH {
            let rested = self.rested.fetch_add(1, Ordering::Relaxed) + 1;
            if rested == REST {
                self.rested.store(0, Ordering::Relaxed);
                self.score.store(BEGIN, Ordering::Relaxed);
            }
            return None;
        }
        let end = clock.now().saturating_add(LOOK_NS);
        let found = loop {
            let found = look();
            if found.is_some() || clock.now() >= end {
                break found;
            }
            std::hint::spin_loop();
        };
        let score = match found {
            Some(_) => (score + 1).min(MOST),
            None => score.saturating_sub(MISS),
        };
        self.score.store(score, Ordering::Relaxed);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::{Patience, REST};
    use extant_block::RealClock;
    use std::cell::Cell;

    /// How many of these requests are looked for, if looks find one or not.
    fn looks(requests: u32, finds: bool) -> u32 {
        let (clock, patience) = (RealClock::new(), Patience::new());
        let mut looked = 0;
        for _ in 0..requests {
            let was_asked = Cell::new(false);
            let found = patience.find(&*clock, || {
                was_asked.set(true);
                finds.then_some(())
            });
            assert_eq!(found.is_some(), finds && was_asked.get());
            looked += u32::from(was_asked.get());
        }
        looked
    }

    #[test]
    fn looks_that_find_nothing_are_given_up() {
        assert_eq!(looks(1000, true), 1000);
        let looked = looks(10 * REST, false);
        assert!((1..=10 * REST / 60).contains(&looked), "{looked}");
    }
}
