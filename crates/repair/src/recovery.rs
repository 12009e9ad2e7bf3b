//! What is done before the first check: the journal is replayed, and orphans are freed.
use crate::error::Error;
use crate::journal::{self, Replayed};
use crate::outcome::Recovery;
use crate::primary;
use extant_block::BlockDevice;
use extant_engine::{ErrorKind, OrphanCounts};
use extant_format::superblock::{Feature, Superblock};
use extant_inspect::Problem;
use std::sync::Arc;

/// Replays the journal and frees orphans, as far as that is possible; by a superblock that was
/// named, which is then the first one, or by a copy where the first one cannot be used. Gives what
/// was mended for that.
///
/// # Errors
/// The device's; another machine holds the volume; its journal is on another device, or is of a
/// kind that is not known and is not thrown away.
pub(crate) fn recovered(
    over: &Arc<dyn BlockDevice>,
    named: Option<&Superblock>,
) -> Result<(Recovery, Vec<Problem>), Error> {
    let mut mended = Vec::new();
    let replayed = match named {
        Some(named) => primary::replayed_by(over, named)?,
        None if extant_engine::read_superblock(&**over).is_ok() => replayed(over)?,
        None => primary::replayed_without_the_first(over)?.map(|(replayed, problem)| {
            mended.push(problem);
            replayed
        }),
    };
    let Replayed { report: journal, mended: of_journal } = replayed.unwrap_or_default();
    mended.extend(of_journal);
    let orphans = freed_orphans(over)?;
    Ok((Recovery { journal, orphans }, mended))
}

/// Frees the orphans that wait; `None` if there are none, or it is not possible.
///
/// # Errors
/// The device's; another machine holds the volume.
pub(crate) fn freed_orphans(over: &Arc<dyn BlockDevice>) -> Result<Option<OrphanCounts>, Error> {
    match extant_engine::free_orphans(over) {
        Err(error) if matches!(error.kind, ErrorKind::Held(_) | ErrorKind::Device(_)) => {
            Err(error.into())
        }
        orphans => Ok(orphans.ok().flatten()),
    }
}

/// Replays the journal; `None` if that is not possible, which is a problem of the check.
fn replayed(over: &Arc<dyn BlockDevice>) -> Result<Option<Replayed>, Error> {
    match journal::replay(over) {
        Ok(replayed) => Ok(Some(replayed)),
        Err(error) if matches!(error.kind, ErrorKind::Held(_) | ErrorKind::Device(_)) => {
            Err(error.into())
        }
        Err(extant_engine::Error {
            kind: ErrorKind::Journal(journal @ extant_journal::Error::External(_)),
            ..
        }) => Err(Error::Refused(journal.to_string())),
        // Nothing is wrong with such a log: it is not thrown away.
        Err(error)
            if matches!(error.kind, ErrorKind::NotWritten(_) | ErrorKind::Unsupported(_)) =>
        {
            let waits = extant_engine::read_superblock(&**over);
            if waits.is_ok_and(|superblock| superblock.has(Feature::NEEDS_RECOVERY)) {
                return Err(Error::Refused(format!(
                    "its journal has to be replayed first: {error}"
                )));
            }
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}
