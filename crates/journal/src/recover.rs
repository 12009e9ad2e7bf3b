//! The volume after replay: over its device in memory, or on it.
use crate::error::Error;
use crate::locate::{Journal, MapSource, State};
use crate::scan::{End, Scan};
use crate::volume::read_volume;
use extant_block::{BlockDevice, Operation, Overlay, Segment, each_request};
use extant_format::GroupNo;
use extant_format::group::GroupDescriptor;
use extant_format::journal::{SUPERBLOCK_BYTES, Sequence};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, Superblock, state};
use std::sync::Arc;

/// Bytes of copies that [`apply`] keeps in memory at most: others it reads again. A good limit for
/// overlays too.
pub const MEMORY_BYTES_MAX: u64 = 2 << 30;

/// What recovery did, or would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The volume has no journal.
    NoJournal,
    /// The journal is empty, and the volume says so.
    Clean,
    /// The journal is empty, and the volume said that it needs recovery.
    Empty,
    /// The journal holds transactions of a volume that says that it needs no recovery: they are
    /// ignored.
    Stale,
    /// The full commits were replayed, and there was nothing else.
    Replayed,
    /// The full commits were replayed. Fast commits follow, and are left to the engine: on a device
    /// the log is as it was, so that they can still be found.
    FastCommitsFollow,
}

/// What recovery found and did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What became of the journal.
    pub outcome: Outcome,
    /// Whole transactions in the log.
    pub transactions: usize,
    /// The first and the last of them.
    pub sequences: Option<(Sequence, Sequence)>,
    /// Blocks of the volume that were replayed.
    pub blocks: usize,
    /// Bytes of a block.
    pub block_size: u32,
    /// Copies that were not replayed because they were revoked.
    pub revoked: u64,
    /// Why the log ended.
    pub end: End,
    /// Whole fast commits after the last transaction.
    pub fast_commits: u32,
    /// Changes in them.
    pub fast_changes: usize,
    /// The error that stopped the journal, as Linux numbers it; 0 for none. The volume has the flag
    /// of errors because of it.
    pub journal_error: i32,
}

/// The journal of a volume that needs recovery, read, and nothing changed yet.
pub struct Recovery {
    journal: Journal,
    scan: Scan,
}

/// The volume on `device` as it is after the full commits of its journal were replayed, its log
/// empty and its flag `needs_recovery` cleared, in an overlay of at most `limit_bytes`. Writes
/// nothing. The journal of a volume that needs no recovery is not looked at: [`Outcome::Clean`],
/// and an overlay without changes.
///
/// # Errors
/// As [`Recovery::find`]; `StorageFull` of the overlay.
pub fn overlay(
    device: Arc<dyn BlockDevice>,
    limit_bytes: u64,
) -> Result<(Arc<Overlay>, Report), Error> {
    let found = match read_volume(&*device) {
        Ok(volume) if !volume.has(Feature::NEEDS_RECOVERY) => {
            Found::Nothing(Report::nothing(Outcome::Clean, volume.block_size()))
        }
        // A superblock that is torn may be whole in the log.
        Ok(_) | Err(Error::Volume(_)) => Recovery::find(Arc::clone(&device), MapSource::Inode, 0)?,
        Err(error) => return Err(error),
    };
    match found {
        Found::Recovery(recovery) => {
            Ok((Arc::new(recovery.overlay(limit_bytes)?), recovery.report()))
        }
        Found::Nothing(report) => {
            // Any block size: nothing is changed.
            let block_bytes = report.block_size.max(SUPERBLOCK_BYTES as u32);
            Ok((Arc::new(Overlay::new(device, block_bytes, limit_bytes)), report))
        }
    }
}

/// Replays the full commits of the journal of the volume on `device`, empties the log and clears
/// `needs_recovery`; does nothing where nothing is to be recovered. Where fast commits follow the
/// log is left as it is: [`Outcome::FastCommitsFollow`].
///
/// Interrupted at any write, by a cut or by an error, it can be begun again.
///
/// # Errors
/// As [`Recovery::find`], before anything was written; those of the device.
pub fn apply(device: Arc<dyn BlockDevice>) -> Result<Report, Error> {
    match Recovery::find(device, MapSource::Inode, MEMORY_BYTES_MAX)? {
        Found::Nothing(report) => Ok(report),
        Found::Recovery(recovery) => {
            recovery.replay_in_place()?;
            if recovery.scan.fast_commits.commits == 0 {
                recovery.reset()?;
            }
            Ok(recovery.report())
        }
    }
}

