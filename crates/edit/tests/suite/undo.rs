//! Repairs and undos by a redo log: a cut at any write leaves before or after, an undo is exact,
//! and one that does not fit is refused.
use crate::devices::{Filling, Recorded, Skipped};
use crate::volumes::{self, Kind, bytes_of};
use crate::{media, quick_folder};
use extant_block::{BlockDevice, MemoryDevice, Overlay};
use extant_edit::redo;
use extant_edit::undo::{self, Applied, Keep, Undone};
use extant_format::superblock::state;
use extant_journal::Joined;
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use sha2::Digest;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK_SIZE: u32 = 1024;
/// Blocks that the repair changes, besides that of the superblock.
const MENDED: [u64; 6] = [2, 3, 700, 701, 2500, 4095];

/// The changes of a repair over a device; `mark` tells repairs apart.
fn mended(device: Arc<dyn BlockDevice>, mark: u8) -> Overlay {
    let overlay = Overlay::new(device, BLOCK_SIZE, 1 << 20);
    for number in MENDED {
        overlay.write(number * u64::from(BLOCK_SIZE) + 500, &[mark; 200]).expect("it is kept");
    }
    // The time of the superblock's last write.
    overlay.write(1024 + 0x30, &[mark, 1, 2, 3]).expect("it is kept");
    overlay
}

pub fn repair(device: Arc<dyn BlockDevice>, log: &Path, mark: u8) -> extant_edit::Result<Applied> {
    let identity = volumes::identity(&*device);
    undo::apply(&mended(device, mark), BLOCK_SIZE, (log, &identity), Keep::Undo)
}

fn take_back(device: Arc<dyn BlockDevice>, log: &Path) -> extant_edit::Result<Undone> {
    let identity = volumes::identity(&*device);
    undo::undo(&device, log, &identity)
}

/// What is beside an image.
fn names(folder: &Scratch) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).expect("it is read");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn an_undo_is_exact_and_only_of_what_the_repair_left() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("undo-exact");
    let log = folder.join(".disk.extant-redo");
    let device = Arc::new(Kind::EXT2_1K.make());
    let before = bytes_of(&*device);
    let refused = take_back(device.clone(), &log).expect_err("there is nothing to undo");
    assert!(refused.to_string().contains("no repair to undo"), "{refused}");
    let applied = repair(device.clone(), &log, 7).expect("it is applied");
    assert_eq!(applied.blocks, MENDED.len() as u64 + 1);
    assert_eq!(applied.undo, Some(folder.join(".disk.extant-undo")));
    assert_eq!(names(&folder), [".disk.extant-undo"]);
    let after = bytes_of(&*device);
    assert!(after != before);
    // One byte of a block that it has, and the superblock's time alone.
    for place in [701 * 1024 + 3, 1024 + 0x30] {
        let mut byte = [0];
        device.read(place, &mut byte).unwrap();
        device.write(place, &[!byte[0]]).unwrap();
        let refused = take_back(device.clone(), &log).expect_err("it was changed").to_string();
        assert!(refused.contains("changed after the repair"), "{refused}");
        device.write(place, &byte).unwrap();
        assert!(bytes_of(&*device) == after, "an undo that is refused writes");
    }
    // Another place in the image.
    let identity = redo::Identity { offset: 1 << 20, ..volumes::identity(&*device) };
    let shared = device.clone() as Arc<dyn BlockDevice>;
    undo::undo(&shared, &log, &identity).expect_err("another volume");
    assert_eq!(take_back(device.clone(), &log).expect("undone"), Undone::Blocks(7));
    assert!(bytes_of(&*device) == before, "it is not as it was");
    assert_eq!(names(&folder), Vec::<String>::new());
    // Files of somebody else are not replaced.
    let files = [&log, &folder.join(".disk.extant-undo")];
    for path in files {
        std::fs::write(path, "notes").expect("it is written");
        let file = std::fs::File::open(path).expect("it opens");
        let done = match path == &log {
            true => redo::finish(&log, &file).map(drop),
            false => repair(device.clone(), &log, 7).map(drop),
        };
        assert!(done.expect_err("refused").to_string().contains("not replaced"));
        assert_eq!(std::fs::read(path).expect("it is read"), b"notes");
        assert!(bytes_of(&*device) == before);
        std::fs::remove_file(path).expect("it is removed");
    }
    // Without an undo file, one of before would not fit any more.
    repair(device.clone(), &log, 7).expect("it is applied");
    let identity = volumes::identity(&*device);
    let overlay = mended(device.clone(), 8);
    let applied = undo::apply(&overlay, BLOCK_SIZE, (&log, &identity), Keep::Nothing);
    assert_eq!(applied.expect("it is applied").undo, None);
    assert_eq!(names(&folder), Vec::<String>::new());
}

