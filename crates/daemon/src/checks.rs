//! What is looked at before anything is opened: each failure is one line and a hint.
use super::options::{Discards, MountOptions, OnErrors, Over, Replay};
use super::points;
use extant_block::{Access, BlockDevice, FileDevice, RealClock};
use extant_disk::read::Form;
use extant_engine::{ErrorKind, check_written, read_superblock, unreplayed};
use extant_format::superblock::{Feature, Superblock, state};
use extant_host::console::Console;
use extant_host::disk::Place;
use extant_host::error::{Error, Exit};
use extant_host::image;
use extant_host::journal;
use extant_host::place;
use extant_host::recovery;
use extant_host::target;
use extant_host::written::Disk;
use extant_journal::{Found, MapSource, Recovery};
use extant_mount::workers::Workers;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Fails if a file that is to be written is there: it may be an image.
///
/// # Errors
/// It is there.
pub fn new_file(path: &Path) -> Result<(), Error> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            Err(Error::new(format!("{}: is there already", path.display()))
                .hint("name another file, or remove it"))
        }
        _ => Ok(()),
    }
}

/// The folder that a volume is mounted on, as the table of mounts will have it.
///
/// # Errors
/// It is not there, is no folder, is a mount point, or holds something.
pub fn folder(folder: &Path, over: Over) -> Result<PathBuf, Error> {
    let shown = folder.display();
    let path = points::resolved(folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::new(format!("{shown}: there is no such folder"))
            .hint(format!("mkdir -p {shown} makes it")),
        _ => Error::io(&shown, &error),
    })?;
    if std::fs::metadata(&path).is_err_and(|error| is_orphaned(&error)) {
        return Err(Error::new(format!("{shown}: the server of what is mounted there has ended"))
            .hint(format!("extant umount {shown} takes it away")));
    }
    if over == Over::Anything {
        return Ok(path);
    }
    if let Some(mount) = points::at(&path) {
        let what = mount.source.display();
        return Err(Error::new(format!("{shown}: {what} is mounted there ({})", mount.kind))
            .hint("unmount it first, or mount over it with -o nonempty"));
    }
    let mut entries = std::fs::read_dir(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotADirectory => Error::new(format!("{shown}: is not a folder"))
            .hint("the last word is the folder to mount on: extant mount IMAGE DIR"),
        _ => Error::io(&shown, &error),
    })?;
    if entries.next().is_some() {
        return Err(Error::new(format!("{shown}: is not empty"))
            .hint("-o nonempty hides what it holds as long as the mount is there"));
    }
    Ok(path)
}

/// Says once which words were taken and change nothing here.
///
/// # Errors
/// A label of SELinux, which is in use, by a user who is not root.
pub fn note(options: &MountOptions, console: &Console) -> Result<(), Error> {
    let mut noted = options.noted().to_vec();
    if !options.labels().is_empty() && !has_labels() {
        noted.extend(options.labels().iter().map(|(word, label)| format!("{word}={label}")));
    } else if !options.labels().is_empty() && !rustix::process::geteuid().is_root() {
        return Err(Error::usage("-o context: only root labels a mount"));
    }
    if !noted.is_empty() {
        console.warn(&format!("taken, changes nothing: {}", noted.join(", ")));
    }
    Ok(())
}

/// Whether the kernel knows labels of SELinux.
pub fn has_labels() -> bool {
    Path::new("/sys/fs/selinux/enforce").exists()
}

/// Says so where the device can do nothing with what is free.
fn check_discards(image: &Path, device: &dyn BlockDevice, console: &Console) {
    let Some((file, _)) = device.host_file() else { return };
    let Ok(metadata) = file.metadata() else { return };
    let takes = match metadata.file_type().is_block_device() {
        true => takes_discards(metadata.rdev()),
        false => has_holes(file, metadata.len()),
    };
    if !takes {
        let shown = image.display();
        console.warn(&format!("{shown}: discard has no effect: its device gives nothing back"));
    }
}

