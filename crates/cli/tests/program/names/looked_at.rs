//! What e2fsck looks at before it calls a volume clean: each field of superblock and descriptors is
//! damaged, alone, and what it says is the measure. Ours mends nothing, so where e2fsck mends (1)
//! it may say 4 or more; it never says 0 where e2fsck does not.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::path::Path;

/// A field: where it is in its structure, its bytes, and the values that it is given.
type Row = (usize, usize, &'static [u64]);

/// Fields of the superblock.
const SUPERBLOCK: &[Row] = &[
    (0, 4, &[0, 0x41]),                            // inodes
    (4, 4, &[0, 0x2401, 0x4800]),                  // blocks: 9,216 on this device
    (8, 4, &[1, 0x1_01cc]),                        // reserved blocks
    (12, 4, &[0x1fd9, 0x3fb4, 0xffff_ffff]),       // free blocks
    (16, 4, &[0x34, 0x6a]),                        // free inodes
    (20, 4, &[0, 2]),                              // first block
    (24, 4, &[1, 0x1_0000]),                       // size of blocks
    (28, 4, &[1]),                                 // size of clusters
    (32, 4, &[0, 0x1000]),                         // blocks of a group
    (36, 4, &[0x1000]),                            // clusters of a group
    (40, 4, &[0, 0x10]),                           // inodes of a group
    (52, 2, &[0xffff]),                            // mounts
    (54, 2, &[0x7fff]),                            // mounts until a check
    (56, 2, &[0]),                                 // the magic number
    (58, 2, &[0, 2, 3]),                           // the state
    (72, 4, &[1]),                                 // the system that made it
    (76, 4, &[0, 2]),                              // the revision
    (84, 4, &[5, 0x1_000b]),                       // the first inode
    (88, 2, &[0x80, 0x200]),                       // the size of inodes
    (92, 4, &[0, 0x16, 0x1_002c, 0x8000_0000]),    // features that may be unknown
    (96, 4, &[0x2c3, 0x2c2 ^ 2, 0x10_02c2]),       // those that may not
    (100, 4, &[0x1_006b, 0x10_006b, 0x8000_0000]), // those that may not to be written
    (104, 4, &[1]),                                // the UUID
    (206, 2, &[1]),                                // descriptors kept for growth
    (208, 4, &[1]),                                // the UUID of another journal
    (224, 4, &[0, 9, 0x8000_0000]),                // the inode of the journal
    (228, 4, &[0x701]),                            // the device of the journal
    (232, 4, &[1, 12, 0x1_0000]),                  // the list of orphans
    (254, 2, &[0x80]),                             // the size of descriptors
    (336, 4, &[1]),                                // blocks, high part
    (340, 4, &[1]),                                // reserved blocks, high part
    (344, 4, &[1]),                                // free blocks, high part
    (348, 2, &[1, 0x21]),                          // extra fields of inodes
];

/// Fields of a descriptor.
const DESCRIPTOR: &[Row] = &[
    (0, 4, &[0, 1, 0xffff_ffff]), // the block bitmap
    (4, 4, &[0, 0x8000_0000]),    // the inode bitmap
    (8, 4, &[0, 0x107]),          // the inode table
    (12, 2, &[0x8000]),           // free blocks
    (14, 2, &[0x115]),            // free inodes
    (16, 2, &[0x102]),            // directories
    (18, 2, &[1, 4]),             // flags
    (24, 2, &[1]),                // the checksum of the block bitmap
    (28, 2, &[0, 0x115]),         // inodes that were never used
    (30, 2, &[1]),                // the checksum
    (32, 4, &[1]),                // the block bitmap, high part
    (40, 4, &[1]),                // the inode table, high part
];

/// Where the structures begin, with blocks of 1 KiB.
const SUPERBLOCK_AT: usize = 1024;
const DESCRIPTORS_AT: usize = 2048;
const DESCRIPTOR_BYTES: usize = 64;

fn volume(image: &Path, features: &str) -> Vec<u8> {
    let _ = std::fs::remove_file(image);
    let mut mke2fs = theirs("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-N", "64", "-J", "size=1", "-O"]);
    let (code, said) = run(mke2fs.arg(features).arg(image).arg("9M"));
    assert_eq!(code, Some(0), "{said}");
    std::fs::read(image).unwrap()
}

