//! The superblock as it is on the disk, field by field.
use zerocopy::little_endian::{I16, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{
    CHECKSUM_CRC32C, FIRST_INODE_REVISION_0, INODE_SIZE_REVISION_0, SUPERBLOCK_SIZE,
    SuperblockError, demand,
};
use crate::Fault;
use crate::checksum::crc32c;
use crate::feature::{Feature, Features};

/// Bytes before the checksum, which closes the superblock.
const CHECKED_BYTES: usize = SUPERBLOCK_SIZE - 4;

/// The superblock as it is on the disk.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct RawSuperblock {
    pub(super) inodes_count: U32,
    pub(super) blocks_count_low: U32,
    pub(super) reserved_blocks_low: U32,
    pub(super) free_blocks_low: U32,
    pub(super) free_inodes: U32,
    pub(super) first_data_block: U32,
    pub(super) log_block_size: U32,
    pub(super) log_cluster_size: U32,
    pub(super) blocks_per_group: U32,
    pub(super) clusters_per_group: U32,
    pub(super) inodes_per_group: U32,
    pub(super) mounted_low: U32,
    pub(super) written_low: U32,
    pub(super) mount_count: U16,
    pub(super) max_mount_count: I16,
    pub(super) magic: U16,
    pub(super) state: U16,
    pub(super) errors_behavior: U16,
    pub(super) minor_revision: U16,
    pub(super) checked_low: U32,
    pub(super) check_interval: U32,
    pub(super) creator_os: U32,
    pub(super) revision: U32,
    pub(super) default_uid: U16,
    pub(super) default_gid: U16,
    // From here on: revision 1.
    pub(super) first_inode: U32,
    pub(super) inode_size: U16,
    pub(super) group_number: U16,
    pub(super) compat: U32,
    pub(super) incompat: U32,
    pub(super) ro_compat: U32,
    pub(super) uuid: [u8; 16],
    pub(super) label: [u8; 16],
    pub(super) last_mounted: [u8; 64],
    pub(super) algorithms: U32,
    pub(super) preallocated_blocks: u8,
    pub(super) preallocated_directory_blocks: u8,
    pub(super) reserved_gdt_blocks: U16,
    pub(super) journal_uuid: [u8; 16],
    pub(super) journal_inode: U32,
    pub(super) journal_device: U32,
    pub(super) last_orphan: U32,
    pub(super) hash_seed: [U32; 4],
    pub(super) hash_version: u8,
    pub(super) journal_backup_type: u8,
    pub(super) descriptor_size: U16,
    pub(super) default_mount_options: U32,
    pub(super) first_meta_group: U32,
    pub(super) created_low: U32,
    pub(super) journal_backup: [U32; 17],
    pub(super) blocks_count_high: U32,
    pub(super) reserved_blocks_high: U32,
    pub(super) free_blocks_high: U32,
    pub(super) min_extra_isize: U16,
    pub(super) want_extra_isize: U16,
    pub(super) flags: U32,
    pub(super) raid_stride: U16,
    pub(super) mmp_interval: U16,
    pub(super) mmp_block: U64,
    pub(super) raid_stripe_width: U32,
    pub(super) log_groups_per_flex: u8,
    pub(super) checksum_type: u8,
    pub(super) encryption_level: u8,
    pub(super) padding: u8,
    pub(super) kbytes_written: U64,
    pub(super) snapshots: [u8; 20],
    pub(super) error_count: U32,
    pub(super) first_error: RawFirstError,
    pub(super) last_error: RawLastError,
    pub(super) mount_options: [u8; 64],
    pub(super) quota_inodes: [U32; 2],
    pub(super) overhead_clusters: U32,
    pub(super) backup_groups: [U32; 2],
    pub(super) encryption: [u8; 20],
    pub(super) lost_and_found: U32,
    pub(super) project_quota_inode: U32,
    pub(super) checksum_seed: U32,
    pub(super) written_high: u8,
    pub(super) mounted_high: u8,
    pub(super) created_high: u8,
    pub(super) checked_high: u8,
    pub(super) first_error_time_high: u8,
    pub(super) last_error_time_high: u8,
    pub(super) first_error_code: u8,
    pub(super) last_error_code: u8,
    pub(super) encoding: U16,
    pub(super) encoding_flags: U16,
    pub(super) orphan_file_inode: U32,
    pub(super) reserved: [U32; 94],
    pub(super) checksum: U32,
}

