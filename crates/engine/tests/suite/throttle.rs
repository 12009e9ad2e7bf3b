//! Throttles in real time: several volumes in one memory, tiny or shared, on devices that fail,
//! hang or go away. Every call ends, nothing is lost, and what was counted as dirty is taken back.
use crate::volume;
use extant_block::capability::Capabilities;

use extant_block::device::DeviceInfo;
use extant_block::{BlockDevice, Clock, MemoryDevice, Operation, RealClock, Request, ShortLock};
use extant_block::{Task, Unparked, Waker, WallTime};
use extant_engine::mkfs::Profile;
use extant_engine::throttle::{DirtyBudget, Load};
use extant_engine::{Filesystem, Options};
use extant_sim::{Fault, Faulty};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use volume::{KIB, MIB, Random, Specification, judge, patience};

const THROTTLES: [&str; 4] = ["global", "per-device", "proportional", "steady"];
const PRESETS: [(&str, Profile); 2] = [("linux-2.6", Profile::Ext3), ("modern", Profile::Ext4)];

fn specification(profile: Profile) -> Specification {
    Specification { inodes: 1024, ..Specification::new(profile, 1024, 24 * MIB) }
}

/// Waits for what another thread does in its own time; whoever calls it has a deadline.
fn wait_until(clock: &dyn Clock, is_so: impl Fn() -> bool) {
    while !is_so() {
        clock.park(Some(clock.now() + 1_000_000));
    }
}

fn options(specification: &Specification, preset: &str, throttle: &str) -> Options {
    Options {
        policies: format!("{preset},throttle={throttle}").parse().expect("policies"),
        cache_bytes: 2 << 20,
        ..specification.options()
    }
}

/// Files of many sizes, written, read back and taken away.
fn work(volume: &Filesystem, seed: u64, operations: u64) -> Result<(), extant_engine::Error> {
    let mut random = Random::new(seed);
    let directory = format!("/of {seed}");
    volume.create_dir(&directory, 0o755)?;
    for number in 0..operations {
        let path = format!("{directory}/{}", random.below(20));
        let content = vec![number as u8; random.below(200 * KIB) as usize];
        volume.write(&path, &content)?;
        if random.one_in(3) {
            assert!(volume.read(&path)? == content, "{path}");
        }
        if random.one_in(5) {
            volume.open_file(&path)?.set_len(random.below(100 * KIB))?;
        }
        if random.one_in(6) {
            volume.remove_file(&path)?;
        }
    }
    Ok(())
}

#[test]
fn volumes_that_share_a_small_memory_are_written_whole() {
    for (preset, profile) in PRESETS {
        for throttle in THROTTLES {
            // The last is smaller than one block of either limit.
            for memory in [2 * MIB, 300 * KIB, 8 * KIB] {
                let name = format!("{preset}, {throttle}, {memory} bytes");
                let run = move || {
                    let clock = RealClock::new();
                    let inner: Arc<dyn Clock> = clock.clone();
                    let budget = DirtyBudget::new(&inner, memory);
                    let specification = specification(profile);
                    let devices: Vec<_> =
                        (0..2).map(|_| specification.make(clock.clone())).collect();
                    let volumes: Vec<_> = devices
                        .iter()
                        .zip(0..)
                        .map(|(device, number)| {
                            let device = Arc::clone(device) as Arc<dyn BlockDevice>;
                            let options = options(&specification, preset, throttle);
                            Filesystem::open_within(device, &options, &budget, number)
                                .expect("opens")
                        })
                        .collect();
                    let workers: Vec<_> = (0..4u64)
                        .map(|seed| {
                            let volume = volumes[seed as usize % 2].clone();
                            clock.spawn(
                                "worker",
                                Box::new(move || work(&volume, seed, 25).expect("works")),
                            )
                        })
                        .collect();
                    workers.into_iter().for_each(|worker| worker.join());
                    let kept = volumes.clone();
                    volumes.into_iter().for_each(|volume| volume.close().expect("closes"));
                    assert_eq!(budget.load(), Load::default());
                    let shares = budget.shares();
                    let sum: u64 = shares.iter().map(|(_, share)| share.of(1000)).sum();
                    assert!((900..=1000).contains(&sum), "{shares:?}");
                    drop(kept);
                    if extant_testkit::oracle::require("e2fsck") {
                        devices.iter().for_each(|device| judge(device).expect("sound"));
                    }
                };
                patience::within(300, &name, run).unwrap_or_else(|said| panic!("{name}: {said}"));
            }
        }
    }
}

