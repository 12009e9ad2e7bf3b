//! A volume that is locked, and that nobody has open: what repair, undo, heal, resize and trim
//! write as a whole.
//!
//! *Invariants*: what is written goes through a redo log, so that a cut leaves before or after.
use crate::change_failure as failed_change;
use crate::cleanup::undisturbed;
use crate::console::Console;
use crate::disk::{self, Place};
use crate::error::Error;
use crate::image::{self, ImageArguments};
use crate::journal;
use crate::source_options::clock;
use crate::target::{self, Target};
use crate::written::Disk;
use extant_block::{BlockDevice, Overlay};
use extant_disk::{Refit, table::ALIGNMENT};
use extant_edit::ahead::{Ahead, Moved};
use extant_edit::e2undo;
use extant_edit::emptied::{self, Doing, Emptying};
use extant_edit::redo::{self, Identity};
use extant_edit::resized::{self, Length, Sized};
use extant_edit::undo::{self, Applied, Keep, Undone};
use extant_engine::{ErrorKind, MountHold, free_orphans, read_superblock, recover};
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use extant_repair::{LostFound, Optimize, RepairOptions, Resized, Scope};
use std::fs::File;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A volume that is locked.
pub struct Volume {
    /// Its bytes, with the device of its journal behind them where one was named.
    pub device: Arc<dyn BlockDevice>,
    image: PathBuf,
    place: Place,
    /// All bytes of the image.
    disk: Disk,
    /// Where a redo log may be; `None` where there is no place.
    log: Option<PathBuf>,
    identity: Identity,
    target: Target,
}

/// How large a volume can become where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Bytes from its first one to the end of the partition, the device or the file.
    pub bytes: u64,
    /// Whether what is there can be made longer: a file that ends with the volume's part.
    pub can_grow: bool,
}

/// The partition that a volume is in.
#[derive(Clone, Debug)]
pub struct Partition {
    refit: Refit,
    number: u32,
    range: Range<u64>,
    /// Where the next one begins.
    next: Option<u64>,
    disk_bytes: u64,
    is_file: bool,
}

/// How long a disk is to be after one of its partitions has another end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskLength {
    /// As it was, or longer where it has to be.
    Kept,
    /// As short as it can be, where the partition is the last one.
    Least,
}

impl Partition {
    /// That of a volume at a place of a disk.
    ///
    /// # Errors
    /// It is in none, or the table cannot be changed.
    pub fn of(
        image: &Path,
        (place, disk): (&Place, &dyn BlockDevice),
        medium: Medium,
    ) -> Result<Partition, Error> {
        let shown = image.display();
        let none = || {
            Error::new(format!("{shown}: is in no partition")).hint(
                "a partition is named as in disk.img@2; without --partition only the volume \
                       changes",
            )
        };
        let table = extant_disk::partitions(disk).ok_or_else(none)?;
        let start = place.start();
        let of_it = |one: &&extant_disk::Partition| one.range.start == start;
        let found = table.partitions.iter().find(of_it).ok_or_else(none)?;
        let starts = table.partitions.iter().map(|one| one.range.start);
        let next = starts.filter(|other| *other > start).min();
        if found.range.end > disk.info().bytes {
            return Err(Error::new(format!(
                "{shown}: its partition ends past the end of the disk"
            ))
            .hint(
                "the image was cut short: truncate -s makes it longer, and shrink or resize \
                       then does what is wanted",
            ));
        }
        let is_in = |one: &extant_disk::Partition| one.range.start < start && one.range.end > start;
        if next.is_some_and(|next| next < found.range.end) || table.partitions.iter().any(is_in) {
            return Err(Error::new(format!("{shown}: its partition overlaps another one")));
        }
        let refit = Refit::read(disk);
        let refit = refit.map_err(|error| Error::new(format!("{shown}: {error}")))?;
        // The copy of the table goes to the end of the file: over what a disk of another program
        // may have there.
        if let (Medium::File, Some(end)) = (medium, refit.end())
            && has_data(disk, end).map_err(|error| Error::io(shown.to_string(), &error))?
        {
            return Err(Error::new(format!("{shown}: something follows the end of its GPT"))
                .hint("sgdisk -e moves the copy of the table to the end, over what is there"));
        }
        Ok(Partition {
            refit,
            number: found.number,
            range: found.range.clone(),
            next,
            disk_bytes: disk.info().bytes,
            is_file: medium == Medium::File,
        })
    }

