//! The superblock, group descriptors, the journal, orphans.
use super::harness::{Case, Image, case};
use extant_format::Ino;
use extant_format::checksum::{crc32c, inode_seed};

/// Fields of the superblock.
const SUPER: usize = 1024;
const INODES: usize = 0;
const BLOCKS: usize = 4;
const RESERVED: usize = 8;
const FREE_BLOCKS: usize = 12;
const FREE_INODES: usize = 16;
const CLUSTER_SIZE: usize = 0x1c;
const MAGIC: usize = 0x38;
const FIRST_INODE: usize = 0x54;
const COMPAT: usize = 0x5c;
const INCOMPAT: usize = 0x60;
const RO_COMPAT: usize = 0x64;
const RESERVED_DESCRIPTORS: usize = 0xce;
const JOURNAL_IDENTITY: usize = 0xd0;
const JOURNAL_INODE: usize = 0xe0;
const JOURNAL_DEVICE: usize = 0xe4;
const LAST_ORPHAN: usize = 0xe8;
const JOURNAL_BACKUP_TYPE: usize = 0xfd;
const DESCRIPTOR_SIZE: usize = 0xfe;
const BLOCKS_HIGH: usize = 0x150;
const EXTRA_REQUIRED: usize = 0x15c;
const EXTRA_WANTED: usize = 0x15e;
const MOUNT_BLOCK: usize = 0x168;
const CHECKSUM: usize = 0x3fc;

/// Fields of a descriptor.
const BLOCK_BITMAP: usize = 0;
const INODE_BITMAP: usize = 4;
const INODE_TABLE: usize = 8;
const GROUP_FREE_BLOCKS: usize = 12;
const GROUP_FREE_INODES: usize = 14;
const GROUP_DIRECTORIES: usize = 16;
const GROUP_FLAGS: usize = 18;
const GROUP_UNUSED: usize = 28;
const GROUP_CHECKSUM: usize = 30;

/// Fields of the journal's superblock, which is big-endian.
const JOURNAL_KIND: usize = 4;
const JOURNAL_ERROR: usize = 0x20;
const JOURNAL_INCOMPAT: usize = 0x28;
const JOURNAL_RO_COMPAT: usize = 0x2c;
const JOURNAL_USERS: usize = 0x40;

/// A changed volume.
fn changed(mut image: Image, change: impl FnOnce(&mut Image)) -> Image {
    change(&mut image);
    image
}

fn add(image: &mut Image, at: usize, bit: u32) {
    image.put32(SUPER + at, image.get32(SUPER + at) | bit);
}

/// The byte where the descriptor of a group begins; blocks have 1 KiB, and descriptors 32 bytes.
fn group(number: usize) -> usize {
    2048 + 32 * number
}

/// Where the journal's superblock is.
fn journal(image: &Image) -> usize {
    image.block_of(8, 0)
}

/// Changes the field of an unsealed volume of two groups.
fn two_groups(at: usize, value: u32) -> Image {
    changed(Image::backed(), |image| image.put32(at, value))
}

/// The copies of superblock and descriptors cannot be used either.
fn without_copies(mut image: Image) -> Image {
    image.put16((8193 << 10) + MAGIC, 0);
    image
}

