//! Facts of each group: where it keeps its things, what its descriptor says, which runs are free.
//! One group at a time, so that a volume of a hundred thousand groups takes no more memory than one
//! of ten.
use crate::claims::Claims;
use crate::error::Error;
use crate::volume::{SuperblockPlace, Volume};
use extant_format::bitmap;
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT, INODE_ZEROED};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Fault, GroupNo};
use serde::Serialize;

/// Consecutive numbers, of blocks or of inodes, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct BlockRange {
    /// The first.
    pub first: u64,
    /// The last; never below the first.
    pub last: u64,
}

impl BlockRange {
    /// `None` for no length.
    pub(crate) fn new(first: u64, length: u64) -> Option<BlockRange> {
        let last = first.checked_add(length)?.checked_sub(1).filter(|_| length > 0)?;
        Some(BlockRange { first, last })
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

/// A checksum on the disk, and what it should be where that differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StoredChecksum {
    /// What is stored.
    pub stored: u32,
    /// What the bytes give, if something else.
    pub expected: Option<u32>,
}

/// What a group holds of superblock and descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SuperblockCopy {
    /// The block of the superblock; `None` for a descriptor block alone.
    pub superblock: Option<u64>,
    /// Descriptors of all groups.
    pub descriptors: Option<BlockRange>,
    /// With meta_bg: the block of descriptors of the groups around here.
    pub meta_descriptors: Option<u64>,
    /// Descriptor blocks kept for growth.
    pub reserved_descriptors: Option<BlockRange>,
}

/// Where a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct BlockPlace {
    /// The block.
    pub block: u64,
    /// The group that it is in; `None` outside of all.
    pub group: Option<u32>,
    /// Blocks from that group's start.
    pub offset: u64,
}

/// One group, as its descriptor and bitmaps have it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GroupInfo {
    /// From 0.
    pub number: u32,
    /// All its blocks.
    pub blocks: BlockRange,
    /// Of the descriptor, where the volume has such checksums.
    pub checksum: Option<StoredChecksum>,
    /// Names as dumpe2fs prints them.
    pub flags: Vec<&'static str>,
    /// The copies of superblock and descriptors in this group.
    pub copy: Option<SuperblockCopy>,
    /// The block of the block bitmap; it may be in another group.
    pub block_bitmap: BlockPlace,
    /// With metadata_csum.
    pub block_bitmap_checksum: Option<StoredChecksum>,
    /// The block of the inode bitmap.
    pub inode_bitmap: BlockPlace,
    /// With metadata_csum.
    pub inode_bitmap_checksum: Option<StoredChecksum>,
    /// The first block of the inode table.
    pub inode_table: BlockPlace,
    /// Blocks of the inode table.
    pub inode_table_blocks: u32,
    /// As the descriptor counts them; clusters with bigalloc.
    pub free_blocks: u32,
    /// Blocks of each bit of the block bitmap: more than 1 with bigalloc.
    pub cluster_blocks: u32,
    /// As the descriptor counts them.
    pub free_inodes: u32,
    /// As the descriptor counts them.
    pub directories: u32,
    /// Inodes at the end of the table that were never used.
    pub unused_inodes: u32,
    /// As the bitmap has them, rising.
    pub free_block_runs: Vec<BlockRange>,
    /// As the bitmap has them, rising.
    pub free_inode_runs: Vec<BlockRange>,
    /// What could not be read, or is not where it can be: sentences.
    pub problems: Vec<String>,
}

/// A group without its bitmaps.
pub(crate) struct Described {
    pub(crate) group: GroupNo,
    pub(crate) descriptor: GroupDescriptor,
    checksum: Option<StoredChecksum>,
}

/// All groups that are on the device, in order. Ends after an error.
pub struct Groups<'a> {
    volume: &'a Volume,
    next: u32,
    end: u32,
    /// The last block of descriptors that was read.
    descriptors: Option<(BlockNo, Vec<u8>)>,
    /// Blocks of the bitmaps of the groups before, once one was read.
    bitmaps: Option<Claims>,
}

impl Volume {
    /// The groups, each read when it is asked for.
    pub fn groups(&self) -> Groups<'_> {
        Groups {
            volume: self,
            next: 0,
            end: self.present_groups(),
            descriptors: None,
            bitmaps: None,
        }
    }
}