/// What [`Recovery::find`] finds.
pub enum Found {
    /// Something to recover.
    Recovery(Box<Recovery>),
    /// Nothing, for the reason that the report's outcome says.
    Nothing(Report),
}

impl Recovery {
    /// Finds and reads the journal of the volume on a device, keeping copies of at most
    /// `memory_bytes` in memory. Writes nothing.
    ///
    /// # Errors
    /// As [`Journal::find`] and [`Journal::scan`].
    pub fn find(
        device: Arc<dyn BlockDevice>,
        map: MapSource,
        memory_bytes: u64,
    ) -> Result<Found, Error> {
        let Some(journal) = Journal::find(device, map)? else {
            return Ok(Found::Nothing(Report::nothing(Outcome::NoJournal, 0)));
        };
        let needs_recovery = journal.volume().has(Feature::NEEDS_RECOVERY);
        let outcome = match journal.state() {
            State::Empty if !needs_recovery => Outcome::Clean,
            State::Stale => Outcome::Stale,
            State::Empty | State::Waiting => {
                let scan = journal.scan(memory_bytes)?;
                journal.check_sealed(scan.plan.iter().map(|replayed| replayed.target))?;
                return Ok(Found::Recovery(Box::new(Recovery { journal, scan })));
            }
        };
        let mut report = Report::nothing(outcome, journal.volume().block_size());
        report.journal_error = journal.superblock().error;
        Ok(Found::Nothing(report))
    }

    /// The journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What its log holds.
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    /// What [`apply`] reports.
    pub fn report(&self) -> Report {
        let scan = &self.scan;
        let outcome = match () {
            () if self.journal.state() == State::Empty => Outcome::Empty,
            () if scan.fast_commits.commits > 0 => Outcome::FastCommitsFollow,
            () => Outcome::Replayed,
        };
        let ends = scan.transactions.first().zip(scan.transactions.last());
        Report {
            outcome,
            transactions: scan.transactions.len(),
            sequences: ends.map(|(first, last)| (first.sequence, last.sequence)),
            blocks: scan.plan.len(),
            block_size: self.journal.volume().block_size(),
            revoked: scan.revoked,
            end: scan.end.clone(),
            fast_commits: scan.fast_commits.commits,
            fast_changes: scan.fast_commits.changes.len(),
            journal_error: self.journal.superblock().error,
        }
    }

    /// The volume as it is after replay of the full commits and [`reset`](Self::reset), over the
    /// device; the superblock's counters are the sums of those of the groups. Copies are read from
    /// the log: the overlay is of use as long as that is not written.
    ///
    /// # Errors
    /// Those of the device; `StorageFull` beyond `limit_bytes`; a superblock that replay would
    /// destroy.
    pub fn overlay(&self, limit_bytes: u64) -> Result<Overlay, Error> {
        let block_size = self.journal.volume().block_size();
        let overlay = Overlay::new(Arc::clone(&self.journal.device), block_size, limit_bytes);
        for replayed in &self.scan.plan {
            // A copy is read from the log, which stays as it is, unless its first bytes changed.
            match replayed.is_escaped {
                false => {
                    let copy = self.journal.offset(replayed.source);
                    overlay.redirect(replayed.target.0, copy)?;
                }
                true => {
                    let bytes = self.scan.bytes(&self.journal, replayed)?;
                    overlay.put(replayed.target.0, bytes)?;
                }
            }
        }
        self.reset_on(&overlay)?;
        recount(&overlay)?;
        Ok(overlay)
    }

