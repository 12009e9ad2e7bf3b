//! The journal: metadata reaches its place on the disk only after a copy of it is durable in the
//! log, and all of an operation or nothing of it.
//!
//! ```text
//!            handles join              commit: the gate is closed, frames are frozen
//! running ------------------> running ----------------------------------> committing
//!    ^                                                                         |
//!    | the next one                log, flush, commit block                    v
//!    +------------------------------------------------------------------- committed
//!                                                                              |
//!                 checkpoint: frames in place, flush, the tail moves           v
//!                                                                           (gone)
//! ```
//!
//! ```text
//! commit       a transaction is written to the log    checkpoint   and, later, to its place
//! transaction  blocks of one transaction in the log   superblock   what the disk says of the log
//! room         how much one transaction may hold
//! ```
//!
//! *Invariants*:
//! 1. No block in place is newer than the last durable commit.
//! 2. The commit block is written after a flush of the log and of the data that the transaction
//!    points to.
//! 3. The tail moves after a flush of the blocks in place.
//! 4. Handles are opened under inode locks, never the reverse, and wait for nothing but the device
//!    while open.
//! 5. Nothing changes in a transaction once its frames are frozen: a later change copies them and
//!    belongs to the next one. With `ordered-jbd` it first waits while a copy of them is on its way
//!    into the log: a write that needs no lock.
//! 6. A freed block is not given again before its freeing is durable. If the log has a copy of it,
//!    the transaction that freed it revokes that copy.
//!
//! *Locking*: commits are serialized by `cache.sweep`; checkpoints by `checkpointing`, which comes
//! after it. `state` is a short lock, the last in the order. Each operation asks for the running
//! transaction and for room in it: `running` and `credits` are numbers outside of that lock.
mod checkpoint;
mod commit;
mod room;
mod superblock;
mod transaction;

use crate::cache::Frame;
use crate::error::Error;
use crate::writes::Writes;
use extant_block::{Apart, BlockDevice, Clock, ShortLock, SleepLock, WaitQueue};
use extant_format::journal::{JournalSuperblock, LogFormat, Sequence};
use extant_format::{BlockNo, Run};
use extant_policy::preset::Journal;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub(crate) use superblock::LogParts;

/// What the journal has done so far, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalCounts {
    /// Transactions committed.
    pub commits: u64,
    /// Blocks written to the log, descriptors and commit blocks included.
    pub log_blocks: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blocks that checkpoints wrote to their place.
    pub checkpoint_blocks: u64,
}

/// A committed block that is not in its place yet.
struct Pending {
    frame: Arc<Frame>,
    bytes: Arc<Vec<u8>>,
    /// The transaction with its newest copy.
    sequence: Sequence,
}

/// A transaction in the log.
struct Logged {
    sequence: Sequence,
    /// The block of the log after its commit block.
    end: u32,
    /// How many blocks of the log it takes.
    blocks: u32,
}

struct LogState {
    /// The transaction that handles join.
    running: Sequence,
    /// The last transaction that is durable.
    committed: Sequence,
    /// The block of the log in which the next transaction begins.
    head: u32,
    /// Free blocks of the log.
    free: u32,
    /// Since when something has been changed in the running transaction, in nanoseconds of the
    /// clock.
    changed_since: Option<u64>,
    /// Copies that the running transaction revokes.
    revoked: BTreeSet<BlockNo>,
    /// Data that the running transaction points to, and that may be under way: it waits for it.
    awaited: Vec<Awaited>,
    /// Blocks that have a copy in the log, with the newest transaction that has one.
    copies: FxHashMap<BlockNo, Sequence>,
    /// Committed, and not in place.
    pending: BTreeMap<BlockNo, Pending>,
    /// The transactions in the log, oldest first.
    logged: VecDeque<Logged>,
    /// Blocks that a checkpoint is writing, up to this transaction.
    in_flight: Option<Sequence>,
}

/// Returns when some data is written that a transaction points to.
pub(crate) type Awaited = Box<dyn FnOnce() + Send>;

