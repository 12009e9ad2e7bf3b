//! Bitmaps come into memory: read and verified, or made if the disk never had them.
//!
//! A bitmap is accepted only if its checksum, its padding, its count of free bits and (for blocks)
//! the volume's own metadata agree with the descriptor. The bitmap of a group that is marked
//! uninitialised is never read: it follows from where the metadata is. It is made in memory, and
//! the mark removed, at the first change.
use super::{GroupState, Space};
use crate::cache::{BlockKind, Frame};
use crate::error::{Error, Place, Result};
use crate::handle::Handle;
use extant_block::lock::ShortGuard;
use extant_format::bitmap::{count_clear, next_clear, set_run};
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::{BlockNo, Fault, GroupNo};
use std::sync::Arc;

/// One of a group's two bitmaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BitmapKind {
    Blocks,
    Inodes,
}

impl BitmapKind {
    fn structure(self) -> &'static str {
        match self {
            BitmapKind::Blocks => "block bitmap",
            BitmapKind::Inodes => "inode bitmap",
        }
    }
    fn place(self, descriptor: &GroupDescriptor) -> BlockNo {
        match self {
            BitmapKind::Blocks => descriptor.block_bitmap,
            BitmapKind::Inodes => descriptor.inode_bitmap,
        }
    }
    fn uninitialised(self) -> u16 {
        match self {
            BitmapKind::Blocks => BLOCK_UNINIT,
            BitmapKind::Inodes => INODE_UNINIT,
        }
    }
    fn free(self, descriptor: &GroupDescriptor) -> u32 {
        match self {
            BitmapKind::Blocks => descriptor.free_blocks,
            BitmapKind::Inodes => descriptor.free_inodes,
        }
    }
}

impl GroupState {
    pub(super) fn slot(&mut self, bitmap: BitmapKind) -> &mut Option<Arc<Frame>> {
        match bitmap {
            BitmapKind::Blocks => &mut self.block_bitmap,
            BitmapKind::Inodes => &mut self.inode_bitmap,
        }
    }
    /// Whether the disk never had this bitmap.
    pub(super) fn is_uninitialised(&self, bitmap: BitmapKind) -> bool {
        self.descriptor.flags & bitmap.uninitialised() != 0
    }
}

/// How many groups without changes keep their bitmaps in memory; the cache alone decides about the
/// others. Few in tests, so that some are evicted there.
const LOADED_MAX: usize = if cfg!(test) { 4 } else { 1024 };

impl Space {
    /// How many bits of a group's bitmap are in use; the rest is padding. Those of blocks stand for
    /// clusters with bigalloc.
    pub(super) fn limit(&self, group: GroupNo, bitmap: BitmapKind) -> u32 {
        match bitmap {
            // As group_bits of the superblock, which works out the clusters each time.
            BitmapKind::Blocks => self.units_of(self.store.superblock.group_length(group)),
            BitmapKind::Inodes => self.store.superblock.inodes_per_group,
        }
    }

    /// Locks the group, with the bitmap in memory and ready to be changed: made, if the disk never
    /// had it.
    pub(super) fn lock_to_change(
        &self,
        handle: &Handle<'_>,
        group: GroupNo,
        bitmap: BitmapKind,
    ) -> Result<(ShortGuard<'_, GroupState>, Arc<Frame>)> {
        let state = self.load_to_change(handle, self.state(group).lock(), group, bitmap)?;
        self.ready_to_change(handle, state, group, bitmap)
    }