impl Groups<'_> {
    /// The next group's descriptor and its checksum, without its bitmaps.
    pub(crate) fn next_descriptor(&mut self) -> Option<Result<Described, Error>> {
        if self.next >= self.end {
            return None;
        }
        if self.next == 0
            && let Err(error) = self.volume.judge_group_count()
        {
            self.next = self.end;
            return Some(Err(error));
        }
        let group = GroupNo(self.next);
        self.next += 1;
        let result = self.read_descriptor(group);
        if result.is_err() {
            self.next = self.end;
        }
        Some(result.map(|(descriptor, checksum)| Described { group, descriptor, checksum }))
    }

    fn read_descriptor(
        &mut self,
        group: GroupNo,
    ) -> Result<(GroupDescriptor, Option<StoredChecksum>), Error> {
        let volume = self.volume;
        let place = volume.descriptor_block(group);
        let block = match self.descriptors.take() {
            Some((block, bytes)) if block == place => bytes,
            _ => volume.block("group descriptors", place)?,
        };
        let bytes = volume.descriptor_bytes(&block, group);
        let superblock = volume.superblock();
        let mut descriptor = GroupDescriptor::decode(bytes, superblock);
        let mut checksum = None;
        if superblock.has_descriptor_checksums() {
            let stored = GroupDescriptor::stored_checksum(bytes).into();
            let expected = match GroupDescriptor::verify_checksum(bytes, group, superblock) {
                Err(Fault::Checksum { computed, .. }) => Some(computed),
                _ => None,
            };
            checksum = Some(StoredChecksum { stored, expected });
        } else {
            (descriptor.flags, descriptor.unused_inodes) = (0, 0);
        }
        self.descriptors = Some((place, block));
        Ok((descriptor, checksum))
    }
}

impl Iterator for Groups<'_> {
    type Item = Result<GroupInfo, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let volume = self.volume;
        let next = self.next_descriptor()?;
        let present = || Claims::new(volume.present_blocks(), 0);
        let bitmaps = self.bitmaps.get_or_insert_with(present);
        Some(next.map(|next| volume.group_info(next, bitmaps)))
    }
}

impl Volume {
    /// A group, where the groups before it have these `bitmaps`.
    fn group_info(&self, described: Described, bitmaps: &Claims) -> GroupInfo {
        let Described { group, ref descriptor, checksum } = described;
        let superblock = self.superblock();
        let start = superblock.group_start(group).0;
        let mut info = GroupInfo {
            number: group.0,
            blocks: BlockRange {
                first: start,
                last: start + u64::from(superblock.group_length(group).max(1)) - 1,
            },
            checksum,
            flags: flag_names(descriptor.flags),
            copy: self.copy(group),
            block_bitmap: self.place_of(descriptor.block_bitmap),
            block_bitmap_checksum: None,
            inode_bitmap: self.place_of(descriptor.inode_bitmap),
            inode_bitmap_checksum: None,
            inode_table: self.place_of(descriptor.inode_table),
            inode_table_blocks: superblock.inode_table_blocks(),
            free_blocks: descriptor.free_blocks,
            cluster_blocks: self.cluster_blocks(),
            free_inodes: descriptor.free_inodes,
            directories: descriptor.used_directories,
            unused_inodes: descriptor.unused_inodes,
            free_block_runs: Vec::new(),
            free_inode_runs: Vec::new(),
            problems: Vec::new(),
        };
        self.read_block_bitmap(descriptor, bitmaps, &mut info);
        self.read_inode_bitmap(descriptor, bitmaps, &mut info);
        info
    }

    /// The block of a bitmap. One that another group has already is not read again: work is bounded
    /// by the volume, however many groups claim a block.
    fn bitmap(
        &self,
        what: &'static str,
        block: BlockNo,
        bitmaps: &Claims,
    ) -> Result<Vec<u8>, String> {
        if self.holds(block) && !bitmaps.claim_run(block, 1) {
            return Err(format!("{what}: block {block} is a bitmap of another group"));
        }
        self.block(what, block).map_err(|error| error.to_string())
    }

    fn read_block_bitmap(
        &self,
        descriptor: &GroupDescriptor,
        bitmaps: &Claims,
        info: &mut GroupInfo,
    ) {
        let superblock = self.superblock();
        let checksummed = superblock.has(Feature::METADATA_CSUM);
        let mut checksum =
            StoredChecksum { stored: descriptor.block_bitmap_checksum, expected: None };
        let per_bit = self.cluster_blocks();
        let bits = u32::try_from(info.blocks.count().div_ceil(per_bit.into())).unwrap_or(u32::MAX);
        let bytes = if descriptor.flags & BLOCK_UNINIT != 0 {
            Some(self.untouched_bitmap(info, per_bit))
        } else {
            let read = self.bitmap("block bitmap", descriptor.block_bitmap, bitmaps);
            read.map_err(|problem| info.problems.push(problem)).ok().inspect(|bytes| {
                let mut sealed = *descriptor;
                sealed.seal_block_bitmap(bytes, superblock);
                // With bigalloc the sum covers fewer bits than format's does.
                let differs = per_bit == 1 && sealed.block_bitmap_checksum != checksum.stored;
                checksum.expected = differs.then_some(sealed.block_bitmap_checksum);
            })
        };
        info.block_bitmap_checksum = checksummed.then_some(checksum);
        let first = info.blocks.first;
        let last = info.blocks.last;
        let block = |bit: u32| first + u64::from(bit) * u64::from(per_bit);
        info.free_block_runs = bitmap::clear_runs(bytes.as_deref().unwrap_or_default(), bits)
            .map(|(bit, length)| BlockRange {
                first: block(bit),
                last: (block(bit + length) - 1).min(last),
            })
            .collect();
    }

