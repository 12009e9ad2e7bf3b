//! Power cuts at every write and flush of a change: what is recovered is the volume before it or
//! after it, never anything between. Recovered by us, by e2fsck, and from the redo log.
//!
//! ```text
//! volumes   volumes, a change of one, and the tree that is there
//! anew      volumes that are built anew, where they are, and those that are trimmed
//! changes   what tune2fs changes of a volume
//! devices   what the change writes to: cuts, flushes that are left out, when the log was whole
//! held      a volume that several machines may reach
//! host      power cuts of the host: its disk has the log before the image, and the image after it
//! undo      repairs by a redo log, and back
//! order     changes in place, without a log
//! repairs   whole repairs of volumes with random damage
//! theirs    the undo file of e2fsprogs
//! ```
mod anew;
mod changes;
mod devices;
mod held;
mod host;
mod order;
mod repairs;
mod theirs;
mod undo;
mod volumes;

use devices::{Filling, Recorded, Skipped};
use extant_block::{BlockDevice, MemoryDevice};
use extant_edit::redo;
use extant_testkit::command::program;
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use sha2::Digest;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use volumes::{Kind, Tree, change, fill_inodes, tree_of};

/// How many media of one moment are drawn, for each size of a sector.
const DRAWN: u64 = 2;
/// How many where a mistake has to be found.
const DRAWN_TO_FIND: u64 = 48;
/// Before the first flush only blocks that were free are written: every how many moments are cut.
const EARLY_STEP: usize = 20;

/// Who can recover a medium.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judges {
    /// We can. A superblock that is torn at 512 bytes, between its flags and its checksum, is more
    /// than e2fsck mends on a volume of one group; Linux leaves such ones too.
    Ours,
    /// e2fsck can too: the superblock is whole.
    All,
}

/// Called with a moment, what was kept of the loose writes, and the medium.
type Judge<'a> = dyn FnMut(usize, (&str, Judges), MemoryDevice) + 'a;

/// The media that a cut after each moment may leave, with words for each.
fn media(
    (recorded, base): (&Recorded, &MemoryDevice),
    (moments, drawn): (Vec<usize>, u64),
    judge: &mut Judge<'_>,
) {
    for moment in moments {
        let cut = recorded.log.cut(moment);
        judge(moment, ("all that was written", Judges::All), cut.prefix(base).expect("a medium"));
        judge(moment, ("what was flushed", Judges::All), cut.durable(base).expect("a medium"));
        let drawn = if cut.loose() > 1 { drawn } else { 0 };
        for seed in 0..drawn {
            let seed = seed * 100_003 + moment as u64;
            for (sector_bytes, judges) in [(512, Judges::Ours), (4096, Judges::All)] {
                let medium = cut.subset(base, sector_bytes, seed).expect("a medium");
                judge(moment, (&format!("seed {seed}, {sector_bytes}"), judges), medium);
            }
        }
    }
}

/// The moments that are worth a cut.
fn moments(recorded: &Recorded) -> Vec<usize> {
    let first = recorded.flush_moments().first().copied().unwrap_or_default();
    let late = first.saturating_sub(6)..=recorded.log.moments();
    (0..*late.start()).step_by(EARLY_STEP).chain(late).collect()
}

/// Those from a flush that was left out to the next one.
fn moments_without(recorded: &Recorded, flush: usize) -> Vec<usize> {
    let flushes = recorded.flush_moments();
    let end = flushes.get(flush).copied().unwrap_or(recorded.log.moments());
    (flushes[flush - 1]..=end).collect()
}

/// What a tree is: before, after, or neither.
fn verdict(tree: &Result<Tree, String>, ends: &(Tree, Tree)) -> Result<bool, String> {
    let tree = tree.as_ref().map_err(Clone::clone)?;
    match (*tree == ends.0, *tree == ends.1) {
        (true, _) => Ok(false),
        (_, true) => Ok(true),
        _ => Err(format!(
            "neither before nor after: {:?}",
            tree.iter().find(|one| !ends.0.contains(one) && !ends.1.contains(one))
        )),
    }
}

