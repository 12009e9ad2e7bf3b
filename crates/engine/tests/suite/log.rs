//! The log of a volume at its edges: what one sync asks of the device, a log that fails, a block
//! that a transaction changes and frees, and a small log on a volume without a free block.
use crate::volume;

use extant_block::{BlockDevice, MemoryDevice, RealClock, Traced};
use extant_engine::mkfs::Profile;
use extant_engine::{ErrorKind, Filesystem, Rename, SetAttribute, recover};
use extant_format::journal::JournalSuperblock;
use extant_sim::{CrashLog, Fault, Faulty};
use std::sync::Arc;
use volume::{MIB, Random, SetClock, Specification, judge};

fn specification(profile: Profile) -> Specification {
    // The least log that mke2fs makes: 1,024 blocks.
    Specification { policies: "modern,commit=3600s", ..Specification::new(profile, 1024, 8 * MIB) }
}

/// Blocks of a commit of one file's growth: the descriptor of the log, the inode's table block, the
/// bitmap, the group's descriptor, the superblock, and the block that commits.
const COMMIT_BLOCKS: u64 = 6;

#[test]
fn an_fsync_writes_its_data_and_one_commit() {
    for (profile, map_blocks) in [(Profile::Ext4, 0), (Profile::Ext3, 0)] {
        let specification = specification(profile);
        let device = Arc::new(Traced::new(specification.make(RealClock::new())));
        let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(shared, &specification.options()).expect("opens");
        let file = volume.create_file("/file", 0o644).expect("a file");
        file.sync().expect("syncs");
        for round in 0..8 {
            let before = device.counters();
            file.write_all_at(round * 1024, &[round as u8 + 1; 1024]).expect("writes");
            file.sync().expect("syncs");
            let after = device.counters();
            let blocks = (after.bytes_written - before.bytes_written) / 1024;
            let flushes = after.flushes - before.flushes;
            assert!(blocks <= 1 + map_blocks + COMMIT_BLOCKS, "round {round}: {blocks} blocks");
            assert!(flushes <= 2, "round {round}: {flushes} flushes");
        }
        // In place, and no size changes: one block of data, and its time of change.
        let before = device.counters();
        file.write_all_at(0, &[9; 1024]).expect("writes");
        file.sync_data().expect("syncs");
        let after = device.counters();
        assert_eq!(after.bytes_written - before.bytes_written, 1024, "fdatasync in place");
        assert_eq!(after.flushes - before.flushes, 1, "fdatasync in place");
        volume.close().expect("closes");
        judge(device.device()).unwrap_or_else(|said| panic!("{specification}: {said}"));
    }
}

#[test]
fn an_fsync_within_a_tick_of_the_clock_commits_what_changed_and_no_more() {
    for policies in ["modern,commit=3600s", "modern,journal=none"] {
        let specification =
            Specification { policies, ..Specification::new(Profile::Ext4, 1024, 8 * MIB) };
        let clock = SetClock::new(1_700_000_000);
        let device = Arc::new(Traced::new(specification.make(Arc::clone(&clock) as _)));
        let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(shared, &specification.options()).expect("opens");
        let file = volume.create_file("/file", 0o644).expect("a file");
        let sync = |what: &str| {
            let before = device.counters();
            file.sync().expect(what);
            let after = device.counters();
            [(after.bytes_written - before.bytes_written) / 1024, after.flushes - before.flushes]
        };
        file.write_all_at(0, &[1; 4096]).expect("writes");
        sync("new blocks");
        file.write_all_at(0, &[2; 1024]).expect("writes");
        assert_eq!(sync("in place"), [1, 1], "{policies}: nothing of the inode changed");
        // The inode itself is what it was, but another block is not.
        for value in [1, 2] {
            let (attribute, how) = (b"user.large", SetAttribute::Any);
            volume.set_attribute("/file", attribute, &[value; 600], how).expect("an attribute");
            let [blocks, flushes] = sync("an attribute in a block of its own");
            assert!(blocks >= 2 && flushes >= 1, "{policies}: {blocks} blocks, {flushes} flushes");
        }
        clock.advance(4_000_000);
        file.write_all_at(0, &[3; 1024]).expect("writes");
        let [blocks, _] = sync("the time of change");
        assert!(blocks >= 2, "{policies}: the time of change is stored too");
        drop(file);
        volume.close().expect("closes");
        judge(device.device()).unwrap_or_else(|said| panic!("{specification}: {said}"));
    }
}

