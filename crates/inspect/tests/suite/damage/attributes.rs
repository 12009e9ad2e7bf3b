//! Extended attributes, symlinks, devices and pipes.
use super::harness::{Case, Image, case};

/// Fields of an inode.
const SIZE: usize = 4;
const FLAGS: usize = 32;
const MAP: usize = 40;
const ATTRIBUTE_BLOCK: usize = 104;
const EXTRA: usize = 128;

/// Fields of an attribute's entry.
const VALUE_OFFSET: usize = 2;
const VALUE_INODE: usize = 4;
const VALUE_SIZE: usize = 8;
const HASH: usize = 12;

/// Fields of an attribute block, and where its entries begin.
const REFERENCES: usize = 4;
const BLOCKS: usize = 8;
const CHECKSUM: usize = 16;
const ENTRIES: usize = 32;

const IMMUTABLE: u32 = 0x10;
const EXTENTS: u32 = 0x8_0000;

/// Changes the first attribute in the inode of `/d/file`.
fn first(image: Image, change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = image;
    let at = image.inode_of("/d/file");
    let list = at + EXTRA + usize::from(image.get16(at + EXTRA)) + 4;
    change(&mut image, list);
    image
}

/// Changes the attribute block of `/d/second`.
fn block(change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = Image::modern();
    let at = image.attribute_block("/d/second");
    change(&mut image, at);
    image
}

/// Changes the inode of a path of a volume of ext2.
fn inode(path: &str, change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = Image::plain();
    let at = image.inode_of(path);
    change(&mut image, at);
    image
}

pub const CASES: &[Case] = &[
    case(
        "a name without a prefix in a block",
        || block(|image, at| image.put8(at + ENTRIES + 1, 0)),
        &["attribute-prefix: inode 16: the name 'two' of an attribute belongs to nothing \
             that has attributes"],
    ),
    case(
        "an empty value past the end of a block",
        || {
            block(|image, at| {
                image.put16(at + ENTRIES + VALUE_OFFSET, 1025);
                image.put32(at + ENTRIES + VALUE_SIZE, 0);
            })
        },
        &["attributes-overlap: inode 16: names or values of its attributes overlap or pass \
             their end"],
    ),
    case(
        "a value over the names",
        || first(Image::modern(), |image, at| image.put16(at + VALUE_OFFSET, 4)),
        &["attributes-overlap: inode 15: names or values of its attributes overlap or pass \
             their end"],
    ),
    case(
        "a name past the end",
        || first(Image::modern(), |image, at| image.put8(at, 200)),
        &["attributes-overlap: inode 15: names or values of its attributes overlap or pass \
             their end"],
    ),
    case(
        "a value longer than all",
        || first(Image::modern(), |image, at| image.put32(at + VALUE_SIZE, 9999)),
        &["attribute-value-size: inode 15: an attribute cannot have a value of 9999 bytes"],
    ),
    case(
        "a hash",
        || first(Image::modern(), |image, at| image.put32(at + HASH, 1)),
        &["attribute-hash: inode 15: the hash of attribute 'one' is not 1"],
    ),
    case(
        "a value in an inode that is none",
        || first(Image::modern(), |image, at| image.put32(at + VALUE_INODE, 20)),
        &[
            "sector-count: inode 15: 2 sectors are counted, should be 4",
            "attribute-value-inode: inode 15: the value of an attribute cannot be inode 20",
        ],
    ),
    case(
        "an attribute block outside",
        outside,
        &[
            "sector-count: inode 16: 4 sectors are counted, should be 2",
            "attribute-block-outside: inode 16: its attributes cannot be in block 100000",
            "free-blocks: 982 free blocks are counted in the superblock, should be 983",
            "group-free-blocks: group 0: 982 free blocks are counted, should be 983",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 25 first",
        ],
    ),
    case(
        "no magic number",
        || block(|image, at| image.put8(at, 1)),
        &["attribute-block-magic: inode 16: block 25 is no block of attributes"],
    ),
    case(
        "no magic number and another count",
        || {
            block(|image, at| {
                image.put8(at, 1);
                image.put32(at + REFERENCES, 7)
            })
        },
        &[
            "attribute-block-magic: inode 16: block 25 is no block of attributes",
            "attribute-references-lost: attribute block 25 counts 7 inodes that share it, 1 do, \
             and it is no block of attributes",
        ],
    ),
    case(
        "an attribute block of two blocks",
        || block(|image, at| image.put32(at + BLOCKS, 2)),
        &["attribute-block-count: inode 16: attribute block 25 says that it has 2 blocks"],
    ),
    case(
        "more references than sharers",
        || block(|image, at| image.put32(at + REFERENCES, 2)),
        &["attribute-references: attribute block 25 counts 2 inodes that share it, 1 do"],
    ),
    case(
        "a hash in a block",
        || block(|image, at| image.put32(at + ENTRIES + HASH, 1)),
        &["attribute-hash: inode 16: the hash of attribute 'two' is not 1"],
    ),
    case(
        "a value in a block over the names",
        || block(|image, at| image.put16(at + ENTRIES + VALUE_OFFSET, 8)),
        &[
            "attributes-overlap: inode 16: names or values of its attributes overlap or pass \
             their end",
            "attribute-hash: inode 16: the hash of attribute 'two' is not 122511",
        ],
    ),
    case(
        "a hash under a right checksum",
        hash_sealed,
        &["attribute-hash: inode 16: the hash of attribute 'two' is not 1"],
    ),
    case(
        "the checksum of a block",
        checksum,
        &["attribute-block-checksum: inode 16: the checksum of attribute block 25 is 2095232245, \
             should be 2095232244"],
    ),
    case(
        "the references of a value",
        references,
        &["value-references: inode 22, the value of an attribute, counts 3 attributes that have \
             it, 1 do"],
    ),
    case(
        "a value that no attribute has",
        unattached,
        &[
            "sector-count: inode 15: 4 sectors are counted, should be 2",
            "inode-unattached: inode 22 is in use, but no directory has an entry for it",
        ],
    ),
    case(
        "a symlink longer than its target",
        || inode("/d/short", |image, at| image.put32(at + SIZE, 9)),
        &["symlink-invalid: inode 17: the symlink has no target of 9 bytes"],
    ),
    case(
        "a symlink without a target",
        || inode("/d/short", |image, at| image.put32(at + SIZE, 0)),
        &[
            "symlink-invalid: inode 17: the symlink has no target of 0 bytes",
            "block-outside: inode 17: block 1735549300 of file block 0 (1 blocks) is not on the \
             volume",
            "block-outside: inode 17: block 29797 of file block 1 (1 blocks) is not on the volume",
        ],
    ),
    case(
        "a symlink with a high half of a size",
        || inode("/d/short", |image, at| image.put32(at + 108, 1)),
        &["symlink-invalid: inode 17: the symlink has no target of 6 bytes"],
    ),
    case(
        "a symlink in a block that is longer than its target",
        || inode("/d/long", |image, at| image.put32(at + SIZE, 101)),
        &["symlink-invalid: inode 18: the symlink has no target of 101 bytes"],
    ),
    case(
        "a fast symlink with extents",
        fast_with_extents,
        &[
            "extent-root: inode 17: has the flag of extents, but no extent tree",
            "symlink-fast-extents: inode 17: the target of the symlink is in the inode, but it \
             says that it has extents",
        ],
    ),
    case(
        "an immutable device",
        || inode("/d/null", |image, at| image.put32(at + FLAGS, IMMUTABLE)),
        &["special-file-immutable: inode 19: a special file is immutable or append-only"],
    ),
    case(
        "an immutable device with a map",
        || {
            inode("/d/null", |image, at| {
                image.put32(at + FLAGS, IMMUTABLE);
                image.put32(at + MAP + 20, 255)
            })
        },
        &[
            "special-file-immutable: inode 19: a special file is immutable or append-only",
            "special-file-mapped: inode 19: a special file has blocks, or an impossible device \
             number",
        ],
    ),
    case(
        "a pipe with a size",
        || inode("/d/pipe", |image, at| image.put32(at + SIZE, 5)),
        &["special-file-size: inode 20: a special file has a size of 5"],
    ),
    case(
        "a pipe whose first block is a directory's",
        || pipe_with(20, free_block),
        &["special-file-directory: inode 20: is a pipe, a socket or a device, but its first \
             block is that of a directory"],
    ),
    case("a pipe whose first block is another directory's", || pipe_with(21, free_block), &[]),
    case("a pipe with a block of a file", || pipe_with(20, block_of_file), &[]),
];

