//! Recovery: what a volume needs before it can be used, after a power cut.
//!
//! ```text
//! fast_commits   changes of inodes and names that Linux logged, made by inode and name
//! orphans        inodes without a name, and truncations that had begun
//! salvage        damaged volumes, as far as they can be read
//! ```
//!
//! The blocks of full commits are replayed by `extant_journal`. What follows them needs a file
//! system: it is opened without a journal on an overlay over the device, and changed there.
//!
//! ```text
//!                    read only                        to be written
//! full commits       overlay                          in their places, then durable
//! fast commits       the engine, on the overlay       the engine, on an overlay; its blocks are
//!                                                     one more full commit, which is replayed
//! orphans            the engine, on the overlay       operations of the volume that is open, each
//!                                                     a transaction of its journal
//! ```
//!
//! That full commit is written so that the fast commits are found as long as it is not durable:
//!
//! ```text
//! full commits in place | flush | the log begins at its first block, with transaction N | flush
//!     | descriptor | copies | .. | flush | commit block | flush
//! ```
//!
//! A cut at any moment of this leaves a volume that can be recovered again. What cannot be replayed
//! is found out on the overlay, before anything is written.
pub(crate) mod fast_commits;
pub(crate) mod orphans;
mod salvage;

pub use orphans::OrphanCounts;
pub use salvage::{Loss, Salvaged, salvaged};

use crate::error::{Error, ErrorKind, Result};
use crate::flush::Core;
use crate::policy::preset::{DataOrder, Journal, Mount, Policies};
use crate::store::budget::DirtyBudget;
use crate::store::mount_hold::MountHold;
use crate::store::superblock::{check_written, read_superblock};
use crate::store::{Access, DataKeeping, Options, cache_for_blocks};
use extant_block::{BlockDevice, Overlay};
use extant_format::journal::fast_commit::Change;
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_journal::transaction;
use extant_journal::{End, Found, MEMORY_BYTES_MAX, MapSource, Outcome, Recovery, Report};
use std::sync::Arc;

/// Memory for metadata while a volume is recovered, in bytes.
const CACHE_BYTES: usize = 16 << 20;

/// A volume as it is after recovery.
pub struct Recovered {
    /// The volume. If anything was recovered, an overlay in memory over the device.
    pub device: Arc<dyn BlockDevice>,
    /// What was recovered; `None` if the volume needs no recovery.
    pub report: Option<RecoveryReport>,
}

/// What was recovered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveryReport {
    /// What the journal held. Fast commits are replayed too.
    pub journal: Report,
    /// Orphans, where they were freed. `None` if they were left, or are damaged.
    pub orphans: Option<OrphanCounts>,
}

/// What becomes of orphans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Orphans {
    /// They are freed, or cut to their size, as by a program that opens the volume to write.
    Finish,
    /// They stay, for a check that judges them.
    Leave,
}

/// The volume on a device as it is after recovery, for programs that read it. Nothing is written;
/// what recovery changes is kept in memory. Where the engine does not write the volume's features,
/// fast commits and orphans are left, and the report says so: the first by its outcome.
///
/// # Errors
/// `Journal` for a journal that cannot be replayed; `Corrupt` for fast commits that are not
/// possible, or metadata that they need; `NotExt`, `Unsupported`; what the device returns.
pub fn recovered(device: Arc<dyn BlockDevice>, orphans: Orphans) -> Result<Recovered> {
    // Copies are read from the log when they are wanted.
    let Some(recovery) = find(&device, 0)? else {
        return Ok(Recovered { device, report: None });
    };
    let mut journal = recovery.report();
    let full: Arc<dyn BlockDevice> = Arc::new(recovery.overlay(MEMORY_BYTES_MAX)?);
    let changes = &recovery.scan().fast_commits.changes;
    let mut device = full;
    let is_written = check_written(recovery.journal().volume()).is_ok();
    if !changes.is_empty() && is_written {
        let over = Arc::new(overlay(&device, &recovery));
        replay_fast_commits(Arc::clone(&over) as Arc<dyn BlockDevice>, changes)?;
        device = over;
    }
    if journal.outcome == Outcome::FastCommitsFollow && (is_written || changes.is_empty()) {
        journal.outcome = Outcome::Replayed;
    }
    let mut finished = None;
    // Damaged ones hinder no reader.
    if orphans == Orphans::Finish
        && let Ok(without) = without_orphans(&device)
    {
        let (over, counts) = without.unwrap_or((device, OrphanCounts::default()));
        (device, finished) = (over, Some(counts));
    }
    Ok(Recovered { device, report: Some(RecoveryReport { journal, orphans: finished }) })
}

