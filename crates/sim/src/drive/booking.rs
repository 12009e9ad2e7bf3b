//! What models without moving parts are made of: answers in order of time, and buckets of tokens.
//! Integers only.
use super::{Done, Unflushed};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;

/// No transfer and no wait for tokens takes longer: a year. Keeps sums of times within 64 bits,
/// whatever a drive file says.
pub const LONGEST: u64 = 365 * 86_400 * SECOND;

/// How long N bytes take at a rate in bytes a second, rounded up; [`LONGEST`] at most.
pub fn transfer_time(bytes: u64, per_second: u64) -> u64 {
    let time = (u128::from(bytes) * u128::from(SECOND)).div_ceil(u128::from(per_second.max(1)));
    u64::try_from(time).unwrap_or(LONGEST).min(LONGEST)
}

/// A write on its way: its bytes go over one after the other, from one time to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// The command.
    pub id: u64,
    /// First byte on the drive.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// When the first of them goes.
    pub begin: u64,
    /// When all have gone.
    pub end: u64,
}

impl Passage {
    /// What has not gone over at `now`, in whole units; `None` when all has.
    pub fn left(&self, unit: u64, now: u64) -> Option<Unflushed> {
        if now >= self.end {
            return None;
        }
        let (passed, whole) = (now.saturating_sub(self.begin), self.end - self.begin);
        let bytes = u128::from(self.bytes) * u128::from(passed) / u128::from(whole.max(1));
        let bytes = u64::try_from(bytes).unwrap_or(self.bytes);
        let bytes = (bytes - bytes % unit.max(1)).min(self.bytes);
        Some(Unflushed { id: self.id, offset: self.offset + bytes, bytes: self.bytes - bytes })
    }
}

/// Things with a time, taken out in order of time, and of arrival where times are equal.
#[derive(Debug)]
pub struct Timeline<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: u64,
    sequence: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl<T> Timeline<T> {
    /// Nothing yet.
    pub fn new() -> Timeline<T> {
        Timeline { heap: BinaryHeap::new(), sequence: 0 }
    }

    /// Adds this at its time.
    pub fn push(&mut self, at: u64, what: T) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.heap.push(Reverse(Entry { at, sequence, what }));
    }

    /// The first, with its time.
    pub fn first(&self) -> Option<(u64, &T)> {
        self.heap.peek().map(|Reverse(entry)| (entry.at, &entry.what))
    }

    /// Takes out the first if its time has come.
    pub fn pop(&mut self, now: u64) -> Option<(u64, T)> {
        let due = self.first().is_some_and(|(at, _)| at <= now);
        let popped = if due { self.heap.pop() } else { None };
        popped.map(|Reverse(entry)| (entry.at, entry.what))
    }
}

impl<T> Default for Timeline<T> {
    fn default() -> Timeline<T> {
        Timeline::new()
    }
}

impl Timeline<Done> {
    /// Moves what ended by `now` into `done`.
    pub fn finish(&mut self, now: u64, done: &mut Vec<Done>) {
        while let Some((_, ended)) = self.pop(now) {
            done.push(ended);
        }
    }
}

/// A bucket that fills with tokens at a rate up to a limit. Who takes more than there are gets them
/// later, after those who came before.
///
/// *Invariants*: `level <= limit`; below zero are the tokens that were given out ahead; `at` never
/// goes back.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Tokens a second, which is also billionths of a token a nanosecond.
    rate: u64,
    /// In billionths of a token.
    limit: i128,
    level: i128,
    at: u64,
}

impl Bucket {
    /// A full bucket of N tokens, filled at a rate a second (0 counts as 1).
    pub fn full(limit: u64, per_second: u64) -> Bucket {
        let limit = i128::from(limit) * i128::from(SECOND);
        Bucket { rate: per_second.max(1), limit, level: limit, at: 0 }
    }

    /// Takes tokens at `now` (or at the time of an earlier call that was later). Returns when they
    /// are there: at once, or when enough have flowed in.
    pub fn take(&mut self, tokens: u64, now: u64) -> u64 {
        let rate = i128::from(self.rate);
        let now = now.max(self.at);
        let filled = self.level + i128::from(now - self.at) * rate;
        self.level = filled.min(self.limit) - i128::from(tokens) * i128::from(SECOND);
        self.at = now;
        let missing = (-self.level).max(0) as u128;
        let wait = missing.div_ceil(u128::from(self.rate));
        now.saturating_add(u64::try_from(wait).unwrap_or(LONGEST).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_in_order_of_time_then_of_arrival() {
        let mut line = Timeline::new();
        for (at, what) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')] {
            line.push(at, what);
        }
        assert_eq!(line.pop(2), None);
        let order: String = std::iter::from_fn(|| line.pop(5)).map(|(_, what)| what).collect();
        assert_eq!(order, "bdac");
    }

    #[test]
    fn a_bucket_gives_its_fill_at_once_and_the_rest_at_its_rate() {
        let mut bucket = Bucket::full(10, 1000);
        let times: Vec<u64> = (0..13).map(|_| bucket.take(1, 0)).collect();
        assert!(times[..10].iter().all(|time| *time == 0));
        assert_eq!(times[10..], [1_000_000, 2_000_000, 3_000_000]);
        assert_eq!(bucket.take(1, 4_000_000), 4_000_000);
        assert_eq!(bucket.take(10, SECOND), SECOND, "full again, and no more than full");
        assert_eq!(bucket.take(1, SECOND), SECOND + 1_000_000);
        assert_eq!(bucket.take(u64::MAX, SECOND), SECOND + LONGEST, "for ever, and no overflow");
    }

    #[test]
    fn of_a_passage_whole_units_have_gone() {
        let passage = Passage { id: 7, offset: 4096, bytes: 2048, begin: 100, end: 200 };
        let left = |now| passage.left(512, now).map(|left| (left.offset, left.bytes));
        assert_eq!(left(0), Some((4096, 2048)));
        assert_eq!(left(149), Some((4096 + 512, 1536)));
        assert_eq!(left(199), Some((4096 + 1536, 512)));
        assert_eq!(left(200), None);
        let at_once = Passage { begin: 200, ..passage };
        assert_eq!(
            (at_once.left(512, 199).map(|left| left.bytes), at_once.left(512, 200)),
            (Some(2048), None)
        );
    }

    #[test]
    fn transfers_round_up() {
        assert_eq!(transfer_time(4096, 1_000_000_000), 4096);
        assert_eq!(transfer_time(1, 7_000_000_000), 1);
        assert_eq!(transfer_time(u64::MAX, 1), LONGEST);
    }
}
