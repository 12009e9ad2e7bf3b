//! The engine on a device that fails: a caller that changed something gets an error, at the latest
//! from the next sync; nothing is written after a failure; what can still be read is read; nothing
//! panics or waits forever.
use crate::volume;

use extant_block::{BlockDevice, Clock, MemoryDevice, Operation, RealClock, Traced};
use extant_engine::mkfs::Profile;
use extant_engine::{
    Change, ErrorKind, Filesystem, Options, Rename, SetAttribute, read_superblock,
};
use extant_sim::{Fault, Faulty};
use std::sync::Arc;
use volume::{KIB, MIB, Random, Specification, judge, patience};

/// Counts what reached the medium below the faults, and what was asked for above them.
pub(crate) type Failing = Traced<Faulty<Traced<Arc<MemoryDevice>>>>;

pub(crate) fn failing(device: &Arc<MemoryDevice>) -> Arc<Failing> {
    Arc::new(Traced::new(Faulty::new(Traced::new(Arc::clone(device)))))
}

pub(crate) fn faulty(device: &Failing) -> &Faulty<Traced<Arc<MemoryDevice>>> {
    device.device()
}

/// Writes that reached the medium.
fn kept(device: &Failing) -> u64 {
    faulty(device).device().counters().writes
}

/// Writes and flushes that failed.
fn failed(device: &Failing) -> u64 {
    let (asked, done) = (device.counters(), faulty(device).device().counters());
    asked.writes - done.writes + asked.flushes - done.flushes
}

pub(crate) fn open(device: &Arc<Failing>, options: &Options) -> Filesystem {
    Filesystem::open(Arc::clone(device) as Arc<dyn BlockDevice>, options).expect("opens")
}

const OLD: &str = "/old/file";

/// A closed volume with a file of 40 KiB that no test changes.
fn prepared(specification: &Specification, clock: Arc<dyn Clock>) -> Arc<MemoryDevice> {
    let device = specification.make(clock);
    let volume = specification.open(&device).expect("opens");
    volume.create_dir("/old", 0o755).expect("a directory");
    volume.write(OLD, &old_content()).expect("a file");
    volume.create_dir("/other", 0o755).expect("a directory");
    volume.write("/other/file", &[3; 5000]).expect("a file");
    volume.close().expect("closes");
    device
}

fn old_content() -> Vec<u8> {
    (0..40 * KIB).map(|at| (at % 251) as u8).collect()
}

/// Work of many kinds on few names; how many calls were answered with an error of the device, or
/// refused after one.
fn work(volume: &Filesystem, seed: u64, operations: u64) -> u64 {
    let mut random = Random::new(seed);
    let path = |random: &mut Random| match random.below(3) {
        0 => format!("/n{}", random.below(12)),
        _ => format!("/d{}/n{}", random.below(4), random.below(30)),
    };
    let mut told = 0;
    for _ in 0..operations {
        let (one, other) = (path(&mut random), path(&mut random));
        let number = random.next();
        let outcome = match number % 12 {
            0..=4 => volume.write(&one, &vec![number as u8; random.below(30_000) as usize]),
            5 => volume.create_dir(format!("/d{}", random.below(4)), 0o755),
            6 => volume.rename(&one, &other, Rename::Replace),
            7 => volume.hard_link(&one, &other),
            8 => volume.remove_file(&one),
            9 => volume.open_file(&one).and_then(|file| {
                file.write_all_at(random.below(1 << 17), &[9; 5000])?;
                file.set_len(random.below(1 << 17))
            }),
            10 => volume.read(&one).map(drop),
            _ if random.one_in(8) => volume.sync(),
            _ => volume.read_dir("/").map(drop),
        };
        // Every refusal gives the first cause: the volume was not opened for reading only.
        let is_bare = |error: &extant_engine::Error| matches!(error.kind, ErrorKind::ReadOnly);
        assert!(!outcome.as_ref().is_err_and(is_bare), "a refusal that hides its cause");
        let counts = |error: &extant_engine::Error| matches!(error.kind, ErrorKind::Device(_));
        told += u64::from(outcome.err().as_ref().is_some_and(counts));
    }
    told
}

