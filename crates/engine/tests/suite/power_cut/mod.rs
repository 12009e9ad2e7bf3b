//! A power cut at any write: what is on the disk afterwards never shows a byte that was not the
//! file's own, nor a size beyond its data. Every byte that a test writes says whose it is, which
//! write it came from and where it belongs.
use crate::volume;

mod life;
mod ranges;
mod verdict;

use extant_block::{Access, BlockDevice, Clock, FileDevice, MemoryDevice, RealClock, ShortLock};
use extant_engine::mkfs::Profile;
use extant_engine::{Filesystem, Options, Rename};
use extant_sim::CrashLog;
use extant_testkit::scratch::Scratch;
use extant_testkit::{content, oracle};
use life::Life;
use std::sync::Arc;
use verdict::Verdict;
use volume::{MIB, Random, Specification};

/// Memory completes requests at once; a file has workers, which complete them later, in any order.
type Log = CrashLog<Arc<dyn BlockDevice>>;

/// One volume, one life on it, and the log of what the device was asked for.
struct Logged {
    base: MemoryDevice,
    log: Arc<Log>,
    life: Life,
}

/// How a cut treats what was not flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// All of it reached the medium.
    Prefix,
    /// Writes survive at random, whole or torn at sectors of this many bytes.
    Subset(u32),
}

fn specification(profile: Profile, block_size: u32, policies: &'static str) -> Specification {
    Specification {
        policies,
        cache_bytes: 96 << 10,
        inodes: 256,
        ..Specification::new(profile, block_size, 10 * MIB)
    }
}

/// A volume whose free blocks hold what a removed file left there.
fn soiled(specification: &Specification) -> MemoryDevice {
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    let file = volume.create_file("/secret", 0o600).expect("makes it");
    let mut at = 0;
    // Until the volume is full.
    while file.write_all_at(at, &content::record(content::SECRET, 0, at, 4096)).is_ok() {
        at += 4096;
    }
    drop(file);
    volume.sync().expect("syncs");
    volume.remove_file("/secret").expect("removes it");
    volume.close().expect("closes");
    device.snapshot()
}

fn log_of(base: &MemoryDevice) -> Arc<Log> {
    Arc::new(CrashLog::new(Arc::new(base.snapshot()) as Arc<dyn BlockDevice>))
}

fn lived(specification: &Specification, seed: u64) -> Logged {
    let base = soiled(specification);
    let log = log_of(&base);
    let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
    let volume = Filesystem::open(device, &specification.options()).expect("opens");
    let mut life = Life::new(seed);
    for _ in 0..160 {
        life.step(&volume, || log.moments());
    }
    if seed.is_multiple_of(2) {
        volume.close().expect("closes");
    }
    Logged { base, log, life }
}

/// Looks at the medium after a cut: as it is, and every eighth time as e2fsck leaves it.
fn examine(
    logged: &Logged,
    options: &Options,
    manner: Manner,
    moment: usize,
    seed: u64,
) -> Vec<String> {
    let cut = logged.log.cut(moment);
    let medium = match manner {
        Manner::Prefix => cut.prefix(&logged.base),
        Manner::Subset(sector_bytes) => cut.subset(&logged.base, sector_bytes, seed),
    };
    let medium = medium.expect("the base is as large");
    let verdict = Verdict::new(&logged.life, moment);
    let mut faults = verdict.read(&medium.snapshot(), options);
    if seed.is_multiple_of(8) && oracle::require("e2fsck") {
        let (mended, code) = mended(&medium);
        if code > 2 {
            faults.push(format!("e2fsck -fy ended with {code}"));
        }
        let verdict = Verdict::mended(&logged.life, moment, &medium, options);
        let after = verdict.read(&mended, options);
        faults.extend(after.into_iter().map(|fault| format!("mended: {fault}")));
        if manner == Manner::Prefix {
            faults.extend(verdict.kept(&mended, options));
        }
    }
    faults
}

