//! The superblock: 1,024 bytes at byte 1,024 of a volume, and every check that a mount makes on
//! them.
//!
//! `RawSuperblock` is the bytes; [`Superblock`] is the checked value; [`Superblock::parse`] is the
//! only door between them. A `Superblock` keeps its raw bytes, so that what is unknown here
//! survives a rewrite.
use zerocopy::little_endian::{U16, U32};
use zerocopy::transmute;

use self::raw::{RawSuperblock, seconds, split, split_seconds};
pub use crate::feature::{Feature, Features};
use crate::{BlockNo, Fault, Ino};

mod raw;
mod stored;
mod torn;

pub use stored::{Corrections, ENCODING_UTF8, StoredError, StoredSuperblock};

/// Byte offset of the primary superblock from the start of the volume.
pub const SUPERBLOCK_OFFSET: u64 = 1024;
/// Bytes of a superblock.
pub const SUPERBLOCK_SIZE: usize = 1024;

/// The number by which a superblock is known.
pub const MAGIC: u16 = 0xef53;
/// The blocks of a volume are at least that large (log2 of the bytes).
pub const BLOCK_SIZE_LOG2_MIN: u8 = 10;
/// The blocks of a volume are at most that large (log2 of the bytes).
pub const BLOCK_SIZE_LOG2_MAX: u8 = 16;
/// Bytes of the largest descriptor that a superblock may ask for.
pub const DESCRIPTOR_SIZE_MAX: u16 = 1024;
/// `checksum_type`: the only kind of metadata checksums that there is.
pub const CHECKSUM_CRC32C: u8 = 1;
/// `journal_backup_type`: the backup holds the map and the size of the journal's inode.
pub const JOURNAL_BACKUP_BLOCKS: u8 = 1;

const INODE_SIZE_REVISION_0: u16 = 128;
const FIRST_INODE_REVISION_0: u32 = 11;

/// Bits of `s_state`.
pub mod state {
    /// Unmounted cleanly.
    pub const CLEAN: u16 = 0x1;
    /// Errors were seen.
    pub const ERRORS: u16 = 0x2;
    /// Orphans are being freed.
    pub const ORPHANS: u16 = 0x4;
}

/// What went wrong, as the superblock records it (`s_last_error_errcode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ErrorCode {
    /// Anything that has no code of its own.
    Unknown = 1,
    /// The device failed.
    Device = 2,
    /// Metadata is damaged.
    Corrupt = 5,
}

/// Values of `s_errors`: what the kernel does when it finds an error.
pub mod on_error {
    /// Goes on.
    pub const CONTINUE: u16 = 1;
    /// Mounts the volume again, read-only.
    pub const REMOUNT_READ_ONLY: u16 = 2;
    /// Panics.
    pub const PANIC: u16 = 3;
}

/// Bits of `s_flags`.
pub mod superblock_flags {
    /// Names are hashed as signed characters.
    pub const SIGNED_HASH: u32 = 0x1;
    /// Names are hashed as unsigned characters.
    pub const UNSIGNED_HASH: u32 = 0x2;
    /// A file system for tests of new code.
    pub const TEST_FILESYSTEM: u32 = 0x4;
}

/// Bits of `s_default_mount_opts`. The mode of the journal is a number of two bits.
#[allow(missing_docs)] // each is the mount option of that name
pub mod mount_option {
    pub const DEBUG: u32 = 0x1;
    pub const BSD_GROUPS: u32 = 0x2;
    pub const USER_XATTR: u32 = 0x4;
    pub const ACL: u32 = 0x8;
    pub const UID16: u32 = 0x10;
    pub const JOURNAL_MODE: u32 = 0x60;
    pub const JOURNAL_DATA: u32 = 0x20;
    pub const JOURNAL_ORDERED: u32 = 0x40;
    pub const JOURNAL_WRITEBACK: u32 = 0x60;
    pub const NO_BARRIER: u32 = 0x100;
    pub const BLOCK_VALIDITY: u32 = 0x200;
    pub const DISCARD: u32 = 0x400;
    pub const NO_DELALLOC: u32 = 0x800;
}

