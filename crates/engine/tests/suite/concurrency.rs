//! Four threads at work on one volume: they come to an end, and what they leave is sound.
use crate::volume;

use extant_block::{Clock, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{Change, Filesystem, Rename, SetAttribute};
use extant_format::inode::{Device, FileType};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use volume::{MIB, Random, Specification, judge, patience};

const THREADS: u64 = 4;

/// Random work on few names, so that threads meet; errors are what the others make of it.
fn work(volume: &Filesystem, seed: u64, operations: u64) {
    let mut random = Random::new(seed);
    let path = |random: &mut Random| match random.below(3) {
        0 => format!("/n{}", random.below(8)),
        1 => format!("/d{}/n{}", random.below(4), random.below(8)),
        _ => format!("/d{}/e{}/n{}", random.below(4), random.below(2), random.below(30)),
    };
    let directory = |random: &mut Random| match random.below(2) {
        0 => format!("/d{}", random.below(4)),
        _ => format!("/d{}/e{}", random.below(4), random.below(2)),
    };
    for _ in 0..operations {
        let (one, other) = (path(&mut random), path(&mut random));
        let number = random.next();
        let _ = match number % 16 {
            0..=3 => volume.write(&one, &vec![number as u8; random.below(60_000) as usize]),
            4 => volume.create_dir(directory(&mut random), 0o755),
            5 => volume.remove_dir(directory(&mut random)),
            6 => volume.rename(directory(&mut random), directory(&mut random), Rename::Exchange),
            7 => volume.rename(
                &one,
                &other,
                *random.pick(&[Rename::Replace, Rename::Exchange, Rename::Whiteout]),
            ),
            8 => volume
                .hard_link(directory(&mut random), &one)
                .or_else(|_| volume.hard_link(&other, &one)),
            9 => volume.remove_file(&one),
            10 => volume.open_file(&one).and_then(|file| {
                let _ = volume.remove_file(&one);
                file.write_all_at(random.below(1 << 20), &[9; 5000])?;
                file.set_len(random.below(1 << 20))
            }),
            11 => volume.read(&one).map(drop).and_then(|()| volume.read_dir("/").map(drop)),
            12 => volume.set_attribute(
                &one,
                b"user.shared",
                &vec![1; random.below(800) as usize],
                SetAttribute::Any,
            ),
            13 => volume.change(&one, &Change { permissions: Some(0o600), ..Change::default() }),
            14 if random.one_in(20) => volume.sync(),
            _ => volume.make_node(&one, FileType::Fifo, 0o600, Device::default()),
        };
    }
}

fn run(specification: &Specification, seed: u64, operations: u64) -> Result<(), String> {
    let clock = RealClock::new();
    let device = specification.make(clock.clone());
    let volume = specification.open(&device).expect("opens");
    let shared = volume.clone();
    patience::within(200, &format!("{specification}, seed {seed}"), move || {
        let tasks: Vec<_> = (0..THREADS)
            .map(|thread| {
                let volume = shared.clone();
                clock.spawn(
                    "worker",
                    Box::new(move || work(&volume, seed * THREADS + thread, operations)),
                )
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join());
    })?;
    // Inodes whose last name was replaced are freed by a sync: before it they still count as used.
    volume.sync().map_err(|error| format!("{specification}, seed {seed}: sync: {error}"))?;
    let before = Arc::new(volume.statfs());
    volume.close().map_err(|error| format!("{specification}, seed {seed}: close: {error}"))?;
    judge(&device).map_err(|said| format!("{specification}, seed {seed}: {said}"))?;
    let volume = specification.open(&device).map_err(|error| error.to_string())?;
    if volume.statfs().free_inodes != before.free_inodes {
        return Err(format!("{specification}, seed {seed}: free inodes differ"));
    }
    Ok(())
}

#[test]
fn four_threads_leave_a_sound_volume() {
    if !extant_testkit::oracle::require("e2fsck") {
        return;
    }
    let rounds = extant_testkit::variables::number("EXTANT_THREAD_ROUNDS");
    let rows = [
        (Profile::Ext4, 1024, "modern", 8, 64 << 10),
        (Profile::Ext2, 1024, "linux-2.4", 8, 4 << 20),
        (Profile::Ext4, 4096, "linux-2.6", 16, 256 << 10),
        (Profile::Ext3, 1024, "packed", 2, 64 << 10),
        (Profile::Ext2, 1024, "linux-2.4-akpm", 8, 256 << 10),
        (Profile::Ext2, 1024, "freebsd-5.2", 8, 256 << 10),
        (Profile::Ext2, 4096, "freebsd-2010,mount=async", 16, 1 << 20),
        (Profile::Ext4, 1024, "modern,mount=sync", 8, 64 << 10),
    ];
    for seed in 0..rounds {
        for (profile, block_size, policies, mib, cache_bytes) in rows {
            let plain = Specification::new(profile, block_size, mib * MIB);
            let specification = Specification { policies, cache_bytes, inodes: 512, ..plain };
            run(&specification, seed, 1500).unwrap_or_else(|said| panic!("{said}"));
        }
    }
}

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;

/// A path of one to three parts out of three names: threads meet all the time, and numbers of
/// inodes are reused at once.
fn crowded_path(random: &mut Random) -> String {
    (0..=random.below(3)).map(|_| format!("/{}", random.pick(&["a", "b"]))).collect()
}

/// How often each call failed with which errno.
type Errors = BTreeMap<(&'static str, i32), u64>;

fn count<T>(
    errors: &mut Errors,
    call: &'static str,
    outcome: extant_engine::Result<T>,
) -> Option<T> {
    outcome.inspect_err(|error| *errors.entry((call, error.errno())).or_default() += 1).ok()
}

/// Removes a directory with all that is in it.
fn clear(volume: &Filesystem, path: &str, errors: &mut Errors) {
    for entry in count(errors, "list", volume.read_dir(path)).unwrap_or_default() {
        let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
        match entry.name == FILE.as_bytes() {
            true => drop(count(errors, "unlink", volume.remove_file(path))),
            false => clear(volume, &path, errors),
        }
    }
    count(errors, "rmdir", volume.remove_dir(path));
}

/// The one name that files have: they reuse the numbers of directories that are gone.
const FILE: &str = "file";

/// Random work on names that only directories ever have, and on files beside them; gives the
/// errors.
fn work_on_directories(volume: &Filesystem, seed: u64, operations: u64) -> Errors {
    let mut random = Random::new(seed);
    let mut errors = Errors::new();
    for _ in 0..operations {
        let (one, other) = (crowded_path(&mut random), crowded_path(&mut random));
        // Moves make trees deeper than the paths that are drawn here: without this they would fill
        // the volume.
        if random.one_in(40) {
            clear(volume, &one, &mut errors);
        }
        let file = format!("{other}/{FILE}");
        let (call, outcome) = match random.below(16) {
            12..=14 => {
                ("create", volume.make_node(&file, FileType::Regular, 0o600, Device::default()))
            }
            15 => ("unlink", volume.remove_file(&file)),
            0..=3 => ("mkdir", volume.create_dir(&one, 0o755)),
            4..=6 => ("rmdir", volume.remove_dir(&one)),
            7 => ("exchange", volume.rename(&one, &other, Rename::Exchange)),
            8 => ("rename to a new name", volume.rename(&one, &other, Rename::KeepTarget)),
            9 => (
                "list",
                volume.read_dir(format!("{one}/../{}", random.pick(&["a", "."]))).map(drop),
            ),
            _ => ("rename", volume.rename(&one, &other, Rename::Replace)),
        };
        count(&mut errors, call, outcome);
    }
    errors
}

/// Which errors POSIX has for a call on names that only directories have (or, of the last two, only
/// files).
fn is_allowed(call: &str, errno: i32) -> bool {
    match call {
        "mkdir" => matches!(errno, ENOENT | EEXIST),
        "rmdir" => matches!(errno, ENOENT | ENOTEMPTY),
        "exchange" => matches!(errno, ENOENT | EINVAL),
        "rename to a new name" => matches!(errno, ENOENT | EEXIST | EINVAL),
        "rename" => matches!(errno, ENOENT | ENOTEMPTY | EINVAL),
        "create" => matches!(errno, ENOENT | EEXIST),
        _ => errno == ENOENT,
    }
}

#[test]
fn directories_that_move_under_each_other_give_only_the_errors_of_directories() {
    if !extant_testkit::oracle::require("e2fsck") {
        return;
    }
    let rounds = extant_testkit::variables::number("EXTANT_THREAD_ROUNDS");
    let calls = extant_testkit::variables::number("EXTANT_THREAD_CALLS");
    // The tree grows for a while where a thread overtakes those that clear it. Where data comes
    // first, numbers are reused late, and what is freed is held: more room is needed.
    let rows = [
        ("modern,data-order=unordered", 48, 20_000),
        ("linux-2.4", 48, 20_000),
        ("modern", 64, 30_000),
    ];
    for (seed, (policies, mib, inodes)) in (0..rounds).flat_map(|seed| rows.map(|row| (seed, row)))
    {
        let specification = Specification {
            policies,
            inodes,
            ..Specification::new(Profile::Ext4, 1024, mib * MIB)
        };
        let clock = RealClock::new();
        let device = specification.make(clock.clone());
        let volume = specification.open(&device).expect("opens");
        const THREADS: u64 = 12;
        let (shared, errors) = (volume.clone(), Arc::new(Mutex::new(BTreeMap::new())));
        let all = Arc::clone(&errors);
        patience::within(200, &format!("{policies}, seed {seed}"), move || {
            let work = |thread| {
                let (volume, all) = (shared.clone(), Arc::clone(&all));
                move || {
                    for (key, count) in work_on_directories(&volume, seed * THREADS + thread, calls)
                    {
                        *all.lock().expect("no thread panicked").entry(key).or_insert(0) += count;
                    }
                }
            };
            let tasks: Vec<_> =
                (0..THREADS).map(|thread| clock.spawn("worker", Box::new(work(thread)))).collect();
            tasks.into_iter().for_each(|task| task.join());
        })
        .unwrap_or_else(|said| panic!("{said}"));
        let errors = errors.lock().expect("no thread panicked");
        println!("{policies}, seed {seed}: {errors:?}");
        let wrong: Vec<_> =
            errors.iter().filter(|((call, errno), _)| !is_allowed(call, *errno)).collect();
        assert!(wrong.is_empty(), "{policies}, seed {seed}: call, errno and how often: {wrong:?}");
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{policies}, seed {seed}: {said}"));
    }
}
