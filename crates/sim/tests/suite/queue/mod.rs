//! The host's queue: each elevator's order step by step, what merges, what waits, and what is
//! promised whatever arrives.
mod cfq;
mod held;
mod limits;
mod linus;
mod simulation;

use extant_block::{Clock, Operation, RealClock, Urgency};
use extant_sim::queue::{
    Command, CongestionBounds, ELEVATORS, Elevator, ElevatorChoice, FlushOrder, HostQueue, Next,
    QueueSettings, QueueStatistics, Queued, WakeUp,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
use Operation::{Flush, Read, Write};
use Urgency::{Awaited, Background};

fn elevator(text: &str) -> Box<dyn Elevator> {
    choice(text).build()
}
fn choice(text: &str) -> ElevatorChoice {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}
fn settings(elevator: &str) -> QueueSettings {
    QueueSettings { elevator: choice(elevator), plug_ns: 0, ..QueueSettings::default() }
}
/// A request of 4 KiB at a place in MiB.
fn request(sequence: u64, operation: Operation, place: u64, stream: u32) -> Queued {
    let urgency = if operation == Write { Background } else { Awaited };
    Queued { sequence, operation, offset: place * MIB, bytes: 4 * KIB, urgency, stream }
}

/// What is done with an elevator, and what it has to return. Times in microseconds, places in MiB.
enum Step {
    /// At that time a read or write of 4 KiB at that place arrives, of that stream.
    Add(u64, Operation, u64, u32),
    /// Asked at that time, it sends the command at that place.
    Sends(u64, u64),
    /// Asked at that time, it sends these, one after the other.
    SendsAll(u64, &'static [u64]),
    /// At that time what was sent last ends.
    Ends(u64),
    /// Asked at that time, it keeps the device idle until then.
    Idles(u64, u64),
    /// Asked at that time, nothing waits.
    Empty(u64),
}
use Step::{Add, Empty, Ends, Idles, Sends, SendsAll};

fn follow(case: &str, name: &str, steps: &[Step]) {
    let mut elevator = elevator(name);
    let (mut sequence, mut head, mut last) = (0, 0, None);
    let mut send = |elevator: &mut dyn Elevator, at: u64, place: u64, step: usize| {
        let Next::Dispatch(sent) = elevator.next(head, at * US) else {
            panic!("{case}, step {step}: nothing is sent at {at}");
        };
        assert_eq!(sent.offset / MIB, place, "{case}, step {step}");
        head = sent.end();
        sent
    };
    for (step, what) in steps.iter().enumerate() {
        match what {
            Add(at, operation, place, stream) => {
                elevator.add(request(sequence, *operation, *place, *stream), at * US);
                sequence += 1;
            }
            Sends(at, place) => last = Some(send(&mut *elevator, *at, *place, step)),
            SendsAll(at, places) => {
                for place in *places {
                    last = Some(send(&mut *elevator, *at, *place, step));
                }
            }
            Ends(at) => elevator.completed(&last.take().expect("something was sent"), at * US),
            Idles(at, until) => {
                assert_eq!(
                    elevator.next(0, at * US),
                    Next::IdleUntil(until * US),
                    "{case}, step {step}"
                )
            }
            Empty(at) => assert_eq!(elevator.next(0, at * US), Next::Empty, "{case}, step {step}"),
        }
    }
}

/// Reads of one stream at these places, all at once.
fn reads(places: &[u64]) -> Vec<Step> {
    places.iter().map(|place| Add(0, Read, *place, 0)).collect()
}
fn steps(parts: impl IntoIterator<Item = Vec<Step>>) -> Vec<Step> {
    parts.into_iter().flatten().collect()
}

#[test]
fn noop_keeps_the_order_of_arrival() {
    let all = steps([reads(&[90, 0, 50]), vec![SendsAll(0, &[90, 0, 50]), Empty(0)]]);
    follow("in order of arrival", "noop", &all);
}

#[test]
fn c_look_sweeps_one_way() {
    let all = steps([
        reads(&[50, 10, 30]),
        vec![SendsAll(0, &[10, 30])],
        // 20 is before the head and waits for the next sweep; 40 and 60 go with this one.
        reads(&[20, 40, 60]),
        vec![SendsAll(0, &[40, 50, 60, 20]), Empty(0)],
    ]);
    follow("sweeps", "c-look", &all);
}

#[test]
fn deadline_sends_batches_and_what_expired() {
    let reads_first = [
        Add(0, Write, 5, 0),
        Add(0, Write, 6, 0),
        Add(0, Read, 30, 0),
        Add(0, Read, 20, 0),
        Add(0, Read, 10, 0),
        // Batches of two: reads; reads again (writes are passed over at most twice), from the
        // oldest because nothing is ahead.
        SendsAll(0, &[10, 20, 30]),
        Add(0, Read, 10, 0),
        Add(0, Read, 40, 0),
        Sends(0, 40),
        SendsAll(0, &[5, 6]),
        Sends(0, 10),
        Empty(0),
    ];
    follow("batches", "deadline(500,5000,2,2)", &reads_first);
    let expired = [
        Add(0, Read, 90, 0),
        Add(0, Read, 10, 0),
        Add(0, Read, 20, 0),
        SendsAll(0, &[10, 20]),
        Add(1, Read, 30, 0),
        Add(1, Read, 40, 0),
        // The next batch begins with the oldest, which has expired, and goes on from there, then
        // from the oldest again.
        Sends(500_000, 90),
        SendsAll(500_000, &[30, 40]),
        Empty(500_000),
    ];
    follow("an expired read begins the batch", "deadline(500,5000,2,2)", &expired);
    let fresh = [
        Add(0, Read, 90, 0),
        Add(0, Read, 10, 0),
        Add(0, Read, 20, 0),
        SendsAll(0, &[10, 20]),
        Add(1, Read, 30, 0),
        SendsAll(499_999, &[30, 90]),
    ];
    follow("one that has not expired does not", "deadline(500,5000,2,2)", &fresh);
}

#[test]
fn anticipatory_waits_for_the_next_near_read() {
    let waits = [
        Add(0, Read, 100, 1),
        Add(0, Read, 9000, 2),
        Sends(0, 100),
        Idles(10, 125_000),
        Ends(5_000),
        Idles(5_000, 11_700),
        Add(6_000, Read, 101, 1),
        Sends(6_000, 101),
        Ends(7_000),
        Idles(7_000, 13_700),
        Sends(13_700, 9000),
        Ends(14_000),
        Empty(14_000),
    ];
    follow("a near read comes, then none", "anticipatory", &waits);
    let write = [
        Add(0, Read, 100, 1),
        Add(0, Write, 9000, 2),
        Sends(0, 100),
        Ends(5_000),
        Idles(5_000, 11_700),
        Sends(11_700, 9000),
    ];
    follow("writes wait as well", "anticipatory", &write);
    let near =
        [Add(0, Read, 100, 1), Add(0, Read, 102, 2), Sends(0, 100), Ends(5_000), Sends(5_000, 102)];
    follow("what lies near is not kept waiting", "anticipatory", &near);
    let expired = [
        Add(0, Read, 100, 1),
        Add(0, Read, 9000, 2),
        Sends(0, 100),
        Ends(120_000),
        Idles(120_000, 125_000),
        Sends(125_000, 9000),
    ];
    follow("an old read ends the wait", "anticipatory", &expired);
    let first = [
        Add(0, Read, 100, 1),
        Add(0, Read, 9000, 2),
        Sends(0, 100),
        Ends(120_000),
        Add(124_000, Read, 101, 1),
        Add(124_000, Read, 8000, 3),
        Add(124_000, Read, 103, 1),
        Sends(124_000, 101),
        Sends(125_000, 9000),
        // The next old one, 8000, has to wait until that time has passed again.
        Ends(249_000),
        Idles(249_500, 250_000),
        Sends(250_000, 8000),
    ];
    follow("an old read goes first, but not each of them", "anticipatory", &first);
}

#[test]
fn anticipatory_learns_whom_not_to_wait_for() {
    let mut slow = Vec::new();
    for turn in 0..20 {
        let at = turn * 100_000;
        slow.extend([Add(at, Read, 100 + turn, 1), Sends(at, 100 + turn), Ends(at + 1_000)]);
    }
    slow.extend([Add(1_901_500, Read, 9000, 2), Sends(1_901_500, 9000)]);
    follow("comes back after 99 ms", "anticipatory", &slow);
    let mut far = Vec::new();
    for turn in 0..20 {
        let (at, place) = (turn * 2_000, (turn % 2) * 5000);
        far.extend([Add(at, Read, place, 1), Sends(at, place), Ends(at + 1_000)]);
    }
    far.extend([Add(39_500, Read, 9000, 2), Sends(39_500, 9000)]);
    follow("comes back soon, but far away: nearer reads go first", "anticipatory", &far);
    let at = far.len() - 2;
    far.splice(at.., [Add(39_500, Write, 9000, 2), Idles(39_500, 45_700)]);
    follow("comes back soon, and only writes wait: they do", "anticipatory", &far);
}

#[test]
fn anticipatory_learns_how_many_writes_fill_their_time() {
    // 12 writes at first. They take 12 ms, far less than 125: the next batch has 24, and its time
    // is over before the one after that has sent 48 of 5 ms each.
    let mut steps: Vec<Step> = (0..100).map(|place| Add(0, Write, 100 + place, 2)).collect();
    let (mut at, mut place) = (0, 100);
    for (writes, took) in [(12, 1_000), (24, 1_000), (25, 5_000)] {
        for number in 0..writes {
            steps.push(Sends(at, place));
            // A reader begins to wait.
            steps.extend((number == 0).then_some(Add(at, Read, 1, 1)));
            (at, place) = (at + took, place + 1);
            steps.push(Ends(at));
        }
        at += 100;
        steps.extend([Sends(at, 1), Ends(at + 1_000), Idles(at + 1_000, at + 7_700)]);
        at += 7_700;
    }
    follow("write batches", "anticipatory(6700,10000,10000)", &steps);
}

#[test]
fn anticipatory_batches_by_time_and_goes_back_a_little() {
    let batches = [
        Add(0, Read, 10, 1),
        Add(0, Read, 20, 1),
        Add(0, Read, 30, 1),
        Add(0, Write, 15, 2),
        Add(0, Write, 25, 2),
        Sends(0, 10),
        Ends(500),
        Sends(1_000, 20),
        Ends(2_000),
        // The time of the reads, from the first end on, is over: the oldest write, then by place.
        Sends(500_500, 15),
        Ends(510_000),
        Sends(510_000, 25),
        // No write is left. The device is emptied before reads go on.
        Idles(511_000, 1_511_000),
        Ends(512_000),
        Sends(512_000, 30),
    ];
    follow("batches", "anticipatory(0,10000,10000,500,125)", &batches);
    let back = [
        Add(0, Read, 10, 1),
        Add(0, Read, 20, 1),
        Sends(0, 10),
        Add(0, Read, 9, 1),
        SendsAll(0, &[20, 9]),
    ];
    follow("a MiB and 4 KiB are too far back", "anticipatory(0)", &back);
    let little = [
        Add(0, Read, 10, 1),
        Add(0, Read, 20, 1),
        Sends(0, 10),
        Add(0, Read, 10, 1),
        SendsAll(0, &[10, 20]),
    ];
    follow("back a little", "anticipatory(0)", &little);
}

#[test]
fn turns_by_time_a_sweep_that_goes_on_and_no_idling_after_writes() {
    let sweep = [
        Add(0, Write, 100, 9),
        Add(0, Write, 200, 9),
        Add(0, Write, 300, 9),
        Sends(0, 100),
        Ends(1_000),
        Add(1_000, Read, 9000, 1),
        Sends(1_000, 9000),
        Ends(2_000),
        Add(2_000, Write, 150, 9),
        Add(2_000, Write, 50, 9),
        Idles(2_000, 10_000),
        // Not at 50, the lowest after the read: where the sweep was.
        Sends(10_000, 150),
        Ends(11_000),
        Sends(11_000, 200),
    ];
    follow("write-back continues its sweep", "turns", &sweep);
    let mut queue = elevator("turns");
    let waits = |sequence, place, stream| request(sequence, Write, place, stream);
    queue.add(waits(0, 700, 1), 0);
    queue.add(request(1, Read, 10, 2), 0);
    let Next::Dispatch(first) = queue.next(0, 0) else { panic!("a write that is awaited") };
    assert_eq!(first.operation, Write);
    queue.completed(&first, MS);
    assert!(matches!(queue.next(0, MS), Next::Dispatch(read) if read.operation == Read));
}

#[test]
fn a_flush_of_turns_waits_for_nothing_and_the_next_one_neither() {
    let mut queue = HostQueue::new(&QueueSettings { requests_max: 1, ..settings("turns") });
    let flush = |sequence| Queued { bytes: 0, urgency: Awaited, ..pages(sequence, Flush, 0, 0) };
    queue.add(pages(0, Write, 0, 1), 0);
    queue.add(pages(1, Write, 10, 200), 0);
    queue.add(flush(2), 0);
    queue.add(pages(3, Write, 300, 1), 0);
    queue.add(flush(4), 0);
    let order: Vec<Vec<u64>> = drain(&mut queue).into_iter().map(|sent| sent.2).collect();
    assert_eq!(order[..2], [vec![2], vec![4]]);
    assert_eq!(order.len(), 6, "all that waited is sent: {order:?}");
    assert!(queue.is_empty());
}

fn pages(sequence: u64, operation: Operation, offset: u64, count: u64) -> Queued {
    Queued {
        offset: offset * 4 * KIB,
        bytes: count * 4 * KIB,
        ..request(sequence, operation, 0, 0)
    }
}
/// All that the queue sends, as (first page, pages, parts).
fn drain(queue: &mut HostQueue) -> Vec<(u64, u64, Vec<u64>)> {
    let mut sent = Vec::new();
    let (mut head, mut now) = (0, 0);
    loop {
        match queue.next(head, now) {
            Next::Dispatch(command) => {
                head = command.offset + command.bytes;
                let parts = command.parts.iter().map(|part| part.sequence).collect();
                sent.push((command.offset / (4 * KIB), command.bytes / (4 * KIB), parts));
                queue.completed(command.id, now);
            }
            Next::IdleUntil(until) => now = until,
            Next::Empty => return sent,
        }
    }
}

#[test]
fn disksort_sends_each_request_as_it_came() {
    let mut queue = HostQueue::new(&settings("disksort"));
    let arriving = [pages(0, Write, 100, 4), pages(1, Write, 104, 4), pages(2, Write, 96, 4)];
    arriving.iter().for_each(|request| queue.add(*request, 0));
    let sent = drain(&mut queue);
    assert_eq!(sent, [(96, 4, vec![2]), (100, 4, vec![0]), (104, 4, vec![1])]);
}

#[test]
fn adjacent_requests_merge_up_to_the_maximum() {
    for entry in ELEVATORS.iter().filter(|entry| entry.name != "disksort") {
        let mut queue = HostQueue::new(&settings(entry.name));
        let arriving = [
            pages(0, Write, 100, 4),
            pages(1, Write, 104, 4),
            pages(2, Write, 96, 4),
            // Fills the gap between what is there and what comes first: three become one.
            pages(3, Write, 112, 4),
            pages(4, Write, 108, 4),
            // Another direction, and one page too far.
            pages(5, Read, 116, 4),
            pages(6, Write, 117, 4),
        ];
        arriving.iter().for_each(|request| queue.add(*request, 0));
        let mut sent = drain(&mut queue);
        sent.sort();
        // Where blocks arrive one by one, each merges at the end that it meets first.
        let by_block = elevator(entry.name).piece_bytes_max().is_some();
        sent.iter_mut().for_each(|(_, _, parts)| parts.dedup());
        let expected = vec![(96, 20, vec![2, 0, 1, 4, 3]), (116, 4, vec![5]), (117, 4, vec![6])];
        assert_eq!(sent, expected, "{}", entry.name);
        let statistics = queue.statistics();
        let merges = (statistics.merges_front, statistics.merges_back, statistics.joins);
        let expected = if by_block { (1, 22, 2) } else { (1, 2, 1) };
        assert_eq!(
            (merges, statistics.dispatched, statistics.depth_max),
            (expected, 3, 3),
            "{}",
            entry.name
        );
    }
}

#[test]
fn two_commands_join_only_within_the_maximum_and_give_a_place_free() {
    let mut large = HostQueue::new(&settings("noop"));
    let arriving = [pages(0, Read, 0, 60), pages(1, Read, 61, 80), pages(2, Read, 60, 1)];
    arriving.iter().for_each(|request| large.add(*request, 0));
    assert_eq!(drain(&mut large), [(0, 61, vec![0, 2]), (61, 80, vec![1])]);

    let mut limited = HostQueue::new(&QueueSettings { requests_max: 2, ..settings("noop") });
    let arriving = [(0, 0), (1, 2), (2, 1), (3, 50), (4, 60)];
    arriving.iter().for_each(|(sequence, page)| limited.add(pages(*sequence, Read, *page, 1), 0));
    assert_eq!(
        limited.statistics().outside_max,
        1,
        "three became one command, so that one more has room"
    );
    assert_eq!(drain(&mut limited), [(0, 3, vec![0, 2, 1]), (50, 1, vec![3]), (60, 1, vec![4])]);
}

#[test]
fn what_lies_at_one_place_twice_can_still_grow() {
    let mut queue = HostQueue::new(&settings("noop"));
    queue.add(pages(0, Write, 10, 1), 0);
    queue.add(pages(1, Write, 10, 1), 0);
    assert!(matches!(queue.next(0, 0), Next::Dispatch(_)));
    queue.add(pages(2, Write, 11, 1), 0);
    assert_eq!(drain(&mut queue), [(10, 2, vec![1, 2])]);
}

#[test]
fn a_stream_whose_commands_joined_is_still_known_to_have_been_answered() {
    for (elevator, until) in
        [("anticipatory", 6700 * US), ("cfq-2.6.20", 8 * MS), ("cfq-2.6.23", 8 * MS)]
    {
        let mut queue = HostQueue::new(&settings(elevator));
        [0, 2, 1]
            .iter()
            .enumerate()
            .for_each(|(sequence, page)| queue.add(pages(sequence as u64, Read, *page, 1), 0));
        let Next::Dispatch(command) = queue.next(0, 0) else { panic!("one waits") };
        assert_eq!(command.parts.len(), 3);
        queue.completed(command.id, 0);
        let other = Queued { stream: 1, ..pages(3, Read, 100_000, 1) };
        queue.add(other, 0);
        assert_eq!(queue.next(0, 0), Next::IdleUntil(until), "{elevator}");
    }
}

#[test]
fn nothing_grows_past_the_maximum_and_what_is_larger_is_cut() {
    let mut queue = HostQueue::new(&settings("noop"));
    queue.add(pages(0, Write, 0, 100), 0);
    queue.add(pages(1, Write, 100, 28), 0);
    queue.add(pages(2, Write, 128, 1), 0);
    queue.add(pages(3, Read, 1000, 300), 0);
    let sent = drain(&mut queue);
    let expected = vec![
        (0, 128, vec![0, 1]),
        (128, 1, vec![2]),
        (1000, 128, vec![3]),
        (1128, 128, vec![3]),
        (1256, 44, vec![3]),
    ];
    assert_eq!(sent, expected);
    assert_eq!(queue.statistics().cuts, 2);
}

#[test]
fn a_merge_with_somebody_who_waits_is_waited_for() {
    let mut queue = HostQueue::new(&settings("deadline"));
    let background = Queued { urgency: Background, stream: 7, ..pages(0, Read, 0, 1) };
    queue.add(background, 0);
    queue.add(Queued { stream: 8, ..pages(1, Read, 1, 1) }, 0);
    let Next::Dispatch(command) = queue.next(0, 0) else { panic!("two wait") };
    assert_eq!((command.urgency, command.stream, command.parts.len()), (Awaited, 8, 2));
}

#[test]
fn beyond_the_limit_requests_wait_in_order_of_arrival() {
    let limited = QueueSettings { requests_max: 2, ..settings("c-look") };
    let mut queue = HostQueue::new(&limited);
    for (sequence, page) in [90, 80, 70, 60, 50].into_iter().enumerate() {
        queue.add(pages(sequence as u64, Read, page, 1), 0);
    }
    queue.add(pages(5, Write, 10, 1), 0);
    assert_eq!(
        (queue.waiting(), queue.statistics().depth_max, queue.statistics().outside_max),
        (6, 3, 3)
    );
    // 90 and 80 are in, and the write; each that is sent lets in the next.
    let order: Vec<u64> = drain(&mut queue).iter().map(|sent| sent.0).collect();
    assert_eq!(order, [10, 80, 90, 60, 70, 50].map(|page| page));
}

#[test]
fn an_idle_device_is_plugged_until_somebody_waits_or_enough_came_or_time_passed() {
    let plugged = QueueSettings { plug_ns: 3 * MS, plug_requests: 3, ..settings("noop") };
    let write = |sequence: u64| pages(sequence, Write, sequence * 10, 1);
    let sends = |queue: &mut HostQueue, now: u64| match queue.next(0, now) {
        Next::Dispatch(command) => command.id,
        other => panic!("{other:?}"),
    };

    let mut time = HostQueue::new(&plugged);
    time.add(write(0), 10);
    assert_eq!(time.next(0, 10), Next::IdleUntil(3 * MS + 10));
    time.add(write(1), 2 * MS);
    assert_eq!(time.next(0, 3 * MS + 9), Next::IdleUntil(3 * MS + 10));
    let first = sends(&mut time, 3 * MS + 10);
    // The plug stays out while something waits or is under way.
    time.add(write(2), 4 * MS);
    sends(&mut time, 4 * MS);
    sends(&mut time, 4 * MS);
    time.add(write(3), 4 * MS);
    sends(&mut time, 4 * MS);
    (first..first + 4).for_each(|id| time.completed(id, 5 * MS));
    assert_eq!(time.next(0, 5 * MS), Next::Empty);
    time.add(write(4), 6 * MS);
    assert_eq!(time.next(0, 6 * MS), Next::IdleUntil(9 * MS));

    let mut count = HostQueue::new(&plugged);
    (0..2).for_each(|sequence| count.add(write(sequence), 0));
    assert_eq!(count.next(0, 0), Next::IdleUntil(3 * MS));
    count.add(write(2), 0);
    sends(&mut count, 0);

    let mut awaited = HostQueue::new(&plugged);
    awaited.add(write(0), 0);
    awaited.add(pages(1, Read, 7, 1), 0);
    sends(&mut awaited, 0);

    let mut asked = HostQueue::new(&plugged);
    asked.add(write(0), 0);
    asked.unplug();
    sends(&mut asked, 0);
}

#[test]
fn a_flush_goes_when_older_writes_are_sent_and_holds_up_nothing() {
    let limited = QueueSettings { requests_max: 1, ..settings("noop") };
    let mut queue = HostQueue::new(&limited);
    let flush = |sequence| Queued { bytes: 0, urgency: Awaited, ..pages(sequence, Flush, 0, 0) };
    queue.add(pages(0, Write, 0, 1), 0);
    queue.add(pages(1, Write, 10, 200), 0);
    queue.add(flush(2), 0);
    queue.add(pages(3, Write, 300, 1), 0);
    queue.add(flush(4), 0);
    queue.add(flush(5), 0);
    queue.add(pages(6, Read, 400, 1), 0);
    // One write is in the elevator, the others before it; the read was alone in its direction.
    let order: Vec<Vec<u64>> = drain(&mut queue).into_iter().map(|sent| sent.2).collect();
    assert_eq!(order, [vec![0], vec![6], vec![1], vec![1], vec![2], vec![3], vec![4], vec![5]]);
    assert!(queue.is_empty());
    queue.add(flush(7), 0);
    assert_eq!(drain(&mut queue).len(), 1);
}

#[test]
fn odd_requests_end_too() {
    for entry in ELEVATORS {
        let mut queue = HostQueue::new(&QueueSettings {
            merge_bytes_max: 0,
            requests_max: 0,
            ..settings(entry.name)
        });
        let odd = [
            (u64::MAX, 1),
            (u64::MAX - 4096, 8192),
            (5, 0),
            (5, 0),
            (7, 4097),
            (u64::MAX, u64::MAX >> 40),
        ];
        for (sequence, (offset, bytes)) in odd.into_iter().enumerate() {
            let sequence = sequence as u64;
            queue.add(Queued { offset, bytes, ..pages(sequence, Write, 0, 0) }, 0);
        }
        let mut bytes = BTreeMap::new();
        let mut now = 0;
        loop {
            match queue.next(0, now) {
                Next::Dispatch(command) => {
                    assert!(command.bytes <= 4096);
                    for part in command.parts {
                        *bytes.entry(part.sequence).or_insert(0) += part.bytes;
                    }
                }
                Next::IdleUntil(until) => now = until,
                Next::Empty => break,
            }
        }
        assert!(bytes.into_values().eq(odd.map(|(_, bytes)| bytes)), "{}", entry.name);
    }
}
