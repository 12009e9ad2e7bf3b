//! A volume that is locked, and that nobody has open: what repair, undo and heal write as a whole.
//!
//! *Invariants*: what is written goes through a redo log, so that a cut leaves before or after.
use super::failure as editing;
use super::opening::{clock, warn_of_hash_tree};
use extant_block::{BlockDevice, FileDevice, Overlay};
use extant_edit::e2undo;
use extant_edit::redo::{self, Identity};
use extant_edit::undo::{self, Applied, Keep, Undone};
use extant_engine::{ErrorKind, MountHold, free_orphans, read_superblock, recover};
use extant_host::cleanup::undisturbed;
use extant_host::console::Console;
use extant_host::disk::{self, Place};
use extant_host::error::Error;
use extant_host::image::{self, ImageArguments};
use extant_host::journal;
use extant_host::target::{self, Target};
use extant_repair::{LostFound, Optimize, RepairOptions};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A volume that is locked.
pub struct Volume {
    /// Its bytes, with the device of its journal behind them where one was named.
    pub device: Arc<dyn BlockDevice>,
    image: PathBuf,
    place: Place,
    /// All bytes of the image.
    disk: Arc<dyn BlockDevice>,
    /// Where a redo log may be; `None` where there is no place.
    log: Option<PathBuf>,
    identity: Identity,
    _target: Target,
}

impl Volume {
    /// Opens it. A change that was interrupted is ended first; a journal that is on another device
    /// is replayed, and orphans are freed by it, which a log beside the image has no room for.
    ///
    /// # Errors
    /// It is missing, mounted or in use; a container, which is only read; the host's.
    pub fn open(image: &Path, place: &ImageArguments, log: Option<&Path>) -> Result<Volume, Error> {
        let found = disk::writable(image, place.offset_bytes())?;
        let target = Target::in_place(&found.file)?;
        let failed = |error: std::io::Error| Error::io(image.display(), &error);
        let bytes = match target.device_bytes {
            Some(bytes) => bytes,
            None => target.file.metadata().map_err(failed)?.len(),
        };
        if let Some(log) = log {
            let finished = redo::finish(log, &target.file);
            target::say_finished(image, finished.map_err(|error| editing::of(image, error))?);
        }
        let file = target.file.try_clone().map_err(failed)?;
        let name = image.display().to_string();
        let disk = FileDevice::from_file(clock()?, file, name, bytes, 0).map_err(failed)?;
        let disk = Arc::new(disk) as Arc<dyn BlockDevice>;
        let alone = found.on(Arc::clone(&disk), image);
        let device = journal::write(image, place.journal.as_deref(), alone)?;
        if place.journal.is_some() {
            recover(&device).map_err(|error| image::failure(image, error))?;
            // What frees orphans writes to the journal, too; if it cannot, the check says so.
            let _ = free_orphans(&device);
        }
        let beside = target.device_bytes.is_none().then(|| redo::path_of(&target.path)).flatten();
        Ok(Volume {
            device,
            image: image.to_owned(),
            log: log.map(Path::to_owned).or(beside),
            identity: Identity { offset: found.start(), image_bytes: bytes },
            place: found,
            disk,
            _target: target,
        })
    }

    /// Writes what an overlay over the volume changed: all, or nothing. What was there before is
    /// kept in an undo file, and in one for e2undo where that is given.
    ///
    /// # Errors
    /// There is no place for a log; another machine has the volume; as [`undo::apply`] and
    /// [`e2undo::write`].
    pub fn apply(
        &self,
        (overlay, block_size): (&Overlay, u32),
        (keep, theirs): (Keep, Option<&Path>),
        console: &Console,
    ) -> Result<Applied, Error> {
        if overlay.written().is_empty() {
            return Ok(Applied { blocks: 0, undo: None });
        }
        let log = self.log()?;
        let failed = |error| image::failure(&self.image, error);
        self.hold_briefly().map_err(failed)?;
        let applied = undisturbed(|| {
            let offset = self.identity.offset;
            let written = |path| e2undo::write(overlay, block_size, path, offset);
            let kept = theirs.map(written).transpose()?.unwrap_or(0);
            let applied = undo::apply(overlay, block_size, (log, &self.identity), keep);
            if let (Some(path), true) = (theirs, kept > 0 && applied.is_err() && !log.exists()) {
                // Nothing was written: there is nothing to take back.
                let _ = std::fs::remove_file(path);
            }
            applied
        });
        let applied = applied.map_err(|error| editing::of(&self.image, error))?;
        if let (true, Ok(superblock)) = (applied.blocks > 0, read_superblock(&*self.device)) {
            warn_of_hash_tree(&self.image, (&self.place, &*self.disk), &superblock, console);
        }
        Ok(applied)
    }

    /// Takes the last repair back.
    ///
    /// # Errors
    /// There is no place for a log; as [`undo::undo`].
    pub fn undo(&self) -> Result<Undone, Error> {
        let log = self.log()?;
        let undone = undisturbed(|| undo::undo(&self.device, log, &self.identity));
        undone.map_err(|error| editing::of(&self.image, error))
    }

    fn log(&self) -> Result<&Path, Error> {
        self.log.as_deref().ok_or_else(|| {
            let shown = self.image.display();
            Error::new(format!("{shown}: is a device, and has no place for a log: nothing written"))
                .hint("--log FILE names one, on another file system")
        })
    }

    /// Makes sure that no other machine has a volume that several may reach (mmp).
    fn hold_briefly(&self) -> Result<(), extant_engine::Error> {
        let Ok(superblock) = read_superblock(&*self.device) else { return Ok(()) };
        match MountHold::take(&self.device, &superblock) {
            Ok(Some(hold)) => hold.release(),
            // A block that records mounts and is damaged keeps nobody away: it is what is mended.
            Ok(None) | Err(extant_engine::Error { kind: ErrorKind::Corrupt(_), .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// How a volume is mended, with a file for what memory has no room for.
///
/// # Errors
/// The host's; SOURCE_DATE_EPOCH is no time.
pub fn options(
    scope: extant_repair::Scope,
    threads: NonZeroU32,
    progress: Option<extant_inspect::Listener>,
) -> Result<RepairOptions, Error> {
    let spool = tempfile::tempfile().map_err(|error| Error::io("a temporary file", &error))?;
    let now = clock()?.wall().seconds;
    let now_seconds = now.try_into().unwrap_or(0);
    Ok(RepairOptions {
        scope,
        superblock: None,
        lost_found: LostFound::WhereNeeded,
        optimize: Optimize::Nothing,
        threads,
        spool: Some(spool),
        now_seconds,
        progress,
    })
}

/// What is said of a volume that cannot be mended.
pub fn failure(
    image: &Path,
    device: &dyn BlockDevice,
    place: &ImageArguments,
    error: extant_repair::Error,
) -> Error {
    use extant_engine::ErrorKind;
    match error {
        extant_repair::Error::Engine(error) if matches!(error.kind, ErrorKind::NotExt) => {
            image::not_ext(image, device, place.offset_bytes())
        }
        extant_repair::Error::Engine(error) => image::failure(image, error),
        extant_repair::Error::Device(error) => Error::io(image.display(), &error),
        error => Error::new(format!("{}: {error}", image.display())),
    }
}