#[test]
fn a_device_that_fails_holds_nobody_back() {
    for (preset, profile) in PRESETS {
        for throttle in THROTTLES {
            let name = format!("{preset}, {throttle}");
            let run = move || {
                let clock = RealClock::new();
                let inner: Arc<dyn Clock> = clock.clone();
                let budget = DirtyBudget::new(&inner, MIB);
                let specification = specification(profile);
                let bad = Arc::new(Faulty::new(specification.make(clock.clone())));
                let good = specification.make(clock.clone());
                let options = options(&specification, preset, throttle);
                let open = |device: Arc<dyn BlockDevice>, number| {
                    Filesystem::open_within(device, &options, &budget, number).expect("opens")
                };
                let failing = open(Arc::clone(&bad) as Arc<dyn BlockDevice>, 0);
                let sound = open(Arc::clone(&good) as Arc<dyn BlockDevice>, 1);
                bad.add(Fault::WritesAfter(20));
                let beside = failing.clone();
                let worker = clock.spawn(
                    "failing",
                    Box::new(move || assert!(work(&beside, 1, 400).is_err(), "no error")),
                );
                work(&sound, 2, 40).expect("works");
                worker.join();
                assert!(failing.sync().is_err());
                assert_eq!(budget.device_load(0), Load::default(), "of what is lost");
                work(&sound, 3, 20).expect("works");
                sound.close().expect("closes");
                drop(failing);
                assert_eq!(budget.load(), Load::default());
            };
            patience::within(300, &name, run).unwrap_or_else(|said| panic!("{name}: {said}"));
        }
    }
}

/// Keeps writes to itself while it hangs.
struct Hanging {
    memory: Arc<MemoryDevice>,
    hangs: AtomicBool,
    kept: ShortLock<Vec<Request>>,
}

