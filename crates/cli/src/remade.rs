//! A volume that is built anew from another: what repack and normalize share.
//!
//! The image is only read, or written at the end through a redo log; what is built is in a file
//! without a name until it is whole and was checked.
use crate::shipping::copied::{self, copy, data};
use extant_block::{BlockDevice, FileDevice, Overlay, RealClock};
use extant_disk::partitions;
use extant_edit::anew;
use extant_edit::undo::{Applied, Keep};
use extant_engine::mkfs::Contents;
use extant_engine::survey::Survey;
use extant_engine::{Filesystem, read_superblock};
use extant_format::superblock::Superblock;
use extant_host::closed::{self, DiskLength, Medium, Partition, Volume};
use extant_host::console::Console;
use extant_host::error::Error;
use extant_host::image::{self, ImageArguments};
use extant_host::place;
use extant_host::progress::Unit;
use extant_host::target::{Existing, nameless};
use extant_image::assemble::{Built, Facts, Place, Remake, Room};
use extant_inspect::{CheckOptions, Listener, Severity, check};
use extant_repair::Scope;
use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

/// The image, and how it is looked at.
pub struct Asked<'a> {
    /// Its name.
    pub image: &'a Path,
    /// Where in it the volume is.
    pub place: &'a ImageArguments,
    /// What stays of files.
    pub facts: Facts,
    /// Threads of each check.
    pub threads: NonZeroU32,
    /// What hears how far a check is.
    pub listener: &'a dyn Fn() -> Listener,
}

/// What is asked of the new volume, once the files of the old one are known.
pub type Decide<'a> = dyn FnMut(&Arc<Survey>, &mut Remake) -> Result<(), Error> + 'a;

/// How large the new volume is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// As large as it was.
    Kept,
    /// As small as its files allow.
    Least,
}

/// What came of it.
pub struct Remade {
    /// The superblock before.
    pub before: Superblock,
    /// The new volume.
    pub built: Built,
    /// Bytes of the disk before, and as it is.
    pub disk_bytes: (u64, u64),
    /// Bytes of the file that was written, where that is another.
    pub image_bytes: Option<u64>,
    /// Blocks that were written through a log, where it is the same image.
    pub written: Option<u64>,
}