/// A volume for programs that judge it, by [`judged`].
pub struct Judged {
    /// After replay, where that is possible; else as it is. Its orphans wait.
    pub device: Arc<dyn BlockDevice>,
    /// What its journal held; `None` if it needs no recovery, or could not be replayed.
    pub report: Option<Report>,
    /// Why its journal could not be replayed.
    pub failure: Option<extant_journal::Error>,
}

impl Judged {
    /// The transaction from which on the log is damaged, so that it was left out with all after it.
    pub fn cut_at(&self) -> Option<u64> {
        match self.report.as_ref().map(|report| &report.end) {
            Some(End::Damaged { sequence, .. }) => Some(sequence.0.into()),
            _ => None,
        }
    }
}

/// The volume on a device as programs see it that judge it: after recovery, where that is possible;
/// of one with features that are not supported, or fast commits that are damaged, after its full
/// commits; else as it is. Nothing is written. What is wrong with a superblock is said by whoever
/// opens the volume.
pub fn judged(device: Arc<dyn BlockDevice>) -> Judged {
    if let Ok(Recovered { device, report }) = recovered(Arc::clone(&device), Orphans::Leave) {
        return Judged { device, report: report.map(|report| report.journal), failure: None };
    }
    match extant_journal::overlay(Arc::clone(&device), MEMORY_BYTES_MAX) {
        Ok((overlay, report)) => Judged { device: overlay, report: Some(report), failure: None },
        Err(extant_journal::Error::Volume(_)) => Judged { device, report: None, failure: None },
        Err(failure) => Judged { device, report: None, failure: Some(failure) },
    }
}

