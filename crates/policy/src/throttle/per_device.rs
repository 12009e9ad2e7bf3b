//! Per-device limits, the patches of 2007 (version 9; 2.6.24): a device's share of the limit is its
//! share of recently completed write-back.
//!
//! From public descriptions: a device's limit is its floating proportion of the dirty limit,
//! clipped to what the others leave plus its own; a task's limit is lower by up to an eighth, by
//! its share of what was made dirty lately. The background is 5 % and the limit 10 % of memory, as
//! in 2.6.22 and later. The release, 2.6.24, lets writers run free while all that is dirty is below
//! (background + limit) / 2, whatever the device; version 9 does not. Our addition: the limit of
//! all is hard. Above it nothing is made dirty, except one piece on a device that has nothing
//! dirty, and one for each 30 s that a device stops a writer.
use super::global::{
    EXCEEDED_BYTES, PASS_BYTES, STOPPED_NS_MAX, WAIT_NS, chunk_bytes, rate_limit_bytes,
};
use super::{
    FlusherAdvice, FlusherFacts, Limits, Manner, Throttle, WriterAdvice, WriterFacts,
    flusher_of_2_6, has_room, piece_under,
};

/// Below which amount writers are not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FreeRun {
    /// None (version 9).
    None,
    /// Half-way from the background to the limit, over all devices (2.6.24).
    HalfWay,
}

/// One dirty limit for each device (version 9 of 2007, and 2.6.24).
pub struct PerDevice {
    background_percent: u64,
    limit_percent: u64,
    free_run: FreeRun,
}

impl Default for PerDevice {
    fn default() -> PerDevice {
        PerDevice::new(5, 10)
    }
}

impl PerDevice {
    /// The policy with other shares of memory, in percent.
    pub fn new(background_percent: u64, limit_percent: u64) -> PerDevice {
        PerDevice { background_percent, limit_percent, free_run: FreeRun::None }
    }

    /// As released in 2.6.24.
    pub fn released() -> PerDevice {
        PerDevice { free_run: FreeRun::HalfWay, ..PerDevice::default() }
    }

    /// Whether so little is dirty that every writer goes on.
    fn runs_free(&self, facts: &WriterFacts) -> bool {
        let Limits { background_bytes, limit_bytes } = self.limits(facts.memory_bytes);
        self.free_run == FreeRun::HalfWay
            && facts.all.total().saturating_add(facts.task.wanted_bytes)
                < (background_bytes + limit_bytes) / 2
    }

    /// How much this writer's device may have dirty while this writer goes on.
    fn device_limit(&self, facts: &WriterFacts) -> u64 {
        let limit = self.limits(facts.memory_bytes).limit_bytes;
        let own = facts.device.load.total();
        let left = limit.saturating_sub(facts.all.total()).saturating_add(own);
        let of_device = facts.device.share.of(limit).min(left);
        of_device - facts.task.share.of(of_device / 8)
    }
}

impl Throttle for PerDevice {
    fn manner(&self) -> Manner {
        Manner::Pieces
    }

    fn limits(&self, memory_bytes: u64) -> Limits {
        Limits::of(memory_bytes, self.background_percent, self.limit_percent)
    }

    fn piece_bytes(&self, facts: &WriterFacts) -> u64 {
        let limit = self.limits(facts.memory_bytes).limit_bytes;
        let rate_limit = rate_limit_bytes(facts.memory_bytes);
        let is_near = facts.device.load.total() + rate_limit > self.device_limit(facts)
            && !self.runs_free(facts);
        let piece = if is_near { EXCEEDED_BYTES } else { rate_limit };
        piece_under(limit, piece)
    }

    fn writer(&self, facts: &WriterFacts) -> WriterAdvice {
        if self.runs_free(facts) {
            return WriterAdvice::Proceed;
        }
        let limit = self.limits(facts.memory_bytes).limit_bytes;
        let own = facts.device.load.total();
        let fits =
            own.saturating_add(facts.task.wanted_bytes) <= self.device_limit(facts) || own == 0;
        let has_room = has_room(facts, limit);
        let chunk = chunk_bytes(facts.memory_bytes);
        let has_written = facts.task.written_bytes >= chunk;
        if has_room && (fits || has_written) || facts.task.stopped_ns >= STOPPED_NS_MAX {
            WriterAdvice::Proceed
        } else if has_room && facts.task.dirtied_bytes < EXCEEDED_BYTES {
            WriterAdvice::OnAccount
        } else if facts.device.load.dirty_bytes > 0 && !has_written {
            WriterAdvice::WriteOwn(chunk - facts.task.written_bytes)
        } else {
            WriterAdvice::Wait(WAIT_NS)
        }
    }

    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice {
        let background = self.limits(facts.memory_bytes).background_bytes;
        let is_much = facts.all.dirty_bytes > background || facts.device.waiting > 0;
        flusher_of_2_6(facts, is_much.then_some(PASS_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DeviceFacts, Fraction, Load, TaskFacts};
    use super::*;

    /// Advice for a writer of a device with this part of the write-back, of 1,000 MB of memory.
    fn advice(policy: &PerDevice, dirty_bytes: u64, share: u64, task_share: u64) -> WriterAdvice {
        let load = Load { dirty_bytes, ..Load::default() };
        policy.writer(&WriterFacts {
            dirty_bytes,
            memory_bytes: 1_000_000_000,
            block_bytes: 4096,
            all: load,
            device: DeviceFacts {
                load,
                share: Fraction { part: share, whole: 100 },
                ..DeviceFacts::default()
            },
            task: TaskFacts {
                share: Fraction { part: task_share, whole: 100 },
                dirtied_bytes: 1 << 20,
                ..TaskFacts::default()
            },
        })
    }

    #[test]
    fn the_release_lets_writers_run_free_half_way_to_the_limit() {
        let (version_9, released) = (PerDevice::default(), PerDevice::released());
        // A device with a tenth of the write-back: 10 of 100 MB. Half-way from 50 to 100: 75 MB.
        assert_eq!(advice(&version_9, 9_000_000, 10, 0), WriterAdvice::Proceed);
        assert!(matches!(advice(&version_9, 11_000_000, 10, 0), WriterAdvice::WriteOwn(_)));
        assert_eq!(advice(&released, 74_900_000, 10, 0), WriterAdvice::Proceed);
        assert!(matches!(advice(&released, 75_000_000, 10, 0), WriterAdvice::WriteOwn(_)));
    }

    #[test]
    fn a_tasks_part_is_an_eighth() {
        let policy = PerDevice::default();
        // The device has all of 100 MB; a task that made everything dirty has an eighth less.
        assert_eq!(advice(&policy, 87_000_000, 100, 100), WriterAdvice::Proceed);
        assert!(matches!(advice(&policy, 88_000_000, 100, 100), WriterAdvice::WriteOwn(_)));
        assert_eq!(advice(&policy, 93_000_000, 100, 50), WriterAdvice::Proceed);
        assert!(matches!(advice(&policy, 94_000_000, 100, 50), WriterAdvice::WriteOwn(_)));
    }
}
