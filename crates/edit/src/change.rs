//! A volume that is open for a change, and how the change becomes durable.
//!
//! ```text
//! open     replay of the journal | which blocks are free | the engine, on a staged device
//! commit   the engine closes | blocks that differ from the device's, with room in its holes:
//!            none ------------------------------------------------> nothing is written
//!            fit into the volume's empty log ---------------------> one transaction
//!            else, and there is a place for a log beside the image > redo log
//! drop     nothing more is written; only blocks that were free differ
//! ```
//!
//! *Invariants*: until [`Change::commit`] has made the change durable, the volume on the device is
//! the one that was opened.
//! *Locking*: none of its own. The caller holds the lock of the image.
use crate::differing::Differing;
use crate::error::{Error, Result};
use crate::redo::{Identity, Plan};
use extant_block::{BlockDevice, Overlay, Staged};
use extant_engine::preset::{AccessTimes, Journal as JournalPolicy, Policies};
use extant_engine::{
    Access, DataKeeping, Filesystem, MountHold, Options, cache_for_blocks, check_written, hold,
    read_superblock, recover_held,
};
use extant_format::superblock::{Superblock, state};
use extant_format::{BlockNo, GroupNo};
use extant_journal::transaction::{self, Blocks};
use extant_journal::{Journal, MapSource, State};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Memory of the engine for blocks, in bytes.
const CACHE_BYTES: usize = 32 << 20;
/// Held blocks that are kept in memory, in bytes; more are in a spool.
const HELD_BYTES_MAX: u64 = 256 << 20;

/// What a change does with a volume in which errors were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnErrors {
    /// It is refused.
    #[default]
    Refuse,
    /// It is changed nevertheless.
    Continue,
}

/// How a volume is opened for a change.
#[derive(Clone, Debug, Default)]
pub struct ChangeOptions {
    /// Where a redo log may be, and what it says of the image; `None` where there is no place.
    pub redo: Option<(PathBuf, Identity)>,
    /// What becomes of a volume with errors.
    pub on_errors: OnErrors,
    /// Held blocks that are kept in memory, in bytes; `None` for the usual limit.
    pub held_bytes_max: Option<u64>,
}

/// How a change became durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nothing differed.
    Nothing,
    /// One transaction of the journal.
    Journal,
    /// A redo log beside the image.
    RedoLog,
}

/// What a commit did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    /// How.
    pub outcome: Outcome,
    /// Blocks that were in use and changed.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes that went to blocks that were free.
    pub new_bytes: u64,
}

/// A volume under a change.
pub struct Change {
    filesystem: Filesystem,
    staged: Arc<Staged>,
    /// What keeps other machines from the volume, where several may reach it (mmp).
    hold: Option<MountHold>,
    options: ChangeOptions,
    block_size: u32,
}

impl std::ops::Deref for Change {
    type Target = Filesystem;
    fn deref(&self) -> &Filesystem {
        &self.filesystem
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.staged.end();
        if let Some(hold) = &self.hold {
            // One that cannot be given back stays taken, which the next program waits for.
            let _ = hold.release();
        }
    }
}

impl Change {
    /// Opens the volume on a device, which nothing else uses. What its journal holds is replayed
    /// first, on the device.
    ///
    /// # Errors
    /// No ext volume, one with features that are not written, with errors, one without a journal
    /// that was not unmounted, or a journal that cannot be replayed; a device that fails.
    pub fn open(device: Arc<dyn BlockDevice>, options: &ChangeOptions) -> Result<Change> {
        // One that is damaged says nothing of other machines: its log may mend it.
        let hold = read_superblock(&*device).map_or(Ok(None), |found| hold(&device, &found))?;
        let opened = Change::open_held(device, options).inspect_err(|_| {
            // The error is that of opening, whether this can be stored or not.
            let _ = hold.as_ref().map(MountHold::release);
        });
        let (filesystem, staged, block_size) = opened?;
        Ok(Change { filesystem, staged, hold, options: options.clone(), block_size })
    }