/// What `e2fsck -fy` makes of it, and its exit code.
fn mended(medium: &MemoryDevice) -> (MemoryDevice, i32) {
    let folder = Scratch::new("cut");
    let image = folder.join("cut.img");
    medium.save(&image).expect("saves it");
    let status = std::process::Command::new("e2fsck")
        .args(["-fy"])
        .arg(&image)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .expect("runs");
    let bytes = std::fs::read(&image).expect("reads it");
    let clock: Arc<dyn Clock> = RealClock::new();
    (MemoryDevice::from_bytes(clock, &bytes), status.code().unwrap_or(-1))
}

/// Cuts a few lives at many moments; gives what is wrong with each cut that is.
fn cuts(profile: Profile, block_size: u32, policies: &'static str, count: u64) -> Vec<String> {
    let specification = specification(profile, block_size, policies);
    let lives = 10;
    let cut = |seed| cuts_of(&lived(&specification, seed), &specification, seed, count / lives);
    (0..lives).flat_map(cut).collect()
}

/// Cuts one life at that many moments.
fn cuts_of(logged: &Logged, specification: &Specification, seed: u64, count: u64) -> Vec<String> {
    let options = Options { access: extant_engine::Access::ReadOnly, ..specification.options() };
    let mut random = Random::new(seed ^ 0xc0ffee);
    let mut wrong = Vec::new();
    for number in 0..count {
        let moment = random.below(logged.log.moments() as u64 + 1) as usize;
        let manner = match number % 4 {
            0 | 1 => Manner::Prefix,
            2 => Manner::Subset(512),
            _ => Manner::Subset(4096),
        };
        let faults = examine(logged, &options, manner, moment, random.next());
        if let Some(fault) = faults.first() {
            let place = format!("{specification}: life {seed}, {manner:?}, moment {moment}");
            wrong.push(format!("{place}: {fault} ({} in all)", faults.len()));
        }
    }
    wrong
}

fn count() -> u64 {
    extant_testkit::variables::number("EXTANT_CUTS")
}

fn holds(profile: Profile, block_size: u32, policies: &'static str, count: u64) {
    let wrong = cuts(profile, block_size, policies, count);
    let some: Vec<&String> = wrong.iter().take(5).collect();
    assert!(wrong.is_empty(), "{} of {count} cuts are wrong: {some:#?}", wrong.len());
}

#[test]
fn a_cut_shows_no_foreign_byte_on_ext4() {
    holds(Profile::Ext4, 1024, "modern,journal=none,throttle=inline", count());
}

#[test]
fn a_cut_shows_no_foreign_byte_on_ext2() {
    holds(Profile::Ext2, 1024, "modern,journal=none,throttle=inline", count());
}

#[test]
fn a_cut_shows_no_foreign_byte_with_other_policies() {
    for (profile, block_size, policies) in [
        (Profile::Ext3, 4096, "modern,journal=none,throttle=inline"),
        (Profile::Ext2, 1024, "linux-2.4,throttle=inline,data-order=data-first"),
        (Profile::Ext4, 1024, "modern,journal=none,throttle=inline,mount=sync"),
    ] {
        holds(profile, block_size, policies, count() / 5);
    }
}

/// The test can fail: without the order it sees what the order prevents.
#[test]
fn without_the_order_cuts_show_foreign_bytes() {
    for profile in [Profile::Ext2, Profile::Ext4] {
        let wrong =
            cuts(profile, 1024, "modern,journal=none,throttle=inline,data-order=unordered", 200);
        assert!(wrong.len() > 10, "{profile:?}: only {} of 200: {wrong:#?}", wrong.len());
    }
}

