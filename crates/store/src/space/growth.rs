//! The volume gets longer while all of it is in use: its last group becomes whole, and others come
//! after it.
//!
//! ```text
//! plan    where everything is to be; what is not possible is refused, and nothing has changed
//! ahead   bitmaps and tables past the old end, where nothing leads yet
//! grow    one operation: descriptors, the last group, the map of the blocks kept for descriptors;
//!         the superblock follows in its commit
//! copies  superblock and descriptors in other groups, afterwards
//! ```
//!
//! *Invariants*: nobody sees a new group before `groups` counts it, and nobody counts it before the
//! superblock does. The last group's bitmap has its new bits, and the superblock its new end, under
//! one lock of that group: a bitmap never has to agree with the other end.
//! *Locking*: one thread grows at a time, which its caller sees to.
mod copies;
mod map;

use super::bitmaps::BitmapKind;
use super::{GroupState, Published, Space};
use crate::cache::{BlockKind, Frame};
use crate::error::{ErrorKind, Result};
use crate::handle::Handle;
use crate::ranks;
use crate::space::metadata::MetadataParts;
use extant_block::ShortLock;
use extant_format::bitmap::clear_run;
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT, INODE_ZEROED};
use extant_format::layout::{Layout, Tables};
use extant_format::superblock::{Feature, Superblock, state};
use extant_format::{BlockNo, GroupNo};
use extant_policy::allocation::MapBlocks;
use map::MapChange;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Groups of a volume that grows while it is in use, at most: each takes memory.
const GROUPS_MAX: u32 = 1 << 20;
/// Why less blocks are refused, and more groups than that.
const SHRINKS: &str = "a volume in use does not shrink";
const TOO_MANY: &str = "it would have more groups than one in use may have";
/// Bytes of zeros that are written at a time.
const ZEROS_BYTES: usize = 1 << 20;
/// Blocks that an operation changes beside descriptors and map: the last group's bitmap, the
/// inode of the map, the bitmap of its root.
const CREDITS_MIN: u32 = 4;

/// One step of a volume that grows.
pub struct Longer {
    before: Superblock,
    after: Superblock,
    layout: Layout,
    /// New descriptors, with the checksums of their bitmaps once these were written.
    groups: Vec<GroupDescriptor>,
    map: MapChange,
}

impl Longer {
    /// Blocks of the volume after it.
    pub fn blocks(&self) -> u64 {
        self.after.blocks_count
    }

    /// Blocks of metadata that the operation changes, at most.
    pub fn credits(&self) -> u32 {
        let old = self.descriptor_blocks().into_keys().filter(|block| self.is_old(*block));
        let blocks = old.count().saturating_add(self.map.blocks.len());
        u32::try_from(blocks).unwrap_or(u32::MAX).saturating_add(CREDITS_MIN)
    }

    /// Whether a block was in the volume before.
    fn is_old(&self, block: BlockNo) -> bool {
        block.0 < self.before.blocks_count
    }

    /// The new descriptors by the block where they are kept: groups and offsets in it.
    fn descriptor_blocks(&self) -> BTreeMap<BlockNo, Vec<(GroupNo, usize)>> {
        let mut blocks: BTreeMap<BlockNo, Vec<(GroupNo, usize)>> = BTreeMap::new();
        for group in (self.before.group_count()..self.after.group_count()).map(GroupNo) {
            let (block, offset) = self.after.descriptor_place(group);
            blocks.entry(block).or_default().push((group, offset));
        }
        blocks
    }

    /// The new descriptor of a group.
    fn descriptor(&self, group: GroupNo) -> Option<&GroupDescriptor> {
        self.groups.get(group.0.checked_sub(self.before.group_count())? as usize)
    }

    /// Encodes new descriptors into their block.
    fn encode(&self, places: &[(GroupNo, usize)], bytes: &mut [u8]) {
        let size = usize::from(self.after.descriptor_size);
        for (group, offset) in places {
            let place = bytes.get_mut(*offset..offset.saturating_add(size));
            if let (Some(bytes), Some(descriptor)) = (place, self.descriptor(*group)) {
                descriptor.encode(bytes, *group, &self.after);
            }
        }
    }
}

fn refused(reason: &'static str) -> crate::error::Error {
    ErrorKind::OperationUnsupported(reason).into()
}

