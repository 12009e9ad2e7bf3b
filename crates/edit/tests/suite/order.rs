//! Changes of a device that has no place for a log: a cut at any write leaves the volume as before,
//! as it is to be, or one that says that it is not clean; and its journal says that it is empty
//! only when all that was replayed from it is durable.
use crate::devices::{Recorded, Skipped};
use crate::volumes::{Kind, bytes_of};
use crate::{DRAWN_TO_FIND, media, moments_without};
use extant_block::{BlockDevice, MemoryDevice, Overlay};
use extant_edit::order::write_directly;
use extant_engine::read_superblock;
use extant_format::superblock::{Superblock, state};
use extant_testkit::oracle;
use std::ops::Range;
use std::sync::Arc;

const BLOCK_BYTES: usize = 1024;
const SUPERBLOCK: Range<usize> = 1024..2048;
/// Blocks that change, and one that is of a journal afterwards: after the first, before the last.
const CHANGED: [u64; 5] = [2, 3, 700, 2500, 4090];
const OF_JOURNAL: u64 = 1500;
const JOURNAL_MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];

/// Writes blocks by a device: those above, or, with a superblock, that too.
fn write(device: Arc<dyn BlockDevice>, superblock: Option<&Superblock>) {
    let overlay = Overlay::new(device, BLOCK_BYTES as u32, 1 << 20);
    for number in CHANGED.into_iter().chain([OF_JOURNAL]) {
        overlay.write(number * BLOCK_BYTES as u64, &[7; BLOCK_BYTES]).expect("it is kept");
    }
    overlay.write(OF_JOURNAL * BLOCK_BYTES as u64, &JOURNAL_MAGIC).expect("it is kept");
    if let Some(superblock) = superblock {
        overlay.write(SUPERBLOCK.start as u64, &superblock.encode()).expect("it is kept");
    }
    write_directly(&overlay).expect("it is written");
}

/// What is wrong with what a cut left; `None` if nothing is.
fn wrong(medium: &MemoryDevice, ends: &[Vec<u8>; 2]) -> Option<String> {
    let bytes = bytes_of(medium);
    let is_after = |number: u64| {
        let place = number as usize * BLOCK_BYTES..(number as usize + 1) * BLOCK_BYTES;
        bytes[place.clone()] == ends[1][place]
    };
    // A part of a sector is as good as none: the journal's first word says what it is.
    let journal = OF_JOURNAL as usize * BLOCK_BYTES;
    let empties_journal = bytes[journal..journal + 4] == JOURNAL_MAGIC;
    if let Some(number) = CHANGED.into_iter().find(|number| empties_journal && !is_after(*number)) {
        return Some(format!("the journal is empty, and block {number} is as before"));
    }
    // Of two sectors, one may be there: then nobody takes it for a superblock with a checksum.
    let says_clean =
        read_superblock(medium).is_ok_and(|superblock| superblock.state & state::CLEAN != 0);
    let torn = says_clean && !ends.contains(&bytes);
    torn.then(|| "it says that it is clean, and is neither before nor after".to_owned())
}

/// How many of the media that cuts leave are wrong, with words for the first one.
fn cuts(kind: Kind, skipped: Skipped, superblock: fn(&mut Superblock)) -> (usize, Option<String>) {
    let base = kind.make();
    let mut after = read_superblock(&base).expect("a superblock");
    superblock(&mut after);
    let is_changed = bytes_of(&base)[SUPERBLOCK] != after.encode();
    let recorded = Arc::new(Recorded::new(base.snapshot(), skipped, None));
    write(recorded.clone(), is_changed.then_some(&after));
    let ends = [bytes_of(&base), bytes_of(&*recorded)];
    assert!(ends[1][SUPERBLOCK] == after.encode(), "the superblock is not what it is to be");
    let (mut count, mut first) = (0, None);
    let moments = match skipped {
        Skipped::None => ((0..=recorded.log.moments()).collect(), 8),
        Skipped::Flush(flush) => (moments_without(&recorded, flush), DRAWN_TO_FIND),
    };
    media((&recorded, &base), moments, &mut |moment, (words, _), medium| {
        if let Some(why) = wrong(&medium, &ends) {
            count += 1;
            first.get_or_insert_with(|| format!("{kind:?}, moment {moment}, {words}: {why}"));
        }
    });
    (count, first)
}

#[test]
fn no_cut_leaves_a_torn_volume_that_says_it_is_clean() {
    if !oracle::require("mke2fs") {
        return;
    }
    let superblocks: [fn(&mut Superblock); 2] = [|_| {}, |superblock| superblock.free_blocks -= 1];
    for kind in [Kind::EXT2_1K, Kind::EXT4_1K] {
        for superblock in superblocks {
            assert_eq!(cuts(kind, Skipped::None, superblock), (0, None));
        }
    }
    // Of the flushes before the last one, none is there for nothing.
    for flush in 1..=3 {
        let (found, _) = cuts(Kind::EXT2_1K, Skipped::Flush(flush), |one| one.free_blocks -= 1);
        assert!(found > 0, "flush {flush} left out, and no cut shows it");
    }
}