impl Asked<'_> {
    /// Builds the volume anew into another file, with all else that is on its disk; without a file,
    /// only finds out how it would be.
    ///
    /// # Errors
    /// The volume is damaged, or cannot be built; `out` is there; the host's.
    pub fn to_file(
        &self,
        out: Option<(&Path, Existing)>,
        size: Size,
        decide: &mut Decide<'_>,
        console: &Console,
    ) -> Result<Remade, Error> {
        let (found, disk) = image::on_disk(self.image, self.place, Some(console))?;
        image::warn_if_mounted(self.image, console);
        let options = closed::options(Scope::Safe, self.threads, None)?;
        let settled = extant_repair::settled(Arc::clone(&found.device), options);
        let settled = settled.map_err(|error| self.refused(&*found.device, error))?;
        let device = match settled {
            Some((overlay, _)) => overlay as Arc<dyn BlockDevice>,
            None => Arc::clone(&found.device),
        };
        let remake = self.remake(&device, size, decide, console)?;
        let before = disk.info().bytes;
        let start = found.place().start();
        let mut made = None;
        let mut fill = |raw: &File| -> Result<u64, Error> {
            let (built, bytes) = self.write(&remake, (&*disk, start), size, raw, console)?;
            made = Some((built, bytes));
            Ok(bytes)
        };
        let image_bytes = match out {
            Some((out, existing)) => {
                Some(copied::image((out, existing), &mut |raw, _| fill(raw), console)?)
            }
            None => {
                fill(&scratch(self.image)?)?;
                None
            }
        };
        let (built, after) = made.ok_or_else(|| Error::new("nothing was built"))?;
        let before_superblock = remake.before().clone();
        Ok(Remade {
            before: before_superblock,
            built,
            disk_bytes: (before, after),
            image_bytes,
            written: None,
        })
    }

    /// Builds the volume anew where it is, through a log.
    ///
    /// # Errors
    /// As [`Asked::to_file`]; as [`Volume::open`] and [`Volume::apply`].
    pub fn in_place(
        &self,
        log: Option<&Path>,
        decide: &mut Decide<'_>,
        console: &Console,
    ) -> Result<Remade, Error> {
        let volume = Volume::open(self.image, self.place, log)?;
        let failed = |error| self.refused(&*volume.device, error);
        let raw = scratch(self.image)?;
        let mut plan = |device: Arc<dyn BlockDevice>| {
            let remake = self.remake(&device, Size::Kept, decide, console)?;
            let bytes = bytes_of(remake.before());
            let built = self.build(&remake, &raw, (0, bytes), console)?;
            Ok((remake.before().clone(), built))
        };
        volume.settle(failed, |device| plan(device).map(drop), console)?;
        let (before, built) = plan(Arc::clone(&volume.device))?;
        let overlay = self.difference(&volume.device, &raw, &before)?;
        let Applied { blocks, .. } =
            volume.apply((&overlay, before.block_size()), (Keep::Nothing, None), console)?;
        let bytes = volume.length()?;
        let disk_bytes = (bytes, bytes);
        Ok(Remade { before, built, disk_bytes, image_bytes: None, written: Some(blocks) })
    }

    fn refused(&self, device: &dyn BlockDevice, error: extant_repair::Error) -> Error {
        let is_damaged = matches!(error, extant_repair::Error::Unclean(_));
        let failure = closed::failure(self.image, device, self.place, error);
        match is_damaged {
            true => failure.hint(self.mends()),
            false => failure,
        }
    }

    fn mends(&self) -> String {
        format!("nothing was written; extant repair {} mends it", self.image.display())
    }

    /// The volume that is to be built, of one that is intact.
    fn remake(
        &self,
        device: &Arc<dyn BlockDevice>,
        size: Size,
        decide: &mut Decide<'_>,
        console: &Console,
    ) -> Result<Remake, Error> {
        let shown = self.image.display();
        let failed = |error: extant_engine::Error| image::failure(self.image, error);
        read_superblock(&**device).map_err(failed)?;
        self.require_clean(device)?;
        let filesystem = Filesystem::open(Arc::clone(device), &image::reading()?);
        let survey = Arc::new(filesystem.and_then(|it| it.survey()).map_err(failed)?);
        let mut remake = {
            let progress = console.progress("read", Unit::Items, 0);
            let name = shown.to_string();
            Remake::of(Arc::clone(&survey), (&name, self.facts), &progress)?
        };
        if size == Size::Least {
            remake.size_to_fit(Room::NONE);
        }
        decide(&survey, &mut remake)?;
        Ok(remake)
    }

    /// What is damaged would be built as if it were right.
    fn require_clean(&self, device: &Arc<dyn BlockDevice>) -> Result<(), Error> {
        let how = CheckOptions {
            threads: self.threads,
            progress: Some((self.listener)()),
            ..CheckOptions::default()
        };
        let shown = self.image.display();
        let report = check(Arc::clone(device), &how);
        let report = report.map_err(|error| Error::new(format!("{shown}: {error}")))?;
        let worst = report.problems.iter().find(|it| it.rule().severity > Severity::Advice);
        match worst {
            None => Ok(()),
            Some(problem) => {
                Err(Error::new(format!("{shown}: is damaged: {problem}")).hint(self.mends()))
            }
        }
    }

    /// Builds into a file that is `origin..origin + bytes` of it, and checks what was built.
    fn build(
        &self,
        remake: &Remake,
        raw: &File,
        (origin, bytes): (u64, u64),
        console: &Console,
    ) -> Result<Built, Error> {
        let name = self.image.display().to_string();
        let end_bytes = origin.saturating_add(bytes);
        let failed = |error: io::Error| Error::io(&name, &error);
        let length = raw.metadata().map_err(failed)?.len();
        raw.set_len(origin).and_then(|()| raw.set_len(end_bytes.max(length))).map_err(failed)?;
        let place = Place::Part { end_bytes, contents: Contents::Zeros };
        let used = remake.before().blocks_count.saturating_sub(remake.before().free_blocks);
        let total = used.saturating_mul(remake.before().block_size().into());
        let built = {
            let progress = console.progress("build", Unit::Bytes, total);
            remake.build((raw, &name), (origin, place), &progress)?
        };
        let file = raw.try_clone().map_err(failed)?;
        let device = FileDevice::from_file(RealClock::new(), file, name, built.bytes(), origin);
        let device: Arc<dyn BlockDevice> =
            Arc::new(device.map_err(|error| Error::io(self.image.display(), &error))?);
        self.require_clean(&device)?;
        Ok(built)
    }

    /// Writes the disk with the new volume in the place of the old one. Gives its length, too.
    fn write(
        &self,
        remake: &Remake,
        (disk, start): (&dyn BlockDevice, u64),
        size: Size,
        raw: &File,
        console: &Console,
    ) -> Result<(Built, u64), Error> {
        let failed = |error: io::Error| Error::io(self.image.display(), &error);
        let (old, length) = (bytes_of(remake.before()), disk.info().bytes);
        let built = self.build(remake, raw, (start, old), console)?;
        raw.set_len(start.saturating_add(built.bytes())).map_err(failed)?;
        copy((disk, 0..start), (raw, 0)).map_err(failed)?;
        let old_end = start.saturating_add(old);
        let follows = !data(disk, old_end.min(length)..length).map_err(failed)?.is_empty();
        if partitions(disk).is_none() {
            let keeps = size == Size::Kept || follows;
            let bytes = if keeps { length } else { start.saturating_add(built.bytes()) };
            raw.set_len(bytes).map_err(failed)?;
            if keeps {
                copy((disk, old_end.min(length)..length), (raw, old_end)).map_err(failed)?;
            }
            return Ok((built, bytes));
        }
        let place =
            extant_host::disk::Place { file: self.image.to_owned(), range: Some(start..old_end) };
        let mut partition = Partition::of(self.image, (&place, disk), Medium::File)?;
        let behind = partition.behind();
        let in_partition = !data(disk, old_end.min(partition.range().end)..partition.range().end)
            .map_err(failed)?
            .is_empty();
        let ends = size == Size::Least && !in_partition;
        let is_last = ends && data(disk, behind).map_err(failed)?.is_empty();
        let end = match ends {
            true => partition.end_for(built.bytes()).min(partition.range().end),
            false => partition.range().end,
        };
        let wanted = if is_last { DiskLength::Least } else { DiskLength::Kept };
        let bytes = partition.disk_bytes_for(end, wanted);
        raw.set_len(bytes.max(end)).map_err(failed)?;
        let rest = if in_partition { old_end } else { partition.range().end };
        if bytes == length {
            copy((disk, rest.min(length)..length), (raw, rest)).map_err(failed)?;
        }
        if ends {
            partition.write(raw, end, bytes).map_err(failed)?;
        } else {
            raw.set_len(bytes).map_err(failed)?;
        }
        Ok((built, bytes))
    }

    /// What of the volume becomes other bytes.
    fn difference(
        &self,
        device: &Arc<dyn BlockDevice>,
        raw: &File,
        superblock: &Superblock,
    ) -> Result<Overlay, Error> {
        let failed = |error: io::Error| Error::io(self.image.display(), &error);
        let (block_size, bytes) = (superblock.block_size(), bytes_of(superblock));
        let file = raw.try_clone().map_err(failed)?;
        let name = self.image.display().to_string();
        let built =
            FileDevice::from_file(RealClock::new(), file, name, bytes, 0).map_err(failed)?;
        let spool = tempfile::tempfile().map_err(failed)?;
        anew::changes(device, &built, (block_size, bytes), spool).map_err(failed)
    }
}

fn bytes_of(superblock: &Superblock) -> u64 {
    superblock.blocks_count.saturating_mul(superblock.block_size().into())
}

/// A file without a name, where the host has room for one as large as the image: beside it.
fn scratch(image: &Path) -> Result<File, Error> {
    match std::env::var_os("TMPDIR") {
        Some(folder) => {
            tempfile::tempfile_in(folder).map_err(|error| Error::io("a temporary file", &error))
        }
        None => nameless(&place::file_of(image)),
    }
}
