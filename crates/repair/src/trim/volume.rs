//! What follows superblocks and descriptors in their blocks, and bitmaps that were never written.
use super::Unread;
use crate::draft::{Draft, Result};
use extant_format::group::{BLOCK_UNINIT, INODE_UNINIT};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
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
    let descriptors = u64::from(superblock.descriptor_blocks());
    let after = place.0.saturating_sub(primary.0);
    for group in groups.filter(|group| group.0 > 0 && superblock.has_super(*group)) {
        let start = superblock.group_start(group);
        end_of_metadata(draft, start, SUPERBLOCK_SIZE)?;
        if is_beside {
            places.insert(BlockNo(start.0.saturating_add(after)));
        }
        // What is kept beside a copy for growth is written before it is read; only the blocks of
        // that name in the first group say where these are.
        if superblock.has(Feature::RESIZE_INODE) {
            let from = start.0.saturating_add(1).saturating_add(descriptors);
            let kept = from..from.saturating_add(superblock.reserved_gdt_blocks.into());
            for block in kept.filter(|block| draft.usage.is_metadata(BlockNo(*block))) {
                unread.add(block..block.saturating_add(1));
            }
        }
    }
    places.into_iter().try_for_each(|block| end_of_metadata(draft, block, end))?;
    rest_of_clusters(draft, unread);
    Ok(())
}

/// What of the clusters of the volume's own blocks is none of these: no file has any of it.
fn rest_of_clusters(draft: &Draft, unread: &mut Unread) {
    let (superblock, usage) = (&draft.superblock, &draft.usage);
    let cluster = u64::from(usage.cluster_blocks()).max(1);
    if cluster == 1 {
        return;
    }
    let beside = 1 + u64::from(superblock.descriptor_blocks());
    let beside = beside.saturating_add(superblock.reserved_gdt_blocks.into());
    // Only where a stretch of them begins or ends may anything else be in a cluster.
    let mut ends = vec![superblock.mount_block()];
    for group in (0..usage.groups()).map(GroupNo) {
        let start = superblock.group_start(group);
        ends.extend([start, BlockNo(start.0.saturating_add(beside).saturating_sub(1))]);
        ends.extend(superblock.descriptor_copies(group));
        ends.push(superblock.descriptor_place(group).0);
        let Some(descriptor) = usage.descriptor(group) else { continue };
        let table = descriptor.inode_table;
        let last = table.0.saturating_add(superblock.inode_table_blocks().into()).saturating_sub(1);
        ends.extend([descriptor.block_bitmap, descriptor.inode_bitmap, table, BlockNo(last)]);
    }
    let of_metadata = ends.into_iter().filter(|block| usage.is_metadata(*block));
    let clusters: BTreeSet<u64> = of_metadata.map(|block| block.0 / cluster).collect();
    for number in clusters {
        let start = number.saturating_mul(cluster);
        let blocks = (start..start.saturating_add(cluster)).map(BlockNo);
        for block in blocks.filter(|block| usage.holds(*block) && !usage.is_metadata(*block)) {
            unread.add(block.0..block.0.saturating_add(1));
        }
    }
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
