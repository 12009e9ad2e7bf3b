//! Inodes and their maps, and blocks that two have.
use super::harness::{Case, Image, case};

/// Fields of an inode.
const MODE: usize = 0;
const SIZE: usize = 4;
const DELETED: usize = 20;
const LINKS: usize = 26;
const SECTORS: usize = 28;
const FLAGS: usize = 32;
const MAP: usize = 40;
const SIZE_HIGH: usize = 108;
const EXTRA: usize = 128;

const INDEX: u32 = 0x1000;
const ENCRYPTED: u32 = 0x800;
const EXTENTS: u32 = 0x8_0000;
const INLINE: u32 = 0x1000_0000;

/// Fields of an extent node, and of the entries after them.
const ENTRIES: usize = 2;
const DEPTH: usize = 6;
const FIRST: usize = 12;
const LENGTH: usize = 4;
const START: usize = 8;

/// Changes the inode of a path.
fn inode(mut image: Image, path: &str, change: impl FnOnce(&mut Image, usize)) -> Image {
    let at = image.inode_of(path);
    change(&mut image, at);
    image
}

/// Changes an inode by its number.
fn numbered(mut image: Image, ino: u32, change: impl FnOnce(&mut Image, usize)) -> Image {
    let at = image.inode(ino);
    change(&mut image, at);
    image
}

/// Adds a flag to an inode of a path.
fn flag(image: Image, path: &str, flag: u32) -> Image {
    inode(image, path, |image, at| image.put32(at + FLAGS, image.get32(at + FLAGS) | flag))
}

/// Changes the node in the inode of `/d/file`, which has one extent.
fn extent(change: impl FnOnce(&mut Image, usize)) -> Image {
    inode(Image::modern(), "/d/file", |image, at| change(image, at + MAP))
}

/// Changes the leaf under the inode of `/tree`; the volume has no checksums.
fn leaf(change: impl FnOnce(&mut Image, usize)) -> Image {
    inode(Image::branched(), "/tree", |image, at| {
        let block = image.get32(at + MAP + FIRST + 4) as usize;
        change(image, block << 10);
    })
}

/// Changes the indirect block of `/mapped`.
fn pointers(change: impl FnOnce(&mut Image, usize)) -> Image {
    inode(Image::mapped(), "/mapped", |image, at| {
        let block = image.get32(at + MAP + 48) as usize;
        change(image, block << 10);
    })
}

