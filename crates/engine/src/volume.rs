//! One open volume: what all layers share.
//!
//! *Invariants*: `superblock` is what was read at opening and never changes (geometry, features that decide layouts,
//! seeds); what changes of it is in `mutable`, in the groups' counters and in atomics.
//! *Locking*: `mutable` is a short lock; nothing else here is locked.
use crate::allocation::Allocation;
use crate::cache::Cache;
use crate::error::{ErrorKind, Result};
use crate::group::Groups;
use crate::placement::Placement;
use extant_block::{BlockDevice, Clock, ShortLock};
use extant_format::directory::Style;
use extant_format::hash::Hasher;
use extant_format::inode::Time;
use extant_format::superblock::Superblock;
use extant_format::{BlockNo, Ino};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The shared parts of an open volume.
pub(crate) struct Volume {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Superblock,
    pub(crate) style: Style,
    pub(crate) hasher: Hasher,
    pub(crate) cache: Cache,
    pub(crate) groups: Groups,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) allocation: Arc<dyn Allocation>,
    pub(crate) mutable: ShortLock<Mutable>,
    /// Opened for writing, and no write has failed.
    pub(crate) writable: AtomicBool,
}

/// What changes in the superblock besides counters.
pub(crate) struct Mutable {
    /// Head of the list of inodes that were unlinked while open, or whose truncation has not ended.
    pub(crate) last_orphan: u32,
    /// A file of 2 GiB or more was made: large_file has to be set.
    pub(crate) large_file: bool,
    /// Changed since the superblock was stored.
    pub(crate) dirty: bool,
}

impl Volume {
    /// Bytes of a block.
    pub(crate) fn block_size(&self) -> u32 {
        self.superblock.block_size()
    }

    /// Fails unless the volume may be changed.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.writable.load(Ordering::Acquire) && !self.cache.has_failed() {
            return Ok(());
        }
        Err(ErrorKind::ReadOnly.into())
    }

    /// The time of day for stamps.
    pub(crate) fn now(&self) -> Time {
        let wall = self.clock.wall();
        Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds }
    }

    /// Seed of the checksums of an inode's blocks.
    pub(crate) fn inode_seed(&self, ino: Ino, generation: u32) -> u32 {
        extant_format::checksum::inode_seed(self.superblock.checksum_seed, ino, generation)
    }

    /// Whether a block may belong to a file: it lies inside the volume, behind the first data block.
    pub(crate) fn holds_block(&self, block: BlockNo) -> bool {
        block.0 > u64::from(self.superblock.first_data_block) && block.0 < self.superblock.blocks_count
    }
}