/// Where the superblock of the log is on a device, in bytes.
fn log_superblock(device: &MemoryDevice) -> (u64, JournalSuperblock) {
    for at in (0..device.info().bytes).step_by(1024) {
        let mut bytes = vec![0; 1024];
        device.read(at, &mut bytes).expect("reads");
        if let Ok(superblock) = JournalSuperblock::parse(&bytes) {
            return (at, superblock);
        }
    }
    panic!("the volume has no log");
}

#[test]
fn a_log_that_fails_tells_linux_and_the_next_opening() {
    let specification = specification(Profile::Ext4);
    let medium = specification.make(RealClock::new());
    let device = Arc::new(Faulty::new(Traced::new(Arc::clone(&medium))));
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let volume = Filesystem::open(shared, &specification.options()).expect("opens");
    volume.write("/kept", &[1; 3000]).expect("a file");
    volume.sync().expect("syncs");
    volume.create_dir("/lost", 0o755).expect("a directory");
    // The next write is the log's: no data is dirty.
    device.repair();
    device.add(Fault::NthWrite(1));
    let error = volume.sync().expect_err("the log cannot be written");
    assert!(matches!(error.kind, ErrorKind::Device(_)), "{error}");
    let refused = volume.create_dir("/late", 0o755).expect_err("the volume is closed to changes");
    assert!(refused.to_string().contains(&error.kind.to_string()), "{refused}");
    assert!(volume.close().is_err(), "close said nothing");

    let (_, superblock) = log_superblock(&medium);
    assert_eq!(superblock.error, -5, "the log says EIO");
    // A reader that recovers takes the error over as the volume's own, and has what was synced.
    let volume = specification.open(&medium).expect("opens");
    assert_eq!(volume.read("/kept").expect("reads"), [1; 3000]);
    assert!(volume.metadata("/lost").is_err(), "it was never committed");
    volume.close().expect("closes");
    let (_, superblock) = log_superblock(&medium);
    assert_eq!(superblock.error, 0, "the log was taken over");
    assert!(has_error_flag(&medium), "the volume says that it met an error");
}

/// Whether the superblock of a volume says that an error was met.
fn has_error_flag(device: &MemoryDevice) -> bool {
    const STATE: u64 = 1024 + 0x3a;
    const ERROR: u16 = 2;
    let mut bytes = [0; 2];
    device.read(STATE, &mut bytes).expect("reads");
    u16::from_le_bytes(bytes) & ERROR != 0
}

/// Whether an error is that of a full volume; any other fails the test.
fn is_full<T>(outcome: extant_engine::Result<T>) -> bool {
    match outcome {
        Ok(_) => false,
        Err(error) if matches!(error.kind, ErrorKind::NoSpace { .. }) => true,
        Err(error) => panic!("on a full volume: {error}"),
    }
}

/// What a byte of a file that takes all room is.
fn filler(at: u64) -> u8 {
    (at % 251) as u8
}

/// Writes a file until no block is free, and returns its length in bytes.
fn fill_up(volume: &Filesystem, path: &str) -> u64 {
    let file = volume.create_file(path, 0o644).expect("a file");
    let mut length = 0;
    for piece in [64 << 10, 1 << 10] {
        loop {
            let bytes: Vec<u8> = (length..length + piece).map(filler).collect();
            if is_full(file.write_all_at(length, &bytes)) {
                break;
            }
            length += piece;
        }
    }
    file.set_len(length).expect("cuts what was written of the last piece");
    length
}

/// A volume that has committed a directory of many blocks, and no checkpoint yet; and `/one`, to
/// which its names are links.
fn with_directory(specification: &Specification) -> (Arc<MemoryDevice>, Filesystem) {
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    volume.write("/one", b"one").expect("a file");
    volume.create_dir("/d", 0o755).expect("a directory");
    for number in 0..NAMES {
        volume.hard_link("/one", name_in_directory(number)).expect("a link");
    }
    volume.sync().expect("syncs");
    (device, volume)
}

/// Names of the directory: of 200 bytes, so that they take more than 20 blocks.
const NAMES: u64 = 100;

fn name_in_directory(number: u64) -> String {
    format!("/d/{number:0>200}")
}

