//! Volumes that are full, over and over, with free space in small pieces: what a call has taken is
//! written, whatever else was taken since. Room is refused by the call, and never by a commit,
//! which would end all writing.
use crate::volume::{Random, judge};

use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::{
    Access, DataKeeping, ErrorKind, Filesystem, Options, Rename, Result, SetAttribute, Size,
};
use extant_testkit::command::run;
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::{number, seed};
use std::sync::Arc;

/// Words for mke2fs, and policies.
const VOLUMES: [(&str, &str); 10] = [
    ("-O bigalloc -b 4096 -C 16384 -J size=4", "modern,journal=data"),
    ("-O bigalloc -b 4096 -C 16384 -J size=4", "modern"),
    ("-O bigalloc -b 1024 -C 8192 -J size=4", "modern,journal=data"),
    ("-O bigalloc,quota,ea_inode -b 4096 -C 16384 -J size=4", "modern"),
    ("-O bigalloc,quota,ea_inode -b 1024 -C 4096 -J size=4", "modern,journal=data"),
    ("-O bigalloc,^has_journal -b 4096 -C 16384", "linux-2.6"),
    ("-O quota,ea_inode -b 1024 -J size=4", "modern"),
    ("-O ^quota -b 1024 -J size=4", "modern,journal=data"),
    ("-O ^has_journal -b 1024", "linux-2.4"),
    ("-O ^has_journal -b 1024", "modern"),
];

fn made(folder: &Scratch, words: &str) -> Arc<MemoryDevice> {
    let image = folder.join("image").display().to_string();
    let mut all = vec!["-q", "-F", "-t", "ext4", "-m", "0", "-N", "512"];
    all.extend(words.split(' '));
    all.extend([&*image, "12M"]);
    run("mke2fs", &all).expect("mke2fs makes it");
    let bytes = std::fs::read(&image).expect("reads");
    Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes))
}

fn open(device: &Arc<MemoryDevice>, policies: &str) -> Filesystem {
    let policies = policies.parse().expect("policies");
    let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: 24 << 20, data };
    Filesystem::open(Arc::clone(device) as Arc<dyn BlockDevice>, &options).expect("opens")
}

/// As many files are more than the volume has room for.
const FILES: u64 = 60;
/// A life ends that does not fill its volume.
const STEPS_MAX: u32 = 4000;

/// One change of one of some files. Most are writes, of up to 300 KiB, here and there.
fn step(volume: &Filesystem, random: &mut Random) -> Result<()> {
    let path = format!("/{}", random.below(FILES));
    let file = match volume.open_file(&path) {
        Ok(file) => file,
        Err(_) => volume.create_file(&path, 0o644)?,
    };
    let most = *random.pick(&[5_000, 40_000, 300_000]);
    let (at, length) = (random.below(400_000), random.below(most) + 1);
    let at = if random.one_in(3) { at } else { at / 4096 * 4096 };
    match random.below(16) {
        0..9 => file.write_at(at, &vec![random.below(255) as u8 + 1; length as usize]).map(drop),
        9 => file.allocate(at, length, *random.pick(&[Size::Grow, Size::Keep])),
        10 => file.punch_hole(at, length),
        11 => file.zero_range(at, length, *random.pick(&[Size::Grow, Size::Keep])),
        12 => file.set_len(at),
        13 => volume.rename(&path, format!("/{}", random.below(FILES)), Rename::Replace),
        14 => {
            let value = vec![b'v'; random.below(3000) as usize];
            volume.set_attribute(&path, b"user.value", &value, SetAttribute::Any)
        }
        _ => file.sync(),
    }
}

/// What may be refused on a full volume.
fn is_room(error: &ErrorKind) -> bool {
    // An attribute may have no room where there is no inode for it.
    matches!(error, ErrorKind::NoSpace { .. } | ErrorKind::AttributesTooLarge)
        || matches!(error, ErrorKind::NoInodes | ErrorKind::OperationUnsupported(_))
}

#[test]
fn what_a_full_volume_has_taken_is_written() {
    if !["mke2fs", "e2fsck"].iter().all(|tool| require(tool)) {
        return;
    }
    let folder = Scratch::new("full");
    let seeds = number("EXTANT_FULL_SEEDS");
    let first = seed("EXTANT_FULL_SEED", 0);
    for (kind, (words, policies)) in (0..).zip(VOLUMES) {
        for seed in first..first + seeds {
            let what = format!("{words} {policies}, seed {seed}");
            let mut random = Random::new(seed * 100 + kind);
            let device = made(&folder, words);
            let volume = open(&device, policies);
            for round in 0..5 {
                let mut refused = 0;
                for step_number in 0.. {
                    if refused == 25 {
                        break;
                    }
                    assert!(step_number < STEPS_MAX, "{what}: it is not filled");
                    match step(&volume, &mut random) {
                        Ok(()) => {}
                        Err(error) if is_room(&error.kind) => {
                            let is_full = matches!(error.kind, ErrorKind::NoSpace { .. });
                            refused += u32::from(is_full);
                        }
                        Err(error) => panic!("{what}, round {round}: {error}"),
                    }
                    if random.one_in(30) {
                        volume.sync().unwrap_or_else(|error| panic!("{what}: {round}: {error}"));
                    }
                }
                volume.sync().unwrap_or_else(|error| panic!("{what}: {round}: {error}"));
                for at in 0..FILES {
                    if random.one_in(4) {
                        let _ = volume.remove_file(format!("/{at}"));
                    }
                }
            }
            volume.close().unwrap_or_else(|error| panic!("{what}: {error}"));
            judge(&device).unwrap_or_else(|said| panic!("{what}: {said}"));
        }
    }
}