/// Everything that has to hold once a write or a flush has failed. Gives whether one had.
fn after(device: &Arc<Failing>, volume: Filesystem, told: u64, name: &str) -> bool {
    let synced = volume.sync();
    if failed(device) == 0 {
        synced.unwrap_or_else(|error| panic!("{name}: nothing failed, yet: {error}"));
        let closed = volume.close();
        let struck = failed(device) > 0;
        assert_eq!(closed.is_err(), struck, "{name}: close: {closed:?}");
        return struck;
    }
    assert!(
        synced.is_err(),
        "{name}: {} failed, sync said nothing ({told} were told)",
        failed(device)
    );
    let written = kept(device);
    let refused = volume.write("/late", b"too late").and_then(|()| volume.sync());
    let refused = refused.expect_err("nothing is written after a failure");
    assert!(matches!(refused.kind, ErrorKind::Device(_)), "{name}: {refused}");
    assert!(volume.create_dir("/late directory", 0o755).is_err(), "{name}: made after a failure");
    assert!(volume.read(OLD).expect("reads") == old_content(), "{name}: reading what was there");
    assert!(volume.clone().close().is_err(), "{name}: close said nothing");
    drop(volume);
    assert_eq!(kept(device), written, "{name}: writes after the failure was known");
    true
}

const ROWS: &[(Profile, u32, &str, u64)] = &[
    (Profile::Ext2, 1024, "linux-2.4", 64 * KIB),
    (Profile::Ext2, 1024, "linux-2.4-akpm", 256 * KIB),
    (Profile::Ext4, 1024, "modern", 64 * KIB),
    (Profile::Ext4, 4096, "modern", 4 * MIB),
    (Profile::Ext3, 1024, "linux-2.6,barrier=flush", 256 * KIB),
    (Profile::Ext2, 1024, "freebsd-5.2", 256 * KIB),
    (Profile::Ext4, 1024, "modern,mount=sync,throttle=inline", 64 * KIB),
    (Profile::Ext2, 1024, "packed", 4 * MIB),
];

