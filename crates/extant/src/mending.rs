//! Volumes that are mended, that this is taken back, and that are made ready for use.
use crate::error::{Error, ErrorKind, Result};
use crate::image::{Hold, Image};
use crate::opening::{self, Growing};
use crate::options::Options;
use extant_block::{Access, BlockDevice, Overlay};
use extant_edit::redo::{self, Identity};
use extant_edit::undo::{self, Applied, Keep, Undone};
use extant_engine::{free_orphans, recover};
use extant_inspect::{Code, Problem};
use extant_repair::{LostFound, Optimize, RepairOptions};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

pub use extant_repair::{Change, CheckWhen, Scope};

/// Whether what a repair did can be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeepUndo {
    /// The bytes before are kept beside an image that has a path, for [`Options::undo`].
    #[default]
    Keep,
    /// They are not.
    Discard,
}

/// What a repair did, or would do.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// What was mended, in order; what was lost by each is said there.
    pub changes: Vec<Change>,
    /// Problems that were mended but are not kept in `changes`.
    pub omitted: u64,
    /// How many checks there were.
    pub rounds: u32,
    /// The first check, after recovery.
    pub found: crate::Report,
    /// What is left: the last check.
    pub left: crate::Report,
    /// Blocks of the volume that were written: 0 where nothing was to be, as after
    /// [`Options::would_repair`].
    pub blocks: u64,
    /// Where the bytes before are, if they are kept.
    pub undo: Option<PathBuf>,
    is_clean: bool,
    is_corrected: bool,
    has_lost_log: bool,
}

impl Repaired {
    /// Whether nothing is wrong with the volume as it is to be, and nothing waits: no log, no
    /// orphan.
    pub fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// Whether the log of the journal was damaged, so that what was committed after that is lost.
    pub fn has_lost_log(&self) -> bool {
        self.has_lost_log
    }

    /// The exit code of fsck: 0 where nothing was wrong, advice aside, 1 where all was mended or a
    /// damaged log was given up, 4 where something is left.
    pub fn exit_code(&self) -> u8 {
        match (self.is_clean, self.is_corrected) {
            (false, _) => 4,
            (true, false) => 0,
            (true, true) => 1,
        }
    }

    fn of(repaired: extant_repair::Repaired, Applied { blocks, undo }: Applied) -> Repaired {
        let (is_clean, has_lost_log) = (repaired.is_clean(), repaired.has_lost_log());
        let is_corrected = repaired.is_corrected();
        let extant_repair::Repaired { changes, omitted, rounds, found, left, .. } = repaired;
        Repaired {
            changes,
            omitted,
            rounds,
            found,
            left,
            blocks,
            undo,
            is_clean,
            is_corrected,
            has_lost_log,
        }
    }
}

/// What was written to a volume that was recovered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// How many of its blocks.
    pub blocks: u64,
    /// Where the bytes before are, if they are kept.
    pub undo: Option<PathBuf>,
}

/// What became of a volume that was to be made ready for use.
#[derive(Clone, Debug)]
pub enum Healed {
    /// It was clean: nothing was written.
    Clean,
    /// Its journal was replayed and its orphans were freed.
    Recovered(Written),
    /// There was a reason to check it, in words, and it was mended where that was needed.
    Repaired(String, Box<Repaired>),
}

/// Why a volume is not mended: bytes without any superblock are no volume.
fn refused(device: &dyn BlockDevice, error: extant_repair::Error) -> Error {
    let is_none = || Problem::new(Code::SuperblockUnusable).to_string();
    match error {
        extant_repair::Error::Refused(why) if !has_magic(device) && why == is_none() => {
            Error::new(ErrorKind::NotAVolume, why)
        }
        error => error.into(),
    }
}

fn has_magic(device: &dyn BlockDevice) -> bool {
    let read = extant_engine::read_superblock(device);
    !read.is_err_and(|error| matches!(error.kind, extant_engine::ErrorKind::NotExt))
}

/// Nothing was written.
const UNWRITTEN: Applied = Applied { blocks: 0, undo: None };

/// A volume that is claimed, and closed.
pub(crate) struct Closed {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) identity: Identity,
    /// As [`opening::Found`] has them.
    pub(crate) room: u64,
    pub(crate) growing: Option<Growing>,
    log: Option<PathBuf>,
    keep: Keep,
    pub(crate) name: String,
    /// Where the log of memory is, which is of no use once the process has ended.
    scratch: Option<TempDir>,
    _hold: Option<Hold>,
}

impl Closed {
    pub(crate) fn open(image: Image, options: &Options, keep: KeepUndo) -> Result<Closed> {
        let found = opening::find(image, options, Access::ReadWrite)?;
        let scratch = found.hold.as_ref().map(|_| tempfile::tempdir()).transpose()?;
        let of_memory = scratch.as_ref().map(|folder| folder.path().join("redo"));
        let beside = found.path.as_deref().and_then(redo::path_of);
        let keep = match (keep, &scratch) {
            (KeepUndo::Keep, None) => Keep::Undo,
            // What is beside memory goes with it.
            _ => Keep::Nothing,
        };
        if options.journal.is_some() {
            // A log beside the image has no room for what is on another device, which the replay of
            // a journal writes, and what frees orphans by it.
            recover(&found.device).map_err(|error| Error::from(error).at(&found.name))?;
            // Those that cannot be freed are for the check.
            let _ = free_orphans(&found.device);
        }
        Ok(Closed {
            device: found.device,
            identity: found.identity,
            room: found.room,
            growing: found.growing,
            log: of_memory.or(beside),
            keep,
            name: found.name,
            scratch,
            _hold: found.hold,
        })
    }