/// The log of an open volume.
pub struct Log {
    pub(crate) mode: Journal,
    device: Arc<dyn BlockDevice>,
    block_size: u32,
    /// Where its blocks are on the volume, in their order.
    runs: Vec<Run>,
    /// What never changes of its superblock: where the log begins and ends.
    geometry: JournalSuperblock,
    /// Its superblock, and the bytes that it was read from.
    superblock: ShortLock<(JournalSuperblock, Vec<u8>)>,
    format: LogFormat,
    /// Writes of the log under way.
    writes: Writes,
    /// Writes of a checkpoint under way: no commit waits for them.
    in_place: Writes,
    /// Blocks of metadata that one transaction may change.
    transaction_max: u64,
    /// Committed blocks that may wait for a checkpoint before one is made.
    pending_max: usize,
    state: Apart<ShortLock<LogState>>,
    /// A commit or a checkpoint has ended.
    ended: WaitQueue,
    checkpointing: SleepLock<()>,
    /// The thread that commits in time was asked to look.
    called: ShortLock<bool>,
    caller: WaitQueue,
    /// An error was noted in its superblock.
    error_noted: AtomicBool,
    counts: ShortLock<JournalCounts>,
    /// Copy of `state.changed_since`, that is read without the lock: 0 for none.
    changed: AtomicU64,
    /// Copy of `state.running`, that is read without the lock.
    running: AtomicU32,
    /// Blocks that open handles may still change.
    credits: Apart<AtomicU32>,
}

impl Log {
    /// The block of the volume that holds a block of the log, and how many of the log follow it
    /// there, itself included.
    fn place(&self, block: u32) -> Option<(BlockNo, u32)> {
        let mut left = block;
        for run in &self.runs {
            if left < run.length {
                let start = run.start.0.saturating_add(left.into());
                return Some((BlockNo(start), run.length - left));
            }
            left -= run.length;
        }
        None
    }

    /// The transaction that handles join now.
    pub fn running(&self) -> Sequence {
        Sequence(self.running.load(Ordering::Acquire))
    }

    /// Whether a transaction is durable.
    pub(crate) fn is_committed(&self, sequence: Sequence) -> bool {
        !sequence.is_after(self.state.lock().committed)
    }

    /// Whether a checkpoint writes blocks to their place now.
    pub fn is_checkpointing(&self) -> bool {
        self.state.lock().in_flight.is_some()
    }

    /// What was written so far.
    pub fn counts(&self) -> JournalCounts {
        *self.counts.lock()
    }

    /// Memory of committed blocks that are not in their place and are older than their frame, in
    /// bytes.
    pub fn kept_bytes(&self) -> usize {
        let state = self.state.lock();
        let older = state.pending.values().filter(|pending| Arc::strong_count(&pending.bytes) == 1);
        older.count() * self.block_size as usize
    }

    /// Notes that blocks were freed: the running transaction revokes the copies that the log has of
    /// them.
    pub(crate) fn forget(&self, run: Run) {
        let end = run.start.0.saturating_add(run.length.into());
        let mut guard = self.state.lock();
        let LogState { copies, revoked, .. } = &mut *guard;
        if copies.len() < run.length as usize {
            let inside = copies.keys().filter(|block| (run.start.0..end).contains(&block.0));
            revoked.extend(inside.copied());
        } else {
            let blocks = (run.start.0..end).map(BlockNo);
            revoked.extend(blocks.filter(|block| copies.contains_key(block)));
        }
    }

    /// The running transaction waits for data before its commit.
    pub fn wait_for_data(&self, awaited: Awaited) {
        self.state.lock().awaited.push(awaited);
    }

    /// Notes the first change of a transaction, for the thread that commits in time.
    pub fn note_change(&self, clock: &dyn Clock) {
        if self.changed.load(Ordering::Acquire) != 0 {
            return;
        }
        let mut state = self.state.lock();
        let now = clock.now().max(1);
        if state.changed_since.is_none() {
            state.changed_since = Some(now);
            self.changed.store(now, Ordering::Release);
            drop(state);
            self.call();
        }
    }

    /// Since when the running transaction has changes, in nanoseconds of the clock.
    pub fn changed_since(&self) -> Option<u64> {
        self.state.lock().changed_since
    }

    /// Wakes the thread that commits in time.
    pub fn call(&self) {
        *self.called.lock() = true;
        self.caller.wake_all();
    }

    /// Waits until it is called, or until a time of the clock.
    pub fn wait_for_call(&self, deadline: Option<u64>) {
        let called = |called: &mut bool| std::mem::take(called).then_some(());
        match deadline {
            Some(deadline) => {
                self.caller.wait_until_deadline(&self.called, deadline, called);
            }
            None => self.caller.wait_until(&self.called, called),
        }
    }
}

/// The error for a log that does not have the blocks that its superblock says.
fn outside(block: u32) -> Error {
    Error::field(
        crate::error::Place::Inode(extant_format::Ino::JOURNAL),
        "journal",
        "block of the log",
        block.into(),
        "not mapped",
    )
}
