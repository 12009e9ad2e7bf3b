//! Volumes that are rid of what has no meaning, and those that are laid out anew.
use crate::build::{Built, Spare};
use crate::error::{Error, ErrorKind, Result};
use crate::image::Image;
use crate::mending::{Closed, KeepUndo};
use crate::opening;
use crate::options::Options;
use extant_block::{Access, BlockDevice};
use extant_edit::emptied::{self, Doing, Emptying};
use extant_edit::undo::{self, Keep};
use extant_engine::Filesystem;
use extant_image::assemble::{Destination, Facts, Remake};
use extant_repair::{RepairOptions, Scope, TrimOptions};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use extant_repair::Scrub;

/// What a trim did, or would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trimmed {
    /// Bytes of a block.
    pub block_size: u32,
    /// How many blocks are free.
    pub free_blocks: u64,
    /// Blocks in use that nothing reads: 0 without [`Scrub::Stale`].
    pub unread_blocks: u64,
    /// Blocks in use that were cleaned, or would be, through the log.
    pub blocks: u64,
    /// Bytes of free and unread blocks that were no holes.
    pub emptied_bytes: u64,
}

impl Trimmed {
    fn of(trimmed: &extant_repair::Trimmed, blocks: u64, emptied_bytes: u64) -> Trimmed {
        Trimmed {
            block_size: trimmed.superblock.block_size(),
            free_blocks: trimmed.free_blocks(),
            unread_blocks: trimmed.unread.iter().map(|it| it.end - it.start).sum(),
            blocks,
            emptied_bytes,
        }
    }
}

