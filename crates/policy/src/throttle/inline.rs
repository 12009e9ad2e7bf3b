//! No flusher: the writer that finds memory full writes everything.
use super::{FlusherAdvice, FlusherFacts, Throttle, WriterAdvice, WriterFacts};

/// Nothing is written before memory is full; then the next writer writes everything. For tools that
/// do one thing and end.
pub struct Inline;

impl Throttle for Inline {
    fn has_flusher(&self) -> bool {
        false
    }
    fn writer(&self, facts: &WriterFacts) -> WriterAdvice {
        if facts.dirty_bytes >= facts.memory_bytes {
            WriterAdvice::WriteBack(u64::MAX)
        } else {
            WriterAdvice::Proceed
        }
    }
    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice {
        FlusherAdvice::SleepUntil(facts.now.saturating_add(1_000_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_write_when_memory_is_full() {
        let told = |dirty_bytes| {
            Inline.writer(&WriterFacts {
                dirty_bytes,
                memory_bytes: 1000,
                ..WriterFacts::default()
            })
        };
        assert_eq!(told(0), WriterAdvice::Proceed);
        assert_eq!(told(999), WriterAdvice::Proceed);
        assert_eq!(told(1000), WriterAdvice::WriteBack(u64::MAX));
    }
}
