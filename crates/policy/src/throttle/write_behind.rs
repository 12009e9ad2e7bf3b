//! A flusher that starts early: the device works while the writer computes, and a sync has little
//! left to write.
use super::{FlusherAdvice, FlusherFacts, Throttle, WriterAdvice, WriterFacts, percent};

/// The flusher works above this many dirty bytes: enough that a run of small files is written at
/// once.
const BACKGROUND_BYTES: u64 = 8 << 20;
const SYNCHRONOUS_PERCENT: u64 = 40;
const INTERVAL_NS: u64 = 5_000_000_000;
const AGE_NS: u64 = 5_000_000_000;
/// Bytes written before the facts are looked at again.
const BATCH_BYTES: u64 = 8 << 20;

/// Write-behind as one flusher per volume.
pub struct WriteBehind;

impl WriteBehind {
    /// A quarter of the memory at most.
    fn background(memory_bytes: u64) -> u64 {
        BACKGROUND_BYTES.min(percent(memory_bytes, 25))
    }
}

impl Throttle for WriteBehind {
    fn writer(&self, facts: &WriterFacts) -> WriterAdvice {
        if facts.dirty_bytes > percent(facts.memory_bytes, SYNCHRONOUS_PERCENT) {
            WriterAdvice::WriteBack(BATCH_BYTES)
        } else if facts.dirty_bytes > WriteBehind::background(facts.memory_bytes) {
            WriterAdvice::WakeFlusher
        } else {
            WriterAdvice::Proceed
        }
    }

    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice {
        if facts.dirty_bytes > WriteBehind::background(facts.memory_bytes) {
            FlusherAdvice::Write(BATCH_BYTES)
        } else if facts.now.saturating_sub(facts.last_look) >= INTERVAL_NS {
            FlusherAdvice::WriteOlderThan(facts.now.saturating_sub(AGE_NS))
        } else {
            FlusherAdvice::SleepUntil(facts.last_look.saturating_add(INTERVAL_NS))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flusher_starts_early_and_writers_write_late() {
        let writer = |dirty_bytes| {
            let memory_bytes = 1 << 30;
            WriteBehind.writer(&WriterFacts { dirty_bytes, memory_bytes, ..WriterFacts::default() })
        };
        assert_eq!(writer(BACKGROUND_BYTES), WriterAdvice::Proceed);
        assert_eq!(writer(BACKGROUND_BYTES + 1), WriterAdvice::WakeFlusher);
        assert_eq!(writer(1 << 29), WriterAdvice::WriteBack(BATCH_BYTES));
        let flusher = |dirty_bytes, now| {
            WriteBehind.flusher(&FlusherFacts {
                now,
                dirty_bytes,
                memory_bytes: 4000,
                last_look: 0,
                ..FlusherFacts::default()
            })
        };
        assert_eq!(flusher(1000, 1), FlusherAdvice::SleepUntil(INTERVAL_NS));
        assert_eq!(flusher(1001, 1), FlusherAdvice::Write(BATCH_BYTES));
        assert_eq!(flusher(1, 2 * INTERVAL_NS), FlusherAdvice::WriteOlderThan(INTERVAL_NS));
    }
}