    /// How large the volume in it can become with it.
    pub fn room(&self) -> Room {
        let end_max = self.refit.end_max(self.disk_bytes);
        let end = self.next.unwrap_or_else(|| end_max.max(self.range.end));
        let can_grow = self.next.is_none() && self.is_file;
        Room { bytes: end.saturating_sub(self.range.start), can_grow }
    }

    /// Where it ends if it has this many bytes of a volume, at a whole MiB if it can.
    pub fn end_for(&self, bytes: u64) -> u64 {
        let end = self.range.start.saturating_add(bytes);
        let aligned = end.checked_next_multiple_of(ALIGNMENT).unwrap_or(end);
        let end_max = self.refit.end_max(self.disk_bytes);
        match self.next {
            Some(next) => aligned.min(next).max(end),
            // The disk gets longer for the volume, not for what is rounded up.
            None if self.is_file && end > end_max => aligned,
            None => aligned.min(end_max).max(end),
        }
    }

    /// How long the disk is to be if it ends there.
    pub fn disk_bytes_for(&self, end: u64, wanted: DiskLength) -> u64 {
        let before = self.disk_bytes;
        let least = if self.next.is_none() { self.refit.disk_bytes(end) } else { before };
        match wanted {
            _ if !self.is_file => before,
            DiskLength::Least => least,
            DiskLength::Kept if end > self.refit.end_max(before) => least.max(before),
            DiskLength::Kept => before,
        }
    }

    /// Writes its table with another end of it to a file with the bytes of the disk, and gives the
    /// file this length.
    ///
    /// # Errors
    /// The host's; it cannot end there.
    pub fn write(&mut self, file: &File, end: u64, disk_bytes: u64) -> std::io::Result<()> {
        self.refit.set_end(self.number, end, disk_bytes)?;
        let length = file.metadata()?.len();
        if self.is_file && disk_bytes > length {
            file.set_len(disk_bytes)?;
        }
        self.refit.write(file, disk_bytes)?;
        if self.is_file && disk_bytes < length {
            file.set_len(disk_bytes)?;
            file.sync_all()?;
        }
        (self.range.end, self.disk_bytes) = (end, disk_bytes);
        Ok(())
    }

    /// The same, on a disk that is written where it is; gives the disk with its new length.
    fn write_on(&mut self, disk: &Disk, end: u64, disk_bytes: u64) -> std::io::Result<Disk> {
        let length = disk.device.info().bytes;
        // The disk of a qcow2 image does not become shorter, nor does its table then.
        let bytes = if disk.is_qcow2() { disk_bytes.max(length) } else { disk_bytes };
        self.refit.set_end(self.number, end, bytes)?;
        let longer = match self.is_file && bytes > length {
            true => disk.set_length(bytes)?,
            false => disk.clone(),
        };
        self.refit.write(&longer.device, bytes)?;
        let disk = match self.is_file && bytes < length {
            true => {
                let shorter = longer.set_length(bytes)?;
                // tidy: writers because the volume is closed, and its disk has its length
                shorter.device.flush()?;
                shorter
            }
            false => longer,
        };
        (self.range.end, self.disk_bytes) = (end, bytes);
        Ok(disk)
    }

    /// The bytes of the disk behind it, up to the next one or to what the table has at the end.
    pub fn behind(&self) -> Range<u64> {
        let end = self.next.unwrap_or_else(|| self.refit.end_max(self.disk_bytes));
        self.range.end.min(end)..end
    }

    /// Its bytes on the disk.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

/// What a disk is on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A regular file, which can be made longer.
    File,
    /// A block device.
    Device,
}

impl Room {
    /// Of a volume at a place of a disk. One that is named by a byte ends with its partition too,
    /// or before the next one, where the disk has any.
    pub fn of(place: &Place, disk: &dyn BlockDevice, medium: Medium) -> Room {
        let (start, length) = (place.start(), disk.info().bytes);
        let end = place.range.as_ref().map_or(length, |range| range.end);
        let of_table = extant_disk::end_at(disk, start);
        let end = end.min(of_table.unwrap_or(end));
        let can_grow = medium == Medium::File && end == length && of_table.is_none();
        Room { bytes: end.saturating_sub(start), can_grow }
    }
}

