//! A recovery that is itself interrupted, by a cut or by a device that fails, can be done again
//! with the same result; and reading writes nothing.
use crate::recovery::kernel::{Shutdown, Wish, is_possible, judge, leave};
use crate::recovery::options;
use crate::volume::SetClock;
use extant_block::{BlockDevice, MemoryDevice};
use extant_engine::{Access, Filesystem, OrphanCounts, free_orphans, recover};
use extant_journal::{Journal, MapSource};
use extant_sim::{CrashLog, Fault, Faulty};
use extant_testkit::variables::number;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// Full commits, and fast ones with operations of all kinds.
fn load(root: &Path) -> Vec<File> {
    let sync = |name: &str| File::open(root.join(name)).unwrap().sync_all().unwrap();
    fs::create_dir(root.join("d")).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(root.join(name), name.repeat(20_000)).unwrap();
    }
    extant_testkit::oracle::sync(root);
    fs::write(root.join("t"), "1").unwrap();
    sync("t");
    extant_testkit::oracle::sync(root);
    fs::create_dir(root.join("d/e")).unwrap();
    fs::write(root.join("d/e/new"), "new".repeat(3000)).unwrap();
    sync("d/e/new");
    fs::remove_file(root.join("b")).unwrap();
    fs::rename(root.join("c"), root.join("d/moved")).unwrap();
    sync("d/moved");
    Vec::new()
}

fn volume(features: &'static str) -> Option<MemoryDevice> {
    if !is_possible() {
        return None;
    }
    let wish = Wish { features, block_size: 1024 };
    let found = (0..10).map(|_| leave(wish, Shutdown::AtOnce, load)).find(|left| left.is_fast());
    let bytes = fs::read(found.expect("there are fast commits").image).expect("it is read");
    Some(MemoryDevice::from_bytes(SetClock::new(1_800_000_000), &bytes))
}

fn bytes_of(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.info().bytes as usize];
    device.read(0, &mut bytes).expect("it is read");
    bytes
}

/// The bytes of a volume without those of its journal, whose sequence goes on with each recovery.
fn content_of(device: &Arc<dyn BlockDevice>) -> Vec<u8> {
    let mut bytes = bytes_of(&**device);
    let journal = Journal::find(Arc::clone(device), MapSource::Inode).expect("it is sound");
    let journal = journal.expect("there is one");
    let (size, count) = (journal.superblock().block_size as usize, journal.superblock().blocks);
    assert!(journal.superblock().is_empty(), "the log is empty after recovery");
    let mut at = 0;
    while at < count {
        let run = journal.place(at..count);
        let start = run.start.0 as usize * size;
        bytes[start..start + run.length as usize * size].fill(0);
        at += run.length;
    }
    bytes
}

fn recover_whole(device: MemoryDevice) -> Vec<u8> {
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    recover(&device).expect("it is recovered").expect("there is something to recover");
    content_of(&device)
}

#[test]
fn a_cut_during_recovery_changes_nothing_in_its_result() {
    // Without checksums a copy that is missing in the log is not found out.
    for features in ["fast_commit", "fast_commit,^metadata_csum"] {
        let Some(base) = volume(features) else { return };
        cut_during_recovery(&base);
    }
}

fn cut_during_recovery(base: &MemoryDevice) {
    let whole = recover_whole(base.snapshot());
    let logged = Arc::new(CrashLog::new(base.snapshot()));
    recover(&(Arc::clone(&logged) as Arc<dyn BlockDevice>)).expect("it is recovered");
    let moments = logged.moments();
    assert!(moments > 20, "{moments} moments of a recovery with fast commits");
    let one_in = number("EXTANT_MOMENTS") as usize;
    for moment in (0..=moments).step_by(one_in) {
        let cut = logged.cut(moment);
        let mut images = vec![cut.prefix(base), cut.durable(base)];
        for seed in 0..2 {
            images.push(cut.subset(base, 512, moment as u64 * 2 + seed));
        }
        for (number, image) in images.into_iter().enumerate() {
            let device: Arc<dyn BlockDevice> = Arc::new(image.expect("the cut is made"));
            let what = format!("moment {moment} of {moments}, image {number}");
            recover(&device).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(content_of(&device) == whole, "{what}: another volume");
        }
    }
}

