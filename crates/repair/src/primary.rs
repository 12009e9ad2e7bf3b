//! Which superblock is believed: the first one, or a copy of it.
//!
//! *Invariants*: what is tried is in the overlay; what is left there is what was chosen.
use crate::error::Error;
use crate::journal::{self, Replayed};
use crate::options::Scope;
use crate::places;
use extant_block::BlockDevice;
use extant_engine::ErrorKind;
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_format::{BlockNo, GroupNo};
use extant_inspect::{
    CheckOptions, CheckReport, Code, Problem, SuperblockPlace, Usage, Volume, examine, open_copy,
};
use std::sync::Arc;

/// What a check finds by the superblock that was chosen.
pub(crate) struct Chosen {
    pub(crate) report: CheckReport,
    pub(crate) usage: Option<Usage>,
    /// The block of the copy, if another one than the first was written to the first place.
    pub(crate) from: Option<BlockNo>,
}

/// The superblock at a place, as the first one is to be.
///
/// # Errors
/// There is none; the device's.
pub(crate) fn at(
    device: &Arc<dyn BlockDevice>,
    place: SuperblockPlace,
) -> Result<Superblock, Error> {
    let mut superblock = Volume::open(Arc::clone(device), place)?.superblock().clone();
    superblock.group_number = 0;
    Ok(superblock)
}

/// Writes a copy of the superblock to the first place, and replays the journal by it: that a log
/// waits only the first one says. Gives what the log held; `None` if nothing waited, or it could
/// not be replayed, and then it does not say that one waits.
///
/// # Errors
/// The device's; a log that may wait is of a volume that is not written here.
pub(crate) fn replayed_by(
    over: &Arc<dyn BlockDevice>,
    copy: &Superblock,
) -> Result<Option<Replayed>, Error> {
    let mut waiting = copy.clone();
    waiting.group_number = 0;
    if copy.has(Feature::HAS_JOURNAL) && copy.journal_inode != 0 {
        waiting.features.set(Feature::NEEDS_RECOVERY);
        // tidy: writers because it is an overlay in memory
        over.write(SUPERBLOCK_OFFSET, &waiting.encode())?;
        match journal::replay(over) {
            Ok(replayed) => return Ok(Some(replayed)),
            Err(error) if matches!(error.kind, ErrorKind::Device(_) | ErrorKind::Held(_)) => {
                return Err(error.into());
            }
            // Nothing is wrong with such a log, and whether it waits is not known: it is kept.
            Err(error)
                if matches!(error.kind, ErrorKind::NotWritten(_) | ErrorKind::Unsupported(_)) =>
            {
                return Err(Error::Refused(format!(
                    "its journal may have to be replayed first: {error}"
                )));
            }
            Err(_) => waiting.features.clear(Feature::NEEDS_RECOVERY),
        }
    }
    // tidy: writers because it is an overlay in memory
    over.write(SUPERBLOCK_OFFSET, &waiting.encode())?;
    Ok(None)
}

/// Where the first superblock cannot be used: replays a log that waits by the copy, and leaves the
/// copy in its place. `None` where nothing waits; all is as it was then.
///
/// # Errors
/// As [`replayed_by`].
pub(crate) fn replayed_without_the_first(
    over: &Arc<dyn BlockDevice>,
) -> Result<Option<(Replayed, Problem)>, Error> {
    let mut before = [0; SUPERBLOCK_SIZE];
    over.read(SUPERBLOCK_OFFSET, &mut before)?;
    let Some(copy) = copy_of(over)? else { return Ok(None) };
    let replayed = replayed_by(over, &copy)?;
    let holds = |it: &Replayed| it.report.as_ref().is_some_and(|report| report.transactions > 0);
    let Some(replayed) = replayed.filter(holds) else {
        // tidy: writers because it is an overlay in memory
        over.write(SUPERBLOCK_OFFSET, &before)?;
        return Ok(None);
    };
    let block = BlockNo(copy.blocks_per_group.into());
    Ok(Some((replayed, Problem::new(Code::SuperblockDamaged).block(block))))
}