/// In the transaction that frees them, the directory's blocks are changed first. The log has a copy
/// of each from before, and nothing may bring that back, nor the change that was never committed:
/// neither replay nor a checkpoint.
#[test]
fn blocks_that_a_transaction_changes_and_frees_come_back_neither_by_replay_nor_by_checkpoint() {
    for profile in [Profile::Ext4, Profile::Ext3] {
        let specification = specification(profile);
        let (device, volume) = with_directory(&specification);
        // Each name that goes changes its block; then the blocks are freed.
        for number in 0..NAMES {
            volume.remove_file(name_in_directory(number)).expect("goes");
        }
        volume.remove_dir("/d").expect("goes");
        volume.sync().expect("syncs");
        let length = fill_up(&volume, "/filler");
        volume.sync().expect("syncs");
        assert!(volume.statfs().free_blocks < 8, "{specification}: {:?}", volume.statfs());
        let counts = volume.journal_counts().expect("a journal");
        assert_eq!(counts.checkpoints, 0, "{specification}: the log has lost what this is about");
        let cut = Arc::new(device.snapshot());
        let report = recover(&(Arc::new(device.snapshot()) as _)).expect("it is replayed");
        let revoked = report.expect("there is a log").revoked;
        assert!(revoked > 20, "{specification}: {revoked} copies are revoked");
        // Everything is written to its place before the log is emptied.
        volume.close().expect("closes");
        for (what, device) in [("replayed", cut), ("closed", device)] {
            let volume = specification.open(&device).expect("opens");
            let read = volume.read("/filler").expect("reads");
            let wrong = (0..length).find(|at| read.get(*at as usize) != Some(&filler(*at)));
            assert_eq!((wrong, read.len() as u64), (None, length), "{specification}, {what}");
            volume.close().expect("closes");
            judge(&device).unwrap_or_else(|said| panic!("{specification}, {what}: {said}"));
        }
    }
}

/// Blocks of metadata that are freed become other metadata, on a volume where none else are free:
/// not in the transaction that revokes them, where the revocation would count for both.
#[test]
fn blocks_that_are_freed_and_used_again_are_replayed_as_what_they_became() {
    for profile in [Profile::Ext4, Profile::Ext3] {
        let specification = specification(profile);
        let (device, volume) = with_directory(&specification);
        fill_up(&volume, "/filler");
        volume.sync().expect("syncs");
        for number in 0..NAMES {
            volume.remove_file(name_in_directory(number)).expect("goes");
        }
        volume.remove_dir("/d").expect("goes");
        let mut made = 0;
        while !is_full(volume.create_dir(format!("/new {made}"), 0o755)) {
            volume.hard_link("/one", format!("/new {made}/link")).expect("a link");
            made += 1;
        }
        assert!(made > 15, "{specification}: {made} were made");
        volume.sync().expect("syncs");
        let counts = volume.journal_counts().expect("a journal");
        assert_eq!(counts.checkpoints, 0, "{specification}: the log has lost what this is about");
        let cut = Arc::new(device.snapshot());
        volume.close().expect("closes");
        for (what, device) in [("replayed", cut), ("closed", device)] {
            let volume = specification.open(&device).expect("opens");
            for number in 0..made {
                let read = volume.read(format!("/new {number}/link"));
                let read = read.unwrap_or_else(|error| panic!("{specification}, {what}: {error}"));
                assert_eq!(read, b"one", "{specification}, {what}: {number} of {made}");
            }
            volume.close().expect("closes");
            judge(&device).unwrap_or_else(|said| panic!("{specification}, {what}: {said}"));
        }
    }
}

