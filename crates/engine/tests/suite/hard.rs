//! Sizes at which things go wrong: directories of 100,000 names, maps of many levels, files at
//! their limits, volumes that are full, inodes with as many links as they may have.
use crate::volume;

use extant_block::RealClock;
use extant_engine::mkfs::Profile;
use extant_engine::{Error, ErrorKind, Filesystem, Rename, Size};
use extant_format::inode::{Device, FileType, LINKS_MAX};
use extant_format::superblock::{Feature, MappingKind};
use extant_testkit::command::run;
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::sync::Arc;
use volume::{KIB, MIB, Random, Specification, judge};

const EFBIG: i32 = 27;
const EMLINK: i32 = 31;

fn make_file(volume: &Filesystem, path: &str) -> extant_engine::Result<()> {
    volume.make_node(path, FileType::Regular, 0o644, Device::default())
}

fn shuffled(count: u64, random: &mut Random) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    numbers
}

fn debugfs(device: &extant_block::MemoryDevice, request: &str) -> String {
    let folder = Scratch::new("hard");
    let image = folder.join("hard.img");
    device.save(&image).expect("saves");
    oracle::debugfs(&image, request).expect("debugfs answers")
}

#[test]
fn many_names_come_and_go_one_by_one() {
    if !oracle::require("e2fsck") {
        return;
    }
    let count = number("EXTANT_NAMES");
    assert!(count >= 10_000, "an index of two levels needs more names than {count}");
    for features in ["", "^metadata_csum"] {
        let specification = Specification {
            inodes: u32::try_from(count).expect("names that an index holds") + 1000,
            features,
            ..Specification::new(Profile::Ext4, 1024, 160 * MIB)
        };
        let device = specification.make(RealClock::new());
        let mut random = Random::new(1);
        let volume = specification.open(&device).expect("opens");
        volume.create_dir("/d", 0o755).expect("a directory");
        let path = |number: u64| format!("/d/name number {number:0>24}");
        for number in shuffled(count, &mut random) {
            make_file(&volume, &path(number)).unwrap_or_else(|error| panic!("{error}"));
        }
        let listed = volume.read_dir("/d").expect("lists");
        assert_eq!(listed.len() as u64, count);
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{said}"));
        if features.is_empty() {
            // Without checksums debugfs complains that there is no room for them.
            let dump = debugfs(&device, "htree_dump /d");
            assert!(dump.contains("Indirect levels: 1"), "the index has two levels");
        }
        let volume = specification.open(&device).expect("opens");
        for number in shuffled(count, &mut random).into_iter().skip(100) {
            volume.remove_file(path(number)).unwrap_or_else(|error| panic!("{error}"));
        }
        assert_eq!(volume.read_dir("/d").expect("lists").len(), 100);
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{said}"));
    }
}

#[test]
fn a_directory_whose_index_is_full_refuses_and_stays_sound() {
    if !oracle::require("e2fsck") {
        return;
    }
    let specification =
        Specification { inodes: 1000, ..Specification::new(Profile::Ext4, 1024, 128 * MIB) };
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    volume.create_dir("/d", 0o755).expect("a directory");
    make_file(&volume, "/one").expect("a file");
    let mut count = 0u64;
    let refusal = loop {
        match volume.hard_link("/one", format!("/d/{count:x>250}")) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal.kind, ErrorKind::DirectoryFull), "{refusal}");
    assert!(count > 15_000 && volume.statfs().free_blocks > 1000, "{count} names");
    assert_eq!(volume.metadata("/one").expect("is there").links as u64, count + 1);
    assert_eq!(volume.read_dir("/d").expect("lists").len() as u64, count);
    volume.close().expect("closes");
    judge(&device).unwrap_or_else(|said| panic!("{said}"));
}

