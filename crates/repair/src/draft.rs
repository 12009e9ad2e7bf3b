//! The volume as it is to be: an overlay with ways to its structures, which are sealed as they are
//! written.
//!
//! *Invariants*: what is written has its checksum; blocks and inodes are given out once, and only
//! those that the last check found free. *Locking*: none, one thread has it.
use crate::error::Error;
use crate::free::FreeRuns;
use crate::options::Scope;
use extant_block::{BlockDevice, KnowsHoles, Overlay};
use extant_format::checksum::inode_seed;
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::inode::Inode;
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, SECTOR_BYTES, bitmap};
use extant_inspect::Usage;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A result, or why the volume cannot be mended.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Which blocks are taken for free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Free {
    /// Those that nothing has, and that are marked as free.
    ForAll,
    /// Those that nothing has that was found.
    OfFiles,
}

/// Blocks after a goal that are near it.
const NEAR_BLOCKS: u64 = 4096;

/// The volume as it is to be, and what the last check found in use.
pub(crate) struct Draft {
    overlay: Arc<Overlay>,
    pub(crate) usage: Usage,
    pub(crate) superblock: Superblock,
    /// Seconds since 1970.
    pub(crate) now: u32,
    /// What may be mended.
    pub(crate) scope: Scope,
    /// Block bitmaps as they are stored, of groups that were searched; `None` where there is none.
    marks: BTreeMap<GroupNo, Option<Vec<u8>>>,
    /// Where a search goes on that finds nothing near its goal: past the last block given out.
    cursor: u64,
    /// Clusters of groups that go: given out where nothing else is free, and written by the log.
    pub(crate) released: FreeRuns,
    /// No inode before this one is free.
    inode_cursor: u32,
    /// Inodes that were given out since the check.
    given: BTreeSet<Ino>,
    /// Inodes that were freed since the check: nothing else of them is mended.
    pub(crate) cleared: BTreeSet<Ino>,
    /// Blocks of maps that several files have: none of them writes to one.
    pub(crate) shared: BTreeSet<BlockNo>,
    /// The first blocks of all tables of inodes, rising.
    tables: Vec<u64>,
    /// Groups whose bitmaps are written anew.
    pub(crate) stale: BTreeSet<GroupNo>,
    /// Directories that had an index and have none now.
    pub(crate) unindexed: BTreeSet<Ino>,
}

impl Draft {
    /// Of the overlay as the check found it.
    pub(crate) fn new(overlay: &Arc<Overlay>, usage: Usage, now: u32, scope: Scope) -> Draft {
        let groups = (0..usage.superblock().group_count()).map(GroupNo);
        let mut tables: Vec<u64> =
            groups.filter_map(|group| Some(usage.descriptor(group)?.inode_table.0)).collect();
        tables.sort_unstable();
        Draft {
            tables,
            overlay: Arc::clone(overlay),
            superblock: usage.superblock().clone(),
            usage,
            now,
            scope,
            marks: BTreeMap::new(),
            cursor: 0,
            released: FreeRuns::default(),
            inode_cursor: 0,
            given: BTreeSet::new(),
            cleared: BTreeSet::new(),
            shared: BTreeSet::new(),
            stale: BTreeSet::new(),
            unindexed: BTreeSet::new(),
        }
    }

    pub(crate) fn block_size(&self) -> usize {
        self.superblock.block_size() as usize
    }

    /// Whether a file can have a block: it is on the volume, and no metadata of the volume.
    pub(crate) fn may_hold(&self, block: BlockNo) -> bool {
        let first = u64::from(self.superblock.first_data_block).max(1);
        block.0 >= first && self.usage.holds(block) && !self.usage.is_metadata(block)
    }

