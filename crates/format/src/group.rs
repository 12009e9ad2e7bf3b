//! Group descriptors (32 or 64 bytes), and the arithmetic of groups.
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{crc16, crc32c};
use crate::superblock::{Feature, Features, Superblock};
use crate::{BlockNo, Fault, GroupNo, Ino};

/// The inode bitmap and table were never written.
pub const INODE_UNINIT: u16 = 1;
/// The block bitmap was never written: only the group's own metadata is in use.
pub const BLOCK_UNINIT: u16 = 2;
/// The inode table is zeroed.
pub const INODE_ZEROED: u16 = 4;

/// Where the checksum is in a descriptor.
const CHECKSUM_OFFSET: usize = std::mem::offset_of!(RawLow, checksum);

/// The first half of a descriptor: all of a 32-byte one.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLow {
    block_bitmap: U32,
    inode_bitmap: U32,
    inode_table: U32,
    free_blocks: U16,
    free_inodes: U16,
    used_directories: U16,
    flags: U16,
    exclude_bitmap: U32,
    block_bitmap_checksum: U16,
    inode_bitmap_checksum: U16,
    unused_inodes: U16,
    checksum: U16,
}

/// The second half, with 64bit: the high parts of the first. What follows in larger descriptors is
/// unknown.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHigh {
    block_bitmap: U32,
    inode_bitmap: U32,
    inode_table: U32,
    free_blocks: U16,
    free_inodes: U16,
    used_directories: U16,
    unused_inodes: U16,
    exclude_bitmap: U32,
    block_bitmap_checksum: U16,
    inode_bitmap_checksum: U16,
    reserved: U32,
}

/// One group's descriptor, both widths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // the names say it
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

fn join32(low: U32, high: U32) -> BlockNo {
    BlockNo(u64::from(high.get()) << 32 | u64::from(low.get()))
}

fn join16(low: U16, high: U16) -> u32 {
    u32::from(high.get()) << 16 | u32::from(low.get())
}

#[allow(clippy::cast_possible_truncation)] // splitting is what it is for
fn split32(block: BlockNo) -> (U32, U32) {
    (U32::new(block.0 as u32), U32::new((block.0 >> 32) as u32))
}

#[allow(clippy::cast_possible_truncation)] // splitting is what it is for
fn split16(value: u32) -> (U16, U16) {
    (U16::new(value as u16), U16::new((value >> 16) as u16))
}

/// The checksum of a descriptor's bytes, by metadata_csum or uninit_bg; 0 with neither.
fn checksum(bytes: &[u8], group: GroupNo, superblock: &Superblock) -> u16 {
    let before = bytes.get(..CHECKSUM_OFFSET).unwrap_or(bytes);
    let after = bytes.get(CHECKSUM_OFFSET.saturating_add(2)..).unwrap_or_default();
    let number = group.0.to_le_bytes();
    if superblock.has(Feature::METADATA_CSUM) {
        let seed = crc32c(superblock.checksum_seed, &number);
        let sum = crc32c(crc32c(crc32c(seed, before), &[0, 0]), after);
        split16(sum).0.get()
    } else if superblock.has(Feature::UNINIT_BG) {
        crc16(crc16(crc16(crc16(!0, &superblock.uuid), &number), before), after)
    } else {
        0
    }
}

fn fault(field: &'static str, value: u64, reason: &'static str) -> Fault {
    Fault::Field { structure: "group descriptor", field, value, reason }
}

impl GroupDescriptor {
    /// Reads descriptor `group` from its bytes (descriptor_size of them). The checksum
    /// (metadata_csum or uninit_bg) is verified; block numbers are checked to be inside the
    /// volume, after the descriptors. Without those features unused inodes and the UNINIT flags
    /// mean nothing and are given as 0.
    ///
    /// # Errors
    /// The first fault found.
    pub fn parse(
        bytes: &[u8],
        group: GroupNo,
        superblock: &Superblock,
    ) -> Result<GroupDescriptor, Fault> {
        Self::verify_checksum(bytes, group, superblock)?;
        let mut descriptor = Self::decode(bytes, superblock);
        if !superblock.has_descriptor_checksums() {
            descriptor.flags &= INODE_ZEROED;
            descriptor.unused_inodes = 0;
        }
        descriptor.check(superblock)?;
        Ok(descriptor)
    }

