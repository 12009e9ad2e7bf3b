//! Where a new file system keeps its things: from a few wishes to superblock, descriptors and bitmaps, as mke2fs lays
//! them out, without any I/O.
use crate::group::GroupDescriptor;
use crate::superblock::{Features, HashVersion, Superblock};
use crate::{BlockNo, GroupNo, Run};

/// What is asked of a new file system. Values are checked by [`Layout::new`].
#[derive(Clone, Debug, PartialEq)]
pub struct Wishes {
    /// 1,024 to 65,536, a power of two.
    pub block_size: u32,
    /// Blocks of the volume.
    pub blocks: u64,
    pub features: Features,
    /// 128 to 1,024 (at most a block), a power of two.
    pub inode_size: u16,
    /// How many inodes.
    pub inodes: Inodes,
    /// Share of the blocks kept for root, in hundredths of a percent... as a fraction: 0.05 for 5 %.
    pub reserved_ratio: f64,
    /// Groups of a flex group (power of two); used with flex_bg. mke2fs: 16.
    pub flex_groups: u32,
    /// 8 * block_size unless asked otherwise (a multiple of 8).
    pub blocks_per_group: Option<u32>,
    /// The volume may grow to so many blocks: descriptor blocks are kept for that with resize_inode. `None`: 1024 times.
    pub resize_to_blocks: Option<u64>,
    pub uuid: [u8; 16],
    pub hash_seed: [u32; 4],
    pub hash_version: HashVersion,
    pub label: [u8; 16],
    pub created_seconds: u64,
    /// RAID hints, 0 for none.
    pub stride: u16,
    pub stripe_width: u32,
}

/// How many inodes a new file system has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inodes {
    /// One for so many bytes of volume (mke2fs -i).
    BytesPerInode(u64),
    /// At least so many (mke2fs -N); rounded up so that tables are whole blocks, as mke2fs does.
    AtLeast(u64),
}

/// Why wishes cannot be met: one line, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutError(pub String);
impl std::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for LayoutError {}

/// An empty volume's metadata, decided. The root, lost+found, journal and resize inode are not yet counted as used: the
/// engine's mkfs makes them.
#[derive(Clone, Debug)]
pub struct Layout {
    /// With free_blocks and free_inodes as after formatting without any file (inodes 1..first_inode-1 count as used).
    pub superblock: Superblock,
    /// One for each group: positions, free counts (as above), flags (BLOCK_UNINIT, INODE_UNINIT, INODE_ZEROED where
    /// checksums allow them, as mke2fs sets them with lazy tables off: table zeroed), unused_inodes.
    pub descriptors: Vec<GroupDescriptor>,
}

impl Layout {
    /// Decides everything. The last group is dropped when it is too small for its own metadata and 50 blocks more, as mke2fs does
    /// (the volume is then shorter than asked: see `superblock.blocks_count`).
    pub fn new(_wishes: &Wishes) -> Result<Layout, LayoutError> {
        todo!()
    }
    /// The runs of blocks that metadata occupies within a group: copies, bitmaps and tables that lie there (with flex_bg those of
    /// other groups too), rising and merged.
    pub fn metadata_runs(&self, _group: GroupNo) -> Vec<Run> {
        todo!()
    }
    /// The block bitmap of a group as after formatting: metadata set, bits behind the group's end set. `bytes` is a block.
    pub fn fill_block_bitmap(&self, _group: GroupNo, _bytes: &mut [u8]) {
        todo!()
    }
    /// The inode bitmap of a group: reserved inodes in group 0 set, bits behind inodes_per_group set.
    pub fn fill_inode_bitmap(&self, _group: GroupNo, _bytes: &mut [u8]) {
        todo!()
    }
    /// Blocks in all that no file can use.
    pub fn overhead_blocks(&self) -> u64 {
        todo!()
    }
    /// Blocks of the reserved descriptors that the resize inode maps: per copy, rising: (group, block).
    pub fn reserved_descriptor_blocks(&self) -> Vec<(GroupNo, BlockNo)> {
        todo!()
    }
}
