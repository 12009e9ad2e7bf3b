//! Who else uses a file or a block device of the host, and the claim that keeps two programs of
//! ours from the same image.
//!
//! Two openings of one image of which one writes would destroy it: each has caches of its own. So
//! a file is locked as long as it is open, shared for reading and exclusive for writing
//! (`flock(2)`: the lock belongs to the open file, so that two openings within one process exclude
//! each other too, and copies of one handle do not). The kernel takes no such lock. A file is
//! therefore not written while a loop device is attached to it, and a block device is opened
//! exclusively, which fails while it is mounted. Host file systems without locks have none.
use crate::clock::Clock;
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What may be done with a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads only.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// How long a claim waits for others to let go, in nanoseconds. A loop device is detached a moment
/// after its file system was unmounted, udev looks at a device that was just written, and a child
/// process has our files until it becomes its own program.
const PATIENCE_NS: u64 = 500_000_000;
/// Nanoseconds between two attempts.
const PAUSE_NS: u64 = 5_000_000;
/// The types of file system that a mount by a server of ours has.
const SERVER_KINDS: [&str; 2] = ["fuse.extant", "fuseblk.extant"];

/// What the kernel does with a file or block device. Shown as the end of a sentence: `is attached
/// to loop3, which is mounted on /mnt`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelUse {
    /// The loop device whose backing file it is, such as `loop3`; `None` for a block device.
    pub loop_device: Option<String>,
    /// The file system on it or on its loop device, if it is mounted.
    pub mount: Option<Mount>,
}

impl fmt::Display for KernelUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.mount.as_ref().map(|mount| mount.folder.display());
        match (&self.loop_device, folder) {
            (Some(device), Some(folder)) => {
                write!(f, "is attached to {device}, which is mounted on {folder}")
            }
            (Some(device), None) => write!(f, "is attached to {device}"),
            (None, Some(folder)) => write!(f, "is mounted on {folder}"),
            (None, None) => write!(f, "is in use"),
        }
    }
}

/// What the kernel does with the file or block device of which these are the facts; `None` if
/// nothing, and where that cannot be found out (no `/sys`, no `/proc`).
pub fn kernel_use(metadata: &Metadata) -> Option<KernelUse> {
    if metadata.file_type().is_block_device() {
        let mount = mount_of(metadata.rdev())?;
        return Some(KernelUse { loop_device: None, mount: Some(mount) });
    }
    let (name, number) = loop_over(metadata)?;
    Some(KernelUse { loop_device: Some(name), mount: mount_of(number) })
}

/// Opens an existing file, or a block device: for writing exclusively, so that the kernel refuses
/// it while it is mounted or part of something else.
///
/// # Errors
/// Those of the host; `ResourceBusy` for a block device in use.
pub fn open(path: &Path, access: Access) -> io::Result<File> {
    let writes = access == Access::ReadWrite;
    let mut options = OpenOptions::new();
    options.read(true).write(writes);
    let metadata = std::fs::metadata(path)?;
    if !(writes && metadata.file_type().is_block_device()) {
        return options.open(path);
    }
    let opened = options.custom_flags(OFlags::EXCL.bits().cast_signed()).open(path);
    opened.map_err(|error| match (error.kind(), kernel_use(&metadata)) {
        (io::ErrorKind::ResourceBusy, Some(used)) => busy(used.to_string()),
        (io::ErrorKind::ResourceBusy, None) => busy("is in use".to_owned()),
        _ => error,
    })
}

/// Claims an open file for as long as it, or a copy of its handle, is open. Waits up to half a
/// second by `clock` for others to let go, but not for a file system that is mounted.
///
/// # Errors
/// `ResourceBusy`, with what uses it as the end of a sentence; those of the host.
pub fn claim(clock: &dyn Clock, file: &File, access: Access) -> io::Result<()> {
    let deadline = clock.now().saturating_add(PATIENCE_NS);
    loop {
        let obstacle = match obstacle(file, access)? {
            None => return Ok(()),
            Some(obstacle) => obstacle,
        };
        let now = clock.now();
        if now >= deadline || obstacle.is_lasting {
            return Err(busy(obstacle.words));
        }
        clock.park(Some(now.saturating_add(PAUSE_NS)));
    }
}

/// Why a file cannot be claimed now.
struct Obstacle {
    words: String,
    /// Waiting is of no use.
    is_lasting: bool,
}

