//! `cfq-2.6.20` and `cfq-2.6.23`: what both do, and each of their differences.
use super::*;

const BEFORE: &str = "cfq-2.6.20";
const AFTER: &str = "cfq-2.6.23";

/// An elevator and what a drive holds of it.
struct Drive {
    queue: Box<dyn Elevator>,
    inside: Vec<Queued>,
    sequence: u64,
}

impl Drive {
    fn new(name: &str) -> Drive {
        Drive { queue: elevator(name), inside: Vec::new(), sequence: 0 }
    }
    /// At this time a request of 4 KiB for a place in MiB arrives.
    fn add(&mut self, now: u64, operation: Operation, place: u64, stream: u32) {
        self.queue.add(request(self.sequence, operation, place, stream), now);
        self.sequence += 1;
    }
    /// `count` writes, one MiB apart from 1000 on.
    fn write(&mut self, now: u64, count: u64) {
        let first = 1000 + self.sequence;
        (0..count).for_each(|number| self.add(now, Write, first + number, 9));
    }
    /// Sends what the queue gives until that many commands are inside. Returns the places of what
    /// was sent, in MiB.
    fn fill(&mut self, now: u64, depth: usize) -> Vec<u64> {
        let mut sent = Vec::new();
        while self.inside.len() < depth {
            match self.queue.next(0, now) {
                Next::Dispatch(command) => {
                    sent.push(command.offset / MIB);
                    self.inside.push(command);
                }
                Next::IdleUntil(until) => {
                    assert!(until > now);
                    return sent;
                }
                Next::Empty => return sent,
            }
        }
        sent
    }
    fn end(&mut self, now: u64, place: u64) {
        let at = self.inside.iter().position(|command| command.offset / MIB == place);
        let command = self.inside.remove(at.unwrap_or_else(|| panic!("{place} is not inside")));
        self.queue.completed(&command, now);
    }
    fn writes_inside(&self) -> usize {
        self.inside.iter().filter(|command| command.operation == Write).count()
    }
}

#[test]
fn a_slice_runs_from_its_first_command_or_from_the_first_that_ends() {
    let both = |idles_until: u64| {
        vec![
            Add(0, Read, 10, 1),
            Add(0, Read, 9000, 2),
            Sends(0, 10),
            Ends(95_000),
            Idles(95_000, idles_until),
            Add(96_000, Read, 11, 1),
            Sends(96_000, 11),
            Ends(99_000),
            Add(99_500, Read, 12, 1),
        ]
    };
    let before = steps([both(100_000), vec![Sends(100_000, 9000)]]);
    follow("100 ms after it was sent", BEFORE, &before);
    let after = steps([
        both(103_000),
        vec![Sends(100_000, 12), Ends(194_000), Add(194_500, Read, 13, 1), Sends(195_000, 9000)],
    ]);
    follow("100 ms after it ended", AFTER, &after);
}

#[test]
fn a_queue_goes_back_a_little_if_that_is_nearer() {
    for name in [BEFORE, AFTER] {
        let mut drive = Drive::new(name);
        for place in [1000, 990, 1019, 1021, 984, 967, 5000] {
            drive.add(0, Read, place, 1);
        }
        let sent = |drive: &mut Drive, now: u64, place: u64| {
            assert_eq!(drive.fill(now, 1), [place], "{name}");
            drive.end(now + 1, place);
        };
        // Upwards from 0. From 967 on 984 is next, 16 MiB and a block on; then upwards.
        for (at, place) in [967, 984, 990, 1000].into_iter().enumerate() {
            sent(&mut drive, at as u64, place);
        }
        // 9 back counts as 18, which is less than 19 on.
        drive.add(10, Read, 992, 1);
        sent(&mut drive, 11, 992);
        sent(&mut drive, 12, 1019);
        // 2 on are nearer than 1 back; then 20 back are too far.
        drive.add(13, Read, 1018, 1);
        sent(&mut drive, 14, 1021);
        sent(&mut drive, 15, 1018);
        drive.add(16, Read, 996, 1);
        sent(&mut drive, 17, 5000);
        // With nothing above, and nothing near below, the lowest.
        drive.add(18, Read, 900, 1);
        sent(&mut drive, 19, 900);
        sent(&mut drive, 20, 996);
    }
}

