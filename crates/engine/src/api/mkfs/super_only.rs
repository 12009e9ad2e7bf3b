//! Superblocks and descriptors alone (`mke2fs -S`): the last resort where all copies of a volume's
//! are lost. Bitmaps, inode tables and content stay as they are, and e2fsck has to judge them: the
//! superblock says that there were errors, and the descriptors that nothing is in use.
use super::tables::{Sweep, write_copies, write_descriptors};
use super::{Contents, FormatOptions, FormatPlan};
use crate::error::{Error, Result};
use extant_block::BlockDevice;
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::superblock::{SUPERBLOCK_OFFSET, Superblock, state};

/// Writes the superblock and the descriptors, and their copies, of the volume that
/// [`format()`](super::format) would make with these options. Nothing else is written.
///
/// # Errors
/// As [`format()`](super::format).
pub fn format_super_only(device: &dyn BlockDevice, options: &FormatOptions) -> Result<Superblock> {
    let options = FormatOptions { contents: Contents::Unknown, ..options.clone() };
    let mut plan = FormatPlan::new(&options)?;
    plan.check_device(device)?;
    let kib_written = super::classic::kib_of_heads(&plan.layout);
    let superblock = &mut plan.layout.superblock;
    superblock.free_inodes = superblock.inodes_count;
    superblock.kbytes_written = kib_written;
    superblock.state = state::CLEAN | state::ERRORS;
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
