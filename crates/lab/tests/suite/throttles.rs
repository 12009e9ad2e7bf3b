//! Throttles in virtual time: two volumes on two devices in one memory, one of them slow; and the
//! properties that hold whatever the devices do.
use extant_block::capability::Capabilities;
use extant_block::device::DeviceInfo;
use extant_block::{
    BlockDevice, Clock, MemoryDevice, Operation, Request, ShortLock, Task, WaitQueue,
};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::throttle::{DirtyBudget, Load};
use extant_engine::{Access, DataKeeping, Filesystem, Options, cache_for_blocks};
use extant_lab::setup::Setup;
use extant_sim::clock::{Settings, VirtualClock};
use std::collections::VecDeque;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;
const MEMORY: u64 = 64 * MIB;

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    ended: bool,
}

/// A device that writes one request after the other at a fixed rate.
struct Paced {
    memory: Arc<MemoryDevice>,
    shared: Arc<(ShortLock<Queue>, WaitQueue)>,
}

impl Paced {
    fn new(clock: &Arc<dyn Clock>, bytes_per_s: u64) -> (Arc<Paced>, Task) {
        let memory = Arc::new(MemoryDevice::new(Arc::clone(clock), 512 * MIB));
        let shared =
            Arc::new((ShortLock::new(Queue::default()), WaitQueue::new(Arc::clone(clock))));
        let (writer, queue, timer) = (Arc::clone(&memory), Arc::clone(&shared), Arc::clone(clock));
        let task = clock.spawn(
            "device",
            Box::new(move || {
                let next = || {
                    queue.1.wait_until(&queue.0, |queue| match queue.requests.pop_front() {
                        Some(request) => Some(Some(request)),
                        None => queue.ended.then_some(None),
                    })
                };
                while let Some(request) = next() {
                    sleep(&timer, request.bytes() * SECOND / bytes_per_s);
                    writer.submit(request);
                }
            }),
        );
        (Arc::new(Paced { memory, shared }), task)
    }

    fn end(&self) {
        self.shared.0.lock().ended = true;
        self.shared.1.wake_all();
    }
}

