//! Windows over devices of known latency and rate, in a time of the test's own.
use super::Limits;
use super::pace::{Pace, Sent};
use super::walks::{Lone, Stretch, Walks, Whereabouts};
use crate::device::{Operation, Request, Segment, Urgency};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MS: u64 = 1_000_000;
const LIMITS: Limits = Limits { stretch_bytes_max: 2 * MIB, memory_bytes: MEMORY };
const MEMORY: u64 = 64 * MIB;
const DEVICE: u64 = 4 << 30;

/// A device that sends one byte after the other at its rate, each a latency after it was asked for,
/// and a reader that waits for each of its reads.
struct Bench {
    walks: Walks,
    pace: Pace,
    latency_ns: u64,
    bytes_per_s: u64,
    now_ns: u64,
    free_ns: u64,
    /// Pieces on their way, and when they are there.
    coming: VecDeque<(u64, Stretch, Sent)>,
    /// Bytes that were read ahead.
    ahead_bytes: u64,
}

impl Bench {
    fn new(latency_ns: u64, bytes_per_s: u64) -> Bench {
        Bench {
            walks: Walks::new(&LIMITS, DEVICE),
            pace: Pace::default(),
            latency_ns,
            bytes_per_s,
            now_ns: 0,
            free_ns: 0,
            coming: VecDeque::new(),
            ahead_bytes: 0,
        }
    }

    fn send(&mut self, bytes: u64) -> u64 {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        self.free_ns = self.free_ns.max(self.now_ns) + nanoseconds as u64;
        self.free_ns + self.latency_ns
    }

    fn send_ahead(&mut self, stretches: Vec<Stretch>) {
        for stretch in stretches {
            let length = stretch.place.end - stretch.place.start;
            self.ahead_bytes += length;
            let sent = self.pace.send(length, self.now_ns);
            let at = self.send(length);
            self.coming.push_back((at, stretch, sent));
        }
    }

    /// The first piece on its way is there. Returns whether a read that waited has its bytes.
    fn land(&mut self) -> bool {
        let (at, stretch, sent) =
            self.coming.pop_front().expect("what is waited for is on its way");
        self.now_ns = self.now_ns.max(at);
        self.pace.end(sent, self.now_ns);
        let released = self.walks.land(stretch.number, Some(Arc::default()));
        assert!(released.passed_on.is_empty());
        !released.answered.is_empty()
    }

    /// Reads, and waits for it. Returns whether the device was asked for it.
    fn read(&mut self, offset: u64, bytes: u64) -> bool {
        let place = offset..offset + bytes;
        while self.coming.front().is_some_and(|(at, ..)| *at <= self.now_ns) {
            self.land();
        }
        let (found, ahead) = self.walks.read(&place, &self.pace.worth());
        match found {
            Whereabouts::Here(held) => {
                assert!(!held.is_empty());
                self.send_ahead(ahead);
                false
            }
            Whereabouts::Coming => {
                self.walks.wait(request(&place));
                self.send_ahead(ahead);
                while !self.land() {}
                false
            }
            Whereabouts::Device => {
                let sent = self.pace.send(bytes, self.now_ns);
                let there = self.send(bytes);
                self.send_ahead(ahead);
                self.now_ns = there;
                self.pace.end(sent, there);
                true
            }
        }
    }

    /// Reads a range in pieces of 16 KiB.
    fn sequence(&mut self, range: Range<u64>) {
        for offset in range.step_by(16 << 10) {
            self.read(offset, 16 * KIB);
        }
    }
}

fn request(place: &Range<u64>) -> Request {
    Request {
        operation: Operation::Read,
        offset: place.start,
        segments: vec![Segment::Phantom((place.end - place.start) as usize)],
        urgency: Urgency::Awaited,
        completion: Box::new(|_| {}),
    }
}

#[test]
fn small_reads_in_a_row_come_at_the_rate_of_the_device_whatever_its_latency() {
    let devices = [
        (12 * MS, 285_000_000),
        (10 * MS, 36_000_000),
        (7 * MS / 10, 131_000_000),
        (80_000, 560_000_000),
        (30 * MS, 500_000_000),
    ];
    for (latency_ns, bytes_per_s) in devices {
        let mut bench = Bench::new(latency_ns, bytes_per_s);
        bench.sequence(0..1 << 30);
        let least = (1u64 << 30) * 1000 / bytes_per_s * MS;
        let permille = bench.now_ns / (least / 1000);
        assert!(permille <= 1150, "{permille} for {latency_ns} ns, {bytes_per_s} bytes a second");
        assert!(bench.ahead_bytes <= (1 << 30) + MEMORY);
    }
}

#[test]
fn a_window_is_no_longer_than_the_device_needs() {
    let mut bench = Bench::new(MS, 100_000_000);
    bench.sequence(0..256 * MIB);
    // 100 kB come during the latency, and thirty times as much in all the time that counts.
    assert!(bench.ahead_bytes <= 261 * MIB, "{} bytes", bench.ahead_bytes);
    let mut fast = Bench::new(2000, 4_000_000_000);
    fast.sequence(0..16 * MIB);
    assert!(fast.ahead_bytes <= 24 * MIB, "{} bytes", fast.ahead_bytes);
}

