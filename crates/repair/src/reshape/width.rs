//! Descriptors of another width, in the place of those that are there and of blocks kept for more.
use super::Placed;
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::growth_map;
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo, Ino};

/// Writes all descriptors as `after` has them.
///
/// # Errors
/// The device's; blocks that are kept for growth are in use.
pub(super) fn change(draft: &mut Draft, after: &Superblock) -> Result<Placed> {
    let groups = || (0..after.group_count()).map(GroupNo);
    let mut all: Vec<GroupDescriptor> = Vec::new();
    for group in groups() {
        let mut descriptor = draft.descriptor(group)?.unwrap_or_default();
        // Their checksums are as wide as the descriptor.
        if descriptor.flags & BLOCK_UNINIT == 0
            && let Some(bitmap) = draft.read(descriptor.block_bitmap)?
        {
            descriptor.seal_block_bitmap(&bitmap, after);
        }
        if descriptor.flags & INODE_UNINIT == 0
            && let Some(bitmap) = draft.read(descriptor.inode_bitmap)?
        {
            descriptor.seal_inode_bitmap(&bitmap, after);
        }
        all.push(descriptor);
    }
    let before = std::mem::replace(&mut draft.superblock, after.clone());
    let first = after.primary_block().0 + 1;
    let zeros = vec![0; draft.block_size()];
    for block in 0..u64::from(after.descriptor_blocks()) {
        draft.write(BlockNo(first + block), &zeros)?;
    }
    groups().zip(&all).try_for_each(|(group, of)| draft.write_descriptor(group, of))?;
    if before.has(Feature::RESIZE_INODE) {
        match after.has(Feature::RESIZE_INODE) {
            true if !growth_map::mend(draft)? => {
                return Err(Error::Refused("blocks that are kept for growth are in use".into()));
            }
            true => {}
            false => draft.clear_inode(Ino::RESIZE)?,
        }
    }
    draft.superblock.written_seconds = draft.now.into();
    draft.write_superblock()?;
    Ok(Placed::default())
}