/// The tree after e2fsck has recovered and repaired a medium, which is then clean.
fn by_e2fsck(medium: &MemoryDevice, folder: &Scratch) -> Result<Tree, String> {
    let image = folder.join("medium.img");
    medium.save(&image).map_err(|error| error.to_string())?;
    let output = program("e2fsck").arg("-fy").arg(&image).output();
    let output = output.map_err(|error| error.to_string())?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("e2fsck -fy: {}", String::from_utf8_lossy(&output.stdout)));
    }
    oracle::e2fsck(&image)?;
    let bytes = std::fs::read(&image).map_err(|error| error.to_string())?;
    tree_of(Arc::new(MemoryDevice::from_bytes(volumes::clock(), &bytes)))
}

/// Every how many media e2fsck judges too.
fn stride() -> usize {
    usize::try_from(number("EXTANT_EDIT_CUTS")).expect("a small number").max(1)
}

#[test]
fn a_cut_of_a_transaction_leaves_before_or_after() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    let folder = quick_folder("edit-cuts");
    for kind in [Kind::EXT4_1K, Kind::EXT4_4K, Kind::EXT3_1K, Kind::EXT4_PLAIN, Kind::EXT4_FAST] {
        let base = kind.make();
        let recorded = Arc::new(Recorded::new(base.snapshot(), Skipped::None, None));
        let outcome = change(&recorded, None);
        assert_eq!(outcome, extant_edit::Outcome::Journal, "{kind:?}");
        let after = recorded.log.device().snapshot();
        let ends = (tree_of(Arc::new(base.snapshot())).unwrap(), tree_of(Arc::new(after)).unwrap());
        assert_ne!(ends.0, ends.1);
        let (mut seen, mut count) = ([0, 0], 0);
        let mut last = false;
        media(
            (&recorded, &base),
            (moments(&recorded), DRAWN),
            &mut |moment, (words, judges), medium| {
                let at = format!("{kind:?}, moment {moment}, {words}");
                let medium = Arc::new(medium);
                let is_after = verdict(&tree_of(Arc::new(medium.snapshot())), &ends);
                last = is_after.unwrap_or_else(|why| panic!("{at}: {why}"));
                seen[usize::from(last)] += 1;
                count += usize::from(judges == Judges::All);
                if judges == Judges::All && count % stride() == 0 {
                    let tree = by_e2fsck(&medium, &folder);
                    let is_same = verdict(&tree, &ends).unwrap_or_else(|why| panic!("{at}: {why}"));
                    assert_eq!(is_same, last, "{at}: e2fsck has another end than we");
                }
            },
        );
        assert!(seen[0] > 20 && seen[1] > 20 && last, "{kind:?}: {seen:?}");
        by_kernel(&recorded, &base, &ends, &folder);
    }
}

/// The kernel replays the transaction when nothing of it is in its place yet.
fn by_kernel(recorded: &Recorded, base: &MemoryDevice, ends: &(Tree, Tree), folder: &Scratch) {
    if !oracle::can_mount() {
        return;
    }
    // The second flush makes the beginning of the log durable.
    let moment = recorded.flush_moments()[1] + 1;
    let medium = recorded.log.cut(moment).durable(base).expect("a medium");
    let image = folder.join("kernel.img");
    medium.save(&image).expect("it is saved");
    let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "").expect("it mounts");
    mounted.unmount().expect("it is unmounted");
    oracle::e2fsck(&image).expect("clean");
    let bytes = std::fs::read(&image).expect("it is read");
    let tree = tree_of(Arc::new(MemoryDevice::from_bytes(volumes::clock(), &bytes)));
    assert_eq!(verdict(&tree, ends), Ok(true), "after the kernel's replay");
}

