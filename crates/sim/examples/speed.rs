//! How fast virtual time runs: simulated I/Os, waits and switches a second of real time.
//!
//! `cargo run --release -p extant-sim --example speed`
// tidy: print because a measurement is for a reader
use extant_block::{BlockDevice, Clock, Operation, RealClock, Segment};
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::device::{DeviceSettings, PowerCuts, SimDevice, TraceKeeping};
use extant_sim::drive::{Command, Done, Drive, DriveInfo, Parts, Unflushed};
use extant_sim::queue::QueueSettings;
use std::collections::VecDeque;
use std::sync::Arc;

const BLOCK_BYTES: usize = 4096;
const SERVICE_NS: u64 = 100_000;

/// Answers one command after the other, each after the same time: what remains is the cost of the
/// machinery.
struct Steady {
    info: DriveInfo,
    inside: VecDeque<Done>,
    head: u64,
}

impl Steady {
    fn boxed() -> Box<dyn Drive> {
        let info = DriveInfo {
            name: "steady".to_owned(),
            bytes: 1 << 40,
            sector_bytes: 512,
            queue_depth: 4,
            media_bytes_per_second: 40_000_000,
            least_seek_ns: 0,
        };
        Box::new(Steady { info, inside: VecDeque::new(), head: 0 })
    }
}

impl Drive for Steady {
    fn info(&self) -> &DriveInfo {
        &self.info
    }
    fn submit(&mut self, command: Command, now: u64) {
        let start = self.inside.back().map_or(now, |done| done.at);
        let parts = Parts { queued: start - now, media: SERVICE_NS, ..Parts::default() };
        self.head = command.offset + command.bytes;
        self.inside.push_back(Done { id: command.id, at: start + SERVICE_NS, parts, hit: false });
    }
    fn next_event(&self) -> Option<u64> {
        self.inside.front().map(|done| done.at)
    }
    fn advance(&mut self, now: u64, done: &mut Vec<Done>) {
        while let Some(answer) = self.inside.pop_front_if(|answer| answer.at <= now) {
            done.push(answer);
        }
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

/// Reads blocks all over the device, and waits for each.
fn read(device: &SimDevice, seed: u64, count: u64, segment: impl Fn() -> Segment) {
    let mut place = seed;
    for _ in 0..count {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (place >> 36) * BLOCK_BYTES as u64;
        let completed = device.transfer(Operation::Read, offset, vec![segment()]);
        assert!(completed.result.is_ok(), "a read inside the device");
    }
}

/// Runs this as the only process there is at first, and says how often a second of real time it did
/// what it counts.
fn measure(what: &str, count: u64, body: impl FnOnce(Arc<VirtualClock>) + Send + 'static) {
    let real = RealClock::new();
    let clock = VirtualClock::new(Settings::default());
    let process = Arc::clone(&clock);
    let started = real.now();
    let outcome = clock.run("speed", move || body(process));
    let took = (real.now() - started).max(1);
    if let Err(error) = outcome {
        println!("{what}: {error}");
        return;
    }
    let rate = u128::from(count) * 1_000_000_000 / u128::from(took);
    let counters = clock.counters();
    let (events, switches) = (counters.events, counters.switches);
    let each = took / count;
    println!(
        "{what:36} {rate:>10} a second {each:>6} ns each {events:>9} events {switches:>9} switches"
    );
}

fn device(clock: &Arc<VirtualClock>) -> Arc<SimDevice> {
    let settings = DeviceSettings {
        name: "steady".to_owned(),
        queue: QueueSettings::default(),
        trace: TraceKeeping::None,
        power_cuts: PowerCuts::Excluded,
    };
    SimDevice::new(Arc::clone(clock), Steady::boxed(), settings)
}

fn on_processes(
    clock: &Arc<VirtualClock>,
    processes: u64,
    body: impl Fn(u64) + Send + Sync + 'static,
) {
    let body = Arc::new(body);
    let spawn = |number: u64| {
        let body = Arc::clone(&body);
        clock.spawn(&format!("process {number}"), Box::new(move || body(number)))
    };
    let tasks: Vec<_> = (0..processes).map(spawn).collect();
    tasks.into_iter().for_each(|task| task.join());
}

fn main() {
    const COUNT: u64 = 2_000_000;
    measure("waits of one process", COUNT, |clock| {
        (0..COUNT).for_each(|turn| {
            clock.park(Some(turn * 1000));
        });
    });
    measure("CPU charges of one process", COUNT, |clock| {
        (0..COUNT).for_each(|_| clock.charge(200_000));
    });
    measure("phantom reads, one process", COUNT, |clock| {
        read(&device(&clock), 1, COUNT, || Segment::Phantom(BLOCK_BYTES));
    });
    measure("phantom reads and CPU, one process", COUNT, |clock| {
        let device = device(&clock);
        (0..COUNT).for_each(|turn| {
            clock.charge(20_000);
            read(&device, turn, 1, || Segment::Phantom(BLOCK_BYTES));
        });
    });
    measure("4 KiB reads, one process", COUNT, |clock| {
        read(&device(&clock), 1, COUNT, || Segment::Owned(vec![0; BLOCK_BYTES]));
    });
    measure("phantom reads, 8 processes", COUNT, |clock| {
        let device = device(&clock);
        on_processes(&clock, 8, move |seed| {
            read(&device, seed, COUNT / 8, || Segment::Phantom(BLOCK_BYTES));
        });
    });
    measure("waits in turn, 2 processes", COUNT / 4, |clock| {
        let waits = Arc::clone(&clock);
        on_processes(&clock, 2, move |_| {
            (0..COUNT / 8).for_each(|turn| {
                waits.park(Some(turn * 1000));
            });
        });
    });
}
