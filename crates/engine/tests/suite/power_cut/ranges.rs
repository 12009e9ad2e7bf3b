//! Ranges that are zeroed, taken out and pushed in: after a cut at any moment the file is as it was
//! before or as it is afterwards, with no block of it lost, moved alone or another file's.
use crate::power_cut::{log_of, mended, soiled, specification};
use crate::volume::{Random, Specification};
use extant_block::BlockDevice;
use extant_engine::mkfs::Profile;
use extant_engine::{File, Filesystem, Options, Result, Size};
use extant_testkit::variables::number;
use extant_testkit::{content, oracle};
use std::sync::Arc;

/// What is done to the file, and what its bytes are afterwards.
struct Change {
    name: &'static str,
    work: fn(&File) -> Result<()>,
    bytes: fn(&mut Vec<u8>),
    /// Whether the change is one of the whole file; else each block is the old one or the new one.
    is_whole: bool,
}

const BLOCK: usize = 1024;

const CHANGES: [Change; 3] = [
    Change {
        name: "collapse",
        work: |file| file.collapse_range(10 * 1024, 37 * 1024),
        bytes: |bytes| drop(bytes.drain(10 * BLOCK..47 * BLOCK)),
        is_whole: true,
    },
    Change {
        name: "insert",
        work: |file| file.insert_range(21 * 1024, 37 * 1024),
        bytes: |bytes| {
            drop(bytes.splice(21 * BLOCK..21 * BLOCK, std::iter::repeat_n(0, 37 * BLOCK)));
        },
        is_whole: true,
    },
    Change {
        name: "zero",
        work: |file| file.zero_range(10 * 1024 + 512, 37 * 1024, Size::Keep),
        bytes: |bytes| bytes[10 * BLOCK + 512..47 * BLOCK + 512].fill(0),
        is_whole: false,
    },
];

/// A file of many small extents: every second block, so that its map has nodes of its own.
fn fill(volume: &Filesystem, extents: usize) -> Vec<u8> {
    let file = volume.create_file("/file", 0o644).expect("makes it");
    let mut bytes = vec![0; (2 * extents - 1) * BLOCK];
    for number in 0..extents {
        let at = 2 * number * BLOCK;
        let piece = content::record(1, 1 + number as u32, at as u64, BLOCK as u64);
        file.write_all_at(at as u64, &piece).expect("writes");
        bytes[at..at + BLOCK].copy_from_slice(&piece);
    }
    // What comes later comes here: a directory that is torn shows nothing until it is mended.
    volume.create_dir("/others", 0o755).expect("makes it");
    volume.sync().expect("syncs");
    bytes
}

/// Why a cut shows what it may not.
fn fault(found: &[u8], old: &[u8], new: &[u8], change: &Change) -> Option<String> {
    if found == old || found == new {
        return None;
    }
    if change.is_whole {
        let at = found.iter().zip(new).position(|(one, other)| one != other);
        return Some(format!("{} bytes, which differ from byte {at:?} on", found.len()));
    }
    let blocks = found.chunks(BLOCK).zip(old.chunks(BLOCK)).zip(new.chunks(BLOCK));
    let mut wrong =
        blocks.enumerate().filter(|(_, ((found, old), new))| found != old && found != new);
    let (at, _) = wrong.next()?;
    Some(format!("block {at} is neither the old one nor the new one"))
}

/// Of the moments of a cut, one in this many is looked at.
fn one_in() -> usize {
    usize::try_from(number("EXTANT_MOMENTS")).expect("a small number")
}

fn cut(specification: &Specification, change: &Change, extents: usize, seed: u64) {
    let base = soiled(specification);
    let log = log_of(&base);
    let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
    let volume = Filesystem::open(device, &specification.options()).expect("opens");
    let old = fill(&volume, extents);
    let mut new = old.clone();
    (change.bytes)(&mut new);
    let synced = log.moments();
    let file = volume.open_file("/file").expect("opens");
    (change.work)(&file).expect("changes it");
    // What was freed would be taken by these, were it not held back.
    for number in 0..4 {
        let bytes = content::record(9, 9, 0, 40_960);
        let other = volume.create_file(format!("/others/{number}"), 0o644).expect("makes it");
        other.write_all_at(0, &bytes).expect("writes");
        if number == 1 {
            other.sync().expect("syncs");
        }
    }
    file.sync().expect("syncs");
    let done = log.moments();
    volume.write("/others/last", &[3; 30_000]).expect("writes");
    volume.sync().expect("syncs");
    let options = Options { access: extant_engine::Access::ReadOnly, ..specification.options() };
    let mut random = Random::new(seed);
    for moment in (synced..=log.moments()).step_by(one_in()) {
        let cut = log.cut(moment);
        let mediums = [
            cut.prefix(&base),
            cut.durable(&base),
            cut.subset(&base, 512, random.next()),
            cut.subset(&base, 4096, random.next()),
        ];
        for (number, medium) in mediums.into_iter().enumerate() {
            let medium = medium.expect("the base is as large");
            let mends = oracle::require("e2fsck") && (moment + number).is_multiple_of(7);
            let medium = if mends { mended(&medium).0 } else { medium };
            // A superblock that was torn in the middle shows nothing.
            let Ok(volume) = Filesystem::open(Arc::new(medium), &options) else {
                assert!(number == 2 && !mends, "it opens");
                continue;
            };
            let found = volume.read("/file");
            let place = format!("{}, moment {moment} of {synced}..{done}, {number}", change.name);
            let found = found.unwrap_or_else(|error| panic!("{place}: {error}"));
            let wrong = fault(&found, &old, &new, change);
            assert!(wrong.is_none(), "{place}: {}", wrong.unwrap_or_default());
            assert!(moment < done || found == new, "{place}: was synced");
        }
    }
}

#[test]
fn a_range_that_was_changed_is_the_old_one_or_the_new_one() {
    for change in &CHANGES {
        // A map in the inode, one node, and several.
        for extents in [3 * 16, 80, 300] {
            let specification =
                specification(Profile::Ext4, 1024, "modern,journal=none,throttle=inline");
            cut(&specification, change, extents, extents as u64);
        }
    }
}
