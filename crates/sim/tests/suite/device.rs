//! The simulated device: the contract of devices, times, merging, conservation, determinism.
use crate::checks;
use extant_block::*;
use extant_sim::clock::{Event, Settings, VirtualClock};
use extant_sim::device::{
    DeviceSettings, NO_STREAM, PowerCuts, SimDevice, Statistics, TraceKeeping,
};
use extant_sim::drive::{Command, Done, Drive, DriveInfo, Parts, Unflushed};
use extant_sim::queue::{ELEVATORS, ElevatorChoice, QueueSettings, Unplug, WakeUp};
use extant_sim::trace::TraceRecord;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const US: u64 = 1000;
const BLOCK: u64 = 4096;

/// A drive of several servers, each of which answers in a time that depends on the place: answers
/// overtake each other.
struct Jittery {
    info: DriveInfo,
    service_ns: fn(&Command) -> u64,
    inside: Vec<Done>,
    now: u64,
    head: u64,
}

impl Jittery {
    fn boxed(bytes: u64, queue_depth: u32, service_ns: fn(&Command) -> u64) -> Box<dyn Drive> {
        let info = DriveInfo {
            name: "jittery".to_owned(),
            bytes,
            sector_bytes: 512,
            queue_depth,
            media_bytes_per_second: 40_000_000,
            least_seek_ns: 0,
        };
        Box::new(Jittery { info, service_ns, inside: Vec::new(), now: 0, head: 0 })
    }
}

impl Drive for Jittery {
    fn info(&self) -> &DriveInfo {
        &self.info
    }
    fn submit(&mut self, command: Command, now: u64) {
        assert!(self.inside.len() < self.info.queue_depth as usize, "no room");
        assert!(now >= self.now && self.next_event().is_none_or(|due| due > now));
        assert!(command.offset.is_multiple_of(512) && command.bytes.is_multiple_of(512));
        assert!(command.offset + command.bytes <= self.info.bytes);
        assert_eq!(command.bytes == 0, command.operation == Operation::Flush);
        self.now = now;
        let time = (self.service_ns)(&command);
        let parts = Parts { seek: time / 3, media: time - time / 3, ..Parts::default() };
        let hit = command.offset.is_multiple_of(3);
        let (id, at) = (command.id, now + time);
        self.inside.push(Done { id, at, parts, hit });
        self.head = command.offset + command.bytes;
    }
    fn next_event(&self) -> Option<u64> {
        self.inside.iter().map(|done| done.at).min()
    }
    fn advance(&mut self, now: u64, done: &mut Vec<Done>) {
        assert!(now >= self.now);
        self.now = now;
        let mut ended: Vec<Done> = self.inside.extract_if(.., |answer| answer.at <= now).collect();
        ended.sort_by_key(|answer| (answer.at, answer.id));
        done.append(&mut ended);
    }
    fn head(&self) -> u64 {
        self.head
    }
    fn unflushed(&mut self, _: u64) -> Vec<Unflushed> {
        Vec::new()
    }
    fn power_cut(&mut self, _: u64) -> Vec<Unflushed> {
        self.inside.clear();
        Vec::new()
    }
}

fn steady(_: &Command) -> u64 {
    100 * US
}

fn jitter(command: &Command) -> u64 {
    let place = (command.offset / 512).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    1 + place % 3000 * US + command.bytes / 40
}

fn settings(elevator: &str, trace: TraceKeeping) -> DeviceSettings {
    let elevator = elevator.parse().expect("an elevator of the table");
    DeviceSettings {
        name: "disk".to_owned(),
        queue: QueueSettings { elevator, ..QueueSettings::default() },
        trace,
        power_cuts: PowerCuts::Excluded,
    }
}

fn noop() -> DeviceSettings {
    settings("noop", TraceKeeping::All)
}

fn clock() -> Arc<VirtualClock> {
    VirtualClock::new(Settings::default())
}

