//! Fields of inodes that must be zero, data in inodes, inodes of the system.
use super::harness::{Case, Image, case};

/// Fields of an inode.
const SIZE: usize = 4;
const SECTORS: usize = 28;
const FLAGS: usize = 32;
const MAP: usize = 40;
const ATTRIBUTE_BLOCK: usize = 104;
const SIZE_HIGH: usize = 108;
const FRAGMENT: usize = 112;
const SECTORS_HIGH: usize = 116;
const ATTRIBUTE_BLOCK_HIGH: usize = 118;
const EXTRA: usize = 128;

const INDEX: u32 = 0x1000;
const IMAGIC: u32 = 0x2000;
const EXTENTS: u32 = 0x8_0000;
const INLINE_DATA: u32 = 0x1000_0000;
const CASEFOLDED: u32 = 0x4000_0000;

/// Changes the inode of a path of a volume of ext2.
fn inode(path: &str, change: impl FnOnce(&mut Image, usize)) -> Image {
    changed(Image::plain(), path, change)
}

/// Changes the inode of a path.
fn changed(image: Image, path: &str, change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = image;
    let at = image.inode_of(path);
    change(&mut image, at);
    image
}

/// Changes an inode of the system.
fn system(ino: u32, change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = Image::plain();
    let at = image.inode(ino);
    change(&mut image, at);
    image
}