    /// As `load_locked`, and the bitmap may be changed at once. The group is unlocked while that
    /// has to wait.
    pub(super) fn load_to_change<'s>(
        &'s self,
        handle: &Handle<'_>,
        state: ShortGuard<'s, GroupState>,
        group: GroupNo,
        bitmap: BitmapKind,
    ) -> Result<ShortGuard<'s, GroupState>> {
        let mut state = self.load_locked(state, group, bitmap)?;
        while let Some(frame) = state.slot(bitmap).clone().filter(|frame| handle.has_to_wait(frame))
        {
            drop(state);
            handle.wait_for_log(&frame);
            state = self.lock_loaded(group, bitmap)?;
        }
        Ok(state)
    }

    /// As `lock_to_change`, for a group that `load_to_change` has locked.
    pub(super) fn ready_to_change<'s>(
        &'s self,
        handle: &Handle<'_>,
        mut state: ShortGuard<'s, GroupState>,
        group: GroupNo,
        bitmap: BitmapKind,
    ) -> Result<(ShortGuard<'s, GroupState>, Arc<Frame>)> {
        let frame = match state.slot(bitmap) {
            Some(frame) => Arc::clone(frame),
            None => self.make(handle, &mut state, group, bitmap)?,
        };
        Ok((state, frame))
    }

    /// Locks the group, with the bitmap in memory unless it is marked uninitialised.
    pub(super) fn lock_loaded(
        &self,
        group: GroupNo,
        bitmap: BitmapKind,
    ) -> Result<ShortGuard<'_, GroupState>> {
        self.load_locked(self.state(group).lock(), group, bitmap)
    }

    /// As `lock_loaded`, for a group that is locked. It is unlocked while the bitmap is read.
    pub(super) fn load_locked<'s>(
        &'s self,
        mut state: ShortGuard<'s, GroupState>,
        group: GroupNo,
        bitmap: BitmapKind,
    ) -> Result<ShortGuard<'s, GroupState>> {
        if state.slot(bitmap).is_some() || state.is_uninitialised(bitmap) {
            return Ok(state);
        }
        let block = bitmap.place(&state.descriptor);
        drop(state);
        self.let_go_of_some();
        let frame = self.store.cache.read(block, BlockKind::Plain)?;
        let mut state = self.state(group).lock();
        // Another thread may have loaded and changed the bitmap in the meantime. Then the
        // descriptor's checksum no longer matches the bytes that were read.
        if state.slot(bitmap).is_none() && !state.is_uninitialised(bitmap) {
            self.verify(group, &state.descriptor, bitmap, &frame.bytes())?;
            self.keep(&mut state, group, bitmap, frame);
        }
        Ok(state)
    }

    /// The bitmap's current bytes, for reading. For an uninitialised group, what they would be.
    pub(super) fn look(&self, group: GroupNo, bitmap: BitmapKind) -> Result<Arc<Vec<u8>>> {
        let mut state = self.lock_loaded(group, bitmap)?;
        Ok(match state.slot(bitmap) {
            Some(frame) => frame.bytes(),
            None => Arc::new(self.uninitialised(group, bitmap)),
        })
    }

    fn keep(&self, state: &mut GroupState, group: GroupNo, bitmap: BitmapKind, frame: Arc<Frame>) {
        if state.block_bitmap.is_none() && state.inode_bitmap.is_none() {
            self.loaded.lock().push_back(group);
        }
        *state.slot(bitmap) = Some(frame);
    }

    /// Drops the bitmaps of a few groups, those loaded first, unless the group is still to be
    /// stored.
    fn let_go_of_some(&self) {
        for _ in 0..4 {
            let oldest = {
                let mut loaded = self.loaded.lock();
                if loaded.len() < LOADED_MAX {
                    return;
                }
                loaded.pop_front()
            };
            let Some(oldest) = oldest else { return };
            let mut state = self.state(oldest).lock();
            if state.is_listed {
                self.loaded.lock().push_back(oldest);
            } else {
                state.block_bitmap = None;
                state.inode_bitmap = None;
            }
        }
    }

    /// Makes the bitmap of an uninitialised group and removes the mark.
    fn make(
        &self,
        handle: &Handle<'_>,
        state: &mut GroupState,
        group: GroupNo,
        bitmap: BitmapKind,
    ) -> Result<Arc<Frame>> {
        let bytes = self.uninitialised(group, bitmap);
        self.verify_count(group, &state.descriptor, bitmap, &bytes)?;
        let block = bitmap.place(&state.descriptor);
        let frame = handle.overwrite(block, |target| target.copy_from_slice(&bytes));
        self.keep(state, group, bitmap, Arc::clone(&frame));
        state.descriptor.flags &= !bitmap.uninitialised();
        if bitmap == BitmapKind::Inodes {
            state.descriptor.unused_inodes = self.store.superblock.inodes_per_group;
        }
        self.changed(group, state, bitmap);
        Ok(frame)
    }

    /// Makes the block bitmap of an uninitialised group, which is locked. As in the kernel, a group
    /// with inodes gets a block bitmap too.
    pub(super) fn initialise_blocks(
        &self,
        handle: &Handle<'_>,
        state: &mut GroupState,
        group: GroupNo,
    ) -> Result<()> {
        if state.is_uninitialised(BitmapKind::Blocks) {
            self.make(handle, state, group, BitmapKind::Blocks)?;
        }
        Ok(())
    }

    /// The bitmap of a group in which only the volume's own metadata is in use.
    pub(super) fn uninitialised(&self, group: GroupNo, bitmap: BitmapKind) -> Vec<u8> {
        let bits = self.store.superblock.block_size().saturating_mul(8);
        let limit = self.limit(group, bitmap);
        let mut bytes = vec![0; self.store.superblock.block_size() as usize];
        let _ = set_run(&mut bytes, limit, bits.saturating_sub(limit));
        if bitmap == BitmapKind::Blocks {
            for (first, length) in self.metadata_bits(group) {
                let _ = set_run(&mut bytes, first, length);
            }
        }
        bytes
    }

    /// The volume's own metadata in a group, as (first bit, length).
    pub(super) fn metadata_bits(&self, group: GroupNo) -> impl Iterator<Item = (u32, u32)> + '_ {
        let start = self.store.superblock.group_start(group).0;
        let blocks = start..start.saturating_add(self.store.superblock.group_length(group).into());
        let log2 = self.store.superblock.cluster_log2();
        // Both fit: they are clipped to one group.
        self.metadata.within(blocks).map(move |range| {
            let first = (range.start - start) >> log2;
            let end = (range.end - start).div_ceil(1 << log2);
            (first as u32, (end - first) as u32)
        })
    }

    fn verify(
        &self,
        group: GroupNo,
        descriptor: &GroupDescriptor,
        bitmap: BitmapKind,
        bytes: &[u8],
    ) -> Result<()> {
        self.verify_checksum(group, descriptor, bitmap, bytes)?;
        let bits = self.store.superblock.block_size().saturating_mul(8);
        if let Some(bit) = next_clear(bytes, self.limit(group, bitmap), bits) {
            return Err(wrong(group, bitmap, "padding bit", bit, "not set"));
        }
        if bitmap == BitmapKind::Blocks {
            for (first, length) in self.metadata_bits(group) {
                if let Some(bit) = next_clear(bytes, first, first.saturating_add(length)) {
                    return Err(wrong(group, bitmap, "block of metadata", bit, "marked free"));
                }
            }
        }
        self.verify_count(group, descriptor, bitmap, bytes)
    }

    fn verify_count(
        &self,
        group: GroupNo,
        descriptor: &GroupDescriptor,
        bitmap: BitmapKind,
        bytes: &[u8],
    ) -> Result<()> {
        let free = count_clear(bytes, self.limit(group, bitmap));
        if free == bitmap.free(descriptor) {
            return Ok(());
        }
        Err(wrong(group, bitmap, "count of free bits", free, "not what the descriptor says"))
    }

    fn verify_checksum(
        &self,
        group: GroupNo,
        descriptor: &GroupDescriptor,
        bitmap: BitmapKind,
        bytes: &[u8],
    ) -> Result<()> {
        let mut sealed = *descriptor;
        let (stored, computed) = match bitmap {
            BitmapKind::Blocks => {
                sealed.seal_block_bitmap(bytes, &self.store.superblock);
                (descriptor.block_bitmap_checksum, sealed.block_bitmap_checksum)
            }
            BitmapKind::Inodes => {
                sealed.seal_inode_bitmap(bytes, &self.store.superblock);
                (descriptor.inode_bitmap_checksum, sealed.inode_bitmap_checksum)
            }
        };
        if stored == computed
            || !self.store.superblock.has(extant_format::superblock::Feature::METADATA_CSUM)
        {
            return Ok(());
        }
        Err(Error::corrupt(
            Place::Group(group),
            Fault::Checksum { structure: bitmap.structure(), stored, computed },
        ))
    }
}

/// The error for a bitmap with an impossible value.
pub(super) fn wrong(
    group: GroupNo,
    bitmap: BitmapKind,
    field: &'static str,
    value: u32,
    reason: &'static str,
) -> Error {
    Error::field(Place::Group(group), bitmap.structure(), field, value.into(), reason)
}
