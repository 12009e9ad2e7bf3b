//! The superblock: read at opening, and the few fields of it that change.
//!
//! *Invariants*: `record.changes` is changed only through a handle. Without a journal a sync writes
//! the primary copy after everything else, a sync of one inode only if it has changed; with one it
//! is a part of each transaction that changes it.
//! *Locking*: both locks are short, and neither is held during I/O.
use super::{Access, Store};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::ranks;
use extant_block::{BlockDevice, ShortLock};
use extant_format::GroupNo;
use extant_format::superblock::{
    ErrorCode, Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock, state,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The fields that change, apart from the free counts, which the groups keep.
pub struct Record {
    changes: ShortLock<SuperblockFields>,
    /// The primary copy as it was last written, with its time set to zero.
    written: ShortLock<Vec<u8>>,
    /// Whether the journal has to be replayed by the next program that opens the volume.
    pub(super) needs_recovery: AtomicBool,
    /// No write is dated later than this, in seconds since 1970, whatever the clock says.
    dated_latest: AtomicU64,
}

/// The fields that operations change.
#[derive(Clone, Copy)]
pub struct SuperblockFields {
    /// First inode of the orphan list: unlinked while open, or with a truncation that has not
    /// ended.
    pub last_orphan: u32,
    /// `s_state`: not clean while the volume may be changed, even after a sync.
    pub state: u16,
    /// A file of 2 GiB or more was made: the feature large_file has to be set.
    pub large_file: bool,
    /// The file of orphans has entries.
    pub orphan_present: bool,
    /// Blocks of the volume: fewer than the superblock says after it was cut.
    pub blocks_count: u64,
}

/// Sums over all groups, which the superblock repeats.
#[derive(Clone, Copy, Debug)]
pub struct FreeCounts {
    pub(crate) blocks: u64,
    pub(crate) inodes: u32,
}

impl Record {
    /// The fields as they were read.
    pub(super) fn of(superblock: &Superblock) -> Record {
        Record {
            changes: ShortLock::ranked(
                ranks::LAST,
                SuperblockFields {
                    last_orphan: superblock.last_orphan,
                    state: superblock.state,
                    large_file: false,
                    orphan_present: superblock.has(Feature::ORPHAN_PRESENT),
                    blocks_count: superblock.blocks_count,
                },
            ),
            written: ShortLock::ranked(ranks::LAST, Vec::new()),
            needs_recovery: AtomicBool::new(false),
            dated_latest: AtomicU64::new(u64::MAX),
        }
    }

    /// From now on no write is dated later than this, in seconds since 1970.
    pub fn date_until(&self, seconds: u64) {
        self.dated_latest.store(seconds, Ordering::Release);
    }

    /// The fields as they are now.
    pub fn now(&self) -> SuperblockFields {
        *self.changes.lock()
    }

    /// Changes the fields. Only a handle calls this.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut SuperblockFields) -> R) -> R {
        change(&mut self.changes.lock())
    }

    /// The primary copy is this one now, on the disk or in its frame.
    pub(super) fn note_written(&self, superblock: &Superblock) {
        *self.written.lock() = encoded_without_time(superblock);
    }
}

impl Store {
    /// Writes a copy of the superblock to the start of a group, for use after damage: it never says
    /// that the volume is clean, nor that its journal waits.
    ///
    /// # Errors
    /// What the device returns; it closes the latch.
    pub(crate) fn write_backup(&self, free: FreeCounts, group: GroupNo) -> Result<()> {
        let mut superblock = self.current_superblock(free);
        superblock.state &= !state::CLEAN;
        superblock.features.clear(Feature::NEEDS_RECOVERY);
        self.write_copy(superblock, group)
    }

    /// The superblock as it should be on disk now.
    fn current_superblock(&self, free: FreeCounts) -> Superblock {
        let mut superblock = Superblock::clone(&self.superblock);
        superblock.free_blocks = free.blocks;
        superblock.free_inodes = free.inodes;
        let now = self.clock.wall().seconds.max(0) as u64;
        superblock.written_seconds = now.min(self.record.dated_latest.load(Ordering::Acquire));
        let changes = self.record.now();
        superblock.last_orphan = changes.last_orphan;
        superblock.state = changes.state;
        superblock.blocks_count = changes.blocks_count;
        superblock.reserved_blocks = superblock.reserved_blocks.min(changes.blocks_count / 2);
        if changes.large_file {
            superblock.features.set(Feature::LARGE_FILE);
        }
        if !changes.orphan_present {
            superblock.features.clear(Feature::ORPHAN_PRESENT);
        }
        if self.record.needs_recovery.load(Ordering::Acquire) {
            superblock.features.set(Feature::NEEDS_RECOVERY);
        }
        superblock
    }