/// The depth of the extent tree of a file, by debugfs.
fn extent_depth(device: &extant_block::MemoryDevice, path: &str) -> u32 {
    let listed = debugfs(device, &format!("dump_extents {path}"));
    let depths = listed
        .lines()
        .filter_map(|line| line.split_once('/')?.1.split_whitespace().next()?.parse().ok());
    depths.max().unwrap_or(0)
}

#[test]
fn extents_three_levels_deep_are_written_punched_and_cut() {
    if !oracle::require("e2fsck") {
        return;
    }
    // More than four nodes of 84 nodes of 84 extents.
    const TEETH: u64 = 30_000;
    let specification =
        Specification { inodes: 100, ..Specification::new(Profile::Ext4, 1024, 64 * MIB) };
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    let file = volume.create_file("/comb", 0o644).expect("a file");
    let mut random = Random::new(3);
    let mut is_there = vec![false; TEETH as usize];
    for (at, tooth) in shuffled(TEETH, &mut random).into_iter().enumerate() {
        file.write_all_at(2 * tooth * KIB, &tooth.to_le_bytes())
            .unwrap_or_else(|error| panic!("{error}"));
        is_there[tooth as usize] = true;
        if at % 3000 == 0 {
            file.sync().expect("syncs");
        }
    }
    drop(file);
    volume.close().expect("closes");
    judge(&device).unwrap_or_else(|said| panic!("{said}"));
    let volume = specification.open(&device).expect("opens");
    let file = volume.open_file("/comb").expect("is there");
    assert_eq!(extent_depth(&device, "/comb"), 3);
    for _ in 0..200 {
        let (first, length) = (random.below(TEETH), random.below(60));
        file.punch_hole(2 * first * KIB, 2 * length * KIB + 1)
            .unwrap_or_else(|error| panic!("{error}"));
        let behind = (first + length).min(TEETH);
        is_there[first as usize..behind as usize].fill(false);
    }
    for (tooth, is_there) in (0..).zip(&is_there) {
        let mut bytes = [0xee; 8];
        file.read_at(2 * tooth * KIB, &mut bytes).expect("reads");
        // The last byte of a hole is the first of a tooth, which keeps the others.
        let expected = if *is_there { u64::to_le_bytes(tooth) } else { [0; 8] };
        assert_eq!(bytes[1..], expected[1..], "tooth {tooth}");
    }
    drop(file);
    for size in [50_000 * KIB, 20_001 * KIB + 7, 300 * KIB, 5 * KIB, 0] {
        let file = volume.open_file("/comb").expect("is there");
        file.set_len(size).unwrap_or_else(|error| panic!("{error}"));
        drop(file);
        judge_open(&volume, &device).unwrap_or_else(|said| panic!("{size}: {said}"));
    }
    let file = volume.open_file("/comb").expect("is there");
    assert_eq!(file.metadata().expect("is there").sectors, 0);
    file.allocate(0, 40_000 * KIB, Size::Grow).expect("room");
    for tooth in shuffled(15_000, &mut random) {
        file.write_all_at(2 * tooth * KIB, b"written").unwrap_or_else(|error| panic!("{error}"));
    }
    drop(file);
    volume.close().expect("closes");
    judge(&device).unwrap_or_else(|said| panic!("{said}"));
}

/// A volume that is open and synced is consistent if none of its files is open.
fn judge_open(volume: &Filesystem, device: &extant_block::MemoryDevice) -> Result<(), String> {
    volume.sync().map_err(|error| error.to_string())?;
    judge(device)
}

fn specifications() -> impl Iterator<Item = Specification> {
    let sizes = [1024u32, 2048, 4096, 16384, 65536];
    sizes.into_iter().flat_map(|block_size| {
        [
            (Profile::Ext2, ""),
            (Profile::Ext4, ""),
            (Profile::Ext4, "^extent,^64bit"),
            (Profile::Ext4, "^huge_file"),
        ]
        .map(|(profile, features)| Specification {
            features,
            inodes: 64,
            ..Specification::new(profile, block_size, (8 * MIB).max(u64::from(block_size) * 512))
        })
    })
}

