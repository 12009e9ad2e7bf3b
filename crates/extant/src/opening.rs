//! From an image to the bytes of its volume: claimed, unpacked, cut out, and after what an
//! interrupted change has left.
use crate::error::{Error, ErrorKind, Result};
use crate::image::{Adapter, Bytes, Hold, Image, Memory};
use crate::options::{Errors, Options, Part};
use extant_block::{Access, BlockDevice, Clock, FileDevice, Window, in_use};
use extant_disk::in_place::Qcow2;
use extant_disk::partitions;
use extant_disk::read::{Form, LOOK_BYTES, form_of};
use extant_edit::redo::{self, Identity};
use extant_engine::read_superblock;
use extant_format::superblock::{
    Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock, SuperblockError, state,
};
use extant_journal::{End, Found as Journal, MapSource, Recovery};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A volume's bytes.
pub(crate) struct Found {
    pub(crate) device: Arc<dyn BlockDevice>,
    /// The file of the host without links, unless it is a container.
    pub(crate) path: Option<PathBuf>,
    /// What a redo log says of the image.
    pub(crate) identity: Identity,
    /// What errors are about, unless they are about a path inside.
    pub(crate) name: String,
    /// Keeps memory from others.
    pub(crate) hold: Option<Hold>,
    /// Bytes from the volume's first one to where it has to end.
    pub(crate) room: u64,
    /// What the image is in, if it can have another length.
    pub(crate) growing: Option<Growing>,
}

/// What can have another length, and ends with its volume.
pub(crate) enum Growing {
    File(File),
    Memory(Memory),
    Qcow2(Arc<Qcow2>),
}

/// All bytes of an image.
struct Disk {
    device: Arc<dyn BlockDevice>,
    path: Option<PathBuf>,
    hold: Option<Hold>,
    growing: Option<Growing>,
}

/// Finds and claims the bytes of a volume.
///
/// # Errors
/// As [`Options::open`] has them.
pub(crate) fn find(image: Image, options: &Options, access: Access) -> Result<Found> {
    let name = image.name();
    let found = || {
        let disk = disk(image, options.clock(), access)?;
        let image_bytes = disk.device.info().bytes;
        if access == Access::ReadWrite && disk.device.info().read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "cannot be written"));
        }
        let range = range(&*disk.device, &options.part)?;
        let start = range.as_ref().map_or(0, |range| range.start);
        let end = range.as_ref().map_or(image_bytes, |range| range.end.min(image_bytes));
        let of_table = extant_disk::end_at(&*disk.device, start);
        let room = end.min(of_table.unwrap_or(end)).saturating_sub(start);
        let growing = disk.growing.filter(|_| end == image_bytes && of_table.is_none());
        let device: Arc<dyn BlockDevice> = match range {
            Some(range) => Arc::new(Window::new(disk.device, range, name.clone())),
            None => disk.device,
        };
        let identity = Identity { offset: start, image_bytes };
        let device = match (access, &disk.path) {
            (Access::ReadOnly, Some(path)) => after_redo(path, device, &identity)?,
            _ => device,
        };
        let device = match &options.journal {
            Some(path) => joined(path, device, access)?,
            None => device,
        };
        if let Some(path) = &disk.path {
            refuse_mounted(path, &*device)?;
        }
        let (path, hold) = (disk.path, disk.hold);
        Ok(Found { device, path, identity, name: String::new(), hold, room, growing })
    };
    let found = found().map_err(|error: Error| error.at(&name))?;
    Ok(Found { name, ..found })
}

/// The volume with the device of its journal behind it.
fn joined(
    path: &Path,
    volume: Arc<dyn BlockDevice>,
    access: Access,
) -> Result<Arc<dyn BlockDevice>> {
    let disk = at_path(path, Arc::clone(volume.clock()), access);
    let journal = disk.map_err(|error| error.at(path))?.device;
    extant_journal::join(volume, journal).map_err(|error| match error {
        extant_journal::Error::NotItsJournal(reason) => {
            let words = format!("is not the journal of the volume: {reason}");
            Error::new(ErrorKind::InvalidInput, words).at(path)
        }
        error => extant_engine::Error::from(error).into(),
    })
}