/// A superblock that ends in its own crc32c, as with metadata_csum, and whose time is the same
/// after the next change: its counters tell.
#[test]
fn a_change_in_the_same_second_is_seen() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let folder = quick_folder("undo-second");
    let path = folder.join("disk");
    let log = redo::path_of(&path).expect("a name");
    let mut mke2fs = program("mke2fs");
    output(mke2fs.args(["-q", "-t", "ext4", "-b", "1024"]).arg(&path).arg("4M")).expect("made");
    let bytes = std::fs::read(&path).expect("it is read");
    // The superblock among what is mended, and not.
    for mends_superblock in [true, false] {
        let device = Arc::new(MemoryDevice::from_bytes(volumes::clock(), &bytes));
        let shared = device.clone() as Arc<dyn BlockDevice>;
        let identity = volumes::identity(&*shared);
        let overlay = Overlay::new(shared.clone(), BLOCK_SIZE, 1 << 20);
        overlay.write(3000 * 1024, &[1; 1024]).unwrap();
        let mut superblock = extant_engine::read_superblock(&*shared).expect("a superblock");
        if mends_superblock {
            superblock.free_blocks -= 1;
            overlay.write(1024, &superblock.encode()).unwrap();
        }
        undo::apply(&overlay, BLOCK_SIZE, (&log, &identity), Keep::Undo).expect("it is applied");
        superblock.free_inodes -= 1;
        device.write(1024, &superblock.encode()).unwrap();
        let refused = take_back(device.clone(), &log).expect_err("it was changed").to_string();
        assert!(refused.contains("changed after the repair"), "{refused}");
    }
}

/// What a repair changes of a journal on another device is written there, and in no file beside the
/// image: who ends the change or undoes it has the image alone.
#[test]
fn what_is_on_another_device_is_in_no_file() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("undo-annex");
    let log = folder.join(".disk.extant-redo");
    let own = Arc::new(Kind::EXT2_1K.make());
    let other = Arc::new(MemoryDevice::new(volumes::clock(), 1 << 20));
    let before = bytes_of(&*own);
    let joined: Arc<dyn BlockDevice> = Arc::new(Joined::new(own.clone(), other.clone()));
    let start = joined.info().bytes - (1 << 20);
    let identity = volumes::identity(&*own);
    for is_both in [true, false] {
        let overlay = match is_both {
            true => mended(joined.clone(), 7),
            false => Overlay::new(joined.clone(), BLOCK_SIZE, 1 << 20),
        };
        let mark = [u8::from(is_both) + 1; 100];
        overlay.write(start + 5000, &mark).expect("it is kept");
        let applied = undo::apply(&overlay, BLOCK_SIZE, (&log, &identity), Keep::Undo);
        let blocks = if is_both { MENDED.len() as u64 + 1 } else { 0 };
        assert_eq!(applied.expect("it is applied").blocks, blocks);
        assert_eq!(bytes_of(&*other)[5000..5100], mark);
    }
    assert!(bytes_of(&*own) != before);
    // By the image alone.
    assert_eq!(take_back(own.clone(), &log).expect("undone"), Undone::Blocks(7));
    assert!(bytes_of(&*own) == before, "it is not as it was");
    assert_eq!(bytes_of(&*other)[5000..5100], [1; 100]);
}