#[test]
fn a_stream_in_its_slice_is_waited_for() {
    for name in [BEFORE, AFTER] {
        let slices = [
            Add(0, Read, 10, 1),
            Add(0, Read, 9000, 2),
            Sends(0, 10),
            Ends(5_000),
            Idles(5_000, 13_000),
            Add(6_000, Read, 11, 1),
            Sends(6_000, 11),
            Ends(7_000),
            Sends(15_000, 9000),
            Ends(16_000),
            Empty(16_000),
        ];
        follow("8 ms", name, &slices);
        let alone =
            [Add(0, Read, 1, 1), Add(0, Read, 2, 1), Sends(0, 1), Ends(300_000), Sends(300_000, 2)];
        follow("alone, a slice begins anew", name, &alone);
    }
    // While its command is inside: to the end of the slice; up to 2.6.20 whatever its habits are.
    let inside = [Add(0, Read, 10, 1), Add(0, Read, 9000, 2), Sends(0, 10)];
    let inside = |last| steps([inside.iter().map(copy).collect(), last]);
    follow("its slice", BEFORE, &inside(vec![Idles(1_000, 100_000), Sends(100_000, 9000)]));
    follow(
        "until it ends",
        AFTER,
        &inside(vec![Idles(1_000, 1_000_000), Idles(500_000, 1_000_000)]),
    );
}

#[allow(clippy::needless_match, reason = "a step is no Copy: each row of a table is made anew")]
fn copy(step: &Step) -> Step {
    match *step {
        Add(at, operation, place, stream) => Add(at, operation, place, stream),
        Sends(at, place) => Sends(at, place),
        SendsAll(at, places) => SendsAll(at, places),
        Ends(at) => Ends(at),
        Idles(at, until) => Idles(at, until),
        Empty(at) => Empty(at),
    }
}

#[test]
fn write_back_fills_the_drive_or_sixteen_places_of_it() {
    let mut before = Drive::new(BEFORE);
    before.write(0, 40);
    assert_eq!(before.fill(0, 31).len(), 31, "the whole depth");

    let mut after = Drive::new(AFTER);
    after.write(0, 40);
    assert_eq!(after.fill(0, 31).len(), 16, "four times the quantum while no stream waits");
    // A device that completes nothing gets the rest after a while.
    for round in 1..=30 {
        after.fill(round * 2000 * MS, 31 + round as usize);
    }
    assert_eq!(after.inside.len(), 40);

    // While another stream waits, and write-back has its turn: the quantum.
    let mut shared = Drive::new(AFTER);
    for stream in [1, 2] {
        shared.add(0, Read, 10 * u64::from(stream), stream);
        shared.add(0, Read, 10 * u64::from(stream) + 1, stream);
    }
    shared.write(0, 40);
    assert_eq!(shared.fill(0, 1), [10]);
    shared.end(MS, 10);
    // Its slice ends, and that of the other one, each with a read waiting; then write-back.
    assert_eq!(shared.fill(101 * MS, 1), [20]);
    shared.end(102 * MS, 20);
    assert_eq!(shared.fill(202 * MS, 31).len(), 4);
    assert_eq!(shared.writes_inside(), 4);
}

#[test]
fn write_back_goes_on_beside_a_read_or_does_not() {
    // A read that takes longer than its slice.
    let long_read = |name| {
        let mut drive = Drive::new(name);
        drive.add(0, Read, 10, 1);
        assert_eq!(drive.fill(0, 31), [10]);
        drive.write(MS, 40);
        assert_eq!(drive.fill(MS, 31), [0u64; 0], "its stream has the slice");
        drive
    };
    let mut before = long_read(BEFORE);
    assert_eq!(before.fill(100 * MS, 31).len(), 30, "the read and thirty writes");

    let mut after = long_read(AFTER);
    assert_eq!(after.fill(999 * MS, 31), [0u64; 0]);
    after.end(999 * MS, 10);
    assert_eq!(after.fill(999 * MS, 31), [0u64; 0], "its stream is waited for");
    assert_eq!(after.fill(1007 * MS, 31).len(), 16);
    // With a read inside, no write is added even when all but one have ended.
    after.add(1008 * MS, Read, 11, 1);
    assert_eq!(after.fill(1008 * MS, 31), [11]);
    let writes: Vec<u64> = after.inside.iter().map(|command| command.offset / MIB).collect();
    writes.iter().filter(|place| **place >= 1000).for_each(|place| after.end(1009 * MS, *place));
    assert_eq!(after.fill(1009 * MS, 31), [0u64; 0]);
}