fn disk(image: Image, clock: Arc<dyn Clock>, access: Access) -> Result<Disk> {
    let alone = |device| Disk { device, path: None, hold: None, growing: None };
    Ok(match image.bytes {
        Bytes::Path(path) => at_path(&path, clock, access)?,
        Bytes::File(file) => {
            let bytes = length(&file)?;
            alone(Arc::new(FileDevice::from_file(clock, file, "file".to_owned(), bytes, 0)?))
        }
        Bytes::Memory(memory) => {
            let hold = Some(memory.hold(access)?);
            let device = memory.device(&clock)?;
            Disk { hold, growing: Some(Growing::Memory(memory)), ..alone(device) }
        }
        Bytes::Device(device) => alone(Arc::new(Adapter::new(device, clock, access))),
    })
}

/// The length of a file or a block special file.
fn length(file: &File) -> Result<u64> {
    use std::io::{Seek, SeekFrom};
    let mut file = file;
    let before = file.stream_position()?;
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(before))?;
    Ok(end)
}

fn at_path(path: &Path, clock: Arc<dyn Clock>, access: Access) -> Result<Disk> {
    let resolved = path.canonicalize()?;
    let look = || -> Result<Option<Form>> {
        let reader = FileDevice::open(Arc::clone(&clock), &resolved, Access::ReadOnly, 0)?;
        let mut head = [0; LOOK_BYTES];
        Ok(reader.read(0, &mut head).ok().and_then(|()| form_of(&head)))
    };
    match (access, look().map_err(|error| error.at(&resolved))?) {
        (Access::ReadOnly, Some(form)) => contained(&resolved, clock, form),
        (Access::ReadWrite, Some(Form::Qcow2)) => {
            let file = FileDevice::open(Arc::clone(&clock), &resolved, access, 0);
            let file = file.map_err(|error| Error::from(error).at(&resolved))?;
            // What is written past the end of the file makes it longer.
            let (bytes, copy) = (file.info().bytes, file.file().try_clone()?);
            drop(file);
            let name = resolved.display().to_string();
            let file = FileDevice::from_file(clock, copy, name.clone(), bytes, 0)?;
            let disk = Arc::new(Qcow2::open_at(Arc::new(file), &resolved, name)?);
            let device = Arc::clone(&disk) as Arc<dyn BlockDevice>;
            if let Some(log) = redo::path_of(&resolved) {
                redo::finish_on(&log, &|| Ok(Arc::clone(&device)))?;
            }
            let growing = Some(Growing::Qcow2(disk));
            Ok(Disk { device, path: Some(resolved), hold: None, growing })
        }
        (Access::ReadWrite, Some(form)) => {
            let words = format!("is {}, which is only read here", form.name());
            Err(Error::new(ErrorKind::Unsupported, words))
        }
        (_, None) => {
            let file = FileDevice::open(clock, &resolved, access, 0);
            let file = file.map_err(|error| Error::from(error).at(&resolved))?;
            if let (Access::ReadWrite, Some(log)) = (access, redo::path_of(&resolved)) {
                redo::finish(&log, file.file())?;
            }
            let is_file = file.file().metadata()?.is_file();
            let growing = match is_file {
                true => Some(Growing::File(file.file().try_clone()?)),
                false => None,
            };
            Ok(Disk { device: Arc::new(file), path: Some(resolved), hold: None, growing })
        }
    }
}

/// The disk in a container: qcow2, Android's sparse form, or compressed, and then unpacked into a
/// file without a name.
fn contained(path: &Path, clock: Arc<dyn Clock>, form: Form) -> Result<Disk> {
    let opened = FileDevice::open(Arc::clone(&clock), path, Access::ReadOnly, 0)?;
    // The lock of the file belongs to the copy, too.
    let file = opened.file().try_clone()?;
    let name = path.display().to_string();
    let alone = |device| Ok(Disk { device, path: None, hold: None, growing: None });
    if !matches!(form, Form::Compressed(_)) {
        let device = extant_disk::read::open(clock, file, form, (name, Some(path)))?;
        // Beside a qcow2 image may be what an interrupted change has left.
        let path = (form == Form::Qcow2).then(|| path.to_owned());
        return Ok(Disk { device, path, hold: None, growing: None });
    }
    let unpacked = extant_disk::read::unpack(file, &std::env::temp_dir(), &())?;
    let device = FileDevice::from_file(
        Arc::clone(&clock),
        unpacked.file.try_clone()?,
        name.clone(),
        unpacked.bytes,
        0,
    )?;
    let mut head = [0; LOOK_BYTES];
    match device.read(0, &mut head).ok().and_then(|()| form_of(&head)) {
        Some(Form::Compressed(_)) => {
            Err(Error::new(ErrorKind::Unsupported, "is compressed twice: unpack it first"))
        }
        Some(form) => alone(extant_disk::read::open(clock, unpacked.file, form, (name, None))?),
        None => alone(Arc::new(device)),
    }
}

