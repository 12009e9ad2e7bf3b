//! The disk that a word names, opened for reading: a plain file, a compressed one that is unpacked
//! first, qcow2, Android sparse; and the part of it that is the volume.
use crate::console::Console;
use crate::error::{Error, is_full};
use crate::place::{self, Part, VolumeName};
use crate::progress::{ProgressLine, Unit};
use crate::target;
use crate::written;
use extant_archive::reason;
use extant_block::{
    Access as DeviceAccess, BlockDevice, Clock, FileDevice, RealClock, Window, raw_os_error,
};
use extant_disk::read::{Form, LOOK_BYTES, Progress, form_of};
use extant_disk::{partitions, verity};
use extant_format::superblock::Superblock;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A volume that was found.
pub struct Found {
    /// Its bytes, read only.
    pub device: Arc<dyn BlockDevice>,
    /// The file of the host.
    pub file: PathBuf,
    /// Where it is on the disk, in bytes; `None` for all of the disk.
    pub range: Option<Range<u64>>,
    /// The container of the disk; `None` for a plain file or a block device.
    pub form: Option<Form>,
}

/// Where a volume is that is to be written: a stretch of a plain file or block device.
#[derive(Clone)]
pub struct Place {
    /// The file of the host.
    pub file: PathBuf,
    /// Its bytes in the file; `None` for all of it.
    pub range: Option<Range<u64>>,
}

impl Found {
    /// Where it is.
    pub fn place(&self) -> Place {
        Place { file: self.file.clone(), range: self.range.clone() }
    }
}

impl Place {
    /// The byte of the file at which the volume begins.
    pub fn start(&self) -> u64 {
        self.range.as_ref().map_or(0, |range| range.start)
    }
    /// The volume on a device that is the whole file, under the name that the user gave it: nothing
    /// outside of it is written.
    pub fn on(&self, disk: Arc<dyn BlockDevice>, image: &Path) -> Arc<dyn BlockDevice> {
        within(disk, self.range.as_ref(), image)
    }
}

/// Opens the volume for reading. A compressed image is unpacked first, which `console` shows.
///
/// # Errors
/// A folder, an empty file, something that is neither file nor block device; no such partition;
/// what is wrong with a container; the host's.
pub fn open(image: &Path, offset_bytes: u64, console: Option<&Console>) -> Result<Found, Error> {
    on_disk(image, offset_bytes, console).map(|(found, _)| found)
}

/// As [`open`], with all bytes of the disk: what holds them has the disk open.
///
/// # Errors
/// As [`open`].
pub fn on_disk(
    image: &Path,
    offset_bytes: u64,
    console: Option<&Console>,
) -> Result<(Found, Arc<dyn BlockDevice>), Error> {
    let (name, opened) = looked_at(image, offset_bytes)?;
    let form = form(&opened);
    let disk = match form {
        None => Arc::new(opened),
        Some(form) => contained(&name.file, opened, form, console)?,
    };
    let range = place::find(&name, &*disk, offset_bytes)?;
    let device = within(Arc::clone(&disk), range.as_ref(), image);
    Ok((Found { device, file: name.file, range, form }, disk))
}

/// All bytes of the disk that a word names, whatever is on it, for reading; with where the volume
/// is that the word names, if it names one.
///
/// # Errors
/// As [`open`].
pub fn whole(
    image: &Path,
    offset_bytes: u64,
    console: Option<&Console>,
) -> Result<(Place, Arc<dyn BlockDevice>), Error> {
    let (name, opened) = looked_at(image, offset_bytes)?;
    let disk: Arc<dyn BlockDevice> = match form(&opened) {
        None => Arc::new(opened),
        Some(form) => contained(&name.file, opened, form, console)?,
    };
    let range = match name.part != Part::Unsaid || offset_bytes > 0 {
        true => place::find(&name, &*disk, offset_bytes)?,
        false => None,
    };
    Ok((Place { file: name.file, range }, disk))
}

/// Where the volume is, for a command that writes it. Nothing is kept open.
///
/// # Errors
/// As [`open`]; a container, which is only read.
pub fn writable(image: &Path, offset_bytes: u64) -> Result<Place, Error> {
    let (name, opened) = looked_at(image, offset_bytes)?;
    if let Some(form) = form(&opened) {
        let shown = name.file.display().to_string();
        return Err(Error::new(format!("{shown}: is {}, which is only read here", form.name()))
            .hint(format!("make a plain image of it: {}", form.conversion(&shown))));
    }
    let range = place::find(&name, &opened, offset_bytes)?;
    Ok(Place { file: name.file, range })
}

