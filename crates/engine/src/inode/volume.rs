//! What the inode layer, and those above it, share of an open volume.
//!
//! *Invariants* and *Locking* are those of the parts.
use super::known_names::KnownNames;
use super::listings::Listings;
use super::orphans::Orphans;
use super::pages::VolumePages;
use super::released::Released;
use super::table_windows::TableWindows;
use super::unstored::Unstored;
use crate::error::Result;
use crate::policy::preset::Journal;
use crate::space::Space;
use crate::store::budget::DirtyBudget;
use crate::store::{self, Options, Shares, Store};
use extant_block::BlockDevice;
use extant_format::Run;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// An open volume, without its inodes and names.
pub(crate) struct Volume {
    /// Device, cache, latch, handles.
    pub(crate) store: Arc<Store>,
    /// Groups, bitmaps, promised blocks.
    pub(crate) space: Space,
    /// Inodes that recovery has to free or to cut.
    pub(crate) orphans: Orphans,
    /// Values of attributes that are to be freed.
    pub(crate) released: Released,
    /// Inodes that are not in their table yet.
    pub(crate) unstored: Unstored,
    /// How much of the inode tables is read at once.
    pub(crate) table_windows: TableWindows,
    /// What directories were listed with lately.
    pub(crate) listings: Listings,
    /// How many blocks of files are dirty, and were brought into memory lately.
    pub(crate) pages: VolumePages,
    /// The quota files, where there are some and the volume is written. Of a type that `operation`
    /// knows, which is above this.
    pub(super) quotas: Option<Box<dyn Any + Send + Sync>>,
    /// Names that were looked up lately.
    pub(crate) names: KnownNames,
    /// The number from which on inodes of values are looked for; 0 for those near their owner.
    pub(crate) values_from: AtomicU32,
}

impl Volume {
    /// Opens the volume on a device: reads the superblock and the descriptors and nothing else.
    /// `shared` as in [`Store::open`].
    ///
    /// # Errors
    /// `NotExt`, `Unsupported`, `NeedsRecovery`, `Corrupt`, or what the device returns.
    pub(crate) fn open(
        device: Arc<dyn BlockDevice>,
        options: &Options,
        shared: Option<(&Arc<DirtyBudget>, u32)>,
    ) -> Result<Volume> {
        let store = Arc::new(Store::open(device, options, shared)?);
        let shares = Shares::of(options.cache_bytes);
        let pages_max = store::pages_max(options, &store.superblock);
        Ok(Volume {
            space: Space::open(&store)?,
            orphans: Orphans::default(),
            released: Released::default(),
            unstored: Unstored::default(),
            table_windows: TableWindows::default(),
            listings: Listings::default(),
            pages: VolumePages::new(options.data, pages_max, shares.pages),
            quotas: None,
            names: KnownNames::new(shares.names),
            values_from: AtomicU32::new(0),
            store,
        })
    }

    /// Before blocks of a file are read from the device: with `journal=data` they may be newer in
    /// the journal than in their place, and are brought there.
    ///
    /// # Errors
    /// Those of writing, which close the latch.
    pub(crate) fn bring_in_place(&self, run: Run) -> Result<()> {
        if self.store.journal() != Journal::Data || !self.store.cache.is_newer(run) {
            return Ok(());
        }
        self.space.write_metadata()?;
        self.store.checkpoint()
    }

    /// How much of files and metadata is dirty, in bytes.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        let blocks = self.pages.dirty_blocks() + self.store.cache.dirty_frames();
        blocks * u64::from(self.store.block_size())
    }
}