/// The bytes of a disk that are the volume; `None` for all of them.
fn range(disk: &dyn BlockDevice, part: &Part) -> Result<Option<Range<u64>>> {
    let word = match part {
        Part::Bytes(range) => return Ok(Some(range.clone())),
        Part::Found => return Ok(only_volume(disk)),
        Part::Partition(word) => word,
    };
    let none = |kind, why: &str| Error::new(kind, format!("partition {word}: {why}"));
    let table = partitions(disk)
        .ok_or_else(|| none(ErrorKind::NotFound, "the image has no partition table"))?;
    match table.named(word).as_slice() {
        [partition] => Ok(Some(partition.range.clone())),
        [] => Err(none(ErrorKind::NotFound, "there is none of that number or name")),
        _ => Err(none(ErrorKind::InvalidInput, "several have that name")),
    }
}

/// The partition with the only ext volume of a disk; `None` where the disk is a volume itself, or
/// has none or several.
fn only_volume(disk: &dyn BlockDevice) -> Option<Range<u64>> {
    if is_ext(disk, 0) {
        return None;
    }
    let table = partitions(disk)?;
    let mut volumes = table.partitions.iter().filter(|one| is_ext(disk, one.range.start));
    let only = volumes.next()?;
    volumes.next().is_none().then(|| only.range.clone())
}

/// Whether a superblock is at its place in a volume that begins at this byte.
fn is_ext(disk: &dyn BlockDevice, start: u64) -> bool {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    let read = start.checked_add(SUPERBLOCK_OFFSET).map(|at| disk.read(at, &mut bytes));
    let is_read = read.is_some_and(|read| read.is_ok());
    is_read && !matches!(Superblock::parse_any(&bytes), Err(SuperblockError::NotExt))
}

/// The volume as it is once a change that was interrupted is ended, in memory.
fn after_redo(
    path: &Path,
    device: Arc<dyn BlockDevice>,
    identity: &Identity,
) -> Result<Arc<dyn BlockDevice>> {
    let Some(log) = redo::path_of(path).filter(|log| log.exists()) else { return Ok(device) };
    Ok(redo::over(&log, &device, identity)?.unwrap_or(device))
}

/// Refuses a volume that the kernel has mounted and that waits for a replay: what its journal
/// holds changes meanwhile.
fn refuse_mounted(path: &Path, device: &dyn BlockDevice) -> Result<()> {
    let waits = |volume: Superblock| volume.has(Feature::NEEDS_RECOVERY);
    if !read_superblock(device).is_ok_and(waits) {
        return Ok(());
    }
    match in_use::kernel_use(&std::fs::metadata(path)?) {
        Some(used) if used.mount.is_some() => Err(Error::new(ErrorKind::InUse, used.to_string())),
        _ => Ok(()),
    }
}

/// Refuses a volume that is to be checked before it is written, unless that is not wanted.
///
/// # Errors
/// `NeedsCheck`. What else is wrong is said when it is opened.
pub(crate) fn refuse_errors(device: &Arc<dyn BlockDevice>, options: &Options) -> Result<()> {
    let refused = |why: &str| Err(Error::new(ErrorKind::NeedsCheck, why));
    let Ok(superblock) = read_superblock(&**device) else { return Ok(()) };
    if options.errors == Errors::Ignore {
        return Ok(());
    }
    if superblock.state & state::ERRORS != 0 {
        return refused("is marked as having errors: have it checked first (e2fsck -f)");
    }
    if superblock.awaits_check() {
        return refused(
            "was not closed and has no journal: what it calls free may be in use; have it checked \
             first (e2fsck -f)",
        );
    }
    if !superblock.has(Feature::NEEDS_RECOVERY) {
        return Ok(());
    }
    let report = match Recovery::find(Arc::clone(device), MapSource::Inode, 0) {
        Ok(Journal::Recovery(recovery)) => recovery.report(),
        Ok(Journal::Nothing(report)) => report,
        Err(_) => return Ok(()),
    };
    match report.end {
        End::Damaged { .. } => refused("has a journal that is damaged: have it checked first"),
        _ if report.journal_error != 0 => refused("is marked as having errors by its journal"),
        _ => Ok(()),
    }
}