#[test]
fn a_device_that_fails_during_recovery_can_be_recovered_again() {
    let Some(base) = volume("fast_commit") else { return };
    let whole = recover_whole(base.snapshot());
    for number in 1.. {
        let faulty = Arc::new(Faulty::new(base.snapshot()));
        let device: Arc<dyn BlockDevice> = Arc::clone(&faulty) as _;
        faulty.add(Fault::WritesAfter(number - 1));
        let outcome = recover(&device);
        faulty.repair();
        if outcome.is_ok() {
            assert!(number > 5, "{number} writes of a recovery with fast commits");
            break;
        }
        recover(&device).unwrap_or_else(|error| panic!("after write {number}: {error}"));
        assert!(content_of(&device) == whole, "after write {number}: another volume");
    }
}

#[test]
fn reading_writes_nothing() {
    let Some(base) = volume("fast_commit") else { return };
    let faulty = Arc::new(Faulty::new(base.snapshot()));
    faulty.add(Fault::WritesAfter(0));
    faulty.add(Fault::Flushes);
    let device: Arc<dyn BlockDevice> = Arc::clone(&faulty) as _;
    let filesystem = Filesystem::open(device, &options(Access::ReadOnly)).expect("it is opened");
    assert_eq!(filesystem.read("/d/e/new").expect("it is read"), "new".repeat(3000).into_bytes());
    assert_eq!(filesystem.read("/d/moved").expect("it is read").len(), 20_000);
    assert!(filesystem.metadata("/b").is_err(), "it was unlinked in a fast commit");
    drop(filesystem);
    assert!(bytes_of(faulty.device()) == bytes_of(&base), "it was changed");
}

/// Files that are open and have no name, more than the log holds at once.
fn hold(root: &Path) -> Vec<File> {
    let names: Vec<_> = (0..12).map(|at| root.join(format!("held{at}"))).collect();
    let held = names.iter().zip(1..).map(|(name, at)| {
        fs::write(name, vec![7; 40_000 * at]).unwrap();
        File::open(name).unwrap()
    });
    let held = held.collect();
    extant_testkit::oracle::sync(root);
    names.iter().for_each(|name| fs::remove_file(name).unwrap());
    extant_testkit::oracle::sync(root);
    held
}

#[test]
fn orphans_are_freed_again_after_a_cut_at_any_moment() {
    if !is_possible() {
        return;
    }
    let folder = extant_testkit::scratch::Scratch::new("recovery-cuts");
    let file = folder.join("cut.img");
    for features in ["^orphan_file", "orphan_file"] {
        let left = leave(Wish { features, block_size: 1024 }, Shutdown::LogWritten, hold);
        let bytes = fs::read(&left.image).expect("it is read");
        let base = MemoryDevice::from_bytes(SetClock::new(1_700_000_000), &bytes);
        let replayed = Arc::new(base);
        recover(&(Arc::clone(&replayed) as Arc<dyn BlockDevice>)).expect("it is recovered");
        let base = replayed.snapshot();
        let logged = Arc::new(CrashLog::new(base.snapshot()));
        let counts = free_orphans(&(Arc::clone(&logged) as Arc<dyn BlockDevice>)).expect("freed");
        assert_eq!(counts, Some(OrphanCounts { freed: 12, truncated: 0 }), "{features}");
        let moments = logged.moments();
        assert!(moments > 10, "{features}: {moments} moments");
        let one_in = number("EXTANT_MOMENTS") as usize;
        for moment in (0..=moments).step_by(moments.div_ceil(40) * one_in) {
            let cut = logged.cut(moment);
            for image in [cut.durable(&base), cut.subset(&base, 512, moment as u64)] {
                let device: Arc<dyn BlockDevice> = Arc::new(image.expect("the cut is made"));
                let what = format!("{features}, moment {moment} of {moments}");
                recover(&device).unwrap_or_else(|error| panic!("{what}: {error}"));
                free_orphans(&device).unwrap_or_else(|error| panic!("{what}: {error}"));
                fs::write(&file, bytes_of(&*device)).expect("written");
                judge(&file, &what);
            }
        }
    }
}
