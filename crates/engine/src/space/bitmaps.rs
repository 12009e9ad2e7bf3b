//! Bitmaps come into memory: read and verified, or made where the disk never had them.
//!
//! A bitmap is believed only if its checksum, its padding, its count of free bits and (for blocks)
//! the volume's own metadata agree with what the descriptor says. A group that is marked
//! uninitialised is never read: its bitmap follows from where metadata lies. It is made in memory,
//! and the mark taken away, at the first change.
use super::{GroupState, Space};
use crate::error::{Error, Place, Result};
use crate::store::cache::{Frame, Kind};
use crate::store::handle::Handle;
use extant_block::lock::ShortGuard;
use extant_format::bitmap::{count_clear, next_clear, set_run};
use extant_format::group::{BLOCK_UNINIT, GroupDescriptor, INODE_UNINIT};
use extant_format::{BlockNo, Fault, GroupNo};
use std::sync::Arc;

/// Which of a group's two bitmaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    Blocks,
    Inodes,
}

impl Which {
    fn structure(self) -> &'static str {
        match self {
            Which::Blocks => "block bitmap",
            Which::Inodes => "inode bitmap",
        }
    }
    fn place(self, descriptor: &GroupDescriptor) -> BlockNo {
        match self {
            Which::Blocks => descriptor.block_bitmap,
            Which::Inodes => descriptor.inode_bitmap,
        }
    }
    fn uninitialised(self) -> u16 {
        match self {
            Which::Blocks => BLOCK_UNINIT,
            Which::Inodes => INODE_UNINIT,
        }
    }
    fn free(self, descriptor: &GroupDescriptor) -> u32 {
        match self {
            Which::Blocks => descriptor.free_blocks,
            Which::Inodes => descriptor.free_inodes,
        }
    }
}

impl GroupState {
    fn slot(&mut self, which: Which) -> &mut Option<Arc<Frame>> {
        match which {
            Which::Blocks => &mut self.block_bitmap,
            Which::Inodes => &mut self.inode_bitmap,
        }
    }
    /// Whether the disk never had this bitmap.
    pub(super) fn is_uninitialised(&self, which: Which) -> bool {
        self.descriptor.flags & which.uninitialised() != 0
    }
}

/// Groups whose bitmaps are kept in memory beyond the cache's own judgement: at most so many that
/// have nothing to store. (Few in tests, so that they are let go of there.)
const LOADED_MAX: usize = if cfg!(test) { 4 } else { 1024 };

impl Space {
    /// How many bits of a group's bitmap mean something.
    pub(super) fn limit(&self, group: GroupNo, which: Which) -> u32 {
        match which {
            Which::Blocks => self.store.superblock.group_length(group),
            Which::Inodes => self.store.superblock.inodes_per_group,
        }
    }

    /// Takes the group's lock with the bitmap in memory, ready to be changed: made, if the disk
    /// never had it.
    pub(super) fn lock_to_change(
        &self,
        handle: &Handle<'_>,
        group: GroupNo,
        which: Which,
    ) -> Result<(ShortGuard<'_, GroupState>, Arc<Frame>)> {
        let mut state = self.lock_loaded(group, which)?;
        let frame = match state.slot(which) {
            Some(frame) => Arc::clone(frame),
            None => self.make(handle, &mut state, group, which)?,
        };
        Ok((state, frame))
    }