pub const CASES: &[Case] = &[
    case(
        "the checksum of an inode",
        || inode(Image::sealed(), "/d/file", |image, at| image.put8(at + 8, 1)),
        &["inode-checksum: inode 15: the checksum is wrong"],
    ),
    case(
        "no time of deletion",
        || numbered(Image::plain(), 60, |image, at| image.put16(at + MODE, 0o100_644)),
        &["deleted-without-time: inode 60: was deleted, but has no time of deletion"],
    ),
    case(
        "a time of deletion",
        || inode(Image::plain(), "/d/file", |image, at| image.put32(at + DELETED, 999_999_999)),
        &["used-but-deleted: inode 15: is in use, but has a time of deletion (999999999)"],
    ),
    case(
        "the rest of a list of orphans",
        || {
            numbered(Image::plain(), 60, |image, at| {
                image.put16(at + MODE, 0o100_644);
                image.put32(at + DELETED, 20);
            })
        },
        &["lost-orphan: inode 60: was on a list of orphans that is broken (next: 20)"],
    ),
    case(
        "the extra size",
        || inode(Image::modern(), "/d/second", |image, at| image.put16(at + EXTRA, 3)),
        &["extra-size: inode 16: 3 bytes of extra fields cannot be"],
    ),
    case(
        "no file type",
        || inode(Image::plain(), "/d/file", |image, at| image.put16(at + MODE, 0o644)),
        &[
            "no-file-type: inode 15: the mode 420 has no file type",
            "free-blocks: 991 free blocks are counted in the superblock, should be 992",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 992",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 29 first",
        ],
    ),
    case(
        "blocks of a journal that is not there",
        || {
            numbered(Image::plain(), 8, |image, at| {
                image.put16(at + MODE, 0o100_600);
                image.put16(at + LINKS, 1);
                image.put32(at + SECTORS, 2);
                image.put32(at + SIZE, 1024);
                image.put32(at + MAP, 900);
            })
        },
        &[
            "reserved-in-use: inode 8: has blocks, but the feature that it is reserved for is not \
             set",
            "free-blocks: 991 free blocks are counted in the superblock, should be 990",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 990",
            "blocks-marked-free: group 0: 1 blocks are marked free but in use, block 900 first",
        ],
    ),
    case(
        "a reserved inode that is a directory",
        || {
            numbered(Image::plain(), 9, |image, at| {
                image.put16(at + MODE, 0o040_755);
                image.put16(at + LINKS, 1);
            })
        },
        &[
            "reserved-mode: inode 9: is reserved, and cannot have the mode 16877",
            "directory-hole: directory 9: block 0 is missing (1 in all from there on)",
            "directory-unreachable: directory 9 is not reached from the root; its '..' is inode 0",
        ],
    ),
    case(
        "the inode for growth",
        || numbered(Image::backed(), 7, |image, at| image.put32(at + MAP + 52, 0)),
        &[
            "resize-inode: inode 7 does not map the descriptor blocks kept for growth",
            "sector-count: inode 7: 190 sectors are counted, should be 0",
            "free-blocks: 12148 free blocks are counted in the superblock, should be 12149",
            "group-free-blocks: group 0: 8112 free blocks are counted, should be 8113",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 73 first",
        ],
    ),
    case(
        "the inode for growth, with data in it",
        || numbered(Image::backed(), 7, |image, at| image.put32(at + FLAGS, 0x1000_0000)),
        &[
            "resize-inode: inode 7 does not map the descriptor blocks kept for growth",
            "sector-count: inode 7: 190 sectors are counted, should be 0",
            "free-blocks: 12148 free blocks are counted in the superblock, should be 12149",
            "group-free-blocks: group 0: 8112 free blocks are counted, should be 8113",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 73 first",
        ],
    ),
    case(
        "extents without the feature",
        || flag(Image::plain(), "/d/file", EXTENTS),
        &[
            "extents-without-feature: inode 15: is mapped by extents, but the volume does not have \
             that feature",
            "extent-root: inode 15: has the flag of extents, but no extent tree",
            "free-blocks: 991 free blocks are counted in the superblock, should be 992",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 992",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 29 first",
        ],
    ),
    case(
        "inline data without the feature",
        || flag(Image::plain(), "/d/file", INLINE),
        &["inline-without-feature: inode 15: has the flag of inline data, but the volume does \
             not have that feature"],
    ),
    case(
        "an index of a directory in its inode",
        || flag(Image::inline(), "/d/sub", INDEX),
        &["index-flag: inode 13: has the flag of a hash index, but cannot have one"],
    ),
    case(
        "inline data and extents",
        || flag(Image::inline(), "/d/file", INLINE | EXTENTS),
        &["inline-with-extents: inode 15: has the flags of inline data and of extents"],
    ),
    case(
        "an index of a file",
        || flag(Image::modern(), "/d/file", INDEX),
        &["index-flag: inode 15: has the flag of a hash index, but cannot have one"],
    ),
    case(
        "encryption without the feature",
        || flag(Image::modern(), "/d/sub", ENCRYPTED),
        &[
            "encrypted-without-feature: inode 13: is encrypted, but the volume does not have that \
             feature",
            "entry-name-short: directory 13, block 0: the name 'deep' is too short for an \
             encrypted one",
        ],
    ),
    case(
        "a large file",
        || inode(Image::bare(), "/d/file", |image, at| image.put32(at + SIZE, 0x8000_0000)),
        &["large-file: inode 15: has 2147483648 bytes, but the volume does not have the feature \
             large_file"],
    ),
    case(
        "a large directory",
        || inode(Image::plain(), "/d/sub", |image, at| image.put32(at + SIZE_HIGH, 1)),
        &["directory-size-high: inode 13: has 4294968320 bytes, more than a directory can have"],
    ),
    case(
        "a file that cannot be mapped",
        || inode(Image::plain(), "/d/file", |image, at| image.put32(at + SIZE_HIGH, 0x100)),
        &["file-too-large: inode 15: has 1099511627787 bytes, but no more than 17247252480 can \
             be mapped"],
    ),
    case(
        "an indirect block outside",
        || inode(Image::mapped(), "/mapped", |image, at| image.put32(at + MAP + 48, 99_999)),
        &[
            "indirect-outside: inode 22: indirect block 99999, from file block 12 on, is not on \
             the volume",
            "free-blocks: 950 free blocks are counted in the superblock, should be 979",
            "group-free-blocks: group 0: 950 free blocks are counted, should be 979",
            "blocks-marked-used: group 0: 29 blocks are marked in use but free, block 45 first",
        ],
    ),
    case(
        "an indirect block on a bitmap",
        || {
            inode(Image::mapped(), "/mapped", |image, at| {
                image.put32(at + MAP + 48, image.get32(2048));
            })
        },
        &[
            "map-block-on-metadata: inode 22: map block 3, from file block 12 on, is on metadata \
             of the volume",
            "blocks-of-metadata: inode 22: 1 of its blocks belong to metadata of the volume, block \
             3 first",
            "free-blocks: 950 free blocks are counted in the superblock, should be 979",
            "group-free-blocks: group 0: 950 free blocks are counted, should be 979",
            "blocks-marked-used: group 0: 29 blocks are marked in use but free, block 45 first",
        ],
    ),
    case(
        "a block outside",
        || inode(Image::plain(), "/d/file", |image, at| image.put32(at + MAP, 99_999)),
        &[
            "sector-count: inode 15: 2 sectors are counted, should be 0",
            "block-outside: inode 15: block 99999 of file block 0 (1 blocks) is not on the volume",
            "free-blocks: 991 free blocks are counted in the superblock, should be 992",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 992",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 29 first",
        ],
    ),
    case(
        "many blocks outside",
        || pointers(|image, at| (0..20).for_each(|index| image.put32(at + index * 4, 99_999))),
        &[
            "many-illegal-blocks: inode 22: 20 blocks are illegal",
            "sector-count: inode 22: 82 sectors are counted, should be 42",
            "block-outside: inode 22: block 99999 of file block 12 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 13 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 14 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 15 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 16 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 17 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 18 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 19 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 20 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 21 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 22 (1 blocks) is not on the volume",
            "block-outside: inode 22: block 99999 of file block 23 (1 blocks) is not on the volume",
            "free-blocks: 950 free blocks are counted in the superblock, should be 970",
            "group-free-blocks: group 0: 950 free blocks are counted, should be 970",
            "blocks-marked-used: group 0: 20 blocks are marked in use but free, block 46 first",
        ],
    ),
    case(
        "a bad block under a bitmap",
        || {
            numbered(Image::plain(), 1, |image, at| {
                image.put32(at + MAP, image.get32(2048));
            })
        },
        &["bad-metadata: block 3 of the volume's metadata is on the list of bad blocks"],
    ),
    case(
        "a bad block in a file",
        || {
            let block = Image::plain().block_of(Image::plain().find("/d/file"), 0) >> 10;
            numbered(Image::plain(), 1, |image, at| {
                image.put32(at + MAP, u32::try_from(block).unwrap())
            })
        },
        &[
            "blocks-of-other: inode 1: 1 of its blocks belong to others too, block 29 first (inode \
             15)",
            "blocks-of-other: inode 15: 1 of its blocks belong to others too, block 29 first \
             (inode 1)",
        ],
    ),
    case(
        "a cluster that is not its own",
        || {
            inode(Image::clustered(), "/large", |image, at| {
                let start = at + MAP + FIRST + START;
                image.put32(start, image.get32(start) + 1);
            })
        },
        &["cluster-alignment: inode 22: file block 0 and block 73 do not have the same place in \
             their clusters"],
    ),
    case(
        "a cluster at two places",
        || {
            inode(Image::clustered(), "/large", |image, at| {
                let (map, first) = (at + MAP, at + MAP + FIRST);
                image.put16(map + ENTRIES, 2);
                let length = image.get16(first + LENGTH);
                image.put16(first + LENGTH, 1);
                image.put32(first + 12, 1);
                image.put16(first + 12 + LENGTH, length - 1);
                image.put32(first + 12 + START, 2045);
                image.put32(at + SECTORS, image.get32(at + SECTORS) + 8);
            })
        },
        &[
            "cluster-split: inode 22: file block 1 is in another cluster than the one before it",
            "free-blocks: 1972 free blocks are counted in the superblock, should be 1968",
            "group-free-blocks: group 0: 493 free blocks are counted, should be 492",
            "blocks-marked-free: group 0: 1 blocks are marked free but in use, block 2044 first",
        ],
    ),
    case(
        "pointers where there are clusters",
        || {
            inode(Image::clustered(), "/large", |image, at| {
                image.put32(at + FLAGS, 0);
                let block = image.get32(at + MAP + FIRST + START);
                image.put(at + MAP, &[0; 60]);
                image.put32(at + MAP, block);
            })
        },
        &["cluster-pointers: inode 22: pointers map its blocks, and on a volume with clusters \
             only extents can"],
    ),
    case(
        "no extent tree",
        || extent(|image, at| image.put16(at, 0)),
        &[
            "extent-root: inode 15: has the flag of extents, but no extent tree",
            "free-blocks: 982 free blocks are counted in the superblock, should be 983",
            "group-free-blocks: group 0: 982 free blocks are counted, should be 983",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 21 first",
        ],
    ),
    case(
        "no extent node",
        || leaf(|image, at| image.put16(at, 0)),
        &[
            "extent-node: inode 22: block 26, from file block 0 on, is no node of an extent tree",
            "free-blocks: 968 free blocks are counted in the superblock, should be 982",
            "group-free-blocks: group 0: 968 free blocks are counted, should be 982",
            "blocks-marked-used: group 0: 14 blocks are marked in use but free, block 25 first",
        ],
    ),
    case(
        "the checksum of an extent block",
        || {
            inode(Image::branched_sealed(), "/tree", |image, at| {
                let block = image.get32(at + MAP + FIRST + 4) as usize;
                image.put8((block << 10) + 8, 1);
            })
        },
        &["extent-checksum: inode 22: the checksum of the extent block 26 is wrong"],
    ),
    case(
        "the start of an extent block",
        || {
            inode(Image::branched(), "/tree", |image, at| {
                image.put32(at + MAP + FIRST, 1);
            })
        },
        &["extent-start: inode 22: the extent block 26 starts at file block 0, its parent says 1"],
    ),
    case(
        "an index node without entries",
        || {
            extent(|image, at| {
                image.put16(at + ENTRIES, 0);
                image.put16(at + DEPTH, 1);
            })
        },
        &[
            "sector-count: inode 15: 2 sectors are counted, should be 0",
            "extent-empty: inode 15: an index node of its extent tree has no entry",
            "free-blocks: 982 free blocks are counted in the superblock, should be 983",
            "group-free-blocks: group 0: 982 free blocks are counted, should be 983",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 21 first",
        ],
    ),
    case(
        "extents out of order",
        || leaf(|image, at| image.put32(at + FIRST + 12, 0)),
        &[
            "sector-count: inode 22: 30 sectors are counted, should be 28",
            "extent-order: inode 22: the extent at file block 0 begins before the end of the one \
             before it",
            "free-blocks: 968 free blocks are counted in the superblock, should be 969",
            "group-free-blocks: group 0: 968 free blocks are counted, should be 969",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 27 first",
        ],
    ),
    case(
        "an extent without length",
        || extent(|image, at| image.put16(at + FIRST + LENGTH, 0)),
        &[
            "sector-count: inode 15: 2 sectors are counted, should be 0",
            "extent-length: inode 15: the extent at file block 0 has no length",
            "free-blocks: 982 free blocks are counted in the superblock, should be 983",
            "group-free-blocks: group 0: 982 free blocks are counted, should be 983",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 21 first",
        ],
    ),
    case(
        "an extent past the largest file",
        || {
            leaf(|image, at| {
                let last = at + FIRST + 12 * (usize::from(image.get16(at + ENTRIES)) - 1);
                image.put32(last, u32::MAX);
                image.put16(last + LENGTH, 0x8002);
            })
        },
        &[
            "sector-count: inode 22: 30 sectors are counted, should be 14",
            "extent-past-file: inode 22: the extent at file block 4294967295 (2 blocks) passes the \
             largest file",
            "free-blocks: 968 free blocks are counted in the superblock, should be 976",
            "group-free-blocks: group 0: 968 free blocks are counted, should be 976",
            "blocks-marked-used: group 0: 8 blocks are marked in use but free, block 53 first",
        ],
    ),
    case(
        "an extent that is not under its parent",
        bounds,
        &[
            "extent-bounds: inode 22: the extent at file block 4 (1 blocks) is not under the entry \
             that leads to it",
            "extent-bounds: inode 22: the extent at file block 6 (1 blocks) is not under the entry \
             that leads to it",
            "extent-bounds: inode 22: the extent at file block 8 (1 blocks) is not under the entry \
             that leads to it",
            "extent-bounds: inode 22: the extent at file block 10 (1 blocks) is not under the \
             entry that leads to it",
            "extent-bounds: inode 22: the extent at file block 12 (8 blocks) is not under the \
             entry that leads to it",
            "blocks-twice-in-file: inode 22: 1 of its blocks are in it more than once, block 26 \
             first",
            "free-blocks: 968 free blocks are counted in the superblock, should be 980",
            "group-free-blocks: group 0: 968 free blocks are counted, should be 980",
            "blocks-marked-used: group 0: 12 blocks are marked in use but free, block 29 first",
        ],
    ),
    case(
        "a deep tree",
        deep,
        &[
            "extent-depth: inode 22: the extent tree has 7 levels, 5 hold any file",
            "extent-node: inode 22: block 26, from file block 0 on, is no node of an extent tree",
            "free-blocks: 968 free blocks are counted in the superblock, should be 982",
            "group-free-blocks: group 0: 968 free blocks are counted, should be 982",
            "blocks-marked-used: group 0: 14 blocks are marked in use but free, block 25 first",
        ],
    ),
    case(
        "a directory too big",
        || inode(Image::modern(), "/d/sub", |image, at| image.put32(at + MAP + FIRST, 0x1000_0000)),
        &[
            "sector-count: inode 13: 2 sectors are counted, should be 0",
            "directory-too-big: inode 13: file block 268435456 is more than a directory can have",
            "directory-hole: directory 13: block 0 is missing (1 in all from there on)",
            "dot-dot-wrong: directory 13: '..' is inode 0, should be 12",
            "directory-unreachable: directory 21 is not reached from the root; its '..' is inode \
             13",
            "link-count: inode 12: it counts 4 links, 3 were found",
            "link-count: inode 13: it counts 3 links, 2 were found",
            "link-count: inode 21: it counts 2 links, 1 were found",
            "free-blocks: 982 free blocks are counted in the superblock, should be 983",
            "group-free-blocks: group 0: 982 free blocks are counted, should be 983",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 18 first",
        ],
    ),
    case(
        "an unwritten directory",
        || {
            inode(Image::modern(), "/d/sub", |image, at| {
                image.put16(at + MAP + FIRST + LENGTH, 0x8001)
            })
        },
        &["directory-unwritten: inode 13: file block 0 of the directory is in an unwritten extent"],
    ),
    case(
        "a directory without blocks",
        || {
            inode(Image::plain(), "/d/sub/deep", |image, at| {
                image.put32(at + MAP, 0);
                image.put32(at + SECTORS, 0);
                image.put32(at + SIZE, 0);
            })
        },
        &[
            "directory-without-blocks: inode 21: the directory has no block",
            "directory-hole: directory 21: block 0 is missing (1 in all from there on)",
            "dot-dot-wrong: directory 21: '..' is inode 0, should be 13",
            "link-count: inode 13: it counts 3 links, 2 were found",
            "link-count: inode 21: it counts 2 links, 1 were found",
            "free-blocks: 991 free blocks are counted in the superblock, should be 992",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 992",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 32 first",
        ],
    ),
    case(
        "the size of a directory",
        || inode(Image::plain(), "/d/sub", |image, at| image.put32(at + SIZE, 4096)),
        &["directory-size: inode 13: the size of the directory is 4096, should be 1024"],
    ),
    case(
        "the size of a file",
        || inode(Image::mapped(), "/mapped", |image, at| image.put32(at + SIZE, 100)),
        &["file-size: inode 22: the size is 100, should be 40960"],
    ),
    case(
        "the sectors of a file",
        || inode(Image::plain(), "/d/file", |image, at| image.put32(at + SECTORS, 8)),
        &["sector-count: inode 15: 8 sectors are counted, should be 2"],
    ),
    case(
        "a block of two files",
        || {
            let block = Image::plain().block_of(Image::plain().find("/d/second"), 0) >> 10;
            inode(Image::plain(), "/d/file", |image, at| {
                image.put32(at + MAP, u32::try_from(block).unwrap())
            })
        },
        &[
            "blocks-of-other: inode 15: 1 of its blocks belong to others too, block 30 first \
             (inode 16)",
            "blocks-of-other: inode 16: 1 of its blocks belong to others too, block 30 first \
             (inode 15)",
            "free-blocks: 991 free blocks are counted in the superblock, should be 992",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 992",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 29 first",
        ],
    ),
    case(
        "a block of a file and of the map for growth",
        || {
            let image = Image::clustered_growing();
            let root = image.get32(image.inode(7) + MAP + 13 * 4);
            inode(image, "/d/file", |image, at| image.put32(at + MAP + FIRST + START, root))
        },
        &[
            "blocks-of-other: inode 7: 1 of its blocks belong to others too, block 104 first \
             (inode 15)",
            "blocks-of-other: inode 15: 1 of its blocks belong to others too, block 104 first \
             (inode 7)",
            "free-blocks: 17218 free blocks are counted in the superblock, should be 17220",
            "group-free-blocks: group 0: 8132 free blocks are counted, should be 8133",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 112 first",
        ],
    ),
    case(
        "a block twice in a file",
        || {
            inode(Image::mapped(), "/mapped", |image, at| {
                image.put32(at + MAP + 4, image.get32(at + MAP));
            })
        },
        &[
            "blocks-twice-in-file: inode 22: 1 of its blocks are in it more than once, block 33 \
             first",
            "free-blocks: 950 free blocks are counted in the superblock, should be 951",
            "group-free-blocks: group 0: 950 free blocks are counted, should be 951",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 34 first",
        ],
    ),
    case(
        "a block of metadata in a file",
        || {
            inode(Image::plain(), "/d/file", |image, at| {
                image.put32(at + MAP, image.get32(2048));
            })
        },
        &[
            "blocks-of-metadata: inode 15: 1 of its blocks belong to metadata of the volume, block \
             3 first",
            "free-blocks: 991 free blocks are counted in the superblock, should be 992",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 992",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 29 first",
        ],
    ),
    case(
        "a map of two files",
        || {
            let at = Image::mapped().inode_of("/mapped") + MAP + 48;
            let block = Image::mapped().get32(at);
            inode(Image::mapped(), "/d/file", |image, at| image.put32(at + MAP + 48, block))
        },
        &[
            "file-size: inode 15: the size is 11, should be 40960",
            "sector-count: inode 15: 2 sectors are counted, should be 60",
            "blocks-of-other: inode 15: 1 of its blocks belong to others too, block 45 first \
             (inode 22)",
            "blocks-of-other: inode 22: 1 of its blocks belong to others too, block 45 first \
             (inode 15)",
        ],
    ),
];

/// Two index entries for one leaf that reaches into what the second says is its own.
fn bounds() -> Image {
    inode(Image::branched(), "/tree", |image, at| {
        let node = at + MAP;
        image.put16(node + ENTRIES, 2);
        let entry = node + FIRST;
        let child = image.get32(entry + 4);
        image.put32(entry + 12, 4);
        image.put32(entry + 16, child);
        image.put32(entry + 20, 0);
    })
}

/// A depth that no tree needs, of a root that has no entry.
fn deep() -> Image {
    inode(Image::branched(), "/tree", |image, at| {
        // The leaf becomes a node of depth 7, which leads nowhere.
        image.put16(at + MAP + DEPTH, 7);
    })
}
