//! The habits of streams: how soon a stream submits its next command after the last one ended, and
//! how near. They decide whether waiting for it is worth an idle device (Iyer and Druschel,
//! "Anticipatory scheduling", SOSP 2001).
//!
//! Means are Linux's: each sample has seven eighths of the weight of the one after it, and the sum
//! of the weights is kept, so that the first samples count in full. One far seek is cut to four
//! times the mean and a little more, so that a stream that is elsewhere once does not become one
//! that seeks.
//!
//! *Invariants*: streams with nothing pending are forgotten, oldest first, so that the table has at
//! most four times as many streams as are pending, or [`STREAMS_MAX`].
use std::collections::BTreeMap;

/// How many streams are remembered before old ones are forgotten.
const STREAMS_MAX: usize = 1024;
/// After this many waits in vain in a row a stream is not waited for, until it comes back soon
/// without that.
const VAIN_MAX: u32 = 2;

/// How far a seek counts at most beyond four times the mean, in bytes: of the first two samples,
/// and of later ones.
const SEEK_BYTES_FIRST: u64 = 1 << 30;
const SEEK_BYTES_MORE: u64 = 64 << 20;
/// How many samples are the first ones.
const SAMPLES_FIRST: u32 = 2;
/// The weight of a sample.
const WEIGHT: u64 = 256;

/// What the first command of a stream counts as a seek.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstSeek {
    /// Nothing.
    None,
    /// The way from the start of the device: CFQ up to Linux 2.6.28.
    FromStart,
}

/// A mean in which older samples count less.
#[derive(Clone, Copy, Default)]
struct Mean {
    samples: u32,
    weight: u64,
    total: u128,
}

impl Mean {
    fn add(&mut self, sample: u64) {
        self.samples = self.samples.saturating_add(1);
        self.weight = (7 * self.weight + WEIGHT) / 8;
        self.total = (7 * self.total + u128::from(WEIGHT) * u128::from(sample)) / 8;
    }
    /// `None` before the first sample.
    fn value(&self) -> Option<u64> {
        let weight = u128::from(self.weight);
        let mean = (self.total + weight / 2).checked_div(weight)?;
        Some(u64::try_from(mean).unwrap_or(u64::MAX))
    }
}

/// One stream.
#[derive(Default)]
struct Habit {
    /// Its commands that wait or are under way.
    pending: u64,
    /// When its last command ended, if none is pending.
    answered: Option<u64>,
    /// Where its last command ends.
    place: u64,
    /// Mean time from the end of a command to the arrival of the next one, in nanoseconds.
    think_ns: Mean,
    /// Mean distance from the end of a command to the next one, in bytes.
    distance_bytes: Mean,
    vain: u32,
    seen: Option<u64>,
}

/// The habits of all streams.
pub(super) struct Streams {
    /// The longest time that is worth waiting, in nanoseconds.
    patience_ns: u64,
    first_seek: FirstSeek,
    habits: BTreeMap<u32, Habit>,
    /// How many are kept before old ones are forgotten.
    habits_max: usize,
}

impl Habit {
    fn seek(&mut self, distance_bytes: u64) {
        let mean = self.distance_bytes.value().unwrap_or(0);
        let more = match self.distance_bytes.samples < SAMPLES_FIRST {
            true => SEEK_BYTES_FIRST,
            false => SEEK_BYTES_MORE,
        };
        self.distance_bytes.add(distance_bytes.min(mean.saturating_mul(4).saturating_add(more)));
    }
}

