//! How much room a volume has: what `statfs(2)` and df(1) say.
use super::filesystem::Filesystem;
use crate::inode::journal;
use extant_format::GroupNo;

/// Used and free space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statfs {
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Free blocks, without those promised to delayed writes.
    pub free_blocks: u64,
    /// Blocks reserved for root.
    pub reserved_blocks: u64,
    /// Number of inodes.
    pub inodes: u32,
    /// Free inodes.
    pub free_inodes: u32,
}

impl Filesystem {
    /// Used and free space.
    pub fn statfs(&self) -> Statfs {
        let superblock = &self.core.inodes.volume.store.superblock;
        let totals = self.core.inodes.volume.space.totals();
        Statfs {
            block_size: superblock.block_size(),
            blocks: superblock.blocks_count,
            free_blocks: totals.free_blocks - totals.reserved_blocks,
            reserved_blocks: superblock.reserved_blocks,
            inodes: superblock.inodes_count,
            free_inodes: totals.free_inodes,
        }
    }

    /// Blocks that no file can ever have: tables, bitmaps, copies of the superblock, the journal.
    /// As the superblock keeps it, or counted where it keeps none. `statfs(2)` leaves them out of
    /// the size of a volume.
    pub fn overhead_blocks(&self) -> u64 {
        let superblock = self.superblock();
        if superblock.overhead_clusters() != 0 {
            return superblock.overhead_clusters().into();
        }
        let tables = u64::from(superblock.inode_table_blocks()).saturating_add(2);
        let groups = (0..superblock.group_count()).map(GroupNo);
        let of_group = |group: GroupNo| {
            let copies = superblock.super_overhead(group).min(superblock.group_length(group));
            tables.saturating_add(copies.into())
        };
        let journal = journal::blocks(&self.core.inodes.volume);
        let first = u64::from(superblock.first_data_block);
        groups.map(of_group).fold(first.saturating_add(journal), u64::saturating_add)
    }
}