fn size_max(volume: &Filesystem) -> u64 {
    let superblock = volume.superblock();
    let kind =
        if superblock.has(Feature::EXTENTS) { MappingKind::Extents } else { MappingKind::Indirect };
    superblock.max_file_size(kind)
}

#[test]
fn files_reach_their_limit_and_not_a_byte_more() {
    if !oracle::require("e2fsck") {
        return;
    }
    for specification in specifications() {
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        let size = size_max(&volume);
        let file = volume.create_file("/large", 0o644).expect("a file");
        file.write_all_at(size - 1, b"z")
            .unwrap_or_else(|error| panic!("{specification}: {error}"));
        let errno =
            |outcome: extant_engine::Result<()>| outcome.err().map(|error: Error| error.errno());
        assert_eq!(errno(file.write_all_at(size, b"z")), Some(EFBIG), "{specification}");
        assert_eq!(errno(file.write_all_at(u64::MAX, b"z")), Some(EFBIG), "{specification}");
        assert_eq!(errno(file.set_len(size + 1)), Some(EFBIG), "{specification}");
        assert_eq!(file.write_at(size - 5, b"0123456789").expect("in part"), 5, "{specification}");
        let mut bytes = [0; 10];
        assert_eq!(file.read_at(size - 5, &mut bytes).expect("reads"), 5);
        assert_eq!(&bytes[..5], b"01234");
        assert_eq!(file.metadata().expect("is there").size, size);
        let data = file.next_data(0).expect("a map").expect("data");
        assert!(
            data.end == size && data.start >= size - 2 * u64::from(specification.block_size),
            "{data:?} of {size}"
        );
        drop(file);
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        let volume = specification.open(&device).expect("opens");
        volume.open_file("/large").expect("is there").set_len(12).expect("is cut");
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
    }
}