/// The volume on a device without what its journal holds (`norecovery` of ext4), for programs that
/// read it: it may be in the middle of changes. Nothing is written.
///
/// # Errors
/// `NotExt`, `Unsupported`, `Corrupt` for its superblock; what the device returns.
pub fn unreplayed(device: Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>> {
    let mut superblock = read_superblock(&*device)?;
    if !superblock.has(Feature::NEEDS_RECOVERY) {
        return Ok(device);
    }
    superblock.features.clear(Feature::NEEDS_RECOVERY);
    let over = Overlay::new(device, superblock.block_size(), MEMORY_BYTES_MAX);
    over.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
    Ok(Arc::new(over))
}

/// Replays the journal of the volume on a device, full commits and fast commits, and empties it.
/// Returns what it held; `None` if the volume needs no recovery. Orphans stay until the volume is
/// opened to be written.
///
/// Interrupted at any write, by a cut or by an error, it can be begun again.
///
/// # Errors
/// As [`recovered`], before anything was written; `NotWritten`; `Held`; `OperationUnsupported` for
/// fast commits that change more than the log can hold.
pub fn recover(device: &Arc<dyn BlockDevice>) -> Result<Option<Report>> {
    let superblock = read_superblock(&**device);
    if superblock.as_ref().is_ok_and(|superblock| !superblock.has(Feature::NEEDS_RECOVERY)) {
        return Ok(None);
    }
    let (superblock, hold) = held(device, superblock)?;
    released(hold, recover_read(device, superblock))
}

/// As [`recover`], for a caller that holds the volume.
///
/// # Errors
/// As [`recover`], but `Held`.
pub fn recover_held(device: &Arc<dyn BlockDevice>) -> Result<Option<Report>> {
    recover_read(device, read_superblock(&**device))
}

/// As [`recover_held`], with the superblock as it was read: each read of it costs a seek.
fn recover_read(
    device: &Arc<dyn BlockDevice>,
    superblock: Result<Superblock>,
) -> Result<Option<Report>> {
    let Some(recovery) = find_read(device, superblock, MEMORY_BYTES_MAX)? else { return Ok(None) };
    let mut report = recovery.report();
    let found = recovery.scan();
    if found.fast_commits.changes.is_empty() {
        // Copies of blocks are written whatever they hold, also where the engine writes no files.
        check_replayed(recovery.journal().volume())?;
        recovery.replay_in_place()?;
        recovery.reset()?;
    } else {
        check_written(recovery.journal().volume())?;
        let full: Arc<dyn BlockDevice> = Arc::new(recovery.overlay(MEMORY_BYTES_MAX)?);
        let over = Arc::new(overlay(&full, &recovery));
        replay_fast_commits(
            Arc::clone(&over) as Arc<dyn BlockDevice>,
            &found.fast_commits.changes,
        )?;
        ask_for_recovery(&*over)?;
        let blocks = over.changed();
        if !transaction::fits(recovery.journal().superblock(), blocks.len()) {
            let why = "the fast commits change more than the log can hold at once: run e2fsck";
            return Err(ErrorKind::OperationUnsupported(why).into());
        }
        recovery.replay_in_place()?;
        transaction::write(&**device, recovery.journal(), found.next, &blocks)?;
        if let Some(again) = find(device, MEMORY_BYTES_MAX)? {
            again.replay_in_place()?;
            again.reset()?;
        }
    }
    if report.outcome == Outcome::FastCommitsFollow {
        report.outcome = Outcome::Replayed;
    }
    Ok(Some(report))
}

/// The volume on a device, whose journal was replayed, as it is once its orphans are freed or cut
/// to their size, and how many those were; `None` if none wait. Nothing is written; what changes is
/// kept in memory.
///
/// # Errors
/// `Corrupt` for a list or file of orphans that is damaged, or metadata that they need; `NotExt`,
/// `Unsupported`, `NeedsRecovery`; what the device returns.
pub fn without_orphans(
    device: &Arc<dyn BlockDevice>,
) -> Result<Option<(Arc<dyn BlockDevice>, OrphanCounts)>> {
    // Who opens the volume says what is wrong with its superblock.
    let Some(superblock) = read_any(&**device).ok().filter(has_orphans) else { return Ok(None) };
    let block_size = superblock.block_size();
    let over = Arc::new(Overlay::new(Arc::clone(device), block_size, MEMORY_BYTES_MAX));
    let counts = finish_orphans(Arc::clone(&over) as Arc<dyn BlockDevice>)?;
    Ok(Some((over, counts)))
}

/// Frees the orphans of the volume on a device, whose journal was replayed, or cuts them to their
/// size, each by a transaction of the journal if there is one. Returns how many there were; `None`
/// if none wait: then nothing is written.
///
/// Interrupted at any write, by a cut or by an error, it can be begun again after [`recover`].
///
/// # Errors
/// As [`without_orphans`], before anything was written; a journal that is damaged or on another
/// device; what the device returns.
pub fn free_orphans(device: &Arc<dyn BlockDevice>) -> Result<Option<OrphanCounts>> {
    let superblock = read_any(&**device)?;
    if !has_orphans(&superblock) {
        return Ok(None);
    }
    let options = Options { policies: modern()?, ..unjournalled()? };
    check_orphans(device, &options)?;
    let hold = hold(device, &superblock)?;
    let free = || {
        let core = Core::open(Arc::clone(device), &options, None)?;
        let counts = orphans::finish(&core.inodes)?;
        core.close()?;
        Ok(Some(counts))
    };
    released(hold, free())
}

/// Takes a volume that several machines may reach, if it is one and can be written.
///
/// # Errors
/// As [`MountHold::take`]; `NotWritten`.
pub fn hold(device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<Option<MountHold>> {
    check_written(superblock)?;
    MountHold::take(device, superblock)
}

/// Fails for a volume on which not even the blocks of a log are written.
///
/// # Errors
/// `NotWritten`.
fn check_replayed(superblock: &Superblock) -> Result<()> {
    if superblock.has(Feature::READ_ONLY) { check_written(superblock) } else { Ok(()) }
}

/// Takes a volume whose superblock was read, and gives the superblock as it is then.
fn held(
    device: &Arc<dyn BlockDevice>,
    superblock: Result<Superblock>,
) -> Result<(Result<Superblock>, Option<MountHold>)> {
    // One that is damaged says nothing of other machines: it may be mended by its log.
    let hold = superblock.as_ref().map_or(Ok(None), |superblock| {
        check_replayed(superblock)?;
        MountHold::take(device, superblock)
    })?;
    match hold {
        // Another machine may have written until it was taken.
        Some(hold) => Ok((read_superblock(&**device), Some(hold))),
        None => Ok((superblock, None)),
    }
}

/// What was done under a hold, after which the volume is given back.
fn released<T>(hold: Option<MountHold>, outcome: Result<T>) -> Result<T> {
    let release = hold.map_or(Ok(()), |hold| hold.release());
    outcome.and_then(|done| release.map(|()| done))
}

/// Whether a volume says that orphans wait.
fn has_orphans(superblock: &Superblock) -> bool {
    superblock.last_orphan != 0 || superblock.has(Feature::ORPHAN_PRESENT)
}

/// The superblock, whatever features the volume has: orphans of a volume that is not supported are
/// not for the engine, but one without orphans needs none of it.
fn read_any(device: &dyn BlockDevice) -> Result<Superblock> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(SUPERBLOCK_OFFSET, &mut bytes)?;
    Ok(Superblock::parse_any(&bytes)?)
}

/// Whether the caller of [`open`] has taken the volume, for as long as it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holding {
    /// It has not: the volume is taken, and given back when it is closed.
    Ours,
    /// It has, or no other machine can reach it.
    Callers,
}

