//! The space of a volume: groups, their bitmaps and counters, and what is promised of them.
//!
//! ```text
//! blocks    allocation and freeing of blocks      inodes    the same for inode numbers
//! search    free runs in one bitmap               windows   blocks reserved for one inode
//! bitmaps   bitmaps come into memory              held      freed, not to be reused yet
//! metadata  where the volume's own blocks are     sweep     descriptors reach the disk
//! cut       a volume ends earlier                 claims    blocks and inodes by their numbers
//! trim      free blocks are given back       units     what one bit of a bitmap stands for
//! growth    more groups, while all is in use
//! ```
//!
//! *Invariants*: once loaded, a group's counters equal what its bitmaps say. `available`, the free
//! blocks of the volume minus those promised and those held back, is never negative. These counters
//! and what is promised are in [units] of the bitmaps: blocks but for bigalloc. No bit of the
//! volume's own metadata is ever cleared. `longest_free` is at least the longest free run, and
//! `longest_around` at least the longest one outside the group's cluster. A group that differs from
//! its descriptor in the cache is in `dirty`, and its bitmaps stay in memory.
//!
//! *Locking*: `superblock_lock`, which is sleeping, comes first, where a policy asks for it. Each
//! group's state is under a short lock, taken after its bitmaps were loaded (which waits). Group
//! locks are never nested. Under a group's lock may be taken: a frame, then `dirty`, `loaded` or
//! `windows`, which are last. `held.published` is taken on its own. `counters` and `published` are
//! read without a lock; what a group publishes changes under its lock.
mod bitmaps;
mod blocks;
mod claims;
mod cut;
mod growth;
mod held;
mod inodes;
mod metadata;
mod search;
mod sweep;
#[cfg(test)]
mod tests;
mod trim;
mod units;
mod windows;

use crate::cache::{BlockKind, Frame, GroupPlaces, Rollback};
use crate::error::{Error, Place, Result};
use crate::growing::{Growing, Versions};
use crate::ranks;
use crate::{Access, Store};
use bitmaps::BitmapKind;
use blocks::Clusters;
use extant_block::lock::SleepGuard;
use extant_block::{Apart, ShortLock, SleepLock};
use extant_format::group::GroupDescriptor;
use extant_format::{BlockNo, GroupNo, Ino, Run};
use extant_policy::allocation::{GroupShape, MapBlocks, Metacluster, WindowFacts};
use extant_policy::placement::GroupFacts;
use extant_policy::preset::{BitmapLoad, Growth};
pub use growth::Longer;
pub use held::{Freed, Reuse};
use held::{Held, HeldBits};
use metadata::{Metadata, MetadataParts};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use windows::Windows;

/// Which of the free blocks may be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// All of them.
    Whole,
    /// Those that leave as many as the superblock reserves.
    Unreserved,
}

/// Free blocks promised to one operation, in units of the bitmaps: blocks, with bigalloc clusters.
/// Those that it does not use are given back on drop.
pub struct Reservation<'a> {
    space: &'a Space,
    blocks: u64,
}

impl Reservation<'_> {
    /// How many of its blocks are not allocated yet.
    pub fn remaining(&self) -> u64 {
        self.blocks
    }

    /// Moves `blocks` of it (all, if it has fewer) over to delayed data, which gives them back with
    /// `Space::release_kept`.
    pub fn take(&mut self, blocks: u64) {
        debug_assert!(blocks <= self.blocks, "{blocks} blocks taken out of {}", self.blocks);
        self.space.counters.kept.fetch_add(blocks.min(self.blocks), Ordering::AcqRel);
        self.blocks = self.blocks.saturating_sub(blocks);
    }

    /// Promises `blocks` more.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn grow(&mut self, blocks: u64) -> Result<()> {
        self.space.promise(blocks)?;
        self.blocks = self.blocks.saturating_add(blocks);
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.space.take_back(self.blocks);
    }
}

