//! Superblocks and descriptors alone (`mke2fs -S`): the last resort where all copies of a volume's
//! are lost. Bitmaps, inode tables and content stay as they are, and e2fsck has to judge them: the
//! superblock says that there were errors, and the descriptors that nothing is in use.
//!
//! What only the superblock knew, and cannot be found elsewhere, is taken from the one that is
//! there, if it can be read: the seed of all checksums, that of hashed names, and the numbers of
//! files without a name. A volume whose checksums have another seed is one that e2fsck gives up.
use super::tables::{Sweep, write_copies, write_descriptors};
use super::{Contents, FormatOptions, FormatPlan};
use crate::error::{Error, Result};
use extant_block::BlockDevice;

use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock, state};

/// What a superblock that is there is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identities {
    /// UUID and seeds are those of the options.
    Given,
    /// The UUID and the seed of checksums are those of the superblock that is there, if it can be
    /// read.
    UuidKept,
    /// So is the seed of hashed names.
    Kept,
}

/// Writes the superblock and the descriptors, and their copies, of the volume that
/// [`format()`](super::format) would make with these options. Nothing else is written.
///
/// # Errors
/// As [`format()`](super::format).
pub fn format_super_only(
    device: &dyn BlockDevice,
    options: &FormatOptions,
    identities: Identities,
) -> Result<Superblock> {
    let options = FormatOptions { contents: Contents::Unknown, ..options.clone() };
    let mut plan = FormatPlan::new(&options)?;
    plan.check_device(device)?;
    let kib_written = super::classic::kib_of_heads(&plan.layout);
    let superblock = &mut plan.layout.superblock;
    superblock.free_inodes = superblock.inodes_count;
    superblock.kbytes_written = kib_written;
    superblock.state = state::CLEAN | state::ERRORS;
    match found(device) {
        Some(old) => take_over(superblock, &old, identities),
        // Nobody can tell where it was; e2fsck makes another.
        None => superblock.features.clear(Feature::ORPHAN_FILE),
    }
    let superblock = superblock.clone();
    let mut descriptors = plan.layout.descriptors;
    let uses_flags = superblock.has_descriptor_checksums();
    let per_group = superblock.inodes_per_group;
    for (group, descriptor) in (0_u32..).zip(&mut descriptors) {
        let reserved = superblock.first_inode.saturating_sub(group.saturating_mul(per_group));
        descriptor.free_inodes = per_group;
        descriptor.unused_inodes = if uses_flags { per_group.saturating_sub(reserved) } else { 0 };
        descriptor.flags = match uses_flags {
            true => descriptor.flags & BLOCK_UNINIT | INODE_UNINIT,
            false => 0,
        };
    }
    let mut sweep = Sweep::new(device, &superblock);
    // Flags that were believed would hide every file.
    write_descriptors(&mut sweep, &superblock, &descriptors, |bytes| {
        if uses_flags {
            GroupDescriptor::discredit(bytes);
        }
    })?;
    sweep.flush()?;
    write_copies(device, &superblock)?;
    device.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
    device.flush().map_err(Error::from)?;
    Ok(superblock)
}

/// The superblock that is there.
fn found(device: &dyn BlockDevice) -> Option<Superblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(SUPERBLOCK_OFFSET, &mut bytes).ok()?;
    Superblock::parse(&bytes).ok()
}

/// Takes from `old` what is nowhere else, where it means the same in both.
fn take_over(superblock: &mut Superblock, old: &Superblock, identities: Identities) {
    if identities != Identities::Given {
        superblock.uuid = old.uuid;
        superblock.checksum_seed = old.checksum_seed;
    }
    if identities == Identities::Kept {
        superblock.hash_seed = old.hash_seed;
    }
    if superblock.has(Feature::QUOTA) && old.has(Feature::QUOTA) {
        superblock.set_quota_inodes(old.quota_inodes());
    }
    if superblock.has(Feature::ORPHAN_FILE) {
        superblock.orphan_file_inode = old.orphan_file_inode;
        if !old.has(Feature::ORPHAN_FILE) {
            superblock.features.clear(Feature::ORPHAN_FILE);
        }
    }
}