    /// The values as they are stored, unchecked: for a judge. Missing bytes count as 0.
    pub fn decode(bytes: &[u8], superblock: &Superblock) -> GroupDescriptor {
        let low = RawLow::read_from_prefix(bytes).map(|(raw, _)| raw).unwrap_or_default();
        let wide = superblock.descriptor_size >= 64;
        let rest = if wide { bytes.get(size_of::<RawLow>()..).unwrap_or_default() } else { &[] };
        let high = RawHigh::read_from_prefix(rest).map(|(raw, _)| raw).unwrap_or_default();
        GroupDescriptor {
            block_bitmap: join32(low.block_bitmap, high.block_bitmap),
            inode_bitmap: join32(low.inode_bitmap, high.inode_bitmap),
            inode_table: join32(low.inode_table, high.inode_table),
            free_blocks: join16(low.free_blocks, high.free_blocks),
            free_inodes: join16(low.free_inodes, high.free_inodes),
            used_directories: join16(low.used_directories, high.used_directories),
            flags: low.flags.get(),
            unused_inodes: join16(low.unused_inodes, high.unused_inodes),
            block_bitmap_checksum: join16(low.block_bitmap_checksum, high.block_bitmap_checksum),
            inode_bitmap_checksum: join16(low.inode_bitmap_checksum, high.inode_bitmap_checksum),
            exclude_bitmap: join32(low.exclude_bitmap, high.exclude_bitmap),
        }
    }

    /// The checksum as it is stored in a descriptor's bytes.
    pub fn stored_checksum(bytes: &[u8]) -> u16 {
        RawLow::read_from_prefix(bytes).map_or(0, |(raw, _)| raw.checksum.get())
    }

    /// Compares the stored checksum with that of the bytes; nothing to compare without
    /// metadata_csum and uninit_bg.
    ///
    /// # Errors
    /// [`Fault::Checksum`].
    pub fn verify_checksum(
        bytes: &[u8],
        group: GroupNo,
        superblock: &Superblock,
    ) -> Result<(), Fault> {
        if !superblock.has_descriptor_checksums() {
            return Ok(());
        }
        let (stored, computed) = (Self::stored_checksum(bytes), checksum(bytes, group, superblock));
        if stored == computed {
            return Ok(());
        }
        Err(Fault::Checksum {
            structure: "group descriptor",
            stored: stored.into(),
            computed: computed.into(),
        })
    }

    /// What keeps later code in range.
    fn check(&self, superblock: &Superblock) -> Result<(), Fault> {
        let places = [
            ("block bitmap", self.block_bitmap, 1),
            ("inode bitmap", self.inode_bitmap, 1),
            ("inode table", self.inode_table, superblock.inode_table_blocks()),
        ];
        let copies = u64::from(superblock.descriptor_blocks_of_copy()).saturating_add(1);
        let least = copies.saturating_add(superblock.first_data_block.into());
        for (field, place, length) in places {
            if place.0 < least {
                return Err(fault(field, place.0, "within superblock or descriptors"));
            }
            if place.0.saturating_add(length.into()) > superblock.blocks_count {
                return Err(fault(field, place.0, "past the end of the volume"));
            }
        }
        if self.unused_inodes > superblock.inodes_per_group {
            return Err(fault(
                "count of unused inodes",
                self.unused_inodes.into(),
                "above the inodes of a group",
            ));
        }
        Ok(())
    }

    /// Writes it over `bytes` (descriptor_size long), with its checksum. Bytes past the first 64
    /// are left as they are.
    pub fn encode(&self, bytes: &mut [u8], group: GroupNo, superblock: &Superblock) {
        let (mut low, mut high) = (RawLow::default(), RawHigh::default());
        (low.block_bitmap, high.block_bitmap) = split32(self.block_bitmap);
        (low.inode_bitmap, high.inode_bitmap) = split32(self.inode_bitmap);
        (low.inode_table, high.inode_table) = split32(self.inode_table);
        (low.exclude_bitmap, high.exclude_bitmap) = split32(self.exclude_bitmap);
        (low.free_blocks, high.free_blocks) = split16(self.free_blocks);
        (low.free_inodes, high.free_inodes) = split16(self.free_inodes);
        (low.used_directories, high.used_directories) = split16(self.used_directories);
        (low.unused_inodes, high.unused_inodes) = split16(self.unused_inodes);
        (low.block_bitmap_checksum, high.block_bitmap_checksum) =
            split16(self.block_bitmap_checksum);
        (low.inode_bitmap_checksum, high.inode_bitmap_checksum) =
            split16(self.inode_bitmap_checksum);
        low.flags = self.flags.into();
        // Too short a slice is written as far as it goes: encode has no error, and the sizes are
        // the superblock's.
        let _ = low.write_to_prefix(bytes);
        if let Some(rest) =
            bytes.get_mut(size_of::<RawLow>()..).filter(|_| superblock.descriptor_size >= 64)
        {
            let _ = high.write_to_prefix(rest);
        }
        low.checksum = checksum(bytes, group, superblock).into();
        let _ = low.write_to_prefix(bytes);
    }

