//! An image that is only looked at: `IMAGE` and `IMAGE:/path`, opened without a trace, and what is
//! said when it cannot be.
//!
//! Nothing is ever written to an image that is opened here, not even a mount count.
use crate::console::Console;
use crate::error::Error;
use crate::held;
use crate::partitions::{self, Partition};
use crate::recognise;
use crate::recovery;
use crate::size::Size;
use crate::target;
use extant_archive::{printable, reason};
use extant_block::in_use::Mount;
use extant_block::{Access as DeviceAccess, BlockDevice, FileDevice, RealClock};
use extant_edit::redo::{self, Identity};
use extant_engine::error::{Corrupt, Place as DiskPlace};
use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options, cache_for_blocks};
use extant_format::Fault;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory for what is read more than once: maps, directories, inode tables.
const CACHE_BYTES: usize = 32 << 20;

/// Options of every command that reads an image; flatten it into the command's own.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct ImageArguments {
    /// Where the volume begins in the image, for disk images with partitions: 1M, 2048s (sectors);
    /// a number without a unit counts bytes
    #[arg(long, value_name = "BYTES")]
    pub offset: Option<Size>,
}

impl ImageArguments {
    /// The byte at which the volume begins.
    pub fn offset_bytes(self) -> u64 {
        self.offset.and_then(|size| size.bytes(1)).unwrap_or(0)
    }
}

/// What a word of the command line names: an image, and perhaps a path inside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImagePath {
    /// The image on the host.
    pub image: PathBuf,
    /// The path inside, beginning with a slash.
    pub path: Option<PathBuf>,
}

impl ImagePath {
    /// Reads `IMAGE` or `IMAGE:/path`. A file of the whole name is that image; otherwise the path
    /// begins at the first ":/" with a file before it, or else at the first.
    pub fn of(word: &OsStr) -> ImagePath {
        let bytes = word.as_bytes();
        let whole = ImagePath { image: PathBuf::from(word), path: None };
        let cuts: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b":/")).collect();
        if cuts.is_empty() || Path::new(word).exists() {
            return whole;
        }
        let is_file = |at: &&usize| Path::new(OsStr::from_bytes(&bytes[..**at])).exists();
        let cut = cuts.iter().find(is_file).or(cuts.first());
        cut.map_or(whole, |at| ImagePath {
            image: PathBuf::from(OsString::from_vec(bytes[..*at].to_vec())),
            path: Some(PathBuf::from(OsString::from_vec(bytes[*at + 1..].to_vec()))),
        })
    }

    /// The path inside; the root unless given.
    pub fn path_or_root(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("/"))
    }
}

/// The image's bytes, opened for reading.
///
/// # Errors
/// A folder, an empty file, something that is neither file nor block device; the host's.
pub fn device(image: &Path, offset_bytes: u64) -> Result<Arc<dyn BlockDevice>, Error> {
    let shown = image.display();
    let metadata = std::fs::metadata(image).map_err(|error| missing(image, &error))?;
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        return Err(Error::new(format!("{shown}: is a directory, not an image"))
            .hint("extant build DIRECTORY IMAGE makes an image of it"));
    }
    if !file_type.is_file() && !file_type.is_block_device() {
        return Err(Error::new(format!("{shown}: is neither a regular file nor a block device"))
            .hint("an image is read here and there, not from front to back: keep it in a file"));
    }
    if file_type.is_file() && metadata.len() == 0 {
        return Err(
            Error::new(format!("{shown}: is empty")).hint("extant mkfs makes a file system")
        );
    }
    if file_type.is_file() && offset_bytes >= metadata.len() {
        let bytes = metadata.len();
        return Err(Error::usage(format!(
            "--offset {offset_bytes}: {shown} has only {bytes} bytes"
        )));
    }
    let device = FileDevice::open(RealClock::new(), image, DeviceAccess::ReadOnly, offset_bytes);
    let device = device.map_err(|error| {
        let head = format!("{shown}: ");
        let reason = reason(&error);
        let failure =
            Error::new(format!("{head}{}", reason.strip_prefix(&head).unwrap_or(&reason)));
        match error.kind() {
            io::ErrorKind::ResourceBusy => failure.hint(target::HINT_BUSY),
            _ => failure,
        }
    })?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    after_redo(image, device, Identity { offset: offset_bytes, image_bytes: metadata.len() })
}