impl BlockDevice for Paced {
    fn info(&self) -> DeviceInfo {
        self.memory.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.memory.clock()
    }
    fn submit(&self, request: Request) {
        if request.operation != Operation::Write {
            return self.memory.submit(request);
        }
        self.shared.0.lock().requests.push_back(request);
        self.shared.1.wake_all();
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
}

fn sleep(clock: &Arc<dyn Clock>, nanoseconds: u64) {
    let until = clock.now() + nanoseconds;
    while clock.now() < until {
        clock.park(Some(until));
    }
}

fn options(policies: &str) -> Options {
    Options {
        access: Access::ReadWrite,
        policies: policies.parse::<Setup>().unwrap().policies,
        cache_bytes: cache_for_blocks(MEMORY as usize),
        data: DataKeeping::Phantom,
    }
}

/// A new volume of 4 KiB blocks on the device.
fn made(device: &Arc<Paced>, policies: &str) {
    let mut wishes = default_wishes(Profile::Ext3, 512 * MIB, Some(4096), Identity::NONE);
    wishes.uuid = *b"a throttled one.";
    wishes.created_seconds = 978_000_000;
    let policies = policies.parse().unwrap();
    let memory = Arc::clone(&device.memory) as Arc<dyn BlockDevice>;
    format(memory, &FormatOptions::new(wishes), &policies).unwrap();
}

/// What two writers did.
#[derive(Debug)]
struct Outcome {
    /// Bytes a second that each made dirty in the second half.
    rates: [u64; 2],
    /// The most that was ever dirty, or being written.
    most: u64,
    /// Parts of the write-back, in thousandths.
    shares: Vec<u64>,
    /// The longest call.
    slowest_ns: u64,
    after: Load,
}

/// Writers on devices of these rates for so long.
fn beside(policies: &'static str, device_rates: [u64; 2], seconds: u64) -> Outcome {
    let clock = VirtualClock::new(Settings::default());
    let inner = Arc::clone(&clock) as Arc<dyn Clock>;
    let outcome = clock.run("test", move || {
        let clock = inner;
        let budget = DirtyBudget::new(&clock, MEMORY);
        let seen = Arc::new(ShortLock::new((0, 0)));
        let written = Arc::new(ShortLock::new([0u64; 2]));
        let mut volumes = Vec::new();
        let mut devices = Vec::new();
        let mut writers = Vec::new();
        for (number, rate) in device_rates.into_iter().enumerate() {
            let (device, task) = Paced::new(&clock, rate);
            made(&device, policies);
            let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
            let volume =
                Filesystem::open_within(shared, &options(policies), &budget, number as u32)
                    .unwrap();
            volumes.push(volume.clone());
            devices.push((device, task));
            let (budget, clock, seen, written) =
                (Arc::clone(&budget), Arc::clone(&clock), Arc::clone(&seen), Arc::clone(&written));
            let body = move || {
                let content = vec![0; MIB as usize];
                let file = volume.create_file("/stream", 0o644).unwrap();
                let (begin, mut at) = (clock.now(), 0);
                while clock.now() < begin + seconds * SECOND {
                    let before = clock.now();
                    file.write_all_at(at % (256 * MIB), &content).unwrap();
                    at += MIB;
                    let mut seen = seen.lock();
                    seen.0 = seen.0.max(budget.load().total());
                    seen.1 = seen.1.max(clock.now() - before);
                    if clock.now() > begin + seconds * SECOND / 2 {
                        written.lock()[number] += MIB;
                    }
                }
            };
            writers.push(spawn(&devices[number].0, body));
        }
        writers.into_iter().for_each(Task::join);
        let shares = budget.shares().iter().map(|(_, share)| share.of(1000)).collect();
        let kept: Vec<Filesystem> = volumes.clone();
        volumes.into_iter().for_each(|volume| volume.close().unwrap());
        let after = budget.load();
        drop(kept);
        for (device, task) in devices {
            device.end();
            task.join();
        }
        let rates = written.lock().map(|bytes| bytes * 2 / seconds);
        let (most, slowest_ns) = *seen.lock();
        Outcome { rates, most, shares, slowest_ns, after }
    });
    outcome.unwrap_or_else(|error| panic!("{policies}: {error}"))
}

fn spawn(device: &Arc<Paced>, body: impl FnOnce() + Send + 'static) -> Task {
    device.clock().spawn("writer", Box::new(body))
}

const FAST: u64 = 50 * MIB;
const SLOW: u64 = MIB;

/// Every call ends, all that is dirty is written at last, and shares are those of one whole.
fn check(policies: &str, outcome: &Outcome) {
    assert_eq!(outcome.after, Load::default(), "{policies}");
    let shares = outcome.shares.iter().sum::<u64>();
    assert!((900..=1000).contains(&shares), "{policies}: {:?}", outcome.shares);
    // No call takes longer than the slow device takes for all that may be dirty.
    assert!(outcome.slowest_ns < 64 * SECOND, "{policies}: {} ns", outcome.slowest_ns);
}

#[test]
fn a_limit_for_each_device_or_writer_leaves_the_fast_device_fast() {
    for throttle in [
        "linux-2.6,throttle=per-device",
        "linux-2.6,throttle=proportional",
        "modern,throttle=proportional",
        "modern",
    ] {
        let outcome = beside(throttle, [FAST, SLOW], 60);
        check(throttle, &outcome);
        assert!(outcome.rates[0] > FAST / 2, "{throttle}: {outcome:?}");
        assert!(outcome.rates[1] > SLOW / 2, "{throttle}: {outcome:?}");
        let percent = if throttle.contains("per-device") { 10 } else { 20 };
        let limit = MEMORY / 100 * percent;
        assert!(outcome.most <= limit + 2 * MIB, "{throttle}: {outcome:?}");
    }
}

#[test]
fn a_writer_alone_is_as_fast_as_its_device() {
    for throttle in ["global", "per-device", "proportional", "steady"] {
        let policies: &'static str = format!("linux-2.6,throttle={throttle}").leak();
        let outcome = beside(policies, [20 * MIB, 20 * MIB], 30);
        check(throttle, &outcome);
        for rate in outcome.rates {
            assert!((14 * MIB..=23 * MIB).contains(&rate), "{throttle}: {outcome:?}");
        }
    }
}

#[test]
fn one_limit_for_all_makes_the_fast_device_as_slow_as_the_slow_one() {
    let outcome = beside("linux-2.6,throttle=global", [FAST, SLOW], 60);
    check("global", &outcome);
    assert!(outcome.rates[0] < 6 * SLOW, "{outcome:?}");
}
