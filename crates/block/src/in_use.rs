//! Who else uses a file or a block device of the host, and the claim that keeps two programs of
//! ours from the same image.
//!
//! Two openings of one image of which one writes would destroy it: each has caches of its own. So
//! a file is locked as long as it is open, shared for reading and exclusive for writing
//! (`flock(2)`: the lock belongs to the open file, so that two openings within one process exclude
//! each other too, and copies of one handle do not). The kernel takes no such lock. A file is
//! therefore not written while a loop device is attached to it, and a block device is opened
//! exclusively, which fails while it is mounted. Nor is a file written while a virtual machine has
//! it open, which the locks of QEMU say. Host file systems without locks have none.
//!
//! One image may have several names. Links and mounts of folders lead to the same inode, which is
//! what is locked. A block device shares its bytes with others, and with the file that it is on
//! (`stack`): they are locked with it, shared where it has some of their bytes, so that two
//! partitions of one disk can be written at a time; and what is on it must not be in use.
//!
//! *Locking*: one short lock around the list of what is held, under which nothing is opened.
use crate::clock::{Clock, RealClock};
use crate::lock::ShortLock;
use crate::stack::{Devices, Neighbour, Relation, device_number};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What may be done with a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads only.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// How long a claim waits for others to let go, in nanoseconds, unless a time was asked for. A loop
/// device is detached a moment after its file system was unmounted, udev looks at a device that was
/// just written, and a child process has our files until it becomes its own program.
const PATIENCE_NS: u64 = 500_000_000;
/// Whether a time was asked for: then what may last is waited for too, such as a mount.
static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// What is left of that time, in nanoseconds, for all claims of this process together.
static LEFT_NS: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds between two attempts.
const PAUSE_NS: u64 = 5_000_000;
/// The types of file system that a mount by a server of ours has.
const SERVER_KINDS: [&str; 2] = ["fuse.extant", "fuseblk.extant"];

/// From now on this process waits for others that use a file, for this long at most in all, and
/// also for what may last: a file system that is mounted, or a loop device.
pub fn wait_for_others(limit: Duration) {
    let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    LEFT_NS.store(limit, Ordering::Relaxed);
    IS_ASKED.store(true, Ordering::Relaxed);
}

/// Whether this process was asked to wait.
pub fn is_waiting_asked() -> bool {
    IS_ASKED.load(Ordering::Relaxed)
}

/// A wait for others that use a file.
pub struct LockWait<'a> {
    clock: &'a dyn Clock,
    deadline: u64,
}

/// How long what is in the way may stay there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// A moment.
    Short,
    /// As long as a mount, or a program.
    Long,
}

impl<'a> LockWait<'a> {
    /// Begins a wait, by this clock.
    pub fn begin(clock: &'a dyn Clock) -> LockWait<'a> {
        let deadline = clock.now().saturating_add(PATIENCE_NS);
        LockWait { clock, deadline }
    }

    /// Lets a moment pass. Whether it is worth trying again: not when the time is over, nor for
    /// what may last, unless it was asked for.
    pub fn rest(&self, obstacle: Lasting) -> bool {
        let now = self.clock.now();
        if IS_ASKED.load(Ordering::Relaxed) {
            return self.rest_as_asked(now);
        }
        if now >= self.deadline || obstacle == Lasting::Long {
            return false;
        }
        self.clock.park(Some(now.saturating_add(PAUSE_NS)));
        true
    }

    /// As [`LockWait::rest`], within the time that is left for all claims.
    fn rest_as_asked(&self, now: u64) -> bool {
        let left = LEFT_NS.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        self.clock.park(Some(now.saturating_add(PAUSE_NS.min(left))));
        let waited = self.clock.now().saturating_sub(now);
        let take = |left: u64| Some(left.saturating_sub(waited));
        let _ = LEFT_NS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        true
    }
}

/// What the kernel does with a file or block device. Shown as the end of a sentence: `is attached
/// to loop3, which is mounted on /mnt`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelUse {
    /// The loop device over it, such as `loop3`.
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
    let mount = match metadata.file_type().is_block_device() {
        true => mount_of(metadata.rdev()),
        false => None,
    };
    if mount.is_some() {
        return Some(KernelUse { loop_device: None, mount });
    }
    let loops = Devices::of_host().loops_over(metadata).into_iter();
    let used = loops
        .map(|found| KernelUse { loop_device: Some(found.name), mount: mount_of(found.number) });
    // The first that is mounted, else the first.
    used.reduce(|first, next| match (&first.mount, &next.mount) {
        (None, Some(_)) => next,
        _ => first,
    })
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
    options.custom_flags(OFlags::EXCL.bits().cast_signed());
    let clock = RealClock::new();
    let patience = LockWait::begin(&*clock);
    let mut opened = options.open(path);
    let is_busy = |opened: &io::Result<File>| {
        opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    };
    while is_busy(&opened) && patience.rest(Lasting::Long) {
        opened = options.open(path);
    }
    opened.map_err(|error| match (error.kind(), kernel_use(&metadata)) {
        (io::ErrorKind::ResourceBusy, Some(used)) => busy(used.to_string()),
        (io::ErrorKind::ResourceBusy, None) => busy("is in use".to_owned()),
        _ => error,
    })
}