/// The volume as it is once a change of it that was interrupted is ended, if there is one.
///
/// # Errors
/// What the change left belongs to another image; the host's.
pub fn after_redo(
    image: &Path,
    device: Arc<dyn BlockDevice>,
    identity: Identity,
) -> Result<Arc<dyn BlockDevice>, Error> {
    // Beside what a link points to, as where it is written.
    let resolved = image.canonicalize().ok();
    let Some(log) = resolved.as_deref().and_then(redo::path_of).filter(|log| log.exists()) else {
        return Ok(device);
    };
    Ok(redo::over(&log, &device, &identity)?.unwrap_or(device))
}

/// Warns of an image that the kernel has mounted and may write: it may change while it is read, and
/// what it holds may be older than what is seen below the mount point.
pub fn warn_if_mounted(image: &Path, console: &Console) {
    let mount = target::mount(image).filter(|mount| mount.access == DeviceAccess::ReadWrite);
    if let Some(Mount { folder, .. }) = mount {
        console.warn(&format!(
            "{}: is mounted on {}: what is read here may be old, or change meanwhile",
            image.display(),
            folder.display()
        ));
    }
}

fn missing(image: &Path, error: &io::Error) -> Error {
    let failure = Error::io(image.display(), error);
    let has_colon = image.as_os_str().as_bytes().contains(&b':');
    let place = ImagePath::of(image.as_os_str());
    match error.kind() {
        io::ErrorKind::NotFound if place.path.is_some() && place.image.exists() => {
            failure.hint(format!("this command takes the image alone: {}", place.image.display()))
        }
        io::ErrorKind::NotFound if has_colon => {
            failure.hint("paths inside begin with a slash: IMAGE:/path")
        }
        _ => failure,
    }
}

/// The file system in an image. If its journal holds changes, they are replayed in memory, which is
/// said.
///
/// # Errors
/// As [`device`], and what [`failure`] says of the volume.
pub fn open(image: &Path, offset_bytes: u64, console: &Console) -> Result<Filesystem, Error> {
    let device = device(image, offset_bytes)?;
    let failed = |error: extant_engine::Error| match error.kind {
        ErrorKind::NotExt => not_ext(image, &*device, offset_bytes),
        _ => failure(image, error),
    };
    let recovered = recovery::in_use(image, Arc::clone(&device), console).map_err(failed)?;
    let policies = "modern".parse().map_err(|error| Error::new(format!("policies: {error}")))?;
    let options = Options {
        access: Access::ReadOnly,
        policies,
        cache_bytes: cache_for_blocks(CACHE_BYTES),
        data: DataKeeping::Bytes,
    };
    let filesystem = Filesystem::open(recovered, &options).map_err(failed)?;
    warn_if_mounted(image, console);
    Ok(filesystem)
}

/// What is said of bytes that are no ext volume: what they are, where that is known, and what to do
/// with them; which of the partitions are ext, where there are some.
pub fn not_ext(image: &Path, device: &dyn BlockDevice, offset_bytes: u64) -> Error {
    let shown = image.display().to_string();
    let refused =
        |what: &str| Error::new(format!("{shown}: not an ext2, ext3 or ext4 volume{what}"));
    let head = recognise::head(device, 0);
    if let Some(kind) = recognise::kind_of(&head) {
        let refused = refused(&format!(" but {}", kind.name));
        return refused.hint(match offset_bytes {
            0 => kind.advice(&shown),
            _ => format!(
                "losetup -r -f --show -o {offset_bytes} {shown} gives it a device; then {}",
                kind.advice("DEVICE")
            ),
        });
    }
    let partitions = partitions::of(device);
    if offset_bytes == 0 && !partitions.is_empty() {
        return refused(" but a disk with partitions").hint(which_are_ext(device, &partitions));
    }
    if let Some(start) = begins_elsewhere(device, offset_bytes) {
        return refused(&format!(" at byte {offset_bytes}"))
            .hint(format!("a superblock is there with --offset {start}"));
    }
    match head.iter().all(|byte| *byte == 0) {
        true if !head.is_empty() => refused(": it begins with zeros").hint(format!(
            "if there was one, extant info --superblock 32768 --block-size 4096 {shown} \
                 looks for a copy of its superblock"
        )),
        _ => refused(""),
    }
}

/// The byte of the image at which a volume begins that was looked for at `offset_bytes`, where
/// `device` begins: the number was one of sectors, or the first partition begins there.
fn begins_elsewhere(device: &dyn BlockDevice, offset_bytes: u64) -> Option<u64> {
    const SECTOR: u64 = 512;
    let places = [offset_bytes.checked_mul(SECTOR), Some(held::FIRST_PARTITION)];
    places.into_iter().flatten().find(|start| {
        let within = start.checked_sub(offset_bytes).filter(|within| *within > 0);
        within.is_some_and(|within| recognise::is_ext(&recognise::head(device, within)))
    })
}

