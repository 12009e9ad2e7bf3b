//! Group descriptors (32 or 64 bytes), and the arithmetic of groups.
use crate::superblock::Superblock;
use crate::{BlockNo, Fault, GroupNo, Ino};

/// One group's descriptor, both widths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupDescriptor {
    pub block_bitmap: BlockNo,
    pub inode_bitmap: BlockNo,
    pub inode_table: BlockNo,
    pub free_blocks: u32,
    pub free_inodes: u32,
    pub used_directories: u32,
    /// Bits below.
    pub flags: u16,
    /// Inodes at the end of the table that were never used.
    pub unused_inodes: u32,
    /// crc32c of the block bitmap (low 16 bits only in 32-byte descriptors).
    pub block_bitmap_checksum: u32,
    pub inode_bitmap_checksum: u32,
    pub exclude_bitmap: BlockNo,
}

/// The inode bitmap and table were never written.
pub const INODE_UNINIT: u16 = 1;
/// The block bitmap was never written: only the group's own metadata is in use.
pub const BLOCK_UNINIT: u16 = 2;
/// The inode table is zeroed.
pub const INODE_ZEROED: u16 = 4;

impl GroupDescriptor {
    /// Reads descriptor `group` from its bytes (descriptor_size of them). The checksum (metadata_csum or uninit_bg) is
    /// verified; block numbers are checked to lie inside the volume.
    pub fn parse(_bytes: &[u8], _group: GroupNo, _superblock: &Superblock) -> Result<GroupDescriptor, Fault> {
        todo!()
    }
    /// Writes it over `bytes` (descriptor_size long), with its checksum.
    pub fn encode(&self, _bytes: &mut [u8], _group: GroupNo, _superblock: &Superblock) {
        todo!()
    }
}

impl Superblock {
    /// First block of a group.
    pub fn group_start(&self, _group: GroupNo) -> BlockNo {
        todo!()
    }
    /// Blocks of a group: the last one may be short.
    pub fn group_length(&self, _group: GroupNo) -> u32 {
        todo!()
    }
    /// The group of a block, `None` before the first data block or past the end.
    pub fn group_of_block(&self, _block: BlockNo) -> Option<GroupNo> {
        todo!()
    }
    /// The group of an inode and its index there; `None` for 0 or past the end.
    pub fn group_of_inode(&self, _ino: Ino) -> Option<(GroupNo, u32)> {
        todo!()
    }
    /// Whether a group starts with a copy of superblock and descriptors (sparse_super or all).
    pub fn has_super(&self, _group: GroupNo) -> bool {
        todo!()
    }
    /// Blocks of the descriptor table.
    pub fn descriptor_blocks(&self) -> u32 {
        todo!()
    }
    /// Block and byte offset in it where the descriptor of `group` is kept (copy of group 0).
    pub fn descriptor_place(&self, _group: GroupNo) -> (BlockNo, usize) {
        todo!()
    }
    /// Blocks at the start of a group taken by superblock, descriptors and reserved descriptors; 0 without a copy.
    pub fn super_overhead(&self, _group: GroupNo) -> u32 {
        todo!()
    }
}