/// Keeps a file from others, together with the handle of the file: neither may be dropped before
/// the other.
#[derive(Clone, Debug)]
#[must_use]
pub struct Claim {
    /// Of a file without neighbours there is nothing more to hold.
    _neighbours: Option<Arc<Vec<File>>>,
}

/// The locks of the neighbours of the block devices that this process has claimed, by number. Who
/// has the lock of a device by a copy of one handle, or shared, has those too.
static HELD: ShortLock<BTreeMap<u64, Weak<Vec<File>>>> = ShortLock::new(BTreeMap::new());

/// Claims an open file for as long as it, or a copy of its handle, is open, and the claim is kept.
/// Waits up to half a second by `clock` for others to let go, but not for a file system that is
/// mounted; or as [`wait_for_others`] has it.
///
/// # Errors
/// `ResourceBusy`, with what uses it as the end of a sentence; those of the host.
pub fn claim(clock: &dyn Clock, file: &File, access: Access) -> io::Result<Claim> {
    let patience = LockWait::begin(clock);
    loop {
        let obstacle = match attempt(file, access)? {
            Ok(claim) => return Ok(claim),
            Err(obstacle) => obstacle,
        };
        if !patience.rest(obstacle.lasting) {
            return Err(busy(obstacle.words));
        }
    }
}

/// Why a file cannot be claimed now.
struct Obstacle {
    words: String,
    /// Waiting is of no use.
    lasting: Lasting,
}

/// Tries to claim it once, with its neighbours.
fn attempt(file: &File, access: Access) -> io::Result<Result<Claim, Obstacle>> {
    let metadata = file.metadata()?;
    if access == Access::ReadWrite
        && let Some(used) = kernel_use(&metadata)
        && (metadata.is_file() || used.loop_device.is_some())
    {
        let lasting = if used.mount.is_some() { Lasting::Long } else { Lasting::Short };
        return Ok(Err(Obstacle { words: used.to_string(), lasting }));
    }
    let passing = |words: String| Ok(Err(Obstacle { words, lasting: Lasting::Short }));
    let lock = match access {
        Access::ReadOnly => Lock::Shared,
        Access::ReadWrite => Lock::Exclusive,
    };
    if let Err(words) = lock.take(file, &metadata) {
        let by_kernel = if metadata.is_file() { kernel_use(&metadata) } else { None };
        // A server that has it may have been killed, and be letting go just now.
        return passing(by_kernel.map_or(words, |used| used.to_string()));
    }
    if access == Access::ReadWrite && has_machine(file) {
        let _ = file.unlock();
        return passing("is open in a virtual machine".to_owned());
    }
    let number = match metadata.file_type().is_block_device() {
        true => metadata.rdev(),
        // That nothing is over it is known already.
        false if access == Access::ReadWrite => return Ok(Ok(Claim::new(Vec::new()))),
        false => return Ok(locked_neighbours(&metadata, access).map(Claim::new)),
    };
    let held = HELD.lock().get(&number).and_then(Weak::upgrade);
    if let Some(held) = held {
        return Ok(Ok(Claim { _neighbours: Some(held) }));
    }
    let neighbours = match locked_neighbours(&metadata, access) {
        Ok(neighbours) => Arc::new(neighbours),
        Err(obstacle) => {
            // Two that wait for each other's locks would both wait in vain.
            file.unlock()?;
            return Ok(Err(obstacle));
        }
    };
    let mut all = HELD.lock();
    all.retain(|_, held| held.strong_count() > 0);
    all.insert(number, Arc::downgrade(&neighbours));
    Ok(Ok(Claim { _neighbours: Some(neighbours) }))
}

/// The bytes of an image that QEMU locks, shared, where a machine of it writes the image, or lets
/// nobody else write: the permissions that it uses (from 100 on) and those that it does not share
/// (from 200 on), of which the second is to write and the fourth to resize.
const MACHINE_BYTES: [i64; 4] = [101, 103, 201, 203];

/// Whether others have locked bytes of an image as virtual machines do. Asks for each byte: the
/// host's table of all locks takes the kernel some 10 ms to give, loses lines, and knows no locks
/// of other hosts.
fn has_machine(file: &File) -> bool {
    MACHINE_BYTES.iter().any(|byte| is_locked(file, *byte))
}