impl Volume {
    /// Opens it. A change that was interrupted is ended first; a journal that is on another device
    /// is replayed, and orphans are freed by it, which a log beside the image has no room for.
    ///
    /// # Errors
    /// It is missing, mounted or in use; a container, which is only read; the host's.
    pub fn open(image: &Path, place: &ImageArguments, log: Option<&Path>) -> Result<Volume, Error> {
        let found = disk::changeable(image, place.offset_bytes())?;
        let target = Target::in_place(&found.file)?;
        if let Some(log) = log {
            let finished = target.end_change(log);
            target::say_finished(image, finished.map_err(|error| failed_change::of(image, error))?);
        }
        let disk = target.disk(clock()?, &image.display().to_string())?;
        let bytes = disk.device.info().bytes;
        let alone = found.on(Arc::clone(&disk.device), image);
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
            target,
        })
    }

    /// A new file beside the one that it is in, to take its name when it is whole.
    ///
    /// # Errors
    /// It is on a block device; the host's.
    pub fn replacement(&self) -> Result<Target, Error> {
        self.target.replacement()
    }

    /// The byte of the disk at which it begins.
    pub fn start(&self) -> u64 {
        self.place.start()
    }

    /// Whether it is on a block device.
    pub fn is_device(&self) -> bool {
        self.target.device_bytes.is_some()
    }

    /// All bytes of the file or device that it is in.
    pub fn disk(&self) -> &dyn BlockDevice {
        &*self.disk.device
    }

    /// Whether nothing says where it ends but the file or device that it is in.
    pub fn is_alone(&self) -> bool {
        extant_disk::partitions(&*self.disk.device).is_none()
    }

    /// The same, as it is now.
    ///
    /// # Errors
    /// The host's.
    pub fn length(&self) -> Result<u64, Error> {
        match self.target.device_bytes {
            _ if self.disk.is_qcow2() => Ok(self.disk.device.info().bytes),
            Some(bytes) => Ok(bytes),
            None => {
                let metadata = self.target.file.metadata();
                Ok(metadata.map_err(|error| Error::io(self.image.display(), &error))?.len())
            }
        }
    }

    /// Bytes of the file or device that it is in, when it was opened.
    pub fn image_bytes(&self) -> u64 {
        self.identity.image_bytes
    }

    /// The partition that it is in.
    ///
    /// # Errors
    /// It is in none, or the table cannot be changed.
    pub fn partition(&self) -> Result<Partition, Error> {
        let medium = self.medium();
        Partition::of(&self.image, (&self.place, &*self.disk.device), medium)
    }

    fn medium(&self) -> Medium {
        match self.target.device_bytes {
            None => Medium::File,
            // What is on a device has no place for a longer image.
            Some(_) => Medium::Device,
        }
    }

    /// Gives the partition another end, and the disk another length where it has to be longer; or
    /// shorter, where that is `wanted`. The volume in it is as it was.
    ///
    /// # Errors
    /// The host's; it cannot end there.
    pub fn set_partition(
        &mut self,
        partition: &mut Partition,
        end: u64,
        wanted: DiskLength,
    ) -> Result<(), Error> {
        let shown = self.image.display().to_string();
        let failed = |error: std::io::Error| Error::new(format!("{shown}: {error}"));
        let after = partition.disk_bytes_for(end, wanted);
        let disk = &self.disk;
        self.disk = undisturbed(|| partition.write_on(disk, end, after)).map_err(failed)?;
        self.place.range = Some(partition.range.clone());
        self.device = self.place.on(Arc::clone(&self.disk.device), &self.image);
        self.identity.image_bytes = self.disk.device.info().bytes;
        Ok(())
    }

    /// How large it can become.
    pub fn room(&self) -> Room {
        Room::of(&self.place, &*self.disk.device, self.medium())
    }

    /// Writes a volume of another size: all, or nothing. A file that ends with the volume ends with
    /// it afterwards; but it does not become shorter where `theirs` keeps for e2undo what was
    /// there.
    ///
    /// # Errors
    /// As [`Volume::apply`]; the file cannot be made longer.
    pub fn apply_resized(
        &self,
        resized: &Resized,
        theirs: Option<&Path>,
        console: &Console,
    ) -> Result<Applied, Error> {
        let block_size = resized.after.block_size();
        let bytes_of = |blocks: u64| blocks.saturating_mul(block_size.into());
        self.hold_briefly().map_err(|error| image::failure(&self.image, error))?;
        let moved =
            |it: &extant_repair::Move| Moved { from: it.from.0, to: it.to.0, blocks: it.blocks };
        let ahead = Ahead {
            moves: resized.moves.iter().map(moved).collect(),
            zeros: resized.zeros.clone(),
        };
        let sized = Sized {
            overlay: &resized.overlay,
            ahead: &ahead,
            block_size,
            bytes_before: bytes_of(resized.before.blocks_count),
            bytes_after: bytes_of(resized.after.blocks_count),
        };
        let target = resized::Target {
            device: &self.device,
            length: self.room().can_grow.then_some(self as &dyn Length),
            log: self.log()?,
            identity: self.identity,
            e2undo: theirs,
        };
        let applied = undisturbed(|| resized::apply(&sized, &target));
        let applied = applied.map_err(|error| failed_change::of(&self.image, error))?;
        if self.disk.is_qcow2() && sized.bytes_after < sized.bytes_before {
            console.warn(&format!(
                "{}: the disk in it has {} bytes as before; what the volume had past its end is \
                 given back",
                self.image.display(),
                self.disk.device.info().bytes
            ));
        }
        if let Ok(superblock) = read_superblock(&*self.device) {
            let of_disk = (&self.place, &*self.disk.device);
            disk::warn_of_hash_tree(&self.image, of_disk, &superblock, console);
        }
        Ok(applied)
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
        let applied = applied.map_err(|error| failed_change::of(&self.image, error))?;
        if let (true, Ok(superblock)) = (applied.blocks > 0, read_superblock(&*self.device)) {
            disk::warn_of_hash_tree(
                &self.image,
                (&self.place, &*self.disk.device),
                &superblock,
                console,
            );
        }
        Ok(applied)
    }

    /// Makes bytes of the volume that nothing reads holes, or zeros; gives how many were none. What
    /// is kept of an earlier repair goes: to take that back would need these bytes.
    ///
    /// # Errors
    /// The host's; another machine has the volume.
    pub fn empty(
        &self,
        ranges: &[Range<u64>],
        emptying: Emptying,
        console: &Console,
    ) -> Result<u64, Error> {
        let failed = |error| image::failure(&self.image, error);
        self.hold_briefly().map_err(failed)?;
        let host = |error: std::io::Error| Error::io(self.image.display(), &error);
        if let Some(log) = &self.log {
            match std::fs::remove_file(undo::path_of(log, self.identity.offset)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(host(error));
                }
                _ => {}
            }
        }
        let how = (emptying, Doing::All);
        let emptied = undisturbed(|| emptied::empty(&*self.device, ranges, how)).map_err(host)?;
        if let (true, Ok(superblock)) = (emptied > 0, read_superblock(&*self.device)) {
            disk::warn_of_hash_tree(
                &self.image,
                (&self.place, &*self.disk.device),
                &superblock,
                console,
            );
        }
        Ok(emptied)
    }

    /// Brings what waits in the journal and orphans to an end, before another change: written only
    /// if `plan` says that the change can be made after that.
    ///
    /// # Errors
    /// Those of `plan` and of [`extant_repair::settled`], which `failed` puts into words, with
    /// nothing written; as [`Volume::apply`].
    pub fn settle<E: From<Error>>(
        &self,
        failed: impl FnOnce(extant_repair::Error) -> E,
        plan: impl FnOnce(Arc<dyn BlockDevice>) -> Result<(), E>,
        console: &Console,
    ) -> Result<(), E> {
        let options = options(Scope::Safe, machine_threads(), None)?;
        let settled = extant_repair::settled(Arc::clone(&self.device), options);
        let Some((overlay, block_size)) = settled.map_err(failed)? else { return Ok(()) };
        plan(Arc::clone(&overlay) as Arc<dyn BlockDevice>)?;
        Ok(self.apply((&overlay, block_size), (Keep::Nothing, None), console).map(drop)?)
    }

    /// Takes the last repair back.
    ///
    /// # Errors
    /// There is no place for a log; as [`undo::undo`].
    pub fn undo(&self) -> Result<Undone, Error> {
        let log = self.log()?;
        let undone = undisturbed(|| undo::undo(&self.device, log, &self.identity));
        undone.map_err(|error| failed_change::of(&self.image, error))
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

/// How many threads share a check, where nobody says it: as many as the machine has.
pub fn machine_threads() -> NonZeroU32 {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(64));
    u32::try_from(threads).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
}

