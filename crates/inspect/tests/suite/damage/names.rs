//! Directories: their blocks, entries, index, the tree that they make, link counts.
use super::harness::{Case, Image, case};

/// Bytes of an entry before its name.
const INO: usize = 0;
const LENGTH: usize = 4;
const NAME_LENGTH: usize = 6;
const TYPE: usize = 7;
const NAME: usize = 8;

/// Fields of an inode.
const MODE: usize = 0;
const SIZE: usize = 4;
const DELETED: usize = 20;
const LINKS: usize = 26;
const FLAGS: usize = 32;
const MAP: usize = 40;

const ENCRYPTED: u32 = 0x800;

/// Where the information of an index root begins, and its entries.
const ROOT: usize = 24;
const ROOT_ENTRIES: usize = 32;

/// Changes one entry of `/d`.
fn entry(name: &str, change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = Image::plain();
    let at = image.entry(&format!("/d/{name}"));
    change(&mut image, at);
    image
}

/// Changes a byte in the inode of a path.
fn inode(path: &str, change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = Image::plain();
    let at = image.inode_of(path);
    change(&mut image, at);
    image
}

/// Changes the root of the index of `/many`.
fn index(change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = Image::indexed();
    let root = image.block_of(image.find("/many"), 0);
    change(&mut image, root);
    image
}

/// The byte of pointer `at` in an index root.
fn pointer(root: usize, at: usize) -> usize {
    root + ROOT_ENTRIES + at * 8
}