pub const CASES: &[Case] = &[
    case(
        "unused inodes without checksums",
        || changed(Image::plain(), |image| image.put16(group(0) + GROUP_UNUSED, 5)),
        &["unused-without-checksums: group 0: 5 inodes were never used, which means nothing \
             without descriptor checksums"],
    ),
    case(
        "unused inodes that are in use, without checksums",
        || changed(Image::plain(), |image| image.put16(group(0) + GROUP_UNUSED, 64 - 11)),
        &[
            "unused-without-checksums: group 0: 53 inodes were never used, which means nothing \
             without descriptor checksums",
            "used-never-used: group 0: the descriptor says that inode 12 was never used, but it \
             is in use",
        ],
    ),
    case(
        "more unused inodes than there are, without checksums",
        || changed(Image::plain(), |image| image.put16(group(0) + GROUP_UNUSED, 66)),
        &["unused-without-checksums: group 0: 66 inodes were never used, which means nothing \
             without descriptor checksums"],
    ),
    case(
        "no magic number anywhere",
        || changed(Image::plain(), |image| image.put16(SUPER + MAGIC, 0)),
        &["superblock-unusable: no superblock that can be used was found, neither the first nor \
             a copy"],
    ),
    case(
        "no magic number, with a copy",
        || changed(Image::backed(), |image| image.put16(SUPER + MAGIC, 0)),
        &[
            "superblock-damaged: the first superblock cannot be used; the copy in block 8193 is",
            "free-blocks: 12155 free blocks are counted in the superblock, should be 12148",
            "free-inodes: 53 free inodes are counted in the superblock, should be 43",
            "group-free-blocks: group 0: 8119 free blocks are counted, should be 8112",
            "group-free-inodes: group 0: 21 free inodes are counted, should be 11",
            "group-directories: group 0: 2 directories are counted, should be 6",
        ],
    ),
    case(
        "the checksum of the superblock",
        || changed(Image::sealed(), |image| image.put32(SUPER + CHECKSUM, 7)),
        &["superblock-checksum: the checksum of the superblock is wrong, and no copy is better"],
    ),
    case(
        "a device cut short",
        || changed(Image::plain(), |image| image.bytes.truncate(1000 << 10)),
        &["device-too-small: the volume has 1024 blocks, the device only 1000"],
    ),
    case(
        "the inode count",
        || changed(Image::plain(), |image| image.put32(SUPER + INODES, 63)),
        &["inode-count: the inode count is 63, should be 64"],
    ),
    case(
        "reserved blocks",
        || changed(Image::plain(), |image| image.put32(SUPER + RESERVED, 900)),
        &["reserved-blocks: 900 blocks are reserved: more than half of the volume"],
    ),
    case(
        "resize_inode and meta_bg",
        || {
            changed(Image::plain(), |image| {
                add(image, COMPAT, 0x10);
                add(image, INCOMPAT, 0x10);
            })
        },
        &["resize-with-meta-groups: the features resize_inode and meta_bg exclude each other"],
    ),
    case(
        "two kinds of checksums",
        || {
            changed(Image::sealed(), |image| {
                add(image, RO_COMPAT, 0x10);
                image.seal_superblock();
            })
        },
        &["two-checksums: the features uninit_bg and metadata_csum exclude each other"],
    ),
    case(
        "more than 2^32 blocks without extents",
        || {
            changed(Image::plain(), |image| {
                add(image, INCOMPAT, 0x80);
                image.put16(SUPER + 0xfe, 64);
                image.put32(SUPER + BLOCKS_HIGH, 1);
            })
        },
        &[
            "device-too-small: the volume has 4294968320 blocks, the device only 1024",
            "inode-count: the inode count is 64, should be 33554496",
            "wide-without-extents: the volume has more than 2^32 blocks, which files without the \
             feature extents cannot use",
            "block-bitmap-conflict: group 0: the block bitmap at block 3 overlaps other metadata",
            "inode-bitmap-conflict: group 0: the inode bitmap at block 4 overlaps other metadata",
            "inode-table-conflict: group 0: the inode table at block 5 overlaps other metadata",
            "blocks-of-metadata: inode 2: 1 of its blocks belong to metadata of the volume, block \
             13 first",
            "blocks-of-metadata: inode 11: 12 of its blocks belong to metadata of the volume, \
             block 14 first",
            "blocks-of-metadata: inode 12: 1 of its blocks belong to metadata of the volume, block \
             26 first",
            "blocks-of-metadata: inode 13: 1 of its blocks belong to metadata of the volume, block \
             27 first",
            "blocks-of-metadata: inode 14: 1 of its blocks belong to metadata of the volume, block \
             28 first",
            "blocks-of-metadata: inode 15: 1 of its blocks belong to metadata of the volume, block \
             29 first",
            "blocks-of-metadata: inode 16: 1 of its blocks belong to metadata of the volume, block \
             30 first",
            "blocks-of-metadata: inode 18: 1 of its blocks belong to metadata of the volume, block \
             31 first",
            "blocks-of-metadata: inode 21: 1 of its blocks belong to metadata of the volume, block \
             32 first",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 0",
            "blocks-marked-free: group 0: 991 blocks are marked free but in use, block 33 first",
        ],
    ),
    case(
        "a seed without checksums",
        || changed(Image::plain(), |image| add(image, INCOMPAT, 0x2000)),
        &["seed-without-checksums: the feature metadata_csum_seed means nothing without \
             metadata_csum"],
    ),
    case(
        "copies in two groups that sparse_super2 does not name",
        || changed(Image::backed(), |image| add(image, COMPAT, 0x200)),
        &[
            "free-blocks: 12148 free blocks are counted in the superblock, should be 12197",
            "group-free-blocks: group 1: 4036 free blocks are counted, should be 4085",
            "blocks-marked-used: group 1: 49 blocks are marked in use but free, block 8193 first",
        ],
    ),
    case(
        "reserved descriptors",
        || changed(Image::plain(), |image| image.put16(SUPER + RESERVED_DESCRIPTORS, 3)),
        &[
            "reserved-descriptors: 3 descriptor blocks are reserved without the feature \
             resize_inode",
            "block-bitmap-conflict: group 0: the block bitmap at block 3 overlaps other metadata",
            "inode-bitmap-conflict: group 0: the inode bitmap at block 4 overlaps other metadata",
            "inode-table-conflict: group 0: the inode table at block 5 overlaps other metadata",
        ],
    ),
    case(
        "names that know no case, in no encoding",
        || changed(Image::plain(), |image| add(image, INCOMPAT, 0x2_0000)),
        &["encoding: the volume has the feature casefold, but its encoding is unknown, number 0"],
    ),
    case(
        "mounts that are recorded nowhere",
        || changed(Image::plain(), |image| add(image, INCOMPAT, 0x100)),
        &["mount-block: the volume has the feature mmp, but block 0 cannot be the one that \
             records mounts"],
    ),
    case(
        "more reserved inodes than there are",
        || changed(Image::plain(), |image| image.put32(SUPER + FIRST_INODE, 12)),
        &[
            "reserved-mode: inode 11: is reserved, and cannot have the mode 16832",
            "reserved-directory: inode 11: is reserved, but is a directory",
            "entry-inode: directory 2: 'lost+found' cannot be inode 11",
            "directory-hole: directory 11: block 0 is missing (1 in all from there on)",
            "directory-unreachable: directory 11 is not reached from the root; its '..' is inode 0",
            "link-count: inode 2: it counts 4 links, 3 were found",
            "free-blocks: 991 free blocks are counted in the superblock, should be 1003",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 1003",
            "group-directories: group 0: 6 directories are counted, should be 5",
            "blocks-marked-used: group 0: 12 blocks are marked in use but free, block 14 first",
        ],
    ),
    case(
        "the required extra size",
        || changed(Image::modern(), |image| image.put16(SUPER + EXTRA_REQUIRED, 1)),
        &["required-extra-size: inodes must have 1 bytes of extra fields, but there is room for \
             128"],
    ),
    case(
        "the wanted extra size",
        || changed(Image::modern(), |image| image.put16(SUPER + EXTRA_WANTED, 999)),
        &["wanted-extra-size: new inodes get 999 bytes of extra fields, but there is room for 128"],
    ),
    case(
        "a descriptor, with a copy",
        || two_groups(group(1) + BLOCK_BITMAP, 9_999_999),
        &[
            "descriptors-damaged: the first group descriptors cannot be used; the copy in group 1 \
             is",
            "free-blocks: 12155 free blocks are counted in the superblock, should be 12148",
            "free-inodes: 53 free inodes are counted in the superblock, should be 43",
            "group-free-blocks: group 0: 8119 free blocks are counted, should be 8112",
            "group-free-inodes: group 0: 21 free inodes are counted, should be 11",
            "group-directories: group 0: 2 directories are counted, should be 6",
        ],
    ),
    case(
        "the checksum of a descriptor",
        || changed(Image::sealed(), |image| image.put16(2048 + GROUP_CHECKSUM, 1)),
        &["descriptor-checksum: group 0: the checksum of the descriptor is 1, should be 35226"],
    ),
    case(
        "a doubtful descriptor says that the root was never used",
        || changed(Image::sealed(), |image| image.put16(2048 + GROUP_FLAGS, 1)),
        &[
            "descriptor-checksum: group 0: the checksum of the descriptor is 35226, should be \
             59508",
            "root-never-used: group 0: the descriptor says that the root directory was never used",
        ],
    ),
    case(
        "a doubtful descriptor has too many unused inodes",
        || changed(Image::sealed(), |image| image.put16(2048 + GROUP_UNUSED, 5000)),
        &[
            "descriptor-checksum: group 0: the checksum of the descriptor is 35226, should be \
             16678",
            "unused-inodes: group 0: 5000 inodes were never used, more than it has",
            "root-never-used: group 0: the descriptor says that the root directory was never used",
        ],
    ),
    case(
        "a doubtful descriptor says that an inode was never used",
        || changed(Image::sealed(), |image| image.put16(2048 + GROUP_UNUSED, 53)),
        &[
            "descriptor-checksum: group 0: the checksum of the descriptor is 35226, should be \
             39888",
            "used-never-used: group 0: the descriptor says that inode 12 was never used, but it is \
             in use",
        ],
    ),
    case(
        "more unused inodes than inodes",
        unused,
        &[
            "unused-inodes: group 0: 999 inodes were never used, more than it has",
            "root-never-used: group 0: the descriptor says that the root directory was never used",
        ],
    ),
    case(
        "a block bitmap outside",
        || without_copies(two_groups(group(0) + BLOCK_BITMAP, 9_999_999)),
        &[
            "block-bitmap-place: group 0: the block bitmap cannot be at block 9999999",
            "free-blocks: 12148 free blocks are counted in the superblock, should be 12149",
            "group-free-blocks: group 0: 8112 free blocks are counted, should be 8113",
        ],
    ),
    case(
        "an inode bitmap outside",
        || without_copies(two_groups(group(0) + INODE_BITMAP, 9_999_999)),
        &[
            "inode-bitmap-place: group 0: the inode bitmap cannot be at block 9999999",
            "free-blocks: 12148 free blocks are counted in the superblock, should be 12149",
            "group-free-blocks: group 0: 8112 free blocks are counted, should be 8113",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 51 first",
        ],
    ),
    case(
        "an inode table outside",
        || without_copies(two_groups(group(1) + INODE_TABLE, 9_999_999)),
        &[
            "inode-table-place: group 1: the inode table cannot be at block 9999999",
            "free-blocks: 12148 free blocks are counted in the superblock, should be 12156",
            "group-free-blocks: group 1: 4036 free blocks are counted, should be 4044",
            "blocks-marked-used: group 1: 8 blocks are marked in use but free, block 8244 first",
        ],
    ),
    case(
        "the table of the root outside, without a journal",
        || {
            changed(Image::plain(), |image| {
                let at = image.descriptor(0);
                image.put32(at + 8, 9_999_999);
            })
        },
        &[
            "root-table-place: the inode table that has the root directory cannot be at block \
             9999999",
            "root-missing: there is no root directory",
            "free-blocks: 991 free blocks are counted in the superblock, should be 1019",
            "free-inodes: 43 free inodes are counted in the superblock, should be 54",
            "group-free-blocks: group 0: 991 free blocks are counted, should be 1019",
            "group-free-inodes: group 0: 43 free inodes are counted, should be 54",
            "group-directories: group 0: 6 directories are counted, should be 0",
            "blocks-marked-used: group 0: 28 blocks are marked in use but free, block 5 first",
            "inodes-marked-used: group 0: 11 inodes are marked in use but free, inode 11 first",
        ],
    ),
    case(
        "a block bitmap on descriptors",
        || two_groups(group(0) + BLOCK_BITMAP, 2),
        &[
            "block-bitmap-conflict: group 0: the block bitmap at block 2 overlaps other metadata",
            "free-blocks: 12148 free blocks are counted in the superblock, should be 12149",
            "group-free-blocks: group 0: 8112 free blocks are counted, should be 8113",
            "blocks-marked-free: group 0: 71 blocks are marked free but in use, block 1 first",
            "blocks-marked-used: group 0: 34 blocks are marked in use but free, block 101 first",
        ],
    ),
    case(
        "an inode bitmap on descriptors",
        || two_groups(group(0) + INODE_BITMAP, 2),
        &[
            "inode-bitmap-conflict: group 0: the inode bitmap at block 2 overlaps other metadata",
            "free-blocks: 12148 free blocks are counted in the superblock, should be 12149",
            "group-free-blocks: group 0: 8112 free blocks are counted, should be 8113",
            "inode-bitmap-padding: group 0: the inode bitmap in block 2 is not set after its end",
            "blocks-marked-used: group 0: 1 blocks are marked in use but free, block 51 first",
            "inodes-marked-free: group 0: 18 inodes are marked free but in use, inode 1 first",
        ],
    ),
    case(
        "an inode table on a bitmap",
        table_on_bitmap,
        &[
            "inode-table-conflict: group 1: the inode table at block 8244 overlaps other metadata",
            "free-blocks: 12148 free blocks are counted in the superblock, should be 12149",
            "group-free-blocks: group 1: 4036 free blocks are counted, should be 4037",
            "blocks-marked-free: group 1: 58 blocks are marked free but in use, block 8193 first",
            "block-bitmap-padding: group 1: the block bitmap in block 8251 is not set after its \
             end",
        ],
    ),
    case(
        "a journal device",
        || changed(Image::plain(), |image| add(image, INCOMPAT, 8)),
        &["is-journal-device: the device is the journal of another volume"],
    ),
    case(
        "recovery without a journal",
        || changed(Image::plain(), |image| add(image, INCOMPAT, 4)),
        &["recovery-without-journal: the journal must be replayed, but there is none"],
    ),
    case(
        "a journal without the feature",
        || {
            changed(Image::journaled(), |image| {
                image.put32(SUPER + COMPAT, image.get32(SUPER + COMPAT) & !4)
            })
        },
        &["journal-without-feature: the superblock has a journal, but not the feature has_journal"],
    ),
    case(
        "a journal without the feature that is none",
        || changed(Image::plain(), |image| image.put32(SUPER + JOURNAL_INODE, 8)),
        &["journal-inode: inode 8 is no journal"],
    ),
    case(
        "another journal device without the feature",
        || changed(Image::plain(), |image| image.put32(SUPER + JOURNAL_IDENTITY, 1)),
        &["external-journal: the journal is on another device, which is not looked at"],
    ),
    case(
        "the first inode",
        || changed(Image::plain(), |image| image.put32(SUPER + FIRST_INODE, 10)),
        &["superblock-unusable: no superblock that can be used was found, neither the first nor \
             a copy"],
    ),
    case(
        "the size of descriptors",
        || changed(Image::plain(), |image| image.put16(SUPER + DESCRIPTOR_SIZE, 96)),
        &["superblock-field: the superblock's 'descriptor size' cannot be 96: nothing can be \
             said of the volume"],
    ),
    case(
        "clusters on a volume without them",
        || changed(Image::plain(), |image| image.put32(SUPER + CLUSTER_SIZE, 2)),
        &["superblock-unusable: no superblock that can be used was found, neither the first nor \
             a copy"],
    ),
    case(
        "the inode count under a checksum",
        || {
            changed(Image::sealed(), |image| {
                image.put32(SUPER + INODES, 63);
                image.seal_superblock();
            })
        },
        &["inode-count: the inode count is 63, should be 64"],
    ),
    case(
        "orphans without their file",
        || changed(Image::plain(), |image| add(image, RO_COMPAT, 0x1_0000)),
        &["orphans-without-file: the volume has the feature orphan_present, but no orphan in a \
             file of orphans"],
    ),
    case(
        "flags of a group without checksums",
        || changed(Image::backed(), |image| image.put16(group(1) + GROUP_FLAGS, 1)),
        &["uninit-without-checksums: group 1: the descriptor has flags 1, which mean nothing \
             without descriptor checksums"],
    ),
    case(
        "an orphan that was left in the file",
        || orphan_file(0, 12),
        &["orphan-file: inode 12, block 0: the list of orphans in it is damaged, or not empty"],
    ),
    case(
        "the end of the file of orphans",
        || orphan_file(1016, 7),
        &["orphan-file: inode 12, block 0: the list of orphans in it is damaged, or not empty"],
    ),
    case(
        "a mount block that is none",
        || shared(0, 7),
        &["mount-block: the volume has the feature mmp, but block 17 cannot be the one that \
             records mounts"],
    ),
    case(
        "a mount block of a check",
        || shared(4, 0xe24d_4d50),
        &["mount-block-held: block 17 says that the volume is being checked elsewhere (sequence \
             3796716880)"],
    ),
    case("a mount block of a mount", || shared(4, 7), &[]),
    case(
        "the head of a quota file",
        || {
            changed(Image::counted(), |image| {
                let at = image.block_of(3, 0);
                image.put32(at + 20, 0);
            })
        },
        &["quota-file: inode 3 is no quota file"],
    ),
    case(
        "the tree of a quota file",
        || {
            changed(Image::counted(), |image| {
                let at = image.block_of(3, 1);
                image.put32(at + 1020, 77);
            })
        },
        &["quota-file: inode 3 is no quota file"],
    ),
    case(
        "the feature without a journal",
        || changed(Image::plain(), |image| add(image, COMPAT, 4)),
        &["journal-missing: the volume has the feature has_journal, but no journal"],
    ),
    case(
        "a journal elsewhere",
        || {
            changed(Image::journaled(), |image| {
                image.put32(SUPER + JOURNAL_INODE, 0);
                image.put32(SUPER + JOURNAL_DEVICE, 0x801);
            })
        },
        &["external-journal: the journal is on another device, which is not looked at"],
    ),
    case(
        "recovery",
        || changed(Image::journaled(), |image| add(image, INCOMPAT, 4)),
        &["needs-recovery: the journal must be replayed: that may repair what follows"],
    ),
    case(
        "no journal in the inode",
        || {
            changed(Image::journaled(), |image| {
                let at = image.inode(8);
                image.put(at, &[0; 128]);
                image.put8(SUPER + JOURNAL_BACKUP_TYPE, 0);
            })
        },
        &[
            "journal-inode: inode 8 is no journal",
            "free-blocks: 3026 free blocks are counted in the superblock, should be 4055",
            "group-free-blocks: group 0: 3026 free blocks are counted, should be 4055",
            "blocks-marked-used: group 0: 1029 blocks are marked in use but free, block 34 first",
        ],
    ),
    case(
        "the journal's magic number",
        || changed(Image::journaled(), |image| image.put32(journal(image), 0)),
        &["journal-superblock: the superblock of the journal in inode 8 is damaged"],
    ),
    case(
        "a journal of several users",
        || {
            changed(Image::journaled(), |image| {
                image.put(journal(image) + JOURNAL_USERS, &[0, 0, 0, 2]);
            })
        },
        &["journal-fields: the superblock of the journal in inode 8 has fields that its version \
             does not know"],
    ),
    case(
        "a journal here and on another device",
        || changed(Image::journaled(), |image| image.put8(SUPER + JOURNAL_IDENTITY, 7)),
        &["two-journals: the superblock has a journal in inode 8 and names another device for it \
             too"],
    ),
    case(
        "a journal of the first version",
        || {
            changed(Image::journaled(), |image| {
                image.put(journal(image) + JOURNAL_KIND, &[0, 0, 0, 3]);
                image.put(journal(image) + JOURNAL_USERS, &[0, 0, 0, 2]);
            })
        },
        &["journal-leftovers: the superblock of the journal in inode 8 is of version 1, but has \
             fields of version 2"],
    ),
    case(
        "a feature of the journal",
        || {
            changed(Image::journaled(), |image| {
                image.put(journal(image) + JOURNAL_RO_COMPAT, &[0x80, 0, 0, 0]);
            })
        },
        &["journal-features: the journal in inode 8 has features that are not known"],
    ),
    case(
        "the checksum of the journal",
        || {
            changed(Image::journaled(), |image| {
                image.put(journal(image) + JOURNAL_INCOMPAT, &[0, 0, 0, 0x10]);
                image.put8(journal(image) + 0x50, 4);
            })
        },
        &["journal-checksum: the checksum of the superblock of the journal in inode 8 is wrong"],
    ),
    case(
        "an error in the journal",
        || {
            changed(Image::journaled(), |image| {
                image.put(journal(image) + JOURNAL_ERROR, &[0xff, 0xff, 0xff, 0xfb]);
            })
        },
        &["journal-error: the journal in inode 8 has recorded the error 4294967291"],
    ),
    case(
        "an orphan",
        || {
            changed(Image::plain(), |image| {
                let ino = image.find("/d/file");
                image.put32(SUPER + LAST_ORPHAN, ino);
            })
        },
        &["orphans-wait: 1 deleted inodes wait on the list of orphans to be freed"],
    ),
    case(
        "no orphan",
        || changed(Image::plain(), |image| image.put32(SUPER + LAST_ORPHAN, 60)),
        &["orphan-list: the list of orphans leads to inode 60, which cannot be one"],
    ),
    case(
        "free blocks",
        || changed(Image::plain(), |image| image.put32(SUPER + FREE_BLOCKS, 1)),
        &["free-blocks: 1 free blocks are counted in the superblock, should be 991"],
    ),
    case(
        "free inodes",
        || changed(Image::plain(), |image| image.put32(SUPER + FREE_INODES, 1)),
        &["free-inodes: 1 free inodes are counted in the superblock, should be 43"],
    ),
    case(
        "free blocks of a group",
        || two_groups_16(GROUP_FREE_BLOCKS),
        &["group-free-blocks: group 0: 8113 free blocks are counted, should be 8112"],
    ),
    case(
        "free inodes of a group",
        || two_groups_16(GROUP_FREE_INODES),
        &["group-free-inodes: group 0: 12 free inodes are counted, should be 11"],
    ),
    case(
        "directories of a group",
        || two_groups_16(GROUP_DIRECTORIES),
        &["group-directories: group 0: 7 directories are counted, should be 6"],
    ),
    case(
        "a block marked free",
        || bit(BLOCK_BITMAP, 3, false),
        &["blocks-marked-free: group 0: 1 blocks are marked free but in use, block 4 first"],
    ),
    case(
        "a block marked used",
        || bit(BLOCK_BITMAP, 900, true),
        &["blocks-marked-used: group 0: 1 blocks are marked in use but free, block 901 first"],
    ),
    case(
        "padding of a block bitmap",
        || bit(BLOCK_BITMAP, 8000, false),
        &["block-bitmap-padding: group 0: the block bitmap in block 3 is not set after its end"],
    ),
    case(
        "an inode marked free",
        || bit(INODE_BITMAP, 11, false),
        &["inodes-marked-free: group 0: 1 inodes are marked free but in use, inode 12 first"],
    ),
    case(
        "an inode marked used",
        || bit(INODE_BITMAP, 50, true),
        &["inodes-marked-used: group 0: 1 inodes are marked in use but free, inode 51 first"],
    ),
    case(
        "padding of an inode bitmap",
        || bit(INODE_BITMAP, 8000, false),
        &["inode-bitmap-padding: group 0: the inode bitmap in block 4 is not set after its end"],
    ),
    case(
        "the checksum of a block bitmap",
        || bitmap_checksum(0x18),
        &["block-bitmap-checksum: group 0: the checksum of the block bitmap in block 3 is wrong"],
    ),
    case(
        "the checksum of an inode bitmap",
        || bitmap_checksum(0x1a),
        &["inode-bitmap-checksum: group 0: the checksum of the inode bitmap in block 19 is wrong"],
    ),
    case(
        "the block count",
        || changed(Image::plain(), |image| image.put32(SUPER + BLOCKS, 0)),
        &["superblock-unusable: no superblock that can be used was found, neither the first nor \
             a copy"],
    ),
    case(
        "a deleted orphan",
        deleted_orphan,
        &[
            "orphans-wait: 1 deleted inodes wait on the list of orphans to be freed",
            "orphan-deleted: inode 60 was deleted while it was open: it and its blocks wait to be \
             freed",
        ],
    ),
    case(
        "a quota",
        quota,
        &["quota-usage: the quota file in inode 3 differs from what is used for 2 ids"],
    ),
];