/// Opens a volume, recovered. `shared` as in [`Core::open`].
///
/// # Errors
/// As [`recover`] and [`Core::open`]; `Corrupt` for a list or file of orphans that is damaged.
pub(crate) fn open(
    device: Arc<dyn BlockDevice>,
    options: &Options,
    shared: Option<(&Arc<DirtyBudget>, u32)>,
    holding: Holding,
) -> Result<Core> {
    if options.access == Access::ReadOnly || device.info().read_only {
        let device = recovered(device, Orphans::Finish)?.device;
        return Core::open(
            device,
            &Options { access: Access::ReadOnly, ..options.clone() },
            shared,
        );
    }
    let superblock = read_superblock(&*device);
    superblock.as_ref().map_or(Ok(()), check_written)?;
    let (superblock, hold) = match holding {
        Holding::Ours => held(&device, superblock)?,
        Holding::Callers => (superblock, None),
    };
    let open = || {
        recover_read(&device, superblock)?;
        check_orphans(&device, options)?;
        let core = Core::open(Arc::clone(&device), options, shared)?;
        orphans::finish(&core.inodes)?;
        Ok(core)
    };
    match (open(), hold) {
        (Ok(core), Some(hold)) => Ok(core.held(hold)),
        (Ok(core), None) => Ok(core),
        (failed, hold) => released(hold, failed),
    }
}