#[test]
fn a_stream_that_begins_to_wait_is_next_at_once_or_in_its_turn() {
    let write_back = |name| {
        let mut drive = Drive::new(name);
        drive.write(0, 40);
        assert_eq!(drive.fill(0, 2).len(), 2);
        drive.add(MS, Read, 10, 1);
        drive
    };
    let mut before = write_back(BEFORE);
    let sent = before.fill(MS, 31);
    assert_eq!(sent.iter().position(|place| *place == 10), Some(14), "after 16 writes: {sent:?}");

    let mut after = write_back(AFTER);
    assert_eq!(after.fill(MS, 31), [10], "and nothing but the read is sent beside it");
    // Also before another stream that waited longer.
    let mut two = Drive::new(AFTER);
    two.add(0, Read, 20, 2);
    two.add(0, Read, 21, 2);
    two.write(0, 40);
    assert_eq!(two.fill(0, 1), [20]);
    two.end(0, 20);
    assert_eq!(two.fill(100 * MS, 1), [1002]);
    two.add(101 * MS, Read, 10, 1);
    assert_eq!(two.fill(101 * MS, 2), [10]);
}

#[test]
fn a_slice_of_write_back_ends_by_time_or_after_sixteen() {
    let mut before = Drive::new(BEFORE);
    before.write(0, 40);
    before.add(0, Read, 10, 1);
    let sent = before.fill(0, 31);
    assert_eq!(sent.iter().position(|place| *place == 10), Some(16), "{sent:?}");
    // By time: the batch of four that was begun goes out first.
    let mut slow = Drive::new(BEFORE);
    slow.write(0, 40);
    slow.add(0, Read, 10, 1);
    assert_eq!(slow.fill(0, 5).len(), 5);
    assert_eq!(slow.fill(40 * MS, 9), [1005, 1006, 1007, 10]);

    // Another stream has to wait from before the slice, or it would end it.
    let mut after = Drive::new(AFTER);
    after.add(0, Read, 10, 1);
    after.add(0, Read, 11, 1);
    after.write(0, 60);
    assert_eq!(after.fill(0, 1), [10]);
    after.end(0, 10);
    let mut now = 100 * MS;
    let mut writes = Vec::new();
    let mut sent = after.fill(now, 1);
    while sent[0] >= 1000 {
        writes.extend(sent.clone());
        now += 2 * MS;
        after.end(now, sent[0]);
        sent = after.fill(now, 1);
    }
    // 2 ms each: the first end starts the 40 ms.
    assert_eq!((writes.len(), sent), (21, vec![11]));
}

#[test]
fn who_seeks_far_is_waited_for_shortly_and_not_if_the_drive_has_a_queue() {
    for name in [BEFORE, AFTER] {
        let mut drive = Drive::new(name);
        let mut now = 0;
        // 80 MiB each time, from the start of the device on.
        for place in (0..10).map(|number| number * 80) {
            drive.add(now, Read, place, 1);
            assert_eq!(drive.fill(now, 1), [place]);
            now += MS;
            drive.end(now, place);
        }
        drive.add(now, Read, 5, 2);
        assert_eq!(drive.queue.next(0, now), Next::IdleUntil(now + 2 * MS), "{name}");
        now += 2 * MS;
        assert_eq!(drive.fill(now, 1), [5], "{name}");
        drive.end(now, 5);
        // One that stays near has its 8 ms.
        drive.add(now, Read, 100, 1);
        assert_eq!(drive.queue.next(0, now), Next::IdleUntil(now + 8 * MS), "{name}");
        now += 8 * MS;
        assert_eq!(drive.fill(now, 1), [100], "{name}");
        drive.end(now, 100);
        // Five commands inside: the drive has a queue.
        drive.write(now, 5);
        now += 8 * MS;
        assert_eq!(drive.fill(now, 31).len(), 5, "{name}");
        (1012..1017).for_each(|place| drive.end(now, place));
        drive.add(now, Read, 700, 1);
        assert_eq!(drive.fill(now, 1), [700], "{name}");
        drive.end(now, 700);
        drive.add(now, Read, 9001, 2);
        assert_eq!(drive.fill(now, 1), [9001], "{name}: at once");
    }
}