/// Whether another handle has a lock (`fcntl(2)`) of a byte, but for a process that has it alone:
/// it is no machine, and leaves no room for one. None has where the host has no locks.
fn is_locked(file: &File, byte: i64) -> bool {
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    let is_asked = fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)).is_ok();
    let kind = i32::from(lock.l_type);
    let is_alone = kind == libc::F_WRLCK && lock.l_pid > 0;
    is_asked && kind != libc::F_UNLCK && !is_alone
}

impl Claim {
    fn new(neighbours: Vec<File>) -> Claim {
        Claim { _neighbours: (!neighbours.is_empty()).then(|| Arc::new(neighbours)) }
    }
}

/// How a file is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lock {
    Shared,
    Exclusive,
    /// Nobody has it now, and nobody will write it.
    SharedAlone,
}

impl Lock {
    /// Takes it. If another has the file, returns the end of a sentence that says so.
    fn take(self, file: &File, metadata: &Metadata) -> Result<(), String> {
        let locked = match self {
            Lock::Shared => file.try_lock_shared(),
            Lock::Exclusive | Lock::SharedAlone => file.try_lock(),
        };
        let locked = match (self, locked) {
            (Lock::SharedAlone, Ok(())) => file.try_lock_shared(),
            (_, locked) => locked,
        };
        match locked {
            // A host without locks has none to give.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(match (server_mount(metadata), self) {
                (Some(mount), _) => format!("is mounted on {}", mount.folder.display()),
                (None, Lock::Shared) => "is open for writing elsewhere".to_owned(),
                (None, Lock::Exclusive | Lock::SharedAlone) => "is open elsewhere".to_owned(),
            }),
        }
    }
}

/// The locks of all that holds some of the same bytes.
fn locked_neighbours(metadata: &Metadata, access: Access) -> Result<Vec<File>, Obstacle> {
    let neighbours = Devices::of_host().neighbours(metadata);
    neighbours.iter().filter_map(|found| locked(found, access).transpose()).collect()
}

fn locked(neighbour: &Neighbour, access: Access) -> Result<Option<File>, Obstacle> {
    let failed =
        |words: &str, lasting| Obstacle { words: format!("{} {words}", neighbour.words), lasting };
    if access == Access::ReadWrite
        && neighbour.relation == Relation::Sharing
        && let Some(mount) = neighbour.number.and_then(mount_of)
    {
        return Err(failed(&format!("is mounted on {}", mount.folder.display()), Lasting::Long));
    }
    let lock = match (access, neighbour.relation) {
        (Access::ReadOnly, _) | (Access::ReadWrite, Relation::OnPart) => Lock::Shared,
        (Access::ReadWrite, Relation::OnWhole) => Lock::Exclusive,
        (Access::ReadWrite, Relation::Sharing) => Lock::SharedAlone,
    };
    let Some(file) = neighbour.open() else { return Ok(None) };
    let Ok(metadata) = file.metadata() else { return Ok(None) };
    lock.take(&file, &metadata).map_err(|words| failed(&words, Lasting::Short))?;
    Ok(Some(file))
}

fn busy(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, words)
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
    use extant_testkit::scratch::Scratch;

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

    /// A lock of a range of bytes; of no length, to the end of the file.
    fn lock(kind: i32, start: i64, length: i64) -> libc::flock {
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: start,
            l_len: length,
            l_pid: 0,
        }
    }

    /// As QEMU locks: by open files. A lock of the same handle is its own, and no other's.
    #[test]
    fn a_machine_that_writes_is_told_from_one_that_reads() {
        let folder = Scratch::new("machine");
        let path = folder.join("image");
        std::fs::write(&path, b"bytes").unwrap();
        let found = [(100, 2), (100, 1), (201, 1), (203, 1), (202, 1)].map(|(start, length)| {
            let [ours, theirs] = [(); 2].map(|()| open(&path, Access::ReadWrite).unwrap());
            fcntl(&theirs, FcntlArg::F_OFD_SETLK(&lock(libc::F_RDLCK, start, length))).unwrap();
            assert!(!has_machine(&theirs));
            has_machine(&ours)
        });
        assert_eq!(found, [true, false, true, true, false]);
        // Who keeps programs of his own apart by `lockf` locks nobody of ours out.
        let [ours, theirs] = [(); 2].map(|()| open(&path, Access::ReadWrite).unwrap());
        fcntl(&theirs, FcntlArg::F_SETLK(&lock(libc::F_WRLCK, 0, 0))).unwrap();
        assert!(!has_machine(&ours));
        fcntl(&theirs, FcntlArg::F_SETLK(&lock(libc::F_RDLCK, 0, 0))).unwrap();
        assert!(has_machine(&ours), "one of a machine may be beside it");
    }
}
