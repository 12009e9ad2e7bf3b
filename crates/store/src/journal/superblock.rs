//! What the disk says of the log: where it begins, and whether it has to be replayed.
//!
//! *Invariants*: while the volume may be changed, its superblock asks for recovery, and the log's
//! begins at a transaction that is there or will be the next one.
use super::{Log, LogState};
use crate::Store;
use crate::barrier::Barrier;
use crate::error::{Error, Place, Result};
use crate::latch::Latch;
use crate::ranks;
use crate::writes::Writes;
use extant_block::{Apart, BlockDevice, ShortLock, SleepLock, WaitQueue};
use extant_format::journal::{JournalSuperblock, Sequence, compat, incompat};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{Ino, Run};
use extant_policy::preset::Journal;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// `EIO`, as Linux numbers errors in a journal's superblock.
const EIO: i32 = -5;

/// What a log works with.
pub(crate) struct LogParts<'a> {
    pub(crate) device: &'a Arc<dyn BlockDevice>,
    pub(crate) superblock: &'a Superblock,
    /// Where the journal's blocks are, its superblock first.
    pub(crate) runs: Vec<Run>,
    pub(crate) mode: Journal,
    /// How many frames the cache may hold.
    pub(crate) frames_max: usize,
    pub(crate) latch: &'a Arc<Latch>,
    pub(crate) barrier: &'a Arc<Barrier>,
}

impl Log {
    /// Reads the superblock of a log that holds no transactions. Nothing is written.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged, or does not fit the volume; what the device returns.
    pub(crate) fn open(parts: LogParts<'_>) -> Result<Log> {
        let LogParts { device, superblock, runs, mode, frames_max, latch, barrier } = parts;
        let block_size = superblock.block_size();
        let corrupt = |fault| Error::corrupt(Place::Inode(Ino::JOURNAL), fault);
        let first = runs.first().map_or(0, |run| run.start.0);
        let mut bytes = vec![0; block_size as usize];
        device.read(first.saturating_mul(block_size.into()), &mut bytes)?;
        let mut journal = JournalSuperblock::parse(&bytes).map_err(corrupt)?;
        let mapped: u64 = runs.iter().map(|run| u64::from(run.length)).sum();
        if journal.block_size != block_size || u64::from(journal.blocks) > mapped {
            let field = |field, value: u32, reason| {
                let place = Place::Inode(Ino::JOURNAL);
                Error::field(place, "journal superblock", field, value.into(), reason)
            };
            return Err(match journal.block_size == block_size {
                true => field("number of blocks", journal.blocks, "more than are mapped"),
                false => field("block size", journal.block_size, "not that of the volume"),
            });
        }
        set_features(&mut journal, superblock);
        let log_blocks = journal.log_blocks();
        let short = |value| ShortLock::ranked(ranks::LAST, value);
        let state = LogState {
            running: journal.sequence,
            committed: Sequence(journal.sequence.0.wrapping_sub(1)),
            head: journal.first,
            free: log_blocks,
            changed_since: None,
            revoked: BTreeSet::new(),
            awaited: Vec::new(),
            copies: rustc_hash::FxHashMap::default(),
            pending: BTreeMap::new(),
            logged: VecDeque::new(),
            in_flight: None,
        };
        let clock = device.clock();
        Ok(Log {
            mode,
            device: Arc::clone(device),
            block_size,
            runs,
            format: journal.log_format(),
            geometry: journal,
            superblock: ShortLock::ranked(ranks::LAST, (journal, bytes)),
            writes: Writes::new(clock, latch, barrier),
            in_place: Writes::new(clock, latch, barrier),
            transaction_max: u64::from(log_blocks / 4).min(frames_max as u64 / 2).max(1),
            pending_max: frames_max / 4,
            state: Apart(ShortLock::ranked(ranks::LAST, state)),
            ended: WaitQueue::new(Arc::clone(clock)),
            checkpointing: SleepLock::new(Arc::clone(clock), ()).ranked(ranks::CHECKPOINT),
            called: short(false),
            caller: WaitQueue::new(Arc::clone(clock)),
            error_noted: AtomicBool::new(false),
            counts: ShortLock::ranked(ranks::LAST, super::JournalCounts::default()),
            changed: AtomicU64::new(0),
            running: AtomicU32::new(journal.sequence.0),
            credits: Apart(AtomicU32::new(0)),
        })
    }

    /// Whether an error is noted in the log.
    pub(crate) fn has_error(&self) -> bool {
        self.superblock.lock().0.error != 0
    }

    /// Makes the log begin at the next transaction, durably, and forgets the error that was noted.
    /// Called once, after the volume's superblock asks for recovery and has that error.
    ///
    /// # Errors
    /// What the device returns; it closes the latch.
    pub(crate) fn begin(&self, store: &Store) -> Result<()> {
        self.store_superblock(store, |superblock| {
            superblock.start = superblock.first;
            superblock.error = 0;
        })
    }

    /// Empties the log: everything is in its place. Nothing may be changed any more.
    ///
    /// # Errors
    /// What the device returns; it closes the latch.
    pub(crate) fn finish(&self, store: &Store) -> Result<()> {
        self.checkpoint(store)?;
        let (sequence, head) = {
            let state = self.state.lock();
            debug_assert!(state.logged.is_empty(), "the log is emptied with transactions in it");
            (state.running, state.head)
        };
        self.store_superblock(store, |superblock| {
            superblock.sequence = sequence;
            superblock.start = 0;
            superblock.head = head;
        })
    }

    /// Changes the log's superblock, durably.
    pub(super) fn store_superblock(
        &self,
        store: &Store,
        change: impl FnOnce(&mut JournalSuperblock),
    ) -> Result<()> {
        let bytes = {
            let mut guard = self.superblock.lock();
            let (superblock, bytes) = &mut *guard;
            change(superblock);
            superblock.store(bytes);
            bytes.clone()
        };
        store.write_forced(self.offset_of(0)?, &bytes)
    }

    /// Notes in the log's superblock that the journal was stopped by an error, for the next program
    /// that opens the volume. As the volume has just failed, it does not matter whether this
    /// succeeds.
    pub(crate) fn note_error(&self) {
        if self.error_noted.swap(true, Ordering::AcqRel) {
            return;
        }
        let bytes = {
            let mut guard = self.superblock.lock();
            let (superblock, bytes) = &mut *guard;
            superblock.error = EIO;
            superblock.store(bytes);
            bytes.clone()
        };
        if let Ok(offset) = self.offset_of(0) {
            let _ = self.device.write_durable(offset, &bytes);
        }
    }
}

/// Gives an empty journal the features that its volume wants: revoke records always, wide numbers
/// and checksums as the volume itself has them.
fn set_features(journal: &mut JournalSuperblock, superblock: &Superblock) {
    journal.incompat |= incompat::REVOKE;
    journal.incompat &= !incompat::ASYNC_COMMIT;
    journal.compat &= !compat::CHECKSUM;
    if superblock.has(Feature::SIXTY_FOUR_BIT) {
        journal.incompat |= incompat::SIXTY_FOUR_BIT;
    }
    if superblock.has(Feature::METADATA_CSUM) {
        journal.incompat &= !incompat::CHECKSUM_V2;
        journal.incompat |= incompat::CHECKSUM_V3;
    }
}
