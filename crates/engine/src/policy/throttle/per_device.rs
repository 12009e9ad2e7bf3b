//! Per-device limits, the patches of 2007 (version 9; 2.6.24): a device's share of the limit is its
//! share of recently completed write-back.
//!
//! From public descriptions: a device's limit is its floating proportion of the dirty limit,
//! clipped to what the others leave plus its own; a task's limit is lower by up to an eighth, by
//! its share of what was made dirty lately. The background is 5 % and the limit 10 % of memory, as
//! in 2.6.22 and later. Our addition: the limit of all is hard. Above it nothing is made dirty,
//! except one piece on a device that has nothing dirty, and one for each 30 s that a device stops a
//! writer.
use super::global::{
    EXCEEDED_BYTES, PASS_BYTES, STOPPED_NS_MAX, WAIT_NS, chunk_bytes, rate_limit_bytes,
};
use super::{
    FlusherAdvice, FlusherFacts, Limits, Manner, Throttle, WriterAdvice, WriterFacts,
    flusher_of_2_6, has_room, piece_under,
};

/// One dirty limit for each device (version 9 of 2007).
pub struct PerDevice {
    background_percent: u64,
    limit_percent: u64,
}

impl Default for PerDevice {
    fn default() -> PerDevice {
        PerDevice::new(5, 10)
    }
}

impl PerDevice {
    /// The policy with other shares of memory, in percent.
    pub fn new(background_percent: u64, limit_percent: u64) -> PerDevice {
        PerDevice { background_percent, limit_percent }
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
        let is_near =
            facts.device.load.total() + rate_limit_bytes(limit) > self.device_limit(facts);
        let piece = if is_near { EXCEEDED_BYTES } else { rate_limit_bytes(limit) };
        piece_under(limit, piece)
    }

    fn writer(&self, facts: &WriterFacts) -> WriterAdvice {
        let limit = self.limits(facts.memory_bytes).limit_bytes;
        let own = facts.device.load.total();
        let fits =
            own.saturating_add(facts.task.wanted_bytes) <= self.device_limit(facts) || own == 0;
        let has_room = has_room(facts, limit);
        let chunk = chunk_bytes(limit);
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