/// As [`writable`], for a command that also writes a qcow2 image where it is.
///
/// # Errors
/// As [`writable`]; what is wrong with a qcow2 image.
pub fn changeable(image: &Path, offset_bytes: u64) -> Result<Place, Error> {
    let (name, opened) = looked_at(image, offset_bytes)?;
    if form(&opened) != Some(Form::Qcow2) {
        drop(opened);
        return writable(image, offset_bytes);
    }
    let disk = contained(&name.file, opened, Form::Qcow2, None)?;
    let range = place::find(&name, &*disk, offset_bytes)?;
    Ok(Place { file: name.file, range })
}

/// The file that a word names, open for reading.
fn looked_at(image: &Path, offset_bytes: u64) -> Result<(VolumeName, FileDevice), Error> {
    let name = VolumeName::of(image);
    check(&name.file, image, offset_bytes)?;
    let opened = FileDevice::open(RealClock::new(), &name.file, DeviceAccess::ReadOnly, 0);
    let opened = opened.map_err(|error| unopened(&name.file, &error))?;
    Ok((name, opened))
}

/// Whether a hash tree of dm-verity follows a volume of `volume_bytes`, or is in another partition
/// of its disk: what changes the volume makes the tree useless.
pub fn has_hash_tree(place: &Place, disk: &dyn BlockDevice, volume_bytes: u64) -> bool {
    let after = place.start().saturating_add(volume_bytes);
    let after = after.checked_next_multiple_of(verity::BLOCK_BYTES);
    let table = partitions(disk);
    let others = table.iter().flat_map(|table| table.partitions.iter().map(|one| one.range.start));
    after.into_iter().chain(others.filter(|start| *start != place.start())).any(|at| {
        let mut head = [0; 8];
        disk.read(at, &mut head).is_ok() && verity::begins_tree(&head)
    })
}

/// Warns of a volume that is protected by dm-verity: a change makes its hash tree useless.
pub fn warn_of_hash_tree(
    image: &Path,
    (place, disk): (&Place, &dyn BlockDevice),
    superblock: &Superblock,
    console: &Console,
) {
    let volume_bytes = superblock.blocks_count.saturating_mul(superblock.block_size().into());
    if has_hash_tree(place, disk, volume_bytes) {
        console.warn(&format!(
            "{}: has a hash tree of dm-verity, which a change makes useless: build it anew, or \
             make another tree (veritysetup format)",
            image.display()
        ));
    }
}

/// Refuses a word with a part, for commands that write or take a whole file: `command` is their
/// name. A new file may have an `@` in its name.
///
/// # Errors
/// The word names a part of a disk that is there.
pub fn refuse_part(word: &Path, command: &str) -> Result<(), Error> {
    let name = VolumeName::of(word);
    let is_disk = || {
        let disk = FileDevice::open(RealClock::new(), &name.file, DeviceAccess::ReadOnly, 0);
        disk.is_ok_and(|disk| partitions(&disk).is_some())
    };
    match name.part {
        Part::Unsaid => Ok(()),
        Part::Partition(_) if !is_disk() => Ok(()),
        Part::Partition(_) | Part::Byte(_) => Err(Error::usage(format!(
            "{}: {command} takes a whole file or device, not a part of one",
            word.display()
        ))
        .hint(format!(
            "losetup -P -f --show {} gives each partition a device",
            name.file.display()
        ))),
    }
}

fn within(
    disk: Arc<dyn BlockDevice>,
    range: Option<&Range<u64>>,
    image: &Path,
) -> Arc<dyn BlockDevice> {
    match range {
        None => disk,
        Some(range) => Arc::new(Window::new(disk, range.clone(), image.display().to_string())),
    }
}

fn form(disk: &FileDevice) -> Option<Form> {
    let mut head = [0; LOOK_BYTES];
    disk.read(0, &mut head).ok()?;
    form_of(&head)
}