/// A change that the log has no room for, with little memory: a redo log, and most of it in the
/// spool.
#[test]
fn what_the_log_has_no_room_for_goes_through_a_redo_log() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    let folder = quick_folder("edit-large");
    let device = Arc::new(Kind::EXT4_1K.make());
    assert_eq!(volumes::make_large(&device).unwrap(), extant_edit::Outcome::Journal);
    let before = volumes::bytes_of(&*device);
    let outcome = volumes::overwrite_large(&device, None);
    let refused = outcome.expect_err("there is no place for a log").to_string();
    assert!(refused.contains("does not fit into its journal"), "{refused}");
    assert!(volumes::bytes_of(&*device) == before, "a change that was refused shows");
    let log = folder.join("log");
    let outcome = volumes::overwrite_large(&device, Some(&log)).unwrap();
    assert_eq!(outcome, extant_edit::Outcome::RedoLog);
    assert!(!log.exists());
    let image = folder.join("large.img");
    device.save(&image).expect("it is saved");
    oracle::e2fsck(&image).expect("clean");
    let tree = tree_of(device).expect("a tree");
    let large = tree.iter().find(|entry| entry.0 == "/large").expect("it is there");
    assert!(large.6 == vec![b'b'; volumes::LARGE_BYTES], "not all is new");
}

#[test]
fn a_flush_that_is_left_out_is_found() {
    if !oracle::require("mke2fs") {
        return;
    }
    // The log before it begins; its beginning before blocks in place; these before it is emptied.
    for flush in 1..=3 {
        let base = Kind::EXT4_1K.make();
        let recorded = Arc::new(Recorded::new(base.snapshot(), Skipped::Flush(flush), None));
        change(&recorded, None);
        let after = recorded.log.device().snapshot();
        let ends = (tree_of(Arc::new(base.snapshot())).unwrap(), tree_of(Arc::new(after)).unwrap());
        let mut wrong = 0;
        let cuts = (moments_without(&recorded, flush), DRAWN_TO_FIND);
        media((&recorded, &base), cuts, &mut |_, _, medium| {
            wrong += usize::from(verdict(&tree_of(Arc::new(medium)), &ends).is_err());
        });
        assert!(wrong > 0, "flush {flush} left out, and no cut shows it");
    }
}

/// The tree of a medium with a redo log beside it, or without.
fn with_log(medium: &MemoryDevice, log: Option<&[u8]>, folder: &Scratch) -> Result<Tree, String> {
    let image = folder.join("redo.img");
    medium.save(&image).map_err(|error| error.to_string())?;
    let path = redo::path_of(&image).expect("a name");
    match log {
        Some(log) => std::fs::write(&path, log).expect("it is written"),
        None => drop(std::fs::remove_file(&path)),
    }
    // A reader sees through it.
    let device: Arc<dyn BlockDevice> = Arc::new(medium.snapshot());
    let identity = volumes::identity(&*device);
    let over = redo::over(&path, &device, &identity).map_err(|error| error.to_string())?;
    let seen = tree_of(over.unwrap_or(device))?;
    // Who writes ends it.
    let file = OpenOptions::new().read(true).write(true).open(&image).expect("it opens");
    redo::finish(&path, &file).map_err(|error| error.to_string())?;
    assert!(!path.exists(), "the log is gone");
    let bytes = std::fs::read(&image).map_err(|error| error.to_string())?;
    let device = Arc::new(MemoryDevice::from_bytes(volumes::clock(), &bytes));
    let ended = tree_of(device)?;
    assert!(seen == ended, "a reader and a writer see other trees");
    oracle_sometimes(&image)?;
    Ok(ended)
}

fn oracle_sometimes(image: &Path) -> Result<(), String> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    match COUNT.fetch_add(1, Ordering::Relaxed) % stride() {
        0 => oracle::e2fsck(image),
        _ => Ok(()),
    }
}

