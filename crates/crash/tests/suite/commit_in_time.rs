//! With `commit=5s+data` nothing that is older than five seconds, and what the writing takes, is
//! lost with the power, and nothing was synced. On the virtual clock, beside a process that writes
//! all the time; with a journal in each mode, and without one.
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock};
use extant_crash::base::TODAY;
use extant_crash::device::Disk;
use extant_engine::mkfs::{FormatOptions, Identity, JournalWish, Profile, default_wishes, format};
use extant_engine::{Access, Change, DataKeeping, Filesystem, Options, Rename};
use extant_sim::CrashLog;
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::random::Random;
use extant_testkit::content;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SECOND_NS: u64 = 1_000_000_000;
const PERIOD_NS: u64 = 5 * SECOND_NS;
/// What a round may take on a disk whose requests end after a tenth of a millisecond.
const WRITING_NS: u64 = SECOND_NS / 5;
const BYTES: u64 = 64 << 20;

/// Paths, with what the files hold and their permissions.
type Files = BTreeMap<String, (Vec<u8>, u16)>;

/// A number of events after which the power may go, and what is to be there then.
struct Moment {
    events: usize,
    files: Files,
    gone: Vec<String>,
}

fn options(policies: &str) -> Options {
    let policies = policies.parse().expect("policies");
    let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
    Options { access, policies, cache_bytes: 128 << 20, data }
}

fn made(profile: Profile, policies: &str) -> MemoryDevice {
    let device = Arc::new(MemoryDevice::new(RealClock::pinned(TODAY), BYTES));
    let mut wishes = default_wishes(profile, BYTES, Some(4096), Identity::NONE);
    wishes.uuid = *b"a volume to test";
    let journal = match profile {
        Profile::Ext2 => JournalWish::None,
        _ => JournalWish::Blocks(1024),
    };
    let wishes = FormatOptions { journal, ..FormatOptions::new(wishes) };
    format(Arc::clone(&device) as Arc<dyn BlockDevice>, &wishes, &options(policies).policies)
        .expect("makes a volume");
    device.snapshot()
}

fn park(clock: &dyn Clock, until: u64) {
    while clock.now() < until {
        clock.park(Some(until));
    }
}

/// Changes something of each kind, and says what has to be there: files of several sizes, one that
/// is overwritten in part and one that is cut, a directory, a rename over another file, a removal,
/// permissions.
fn change(volume: &Filesystem, random: &mut Random, number: u64, files: &mut Files) -> Vec<String> {
    let mut put = |path: String, bytes: u64, files: &mut Files| {
        let content = content::record(number as u32, 0, random.below(1 << 20) * 512, bytes);
        volume.write(&path, &content).expect("writes");
        files.insert(path, (content, 0o644));
    };
    volume.create_dir(format!("/{number}"), 0o755).expect("makes");
    put(format!("/{number}/small"), 512, files);
    put(format!("/{number}/large"), 300 << 10, files);
    put(format!("/{number}/removed"), 5120, files);
    put(format!("/{number}/name"), 1024, files);
    put(format!("/{number}/other"), 8192, files);
    let mut gone = Vec::new();
    if let Some(before) = number.checked_sub(1) {
        let path = |name: &str| format!("/{before}/{name}");
        let file = volume.open_file(path("large")).expect("opens");
        let large = files.get_mut(&path("large")).expect("is known");
        file.write_all_at(70_000, &[number as u8; 9000]).expect("writes");
        large.0[70_000..79_000].fill(number as u8);
        file.set_len(250_001).expect("cuts");
        large.0.truncate(250_001);
        let how = Rename::Replace;
        volume.rename(path("other"), path("name"), how).expect("renames");
        let other = files.remove(&path("other")).expect("is known");
        files.insert(path("name"), other);
        volume.remove_file(path("removed")).expect("removes");
        files.remove(&path("removed"));
        gone = vec![path("other"), path("removed")];
        let change = Change { permissions: Some(0o600), ..Change::default() };
        volume.change(path("small"), &change).expect("changes");
        files.get_mut(&path("small")).expect("is known").1 = 0o600;
    }
    gone
}

/// Changes a volume at times that a seed draws, and leaves it alone for the period. Nothing is
/// synced.
fn live(
    medium: &MemoryDevice,
    policies: &str,
    seed: u64,
) -> (Arc<CrashLog<Arc<Disk>>>, Vec<Moment>) {
    let settings = Settings { seed_wall: TODAY, processors: 4, ..Settings::default() };
    let clock = VirtualClock::new(settings);
    let log = Arc::new(CrashLog::new(Arc::new(Disk::new(&clock, medium.snapshot(), seed))));
    let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
    let (inner, inner_log, options) = (Arc::clone(&clock), Arc::clone(&log), options(policies));
    let moments = clock.run("mount", move || {
        let volume = Filesystem::open(device, &options).expect("opens");
        let ended = Arc::new(AtomicBool::new(false));
        let (busy, until, time) = (volume.clone(), Arc::clone(&ended), Arc::clone(&inner));
        let writer = inner.spawn(
            "writer",
            Box::new(move || {
                let file = busy.create_file("/busy", 0o644).expect("makes");
                let mut at = 0;
                while !until.load(Ordering::Acquire) {
                    file.write_all_at(at % (2 << 20), &[at as u8; 5000]).expect("writes");
                    at += 5000;
                    park(&*time, time.now() + SECOND_NS / 50);
                }
            }),
        );
        let mut random = Random::for_part(seed, "changes");
        let (mut moments, mut files) = (Vec::new(), Files::new());
        for number in 0..6 {
            let pause = random.below(2 * PERIOD_NS);
            park(&*inner, inner.now() + pause);
            let gone = change(&volume, &mut random, number, &mut files);
            park(&*inner, inner.now() + PERIOD_NS + WRITING_NS);
            moments.push(Moment { events: inner_log.moments(), files: files.clone(), gone });
        }
        ended.store(true, Ordering::Release);
        writer.join();
        volume.close().expect("closes");
        moments
    });
    (log, moments.unwrap_or_else(|error| panic!("{policies}: {error}")))
}