    /// Takes the count of unused inodes out of a descriptor's bytes, which keep their checksum: it
    /// is wrong then, as mke2fs leaves it with -S. e2fsck believes no flag of such a descriptor,
    /// and looks at the whole inode table.
    pub fn discredit(bytes: &mut [u8]) {
        const LOW: usize = std::mem::offset_of!(RawLow, unused_inodes);
        const HIGH: usize = size_of::<RawLow>() + std::mem::offset_of!(RawHigh, unused_inodes);
        for at in [LOW, HIGH] {
            for byte in bytes.iter_mut().skip(at).take(2) {
                *byte = 0;
            }
        }
    }

    /// Whether the stored checksum of the block bitmap is that of `bitmap` (a block). True without
    /// metadata_csum.
    pub fn block_bitmap_matches(&self, bitmap: &[u8], superblock: &Superblock) -> bool {
        matches(self.block_bitmap_checksum, bitmap, superblock.bits_per_group(), superblock)
    }

    /// Whether the stored checksum of the inode bitmap is that of `bitmap` (a block). True without
    /// metadata_csum.
    pub fn inode_bitmap_matches(&self, bitmap: &[u8], superblock: &Superblock) -> bool {
        matches(self.inode_bitmap_checksum, bitmap, superblock.inodes_per_group, superblock)
    }

    /// Stores the checksum of the block bitmap; 0 without metadata_csum.
    pub fn seal_block_bitmap(&mut self, bitmap: &[u8], superblock: &Superblock) {
        self.block_bitmap_checksum =
            bitmap_checksum(bitmap, superblock.bits_per_group(), superblock);
    }

    /// Stores the checksum of the inode bitmap; 0 without metadata_csum.
    pub fn seal_inode_bitmap(&mut self, bitmap: &[u8], superblock: &Superblock) {
        self.inode_bitmap_checksum =
            bitmap_checksum(bitmap, superblock.inodes_per_group, superblock);
    }
}

/// The checksum of the first `bits` of a bitmap, as wide as a descriptor keeps it; 0 without
/// metadata_csum.
pub fn bitmap_checksum(bitmap: &[u8], bits: u32, superblock: &Superblock) -> u32 {
    if !superblock.has(Feature::METADATA_CSUM) {
        return 0;
    }
    let bytes = bitmap.get(..(bits / 8) as usize).unwrap_or(bitmap);
    let sum = crate::checksum::bitmap(superblock.checksum_seed, bytes);
    if superblock.descriptor_size >= 64 { sum } else { sum & 0xffff }
}

fn matches(stored: u32, bitmap: &[u8], bits: u32, superblock: &Superblock) -> bool {
    !superblock.has(Feature::METADATA_CSUM) || stored == bitmap_checksum(bitmap, bits, superblock)
}

/// Whether a group starts with a copy of the superblock: all do, or with sparse_super 0, 1 and the
/// powers of 3, 5 and 7.
pub(crate) fn has_copy(group: GroupNo, features: Features) -> bool {
    let power_of = |base: u32| {
        let mut power = base;
        while power < group.0 {
            power = power.saturating_mul(base);
        }
        power == group.0
    };
    group.0 <= 1
        || !features.has(Feature::SPARSE_SUPER)
        || power_of(3)
        || power_of(5)
        || power_of(7)
}

impl Superblock {
    /// First block of a group.
    pub fn group_start(&self, group: GroupNo) -> BlockNo {
        let before = u64::from(group.0).saturating_mul(self.blocks_per_group.into());
        BlockNo(before.saturating_add(self.first_data_block.into()))
    }

    /// Blocks of a group: the last one may be short; 0 past the last one.
    pub fn group_length(&self, group: GroupNo) -> u32 {
        let left = self.blocks_count.saturating_sub(self.group_start(group).0);
        u32::try_from(left).unwrap_or(u32::MAX).min(self.blocks_per_group)
    }

    /// The group of a block, `None` before the first data block or past the end.
    pub fn group_of_block(&self, block: BlockNo) -> Option<GroupNo> {
        let inside = block
            .0
            .checked_sub(self.first_data_block.into())
            .filter(|_| block.0 < self.blocks_count)?;
        u32::try_from(inside.checked_div(self.blocks_per_group.into())?).ok().map(GroupNo)
    }

    /// The group of an inode and its index there; `None` for 0 or past the end.
    pub fn group_of_inode(&self, ino: Ino) -> Option<(GroupNo, u32)> {
        let index = ino.0.checked_sub(1).filter(|_| ino.0 <= self.inodes_count)?;
        let group = index.checked_div(self.inodes_per_group)?;
        Some((GroupNo(group), index.checked_rem(self.inodes_per_group)?))
    }

