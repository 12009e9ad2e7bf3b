//! Volumes of which label, UUID, features, journal, quota or settings are changed.
use crate::error::{Error, ErrorKind, Result};
use crate::image::Image;
use crate::mending::{Closed, KeepUndo};
use crate::opening;
use crate::options::Options;
use crate::resizing;
use extant_block::{Access, BlockDevice};
use extant_edit::undo::Keep;
use extant_engine::read_superblock;
use extant_format::superblock::Feature;
use extant_repair::tune::words::{self, Names};
use extant_repair::tune::{self, TuneOptions};
use extant_repair::{RepairOptions, Scope};
use std::io::Read;
use std::sync::Arc;

pub use extant_repair::tune::{
    Change as Changed, JournalWish, QuotaFile, Tuning, UuidWish, Wanted,
};

/// What a change of a volume did, or would do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tuned {
    /// What is different.
    pub changes: Vec<Changed>,
    /// Blocks that were written through the log: 0 after [`Options::would_tune`].
    pub blocks: u64,
}

/// What words of tune2fs ask for, letters and values apart: `["-L", "root", "-O", "^has_journal"]`.
/// Users and groups are numbers.
///
/// ```
/// assert_eq!(extant::tunings(&["-L", "root", "-j"])?.len(), 2);
/// assert!(extant::tunings(&["-O", "nonsense"]).is_err());
/// # Ok::<(), extant::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput`, with what is wrong.
pub fn tunings(words: &[&str]) -> Result<Vec<Tuning>> {
    let now = Options::new().mending(Scope::Safe)?.now_seconds;
    let read = words::read_all(words, Names::NONE, now);
    read.map_err(|error| Error::new(ErrorKind::InvalidInput, error.to_string()))
}

impl Options {
    /// Changes what a volume says of itself and has of its own, in memory first, and writes it as
    /// one change: a crash leaves it as it was or as it is to be. What is in the superblock alone
    /// takes milliseconds; before the rest the volume is recovered and checked, and after it again.
    ///
    /// ```
    /// # fn main() -> extant::Result<()> {
    /// # let memory = extant::Memory::new();
    /// # extant::Builder::new().build_memory(&memory)?;
    /// use extant::Options;
    /// let asked = extant::tunings(&["-L", "root", "-O", "^metadata_csum"])?;
    /// let tuned = Options::new().tune(memory.clone(), &asked)?;
    /// assert!(tuned.changes.iter().any(|it| it.what == "label" && it.after == "root"));
    /// # extant_testkit::oracle::example(&|path| std::fs::write(path, memory.to_vec())).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`repair`](Options::repair); `Damaged` for a volume that is not clean where more than
    /// the superblock changes; `Unsupported` for what this volume cannot have, with why;
    /// `InvalidInput` for a journal on another device. Nothing was written then.
    pub fn tune(&self, image: impl Into<Image>, asked: &[Tuning]) -> Result<Tuned> {
        self.refuse_other_journal()?;
        let closed = Closed::open(image.into(), self, KeepUndo::Discard)?;
        let tuned = || {
            let device = &closed.device;
            if let Some((overlay, block_size)) = self.settled(device, asked)? {
                // What is refused after that is refused before anything is written.
                drop(self.planned_tuning(&(Arc::clone(&overlay) as Arc<dyn BlockDevice>), asked)?);
                closed.apply((&overlay, block_size), Keep::Nothing)?;
            }
            let tuned = self.planned_tuning(device, asked)?;
            let blocks = match tuned.is_nothing() {
                true => 0,
                false => resizing::written(&closed, &tuned.resized)?,
            };
            Ok(Tuned { changes: tuned.changes, blocks })
        };
        tuned().map_err(|error: Error| error.at(&closed.name))
    }

    /// What [`tune`](Options::tune) would do. Nothing is written, and others may read the image
    /// meanwhile.
    ///
    /// # Errors
    /// As for `tune`.
    pub fn would_tune(&self, image: impl Into<Image>, asked: &[Tuning]) -> Result<Tuned> {
        self.refuse_other_journal()?;
        let found = opening::find(image.into(), self, Access::ReadOnly)?;
        let tuned = || {
            let device = match self.settled(&found.device, asked)? {
                Some((overlay, _)) => overlay as Arc<dyn BlockDevice>,
                None => Arc::clone(&found.device),
            };
            let tuned = self.planned_tuning(&device, asked)?;
            Ok(Tuned { changes: tuned.changes, blocks: 0 })
        };
        tuned().map_err(|error: Error| error.at(&found.name))
    }

    /// The volume after what waits has ended, where that has to be before this change.
    fn settled(
        &self,
        device: &Arc<dyn BlockDevice>,
        asked: &[Tuning],
    ) -> Result<Option<(Arc<extant_block::Overlay>, u32)>> {
        let superblock = read_superblock(&**device)?;
        let is_simple = tune::is_of_superblock(&superblock, asked)?;
        if is_simple && !superblock.has(Feature::NEEDS_RECOVERY) {
            return Ok(None);
        }
        Ok(extant_repair::settled(Arc::clone(device), self.mending(Scope::Safe)?)?)
    }

    /// The volume as it is to be.
    fn planned_tuning(
        &self,
        device: &Arc<dyn BlockDevice>,
        asked: &[Tuning],
    ) -> Result<tune::Tuned> {
        let RepairOptions { threads, now_seconds, spool, .. } = self.mending(Scope::Safe)?;
        let mut random = [0; 16];
        std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random))?;
        let node = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
        let options = TuneOptions {
            threads,
            spool,
            now_seconds,
            random,
            mount_record: (node.trim_ascii_end().to_vec(), Vec::new()),
            progress: None,
        };
        Ok(tune::tune(Arc::clone(device), asked, options)?)
    }
}