/// What is not as it has to be on a medium after a power cut.
fn lost(medium: MemoryDevice, policies: &str, moment: &Moment) -> Vec<String> {
    let device = Arc::new(medium) as Arc<dyn BlockDevice>;
    let options = options(&format!("{policies},throttle=inline"));
    let volume = match Filesystem::open(device, &options) {
        Ok(volume) => volume,
        Err(error) => return vec![format!("does not open: {error}")],
    };
    let mut lost = Vec::new();
    for (path, (content, permissions)) in &moment.files {
        match volume.read(path) {
            Err(error) => lost.push(error.to_string()),
            Ok(found) if found != *content => {
                let at = found.iter().zip(content).position(|(one, other)| one != other);
                let lengths = (found.len(), content.len());
                lost.push(format!("{path}: differs at {at:?}, {lengths:?} bytes"));
            }
            Ok(_) => {}
        }
        let mode = volume.metadata(path).map_or(0, |metadata| metadata.mode & 0o7777);
        if mode != *permissions {
            lost.push(format!("{path}: mode {mode:o}"));
        }
    }
    let there = moment.gone.iter().filter(|path| volume.metadata(path).is_ok());
    lost.extend(there.map(|path| format!("{path}: is there again")));
    lost
}

const VOLUMES: [(Profile, &str); 7] = [
    (Profile::Ext4, "modern"),
    (Profile::Ext4, "modern,journal=data"),
    (Profile::Ext4, "modern,journal=ordered-jbd"),
    (Profile::Ext4, "modern,journal=none"),
    (Profile::Ext3, "modern"),
    (Profile::Ext2, "modern"),
    (Profile::Ext3, "linux-2.6,journal=ordered-jbd,barrier=flush"),
];

#[test]
fn nothing_older_than_the_period_is_lost_with_the_power() {
    for (number, (profile, policies)) in VOLUMES.into_iter().enumerate() {
        let policies = format!("{policies},commit=5s+data");
        let medium = made(profile, &policies);
        let (log, moments) = live(&medium, &policies, number as u64);
        for moment in &moments {
            let cut = log.cut(moment.events);
            let seed = moment.events as u64;
            for (what, medium) in [
                ("what is durable", cut.durable(&medium)),
                ("some of the rest", cut.subset(&medium, 512, seed)),
            ] {
                let lost = lost(medium.expect("a medium"), &policies, moment);
                let name = profile.name();
                assert!(lost.is_empty(), "{name} {policies}, {what}: {}", lost.join("\n"));
            }
        }
    }
}

/// The same without `+data`: data is older than that in memory, and the test above sees it.
#[test]
fn without_data_more_is_lost() {
    for (profile, policies) in [VOLUMES[0], VOLUMES[5]] {
        let policies = format!("{policies},commit=5s");
        let medium = made(profile, &policies);
        let (log, moments) = live(&medium, &policies, 1);
        let lost = moments.iter().map(|moment| {
            let medium = log.cut(moment.events).durable(&medium).expect("a medium");
            lost(medium, &policies, moment).len()
        });
        assert!(lost.sum::<usize>() > 0, "{} {policies}", profile.name());
    }
}

/// A volume on which nothing happens is left alone.
#[test]
fn nothing_is_written_where_nothing_changes() {
    for (profile, policies) in [VOLUMES[0], VOLUMES[5]] {
        let policies = format!("{policies},commit=5s+data");
        let medium = made(profile, &policies);
        let clock = VirtualClock::new(Settings { seed_wall: TODAY, ..Settings::default() });
        let log = Arc::new(CrashLog::new(Arc::new(Disk::new(&clock, medium, 1))));
        let (device, inner) = (Arc::clone(&log) as Arc<dyn BlockDevice>, Arc::clone(&clock));
        let options = options(&policies);
        let moments = clock.run("mount", move || {
            let volume = Filesystem::open(device, &options).expect("opens");
            volume.write("/file", b"content").expect("writes");
            park(&*inner, 3 * PERIOD_NS);
            let before = log.moments();
            park(&*inner, 100 * PERIOD_NS);
            let after = log.moments();
            volume.close().expect("closes");
            (before, after)
        });
        let (before, after) = moments.unwrap_or_else(|error| panic!("{policies}: {error}"));
        assert_eq!(before, after, "{} {policies}", profile.name());
    }
}