/// Names of `s_creator_os`, by its value.
pub const CREATOR_NAMES: [&str; 5] = ["Linux", "Hurd", "Masix", "FreeBSD", "Lites"];

/// Why bytes are not a superblock that can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SuperblockError {
    /// No ext magic number: something else, or nothing, is here.
    NotExt,
    /// An ext superblock with a value that cannot be.
    Fault(Fault),
    /// Sound, with features that are not read, by name.
    Unsupported(Vec<String>),
}

impl std::fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SuperblockError::NotExt => f.write_str("no ext2, ext3 or ext4 superblock"),
            SuperblockError::Fault(fault) => fault.fmt(f),
            SuperblockError::Unsupported(names) => f.write_str(&unread(names)),
        }
    }
}
impl std::error::Error for SuperblockError {}

/// What is said of features, by name, that are not read.
pub fn unread(names: &[String]) -> String {
    match names.contains(&Feature::JOURNAL_DEV.name()) {
        true => "this is the journal of another volume".to_owned(),
        false => format!("features that are not supported: {}", names.join(", ")),
    }
}

/// The hash of names in hashed directories, as in `s_def_hash_version` and the root of an index
/// (0..=5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashVersion {
    /// 0, 3 when characters are unsigned.
    Legacy,
    /// 1, 4 when characters are unsigned.
    HalfMd4,
    /// 2, 5 when characters are unsigned.
    Tea,
}