/// A folder in memory where there is one: thousands of images are written, each durably.
fn quick_folder(name: &str) -> Scratch {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => Scratch::inside(memory, name),
        false => Scratch::new(name),
    }
}

/// What cuts of a change by a redo log leave: how many media were before, after, or neither.
fn redo_cuts(kind: Kind, skipped: Skipped) -> [usize; 3] {
    let folder = quick_folder("edit-redo");
    let base = kind.make();
    let log = folder.join("log");
    let recorded = Arc::new(Recorded::new(base.snapshot(), skipped, Some(log.clone())));
    assert_eq!(change(&recorded, Some(&log)), extant_edit::Outcome::RedoLog, "{kind:?}");
    let after = recorded.log.device().snapshot();
    let ends = (tree_of(Arc::new(base.snapshot())).unwrap(), tree_of(Arc::new(after)).unwrap());
    let (begun, bytes) = recorded.whole_log().expect("a log was written");
    let (mut found, moments) = ([0; 3], recorded.log.moments());
    let cuts = match skipped {
        Skipped::None => (self::moments(&recorded), DRAWN),
        Skipped::Flush(flush) => (moments_without(&recorded, flush), DRAWN_TO_FIND / 3),
    };
    media((&recorded, &base), cuts, &mut |moment, (words, _), medium| {
        let torn = &bytes[..bytes.len() * (moment % 7) / 7];
        let logs: &[Option<&[u8]>] = match moment {
            _ if moment < begun => &[None, Some(torn)],
            _ if moment == begun => &[None, Some(torn), Some(&bytes)],
            // The log is removed after the last event.
            _ if moment == moments => &[Some(&bytes), None],
            _ => &[Some(&bytes)],
        };
        for log in logs {
            match verdict(&with_log(&medium, *log, &folder), &ends) {
                Ok(is_after) => found[usize::from(is_after)] += 1,
                Err(why) if skipped == Skipped::None => {
                    panic!("{kind:?}, moment {moment} of {moments}, {words}: {why}")
                }
                Err(_) => found[2] += 1,
            }
        }
    });
    found
}

#[test]
fn a_cut_with_a_redo_log_leaves_before_or_after() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    for kind in [Kind::EXT2_1K, Kind::EXT2_4K] {
        let found = redo_cuts(kind, Skipped::None);
        assert!(found[0] > 20 && found[1] > 20, "{kind:?}: {found:?}");
    }
    // What was free before the log; `order` and the next test show that those after it are needed.
    let found = redo_cuts(Kind::EXT2_1K, Skipped::Flush(1));
    assert!(found[2] > 0, "the first flush left out, and no cut shows it: {found:?}");
}

/// What the log was needed for is durable while it is there, not only soon after.
#[test]
fn a_redo_log_goes_when_its_blocks_are_durable() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = Scratch::new("edit-order");
    let log = folder.join("log");
    let base = Kind::EXT2_1K.make();
    let recorded = Arc::new(Recorded::new(base, Skipped::None, Some(log.clone())));
    change(&recorded, Some(&log));
    let with_log = recorded.flushes_with_redo();
    assert_eq!(with_log.last(), Some(&true), "the last flush came after the log: {with_log:?}");
    let loose = recorded.log.cut(recorded.log.moments()).loose();
    assert_eq!(loose, 0, "writes that no flush has covered when the log is gone");
}

/// The log with another UUID, and a digest that fits.
fn with_uuid(log: &[u8], uuid: [u8; 16]) -> Vec<u8> {
    let mut log = log[..log.len() - 32].to_vec();
    log[16..32].copy_from_slice(&uuid);
    let digest = sha2::Sha256::digest(&log);
    log.extend(digest);
    log
}