pub const CASES: &[Case] = &[
    case("encrypted as its directory", || encrypted(|_, _, _| {}), &[]),
    case(
        "another encryption policy",
        || encrypted(|image, _, file| image.put8(file + 20, 1)),
        &["entry-policy: directory 22: '0123456789abcdef' is inode 23, which has another \
             encryption policy"],
    ),
    case(
        "another number in the same policy",
        || encrypted(|image, _, file| image.put8(file + 24, 1)),
        &[],
    ),
    case(
        "not encrypted in an encrypted directory",
        || {
            encrypted(|image, _, _| {
                let at = image.inode_of("/secret/0123456789abcdef");
                image.put32(at + FLAGS, image.get32(at + FLAGS) & !ENCRYPTED);
            })
        },
        &["entry-unencrypted: directory 22: '0123456789abcdef' is inode 23, which is not \
             encrypted as the directory is"],
    ),
    case(
        "no encryption context",
        || encrypted(|image, directory, _| image.put32(directory - 48 - 4, 0)),
        &["encryption-missing: inode 22: is encrypted, but no attribute says how"],
    ),
    case(
        "an encryption context of no version",
        || encrypted(|image, directory, _| image.put8(directory, 3)),
        &["encryption-context: inode 22: the attribute that says how it is encrypted cannot be"],
    ),
    case(
        "an encryption context of another length",
        || encrypted(|image, _, file| image.put8(file, 1)),
        &[
            "encryption-context: inode 23: the attribute that says how it is encrypted cannot be",
            "entry-unencrypted: directory 22: '0123456789abcdef' is inode 23, which is not \
             encrypted as the directory is",
        ],
    ),
    case(
        "a name of what the superblock names as a quota, without the feature",
        || {
            let mut image = Image::plain();
            image.put32(1024 + 0x240, image.find("/d/file"));
            image
        },
        &[
            "entry-inode: directory 12: 'file' cannot be inode 15",
            "inode-unattached: inode 15 is in use, but no directory has an entry for it",
        ],
    ),
    case(
        "a name of what the superblock names as a list of orphans, without the feature",
        || {
            let mut image = Image::plain();
            image.put32(1024 + 0x280, image.find("/d/file"));
            image
        },
        &[
            "reserved-in-use: inode 15: has blocks, but the feature that it is reserved for is not \
             set",
            "entry-inode: directory 12: 'file' cannot be inode 15",
        ],
    ),
    case(
        "a length that is no multiple of 4",
        || entry("file", |image, at| image.put16(at + LENGTH, 13)),
        &["directory-chain: directory 12, block 0: there is no entry at byte 52"],
    ),
    case(
        "'.' unused",
        || entry(".", |image, at| image.put32(at + INO, 0)),
        &[
            "dot-missing: directory 12: '.' is missing",
            "link-count: inode 12: it counts 4 links, 3 were found",
        ],
    ),
    case(
        "'.' renamed",
        || entry(".", |image, at| image.put8(at + NAME, b'a')),
        &["dot-not-first: directory 12: the first entry is 'a', should be '.'"],
    ),
    case(
        "'.' without its zero",
        || entry(".", |image, at| image.put8(at + NAME + 1, b'a')),
        &["dot-not-terminated: directory 12: no zero byte follows '.'"],
    ),
    case(
        "'.' over the next entries",
        || entry(".", |image, at| image.put16(at + LENGTH, 1024)),
        &[
            "dot-too-long: directory 12: the entry '.' has 1024 bytes, should have 12",
            "dot-dot-wrong: directory 12: '..' is inode 0, should be 2",
            "directory-unreachable: directory 13 is not reached from the root; its '..' is inode \
             12",
            "directory-unreachable: directory 14 is not reached from the root; its '..' is inode \
             12",
            "link-count: inode 2: it counts 4 links, 3 were found",
            "link-count: inode 13: it counts 3 links, 2 were found",
            "link-count: inode 14: it counts 2 links, 1 were found",
            "inode-unattached: inode 15 is in use, but no directory has an entry for it",
            "inode-unattached: inode 16 is in use, but no directory has an entry for it",
            "inode-unattached: inode 17 is in use, but no directory has an entry for it",
            "inode-unattached: inode 18 is in use, but no directory has an entry for it",
            "inode-unattached: inode 19 is in use, but no directory has an entry for it",
            "inode-unattached: inode 20 is in use, but no directory has an entry for it",
        ],
    ),
    case(
        "'.' another inode",
        || entry(".", |image, at| image.put32(at + INO, 2)),
        &[
            "dot-wrong: directory 12: '.' is inode 2",
            "link-count: inode 2: it counts 4 links, 5 were found",
            "link-count: inode 12: it counts 4 links, 3 were found",
        ],
    ),
    case(
        "'..' unused",
        || entry("..", |image, at| image.put32(at + INO, 0)),
        &[
            "dot-dot-missing: directory 12: '..' is missing",
            "dot-dot-wrong: directory 12: '..' is inode 0, should be 2",
            "link-count: inode 2: it counts 4 links, 3 were found",
        ],
    ),
    case(
        "'..' renamed",
        || entry("..", |image, at| image.put8(at + NAME + 1, b'a')),
        &[
            "dot-dot-not-second: directory 12: the second entry is '.a', should be '..'",
            "dot-dot-wrong: directory 12: '..' is inode 0, should be 2",
        ],
    ),
    case(
        "'..' without its zero",
        || entry("..", |image, at| image.put8(at + NAME + 2, b'a')),
        &[
            "dot-dot-not-terminated: directory 12: no zero byte follows '..'",
            "dot-dot-wrong: directory 12: '..' is inode 0, should be 2",
        ],
    ),
    case(
        "'..' another directory",
        || entry("..", |image, at| image.put32(at + INO, 11)),
        &[
            "dot-dot-wrong: directory 12: '..' is inode 11, should be 2",
            "link-count: inode 2: it counts 4 links, 3 were found",
            "link-count: inode 11: it counts 2 links, 3 were found",
        ],
    ),
    case(
        "'..' impossible",
        || entry("..", |image, at| image.put32(at + INO, 1 << 30)),
        &[
            "entry-inode: directory 12: '..' cannot be inode 1073741824",
            "dot-dot-wrong: directory 12: '..' is inode 1073741824, should be 2",
            "link-count: inode 2: it counts 4 links, 3 were found",
        ],
    ),
    case(
        "a second '.'",
        || entry("pipe", |image, at| image.put(at + NAME_LENGTH, b"\x01\x05.")),
        &["dot-twice: directory 12, block 0: '.' is there again"],
    ),
    case(
        "no name",
        || entry("file", |image, at| image.put8(at + NAME_LENGTH, 0)),
        &["entry-name-empty: directory 12, block 0: an entry for inode 15 has no name"],
    ),
    case(
        "a slash",
        || entry("file", |image, at| image.put8(at + NAME, b'/')),
        &["entry-name-illegal: directory 12, block 0: the name '/ile' has a slash or a zero byte"],
    ),
    case(
        "a zero",
        || entry("file", |image, at| image.put8(at + NAME + 1, 0)),
        &["entry-name-illegal: directory 12, block 0: the name 'f\\x00le' has a slash or a zero \
             byte"],
    ),
    case(
        "a name twice",
        || entry("pipe", |image, at| image.put(at + NAME, b"file")),
        &["entry-twice: directory 12, block 0: the name 'file' is there twice"],
    ),
    case(
        "a slash under a right checksum",
        || {
            let mut image = Image::sealed();
            let at = image.entry("/d/file");
            image.put8(at + NAME, b'/');
            image.seal_directory(image.find("/d"), 0, false);
            image
        },
        &["entry-name-illegal: directory 12, block 0: the name '/ile' has a slash or a zero byte"],
    ),
    case(
        "too many links under a right checksum",
        || {
            let mut image = Image::sealed();
            let ino = image.find("/d/file");
            let at = image.inode(ino);
            image.put16(at + LINKS, 5);
            image.seal_inode(ino);
            image
        },
        &["link-count: inode 15: it counts 5 links, 1 were found"],
    ),
    case(
        "a name in two blocks",
        name_in_two_blocks,
        &["entry-twice-apart: directory 22, block 2: the name 'a-file-of-many-117' is in block \
             1 too"],
    ),
    case(
        "an inode of the system",
        || entry("file", |image, at| image.put32(at + INO, 7)),
        &[
            "entry-inode: directory 12: 'file' cannot be inode 7",
            "inode-unattached: inode 15 is in use, but no directory has an entry for it",
        ],
    ),
    case(
        "an unused inode",
        || entry("file", |image, at| image.put32(at + INO, 60)),
        &[
            "entry-unused: directory 12: 'file' is inode 60, which is not in use",
            "inode-unattached: inode 15 is in use, but no directory has an entry for it",
        ],
    ),
    case(
        "the directory itself",
        || {
            entry("file", |image, at| {
                let own = image.find("/d");
                image.put32(at + INO, own);
                image.put8(at + TYPE, 2)
            })
        },
        &[
            "entry-to-self: directory 12: 'file' is the directory itself",
            "link-count: inode 12: it counts 4 links, 5 were found",
            "inode-unattached: inode 15 is in use, but no directory has an entry for it",
        ],
    ),
    case(
        "the root",
        || {
            entry("file", |image, at| {
                image.put32(at + INO, 2);
                image.put8(at + TYPE, 2)
            })
        },
        &[
            "entry-to-root: directory 12: 'file' is the root directory",
            "link-count: inode 2: it counts 4 links, 5 were found",
            "inode-unattached: inode 15 is in use, but no directory has an entry for it",
        ],
    ),
    case(
        "another directory",
        || {
            entry("file", |image, at| {
                let other = image.find("/d/other");
                image.put32(at + INO, other);
                image.put8(at + TYPE, 2)
            })
        },
        &[
            "directory-twice: directory 12: 'file' is directory 14, which has a name already",
            "link-count: inode 14: it counts 2 links, 3 were found",
            "inode-unattached: inode 15 is in use, but no directory has an entry for it",
        ],
    ),
    case(
        "a wrong type",
        || entry("file", |image, at| image.put8(at + TYPE, 2)),
        &["entry-type: directory 12: 'file' has type 2, its inode 15 has 1"],
    ),
    case(
        "an unknown type",
        || entry("file", |image, at| image.put8(at + TYPE, 9)),
        &["entry-type: directory 12: 'file' has type 9, its inode 15 has 1"],
    ),
    case("no type", || entry("file", |image, at| image.put8(at + TYPE, 0)), &[]),
    case(
        "a type where there are none",
        || {
            let mut image = Image::untyped();
            let at = image.entry("/d/file");
            image.put8(at + TYPE, 1);
            image
        },
        &["entry-typed: directory 12: 'file' has type 1, but the volume keeps none"],
    ),
    case(
        "the value of an attribute",
        value_named,
        &[
            "entry-to-value: directory 12: 'second' is inode 22, which is the value of an \
             attribute",
            "inode-unattached: inode 16 is in use, but no directory has an entry for it",
        ],
    ),
    case(
        "a hole",
        hole,
        &[
            "directory-hole: directory 14: block 0 is missing (1 in all from there on)",
            "dot-twice: directory 14, block 1: '.' is there again",
            "dot-twice: directory 14, block 1: '..' is there again",
            "entry-to-self: directory 14: '.' is the directory itself",
            "directory-twice: directory 14: '..' is directory 12, which has a name already",
            "dot-dot-wrong: directory 14: '..' is inode 0, should be 12",
        ],
    ),
    case(
        "no block",
        || inode("/d/other", |image, at| image.put32(at + MAP, 0)),
        &[
            "directory-without-blocks: inode 14: the directory has no block",
            "sector-count: inode 14: 2 sectors are counted, should be 0",
            "directory-hole: directory 14: block 0 is missing (1 in all from there on)",
            "dot-dot-wrong: directory 14: '..' is inode 0, should be 12",
            "link-count: inode 12: it counts 4 links, 3 were found",
            "link-count: inode 14: it counts 2 links, 1 were found",
            "free-blocks: 991 free blocks are counted in the superblock, should be 992",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 992",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 28 first",
        ],
    ),
    case(
        "a checksum",
        || {
            sealed(|image, block| {
                let at = block + 1020;
                let sum = image.get32(at);
                image.put32(at, sum ^ 1)
            })
        },
        &["directory-checksum: directory 12, block 0: the checksum is 351557800, should be \
             351557801"],
    ),
    case(
        "no checksum",
        || sealed(|image, block| image.put8(block + 1012 + TYPE, 0)),
        &["directory-no-checksum: directory 12, block 0: there is no checksum"],
    ),
    case(
        "a name of an inline directory",
        || inline(|image, map| image.put8(map + 4 + NAME, b'/')),
        &["entry-name-illegal: directory 13, block 0: the name '/eep' has a slash or a zero byte"],
    ),
    case(
        "the parent of an inline directory",
        || inline(|image, map| image.put32(map, 11)),
        &[
            "dot-dot-wrong: directory 13: '..' is inode 11, should be 12",
            "link-count: inode 11: it counts 2 links, 3 were found",
            "link-count: inode 12: it counts 4 links, 3 were found",
        ],
    ),
    case(
        "an unused parent of an inline directory",
        || inline(|image, map| image.put32(map, 60)),
        &[
            "entry-unused: directory 13: '..' is inode 60, which is not in use",
            "dot-dot-wrong: directory 13: '..' is inode 60, should be 12",
            "link-count: inode 12: it counts 4 links, 3 were found",
        ],
    ),
    case(
        "the chain of an inline directory",
        || inline(|image, map| image.put16(map + 4 + LENGTH, 10)),
        &["directory-chain: directory 13, block 0: there is no entry at byte 4"],
    ),
    case(
        "names that are not text",
        not_text,
        &["entry-name-encoding: directory 22, block 0: the name '\\xffame' is not in the \
             encoding of the volume"],
    ),
    case(
        "a short encrypted name",
        || {
            encrypted(|image, _, _| {
                let entry = image.entry("/secret/0123456789abcdef");
                image.put8(entry + NAME_LENGTH, 15);
            })
        },
        &["entry-name-short: directory 22, block 0: the name '0123456789abcde' is too short for \
             an encrypted one"],
    ),
    case(
        "no root of the index",
        || index(|image, root| image.put8(root + ROOT, 1)),
        &["index-root: directory 22: there is no root of an index in its first block"],
    ),
    case(
        "an unknown hash",
        || index(|image, root| image.put8(root + ROOT + 4, 7)),
        &["index-hash-version: directory 22: the index is sorted by an unknown hash, number 7"],
    ),
    case(
        "flags of the index",
        || index(|image, root| image.put8(root + ROOT + 7, 1)),
        &["index-flags: directory 22: the root of the index has flags 1"],
    ),
    case(
        "too many levels",
        || index(|image, root| image.put8(root + ROOT + 6, 3)),
        &["index-levels: directory 22: the index has 3 levels below its root, at most 1 are \
             possible"],
    ),
    case(
        "one more level",
        || {
            index(|image, root| {
                image.put8(root + ROOT + 6, 1);
                image.put16(root + ROOT_ENTRIES + 2, 1)
            })
        },
        &[
            "index-depth: directory 22, block 1: its names are 1 levels below the root, should be \
             2",
            "index-unreferenced: directory 22, block 2: the index does not point to it",
            "index-unreferenced: directory 22, block 3: the index does not point to it",
            "index-unreferenced: directory 22, block 4: the index does not point to it",
            "index-unreferenced: directory 22, block 5: the index does not point to it",
            "index-unreferenced: directory 22, block 6: the index does not point to it",
            "index-unreferenced: directory 22, block 7: the index does not point to it",
        ],
    ),
    case(
        "the limit of the index",
        || index(|image, root| image.put16(root + ROOT_ENTRIES, 100)),
        &["index-limit: directory 22, block 0: the index has room for 100 entries, should have \
             for 124"],
    ),
    case(
        "the count of the index",
        || index(|image, root| image.put16(root + ROOT_ENTRIES + 2, 1000)),
        &["index-count: directory 22, block 0: the index has 1000 entries, 124 at most fit"],
    ),
    case(
        "the order of the index",
        || {
            index(|image, root| {
                let at = pointer(root, 2);
                let before = image.get32(pointer(root, 1));
                image.put32(at, before - 2)
            })
        },
        &[
            "index-order: directory 22, block 0: hash 497035530 of the index follows a higher one",
            "index-above: directory 22, block 2: hash 947983222 is above what the index has there, \
             497035530 at most",
        ],
    ),
    case(
        "a hash too high",
        || {
            index(|image, root| {
                let at = pointer(root, 2);
                let hash = image.get32(at);
                image.put32(at, hash + 2)
            })
        },
        &["index-below: directory 22, block 3: hash 972358690 is below what the index has there, \
             972358692 and more"],
    ),
    case(
        "a block that the directory does not have",
        || index(|image, root| image.put32(pointer(root, 2) + 4, 100)),
        &[
            "index-outside: directory 22, block 0: the index points to block 100 of the directory",
            "index-unreferenced: directory 22, block 3: the index does not point to it",
        ],
    ),
    case(
        "a block twice",
        || index(|image, root| image.put32(pointer(root, 2) + 4, 1)),
        &[
            "index-twice: directory 22, block 1: the index points to it twice",
            "index-unreferenced: directory 22, block 3: the index does not point to it",
        ],
    ),
    case(
        "one block less",
        || {
            index(|image, root| {
                let count = image.get16(root + ROOT_ENTRIES + 2);
                image.put16(root + ROOT_ENTRIES + 2, count - 1)
            })
        },
        &["index-unreferenced: directory 22, block 7: the index does not point to it"],
    ),
    case(
        "the checksum of the index",
        index_checksum,
        &["index-checksum: directory 22, block 0: the checksum of the index is 3652902020, \
             should be 3652902021"],
    ),
    case(
        "no root",
        no_root,
        &[
            "entry-unused: directory 11: '..' is inode 2, which is not in use",
            "entry-unused: directory 12: '..' is inode 2, which is not in use",
            "root-missing: there is no root directory",
            "free-blocks: 991 free blocks are counted in the superblock, should be 992",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 992",
            "group-directories: group 0: 6 directories are counted, should be 5",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 13 first",
        ],
    ),
    case(
        "a root that is a file",
        || inode("/", |image, at| image.put16(at + MODE, 0o100_644)),
        &[
            "entry-type: directory 11: '..' has type 2, its inode 2 has 1",
            "entry-type: directory 12: '..' has type 2, its inode 2 has 1",
            "root-not-directory: the root is no directory",
            "group-directories: group 0: 6 directories are counted, should be 5",
        ],
    ),
    case(
        "a directory without an entry",
        || entry("sub", |image, at| image.put32(at + INO, 0)),
        &[
            "directory-unreachable: directory 13 is not reached from the root; its '..' is inode \
             12",
            "link-count: inode 13: it counts 3 links, 2 were found",
        ],
    ),
    case(
        "a loop",
        looped,
        &[
            "directory-unreachable: directory 12 is not reached from the root; its '..' is inode \
             13",
            "directory-unreachable: directory 21 is not reached from the root; its '..' is inode \
             13",
            "link-count: inode 2: it counts 4 links, 3 were found",
            "link-count: inode 13: it counts 3 links, 4 were found",
            "link-count: inode 21: it counts 2 links, 1 were found",
        ],
    ),
    case(
        "a file without an entry",
        || entry("file", |image, at| image.put32(at + INO, 0)),
        &["inode-unattached: inode 15 is in use, but no directory has an entry for it"],
    ),
    case(
        "too many links",
        || inode("/d/file", |image, at| image.put16(at + LINKS, 5)),
        &["link-count: inode 15: it counts 5 links, 1 were found"],
    ),
    case(
        "too few links of a directory",
        || inode("/d", |image, at| image.put16(at + LINKS, 2)),
        &["link-count: inode 12: it counts 2 links, 4 were found"],
    ),
];