/// Compares both on a volume with these bytes. Returns what is wrong with our answers.
fn judge(bytes: &[u8], folder: &Scratch, what: &str) -> Vec<String> {
    let [ours, others] = ["ours.img", "theirs.img"].map(|name| folder.join(name));
    std::fs::write(&others, bytes).unwrap();
    let is_whole = e2fsck(&others).is_ok();
    let mut wrong = Vec::new();
    for words in ["-p", "-y", "-n"] {
        [&ours, &others].iter().for_each(|copy| std::fs::write(copy, bytes).unwrap());
        let (our_code, our_words) = run(extant("e2fsck").arg(words).arg(&ours));
        let (their_code, their_words) = run(theirs("e2fsck").arg(words).arg(&others));
        let (our_code, their_code) = (our_code.unwrap(), their_code.unwrap());
        let is_clean = our_code == 0 || our_words.contains("clean, ");
        let is_as_theirs = match their_code {
            0 => our_code == 0 || !is_whole,
            _ if words != "-n" && their_words.contains("unsupported feature") => {
                our_code == their_code
            }
            _ => !is_clean,
        };
        if !is_as_theirs {
            wrong.push(format!("{what}, {words}: {our_code}, theirs {their_code}: {our_words}"));
        }
        // Nothing is written but where all is well then.
        if our_code > 1 && std::fs::read(&ours).unwrap() != bytes {
            wrong.push(format!("{what}, {words}: {our_code}, and it was written: {our_words}"));
        }
        if our_code == 1 && e2fsck(&ours).is_err() {
            wrong.push(format!("{what}, {words}: 1, and it is not mended: {our_words}"));
        }
    }
    wrong
}

/// Damages each field of a structure that begins at `start`.
fn damage(base: &[u8], start: usize, rows: &[Row], folder: &Scratch, what: &str) -> Vec<String> {
    let cases = rows.iter().flat_map(|row| row.2.iter().map(move |value| (row.0, row.1, *value)));
    cases
        .step_by(number("EXTANT_CASES") as usize)
        .flat_map(|(offset, width, value)| {
            let mut bytes = base.to_vec();
            bytes[start + offset..start + offset + width]
                .copy_from_slice(&value.to_le_bytes()[..width]);
            judge(&bytes, folder, &format!("{what}, byte {offset} is {value:#x}"))
        })
        .collect()
}

#[test]
fn no_damaged_superblock_or_descriptor_is_clean_that_is_none_for_e2fsck() {
    if !require("e2fsck") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("names-looked-at");
    let image = folder.join("base.img");
    let base = volume(&image, "^metadata_csum,^resize_inode");
    let mut wrong = judge(&base, &folder, "undamaged");
    wrong.extend(damage(&base, SUPERBLOCK_AT, SUPERBLOCK, &folder, "superblock"));
    for group in 0..2 {
        let at = DESCRIPTORS_AT + group * DESCRIPTOR_BYTES;
        wrong.extend(damage(&base, at, DESCRIPTOR, &folder, &format!("group {group}")));
    }
    let base = volume(&image, "metadata_csum");
    wrong.extend(judge(&base, &folder, "undamaged, with checksums"));
    wrong.extend(damage(&base, DESCRIPTORS_AT, DESCRIPTOR, &folder, "group 0, with checksums"));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_e2fsck_does_not_open_or_finds_cut_has_its_code() {
    if !require("e2fsck") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("names-looked-at-codes");
    let image = folder.join("base.img");
    let base = volume(&image, "^metadata_csum,^resize_inode");
    let with = |offset: usize, value: u32| {
        let mut bytes = base.clone();
        bytes[SUPERBLOCK_AT + offset..][..4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let half = base[..base.len() / 2].to_vec();
    for (what, bytes, codes) in [
        ("incompatible", with(96, 0x10_02c2), [8, 8, 8]),
        ("not to be written", with(100, 0x8000_0000), [8, 8, 12]),
        ("half of it", half, [4, 4, 4]),
        (
            "a table outside",
            {
                // of group 1
                let mut bytes = base.clone();
                bytes[DESCRIPTORS_AT + DESCRIPTOR_BYTES + 8..][..4].fill(0xff);
                bytes
            },
            [4, 4, 4],
        ),
    ] {
        for (words, expected) in ["-p", "-a", "-n"].into_iter().zip(codes) {
            std::fs::write(&image, &bytes).unwrap();
            let (code, said) = run(extant("e2fsck").arg(words).arg(&image));
            assert_eq!(code, Some(expected), "{what}, {words}: {said}");
            assert!(!said.contains("clean"), "{what}, {words}: {said}");
        }
    }
}
