//! More blocks: the last group becomes whole, and others come after it.
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::growth_map;
use extant_format::group::{BLOCK_UNINIT, INODE_UNINIT, INODE_ZEROED};
use extant_format::layout::{Layout, Tables};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{GroupNo, Ino};
use std::ops::Range;

/// Makes the volume what `after` says. Gives the blocks of inode tables that have to become zeros.
///
/// # Errors
/// The device's; there is no room in the new groups for what they have to hold.
pub(super) fn grow(draft: &mut Draft, after: &Superblock) -> Result<Vec<Range<u64>>> {
    let before = std::mem::replace(&mut draft.superblock, after.clone());
    let first = GroupNo(before.group_count());
    let layout = Layout::of_new_groups(after, first, Tables::Zeroed)
        .map_err(|error| Error::Refused(error.0))?;
    let zeros = groups(draft, &layout, first)?;
    if before.has(Feature::RESIZE_INODE) {
        match after.has(Feature::RESIZE_INODE) {
            true if !growth_map::mend(draft)? => {
                let why = "blocks that are kept for growth are in use";
                return Err(Error::Refused(why.into()));
            }
            true => {}
            false => draft.clear_inode(Ino::RESIZE)?,
        }
    }
    draft.superblock.written_seconds = draft.now.into();
    draft.write_superblock()?;
    Ok(zeros)
}

/// Writes bitmaps and descriptors of the groups from `first` on.
fn groups(draft: &Draft, layout: &Layout, first: GroupNo) -> Result<Vec<Range<u64>>> {
    let superblock = &draft.superblock;
    let has_flags = superblock.has_descriptor_checksums();
    let table_blocks = u64::from(superblock.inode_table_blocks());
    let size = usize::from(superblock.descriptor_size);
    let mut zeros: Vec<Range<u64>> = Vec::new();
    let mut bitmap = vec![0; draft.block_size()];
    // A block of descriptors, and where it is: the first one may have those of older groups.
    let mut descriptors = vec![0; draft.block_size()];
    let (mut place, offset) = superblock.descriptor_place(first);
    if let (true, Some(stored)) = (offset > 0, draft.read(place)?) {
        descriptors.copy_from_slice(&stored);
    }
    let all = layout.descriptors.iter().zip(0..).skip(first.0 as usize);
    for (descriptor, group) in all.map(|(of, number)| (of, GroupNo(number))) {
        let mut descriptor = *descriptor;
        let table = descriptor.inode_table.0..descriptor.inode_table.0 + table_blocks;
        if !draft.is_hole(table.clone())? {
            match has_flags {
                // The kernel that mounts the volume fills it.
                true => descriptor.flags &= !INODE_ZEROED,
                false => {
                    draft.let_zeros(table.clone());
                    zeros.push(table);
                }
            }
        }
        if descriptor.flags & BLOCK_UNINIT == 0 {
            layout.fill_block_bitmap(group, &mut bitmap);
            descriptor.seal_block_bitmap(&bitmap, superblock);
            draft.write_new(descriptor.block_bitmap, &bitmap)?;
        }
        if descriptor.flags & INODE_UNINIT == 0 {
            layout.fill_inode_bitmap(group, &mut bitmap);
            descriptor.seal_inode_bitmap(&bitmap, superblock);
            draft.write_new(descriptor.inode_bitmap, &bitmap)?;
        }
        let (block, offset) = superblock.descriptor_place(group);
        if block != place {
            draft.write_new(place, &descriptors)?;
            descriptors.fill(0);
            place = block;
        }
        if let Some(bytes) = descriptors.get_mut(offset..offset.saturating_add(size)) {
            descriptor.encode(bytes, group, superblock);
        }
    }
    if first.0 < superblock.group_count() {
        draft.write_new(place, &descriptors)?;
    }
    Ok(zeros)
}
