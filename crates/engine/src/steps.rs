//! Long work step by step: each step is small, and after each the volume on the disk can be
//! recovered, by us, by e2fsck and by the kernel.
use crate::api::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use crate::inode::credits::STEP_MAX;
use crate::policy::preset::Policies;
use crate::store::handle::watch;
use crate::{Access, DataKeeping, Filesystem, Options, Size};
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_testkit::command;
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

const BLOCK: u64 = 1024;
/// Runs that the file is made of, each of one block.
fn runs() -> u64 {
    number("EXTANT_FRAGMENTS")
}

/// Steps between two that are judged: twice or so in all.
fn judged() -> usize {
    runs() as usize * 3 / 8 + 1
}

/// Policies without a journal and with one.
const POLICIES: [&str; 2] = ["modern,journal=none", "modern,journal=ordered"];

fn options(policies: &str) -> Options {
    let policies: Policies = policies.parse().unwrap();
    Options { access: Access::ReadWrite, policies, cache_bytes: 8 << 20, data: DataKeeping::Bytes }
}

/// What a block of the file holds.
fn content(block: u64) -> [u8; BLOCK as usize] {
    let mut bytes = [0; BLOCK as usize];
    bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&(block + 1).to_le_bytes()));
    bytes
}

/// A volume with a file of which no two neighbouring blocks are neighbours on the disk.
fn fragmented(profile: Profile, policies: &str) -> (Arc<MemoryDevice>, Filesystem) {
    let bytes = 104 << 20;
    let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
    let mut wishes = default_wishes(profile, bytes, Some(BLOCK as u32), Identity::NONE);
    wishes.blocks = bytes / BLOCK;
    wishes.uuid = *b"a volume in step";
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    format(shared, &FormatOptions::new(wishes), &options(policies).policies).unwrap();
    let volume =
        Filesystem::open(Arc::clone(&device) as Arc<dyn BlockDevice>, &options(policies)).unwrap();
    let file = volume.create_file("/file", 0o644).unwrap();
    for odd in [0, 1] {
        for block in (odd..runs()).step_by(2) {
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
            || line.ends_with("recovering journal")
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
    /// Nobody else: e2fsck 1.47 frees an orphan and leaves its values in inodes to lost+found, and
    /// Linux 6.18 takes no such value from the list of orphans.
    Nobody,
}

/// Whether the list of orphans of an image is not empty, once its journal is replayed: e2fsck says
/// so when it repairs a copy, whatever else it does.
fn has_orphan(image: &Path) -> bool {
    let copy = image.with_extension("copy");
    std::fs::copy(image, &copy).unwrap();
    let output = Command::new("e2fsck").arg("-fy").arg(&copy).output().unwrap();
    std::fs::remove_file(copy).unwrap();
    String::from_utf8_lossy(&output.stdout).contains("orphaned inode")
}

/// Judges a volume as it is now, recovered by others and by us. Returns whether it has an orphan.
fn judge(device: &MemoryDevice, policies: &str, judge: Judge, when: &str) -> bool {
    let folder = Scratch::new("steps");
    let image = folder.join("cut.img");
    device.snapshot().save(&image).unwrap();
    let has_orphan = match judge {
        Judge::E2fsck => {
            let orphans = check("-fy", &image, when);
            oracle::e2fsck(&image).unwrap_or_else(|said| panic!("{when}, after -fy: {said}"));
            !orphans.is_empty()
        }
        Judge::Kernel if command::is_root() && oracle::can_mount() => {
            let has_orphan = has_orphan(&image);
            oracle::mount_loop(&image, oracle::Access::ReadWrite, "").unwrap().unmount().unwrap();
            assert!(check("-fn", &image, when).is_empty(), "{when}: an orphan after the kernel");
            has_orphan
        }
        Judge::Kernel | Judge::Nobody => has_orphan(&image),
    };
    let copy = Arc::new(device.snapshot());
    let volume =
        Filesystem::open(Arc::clone(&copy) as Arc<dyn BlockDevice>, &options(policies)).unwrap();
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
fn in_steps(
    (profile, policies): (Profile, &'static str),
    what: &str,
    work: impl FnOnce(&Filesystem),
) -> (Steps, usize) {
    let judge_each = judged();
    let (device, volume) = fragmented(profile, policies);
    let core = Arc::clone(&volume.core);
    let steps = Rc::new(Cell::new(Steps::default()));
    let orphans = Rc::new(Cell::new(0));
    let (seen, found, judged) = (Rc::clone(&steps), Rc::clone(&orphans), Arc::clone(&device));
    let named = format!("{} {policies}: {what}", profile.name());
    let by = match (profile, what) {
        (Profile::Ext4, "truncate") => Judge::Kernel,
        _ => Judge::E2fsck,
    };
    watch::steps(move |changed| {
        let Steps { count, largest } = seen.get();
        seen.set(Steps { count: count + 1, largest: largest.max(changed) });
        if (count + 1).is_multiple_of(judge_each) || count == 2 {
            core.volume().space.sync().unwrap();
            let has_orphan = judge(&judged, policies, by, &format!("{named}, step {count}"));
            found.set(found.get() + usize::from(has_orphan));
        }
    });
    work(&volume);
    watch::no_more();
    volume.sync().unwrap();
    assert!(!judge(&device, policies, by, what), "{what}: an orphan is left");
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
    (steps, orphans.get())
}

/// Maps of both kinds, without a journal and with one.
fn kinds() -> impl Iterator<Item = (Profile, &'static str)> {
    let with = |profile| POLICIES.map(|policies| (profile, policies));
    [Profile::Ext3, Profile::Ext4].into_iter().flat_map(with)
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
    for (profile, policies) in kinds() {
        let (steps, orphans) =
            in_steps((profile, policies), "unlink", |volume| volume.remove_file("/file").unwrap());
        assert!(steps.count as u64 > runs() * 2 / 5 && orphans > 1, "{steps:?}, {orphans}");
    }
}

#[test]
fn a_file_of_many_runs_is_cut_in_small_steps() {
    if !require("e2fsck") {
        return;
    }
    for (profile, policies) in kinds() {
        let (steps, orphans) = in_steps((profile, policies), "truncate", |volume| {
            volume.open_file("/file").unwrap().set_len(20 * BLOCK + 100).unwrap();
            assert_eq!(blocks(volume), (0..20).map(Some).collect::<Vec<_>>());
        });
        assert!(steps.count as u64 > runs() * 2 / 5 && orphans > 1, "{steps:?}, {orphans}");
    }
}

#[test]
fn a_hole_of_many_runs_is_made_and_filled_in_small_steps() {
    if !require("e2fsck") {
        return;
    }
    for (profile, policies) in kinds() {
        let (steps, _) = in_steps((profile, policies), "punch", |volume| {
            let file = volume.open_file("/file").unwrap();
            file.punch_hole(100 * BLOCK, runs() * 3 / 4 * BLOCK).unwrap();
            if profile == Profile::Ext4 {
                file.allocate(0, runs() * BLOCK, Size::Keep).unwrap();
            }
            drop(file);
            let expected =
                (0..runs()).map(|at| (!(100..100 + runs() * 3 / 4).contains(&at)).then_some(at));
            assert_eq!(blocks(volume), expected.collect::<Vec<_>>());
        });
        assert!(steps.count as u64 > runs() * 3 / 8, "{steps:?}");
    }
}

#[test]
fn many_runs_are_zeroed_moved_down_and_up_in_small_steps() {
    if !require("e2fsck") {
        return;
    }
    for policies in POLICIES {
        let ext4 = (Profile::Ext4, policies);
        in_steps(ext4, "zero", |volume| {
            let file = volume.open_file("/file").unwrap();
            file.zero_range(50, 2_000 * BLOCK, Size::Keep).unwrap();
        });
        in_steps(ext4, "collapse", |volume| {
            let file = volume.open_file("/file").unwrap();
            file.collapse_range(1_000 * BLOCK, 500 * BLOCK).unwrap();
            let expected = (0..runs()).filter(|at| !(1_000..1_500).contains(at)).map(Some);
            assert_eq!(blocks(volume), expected.collect::<Vec<_>>());
        });
        in_steps(ext4, "insert", |volume| {
            let file = volume.open_file("/file").unwrap();
            file.insert_range(1_000 * BLOCK, 500 * BLOCK).unwrap();
            let expected = (0..1_000).map(Some).chain((0..500).map(|_| None));
            let expected = expected.chain((1_000..runs()).map(Some));
            assert_eq!(blocks(volume), expected.collect::<Vec<_>>());
        });
    }
}

/// A value in an inode of its own is made, replaced and let go in small steps, and whatever step
/// the disk has, the entry has a whole value or none.
#[test]
fn large_values_come_and_go_in_small_steps() {
    if !require("e2fsck") {
        return;
    }
    for policies in POLICIES {
        let device = Arc::new(MemoryDevice::new(RealClock::new(), 16 << 20));
        let shared = || Arc::clone(&device) as Arc<dyn BlockDevice>;
        let mut wishes =
            default_wishes(Profile::Ext4, 16 << 20, Some(BLOCK as u32), Identity::NONE);
        wishes.uuid = *b"a volume in step";
        wishes.features.set(extant_format::superblock::Feature::EA_INODE);
        format(shared(), &FormatOptions::new(wishes), &options(policies).policies).unwrap();
        let volume = Filesystem::open(shared(), &options(policies)).unwrap();
        volume.write("/file", b"content").unwrap();
        volume.sync().unwrap();
        let core = Arc::clone(&volume.core);
        let steps = Rc::new(Cell::new(Steps::default()));
        let orphans = Rc::new(Cell::new(0));
        let by = Rc::new(Cell::new(Judge::E2fsck));
        let (seen, found, judged) = (Rc::clone(&steps), Rc::clone(&orphans), Arc::clone(&device));
        let judge_now = Rc::clone(&by);
        watch::steps(move |changed| {
            let Steps { count, largest } = seen.get();
            seen.set(Steps { count: count + 1, largest: largest.max(changed) });
            core.volume().space.sync().unwrap();
            let when = format!("{policies}, step {count}");
            let has_orphan = judge(&judged, policies, judge_now.get(), &when);
            found.set(found.get() + usize::from(has_orphan));
        });
        let set = |name: &[u8], length: usize| {
            let value = vec![name[5]; length];
            volume.set_attribute("/file", name, &value, crate::SetAttribute::Any).unwrap();
        };
        set(b"user.a", 65_536);
        set(b"user.b", 30_000);
        set(b"user.a", 50_000);
        volume.remove_attribute("/file", b"user.b").unwrap();
        set(b"user.c", 5_000);
        by.set(Judge::Nobody);
        volume.remove_file("/file").unwrap();
        watch::no_more();
        volume.close().unwrap();
        let steps = steps.get();
        assert!(steps.count > 20 && steps.largest <= STEP_MAX as usize, "{steps:?}");
        assert!(orphans.get() > 3, "{}", orphans.get());
        assert!(!judge(&device, policies, Judge::E2fsck, "closed"), "an orphan is left");
    }
}