/// A file that somebody names for the log, and that is something else: the image of a disk begins
/// with zeros.
#[test]
fn a_log_is_not_written_over_what_begins_with_zeros() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("undo-zeros");
    let device = Arc::new(Kind::EXT2_1K.make());
    let before = bytes_of(&*device);
    let mut image = vec![0; 4096];
    image[1080] = 0x53;
    for (named, begun) in [("disk.img", "disk.img"), ("log", "log.undo"), ("log", "log.undo-new")] {
        let (log, path) = (folder.join(named), folder.join(begun));
        std::fs::write(&path, &image).expect("it is written");
        let file = std::fs::File::open(&path).expect("it opens");
        let done = match named == begun {
            true => redo::finish(&log, &file).map(drop),
            false => repair(device.clone(), &log, 7).map(drop),
        };
        let refused = done.expect_err("refused").to_string();
        assert!(refused.contains("not replaced") || refused.contains("not removed"), "{refused}");
        assert!(std::fs::read(&path).expect("it is read") == image, "{begun}");
        assert!(bytes_of(&*device) == before, "{begun}");
        std::fs::remove_file(&path).expect("it is removed");
    }
    // By a name that only we give, it is a log that a power cut has emptied.
    let log = redo::path_of(&folder.join("disk")).expect("a name");
    std::fs::write(&log, [0; 4096]).expect("it is written");
    let file = std::fs::File::open(&log).expect("it opens");
    assert_eq!(redo::finish(&log, &file).expect("ended"), redo::Finished::Removed);
}

/// A superblock that was lost has no UUID before, and one after; a cut finds the one or the other.
#[test]
fn a_superblock_that_was_lost_is_brought_and_lost_again() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("undo-superblock");
    let path = redo::path_of(&folder.join("disk")).expect("a name");
    let lost = Kind::EXT2_1K.make();
    let mut superblock = [0; 1024];
    lost.read(1024, &mut superblock).unwrap();
    lost.write(1024, &[0; 1024]).unwrap();
    let repaired = Job::new(lost.snapshot(), &path, |device| {
        let overlay = Overlay::new(device.clone(), BLOCK_SIZE, 1 << 20);
        overlay.write(1024, &superblock).unwrap();
        overlay.write(700 * 1024, &[1; 1024]).unwrap();
        let identity = volumes::identity(&*device);
        undo::apply(&overlay, BLOCK_SIZE, (&path, &identity), Keep::Undo).expect("it is applied");
    });
    let base = MemoryDevice::from_bytes(volumes::clock(), &repaired.ends[1]);
    let undone = Job::new(base, &path, |device| drop(take_back(device, &path)));
    assert!(undone.ends[1] == repaired.ends[0], "it is not as it was");
    for job in [repaired, undone] {
        let mut seen = [0, 0];
        job.each(|medium, log, at| {
            let bytes = bytes_of(&*ended(medium, (log, &[]), &folder).1);
            assert!(job.ends.contains(&bytes), "{at}: neither before nor after");
            seen[usize::from(bytes == job.ends[1])] += 1;
        });
        assert!(seen[0] > 3 && seen[1] > 8, "{seen:?}");
    }
}

/// A device that ends within its last block.
#[test]
fn a_last_block_that_is_cut_is_written_as_far_as_it_goes() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("undo-last");
    let bytes = bytes_of(&Kind::EXT2_1K.make());
    let cut = &bytes[..bytes.len() - 300];
    let device = Arc::new(MemoryDevice::from_bytes(volumes::clock(), cut));
    let log = folder.join("log");
    repair(device.clone(), &log, 9).expect("it is applied");
    assert_eq!(bytes_of(&*device)[4095 * 1024 + 500..][..200], [9; 200]);
    take_back(device.clone(), &log).expect("it is undone");
    assert!(bytes_of(&*device) == cut);
}

/// Called with a medium, the log that is beside it, and words for the moment.
pub type JudgeOfMedium<'a> = dyn FnMut(&MemoryDevice, Option<&[u8]>, &str) + 'a;

/// What was done, as a cut finds it.
pub struct Job {
    recorded: Arc<Recorded>,
    base: MemoryDevice,
    /// The redo log, and after how many events it was whole; what has none is empty, at the end.
    log: (usize, Vec<u8>),
    /// After how many events it was gone.
    gone: usize,
    /// The bytes before and after.
    pub ends: [Vec<u8>; 2],
}

impl Job {
    pub fn new(base: MemoryDevice, log: &Path, work: impl FnOnce(Arc<Recorded>)) -> Job {
        let recorded =
            Arc::new(Recorded::new(base.snapshot(), Skipped::None, Some(log.to_owned())));
        work(recorded.clone());
        assert!(recorded.whole_log().is_some(), "a log was written");
        Job::of(recorded, base)
    }