    /// The bitmap of a group whose own was never written: its own metadata is in use, nothing else.
    fn untouched_bitmap(&self, info: &GroupInfo, per_bit: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.block_size()];
        let one = |block| BlockRange { first: block, last: block };
        let copy = info.copy.into_iter();
        let copies = copy.flat_map(|copy| {
            [
                copy.superblock.map(one),
                copy.descriptors,
                copy.meta_descriptors.map(one),
                copy.reserved_descriptors,
            ]
        });
        let table = BlockRange::new(info.inode_table.block, info.inode_table_blocks.into());
        let own = [Some(one(info.block_bitmap.block)), Some(one(info.inode_bitmap.block)), table];
        for range in copies.chain(own).flatten() {
            let first = range.first.max(info.blocks.first) - info.blocks.first;
            let last = range.last.min(info.blocks.last);
            let Some(last) = last.checked_sub(info.blocks.first).filter(|last| *last >= first)
            else {
                continue;
            };
            let (first, last) = (first / u64::from(per_bit), last / u64::from(per_bit));
            let length = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
            // Ranges may share a cluster, so that some bits are set already.
            let _ = bitmap::set_run(&mut bytes, u32::try_from(first).unwrap_or(u32::MAX), length);
        }
        bytes
    }

    fn read_inode_bitmap(
        &self,
        descriptor: &GroupDescriptor,
        bitmaps: &Claims,
        info: &mut GroupInfo,
    ) {
        let superblock = self.superblock();
        let mut checksum =
            StoredChecksum { stored: descriptor.inode_bitmap_checksum, expected: None };
        let bytes = if descriptor.flags & INODE_UNINIT != 0 {
            Some(vec![0; self.block_size()])
        } else {
            let read = self.bitmap("inode bitmap", descriptor.inode_bitmap, bitmaps);
            read.map_err(|problem| info.problems.push(problem)).ok().inspect(|bytes| {
                let mut sealed = *descriptor;
                sealed.seal_inode_bitmap(bytes, superblock);
                let differs = sealed.inode_bitmap_checksum != checksum.stored;
                checksum.expected = differs.then_some(sealed.inode_bitmap_checksum);
            })
        };
        info.inode_bitmap_checksum = superblock.has(Feature::METADATA_CSUM).then_some(checksum);
        let first = u64::from(info.number) * u64::from(superblock.inodes_per_group) + 1;
        info.free_inode_runs =
            bitmap::clear_runs(bytes.as_deref().unwrap_or_default(), superblock.inodes_per_group)
                .filter_map(|(bit, length)| BlockRange::new(first + u64::from(bit), length.into()))
                .collect();
    }

    fn place_of(&self, block: BlockNo) -> BlockPlace {
        let group = self.superblock().group_of_block(block);
        let offset = group.map_or(0, |group| block.0 - self.superblock().group_start(group).0);
        BlockPlace { block: block.0, group: group.map(|group| group.0), offset }
    }

    /// What a group holds of superblock and descriptors.
    pub(crate) fn copy(&self, group: GroupNo) -> Option<SuperblockCopy> {
        let superblock = self.superblock();
        let start = superblock.group_start(group).0;
        // Clusters of 1 KiB blocks begin at block 0, and the superblock is still in block 1.
        let start = if group.0 == 0 { superblock.primary_block().0 } else { start };
        let has_super = self.has_super(group);
        let after_super = start + u64::from(has_super);
        let mut copy = SuperblockCopy {
            superblock: has_super.then_some(start),
            descriptors: None,
            meta_descriptors: None,
            reserved_descriptors: None,
        };
        let old_blocks = self.old_descriptor_blocks();
        if self.has_meta_groups()
            && group.0 / self.descriptors_per_block().max(1) >= self.first_meta_group()
        {
            let per_block = self.descriptors_per_block().max(1);
            let place = group.0 % per_block;
            if place <= 1 || place == per_block - 1 {
                copy.meta_descriptors = Some(after_super);
            }
        } else if has_super {
            copy.descriptors = BlockRange::new(after_super, old_blocks);
            let reserved = superblock.reserved_gdt_blocks.into();
            copy.reserved_descriptors = BlockRange::new(after_super + old_blocks, reserved);
        }
        (has_super || copy.meta_descriptors.is_some()).then_some(copy)
    }

    fn first_meta_group(&self) -> u32 {
        self.stored().first_meta_group()
    }

    /// Descriptor blocks after each superblock.
    fn old_descriptor_blocks(&self) -> u64 {
        let all = self.superblock().descriptor_blocks();
        let blocks = if self.has_meta_groups() { all.min(self.first_meta_group()) } else { all };
        blocks.into()
    }

    /// The block of the superblock in use, as dumpe2fs is asked for it.
    pub(crate) fn superblock_block(&self) -> u64 {
        match self.place() {
            SuperblockPlace::Primary => self.superblock().primary_block().0,
            SuperblockPlace::Copy { block, .. } => block.0,
        }
    }
}

fn flag_names(flags: u16) -> Vec<&'static str> {
    let names = [
        (INODE_UNINIT, "INODE_UNINIT"),
        (BLOCK_UNINIT, "BLOCK_UNINIT"),
        (INODE_ZEROED, "ITABLE_ZEROED"),
    ];
    names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect()
}
