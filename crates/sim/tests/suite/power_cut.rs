//! Power cuts of simulated drives: what may be lost is lost, and nothing else, on every model.
use extant_block::{BlockDevice, Clock, Operation, Request, Segment, Urgency};
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::device::{
    DeviceSettings, PowerCuts, PowerLoss, SimDevice, Survivors, TraceKeeping,
};
use extant_sim::drive::file::by_name;
use extant_sim::drive::presets::PRESETS;
use extant_sim::drive::{Command, Drive};
use extant_sim::queue::QueueSettings;
use extant_sim::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const BLOCK: u64 = 4096;
/// Blocks that are written, spread over the drive.
const BLOCKS: u64 = 200;

fn device(name: &str, clock: &Arc<VirtualClock>, power_cuts: PowerCuts) -> Arc<SimDevice> {
    let drive = by_name(name).expect("a preset").build(7);
    let settings = DeviceSettings {
        name: name.to_owned(),
        queue: QueueSettings::default(),
        trace: TraceKeeping::None,
        power_cuts,
    };
    SimDevice::new(Arc::clone(clock), drive, settings)
}

fn run<T: Send + 'static>(body: impl FnOnce(Arc<VirtualClock>) -> T + Send + 'static) -> T {
    let clock = VirtualClock::new(Settings::default());
    let inner = Arc::clone(&clock);
    clock.run("first", move || body(inner)).expect("the run ends well")
}

fn sleep(clock: &VirtualClock, nanoseconds: u64) {
    let end = clock.now() + nanoseconds;
    while clock.now() < end {
        clock.park(Some(end));
    }
}

fn place(block: u64, bytes: u64) -> u64 {
    // Neighbours in pairs, so that requests merge.
    let step = bytes / BLOCKS / BLOCK;
    (block / 2 * 2 * step + block % 2) * BLOCK
}

/// Each sector of a block says which write it is of.
fn content(write: u64) -> Vec<u8> {
    write.to_le_bytes().repeat(BLOCK as usize / 8)
}

/// What a life before a cut left.
struct Life {
    /// The last write of each block, of those that a flush covers that was answered.
    durable: Vec<u64>,
    /// The last write of each block.
    last: Vec<u64>,
    loss: PowerLoss,
    /// What each sector of each block holds after the cut.
    found: Vec<Vec<u64>>,
    /// Of all commands.
    trace_hash: u64,
}

/// Writes blocks at random, flushes now and then, and cuts the power when so many commands have
/// ended: in the middle of what is under way.
fn life(name: &'static str, seed: u64, survivors: Survivors) -> Life {
    run(move |clock| {
        let device = device(name, &clock, PowerCuts::Possible);
        let bytes = device.info().bytes;
        let mut random = Random::new(seed);
        let (mut durable, mut last) = (vec![0; BLOCKS as usize], vec![0; BLOCKS as usize]);
        let answered = Arc::new(AtomicU64::new(0));
        let submit = |write: u64, block: u64| {
            let answered = Arc::clone(&answered);
            device.submit(Request {
                operation: Operation::Write,
                offset: place(block, bytes),
                segments: vec![Segment::Owned(content(write))],
                urgency: Urgency::Background,
                completion: Box::new(move |_| {
                    answered.fetch_add(1, Ordering::Relaxed);
                }),
            });
        };
        let mut write = 0;
        for _ in 0..random.within(1..6) {
            for _ in 0..random.within(1..120) {
                write += 1;
                let block = random.below(BLOCKS);
                submit(write, block);
                last[block as usize] = write;
            }
            sleep(&clock, random.below(300 * MS));
            if random.below(2) == 0 {
                // A flush covers what was answered before: here, all.
                while answered.load(Ordering::Relaxed) < write {
                    sleep(&clock, 10 * MS);
                }
                device.flush().expect("there is power");
                durable.clone_from(&last);
            }
        }
        for _ in 0..40 {
            write += 1;
            let block = random.below(BLOCKS);
            submit(write, block);
            last[block as usize] = write;
        }
        if random.below(2) == 0 {
            device.wait_for_commands(random.within(1..20));
        } else {
            sleep(&clock, random.below(30 * MS));
        }
        let loss = device.power_cut(survivors).expect("old contents are kept");
        let refused = device.write(0, &[1; 512]).expect_err("there is no power");
        assert!(refused.to_string().contains("the power was cut"), "{refused}");
        assert_eq!(answered.load(Ordering::Relaxed), write, "every request ends");
        device.power_on();
        let found = (0..BLOCKS).map(|block| {
            let mut read = vec![0; BLOCK as usize];
            device.read(place(block, bytes), &mut read).expect("there is power again");
            let sectors = read.chunks(512).map(|sector| {
                let (words, _) = sector.as_chunks::<8>();
                assert!(words.iter().all(|word| *word == words[0]), "a sector is never torn");
                u64::from_le_bytes(words[0])
            });
            sectors.collect()
        });
        let found = found.collect();
        // The drive goes on with empty caches, and its flush means what it meant.
        device.write(0, &[9; 4096]).expect("it works again");
        device.flush().expect("it works again");
        device.power_cut(Survivors::AsModelled).expect("once more");
        device.power_on();
        let mut read = [0; 4096];
        device.read(0, &mut read).expect("it works again");
        assert_eq!(read, [9; 4096], "what was flushed survives the second cut");
        Life { durable, last, loss, found, trace_hash: device.trace_hash() }
    })
}