/// Threads that change the volume at once, with a flusher beside them: no two runs are the same,
/// and every one holds.
#[test]
fn a_cut_among_threads_shows_no_foreign_byte() {
    for (profile, policies) in [
        (Profile::Ext4, "modern,journal=none"),
        (Profile::Ext2, "modern,journal=none,throttle=global"),
    ] {
        let specification = specification(profile, 1024, policies);
        let base = soiled(&specification);
        let folder = Scratch::new("threads");
        let path = folder.join("volume.img");
        base.save(&path).expect("saves it");
        let file = FileDevice::open(RealClock::new(), &path, Access::ReadWrite, 0).expect("opens");
        let log = Arc::new(CrashLog::new(Arc::new(file) as Arc<dyn BlockDevice>));
        let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(device, &specification.options()).expect("opens");
        let lives: Vec<_> =
            (0..4).map(|number| Arc::new(ShortLock::new(Life::beside(9, number)))).collect();
        let clock = RealClock::new();
        let tasks: Vec<_> = lives
            .iter()
            .map(|life| {
                let (life, volume, log) = (Arc::clone(life), volume.clone(), Arc::clone(&log));
                clock.spawn(
                    "life",
                    Box::new(move || {
                        let mut own = std::mem::replace(&mut *life.lock(), Life::new(0));
                        own.begin(&volume);
                        for _ in 0..120 {
                            own.step(&volume, || log.moments());
                        }
                        *life.lock() = own;
                    }),
                )
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join());
        volume.close().expect("closes");
        let life = lives.into_iter().fold(Life::new(0), |all, life| {
            all.and(std::mem::replace(&mut *life.lock(), Life::new(0)))
        });
        let logged = Logged { base, log, life };
        let wrong = cuts_of(&logged, &specification, 9, count() / 4);
        let some: Vec<&String> = wrong.iter().take(5).collect();
        assert!(wrong.is_empty(), "{} cuts are wrong: {some:#?}", wrong.len());
    }
}

/// What editors and package managers do, at every moment and with every choice of what was not
/// flushed.
#[test]
fn a_file_that_is_replaced_is_the_old_one_or_the_new_one() {
    let old = content::record(1, 1, 0, 20_000);
    let new = content::record(2, 2, 0, 20_000);
    for profile in [Profile::Ext2, Profile::Ext4] {
        let specification = specification(profile, 1024, "modern,journal=none,throttle=inline");
        let base = soiled(&specification);
        let log = log_of(&base);
        let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(device, &specification.options()).expect("opens");
        volume.write("/old", &old).expect("writes");
        volume.write("/other", b"other").expect("writes");
        volume.sync().expect("syncs");
        let synced = log.moments();
        volume.write("/new", &new).expect("writes");
        volume.rename("/new", "/old", Rename::Replace).expect("renames");
        volume.open_file("/other").expect("opens").sync().expect("syncs");
        let done = log.moments();
        let options =
            Options { access: extant_engine::Access::ReadOnly, ..specification.options() };
        for moment in synced..=done {
            let cut = log.cut(moment);
            let mediums =
                [cut.prefix(&base), cut.durable(&base), cut.subset(&base, 4096, moment as u64)];
            for medium in mediums.map(|medium| medium.expect("the base is as large")) {
                let medium = match oracle::require("e2fsck") {
                    true => mended(&medium).0,
                    false => medium,
                };
                let device = Arc::new(medium) as Arc<dyn BlockDevice>;
                let volume = Filesystem::open(device, &options).expect("opens");
                let found = volume
                    .read("/old")
                    .unwrap_or_else(|error| panic!("{profile:?}, {moment}: {error}"));
                assert!(
                    found == new || found == old && moment < done,
                    "{profile:?}, moment {moment} of {done}"
                );
            }
        }
    }
}

/// Opened to be emptied and written anew: once it is closed and anything is synced, the new content
/// is there.
#[test]
fn a_file_that_is_rewritten_is_there_after_any_sync() {
    for profile in [Profile::Ext2, Profile::Ext4] {
        let specification = specification(profile, 1024, "modern,journal=none,throttle=inline");
        let base = soiled(&specification);
        let log = log_of(&base);
        let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(device, &specification.options()).expect("opens");
        let (old, new) = (content::record(1, 1, 0, 20_000), content::record(1, 2, 0, 20_000));
        volume.write("/file", &old).expect("writes");
        volume.write("/other", b"other").expect("writes");
        volume.sync().expect("syncs");
        volume.write("/file", &new).expect("writes");
        volume.open_file("/other").expect("opens").sync().expect("syncs");
        let medium = log.cut(log.moments()).durable(&base).expect("the base is as large");
        let volume = specification.open(&Arc::new(medium)).expect("opens");
        assert!(volume.read("/file").expect("reads") == new, "{profile:?}");
    }
}

/// Every name that was synced is in one of these places after every cut that keeps the order, once
/// e2fsck has mended the volume.
fn names_are_kept(
    profile: Profile,
    features: &'static str,
    before: impl Fn(&Filesystem),
    change: impl Fn(&Filesystem),
    places: &[(String, String)],
) {
    if !oracle::require("e2fsck") {
        return;
    }
    let specification = Specification {
        features,
        ..specification(profile, 1024, "modern,journal=none,throttle=inline")
    };
    let base = soiled(&specification);
    let log = log_of(&base);
    let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
    let volume = Filesystem::open(device, &specification.options()).expect("opens");
    before(&volume);
    volume.sync().expect("syncs");
    let synced = log.moments();
    change(&volume);
    volume.close().expect("closes");
    let options = Options { access: extant_engine::Access::ReadOnly, ..specification.options() };
    for moment in synced..=log.moments() {
        let cut = log.cut(moment);
        let mediums =
            [cut.prefix(&base), cut.durable(&base), cut.subset(&base, 4096, moment as u64)];
        for medium in mediums {
            let (medium, _) = mended(&medium.expect("the base is as large"));
            let device = Arc::new(medium) as Arc<dyn BlockDevice>;
            let volume = Filesystem::open(device, &options).expect("opens");
            for (old, new) in places {
                let found = [old, new].iter().any(|path| volume.metadata(path).is_ok());
                assert!(found, "{profile:?}: moment {moment}: neither {old} nor {new}");
            }
        }
    }
}

#[test]
fn a_directory_that_becomes_hashed_keeps_its_names() {
    let names: Vec<String> =
        (0..30).map(|number| format!("/d/a name of some length {number}")).collect();
    let before = |volume: &Filesystem| {
        volume.create_dir("/d", 0o755).expect("makes it");
        names.iter().for_each(|name| volume.write(name, b"").expect("writes"));
    };
    let change = |volume: &Filesystem| {
        for number in 0..30 {
            volume.write(format!("/d/another name of some length {number}"), b"").expect("writes");
        }
    };
    let places: Vec<_> = names.iter().map(|name| (name.clone(), name.clone())).collect();
    names_are_kept(Profile::Ext4, "", before, change, &places);
    names_are_kept(Profile::Ext2, "dir_index", before, change, &places);
}

#[test]
fn a_file_that_moves_to_another_directory_keeps_one_of_its_names() {
    let places: Vec<_> =
        (0..8).map(|number| (format!("/from/{number}"), format!("/to/{number}"))).collect();
    for directories in [["/from", "/to"], ["/to", "/from"]] {
        let before = |volume: &Filesystem| {
            for directory in directories {
                volume.create_dir(directory, 0o755).expect("makes it");
            }
            places.iter().for_each(|(old, _)| volume.write(old, b"content").expect("writes"));
        };
        let change = |volume: &Filesystem| {
            for (old, new) in &places {
                volume.rename(old, new, Rename::Replace).expect("renames");
            }
        };
        names_are_kept(Profile::Ext4, "", before, change, &places);
        names_are_kept(Profile::Ext2, "", before, change, &places);
    }
}