impl BlockDevice for Hanging {
    fn info(&self) -> DeviceInfo {
        self.memory.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.memory.clock()
    }
    fn submit(&self, request: Request) {
        if request.operation == Operation::Write && self.hangs.load(Ordering::Acquire) {
            self.kept.lock().push(request);
        } else {
            self.memory.submit(request);
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
}

#[test]
fn a_device_that_hangs_does_not_stop_the_others() {
    // One limit for all lets the others through after half a minute only: that is tried in virtual
    // time.
    for throttle in ["per-device", "proportional"] {
        let run = move || {
            let clock = RealClock::new();
            let inner: Arc<dyn Clock> = clock.clone();
            let budget = DirtyBudget::new(&inner, 4 * MIB);
            let specification = specification(Profile::Ext4);
            let hanging = Arc::new(Hanging {
                memory: specification.make(clock.clone()),
                hangs: AtomicBool::new(false),
                kept: ShortLock::default(),
            });
            let options = options(&specification, "modern", throttle);
            let good = specification.make(clock.clone());
            let device = Arc::clone(&hanging) as Arc<dyn BlockDevice>;
            let stuck = Filesystem::open_within(device, &options, &budget, 0).expect("opens");
            let sound = Filesystem::open_within(good, &options, &budget, 1).expect("opens");
            hanging.hangs.store(true, Ordering::Release);
            let writer = stuck.clone();
            let worker = clock.spawn(
                "stuck",
                Box::new(move || {
                    let _ = work(&writer, 1, 100);
                }),
            );
            // What is being written there stays so.
            wait_until(&*clock, || budget.device_load(0).writing_bytes > 0);
            work(&sound, 2, 60).expect("works beside it");
            assert!(budget.device_load(0).writing_bytes > 0, "it was not stuck");
            hanging.hangs.store(false, Ordering::Release);
            let kept = std::mem::take(&mut *hanging.kept.lock());
            kept.into_iter().for_each(|request| hanging.memory.submit(request));
            worker.join();
            for volume in [stuck, sound] {
                volume.close().expect("closes");
            }
            assert_eq!(budget.load(), Load::default());
        };
        patience::within(300, throttle, run).unwrap_or_else(|said| panic!("{throttle}: {said}"));
    }
}

/// The host's time, a hundred times as fast.
struct Hurried(Arc<RealClock>);

const HURRY: u64 = 100;

impl Clock for Hurried {
    fn now(&self) -> u64 {
        self.0.now() * HURRY
    }
    fn wall(&self) -> WallTime {
        self.0.wall()
    }
    fn waker(&self) -> Waker {
        self.0.waker()
    }
    fn park(&self, deadline: Option<u64>) -> Unparked {
        self.0.park(deadline.map(|deadline| deadline.div_ceil(HURRY)))
    }
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.0.spawn(name, body)
    }
    fn charge(&self, cpu_ns: u64) {
        self.0.charge(cpu_ns);
    }
}

#[test]
fn a_writer_on_a_device_that_hangs_goes_on_at_last() {
    const PIECE: usize = 16 << 10;
    for throttle in THROTTLES {
        let run = move || {
            let clock = Arc::new(Hurried(RealClock::new())) as Arc<dyn Clock>;
            let budget = DirtyBudget::new(&clock, 2 * MIB);
            let specification = specification(Profile::Ext4);
            let hanging = Arc::new(Hanging {
                memory: specification.make(Arc::clone(&clock)),
                hangs: AtomicBool::new(false),
                kept: ShortLock::default(),
            });
            // Room for all that is written: the throttle alone holds the writer back.
            let options =
                Options { cache_bytes: 16 << 20, ..options(&specification, "modern", throttle) };
            let device = Arc::clone(&hanging) as Arc<dyn BlockDevice>;
            let volume = Filesystem::open_within(device, &options, &budget, 0).expect("opens");
            let file = volume.create_file("/file", 0o644).expect("makes it");
            volume.sync().expect("syncs");
            hanging.hangs.store(true, Ordering::Release);
            let mut number = 0;
            let stopped = (0..200u8).any(|byte| {
                let before = clock.now();
                file.write_all_at(u64::from(byte) * PIECE as u64, &[byte; PIECE]).expect("goes on");
                number = byte + 1;
                clock.now() - before >= 30_000_000_000
            });
            assert!(stopped, "nothing held it back");
            hanging.hangs.store(false, Ordering::Release);
            let kept = std::mem::take(&mut *hanging.kept.lock());
            kept.into_iter().for_each(|request| hanging.memory.submit(request));
            let content = volume.read("/file").expect("reads");
            assert_eq!(content.len(), usize::from(number) * PIECE);
            assert!(content.chunks(PIECE).zip(0..).all(|(piece, byte)| piece == [byte; PIECE]));
            drop(file);
            volume.close().expect("closes");
            assert_eq!(budget.load(), Load::default());
        };
        patience::within(300, throttle, run).unwrap_or_else(|said| panic!("{throttle}: {said}"));
    }
}

#[test]
fn a_volume_that_goes_unclosed_takes_its_load_with_it() {
    for throttle in THROTTLES {
        let clock = RealClock::new();
        let inner: Arc<dyn Clock> = clock.clone();
        let budget = DirtyBudget::new(&inner, 16 * MIB);
        let specification = specification(Profile::Ext3);
        let device = specification.make(clock.clone());
        let options = options(&specification, "linux-2.6", throttle);
        let volume = Filesystem::open_within(device, &options, &budget, 7).expect("opens");
        volume.write("/file", &[1; 100_000]).expect("writes");
        // A device that never wrote has no part of the limit yet: there it is written at once.
        let is_kept = budget.device_load(7).total() >= 100_000;
        assert!(is_kept || throttle == "per-device", "{throttle}: {:?}", budget.load());
        drop(volume);
        // A flusher that is just looking holds it a little longer.
        let run = move || wait_until(&*clock, || budget.load() == Load::default());
        patience::within(300, throttle, run).unwrap_or_else(|said| panic!("{throttle}: {said}"));
    }
}