fn specification(row: &(Profile, u32, &'static str, u64)) -> Specification {
    let (profile, block_size, policies, cache_bytes) = *row;
    Specification {
        policies,
        cache_bytes: cache_bytes as usize,
        inodes: 256,
        ..Specification::new(profile, block_size, 8 * MIB)
    }
}

fn one(row: &(Profile, u32, &'static str, u64), fault: &Fault, threads: u64) -> bool {
    let (specification, fault) = (specification(row), fault.clone());
    let name = format!("{specification}, {fault:?}, {threads} threads");
    let told = name.clone();
    let run = move || {
        let clock = RealClock::new();
        let device = failing(&prepared(&specification, clock.clone()));
        let volume = open(&device, &specification.options());
        faulty(&device).add(match fault {
            // Counted from here on.
            Fault::NthWrite(number) => Fault::NthWrite(kept(&device) + number),
            Fault::WritesAfter(number) => Fault::WritesAfter(kept(&device) + number),
            Fault::FullAfter(bytes) => {
                Fault::FullAfter(faulty(&device).device().counters().bytes_written + bytes)
            }
            other => other,
        });
        let tasks: Vec<_> = (0..threads)
            .map(|thread| {
                let volume = volume.clone();
                clock.spawn(
                    "worker",
                    Box::new(move || {
                        let _ = work(&volume, thread, 150);
                    }),
                )
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join());
        let told_before = work(&volume, 99, 40);
        let struck = after(&device, volume, told_before, &name);
        // What is on the device now may be half written: reading it must not panic.
        faulty(&device).repair();
        if let Ok(volume) = specification.open(faulty(&device).device().device()) {
            work(&volume, 7, 60);
            let _ = volume.close();
        }
        struck
    };
    patience::within(300, &told, run).unwrap_or_else(|said| panic!("{said}"))
}

#[test]
fn a_failed_write_is_told_and_nothing_is_written_behind_it() {
    let faults = [
        Fault::NthWrite(1),
        Fault::NthWrite(2),
        Fault::NthWrite(7),
        Fault::NthWrite(30),
        Fault::WritesAfter(0),
        Fault::WritesAfter(11),
        Fault::FullAfter(100_000),
        Fault::Flushes,
    ];
    for row in ROWS {
        for fault in &faults {
            for threads in [0, 4] {
                let struck = one(row, fault, threads);
                assert!(
                    struck || *fault == Fault::NthWrite(30),
                    "{row:?}, {fault:?}: nothing failed"
                );
            }
        }
    }
}

#[test]
fn behind_a_failure_the_rest_of_a_sweep_stays_in_memory() {
    for row in ROWS {
        let specification = specification(row);
        let policies = format!(
            "{},mount=async,throttle=inline",
            specification.policies.split(',').next().expect("a name")
        );
        let device = failing(&prepared(&specification, RealClock::new()));
        let options = Options {
            policies: policies.parse().expect("policies"),
            cache_bytes: 4 << 20,
            ..specification.options()
        };
        let volume = open(&device, &options);
        for number in 0..8 {
            volume.create_dir(format!("/d{number}"), 0o755).expect("a directory");
            volume.write(format!("/d{number}/file"), &[5; 3000]).expect("a file");
        }
        let before = kept(&device);
        faulty(&device).add(Fault::NthWrite(before + 2));
        assert!(volume.sync().is_err(), "{policies}");
        drop(volume);
        // Of files' blocks and of metadata one more each at most, as neither knows at once of the
        // other, and the note in the superblock that there was a failure.
        let behind = kept(&device) - before - 1;
        assert!(behind <= 2, "{policies}: {behind} writes after the failure");
    }
}

#[test]
fn many_places_of_one_failure() {
    let mut struck = 0;
    for row in ROWS {
        for number in (3..60).step_by(8) {
            struck += u32::from(one(row, &Fault::NthWrite(number), 1));
        }
    }
    assert!(struck > 30, "only {struck} failed");
}

/// Where the first KiB of the old file is, found by its content.
fn place_of_old(memory: &MemoryDevice) -> std::ops::Range<u64> {
    let mut bytes = vec![0; KIB as usize];
    let at = (0..memory.info().bytes / KIB).map(|block| block * KIB).find(|at| {
        memory.read(*at, &mut bytes).expect("reads");
        bytes == old_content()[..KIB as usize]
    });
    let at = at.expect("the file lies somewhere");
    at..at + 1
}

#[test]
fn what_cannot_be_read_fails_alone() {
    for row in ROWS {
        let specification = specification(row);
        let policies = format!("{},neighbour-read-ahead=none", specification.policies);
        let options =
            Options { policies: policies.parse().expect("policies"), ..specification.options() };
        let memory = prepared(&specification, RealClock::new());
        let device = failing(&memory);
        let bad = place_of_old(&memory);
        faulty(&device).add(Fault::ReadsIn(bad));
        let volume = open(&device, &options);
        for _ in 0..2 {
            let error = volume.read(OLD).expect_err("cannot be read");
            assert!(matches!(error.kind, ErrorKind::Device(_)), "{specification}: {error}");
        }
        assert_eq!(volume.read("/other/file").expect("reads"), [3; 5000], "{specification}");
        let _ = work(&volume, 5, 100);
        volume.write("/new", &[1; 9000]).expect("a file");
        volume.sync().unwrap_or_else(|error| panic!("{specification}: {error}"));
        volume.remove_file(OLD).expect("goes without being read");
        volume.close().unwrap_or_else(|error| panic!("{specification}: {error}"));
        if extant_testkit::oracle::require("e2fsck") {
            judge(&memory).unwrap_or_else(|said| panic!("{specification}: {said}"));
        }
    }
}

#[test]
fn a_table_that_cannot_be_read_is_told_by_the_sync_and_can_be_read_again() {
    // If inodes reach their table late, the flusher meets the damage first, and reports it to no
    // caller.
    for policies in [
        "linux-2.4",
        "linux-2.4-akpm",
        "linux-2.4,throttle=write-behind",
        "linux-2.4,throttle=inline",
    ] {
        let specification = Specification {
            policies,
            cache_bytes: 64 << 10,
            inodes: 512,
            ..Specification::new(Profile::Ext2, 1024, 8 * MIB)
        };
        let memory = prepared(&specification, RealClock::new());
        let device = failing(&memory);
        let volume = open(&device, &specification.options());
        let mut word = [0; 4];
        memory.read(2 * KIB + 8, &mut word).expect("reads");
        let table = u64::from(u32::from_le_bytes(word)) * KIB;
        // All but the first blocks, which hold what was there before.
        let end = table + u64::from(volume.superblock().inodes_per_group) * 256;
        faulty(&device).add(Fault::ReadsIn(table + 4 * 4 * KIB..end));
        let made = (0..200).map(|number| volume.write(format!("/new {number}"), &[4; 2000]));
        let refused = made.filter(|outcome| outcome.is_err()).count();
        let synced = volume.sync();
        assert!(synced.is_err(), "{policies}: {refused} were refused");
        assert!(volume.read(OLD).expect("reads") == old_content(), "{policies}");
        assert_eq!(failed(&device), 0, "{policies}");
        faulty(&device).repair();
        // Nothing was lost, or everything is refused from now on: never is a part kept as if it
        // were all.
        let after_repair = volume.sync();
        let closed = volume.close();
        assert_eq!(
            after_repair.is_ok(),
            closed.is_ok(),
            "{policies}: {after_repair:?}, {closed:?}"
        );
        if closed.is_ok() && extant_testkit::oracle::require("e2fsck") {
            judge(&memory).unwrap_or_else(|said| panic!("{policies}: {said}"));
            let volume = specification.open(&memory).expect("opens");
            let kept =
                (0..200).filter(|number| volume.read(format!("/new {number}")).is_ok()).count();
            assert!(kept + refused >= 200, "{policies}: {kept} kept, {refused} refused");
        }
    }
}

/// Calls that change something, on a volume of which nothing is in memory.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Filesystem) -> extant_engine::Result<()>,
    /// Whether it is seen to have been made; `None` where a part of it may be.
    pub(crate) is_made: Option<fn(&Filesystem) -> bool>,
}

pub(crate) fn is_absent(volume: &Filesystem, path: &str) -> bool {
    match volume.symlink_metadata(path) {
        Ok(_) => false,
        Err(error) if matches!(error.kind, ErrorKind::NotFound) => true,
        Err(error) => panic!("{path}: {error}"),
    }
}

pub(crate) fn size(volume: &Filesystem, path: &str) -> u64 {
    volume.metadata(path).expect("there").size
}

fn attribute_bytes(volume: &Filesystem) -> usize {
    let attributes = volume.attributes("/attributes").expect("attributes");
    attributes.iter().find(|one| one.name == b"user.large").map_or(0, |one| one.value.len())
}

pub(crate) const CALLS: &[Call] = &[
    Call {
        name: "unlink",
        run: |volume| volume.remove_file("/d/many"),
        is_made: Some(|volume| is_absent(volume, "/d/many")),
    },
    Call {
        name: "unlink with attributes",
        run: |volume| volume.remove_file("/attributes"),
        is_made: Some(|volume| is_absent(volume, "/attributes")),
    },
    Call {
        name: "last close",
        run: |volume| {
            let file = volume.open_file("/d/many")?;
            volume.remove_file("/d/many")?;
            drop(file);
            Ok(())
        },
        is_made: Some(|volume| is_absent(volume, "/d/many")),
    },
    Call {
        name: "rmdir",
        run: |volume| volume.remove_dir("/d/empty"),
        is_made: Some(|volume| is_absent(volume, "/d/empty")),
    },
    Call {
        name: "rename over a file",
        run: |volume| volume.rename("/wide/name 7", "/d/many", Rename::Replace),
        is_made: Some(|volume| is_absent(volume, "/wide/name 7")),
    },
    Call {
        name: "rename to a new name",
        run: |volume| volume.rename("/d/small", "/wide/moved", Rename::Replace),
        is_made: Some(|volume| is_absent(volume, "/d/small")),
    },
    Call {
        name: "rename of a directory",
        run: |volume| volume.rename("/d/empty", "/wide/moved", Rename::Replace),
        is_made: Some(|volume| is_absent(volume, "/d/empty")),
    },
    Call {
        name: "rename with a whiteout",
        run: |volume| volume.rename("/d/small", "/wide/moved", Rename::Whiteout),
        is_made: Some(|volume| !is_absent(volume, "/wide/moved")),
    },
    Call {
        name: "exchange",
        run: |volume| volume.rename("/d/small", "/attributes", Rename::Exchange),
        is_made: Some(|volume| size(volume, "/d/small") == 11),
    },
    Call {
        name: "truncate",
        run: |volume| volume.open_file("/d/many")?.set_len(5000),
        is_made: Some(|volume| size(volume, "/d/many") == 5000),
    },
    Call {
        name: "truncate to nothing",
        run: |volume| volume.open_file("/d/many")?.set_len(0),
        is_made: Some(|volume| size(volume, "/d/many") == 0),
    },
    Call {
        name: "punch",
        run: |volume| volume.open_file("/d/many")?.punch_hole(3000, 300_000),
        is_made: None,
    },
    Call {
        name: "write in a hole",
        run: |volume| volume.open_file("/d/many")?.write_all_at(100 * KIB, &[5; 100]),
        is_made: None,
    },
    Call {
        name: "write at the end",
        run: |volume| volume.open_file("/d/many")?.write_all_at(PIECES * 2 * KIB, &[5; 100]),
        is_made: Some(|volume| size(volume, "/d/many") > PIECES * 2 * KIB),
    },
    Call {
        name: "set an attribute",
        run: |volume| {
            volume.set_attribute("/attributes", b"user.large", &[9; 500], SetAttribute::Any)
        },
        is_made: Some(|volume| attribute_bytes(volume) == 500),
    },
    Call {
        name: "remove an attribute",
        run: |volume| volume.remove_attribute("/attributes", b"user.large"),
        is_made: Some(|volume| attribute_bytes(volume) == 0),
    },
    Call {
        name: "create",
        run: |volume| volume.create_file("/wide/new", 0o644).map(drop),
        is_made: Some(|volume| !is_absent(volume, "/wide/new")),
    },
    Call {
        name: "create where a leaf splits",
        run: |volume| volume.create_file(format!("/wide/{}", "n".repeat(250)), 0o644).map(drop),
        is_made: Some(|volume| !is_absent(volume, &format!("/wide/{}", "n".repeat(250)))),
    },
    Call {
        name: "mkdir",
        run: |volume| volume.create_dir("/wide/new", 0o755),
        is_made: Some(|volume| !is_absent(volume, "/wide/new")),
    },
    Call {
        name: "symlink",
        run: |volume| volume.symlink("t".repeat(200), "/wide/new"),
        is_made: Some(|volume| !is_absent(volume, "/wide/new")),
    },
    Call {
        name: "link",
        run: |volume| volume.hard_link("/d/small", "/wide/new"),
        is_made: Some(|volume| !is_absent(volume, "/wide/new")),
    },
    Call {
        name: "change of mode",
        run: |volume| {
            volume.change("/d/small", &Change { permissions: Some(0o600), ..Change::default() })
        },
        is_made: Some(|volume| volume.metadata("/d/small").expect("there").mode & 0o777 == 0o600),
    },
];

/// Pieces of the file that has a large map, each of one block, with a hole of one block after it.
pub(crate) const PIECES: u64 = 420;

/// A closed volume with what the calls work on.
fn prepared_for_calls(specification: &Specification) -> Arc<MemoryDevice> {
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    fill_for_calls(&volume);
    volume.close().expect("closes");
    device
}

/// Makes what the calls work on.
pub(crate) fn fill_for_calls(volume: &Filesystem) {
    for directory in ["/d", "/d/empty", "/wide"] {
        volume.create_dir(directory, 0o755).expect("a directory");
    }
    let many = volume.create_file("/d/many", 0o644).expect("a file");
    for piece in 0..PIECES {
        many.write_all_at(piece * 2 * KIB, &[(piece % 251) as u8; KIB as usize]).expect("writes");
    }
    drop(many);
    volume.write("/d/small", &[3; 3000]).expect("a file");
    volume.write("/attributes", b"eleven byte").expect("a file");
    let (name, how) = (b"user.large", SetAttribute::Any);
    volume.set_attribute("/attributes", name, &[8; 700], how).expect("an attribute");
    for number in 0..150 {
        volume.write(format!("/wide/name {number}"), &[4; 10]).expect("a file");
    }
}

/// What is left of one call whose n-th read fails, once, with what it was answered.
fn one_read_fails(
    (specification, base): (&Specification, &MemoryDevice),
    call: &Call,
    number: u64,
) -> bool {
    let name = format!("{specification}: {}, read {number}", call.name);
    let medium = Arc::new(base.snapshot());
    let device = failing(&medium);
    let volume = open(&device, &specification.options());
    faulty(&device).repair();
    faulty(&device).add(Fault::NthRead(number));
    let outcome = (call.run)(&volume);
    let reads = faulty(&device).reads();
    faulty(&device).repair();
    if let Err(error) = &outcome {
        assert!(matches!(error.kind, ErrorKind::Device(_)), "{name}: {error}");
    }
    if let Some(is_made) = call.is_made {
        assert_eq!(is_made(&volume), outcome.is_ok(), "{name}: answered {outcome:?}");
    }
    volume.write("/after", &[6; 5000]).unwrap_or_else(|error| panic!("{name}: latched: {error}"));
    if outcome.is_err() {
        (call.run)(&volume).unwrap_or_else(|error| panic!("{name}: again: {error}"));
        assert!(call.is_made.is_none_or(|is_made| is_made(&volume)), "{name}: again");
    }
    volume.sync().unwrap_or_else(|error| panic!("{name}: sync: {error}"));
    volume.close().unwrap_or_else(|error| panic!("{name}: close: {error}"));
    judge(&medium).unwrap_or_else(|said| panic!("{name}: {said}"));
    reads >= number
}

const COLD: &[(Profile, &str)] = &[
    (Profile::Ext4, "modern"),
    (Profile::Ext3, "modern"),
    (Profile::Ext4, "modern,journal=none"),
    (Profile::Ext2, "modern"),
];

#[test]
fn a_read_that_fails_once_stops_its_call_alone() {
    if !extant_testkit::oracle::require("e2fsck") {
        return;
    }
    for (profile, policies) in COLD {
        let specification =
            Specification { policies, inodes: 512, ..Specification::new(*profile, 1024, 8 * MIB) };
        let base = prepared_for_calls(&specification);
        for call in CALLS {
            let mut number = 1;
            while one_read_fails((&specification, &base), call, number) {
                number += 1;
            }
            assert!(number > 1, "{specification}: {}: {number} reads", call.name);
        }
    }
}

/// Where each read of a call begins, on a volume of which nothing is in memory.
fn places_read(
    specification: &Specification,
    base: &MemoryDevice,
    run: impl FnOnce(&Filesystem),
) -> Vec<u64> {
    let device = failing(&Arc::new(base.snapshot()));
    let volume = open(&device, &specification.options());
    device.take_records();
    run(&volume);
    let reads = device.take_records().into_iter().filter(|it| it.operation == Operation::Read);
    reads.map(|read| read.offset).collect()
}

#[test]
fn what_stays_unreadable_is_freed_by_the_first_who_can_read_it() {
    if !extant_testkit::oracle::require("e2fsck") {
        return;
    }
    for (profile, policies) in COLD {
        let specification =
            Specification { policies, inodes: 512, ..Specification::new(*profile, 1024, 8 * MIB) };
        let base = prepared_for_calls(&specification);
        let unlink = |volume: &Filesystem| volume.remove_file("/d/many");
        let places = places_read(&specification, &base, |volume| unlink(volume).expect("goes"));
        let mut left = 0;
        for place in places {
            let name = format!("{specification}: unreadable at {place}");
            let medium = Arc::new(base.snapshot());
            let device = failing(&medium);
            let volume = open(&device, &specification.options());
            faulty(&device).add(Fault::ReadsIn(place..place + 1));
            let outcome = unlink(&volume);
            // Where the bitmaps can be read.
            let _ = volume.create_dir("/after", 0o755);
            volume.sync().unwrap_or_else(|error| panic!("{name}: sync: {error}"));
            volume.close().unwrap_or_else(|error| panic!("{name}: close: {error}"));
            if outcome.is_ok() {
                // It hinders no opening, unless it is the inode itself, or its bitmap.
                let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
                if let Ok(volume) = Filesystem::open(shared, &specification.options()) {
                    assert!(is_absent(&volume, "/d/many"), "{name}");
                    volume.close().unwrap_or_else(|error| panic!("{name}: again: {error}"));
                    left += u32::from(read_superblock(&*medium).expect("there").last_orphan != 0);
                }
            }
            let volume = specification.open(&medium).expect("opens");
            assert_eq!(is_absent(&volume, "/d/many"), outcome.is_ok(), "{name}: {outcome:?}");
            volume.close().expect("closes");
            judge(&medium).unwrap_or_else(|said| panic!("{name}: {said}"));
        }
        assert!(left > 0, "{specification}: {left} orphans were left twice");
    }
}

#[test]
fn what_a_cut_could_not_free_never_shows_when_the_file_grows() {
    for (profile, policies) in COLD {
        let specification =
            Specification { policies, inodes: 512, ..Specification::new(*profile, 1024, 8 * MIB) };
        let base = prepared_for_calls(&specification);
        let (cut, whole) = (5000, PIECES * 2 * KIB);
        let set = |volume: &Filesystem, size| volume.open_file("/d/many")?.set_len(size);
        let places = places_read(&specification, &base, |volume| set(volume, cut).expect("cut"));
        let mut refused = 0;
        for place in places {
            let name = format!("{specification}: unreadable at {place}");
            let medium = Arc::new(base.snapshot());
            let device = failing(&medium);
            let volume = open(&device, &specification.options());
            faulty(&device).add(Fault::ReadsIn(place..place + 1));
            if set(&volume, cut).is_err() {
                continue;
            }
            assert_eq!(size(&volume, "/d/many"), cut, "{name}");
            volume.sync().unwrap_or_else(|error| panic!("{name}: sync: {error}"));
            // As a power cut leaves it, and as it is here.
            let later = specification.open(&Arc::new(medium.snapshot())).expect("opens");
            refused += u32::from(set(&volume, whole).is_err());
            faulty(&device).repair();
            for volume in [later, volume] {
                set(&volume, whole).unwrap_or_else(|error| panic!("{name}: grows: {error}"));
                let read = volume.read("/d/many").expect("reads");
                let shown = read[cut as usize..].iter().position(|byte| *byte != 0);
                assert_eq!((read.len() as u64, shown), (whole, None), "{name}: what was cut off");
                volume.close().expect("closes");
            }
            judge(&medium).unwrap_or_else(|said| panic!("{name}: {said}"));
        }
        assert!(refused > 0, "{specification}: nothing was left after the end");
    }
}