/// Whether files of this file's host can get holes: one after its end is none.
fn has_holes(file: &File, bytes: u64) -> bool {
    let (hole, after) = (4096, bytes.next_multiple_of(4096));
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    !matches!(fallocate(file, how, after, hole), Err(Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Whether a block device takes discards, as the kernel says; a partition is part of one that says.
fn takes_discards(number: u64) -> bool {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let says = ["", "../"].iter().find_map(|way| {
        let path = format!("/sys/dev/block/{major}:{minor}/{way}queue/discard_max_bytes");
        std::fs::read_to_string(path).ok()
    });
    says.is_none_or(|bytes| bytes.trim() != "0")
}

/// Whether this is what calls on a mount without a server return.
fn is_orphaned(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error())
}

/// How a block device is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// By us, exclusively; a file is locked.
    Ours,
    /// By the kernel, for a mount that it makes of the device itself (`fuseblk`). It refuses one
    /// that anything else holds. Our own lock is taken too.
    TheKernels,
}

/// How an image is held at first: the unmount of a block device waits for its server where the
/// kernel holds it, which takes root.
pub fn hold(image: &Path) -> Hold {
    let is_root = rustix::process::geteuid().is_root();
    let metadata = std::fs::metadata(place::file_of(image));
    match metadata.is_ok_and(|metadata| metadata.file_type().is_block_device()) && is_root {
        true => Hold::TheKernels,
        false => Hold::Ours,
    }
}

/// An image that can be served.
pub struct Opened {
    /// Its bytes, from the volume's beginning on; locked.
    pub device: Arc<dyn BlockDevice>,
    /// Its path without links.
    pub path: PathBuf,
    /// What may be done with it.
    pub access: Access,
    /// The file or device, where the volume is all of it and can be written: it may become longer.
    pub length: Option<Arc<FileDevice>>,
}

/// Opens and locks the image. It is opened for reading alone if that is asked for; with a warning
/// where nothing was said and it cannot be written, or the volume has errors. A journal is then
/// replayed in memory.
///
/// # Errors
/// It is missing, in use, or no ext volume; it cannot be written, and that was asked for.
pub fn open(
    image: &Path,
    options: &MountOptions,
    hold: Hold,
    console: &Console,
) -> Result<Opened, Error> {
    // Refused as by the commands that only read, and before it is opened for writing.
    let found = image::find(image, &options.place(), Some(console))?;
    let file = &found.file;
    let metadata = std::fs::metadata(file).map_err(|error| Error::io(file.display(), &error))?;
    target::check(file, &metadata)?;
    let looked_at = Arc::clone(&found.device);
    let (Errors { why, cut }, asked) = look(image, options, &looked_at, console)?;
    let path = file.canonicalize().map_err(|error| Error::io(file.display(), &error))?;
    if let Some(form) = found.form.filter(|form| *form != Form::Qcow2) {
        return contained(image, options, form, path, looked_at, console);
    }
    let form = found.form;
    let place = Place { file: found.file, range: found.range };
    // The lock of a reader would keep the writer out.
    drop((looked_at, found.device));
    let access = match asked {
        Some(access) => access,
        None => match why.filter(|_| options.on_errors != Some(OnErrors::Continue)) {
            Some(why) => {
                console.warn(&format!(
                    "{}: {why}, and mounted read-only: -o rw or errors=continue mounts it writable",
                    image.display()
                ));
                Access::ReadOnly
            }
            None => Access::ReadWrite,
        },
    };
    // Where it is only read, recovery in memory says so.
    if let (Access::ReadWrite, Some(cut)) = (access, &cut) {
        console.skipped(cut);
    }
    let opened = |access, device, length| Opened { device, path: path.clone(), access, length };
    if access == Access::ReadWrite {
        end_change(&place.file)?;
        match device(&place.file, Access::ReadWrite, hold) {
            Ok(whole) => {
                let file = Arc::clone(&whole);
                let disk = Disk::in_file(file, &path, &image.display().to_string())?.device;
                if options.discards == Discards::Told {
                    check_discards(image, &*disk, console);
                }
                let device = place.on(disk, image);
                let device = journal::write(image, options.journal.as_deref(), device)?;
                let is_all = place.range.is_none() && form.is_none();
                let length = Some(whole).filter(|_| is_all);
                return Ok(opened(Access::ReadWrite, device, length));
            }
            Err(error) if options.access.is_none() && is_protected(&error) => {
                console.warn(&format!(
                    "{}: is write-protected, and mounted read-only",
                    image.display()
                ));
            }
            Err(error) => return Err(unopened(image, &error)),
        }
    }
    let device = match form {
        Some(_) => image::find(image, &options.place(), Some(console))?.device,
        None => read_alone(image, (&place, options), hold)?,
    };
    Ok(opened(Access::ReadOnly, read(image, options, device, console)?, None))
}

/// The bytes of a volume in a plain file that is only read, with those of its journal.
fn read_alone(
    image: &Path,
    (place, options): (&Place, &MountOptions),
    hold: Hold,
) -> Result<Arc<dyn BlockDevice>, Error> {
    let device = device(&place.file, Access::ReadOnly, hold);
    let disk = device.map_err(|error| unopened(image, &error))? as Arc<dyn BlockDevice>;
    let bytes = disk.info().bytes;
    let device = image::after_redo((place, bytes), place.on(disk, image))?;
    journal::read(image, options.journal.as_deref(), device)
}

/// Ends a change of the image that was interrupted, where there is one: its lock is taken for that
/// alone.
fn end_change(image: &Path) -> Result<(), Error> {
    let resolved = image.canonicalize().ok();
    let log = resolved.as_deref().and_then(extant_edit::redo::path_of);
    match log.is_some_and(|log| log.exists()) {
        true => target::Target::in_place(image).map(drop),
        false => Ok(()),
    }
}

/// What is known of a volume before it is opened, and what may be done with it, where that is asked
/// for or known.
fn look(
    image: &Path,
    options: &MountOptions,
    device: &Arc<dyn BlockDevice>,
    console: &Console,
) -> Result<(Errors, Option<Access>), Error> {
    match read_superblock(&**device) {
        Ok(superblock) => {
            let is_read = options.access.is_none()
                && warn_if_read_alone(image, &**device, &superblock, console);
            let asked = if is_read { Some(Access::ReadOnly) } else { options.access };
            Ok((errors(image, &superblock, device, console), asked))
        }
        Err(error) if matches!(error.kind, ErrorKind::NotExt) => {
            Err(image::not_ext(image, &**device, options.offset_bytes))
        }
        // One that was torn is mended by the replay of its journal, or refused when it is opened.
        Err(_) => Ok((Errors::default(), options.access)),
    }
}

/// Whether a volume can be read and not written, which is said.
fn warn_if_read_alone(
    image: &Path,
    device: &dyn BlockDevice,
    superblock: &Superblock,
    console: &Console,
) -> bool {
    let of_features = check_written(superblock).err().map(|error| error.to_string());
    let why = of_features.or_else(|| match extant_journal::check_place(device, superblock) {
        Err(error @ extant_journal::Error::External(_)) => Some(error.to_string()),
        _ => None,
    });
    if let Some(why) = &why {
        console.warn(&format!("{}: is mounted read-only: {why}", image.display()));
    }
    why.is_some()
}

/// What is known to be wrong with a volume before it is opened.
#[derive(Default)]
struct Errors {
    /// Why it asks for a check, or will once its journal is replayed.
    why: Option<&'static str>,
    /// What is said of the log of its journal, where damage cuts it.
    cut: Option<String>,
}

/// Whether errors were found on a volume: its superblock or its journal says so, the journal itself
/// is damaged, or there is none and the volume was not unmounted.
fn errors(
    image: &Path,
    superblock: &Superblock,
    device: &Arc<dyn BlockDevice>,
    console: &Console,
) -> Errors {
    const MARKED: &str = "is marked as having errors";
    let marked = (superblock.state & state::ERRORS != 0).then_some(MARKED);
    if superblock.awaits_check() {
        let unchecked = "was not unmounted, has no journal and needs a check (e2fsck -f)";
        return Errors { why: marked.or(Some(unchecked)), cut: None };
    }
    if !superblock.has(Feature::NEEDS_RECOVERY) {
        if marked.is_none() {
            recovery::warn_if_damaged(image, device, console);
        }
        return Errors { why: marked, cut: None };
    }
    let report = match Recovery::find(Arc::clone(device), MapSource::Inode, 0) {
        Ok(Found::Recovery(recovery)) => recovery.report(),
        Ok(Found::Nothing(report)) => report,
        Err(_) => return Errors { why: marked, cut: None },
    };
    let cut = recovery::cut(image, &report);
    let why = match cut {
        Some(_) => Some("has a journal that is damaged"),
        None => marked.or((report.journal_error != 0).then_some(MARKED)),
    };
    Errors { why, cut }
}

/// What is in a container is mounted read-only.
fn contained(
    image: &Path,
    options: &MountOptions,
    form: Form,
    path: PathBuf,
    device: Arc<dyn BlockDevice>,
    console: &Console,
) -> Result<Opened, Error> {
    let shown = image.display();
    match options.access {
        Some(Access::ReadWrite) => {
            return Err(Error::new(format!(
                "{shown}: is {}, which is only read here",
                form.name()
            ))
            .hint(format!(
                "make a plain image of it: {}",
                form.conversion(&place::file_of(image).display().to_string())
            )));
        }
        Some(Access::ReadOnly) => {}
        None => console.warn(&format!("{shown}: is {}, and mounted read-only", form.name())),
    }
    let device = read(image, options, device, console)?;
    Ok(Opened { device, path, access: Access::ReadOnly, length: None })
}

/// A volume that is only read: after its journal was replayed in memory, or as it is.
fn read(
    image: &Path,
    options: &MountOptions,
    device: Arc<dyn BlockDevice>,
    console: &Console,
) -> Result<Arc<dyn BlockDevice>, Error> {
    let device = match options.replay {
        Replay::Done => recovery::in_use(image, device, console),
        Replay::LeftOut => unreplayed(device),
    };
    device.map_err(|error| image::failure(image, error))
}

fn device(image: &Path, access: Access, hold: Hold) -> io::Result<Arc<FileDevice>> {
    // A worker that waits for the device lets another take its place.
    let clock = Workers::clock(RealClock::new());
    if hold == Hold::Ours {
        return Ok(Arc::new(FileDevice::open(clock, image, access, 0)?));
    }
    // Not exclusively: the kernel, which is to mount it, would be refused.
    let file = File::options().read(true).write(access == Access::ReadWrite).open(image)?;
    let whole = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
    let name = image.display().to_string();
    Ok(Arc::new(FileDevice::from_file(clock, file, name, whole, 0)?))
}

/// Whether it could be opened for reading.
fn is_protected(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn unopened(image: &Path, error: &io::Error) -> Error {
    let head = format!("{}: ", image.display());
    let reason = extant_archive::reason(error);
    let failure = Error::new(format!("{head}{}", reason.strip_prefix(&head).unwrap_or(&reason)));
    match error.kind() {
        io::ErrorKind::ResourceBusy => failure.hint(target::hint_busy()),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            failure.hint("-o ro mounts it read-only")
        }
        io::ErrorKind::OutOfMemory => failure.exit(Exit::System),
        _ => failure,
    }
}
