//! The superblock: 1,024 bytes at byte 1,024 of a volume, and every check that a mount makes on them.
//!
//! `RawSuperblock` is the bytes; [`Superblock`] is the checked value; [`Superblock::parse`] is the only door between them.
use crate::{Fault, Ino};

/// Byte offset of the primary superblock from the start of the volume.
pub const SUPERBLOCK_OFFSET: u64 = 1024;
/// Bytes of a superblock.
pub const SUPERBLOCK_SIZE: usize = 1024;

/// A set of feature bits of one class. Named constants below; `name()` gives the mke2fs spelling.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// May be ignored by those who do not know them.
    pub compat: u32,
    /// Must be known to read.
    pub incompat: u32,
    /// Must be known to write.
    pub ro_compat: u32,
}

/// One feature: the class it belongs to and its bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// A bit of `compat`.
    Compat(u32),
    /// A bit of `incompat`.
    Incompat(u32),
    /// A bit of `ro_compat`.
    RoCompat(u32),
}

#[allow(missing_docs)] // each constant is the feature of that mke2fs name
impl Feature {
    pub const DIR_PREALLOC: Feature = Feature::Compat(0x1);
    pub const HAS_JOURNAL: Feature = Feature::Compat(0x4);
    pub const EXT_ATTR: Feature = Feature::Compat(0x8);
    pub const RESIZE_INODE: Feature = Feature::Compat(0x10);
    pub const DIR_INDEX: Feature = Feature::Compat(0x20);
    pub const ORPHAN_FILE: Feature = Feature::Compat(0x1000);
    pub const FILETYPE: Feature = Feature::Incompat(0x2);
    pub const NEEDS_RECOVERY: Feature = Feature::Incompat(0x4);
    pub const EXTENTS: Feature = Feature::Incompat(0x40);
    pub const SIXTY_FOUR_BIT: Feature = Feature::Incompat(0x80);
    pub const FLEX_BG: Feature = Feature::Incompat(0x200);
    pub const CSUM_SEED: Feature = Feature::Incompat(0x2000);
    pub const SPARSE_SUPER: Feature = Feature::RoCompat(0x1);
    pub const LARGE_FILE: Feature = Feature::RoCompat(0x2);
    pub const HUGE_FILE: Feature = Feature::RoCompat(0x8);
    pub const UNINIT_BG: Feature = Feature::RoCompat(0x10);
    pub const DIR_NLINK: Feature = Feature::RoCompat(0x20);
    pub const EXTRA_ISIZE: Feature = Feature::RoCompat(0x40);
    pub const METADATA_CSUM: Feature = Feature::RoCompat(0x400);
    pub const ORPHAN_PRESENT: Feature = Feature::RoCompat(0x10000);

    /// The mke2fs spelling ("metadata_csum"), or "FEATURE_C12"-like as e2fsprogs prints unknown bits.
    pub fn name(self) -> String {
        todo!()
    }
    /// The feature of that mke2fs name (also `uninit_bg` and `gdt_csum`, `extent` and `extents`, `metadata_csum_seed`).
    pub fn from_name(_name: &str) -> Option<Feature> {
        todo!()
    }
}

impl Features {
    /// Whether the set holds this feature.
    pub fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Compat(bit) => self.compat & bit != 0,
            Feature::Incompat(bit) => self.incompat & bit != 0,
            Feature::RoCompat(bit) => self.ro_compat & bit != 0,
        }
    }
    /// Adds a feature.
    pub fn set(&mut self, _feature: Feature) {
        todo!()
    }
    /// Takes a feature away.
    pub fn clear(&mut self, _feature: Feature) {
        todo!()
    }
    /// The features in the order in which dumpe2fs prints them (compat, incompat, ro_compat; bits rising).
    pub fn iter(&self) -> impl Iterator<Item = Feature> {
        std::iter::empty()
    }
    /// Those that this project does not read and write: everything but the constants of [`Feature`].
    pub fn unsupported(&self) -> Vec<String> {
        todo!()
    }
}

/// Why bytes are not a superblock that can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SuperblockError {
    /// No ext magic number: something else, or nothing, is here.
    NotExt,
    /// An ext superblock with a value that cannot be.
    Fault(Fault),
    /// Sound, with features that are not supported, by name.
    Unsupported(Vec<String>),
}

/// The hash of names in hashed directories, as in `s_def_hash_version` and the root of an index (0..=5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashVersion {
    /// 0, 3 when characters are unsigned.
    Legacy,
    /// 1, 4 when characters are unsigned.
    HalfMd4,
    /// 2, 5 when characters are unsigned.
    Tea,
}

