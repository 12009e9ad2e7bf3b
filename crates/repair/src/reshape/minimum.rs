//! The least size of a volume: what its files take and the metadata of a volume of that size; more
//! only where maps in pieces need it, which is found out by making it so small.
use crate::error::Error;
use extant_format::GroupNo;
use extant_format::superblock::Superblock;
use extant_inspect::Usage;

/// Blocks of descriptors, bitmaps and tables on a volume.
fn metadata_blocks(superblock: &Superblock) -> u64 {
    let each = u64::from(superblock.inode_table_blocks()).saturating_add(2);
    let groups = (0..superblock.group_count()).map(GroupNo);
    let copies: u64 = groups.map(|group| u64::from(superblock.super_overhead(group))).sum();
    copies.saturating_add(each.saturating_mul(superblock.group_count().into()))
}

/// What files and the journal take, and how many inodes are in use.
fn used(usage: &Usage) -> (u64, u64) {
    let superblock = usage.superblock();
    let cluster = u64::from(usage.cluster_blocks());
    let mut inodes = 0_u64;
    let mut clusters = 0_u64;
    for group in (0..superblock.group_count()).map(GroupNo) {
        let blocks = usage.block_bits(group);
        clusters += u64::from(blocks.count - blocks.free());
        let bits = usage.inode_bits(group);
        inodes += u64::from(bits.count - bits.free());
    }
    let blocks = clusters.saturating_mul(cluster);
    (blocks.saturating_sub(metadata_blocks(superblock)), inodes)
}

/// The least number of blocks that could do.
///
/// # Errors
/// No size of this geometry does.
pub(super) fn least(usage: &Usage) -> Result<u64, Error> {
    let before = usage.superblock();
    let (data, inodes) = used(usage);
    let per_group = u64::from(before.blocks_per_group).max(1);
    let first_block = u64::from(before.first_data_block);
    let by_inodes = inodes.div_ceil(u64::from(before.inodes_per_group).max(1));
    let from = (data / per_group).max(by_inodes).max(1);
    for groups in from..=u64::from(before.group_count()) {
        let whole = first_block.saturating_add(groups.saturating_mul(per_group));
        let Ok(sized) = before.resized(whole.min(before.blocks_count)) else { continue };
        let blocks = first_block
            .saturating_add(data)
            .saturating_add(metadata_blocks(&sized))
            .next_multiple_of(usage.cluster_blocks().max(1).into());
        // A last group that is too small is left out: then it has to be as large as it must be.
        let start = sized.group_start(GroupNo(sized.group_count().saturating_sub(1))).0;
        let fits = |blocks: &u64| {
            *blocks > start
                && *blocks <= sized.blocks_count
                && before.blocks_within(*blocks) == *blocks
        };
        let step = usize::try_from(usage.cluster_blocks()).unwrap_or(1).max(1);
        let least = blocks.max(start.saturating_add(1));
        let least = least.next_multiple_of(usage.cluster_blocks().max(1).into());
        if let Some(found) = (least..=sized.blocks_count).step_by(step).find(fits) {
            return Ok(found);
        }
    }
    Ok(before.blocks_count)
}