/// One group in memory.
struct GroupState {
    /// Current values; the disk may have older ones.
    descriptor: GroupDescriptor,
    /// Loaded when first needed, like `inode_bitmap`.
    block_bitmap: Option<Arc<Frame>>,
    inode_bitmap: Option<Arc<Frame>>,
    /// No free run is longer, in blocks.
    longest_free: u32,
    /// The same, counting the group's cluster as used.
    longest_around: u32,
    /// No inode before this index is free, but for those held back.
    free_inodes_from: u32,
    /// Orlov's counter: rises with directories created here, falls with files.
    debt: u8,
    /// Whether the group is in `Space::dirty`.
    is_listed: bool,
    /// Whether the checksum of the block bitmap has to be computed when the group is stored.
    blocks_changed: bool,
    /// The same for the inode bitmap.
    inodes_changed: bool,
    /// Blocks and inodes that were freed and must not be allocated yet.
    held_blocks: HeldBits,
    held_inodes: HeldBits,
}

impl GroupState {
    fn new(descriptor: GroupDescriptor) -> GroupState {
        GroupState {
            longest_free: descriptor.free_blocks,
            longest_around: descriptor.free_blocks,
            descriptor,
            block_bitmap: None,
            inode_bitmap: None,
            free_inodes_from: 0,
            debt: 0,
            is_listed: false,
            blocks_changed: false,
            inodes_changed: false,
            held_blocks: HeldBits::default(),
            held_inodes: HeldBits::default(),
        }
    }

    /// Free blocks that are not held back.
    fn free_to_give(&self) -> u32 {
        self.descriptor.free_blocks.saturating_sub(self.held_blocks.count())
    }

    /// Raises the bounds after `length` blocks became free: at worst they joined two of the longest
    /// runs. The next search finds the true length.
    fn may_have_joined(&mut self, length: u32) {
        for clusters in [Clusters::Open, Clusters::Closed] {
            let longest = self.longest(clusters);
            *longest = longest.saturating_mul(2).saturating_add(length);
        }
    }

    /// The bound on the longest free run.
    fn longest(&mut self, clusters: Clusters) -> &mut u32 {
        match clusters {
            Clusters::Open => &mut self.longest_free,
            Clusters::Closed => &mut self.longest_around,
        }
    }
}

/// What placement asks about a group, as its last change left it.
struct Published {
    free_blocks: AtomicU32,
    free_inodes: AtomicU32,
    directories: AtomicU32,
    debt: AtomicU8,
}

impl Published {
    fn of(state: &GroupState) -> Published {
        let GroupState { descriptor, debt, .. } = state;
        Published {
            free_blocks: AtomicU32::new(descriptor.free_blocks),
            free_inodes: AtomicU32::new(descriptor.free_inodes),
            directories: AtomicU32::new(descriptor.used_directories),
            debt: AtomicU8::new(*debt),
        }
    }

    /// Called with the group locked.
    fn publish(&self, state: &GroupState) {
        let GroupState { descriptor, debt, .. } = state;
        self.free_blocks.store(descriptor.free_blocks, Ordering::Relaxed);
        self.free_inodes.store(descriptor.free_inodes, Ordering::Relaxed);
        self.directories.store(descriptor.used_directories, Ordering::Relaxed);
        self.debt.store(*debt, Ordering::Relaxed);
    }
}

/// Counters of the whole volume, which every operation changes.
struct Counters {
    /// Free blocks that are not promised: new promises are made from them.
    available: AtomicU64,
    /// Free blocks that are promised.
    reserved: AtomicU64,
    /// Those of them that are promised to delayed data.
    kept: AtomicU64,
    /// The sum of the free blocks of all descriptors; changes together with them.
    free_blocks: AtomicU64,
    free_inodes: AtomicU64,
    directories: AtomicU64,
}