    /// Block and byte offset in it where an inode is kept, by its group's descriptor; `None` for 0
    /// or past the end.
    pub fn inode_place(&self, ino: Ino, descriptor: &GroupDescriptor) -> Option<(BlockNo, usize)> {
        let (_, index) = self.group_of_inode(ino)?;
        let bytes = u64::from(index).checked_mul(self.inode_size.into())?;
        let block_size = u64::from(self.block_size());
        let block = descriptor.inode_table.0.checked_add(bytes.checked_div(block_size)?)?;
        Some((BlockNo(block), usize::try_from(bytes.checked_rem(block_size)?).ok()?))
    }

    /// Whether a group starts with a copy of superblock and descriptors (sparse_super or all).
    pub fn has_super(&self, group: GroupNo) -> bool {
        match self.has(Feature::SPARSE_SUPER2) {
            true => group.0 == 0 || self.backup_groups().contains(&group),
            false => has_copy(group, self.features),
        }
    }

    /// Bits of a whole group's block bitmap: one for each block, or each cluster.
    pub fn bits_per_group(&self) -> u32 {
        self.blocks_per_group >> self.cluster_log2()
    }

    /// Bits of a group's block bitmap that mean something: the last group may be short.
    pub fn group_bits(&self, group: GroupNo) -> u32 {
        self.group_length(group).div_ceil(1 << self.cluster_log2())
    }

    /// Blocks of the descriptor table.
    pub fn descriptor_blocks(&self) -> u32 {
        let bytes = u64::from(self.group_count()).saturating_mul(self.descriptor_size.into());
        u32::try_from(bytes.div_ceil(self.block_size().into())).unwrap_or(u32::MAX)
    }

    /// Blocks of descriptors after each copy of the superblock: with meta_bg those that are not
    /// kept in the groups which they describe.
    pub fn descriptor_blocks_of_copy(&self) -> u32 {
        self.descriptor_blocks().min(self.first_meta_block().unwrap_or(u32::MAX))
    }

    /// Descriptors in a block.
    fn descriptors_per_block(&self) -> u32 {
        self.block_size().checked_div(self.descriptor_size.into()).unwrap_or(1).max(1)
    }

    /// The first of the groups whose descriptors are in one block in the first, second and last of
    /// them (meta_bg); `None` where the group's descriptor follows each superblock.
    pub fn meta_group(&self, group: GroupNo) -> Option<GroupNo> {
        let per_block = self.descriptors_per_block();
        let block = group.0.checked_div(per_block)?;
        let is_meta = self.first_meta_block().is_some_and(|first| block >= first);
        is_meta.then(|| GroupNo(block.saturating_mul(per_block)))
    }

    /// The block of descriptors in a group of such groups: after its superblock, if it has one.
    fn meta_block(&self, group: GroupNo) -> BlockNo {
        let start = if group.0 == 0 { self.primary_block() } else { self.group_start(group) };
        BlockNo(start.0.saturating_add(self.has_super(group).into()))
    }

    /// Block and byte offset in it where the descriptor of `group` is kept: that of group 0, or of
    /// the first group of those that share a block of descriptors (meta_bg).
    pub fn descriptor_place(&self, group: GroupNo) -> (BlockNo, usize) {
        let per_block = self.descriptors_per_block();
        let index = group.0.checked_rem(per_block).unwrap_or(0);
        let offset = index.saturating_mul(self.descriptor_size.into());
        let offset = usize::try_from(offset).unwrap_or(0);
        if let Some(first) = self.meta_group(group) {
            return (self.meta_block(first), offset);
        }
        let first = self.primary_block().0.saturating_add(1);
        let block = first.saturating_add(group.0.checked_div(per_block).unwrap_or(0).into());
        (BlockNo(block), offset)
    }

    /// The other blocks where the descriptor of `group` is kept by meta_bg, at the same offset;
    /// none where its block follows each superblock.
    pub fn descriptor_copies(&self, group: GroupNo) -> impl Iterator<Item = BlockNo> + '_ {
        let first = self.meta_group(group);
        let last = self.descriptors_per_block().saturating_sub(1);
        let others = [1, last].into_iter().filter(move |at| (1..=last).contains(at));
        first.into_iter().flat_map(move |first| {
            let groups = others.clone().map(move |at| GroupNo(first.0.saturating_add(at)));
            groups.filter(|group| group.0 < self.group_count()).map(|group| self.meta_block(group))
        })
    }

    /// Blocks at the start of a group taken by superblock, descriptors and reserved descriptors; 0
    /// without a copy.
    pub fn super_overhead(&self, group: GroupNo) -> u32 {
        let has_super = self.has_super(group);
        if let Some(first) = self.meta_group(group) {
            let at = group.0.saturating_sub(first.0);
            let is_copy = at <= 1 || at == self.descriptors_per_block().saturating_sub(1);
            return u32::from(has_super).saturating_add(is_copy.into());
        }
        if !has_super {
            return 0;
        }
        let descriptors = self.descriptor_blocks_of_copy();
        descriptors.saturating_add(self.reserved_gdt_blocks.into()).saturating_add(1)
    }
}
