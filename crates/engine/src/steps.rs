//! Long work step by step: each step is small, and after each the volume on the disk can be
//! recovered, by us, by e2fsck and by the kernel.
use crate::api::mkfs::{FormatOptions, Profile, default_wishes, format};
use crate::inode::credits::STEP_MAX;
use crate::policy::preset::Policies;
use crate::store::handle::watch;
use crate::{Access, DataKeeping, Filesystem, Options, Size, read_superblock};
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_testkit::command;
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

const BLOCK: u64 = 1024;
/// Runs that the file is made of, each of one block.
const RUNS: u64 = 40_000;
/// Steps between two that are judged.
const JUDGED: usize = 6_001;

fn options() -> Options {
    let policies: Policies = "modern,journal=none".parse().unwrap();
    Options { access: Access::ReadWrite, policies, cache_bytes: 8 << 20, data: DataKeeping::Bytes }
}

/// What a block of the file holds.
fn content(block: u64) -> [u8; BLOCK as usize] {
    let mut bytes = [0; BLOCK as usize];
    bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&(block + 1).to_le_bytes()));
    bytes
}

/// A volume with a file of which no two neighbouring blocks are neighbours on the disk.
fn fragmented(profile: Profile) -> (Arc<MemoryDevice>, Filesystem) {
    let bytes = 160 << 20;
    let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
    let mut wishes = default_wishes(profile, bytes, Some(BLOCK as u32));
    wishes.blocks = bytes / BLOCK;
    wishes.uuid = *b"a volume in step";
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    format(shared, &FormatOptions::new(wishes), &options().policies).unwrap();
    let volume = Filesystem::open(Arc::clone(&device) as Arc<dyn BlockDevice>, &options()).unwrap();
    let file = volume.create_file("/file", 0o644).unwrap();
    for odd in [0, 1] {
        for block in (odd..RUNS).step_by(2) {
            file.write_all_at(block * BLOCK, &content(block)).unwrap();
        }
        volume.sync().unwrap();
    }
    drop(file);
    volume.write("/other", b"which nothing happens to").unwrap();
    volume.sync().unwrap();
    (device, volume)
}

/// Runs e2fsck on an image. Fails if it finds more than orphans and extent trees that could be
/// denser, as they are between two steps. Returns its lines about orphans.
fn check(how: &str, image: &Path, when: &str) -> Vec<String> {
    let output = Command::new("e2fsck").arg(how).arg(image).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_orphan = |line: &str| line.contains("orphaned inode");
    let is_usual = |line: &str| {
        line.is_empty()
            || line.starts_with("Pass ")
            || line.contains("non-contiguous")
            || line.contains("FILE SYSTEM WAS MODIFIED")
            || line.contains("could be narrower.  Optimize?")
            || line.contains("could be shorter.  Optimize?")
    };
    let other = said.lines().find(|line| !is_orphan(line) && !is_usual(line));
    assert_eq!(other, None, "{when}: {said}");
    said.lines().filter(|line| is_orphan(line)).map(str::to_owned).collect()
}

/// Who recovers a volume that is judged, beside us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judge {
    /// `e2fsck -fy`, which mends nothing but the orphans.
    E2fsck,
    /// The kernel, by a mount. e2fsck 1.47 damages every extent tree of more than one level that it
    /// cuts as an orphan, those that the kernel left too ("Already cleared indirect block").
    Kernel,
}

/// Judges a volume as it is now, recovered by others and by us. Returns whether it has an orphan.
fn judge(device: &MemoryDevice, judge: Judge, when: &str) -> bool {
    let folder = Scratch::new("steps");
    let image = folder.join("cut.img");
    device.snapshot().save(&image).unwrap();
    let has_orphan = read_superblock(device).unwrap().last_orphan != 0;
    match judge {
        Judge::E2fsck => {
            assert_eq!(!check("-fy", &image, when).is_empty(), has_orphan, "{when}");
            oracle::e2fsck(&image).unwrap_or_else(|said| panic!("{when}, after -fy: {said}"));
        }
        Judge::Kernel if command::is_root() && oracle::can_mount() => {
            oracle::mount_loop(&image, oracle::Access::ReadWrite, "").unwrap().unmount().unwrap();
            assert!(check("-fn", &image, when).is_empty(), "{when}: an orphan after the kernel");
        }
        Judge::Kernel => {}
    }
    let copy = Arc::new(device.snapshot());
    let volume = Filesystem::open(Arc::clone(&copy) as Arc<dyn BlockDevice>, &options()).unwrap();
    volume.close().unwrap();
    copy.save(&image).unwrap();
    assert!(check("-fn", &image, when).is_empty(), "{when}: an orphan that we left");
    has_orphan
}

/// Steps of one operation: how many, and how many blocks the largest changed.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    count: usize,
    largest: usize,
}