/// The inode of an attribute's value has a name.
fn value_named() -> Image {
    let mut image = Image::values();
    let (value, at) = (image.value_inode("/d/file"), image.entry("/d/second"));
    image.put32(at + INO, value);
    image
}

/// The second block of a directory is its only one.
fn hole() -> Image {
    inode("/d/other", |image, at| {
        let block = image.get32(at + MAP);
        image.put32(at + MAP, 0);
        image.put32(at + MAP + 4, block);
        image.put32(at + SIZE, 2048);
    })
}

/// Changes a block of a directory with checksums.
fn sealed(change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = Image::sealed();
    let block = image.block_of(image.find("/d"), 0);
    change(&mut image, block);
    image
}

/// Changes the map of the inode of a directory that is there.
fn inline(change: impl FnOnce(&mut Image, usize)) -> Image {
    let mut image = Image::inline();
    let at = image.inode_of("/d/sub");
    change(&mut image, at + MAP);
    image
}

/// A directory of which names are text; one of them is not.
fn not_text() -> Image {
    let mut image = Image::folded();
    let at = image.entry("/folded/name");
    image.put8(at + NAME, 0xff);
    image
}

/// Encrypts what is in the inode of a path: one attribute with prefix 9 and the name "c", of
/// version 2.
fn encrypt(image: &mut Image, path: &str) -> usize {
    const VALUE: usize = 48;
    let at = image.inode_of(path);
    image.put32(at + FLAGS, image.get32(at + FLAGS) | ENCRYPTED);
    let list = at + 128 + usize::from(image.get16(at + 128)) + 4;
    image.put32(list - 4, 0xea02_0000);
    image.put(list, &[1, 9, VALUE as u8, 0, 0, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, b'c']);
    image.put8(list + VALUE, 2);
    list + VALUE
}

