//! Position control (3.2): no writer does I/O; pauses of writers keep what is dirty between the
//! background and the limit.
//!
//! From public descriptions: below freerun no writer is paused. Above it a writer's rate is its
//! device's balanced rate times pos_ratio, times a factor that falls with the device's own dirty
//! bytes:
//!
//! ```text
//! freerun   = (background + limit) / 2
//! setpoint  = (freerun + limit) / 2
//! pos_ratio = 1 + ((setpoint - dirty) / (limit - setpoint))^3
//! ```
//!
//! The balanced rate follows write rate / dirty rate every 200 ms; a pause is at most 200 ms.
//! Ratios are 10 and 20 %. Our addition: the limit is hard, except for one piece after it has
//! stopped a writer for 30 s. Fixed point with ten binary digits.
use super::global::STOPPED_NS_MAX;
use super::{
    FlusherAdvice, FlusherFacts, Limits, Manner, PAGE_BYTES, Period, REQUEST_BYTES_MAX, Throttle,
    WriterAdvice, WriterFacts, flusher_of_2_6, has_room, piece_under,
};

/// One, in fixed point.
const ONE: i128 = 1 << 10;
/// The flusher works from this share of the memory on, if nothing else is said.
const BACKGROUND_PERCENT: u64 = 10;
const PAUSE_NS_MAX: u64 = 200_000_000;
/// A pause shorter than this is not made, and stays on the account, in nanoseconds: short sleeps
/// cost more than they gain.
const PAUSE_NS_MIN: u64 = 10_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The lowest rate of a writer, in bytes a second.
const RATE_MIN: u64 = 16 * PAGE_BYTES;
const RATE_MAX: u64 = 1 << 40;
/// Size of a piece above freerun, in bytes.
const PIECE_BYTES: u64 = 32 * PAGE_BYTES;

/// Above how many dirty bytes the flusher works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Background {
    /// A share of the memory, in percent: a burst that fits into memory is not written at all if
    /// it is deleted soon.
    Percent(u64),
    /// This many bytes, and at most the share of the memory that `Percent` would be: the device
    /// works while the writer computes, and a sync has little left to write.
    Bytes(u64),
}

/// Where `steady` begins to write, in bytes: eight requests of the largest size, so that what is
/// written at once is long enough to be worth its seek, and a file that is being written is not
/// cut into short runs.
const STEADY_BYTES: u64 = 8 * REQUEST_BYTES_MAX;

/// Writers are paused, and never write (3.2).
pub struct Proportional {
    background: Background,
    limit_percent: u64,
}

impl Default for Proportional {
    fn default() -> Proportional {
        Proportional::new(BACKGROUND_PERCENT, 20)
    }
}

fn freerun(limits: Limits) -> u64 {
    limits.limit_bytes / 2 + limits.background_bytes / 2
}

impl Proportional {
    /// The policy with other shares of memory, in percent.
    pub fn new(background_percent: u64, limit_percent: u64) -> Proportional {
        Proportional { background: Background::Percent(background_percent), limit_percent }
    }

    /// The policy with a flusher that starts early, at 8 MiB or 10 % of the memory, and the same
    /// pauses and limit. Below 10 % it leaves files that are overwritten here and there.
    pub fn steady() -> Proportional {
        Proportional { background: Background::Bytes(STEADY_BYTES), ..Proportional::default() }
    }

    /// The factor for the balanced rate, in fixed point: 0 at the limit, 1 at the setpoint, 2 at
    /// freerun.
    fn position(&self, facts: &WriterFacts) -> i128 {
        let limits = self.limits(facts.memory_bytes);
        let (limit, dirty) = (i128::from(limits.limit_bytes), i128::from(facts.all.total()));
        let setpoint = i128::from(freerun(limits) / 2 + limits.limit_bytes / 2);
        let x = ((setpoint - dirty) * ONE / (limit - setpoint).max(1)).clamp(-ONE, ONE);
        let of_all = ONE + x * x * x / (ONE * ONE);
        // The device's own setpoint is its share of that of all. A device without a share yet gets
        // an eighth of what is free.
        let spare = limits.limit_bytes.saturating_sub(facts.all.total()) / 8;
        let device_limit = facts.device.share.of(limits.limit_bytes).max(spare);
        let device_setpoint = setpoint * i128::from(device_limit) / limit.max(1);
        let span = i128::from(
            facts
                .device
                .write_rate
                .saturating_mul(8)
                .clamp(REQUEST_BYTES_MAX, limits.limit_bytes.max(REQUEST_BYTES_MAX)),
        );
        let ahead = device_setpoint - i128::from(facts.device.load.total());
        let of_device = (ONE + ahead * ONE / span).clamp(ONE / 8, 2 * ONE);
        of_all * of_device / ONE
    }

    /// How long after its last pause the writer may go on, for what is on its account, in
    /// nanoseconds.
    fn owed_ns(&self, facts: &WriterFacts) -> u64 {
        let rate = i128::from(facts.device.task_rate) * self.position(facts) / ONE;
        let rate = rate.clamp(RATE_MIN.into(), RATE_MAX.into());
        let owed = i128::from(facts.task.dirtied_bytes) * i128::from(SECOND_NS) / rate;
        u64::try_from(owed).unwrap_or(u64::MAX)
    }
}

