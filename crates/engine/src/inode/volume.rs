//! What the inode layer and those above it share of an open volume.
//!
//! *Invariants* and *Locking* are those of the parts.
use super::pages::PageCounts;
use super::unstored::Unstored;
use crate::error::Result;
use crate::space::Space;
use crate::store::budget::DirtyBudget;
use crate::store::{self, Options, Store};
use extant_block::BlockDevice;
use std::sync::Arc;

/// An open volume, below its names.
pub(crate) struct Volume {
    /// Device, cache, latch, handles.
    pub(crate) store: Arc<Store>,
    /// Groups, bitmaps, promises.
    pub(crate) space: Space,
    /// Which inodes the inode tables do not know yet.
    pub(crate) unstored: Unstored,
    /// How many blocks of files are in memory, and dirty.
    pub(crate) pages: PageCounts,
}

impl Volume {
    /// Opens the volume on a device: superblock, descriptors; nothing else is read. On a numbered
    /// device of a shared dirty budget; without one, on a budget of its own.
    ///
    /// # Errors
    /// `NotExt`, `Unsupported`, `NeedsRecovery`, `Corrupt`, or what the device answers.
    pub(crate) fn open(
        device: Arc<dyn BlockDevice>,
        options: &Options,
        shared: Option<(&Arc<DirtyBudget>, u32)>,
    ) -> Result<Volume> {
        let store = Arc::new(Store::open(device, options, shared)?);
        let pages_max = store::pages_max(options, &store.superblock);
        Ok(Volume {
            space: Space::open(&store)?,
            unstored: Unstored::default(),
            pages: PageCounts::new(options.data, pages_max),
            store,
        })
    }

    /// Bytes of files and metadata that are dirty.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        let blocks = self.pages.dirty_blocks() + self.store.cache.dirty_frames();
        blocks * u64::from(self.store.block_size())
    }
}