/// The space of a volume: all its groups.
pub struct Space {
    store: Arc<Store>,
    /// Held while bitmaps are loaded and searched, if the policy says so: the lock that the posts
    /// are about.
    superblock_lock: SleepLock<()>,
    states: Growing<ShortLock<GroupState>>,
    /// How many groups there are for everybody: `states` gets its items before.
    groups: AtomicU32,
    /// What placement asks about each group: read without its lock, so that it may be a moment old.
    published: Growing<Published>,
    /// Where the inode table of each group begins, which never changes.
    tables: Growing<BlockNo>,
    metadata: Versions<Metadata>,
    counters: Apart<Counters>,
    /// Groups to be stored, each listed once.
    dirty: ShortLock<Vec<GroupNo>>,
    /// Groups that have a bitmap in memory, each listed once, in the order of loading.
    loaded: ShortLock<VecDeque<GroupNo>>,
    /// Blocks reserved for one inode each.
    windows: ShortLock<Windows>,
    /// Inodes that have blocks in hand: see `mapping::window`.
    in_hand: AtomicU32,
    /// Whether inodes without a window have to keep out of the others' windows too.
    windows_bind_all: AtomicBool,
    /// The cluster of each group, as a range of its bits. Empty where map blocks are placed among
    /// the data.
    clusters: Growing<Range<u32>>,
    /// What was freed and must not be allocated yet.
    held: Held,
    /// log2 of the blocks that one bit of a bitmap stands for.
    unit_log2: u32,
}

impl Space {
    /// Reads and verifies all descriptors. Bitmaps are loaded when first needed.
    ///
    /// # Errors
    /// `Corrupt` for a descriptor; what the device returns.
    pub fn open(store: &Arc<Store>) -> Result<Space> {
        let superblock = &store.superblock;
        let (mut blocks, mut inodes, mut directories) = (0u64, 0u64, 0u64);
        let (mut states, mut tables, mut published) = (Vec::new(), Vec::new(), Vec::new());
        let mut metadata = MetadataParts::default();
        each_descriptor(store, |group, descriptor| {
            // Impossible counts are reported when the bitmap is loaded for a change. Until then
            // they must not distort the sums.
            let free = u64::from(descriptor.free_blocks.min(superblock.group_bits(group)));
            blocks += free;
            inodes += u64::from(descriptor.free_inodes.min(superblock.inodes_per_group));
            directories += u64::from(descriptor.used_directories.min(superblock.inodes_per_group));
            metadata.add(superblock, group, &descriptor);
            tables.push(descriptor.inode_table);
            let state = GroupState::new(descriptor);
            published.push(Published::of(&state));
            states.push(ShortLock::ranked(ranks::GROUP, state));
        })?;
        let mut space = Space {
            metadata: Versions::new(metadata.merge()),
            groups: AtomicU32::new(superblock.group_count()),
            states: Growing::new(states),
            published: Growing::new(published),
            tables: Growing::new(tables),
            store: Arc::clone(store),
            superblock_lock: SleepLock::new(Arc::clone(&store.clock), ()).ranked(ranks::SUPERBLOCK),
            counters: Apart(Counters {
                available: AtomicU64::new(blocks),
                reserved: AtomicU64::new(0),
                kept: AtomicU64::new(0),
                free_blocks: AtomicU64::new(blocks),
                free_inodes: AtomicU64::new(inodes),
                directories: AtomicU64::new(directories),
            }),
            dirty: ShortLock::ranked(ranks::LAST, Vec::new()),
            loaded: ShortLock::ranked(ranks::LAST, VecDeque::new()),
            windows: ShortLock::ranked(ranks::LAST, Windows::default()),
            in_hand: AtomicU32::new(0),
            windows_bind_all: AtomicBool::new(store.policies.growth == Growth::Reservation),
            clusters: Growing::new(Vec::new()),
            held: Held::default(),
            // More than a number of blocks can have is in no volume.
            unit_log2: superblock.cluster_log2().min(u32::BITS - 1),
        };
        space.set_map_blocks(store.policies.map_blocks);
        if store.updates_softly() {
            space.prepare_rollback();
        }
        Ok(space)
    }