    /// Takes the group's lock with the bitmap in memory, unless the group is marked uninitialised.
    pub(super) fn lock_loaded(
        &self,
        group: GroupNo,
        which: Which,
    ) -> Result<ShortGuard<'_, GroupState>> {
        let mut state = self.state(group).lock();
        if state.slot(which).is_some() || state.is_uninitialised(which) {
            return Ok(state);
        }
        let block = which.place(&state.descriptor);
        drop(state);
        self.let_go_of_some();
        let frame = self.store.cache.read(block, Kind::Plain)?;
        let mut state = self.state(group).lock();
        // Somebody may have loaded, and changed, it meanwhile: then the descriptor's checksum is
        // not that of the bytes.
        if state.slot(which).is_none() && !state.is_uninitialised(which) {
            self.verify(group, &state.descriptor, which, &frame.bytes())?;
            self.keep(&mut state, group, which, frame);
        }
        Ok(state)
    }

    /// The bitmap's bytes as they are now, for looking. Of an uninitialised group: as they would
    /// be.
    pub(super) fn look(&self, group: GroupNo, which: Which) -> Result<Arc<Vec<u8>>> {
        let mut state = self.lock_loaded(group, which)?;
        Ok(match state.slot(which) {
            Some(frame) => frame.bytes(),
            None => Arc::new(self.uninitialised(group, which)),
        })
    }

    fn keep(&self, state: &mut GroupState, group: GroupNo, which: Which, frame: Arc<Frame>) {
        if state.block_bitmap.is_none() && state.inode_bitmap.is_none() {
            self.loaded.lock().push_back(group);
        }
        *state.slot(which) = Some(frame);
    }

    /// Leaves bitmaps of a few groups to the cache, those loaded first: not of groups whose
    /// checksums are still to be stored.
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

    /// Makes the bitmap of an uninitialised group and takes its mark away.
    fn make(
        &self,
        handle: &Handle<'_>,
        state: &mut GroupState,
        group: GroupNo,
        which: Which,
    ) -> Result<Arc<Frame>> {
        let bytes = self.uninitialised(group, which);
        self.verify_count(group, &state.descriptor, which, &bytes)?;
        let block = which.place(&state.descriptor);
        let frame = handle.overwrite(block, |target| target.copy_from_slice(&bytes));
        self.keep(state, group, which, Arc::clone(&frame));
        state.descriptor.flags &= !which.uninitialised();
        if which == Which::Inodes {
            state.descriptor.unused_inodes = self.store.superblock.inodes_per_group;
        }
        self.changed(group, state, which);
        Ok(frame)
    }

    /// Makes the block bitmap of an uninitialised group whose lock is held: once inodes live in a
    /// group, its block bitmap is written too, as the kernel does.
    pub(super) fn initialise_blocks(
        &self,
        handle: &Handle<'_>,
        state: &mut GroupState,
        group: GroupNo,
    ) -> Result<()> {
        if state.is_uninitialised(Which::Blocks) {
            self.make(handle, state, group, Which::Blocks)?;
        }
        Ok(())
    }

    /// The bits of a group in which nothing but the volume's own metadata is in use.
    fn uninitialised(&self, group: GroupNo, which: Which) -> Vec<u8> {
        let bits = self.store.superblock.block_size().saturating_mul(8);
        let limit = self.limit(group, which);
        let mut bytes = vec![0; self.store.superblock.block_size() as usize];
        let _ = set_run(&mut bytes, limit, bits.saturating_sub(limit));
        if which == Which::Blocks {
            for (first, length) in self.metadata_bits(group) {
                let _ = set_run(&mut bytes, first, length);
            }
        }
        bytes
    }

    /// The volume's own metadata in a group, as (first bit, length).
    pub(super) fn metadata_bits(&self, group: GroupNo) -> impl Iterator<Item = (u32, u32)> + '_ {
        let start = self.store.superblock.group_start(group).0;
        let blocks = start..start.saturating_add(self.limit(group, Which::Blocks).into());
        // Both fit: they are clipped to one group.
        self.metadata
            .within(blocks)
            .map(move |range| ((range.start - start) as u32, (range.end - range.start) as u32))
    }

    fn verify(
        &self,
        group: GroupNo,
        descriptor: &GroupDescriptor,
        which: Which,
        bytes: &[u8],
    ) -> Result<()> {
        self.verify_checksum(group, descriptor, which, bytes)?;
        let bits = self.store.superblock.block_size().saturating_mul(8);
        if let Some(bit) = next_clear(bytes, self.limit(group, which), bits) {
            return Err(wrong(group, which, "padding bit", bit, "not set"));
        }
        if which == Which::Blocks {
            for (first, length) in self.metadata_bits(group) {
                if let Some(bit) = next_clear(bytes, first, first.saturating_add(length)) {
                    return Err(wrong(group, which, "block of metadata", bit, "marked free"));
                }
            }
        }
        self.verify_count(group, descriptor, which, bytes)
    }

    fn verify_count(
        &self,
        group: GroupNo,
        descriptor: &GroupDescriptor,
        which: Which,
        bytes: &[u8],
    ) -> Result<()> {
        let free = count_clear(bytes, self.limit(group, which));
        if free == which.free(descriptor) {
            return Ok(());
        }
        Err(wrong(group, which, "count of free bits", free, "not what the descriptor says"))
    }

    fn verify_checksum(
        &self,
        group: GroupNo,
        descriptor: &GroupDescriptor,
        which: Which,
        bytes: &[u8],
    ) -> Result<()> {
        let mut sealed = *descriptor;
        let (stored, computed) = match which {
            Which::Blocks => {
                sealed.seal_block_bitmap(bytes, &self.store.superblock);
                (descriptor.block_bitmap_checksum, sealed.block_bitmap_checksum)
            }
            Which::Inodes => {
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
            Fault::Checksum { structure: which.structure(), stored, computed },
        ))
    }
}

/// A bitmap that cannot be.
pub(super) fn wrong(
    group: GroupNo,
    which: Which,
    field: &'static str,
    value: u32,
    reason: &'static str,
) -> Error {
    Error::field(Place::Group(group), which.structure(), field, value.into(), reason)
}