/// Runs this as the first process; it must end well.
fn run<T: Send + 'static>(
    clock: &Arc<VirtualClock>,
    body: impl FnOnce(Arc<VirtualClock>) -> T + Send + 'static,
) -> T {
    let inner = Arc::clone(clock);
    clock.run("first", move || body(inner)).expect("the run ends well")
}

/// Runs this with a device of so many bytes, which answers in 100 us.
fn on_steady<T: Send + 'static>(
    queue_depth: u32,
    body: impl FnOnce(&Arc<VirtualClock>, &Arc<SimDevice>) -> T + Send + 'static,
) -> T {
    run(&clock(), move |clock| {
        let drive = Jittery::boxed(1 << 30, queue_depth, steady);
        let device = SimDevice::new(Arc::clone(&clock), drive, noop());
        body(&clock, &device)
    })
}

/// Counts requests that are under way, and waits for their end.
struct Requests {
    under_way: ShortLock<Vec<(u64, Completed)>>,
    ended: WaitQueue,
}

impl Requests {
    fn new(device: &SimDevice) -> Arc<Requests> {
        Arc::new(Requests {
            under_way: ShortLock::new(Vec::new()),
            ended: WaitQueue::new(Arc::clone(device.clock())),
        })
    }
    /// Submits; what it came to is filed under `number`.
    fn submit(
        self: &Arc<Self>,
        device: &SimDevice,
        number: u64,
        what: (Operation, u64, Segment, Urgency),
    ) {
        let requests = Arc::clone(self);
        let (operation, offset, segment, urgency) = what;
        let segments = if operation == Operation::Flush { Vec::new() } else { vec![segment] };
        let completion = Box::new(move |completed| {
            requests.under_way.lock().push((number, completed));
            requests.ended.wake_one();
        });
        device.submit(Request { operation, offset, segments, urgency, completion });
    }
    fn wait(&self, count: usize) -> Vec<(u64, Completed)> {
        let all = |ended: &mut Vec<_>| (ended.len() >= count).then(|| std::mem::take(ended));
        self.ended.wait_until(&self.under_way, all)
    }
}

#[test]
fn it_keeps_the_contract_of_devices() {
    for (elevator, queue_depth) in [("noop", 1), ("deadline", 4), ("c-look", 32)] {
        run(&clock(), move |clock| {
            let drive = Jittery::boxed(checks::BYTES, queue_depth, jitter);
            let settings = settings(elevator, TraceKeeping::None);
            checks::contract(SimDevice::new(Arc::clone(&clock), drive, settings.clone()));
            let drive = Jittery::boxed(checks::BYTES, queue_depth, jitter);
            checks::contract(checks::SubmitOnly(SimDevice::new(
                Arc::clone(&clock),
                drive,
                settings,
            )));
        });
    }
}

#[test]
fn a_request_takes_the_drives_time_after_the_work_before_it() {
    on_steady(1, |clock, device| {
        device.read(0, &mut [0; 4096]).unwrap();
        assert_eq!(clock.now(), 100 * US);
        clock.charge(30 * US);
        device.read(4096, &mut [0; 4096]).unwrap();
        assert_eq!(clock.now(), 230 * US, "it leaves when the work is done");
        device.flush().unwrap();
        device.write(0, &[]).unwrap();
        assert_eq!(clock.now(), 330 * US, "nothing takes no time");
        device.read(1 << 30, &mut [0; 1]).unwrap_err();
        assert_eq!(clock.now(), 330 * US);
        rest_until(clock, 1000 * US);

        let statistics = device.statistics();
        assert_eq!((statistics.busy_ns, statistics.idle_ns), (300 * US, 700 * US));
        let counts =
            (statistics.requests, statistics.reads, statistics.flushes, statistics.commands);
        assert_eq!(counts, (3, 2, 1, 3));
        assert_eq!((statistics.bytes_read, statistics.seeks, statistics.hits), (8192, 0, 2));
        assert_eq!(statistics.read_latency.max(), 100 * US);
        let records = device.take_trace();
        assert_eq!(records.len(), 3);
        assert!(device.take_trace().is_empty());
        let second = records[1];
        let times = [second.arrival_ns, second.dispatch_ns, second.completion_ns];
        assert_eq!(times, [130 * US, 130 * US, 230 * US]);
        assert_eq!((second.stream, second.offset, second.bytes), (0, 4096, 4096));
    });
}