    /// Tells the cache where tables and bitmaps are: with soft updates it may have to write them
    /// without some of their changes.
    fn prepare_rollback(&self) {
        let superblock = &self.store.superblock;
        let per_group = superblock.inodes_per_group;
        let groups = self.states.iter().zip(0u32..).map(|(state, group)| {
            let descriptor = &state.lock().descriptor;
            GroupPlaces {
                // Fits: the number of inodes is groups times inodes_per_group, and fits.
                first: Ino(group * per_group + 1),
                table: descriptor.inode_table,
                inode_bitmap: descriptor.inode_bitmap,
                block_bitmap: descriptor.block_bitmap,
            }
        });
        let rollback = Rollback::new(superblock, self.store.style, groups);
        // It is set once, when the volume is opened.
        let _ = self.store.cache.rollback.set(rollback);
    }

    /// Takes the lock under which bitmaps are loaded, if the policy says so.
    fn lock_superblock(&self) -> Option<SleepGuard<'_, ()>> {
        match self.store.policies.bitmap_load {
            BitmapLoad::UnderLock => Some(self.superblock_lock.lock()),
            BitmapLoad::Outside => None,
        }
    }

    /// Computes the clusters, if map blocks go to clusters.
    fn set_map_blocks(&mut self, map_blocks: MapBlocks) {
        let MapBlocks::Metacluster(metacluster) = map_blocks else {
            self.clusters = Growing::new(Vec::new());
            return;
        };
        let groups = (0..self.group_count()).map(GroupNo);
        let clusters = groups.map(|group| self.place_cluster(group, metacluster)).collect();
        self.clusters = Growing::new(clusters);
    }

    /// Where a group's cluster is, as a range of its bits.
    fn place_cluster(&self, group: GroupNo, metacluster: Metacluster) -> Range<u32> {
        let front = self.metadata_bits(group).next().filter(|(first, _)| *first == 0);
        metacluster.place(GroupShape {
            blocks: self.limit(group, BitmapKind::Blocks),
            front: front.map_or(0, |(_, length)| length),
        })
    }

    /// A group's cluster, as a range of its bits.
    fn cluster(&self, group: GroupNo) -> Option<Range<u32>> {
        self.clusters.get(group.0 as usize).cloned()
    }

    /// Whether a block is in its group's cluster.
    pub fn is_in_cluster(&self, block: BlockNo) -> bool {
        let Some(group) = self.store.superblock.group_of_block(block) else {
            return false;
        };
        let bit = self.bit(group, block);
        self.cluster(group)
            .is_some_and(|cluster| (u64::from(cluster.start)..cluster.end.into()).contains(&bit))
    }

    /// No free run of a group is longer than this, in blocks. 0 if the group has no more free
    /// blocks than its cluster, and the search goes around it.
    fn room(&self, group: GroupNo, clusters: Clusters) -> u32 {
        let mut state = self.state(group).lock();
        let free = state.free_to_give();
        let cluster = self.cluster(group).filter(|_| clusters == Clusters::Closed);
        if cluster.is_some_and(|cluster| free <= cluster.end - cluster.start) {
            return 0;
        }
        (*state.longest(clusters)).min(free)
    }

    /// A mistake for tests: the counter of a group is one too high.
    #[cfg(any(test, feature = "testing"))]
    pub fn miscount(&self, group: GroupNo) {
        self.state(group).lock().descriptor.free_blocks += 1;
    }

    /// A mistake for tests: nothing of a group is in use any more.
    #[cfg(any(test, feature = "testing"))]
    pub fn forget_bits(&self, group: GroupNo) {
        let frame = self.state(group).lock().block_bitmap.clone();
        let _ = self.store.change(1, |handle| {
            frame.iter().for_each(|frame| handle.modify(frame, |bytes| bytes.fill(0)));
            Ok(())
        });
    }

    /// How many groups there are.
    pub fn group_count(&self) -> u32 {
        self.groups.load(Ordering::Acquire)
    }

    /// # Panics
    /// If there is no such group.
    fn state(&self, group: GroupNo) -> &ShortLock<GroupState> {
        self.states.get(group.0 as usize).expect("a group of the volume")
    }

    /// A copy of the descriptor with its current values.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn descriptor(&self, group: GroupNo) -> GroupDescriptor {
        self.state(group).lock().descriptor
    }

    /// The first block of a group's inode table. Takes no lock.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn inode_table(&self, group: GroupNo) -> BlockNo {
        *self.tables.get(group.0 as usize).expect("a group of the volume")
    }

    /// Promises `blocks` to an operation. This is where ENOSPC is decided.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn reserve(&self, blocks: u64) -> Result<Reservation<'_>> {
        self.promise(blocks)?;
        Ok(Reservation { space: self, blocks })
    }

    /// As [`Space::reserve`], for one who may take this much.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn reserve_within(&self, blocks: u64, room: Room) -> Result<Reservation<'_>> {
        self.promise_within(blocks, room)?;
        Ok(Reservation { space: self, blocks })
    }

    fn promise(&self, blocks: u64) -> Result<()> {
        self.promise_within(blocks, Room::Whole)
    }

    fn promise_within(&self, blocks: u64, room: Room) -> Result<()> {
        let stays = match room {
            // What takes nothing is never refused.
            Room::Unreserved if blocks > 0 => self.units(self.store.superblock.reserved_blocks),
            _ => 0,
        };
        self.counters
            .available
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |available| {
                available.checked_sub(blocks).filter(|left| *left >= stays)
            })
            .map_err(|_| match stays {
                0 => self.no_space(self.blocks_of(blocks)),
                _ => self.no_unreserved_space(self.blocks_of(blocks), stays),
            })?;
        self.counters.reserved.fetch_add(blocks, Ordering::AcqRel);
        Ok(())
    }

    /// Gives promised blocks back that were taken out of a reservation.
    pub fn release_kept(&self, blocks: u64) {
        self.end_keeping(blocks);
        self.take_back(blocks);
    }

    /// Turns blocks that were taken (delayed) into a reservation again, to be used by `allocate`.
    pub fn adopt(&self, blocks: u64) -> Reservation<'_> {
        self.end_keeping(blocks);
        Reservation { space: self, blocks }
    }

    fn end_keeping(&self, blocks: u64) {
        let kept = self.counters.kept.fetch_sub(blocks, Ordering::AcqRel);
        debug_assert!(blocks <= kept, "{blocks} blocks given back of {kept} that are kept");
    }

    fn take_back(&self, blocks: u64) {
        let reserved = self.counters.reserved.fetch_sub(blocks, Ordering::AcqRel);
        debug_assert!(
            blocks <= reserved,
            "{blocks} blocks given back of {reserved} that are promised"
        );
        self.counters.available.fetch_add(blocks, Ordering::AcqRel);
    }

    /// Blocks that are promised to delayed data and its maps, on the whole volume.
    pub fn kept(&self) -> u64 {
        self.counters.kept.load(Ordering::Acquire)
    }

    /// Moves blocks from promised to allocated.
    fn used(&self, reservation: &mut Reservation<'_>, blocks: u32) {
        reservation.blocks = reservation.blocks.saturating_sub(blocks.into());
        self.counters.reserved.fetch_sub(blocks.into(), Ordering::AcqRel);
    }

    /// Free blocks on the volume, promised and held ones included; free inodes; directories.
    pub fn totals(&self) -> Totals {
        let reserved = self.counters.reserved.load(Ordering::Acquire);
        let narrow =
            |count: &AtomicU64| u32::try_from(count.load(Ordering::Acquire)).unwrap_or(u32::MAX);
        Totals {
            free_blocks: self.blocks_of(
                self.counters
                    .available
                    .load(Ordering::Acquire)
                    .saturating_add(reserved)
                    .saturating_add(self.held.blocks.load(Ordering::Acquire)),
            ),
            reserved_blocks: self.blocks_of(reserved),
            free_inodes: narrow(&self.counters.free_inodes),
            directories: narrow(&self.counters.directories),
        }
    }

    /// Size and hits of an inode's window, if it has one.
    pub fn window(&self, owner: Ino) -> Option<WindowFacts> {
        self.windows.lock().facts(owner)
    }

    /// Drops an inode's window: its free blocks may be allocated to any inode again.
    pub fn close_window(&self, owner: Ino) {
        self.windows.lock().close(owner);
    }

    /// How many inodes have blocks in hand, which are marked in use but belong to no file yet.
    pub fn inodes_in_hand(&self) -> u32 {
        self.in_hand.load(Ordering::Relaxed)
    }

    /// Counts an inode that had `before` in hand and has `now`.
    pub fn count_in_hand(&self, before: Option<Run>, now: Option<Run>) {
        match (before, now) {
            (None, Some(_)) => self.in_hand.fetch_add(1, Ordering::Relaxed),
            (Some(_), None) => self.in_hand.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
    }

    /// What placement policies ask about a group, as its last change left it. Takes no lock.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn facts(&self, group: GroupNo) -> GroupFacts {
        let published = self.published.get(group.0 as usize).expect("a group of the volume");
        let (blocks, inodes) = (&published.free_blocks, &published.free_inodes);
        GroupFacts {
            free_blocks: blocks.load(Ordering::Relaxed).min(self.limit(group, BitmapKind::Blocks))
                << self.unit_log2,
            free_inodes: inodes.load(Ordering::Relaxed).min(self.limit(group, BitmapKind::Inodes)),
            directories: published.directories.load(Ordering::Relaxed),
            debt: published.debt.load(Ordering::Relaxed),
        }
    }

    /// Notes that a bitmap, and with it the descriptor, was changed.
    fn changed(&self, group: GroupNo, state: &mut GroupState, bitmap: BitmapKind) {
        match bitmap {
            BitmapKind::Blocks => state.blocks_changed = true,
            BitmapKind::Inodes => state.inodes_changed = true,
        }
        self.list(group, state);
    }

    /// Has placement see a group as it is now, and lists it to be stored.
    fn list(&self, group: GroupNo, state: &mut GroupState) {
        if let Some(published) = self.published.get(group.0 as usize) {
            published.publish(state);
        }
        if !state.is_listed {
            state.is_listed = true;
            self.dirty.lock().push(group);
        }
    }
}