impl Options {
    /// Makes holes of the free blocks of a volume, and with [`Scrub::Stale`] cleans blocks in use
    /// of what was deleted. A journal that waits and orphans are brought to an end before. What is
    /// kept of an earlier repair goes.
    ///
    /// ```
    /// # fn main() -> extant::Result<()> {
    /// # let memory = extant::Memory::new();
    /// # extant::Builder::new().free(1 << 20).build_memory(&memory)?;
    /// use extant::{Options, Scrub};
    /// let trimmed = Options::new().trim(memory.clone(), Scrub::Stale)?;
    /// println!("{} blocks are free, {} were cleaned", trimmed.free_blocks, trimmed.blocks);
    /// # extant_testkit::oracle::example(&|path| std::fs::write(path, memory.to_vec())).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`repair`](Options::repair); `Damaged` for a volume that is not clean; `InvalidInput`
    /// for a journal on another device. Nothing was written then.
    pub fn trim(&self, image: impl Into<Image>, scrub: Scrub) -> Result<Trimmed> {
        self.refuse_another_journal()?;
        let closed = Closed::open(image.into(), self, KeepUndo::Discard)?;
        let trimmed = || {
            let device = &closed.device;
            let options = self.mending(Scope::Safe)?;
            if let Some((overlay, size_of)) = extant_repair::settled(Arc::clone(device), options)? {
                // What is refused after that is refused before anything is written.
                drop(self.meaningless(Arc::clone(&overlay) as Arc<dyn BlockDevice>, scrub)?);
                closed.apply((&overlay, size_of), Keep::Nothing)?;
            }
            let trimmed = self.meaningless(Arc::clone(device), scrub)?;
            let changes = (&*trimmed.overlay, trimmed.superblock.block_size());
            let applied = closed.apply(changes, Keep::Nothing)?;
            if let Ok(log) = closed.log() {
                match std::fs::remove_file(undo::path_of(log, closed.identity.offset)) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error)?,
                    _ => {}
                }
            }
            let how = (Emptying::Holes, Doing::All);
            let emptied = emptied::empty(&**device, &trimmed.bytes_to_empty(), how)?;
            Ok(Trimmed::of(&trimmed, applied.blocks, emptied))
        };
        trimmed().map_err(|error: Error| error.at(&closed.name))
    }

    /// What [`trim`](Options::trim) would do. Nothing is written, and others may read the image
    /// meanwhile.
    ///
    /// # Errors
    /// As for `trim`.
    pub fn would_trim(&self, image: impl Into<Image>, scrub: Scrub) -> Result<Trimmed> {
        self.refuse_another_journal()?;
        let found = opening::find(image.into(), self, Access::ReadOnly)?;
        let trimmed = || {
            let options = self.mending(Scope::Safe)?;
            let device = extant_repair::sound(Arc::clone(&found.device), options)?;
            let trimmed = self.meaningless(Arc::clone(&device), scrub)?;
            let how = (Emptying::Holes, Doing::Nothing);
            let emptied = emptied::empty(&*device, &trimmed.bytes_to_empty(), how)?;
            Ok(Trimmed::of(&trimmed, trimmed.overlay.written().len() as u64, emptied))
        };
        trimmed().map_err(|error: Error| error.at(&found.name))
    }

    /// Writes a volume, laid out anew with its own options, to a new file, which has its name only
    /// when it is whole: what [`Builder`](crate::Builder) made comes out byte for byte if its files
    /// are as they were. The file holds the volume alone. The modify time stands for the other
    /// times too.
    ///
    /// ```
    /// # fn main() -> extant::Result<()> {
    /// # let folder = std::env::temp_dir().join(format!("extant-normal-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let (image, new) = (folder.join("disk.img"), folder.join("new.img"));
    /// extant::Builder::new().label("data").build(&image)?;
    /// extant::Options::new().normalize(&image, &new)?;
    /// assert_eq!(std::fs::read(&image)?, std::fs::read(&new)?);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`would_trim`](Options::would_trim); `Exists`; what no build makes, such as blocks
    /// that are marked as bad; content that does not fit when it is laid out anew; the host's.
    pub fn normalize(&self, image: impl Into<Image>, out: impl AsRef<Path>) -> Result<Built> {
        self.remade(image.into(), out.as_ref(), (Facts::Canonical, &[]))
    }

    /// Writes a volume, laid out anew, to a new file, with what is at these paths in front: inodes,
    /// directories and data of what a program reads when it starts, files in that order. Paths lead
    /// through symlinks; what is not there is passed over. All of its files stays, and the numbers
    /// and times of creation of inodes do not. The file holds the volume alone.
    ///
    /// ```
    /// # fn main() -> extant::Result<()> {
    /// # let folder = std::env::temp_dir().join(format!("extant-packed-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let (image, new) = (folder.join("disk.img"), folder.join("new.img"));
    /// extant::Builder::new().build(&image)?;
    /// extant::Options::new().repack(&image, &new, &["/sbin/init".into(), "/etc/fstab".into()])?;
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`normalize`](Options::normalize).
    pub fn repack(
        &self,
        image: impl Into<Image>,
        out: impl AsRef<Path>,
        first: &[PathBuf],
    ) -> Result<Built> {
        let first: Vec<Vec<u8>> =
            first.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        self.remade(image.into(), out.as_ref(), (Facts::All, &first))
    }

    fn remade(
        &self,
        image: Image,
        out: &Path,
        (facts, first): (Facts, &[Vec<u8>]),
    ) -> Result<Built> {
        self.refuse_another_journal()?;
        let found = opening::find(image, self, Access::ReadOnly)?;
        let normalized = || {
            let options = self.mending(Scope::Safe)?;
            let device = extant_repair::sound(Arc::clone(&found.device), options)?;
            let access = extant_engine::Access::ReadOnly;
            let options = extant_engine::Options { access, ..self.engine()? };
            let filesystem = Filesystem::open(Arc::clone(&device), &options)?;
            let survey = Arc::new(filesystem.survey()?);
            let mut remake = Remake::of(survey, (&found.name, facts), &())?;
            remake.put_first(first.to_vec());
            let spare = Spare::open(out)?;
            let Destination { medium, name, place } = spare.destination();
            let built = remake.build((medium, &name), (0, place), &())?;
            spare.finish(&built)
        };
        normalized().map_err(|error: Error| error.at(&found.name))
    }

    fn refuse_another_journal(&self) -> Result<()> {
        match &self.journal {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorKind::InvalidInput,
                "a volume with its journal on another device is neither trimmed nor laid out anew",
            )),
        }
    }

    /// What of a volume has no meaning.
    fn meaningless(
        &self,
        device: Arc<dyn BlockDevice>,
        scrub: Scrub,
    ) -> Result<extant_repair::Trimmed> {
        let RepairOptions { threads, spool, .. } = self.mending(Scope::Safe)?;
        let options = TrimOptions { scrub, threads, spool, progress: None };
        Ok(extant_repair::trim(device, options)?)
    }
}