fn rest_until(clock: &VirtualClock, time: u64) {
    while clock.park(Some(time)) == Unparked::Woken {}
}

#[test]
fn phantoms_take_the_same_time_and_no_room() {
    let times = [false, true].map(|phantom| {
        on_steady(2, move |clock, device| {
            let segment = |bytes: usize| match phantom {
                true => Segment::Phantom(bytes),
                false => Segment::Owned(vec![1; bytes]),
            };
            for (index, operation) in
                [Operation::Write, Operation::Read, Operation::Read].into_iter().enumerate()
            {
                let completed =
                    device.transfer(operation, index as u64 * 10_000, vec![segment(9000)]);
                completed.result.unwrap();
            }
            let room = device.contents().resident_bytes();
            assert_eq!(room, if phantom { 0 } else { 3 * 4096 });
            (clock.now(), device.trace_hash())
        })
    });
    assert_eq!(times[0], times[1]);
}

#[test]
fn what_lies_end_to_end_is_merged() {
    on_steady(1, |clock, device| {
        let requests = Requests::new(device);
        let write = |block: u64| {
            (Operation::Write, block * BLOCK, Segment::Phantom(4096), Urgency::Background)
        };
        [3, 1, 2, 0, 9].into_iter().for_each(|block| requests.submit(device, block, write(block)));
        let ended = requests.wait(5);
        assert_eq!(ended.len(), 5);
        let statistics = device.statistics();
        assert_eq!((statistics.commands, statistics.merged, statistics.writes), (2, 3, 5));
        assert_eq!(
            (statistics.depth_max, statistics.seeks),
            (2, 1),
            "3 and 1 waited when 2 joined them"
        );
        assert_eq!(statistics.seek_bytes, u128::from(5 * BLOCK));
        // Plugged until the process waits, then one command after the other.
        assert_eq!(clock.now(), 200 * US);
        let latency = statistics.write_latency;
        assert_eq!((latency.max(), latency.sum()), (200 * US, u128::from((4 * 100 + 200) * US)));
    });
}

#[test]
fn what_is_too_large_is_cut_and_ends_as_one() {
    on_steady(4, |_, device| {
        let completed = device.transfer(Operation::Read, 512, vec![Segment::Phantom(3 << 20)]);
        completed.result.unwrap();
        let statistics = device.statistics();
        assert_eq!((statistics.requests, statistics.commands), (1, 6));
        assert_eq!(device.take_trace().iter().map(|record| record.bytes).sum::<u64>(), 3 << 20);
    });
}

#[test]
fn what_is_not_aligned_costs_its_sectors() {
    on_steady(1, |_, device| {
        device.write(1000, &[7; 100]).unwrap();
        let mut bytes = [0; 102];
        device.read(999, &mut bytes).unwrap();
        assert_eq!((bytes[0], bytes[1], bytes[100], bytes[101]), (0, 7, 7, 0));
        let records = device.take_trace();
        let places: Vec<_> = records.iter().map(|record| (record.offset, record.bytes)).collect();
        assert_eq!(places, [(512, 1024), (512, 1024)]);
        assert_eq!(device.statistics().bytes_written, 100);
    });
}

/// Submits a read when it fires.
struct Reads(Arc<SimDevice>, Arc<Requests>);

impl Event for Reads {
    fn fire(self: Arc<Self>, now: u64) {
        let read = (Operation::Read, now * 512, Segment::Owned(vec![9; 512]), Urgency::Awaited);
        self.1.submit(&self.0, now, read);
    }
}