/// An encrypted directory with one name, and the inode of that encrypted too; changed where the
/// contexts of both are.
fn encrypted(change: impl FnOnce(&mut Image, usize, usize)) -> Image {
    let mut image = Image::encrypted();
    let directory = encrypt(&mut image, "/secret");
    let file = encrypt(&mut image, "/secret/0123456789abcdef");
    change(&mut image, directory, file);
    image
}

/// The checksum of an index root is another.
fn index_checksum() -> Image {
    let mut image = Image::indexed_sealed();
    let root = image.block_of(image.find("/many"), 0);
    let limit = usize::from(image.get16(root + ROOT_ENTRIES));
    let at = pointer(root, limit) + 4;
    let sum = image.get32(at);
    image.put32(at, sum ^ 1);
    image
}

/// The root directory is not in use.
fn no_root() -> Image {
    inode("/", |image, at| {
        image.put16(at + LINKS, 0);
        image.put32(at + DELETED, 1_000_000_000);
    })
}

/// A directory that is reached from a directory in it only.
fn looped() -> Image {
    let mut image = Image::plain();
    let (directory, below) = (image.find("/d"), image.find("/d/sub"));
    let (entry, dotdot) = (image.entry("/d/sub/deep"), image.entry("/d/.."));
    let above = image.entry("/d");
    image.put32(entry + INO, directory);
    image.put32(dotdot + INO, below);
    image.put32(above + INO, 0);
    image
}

/// Two blocks of a directory that is no longer indexed have the same name.
fn name_in_two_blocks() -> Image {
    let mut image = Image::indexed();
    let directory = image.find("/many");
    let at = image.inode(directory);
    let flags = image.get32(at + FLAGS);
    image.put32(at + FLAGS, flags & !0x1000);
    let (from, mut to) = (image.block_of(directory, 1), image.block_of(directory, 2));
    let length = usize::from(image.bytes[from + NAME_LENGTH]);
    while usize::from(image.bytes[to + NAME_LENGTH]) != length {
        to += usize::from(image.get16(to + LENGTH));
    }
    let name = image.bytes[from + NAME..from + NAME + length].to_vec();
    image.put(to + NAME, &name);
    image
}
