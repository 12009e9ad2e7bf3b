//! What a volume needs before it is used, and no more: nothing if it was unmounted; recovery if it
//! was not; a check and a repair only if there is a reason to doubt it.
//!
//! ```text
//! superblock says clean ----------------------------------------> Clean      one read
//!     | no
//! replay, orphans, in memory: all as it should be --------------> Recovered
//!     | an error flag; a torn log; no log, and not clean; lost; asked for
//! repair, of what loses nothing unless more is asked for --------> Repaired
//! ```
//!
//! Nothing is written to the device, as by [`crate::repair`].
use crate::journal::{Replayed, replay};
use crate::reshape::clean;
use crate::rounds::MEMORY_BYTES_MAX;
use crate::{Error, Recovery, RepairOptions, Repaired, repair};
use extant_block::{BlockDevice, Overlay};
use extant_engine::{free_orphans, read_superblock};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, Superblock, state};
use extant_inspect::{CheckOptions, Severity, examine};
use extant_journal::End;
use std::fmt;
use std::sync::Arc;

/// When a volume is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CheckWhen {
    /// If there is a reason to doubt it.
    #[default]
    Doubted,
    /// In any case.
    Always,
}

/// Why a volume was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It was asked for.
    Asked,
    /// Its superblock cannot be read, or is none.
    Superblock,
    /// The device ends before the volume does.
    CutShort,
    /// Errors were seen in it.
    Errors,
    /// It was not unmounted, and no journal says what was being changed.
    Unjournalled,
    /// Its journal cannot be replayed.
    Journal,
    /// The log of its journal is damaged: what followed is lost.
    TornLog,
    /// Its orphans cannot be freed.
    Orphans,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Asked => "a check was asked for",
            Reason::Superblock => "its superblock is lost",
            Reason::CutShort => "it is longer than the file or device that it is in",
            Reason::Errors => "it is marked as having errors",
            Reason::Unjournalled => "it was not unmounted, and no journal says what was changed",
            Reason::Journal => "its journal cannot be replayed",
            Reason::TornLog => "the log of its journal is damaged",
            Reason::Orphans => "its orphans cannot be freed",
        })
    }
}

/// A volume that was healed in memory.
pub enum Healed {
    /// Nothing is to be done.
    Clean,
    /// It was recovered, and is marked as clean.
    Recovered {
        /// The volume as it is to be.
        overlay: Arc<Overlay>,
        /// Bytes of its blocks.
        block_size: u32,
        /// What recovery did.
        recovery: Recovery,
    },
    /// It was checked, and mended where that was needed.
    Repaired {
        /// Why.
        reason: Reason,
        /// What came of it.
        repaired: Box<Repaired>,
    },
}

/// Whether a device ends before the volume on it.
fn is_cut(device: &dyn BlockDevice, superblock: &Superblock) -> bool {
    let bytes = superblock.blocks_count.saturating_mul(superblock.block_size().into());
    bytes > device.own_bytes()
}

/// Whether a volume can be used as it is, as its superblock says. One read.
pub fn is_clean(device: &dyn BlockDevice) -> bool {
    read_superblock(device).is_ok_and(|superblock| {
        let flags = state::CLEAN | state::ERRORS | state::ORPHANS;
        let waits = superblock.has(Feature::NEEDS_RECOVERY)
            || superblock.has(Feature::ORPHAN_PRESENT)
            || superblock.last_orphan != 0;
        superblock.state & flags == state::CLEAN && !waits && !is_cut(device, &superblock)
    })
}

/// Heals a volume in memory. `options` are those of the repair, if it comes to one.
///
/// # Errors
/// As [`repair`].
pub fn heal(
    device: Arc<dyn BlockDevice>,
    when: CheckWhen,
    options: RepairOptions,
) -> Result<Healed, Error> {
    if when == CheckWhen::Doubted && is_clean(&*device) {
        return Ok(Healed::Clean);
    }
    let recovered = match when {
        CheckWhen::Always => Err(Reason::Asked),
        CheckWhen::Doubted => recovered(&device, &options)?,
    };
    match recovered {
        Ok(healed) => Ok(healed),
        Err(reason) => {
            let repaired = Box::new(repair(device, options)?);
            Ok(Healed::Repaired { reason, repaired })
        }
    }
}

