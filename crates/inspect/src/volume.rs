//! A volume opened for reading, with nothing believed.
//!
//! *Invariants*: nothing is ever written; every read is within the device; a block number is
//! checked against the volume before it is followed.
//! *Locking*: none; a `Volume` is immutable and may be shared.
use crate::error::Error;
use extant_block::{BlockDevice, Holes};
use extant_format::group::GroupDescriptor;
use extant_format::inode::Inode;
use extant_format::superblock::{
    Corrections, Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, StoredSuperblock, Superblock,
    SuperblockError,
};
use extant_format::{BlockNo, Fault, GroupNo, Ino};
use std::sync::Arc;

/// Which superblock is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuperblockPlace {
    /// The one at byte 1,024.
    Primary,
    /// A copy: the first block of some groups.
    Copy {
        /// The block that holds it.
        block: BlockNo,
        /// Bytes of a block: only the superblock itself says it otherwise.
        block_size: u32,
    },
}

/// A volume opened for reading: its superblock, and bounded ways to everything else.
pub struct Volume {
    device: Arc<dyn BlockDevice>,
    device_bytes: u64,
    bytes: Box<[u8; SUPERBLOCK_SIZE]>,
    superblock: Superblock,
    place: SuperblockPlace,
    corrections: Corrections,
    problems: Vec<String>,
}

impl Volume {
    /// Reads a superblock. Features are not judged; a wrong checksum is a problem to be shown,
    /// not an error.
    ///
    /// # Errors
    /// `Superblock` when its fields cannot say where things are, `Device` when it cannot be read.
    pub fn open(device: Arc<dyn BlockDevice>, place: SuperblockPlace) -> Result<Volume, Error> {
        let byte = match place {
            SuperblockPlace::Primary => SUPERBLOCK_OFFSET,
            SuperblockPlace::Copy { block, block_size } => {
                block.0.saturating_mul(block_size.into())
            }
        };
        let device_bytes = device.own_bytes();
        let mut bytes = Box::new([0; SUPERBLOCK_SIZE]);
        if byte.saturating_add(SUPERBLOCK_SIZE as u64) > device_bytes {
            return Err(Error::Superblock { byte, error: SuperblockError::NotExt });
        }
        device.read(byte, &mut bytes[..])?;
        let (superblock, corrections) = Superblock::parse_corrected(&bytes)
            .map_err(|error| Error::Superblock { byte, error })?;
        let mut problems: Vec<String> = corrections.checksum.iter().map(Fault::to_string).collect();
        if let Some(inodes) = corrections.inodes_count {
            let expected = superblock.inodes_count;
            problems.push(format!(
                "the inode count is {inodes}, not groups times inodes per group: {expected}"
            ));
        }
        let needed = superblock.blocks_count.saturating_mul(superblock.block_size().into());
        if needed > device_bytes {
            problems.push(format!("the device has {device_bytes} bytes, the file system {needed}"));
        }
        Ok(Volume { device, device_bytes, bytes, superblock, place, corrections, problems })
    }

    /// The superblock as far as it is understood.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Which superblock this is.
    pub fn place(&self) -> SuperblockPlace {
        self.place
    }

    /// What was wrong with the superblock, though it could be used: sentences.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// What is wrong with the superblock's checksum.
    pub(crate) fn checksum_fault(&self) -> Option<&Fault> {
        self.corrections.checksum.as_ref()
    }

    /// The inode count as it is stored, where another had to be used.
    pub(crate) fn corrected_inode_count(&self) -> Option<u32> {
        self.corrections.inodes_count
    }

    /// Whether the device of its journal is behind that of the volume.
    pub(crate) fn has_journal_behind(&self) -> bool {
        self.device.capabilities().annex.is_some()
    }