impl Proportional {
    /// Whether less is dirty than the share of the memory from which everything is written.
    fn is_early(&self, facts: &FlusherFacts) -> bool {
        let share = Limits::of(facts.memory_bytes, BACKGROUND_PERCENT, self.limit_percent);
        matches!(self.background, Background::Bytes(_))
            && facts.all.dirty_bytes <= share.background_bytes
            && facts.device.waiting == 0
    }
}

impl Throttle for Proportional {
    fn manner(&self) -> Manner {
        Manner::Pieces
    }

    fn limits(&self, memory_bytes: u64) -> Limits {
        match self.background {
            Background::Percent(share) => Limits::of(memory_bytes, share, self.limit_percent),
            Background::Bytes(bytes) => {
                let limits = Limits::of(memory_bytes, BACKGROUND_PERCENT, self.limit_percent);
                let background_bytes = limits.background_bytes.min(bytes);
                Limits { background_bytes, ..limits }
            }
        }
    }

    fn piece_bytes(&self, facts: &WriterFacts) -> u64 {
        let limits = self.limits(facts.memory_bytes);
        let is_free = facts.all.total().saturating_add(REQUEST_BYTES_MAX) <= freerun(limits);
        piece_under(limits.limit_bytes, if is_free { REQUEST_BYTES_MAX } else { PIECE_BYTES })
    }

    fn writer(&self, facts: &WriterFacts) -> WriterAdvice {
        let limits = self.limits(facts.memory_bytes);
        if facts.task.stopped_ns < STOPPED_NS_MAX && !has_room(facts, limits.limit_bytes) {
            return WriterAdvice::Wait(PAUSE_NS_MAX);
        }
        if facts.all.total() <= freerun(limits) {
            return WriterAdvice::Proceed;
        }
        let owed = self.owed_ns(facts);
        let (task, left) = (&facts.task, owed.saturating_sub(facts.task.since_ns));
        if task.stopped_ns >= PAUSE_NS_MAX || left == 0 {
            WriterAdvice::Proceed
        } else if task.stopped_ns == 0 && left < PAUSE_NS_MIN {
            WriterAdvice::OnAccount
        } else {
            WriterAdvice::Pause(left.min(PAUSE_NS_MAX - task.stopped_ns))
        }
    }

    fn task_rate(&self, facts: &WriterFacts, period: &Period) -> u64 {
        let old = i128::from(facts.device.task_rate);
        if period.dirtied_bytes == 0
            || period.length_ns == 0
            || facts.all.total() <= freerun(self.limits(facts.memory_bytes))
        {
            return facts.device.task_rate;
        }
        let dirty_rate =
            i128::from(period.dirtied_bytes) * i128::from(SECOND_NS) / i128::from(period.length_ns);
        let applied = old * self.position(facts) / ONE;
        let balanced = applied * i128::from(facts.device.write_rate) / dirty_rate.max(1);
        // A quarter of the way, at least half and at most twice: one period says little.
        let new = (old + (balanced - old) / 4).clamp(old / 2, old * 2);
        new.clamp(RATE_MIN.into(), RATE_MAX.into()) as u64
    }

    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice {
        let background = self.limits(facts.memory_bytes).background_bytes;
        let own = facts.device.load.dirty_bytes;
        let is_much = facts.all.dirty_bytes > background
            || own > facts.device.share.of(background).max(REQUEST_BYTES_MAX)
            || facts.device.waiting > 0;
        // Half a second of work, so that files are written in long pieces.
        let batch = (facts.device.write_rate / 2).clamp(4 << 20, 64 << 20);
        match flusher_of_2_6(facts, is_much.then_some(batch)) {
            FlusherAdvice::Write(bytes) if self.is_early(facts) => FlusherAdvice::WriteLong(bytes),
            advice => advice,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DeviceFacts, Load};
    use super::*;

    #[test]
    fn steady_begins_early_and_has_the_same_limit() {
        let limits = |memory_bytes| {
            (
                Proportional::default().limits(memory_bytes),
                Proportional::steady().limits(memory_bytes),
            )
        };
        let (late, early) = limits(1 << 30);
        assert_eq!(early.background_bytes, STEADY_BYTES);
        assert_eq!(early.limit_bytes, late.limit_bytes);
        assert!(late.background_bytes > 10 * STEADY_BYTES);
        let advice = |dirty_bytes| {
            let load = Load { dirty_bytes, ..Load::default() };
            let device = DeviceFacts { load, ..DeviceFacts::default() };
            let facts = FlusherFacts {
                now: 0,
                dirty_bytes,
                memory_bytes: 1 << 30,
                block_bytes: 4096,
                last_look: 0,
                is_at_work: false,
                all: load,
                device,
            };
            Proportional::steady().flusher(&facts)
        };
        assert!(matches!(advice(STEADY_BYTES + 1), FlusherAdvice::WriteLong(_)));
        assert!(matches!(advice(late.background_bytes + 1), FlusherAdvice::Write(_)));
        // In a small memory it is no later than the other.
        let (late, early) = limits(16 << 20);
        assert_eq!(early, late);
    }
}