    /// What was done to a device that was like `base`, by a redo log or without one.
    pub fn of(recorded: Arc<Recorded>, base: MemoryDevice) -> Job {
        let ends = [bytes_of(&base), bytes_of(&*recorded)];
        let (moments, gone) = (recorded.log.moments(), recorded.log_gone());
        let log = recorded.whole_log().unwrap_or((moments, Vec::new()));
        Job { recorded, base, log, gone, ends }
    }

    /// The moments around each flush, and of the others one in so many.
    pub fn moments(&self, step: usize, seed: usize) -> Vec<usize> {
        let (flushes, moments) = (self.recorded.flush_moments(), self.recorded.log.moments());
        let marks = [self.log.0, self.gone, moments];
        let is_near = |at: usize| flushes.iter().chain(&marks).any(|one| one.abs_diff(at) < 2);
        (0..=moments).filter(|at| (at + seed).is_multiple_of(step) || is_near(*at)).collect()
    }

    /// Calls `judge` with each medium, each log that may be beside it, and words for the moment.
    pub fn each(&self, judge: impl FnMut(&MemoryDevice, Option<&[u8]>, &str)) {
        self.each_of((0..=self.recorded.log.moments()).collect(), judge);
    }

    /// The same at some moments.
    pub fn each_of(
        &self,
        moments: Vec<usize>,
        mut judge: impl FnMut(&MemoryDevice, Option<&[u8]>, &str),
    ) {
        self.each_medium_of(moments, &mut |medium, log, at| {
            assert!(self.is_whole_or_unclean(medium), "{at}: torn, and says it is clean");
            judge(medium, log, at);
        });
    }

    /// The same, where free blocks are written before the log, too.
    pub fn each_medium(&self, judge: &mut JudgeOfMedium<'_>) {
        self.each_medium_of((0..=self.recorded.log.moments()).collect(), judge);
    }

    /// The same at some moments, and where something is written after the log is gone.
    pub fn each_medium_of(&self, cuts: Vec<usize>, judge: &mut JudgeOfMedium<'_>) {
        let (begun, bytes) = &self.log;
        let moments = self.recorded.log.moments();
        media((&self.recorded, &self.base), (cuts, 2), &mut |moment, (words, _), medium| {
            let torn = &bytes[..bytes.len() * (moment % 7) / 7];
            let at = format!("moment {moment} of {moments}, {words}");
            let logs: &[Option<&[u8]>] = match moment {
                _ if bytes.is_empty() || moment > self.gone => &[None],
                _ if moment < *begun => &[None, Some(torn)],
                _ if moment == *begun => &[None, Some(torn), Some(bytes)],
                _ if moment == self.gone => &[Some(bytes), None],
                _ => &[Some(bytes)],
            };
            logs.iter().for_each(|log| judge(&medium, *log, &at));
        });
    }

    /// Whether a medium is as before or after, or tells programs that know of no log that it is not
    /// clean.
    fn is_whole_or_unclean(&self, medium: &MemoryDevice) -> bool {
        let superblock = extant_engine::read_superblock(medium);
        let says_clean = superblock.is_ok_and(|found| found.state & state::CLEAN != 0);
        !says_clean || self.ends.contains(&bytes_of(medium))
    }
}

/// A file beside an image: its path, and its bytes.
pub type Beside<'a> = (&'a Path, &'a [u8]);