/// How many of these files got a cluster of four blocks each before there was no room.
fn filled(volume: &Filesystem, paths: &[String]) -> usize {
    let is_full = |path: &String| {
        let file = volume.open_file(path).expect("opens");
        file.write_at(0, &[1; 16384]).is_err()
    };
    paths.iter().position(is_full).expect("full")
}

/// A write ends in clusters apart from each other, as many as its inode has extents for, and begins
/// in the middle of an extent that reads as zeros; others get what was left over for its map. It is
/// written nevertheless.
#[test]
fn what_comes_in_pieces_is_written_when_nothing_is_left() {
    if !["mke2fs", "e2fsck"].iter().all(|tool| require(tool)) {
        return;
    }
    let folder = Scratch::new("full-pieces");
    for (words, policies) in &VOLUMES[..2] {
        let device = made(&folder, words);
        let volume = open(&device, policies);
        let file = volume.create_file("/file", 0o644).expect("makes it");
        file.allocate(0, 100 * 4096, Size::Grow).expect("allocates");
        let ballast = volume.create_file("/ballast", 0o644).expect("makes it");
        ballast.allocate(0, 100 * 16384, Size::Keep).expect("allocates");
        let paths: Vec<String> = (0..480).map(|number| format!("/fill-{number}")).collect();
        paths.iter().for_each(|path| drop(volume.create_file(path, 0o644).expect("makes it")));
        let count = filled(&volume, &paths);
        volume.sync().expect("syncs");
        for number in [60, 80, 100, 120, 140, 160] {
            assert!(number < count, "{policies}: {count}");
            volume.remove_file(&paths[number]).expect("removes");
        }
        volume.sync().expect("syncs");
        // Three clusters are new. Three more are promised to the map, and two of them not used.
        file.write_all_at(90 * 4096, &[3; 22 * 4096]).expect("there is room");
        let took = filled(&volume, &paths[count..]);
        assert!(took > 0, "{policies}: others get none");
        volume.sync().unwrap_or_else(|error| panic!("{policies}: {error}"));
        let bytes = volume.read("/file").expect("reads");
        assert!(bytes[..90 * 4096].iter().all(|byte| *byte == 0), "{policies}");
        assert!(bytes[90 * 4096..] == [3; 22 * 4096], "{policies}");
        drop((file, ballast));
        volume.close().unwrap_or_else(|error| panic!("{policies}: {error}"));
        judge(&device).unwrap_or_else(|said| panic!("{policies}: {said}"));
    }
}

/// What waits in the middle of an extent that reads as zeros splits it when it is written. Holes
/// that are filled at once meanwhile take the room in the inode that was enough for that.
#[test]
fn holes_that_are_filled_leave_room_for_what_waits() {
    if !["mke2fs", "e2fsck"].iter().all(|tool| require(tool)) {
        return;
    }
    let folder = Scratch::new("full-waits");
    // The first takes no more than it is asked for, and at once.
    for policies in ["linux-2.4,allocation=freebsd-5.2", "freebsd-5.2", "modern"] {
        let device = made(&folder, "-O ^has_journal -b 4096");
        let volume = open(&device, policies);
        let file = volume.create_file("/file", 0o644).expect("makes it");
        file.allocate(0, 100 * 4096, Size::Grow).expect("allocates");
        let ballast = volume.create_file("/ballast", 0o644).expect("makes it");
        ballast.allocate(0, 1300 * 4096, Size::Keep).expect("allocates");
        let paths: Vec<String> = (0..480).map(|number| format!("/fill-{number}")).collect();
        paths.iter().for_each(|path| drop(volume.create_file(path, 0o644).expect("makes it")));
        let count = filled(&volume, &paths);
        for number in [60, 80, 100] {
            volume.remove_file(&paths[number]).expect("removes");
        }
        volume.sync().expect("syncs");
        for at in [50, 200, 300, 400] {
            file.write_all_at(at * 4096, &[3; 4096]).expect("there is room");
        }
        for path in &paths[count..] {
            let _ = volume.open_file(path).expect("opens").write_at(0, &[4; 4096]);
        }
        volume.sync().unwrap_or_else(|error| panic!("{policies}: {error}"));
        drop((file, ballast));
        volume.close().unwrap_or_else(|error| panic!("{policies}: {error}"));
        judge(&device).unwrap_or_else(|said| panic!("{policies}: {said}"));
    }
}
