//! Names that are known are those that are there, whatever threads look up while others change
//! them, and memory stays within what was asked for.
use crate::volume;

use extant_block::{Clock, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{ErrorKind, Filesystem, Rename};
use extant_format::Ino;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use volume::{MIB, Random, Specification, judge, patience};

const DIRECTORIES: [&str; 3] = ["/one", "/two", "/one/below"];

/// Names of all lengths: some differ in their end alone, some are kept apart from their entries.
fn names() -> Vec<String> {
    let mut names: Vec<String> = (0..6).map(|number| format!("n{number}")).collect();
    for length in [21, 22, 23, 24, 254, 255] {
        names.extend(["a", "b"].map(|end| "x".repeat(length - 1) + end));
    }
    names
}

fn paths() -> Vec<String> {
    let of = |directory: &&str| {
        names().into_iter().map(move |name| format!("{directory}/{name}")).collect::<Vec<_>>()
    };
    DIRECTORIES.iter().flat_map(of).collect()
}

fn number_at(volume: &Filesystem, path: &str) -> Option<Ino> {
    match volume.symlink_metadata(path) {
        Ok(metadata) => Some(metadata.ino),
        Err(error) if matches!(error.kind, ErrorKind::NotFound) => None,
        Err(error) => panic!("{path}: {error}"),
    }
}

/// Changes names, and looks after each change at those that it has changed and at some others.
fn change(volume: &Filesystem, seed: u64, changes: u64) {
    let (mut random, paths) = (Random::new(seed), paths());
    let mut model: BTreeMap<String, Ino> = BTreeMap::new();
    for number in 0..changes {
        let (one, other) = (random.pick(&paths).clone(), random.pick(&paths).clone());
        let said = match random.below(6) {
            0 | 1 => volume.write(&one, b"content").map(|()| {
                let ino = number_at(volume, &one).expect("written");
                model.insert(one.clone(), ino);
            }),
            2 => volume.remove_file(&one).map(|()| {
                model.remove(&one);
            }),
            3 => volume.hard_link(&one, &other).map(|()| {
                let ino = model[&one];
                model.insert(other.clone(), ino);
            }),
            4 => volume.rename(&one, &other, Rename::Exchange).map(|()| {
                let (ino, second) = (model[&one], model[&other]);
                model.extend([(one.clone(), second), (other.clone(), ino)]);
            }),
            _ => volume.rename(&one, &other, Rename::Replace).map(|()| {
                // Two names of one inode both stay.
                if model[&one] != model.get(&other).copied().unwrap_or(Ino(0)) {
                    let ino = model.remove(&one).expect("renamed");
                    model.insert(other.clone(), ino);
                }
            }),
        };
        let is_there = (model.contains_key(&one), model.contains_key(&other));
        if let Err(error) = said {
            let expected = matches!(error.kind, ErrorKind::NotFound | ErrorKind::Exists);
            assert!(expected, "seed {seed}, change {number}: {error}, {is_there:?}");
        }
        for path in [&one, &other, random.pick(&paths), random.pick(&paths)] {
            let (is, should) = (number_at(volume, path), model.get(path).copied());
            assert_eq!(is, should, "seed {seed}, after change {number}: {path}");
        }
    }
}

/// Looks names up, there or not, until the others have ended.
fn look(volume: &Filesystem, seed: u64, ended: &AtomicBool) {
    let (mut random, paths) = (Random::new(seed), paths());
    while !ended.load(Ordering::Acquire) {
        let path: &String = random.pick(&paths);
        let _ = number_at(volume, path);
        if random.one_in(50) {
            let _ = volume.read_dir(*random.pick(&DIRECTORIES));
        }
    }
}

#[test]
fn what_a_look_up_finds_is_what_was_changed_last() {
    for (features, block_size, cache_bytes, seed) in
        [("", 1024, 4 << 20, 1), ("^dir_index", 1024, 4 << 20, 2), ("", 4096, 1 << 18, 3)]
    {
        let specification = Specification {
            features,
            cache_bytes,
            ..Specification::new(Profile::Ext4, block_size, 32 * MIB)
        };
        let clock = RealClock::new();
        let device = specification.make(clock.clone());
        let volume = specification.open(&device).expect("opens");
        for directory in DIRECTORIES {
            volume.create_dir(directory, 0o755).expect("a directory");
        }
        let shared = volume.clone();
        patience::within(200, &format!("{specification}"), move || {
            let ended = Arc::new(AtomicBool::new(false));
            let lookers: Vec<_> = (0..3)
                .map(|thread| {
                    let (volume, ended) = (shared.clone(), Arc::clone(&ended));
                    let look = move || look(&volume, seed * 100 + thread, &ended);
                    clock.spawn("looks", Box::new(look))
                })
                .collect();
            let changer = shared.clone();
            let ends = Arc::clone(&ended);
            let change = move || {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    change(&changer, seed, 4000);
                }));
                ends.store(true, Ordering::Release);
                outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            };
            let changing = clock.spawn("changes", Box::new(change));
            lookers.into_iter().for_each(|task| task.join());
            changing.join();
        })
        .unwrap_or_else(|error| panic!("{error}"));
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
    }
}

#[test]
fn what_is_known_of_a_directory_ends_with_it() {
    let specification = Specification::new(Profile::Ext4, 1024, 16 * MIB);
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    let mut numbers = BTreeMap::new();
    for round in 0..20 {
        volume.create_dir("/d", 0o755).expect("made");
        assert_eq!(number_at(&volume, "/d/file"), None, "round {round}");
        volume.write("/d/file", b"x").expect("written");
        *numbers.entry(number_at(&volume, "/d").expect("a directory")).or_insert(0) += 1;
        assert!(number_at(&volume, "/d/file").is_some(), "round {round}");
        volume.remove_file("/d/file").expect("removed");
        volume.remove_dir("/d").expect("removed");
        // Makes the number free for another directory.
        volume.sync().expect("synced");
        assert_eq!(number_at(&volume, "/d"), None, "round {round}");
    }
    assert!(numbers.values().any(|uses| *uses > 1), "no number was given twice: {numbers:?}");
}

#[test]
fn a_name_that_is_too_long_is_neither_there_nor_known() {
    let specification = Specification::new(Profile::Ext4, 1024, 16 * MIB);
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    for _ in 0..2 {
        let error = volume.metadata("/".to_owned() + &"n".repeat(256)).expect_err("too long");
        assert!(matches!(error.kind, ErrorKind::NameTooLong), "{error}");
        let error = volume.write("/".to_owned() + &"n".repeat(256), b"x").expect_err("too long");
        assert!(matches!(error.kind, ErrorKind::NameTooLong), "{error}");
    }
    volume.write("/".to_owned() + &"n".repeat(255), b"x").expect("as long as it may be");
    assert!(number_at(&volume, &("/".to_owned() + &"n".repeat(255))).is_some());
}