#[test]
fn what_a_flush_covers_survives_and_what_is_there_was_written() {
    for preset in PRESETS {
        let mut lost = 0;
        for seed in 0..12 {
            let survivors = match seed % 3 {
                0 => Survivors::AnySector { seed },
                _ => Survivors::AsModelled,
            };
            let life = life(preset.name, seed, survivors);
            for block in 0..BLOCKS as usize {
                for found in &life.found[block] {
                    assert!(
                        (life.durable[block]..=life.last[block]).contains(found),
                        "{} seed {seed}: block {block} holds write {found}, flushed is {}, the \
                         last is {}",
                        preset.name,
                        life.durable[block],
                        life.last[block]
                    );
                }
                lost += u64::from(life.found[block].iter().any(|held| *held < life.last[block]));
            }
        }
        // A volume has a write as soon as it came over the link, which takes it 16 microseconds.
        let may_lose_nothing = preset.name == "network-volume";
        assert!(lost > 0 || may_lose_nothing, "{}: the cuts show nothing", preset.name);
    }
}

#[test]
fn the_same_life_leaves_the_same_medium() {
    for name in ["ide-2001-7200", "ssd-sata"] {
        let lives = [(); 2].map(|()| life(name, 5, Survivors::AnySector { seed: 3 }));
        assert!(lives[0].found == lives[1].found && lives[0].loss == lives[1].loss, "{name}");
        let other = life(name, 5, Survivors::AnySector { seed: 4 });
        assert_eq!(lives[0].trace_hash, lives[1].trace_hash, "{name}");
        assert!(lives[0].last == other.last && lives[0].found != other.found, "{name}");
    }
}

#[test]
fn without_kept_contents_there_is_no_cut() {
    run(|clock| {
        let device = device("ide-2001-7200", &clock, PowerCuts::Excluded);
        let refused = device.power_cut(Survivors::AsModelled).expect_err("nothing was kept");
        assert!(refused.to_string().contains("is not kept so that its power can be cut"));
        device.write(0, &[1; 512]).expect("it goes on");
    });
}

/// Many writes without a flush: what the drive has brought to the medium is asked for meanwhile,
/// and changes nothing.
#[test]
fn keeping_what_writes_replace_changes_no_time() {
    for name in ["ide-2001-7200", "ssd-sata", "network-volume"] {
        let hashes = [PowerCuts::Excluded, PowerCuts::Possible].map(|power_cuts| {
            run(move |clock| {
                let device = device(name, &clock, power_cuts);
                let mut random = Random::new(1);
                for _ in 0..6000 {
                    device.write(random.below(1 << 20) * BLOCK, &[1; 512]).expect("there is power");
                }
                device.trace_hash()
            })
        });
        assert_eq!(hashes[0], hashes[1], "{name}");
    }
}

