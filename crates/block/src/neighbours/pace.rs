//! What a device is like, learned while it is read: how long a read takes that is alone and far
//! from the one before, and how many bytes come in a second.
//!
//! The product of the two is what has to be under way so that the device never waits for its
//! reader. The rate of a read is that of all bytes that came while it was under way, so that reads
//! side by side count together; it falls only by reads during which the device had enough to do.
//! The estimates are whole numbers of what the clock showed, so virtual time gives the same ones
//! in every run.

const SECOND: u64 = 1_000_000_000;
/// The share of a new time in the estimate of the latency, and of a lower rate in that of the rate.
const SHARE: u64 = 8;

/// A longer read shows the rate more than the latency.
const SHORT_BYTES_MAX: u64 = 64 << 10;
/// The rate before anything was read, in bytes a second: a disk of 2001.
const BYTES_PER_S_MIN: u64 = 32 << 20;

/// What was learned. The latency is 0 before the first read has ended.
#[derive(Debug)]
pub(super) struct Pace {
    latency_ns: u64,
    bytes_per_s: u64,
    /// Bytes that have come.
    delivered: u64,
    /// Reads that have not ended.
    under_way: u64,
}

/// Where a read begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Distance {
    /// Near the end of the one sent before it: a disk may have read on.
    Near,
    /// Elsewhere.
    Far,
}

/// A read that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    at_ns: u64,
    bytes: u64,
    /// Bytes that had come before it was sent.
    delivered: u64,
    /// Whether nothing else was under way, and it is far: its time is a latency.
    shows_latency: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { latency_ns: 0, bytes_per_s: BYTES_PER_S_MIN, delivered: 0, under_way: 0 }
    }
}

impl Pace {
    /// A read is sent now.
    pub(super) fn send(&mut self, bytes: u64, distance: Distance, now_ns: u64) -> Sent {
        let is_short = bytes <= SHORT_BYTES_MAX;
        let shows_latency = self.under_way == 0 && distance == Distance::Far && is_short;
        self.under_way += 1;
        Sent { at_ns: now_ns, bytes, delivered: self.delivered, shows_latency }
    }

    /// A read has ended, with all its bytes or with an error.
    pub(super) fn end(&mut self, sent: Sent, now_ns: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        self.delivered = self.delivered.wrapping_add(sent.bytes);
        let elapsed_ns = now_ns.saturating_sub(sent.at_ns).max(1);
        let came = self.delivered.wrapping_sub(sent.delivered);
        let rate = scaled(came, SECOND, elapsed_ns);
        if rate > self.bytes_per_s {
            self.bytes_per_s = rate;
        } else if came >= self.flight_bytes() {
            let lower = self.bytes_per_s - (self.bytes_per_s - rate) / SHARE;
            self.bytes_per_s = lower.max(BYTES_PER_S_MIN);
        }
        if sent.shows_latency {
            self.latency_ns = match self.latency_ns {
                0 => elapsed_ns,
                before => (before.saturating_mul(SHARE - 1)).saturating_add(elapsed_ns) / SHARE,
            };
        }
    }

    /// Bytes that come in a second.
    pub(super) fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s
    }

    /// Bytes that come during the latency of a read.
    pub(super) fn flight_bytes(&self) -> u64 {
        scaled(self.latency_ns, self.bytes_per_s, SECOND)
    }
}

/// `number * times / by`, as far as 64 bits go.
fn scaled(number: u64, times: u64, by: u64) -> u64 {
    let product = u128::from(number) * u128::from(times) / u128::from(by.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Distance::Far;

    const MS: u64 = 1_000_000;

    #[test]
    fn latency_by_reads_that_are_alone_and_rate_by_all_that_came_meanwhile() {
        let mut pace = Pace::default();
        assert_eq!(pace.flight_bytes(), 0, "nothing is known");
        for round in 0..100 {
            let at = round * 20 * MS;
            let sent = pace.send(4096, Far, at);
            pace.end(sent, at + 10 * MS);
        }
        assert_eq!(pace.bytes_per_s, BYTES_PER_S_MIN);
        // Ten reads of 1 MB side by side, of which the last ends after 20 ms.
        let at = 3000 * MS;
        let sent: Vec<Sent> = (0..10).map(|_| pace.send(1_000_000, Far, at)).collect();
        for (number, sent) in (1..).zip(sent) {
            pace.end(sent, at + 10 * MS + number * MS);
        }
        assert_eq!(pace.bytes_per_s, 500_000_000);
        let megabytes = pace.flight_bytes() / 1_000_000;
        assert!((4..=6).contains(&megabytes), "{megabytes} MB at 500 MB/s and 10 ms");
    }

    #[test]
    fn small_reads_say_nothing_of_the_rate_and_a_slower_device_is_noticed() {
        let mut pace = Pace { latency_ns: 10 * MS, bytes_per_s: 100_000_000, ..Pace::default() };
        for round in 0..1000 {
            let sent = pace.send(4096, Far, round * 20 * MS);
            pace.end(sent, round * 20 * MS + 10 * MS);
        }
        assert_eq!(pace.bytes_per_s, 100_000_000);
        for round in 0..100 {
            let at = (2000 + round) * 1000 * MS;
            let others = pace.send(0, Far, at);
            let sent = pace.send(4_000_000, Far, at);
            pace.end(sent, at + 80 * MS);
            pace.end(others, at + 80 * MS);
        }
        let rate = pace.bytes_per_s / 1_000_000;
        assert!((49..=51).contains(&rate), "{rate} MB/s of 50");
    }

    #[test]
    fn the_largest_numbers_overflow_nothing() {
        let mut pace = Pace::default();
        for (at, end) in [(0, u64::MAX), (u64::MAX, 0), (5, 5)] {
            let sent = pace.send(u64::MAX, Far, at);
            pace.end(sent, end);
        }
        let _ = pace.flight_bytes();
    }
}
