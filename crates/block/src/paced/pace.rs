//! What a window ahead of a reader is worth on a device, learned while it is read.
//!
//! Two things make a read wait. The way to the device: what comes during it has to be under way, or
//! the device is idle (latency times bandwidth, as TCP BBR has it for a network: Cardwell and
//! others 2016). And a seek, which is paid for by reading on for some times as long. For the first
//! only the least time of a short read counts: what a read waits in a queue, beside a writer, or
//! for the arm of a disk is not the way to the device, and more read-ahead would make it worse. A
//! disk answers some reads from its cache, so its way is short. For the second the usual time of a
//! short read counts, within limits that a disk of 2007 does not reach: on such disks a window is
//! worth 2 MiB at most, whatever they are busy with.
//!
//! The rate is that of a period, which begins when the device was idle, or with the oldest read
//! under way, so that bytes which come in a lump are not taken for a rate. All estimates are whole
//! numbers of what the clock showed, so virtual time gives the same ones in every run.
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
/// A longer read shows the rate more than the latency.
const SHORT_BYTES_MAX: u64 = 64 << 10;
/// Short reads before anything follows from their times: the first ones of a mount are near each
/// other, and a disk has the later ones in its cache.
const SHORT_READS_MIN: u32 = 4;
/// A period has at least this many bytes.
const PERIOD_BYTES_MIN: u64 = 1 << 20;
/// What comes during this many times the least latency is under way: the latencies of an object
/// store differ by as much between the least and the longest of a hundred.
const LEAST_TIMES: u64 = 32;
/// A seek is paid for by reading this many times as long as a short read usually takes, ..
const USUAL_TIMES: u64 = 8;
/// .. but not longer than this, in nanoseconds, ..
const SEEK_NS_MAX: u64 = SECOND / 40;
/// .. and not more than this, in bytes: what a disk of today passes in that time.
const SEEK_BYTES_MAX: u64 = 8 << 20;
/// Where no short read took less than this, a request is dear: no disk and no network volume
/// answers so late every time.
const DEAR_NS: u64 = 3 * SECOND / 1000;
/// Of a store one answer in thousands comes sooner by chance: one, and one more in this many short
/// reads, changes nothing. A disk has more in its cache.
const RARE: u32 = 64;
/// A piece then has this many bytes at least, which come in less time than a store takes to answer.
/// With longer ones a window is over too few connections, each of which has its own rate.
const DEAR_BYTES: u64 = 1 << 20;
/// The rate before it was seen, in bytes a second: 2 MiB in the longest time for a seek.
const BYTES_PER_S_MIN: u64 = (2 << 20) * 40;

/// What was learned of a device.
#[derive(Debug)]
pub(super) struct Pace {
    /// The least time that a short read took.
    least_ns: u64,
    /// What one usually takes: an average in which an eighth is the last one.
    usual_ns: u64,
    short_reads: u32,
    /// How many of them were answered in less than [`DEAR_NS`].
    soon_reads: u32,
    /// The most bytes that came in a second.
    bytes_per_s: u64,
    /// When each read that has not ended was sent, by the number of the read.
    under_way: BTreeMap<u64, u64>,
    under_way_bytes: u64,
    number_next: u64,
    /// When this period began, how many bytes came since, and how many end it.
    began_ns: u64,
    came: u64,
    enough: u64,
}

/// What follows for read-ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Worth {
    /// How many bytes are worth having under way: 0 while too little is known.
    pub(super) window_bytes: u64,
    /// The most bytes that came in a second so far.
    pub(super) bytes_per_s: u64,
    /// How many bytes a piece of a window has at least, where a request is dear; else 0.
    pub(super) piece_bytes: u64,
}

/// A read that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    number: u64,
    at_ns: u64,
    bytes: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            least_ns: u64::MAX,
            usual_ns: 0,
            short_reads: 0,
            soon_reads: 0,
            bytes_per_s: BYTES_PER_S_MIN,
            under_way: BTreeMap::new(),
            under_way_bytes: 0,
            number_next: 0,
            began_ns: 0,
            came: 0,
            enough: PERIOD_BYTES_MIN,
        }
    }
}

