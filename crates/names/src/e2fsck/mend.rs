//! -p and -y: what the check found is mended, as far as e2fsck does that with these.
//!
//! *Invariants*: a file is written through a redo log beside it, so that a cut leaves before or
//! after. A device has no place for one: the first superblock says first that the volume is not
//! clean, and is written last, when all else is durable, so that a cut leaves a volume that is
//! checked again. With -z a log that waits is replayed with the rest, and a cut may leave what is
//! mended half done behind a replay: the file of -z is not for that, as e2fsck's is not.
use super::{Subject, options, say};
use crate::in_place::InPlace;
use extant_block::{BlockDevice, Clock, Overlay, RealClock};
use extant_edit::e2undo;
use extant_edit::order::write_directly;
use extant_edit::redo::{self, Identity};
use extant_edit::undo::{self, Keep};
use extant_host::cleanup::undisturbed;
use extant_host::error::Error;
use extant_host::{image, journal};
use extant_inspect::{Code, Problem};
use extant_repair::{LostFound, Optimize, RepairOptions, Repaired, Scope, repair};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory for blocks that are changed under -z; more are in a temporary file.
const MEMORY_BYTES: u64 = 64 << 20;

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
    let is_device = log_of(&volume).is_none();
    if subject.journal.is_some() || is_device && subject.undo.is_none() && subject.copy.is_none() {
        // Blocks of the other device are for no log beside the image, and a device has none: what
        // is replayed is durable before anything is mended.
        let failed = |error| image::failure(subject.path, error);
        match extant_engine::recover(&device) {
            Err(error) if subject.journal.is_some() => return Err(failed(error)),
            // By a copy it may be replayed; else the check says what is wrong.
            _ => {}
        }
        // If orphans cannot be freed, the check says so.
        let _ = extant_engine::free_orphans(&device);
    }
    let spool = tempfile::tempfile().map_err(|error| Error::io("a temporary file", &error))?;
    let now = RealClock::new().wall().seconds.max(0).cast_unsigned();
    let how = RepairOptions {
        scope,
        superblock: subject.copy,
        lost_found: LostFound::Always,
        optimize: optimize(subject, scope),
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
    keep_and_bring(subject, &volume, (&repaired.overlay, repaired.block_size))?;
    Ok(Mended::Written(repaired))
}

/// What is made smaller or faster: directories with any option that writes, extent trees by -y.
pub(super) fn optimize(subject: &Subject<'_>, scope: Scope) -> Optimize {
    match scope {
        Scope::All => subject.optimize,
        _ => subject.optimize.min(Optimize::Directories),
    }
}

/// Where -z keeps what was there: an empty name is one of the volume, in the folder that
/// E2FSPROGS_UNDO_DIR names, and nothing is kept where that is not there.
pub(super) fn undo_path(named: &Path, volume: &Path) -> Option<PathBuf> {
    if !named.as_os_str().is_empty() {
        return Some(named.to_owned());
    }
    let folder =
        std::env::var_os("E2FSPROGS_UNDO_DIR").unwrap_or_else(|| "/var/lib/e2fsprogs".into());
    let mut name = std::ffi::OsString::from("e2fsck-");
    name.push(volume.file_name().unwrap_or_default());
    name.push(".e2undo");
    let folder = Path::new(&folder);
    folder.is_dir().then(|| folder.join(name))
}

/// Does a change in memory, keeps what it changes for e2undo, and writes it.
///
/// # Errors
/// Those of the change, with nothing written; the host's.
pub(super) fn with_undo<T>(
    subject: &Subject<'_>,
    (volume, device): (&InPlace, Arc<dyn BlockDevice>),
    change: impl FnOnce(&Arc<dyn BlockDevice>) -> Result<T, Error>,
) -> Result<T, Error> {
    let spool = tempfile::tempfile().map_err(|error| Error::io("a temporary file", &error))?;
    let block_size = subject.superblock.block_size();
    let overlay = Arc::new(Overlay::new(device, block_size, MEMORY_BYTES).with_spool(spool));
    let done = change(&(Arc::clone(&overlay) as Arc<dyn BlockDevice>))?;
    keep_and_bring(subject, volume, (&overlay, block_size))?;
    Ok(done)
}

/// Keeps what an overlay changes for e2undo, where that is asked for, says so, and writes it.
fn keep_and_bring(
    subject: &Subject<'_>,
    volume: &InPlace,
    what: (&Overlay, u32),
) -> Result<(), Error> {
    let Some(undo) = &subject.undo else { return bring(subject, volume, what) };
    let kept = e2undo::write(what.0, what.1, undo, 0);
    let kept = kept.map_err(|error| Error::new(error.to_string()))?;
    if kept > 0 {
        let (undo, path) = (undo.display(), subject.path.display());
        say(&format!("{}: to undo what is done now: e2undo {undo} {path}\n", subject.shown));
    }
    bring(subject, volume, what).inspect_err(|_| {
        // Where the change is not decided there is nothing to take back.
        if kept > 0 && log_of(volume).is_some_and(|(log, _)| !log.exists()) {
            let _ = std::fs::remove_file(undo);
        }
    })
}

/// Writes what an overlay changes.
fn bring(
    subject: &Subject<'_>,
    volume: &InPlace,
    (overlay, block_size): (&Overlay, u32),
) -> Result<(), Error> {
    match log_of(volume) {
        Some((log, image_bytes)) => {
            let identity = Identity { offset: 0, image_bytes };
            let place = (log.as_path(), &identity);
            let applied = undisturbed(|| undo::apply(overlay, block_size, place, Keep::Nothing));
            applied.map_err(|error| Error::new(format!("{}: {error}", subject.path.display())))?;
        }
        None => {
            let written = undisturbed(|| write_directly(overlay));
            written.map_err(|error| image::failure(subject.path, error))?;
        }
    }
    Ok(())
}

/// Where a redo log of the volume may be, and the bytes of its file; `None` for a device.
fn log_of(volume: &InPlace) -> Option<(PathBuf, u64)> {
    Some((redo::path_of(volume.file_path()?)?, volume.device.info().bytes))
}