/// Two volumes may be alike in every block that a log has: made from one image, say.
#[test]
fn a_log_of_another_volume_is_refused_though_its_blocks_fit() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = Scratch::new("edit-uuid");
    let base = Kind::EXT2_1K.make();
    let log = folder.join("log");
    let recorded = Arc::new(Recorded::new(base.snapshot(), Skipped::None, Some(log.clone())));
    change(&recorded, Some(&log));
    let (begun, bytes) = recorded.whole_log().expect("a log was written");
    let cut = recorded.log.cut(begun).durable(&base).expect("a medium");
    // A digest of our own is one that fits.
    let own = with_uuid(&bytes, *bytes[16..].first_chunk().expect("a header"));
    assert!(own == bytes, "the log is not as its format says");
    let foreign = with_uuid(&bytes, *b"another volume's");
    let image = folder.join("redo.img");
    cut.save(&image).expect("it is saved");
    let before = std::fs::read(&image).expect("it is read");
    std::fs::write(&log, &foreign).expect("it is written");
    let device: Arc<dyn BlockDevice> = Arc::new(cut.snapshot());
    let read = redo::over(&log, &device, &volumes::identity(&*device)).err();
    let file = OpenOptions::new().read(true).write(true).open(&image).expect("it opens");
    let written = redo::finish(&log, &file).err();
    for error in [read, written] {
        let why = error.expect("it is refused").to_string();
        assert!(why.contains("another state"), "{why}");
    }
    assert!(log.exists(), "a log that was refused is left");
    assert!(std::fs::read(&image).expect("it is read") == before, "the image was changed");
    // The same log of this volume is applied.
    std::fs::write(&log, &own).expect("it is written");
    redo::finish(&log, &file).expect("it is applied");
    assert!(!log.exists());
}

#[test]
fn a_log_of_another_state_is_refused() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = Scratch::new("edit-foreign");
    let base = Kind::EXT2_1K.make();
    let log = folder.join("log");
    let recorded = Arc::new(Recorded::new(base.snapshot(), Skipped::None, Some(log.clone())));
    change(&recorded, Some(&log));
    let (_, bytes) = recorded.whole_log().expect("a log was written");
    // Another program changed a block that the log has: neither before nor after.
    let medium = base.snapshot();
    let mut superblock = [0; 1024];
    medium.read(1024, &mut superblock).unwrap();
    superblock[0x30] ^= 1; // the time of the last write
    medium.write(1024, &superblock).unwrap();
    let why = with_log(&medium, Some(&bytes), &folder).unwrap_err();
    assert!(why.contains("another state"), "{why}");
    // An image of another size, and one of another volume.
    let longer = [volumes::bytes_of(&base), vec![0; 1024]].concat();
    let longer = MemoryDevice::from_bytes(volumes::clock(), &longer);
    let why = with_log(&longer, Some(&bytes), &folder).unwrap_err();
    assert!(why.contains("another state"), "{why}");
    // One byte of the log itself: it is not whole.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    let tree = with_log(&base, Some(&damaged), &folder).unwrap();
    assert!(tree == tree_of(Arc::new(base)).unwrap());
}

#[test]
fn a_host_that_is_full_leaves_the_volume_as_it_was() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = Scratch::new("edit-full");
    for kind in [Kind::EXT4_1K, Kind::EXT2_1K] {
        let base = kind.make();
        let before = tree_of(Arc::new(base.snapshot())).expect("it is read");
        let mut refused = 0;
        // Room for one piece more each time, until it is enough.
        for room in 0.. {
            let log = folder.join("log");
            let device = Arc::new(Filling::new(base.snapshot(), room));
            let done = fill_inodes(&device, &log);
            let tree = tree_of(Arc::new(device.device.snapshot())).expect("it is read");
            assert!(!log.exists(), "{kind:?}, room {room}: {done:?}");
            if done.is_ok() {
                assert_ne!(tree, before, "{kind:?}, room {room}");
                break;
            }
            assert!(tree == before, "{kind:?}, room {room}: changed, but {done:?}");
            refused += 1;
        }
        assert!(refused > 20, "{kind:?}: {refused} times without room");
    }
}