#[test]
fn events_and_completions_may_submit() {
    on_steady(1, |clock, device| {
        let requests = Requests::new(device);
        let reads = Arc::new(Reads(Arc::clone(device), Arc::clone(&requests)));
        for at in [5, 5, 7] {
            clock.schedule(at, Arc::clone(&reads) as Arc<dyn Event>);
        }
        let (again, result) = (Arc::clone(device), Arc::clone(&requests));
        let completion = Box::new(move |completed: Completed| {
            completed.result.unwrap();
            result.submit(&again, 0, (Operation::Flush, 0, Segment::Phantom(0), Urgency::Awaited));
        });
        device.submit(Request {
            operation: Operation::Write,
            offset: 0,
            segments: vec![Segment::Owned(vec![3; 10_000])],
            urgency: Urgency::Awaited,
            completion,
        });
        let mut ended = requests.wait(4);
        ended.sort_by_key(|(number, _)| *number);
        for ((number, completed), expected) in ended.iter().zip([0, 5, 5, 7]) {
            assert_eq!(*number, expected);
            assert!(completed.result.is_ok());
        }
        let Some(Segment::Owned(bytes)) = ended[1].1.segments.first() else {
            panic!("{ended:?}");
        };
        assert_eq!(bytes[..], [3; 512], "the write is seen");
        assert_eq!(clock.now(), 500 * US);
        let streams: Vec<_> = device.take_trace().iter().map(|record| record.stream).collect();
        assert_eq!(streams.iter().filter(|stream| **stream == NO_STREAM).count(), 4);
    });
}