    /// Reads a block; `None` for one that the volume does not have.
    pub(crate) fn read(&self, block: BlockNo) -> Result<Option<Vec<u8>>> {
        if !self.usage.holds(block) {
            return Ok(None);
        }
        let mut bytes = vec![0; self.block_size()];
        self.overlay.read(block.0.saturating_mul(bytes.len() as u64), &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Writes a block of the volume.
    pub(crate) fn write(&self, block: BlockNo, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len(), self.block_size(), "a whole block is written");
        if !self.usage.holds(block) {
            return Err(Error::Refused(format!("block {block} is not on the volume")));
        }
        // tidy: writers because it is an overlay in memory
        Ok(self.overlay.write(block.0.saturating_mul(bytes.len() as u64), bytes)?)
    }

    /// Writes a block that the volume gets, which the check did not know.
    pub(crate) fn write_new(&self, block: BlockNo, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len(), self.block_size(), "a whole block is written");
        assert!(block.0 < self.superblock.blocks_count, "block {block} is not on the volume");
        // tidy: writers because it is an overlay in memory
        Ok(self.overlay.write(block.0.saturating_mul(bytes.len() as u64), bytes)?)
    }

    /// Lets blocks have what others have on the device: nothing was written to either.
    pub(crate) fn redirect(&self, to: u64, from: u64, blocks: u64) -> Result<()> {
        let size = self.block_size() as u64;
        for at in 0..blocks {
            self.overlay.redirect(to + at, (from + at).saturating_mul(size))?;
        }
        Ok(())
    }

    /// Lets blocks be zeros, which are written before the changes are brought to the device.
    pub(crate) fn let_zeros(&self, blocks: std::ops::Range<u64>) {
        self.overlay.let_zeros(blocks);
    }

    /// Whether a range of blocks was never written: all of it is a hole of the device.
    pub(crate) fn is_hole(&self, blocks: std::ops::Range<u64>) -> Result<bool> {
        let size = self.block_size() as u64;
        let data = self.overlay.next_data(blocks.start.saturating_mul(size))?;
        Ok(data.is_none_or(|data| data.start >= blocks.end.saturating_mul(size)))
    }

    /// Writes the superblock in its first place.
    pub(crate) fn write_superblock(&self) -> Result<()> {
        let bytes: [u8; SUPERBLOCK_SIZE] = self.superblock.encode();
        // tidy: writers because it is an overlay in memory
        Ok(self.overlay.write(SUPERBLOCK_OFFSET, &bytes)?)
    }

    /// A descriptor as it is stored.
    pub(crate) fn descriptor(&self, group: GroupNo) -> Result<Option<GroupDescriptor>> {
        let (block, offset) = self.superblock.descriptor_place(group);
        let Some(bytes) = self.read(block)? else { return Ok(None) };
        let size = usize::from(self.superblock.descriptor_size);
        let bytes = bytes.get(offset..offset.saturating_add(size));
        Ok(bytes.map(|bytes| GroupDescriptor::decode(bytes, &self.superblock)))
    }

    /// Whether a bitmap can be at a block: on the volume, and in no table of inodes.
    pub(crate) fn may_be_bitmap(&self, block: BlockNo) -> bool {
        let after = self.tables.partition_point(|start| *start <= block.0);
        let table = after.checked_sub(1).and_then(|at| self.tables.get(at));
        let length = u64::from(self.superblock.inode_table_blocks());
        self.usage.holds(block) && table.is_none_or(|start| block.0 >= start.saturating_add(length))
    }

    /// Writes a descriptor, with its checksum.
    pub(crate) fn write_descriptor(&self, group: GroupNo, of: &GroupDescriptor) -> Result<()> {
        let (block, offset) = self.superblock.descriptor_place(group);
        let Some(mut bytes) = self.read(block)? else { return Ok(()) };
        let size = usize::from(self.superblock.descriptor_size);
        if let Some(place) = bytes.get_mut(offset..offset.saturating_add(size)) {
            of.encode(place, group, &self.superblock);
        }
        self.write(block, &bytes)
    }

    /// Inodes of a group that may have been written.
    pub(crate) fn written_inodes(&self, of: &GroupDescriptor) -> u32 {
        let all = self.superblock.inodes_per_group;
        match self.superblock.has_descriptor_checksums() {
            true if of.flags & INODE_UNINIT != 0 => 0,
            true => all.saturating_sub(of.unused_inodes),
            false => all,
        }
    }

    /// The block that has an inode, and where in it; `None` where its table is not to be found.
    fn inode_place(&self, ino: Ino) -> Option<(BlockNo, usize)> {
        let (group, _) = self.superblock.group_of_inode(ino)?;
        let descriptor = self.usage.descriptor(group).filter(|_| self.usage.has_table(group))?;
        self.superblock.inode_place(ino, descriptor)
    }

