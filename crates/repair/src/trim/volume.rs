//! What follows superblocks and descriptors in their blocks, and bitmaps that were never written.
use super::Unread;
use crate::draft::{Draft, Result};
use extant_format::group::{BLOCK_UNINIT, INODE_UNINIT};
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use extant_format::{BlockNo, GroupNo};
use std::collections::BTreeSet;

/// Scrubs what is the volume's own.
///
/// # Errors
/// The device's; memory for the changes does not suffice.
pub(super) fn scrub(draft: &Draft, unread: &mut Unread) -> Result<()> {
    let superblock = &draft.superblock;
    let groups = (0..draft.usage.groups()).map(GroupNo);
    for group in groups.clone() {
        let Some(descriptor) = draft.usage.descriptor(group) else { continue };
        // What these flags say is made anew from the descriptors.
        for (flag, block) in
            [(BLOCK_UNINIT, descriptor.block_bitmap), (INODE_UNINIT, descriptor.inode_bitmap)]
        {
            if descriptor.flags & flag != 0 && draft.usage.is_metadata(block) {
                unread.add(block.0..block.0.saturating_add(1));
            }
        }
    }
    let offset = usize::try_from(SUPERBLOCK_OFFSET).unwrap_or(usize::MAX);
    let primary = superblock.primary_block();
    let within = if primary.0 == 0 { offset } else { 0 };
    end_of_metadata(draft, primary, within.saturating_add(SUPERBLOCK_SIZE))?;
    let last = GroupNo(superblock.group_count().saturating_sub(1));
    let (place, at) = superblock.descriptor_place(last);
    let end = at.saturating_add(superblock.descriptor_size.into());
    let mut places: BTreeSet<BlockNo> = superblock.descriptor_copies(last).collect();
    places.insert(place);
    let is_beside = superblock.meta_group(last).is_none();
    let after = place.0.saturating_sub(primary.0);
    for group in groups.filter(|group| group.0 > 0 && superblock.has_super(*group)) {
        let start = superblock.group_start(group);
        end_of_metadata(draft, start, SUPERBLOCK_SIZE)?;
        if is_beside {
            places.insert(BlockNo(start.0.saturating_add(after)));
        }
    }
    places.into_iter().try_for_each(|block| end_of_metadata(draft, block, end))
}

/// Bytes of a block of the volume's own from one on become zeros.
fn end_of_metadata(draft: &Draft, block: BlockNo, from: usize) -> Result<()> {
    if !draft.usage.is_metadata(block) {
        return Ok(());
    }
    let Some(mut bytes) = draft.read(block)? else { return Ok(()) };
    let rest = bytes.get_mut(from..).unwrap_or_default();
    if rest.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    rest.fill(0);
    draft.write(block, &bytes)
}
