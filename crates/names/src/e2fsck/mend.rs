//! -p and -y: what the check found is mended, as far as e2fsck does that with these.
//!
//! *Invariants*: a file is written through a redo log beside it, so that a cut leaves before or
//! after. A device has no place for one: the first superblock is written last, when all else is
//! durable, so that a cut leaves a volume that is checked again.
// tidy: writers because the volume is closed, and locked
use super::{Subject, options};
use crate::in_place::InPlace;
use extant_block::{BlockDevice, Clock, Overlay, RealClock};
use extant_edit::redo::{self, Identity};
use extant_edit::undo::{self, Keep};
use extant_host::cleanup::undisturbed;
use extant_host::error::Error;
use extant_host::{image, journal};
use extant_inspect::{Code, Problem};
use extant_repair::{RepairOptions, Repaired, Scope, repair};
use std::path::PathBuf;
use std::sync::Arc;

/// What came of it.
pub(super) enum Mended {
    /// Nothing was written: it is of a kind that is not mended, for this reason.
    Refused(String),
    /// Nothing was written: a person has to decide.
    Doubtful,
    /// It was written.
    Written(Box<Repaired>),
}

/// Mends a volume as far as `scope` goes; with -p only if that is all.
///
/// # Errors
/// It is in use; the host's.
pub(super) fn mend(subject: &Subject<'_>, scope: Scope) -> Result<Mended, Error> {
    let volume = InPlace::open(subject.path)?;
    let device = journal::write(subject.path, subject.journal, Arc::clone(&volume.device))?;
    if subject.journal.is_some() {
        // Blocks of the other device are for no log beside the image.
        let failed = |error| image::failure(subject.path, error);
        extant_engine::recover(&device).map_err(failed)?;
        // If orphans cannot be freed, the check says so.
        let _ = extant_engine::free_orphans(&device);
    }
    let spool = tempfile::tempfile().map_err(|error| Error::io("a temporary file", &error))?;
    let now = RealClock::new().wall().seconds.max(0).cast_unsigned();
    let how = RepairOptions {
        scope,
        threads: options().threads,
        spool: Some(spool),
        now_seconds: now,
        progress: None,
    };
    let repaired = match repair(device, how) {
        Ok(repaired) => Box::new(repaired),
        Err(extant_repair::Error::Device(error)) => {
            return Err(Error::io(subject.path.display(), &error));
        }
        Err(error) => return Ok(Mended::Refused(error.to_string())),
    };
    // That a name is there twice, in two blocks, e2fsck sees only when it optimizes.
    let is_left = |problem: &Problem| problem.code != Code::EntryTwiceApart;
    if scope == Scope::Preen && repaired.left.problems.iter().any(is_left) {
        return Ok(Mended::Doubtful);
    }
    let overlay = Arc::clone(&repaired.overlay);
    match log_of(&volume) {
        Some((log, image_bytes)) => {
            let identity = Identity { offset: 0, image_bytes };
            let keep = Keep::Nothing;
            let block_size = repaired.block_size;
            let applied =
                undisturbed(|| undo::apply(&overlay, block_size, (&log, &identity), keep));
            applied.map_err(|error| Error::new(format!("{}: {error}", subject.path.display())))?;
        }
        None => {
            let written = undisturbed(|| write_directly(&overlay));
            written
                .map_err(|error| image::failure(subject.path, extant_engine::Error::from(error)))?;
        }
    }
    Ok(Mended::Written(repaired))
}

/// Writes the changed blocks of an overlay to its device: the first ones last.
fn write_directly(overlay: &Overlay) -> std::io::Result<()> {
    let device = overlay.device();
    let size = overlay.block_bytes() as u64;
    let end = device.info().bytes;
    let first = extant_format::superblock::SUPERBLOCK_OFFSET / size;
    let (last, others): (Vec<u64>, Vec<u64>) =
        overlay.written().into_iter().partition(|block| *block == first);
    for blocks in [others, last] {
        for block in blocks {
            let at = block.saturating_mul(size);
            let length = usize::try_from(size.min(end.saturating_sub(at))).unwrap_or(0);
            let mut bytes = vec![0; length];
            overlay.read(at, &mut bytes)?;
            device.write(at, &bytes)?;
        }
        device.flush()?;
    }
    Ok(())
}

/// Where a redo log of the volume may be, and the bytes of its file; `None` for a device.
fn log_of(volume: &InPlace) -> Option<(PathBuf, u64)> {
    Some((redo::path_of(volume.file_path()?)?, volume.device.info().bytes))
}