/// Partitions that are named in a hint, at most.
const PARTITIONS_SHOWN: usize = 16;

/// Where the ext volumes of a partitioned disk begin; or, where none is, what its partitions hold.
fn which_are_ext(device: &dyn BlockDevice, partitions: &[Partition]) -> String {
    let heads = partitions.iter().take(PARTITIONS_SHOWN);
    let heads: Vec<(&Partition, Vec<u8>)> =
        heads.map(|one| (one, recognise::head(device, one.start))).collect();
    let is_ext = heads.iter().filter(|(_, head)| recognise::is_ext(head));
    let ext: Vec<String> = is_ext
        .map(|(partition, _)| {
            format!("--offset {} is partition {}", partition.start, partition.number)
        })
        .collect();
    if !ext.is_empty() {
        return format!("its ext volumes: {}", ext.join(", "));
    }
    let others = heads.iter().map(|(partition, head)| {
        let what = recognise::kind_of(head).map_or("not known", |kind| kind.name);
        format!("{} (at byte {}) is {what}", partition.number, partition.start)
    });
    let others: Vec<String> = others.collect();
    format!("no partition of it is ext: {}", others.join(", "))
}

/// What the engine says of a volume, or of a path inside, for the user: `IMAGE:/path: reason`, and
/// what to do.
pub fn failure(image: &Path, error: extant_engine::Error) -> Error {
    let shown = image.display();
    let subject = match &error.path {
        Some(path) => {
            let path = printable(path.as_os_str().as_bytes());
            let slash = if path.starts_with('/') { "" } else { "/" };
            format!("{shown}:{slash}{path}")
        }
        None => shown.to_string(),
    };
    let failure = Error::new(format!("{subject}: {}", error.kind));
    match &error.kind {
        ErrorKind::NotFound => failure.hint(format!("extant ls -R {shown} lists what is there")),
        ErrorKind::Unsupported(_) => {
            failure.hint(format!("extant info {shown} shows the volume nevertheless"))
        }
        ErrorKind::NeedsRecovery => match target::mount(image) {
            Some(Mount { folder, .. }) => {
                Error::new(format!("{subject}: is mounted on {}: {}", folder.display(), error.kind))
                    .hint("unmount it first, or read its files there")
            }
            None => failure.hint(format!("replay it: extant replay {shown}")),
        },
        ErrorKind::Corrupt(corrupt) if is_cut_short(corrupt) => {
            Error::new(format!("{subject}: is cut short: {}", error.kind))
                .hint("copy or download it once more")
        }
        ErrorKind::Corrupt(_) => {
            failure.hint(format!("e2fsck -fn {shown} lists all that is wrong"))
        }
        ErrorKind::Device(error) => about(&subject, error),
        _ => failure,
    }
}

/// An error of the device of `subject`, which the error may name too.
fn about(subject: &str, error: &io::Error) -> Error {
    let reason = reason(error);
    let head = format!("{subject}: ");
    match reason.strip_prefix(&head) {
        Some(rest) => Error { message: format!("{head}{rest}"), ..Error::io(subject, error) },
        None => Error::io(subject, error),
    }
}

fn is_cut_short(corrupt: &Corrupt) -> bool {
    let is_beyond_device = match corrupt.fault {
        Fault::Field { field: "number of blocks", reason, .. } => {
            reason.contains("than the device holds")
        }
        _ => false,
    };
    corrupt.place == DiskPlace::Superblock && is_beyond_device
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_and_a_path_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("a:/b.img");
        std::fs::create_dir_all(image.parent().unwrap()).unwrap();
        std::fs::write(&image, "x").unwrap();
        let word = |text: &str| OsString::from(format!("{}{text}", image.display()));
        assert_eq!(ImagePath::of(&word("")), ImagePath { image: image.clone(), path: None });
        let inside = ImagePath { image: image.clone(), path: Some("/etc:/x".into()) };
        // The folder "a:" is a file too, as far as names go; but what counts is the first name that
        // is there.
        assert_eq!(
            ImagePath::of(&word(":/etc:/x")).path_or_root().file_name(),
            inside.path_or_root().file_name()
        );
        let none = ImagePath::of(OsStr::new("none.img:/etc"));
        assert_eq!(none, ImagePath { image: "none.img".into(), path: Some("/etc".into()) });
        assert_eq!(ImagePath::of(OsStr::new("none.img:etc")).path, None);
    }
}