#[test]
fn a_device_that_goes_away_ends_its_requests() {
    let requests = on_steady(1, |_, device| {
        let requests = Requests::new(device);
        for block in 0..5 {
            let write =
                (Operation::Write, block * 100 * BLOCK, Segment::Phantom(4096), Urgency::Awaited);
            requests.submit(device, block, write);
        }
        requests
    });
    // The run has ended and dropped it.
    let ended = std::mem::take(&mut *requests.under_way.lock());
    assert_eq!(ended.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for (_, completed) in ended {
        let error = completed.result.unwrap_err().to_string();
        assert!(error.starts_with("disk: write at byte "), "{error}");
        assert_eq!(completed.segments.len(), 1, "the memory comes back");
    }
}

#[test]
fn contents_can_be_given_and_must_fit() {
    let clock = clock();
    let seam = Arc::clone(&clock) as Arc<dyn Clock>;
    let image = MemoryDevice::from_bytes(Arc::clone(&seam), &[5; 10_000]);
    let drive = || Jittery::boxed(1 << 20, 1, steady);
    let device = SimDevice::with_contents(Arc::clone(&clock), drive(), noop(), image).unwrap();
    assert_eq!((device.info().bytes, device.info().name.as_str()), (10_000, "disk"));
    assert_eq!(device.drive().bytes, 1 << 20);
    let image = MemoryDevice::new(seam, (1 << 20) + 1);
    let Err(error) = SimDevice::with_contents(Arc::clone(&clock), drive(), noop(), image) else {
        panic!("it does not fit");
    };
    assert_eq!(error.to_string(), "disk: contents of 1048577 bytes on a drive of 1048576");
    run(&clock, move |_| {
        let mut bytes = [0; 3];
        device.read(9_997, &mut bytes).unwrap();
        assert_eq!(bytes, [5; 3]);
        let error = device.read(9_998, &mut bytes).unwrap_err().to_string();
        assert!(error.starts_with("disk: read at byte 9998: "), "{error}");
    });
    assert_eq!(clock.now(), 100 * US);
}

/// What one process of the model test asks for, in its own part of the device.
#[derive(Clone, Debug)]
struct Asked {
    operation: Operation,
    offset: u64,
    bytes: u64,
    urgency: Urgency,
    /// CPU work before it.
    work: u64,
    /// Whether the process waits for all that it asked for so far.
    waits: bool,
}

/// Bytes of the device that each process has for itself.
const SHARE: u64 = 4 << 20;

fn asked() -> impl Strategy<Value = Asked> {
    let operation = prop_oneof![
        4 => Just(Operation::Read),
        4 => Just(Operation::Write),
        1 => Just(Operation::Flush)
    ];
    let urgency = prop_oneof![Just(Urgency::Awaited), Just(Urgency::Background)];
    // Mostly near each other, so that they merge, and aligned; sometimes large.
    let place = prop_oneof![5 => 0..40_u64, 1 => 0..900_u64];
    let blocks = prop_oneof![6 => 1..6_u64, 1 => 1..100_u64];
    let work = prop_oneof![2 => Just(0), 1 => 0..300 * US];
    (operation, place, blocks, urgency, work, prop::bool::weighted(0.3)).prop_map(
        |(operation, place, blocks, urgency, work, waits)| Asked {
            operation,
            offset: place * BLOCK,
            bytes: blocks * BLOCK,
            urgency,
            work,
            waits,
        },
    )
}

/// One process: asks, waits, and compares what it reads with what it wrote when nothing of its own
/// was under way.
fn user(clock: &VirtualClock, device: &Arc<SimDevice>, number: u64, list: &[Asked]) {
    let requests = Requests::new(device);
    let mut model: BTreeMap<u64, u8> = BTreeMap::new();
    let mut under_way = 0;
    for (index, asked) in list.iter().enumerate() {
        clock.charge(asked.work);
        let fill = (index % 250) as u8 + 1;
        let segment = Segment::Owned(vec![fill; asked.bytes as usize]);
        let what = (asked.operation, number * SHARE + asked.offset, segment, asked.urgency);
        requests.submit(device, index as u64, what);
        under_way += 1;
        if asked.operation == Operation::Write {
            (asked.offset / BLOCK..(asked.offset + asked.bytes) / BLOCK).for_each(|block| {
                model.insert(block, fill);
            });
        }
        if asked.waits || index + 1 == list.len() {
            let mut ended = requests.wait(under_way);
            ended.sort_by_key(|(number, _)| *number);
            let numbers = ended.iter().map(|(number, _)| *number as usize);
            assert!(numbers.eq(index + 1 - under_way..=index), "each ends once");
            assert!(ended.iter().all(|(_, completed)| completed.result.is_ok()));
            under_way = 0;
        }
    }
    for (block, fill) in model {
        let mut bytes = [0; BLOCK as usize];
        device.read(number * SHARE + block * BLOCK, &mut bytes).unwrap();
        assert_eq!(bytes, [fill; BLOCK as usize], "block {block}");
    }
}

/// Runs the lists, each in a process of its own.
fn users(
    lists: &[Vec<Asked>],
    elevator: &str,
    queue_depth: u32,
    trace: TraceKeeping,
) -> (Statistics, Vec<TraceRecord>, u64, u64) {
    let lists = lists.to_vec();
    let clock = clock();
    let drive = Jittery::boxed(lists.len() as u64 * SHARE, queue_depth, jitter);
    let device = SimDevice::new(Arc::clone(&clock), drive, settings(elevator, trace));
    let inner = Arc::clone(&device);
    run(&clock, move |clock| {
        let spawn = |(number, list): (usize, Vec<Asked>)| {
            let (inside, device) = (Arc::clone(&clock), Arc::clone(&inner));
            clock.spawn("user", Box::new(move || user(&inside, &device, number as u64, &list)))
        };
        let tasks: Vec<Task> = lists.into_iter().enumerate().map(spawn).collect();
        tasks.into_iter().for_each(Task::join);
    });
    (device.statistics(), device.take_trace(), device.trace_hash(), clock.now())
}

fn conserves(statistics: &Statistics, records: &[TraceRecord], now: u64) {
    assert_eq!(statistics.commands, records.len() as u64);
    assert_eq!(statistics.parts.total(), statistics.service_ns);
    let mut service = 0;
    for record in records {
        assert!(record.arrival_ns <= record.dispatch_ns && record.completion_ns <= now);
        assert_eq!(record.parts.total(), record.completion_ns - record.dispatch_ns);
        service += record.parts.total();
    }
    assert_eq!(service, statistics.service_ns);
    assert!(records.is_sorted_by_key(|record| record.completion_ns));
    for (operation, bytes) in [
        (Operation::Read, statistics.bytes_read),
        (Operation::Write, statistics.bytes_written),
        (Operation::Flush, 0),
    ] {
        let moved = records.iter().filter(|record| record.operation == operation);
        assert_eq!(moved.map(|record| record.bytes).sum::<u64>(), bytes, "{operation:?}");
    }
    assert_eq!(statistics.busy_ns + statistics.idle_ns, now);
    let ended = statistics.reads + statistics.writes + statistics.flushes;
    assert_eq!((statistics.queue.arrivals, statistics.requests), (ended, ended));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        rng_seed: proptest::test_runner::RngSeed::Fixed(5),
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_is_lost_and_times_add_up(
        lists in prop::collection::vec(prop::collection::vec(asked(), 1..40), 1..5),
        elevator in 0..ELEVATORS.len(),
        queue_depth in 1..6_u32,
    ) {
        let elevator = ElevatorChoice::of(&ELEVATORS[elevator]).to_string();
        let (statistics, records, hash, now) =
            users(&lists, &elevator, queue_depth, TraceKeeping::All);
        conserves(&statistics, &records, now);
        let asked: usize = lists.iter().map(Vec::len).sum();
        prop_assert!(statistics.requests >= asked as u64);
        // And all of it happens again, whether it is written down or not.
        let again = users(&lists, &elevator, queue_depth, TraceKeeping::None);
        prop_assert_eq!(again.2, hash);
        prop_assert_eq!((again.0, again.3), (statistics, now));
        prop_assert!(again.1.is_empty());
    }
}

#[test]
fn another_order_is_another_hash() {
    let read = |place: u64| Asked {
        operation: Operation::Read,
        offset: place * BLOCK,
        bytes: BLOCK,
        urgency: Urgency::Awaited,
        work: 0,
        waits: true,
    };
    let hash =
        |places: [u64; 3]| users(&[places.map(read).to_vec()], "noop", 1, TraceKeeping::None).2;
    assert_eq!(hash([1, 2, 3]), hash([1, 2, 3]));
    assert_ne!(hash([1, 2, 3]), hash([1, 3, 2]));
    assert_ne!(hash([1, 2, 3]), hash([1, 2, 4]));
}

/// A device that answers in 100 us behind a queue as Linux 2.4 had it.
fn of_2_4(clock: &Arc<VirtualClock>, requests_max: u32) -> Arc<SimDevice> {
    let mut settings = noop();
    settings.queue = QueueSettings {
        requests_max,
        plug_ns: 5_000_000 * US,
        unplug: Unplug::OnWait,
        wake_up: WakeUp::QuarterFree,
        ..settings.queue
    };
    SimDevice::new(Arc::clone(clock), Jittery::boxed(1 << 30, 1, steady), settings)
}

#[test]
fn who_waits_for_its_own_write_pulls_a_plug_with_a_timer() {
    run(&clock(), |clock| {
        let mut settings = noop();
        settings.queue = QueueSettings { plug_ns: 3_000 * US, ..settings.queue };
        let drive = Jittery::boxed(1 << 30, 1, steady);
        let device = SimDevice::new(Arc::clone(&clock), drive, settings);
        let requests = Requests::new(&device);
        let write = (Operation::Write, 0, Segment::Phantom(4096), Urgency::Background);
        requests.submit(&device, 0, write);
        requests.wait(1);
        assert_eq!(clock.now(), 100 * US, "it wants what it submitted");
        // Who sleeps wants nothing.
        let write = (Operation::Write, 1 << 20, Segment::Phantom(4096), Urgency::Background);
        requests.submit(&device, 1, write);
        let until = clock.now() + 1_000 * US;
        while clock.now() < until {
            clock.park(Some(until));
        }
        assert_eq!(device.statistics().commands, 1);
        requests.wait(1);
        assert_eq!(clock.now(), 1_200 * US);
    });
}

#[test]
fn what_is_asked_for_before_a_process_waits_is_one_command() {
    run(&clock(), |clock| {
        let device = of_2_4(&clock, 64);
        let requests = Requests::new(&device);
        let read = |bytes, urgency| (Operation::Read, Segment::Phantom(bytes), urgency);
        for (number, offset, (operation, segment, urgency)) in
            [(0, 0, read(4096, Urgency::Awaited)), (1, 4096, read(12_288, Urgency::Background))]
        {
            requests.submit(&device, number, (operation, offset, segment, urgency));
        }
        assert_eq!(device.statistics().commands, 0);
        requests.wait(2);
        assert_eq!((clock.now(), device.statistics().commands), (100 * US, 1));
        // A process that sleeps waits too; a request that no process made is not held back.
        let (inner, again) = (Arc::clone(&requests), Arc::clone(&device));
        let completion = Box::new(move |_| {
            let what = (Operation::Write, 1 << 20, Segment::Phantom(4096), Urgency::Background);
            inner.submit(&again, 3, what);
        });
        device.submit(Request {
            operation: Operation::Write,
            offset: 1 << 25,
            segments: vec![Segment::Phantom(4096)],
            urgency: Urgency::Background,
            completion,
        });
        rest_until(&clock, 1000 * US);
        assert_eq!((requests.wait(1).len(), device.statistics().commands), (1, 3));
    });
}

#[test]
fn a_process_that_finds_the_queue_full_sleeps_until_a_quarter_is_free() {
    run(&clock(), |clock| {
        let device = of_2_4(&clock, 4);
        let requests = Requests::new(&device);
        let mut times = Vec::new();
        for number in 0..10 {
            let place = number << 20;
            let what = (Operation::Write, place, Segment::Phantom(4096), Urgency::Background);
            requests.submit(&device, number, what);
            device.wait_for_room(Operation::Write);
            times.push(clock.now() / US);
        }
        // Four requests, of eight in all: two have to be free. Each takes 100 us.
        assert_eq!(times, [0, 0, 0, 0, 200, 200, 400, 400, 600, 600]);
        requests.wait(10);
        assert_eq!(clock.now(), 1000 * US);
        device.wait_for_room(Operation::Read);
    });
}

#[test]
fn who_leaves_a_congested_queue_alone_goes_on_at_relief_or_after_its_time() {
    run(&clock(), |clock| {
        let mut settings = noop();
        let (requests_max, wake_up) = (16, WakeUp::Batches);
        settings.queue = QueueSettings { requests_max, wake_up, plug_ns: 0, ..settings.queue };
        let drive = Jittery::boxed(1 << 30, 1, steady);
        let device = SimDevice::new(Arc::clone(&clock), drive, settings);
        let requests = Requests::new(&device);
        for number in 0..16 {
            let what = (Operation::Write, number << 20, Segment::Phantom(4096));
            requests.submit(&device, number, (what.0, what.1, what.2, Urgency::Background));
        }
        assert!(device.is_congested(Operation::Write) && !device.is_congested(Operation::Read));
        let wait = |operation, for_ns: u64| {
            device.wait_for_relief(operation, clock.now() + for_ns);
            clock.now() / US
        };
        // Each takes 100 us. Of 16 fewer than 12 have to be left.
        assert_eq!(wait(Operation::Write, 50 * US), 50, "its time has passed");
        assert_eq!(wait(Operation::Read, 50 * US), 100, "no read has ended");
        assert_eq!(wait(Operation::Write, 1000 * US), 500);
        assert!(!device.is_congested(Operation::Write));
        assert_eq!(wait(Operation::Write, 1000 * US), 600, "the next one that ends");
        requests.wait(16);
        assert_eq!(wait(Operation::Write, 1000 * US), 2600, "none is left that could end");
    });
}