impl Pace {
    /// A read is sent now.
    pub(super) fn send(&mut self, bytes: u64, now_ns: u64) -> Sent {
        if self.under_way.is_empty() {
            self.begin_period(now_ns);
        }
        let number = self.number_next;
        self.number_next += 1;
        self.under_way.insert(number, now_ns);
        self.under_way_bytes = self.under_way_bytes.saturating_add(bytes);
        self.enough = self.enough.max(self.under_way_bytes.saturating_mul(4));
        Sent { number, at_ns: now_ns, bytes }
    }

    /// A read has ended, with all its bytes or with an error.
    pub(super) fn end(&mut self, sent: Sent, now_ns: u64) {
        self.under_way.remove(&sent.number);
        self.under_way_bytes = self.under_way_bytes.saturating_sub(sent.bytes);
        self.came = self.came.saturating_add(sent.bytes);
        if self.came >= PERIOD_BYTES_MIN {
            let rate = scaled(self.came, SECOND, now_ns.saturating_sub(self.began_ns));
            self.bytes_per_s = self.bytes_per_s.max(rate);
        }
        if sent.bytes <= SHORT_BYTES_MAX {
            self.learn_latency(now_ns.saturating_sub(sent.at_ns));
        }
        if self.came >= self.enough
            && let Some(oldest_ns) = self.under_way.values().next()
        {
            self.begin_period(*oldest_ns);
        }
    }

    /// Only bytes that come after this count, all of which were sent at `at_ns` or later.
    fn begin_period(&mut self, at_ns: u64) {
        (self.began_ns, self.came) = (at_ns, 0);
        self.enough = self.under_way_bytes.saturating_mul(4).max(PERIOD_BYTES_MIN);
    }

    /// A short read took this long.
    fn learn_latency(&mut self, elapsed_ns: u64) {
        let is_soon = elapsed_ns < DEAR_NS;
        self.soon_reads = self.soon_reads.saturating_add(u32::from(is_soon));
        let is_chance = self.is_dear() && is_soon && self.is_soon_rare();
        if !is_chance {
            self.least_ns = self.least_ns.min(elapsed_ns);
        }
        self.usual_ns = match self.short_reads {
            0 => elapsed_ns,
            _ => self.usual_ns.saturating_mul(7).saturating_add(elapsed_ns) / 8,
        };
        self.short_reads = self.short_reads.saturating_add(1);
    }

    fn is_known(&self) -> bool {
        self.short_reads >= SHORT_READS_MIN
    }

    fn is_dear(&self) -> bool {
        self.is_known() && self.least_ns >= DEAR_NS
    }

    /// Whether so few reads were answered soon that they say nothing of the way to the device.
    fn is_soon_rare(&self) -> bool {
        self.soon_reads.saturating_sub(1).saturating_mul(RARE) < self.short_reads
    }