/// An image with files beside it, as the host has them after a cut; ended by the next program.
pub fn ended(
    medium: &MemoryDevice,
    (log, files): (Option<&[u8]>, &[Beside<'_>]),
    folder: &Scratch,
) -> (PathBuf, Arc<dyn BlockDevice>) {
    let image = folder.join("disk");
    medium.save(&image).expect("it is saved");
    let path = redo::path_of(&image).expect("a name");
    for (path, bytes) in log.map(|log| (&*path, log)).iter().chain(files) {
        std::fs::write(path, bytes).expect("it is written");
    }
    let file = OpenOptions::new().read(true).write(true).open(&image).expect("it opens");
    redo::finish(&path, &file).expect("it is ended");
    assert!(!path.exists(), "the log is gone");
    let bytes = std::fs::read(&image).expect("it is read");
    (path, Arc::new(MemoryDevice::from_bytes(volumes::clock(), &bytes)))
}

#[test]
fn a_cut_of_a_repair_leaves_before_or_after_and_no_undo_that_lies() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("undo-cuts");
    let path = redo::path_of(&folder.join("disk")).expect("a name");
    let (undo_path, pending) = (undo::path_of(&path, 0), folder.join(".disk.extant-undo-new"));
    // An earlier repair, whose undo is lost only when the next one is decided.
    let base = Arc::new(Kind::EXT2_1K.make());
    let first = bytes_of(&*base);
    repair(base.clone(), &path, 3).expect("it is applied");
    let earlier = std::fs::read(&undo_path).expect("the undo file");
    let job = Job::new(base.snapshot(), &path, |device| drop(repair(device, &path, 4)));
    let new = std::fs::read(&undo_path).expect("the undo file");
    assert!(earlier != new);
    let (mut seen, torn) = ([0, 0], &new[..new.len() / 2]);
    job.each(|medium, log, at| {
        // The undo file is whole under its second name before the log is begun.
        let kept: &[&[(&Path, &[u8])]] = match log {
            None if at.starts_with(&format!("moment {} ", job.recorded.log.moments())) => {
                &[&[(&undo_path, &new)]]
            }
            None => &[&[(&undo_path, &earlier), (&pending, torn)], &[(&undo_path, &earlier)]],
            Some(log) if log.len() < job.log.1.len() => {
                &[&[(&undo_path, &earlier), (&pending, &new)]]
            }
            Some(_) => &[&[(&undo_path, &earlier), (&pending, &new)], &[(&undo_path, &new)]],
        };
        for files in kept {
            names(&folder).iter().for_each(|name| std::fs::remove_file(folder.join(name)).unwrap());
            let (path, device) = ended(medium, (log, files), &folder);
            let bytes = bytes_of(&*device);
            let is_after = bytes == job.ends[1];
            assert!(is_after || bytes == job.ends[0], "{at}: neither before nor after");
            seen[usize::from(is_after)] += 1;
            assert!(!pending.exists(), "{at}: a leftover");
            let wanted = if is_after { &job.ends[0] } else { &first };
            take_back(device.clone(), &path).expect(at);
            assert!(bytes_of(&*device) == *wanted, "{at}: another state");
        }
    });
    assert!(seen[0] > 3 && seen[1] > 20, "{seen:?}");
}

#[test]
fn a_cut_of_an_undo_is_ended_later() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("undo-cut-undo");
    let path = redo::path_of(&folder.join("disk")).expect("a name");
    let undo_path = undo::path_of(&path, 0);
    let base = Arc::new(Kind::EXT2_1K.make());
    repair(base.clone(), &path, 5).expect("it is applied");
    let file = std::fs::read(&undo_path).expect("the undo file");
    let job = Job::new(base.snapshot(), &path, |device| drop(take_back(device, &path)));
    assert!(job.ends[0] != job.ends[1], "nothing was undone");
    let mut seen = [0, 0];
    job.each(|medium, log, at| {
        let (path, device) = ended(medium, (log, &[(&undo_path, &file)]), &folder);
        let is_undone = bytes_of(&*device) == job.ends[1];
        assert!(is_undone || bytes_of(&*device) == job.ends[0], "{at}: neither");
        seen[usize::from(is_undone)] += 1;
        let again = take_back(device.clone(), &path).expect(at);
        assert_eq!(again == Undone::Already, is_undone, "{at}");
        assert!(bytes_of(&*device) == job.ends[1] && !undo_path.exists(), "{at}");
    });
    assert!(seen[0] > 3 && seen[1] > 20, "{seen:?}");
}

/// Writes a file with a digest that fits.
fn sealed(path: &Path, bytes: &[u8]) {
    let digest = sha2::Sha256::digest(bytes);
    std::fs::write(path, [bytes, &digest].concat()).expect("it is written");
}