    pub(crate) fn log(&self) -> Result<&Path> {
        let words = "has no place beside it for a log: an image with a path has";
        self.log.as_deref().ok_or_else(|| Error::new(ErrorKind::InvalidInput, words))
    }

    /// What is kept where that may be wanted in any case.
    fn kept(&self) -> Keep {
        match &self.scratch {
            None => Keep::Undo,
            Some(_) => Keep::Nothing,
        }
    }

    pub(crate) fn apply(
        &self,
        (overlay, block_size): (&Overlay, u32),
        keep: Keep,
    ) -> Result<Applied> {
        if overlay.written().is_empty() {
            return Ok(UNWRITTEN);
        }
        let place = (self.log()?, &self.identity);
        Ok(undo::apply(overlay, block_size, place, keep)?)
    }

    fn apply_repaired(&self, repaired: extant_repair::Repaired, keep: Keep) -> Result<Repaired> {
        let applied = self.apply((&repaired.overlay, repaired.block_size), keep)?;
        Ok(Repaired::of(repaired, applied))
    }
}

impl Options {
    pub(crate) fn mending(&self, scope: Scope) -> Result<RepairOptions> {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(64));
        let threads = u32::try_from(threads).ok().and_then(NonZeroU32::new);
        Ok(RepairOptions {
            scope,
            superblock: None,
            lost_found: LostFound::WhereNeeded,
            optimize: Optimize::Nothing,
            threads: threads.unwrap_or(NonZeroU32::MIN),
            spool: Some(tempfile::tempfile()?),
            now_seconds: self.clock().wall().seconds.try_into().unwrap_or(0),
            progress: None,
        })
    }

    /// Mends a volume, in memory first, and writes it as one change: a crash leaves it as it was or
    /// mended. What `scope` does not allow is left, and said; with [`Scope::Preen`] nothing is
    /// written then.
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
            let repaired = extant_repair::repair(Arc::clone(&closed.device), options)
                .map_err(|error| refused(&*closed.device, error))?;
            match scope == Scope::Preen && !repaired.is_clean() {
                true => Ok(Repaired::of(repaired, UNWRITTEN)),
                false => closed.apply_repaired(repaired, closed.keep),
            }
        };
        repaired().map_err(|error: Error| error.at(&closed.name))
    }

    /// What [`repair`](Options::repair) would do, and what would be lost by it. Nothing is written,
    /// and others may read the image meanwhile.
    ///
    /// # Errors
    /// As for [`check`](Options::check); `NotAVolume`; `Unsupported` for what is not mended.
    pub fn would_repair(&self, image: impl Into<Image>, scope: Scope) -> Result<Repaired> {
        let found = opening::find(image.into(), self, Access::ReadOnly)?;
        let repaired = || {
            let repaired = extant_repair::repair(Arc::clone(&found.device), self.mending(scope)?)
                .map_err(|error| refused(&*found.device, error))?;
            Ok(Repaired::of(repaired, UNWRITTEN))
        };
        repaired().map_err(|error: Error| error.at(&found.name))
    }

    /// Takes the last repair of an image back: its blocks are to the byte what they were. Returns
    /// how many those are, 0 where they were already: an undo was cut before it had ended.
    ///
    /// # Errors
    /// As for [`repair`](Options::repair); there is none to undo, or the volume was changed since.
    pub fn undo(&self, image: impl Into<Image>) -> Result<u64> {
        let closed = Closed::open(image.into(), self, KeepUndo::Discard)?;
        let undone = || {
            Ok(match undo::undo(&closed.device, closed.log()?, &closed.identity)? {
                Undone::Blocks(blocks) => blocks,
                Undone::Already => 0,
            })
        };
        undone().map_err(|error: Error| error.at(&closed.name))
    }

    /// Makes a volume ready for use, for the moment before a machine boots from it: nothing for one
    /// that is clean, which costs a read of its superblock; recovery for one that was not
    /// unmounted; a check and a repair that loses nothing where there is a reason to doubt it, or
    /// where `when` asks for it. The bytes before are kept in any case where a damaged log is given
    /// up.
    ///
    /// # Errors
    /// As for [`repair`](Options::repair).
    pub fn heal(&self, image: impl Into<Image>, when: CheckWhen, keep: KeepUndo) -> Result<Healed> {
        let closed = Closed::open(image.into(), self, keep)?;
        let healed = || {
            let options = self.mending(Scope::Safe)?;
            let device = Arc::clone(&closed.device);
            let healed = extant_repair::heal(device, when, options)
                .map_err(|error| refused(&*closed.device, error))?;
            Ok(match healed {
                extant_repair::Healed::Clean => Healed::Clean,
                extant_repair::Healed::Recovered { overlay, block_size, .. } => {
                    let Applied { blocks, undo } =
                        closed.apply((&overlay, block_size), closed.keep)?;
                    Healed::Recovered(Written { blocks, undo })
                }
                extant_repair::Healed::Repaired { reason, repaired } => {
                    // What a damaged log held may be wanted back.
                    let is_lost = repaired.has_lost_log();
                    let keep = if is_lost { closed.kept() } else { closed.keep };
                    let repaired = closed.apply_repaired(*repaired, keep)?;
                    Healed::Repaired(reason.to_string(), Box::new(repaired))
                }
            })
        };
        healed().map_err(|error: Error| error.at(&closed.name))
    }
}
