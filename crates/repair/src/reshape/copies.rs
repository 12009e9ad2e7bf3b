//! What other groups have of superblock and descriptors.
use crate::draft::Result;
use extant_block::{BlockDevice, Overlay};
use extant_format::superblock::{Superblock, state};
use extant_format::{BlockNo, GroupNo};
use extant_inspect::Usage;
use std::collections::BTreeMap;

/// Writes superblock and descriptors, as they are in the first place, to every group that has a
/// copy. `usage` is what the last check found.
///
/// # Errors
/// The device's.
///
/// # Panics
/// A copy would be where the check found something else.
pub(crate) fn write(overlay: &Overlay, superblock: &Superblock, usage: &Usage) -> Result<()> {
    let block_size = superblock.block_size() as usize;
    let size = block_size as u64;
    let first = superblock.primary_block().0 + 1;
    let mut bytes = vec![0; block_size * (1 + superblock.descriptor_blocks_of_copy() as usize)];
    if let Some(descriptors) = bytes.get_mut(block_size..) {
        overlay.read(first * size, descriptors)?;
    }
    let mut copy = superblock.clone();
    // A copy is only used after damage, so it never says that the volume is clean.
    copy.state &= !state::CLEAN;
    let groups = (1..superblock.group_count()).map(GroupNo);
    for group in groups.clone().filter(|group| superblock.has_super(*group)) {
        copy.group_number = u16::try_from(group.0).unwrap_or(u16::MAX);
        let encoded = copy.encode();
        if let Some(place) = bytes.get_mut(..encoded.len()) {
            place.copy_from_slice(&encoded);
        }
        // Where descriptors are in the groups which they describe, the superblock is alone.
        let blocks = match superblock.meta_group(group) {
            Some(_) => bytes.get(..block_size).unwrap_or_default(),
            None => &bytes,
        };
        let start = superblock.group_start(group);
        let length = (blocks.len() / block_size) as u64;
        let is_own = (start.0..start.0 + length).all(|it| usage.is_metadata(BlockNo(it)));
        assert!(is_own, "a copy in group {group} would be written over something else");
        // tidy: writers because it is an overlay in memory
        overlay.write(start.0 * size, blocks)?;
    }
    // Blocks of descriptors that are in the groups which they describe, and their other places.
    let metas = groups.filter(|group| superblock.meta_group(*group) == Some(*group));
    let places = |group: GroupNo| {
        let (place, _) = superblock.descriptor_place(group);
        superblock.descriptor_copies(group).map(move |copy| (copy, place)).collect::<Vec<_>>()
    };
    let first = superblock.meta_group(GroupNo(0)).map_or_else(Vec::new, places);
    let all: BTreeMap<BlockNo, BlockNo> = first.into_iter().chain(metas.flat_map(places)).collect();
    let mut block = vec![0; block_size];
    for (copy, place) in all {
        assert!(usage.is_metadata(copy), "block {copy} is no copy of descriptors");
        overlay.read(place.0 * size, &mut block)?;
        // tidy: writers because it is an overlay in memory
        overlay.write(copy.0 * size, &block)?;
    }
    Ok(())
}
