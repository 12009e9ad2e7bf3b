//! The first copy of a superblock, found without the first superblock.
//!
//! ```text
//! by mke2fs            group 1, for each size of blocks and of clusters
//! by the first one     group 1 as the damaged superblock has it: blocks of a group of its own
//! ```
use crate::error::Error;
use crate::volume::{SuperblockPlace, Volume};
use extant_block::BlockDevice;
use extant_format::BlockNo;
use extant_format::superblock::{
    BLOCK_SIZE_LOG2_MAX, BLOCK_SIZE_LOG2_MIN, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, StoredSuperblock,
};
use std::sync::Arc;

/// log2 of the blocks of the largest cluster that is looked for: more than mke2fs makes.
const CLUSTER_LOG2_MAX: u32 = 12;

/// The volume by the first copy of its superblock that can be used: its checksum is right, and it
/// says the size of blocks by which it was found and that a copy belongs there. `None` when there
/// is none.
///
/// # Errors
/// When the device fails.
pub fn open_copy(device: &Arc<dyn BlockDevice>) -> Result<Option<Volume>, Error> {
    for log2 in BLOCK_SIZE_LOG2_MIN..=BLOCK_SIZE_LOG2_MAX {
        if let Some(copy) = of_whole_groups(device, log2)? {
            return Ok(Some(copy));
        }
    }
    let mut bytes = [0; SUPERBLOCK_SIZE];
    if device.own_bytes() < SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE as u64 {
        return Ok(None);
    }
    device.read(SUPERBLOCK_OFFSET, &mut bytes)?;
    // Without clusters both say the same.
    let stored = StoredSuperblock::new(&bytes);
    for group_blocks in [stored.blocks_per_group(), stored.clusters_per_group()] {
        for log2 in BLOCK_SIZE_LOG2_MIN..=BLOCK_SIZE_LOG2_MAX {
            let first_data_block = u64::from(log2 == BLOCK_SIZE_LOG2_MIN);
            let block = u64::from(group_blocks) + first_data_block;
            let copy = if group_blocks == 0 { None } else { open_at(device, (log2, block))? };
            if copy.is_some() {
                return Ok(copy);
            }
        }
    }
    Ok(None)
}

/// The first copy on a volume with blocks of that size and as many to a group as can be, if a good
/// one is there.
fn of_whole_groups(
    device: &Arc<dyn BlockDevice>,
    block_size_log2: u8,
) -> Result<Option<Volume>, Error> {
    let block_size = 1_u64 << block_size_log2;
    for cluster_log2 in 0..=CLUSTER_LOG2_MAX {
        // Groups have as many clusters as a block has bits: blocks, but for bigalloc.
        let first_data_block =
            u64::from(block_size_log2 == BLOCK_SIZE_LOG2_MIN && cluster_log2 == 0);
        let block = ((block_size * 8) << cluster_log2) + first_data_block;
        if cluster_log2 > 0 && block * block_size >= device.own_bytes() {
            break;
        }
        let copy = open_at(device, (block_size_log2, block))?;
        let copy = copy.filter(|copy| copy.superblock().cluster_log2() == cluster_log2);
        if copy.is_some() {
            return Ok(copy);
        }
    }
    Ok(None)
}

/// The copy in a block, if a good one for blocks of that size is there.
fn open_at(
    device: &Arc<dyn BlockDevice>,
    (block_size_log2, block): (u8, u64),
) -> Result<Option<Volume>, Error> {
    let block_size = 1_u32 << block_size_log2;
    let place = SuperblockPlace::Copy { block: BlockNo(block), block_size };
    match Volume::open(Arc::clone(device), place) {
        Ok(volume) => {
            let superblock = volume.superblock();
            let is_good =
                volume.checksum_fault().is_none() && superblock.block_size() == block_size;
            // What lies in a file here is a superblock too: a copy begins a group that has one.
            let group = superblock.group_of_block(BlockNo(block)).filter(|group| {
                superblock.group_start(*group) == BlockNo(block) && volume.has_super(*group)
            });
            Ok((is_good && group.is_some_and(|group| group.0 > 0)).then_some(volume))
        }
        Err(Error::Superblock { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