pub const CASES: &[Case] = &[
    case(
        "a fragment",
        || inode("/d/file", |image, at| image.put32(at + FRAGMENT, 7)),
        &["field-not-zero: inode 15: the field 'fragment' is 7, should be 0"],
    ),
    case(
        "many sectors",
        || inode("/d/file", |image, at| image.put16(at + SECTORS_HIGH, 1)),
        &["field-not-zero: inode 15: the field 'sectors, high half' is 1, should be 0"],
    ),
    case(
        "attributes far away",
        || inode("/d/file", |image, at| image.put16(at + ATTRIBUTE_BLOCK_HIGH, 1)),
        &["field-not-zero: inode 15: the field 'attribute block, high half' is 1, should be 0"],
    ),
    case(
        "a very large directory",
        || inode("/d", |image, at| image.put32(at + SIZE_HIGH, 1)),
        &["directory-size-high: inode 12: has 4294968320 bytes, more than a directory can have"],
    ),
    case(
        "a very large file",
        || changed(Image::modern(), "/d/file", |image, at| image.put32(at + SIZE_HIGH, 1 << 20)),
        &["file-too-large: inode 15: has 4503599627370507 bytes, but no more than 4398046511103 \
             can be mapped"],
    ),
    case(
        "a pipe with a high half of a size",
        || inode("/d/pipe", |image, at| image.put32(at + SIZE_HIGH, 1)),
        &["special-file-size: inode 20: a special file has a size of 4294967296"],
    ),
    case(
        "the flag imagic",
        || {
            inode("/d/file", |image, at| {
                let flags = image.get32(at + FLAGS);
                image.put32(at + FLAGS, flags | IMAGIC)
            })
        },
        &["magic-flag: inode 15: has the flag imagic, but the volume does not have that feature"],
    ),
    case(
        "the flag of an index",
        || inode("/d/file", |image, at| image.put32(at + FLAGS, INDEX)),
        &["index-flag: inode 15: has the flag of a hash index, but cannot have one"],
    ),
    case(
        "bytes of extra fields",
        || changed(Image::modern(), "/d/pipe", |image, at| image.put16(at + EXTRA, 30)),
        &["extra-size: inode 20: 30 bytes of extra fields cannot be"],
    ),
    case(
        "the attribute of inline data",
        || {
            changed(Image::inline(), "/d/sub", |image, at| {
                let tail = at + EXTRA + usize::from(image.get16(at + EXTRA));
                image.put32(tail, 0)
            })
        },
        &["inline-missing: inode 13: has the flag of inline data, but not the attribute in which \
             it goes on"],
    ),
    case(
        "the size of an inline directory",
        || {
            changed(Image::inline(), "/d/sub", |image, at| {
                let size = image.get32(at + SIZE);
                image.put32(at + SIZE, size + 4)
            })
        },
        &["inline-size: inode 13: the size is 64, but 60 bytes are in the inode"],
    ),
    case(
        "a list of bad blocks with attributes",
        || system(1, |image, at| image.put32(at + ATTRIBUTE_BLOCK, 7)),
        &["bad-blocks-inode: inode 1: is no list of bad blocks"],
    ),
    case(
        "a list of bad blocks with extents and folded names",
        || system(1, |image, at| image.put32(at + FLAGS, EXTENTS | CASEFOLDED)),
        &[
            "extents-without-feature: inode 1: is mapped by extents, but the volume does not have \
             that feature",
            "casefold-flag: inode 1: has the flag that names know no case, but cannot have it",
        ],
    ),
    case(
        "a list of bad blocks in its inode",
        || system(1, |image, at| image.put32(at + FLAGS, INLINE_DATA)),
        &["bad-blocks-inode: inode 1: is no list of bad blocks"],
    ),
    case(
        "a journal without the feature, with extents",
        || system(8, |image, at| image.put32(at + FLAGS, EXTENTS)),
        &["extents-without-feature: inode 8: is mapped by extents, but the volume does not have \
             that feature"],
    ),
    case(
        "a bad block past the end",
        || system(1, |image, at| image.put32(at + MAP, 5000)),
        &["block-outside: inode 1: block 5000 of file block 0 (1 blocks) is not on the volume"],
    ),
    case(
        "a quota without the feature",
        || system(3, |image, at| image.put32(at + MAP, 25)),
        &["reserved-in-use: inode 3: has blocks, but the feature that it is reserved for is not \
             set"],
    ),
    case(
        "a journal without the feature",
        || system(8, |image, at| image.put32(at + MAP, 25)),
        &["reserved-in-use: inode 8: has blocks, but the feature that it is reserved for is not \
             set"],
    ),
    case(
        "sectors of an unused inode of the system",
        || system(6, |image, at| image.put32(at + SECTORS, 2)),
        &["sector-count: inode 6: 2 sectors are counted, should be 0"],
    ),
    case(
        "the checksum of an unused inode of the system",
        || {
            let mut image = Image::sealed();
            let at = image.inode(6);
            image.put32(at + SIZE, 3);
            image
        },
        &["inode-checksum: inode 6: the checksum is wrong"],
    ),
    case(
        "a file whose names know no case",
        || inode("/d/file", |image, at| image.put32(at + FLAGS, CASEFOLDED)),
        &["casefold-flag: inode 15: has the flag that names know no case, but cannot have it"],
    ),
    case(
        "a directory whose names know no case",
        || inode("/d", |image, at| image.put32(at + FLAGS, CASEFOLDED)),
        &["casefold-flag: inode 12: has the flag that names know no case, but cannot have it"],
    ),
    case(
        "an unknown feature",
        || feature(0, 1 << 14),
        &["unknown-feature: the volume has an unknown feature, 'FEATURE_C14'"],
    ),
    case(
        "an unknown feature that changes everything",
        || feature(1, 1 << 22),
        &["unknown-incompatible: the volume has an unknown feature, 'FEATURE_I22': \
             nothing can be said of it"],
    ),
    case(
        "the checksum of a symlink",
        || {
            let mut image = Image::sealed();
            let at = image.inode_of("/d/short");
            image.put32(at + 100, 7);
            image
        },
        &["inode-checksum-unread: inode 17: the checksum is wrong, and without it the type \
             cannot be trusted"],
    ),
    case(
        "an extent block past the end",
        || changed(Image::branched(), "/tree", |image, at| image.put32(at + MAP + 16, 99_999)),
        &[
            "map-block-outside: inode 22: map block 99999, from file block 0 on, is not on the \
             volume",
            "free-blocks: 968 free blocks are counted in the superblock, should be 983",
            "group-free-blocks: group 0: 968 free blocks are counted, should be 983",
            "blocks-marked-used: group 0: 15 blocks are marked in use but free, block 25 first",
        ],
    ),
];

/// Sets a feature: compatible, incompatible, or such that one may still read.
fn feature(class: usize, bit: u32) -> Image {
    let mut image = Image::plain();
    let at = 1024 + 92 + 4 * class;
    let features = image.get32(at);
    image.put32(at, features | bit);
    image
}