    /// Writes the copies to their places, in the order of the disk, and makes them durable. The log
    /// is left as it is. Can be done again.
    ///
    /// # Errors
    /// Those of the device.
    pub fn replay_in_place(&self) -> Result<(), Error> {
        let copies = self.scan.plan.iter().map(|replayed| {
            let bytes = self.scan.bytes(&self.journal, replayed)?;
            Ok::<_, Error>((replayed.target.0, Segment::Shared(bytes)))
        });
        let block_size = self.journal.volume().block_size() as usize;
        each_request(copies, block_size, |offset, segments| {
            Ok(self.journal.device.transfer(Operation::Write, offset, segments).result?)
        })?;
        self.journal.device.flush()?;
        Ok(())
    }

    /// Empties the log, after its copies are durable in their places, and clears `needs_recovery`.
    /// An error that is noted in the journal becomes the flag of errors of the volume first, and so
    /// does damage that cut the log: what it held is lost, and the next check has to look at all.
    /// Each step is durable before the next.
    ///
    /// # Errors
    /// Those of the device; a superblock that replay has destroyed.
    pub fn reset(&self) -> Result<(), Error> {
        self.reset_on(&*self.journal.device)
    }

    fn reset_on(&self, device: &dyn BlockDevice) -> Result<(), Error> {
        // Replay may have changed it: it is read again.
        let mut volume = read_volume(device)?;
        let mut superblock = *self.journal.superblock();
        if superblock.error != 0 || matches!(self.scan.end, End::Damaged { .. }) {
            volume.state |= state::ERRORS;
            store_volume(device, &volume)?;
        }
        superblock.sequence = self.scan.sequence_after(&superblock);
        (superblock.start, superblock.error, superblock.head) = (0, 0, 0);
        let offset = self.journal.offset(0);
        let mut bytes = [0; SUPERBLOCK_BYTES];
        device.read(offset, &mut bytes)?;
        superblock.store(&mut bytes);
        device.write(offset, &bytes)?;
        device.flush()?;
        volume.features.clear(Feature::NEEDS_RECOVERY);
        store_volume(device, &volume)
    }
}

/// Puts the sums of the groups' counters in the superblock: Linux does not log it with each change,
/// and sums them when it mounts. On a device that is left to who opens it for writing: such a store
/// is not one that can be recognised when it is torn.
fn recount(device: &dyn BlockDevice) -> Result<(), Error> {
    let mut volume = read_volume(device)?;
    if volume.has(Feature::META_BG) {
        return Ok(());
    }
    let groups = volume.group_count();
    let table_bytes = u64::from(groups).saturating_mul(volume.descriptor_size.into());
    let (first, _) = volume.descriptor_place(GroupNo(0));
    let start = first.0 * u64::from(volume.block_size());
    if start.saturating_add(table_bytes) > device.own_bytes() {
        return Ok(());
    }
    let (mut free_blocks, mut free_inodes) = (0_u64, 0_u64);
    let size = usize::from(volume.descriptor_size);
    let mut at = 0;
    while at < table_bytes {
        let mut bytes = vec![0; (table_bytes - at).min(size as u64 * 4096) as usize];
        device.read(start + at, &mut bytes)?;
        for bytes in bytes.chunks_exact(size) {
            let descriptor = GroupDescriptor::decode(bytes, &volume);
            free_blocks += u64::from(descriptor.free_blocks) << volume.cluster_log2();
            free_inodes += u64::from(descriptor.free_inodes);
        }
        at += bytes.len() as u64;
    }
    // What cannot be is left for the check to see.
    if let Ok(free_inodes) = u32::try_from(free_inodes)
        && free_inodes <= volume.inodes_count
        && free_blocks <= volume.blocks_count
    {
        (volume.free_blocks, volume.free_inodes) = (free_blocks, free_inodes);
        device.write(SUPERBLOCK_OFFSET, &volume.encode())?;
    }
    Ok(())
}

/// Stores the volume's superblock, and makes it durable.
fn store_volume(device: &dyn BlockDevice, volume: &Superblock) -> Result<(), Error> {
    device.write(SUPERBLOCK_OFFSET, &volume.encode())?;
    device.flush()?;
    Ok(())
}

impl Report {
    fn nothing(outcome: Outcome, block_size: u32) -> Report {
        Report {
            outcome,
            transactions: 0,
            sequences: None,
            blocks: 0,
            block_size,
            revoked: 0,
            end: End::Clean,
            fast_commits: 0,
            fast_changes: 0,
            journal_error: 0,
        }
    }
}
