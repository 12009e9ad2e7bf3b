//! Blocks of the inode table that are read together with the one that is wanted.
use crate::policy::preset::TableReadAhead;
use crate::store::cache::Kind;
use crate::volume::Volume;
use extant_block::Urgency;
use extant_format::{BlockNo, GroupNo};
use std::ops::Range;

/// Reads around a table block that is not in memory, as the policy has it, in one request. The
/// caller reads the block itself next, and waits for it there.
pub(super) fn read_around(volume: &Volume, group: GroupNo, block: BlockNo) {
    let TableReadAhead::Around(blocks) = volume.policies.table_read_ahead else {
        return;
    };
    if volume.cache.holds(block) {
        return;
    }
    let descriptor = volume.groups.descriptor(group);
    let superblock = &volume.superblock;
    let used_inodes = superblock.inodes_per_group.saturating_sub(descriptor.unused_inodes);
    let bytes = u64::from(used_inodes) * u64::from(superblock.inode_size);
    let used = bytes.div_ceil(u64::from(volume.block_size()));
    let table = descriptor.inode_table.0;
    let around = around(block.0.saturating_sub(table), blocks.into(), used);
    let blocks = around.map(|at| (BlockNo(table.saturating_add(at)), Kind::Plain));
    volume.cache.fetch(Urgency::Awaited, blocks);
}

/// The aligned blocks around one, as far as inodes there are in use: all in terms of the table.
fn around(block: u64, blocks: u64, used: u64) -> Range<u64> {
    let first = block - block % blocks.max(1);
    first..first.saturating_add(blocks).min(used).max(block + 1)
}

#[cfg(test)]
mod tests {
    use super::around;

    #[test]
    fn as_far_as_inodes_are_in_use_and_always_the_one_that_is_wanted() {
        let rows = [
            ((0, 8, 512), 0..8),
            ((7, 8, 512), 0..8),
            ((8, 8, 512), 8..16),
            ((9, 8, 11), 8..11),
            ((509, 8, 510), 504..510),
            ((20, 8, 3), 16..21),
            ((0, 32, 1), 0..1),
            ((5, 1, 512), 5..6),
            ((5, 0, 512), 5..6),
        ];
        for ((block, blocks, used), expected) in rows {
            assert_eq!(
                around(block, blocks, used),
                expected,
                "block {block}, {blocks} around, {used} used"
            );
        }
    }
}