fn free_block(image: &Image) -> usize {
    (image.superblock().blocks_count as usize - 2) * image.block_size()
}

fn block_of_file(image: &Image) -> usize {
    image.block_of(image.find("/d/file"), 0)
}

/// A pipe whose inode has a block, which holds the begin of a directory of a number.
fn pipe_with(ino: u32, place: fn(&Image) -> usize) -> Image {
    let mut image = Image::plain();
    let at = place(&image);
    image.put32(at, ino);
    image.put(at + 4, b"\x0c\0\x01\x02.\0\0\0\x02\0\0\0\x0c\0\x02\x02..\0\0");
    let block = at / image.block_size();
    let at = image.inode_of("/d/pipe");
    image.put32(at + MAP, block as u32);
    image
}

/// The attributes of a file are past the end of the volume.
fn outside() -> Image {
    let mut image = Image::modern();
    let at = image.inode_of("/d/second");
    image.put32(at + ATTRIBUTE_BLOCK, 100_000);
    image
}

fn checksum() -> Image {
    let mut image = Image::sealed();
    let at = image.attribute_block("/d/second");
    let sum = image.get32(at + CHECKSUM);
    image.put32(at + CHECKSUM, sum ^ 1);
    image
}

/// The inode that is a value counts another number of attributes that have it: where others have
/// the version.
fn references() -> Image {
    let mut image = Image::values();
    let at = image.inode(image.value_inode("/d/file"));
    image.put32(at + 36, 3);
    image
}

/// The attributes that had the value are gone.
fn unattached() -> Image {
    let mut image = Image::values();
    let at = image.inode_of("/d/file");
    let list = at + EXTRA + usize::from(image.get16(at + EXTRA));
    image.put32(list, 0);
    image
}

/// The target of a symlink is in the inode, whose flags say that it has extents.
fn fast_with_extents() -> Image {
    let mut image = Image::modern();
    let at = image.inode_of("/d/short");
    image.put32(at + FLAGS, EXTENTS);
    image
}

/// An attribute's hash is wrong, the checksum of its block is right.
fn hash_sealed() -> Image {
    let mut image = Image::sealed();
    let at = image.attribute_block("/d/second");
    image.put32(at + ENTRIES + HASH, 1);
    image.seal_attributes(at);
    image
}