impl Space {
    /// What becomes of the volume if it gets `blocks` blocks, or the first step of that: one
    /// transaction has to hold it. `None` if it has them already. Nothing is changed.
    ///
    /// # Errors
    /// `InvalidArgument` for less blocks than it has, or more than its device;
    /// `OperationUnsupported` if it cannot grow while it is in use; `Layout` if no such volume is
    /// possible; `ReadOnly`; `Corrupt`; what the device returns.
    pub fn plan_growth(&self, blocks: u64) -> Result<Option<Longer>> {
        let store = &self.store;
        store.check_writable()?;
        let before = Superblock::clone(&store.superblock);
        self.check_growth(&before)?;
        if blocks < before.blocks_count {
            return Err(ErrorKind::InvalidArgument(SHRINKS).into());
        }
        let frames = store.cache.frames_max() as u64 / 4;
        let most = store.log().map_or(frames, |log| log.operation_max().min(frames));
        let mut wanted = before.blocks_within(blocks);
        loop {
            let after = before.resized(wanted).map_err(ErrorKind::Layout)?;
            if after.blocks_count <= before.blocks_count {
                return Ok(None);
            }
            if after.group_count() > GROUPS_MAX {
                return Err(refused(TOO_MANY));
            }
            let bytes = after.blocks_count.checked_mul(store.block_size().into());
            if bytes.is_none_or(|bytes| bytes > store.device.own_bytes()) {
                return Err(ErrorKind::InvalidArgument("the device is not that long").into());
            }
            let first = GroupNo(before.group_count());
            let layout = Layout::of_new_groups(&after, first, Tables::Zeroed);
            let layout = layout.map_err(ErrorKind::Layout)?;
            let groups = layout.descriptors.iter().skip(first.0 as usize).copied().collect();
            let map = self.plan_map(&before, &after)?;
            let growth = Longer { before: before.clone(), after, layout, groups, map };
            if u64::from(growth.credits()) <= most {
                return Ok(Some(growth));
            }
            let more = growth.blocks().saturating_sub(before.blocks_count) / 2;
            let fewer = before.blocks_within(before.blocks_count.saturating_add(more));
            if fewer <= before.blocks_count || fewer >= wanted {
                return Err(refused("its journal has no room for the change"));
            }
            wanted = fewer;
        }
    }

    /// How many blocks it has if it grows to `blocks`: nothing is changed, and the device may be
    /// shorter.
    ///
    /// # Errors
    /// As [`Space::plan_growth`], as far as it is known before.
    pub fn blocks_when_grown(&self, blocks: u64) -> Result<u64> {
        self.store.check_writable()?;
        let before = Superblock::clone(&self.store.superblock);
        self.check_growth(&before)?;
        if blocks < before.blocks_count {
            return Err(ErrorKind::InvalidArgument(SHRINKS).into());
        }
        let wanted = before.blocks_within(blocks).max(before.blocks_count);
        let after = before.resized(wanted).map_err(ErrorKind::Layout)?;
        match after.group_count() > GROUPS_MAX {
            true => Err(refused(TOO_MANY)),
            false => Ok(after.blocks_count),
        }
    }

    /// Fails if this volume does not grow while it is in use.
    fn check_growth(&self, superblock: &Superblock) -> Result<()> {
        let store = &self.store;
        let why = match () {
            () if store.record.now().state & state::ERRORS != 0 => "it is marked as having errors",
            () if superblock.has(Feature::SPARSE_SUPER2) => {
                "with sparse_super2 a copy of the superblock would have to move"
            }
            () if store.device.capabilities().annex.is_some() => "its journal is on another device",
            () if store.updates_softly() => "with soft updates groups are known at opening",
            () if !store.superblock.has_room() || !self.metadata.has_room() => {
                "it has grown as often as one in use may"
            }
            () if store.record.now().blocks_count != superblock.blocks_count => {
                "it was cut meanwhile"
            }
            () => return Ok(()),
        };
        Err(refused(why))
    }

    /// Writes what is past the old end: bitmaps, zeros where tables need them, descriptors that are
    /// in the new groups.
    ///
    /// # Errors
    /// What the device returns, which closes the latch.
    pub fn write_ahead(&self, growth: &mut Longer) -> Result<()> {
        let superblock = growth.after.clone();
        let table_blocks = u64::from(superblock.inode_table_blocks());
        let mut bitmap = vec![0; superblock.block_size() as usize];
        let first = growth.before.group_count();
        for (number, descriptor) in (first..).zip(&mut growth.groups) {
            let group = GroupNo(number);
            let table = descriptor.inode_table.0..descriptor.inode_table.0 + table_blocks;
            if !self.is_hole(&table)? {
                match superblock.has_descriptor_checksums() {
                    true => descriptor.flags &= !INODE_ZEROED,
                    false => self.write_zeros(table)?,
                }
            }
            if descriptor.flags & BLOCK_UNINIT == 0 {
                growth.layout.fill_block_bitmap(group, &mut bitmap);
                descriptor.seal_block_bitmap(&bitmap, &superblock);
                self.store.write_unreferenced(descriptor.block_bitmap, &bitmap)?;
            }
            if descriptor.flags & INODE_UNINIT == 0 {
                growth.layout.fill_inode_bitmap(group, &mut bitmap);
                descriptor.seal_inode_bitmap(&bitmap, &superblock);
                self.store.write_unreferenced(descriptor.inode_bitmap, &bitmap)?;
            }
        }
        for (block, places) in growth.descriptor_blocks() {
            if !growth.is_old(block) {
                bitmap.fill(0);
                growth.encode(&places, &mut bitmap);
                self.store.write_unreferenced(block, &bitmap)?;
            }
        }
        Ok(())
    }

