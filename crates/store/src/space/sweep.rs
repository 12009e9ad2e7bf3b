//! Groups reach the disk: their descriptors before a sweep, the reuse of what was freed after it.
use super::bitmaps::BitmapKind;
use super::{Freed, GroupState, Space};
use crate::cache::BlockKind;
use crate::error::Result;
use crate::handle::Handle;
use crate::seeded::{Bug, bug};
use crate::superblock::FreeCounts;
use extant_format::GroupNo;
use extant_format::bitmap::count_clear;
use extant_format::journal::Sequence;
use std::sync::atomic::Ordering;

impl Space {
    /// Writes all changed metadata, then the superblock, and waits until it is durable.
    ///
    /// # Errors
    /// The first write error, which closes the latch; what closed the latch before.
    pub fn sync(&self) -> Result<()> {
        self.sync_with(|| match self.store.barrier.has_unflushed() {
            true => self.store.write_superblock(self.free_counts(), GroupNo(0)),
            false => self.store.write_superblock_if_changed(self.free_counts()),
        })
    }

    /// As [`Space::sync`], for one inode of a volume without a journal: a superblock of which only
    /// the time would change is not written.
    ///
    /// # Errors
    /// As [`Space::sync`].
    pub fn sync_for_inode(&self) -> Result<()> {
        self.sync_with(|| self.store.write_superblock_if_changed(self.free_counts()))
    }

    fn sync_with(&self, write_superblock: impl FnOnce() -> Result<()>) -> Result<()> {
        let freed = self.sweep()?;
        if !self.logs_superblock() {
            write_superblock()?;
        }
        self.store.barrier.pass()?;
        self.reuse(freed);
        Ok(())
    }

    /// Makes a transaction durable, and everything before it. Afterwards, what had been freed
    /// before may be reused.
    ///
    /// # Errors
    /// As [`Space::sync`].
    pub fn commit(&self, through: Sequence) -> Result<()> {
        match self.store.log() {
            Some(log) if log.is_committed(through) => self.store.latch.check(),
            _ => self.write_metadata(),
        }
    }

    /// Writes all changed metadata except the superblock. Afterwards, what had been freed before
    /// may be reused.
    ///
    /// # Errors
    /// As [`Space::sync`].
    pub fn write_metadata(&self) -> Result<()> {
        let freed = self.sweep()?;
        if !freed.is_empty() {
            // A commit is durable already.
            if !self.store.journals() {
                self.store.barrier.pass()?;
            }
            self.reuse(freed);
        }
        Ok(())
    }

    /// Whether the superblock is a part of the transaction that changes it.
    fn logs_superblock(&self) -> bool {
        self.store.journals() && !bug(Bug::SuperblockAroundLog)
    }

    /// One sweep. Returns what may be reused once the sweep is durable.
    fn sweep(&self) -> Result<Freed> {
        let swept = self.store.sweep(|handle| {
            let freed = self.take_freed();
            let stored =
                self.store_descriptors(handle).and_then(|()| match self.logs_superblock() {
                    true => handle.store_superblock(self.free_counts()),
                    false => Ok(()),
                });
            match stored {
                Ok(()) => Ok(freed),
                Err(error) => {
                    self.put_back(freed);
                    Err(error)
                }
            }
        });
        Ok(swept?.unwrap_or_default())
    }

    /// Stores changed descriptors into their frames, for frames that are written without a sweep.
    ///
    /// # Errors
    /// Those of reading blocks of descriptors.
    pub fn start_store(&self) -> Result<()> {
        self.store.change_late(|handle| self.store_descriptors(handle))
    }

    /// The sums that the superblock repeats.
    pub fn free_counts(&self) -> FreeCounts {
        FreeCounts {
            blocks: self.blocks_of(self.counters.free_blocks.load(Ordering::Acquire)),
            inodes: self.totals().free_inodes,
        }
    }

    /// Stores changed descriptors, with the checksums of their bitmaps, into their frames.
    pub(crate) fn store_descriptors(&self, handle: &Handle<'_>) -> Result<()> {
        let mut groups = std::mem::take(&mut *self.dirty.lock());
        groups.sort_unstable();
        for (at, group) in groups.iter().enumerate() {
            if let Err(error) = self.store_one(handle, *group) {
                self.dirty.lock().extend(&groups[at..]);
                return Err(error);
            }
        }
        Ok(())
    }

    /// In debug builds panics when a counter of the descriptor is not what the bitmap says.
    fn assert_counted(&self, group: GroupNo, state: &GroupState) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (which, bitmap, counted) in [
            (BitmapKind::Blocks, &state.block_bitmap, state.descriptor.free_blocks),
            (BitmapKind::Inodes, &state.inode_bitmap, state.descriptor.free_inodes),
        ] {
            if let Some(frame) = bitmap {
                let free = count_clear(&frame.bytes(), self.limit(group, which));
                assert_eq!(counted, free, "{group}: {which:?} that are free, counted and by bits");
            }
        }
    }

    fn store_one(&self, handle: &Handle<'_>, group: GroupNo) -> Result<()> {
        let (block, offset) = self.store.superblock.descriptor_place(group);
        let target = self.store.cache.read(block, BlockKind::Plain)?;
        let mut guard = self.state(group).lock();
        let state = &mut *guard;
        self.assert_counted(group, state);
        if let Some(frame) = state.block_bitmap.as_ref().filter(|_| state.blocks_changed) {
            state.descriptor.seal_block_bitmap(&frame.bytes(), &self.store.superblock);
        }
        if let Some(frame) = state.inode_bitmap.as_ref().filter(|_| state.inodes_changed) {
            state.descriptor.seal_inode_bitmap(&frame.bytes(), &self.store.superblock);
        }
        let end = offset.saturating_add(self.store.superblock.descriptor_size.into());
        handle.modify_at_once(&target, |bytes| {
            if let Some(bytes) = bytes.get_mut(offset..end) {
                state.descriptor.encode(bytes, group, &self.store.superblock);
            }
        });
        (state.is_listed, state.blocks_changed, state.inodes_changed) = (false, false, false);
        Ok(())
    }
}
