//! Write-back of Linux 2.4.14 to 2.4.18, buffer by buffer in the order in which they became dirty:
//! writers that push the oldest out, bdflush, and kupdate.
//!
//! Shares and times are those of `/proc/sys/vm/bdflush` of these releases (nfract 40, nfract_sync
//! 60, interval 5 s, age_buffer 30 s). Above 40 % dirty, whoever makes a block dirty starts to
//! write the 32 oldest and does not wait; above 60 % it also waits for one of them, and wakes
//! bdflush, which writes until 40 % are left. Every 5 s kupdate puts *all* changed inodes into
//! their table blocks, whatever their age, then writes the blocks that have been dirty for 30 s.
use super::{
    FlusherAdvice, FlusherFacts, PAGE_BYTES, SyncOrder, Throttle, WriterAdvice, WriterFacts,
    percent,
};

const START_PERCENT: u64 = 40;
const WAIT_PERCENT: u64 = 60;
const INTERVAL_NS: u64 = 5_000_000_000;
const AGE_NS: u64 = 30_000_000_000;
/// Blocks that are written for each block that becomes dirty.
const AT_ONCE: u64 = 32;

/// kupdate, bdflush and balance_dirty of Linux 2.4.
pub struct Kupdate;

impl Throttle for Kupdate {
    fn writer(&self, facts: &WriterFacts) -> WriterAdvice {
        if facts.dirty_bytes <= percent(facts.memory_bytes, START_PERCENT) {
            return WriterAdvice::Proceed;
        }
        let blocks = facts.task.dirtied_bytes.div_ceil(PAGE_BYTES);
        let bytes = blocks.saturating_mul(AT_ONCE * PAGE_BYTES);
        match facts.dirty_bytes > percent(facts.memory_bytes, WAIT_PERCENT) {
            true => WriterAdvice::StartOldestAndWait(bytes),
            false => WriterAdvice::StartOldest(bytes),
        }
    }

    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice {
        let dirty_above = |share| facts.dirty_bytes > percent(facts.memory_bytes, share);
        if facts.now.saturating_sub(facts.last_look) >= INTERVAL_NS {
            FlusherAdvice::Update(facts.now.saturating_sub(AGE_NS))
        } else if dirty_above(WAIT_PERCENT) || (facts.is_at_work && dirty_above(START_PERCENT)) {
            FlusherAdvice::WriteOldest(AT_ONCE * PAGE_BYTES)
        } else {
            FlusherAdvice::SleepUntil(facts.last_look.saturating_add(INTERVAL_NS))
        }
    }

    fn sync_order(&self) -> SyncOrder {
        SyncOrder::BuffersThenInodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throttle::TaskFacts;

    const SECOND: u64 = 1_000_000_000;

    fn writer(dirty_bytes: u64, blocks: u64) -> WriterAdvice {
        Kupdate.writer(&WriterFacts {
            dirty_bytes,
            memory_bytes: 1000,
            task: TaskFacts { dirtied_bytes: blocks * 4096, ..TaskFacts::default() },
            ..WriterFacts::default()
        })
    }

    fn flusher(dirty_bytes: u64, now: u64, last_look: u64, is_at_work: bool) -> FlusherAdvice {
        Kupdate.flusher(&FlusherFacts {
            now,
            dirty_bytes,
            memory_bytes: 1000,
            last_look,
            is_at_work,
            ..FlusherFacts::default()
        })
    }

    #[test]
    fn writers_push_the_oldest_out_and_wait_above_sixty_percent() {
        assert_eq!(writer(400, 1), WriterAdvice::Proceed);
        assert_eq!(writer(401, 1), WriterAdvice::StartOldest(32 * 4096));
        assert_eq!(writer(600, 3), WriterAdvice::StartOldest(3 * 32 * 4096));
        assert_eq!(writer(601, 1), WriterAdvice::StartOldestAndWait(32 * 4096));
    }

    #[test]
    fn kupdate_comes_every_five_seconds_and_bdflush_writes_down_to_forty_percent() {
        let batch = FlusherAdvice::WriteOldest(32 * 4096);
        assert_eq!(flusher(0, 5 * SECOND, 0, false), FlusherAdvice::Update(0));
        assert_eq!(flusher(0, 50 * SECOND, 45 * SECOND, true), FlusherAdvice::Update(20 * SECOND));
        let sleeps = FlusherAdvice::SleepUntil(5 * SECOND);
        assert_eq!(flusher(600, SECOND, 0, false), sleeps);
        assert_eq!(flusher(601, SECOND, 0, false), batch);
        assert_eq!(flusher(401, SECOND, 0, true), batch);
        assert_eq!(flusher(400, SECOND, 0, true), sleeps);
    }
}