    /// Bytes that the device has.
    pub(crate) fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// The superblock as it is stored, without corrections.
    pub(crate) fn stored(&self) -> StoredSuperblock<'_> {
        StoredSuperblock::new(&self.bytes)
    }

    pub(crate) fn block_size(&self) -> usize {
        self.superblock.block_size() as usize
    }

    /// Whether a block is on the volume, and on the device.
    pub(crate) fn holds(&self, block: BlockNo) -> bool {
        let end = block.0.saturating_add(1).saturating_mul(self.superblock.block_size().into());
        block.0 < self.superblock.blocks_count && end <= self.device_bytes
    }

    /// Blocks that are on the volume and on the device.
    pub(crate) fn present_blocks(&self) -> u64 {
        let on_device = self.device_bytes / u64::from(self.superblock.block_size());
        on_device.min(self.superblock.blocks_count)
    }

    /// Groups of which at least the first block is on the device: all that a walk visits.
    pub fn present_groups(&self) -> u32 {
        let blocks = self.present_blocks().saturating_sub(self.superblock.first_data_block.into());
        let groups = blocks.div_ceil(u64::from(self.superblock.blocks_per_group).max(1));
        u32::try_from(groups).unwrap_or(u32::MAX).min(self.superblock.group_count())
    }

    /// Fills `bytes` from the start of a block on; `what` is for the message.
    pub(crate) fn read(
        &self,
        what: &'static str,
        block: BlockNo,
        bytes: &mut [u8],
    ) -> Result<(), Error> {
        let blocks = (bytes.len() as u64).div_ceil(self.superblock.block_size().into());
        let last = BlockNo(block.0.saturating_add(blocks).saturating_sub(1));
        if !self.holds(last) {
            return Err(Error::Outside { what, block: block.0 });
        }
        let offset = block.0.saturating_mul(self.superblock.block_size().into());
        Ok(self.device.read(offset, bytes)?)
    }

    /// Says that these blocks will be read soon.
    pub(crate) fn will_read(&self, block: BlockNo, blocks: u64) {
        let byte = |blocks: u64| blocks.saturating_mul(self.superblock.block_size().into());
        self.device.will_read(byte(block.0), byte(blocks));
    }

    /// The first block at or after this one that may hold anything but zeros; past all blocks when
    /// there is none.
    pub(crate) fn next_data(&self, holes: &mut Holes, from: BlockNo) -> Result<BlockNo, Error> {
        let block_size = u64::from(self.superblock.block_size());
        let byte = holes.next_data(&*self.device, from.0.saturating_mul(block_size))?;
        Ok(BlockNo(byte / block_size))
    }

    /// Whether blocks are known to be zeros without reading them.
    pub(crate) fn is_hole(
        &self,
        holes: &mut Holes,
        start: BlockNo,
        blocks: u64,
    ) -> Result<bool, Error> {
        let block_size = u64::from(self.superblock.block_size());
        let byte = |block: u64| block.saturating_mul(block_size);
        let bytes = byte(start.0)..byte(start.0.saturating_add(blocks));
        Ok(holes.is_hole(&*self.device, bytes)?)
    }

    /// Blocks of the device that may hold anything but zeros, about.
    pub(crate) fn held_blocks(&self) -> Result<u64, Error> {
        Ok(extant_block::held_bytes(&*self.device)?.div_ceil(self.superblock.block_size().into()))
    }

    /// One block.
    pub(crate) fn block(&self, what: &'static str, block: BlockNo) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.block_size()];
        self.read(what, block, &mut bytes)?;
        Ok(bytes)
    }

    /// Blocks of each bit of a block bitmap: 1 without bigalloc.
    pub(crate) fn cluster_blocks(&self) -> u32 {
        if !self.superblock.has(Feature::BIGALLOC) {
            return 1;
        }
        let log2 = self.stored().cluster_size_log2();
        let above = log2.saturating_sub(self.superblock.block_size_log2.into());
        1u32.checked_shl(above).unwrap_or(1)
    }

    /// Whether a group begins with a copy of the superblock, sparse_super2 included.
    pub(crate) fn has_super(&self, group: GroupNo) -> bool {
        if !self.superblock.has(Feature::SPARSE_SUPER2) {
            return self.superblock.has_super(group);
        }
        group.0 == 0 || self.stored().backup_groups().contains(&group)
    }

    pub(crate) fn has_meta_groups(&self) -> bool {
        self.superblock.has(Feature::META_BG)
    }

    pub(crate) fn descriptors_per_block(&self) -> u32 {
        self.superblock.block_size() / u32::from(self.superblock.descriptor_size).max(1)
    }

    /// The block that holds a group's descriptor, by the superblock that is used.
    pub(crate) fn descriptor_block(&self, group: GroupNo) -> BlockNo {
        let per_block = self.descriptors_per_block().max(1);
        let index = group.0 / per_block;
        if self.has_meta_groups() && index >= self.stored().first_meta_group() {
            let mut first = GroupNo(index * per_block);
            // A copy of the superblock goes with the copies that the second groups have.
            if self.place != SuperblockPlace::Primary && first.0 + 1 < self.present_groups() {
                first.0 += 1;
            }
            let start = match first.0 {
                // With clusters the first group begins at block 0, and the superblock still is in
                // block 1.
                0 => self.superblock.primary_block().0,
                _ => self.superblock.group_start(first).0,
            };
            return BlockNo(start.saturating_add(self.has_super(first).into()));
        }
        let copy = match self.place {
            SuperblockPlace::Primary => self.superblock.primary_block().0,
            SuperblockPlace::Copy { block, .. } => block.0,
        };
        BlockNo(copy.saturating_add(1).saturating_add(index.into()))
    }

    /// A group's descriptor as it is stored, unchecked.
    ///
    /// # Errors
    /// When it is not on the device or cannot be read.
    pub fn descriptor(&self, group: GroupNo) -> Result<GroupDescriptor, Error> {
        let block = self.block("group descriptors", self.descriptor_block(group))?;
        Ok(GroupDescriptor::decode(self.descriptor_bytes(&block, group), &self.superblock))
    }

    /// The bytes of a descriptor in its block.
    pub(crate) fn descriptor_bytes<'a>(&self, block: &'a [u8], group: GroupNo) -> &'a [u8] {
        let size = usize::from(self.superblock.descriptor_size);
        let at = (group.0 % self.descriptors_per_block().max(1)) as usize * size;
        block.get(at..at + size).unwrap_or_default()
    }

    /// Reads one inode as it is stored, unchecked.
    ///
    /// # Errors
    /// `NoInode`, or when its table is not on the device or cannot be read.
    pub fn inode(&self, ino: Ino) -> Result<Inode, Error> {
        let (group, _) = self.superblock.group_of_inode(ino).ok_or(Error::NoInode(ino.0))?;
        let descriptor = self.descriptor(group)?;
        let (block, offset) =
            self.superblock.inode_place(ino, &descriptor).ok_or(Error::NoInode(ino.0))?;
        let bytes = self.block("inode table", block)?;
        let size = usize::from(self.superblock.inode_size);
        Ok(Inode::decode(bytes.get(offset..offset + size).unwrap_or_default(), &self.superblock))
    }
}