/// The first error that the kernel recorded.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct RawFirstError {
    pub(super) time: U32,
    pub(super) ino: U32,
    pub(super) block: U64,
    pub(super) function: [u8; 32],
    pub(super) line: U32,
}

/// The last error that the kernel recorded: the same fields in another order.
#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct RawLastError {
    pub(super) time: U32,
    pub(super) ino: U32,
    pub(super) line: U32,
    pub(super) block: U64,
    pub(super) function: [u8; 32],
}

pub(super) fn join(low: U32, high: U32) -> u64 {
    u64::from(high.get()) << 32 | u64::from(low.get())
}

/// A time of 40 bits.
pub(super) fn seconds(low: U32, high: u8) -> u64 {
    u64::from(high) << 32 | u64::from(low.get())
}

/// The low 32 bits, and those above them.
#[allow(clippy::cast_possible_truncation)] // splitting is what it is for
pub(super) fn split(value: u64) -> (U32, U32) {
    (U32::new(value as u32), U32::new((value >> 32) as u32))
}

/// A time as 32 and 8 bits; a later one becomes the last that can be kept.
pub(super) fn split_seconds(value: u64) -> (U32, u8) {
    let (low, high) = split(value.min((1 << 40) - 1));
    (low, u8::try_from(high.get()).unwrap_or(u8::MAX))
}

impl RawSuperblock {
    pub(super) fn features(&self) -> Features {
        Features {
            compat: self.compat.get(),
            incompat: self.incompat.get(),
            ro_compat: self.ro_compat.get(),
        }
    }
    /// The two words of a count, of which the high one is only meant with 64bit.
    pub(super) fn count(&self, low: U32, high: U32) -> u64 {
        if self.features().has(Feature::SIXTY_FOUR_BIT) {
            join(low, high)
        } else {
            u64::from(low.get())
        }
    }
    pub(super) fn computed_checksum(&self) -> u32 {
        let bytes = self.as_bytes();
        crc32c(!0, bytes.get(..CHECKED_BYTES).unwrap_or(bytes))
    }
    pub(super) fn verify_checksum(&self) -> Result<(), SuperblockError> {
        if !self.features().has(Feature::METADATA_CSUM) {
            return Ok(());
        }
        let kind = self.checksum_type;
        demand(kind == CHECKSUM_CRC32C, "checksum type", kind.into(), "unknown")?;
        let (stored, computed) = (self.checksum.get(), self.computed_checksum());
        if stored == computed {
            return Ok(());
        }
        Err(SuperblockError::Fault(Fault::Checksum { structure: "superblock", stored, computed }))
    }
    pub(super) fn block_size_log2(&self) -> Result<u8, SuperblockError> {
        let log = self.log_block_size.get();
        demand(log <= 6, "log2 of the block size in KiB", log.into(), "above 6")?;
        Ok(u8::try_from(log).unwrap_or(0).saturating_add(10))
    }
    pub(super) fn inode_size(&self) -> u16 {
        if self.revision.get() == 0 { INODE_SIZE_REVISION_0 } else { self.inode_size.get() }
    }
    pub(super) fn first_inode(&self) -> u32 {
        if self.revision.get() == 0 { FIRST_INODE_REVISION_0 } else { self.first_inode.get() }
    }
    pub(super) fn descriptor_size(&self) -> u16 {
        if self.features().has(Feature::SIXTY_FOUR_BIT) { self.descriptor_size.get() } else { 32 }
    }
    pub(super) fn log_groups_per_flex(&self) -> u8 {
        if self.features().has(Feature::FLEX_BG) { self.log_groups_per_flex } else { 0 }
    }
    pub(super) fn checksum_seed(&self) -> u32 {
        if self.features().has(Feature::CSUM_SEED) {
            self.checksum_seed.get()
        } else {
            crc32c(!0, &self.uuid)
        }
    }
}