impl Length for Volume {
    fn set(&self, image_bytes: u64) -> std::io::Result<Arc<dyn BlockDevice>> {
        let disk = self.disk.set_length(image_bytes)?.device;
        let mut place = self.place.clone();
        if let Some(range) = &mut place.range {
            range.end = image_bytes;
        }
        Ok(place.on(disk, &self.image))
    }
}

/// Whether anything but zeros is on a disk from a byte on.
fn has_data(disk: &dyn BlockDevice, start: u64) -> std::io::Result<bool> {
    const PIECE_BYTES: u64 = 1 << 20;
    let (mut at, end) = (start, disk.info().bytes);
    let mut piece = Vec::new();
    while at < end {
        let Some(data) = disk.next_data(at)? else { return Ok(false) };
        at = at.max(data.start);
        let length = data.end.min(end).saturating_sub(at).min(PIECE_BYTES);
        piece.resize(length as usize, 0);
        disk.read(at, &mut piece)?;
        if length == 0 || piece.iter().any(|byte| *byte != 0) {
            return Ok(length > 0);
        }
        at = at.saturating_add(length);
    }
    Ok(false)
}

/// How a volume is mended, with a file for what memory has no room for.
///
/// # Errors
/// The host's; SOURCE_DATE_EPOCH is no time.
pub fn options(
    scope: Scope,
    threads: NonZeroU32,
    progress: Option<extant_inspect::Listener>,
) -> Result<RepairOptions, Error> {
    let spool = tempfile::tempfile().map_err(|error| Error::io("a temporary file", &error))?;
    let now_seconds = now_seconds()?;
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

/// The time that is written into volumes, in seconds since 1970.
///
/// # Errors
/// SOURCE_DATE_EPOCH is no time.
pub fn now_seconds() -> Result<u64, Error> {
    Ok(clock()?.wall().seconds.try_into().unwrap_or(0))
}

/// What is said of a volume that cannot be mended.
pub fn failure(
    image: &Path,
    device: &dyn BlockDevice,
    place: &ImageArguments,
    error: extant_repair::Error,
) -> Error {
    use extant_engine::ErrorKind;
    let is_empty = device.info().bytes < SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE as u64;
    match error {
        extant_repair::Error::Engine(_) | extant_repair::Error::Device(_) if is_empty => {
            image::not_ext(image, device, place.offset_bytes())
        }
        extant_repair::Error::Engine(error) if matches!(error.kind, ErrorKind::NotExt) => {
            image::not_ext(image, device, place.offset_bytes())
        }
        extant_repair::Error::Engine(error) => image::failure(image, error),
        extant_repair::Error::Device(error) => Error::io(image.display(), &error),
        error => {
            let failure = Error::new(format!("{}: {error}", image.display()));
            match cut_short(device) {
                None => failure,
                Some(bytes) => failure.hint(format!(
                    "the volume is longer than what it is in: truncate -s makes a file longer, \
                     here {bytes} bytes from where the volume begins; what was cut off is lost"
                )),
            }
        }
    }
}

/// The bytes of a volume whose device ends before it does.
fn cut_short(device: &dyn BlockDevice) -> Option<u64> {
    let superblock = read_superblock(device).ok()?;
    let bytes = superblock.blocks_count.checked_mul(superblock.block_size().into())?;
    (bytes > device.own_bytes()).then_some(bytes)
}