/// What a check finds by another superblock than the one that it used, if that is less: then it
/// is written to the first place. Else what was found. Others are the copies, where they say
/// other things of where everything is or the first one's checksum is wrong, and then also the
/// first one as it stands: a copy may be what a former file system has left.
///
/// # Errors
/// The device's; none can be told to be the volume's.
pub(crate) fn chosen(
    over: &Arc<dyn BlockDevice>,
    (report, usage): (CheckReport, Option<Usage>),
    (how, scope): (&CheckOptions, Scope),
) -> Result<Chosen, Error> {
    let kept = |report, usage| Ok(Chosen { report, usage, from: None });
    if report.exit_code() == 0 || scope < Scope::Safe {
        return kept(report, usage);
    }
    let mut stored = [0; SUPERBLOCK_SIZE];
    over.read(SUPERBLOCK_OFFSET, &mut stored)?;
    let Ok(volume) = Volume::open(Arc::clone(over), SuperblockPlace::Primary) else {
        return kept(report, usage);
    };
    let first = volume.superblock().clone();
    let is_torn = report
        .problems
        .iter()
        .any(|it| matches!(it.code, Code::SuperblockDamaged | Code::SuperblockChecksum));
    let may_seal = is_torn && (scope == Scope::All || is_confirmed(over));
    let mut others = Vec::from_iter(may_seal.then(|| first.clone()));
    // Sealed as it is, it would say nothing of the inodes that it leaves out.
    let whole = places::with_whole_groups(&first, &report).filter(|_| may_seal);
    others.extend(whole.map(|(whole, _)| whole));
    let copies = [copy_of(over)?, copy_of_group(over, &first)];
    others.extend(
        copies
            .into_iter()
            .flatten()
            .filter(|copy| shape(copy) != shape(&first) || is_torn && copy.uuid != first.uuid),
    );
    let count = |report: &CheckReport| report.counts.values().sum::<u64>();
    let mut best = (report, usage, stored);
    for mut other in others {
        other.group_number = 0;
        other.last_orphan = first.last_orphan;
        if !first.has(Feature::NEEDS_RECOVERY) {
            other.features.clear(Feature::NEEDS_RECOVERY);
        }
        let bytes = other.encode();
        // tidy: writers because it is an overlay in memory
        over.write(SUPERBLOCK_OFFSET, &bytes)?;
        let (report, usage) = examine(Arc::clone(over), how)?;
        if count(&report) < count(&best.0) && report.exit_code() != 8 {
            best = (report, usage, bytes);
        }
    }
    let (report, usage, bytes) = best;
    // tidy: writers because it is an overlay in memory
    over.write(SUPERBLOCK_OFFSET, &bytes)?;
    let used = usage.as_ref().map(|usage| usage.superblock().uuid);
    let is_other = bytes == stored && used.is_some_and(|uuid| uuid != first.uuid);
    if scope < Scope::All && is_torn && is_other {
        return Err(Error::Refused(
            "the checksum of the first superblock is wrong, and the copy that can be used has \
             another UUID: it may be what a former file system has left (--all takes it)"
                .into(),
        ));
    }
    // Where a copy of it is by the first one.
    let from = (bytes != stored).then(|| BlockNo(first.blocks_per_group.into()));
    Ok(Chosen { report, usage, from })
}

/// Whether a copy of the superblock says what the first one says, but for what changes with
/// each use: then it is its checksum that is wrong.
pub(crate) fn is_confirmed(over: &Arc<dyn BlockDevice>) -> bool {
    let Ok(first) = Volume::open(Arc::clone(over), SuperblockPlace::Primary) else {
        return false;
    };
    let first = first.superblock().clone();
    let mut stored = [0; SUPERBLOCK_SIZE];
    let is_read = over.read(SUPERBLOCK_OFFSET, &mut stored).is_ok();
    let block_size = first.block_size();
    let mut groups = (1..first.group_count()).map(GroupNo).filter(|of| first.has_super(*of));
    groups.next().is_some_and(|group| {
        let at = first.group_start(group).0.saturating_mul(block_size.into());
        let mut copy = [0; SUPERBLOCK_SIZE];
        is_read && over.read(at, &mut copy).is_ok() && same_settings(&stored, &copy)
    })
}

/// The first copy of the superblock.
fn copy_of(over: &Arc<dyn BlockDevice>) -> Result<Option<Superblock>, Error> {
    Ok(open_copy(over)?.map(|volume| volume.superblock().clone()))
}

/// The copy of the superblock in the second group of a volume as its first one describes it.
fn copy_of_group(over: &Arc<dyn BlockDevice>, first: &Superblock) -> Option<Superblock> {
    let group = (1..first.group_count()).map(GroupNo).find(|group| first.has_super(*group))?;
    let (block, block_size) = (first.group_start(group), first.block_size());
    let place = SuperblockPlace::Copy { block, block_size };
    let volume = Volume::open(Arc::clone(over), place).ok()?;
    volume.problems().is_empty().then(|| volume.superblock().clone())
}

/// Fields of a superblock that change with each use, or differ between its copies, as first byte
/// and length.
const CHANGING: &[(usize, usize)] = &[
    (0x0c, 8),  // free blocks, free inodes
    (0x2c, 10), // times of mount and write, mounts since a check
    (0x3a, 2),  // state
    (0x40, 4),  // time of the check
    (0x5a, 2),  // the group that it is in
    (0x60, 1),  // a log waits
    (0x65, 1),  // orphans are in their file, among features that no copy follows
    (0x66, 1),
    (0x88, 64),    // where it was mounted last
    (0xe8, 4),     // the first orphan
    (0x158, 4),    // free blocks, high half
    (0x178, 8),    // bytes written
    (0x194, 0x6c), // errors
    (0x274, 8),    // high bytes of times
    (0x3fc, 4),    // the checksum
];

/// Whether two superblocks say the same, but for what changes with each use.
fn same_settings(one: &[u8; SUPERBLOCK_SIZE], other: &[u8; SUPERBLOCK_SIZE]) -> bool {
    let is_lasting =
        |at: usize| !CHANGING.iter().any(|(first, length)| (*first..first + length).contains(&at));
    one.iter().zip(other).enumerate().all(|(at, (one, other))| one == other || !is_lasting(at))
}

/// What a superblock says of where everything is.
fn shape(superblock: &Superblock) -> [u64; 7] {
    [
        superblock.block_size().into(),
        superblock.blocks_count,
        superblock.blocks_per_group.into(),
        superblock.inodes_per_group.into(),
        superblock.inode_size.into(),
        superblock.descriptor_size.into(),
        superblock.first_inode.into(),
    ]
}