#[test]
fn a_disk_keeps_the_sectors_that_have_passed_the_head() {
    let mut drive = by_name("ide-2001-7200").expect("a preset").build(0);
    drive.submit(command(1, Operation::Write, 0, 64 * 512), 0);
    drive.advance(2 * MS, &mut Vec::new());
    let mut lengths = Vec::new();
    for now in (2 * MS..40 * MS).step_by(MS as usize / 20) {
        let left = drive.unflushed(now);
        let bytes: u64 = left.iter().map(|left| left.bytes).sum();
        assert!(left.iter().all(|left| left.id == 1 && left.offset + left.bytes == 64 * 512));
        lengths.push(bytes / 512);
    }
    assert!(lengths.is_sorted_by(|earlier, later| earlier >= later), "{lengths:?}");
    assert_eq!((lengths.first(), lengths.last()), (Some(&64), Some(&0)));
    assert!(lengths.iter().any(|left| (1..64).contains(left)), "{lengths:?}");
}

#[test]
fn a_solid_state_drive_drains_in_order_and_a_flush_makes_durable() {
    let mut drive = by_name("ssd-sata").expect("a preset").build(0);
    let mut now = 0;
    for id in 0..64 {
        drive.submit(command(id, Operation::Write, id << 20, 1 << 20), now);
        now = answer(&mut *drive, id);
    }
    let left = drive.unflushed(now);
    assert!(left.last().is_some_and(|left| left.id == 63), "the last one is still in the cache");
    let first = left.first().expect("the last one at least");
    assert!((first.id..64).eq(left.iter().map(|left| left.id)), "what came first drained first");
    drive.submit(command(64, Operation::Flush, 0, 0), now);
    now = answer(&mut *drive, 64);
    assert_eq!(drive.unflushed(now), []);
    assert_eq!(drive.power_cut(now), []);
    assert_eq!(drive.next_event(), None);
}

#[test]
fn a_volume_keeps_what_it_answered_and_an_object_is_whole_or_not_there() {
    for preset in PRESETS {
        let spec = by_name(preset.name).expect("a preset");
        let mut drive = spec.build(3);
        let kind = format!("{:?}", spec.kind);
        if !kind.starts_with("Network") && !kind.starts_with("Object") {
            continue;
        }
        let bytes = drive.info().bytes.min(64 << 20);
        drive.submit(command(1, Operation::Write, 0, bytes), 0);
        let end = {
            let mut copy = spec.build(3);
            copy.submit(command(1, Operation::Write, 0, bytes), 0);
            answer(&mut *copy, 1)
        };
        let mut left: Vec<u64> = Vec::new();
        for step in 0..100 {
            let missing = drive.unflushed(end * step / 100);
            left.push(missing.iter().map(|left| left.bytes).sum());
            assert!(missing.iter().all(|left| left.offset.is_multiple_of(512)));
        }
        assert_eq!(left[0], bytes, "{}", preset.name);
        assert!(left.is_sorted_by(|earlier, later| earlier >= later), "{} {left:?}", preset.name);
        assert_eq!(drive.unflushed(end), [], "{}: what is answered is durable", preset.name);
    }
}

fn command(id: u64, operation: Operation, offset: u64, bytes: u64) -> Command {
    Command { id, operation, offset, bytes, force_unit_access: false }
}

/// When that command is answered.
fn answer(drive: &mut dyn Drive, id: u64) -> u64 {
    let mut done = Vec::new();
    for _ in 0..1000 {
        let Some(at) = drive.next_event() else { break };
        drive.advance(at, &mut done);
        if let Some(done) = done.iter().find(|done| done.id == id) {
            assert!(done.at < 1000 * SECOND);
            return done.at;
        }
    }
    panic!("command {id} was not answered");
}
