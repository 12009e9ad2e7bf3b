//! Random damage to the metadata of small volumes: the check never panics, ends, reports the same
//! with one thread and with several, and agrees with e2fsck whether a volume is clean.
use super::harness::{Image, sentences};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;

/// Changed bytes a volume; the seed makes them the same in every run.
const CHANGES: u64 = 60;
/// Of a hundred volumes that e2fsck finds damaged, at most this many are clean to us.
const MISSED_PERCENT: usize = 1;
/// Of a hundred volumes, at most this many are damaged to us alone.
const ALARM_PERCENT: usize = 2;

/// A generator of numbers that are random enough (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

/// The bytes of metadata worth changing: inodes in use, directories, an attribute block.
fn places(image: &Image) -> Vec<usize> {
    let superblock = image.superblock();
    let inode_size = usize::from(superblock.inode_size);
    let used = superblock.inodes_count - superblock.free_inodes;
    let inodes = (1..=used).map(|ino| image.inode(ino));
    let mut places: Vec<usize> = inodes.flat_map(|at| at..at + inode_size).collect();
    for path in ["/", "/d"] {
        let start = image.block_of(image.find(path), 0);
        places.extend(start..start + image.block_size());
    }
    places
}

#[test]
fn random_damage_is_judged_as_e2fsck_judges_it() {
    if !require("mke2fs") || !require("debugfs") || !require("e2fsck") {
        return;
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut damaged, mut all) = (0, 0);
    let (mut missed, mut alarms) = (Vec::new(), Vec::new());
    for image in [
        Image::plain(),
        Image::modern(),
        Image::sealed(),
        Image::indexed(),
        Image::inline(),
        Image::values(),
        Image::grouped(),
    ] {
        let places = places(&image);
        for _ in 0..CHANGES {
            let mut changed = image.clone();
            let at = places[random.below(places.len())];
            let value = [random.below(256) as u8, 0, 0xff, image.bytes[at] ^ 1][random.below(4)];
            changed.bytes[at] = value;
            let (report, several) = (changed.check(1), changed.check(4));
            assert_eq!(sentences(&report), sentences(&several), "byte {at} is {value:#x}");
            all += 1;
            let judged = changed.e2fsck();
            damaged += usize::from(judged != 0);
            let verdict =
                || format!("byte {at} is {value:#x}: e2fsck {judged}, {:?}", sentences(&report));
            match (judged == 0, report.is_clean()) {
                (false, true) => missed.push(verdict()),
                (true, false) => alarms.push(verdict()),
                _ => {}
            }
        }
    }
    assert!(
        missed.len() * 100 <= damaged * MISSED_PERCENT,
        "{} of {damaged} damaged ones are clean to us: {missed:#?}",
        missed.len()
    );
    assert!(
        alarms.len() * 100 <= all * ALARM_PERCENT,
        "{} of {all} are damaged to us alone: {alarms:#?}",
        alarms.len()
    );
}

/// The map block of one file is the data of another: it is followed whichever comes first, and what
/// is reported of the file is the same with any number of threads.
#[test]
fn a_map_block_that_is_data_of_another_is_followed() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    const SECTORS: usize = 28;
    const MAP: usize = 40;
    let mut image = Image::branched();
    let (file, tree) = (image.inode_of("/d/file"), image.inode_of("/tree"));
    let node = image.get32(tree + MAP + 12 + 4);
    image.put32(file + MAP + 12 + 8, node);
    image.put32(tree + SECTORS, image.get32(tree + SECTORS) + 2);
    let reported = sentences(&image.check(1));
    for code in ["blocks-of-other", "sector-count"] {
        assert!(reported.iter().any(|problem| problem.starts_with(code)), "{code}: {reported:#?}");
    }
    for _ in 0..10 {
        assert_eq!(sentences(&image.check(1)), reported);
        assert_eq!(sentences(&image.check(4)), reported);
    }
}

/// A superblock that speaks of petabytes costs the memory of what is on the device.
#[test]
fn a_superblock_of_a_huge_volume_takes_little_memory() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("huge");
    let path = folder.join("image");
    let words =
        "-q -F -t ext4 -b 4096 -I 4096 -N 64 -O 64bit,^has_journal,^metadata_csum,^resize_inode";
    output(program("mke2fs").args(words.split(' ')).arg(&path).arg("16M"))
        .expect("mke2fs makes it");
    let made = Image { bytes: std::fs::read(&path).unwrap() };
    for inodes in [made.get32(1024), 1 << 30, u32::MAX] {
        let mut image = made.clone();
        image.put32(1024, inodes);
        image.put32(1024 + 4, 0);
        image.put32(1024 + 0x150, 1 << 13);
        image.put32(1024 + 40, 1);
        let report = image.check(1);
        // It was not given up in pass 0.
        assert_eq!(report.summary.blocks, 1 << 45, "{:#?}", sentences(&report));
        assert!(!report.is_clean());
    }
}

#[test]
fn much_damage_at_once_is_survived() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    let mut random = Random(0x1234_5678_9abc_def1);
    for image in
        [Image::plain(), Image::modern(), Image::sealed(), Image::indexed(), Image::inline()]
    {
        let length = image.bytes.len().min(200 * 1024);
        for round in 0..60 {
            let mut changed = image.clone();
            for _ in 0..1 << (round % 12) {
                // The superblock less often: else nothing else is looked at.
                let at = random.below(length);
                if !(1024..2048).contains(&at) || round % 7 == 0 {
                    changed.bytes[at] = random.below(256) as u8;
                }
            }
            let (report, several) = (changed.check(1), changed.check(3));
            assert_eq!(sentences(&report), sentences(&several), "round {round}");
        }
    }
}
