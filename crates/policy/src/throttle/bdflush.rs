//! The flusher of Linux 2.4: it writes above 30 % dirty, and every 5 s what is 30 s old; writers
//! write above 60 %.
//!
//! Shares and times are those of `/proc/sys/vm/bdflush` of 2.4 (nfract, nfract_sync, interval,
//! age_buffer).
use super::{FlusherAdvice, FlusherFacts, Throttle, WriterAdvice, WriterFacts, percent};

const BACKGROUND_PERCENT: u64 = 30;
const SYNCHRONOUS_PERCENT: u64 = 60;
const INTERVAL_NS: u64 = 5_000_000_000;
const AGE_NS: u64 = 30_000_000_000;
/// Bytes written before the facts are looked at again.
const BATCH_BYTES: u64 = 8 << 20;

/// bdflush and kupdate as one flusher per volume.
pub struct Bdflush;

impl Throttle for Bdflush {
    fn writer(&self, facts: &WriterFacts) -> WriterAdvice {
        if facts.dirty_bytes > percent(facts.memory_bytes, SYNCHRONOUS_PERCENT) {
            WriterAdvice::WriteBack(BATCH_BYTES)
        } else if facts.dirty_bytes > percent(facts.memory_bytes, BACKGROUND_PERCENT) {
            WriterAdvice::WakeFlusher
        } else {
            WriterAdvice::Proceed
        }
    }

    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice {
        if facts.dirty_bytes > percent(facts.memory_bytes, BACKGROUND_PERCENT) {
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
    fn writers_go_on_wake_the_flusher_or_write() {
        let told = |dirty_bytes| {
            Bdflush.writer(&WriterFacts {
                dirty_bytes,
                memory_bytes: 1000,
                ..WriterFacts::default()
            })
        };
        assert_eq!(told(300), WriterAdvice::Proceed);
        assert_eq!(told(301), WriterAdvice::WakeFlusher);
        assert_eq!(told(600), WriterAdvice::WakeFlusher);
        assert_eq!(told(601), WriterAdvice::WriteBack(BATCH_BYTES));
    }

    #[test]
    fn the_flusher_writes_much_or_old_or_sleeps() {
        let told = |dirty_bytes, now, last_look| {
            Bdflush.flusher(&FlusherFacts {
                now,
                dirty_bytes,
                memory_bytes: 1000,
                last_look,
                ..FlusherFacts::default()
            })
        };
        let second = 1_000_000_000;
        assert_eq!(told(301, 0, 0), FlusherAdvice::Write(BATCH_BYTES));
        assert_eq!(told(300, 4 * second, 0), FlusherAdvice::SleepUntil(5 * second));
        assert_eq!(told(300, 5 * second, 0), FlusherAdvice::WriteOlderThan(0));
        assert_eq!(told(1, 50 * second, 40 * second), FlusherAdvice::WriteOlderThan(20 * second));
        assert_eq!(told(1, 50 * second, 50 * second), FlusherAdvice::SleepUntil(55 * second));
    }
}