/// Another number in 16 bits of the first descriptor.
fn two_groups_16(field: usize) -> Image {
    changed(Image::backed(), |image| {
        let at = group(0) + field;
        image.put16(at, image.get16(at) + 1);
    })
}

/// A bit of a bitmap of a volume of one group.
fn bit(bitmap: usize, bit: usize, set: bool) -> Image {
    changed(Image::plain(), |image| {
        let at = ((image.get32(group(0) + bitmap) as usize) << 10) + bit / 8;
        let mask = 1 << (bit % 8);
        let byte = image.bytes[at];
        image.put8(at, if set { byte | mask } else { byte & !mask });
    })
}

/// A wrong checksum of a bitmap in a descriptor that is sealed again.
fn bitmap_checksum(field: usize) -> Image {
    changed(Image::sealed(), |image| {
        image.put16(2048 + field, !image.get16(2048 + field));
        image.seal_descriptor(0);
    })
}

/// A number of unused inodes that cannot be, in a descriptor that is sealed again.
fn unused() -> Image {
    changed(Image::sealed(), |image| {
        image.put16(2048 + 0x1c, 999);
        image.seal_descriptor(0);
    })
}

/// Another word in the first block of the file of orphans, sealed again.
fn orphan_file(field: usize, value: u32) -> Image {
    changed(Image::orphaned(), |image| {
        let ino = image.superblock().orphan_file_inode;
        let at = image.block_of(ino, 0);
        image.put32(at + field, value);
        let superblock = image.superblock();
        let generation = image.volume().inode(Ino(ino)).unwrap().generation;
        let block = (at as u64 / 1024).to_le_bytes();
        let seed = inode_seed(superblock.checksum_seed, Ino(ino), generation);
        let sum = crc32c(crc32c(seed, &block), &image.bytes[at..at + 1016]);
        image.put32(at + 1020, sum);
    })
}

