//! The superblock: read at opening, and the few words of it that change.
//!
//! *Invariants*: `record.changes` is changed through a handle and in no other way. The primary copy
//! is written last of all that a sync writes.
//! *Locking*: both locks are short; neither is held while the device is asked.
use super::Store;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::ranks;
use extant_block::{BlockDevice, ShortLock};
use extant_format::GroupNo;
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use std::sync::atomic::{AtomicU64, Ordering};

/// What changes of the superblock besides the counters of the groups.
pub(crate) struct Record {
    changes: ShortLock<Changes>,
    /// The primary copy as it was written last, but for the time.
    written: ShortLock<Vec<u8>>,
    /// Bytes written to files since opening.
    pub(crate) written_bytes: AtomicU64,
}

/// The words that operations change.
#[derive(Clone, Copy)]
pub(crate) struct Changes {
    /// Head of the list of inodes that were unlinked while open, or whose truncation has not ended.
    pub(crate) last_orphan: u32,
    /// `s_state`: not clean while the volume may be changed, also after a sync.
    pub(crate) state: u16,
    /// A file of 2 GiB or more was made: large_file has to be set.
    pub(crate) large_file: bool,
    /// Blocks of the volume: fewer than at opening when it was cut.
    pub(crate) blocks_count: u64,
}

/// The sums over all groups that the superblock repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeCounts {
    pub(crate) blocks: u64,
    pub(crate) inodes: u32,
}

impl Record {
    /// As it was read.
    pub(super) fn of(superblock: &Superblock) -> Record {
        Record {
            changes: ShortLock::ranked(
                ranks::LAST,
                Changes {
                    last_orphan: superblock.last_orphan,
                    state: superblock.state,
                    large_file: false,
                    blocks_count: superblock.blocks_count,
                },
            ),
            written: ShortLock::ranked(ranks::LAST, Vec::new()),
            written_bytes: AtomicU64::new(0),
        }
    }

    /// The words as they are now.
    pub(crate) fn now(&self) -> Changes {
        *self.changes.lock()
    }

    /// Changes them. Only a handle calls this.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Changes) -> R) -> R {
        change(&mut self.changes.lock())
    }
}

impl Store {
    /// The superblock as it should be on the disk now.
    fn current_superblock(&self, free: FreeCounts) -> Superblock {
        let mut superblock = self.superblock.clone();
        superblock.free_blocks = free.blocks;
        superblock.free_inodes = free.inodes;
        superblock.written_seconds = self.clock.wall().seconds.max(0) as u64;
        superblock.kbytes_written += self.record.written_bytes.load(Ordering::Relaxed) / 1024;
        let changes = self.record.now();
        superblock.last_orphan = changes.last_orphan;
        superblock.state = changes.state;
        superblock.blocks_count = changes.blocks_count;
        superblock.reserved_blocks = superblock.reserved_blocks.min(changes.blocks_count / 2);
        if changes.large_file {
            superblock.features.set(Feature::LARGE_FILE);
        }
        superblock
    }

    /// Writes the primary superblock, unless nothing but the time would change, and nothing else
    /// was written since the last flush.
    ///
    /// # Errors
    /// What the device answers; it latches.
    pub(crate) fn write_superblock_if_changed(&self, free: FreeCounts) -> Result<()> {
        let superblock = self.current_superblock(free);
        let is_written = *self.record.written.lock() == encoded_without_time(&superblock);
        match self.barrier.has_unflushed() || !is_written {
            true => self.write_copy(superblock, GroupNo(0)),
            false => Ok(()),
        }
    }

    /// Writes the copy of the superblock in a group: the primary at byte 1,024, the others at the
    /// start of their groups.
    ///
    /// # Errors
    /// What the device answers; it latches.
    pub(crate) fn write_superblock(&self, free: FreeCounts, group: GroupNo) -> Result<()> {
        self.write_copy(self.current_superblock(free), group)
    }

    fn write_copy(&self, mut superblock: Superblock, group: GroupNo) -> Result<()> {
        superblock.group_number = group.0 as u16;
        let offset = match group.0 {
            0 => SUPERBLOCK_OFFSET,
            _ => superblock.group_start(group).0 * u64::from(self.block_size()),
        };
        let outcome = self.write_at(offset, &superblock.encode());
        if group == GroupNo(0) {
            *self.record.written.lock() = encoded_without_time(&superblock);
        }
        outcome
    }
}

fn encoded_without_time(superblock: &Superblock) -> Vec<u8> {
    let mut timeless = superblock.clone();
    timeless.written_seconds = 0;
    timeless.encode().to_vec()
}

/// The superblock of a volume that is whole on its device and needs no recovery.
///
/// # Errors
/// As [`read_superblock`]; `Corrupt` when the device is shorter than the volume; `NeedsRecovery`.
pub(super) fn read_whole(device: &dyn BlockDevice) -> Result<Superblock> {
    let superblock = read_superblock(device)?;
    let volume_bytes = superblock.blocks_count.checked_mul(u64::from(superblock.block_size()));
    let device_bytes = device.info().bytes;
    if volume_bytes.is_none_or(|bytes| bytes > device_bytes) {
        let reason = "more than the device holds: is the image cut short?";
        let (place, found) = (Place::Superblock, superblock.blocks_count);
        return Err(Error::field(place, "superblock", "number of blocks", found, reason));
    }
    if superblock.has(Feature::NEEDS_RECOVERY) {
        return Err(ErrorKind::NeedsRecovery.into());
    }
    Ok(superblock)
}

/// Reads and checks the primary superblock of a device.
///
/// # Errors
/// `NotExt`, `Unsupported`, `Corrupt`, or what the device answers.
pub fn read_superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    match device.read(SUPERBLOCK_OFFSET, &mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(ErrorKind::NotExt.into());
        }
        outcome => outcome?,
    }
    Ok(Superblock::parse(&bytes)?)
}