/// Tries to claim it once.
fn obstacle(file: &File, access: Access) -> io::Result<Option<Obstacle>> {
    let metadata = file.metadata()?;
    if access == Access::ReadWrite
        && metadata.is_file()
        && let Some(used) = kernel_use(&metadata)
    {
        let is_lasting = used.mount.is_some();
        return Ok(Some(Obstacle { words: used.to_string(), is_lasting }));
    }
    let (locked, words) = match access {
        Access::ReadOnly => (file.try_lock_shared(), "is open for writing elsewhere"),
        Access::ReadWrite => (file.try_lock(), "is open elsewhere"),
    };
    match locked {
        Err(TryLockError::WouldBlock) => Ok(Some(match server_mount(&metadata) {
            Some(mount) => {
                let words = format!("is mounted on {}", mount.folder.display());
                // The server may have been killed, and be letting go just now.
                Obstacle { words, is_lasting: false }
            }
            None => Obstacle { words: words.to_owned(), is_lasting: false },
        })),
        // The file's host has no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn busy(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, words)
}

/// The loop device whose backing file this is, and its number.
fn loop_over(file: &Metadata) -> Option<(String, u64)> {
    for device in std::fs::read_dir("/sys/block").ok()?.flatten() {
        let Ok(mut backing) = std::fs::read(device.path().join("loop/backing_file")) else {
            continue;
        };
        if backing.last() == Some(&b'\n') {
            backing.pop();
        }
        let Ok(metadata) = std::fs::metadata(Path::new(OsStr::from_bytes(&backing))) else {
            continue;
        };
        if (metadata.dev(), metadata.ino()) == (file.dev(), file.ino()) {
            let name = device.file_name().to_string_lossy().into_owned();
            let number = std::fs::read_to_string(device.path().join("dev")).ok()?;
            return Some((name, device_number(number.trim())?));
        }
    }
    None
}

fn device_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The first mount of the block device of this number.
fn mount_of(number: u64) -> Option<Mount> {
    mounts().into_iter().find(|mount| mount.device == number)
}

/// The mount whose server has this file open, by the name that the table of mounts shows.
fn server_mount(file: &Metadata) -> Option<Mount> {
    let is_same = |mount: &Mount| {
        if !mount.source.is_absolute() {
            return false;
        }
        let found = std::fs::metadata(&mount.source);
        found.is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
    };
    mounts().into_iter().find(|mount| SERVER_KINDS.contains(&mount.kind.as_str()) && is_same(mount))
}

/// A file system that is mounted on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// The number of its device.
    pub device: u64,
    /// Where it is mounted.
    pub folder: PathBuf,
    /// Whether the kernel may write to the device, at this mount or another of it.
    pub access: Access,
    /// The type of the file system: `ext4`, `fuse.extant`.
    pub kind: String,
    /// What is mounted, as the type names it: `/dev/sda1`, an image, `none`.
    pub source: PathBuf,
    /// The options of the file system, with commas between.
    pub options: String,
}

/// All file systems mounted, as this process sees them; none where there is no `/proc`.
///
/// Of `/proc/self/mountinfo`: field 3 is the device's number, field 5 the mount point with octal
/// escapes. The last three are the type, the source with octal escapes, and the options of the file
/// system, which begin with `ro` or `rw`.
pub fn mounts() -> Vec<Mount> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = device_number(std::str::from_utf8(fields.nth(2)?).ok()?)?;
    let path = |field: &[u8]| PathBuf::from(OsStr::from_bytes(&unescape(field)));
    let folder = path(fields.nth(1)?);
    let options = String::from_utf8_lossy(fields.next_back()?).into_owned();
    let source = path(fields.next_back()?);
    let kind = String::from_utf8_lossy(fields.next_back()?).into_owned();
    let access = match options.split(',').next() {
        Some("ro") => Access::ReadOnly,
        _ => Access::ReadWrite,
    };
    Some(Mount { device, folder, access, kind, source, options })
}

fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        assert_eq!(unescape(b"/a\\040b\\134"), b"/a b\\");
    }

    #[test]
    fn a_line_of_the_table_is_read() {
        let line =
            b"36 35 0:52 / /mnt\\040a rw,nodev shared:7 - fuse.extant /x\\040y.img ro,user_id=0";
        let read = mount(line).unwrap();
        assert_eq!((read.folder, read.source), ("/mnt a".into(), "/x y.img".into()));
        assert_eq!((read.kind.as_str(), read.access), ("fuse.extant", Access::ReadOnly));
        assert_eq!(read.options, "ro,user_id=0");
        assert_eq!(mount(b"36 35 0:52 /"), None);
    }

    #[test]
    fn the_root_is_among_the_mounts() {
        assert!(mounts().iter().any(|mount| mount.folder == Path::new("/")));
    }
}
