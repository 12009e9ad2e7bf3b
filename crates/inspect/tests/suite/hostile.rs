//! Bytes that cannot be trusted: shown as far as they go, without a panic, in bounded time.

use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_format::Ino;
use extant_inspect::{Error, SuperblockPlace, Visit, Volume, survey, walk};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// Does everything that can be done with a volume. Gives how much was said.
fn show(device: Arc<dyn BlockDevice>) -> Result<usize, Error> {
    let volume = Volume::open(device, SuperblockPlace::Primary)?;
    let mut said = volume.info().to_string();
    for group in volume.groups() {
        match group {
            Ok(group) => write!(said, "{group}").unwrap(),
            Err(error) => write!(said, "{error}").unwrap(),
        }
    }
    write!(said, "{}", survey(&volume)?).unwrap();
    Ok(said.len())
}

fn memory(bytes: &[u8]) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::from_bytes(RealClock::new(), bytes))
}

#[test]
fn the_corpus_of_broken_images_is_shown() {
    let corpus = extant_testkit::repository().join("../shared/corpus");
    let Ok(entries) = std::fs::read_dir(&corpus) else {
        return skip_known(Known::Collections, "no corpus of damaged images");
    };
    let mut images: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    images.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    images.sort();
    let mut shown = 0;
    for image in images {
        let bytes = output(program("gzip").arg("-dc").arg(&image)).expect("gzip unpacks it").stdout;
        // A few of them are broken beyond telling; none may be broken beyond reading.
        match show(memory(&bytes)) {
            Ok(said) => shown += usize::from(said > 500),
            Err(Error::Device(error)) => panic!("{}: {error}", image.display()),
            Err(_) => {}
        }
    }
    assert!(shown > 10, "only {shown} images showed anything");
}

/// Small volumes with something in them, as mke2fs makes them.
fn volumes() -> &'static [Vec<u8>] {
    static MADE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    MADE.get_or_init(|| {
        if !require("mke2fs") {
            return Vec::new();
        }
        let folder = Scratch::new("hostile");
        let source = folder.join("source");
        std::fs::create_dir_all(source.join("directory")).unwrap();
        for number in 0..40 {
            std::fs::write(source.join(format!("directory/file-{number}")), vec![7; number * 2000])
                .unwrap();
        }
        let make = |words: &&str| {
            let image = folder.join("made.img");
            let mut command = program("mke2fs");
            command
                .args(["-q", "-F", "-b", "1024", "-N", "64"])
                .args(words.split(' '))
                .arg("-d")
                .arg(&source);
            output(command.arg(&image).arg("4M")).expect("mke2fs makes it");
            std::fs::read(image).unwrap()
        };
        ["-t ext2 -I 128", "-t ext4 -O ^has_journal,^metadata_csum", "-t ext4 -O ^has_journal"]
            .iter()
            .map(make)
            .collect()
    })
}

/// Where a change is likely to be met: superblock, descriptors, bitmaps, inode table, first
/// directories.
const INTERESTING_BYTES: usize = 96 * 1024;

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn changed_volumes_are_shown(
        which in 0..3_usize,
        changes in prop::collection::vec(
            (
                0..INTERESTING_BYTES,
                prop::sample::select(vec![0_u8, 1, 2, 0x7f, 0x80, 0xff]),
                1..4_usize,
            ),
            1..40,
        ),
        kept in prop::option::weighted(0.1, 1024..INTERESTING_BYTES),
    ) {
        let Some(volume) = volumes().get(which) else { return Ok(()) };
        let mut bytes = volume.clone();
        for (at, value, length) in changes {
            // The first fields of the superblock are changed less often than they would be: else
            // nothing is shown.
            if !(1024..1152).contains(&at) || at % 5 == 0 {
                bytes[at..at + length].fill(value);
            }
        }
        if let Some(kept) = kept {
            bytes.truncate(kept);
        }
        let _ = show(memory(&bytes));
    }
}

#[test]
fn a_map_that_bites_its_tail_ends() {
    let Some(bytes) = volumes().first() else { return };
    let device = memory(bytes);
    let volume =
        Volume::open(Arc::clone(&device) as Arc<dyn BlockDevice>, SuperblockPlace::Primary)
            .unwrap();
    let (ino, inode) = (13..64)
        .map(|ino| (Ino(ino), volume.inode(Ino(ino)).unwrap()))
        .find(|(_, inode)| inode.size > 60_000)
        .expect("a file with an indirect block");
    let (block, offset) = {
        let (group, _) = volume.superblock().group_of_inode(ino).unwrap();
        volume.superblock().inode_place(ino, &volume.descriptor(group).unwrap()).unwrap()
    };
    // Its triple-indirect block, which is all pointers to itself: 256 * 256 * 256 ways lead to
    // nowhere.
    let indirect = u32::from_le_bytes(*inode.block[48..].first_chunk().unwrap());
    device.write(block.0 * 1024 + offset as u64 + 40 + 56, &indirect.to_le_bytes()).unwrap();
    device.write(block.0 * 1024 + offset as u64 + 40 + 48, &[0; 4]).unwrap();
    device.write(u64::from(indirect) * 1024, &indirect.to_le_bytes().repeat(256)).unwrap();
    let inode = volume.inode(ino).unwrap();
    let (mut maps, mut faults) = (0, 0);
    let mut claimed = extant_inspect::Claimed::default();
    walk(&volume, &inode, &mut claimed, &mut |visit| {
        maps += u32::from(matches!(visit, Visit::MapBlock(_)));
        faults += u32::from(matches!(visit, Visit::Fault(_)));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((maps, faults), (1, 256));
    assert!(survey(&volume).unwrap().faults >= 256);
}

#[test]
fn what_is_no_volume_is_said() {
    for bytes in [vec![], vec![0; 1000], vec![0; 5000], vec![0xff; 5000]] {
        let error = show(memory(&bytes)).expect_err("no superblock is here");
        assert_eq!(error.to_string(), "byte 1024: no ext2, ext3 or ext4 superblock");
    }
}