/// Another word in the block that records mounts.
fn shared(field: usize, value: u32) -> Image {
    changed(Image::shared(), |image| {
        let block = image.get32(SUPER + MOUNT_BLOCK) as usize;
        image.put32(block * 1024 + field, value);
    })
}

/// The second group's block bitmap at the end of its inode table, where no inode was ever used.
fn table_on_bitmap() -> Image {
    changed(Image::backed(), |image| {
        let last = image.get32(group(1) + INODE_TABLE) + 7;
        image.put32(group(1) + BLOCK_BITMAP, last);
    })
}

/// A file that changed its owner without the quotas.
fn quota() -> Image {
    changed(Image::counted(), |image| {
        let at = image.inode_of("/d/file");
        image.put16(at + 2, 7);
    })
}

/// A file that was deleted while it was open: without a name, but still counted.
fn deleted_orphan() -> Image {
    changed(bit(INODE_BITMAP, 59, true), |image| {
        let at = image.inode(60);
        image.put16(at, 0o100_644);
        image.put32(SUPER + LAST_ORPHAN, 60);
        image.put32(SUPER + FREE_INODES, image.get32(SUPER + FREE_INODES) - 1);
        let free = group(0) + GROUP_FREE_INODES;
        image.put16(free, image.get16(free) - 1);
    })
}
