//! Copies of descriptors, bitmaps that were never written, the map for growth, quota trees; and
//! what is odd and right.
use super::harness::{Case, Image, case};

const SUPER: usize = 1024;
const CREATOR: usize = 0x48;
const HURD: u32 = 1;

/// The flag of a group that its block bitmap was never written.
const BLOCK_UNINIT: u16 = 2;
const GROUP_FLAGS: usize = 18;

/// Fields of an inode, and of an attribute's entry.
const SECTORS: usize = 28;
const VERSION: usize = 36;
const ENTRIES: usize = 32;
const VALUE_SIZE: usize = 8;

/// A changed volume.
fn changed(mut image: Image, change: impl FnOnce(&mut Image)) -> Image {
    change(&mut image);
    image
}

/// A volume of the Hurd, which keeps a translator of the first file in a block.
fn translated(block: u32) -> Image {
    changed(Image::plain(), |image| {
        image.put32(SUPER + CREATOR, HURD);
        let at = image.inode(12) + VERSION;
        image.put32(at, block);
    })
}

pub const CASES: &[Case] = &[
    case(
        "a bitmap on another one, with clusters",
        || changed(Image::clustered(), |image| image.put32(2048, image.get32(2052))),
        &[
            "inode-bitmap-conflict: group 0: the inode bitmap at block 19 overlaps other metadata",
            "blocks-marked-used: group 0: 451 blocks are marked in use but free, block 76 first",
        ],
    ),
    case(
        "a copy of the descriptors of a meta group",
        || {
            changed(Image::meta(), |image| {
                let at = image.descriptor(0);
                image.put32(at, 0);
            })
        },
        &[
            "descriptors-damaged: the first group descriptors cannot be used; the copy in group 1 \
             is",
            "free-blocks: 6088 free blocks are counted in the superblock, should be 6081",
            "free-inodes: 85 free inodes are counted in the superblock, should be 75",
        ],
    ),
    case(
        "the last group is not whole, and its bitmap was never written",
        || {
            changed(Image::sealed(), |image| {
                let at = image.descriptor(0) + GROUP_FLAGS;
                image.put16(at, image.get16(at) | BLOCK_UNINIT);
                image.seal_descriptor(0);
            })
        },
        &[
            "block-bitmap-padding: group 0: the block bitmap in block 3 is not set after its end",
            "blocks-marked-free: group 0: 21 blocks are marked free but in use, block 4 first",
        ],
    ),
    case(
        "the sectors of the map for growth, with clusters",
        || {
            changed(Image::clustered_growing(), |image| {
                let at = image.inode(7) + SECTORS;
                image.put32(at, image.get32(at) + 8);
            })
        },
        &["sector-count: inode 7: 548 sectors are counted, should be 540"],
    ),
    case(
        "a quota tree that leads to itself",
        || {
            changed(Image::counted(), |image| {
                // The last of four steps to an entry, of a user who has none: that of user 0 stays.
                let at = image.block_of(3, 4);
                assert_eq!((image.get32(at), image.get32(at + 4 * 7)), (5, 0));
                image.put32(at + 4 * 7, 4);
            })
        },
        &["quota-file: inode 3 is no quota file"],
    ),
    case(
        "a quota tree that leads back to its root",
        || {
            changed(Image::counted(), |image| {
                // From the first step for user 0: two steps too few are left below it.
                let at = image.block_of(3, 2);
                image.put32(at, 1);
            })
        },
        &["quota-usage: the quota file in inode 3 differs from what is used for 1 ids"],
    ),
    case(
        "the hash of a value is that of whole words",
        || {
            changed(Image::modern(), |image| {
                let at = image.attribute_block("/d/second") + ENTRIES + VALUE_SIZE;
                image.put32(at, image.get32(at) - 1);
            })
        },
        &[],
    ),
    case(
        "a translator of the Hurd that is nowhere",
        || translated(100_000),
        &["translator-outside: inode 12: its translator cannot be in block 100000"],
    ),
    case(
        "a translator of the Hurd on metadata",
        || translated(1),
        &["blocks-of-metadata: inode 12: 1 of its blocks belong to metadata of the volume, \
             block 1 first"],
    ),
    case(
        "a translator of the Hurd in a block that is free",
        || translated(900),
        &[
            "free-blocks: 991 free blocks are counted in the superblock, should be 990",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 990",
            "blocks-marked-free: group 0: 1 blocks are marked free but in use, block 900 first",
        ],
    ),
    case(
        "sectors of an inode of the Hurd",
        || {
            changed(Image::plain(), |image| {
                image.put32(SUPER + CREATOR, HURD);
                let at = image.inode(5) + SECTORS;
                image.put32(at, 2);
            })
        },
        &[],
    ),
];