#[test]
fn one_read_is_no_walk_and_a_second_one_near_it_is() {
    let mut bench = Bench::new(MS, 100_000_000);
    assert!(bench.read(0, 4 * KIB));
    assert_eq!(bench.ahead_bytes, 0);
    assert!(bench.read(8 * KIB, 4 * KIB));
    assert!(bench.ahead_bytes >= 64 * KIB);
    assert!(!bench.read(12 * KIB, 4 * KIB));
    assert!(bench.read(10 * MIB, 4 * KIB), "far away another walk may begin");
    assert!(!bench.read(20 * KIB, 4 * KIB), "and the first one goes on");
}

#[test]
fn a_walk_that_goes_back_and_forth_finds_what_is_between() {
    let mut bench = Bench::new(MS, 100_000_000);
    assert!(bench.read(200 * KIB, 4 * KIB));
    assert!(bench.read(140 * KIB, 4 * KIB));
    let after = [160, 144, 196, 180].map(|kib| bench.read(kib * KIB, 4 * KIB));
    assert_eq!(after, [false; 4]);
}

#[test]
fn what_was_jumped_over_is_still_there() {
    let mut bench = Bench::new(20 * MS, 200_000_000);
    bench.sequence(0..32 * MIB);
    // As a reader that meets a subdirectory does: ahead, and back to the rest.
    bench.sequence(33 * MIB..36 * MIB);
    let before = bench.ahead_bytes;
    for offset in (32 * MIB..33 * MIB).step_by(16 << 10) {
        assert!(!bench.read(offset, 16 * KIB), "{offset}");
    }
    assert_eq!(bench.ahead_bytes, before);
}

#[test]
fn what_was_read_already_is_not_read_ahead_again() {
    let mut bench = Bench::new(20 * MS, 200_000_000);
    bench.sequence(0..32 * MIB);
    // Further than any window, for more than memory holds, and back.
    bench.sequence(200 * MIB..400 * MIB);
    bench.sequence(32 * MIB..200 * MIB);
    bench.sequence(400 * MIB..500 * MIB);
    assert!(bench.ahead_bytes <= 500 * MIB + MEMORY, "{} MiB", bench.ahead_bytes / MIB);
}

#[test]
fn windows_that_are_not_used_end() {
    let mut bench = Bench::new(10 * MS, 36_000_000);
    bench.sequence(0..8 * MIB);
    let before = bench.ahead_bytes;
    // Each read is near all that was read, and beyond it.
    for _ in 0..100 {
        let end = bench.coming.iter().map(|(_, stretch, _)| stretch.place.end).max();
        let next = end.unwrap_or(16 * MIB).max(16 * MIB) + 200 * KIB;
        bench.read(next, 4 * KIB);
    }
    let wasted = bench.ahead_bytes - before;
    // Windows halve to nothing, and a new one has what comes during four latencies.
    let first = 4 * 84_000_000 / 100;
    assert!(wasted <= 100 * first / 2, "{wasted} bytes for 100 reads");
}

#[test]
fn memory_is_never_more_than_was_given() {
    let mut bench = Bench::new(30 * MS, 2_000_000_000);
    let mut number = 1u64;
    for _ in 0..20_000 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let walk = (number >> 40) % 20;
        let near = (number >> 20) % 2000;
        bench.read(walk * 150 * MIB + near * 16 * KIB, 16 * KIB);
        bench.walks.check(MEMORY);
    }
}

#[test]
fn reads_that_wait_are_passed_on_when_their_piece_fails_or_is_written() {
    let mut bench = Bench::new(MS, 100_000_000);
    bench.read(0, 4 * KIB);
    bench.read(4 * KIB, 4 * KIB);
    let place = 16 * KIB..20 * KIB;
    let worth = bench.pace.worth();
    assert!(matches!(bench.walks.read(&place, &worth).0, Whereabouts::Coming));
    bench.walks.wait(request(&place));
    let released = bench.walks.begin_write(&(18 * KIB..19 * KIB));
    assert_eq!((released.answered.len(), released.passed_on.len()), (0, 1));
    let (found, ahead) = bench.walks.read(&place, &worth);
    assert!(matches!(found, Whereabouts::Device), "what is being written is not held");
    assert!(ahead.iter().all(|stretch| stretch.place.start >= 19 * KIB));
    bench.walks.end_write(&(18 * KIB..19 * KIB));
    let (number, start) = {
        let (_, stretch, _) = &bench.coming[0];
        (stretch.number, stretch.place.start)
    };
    assert!(start <= place.start);
    let late = bench.walks.land(number, Some(Arc::default()));
    assert!(late.answered.is_empty() && late.passed_on.is_empty(), "it was forgotten");
    bench.walks.check(MEMORY);
}