    /// What is known now.
    pub(super) fn worth(&self) -> Worth {
        let bytes_in = |ns: u64| scaled(self.bytes_per_s, ns, SECOND);
        let way = bytes_in(self.least_ns.saturating_mul(LEAST_TIMES));
        let seek = bytes_in(self.usual_ns.saturating_mul(USUAL_TIMES).min(SEEK_NS_MAX));
        let window_bytes = if self.is_known() { way.max(seek.min(SEEK_BYTES_MAX)) } else { 0 };
        let piece_bytes = if self.is_dear() { DEAR_BYTES } else { 0 };
        Worth { window_bytes, bytes_per_s: self.bytes_per_s, piece_bytes }
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

    const MS: u64 = 1_000_000;
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// Reads that follow each other: bytes, and the time that each takes.
    fn after(reads: impl IntoIterator<Item = (u64, u64)>) -> Worth {
        let (mut pace, mut now_ns) = (Pace::default(), 0);
        for (bytes, elapsed_ns) in reads {
            let sent = pace.send(bytes, now_ns);
            now_ns += elapsed_ns;
            pace.end(sent, now_ns);
        }
        pace.worth()
    }

    #[test]
    fn on_a_disk_of_the_posts_a_window_is_worth_two_mebibytes_whatever_it_waits_for() {
        // One read from the drive's cache, then seeks, at 80 MB/s, up to a second beside a writer.
        for wait_ms in [5, 20, 100, 1000] {
            let seeks = std::iter::repeat_n((4 * KIB, wait_ms * MS), 50);
            let long = std::iter::repeat_n((2 * MIB, 27 * MS), 50);
            let worth = after([(4 * KIB, MS / 2)].into_iter().chain(seeks).chain(long));
            assert!((1..=2 * MIB).contains(&worth.window_bytes), "{wait_ms}: {worth:?}");
        }
    }

    #[test]
    fn on_a_fast_disk_it_is_what_passes_in_the_time_of_some_seeks() {
        let seeks = std::iter::repeat_n((4 * KIB, 6 * MS), 50);
        let worth = after([(4 * KIB, MS / 5)].into_iter().chain(seeks).chain([(2 * MIB, 7 * MS)]));
        assert!((7 * MIB..=8 * MIB).contains(&worth.window_bytes), "{worth:?}");
    }

    #[test]
    fn a_device_far_away_is_known_after_a_few_reads_and_one_at_hand_is_worth_little() {
        assert_eq!(after([(4 * KIB, 30 * MS); 3]).window_bytes, 0, "too little is known");
        let far = after([(4 * KIB, 30 * MS); 4]);
        assert!(far.window_bytes > 64 * MIB, "{far:?}");
        let memory = std::iter::repeat_n((4 * KIB, 2000), 50);
        let memory = after(memory.chain(std::iter::repeat_n((2 * MIB, 400_000), 50)));
        assert!(memory.window_bytes <= MIB, "{memory:?}");
    }

    #[test]
    fn a_request_is_dear_only_where_every_answer_is_late() {
        let store = [30, 12, 6, 40].map(|ms| (4 * KIB, ms * MS));
        assert_eq!(after(store).piece_bytes, MIB);
        assert_eq!(after(store.map(|(bytes, ns)| (bytes, 10 * ns))).piece_bytes, MIB);
        // One answer that comes soon by chance is none of a disk, and a second soon after it is.
        let by_chance = |soon: usize| {
            let late = std::iter::repeat_n((4 * KIB, 30 * MS), 8);
            let soon = std::iter::repeat_n((4 * KIB, MS), soon);
            after(store.into_iter().chain(soon).chain(late))
        };
        assert_eq!(by_chance(1), by_chance(0), "one of 13");
        assert_eq!(by_chance(2).piece_bytes, 0);
        assert_eq!(after(store.into_iter().take(3)).piece_bytes, 0, "too little is known");
        // A disk answers some reads from its cache, and a network volume all of them soon.
        let disk = [(4 * KIB, 12 * MS), (4 * KIB, 9 * MS), (4 * KIB, MS / 5), (4 * KIB, 8 * MS)];
        assert_eq!(after(disk).piece_bytes, 0);
        assert_eq!(after([(4 * KIB, 2 * MS); 8]).piece_bytes, 0);
    }

    #[test]
    fn reads_side_by_side_count_together_and_a_lump_is_no_rate() {
        let mut pace = Pace::default();
        let sent: Vec<Sent> = (0..10).map(|_| pace.send(MIB, 0)).collect();
        for (number, sent) in (1..).zip(sent) {
            pace.end(sent, 10 * MS + number * MS);
        }
        assert_eq!(pace.worth().bytes_per_s, 10 * MIB * 50);
        // A short read that is sent just before a long one has come.
        let long = pace.send(8 * MIB, 100 * MS);
        let short = pace.send(4 * KIB, 200 * MS - 1);
        pace.end(long, 200 * MS);
        pace.end(short, 200 * MS + 1);
        assert_eq!(pace.worth().bytes_per_s, 10 * MIB * 50);
    }

    #[test]
    fn the_largest_numbers_overflow_nothing() {
        let mut pace = Pace::default();
        for (at, end) in [(0, u64::MAX), (u64::MAX, 0), (5, 5), (5, 5), (6, 7)] {
            let sent = pace.send(u64::MAX, at);
            let short = pace.send(1, at);
            pace.end(sent, end);
            pace.end(short, end);
        }
        let _ = pace.worth();
    }
}
