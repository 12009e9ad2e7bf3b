//! What a simulated device counts: sums and distributions, integers only.
use crate::drive::{Done, Parts};
use crate::queue::{Command, QueueStatistics};
use extant_block::Operation;

/// Each power of two is cut into this many.
const STEPS: u64 = 8;
/// Values below are kept exactly.
const EXACT: u64 = 2 * STEPS;
/// Steps of all powers of two up to 2^64.
const BUCKETS: usize = (EXACT + (64 - 4) * STEPS) as usize;

/// How often values occurred, on a logarithmic scale: a value is known to an eighth of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: vec![0; BUCKETS], count: 0, sum: 0, max: 0 }
    }
}

impl Histogram {
    /// One more value.
    pub fn add(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }
    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Their sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }
    /// The greatest of them, 0 of none.
    pub fn max(&self) -> u64 {
        self.max
    }
    /// Their mean, rounded down; 0 of none.
    pub fn mean(&self) -> u64 {
        (self.sum / u128::from(self.count.max(1))) as u64
    }
    /// The value that N thousandths of all do not exceed, rounded up by at most an eighth; 0
    /// of none.
    pub fn permille(&self, permille: u32) -> u64 {
        let rank = (u128::from(self.count) * u128::from(permille.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return last_value(index).min(self.max);
            }
        }
        0
    }
    /// The steps that have values: the greatest value of each, and how many. Rising.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| (last_value(index), *count))
    }
}

fn bucket(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let power = u64::from(63 - value.leading_zeros());
    let step = (value >> (power - 3)) - STEPS;
    (EXACT + (power - 4) * STEPS + step) as usize
}

/// The greatest value of a bucket.
fn last_value(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let (power, step) = ((bucket - EXACT) / STEPS + 4, (bucket - EXACT) % STEPS);
    let width = 1 << (power - 3);
    // The last of all ends at 2^64 - 1.
    ((STEPS + step) << (power - 3)) + (width - 1)
}

/// What a simulated device has done so far. Times are nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Requests that ended: reads, writes and flushes that reached the queue.
    pub requests: u64,
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Requests to flush.
    pub flushes: u64,
    /// Bytes of the requests to read.
    pub bytes_read: u64,
    /// Bytes of the requests to write.
    pub bytes_written: u64,
    /// Commands that the drive has answered.
    pub commands: u64,
    /// Pieces of requests in these commands, less the commands: how many were saved by merging.
    pub merged: u64,
    /// Commands that were answered without the medium.
    pub hits: u64,
    /// Commands that did not start where the one before had ended (flushes aside).
    pub seeks: u64,
    /// The distances of these, in bytes.
    pub seek_bytes: u128,
    /// Where the time of the commands in the drive went.
    pub parts: Parts,
    /// The time of the commands in the drive: the sum of `parts`.
    pub service_ns: u64,
    /// How long the drive had a command.
    pub busy_ns: u64,
    /// How long it had none, since time 0.
    pub idle_ns: u64,
    /// Commands that waited or were in the drive when a request arrived (requests that wait before
    /// the elevator count as commands), added up over the arrivals.
    pub depth_sum: u64,
    /// The most of them.
    pub depth_max: u64,
    /// From submission to completion of each request to read.
    pub read_latency: Histogram,
    /// From submission to completion of each request to write or to flush.
    pub write_latency: Histogram,
    /// What the host's queue counts.
    pub queue: QueueStatistics,
}

impl Statistics {
    /// A request ended after that time.
    pub(super) fn count_request(&mut self, operation: Operation, bytes: u64, latency_ns: u64) {
        self.requests += 1;
        match operation {
            Operation::Read => {
                self.reads += 1;
                self.bytes_read += bytes;
                self.read_latency.add(latency_ns);
            }
            Operation::Write => {
                self.writes += 1;
                self.bytes_written += bytes;
                self.write_latency.add(latency_ns);
            }
            Operation::Flush => {
                self.flushes += 1;
                self.write_latency.add(latency_ns);
            }
        }
    }

    /// A request arrived where this many others were.
    pub(super) fn count_depth(&mut self, depth: u64) {
        self.depth_sum += depth;
        self.depth_max = self.depth_max.max(depth);
    }

    /// A command is sent while the head stands at `head`.
    pub(super) fn count_seek(&mut self, command: &Command, head: u64) {
        if command.operation != Operation::Flush && command.offset != head {
            self.seeks += 1;
            self.seek_bytes += u128::from(command.offset.abs_diff(head));
        }
    }

    /// The drive answered a command of this many pieces.
    pub(super) fn count_command(&mut self, done: &Done, pieces: usize) {
        self.commands += 1;
        self.merged += (pieces as u64).saturating_sub(1);
        self.hits += u64::from(done.hit);
        self.service_ns += done.parts.total();
        let (sum, parts) = (&mut self.parts, &done.parts);
        sum.queued += parts.queued;
        sum.overhead += parts.overhead;
        sum.seek += parts.seek;
        sum.settle += parts.settle;
        sum.rotation += parts.rotation;
        sum.media += parts.media;
        sum.bus += parts.bus;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_their_values() {
        for index in 1..BUCKETS {
            assert_eq!(bucket(last_value(index)), index);
            assert_eq!(
                bucket(last_value(index - 1) + 1),
                index,
                "the next value is in the next bucket"
            );
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn permilles_are_right_to_an_eighth() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.permille(500), histogram.mean(), histogram.max()), (0, 0, 0));
        (1..=10_000_u64).for_each(|value| histogram.add(value * 1000));
        for permille in [1, 10, 500, 900, 999, 1000] {
            let exact = u64::from(permille) * 10_000;
            let found = histogram.permille(permille);
            assert!(found >= exact && found <= exact + exact / 8, "{permille}: {found}");
        }
        assert_eq!(
            (histogram.mean(), histogram.max(), histogram.count()),
            (5_000_500, 10_000_000, 10_000)
        );
        assert_eq!(histogram.steps().map(|(_, count)| count).sum::<u64>(), 10_000);
    }
}