/// Does something to a fragmented file in steps, the volume on the disk judged after some of them.
/// Returns the steps, and how many of the volumes judged had an orphan.
fn in_steps(profile: Profile, what: &str, work: impl FnOnce(&Filesystem)) -> (Steps, usize) {
    let (device, volume) = fragmented(profile);
    let core = Arc::clone(&volume.core);
    let steps = Rc::new(Cell::new(Steps::default()));
    let orphans = Rc::new(Cell::new(0));
    let (seen, found, judged) = (Rc::clone(&steps), Rc::clone(&orphans), Arc::clone(&device));
    let named = what.to_owned();
    let by = match (profile, what) {
        (Profile::Ext4, "truncate") => Judge::Kernel,
        _ => Judge::E2fsck,
    };
    watch::steps(move |changed| {
        let Steps { count, largest } = seen.get();
        seen.set(Steps { count: count + 1, largest: largest.max(changed) });
        if (count + 1) % JUDGED == 0 || count == 2 {
            core.volume().space.sync().unwrap();
            let has_orphan = judge(&judged, by, &format!("{named}, step {count}"));
            found.set(found.get() + usize::from(has_orphan));
        }
    });
    work(&volume);
    watch::no_more();
    volume.sync().unwrap();
    assert!(!judge(&device, by, what), "{what}: an orphan is left");
    volume.close().unwrap();
    let folder = Scratch::new("steps-closed");
    let image = folder.join("closed.img");
    device.save(&image).unwrap();
    oracle::e2fsck(&image).unwrap_or_else(|said| panic!("{what}, closed: {said}"));
    if command::is_root() && oracle::can_mount() {
        let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "").unwrap();
        let other = std::fs::read(mounted.path().join("other")).unwrap();
        assert_eq!(other, b"which nothing happens to", "{what}");
        mounted.unmount().unwrap();
    }
    let steps = steps.get();
    assert!(steps.largest <= STEP_MAX as usize, "{what}: {steps:?}");
    println!("{} {what}: {steps:?}, {} with an orphan", profile.name(), orphans.get());
    (steps, orphans.get())
}

/// The blocks of the file as they are: the number of the block whose content each has, or `None`
/// for zeros.
fn blocks(volume: &Filesystem) -> Vec<Option<u64>> {
    let number = |bytes: &[u8]| {
        let first = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        first.checked_sub(1)
    };
    volume.read("/file").unwrap().chunks_exact(BLOCK as usize).map(number).collect()
}

#[test]
fn a_file_of_many_runs_is_freed_in_small_steps() {
    if !require("e2fsck") {
        return;
    }
    for profile in [Profile::Ext3, Profile::Ext4] {
        let (steps, orphans) =
            in_steps(profile, "unlink", |volume| volume.remove_file("/file").unwrap());
        assert!(steps.count as u64 > RUNS / 2 && orphans > 3, "{steps:?}, {orphans}");
    }
}

#[test]
fn a_file_of_many_runs_is_cut_in_small_steps() {
    if !require("e2fsck") {
        return;
    }
    for profile in [Profile::Ext3, Profile::Ext4] {
        let (steps, orphans) = in_steps(profile, "truncate", |volume| {
            volume.open_file("/file").unwrap().set_len(20 * BLOCK + 100).unwrap();
            assert_eq!(blocks(volume), (0..20).map(Some).collect::<Vec<_>>());
        });
        assert!(steps.count as u64 > RUNS / 2 && orphans > 3, "{steps:?}, {orphans}");
    }
}

#[test]
fn a_hole_of_many_runs_is_made_and_filled_in_small_steps() {
    if !require("e2fsck") {
        return;
    }
    for profile in [Profile::Ext3, Profile::Ext4] {
        let (steps, _) = in_steps(profile, "punch", |volume| {
            let file = volume.open_file("/file").unwrap();
            file.punch_hole(100 * BLOCK, 30_000 * BLOCK).unwrap();
            if profile == Profile::Ext4 {
                file.allocate(0, RUNS * BLOCK, Size::Keep).unwrap();
            }
            drop(file);
            let expected = (0..RUNS).map(|at| (!(100..30_100).contains(&at)).then_some(at));
            assert_eq!(blocks(volume), expected.collect::<Vec<_>>());
        });
        assert!(steps.count > 15_000, "{steps:?}");
    }
}

#[test]
fn many_runs_are_zeroed_moved_down_and_up_in_small_steps() {
    if !require("e2fsck") {
        return;
    }
    in_steps(Profile::Ext4, "zero", |volume| {
        let file = volume.open_file("/file").unwrap();
        file.zero_range(50, 4_000 * BLOCK, Size::Keep).unwrap();
    });
    in_steps(Profile::Ext4, "collapse", |volume| {
        let file = volume.open_file("/file").unwrap();
        file.collapse_range(1_000 * BLOCK, 500 * BLOCK).unwrap();
        let expected = (0..RUNS).filter(|at| !(1_000..1_500).contains(at)).map(Some);
        assert_eq!(blocks(volume), expected.collect::<Vec<_>>());
    });
    in_steps(Profile::Ext4, "insert", |volume| {
        let file = volume.open_file("/file").unwrap();
        file.insert_range(1_000 * BLOCK, 500 * BLOCK).unwrap();
        let expected = (0..1_000).map(Some).chain((0..500).map(|_| None));
        let expected = expected.chain((1_000..RUNS).map(Some));
        assert_eq!(blocks(volume), expected.collect::<Vec<_>>());
    });
}