/// Visits all descriptors, block by block. A descriptor of zeros is an error, so this ends at the
/// end of the descriptors even if the superblock claims more groups.
fn each_descriptor(store: &Store, mut visit: impl FnMut(GroupNo, GroupDescriptor)) -> Result<()> {
    let superblock = &store.superblock;
    let mut current: Option<(BlockNo, Arc<Vec<u8>>)> = None;
    for group in (0..superblock.group_count()).map(GroupNo) {
        let (block, offset) = superblock.descriptor_place(group);
        let bytes = match &current {
            Some((at, bytes)) if *at == block => bytes,
            _ => &current.insert((block, store.cache.read(block, BlockKind::Plain)?.bytes())).1,
        };
        let end = offset.saturating_add(superblock.descriptor_size.into());
        let bytes = bytes.get(offset..end).unwrap_or_default();
        let descriptor = match GroupDescriptor::parse(bytes, group, superblock) {
            Ok(descriptor) => descriptor,
            Err(fault) => from_copy(store, group, offset..end)
                .ok_or_else(|| Error::corrupt(Place::Group(group), fault))?,
        };
        visit(group, descriptor);
    }
    Ok(())
}

/// A descriptor from one of the copies that meta_bg keeps, for a volume that is only read.
fn from_copy(store: &Store, group: GroupNo, at: Range<usize>) -> Option<GroupDescriptor> {
    if store.access == Access::ReadWrite {
        return None;
    }
    store.superblock.descriptor_copies(group).find_map(|block| {
        let bytes = store.cache.read(block, BlockKind::Plain).ok()?.bytes();
        GroupDescriptor::parse(bytes.get(at.clone())?, group, &store.superblock).ok()
    })
}

/// Sums over all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Free blocks, including those promised or held back.
    pub free_blocks: u64,
    /// Promised blocks.
    pub reserved_blocks: u64,
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories.
    pub directories: u32,
}

/// What an inode is allocated for; a group counts its directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InodeKind {
    /// A directory.
    Directory,
    /// Anything else.
    Other,
}