    /// The bytes of an inode.
    pub(crate) fn inode_bytes(&self, ino: Ino) -> Result<Option<Vec<u8>>> {
        let Some((block, offset)) = self.inode_place(ino) else { return Ok(None) };
        let Some(bytes) = self.read(block)? else { return Ok(None) };
        let size = usize::from(self.superblock.inode_size);
        Ok(bytes.get(offset..offset.saturating_add(size)).map(<[u8]>::to_vec))
    }

    /// Writes the bytes of an inode, with their checksum.
    pub(crate) fn write_inode_bytes(&self, ino: Ino, inode: &mut [u8]) -> Result<()> {
        Inode::seal(inode, ino, &self.superblock);
        let Some((block, offset)) = self.inode_place(ino) else { return Ok(()) };
        let Some(mut bytes) = self.read(block)? else { return Ok(()) };
        if let Some(place) = bytes.get_mut(offset..offset.saturating_add(inode.len())) {
            place.copy_from_slice(inode);
        }
        self.write(block, &bytes)
    }

    /// An inode as it is stored.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Option<Inode>> {
        let bytes = self.inode_bytes(ino)?;
        Ok(bytes.map(|bytes| Inode::decode(&bytes, &self.superblock)))
    }

    /// Writes an inode.
    pub(crate) fn write_inode(&self, ino: Ino, inode: &Inode) -> Result<()> {
        let mut bytes = vec![0; usize::from(self.superblock.inode_size)];
        inode.encode(&mut bytes, ino, &self.superblock);
        self.write_inode_bytes(ino, &mut bytes)
    }

    /// What checksums of blocks of a file begin with.
    pub(crate) fn seed(&self, ino: Ino, inode: &Inode) -> u32 {
        inode_seed(self.superblock.checksum_seed, ino, inode.generation)
    }

    /// The sectors of so many map blocks: with clusters each has one to itself.
    pub(crate) fn sectors(&self, blocks: u64) -> u64 {
        let each = u64::from(self.usage.cluster_blocks()) * self.block_size() as u64 / SECTOR_BYTES;
        blocks.saturating_mul(each)
    }

    /// Whether metadata has checksums.
    pub(crate) fn has_checksums(&self) -> bool {
        self.superblock.has(Feature::METADATA_CSUM)
    }

    /// Gives out a free block, of a cluster of its own, at or after a goal if there is one.
    pub(crate) fn allocate(&mut self, goal: BlockNo) -> Option<BlockNo> {
        let cluster = u64::from(self.usage.cluster_blocks()).max(1);
        let found = self.allocate_run(goal, 1);
        found.or_else(|| Some(BlockNo(self.released.take(u64::MAX, 1)?.start * cluster)))
    }

    /// Gives out a run of free blocks.
    pub(crate) fn allocate_run(&mut self, goal: BlockNo, blocks: u64) -> Option<BlockNo> {
        let cluster = u64::from(self.usage.cluster_blocks()).max(1);
        let first = u64::from(self.superblock.first_data_block);
        let end = self.superblock.blocks_count;
        let goal = (goal.0.clamp(first, end) / cluster * cluster).max(first);
        let near = goal.saturating_add(NEAR_BLOCKS.max(blocks)).min(end);
        let cursor = self.cursor.clamp(first, end);
        let mut found = None;
        for free in [Free::ForAll, Free::OfFiles] {
            // What is marked as in use may be a part of a file that is not found any more.
            if free == Free::OfFiles && self.scope != Scope::All {
                break;
            }
            for (from, to) in [(goal, near), (cursor, end), (first, end)] {
                if found.is_none() {
                    found = self.search(from, to, blocks, free);
                }
            }
        }
        let found = found?;
        self.cursor = found.0.saturating_add(blocks).div_ceil(cluster).saturating_mul(cluster);
        self.usage.take(found, blocks);
        let mut at = found.0;
        while at < found.0.saturating_add(blocks) {
            self.stale.extend(self.superblock.group_of_block(BlockNo(at)));
            at = at.saturating_add(u64::from(self.superblock.blocks_per_group).max(1));
        }
        let last = BlockNo(found.0.saturating_add(blocks).saturating_sub(1));
        self.stale.extend(self.superblock.group_of_block(last));
        Some(found)
    }

    /// Whether a block is free in its bitmap as it is stored; also where that cannot be read.
    pub(crate) fn is_unmarked(&mut self, block: BlockNo) -> bool {
        let Some(group) = self.superblock.group_of_block(block) else { return false };
        if !self.marks.contains_key(&group) {
            let descriptor = self.usage.descriptor(group).copied();
            let is_written = |of: &GroupDescriptor| of.flags & BLOCK_UNINIT == 0;
            let place = descriptor.filter(is_written).map(|of| of.block_bitmap);
            let bytes = place.and_then(|place| self.read(place).ok().flatten());
            self.marks.insert(group, bytes);
        }
        let inside = block.0.saturating_sub(self.superblock.group_start(group).0);
        let bit = inside / u64::from(self.usage.cluster_blocks()).max(1);
        let marks = self.marks.get(&group).and_then(Option::as_deref);
        marks.is_none_or(|bytes| !bitmap::test(bytes, u32::try_from(bit).unwrap_or(u32::MAX)))
    }

    fn search(&mut self, from: u64, end: u64, blocks: u64, free: Free) -> Option<BlockNo> {
        let cluster = u64::from(self.usage.cluster_blocks()).max(1);
        let mut at = from;
        while at.saturating_add(blocks) <= end {
            let start = BlockNo(at);
            let last = BlockNo(at.saturating_add(blocks).saturating_sub(1));
            let range = at..at.saturating_add(blocks);
            let is_free = self.usage.holds(last) && self.usage.is_free(start, blocks);
            let is_unmarked = |draft: &mut Draft, block: u64| draft.is_unmarked(BlockNo(block));
            if is_free && (free == Free::OfFiles || range.clone().all(|it| is_unmarked(self, it))) {
                return Some(start);
            }
            // Past the last block of these that is taken.
            let mut taken = range.rev().step_by(cluster as usize).filter(|block| {
                !self.usage.is_free(BlockNo(*block), 1)
                    || free == Free::ForAll && !is_unmarked(self, *block)
            });
            let next = taken.next().unwrap_or(at);
            at = (next / cluster).saturating_add(1).saturating_mul(cluster);
        }
        None
    }

    /// Gives out a free inode.
    pub(crate) fn allocate_inode(&mut self) -> Option<Ino> {
        let first = self.superblock.first_inode.max(Ino::RESERVED_LAST.0.saturating_add(1));
        let free = |ino: &u32| {
            let ino = Ino(*ino);
            !self.usage.is_used(ino)
                && !self.given.contains(&ino)
                && self
                    .superblock
                    .group_of_inode(ino)
                    .is_some_and(|(group, _)| self.usage.has_table(group))
        };
        let from = first.max(self.inode_cursor);
        let ino = Ino((from..=self.superblock.inodes_count).find(free)?);
        self.inode_cursor = ino.0;
        self.given.insert(ino);
        self.stale.extend(self.superblock.group_of_inode(ino).map(|(group, _)| group));
        Some(ino)
    }

    /// Whether an inode was given out since the check.
    pub(crate) fn is_given(&self, ino: Ino) -> bool {
        self.given.contains(&ino)
    }

    /// The inodes of a group that were given out since the check, by their place in its table.
    pub(crate) fn given_in(&self, group: GroupNo) -> impl Iterator<Item = u32> + '_ {
        let places = self.given.iter().filter_map(|ino| self.superblock.group_of_inode(*ino));
        places.filter(move |(of, _)| *of == group).map(|(_, at)| at)
    }

    /// Frees an inode: all of it is zero but the time at which it was deleted.
    pub(crate) fn clear_inode(&mut self, ino: Ino) -> Result<()> {
        if let Some(mut bytes) = self.inode_bytes(ino)? {
            bytes.fill(0);
            self.write_inode_bytes(ino, &mut bytes)?;
        }
        self.cleared.insert(ino);
        Ok(())
    }
}