/// A checked superblock. Public fields are what the engine changes or asks often; the rest has accessors on the raw
/// bytes, which are kept, so that a field unknown to us survives a rewrite.
#[derive(Clone, Debug)]
pub struct Superblock {
    /// The bytes as read; encode() overlays the fields below.
    pub(crate) raw: Box<[u8; SUPERBLOCK_SIZE]>,
    pub features: Features,
    /// log2 of the block size in bytes: 10..=16.
    pub block_size_log2: u8,
    pub inodes_count: u32,
    pub blocks_count: u64,
    pub reserved_blocks: u64,
    pub free_blocks: u64,
    pub free_inodes: u32,
    /// 1 for 1 KiB blocks, else 0.
    pub first_data_block: u32,
    pub blocks_per_group: u32,
    pub inodes_per_group: u32,
    pub inode_size: u16,
    /// Bytes of a group descriptor: 32, or as stored with 64bit.
    pub descriptor_size: u16,
    pub first_inode: u32,
    pub reserved_gdt_blocks: u16,
    /// log2 of the number of groups in a flex group; 0 without flex_bg.
    pub log_groups_per_flex: u8,
    pub min_extra_isize: u16,
    pub want_extra_isize: u16,
    pub uuid: [u8; 16],
    pub label: [u8; 16],
    pub last_mounted: [u8; 64],
    pub hash_seed: [u32; 4],
    pub hash_version: HashVersion,
    /// Names are hashed with unsigned characters (`s_flags` bit 2); bit 1 is signed; neither: signed, as on x86.
    pub hash_unsigned: bool,
    /// Seed of all metadata checksums: stored (metadata_csum_seed) or crc32c of the UUID.
    pub checksum_seed: u32,
    /// `s_state`: bit 0 clean, bit 1 errors, bit 2 orphans being recovered.
    pub state: u16,
    pub last_orphan: u32,
    pub journal_inode: u32,
    pub orphan_file_inode: u32,
    pub kbytes_written: u64,
    /// Seconds since 1970, 40 bits each with the high bytes.
    pub created_seconds: u64,
    pub written_seconds: u64,
    pub mounted_seconds: u64,
    pub checked_seconds: u64,
    pub revision: u32,
    pub default_mount_options: u32,
    pub errors_behavior: u16,
    pub default_uid: u16,
    pub default_gid: u16,
    pub creator_os: u32,
    pub max_mount_count: i16,
    pub mount_count: u16,
    pub check_interval_seconds: u32,
    pub raid_stride: u16,
    pub raid_stripe_width: u32,
    /// Which group this copy stands in; 0 for the primary.
    pub group_number: u16,
    /// s_jnl_blocks: copy of the journal inode's i_block and size (17 words), used as a backup; s_jnl_backup_type.
    pub journal_backup: [u32; 17],
    pub journal_backup_type: u8,
}

impl Superblock {
    /// Checks 1,024 bytes. Every field that later code divides by, shifts by or indexes with is in range afterwards:
    /// block size, group sizes (<= 8 * block size), inode size (power of two, 128..=block size), descriptor size,
    /// first data block, blocks_count against group count overflow, inodes_count == groups * inodes_per_group.
    /// The checksum is verified when metadata_csum is set. Revision 0 gets inode size 128 and first inode 11.
    pub fn parse(_bytes: &[u8; SUPERBLOCK_SIZE]) -> Result<Superblock, SuperblockError> {
        todo!()
    }
    /// As `parse`, with features that we do not support let through: for telling, not for use.
    pub fn parse_any(_bytes: &[u8; SUPERBLOCK_SIZE]) -> Result<Superblock, SuperblockError> {
        todo!()
    }
    /// A superblock with every field zero but magic and revision 1: for mkfs.
    pub fn empty() -> Superblock {
        todo!()
    }
    /// The bytes, with the checksum when metadata_csum is set.
    pub fn encode(&self) -> [u8; SUPERBLOCK_SIZE] {
        todo!()
    }
    /// Bytes of a block.
    pub fn block_size(&self) -> u32 {
        1 << self.block_size_log2
    }
    /// Number of groups.
    pub fn group_count(&self) -> u32 {
        todo!()
    }
    /// Blocks of each group's inode table.
    pub fn inode_table_blocks(&self) -> u32 {
        todo!()
    }
    /// Whether the feature is set.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.has(feature)
    }
    /// Whether an inode number exists and is not one of the reserved ones (or is the root).
    pub fn is_usable(&self, _ino: Ino) -> bool {
        todo!()
    }
    /// The largest file, in bytes, that can be mapped with extents (`true`) or indirect blocks: as the kernel has it.
    pub fn max_file_size(&self, _extents: MappingKind) -> u64 {
        todo!()
    }
}

/// How a file's blocks are mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum MappingKind {
    /// Twelve direct pointers and three trees.
    Indirect,
    /// A tree of extents.
    Extents,
}
