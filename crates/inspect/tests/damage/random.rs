//! Random damage to the metadata of small volumes: the check never panics, ends, tells the same with one thread and with
//! several, and agrees with e2fsck whether a volume is clean.
use super::harness::{Image, sentences};
use xtask::oracle::require;

/// Changed bytes a volume; the seed makes them the same in every run.
const CHANGES: u64 = 60;
/// Of a hundred verdicts, so many must be e2fsck's.
const AGREED_PERCENT: u64 = 97;

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
    let table = image.inode(1);
    let used = (superblock.inodes_count - superblock.free_inodes) as usize;
    let mut places: Vec<usize> = (table..table + used * inode_size).collect();
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
    let (mut agreed, mut all, mut differ) = (0, 0, Vec::new());
    for image in [
        Image::plain(),
        Image::modern(),
        Image::sealed(),
        Image::indexed(),
        Image::inline(),
        Image::values(),
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
            if (judged == 0) == report.is_clean() {
                agreed += 1;
            } else {
                differ.push(format!(
                    "byte {at} is {value:#x}: e2fsck {judged}, {:?}",
                    sentences(&report)
                ));
            }
        }
    }
    assert!(
        agreed * 100 >= all * AGREED_PERCENT,
        "{agreed} of {all} agree: {differ:#?}"
    );
}

#[test]
fn much_damage_at_once_is_survived() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    let mut random = Random(0x1234_5678_9abc_def1);
    for image in [
        Image::plain(),
        Image::modern(),
        Image::sealed(),
        Image::indexed(),
        Image::inline(),
    ] {
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