/// What can be said of a file before it is opened: opening a fifo waits for its other end.
fn check(file: &Path, word: &Path, offset_bytes: u64) -> Result<(), Error> {
    let shown = file.display();
    let metadata = std::fs::metadata(file).map_err(|error| place::missing(word, &error))?;
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        return Err(Error::new(format!("{shown}: is a directory, not an image"))
            .hint("extant build DIRECTORY IMAGE makes an image of it"));
    }
    if !file_type.is_file() && !file_type.is_block_device() {
        return Err(Error::new(format!("{shown}: is neither a regular file nor a block device"))
            .hint("an image is read here and there, not from front to back: keep it in a file"));
    }
    let bytes = metadata.len();
    if file_type.is_file() && bytes == 0 {
        return Err(
            Error::new(format!("{shown}: is empty")).hint("extant mkfs makes a file system")
        );
    }
    // A compressed file may hold more than it is long.
    let is_plain = || {
        let mut head = [0; LOOK_BYTES];
        let read = File::open(file).and_then(|file| io::Read::read(&mut &file, &mut head));
        read.map_or(true, |_| form_of(&head).is_none())
    };
    if file_type.is_file() && offset_bytes >= bytes && is_plain() {
        return Err(Error::usage(format!(
            "--offset {offset_bytes}: {shown} has only {bytes} bytes"
        )));
    }
    Ok(())
}

/// What is said of an image that cannot be opened.
pub fn unopened(file: &Path, error: &io::Error) -> Error {
    let head = format!("{}: ", file.display());
    let reason = reason(error);
    let failure = Error::new(format!("{head}{}", reason.strip_prefix(&head).unwrap_or(&reason)));
    match error.kind() {
        io::ErrorKind::ResourceBusy => failure.hint(target::hint_busy()),
        _ => failure,
    }
}

/// The line that moves while a file is unpacked.
struct Shown(Option<ProgressLine>);

impl Progress for Shown {
    fn advance(&self, bytes: u64) {
        if let Some(line) = &self.0 {
            extant_image::Progress::advance(line, bytes);
        }
    }
}

/// The disk in a container. A compressed file may hold another container, but not another
/// compressed file.
fn contained(
    path: &Path,
    opened: FileDevice,
    form: Form,
    console: Option<&Console>,
) -> Result<Arc<dyn BlockDevice>, Error> {
    let shown = path.display().to_string();
    let clock: Arc<dyn Clock> = RealClock::new();
    // The lock of the file belongs to the copy, too.
    let file = opened.file().try_clone().map_err(|error| Error::io(&shown, &error))?;
    drop(opened);
    let file = match form {
        Form::Compressed(_) => {
            let line = console.map(|console| console.progress("unpack", Unit::Bytes, 0));
            let folder = spool_folder(path);
            let spooled = extant_disk::read::unpack(file, &folder, &Shown(line));
            spooled.map_err(|error| failure(&shown, &folder, error))?
        }
        _ => return disk_in(clock, file, form, (&shown, Some(path))),
    };
    let mut head = [0; LOOK_BYTES];
    let read = io::Read::read(&mut &file.file, &mut head);
    read.map_err(|error| Error::io(&shown, &error))?;
    match form_of(&head) {
        Some(Form::Compressed(_)) => {
            Err(Error::new(format!("{shown}: is compressed twice")).hint("unpack it first"))
        }
        Some(form) => disk_in(clock, file.file, form, (&shown, None)),
        None => {
            let disk = FileDevice::from_file(clock, file.file, shown.clone(), file.bytes, 0);
            Ok(Arc::new(disk.map_err(|error| Error::io(&shown, &error))?))
        }
    }
}

fn disk_in(
    clock: Arc<dyn Clock>,
    file: File,
    form: Form,
    (shown, path): (&str, Option<&Path>),
) -> Result<Arc<dyn BlockDevice>, Error> {
    let opened = extant_disk::read::open(clock, file, form, (shown.to_owned(), path));
    opened.map_err(|error| written::unread(form, shown, &error))
}

/// Where an unpacked image is kept: `TMPDIR`, or beside the image, or the system's folder.
fn spool_folder(path: &Path) -> PathBuf {
    let beside = || {
        let folder = place::folder_of(path);
        tempfile::tempfile_in(folder).is_ok().then(|| folder.to_owned())
    };
    let said = std::env::var_os("TMPDIR").map(PathBuf::from);
    said.or_else(beside).unwrap_or_else(std::env::temp_dir)
}

fn failure(shown: &str, folder: &Path, error: extant_disk::read::Error) -> Error {
    match error {
        extant_disk::read::Error::Spool(error) => {
            let what = match is_full(error.kind()) || raw_os_error(&error) == Some(27) {
                true => "has no room for the unpacked image".to_owned(),
                false => reason(&error),
            };
            Error::new(format!("{shown}: {}: {what}", folder.display()))
                .hint("TMPDIR=FOLDER keeps the unpacked image elsewhere")
        }
        error => Error::new(format!("{shown}: {error}")).hint("copy or download it once more"),
    }
}