#[test]
fn a_hole_in_a_window_is_filled_by_more_than_the_reads_that_meet_it() {
    let mut bench = Bench::new(20 * MS, 200_000_000);
    bench.sequence(0..32 * MIB);
    let end = bench.coming.back().map_or(0, |(_, stretch, _)| stretch.place.end);
    // What is ahead is written, but for its end.
    let written = 32 * MIB..end - MIB;
    bench.walks.begin_write(&written);
    bench.walks.end_write(&written);
    let asked = (written.start..written.end).step_by(16 << 10);
    let asked = asked.filter(|offset| bench.read(*offset, 16 * KIB)).count();
    assert!(asked <= 8, "{asked} reads of a hole were not read ahead");
}

#[test]
fn a_read_that_waits_for_two_pieces_gets_both_while_others_go_on() {
    let mut bench = Bench::new(MS, 100_000_000);
    bench.sequence(0..MIB);
    let coming: Vec<_> = bench.coming.drain(..).collect();
    let (_, first, _) = &coming[0];
    let border = first.place.end;
    // Between two pieces, and the rest of both, so that all of the first one was asked for.
    let worth = bench.pace.worth();
    for place in [first.place.start..border - 4 * KIB, border - 4 * KIB..border + 4 * KIB] {
        assert!(matches!(bench.walks.read(&place, &worth).0, Whereabouts::Coming));
        bench.walks.wait(request(&place));
    }
    let mut answered = 0;
    for (number, (_, stretch, _)) in coming.iter().enumerate() {
        if number == 1 {
            continue;
        }
        let released = bench.walks.land(stretch.number, Some(Arc::default()));
        assert!(released.passed_on.is_empty());
        answered += released.answered.len();
    }
    assert_eq!(answered, 1);
    let (_, last, _) = &coming[coming.len() - 1];
    let place = last.place.start..last.place.start + 4 * KIB;
    assert!(matches!(bench.walks.read(&place, &worth).0, Whereabouts::Here(_)));
    let released = bench.walks.land(coming[1].1.number, Some(Arc::default()));
    assert_eq!((released.answered.len(), released.passed_on.len()), (1, 0));
}

#[test]
fn a_walk_that_has_come_to_where_another_one_began_reads_nothing_there_ahead() {
    let mut bench = Bench::new(30 * MS, 500_000_000);
    bench.sequence(8 * MIB..200 * MIB);
    let before = bench.ahead_bytes;
    bench.sequence(0..8 * MIB - 64 * KIB);
    let ahead = bench.ahead_bytes - before;
    assert!(ahead <= 8 * MIB, "{ahead} bytes");
}

#[test]
fn where_a_request_is_dear_a_window_comes_in_few_of_them() {
    for (latency_ns, least) in [(2 * MS, 64 * KIB), (10 * MS, MIB), (30 * MS, MIB)] {
        let mut bench = Bench::new(latency_ns, 500_000_000);
        (0..6).for_each(|number| _ = bench.read(number * GIB / 4, 4 * KIB));
        // Where it is dear the first one comes with the piece at whose end it is.
        bench.read(2 * GIB - 8 * KIB, 4 * KIB);
        bench.read(2 * GIB - 4 * KIB, 4 * KIB);
        let pieces: Vec<u64> =
            bench.coming.iter().map(|(_, it, _)| it.place.end - it.place.start).collect();
        assert!(pieces.len() > 2, "{latency_ns}: {pieces:?}");
        // The first one ends at a whole unit, and the last one with the window.
        let whole = &pieces[1..pieces.len() - 1];
        assert!(whole.iter().all(|bytes| *bytes >= least), "{latency_ns}: {pieces:?}");
    }
}

#[test]
fn where_a_request_is_dear_a_read_that_is_near_no_other_gets_what_is_around_it() {
    let mut bench = Bench::new(30 * MS, 500_000_000);
    (0..6).for_each(|number| _ = bench.read(number * GIB / 4, 4 * KIB));
    let asked = bench.ahead_bytes;
    bench.read(2 * GIB + 300 * KIB, 4 * KIB);
    assert_eq!(bench.ahead_bytes - asked, MIB, "a whole piece, and nothing else");
    assert!(!bench.read(2 * GIB + 4 * KIB, 4 * KIB), "before it");
    assert!(!bench.read(2 * GIB + 900 * KIB, 4 * KIB), "behind it");
    assert_eq!(bench.ahead_bytes - asked, MIB);
}

#[test]
fn pieces_around_reads_are_asked_for_as_long_as_some_are_used() {
    let mut lone = Lone::default();
    let mut asked = |of: u32, used: u32| -> u32 {
        let worth = (0..of).filter(|at| {
            let is_worth = lone.meet();
            lone.used += u32::from(is_worth && at % 8 < used);
            is_worth
        });
        worth.count() as u32
    };
    assert_eq!(asked(200, 8), 200, "all are used");
    assert_eq!(asked(200, 3), 200, "more than a quarter are");
    assert!((1..=100).contains(&asked(1000, 0)), "none is");
    assert!((1..=33).contains(&asked(1000, 0)), "one in 32 is tried all the same");
    assert!(asked(2000, 8) > 1000, "it is known when they are again");
}