#[test]
fn a_new_stream_seeks_from_the_start_and_one_far_seek_does_not_count_in_full() {
    for name in [BEFORE, AFTER] {
        // Whether its stream is waited for after reads at these places, each near the one before.
        let is_waited_for = |places: &[u64]| {
            let mut drive = Drive::new(name);
            // The drive has a queue.
            drive.write(0, 5);
            assert_eq!(drive.fill(0, 31).len(), 5, "{name}");
            (1000..1005).for_each(|place| drive.end(MS, place));
            let mut now = MS;
            for place in places {
                drive.add(now, Read, *place, 1);
                assert_eq!(drive.fill(now, 1), [*place], "{name}");
                now += MS;
                drive.end(now, *place);
            }
            drive.add(now, Read, 9000, 2);
            matches!(drive.queue.next(0, now), Next::IdleUntil(_))
        };
        let far: Vec<u64> = (5000..5009).collect();
        assert!(!is_waited_for(&far[..8]), "{name}: its first read was 1 GiB from the start");
        let longer: Vec<u64> = (5000..5020).collect();
        assert!(is_waited_for(&longer), "{name}: it has stayed near for long enough");
        let once: Vec<u64> = (0..10).chain([8000, 8001]).collect();
        assert!(is_waited_for(&once), "{name}: it was elsewhere once");
    }
}

#[test]
fn metadata_goes_first_in_its_queue_and_before_other_streams_from_2_6_23_on() {
    let metadata = |sequence, place, stream| Queued {
        urgency: Urgency::Metadata,
        ..request(sequence, Read, place, stream)
    };
    for name in [BEFORE, AFTER] {
        let mut queue = elevator(name);
        queue.add(request(0, Read, 10, 1), 0);
        queue.add(metadata(1, 30, 1), 0);
        queue.add(metadata(2, 20, 1), 0);
        let mut sent = || match queue.next(0, MS) {
            Next::Dispatch(command) => command.offset / MIB,
            other => panic!("{other:?}"),
        };
        assert_eq!([sent(), sent(), sent()], [20, 30, 10], "{name}");
    }
    // A stream reads data, two commands; another wants a directory, then data of its own.
    let second = |name: &str, urgency| {
        let mut queue = elevator(name);
        queue.add(request(0, Read, 1, 1), 0);
        queue.add(request(1, Read, 2, 1), 0);
        let mut sent = Vec::new();
        for now in [0, MS] {
            if now == MS {
                queue.add(Queued { urgency, ..request(2, Read, 900, 2) }, now);
            }
            if let Next::Dispatch(command) = queue.next(0, now) {
                sent.push(command.offset / MIB);
            }
        }
        sent
    };
    assert_eq!(second(BEFORE, Urgency::Metadata), [1, 2]);
    assert_eq!(second(AFTER, Urgency::Metadata), [1, 900]);
    assert_eq!(second(AFTER, Awaited), [1, 2]);
}

#[test]
fn what_is_near_does_not_wait_for_a_stream_that_is_waited_for() {
    for (name, place) in [(BEFORE, None), (AFTER, Some(15))] {
        let mut drive = Drive::new(name);
        for (now, at) in [(0, 10), (2 * MS, 20)] {
            drive.add(now, Read, at, 1);
            assert_eq!(drive.fill(now, 1), [at], "{name}");
            drive.end(now + MS, at);
        }
        drive.add(3 * MS, Read, 900, 3);
        assert_eq!(drive.fill(3 * MS, 1), [0u64; 0], "{name}: far away");
        drive.add(4 * MS, Read, 15, 2);
        assert_eq!(drive.fill(4 * MS, 1).first().copied(), place, "{name}");
    }
}

#[test]
fn the_oldest_begins_a_slice_when_it_has_expired() {
    for name in [BEFORE, AFTER] {
        let old = [
            Add(0, Read, 1, 1),
            Add(0, Read, 900, 2),
            Add(0, Read, 800, 2),
            Sends(0, 1),
            Ends(25_000),
            Sends(125_000, 900),
        ];
        follow("reads after 125 ms", name, &old);
        let young = [
            Add(0, Read, 1, 1),
            Add(1_000, Read, 900, 2),
            Add(1_000, Read, 800, 2),
            Sends(0, 1),
            Ends(25_000),
            Sends(125_000, 800),
        ];
        follow("not before", name, &young);
    }
}