    /// Whether nothing was ever written to these blocks, so that they are zeros.
    fn is_hole(&self, blocks: &Range<u64>) -> Result<bool> {
        let block_size = u64::from(self.store.block_size());
        let end = blocks.end.saturating_mul(block_size);
        let data = self.store.device.next_data(blocks.start.saturating_mul(block_size))?;
        Ok(data.is_none_or(|data| data.start >= end))
    }

    fn write_zeros(&self, blocks: Range<u64>) -> Result<()> {
        let block_size = self.store.block_size() as usize;
        let zeros = vec![0; ZEROS_BYTES.max(block_size)];
        let step = zeros.len() / block_size;
        let mut at = blocks.start;
        while at < blocks.end {
            let count = (blocks.end - at).min(step as u64);
            let bytes = zeros.get(..count as usize * block_size).unwrap_or_default();
            self.store.write_unreferenced(BlockNo(at), bytes)?;
            at += count;
        }
        Ok(())
    }

    /// Makes the volume what was planned. What it needs is read before anything changes.
    ///
    /// # Errors
    /// `Corrupt`; what the device returns.
    pub fn grow(&self, handle: &Handle<'_>, growth: Longer) -> Result<()> {
        let blocks = growth.descriptor_blocks();
        let old = blocks.iter().filter(|(block, _)| growth.is_old(**block));
        let read = |block: BlockNo| self.store.cache.read(block, BlockKind::Plain);
        let frames = old.map(|(block, places)| Ok((read(*block)?, places)));
        let frames: Vec<(Arc<Frame>, &Vec<_>)> = frames.collect::<Result<_>>()?;
        let last = GroupNo(growth.before.group_count().saturating_sub(1));
        drop(self.lock_loaded(last, BitmapKind::Blocks)?);
        self.change_map(handle, &growth.map)?;
        for (frame, places) in frames {
            let is_new = places.first().is_some_and(|(_, offset)| *offset == 0);
            handle.modify(&frame, |bytes| {
                // It was kept for descriptors, and has had pointers of the map.
                if is_new {
                    bytes.fill(0);
                }
                growth.encode(places, bytes);
            });
        }
        self.publish_groups(handle, last, growth)
    }

    /// Has everybody see the new groups.
    fn publish_groups(&self, handle: &Handle<'_>, last: GroupNo, growth: Longer) -> Result<()> {
        let Longer { before, after, groups, .. } = growth;
        let metadata = self.metadata_with(&before, &after, &groups);
        let units: u64 = groups.iter().map(|group| u64::from(group.free_blocks)).sum();
        let inodes: u64 = groups.iter().map(|group| u64::from(group.free_inodes)).sum();
        let states: Vec<GroupState> = groups.iter().copied().map(GroupState::new).collect();
        let (mut state, frame) = self.lock_to_change(handle, last, BitmapKind::Blocks)?;
        self.published.extend(states.iter().map(Published::of).collect());
        self.tables.extend(groups.iter().map(|group| group.inode_table).collect());
        let locked = states.into_iter().map(|state| ShortLock::ranked(ranks::GROUP, state));
        self.states.extend(locked.collect());
        self.metadata.replace(metadata);
        let (old, new) = (before.group_bits(last), after.group_bits(last));
        let more = new.saturating_sub(old);
        if more > 0 {
            let _ = handle.modify_at_once(&frame, |bytes| clear_run(bytes, old, more));
            state.descriptor.free_blocks = state.descriptor.free_blocks.saturating_add(more);
            state.may_have_joined(more);
        }
        let (blocks, count) = (after.blocks_count, after.group_count());
        self.store.superblock.replace(after);
        handle.change_superblock(|changes| changes.blocks_count = blocks);
        self.changed(last, &mut state, BitmapKind::Blocks);
        drop(state);
        if let MapBlocks::Metacluster(metacluster) = self.store.policies.map_blocks {
            let groups = (self.group_count()..count).map(GroupNo);
            self.clusters
                .extend(groups.map(|group| self.place_cluster(group, metacluster)).collect());
        }
        self.groups.store(count, Ordering::Release);
        let free = units.saturating_add(more.into());
        self.counters.free_blocks.fetch_add(free, Ordering::AcqRel);
        self.counters.free_inodes.fetch_add(inodes, Ordering::AcqRel);
        self.counters.available.fetch_add(free, Ordering::AcqRel);
        Ok(())
    }

    /// Where the volume's own metadata is once it has these groups.
    fn metadata_with(
        &self,
        before: &Superblock,
        after: &Superblock,
        groups: &[GroupDescriptor],
    ) -> super::metadata::Metadata {
        let mut parts = MetadataParts::default();
        for (number, descriptor) in (before.group_count()..).zip(groups) {
            parts.add(after, GroupNo(number), descriptor);
        }
        self.metadata.joined(parts.merge())
    }
}