impl HashVersion {
    /// From the stored number, signed or unsigned; `None` for a number that is no hash of ours.
    pub fn from_code(code: u8) -> Option<HashVersion> {
        match code {
            0 | 3 => Some(HashVersion::Legacy),
            1 | 4 => Some(HashVersion::HalfMd4),
            2 | 5 => Some(HashVersion::Tea),
            _ => None,
        }
    }
    /// The number for signed characters (0..=2), which the superblock stores in either case.
    pub fn code(self) -> u8 {
        match self {
            HashVersion::Legacy => 0,
            HashVersion::HalfMd4 => 1,
            HashVersion::Tea => 2,
        }
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

/// A checked superblock. Public fields are what the engine changes or asks often; the rest has
/// accessors on the raw bytes, which are kept, so that a field unknown to us survives a rewrite.
#[derive(Clone, Debug)]
// A field without a comment is what the public description of the format has under that name.
#[allow(missing_docs)]
pub struct Superblock {
    /// The bytes as read; encode() overlays the fields below.
    raw: Box<RawSuperblock>,
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
    /// Names are hashed with unsigned characters (`s_flags` bit 2); bit 1 is signed; neither:
    /// signed, as on x86.
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
    /// Which group this copy is in; 0 for the primary.
    pub group_number: u16,
    /// s_jnl_blocks: copy of the journal inode's i_block and size (17 words), used as a backup;
    /// s_jnl_backup_type.
    pub journal_backup: [u32; 17],
    pub journal_backup_type: u8,
}

fn fault(field: &'static str, value: u64, reason: &'static str) -> SuperblockError {
    SuperblockError::Fault(Fault::Field { structure: "superblock", field, value, reason })
}

/// `Ok` when the value is allowed.
// tidy: boolean because it is the outcome of a comparison that stands in each call
fn demand(
    allowed: bool,
    field: &'static str,
    value: u64,
    reason: &'static str,
) -> Result<(), SuperblockError> {
    if allowed { Ok(()) } else { Err(fault(field, value, reason)) }
}

/// Whether bytes from the start of a device have the magic number of a superblock in its place.
pub fn has_magic(head: &[u8]) -> bool {
    const AT: usize = SUPERBLOCK_OFFSET as usize + std::mem::offset_of!(RawSuperblock, magic);
    head.get(AT..).and_then(|rest| rest.first_chunk()) == Some(&MAGIC.to_le_bytes())
}

impl Superblock {
    /// Checks 1,024 bytes. Every field that later code divides by, shifts by or indexes with is in
    /// range afterwards: block size, group sizes (<= 8 * block size), inode size (power of two,
    /// 128..=block size), descriptor size, first data block, blocks_count against group count
    /// overflow, inodes_count == groups * inodes_per_group. The checksum is verified when
    /// metadata_csum is set. Revision 0 gets inode size 128 and first inode 11.
    ///
    /// # Errors
    /// See [`SuperblockError`]. Features are judged before the fields, whose meaning depends on
    /// them.
    pub fn parse(bytes: &[u8; SUPERBLOCK_SIZE]) -> Result<Superblock, SuperblockError> {
        let raw = Self::verify(bytes)?;
        let unread = raw.features().unread();
        if !unread.is_empty() {
            return Err(SuperblockError::Unsupported(unread));
        }
        Self::from_raw(raw)
    }

    /// As `parse`, but features that are not read are let through: to show it, not to use it.
    ///
    /// # Errors
    /// As `parse`, but never [`SuperblockError::Unsupported`].
    pub fn parse_any(bytes: &[u8; SUPERBLOCK_SIZE]) -> Result<Superblock, SuperblockError> {
        Self::from_raw(Self::verify(bytes)?)
    }

    /// A superblock with every field zero but magic, revision 1, the classic inode numbers, 1 KiB
    /// blocks, and the flag that names are hashed as signed characters: for mkfs.
    pub fn empty() -> Superblock {
        let mut raw: RawSuperblock = transmute!([0u8; SUPERBLOCK_SIZE]);
        raw.magic = U16::new(MAGIC);
        raw.revision = U32::new(1);
        raw.flags = U32::new(superblock_flags::SIGNED_HASH);
        raw.inode_size = U16::new(INODE_SIZE_REVISION_0);
        raw.first_inode = U32::new(FIRST_INODE_REVISION_0);
        Self::take(raw, 10)
    }

    fn verify(bytes: &[u8; SUPERBLOCK_SIZE]) -> Result<RawSuperblock, SuperblockError> {
        let raw: RawSuperblock = transmute!(*bytes);
        if raw.magic.get() != MAGIC {
            return Err(SuperblockError::NotExt);
        }
        let revision = raw.revision.get();
        demand(revision <= 1, "revision", revision.into(), "above 1")?;
        raw.verify_checksum()?;
        Ok(raw)
    }

    fn from_raw(raw: RawSuperblock) -> Result<Superblock, SuperblockError> {
        let block_size_log2 = raw.block_size_log2()?;
        let superblock = Self::take(raw, block_size_log2);
        superblock.check_sizes()?;
        superblock.check_groups()?;
        superblock.check_inodes()?;
        Ok(superblock)
    }

    /// Every field as it is stored, unchecked.
    fn take(raw: RawSuperblock, block_size_log2: u8) -> Superblock {
        Superblock {
            features: raw.features(),
            block_size_log2,
            inodes_count: raw.inodes_count.get(),
            blocks_count: raw.count(raw.blocks_count_low, raw.blocks_count_high),
            reserved_blocks: raw.count(raw.reserved_blocks_low, raw.reserved_blocks_high),
            free_blocks: raw.count(raw.free_blocks_low, raw.free_blocks_high),
            free_inodes: raw.free_inodes.get(),
            first_data_block: raw.first_data_block.get(),
            blocks_per_group: raw.blocks_per_group.get(),
            inodes_per_group: raw.inodes_per_group.get(),
            inode_size: raw.inode_size(),
            descriptor_size: raw.descriptor_size(),
            first_inode: raw.first_inode(),
            reserved_gdt_blocks: raw.reserved_gdt_blocks.get(),
            log_groups_per_flex: raw.log_groups_per_flex(),
            min_extra_isize: raw.min_extra_isize.get(),
            want_extra_isize: raw.want_extra_isize.get(),
            uuid: raw.uuid,
            label: raw.label,
            last_mounted: raw.last_mounted,
            hash_seed: raw.hash_seed.map(U32::get),
            hash_version: HashVersion::from_code(raw.hash_version).unwrap_or(HashVersion::HalfMd4),
            hash_unsigned: raw.flags.get() & superblock_flags::UNSIGNED_HASH != 0
                || (3..=5).contains(&raw.hash_version),
            checksum_seed: raw.checksum_seed(),
            state: raw.state.get(),
            last_orphan: raw.last_orphan.get(),
            journal_inode: raw.journal_inode.get(),
            orphan_file_inode: raw.orphan_file_inode.get(),
            kbytes_written: raw.kbytes_written.get(),
            created_seconds: seconds(raw.created_low, raw.created_high),
            written_seconds: seconds(raw.written_low, raw.written_high),
            mounted_seconds: seconds(raw.mounted_low, raw.mounted_high),
            checked_seconds: seconds(raw.checked_low, raw.checked_high),
            revision: raw.revision.get(),
            default_mount_options: raw.default_mount_options.get(),
            errors_behavior: raw.errors_behavior.get(),
            default_uid: raw.default_uid.get(),
            default_gid: raw.default_gid.get(),
            creator_os: raw.creator_os.get(),
            max_mount_count: raw.max_mount_count.get(),
            mount_count: raw.mount_count.get(),
            check_interval_seconds: raw.check_interval.get(),
            raid_stride: raw.raid_stride.get(),
            raid_stripe_width: raw.raid_stripe_width.get(),
            group_number: raw.group_number.get(),
            journal_backup: raw.journal_backup.map(U32::get),
            journal_backup_type: raw.journal_backup_type,
            raw: Box::new(raw),
        }
    }

    fn check_sizes(&self) -> Result<(), SuperblockError> {
        let block_size = self.block_size();
        let size = self.inode_size;
        demand(size.is_power_of_two(), "inode size", size.into(), "not a power of two")?;
        demand(size >= 128, "inode size", size.into(), "below 128")?;
        demand(u32::from(size) <= block_size, "inode size", size.into(), "larger than a block")?;
        let size = self.descriptor_size;
        demand(size.is_power_of_two(), "descriptor size", size.into(), "not a power of two")?;
        let least = if self.has(Feature::SIXTY_FOUR_BIT) { 64 } else { 32 };
        demand(size >= least, "descriptor size", size.into(), "too small")?;
        demand(size <= DESCRIPTOR_SIZE_MAX, "descriptor size", size.into(), "above 1024")?;
        let reserved = self.reserved_gdt_blocks;
        demand(
            u32::from(reserved) <= block_size / 4,
            "reserved descriptor blocks",
            reserved.into(),
            "too large",
        )?;
        let log = self.log_groups_per_flex;
        demand(log <= 31, "log2 of groups in a flex group", log.into(), "above 31")?;
        let known = !self.has(Feature::DIR_INDEX)
            || HashVersion::from_code(self.raw.hash_version).is_some();
        demand(known, "hash version", self.raw.hash_version.into(), "unknown")
    }

    /// log2 of the blocks that share a bit of a block bitmap: 0 but for bigalloc.
    pub fn cluster_log2(&self) -> u32 {
        self.checked_cluster_log2().unwrap_or(0)
    }

    /// Sets how many blocks share a bit of a block bitmap (bigalloc), as log2, after the sizes of
    /// blocks and groups.
    pub fn set_cluster_log2(&mut self, log2: u32) {
        let block = u32::from(self.block_size_log2.saturating_sub(BLOCK_SIZE_LOG2_MIN));
        self.raw.log_block_size = block.into();
        self.raw.log_cluster_size = block.saturating_add(log2).into();
        let clusters = self.blocks_per_group.checked_shr(log2).unwrap_or(0);
        self.raw.clusters_per_group = clusters.into();
    }

    /// The first block of descriptors that is kept as meta_bg says; `None` without that.
    pub(crate) fn first_meta_block(&self) -> Option<u32> {
        self.has(Feature::META_BG).then(|| self.raw.first_meta_group.get())
    }

    fn checked_cluster_log2(&self) -> Result<u32, SuperblockError> {
        if !self.has(Feature::BIGALLOC) {
            return Ok(0);
        }
        let log = self.raw.log_cluster_size.get();
        let above = log.checked_sub(self.raw.log_block_size.get()).filter(|&above| above <= 16);
        above.ok_or_else(|| fault("log2 of the cluster size in KiB", log.into(), "out of range"))
    }

    fn check_groups(&self) -> Result<(), SuperblockError> {
        let most = self.block_size().saturating_mul(8);
        let (first, per_group) = (self.first_data_block, self.blocks_per_group);
        let expected = u32::from(self.block_size_log2 == 10);
        let usual = first == expected || (self.has(Feature::BIGALLOC) && first == 0);
        demand(usual, "first data block", first.into(), "not that of this block size")?;
        demand(
            self.blocks_count > u64::from(first),
            "block count",
            self.blocks_count,
            "too small",
        )?;
        demand(self.blocks_count <= 1 << 48, "block count", self.blocks_count, "above 2^48")?;
        demand(per_group >= 8, "blocks per group", per_group.into(), "below 8")?;
        let fits = per_group >> self.checked_cluster_log2()? <= most;
        demand(fits, "blocks per group", per_group.into(), "more than the bits of a block")?;
        let groups = self.wide_group_count();
        demand(groups < 1 << 32, "block count", self.blocks_count, "more than 2^32 groups hold")?;
        // Linux and e2fsprogs open no such volume.
        let meta = self.first_meta_block().unwrap_or(0);
        demand(meta <= self.descriptor_blocks(), "first meta group", meta.into(), "above them all")
    }

    fn check_inodes(&self) -> Result<(), SuperblockError> {
        let per_group = self.inodes_per_group;
        let block_size = self.block_size();
        let per_block = block_size.checked_div(self.inode_size.into()).unwrap_or(1);
        demand(
            per_group >= per_block,
            "inodes per group",
            per_group.into(),
            "less than a block of them",
        )?;
        let most = block_size.saturating_mul(8);
        demand(
            per_group <= most,
            "inodes per group",
            per_group.into(),
            "more than the bits of a block",
        )?;
        let total = self.wide_group_count().saturating_mul(per_group.into());
        let count = u64::from(self.inodes_count);
        demand(count == total, "inode count", count, "not groups times inodes per group")?;
        let first = self.first_inode;
        demand(first >= FIRST_INODE_REVISION_0, "first inode", first.into(), "below 11")?;
        demand(first <= self.inodes_count, "first inode", first.into(), "above the inode count")
    }

    /// The bytes, with the checksum when metadata_csum is set.
    pub fn encode(&self) -> [u8; SUPERBLOCK_SIZE] {
        let mut raw = (*self.raw).clone();
        self.put_counts(&mut raw);
        self.put_times(&mut raw);
        self.put_identity(&mut raw);
        self.put_hash(&mut raw);
        if self.revision > 0 {
            raw.first_inode = self.first_inode.into();
            raw.inode_size = self.inode_size.into();
        }
        // The fields of a feature are left as they are where it is not set.
        if self.has(Feature::SIXTY_FOUR_BIT) {
            raw.descriptor_size = self.descriptor_size.into();
        }
        if self.has(Feature::FLEX_BG) {
            raw.log_groups_per_flex = self.log_groups_per_flex;
        }
        if self.has(Feature::CSUM_SEED) {
            raw.checksum_seed = self.checksum_seed.into();
        }
        if self.has(Feature::METADATA_CSUM) {
            raw.checksum_type = CHECKSUM_CRC32C;
            raw.checksum = raw.computed_checksum().into();
        }
        transmute!(raw)
    }

    fn put_counts(&self, raw: &mut RawSuperblock) {
        let wide = self.has(Feature::SIXTY_FOUR_BIT);
        let put = |value: u64, low: &mut U32, high: &mut U32| {
            let halves = split(value);
            *low = halves.0;
            if wide {
                *high = halves.1;
            }
        };
        put(self.blocks_count, &mut raw.blocks_count_low, &mut raw.blocks_count_high);
        put(self.reserved_blocks, &mut raw.reserved_blocks_low, &mut raw.reserved_blocks_high);
        put(self.free_blocks, &mut raw.free_blocks_low, &mut raw.free_blocks_high);
        raw.inodes_count = self.inodes_count.into();
        raw.free_inodes = self.free_inodes.into();
        raw.first_data_block = self.first_data_block.into();
        raw.log_block_size = u32::from(self.block_size_log2.saturating_sub(10)).into();
        raw.blocks_per_group = self.blocks_per_group.into();
        raw.inodes_per_group = self.inodes_per_group.into();
        if !self.has(Feature::BIGALLOC) {
            raw.log_cluster_size = raw.log_block_size;
            raw.clusters_per_group = raw.blocks_per_group;
        }
        raw.reserved_gdt_blocks = self.reserved_gdt_blocks.into();
        raw.min_extra_isize = self.min_extra_isize.into();
        raw.want_extra_isize = self.want_extra_isize.into();
        raw.kbytes_written = self.kbytes_written.into();
    }

    fn put_times(&self, raw: &mut RawSuperblock) {
        (raw.created_low, raw.created_high) = split_seconds(self.created_seconds);
        (raw.written_low, raw.written_high) = split_seconds(self.written_seconds);
        (raw.mounted_low, raw.mounted_high) = split_seconds(self.mounted_seconds);
        (raw.checked_low, raw.checked_high) = split_seconds(self.checked_seconds);
        raw.max_mount_count = self.max_mount_count.into();
        raw.mount_count = self.mount_count.into();
        raw.check_interval = self.check_interval_seconds.into();
    }

    fn put_identity(&self, raw: &mut RawSuperblock) {
        raw.compat = self.features.compat.into();
        raw.incompat = self.features.incompat.into();
        raw.ro_compat = self.features.ro_compat.into();
        raw.revision = self.revision.into();
        raw.uuid = self.uuid;
        raw.label = self.label;
        raw.last_mounted = self.last_mounted;
        raw.state = self.state.into();
        raw.last_orphan = self.last_orphan.into();
        raw.journal_inode = self.journal_inode.into();
        raw.orphan_file_inode = self.orphan_file_inode.into();
        raw.default_mount_options = self.default_mount_options.into();
        raw.errors_behavior = self.errors_behavior.into();
        raw.default_uid = self.default_uid.into();
        raw.default_gid = self.default_gid.into();
        raw.creator_os = self.creator_os.into();
        raw.raid_stride = self.raid_stride.into();
        raw.raid_stripe_width = self.raid_stripe_width.into();
        raw.group_number = self.group_number.into();
        raw.journal_backup = self.journal_backup.map(U32::new);
        raw.journal_backup_type = self.journal_backup_type;
    }

    fn put_hash(&self, raw: &mut RawSuperblock) {
        raw.hash_seed = self.hash_seed.map(U32::new);
        if HashVersion::from_code(raw.hash_version).unwrap_or(HashVersion::HalfMd4)
            != self.hash_version
            || (raw.hash_version >= 3 && !self.hash_unsigned)
        {
            raw.hash_version = self.hash_version.code();
        }
        let flags = raw.flags.get();
        raw.flags = match self.hash_unsigned {
            true => flags & !superblock_flags::SIGNED_HASH | superblock_flags::UNSIGNED_HASH,
            false => flags & !superblock_flags::UNSIGNED_HASH,
        }
        .into();
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> u32 {
        1u32.checked_shl(self.block_size_log2.into()).unwrap_or(1024)
    }

    /// The block that the primary superblock is in: 1 with blocks of 1 KiB, else 0. Not the first
    /// data block where clusters of such blocks begin at block 0.
    pub fn primary_block(&self) -> BlockNo {
        BlockNo(SUPERBLOCK_OFFSET.checked_div(self.block_size().into()).unwrap_or(0))
    }

    fn wide_group_count(&self) -> u64 {
        let blocks = self.blocks_count.saturating_sub(self.first_data_block.into());
        blocks.div_ceil(u64::from(self.blocks_per_group).max(1))
    }

    /// Number of groups.
    pub fn group_count(&self) -> u32 {
        u32::try_from(self.wide_group_count()).unwrap_or(u32::MAX)
    }

    /// Blocks of each group's inode table.
    pub fn inode_table_blocks(&self) -> u32 {
        let bytes = u64::from(self.inodes_per_group).saturating_mul(self.inode_size.into());
        u32::try_from(bytes.div_ceil(self.block_size().into())).unwrap_or(u32::MAX)
    }

    /// Whether the feature is set.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.has(feature)
    }

    /// Whether group descriptors carry a checksum, and with it flags and unused inodes that mean
    /// something.
    pub fn has_descriptor_checksums(&self) -> bool {
        self.has(Feature::METADATA_CSUM) || self.has(Feature::UNINIT_BG)
    }

    /// Whether an inode number exists and is not one of the reserved ones (or is the root).
    pub fn is_usable(&self, ino: Ino) -> bool {
        ino == Ino::ROOT || (self.first_inode..=self.inodes_count).contains(&ino.0)
    }

    /// The largest file, in bytes, that can be mapped that way: as the kernel has it. Bounds are
    /// the map itself, logical block numbers of 32 bits, and the count of 512-byte sectors in the
    /// inode: 32 bits, or with huge_file 48 bits of blocks.
    pub fn max_file_size(&self, kind: MappingKind) -> u64 {
        let log = u32::from(self.block_size_log2);
        let sectors_log2 = log.saturating_sub(9);
        let huge = self.has(Feature::HUGE_FILE);
        let counted = if huge {
            (1u64 << 48) - 1
        } else {
            u64::from(u32::MAX).checked_shr(sectors_log2).unwrap_or(0)
        };
        let blocks = match kind {
            MappingKind::Extents => counted,
            MappingKind::Indirect => largest_indirect(log.saturating_sub(2), counted),
        };
        let bytes = blocks.min(u32::MAX.into()).checked_shl(log).unwrap_or(u64::MAX);
        bytes.min(i64::MAX.unsigned_abs())
    }

    /// Whether the volume was written when it ended, and no journal can say what: its bitmaps may
    /// call blocks free that files have, until somebody has checked it.
    pub fn awaits_check(&self) -> bool {
        self.state & state::CLEAN == 0 && !self.has(Feature::HAS_JOURNAL)
    }

    /// `s_flags`: bit 0 signed names, bit 1 unsigned names, bit 2 test file system.
    pub fn flags(&self) -> u32 {
        self.raw.flags.get()
    }
    /// Adds flags.
    pub fn add_flags(&mut self, flags: u32) {
        self.raw.flags = (self.raw.flags.get() | flags).into();
    }
    /// Takes all flags away, as a device of a journal has none.
    pub fn clear_flags(&mut self) {
        self.raw.flags = 0.into();
    }
    /// Sets the encoding of names and its flags (casefold).
    pub fn set_encoding(&mut self, (encoding, flags): (u16, u16)) {
        self.raw.encoding = encoding.into();
        self.raw.encoding_flags = flags.into();
    }
    /// Sets the groups that have a copy (sparse_super2); 0 for none.
    pub fn set_backup_groups(&mut self, groups: [crate::GroupNo; 2]) {
        self.raw.backup_groups = groups.map(|group| group.0.into());
    }
    /// The groups that have a copy (sparse_super2); 0 for none.
    pub fn backup_groups(&self) -> [crate::GroupNo; 2] {
        self.raw.backup_groups.map(|group| crate::GroupNo(group.get()))
    }
    /// Sets the kinds of encryption that mke2fs names: AES-256-XTS for content, AES-256-CTS for
    /// names.
    pub fn set_encryption_algorithms(&mut self) {
        if let Some(kinds) = self.raw.encryption.first_chunk_mut() {
            *kinds = [1, 4];
        }
    }
    /// Sets where the block that records mounts is, and how often it is written (mmp).
    pub fn set_mount_block(&mut self, block: BlockNo, interval_seconds: u16) {
        self.raw.mmp_block = block.0.into();
        self.raw.mmp_interval = interval_seconds.into();
    }
    /// The block that records mounts (mmp).
    pub fn mount_block(&self) -> BlockNo {
        BlockNo(self.raw.mmp_block.get())
    }
    /// How often a machine that has the volume writes that block, in seconds.
    pub fn mount_interval_seconds(&self) -> u16 {
        self.raw.mmp_interval.get()
    }
    /// Sets the quota files of users, groups and projects; 0 for none.
    pub fn set_quota_inodes(&mut self, [users, groups, projects]: [Ino; 3]) {
        self.raw.quota_inodes = [users.0.into(), groups.0.into()];
        self.raw.project_quota_inode = projects.0.into();
    }
    /// The quota files of users, groups and projects; 0 for none.
    pub fn quota_inodes(&self) -> [Ino; 3] {
        let [users, groups] = self.raw.quota_inodes;
        [users, groups, self.raw.project_quota_inode].map(|ino| Ino(ino.get()))
    }
    /// How many errors the kernel has recorded.
    pub fn error_count(&self) -> u32 {
        self.raw.error_count.get()
    }
    /// Records an error as the kernel does, for the next program that opens the volume: in the
    /// state, in the count, and as the last one, and the first where there was none. `program` is
    /// kept up to 32 bytes.
    pub fn record_error(&mut self, seconds: u64, program: &str, code: ErrorCode) {
        self.state |= state::ERRORS;
        let raw = &mut self.raw;
        raw.error_count = raw.error_count.get().saturating_add(1).into();
        let mut function = [0; 32];
        for (to, from) in function.iter_mut().zip(program.bytes()) {
            *to = from;
        }
        let (low, high) = raw::split_seconds(seconds);
        let (no_block, no_number) = (zerocopy::little_endian::U64::new(0), U32::new(0));
        if raw.first_error.time.get() == 0 {
            raw.first_error = raw::RawFirstError {
                time: low,
                ino: no_number,
                block: no_block,
                function,
                line: no_number,
            };
            raw.first_error_time_high = high;
            raw.first_error_code = code as u8;
        }
        raw.last_error = raw::RawLastError {
            time: low,
            ino: no_number,
            line: no_number,
            block: no_block,
            function,
        };
        raw.last_error_time_high = high;
        raw.last_error_code = code as u8;
    }
    /// The UUID of an external journal.
    pub fn journal_uuid(&self) -> [u8; 16] {
        self.raw.journal_uuid
    }
    /// The device number of an external journal; 0 where there is none.
    pub fn journal_device(&self) -> u32 {
        self.raw.journal_device.get()
    }
    /// The kind of the checksums: 1 is crc32c; 0 where there are none.
    pub fn checksum_type(&self) -> u8 {
        self.raw.checksum_type
    }
    /// Mount options in words, ended by a zero byte.
    pub fn mount_options(&self) -> [u8; 64] {
        self.raw.mount_options
    }
    /// Blocks that no file can use, as stored; 0 means that they were not counted.
    pub fn overhead_clusters(&self) -> u32 {
        self.raw.overhead_clusters.get()
    }
    /// Stores the blocks that no file can use (0: not counted).
    pub fn set_overhead_clusters(&mut self, clusters: u32) {
        self.raw.overhead_clusters = clusters.into();
    }
}

/// The most blocks of data under pointers of `log` bits a block where data and pointers together
/// may be `counted`. The kernel sets aside what pointers to `counted` blocks would need, a little
/// more than what the data needs.
fn largest_indirect(log: u32, counted: u64) -> u64 {
    let power = |times: u32| 1u64.checked_shl(log.saturating_mul(times)).unwrap_or(u64::MAX);
    let all = power(1).saturating_add(power(2)).saturating_add(power(3)).saturating_add(12);
    if all.saturating_add(pointer_blocks(log, all)) <= counted {
        return all;
    }
    counted.saturating_sub(pointer_blocks(log, counted))
}

/// Blocks of pointers that a file of `data` blocks without holes needs.
fn pointer_blocks(log: u32, data: u64) -> u64 {
    let per = |times: u32| 1u64.checked_shl(log.saturating_mul(times)).unwrap_or(u64::MAX);
    let single = data.saturating_sub(12);
    let double = single.saturating_sub(per(1));
    let triple = double.saturating_sub(per(2));
    let leaves = single.div_ceil(per(1));
    let branches = double.div_ceil(per(2));
    leaves.saturating_add(branches).saturating_add(u64::from(triple > 0))
}