/// Reads the journal of a volume that needs recovery, keeping copies of at most `memory_bytes`;
/// `None` if it needs none.
fn find(device: &Arc<dyn BlockDevice>, memory_bytes: u64) -> Result<Option<Box<Recovery>>> {
    find_read(device, read_superblock(&**device), memory_bytes)
}

/// As [`find`], with the superblock as it was read.
fn find_read(
    device: &Arc<dyn BlockDevice>,
    superblock: Result<Superblock>,
    memory_bytes: u64,
) -> Result<Option<Box<Recovery>>> {
    if superblock.as_ref().is_ok_and(|superblock| !superblock.has(Feature::NEEDS_RECOVERY)) {
        return Ok(None);
    }
    // One that is damaged may have been torn when a recovery stored it.
    let found = Recovery::find(Arc::clone(device), MapSource::Inode, memory_bytes);
    match (found, superblock) {
        (Ok(Found::Recovery(recovery)), _) => Ok(Some(recovery)),
        (_, Err(error)) => Err(error),
        // It asks for recovery, so there would be something if it had a journal.
        (Ok(Found::Nothing(_)), Ok(_)) => Err(extant_journal::Error::NoJournal.into()),
        (Err(error), Ok(_)) => Err(error.into()),
    }
}

/// Another overlay over a device.
fn overlay(device: &Arc<dyn BlockDevice>, recovery: &Recovery) -> Overlay {
    let block_size = recovery.journal().volume().block_size();
    Overlay::new(Arc::clone(device), block_size, MEMORY_BYTES_MAX)
}

fn modern() -> Result<Policies> {
    let unknown = |_| ErrorKind::InvalidArgument("there is no preset of this name");
    Ok("modern".parse().map_err(unknown)?)
}

/// How a volume is opened on an overlay: nothing there has to survive a power cut.
fn unjournalled() -> Result<Options> {
    let mut policies = modern()?;
    policies.journal = Journal::None;
    policies.data_order = DataOrder::Unordered;
    policies.mount = Mount::Async;
    let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
    Ok(Options { access, policies, cache_bytes: cache_for_blocks(CACHE_BYTES), data })
}

/// Makes the changes of fast commits on a device, which holds the volume as the full commits left
/// it.
///
/// # Errors
/// As [`fast_commits::replay`]; the device is then of no use.
fn replay_fast_commits(device: Arc<dyn BlockDevice>, changes: &[Change]) -> Result<()> {
    let core = Core::open(device, &unjournalled()?, None)?;
    orphans::adopt(&core.inodes)?;
    fast_commits::replay(&core.inodes, changes)?;
    core.close()
}

/// Frees and truncates the orphans of the volume on a device.
fn finish_orphans(device: Arc<dyn BlockDevice>) -> Result<OrphanCounts> {
    let core = Core::open(device, &unjournalled()?, None)?;
    let counts = orphans::finish(&core.inodes)?;
    core.close()?;
    Ok(counts)
}

/// Fails if the orphans of a volume are damaged, before it is changed in any way.
fn check_orphans(device: &Arc<dyn BlockDevice>, options: &Options) -> Result<()> {
    let superblock = read_superblock(&**device)?;
    if !has_orphans(&superblock) {
        return Ok(());
    }
    let options = Options { access: Access::ReadOnly, ..options.clone() };
    let core = Core::open(Arc::clone(device), &options, None)?;
    orphans::check(&core.inodes)
}

/// Marks a volume as one that needs recovery: its superblock becomes part of a full commit, and
/// until that is in its place the log has to be replayed.
fn ask_for_recovery(device: &dyn BlockDevice) -> Result<()> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(SUPERBLOCK_OFFSET, &mut bytes).map_err(Error::from)?;
    let mut superblock = Superblock::parse(&bytes)?;
    superblock.features.set(Feature::NEEDS_RECOVERY);
    // tidy: writers because the volume on the overlay was closed before
    device.write(SUPERBLOCK_OFFSET, &superblock.encode()).map_err(Error::from)
}
