//! Linux 2.6.20: one limit for all devices, and writers that write.
//!
//! From public descriptions of the time: the background is 10 % and the limit 40 % of the dirtyable
//! memory, from 2.6.22 on 5 and 10 %. A writer is asked after each memory / (32 x processors)
//! pages, 16 pages at least and 4 MiB at most, and after each 8 pages once the limit is exceeded.
//! Then it writes 1.5 times the rate-limit pages itself, of the device that it writes to, and waits
//! for write-back on any device, 100 ms at a time, until all are below the limit or it has written
//! its part. So what is dirty on one device holds up the writers of another. Our addition: a writer
//! continues after 30 s, so that a device that hangs does not stop the writers of all others
//! forever.
use super::{
    FlusherAdvice, FlusherFacts, Limits, Manner, PAGE_BYTES, Throttle, WriterAdvice, WriterFacts,
    flusher_of_2_6,
};

/// A stopped writer asks again after this time at the latest, in nanoseconds.
pub(super) const WAIT_NS: u64 = 100_000_000;
/// No writer is stopped for longer by any of the policies that count devices, in nanoseconds, so
/// that a device that hangs stops none forever.
pub(super) const STOPPED_NS_MAX: u64 = 30_000_000_000;
/// Bytes that pdflush writes in one pass.
pub(super) const PASS_BYTES: u64 = 1024 * PAGE_BYTES;
/// A writer is asked after each this many bytes once the limit is exceeded.
pub(super) const EXCEEDED_BYTES: u64 = 8 * PAGE_BYTES;

/// One dirty limit for all devices (2.6.20).
pub struct Global {
    background_percent: u64,
    limit_percent: u64,
}

impl Default for Global {
    fn default() -> Global {
        Global { background_percent: 10, limit_percent: 40 }
    }
}

impl Global {
    /// The policy with other shares of memory, in percent.
    pub fn new(background_percent: u64, limit_percent: u64) -> Global {
        Global { background_percent, limit_percent }
    }
}

/// How many bytes a writer makes dirty before it asks again, below the limit, on one processor.
pub(super) fn rate_limit_bytes(memory_bytes: u64) -> u64 {
    let pages = (memory_bytes / PAGE_BYTES / 32).max(16);
    (pages * PAGE_BYTES).min(4 << 20)
}

/// How many bytes a stopped writer writes itself: 1,536 pages from 128 MiB of memory on.
pub(super) fn chunk_bytes(memory_bytes: u64) -> u64 {
    let rate = rate_limit_bytes(memory_bytes);
    rate + rate / 2
}

impl Throttle for Global {
    fn manner(&self) -> Manner {
        Manner::Pieces
    }

    fn limits(&self, memory_bytes: u64) -> Limits {
        Limits::of(memory_bytes, self.background_percent, self.limit_percent)
    }

    fn piece_bytes(&self, facts: &WriterFacts) -> u64 {
        let limit = self.limits(facts.memory_bytes).limit_bytes;
        if facts.all.total() > limit {
            EXCEEDED_BYTES
        } else {
            rate_limit_bytes(facts.memory_bytes)
        }
    }

    fn writer(&self, facts: &WriterFacts) -> WriterAdvice {
        let limit = self.limits(facts.memory_bytes).limit_bytes;
        let chunk = chunk_bytes(facts.memory_bytes);
        if facts.all.total() <= limit {
            return WriterAdvice::Proceed;
        }
        if facts.task.dirtied_bytes < EXCEEDED_BYTES {
            return WriterAdvice::OnAccount;
        }
        if facts.task.written_bytes >= chunk || facts.task.stopped_ns >= STOPPED_NS_MAX {
            WriterAdvice::Proceed
        } else if facts.device.load.dirty_bytes > 0 {
            WriterAdvice::WriteOwn(chunk - facts.task.written_bytes)
        } else {
            WriterAdvice::Wait(WAIT_NS)
        }
    }

    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice {
        let background = self.limits(facts.memory_bytes).background_bytes;
        let is_much = facts.all.dirty_bytes > background;
        flusher_of_2_6(facts, is_much.then_some(PASS_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_asked_and_writes_by_the_memory() {
        let (kib, mib) = (1 << 10, 1 << 20);
        // 2 GB: 524,288 pages / 32 are more than 4 MiB. 64 MiB: 512 pages. 1 MiB: 8, so 16.
        let rows = [(2048 * mib, 4 * mib), (64 * mib, 2 * mib), (mib, 64 * kib)];
        for (memory, rate) in rows {
            assert_eq!(rate_limit_bytes(memory), rate, "{memory}");
            assert_eq!(chunk_bytes(memory), rate + rate / 2, "{memory}");
        }
        assert_eq!(chunk_bytes(2048 * mib), 1536 * PAGE_BYTES);
    }

    #[test]
    fn limits_are_those_of_the_release() {
        let limits = |global: Global| {
            let Limits { background_bytes, limit_bytes } = global.limits(1000 * PAGE_BYTES);
            (background_bytes / PAGE_BYTES, limit_bytes / PAGE_BYTES)
        };
        assert_eq!(limits(Global::default()), (100, 400));
        assert_eq!(limits(Global::new(5, 10)), (50, 100));
    }
}