/// A volume before another change: what waits in its journal and its orphans is brought to an end,
/// in memory, where anything waits; with the bytes of its blocks.
///
/// # Errors
/// As [`repair`]; something of it is damaged, and is to be mended by whoever decides that.
pub fn settled(
    device: Arc<dyn BlockDevice>,
    options: RepairOptions,
) -> Result<Option<(Arc<Overlay>, u32)>, Error> {
    let repaired = match heal(device, CheckWhen::Doubted, options)? {
        Healed::Clean => return Ok(None),
        Healed::Recovered { overlay, block_size, .. } => return Ok(Some((overlay, block_size))),
        Healed::Repaired { repaired, .. } => repaired,
    };
    let changed = repaired.changes.iter().map(|change| &change.problem);
    match changed.chain(&repaired.left.problems).find(|it| it.rule().severity > Severity::Advice) {
        Some(problem) => Err(Error::Unclean(problem.to_string())),
        None => Ok(Some((repaired.overlay, repaired.block_size))),
    }
}

/// A volume once what waits in its journal and its orphans is brought to an end, in memory, if a
/// whole check of that finds nothing.
///
/// # Errors
/// As [`settled`]; the volume is not clean.
pub fn sound(
    device: Arc<dyn BlockDevice>,
    options: RepairOptions,
) -> Result<Arc<dyn BlockDevice>, Error> {
    let how = CheckOptions { threads: options.threads, ..CheckOptions::default() };
    let sound = match settled(Arc::clone(&device), options)? {
        Some((overlay, _)) => overlay as Arc<dyn BlockDevice>,
        None => device,
    };
    let (report, usage) = examine(Arc::clone(&sound), &how)?;
    clean(&report, usage)?;
    Ok(sound)
}

/// The volume after recovery, or the reason to check it.
fn recovered(
    device: &Arc<dyn BlockDevice>,
    options: &RepairOptions,
) -> Result<Result<Healed, Reason>, Error> {
    let superblock = match read_superblock(&**device) {
        Ok(superblock) => superblock,
        // A device that fails is no damage of the volume.
        Err(error) if is_device(&error) => return Err(error.into()),
        Err(_) => return Ok(Err(Reason::Superblock)),
    };
    if is_cut(&**device, &superblock) {
        return Ok(Err(Reason::CutShort));
    }
    if let Err(reason) = doubt(&superblock) {
        return Ok(Err(reason));
    }
    let block_size = superblock.block_size();
    let overlay = Overlay::new(Arc::clone(device), block_size, MEMORY_BYTES_MAX);
    let overlay = match &options.spool {
        Some(spool) => overlay.with_spool(spool.try_clone()?),
        None => overlay,
    };
    let overlay = Arc::new(overlay);
    let over = Arc::clone(&overlay) as Arc<dyn BlockDevice>;
    let journal = match replay(&over) {
        Ok(Replayed { report, mended: None }) => report,
        // What lost the journal's inode may have lost more.
        Ok(Replayed { mended: Some(_), .. }) => return Ok(Err(Reason::Journal)),
        Err(error) if is_foreign(&error) => return Err(error.into()),
        Err(_) => return Ok(Err(Reason::Journal)),
    };
    let is_torn = |report: &extant_journal::Report| matches!(report.end, End::Damaged { .. });
    if journal.as_ref().is_some_and(is_torn) {
        return Ok(Err(Reason::TornLog));
    }
    let orphans = match free_orphans(&over) {
        Ok(orphans) => orphans,
        Err(error) if is_foreign(&error) => return Err(error.into()),
        Err(_) => return Ok(Err(Reason::Orphans)),
    };
    let mut superblock = read_superblock(&*over)?;
    // The journal may have recorded an error, or bring a superblock that does.
    if superblock.state & state::ERRORS != 0 {
        return Ok(Err(Reason::Errors));
    }
    superblock.state = superblock.state & !state::ORPHANS | state::CLEAN;
    superblock.written_seconds = options.now_seconds;
    // tidy: writers because it is an overlay, and the volume on it is closed
    over.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
    Ok(Ok(Healed::Recovered { overlay, block_size, recovery: Recovery { journal, orphans } }))
}

/// What a superblock says that recovery does not mend.
fn doubt(superblock: &Superblock) -> Result<(), Reason> {
    if superblock.state & state::ERRORS != 0 {
        return Err(Reason::Errors);
    }
    let is_replayed = superblock.has(Feature::NEEDS_RECOVERY);
    match superblock.state & state::CLEAN == 0 && !is_replayed {
        true => Err(Reason::Unjournalled),
        false => Ok(()),
    }
}

fn is_device(error: &extant_engine::Error) -> bool {
    matches!(error.kind, extant_engine::ErrorKind::Device(_))
}

/// Whether it says nothing of damage: a check would not help.
fn is_foreign(error: &extant_engine::Error) -> bool {
    use extant_engine::ErrorKind::{Held, NotWritten, Unsupported};
    is_device(error) || matches!(error.kind, Held(_) | NotWritten(_) | Unsupported(_))
}