#[test]
fn the_kernel_has_the_same_limits() {
    if !oracle::require("mke2fs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("limits");
    let mut wrong = Vec::new();
    for specification in specifications().filter(|specification| specification.block_size <= 4096) {
        let device = specification.make(RealClock::new());
        let size = size_max(&specification.open(&device).expect("opens"));
        let device = specification.make(RealClock::new());
        let image = folder.join("limit.img");
        device.save(&image).expect("saves");
        let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "").expect("mounts");
        let file = std::fs::File::create(mounted.path().join("large")).expect("a file");
        let (fits, above) = (file.set_len(size), file.set_len(size + 1));
        drop(file);
        mounted.unmount().expect("unmounts");
        if fits.is_err()
            || above.as_ref().err().and_then(std::io::Error::raw_os_error) != Some(EFBIG)
        {
            wrong.push(format!("{specification}: {size}: {fits:?}, one more: {above:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_volume_is_filled_to_the_last_block_and_emptied_again() {
    if !oracle::require("e2fsck") {
        return;
    }
    let rows = [
        (Profile::Ext4, 1024, "modern"),
        (Profile::Ext2, 1024, "linux-2.4"),
        (Profile::Ext3, 4096, "linux-2.6"),
        (Profile::Ext4, 4096, "packed"),
        (Profile::Ext2, 1024, "freebsd-5.2,growth=contiguous-8"),
        (Profile::Ext2, 1024, "freebsd-2010"),
        (Profile::Ext2, 1024, "freebsd-5.2"),
        (Profile::Ext2, 1024, "linux-2.4-akpm"),
        (Profile::Ext2, 4096, "linux-2.4-akpm,mount=sync"),
        (Profile::Ext4, 1024, "modern,mount=sync"),
        (Profile::Ext4, 1024, "linux-2.6,allocation=freebsd-fixed,growth=reservation"),
        (Profile::Ext4, 1024, "linux-2.6,growth=reservation"),
    ];
    for (profile, block_size, policies) in rows {
        let specification = Specification {
            policies,
            inodes: 500,
            ..Specification::new(profile, block_size, 20 * MIB)
        };
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        let before = volume.statfs();
        let no_space = |error: &Error| matches!(error.kind, ErrorKind::NoSpace { .. });
        // One large file as far as it goes, in pieces that get smaller; then small ones.
        let file = volume.create_file("/large", 0o644).expect("a file");
        let mut end = 0;
        for piece in [MIB, 64 * KIB, 4 * KIB, 512] {
            let refusal = loop {
                match file.write_all_at(end, &vec![1; piece as usize]) {
                    Ok(()) => end += piece,
                    Err(error) => break error,
                }
            };
            assert!(no_space(&refusal), "{specification}: {refusal}");
        }
        let mut count = 0;
        while volume.write(format!("/s{count}"), b"x").is_ok() {
            count += 1;
        }
        let full = volume.statfs();
        assert_eq!(full.free_blocks, 0, "{specification}: {count} small files");
        assert!(make_file(&volume, "/empty").is_ok(), "a name that has room needs no block");
        drop(file);
        volume.sync().unwrap_or_else(|error| panic!("{specification}: {error}"));
        assert_eq!(
            volume.statfs().free_blocks,
            0,
            "{specification}: all that was promised was needed"
        );
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        let volume = specification.open(&device).expect("opens");
        for entry in volume.read_dir("/").expect("lists") {
            if entry.name != b"lost+found" {
                let name = String::from_utf8(entry.name).expect("a name of ours");
                volume.remove_file(name).unwrap_or_else(|error| panic!("{specification}: {error}"));
            }
        }
        let mut inodes = 0;
        while make_file(&volume, &format!("/n{inodes}")).is_ok() {
            inodes += 1;
        }
        assert_eq!(volume.statfs().free_inodes, 0);
        (0..inodes).for_each(|number| volume.remove_file(format!("/n{number}")).expect("is there"));
        let after = volume.statfs();
        assert_eq!(after.free_inodes, before.free_inodes);
        // The root keeps the blocks that its names needed.
        let root = volume.metadata("/").expect("a root").size / u64::from(block_size);
        assert!(
            before.free_blocks - after.free_blocks <= root,
            "{specification}: {before:?} {after:?}"
        );
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
    }
}

#[test]
fn a_file_of_two_gibibytes_needs_its_feature() {
    let plain = Specification::new(Profile::Ext2, 1024, 8 * MIB);
    let specification = Specification { features: "^large_file,^resize_inode", ..plain };
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    let file = volume.create_file("/file", 0o644).expect("a file");
    file.set_len((1 << 31) - 1).expect("fits");
    volume.sync().expect("syncs");
    let has = |device: &Arc<extant_block::MemoryDevice>| {
        let copy = Arc::new(device.snapshot());
        specification.open(&copy).expect("opens").superblock().has(Feature::LARGE_FILE)
    };
    assert!(!has(&device));
    file.write_all_at(1 << 31, b"x").expect("fits");
    drop(file);
    volume.close().expect("closes");
    assert!(has(&device));
    if oracle::require("e2fsck") {
        judge(&device).unwrap_or_else(|said| panic!("{said}"));
    }
}

#[test]
fn an_inode_has_as_many_links_as_it_may_have() {
    if !oracle::require("e2fsck") {
        return;
    }
    let specification =
        Specification { inodes: 70_000, ..Specification::new(Profile::Ext4, 1024, 160 * MIB) };
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    make_file(&volume, "/one").expect("a file");
    volume.create_dir("/links", 0o755).expect("a directory");
    for number in 1..LINKS_MAX {
        volume
            .hard_link("/one", format!("/links/{number}"))
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let refusal = volume.hard_link("/one", "/links/more").expect_err("that is all");
    assert_eq!(refusal.errno(), EMLINK);
    assert_eq!(volume.metadata("/one").expect("is there").links, LINKS_MAX);
    // Directories go beyond, and say 1 from then on.
    volume.create_dir("/many", 0o755).expect("a directory");
    make_file(&volume, "/many/file").expect("a file");
    volume.create_dir("/swapped", 0o755).expect("a directory");
    for number in 0..65_010 {
        if number == u64::from(LINKS_MAX) - 2 {
            assert_eq!(volume.metadata("/many").expect("is there").links, LINKS_MAX);
            // A directory that comes in a file's place is one more too.
            volume.rename("/swapped", "/many/file", Rename::Exchange).expect("change places");
            assert_eq!(volume.metadata("/many").expect("is there").links, 1);
        }
        volume
            .create_dir(format!("/many/{number}"), 0o755)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(volume.metadata("/many").expect("is there").links, 1);
    volume.rename("/swapped", "/many/file", Rename::Exchange).expect("change places again");
    assert_eq!(volume.metadata("/many").expect("is there").links, 1);
    volume.remove_dir("/many/7").expect("goes");
    volume.rename("/many/8", "/eight", Rename::Replace).expect("goes");
    assert_eq!(volume.metadata("/many").expect("is there").links, 1);
    volume.close().expect("closes");
    judge(&device).unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn without_its_feature_a_directory_has_a_limit_too() {
    if !oracle::require("e2fsck") {
        return;
    }
    let specification =
        Specification { inodes: 66_000, ..Specification::new(Profile::Ext3, 1024, 160 * MIB) };
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    volume.create_dir("/many", 0o755).expect("a directory");
    for number in 2..LINKS_MAX {
        volume
            .create_dir(format!("/many/{number}"), 0o755)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(volume.create_dir("/many/more", 0o755).expect_err("that is all").errno(), EMLINK);
    volume.create_dir("/more", 0o755).expect("elsewhere there is room");
    let refusal = volume.rename("/more", "/many/more", Rename::Replace).expect_err("that is all");
    assert_eq!(refusal.errno(), EMLINK);
    volume.rename("/many/5", "/many/more", Rename::Replace).expect("nothing more");
    exchanges_at_the_limit(&volume);
    volume.close().expect("closes");
    judge(&device).unwrap_or_else(|said| panic!("{said}"));
}

/// Exchanges between `/many`, which has as many links as it may have, and the root.
fn exchanges_at_the_limit(volume: &Filesystem) {
    let links = |path: &str| volume.metadata(path).expect("is there").links;
    let file_type = |path: &str| volume.metadata(path).expect("is there").file_type;
    make_file(volume, "/many/file").expect("a file");
    let root = links("/");
    assert_eq!(links("/many"), LINKS_MAX);
    // A directory in a file's place would be one more, whichever is named first.
    for (from, to) in [("/more", "/many/file"), ("/many/file", "/more")] {
        let refusal = volume.rename(from, to, Rename::Exchange).expect_err("that is all");
        assert_eq!(refusal.errno(), EMLINK, "{from} and {to}");
        assert_eq!((links("/many"), links("/")), (LINKS_MAX, root), "{from} and {to}");
        assert_eq!(file_type("/many/file"), FileType::Regular, "{from} and {to}");
        assert_eq!(file_type("/more"), FileType::Directory, "{from} and {to}");
    }
    // Two directories change nothing, nor do two names of one directory.
    volume.rename("/more", "/many/7", Rename::Exchange).expect("two directories");
    volume.rename("/many/8", "/many/file", Rename::Exchange).expect("two names");
    volume.rename("/many/8", "/many/file", Rename::Exchange).expect("and back");
    assert_eq!((links("/many"), links("/")), (LINKS_MAX, root));
    // One that goes makes room for one that comes.
    make_file(volume, "/file").expect("a file");
    volume.rename("/many/8", "/file", Rename::Exchange).expect("one less");
    assert_eq!((links("/many"), links("/")), (LINKS_MAX - 1, root + 1));
    volume.rename("/more", "/many/file", Rename::Exchange).expect("one more");
    assert_eq!((links("/many"), links("/")), (LINKS_MAX, root));
    let refusal = volume.create_dir("/many/last", 0o755).expect_err("that is all");
    assert_eq!(refusal.errno(), EMLINK);
}

#[test]
fn a_file_without_a_name_outlives_its_volume_once() {
    if !oracle::require("e2fsck") {
        return;
    }
    for (profile, features) in
        [(Profile::Ext4, ""), (Profile::Ext2, ""), (Profile::Ext4, "^metadata_csum")]
    {
        let specification =
            Specification { features, ..Specification::new(profile, 1024, 8 * MIB) };
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        let before = volume.statfs();
        let files: Vec<_> = (0..5)
            .map(|number| {
                let path = format!("/{number}");
                volume.write(&path, &[7; 30_000]).expect("room");
                let file = volume.open_file(&path).expect("is there");
                volume.remove_file(&path).expect("goes");
                file.write_all_at(40_000, b"still here").expect("room");
                file
            })
            .collect();
        assert!(volume.statfs().free_blocks < before.free_blocks - 5 * 30);
        volume.close().expect("closes");
        drop(files);
        let volume = specification.open(&device).expect("opens");
        assert_eq!(volume.statfs(), before, "{specification}");
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
    }
}

/// A power cut leaves bytes after the end of a file, and so do other programs: a file that grows
/// has zeros there.
#[test]
fn what_the_last_block_holds_after_the_end_is_never_content() {
    if !oracle::require("debugfs") || !oracle::require("e2fsck") {
        return;
    }
    type Growth = (&'static str, fn(&Filesystem) -> extant_engine::Result<()>);
    const GROWTHS: [Growth; 5] = [
        ("set_len", |volume| volume.open_file("/file")?.set_len(8000)),
        ("allocate", |volume| volume.open_file("/file")?.allocate(4096, 4096, Size::Grow)),
        ("zero_range", |volume| volume.open_file("/file")?.zero_range(4096, 4096, Size::Grow)),
        ("a write past a gap", |volume| volume.open_file("/file")?.write_all_at(7000, &[0; 9])),
        ("a write in the block", |volume| volume.open_file("/file")?.write_all_at(900, &[0; 9])),
    ];
    for policies in ["modern", "modern,journal=none", "modern,journal=data"] {
        for (what, grow) in GROWTHS {
            let specification =
                Specification { policies, ..Specification::new(Profile::Ext4, 1024, 16 * MIB) };
            let device = specification.make(RealClock::new());
            let volume = specification.open(&device).expect("opens");
            volume.write("/file", &[b'S'; 1024]).expect("writes");
            volume.close().expect("closes");
            let folder = Scratch::new("after-the-end");
            let image = folder.join("image");
            device.save(&image).expect("saves");
            let path = image.display().to_string();
            run("debugfs", &["-w", "-R", "sif /file size 100", &path]).expect("debugfs sets it");
            let bytes = std::fs::read(&image).expect("reads");
            let device = std::sync::Arc::new(extant_block::MemoryDevice::from_bytes(
                RealClock::new(),
                &bytes,
            ));
            let volume = specification.open(&device).expect("opens");
            grow(&volume).unwrap_or_else(|error| panic!("{what}: {error}"));
            let is_content = |bytes: &[u8]| bytes[..100] == [b'S'; 100];
            let read = volume.read("/file").expect("reads");
            assert!(is_content(&read) && read[100..].iter().all(|byte| *byte == 0), "{what}");
            volume.close().expect("closes");
            judge(&device).unwrap_or_else(|said| panic!("{what}: {said}"));
            let volume = specification.open(&device).expect("opens");
            let read = volume.read("/file").expect("reads");
            assert!(
                is_content(&read) && read[100..].iter().all(|byte| *byte == 0),
                "{what}: later"
            );
        }
    }
}
