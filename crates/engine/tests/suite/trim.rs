//! Free space is given back to the device: an image gets holes, what files hold stays, and no power
//! cut takes anything that was durable.
use crate::volume;
use extant_block::capability::Capabilities;

use extant_block::device::DeviceInfo;
use extant_block::file::{Access as FileAccess, FileDevice};
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock, Request};
use extant_engine::mkfs::Profile;
use extant_engine::{Filesystem, read_superblock, recover};
use extant_sim::CrashLog;
use extant_testkit::scratch::Scratch;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use volume::{KIB, MIB, Random, Specification, judge};

const ROWS: [(Profile, u32, &str); 4] = [
    (Profile::Ext4, 4096, "modern"),
    (Profile::Ext4, 1024, "modern,journal=data"),
    (Profile::Ext2, 1024, "modern"),
    (Profile::Ext2, 1024, "linux-2.4"),
];

fn specification((profile, block_size, policies): (Profile, u32, &'static str)) -> Specification {
    Specification { policies, ..Specification::new(profile, block_size, 48 * MIB) }
}

#[test]
fn an_image_gets_holes_where_files_were() {
    for row in ROWS {
        let specification = specification(row);
        let folder = Scratch::new("trim");
        let path = folder.join("volume.img");
        let memory = specification.make(RealClock::new());
        memory.save(&path).expect("saves");
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(specification.bytes))
            .expect("an image");
        let open = || {
            let device = FileDevice::open(RealClock::new(), &path, FileAccess::ReadWrite, 0);
            let device: Arc<dyn BlockDevice> = Arc::new(device.expect("a device"));
            Filesystem::open(device, &specification.options()).expect("opens")
        };
        let volume = open();
        let content = |number: u64| vec![number as u8 + 1; 300 * KIB as usize];
        for number in 0..100 {
            volume.write(format!("/{number}"), &content(number)).expect("writes");
        }
        volume.sync().expect("syncs");
        for number in (0..100).filter(|number| number % 3 > 0) {
            volume.remove_file(format!("/{number}")).expect("removes");
        }
        // A checkpoint that is made in the background would take room while it is measured.
        volume.close().expect("closes");
        let volume = open();
        let taken = || std::fs::metadata(&path).expect("is there").blocks() * 512;
        let before = taken();
        let all = u64::MAX;
        // Only runs that are long enough; only in the range.
        assert_eq!(volume.trim(47 * MIB, all, 2 * MIB).expect("trims"), 0, "{specification}");
        assert_eq!(taken(), before, "{specification}");
        let trimmed = volume.trim(0, all, 0).expect("trims");
        let statfs = volume.statfs();
        assert!(trimmed >= 15 * MIB, "{specification}: {trimmed} bytes");
        assert!(trimmed <= (statfs.free_blocks + statfs.reserved_blocks) * 4096, "{trimmed}");
        assert!(taken() + 15 * MIB <= before, "{specification}: {before}, then {}", taken());
        volume.inodes().drop_all();
        for number in (0..100).step_by(3) {
            let read = volume.read(format!("/{number}")).expect("reads");
            assert!(read == content(number), "{specification}: {number}");
        }
        // What was given back is given to new files.
        volume.write("/new", &vec![9; 10 * MIB as usize]).expect("writes");
        assert!(volume.read("/new").expect("reads") == vec![9; 10 * MIB as usize]);
        volume.close().expect("closes");
        let bytes = std::fs::read(&path).expect("reads");
        let memory = MemoryDevice::from_bytes(RealClock::new(), &bytes);
        if extant_testkit::oracle::require("e2fsck") {
            judge(&memory).unwrap_or_else(|said| panic!("{specification}: {said}"));
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_as_linux_refuses_it() {
    let specification = specification(ROWS[0]);
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    let errno = |start, length, minimum| {
        volume.trim(start, length, minimum).map_or_else(|error| error.errno(), |_| 0)
    };
    assert_eq!(errno(specification.bytes, u64::MAX, 0), 22);
    assert_eq!(errno(0, 4095, 0), 22);
    assert_eq!(errno(0, u64::MAX, (32768 * 4096) + 1), 22);
    assert_eq!(errno(specification.bytes - 1, 4096, 0), 0);
    volume.close().expect("closes");
    // A device that gives nothing back.
    struct Plain(Arc<MemoryDevice>);
    impl BlockDevice for Plain {
        fn info(&self) -> DeviceInfo {
            self.0.info()
        }
        fn clock(&self) -> &Arc<dyn Clock> {
            self.0.clock()
        }
        fn submit(&self, request: Request) {
            self.0.submit(request)
        }
        fn capabilities(&self) -> Capabilities<'_> {
            Capabilities::NONE
        }
    }
    let plain = Arc::new(Plain(device));
    let volume = Filesystem::open(plain, &specification.options()).expect("opens");
    assert_eq!(volume.trim(0, u64::MAX, 0).expect_err("is refused").errno(), 95);
    volume.write("/file", b"goes on").expect("writes");
    volume.close().expect("closes");
}

/// Writers whose files grow and go, on a volume that is nearly full, while it is trimmed.
#[test]
fn writers_and_trims_do_not_meet() {
    for row in [ROWS[0], ROWS[2]] {
        let specification = Specification { bytes: 24 * MIB, ..specification(row) };
        let clock = RealClock::new();
        let device = specification.make(clock.clone());
        let volume = specification.open(&device).expect("opens");
        let ended = Arc::new(AtomicBool::new(false));
        let (until, trimmed) = (Arc::clone(&ended), volume.clone());
        let trimmer = clock.spawn(
            "trimmer",
            Box::new(move || {
                while !until.load(Ordering::Acquire) {
                    trimmed.trim(0, u64::MAX, 0).expect("trims");
                }
            }),
        );
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let volume = volume.clone();
                let body = move || {
                    let mut random = Random::new(writer);
                    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
                    for number in 0..150 {
                        let path = format!("/{writer}-{}", random.below(8));
                        let content = vec![number as u8; random.below(600 * KIB) as usize];
                        volume.write(&path, &content).expect("there is room");
                        files.insert(path, content);
                        let path = format!("/{writer}-{}", random.below(8));
                        if let Some(content) = files.get(&path) {
                            assert!(volume.read(&path).expect("reads") == *content, "{path}");
                        }
                        if random.one_in(4) && files.remove(&path).is_some() {
                            volume.remove_file(&path).expect("removes");
                        }
                        if random.one_in(10) {
                            volume.sync().expect("syncs");
                            volume.inodes().drop_all();
                        }
                    }
                    for (path, content) in &files {
                        assert!(volume.read(path).expect("reads") == *content, "{path}");
                    }
                };
                clock.spawn("writer", Box::new(body))
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join());
        ended.store(true, Ordering::Release);
        trimmer.join();
        volume.close().expect("closes");
        if extant_testkit::oracle::require("e2fsck") {
            judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        }
    }
}

/// A file that was synced, with the number of events after which it may be gone again.
struct Durable {
    since: usize,
    until: usize,
    content: Vec<u8>,
}

#[test]
fn a_power_cut_takes_nothing_that_was_durable() {
    for (row, seed) in ROWS[..3].iter().zip(1..) {
        let specification = Specification { bytes: 24 * MIB, ..specification(*row) };
        let base = specification.make(RealClock::new());
        let log = Arc::new(CrashLog::new(Arc::new(base.snapshot())));
        let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(device, &specification.options()).expect("opens");
        let mut random = Random::new(seed);
        let mut durable: BTreeMap<String, Vec<Durable>> = BTreeMap::new();
        let mut trimmed = 0;
        for number in 0..120_u64 {
            let path = format!("/{}", random.below(12));
            match random.below(5) {
                0 | 1 if volume.metadata(&path).is_err() => {
                    let content = vec![number as u8 + 1; 1 + random.below(200 * KIB) as usize];
                    volume.write(&path, &content).expect("writes");
                    volume.sync_path(&path).expect("syncs");
                    let (since, until) = (log.moments(), usize::MAX);
                    durable.entry(path).or_default().push(Durable { since, until, content });
                }
                2 | 3 => {
                    let moment = log.moments();
                    if volume.remove_file(&path).is_ok()
                        && let Some(last) = durable.get_mut(&path).and_then(|all| all.last_mut())
                    {
                        last.until = moment;
                    }
                }
                _ => {
                    let start = random.below(20) * MIB;
                    trimmed += volume.trim(start, 4 * MIB, 0).expect("trims");
                }
            }
        }
        assert!(trimmed > 10 * MIB, "{specification}: {trimmed} bytes");
        let end = log.moments();
        drop(volume);
        let mut seen = 0;
        for cut in 0..25 {
            let moment = end * cut / 25 + random.below(4) as usize;
            let cut = log.cut(moment.min(end));
            for medium in [cut.durable(&base), cut.subset(&base, 512, random.next())] {
                let medium: Arc<dyn BlockDevice> = Arc::new(medium.expect("a medium"));
                recover(&medium).expect("recovers");
                read_superblock(&*medium).expect("a superblock");
                let volume = Filesystem::open(medium, &specification.options()).expect("opens");
                for (path, lives) in &durable {
                    let life =
                        lives.iter().find(|life| life.since <= moment && moment <= life.until);
                    let Some(life) = life else { continue };
                    seen += 1;
                    let read = volume.read(path);
                    let read = read.unwrap_or_else(|error| panic!("{specification}: {error}"));
                    assert!(read == life.content, "{specification}: {path}, cut at {moment}");
                }
            }
        }
        assert!(seen > 40, "{specification}: only {seen} files were durable at a cut");
    }
}
