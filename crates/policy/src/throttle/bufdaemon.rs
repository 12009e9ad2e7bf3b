//! Write-back of FreeBSD up to 2010: a daemon that counts dirty buffers, not bytes.
//!
//! Memory for buffers is cut into buffers of 16 KiB on average (BKVASIZE), and each block of a file
//! system takes one, however small it is: what may be dirty shrinks with the block. A quarter of
//! the buffers and 20 more may be dirty (`vfs.hidirtybuffers`). A call that finds as many waits
//! until three quarters of that are left; from as many on the daemon writes, oldest first, until
//! half are left (`vfs.lodirtybuffers`). Not more than 1 MiB is under way at a time: who finds more
//! waits until it is half of that (`vfs.hirunningspace`, `vfs.lorunningspace`). Every second the
//! syncer writes what has been dirty for 30 s.
//!
//! Names, defaults and meaning are those of tuning(7) and syncer(4); sizes of a buffer and the
//! fractions are those of the releases from 5 to 8.
use super::{FlusherAdvice, FlusherFacts, Throttle, WriterAdvice, WriterFacts};

/// Memory that a buffer takes on average, in bytes.
const BUFFER_BYTES: u64 = 16 << 10;
/// More of them may be dirty than a quarter.
const DIRTY_MORE: u64 = 20;
/// Bytes under way at most, and how many of them may be left before more are sent.
const RUNNING_BYTES_MAX: u64 = 1 << 20;
const RUNNING_BYTES_LEFT: u64 = RUNNING_BYTES_MAX / 2;
const INTERVAL_NS: u64 = 1_000_000_000;
const AGE_NS: u64 = 30_000_000_000;

/// How long a writer waits at most before it looks again, in nanoseconds.
const WAIT_NS: u64 = 1_000_000_000;

/// Numbers of dirty buffers.
struct Marks {
    /// A call waits from as many on.
    high: u64,
    /// The daemon begins at more, and calls go on at as many.
    middle: u64,
    /// The daemon ends at as many.
    low: u64,
}

impl Marks {
    fn of(memory_bytes: u64) -> Marks {
        let high = memory_bytes / BUFFER_BYTES / 4 + DIRTY_MORE;
        Marks { high, middle: high / 4 * 3, low: high / 2 }
    }
}

/// How many buffers hold `dirty_bytes`.
fn buffers(dirty_bytes: u64, block_bytes: u64) -> u64 {
    dirty_bytes.div_ceil(block_bytes.clamp(1, BUFFER_BYTES))
}

/// FreeBSD's bufdaemon and syncer.
pub struct Bufdaemon;

impl Throttle for Bufdaemon {
    fn writer(&self, facts: &WriterFacts) -> WriterAdvice {
        let marks = Marks::of(facts.memory_bytes);
        let dirty = buffers(facts.dirty_bytes, facts.block_bytes);
        let is_stopped = facts.task.stopped_ns > 0;
        if dirty >= marks.high || (is_stopped && dirty > marks.middle) {
            WriterAdvice::Wait(WAIT_NS)
        } else if dirty >= marks.middle {
            WriterAdvice::WakeFlusher
        } else {
            WriterAdvice::Proceed
        }
    }

    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice {
        let marks = Marks::of(facts.memory_bytes);
        let dirty = buffers(facts.dirty_bytes, facts.block_bytes);
        let has_work = dirty >= marks.middle || (facts.is_at_work && dirty > marks.low);
        if has_work && facts.all.writing_bytes > RUNNING_BYTES_MAX {
            FlusherAdvice::WaitForWrites(RUNNING_BYTES_LEFT)
        } else if has_work {
            FlusherAdvice::Write(facts.block_bytes)
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
    use crate::throttle::{Load, TaskFacts};

    const SECOND: u64 = 1_000_000_000;
    /// 1,600 buffers: calls wait from 420 dirty ones on, and the daemon begins at 315.
    const MEMORY_BYTES: u64 = 1600 * BUFFER_BYTES;

    #[test]
    fn a_call_waits_by_the_number_of_blocks_whatever_their_size() {
        for block_bytes in [1024, 4096] {
            let told = |blocks, stopped_ns| {
                Bufdaemon.writer(&WriterFacts {
                    dirty_bytes: blocks * block_bytes,
                    memory_bytes: MEMORY_BYTES,
                    block_bytes,
                    task: TaskFacts { stopped_ns, ..TaskFacts::default() },
                    ..WriterFacts::default()
                })
            };
            assert_eq!(told(314, 0), WriterAdvice::Proceed);
            assert_eq!(told(419, 0), WriterAdvice::WakeFlusher);
            assert_eq!(told(420, 0), WriterAdvice::Wait(WAIT_NS));
            assert_eq!(told(316, 1), WriterAdvice::Wait(WAIT_NS), "goes on at three quarters");
            assert_eq!(told(315, 1), WriterAdvice::WakeFlusher);
        }
    }

    #[test]
    fn the_daemon_writes_down_to_half_and_keeps_a_mebibyte_under_way() {
        let told = |blocks: u64, writing_bytes, is_at_work| {
            Bufdaemon.flusher(&FlusherFacts {
                now: 100 * SECOND,
                last_look: 100 * SECOND,
                dirty_bytes: blocks * 4096,
                memory_bytes: MEMORY_BYTES,
                block_bytes: 4096,
                all: Load { writing_bytes, ..Load::default() },
                is_at_work,
                ..FlusherFacts::default()
            })
        };
        let sleeps = FlusherAdvice::SleepUntil(101 * SECOND);
        assert_eq!(told(314, 0, false), sleeps);
        assert_eq!(told(315, 0, false), FlusherAdvice::Write(4096));
        assert_eq!(told(211, 1 << 20, true), FlusherAdvice::Write(4096));
        assert_eq!(told(211, (1 << 20) + 1, true), FlusherAdvice::WaitForWrites(1 << 19));
        assert_eq!(told(210, 0, true), sleeps);
    }

    #[test]
    fn the_syncer_comes_every_second_for_what_is_thirty_seconds_old() {
        let told = |now, last_look| {
            Bufdaemon.flusher(&FlusherFacts {
                now,
                last_look,
                dirty_bytes: 4096,
                memory_bytes: MEMORY_BYTES,
                block_bytes: 4096,
                ..FlusherFacts::default()
            })
        };
        assert_eq!(told(40 * SECOND, 39 * SECOND), FlusherAdvice::WriteOlderThan(10 * SECOND));
        assert_eq!(told(40 * SECOND, 40 * SECOND), FlusherAdvice::SleepUntil(41 * SECOND));
    }
}
