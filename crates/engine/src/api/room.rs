//! How much room a volume has: what `statfs(2)` and df(1) say.
use super::filesystem::Filesystem;
use crate::error::Result;
use crate::inode::journal;
use extant_format::GroupNo;
use extant_format::superblock::Feature;

/// The kernel keeps one block in so many for maps of data that has no blocks yet, on a volume with
/// extents (`reserved_clusters` in /sys/fs/ext4).
const KEPT_SHARE: u64 = 50;
/// And so many at most.
const KEPT_MAX: u64 = 4096;

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
    /// Free blocks that others than root can have: without those reserved for root, and on a volume
    /// with extents without those that the kernel keeps for maps of data that has no blocks yet.
    pub available_blocks: u64,
    /// Number of inodes.
    pub inodes: u32,
    /// Free inodes.
    pub free_inodes: u32,
}

impl Filesystem {
    /// Used and free space.
    pub fn statfs(&self) -> Statfs {
        let superblock = &self.core.inodes.volume.store.superblock;
        let clusters = superblock.cluster_log2();
        let totals = self.core.inodes.volume.space.totals();
        let free_blocks = totals.free_blocks - totals.reserved_blocks;
        let kept = match superblock.has(Feature::EXTENTS) {
            true => ((superblock.blocks_count >> clusters) / KEPT_SHARE).min(KEPT_MAX) << clusters,
            false => 0,
        };
        let reserved = superblock.reserved_blocks.saturating_add(kept);
        Statfs {
            block_size: superblock.block_size(),
            blocks: superblock.blocks_count,
            free_blocks,
            reserved_blocks: superblock.reserved_blocks,
            available_blocks: free_blocks.saturating_sub(reserved),
            inodes: superblock.inodes_count,
            free_inodes: totals.free_inodes,
        }
    }

    /// How many blocks it has once it was made this long ([`Filesystem::grow`]): no less than it
    /// has, and no more than `blocks`. Nothing is changed, and the device may be shorter.
    ///
    /// # Errors
    /// As [`Filesystem::grow`], as far as it is known before.
    pub fn blocks_when_grown(&self, blocks: u64) -> Result<u64> {
        self.core.inodes.volume.space.blocks_when_grown(blocks)
    }

    /// Makes the volume longer while it is in use: the longest of its geometry with at most
    /// `blocks` blocks, which its device has to have. All of it is durable in the end. A power cut
    /// leaves it as it was, or as it is to be; where the journal has no room for the change in one
    /// transaction it may have a length between these.
    ///
    /// # Errors
    /// `Busy` while it grows already; `InvalidArgument` for less blocks than it has, or more than
    /// its device; `OperationUnsupported` if it cannot grow while it is in use; `Layout` if no such
    /// volume is possible; `ReadOnly`; `Corrupt`; what the device returns, after which nothing is
    /// changed any more.
    pub fn grow(&self, blocks: u64) -> Result<()> {
        self.core.grow(blocks)
    }

    /// Bytes of its device that it may take.
    pub fn device_bytes(&self) -> u64 {
        self.core.inodes.volume.store.device.own_bytes()
    }

    /// Whether it may be changed: it was opened for that, is not closed, and nothing has failed.
    pub fn is_writable(&self) -> bool {
        self.core.is_writable()
    }

    /// Blocks that no file can ever have: tables, bitmaps, copies of the superblock, the journal.
    /// As the superblock keeps it, or counted where it keeps none. `statfs(2)` leaves them out of
    /// the size of a volume.
    pub fn overhead_blocks(&self) -> u64 {
        let superblock = self.superblock();
        if superblock.overhead_clusters() != 0 {
            return u64::from(superblock.overhead_clusters()) << superblock.cluster_log2();
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