#[test]
fn a_full_volume_with_a_small_log_goes_on() {
    for profile in [Profile::Ext4, Profile::Ext3] {
        let specification = Specification { inodes: 4096, ..specification(profile) };
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        let mut random = Random::new(7);
        let mut files = 0;
        let fill = |files: &mut u64| {
            while !is_full(volume.write(format!("/{files}"), &vec![*files as u8; 9000])) {
                *files += 1;
            }
        };
        fill(&mut files);
        assert!(files > 100, "{files} files");
        // Every transaction now takes blocks that another has freed: those are free after it.
        let mut refused = 0;
        for round in 0..3000 {
            if round % 100 == 0 {
                fill(&mut files);
            }
            let (one, other) = (random.below(files), random.below(files));
            let (one, other) = (format!("/{one}"), format!("/{other}"));
            let outcome = match random.below(6) {
                0 => volume.write(&one, &vec![round as u8; random.below(20_000) as usize]),
                1 => volume.rename(&one, &other, Rename::Replace),
                2 => volume.remove_file(&one),
                3 => volume.write(&other, &vec![round as u8; 12_000]),
                4 => volume.create_dir(format!("/directory {}", random.below(200)), 0o755),
                _ if random.one_in(20) => volume.sync(),
                _ => volume.hard_link(&one, format!("/link {}", random.below(100))),
            };
            match outcome.map_err(|error| error.kind) {
                Ok(()) | Err(ErrorKind::NotFound | ErrorKind::Exists | ErrorKind::TooManyLinks) => {
                }
                Err(ErrorKind::NoSpace { .. }) => refused += 1,
                Err(other) => panic!("{specification}, round {round}: {other}"),
            }
        }
        assert!(refused > 10, "the volume was never full: {refused}");
        volume.sync().expect("syncs");
        let counts = volume.journal_counts().expect("a journal");
        assert!(counts.checkpoints > 1, "the log was never full: {counts:?}");
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
    }
}

#[test]
fn what_was_synced_is_there_at_every_moment_of_a_checkpoint() {
    for profile in [Profile::Ext4, Profile::Ext3] {
        let specification = specification(profile);
        let base = specification.make(RealClock::new()).snapshot();
        let log = Arc::new(CrashLog::new(Arc::new(base.snapshot())));
        let shared = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(shared, &specification.options()).expect("opens");
        for number in 0..20 {
            volume.write(format!("/{number}"), &[number as u8; 3000]).expect("a file");
        }
        volume.sync().expect("syncs");
        let synced = log.moments();
        // Closing writes all that is committed to its place, and empties the log.
        volume.close().expect("closes");
        for moment in synced..=log.moments() {
            let name = format!("{specification}, moment {moment} of {}", log.moments());
            let durable = log.cut(moment).durable(&base).expect("the base is as large");
            let durable = Arc::new(durable);
            let volume = specification.open(&durable).unwrap_or_else(|e| panic!("{name}: {e}"));
            for number in 0..20 {
                let read = volume.read(format!("/{number}"));
                let read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(read, [number as u8; 3000], "{name}: /{number}");
            }
            volume.close().unwrap_or_else(|error| panic!("{name}: close: {error}"));
        }
    }
}

#[test]
fn a_file_that_grows_again_after_a_power_cut_does_not_show_what_was_cut_off() {
    for (profile, policies) in [
        (Profile::Ext4, "modern,commit=3600s"),
        (Profile::Ext3, "modern,commit=3600s"),
        (Profile::Ext4, "modern,commit=3600s,journal=data"),
    ] {
        let specification = Specification { policies, ..specification(profile) };
        let base = specification.make(RealClock::new()).snapshot();
        let log = Arc::new(CrashLog::new(Arc::new(base.snapshot())));
        let shared = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(shared, &specification.options()).expect("opens");
        let file = volume.create_file("/file", 0o644).expect("a file");
        file.write_all_at(0, &[b'x'; 3000]).expect("writes");
        let other = volume.create_file("/other", 0o644).expect("a file");
        volume.sync().expect("syncs");
        let before = log.moments();
        // The size is committed, on behalf of another file.
        file.set_len(2500).expect("sets the size");
        other.write_all_at(0, &[b'o'; 10]).expect("writes");
        other.sync().expect("syncs");
        let last = log.moments();
        let mut cut_sizes = 0;
        for moment in before..=last {
            let name = format!("{specification}, moment {moment} of {last}");
            let durable = log.cut(moment).durable(&base).expect("the base is as large");
            let volume = specification.open(&Arc::new(durable)).expect("opens");
            let read = volume.read("/file").expect("reads");
            assert!(read[..2500].iter().all(|byte| *byte == b'x'), "{name}: what stays");
            if read.len() == 3000 {
                continue;
            }
            cut_sizes += 1;
            volume.open_file("/file").expect("opens").set_len(3000).expect("grows");
            let grown = volume.read("/file").expect("reads");
            let shown = grown[2500..].iter().position(|byte| *byte != 0);
            assert_eq!((grown.len(), shown), (3000, None), "{name}: what was cut off");
        }
        assert!(cut_sizes > 0, "{specification}: the smaller size was never durable");
    }
}