#[test]
fn a_hostile_undo_file_is_refused() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("undo-hostile");
    let log = folder.join("log");
    let path = undo::path_of(&log, 0);
    let device = Arc::new(Kind::EXT2_1K.make());
    repair(device.clone(), &log, 6).expect("it is applied");
    let after = bytes_of(&*device);
    let whole = std::fs::read(&path).expect("the undo file");
    let body = &whole[..whole.len() - 32];
    let record = 12 + BLOCK_SIZE as usize;
    for (place, bytes) in [
        (8, u64::MAX.to_le_bytes()),                    // block size
        (8, 3000_u64.to_le_bytes()),                    // no power of two
        (56, u64::MAX.to_le_bytes()),                   // records: overflows
        (56, (1_u64 << 50).to_le_bytes()),              // records: more than there are
        (40, 1_u64.to_le_bytes()),                      // bytes of the image
        (48, 0_u64.to_le_bytes()),                      // time of the superblock
        (16, [0; 8]),                                   // UUID
        (64 + record, 0_u64.to_le_bytes()),             // numbers that do not rise
        (64 + 6 * record, u64::MAX.to_le_bytes()),      // a block beyond the end
        (64 + 6 * record, (1_u64 << 54).to_le_bytes()), // one whose byte overflows
    ] {
        let mut hostile = body.to_vec();
        hostile[place..place + 8].copy_from_slice(&bytes);
        sealed(&path, &hostile);
        let done = take_back(device.clone(), &log);
        assert!(done.is_err(), "byte {place}: {done:?}");
        assert!(bytes_of(&*device) == after, "byte {place}");
    }
    for length in [0, 8, 63, 95, 96, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).expect("it is written");
        take_back(device.clone(), &log).expect_err("it is short");
    }
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    take_back(device.clone(), &log).expect_err("it is a link");
    std::fs::remove_file(&path).unwrap();
    sealed(&path, body);
    take_back(device, &log).expect("its own is right");
}

/// The image has holes that the host has no room for.
#[test]
fn a_host_without_room_for_the_image_leaves_it_and_nothing_beside_it() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = quick_folder("undo-full");
    let log = folder.join("log");
    let base = Kind::EXT2_1K.make();
    for room in 0.. {
        let device = Arc::new(Filling::new(base.snapshot(), room));
        match repair(device.clone(), &log, 7) {
            Ok(_) => {
                assert!(room > 2, "no hole was filled");
                break;
            }
            Err(error) => {
                assert!(bytes_of(&device.device) == bytes_of(&base), "room {room}: {error}");
                assert_eq!(names(&folder), Vec::<String>::new(), "room {room}: {error}");
            }
        }
    }
}

/// A file system of the host that becomes full in the undo file, in the log, or not at all.
#[test]
fn a_host_without_room_for_the_files_leaves_the_image_and_no_leftovers() {
    if !oracle::require("mke2fs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("undo-room");
    let disk = folder.join("disk.img");
    output(program("mke2fs").args(["-q", "-F", "-b", "1024", "-m", "0"]).arg(&disk).arg("128K"))
        .expect("mke2fs makes it");
    let mounted = oracle::mount_loop(&disk, oracle::Access::ReadWrite, "").expect("it mounts");
    let base = Kind::EXT2_1K.make();
    let (log, ballast) = (mounted.path().join("log"), mounted.path().join("ballast"));
    let count = || std::fs::read_dir(mounted.path()).expect("it is read").count();
    let (empty, mut failures) = (count(), [0, 0]);
    for taken in (0..=100).rev().step_by(2) {
        let _ = std::fs::write(&ballast, vec![1; taken << 10]);
        let device = Arc::new(base.snapshot());
        let done = repair(device.clone(), &log, 8);
        std::fs::remove_file(&ballast).expect("it is removed");
        match done {
            Ok(_) => {
                assert_eq!(count(), empty + 1, "the undo file alone");
                break;
            }
            Err(error) => {
                assert!(error.hint.is_some(), "{error}");
                assert!(bytes_of(&*device) == bytes_of(&base), "{taken} KiB: {error}");
                assert_eq!(count(), empty, "{taken} KiB: {error}");
                failures[usize::from(error.to_string().contains("log: "))] += 1;
            }
        }
    }
    assert!(failures[0] > 0 && failures[1] > 0, "undo file, log: {failures:?}");
}