    /// As [`Change::open`], for a volume that is held where it has to be.
    fn open_held(
        device: Arc<dyn BlockDevice>,
        options: &ChangeOptions,
    ) -> Result<(Filesystem, Arc<Staged>, u32)> {
        recover_held(&device)?;
        let superblock = read_superblock(&*device)?;
        check_written(&superblock)?;
        // A journal that cannot be is met before anything is written, not when all is done.
        Journal::find(Arc::clone(&device), MapSource::Inode)?;
        extant_journal::check_place(&*device, &superblock)?;
        if superblock.state & state::ERRORS != 0 && options.on_errors == OnErrors::Refuse {
            return Err(Error::volume("is marked as having errors").hint(
                "check it first (extant check, e2fsck -f); --despite-errors changes it as it is",
            ));
        }
        if superblock.awaits_check() && options.on_errors == OnErrors::Refuse {
            return Err(Error::volume(
                "was not unmounted and has no journal: what it calls free may be in use",
            )
            .hint("have it checked first (e2fsck -f); --despite-errors changes it as it is"));
        }
        let block_size = superblock.block_size();
        let free = free_blocks(&device, &superblock)?;
        let limit = options.held_bytes_max.unwrap_or(HELD_BYTES_MAX);
        let held = Overlay::new(Arc::clone(&device), block_size, limit);
        // Without a place for a spool the limit holds.
        let held = match tempfile::tempfile() {
            Ok(spool) => held.with_spool(spool),
            Err(_) => held,
        };
        let staged = Arc::new(Staged::new(held, free));
        let engine = engine_options(Access::ReadWrite)?;
        let opened = Filesystem::open_held(Arc::clone(&staged) as Arc<dyn BlockDevice>, &engine);
        let filesystem = opened.inspect_err(|_| staged.end())?;
        Ok((filesystem, staged, block_size))
    }

    /// The file system, as the change has left it so far.
    pub fn filesystem(&self) -> &Filesystem {
        &self.filesystem
    }

    /// Makes the change durable: all of it, or nothing.
    ///
    /// # Errors
    /// Those of the engine and of the device; no place for a redo log where one is needed. The
    /// volume is as before, unless a device fails after the change was decided: then the next
    /// program that replays its journal, or its redo log, ends it.
    pub fn commit(self) -> Result<Committed> {
        self.filesystem.clone().close()?;
        self.staged.end();
        let device = self.staged.device();
        let held = Differing::of(device, &*self.staged, self.staged.held(), self.block_size)?;
        let mut committed = Committed {
            outcome: Outcome::Nothing,
            blocks: held.len() as u64,
            bytes: held.len() as u64 * u64::from(self.block_size),
            new_bytes: self.staged.passed_bytes(),
        };
        if held.is_empty() {
            return Ok(Committed { new_bytes: 0, ..committed });
        }
        if let Some(hold) = &self.hold {
            hold.confirm()?;
        }
        let journal = Journal::find(Arc::clone(device), MapSource::Inode)?;
        let takes = journal.filter(|journal| takes(journal, &held));
        if takes.is_some() || self.options.redo.is_some() {
            held.take_room()?;
        }
        if let Some(journal) = takes {
            let ends = "the image is as it was, or its journal holds the whole change: the next \
                        program that replays it (extant replay) ends it";
            transaction::change(&journal, &held).map_err(|error| Error::from(error).hint(ends))?;
            committed.outcome = Outcome::Journal;
            return Ok(committed);
        }
        let Some((path, identity)) = &self.options.redo else {
            return Err(no_place(held.len(), self.block_size));
        };
        let passed = self.staged.passed();
        let (passed, block_size) = (&passed[..], self.block_size);
        Plan { device, path, identity, block_size, passed, blocks: &held }.change()?;
        committed.outcome = Outcome::RedoLog;
        Ok(committed)
    }
}

/// Whether these blocks can be one transaction of a journal.
fn takes(journal: &Journal, held: &Differing<'_>) -> bool {
    let fits = transaction::fits(&transaction::adopted(journal), held.len());
    journal.state() == State::Empty && fits
}

fn no_place(blocks: usize, block_size: u32) -> Error {
    let said = format!(
        "the change, {blocks} blocks of {block_size} bytes, does not fit into its journal or has \
         none, and there is no place for a redo log"
    );
    Error::volume(said).hint("--log FILE names a place for it; or change less at a time")
}

/// How the engine works on a staged device: it writes no log, and reads leave no trace.
///
/// # Errors
/// None, as long as the preset is there.
fn engine_options(access: Access) -> Result<Options> {
    // A flusher would know the host's time, and the image would depend on it.
    let policies = "modern,throttle=inline".parse::<Policies>();
    let mut policies = policies.map_err(|error| Error::volume(format!("policies: {error}")))?;
    policies.journal = JournalPolicy::None;
    policies.access_times = AccessTimes::None;
    let cache_bytes = cache_for_blocks(CACHE_BYTES);
    Ok(Options { access, policies, cache_bytes, data: DataKeeping::Bytes })
}

/// The blocks of a volume that are free, as ranges.
fn free_blocks(device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<Vec<Range<u64>>> {
    let reader = Filesystem::open(Arc::clone(device), &engine_options(Access::ReadOnly)?)?;
    let mut free: Vec<Range<u64>> = Vec::new();
    for group in 0..superblock.group_count() {
        for (BlockNo(start), length) in reader.free_runs(GroupNo(group))? {
            let end = start + u64::from(length);
            match free.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => free.push(start..end),
            }
        }
    }
    Ok(free)
}