    /// The superblock that a commit has to store; `None` if only its time would change.
    pub(super) fn changed_superblock(&self, free: FreeCounts) -> Option<Superblock> {
        let superblock = self.current_superblock(free);
        let is_written = *self.record.written.lock() == encoded_without_time(&superblock);
        (!is_written).then_some(superblock)
    }

    /// Writes the primary superblock, unless only its time would change.
    ///
    /// # Errors
    /// What the device returns; it closes the latch.
    pub(crate) fn write_superblock_if_changed(&self, free: FreeCounts) -> Result<()> {
        match self.changed_superblock(free) {
            Some(superblock) => self.write_copy(superblock, GroupNo(0)),
            None => Ok(()),
        }
    }

    /// Writes a group's copy of the superblock: the primary at byte 1024, the others at the start
    /// of their groups.
    ///
    /// # Errors
    /// What the device returns; it closes the latch.
    pub fn write_superblock(&self, free: FreeCounts, group: GroupNo) -> Result<()> {
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
            self.record.note_written(&superblock);
        }
        outcome
    }
}

fn encoded_without_time(superblock: &Superblock) -> Vec<u8> {
    let mut timeless = superblock.clone();
    timeless.written_seconds = 0;
    timeless.encode().to_vec()
}

/// Records a failure in the primary superblock as it is on the device, durably. Nothing else of it
/// changes: what was to become of it is in the journal, or lost.
///
/// # Errors
/// As [`read_superblock`]; what the device returns.
pub(super) fn record_error(device: &dyn BlockDevice, failure: &Error) -> Result<()> {
    let mut superblock = read_superblock(device)?;
    let code = match &failure.kind {
        ErrorKind::Device(_) => ErrorCode::Device,
        ErrorKind::Corrupt(_) | ErrorKind::Journal(_) => ErrorCode::Corrupt,
        _ => ErrorCode::Unknown,
    };
    let seconds = device.clock().wall().seconds.max(1).cast_unsigned();
    superblock.record_error(seconds, "extant", code);
    Ok(device.write_durable(SUPERBLOCK_OFFSET, &superblock.encode())?)
}

/// Reads the superblock of a volume that fits on its device and needs no recovery.
///
/// # Errors
/// As [`read_superblock`]; `Corrupt` when the device is shorter than the volume; `NeedsRecovery`;
/// `NotWritten`;
/// `Journal` of one that is to be written and whose journal is neither in it nor behind it: what is
/// written past that is undone by its next replay.
pub(super) fn read_whole(device: &dyn BlockDevice, access: Access) -> Result<Superblock> {
    let superblock = read_superblock(device)?;
    let volume_bytes = superblock.blocks_count.checked_mul(u64::from(superblock.block_size()));
    let device_bytes = device.own_bytes();
    if volume_bytes.is_none_or(|bytes| bytes > device_bytes) {
        let reason = "more than the device holds: is the image cut short?";
        let (place, found) = (Place::Superblock, superblock.blocks_count);
        return Err(Error::field(place, "superblock", "number of blocks", found, reason));
    }
    if superblock.has(Feature::NEEDS_RECOVERY) {
        return Err(ErrorKind::NeedsRecovery.into());
    }
    if access == Access::ReadWrite {
        check_written(&superblock)?;
        extant_journal::check_place(device, &superblock)?;
    }
    Ok(superblock)
}

/// Fails unless a volume with this superblock can be written.
///
/// # Errors
/// `NotWritten`, with the names of the features at fault.
pub fn check_written(superblock: &Superblock) -> Result<()> {
    let mut names = superblock.features.unwritten();
    names.extend(unwritten_clusters(superblock).map(str::to_owned));
    match names.is_empty() {
        true => Ok(()),
        false => Err(ErrorKind::NotWritten(names).into()),
    }
}

/// Why clusters are not written as this volume has them. Nobody makes most of these.
fn unwritten_clusters(superblock: &Superblock) -> Option<&'static str> {
    if !superblock.has(Feature::BIGALLOC) {
        return None;
    }
    let size = 1 << superblock.cluster_log2();
    if !superblock.has(Feature::EXTENTS) {
        return Some("bigalloc without extent");
    }
    // What is in an inode would have to move out and be mapped in one change.
    if superblock.has(Feature::INLINE_DATA) {
        return Some("bigalloc with inline_data");
    }
    let is_whole = superblock.blocks_count.is_multiple_of(size)
        && u64::from(superblock.blocks_per_group).is_multiple_of(size)
        && superblock.first_data_block == 0;
    (!is_whole).then_some("bigalloc with a part of a cluster at the end")
}

/// Reads and checks the primary superblock of a device.
///
/// # Errors
/// `NotExt`, `Unsupported`, `Corrupt`, or what the device returns.
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
