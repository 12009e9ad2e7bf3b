//! What is left of a volume whose device failed: reads give what was written last, or an error, but
//! never what was there before; the failure is noted for the next program; an image that is cut
//! under an open volume gives errors, and the volume can be closed.
use crate::volume;
use extant_block::capability::Capabilities;

use extant_block::file::{Access as FileAccess, FileDevice};
use extant_block::{BlockDevice, Clock, DeviceInfo, MemoryDevice, Operation, RealClock, Request};
use extant_engine::mkfs::Profile;
use extant_engine::{ErrorKind, Filesystem, Options, Rename, read_superblock};
use extant_format::inode::{Device, FileType};
use extant_journal::{Journal, MapSource};
use extant_sim::{Fault, Faulty};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use volume::{KIB, MIB, Specification, patience};

const ROWS: [(Profile, &str); 5] = [
    (Profile::Ext4, "modern"),
    (Profile::Ext4, "modern,journal=data"),
    (Profile::Ext3, "modern"),
    (Profile::Ext2, "modern"),
    (Profile::Ext2, "linux-2.4"),
];

fn specification((profile, policies): (Profile, &'static str), bytes: u64) -> Specification {
    Specification {
        policies,
        cache_bytes: MIB as usize,
        ..Specification::new(profile, 1024, bytes)
    }
}

fn open(device: &Arc<Faulty<Arc<MemoryDevice>>>, options: &Options) -> Filesystem {
    Filesystem::open(Arc::clone(device) as Arc<dyn BlockDevice>, options).expect("opens")
}

#[test]
fn what_could_not_be_written_is_never_read_as_it_was_before() {
    for row in ROWS {
        let specification = specification(row, 32 * MIB);
        let memory = specification.make(RealClock::new());
        let device = Arc::new(Faulty::new(memory));
        let volume = open(&device, &specification.options());
        let (old, new) = (vec![b'o'; 200 * KIB as usize], vec![b'n'; 200 * KIB as usize]);
        volume.write("/file", &old).expect("writes");
        for number in 0..40 {
            volume.write(format!("/other {number}"), &[b'x'; 100 * KIB as usize]).expect("writes");
        }
        volume.sync().expect("syncs");
        for number in 0..40 {
            let read = volume.read(format!("/other {number}")).expect("reads");
            assert!(read == [b'x'; 100 * KIB as usize], "{specification}: before");
        }
        // Over the old bytes, in the same blocks.
        let file = volume.open_file("/file").expect("opens");
        device.add(Fault::WritesAfter(0));
        let mut written = 0;
        for at in (0..new.len()).step_by(4096) {
            let end = (at + 4096).min(new.len());
            match file.write_all_at(at as u64, &new[at..end]) {
                Ok(()) => written = end,
                // Its flusher met the failure.
                Err(_) => break,
            }
        }
        assert!(file.sync().is_err(), "{specification}: nothing failed");
        // What is read now takes the memory of what is not dirty any more.
        for _ in 0..3 {
            for number in 0..40 {
                let read = volume.read(format!("/other {number}")).expect("reads");
                let wrong = read.iter().position(|byte| *byte != b'x');
                assert_eq!((wrong, read.len()), (None, 100 * KIB as usize), "{specification}");
            }
        }
        volume.inodes().drop_all();
        match volume.read("/file") {
            Ok(read) => {
                let wrong = read[..written].iter().position(|byte| *byte != b'n');
                assert_eq!(wrong, None, "{specification}: an old byte, of {written} written");
            }
            Err(error) => assert_eq!(error.errno(), 5, "{specification}: {error}"),
        }
        drop(file);
        let error = volume.close().expect_err("nothing more is written");
        assert_eq!(error.errno(), 5, "{specification}: {error}");
    }
}

/// Files whose names and sizes are changed, in one directory.
const CHANGED: u64 = 60;
/// Other directories, and files in each: more than the cache may hold of their metadata, also in
/// each of the 16 parts of it that 32 adjacent blocks share.
const OTHERS: (u64, u64) = (32, 100);

/// A closed volume with files in directories.
fn volume_of_names(specification: &Specification) -> Arc<MemoryDevice> {
    let memory = specification.make(RealClock::new());
    let volume = specification.open(&memory).expect("opens");
    volume.create_dir("/changed", 0o755).expect("a directory");
    for number in 0..CHANGED {
        volume.write(format!("/changed/old-{number}"), &[b'o'; 100]).expect("writes");
    }
    for directory in 0..OTHERS.0 {
        volume.create_dir(format!("/other {directory}"), 0o755).expect("a directory");
        for number in 0..OTHERS.1 {
            let path = format!("/other {directory}/{number}");
            let made = volume.make_node(path, FileType::Regular, 0o644, Device::default());
            made.expect("a file");
        }
    }
    volume.close().expect("closes");
    memory
}

/// The name and the size that a file has now.
fn change_one(volume: &Filesystem, number: u64) -> extant_engine::Result<()> {
    let (old, new) = (format!("/changed/old-{number}"), format!("/changed/new-{number}"));
    volume.open_file(&old)?.set_len(1000 + number)?;
    volume.rename(&old, &new, Rename::Replace)
}

/// Reads all other metadata, so that the memory of what is clean is taken, and then the names and
/// sizes of the `changed` first files: they are the new ones, or there is an error.
fn names_and_sizes_are_new(volume: &Filesystem, changed: u64, name: &str) {
    for _ in 0..3 {
        volume.inodes().drop_all();
        for directory in 0..OTHERS.0 {
            let listed = volume.read_dir(format!("/other {directory}")).expect("lists");
            assert_eq!(listed.len() as u64, OTHERS.1, "{name}");
            for number in 0..OTHERS.1 {
                let other = volume.metadata(format!("/other {directory}/{number}"));
                assert_eq!(other.expect("is there").size, 0, "{name}");
            }
        }
    }
    volume.inodes().drop_all();
    let is_io = |error: &extant_engine::Error| error.errno() == 5;
    match volume.read_dir("/changed") {
        Ok(listed) => {
            let names: Vec<_> =
                listed.iter().map(|entry| String::from_utf8_lossy(&entry.name)).collect();
            let has = |word: &str, number| names.contains(&format!("{word}-{number}").into());
            for number in 0..changed {
                let found = (has("old", number), has("new", number));
                assert_eq!(found, (false, true), "{name}: old and new name {number} are listed");
            }
        }
        Err(error) => assert!(is_io(&error), "{name}: {error}"),
    }
    for number in 0..changed {
        match volume.metadata(format!("/changed/new-{number}")) {
            Ok(found) => assert_eq!(found.size, 1000 + number, "{name}: size of file {number}"),
            Err(error) => assert!(is_io(&error), "{name}: name {number}: {error}"),
        }
        let old = volume.metadata(format!("/changed/old-{number}")).expect_err("has another name");
        assert!(is_io(&old) || matches!(old.kind, ErrorKind::NotFound), "{name}: {old}");
    }
}

fn specification_of_names(row: (Profile, &'static str)) -> Specification {
    // One group, so that its table is in one piece.
    Specification { inodes: 3600, ..specification(row, 8 * MIB) }
}

#[test]
fn names_and_sizes_that_could_not_be_written_are_never_read_as_they_were_before() {
    // In stages too, of which those after the failure are not written at all.
    let staged =
        ["modern,journal=none,data-order=data-first", "modern,journal=none,mount=soft-updates"];
    let rows = ROWS.into_iter().chain(staged.map(|policies| (Profile::Ext2, policies)));
    // All writes fail, or those after the first.
    for (row, kept) in rows.flat_map(|row| [0, 1].map(|kept| (row, kept))) {
        let specification = specification_of_names(row);
        let name = format!("{specification}, {kept} writes");
        let device = Arc::new(Faulty::new(volume_of_names(&specification)));
        let volume = open(&device, &specification.options());
        device.repair();
        device.add(Fault::WritesAfter(kept));
        let mut changed = 0;
        // Its flusher may meet the failure first.
        while changed < CHANGED && change_one(&volume, changed).is_ok() {
            changed += 1;
        }
        assert!(volume.sync().is_err(), "{name}: nothing failed");
        names_and_sizes_are_new(&volume, changed, &name);
        assert!(changed > 5, "{name}: {changed} were changed");
        assert_eq!(volume.close().expect_err("it is not whole").errno(), 5, "{name}");
    }
}

/// A device on which, once it has to, every write fails but those to the log.
struct OnlyLog {
    device: Arc<MemoryDevice>,
    log: Vec<Range<u64>>,
    fails: AtomicBool,
}

impl BlockDevice for OnlyLog {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        let is_log = self.log.iter().any(|run| run.contains(&request.offset));
        match request.operation == Operation::Write && !is_log && self.fails.load(Ordering::Acquire)
        {
            true => request.complete(Err(io::Error::from_raw_os_error(5))),
            false => self.device.submit(request),
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.device.read(offset, bytes)
    }
}

#[test]
fn what_a_checkpoint_could_not_write_is_never_read_as_it_was_before() {
    let rows = ROWS.into_iter().filter(|(profile, _)| *profile != Profile::Ext2);
    for row in rows {
        let specification = specification_of_names(row);
        let name = specification.to_string();
        let memory = volume_of_names(&specification);
        let journal = Journal::find(Arc::clone(&memory) as _, MapSource::Inode);
        let journal = journal.expect("it is sound").expect("a journal");
        let count = journal.superblock().blocks;
        let (mut log, mut at) = (Vec::new(), 0);
        while at < count {
            let run = journal.place(at..count);
            let start = run.start.0 * KIB;
            log.push(start..start + u64::from(run.length) * KIB);
            at += run.length;
        }
        let device = Arc::new(OnlyLog { device: memory, log, fails: AtomicBool::new(false) });
        let volume = Filesystem::open(Arc::clone(&device) as _, &specification.options());
        let volume = volume.expect("opens");
        // From here on the volume's superblock asks for recovery.
        volume.create_dir("/first", 0o755).expect("a directory");
        volume.sync().expect("syncs");
        device.fails.store(true, Ordering::Release);
        let committed = volume.journal_counts().expect("a journal").commits;
        let mut sizes = BTreeMap::new();
        for round in 0..20_000 {
            let number = round % CHANGED;
            let path = format!("/changed/old-{number}");
            let changed = || volume.open_file(&path)?.set_len(2000 + round);
            if changed().is_err() {
                break;
            }
            sizes.insert(path, 2000 + round);
            if volume.sync().is_err() {
                break;
            }
        }
        let counts = volume.journal_counts().expect("a journal");
        assert!(counts.commits > committed + 3, "{name}: {counts:?}");
        assert!(volume.sync().is_err(), "{name}: no checkpoint failed");
        names_and_sizes_are_new(&volume, 0, &name);
        for (path, size) in sizes {
            match volume.metadata(&path) {
                Ok(found) => assert_eq!(found.size, size, "{name}: {path}"),
                Err(error) => assert_eq!(error.errno(), 5, "{name}: {path}: {error}"),
            }
        }
        assert_eq!(volume.close().expect_err("it is not whole").errno(), 5, "{name}");
    }
}

#[test]
fn the_failure_is_noted_for_the_next_program() {
    for row in ROWS {
        let specification = specification(row, 32 * MIB);
        let memory = specification.make(RealClock::new());
        let device = Arc::new(Faulty::new(Arc::clone(&memory)));
        let volume = open(&device, &specification.options());
        volume.write("/file", &[1; 5000]).expect("writes");
        volume.sync().expect("syncs");
        let before = read_superblock(&*memory).expect("a superblock");
        assert_eq!((before.state & 2, before.error_count()), (0, 0), "{specification}");
        device.add(Fault::NthWrite(u64::MAX));
        device.add(Fault::Flushes);
        volume.write("/file", &[2; 5000]).expect("is in memory");
        assert!(volume.sync().is_err(), "{specification}: nothing failed");
        assert!(volume.create_dir("/late", 0o755).is_err(), "{specification}");
        device.repair();
        assert!(volume.close().is_err(), "{specification}: nothing was said");
        // The flush of the note failed too, and nothing more is tried; but it was written.
        let after = read_superblock(&*memory).expect("a superblock");
        assert_eq!((after.state & 2, after.error_count()), (2, 1), "{specification}");
        if oracle::require("dumpe2fs") {
            let folder = Scratch::new("noted");
            let image = folder.join("volume.img");
            memory.save(&image).expect("saves");
            let said = oracle::dumpe2fs(&image).expect("it reads the image");
            let text = format!("{said:?}");
            assert!(text.contains("EIO"), "{specification}: {text}");
        }
        // The next to open it knows, and hands it on when it closes.
        let volume = specification.open(&memory).expect("opens");
        assert_eq!(volume.superblock().state & 2, 2, "{specification}");
        volume.close().expect("closes");
        let last = read_superblock(&*memory).expect("a superblock");
        assert_eq!(last.state & 2, 2, "{specification}: the error was forgotten");
    }
}

/// Files of a MiB that nearly fill the volume.
const FILES: u64 = 18;

fn image(specification: &Specification, path: &Path) {
    let memory = specification.make(RealClock::new());
    memory.save(path).expect("saves");
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|file| file.set_len(specification.bytes))
        .expect("an image");
}

/// How many files were read whole, and how many with an error.
fn count(contents: Vec<extant_engine::Result<Vec<u8>>>, name: &str) -> (u32, u32) {
    let (mut whole, mut errors) = (0, 0);
    for content in contents {
        match content {
            Ok(content) => {
                assert!(content == vec![7; MIB as usize], "{name}: other bytes");
                whole += 1;
            }
            Err(error) => {
                assert_eq!(error.errno(), 5, "{name}: {error}");
                errors += 1;
            }
        }
    }
    (whole, errors)
}

#[test]
fn an_image_that_is_cut_under_its_volume_gives_errors() {
    for row in ROWS {
        let specification = specification(row, 32 * MIB);
        let name = specification.to_string();
        let run = move || {
            let folder = Scratch::new("cut");
            let path = folder.join("volume.img");
            image(&specification, &path);
            let device = FileDevice::open(RealClock::new(), &path, FileAccess::ReadWrite, 0);
            let device: Arc<dyn BlockDevice> = Arc::new(device.expect("a device"));
            let volume = Filesystem::open(device, &specification.options()).expect("opens");
            for number in 0..FILES {
                volume.write(format!("/{number}"), &vec![7; MIB as usize]).expect("writes");
            }
            volume.sync().expect("syncs");
            volume.inodes().drop_all();
            let host = std::fs::OpenOptions::new().write(true).open(&path).expect("opens");
            let (whole, errors) = loop {
                host.set_len(16 * MIB).expect("cuts");
                let read = |number| volume.read(format!("/{number}"));
                let contents: Vec<_> = (0..FILES).map(read).collect();
                // A write that had begun before the cut makes the image longer again, with zeros.
                if host.metadata().expect("is there").len() == 16 * MIB {
                    break count(contents, &specification.to_string());
                }
                volume.inodes().drop_all();
            };
            assert!(whole > 0 && errors > 0, "{specification}: {whole} whole, {errors} errors");
            // What is written there must not make the image longer, with zeros where the other
            // files were.
            let refused = (0..FILES).filter(|number| {
                let write = || {
                    let file = volume.open_file(format!("/{number}"))?;
                    file.write_all_at(0, &vec![8; MIB as usize])?;
                    file.sync()
                };
                let outcome: extant_engine::Result<()> = write();
                outcome.is_err_and(|error| error.errno() == 5)
            });
            assert!(refused.count() > 0, "{specification}: everything found a place");
            assert_eq!(host.metadata().expect("is there").len(), 16 * MIB, "{specification}");
            let error = volume.close().expect_err("it is not whole");
            assert!(matches!(error.kind, ErrorKind::Device(_)), "{specification}: {error}");
        };
        patience::within(300, &name, run).unwrap_or_else(|said| panic!("{name}: {said}"));
    }
}
