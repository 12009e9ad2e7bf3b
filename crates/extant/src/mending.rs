//! Volumes that are mended, that this is taken back, and that are made ready for use.
use crate::error::{Error, ErrorKind, Result};
use crate::image::{Hold, Image};
use crate::opening;
use crate::options::Options;
use extant_block::{Access, BlockDevice, Overlay};
use extant_edit::redo::{self, Identity};
use extant_edit::undo::{self, Applied, Keep};
use extant_repair::{CheckWhen, RepairOptions};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

pub use extant_repair::{Change, Scope};

/// Whether what a repair did can be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeepUndo {
    /// The bytes before are kept beside an image that has a path, for [`Options::undo`].
    #[default]
    Keep,
    /// They are not.
    Discard,
}

/// What a repair did.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// What was mended, in order; what was lost by each is said there.
    pub changes: Vec<Change>,
    /// Problems that were mended but are not kept in `changes`.
    pub omitted: u64,
    /// How many checks there were.
    pub rounds: u32,
    /// What is left: the last check.
    pub left: crate::Report,
    /// Blocks of the volume that were written.
    pub blocks: u64,
    /// Where the bytes before are, if they are kept.
    pub undo: Option<PathBuf>,
}

/// What became of a volume that was to be made ready for use.
#[derive(Clone, Debug)]
pub enum Healed {
    /// It was clean: nothing was written.
    Clean,
    /// Its journal was replayed and its orphans were freed: this many blocks.
    Recovered(u64),
    /// There was a reason to doubt it, in words: it was checked, and mended where that was needed.
    Repaired(String, Box<Repaired>),
}

/// A volume that is claimed, and closed.
struct Closed {
    device: Arc<dyn BlockDevice>,
    identity: Identity,
    log: Option<PathBuf>,
    keep: Keep,
    name: String,
    /// Where the log of memory is, which is of no use once the process has ended.
    _scratch: Option<TempDir>,
    _hold: Option<Hold>,
}

impl Closed {
    fn open(image: Image, options: &Options, keep: KeepUndo) -> Result<Closed> {
        let found = opening::find(image, options, Access::ReadWrite)?;
        let scratch = found.hold.as_ref().map(|_| tempfile::tempdir()).transpose()?;
        let of_memory = scratch.as_ref().map(|folder| folder.path().join("redo"));
        let beside = found.path.as_deref().and_then(redo::path_of);
        let keep = match (keep, &scratch) {
            (KeepUndo::Keep, None) => Keep::Undo,
            // What is beside memory goes with it.
            _ => Keep::Nothing,
        };
        Ok(Closed {
            device: found.device,
            identity: found.identity,
            log: of_memory.or(beside),
            keep,
            name: found.name,
            _scratch: scratch,
            _hold: found.hold,
        })
    }

    fn log(&self) -> Result<&Path> {
        let words = "has no place beside it for a log: an image with a path has";
        self.log.as_deref().ok_or_else(|| Error::new(ErrorKind::InvalidInput, words))
    }

    fn apply(&self, overlay: &Overlay, block_size: u32) -> Result<Applied> {
        if overlay.written().is_empty() {
            return Ok(Applied { blocks: 0, undo: None });
        }
        let place = (self.log()?, &self.identity);
        Ok(undo::apply(overlay, block_size, place, self.keep)?)
    }

    fn apply_repaired(&self, repaired: extant_repair::Repaired) -> Result<Repaired> {
        let Applied { blocks, undo } = self.apply(&repaired.overlay, repaired.block_size)?;
        let extant_repair::Repaired { changes, omitted, rounds, left, .. } = repaired;
        Ok(Repaired { changes, omitted, rounds, left, blocks, undo })
    }
}

impl Options {
    fn mending(&self, scope: Scope) -> Result<RepairOptions> {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(64));
        let threads = u32::try_from(threads).ok().and_then(NonZeroU32::new);
        Ok(RepairOptions {
            scope,
            threads: threads.unwrap_or(NonZeroU32::MIN),
            spool: Some(tempfile::tempfile()?),
            now_seconds: self.clock().wall().seconds.try_into().unwrap_or(0),
            progress: None,
        })
    }

    /// Mends a volume, in memory first, and writes it as one change: a crash leaves it as it was or
    /// mended. What `scope` does not allow is left, and said.
    ///
    /// ```
    /// # fn main() -> extant::Result<()> {
    /// # let memory = extant::Memory::new();
    /// # extant::Builder::new().build_memory(&memory)?;
    /// use extant::{KeepUndo, Options, Scope};
    /// let repaired = Options::new().repair(memory, Scope::Safe, KeepUndo::Keep)?;
    /// for change in &repaired.changes {
    ///     println!("{} {:?}", change.problem, change.loss);
    /// }
    /// assert!(repaired.left.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound`, `InUse`, `NotAVolume`, `Unsupported`; the device's. `InvalidInput` for changes
    /// of a [`Device`](crate::Device) or an open file, where no place for a log is known. Nothing
    /// was written then.
    pub fn repair(
        &self,
        image: impl Into<Image>,
        scope: Scope,
        keep: KeepUndo,
    ) -> Result<Repaired> {
        let closed = Closed::open(image.into(), self, keep)?;
        let repaired = || {
            let options = self.mending(scope)?;
            let repaired = extant_repair::repair(Arc::clone(&closed.device), options)?;
            closed.apply_repaired(repaired)
        };
        repaired().map_err(|error: Error| error.at(&closed.name))
    }

    /// Takes the last repair of an image back: its blocks are to the byte what they were.
    ///
    /// # Errors
    /// As for [`repair`](Options::repair); there is none to undo, or the volume was changed since.
    pub fn undo(&self, image: impl Into<Image>) -> Result<()> {
        let closed = Closed::open(image.into(), self, KeepUndo::Discard)?;
        let undone = || Ok(undo::undo(&closed.device, closed.log()?, &closed.identity).map(drop)?);
        undone().map_err(|error: Error| error.at(&closed.name))
    }

    /// Makes a volume ready for use, for the moment before a machine boots from it: nothing for one
    /// that is clean, which costs a read of its superblock; recovery for one that was not
    /// unmounted; a check and a repair that loses nothing where there is a reason to doubt it.
    ///
    /// # Errors
    /// As for [`repair`](Options::repair).
    pub fn heal(&self, image: impl Into<Image>) -> Result<Healed> {
        let closed = Closed::open(image.into(), self, KeepUndo::Discard)?;
        let healed = || {
            let options = self.mending(Scope::Safe)?;
            let device = Arc::clone(&closed.device);
            Ok(match extant_repair::heal(device, CheckWhen::Doubted, options)? {
                extant_repair::Healed::Clean => Healed::Clean,
                extant_repair::Healed::Recovered { overlay, block_size, .. } => {
                    Healed::Recovered(closed.apply(&overlay, block_size)?.blocks)
                }
                extant_repair::Healed::Repaired { reason, repaired } => {
                    let repaired = closed.apply_repaired(*repaired)?;
                    Healed::Repaired(reason.to_string(), Box::new(repaired))
                }
            })
        };
        healed().map_err(|error: Error| error.at(&closed.name))
    }
}