impl Streams {
    pub fn new(patience_ns: u64, first_seek: FirstSeek) -> Streams {
        Streams { patience_ns, first_seek, habits: BTreeMap::new(), habits_max: STREAMS_MAX }
    }
    /// Notes that a command of the stream, from `offset` to `end`, waits.
    pub fn arrived(&mut self, stream: u32, (offset, end): (u64, u64), now: u64) {
        if self.habits.len() >= self.habits_max {
            self.forget();
        }
        let patience_ns = self.patience_ns;
        let from_start = self.first_seek == FirstSeek::FromStart;
        let habit = self.habits.entry(stream).or_default();
        if habit.seen.is_none() && from_start {
            habit.seek(offset);
        }
        if let Some(answered) = habit.answered.take() {
            let think_ns = now.saturating_sub(answered);
            if think_ns <= patience_ns {
                habit.vain = 0;
            }
            // A long absence is not a habit: it counts as twice the longest wait.
            habit.think_ns.add(think_ns.min(patience_ns.saturating_mul(2)));
            habit.seek(offset.abs_diff(habit.place));
        }
        habit.place = end;
        habit.pending += 1;
        habit.seen = Some(now);
    }
    /// Notes that a command of the stream became another stream's, or part of another command.
    pub fn left(&mut self, stream: u32) {
        if let Some(habit) = self.habits.get_mut(&stream) {
            habit.pending = habit.pending.saturating_sub(1);
        }
    }
    /// Notes that a command of the stream ended.
    pub fn answered(&mut self, stream: u32, now: u64) {
        if let Some(habit) = self.habits.get_mut(&stream) {
            habit.pending = habit.pending.saturating_sub(1);
            habit.answered = Some(now).filter(|_| habit.pending == 0);
            habit.seen = Some(now);
        }
    }
    /// Notes that the stream was waited for and did not come.
    pub fn waited_in_vain(&mut self, stream: u32) {
        if let Some(habit) = self.habits.get_mut(&stream) {
            habit.vain += 1;
        }
    }
    /// How many commands of the stream wait or are under way.
    pub fn pending(&self, stream: u32) -> u64 {
        self.habits.get(&stream).map_or(0, |habit| habit.pending)
    }
    /// Whether the stream is likely to come back soon. Assumed of an unknown stream.
    pub fn comes_soon(&self, stream: u32) -> bool {
        self.habits.get(&stream).is_some_and(|habit| {
            habit.vain < VAIN_MAX
                && habit.think_ns.value().is_none_or(|think_ns| think_ns <= self.patience_ns)
        })
    }
    /// Whether the stream is likely to come back within this many bytes. Assumed of an unknown
    /// stream.
    pub fn comes_near(&self, stream: u32, near_bytes: u64) -> bool {
        let habit = self.habits.get(&stream);
        habit.is_some_and(|habit| {
            habit.distance_bytes.value().is_none_or(|distance| distance <= near_bytes)
        })
    }
    /// Whether a stream that came back before seeks as far as this on average.
    pub fn is_usual(&self, stream: u32, distance_bytes: u64) -> bool {
        let mean = self.habits.get(&stream).and_then(|habit| habit.distance_bytes.value());
        mean.is_some_and(|mean| distance_bytes <= mean)
    }

    /// Forgets half of the streams with nothing pending: those not seen for longest.
    fn forget(&mut self) {
        let idle = self.habits.iter().filter(|(_, habit)| habit.pending == 0);
        let mut idle: Vec<(Option<u64>, u32)> =
            idle.map(|(stream, habit)| (habit.seen, *stream)).collect();
        idle.sort_unstable();
        let pending = self.habits.len() - idle.len();
        for (_, stream) in idle.iter().take(idle.len().div_ceil(2)) {
            self.habits.remove(stream);
        }
        self.habits_max = (pending * 4).max(STREAMS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: u64 = 6_000_000;

    #[test]
    fn a_stream_is_known_by_how_it_came_back() {
        let mut streams = Streams::new(PATIENCE, FirstSeek::None);
        assert!(!streams.comes_soon(1), "never seen");
        streams.arrived(1, (0, 4096), 0);
        assert!(streams.comes_soon(1) && streams.comes_near(1, 0), "a first chance");
        streams.answered(1, 100);
        streams.arrived(1, (1_004_096, 1_008_192), 2_000_100);
        assert!(streams.comes_near(1, 1_000_000) && !streams.comes_near(1, 999_999));
        assert!(streams.comes_soon(1));
        for turn in 1..20 {
            streams.answered(1, turn * 100_000_000);
            streams.arrived(1, (0, 4096), turn * 100_000_000 + 50_000_000);
        }
        assert!(!streams.comes_soon(1), "thinks for 50 ms");
    }

    #[test]
    fn vain_waits_end_the_chances_until_it_comes_back() {
        let mut streams = Streams::new(PATIENCE, FirstSeek::None);
        streams.arrived(1, (0, 4096), 0);
        streams.answered(1, 0);
        streams.waited_in_vain(1);
        assert!(streams.comes_soon(1));
        streams.waited_in_vain(1);
        assert!(!streams.comes_soon(1));
        streams.arrived(1, (4096, 8192), 1);
        assert!(streams.comes_soon(1));
    }

    #[test]
    fn old_streams_are_forgotten_but_never_what_is_pending() {
        let mut streams = Streams::new(PATIENCE, FirstSeek::None);
        for stream in 0..10_000 {
            streams.arrived(stream, (0, 4096), u64::from(stream));
            if stream >= 100 {
                streams.answered(stream, u64::from(stream));
            }
        }
        assert!(streams.habits.len() <= STREAMS_MAX);
        assert!((0..100).all(|stream| streams.pending(stream) == 1));
        assert!(streams.comes_soon(9_999), "seen just now");
    }
}
