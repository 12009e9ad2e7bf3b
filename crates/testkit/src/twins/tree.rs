//! One of the two trees: a folder on a volume, the files held open in it, and what its file system
//! answers.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    self, Access, AtFlags, CWD, Dir, FileType, IFlags, Mode, OFlags, SeekFrom, Stat, Timespec,
    Timestamps,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::caller::acting_as;
use super::mapped::{Mapper, Use};
use super::operation::{Call, Links, Operation, Place, SLOTS, SetTime, Synced};
use crate::numbers::Numbers;

/// Direct reads and writes are whole pages at whole pages: less is refused by some file systems.
const PAGE: usize = 4096;
/// The largest file whose holes are looked into.
const RANGES_MAX: u64 = 1 << 20;
/// `UTIME_NOW` and `UTIME_OMIT`.
const TIME_NOW: i64 = 0x3fff_ffff;
const TIME_OMIT: i64 = 0x3fff_fffe;
/// What chattr changes; the others say how a file is stored.
const WISHES: IFlags = IFlags::IMMUTABLE
    .union(IFlags::APPEND)
    .union(IFlags::NODUMP)
    .union(IFlags::NOATIME)
    .union(IFlags::SYNC)
    .union(IFlags::DIRSYNC);

/// What a call returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The error's name, or the result in words.
    pub text: String,
    /// The bytes that it handed out.
    pub bytes: Vec<u8>,
}

/// A descriptor.
struct Open {
    file: OwnedFd,
    is_direct: bool,
    /// Whether it is no file and no folder: FUSE opens a pipe without its server, which then frees
    /// it with its last name.
    is_special: bool,
}

/// A tree.
pub struct Tree {
    root: PathBuf,
    slots: [Option<Open>; SLOTS],
    mapper: Mapper,
    /// Seconds since 1970: times from then on were set by the life, and differ between trees.
    begun: i64,
}

/// What a call returns before it is put into words.
type Returned = Result<String, Errno>;

impl Tree {
    /// The folder `root`, which must be there.
    ///
    /// # Errors
    /// Python is not here, or the folder is not.
    pub fn at(root: &Path) -> Result<Tree, String> {
        let stat = fs::stat(root).map_err(|error| format!("{}: {error}", root.display()))?;
        let mapper = Mapper::start()?;
        let slots = Default::default();
        Ok(Tree { root: root.to_owned(), slots, mapper, begun: stat.st_mtime })
    }

    /// Makes the call, as its user.
    ///
    /// # Errors
    /// The harness itself fails: an identity, or the program that maps files.
    pub fn perform(&mut self, operation: &Operation) -> Result<Answer, String> {
        let mut bytes = Vec::new();
        if let Call::MapRead { path, offset, length } = &operation.call {
            return self.map(path, Use::Read, *offset, *length);
        }
        if let Call::MapWrite { path, offset, length, byte } = &operation.call {
            return self.map(path, Use::Fill(*byte), *offset, *length);
        }
        let returned = acting_as(operation.user, || self.call(&operation.call, &mut bytes))
            .map_err(|error| format!("acting as user {}: {error}", operation.user))?;
        let text = returned.unwrap_or_else(|error| format!("error {}", error.raw_os_error()));
        Ok(Answer { text, bytes })
    }

    /// Takes from everything in the tree the flags that forbid changes.
    pub fn thaw(&self) {
        thaw(&self.root);
    }

    /// Closes every file.
    pub fn close_all(&mut self) {
        self.slots = Default::default();
    }

    fn map(&mut self, path: &[u8], what: Use, offset: u64, length: u64) -> Result<Answer, String> {
        let path = self.path(path);
        let text = self.mapper.act(path.as_os_str(), what, offset, length)?;
        Ok(Answer { text, bytes: Vec::new() })
    }

    fn path(&self, path: &[u8]) -> PathBuf {
        let mut whole: OsString = self.root.clone().into_os_string();
        whole.push("/");
        whole.push(OsStr::from_bytes(path));
        PathBuf::from(OsString::from_vec(whole.into_vec()))
    }

    fn slot(&self, slot: usize) -> Result<&Open, Errno> {
        self.slots.get(slot).and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    fn call(&mut self, call: &Call, bytes: &mut Vec<u8>) -> Returned {
        match call {
            Call::Open { slot, path, flags, mode } => self.open(*slot, path, *flags, *mode),
            Call::Close { slot } => Ok(format!("was open: {}", self.slots[*slot].take().is_some())),
            Call::Read { slot, length } => self.read(*slot, None, *length, bytes),
            Call::ReadAt { slot, offset, length } => {
                self.read(*slot, Some(*offset), *length, bytes)
            }
            Call::Write { slot, length, seed } => self.write(*slot, None, *length, *seed),
            Call::WriteAt { slot, offset, length, seed } => {
                self.write(*slot, Some(*offset), *length, *seed)
            }
            Call::Seek { slot, to } => self.seek(*slot, *to),
            Call::StatOpen { slot } => Ok(self.shown(&fs::fstat(&self.slot(*slot)?.file)?)),
            Call::Ranges { slot } => self.ranges(*slot),
            Call::TruncateOpen { slot, length } => {
                done(fs::ftruncate(&self.slot(*slot)?.file, *length))
            }
            Call::Allocate { slot, mode, offset, length } => {
                done(fs::fallocate(&self.slot(*slot)?.file, *mode, *offset, *length))
            }
            Call::CopyRange { from, from_offset, to, to_offset, length } => {
                let (from, to) = (self.slot(*from)?, self.slot(*to)?);
                copy(from, *from_offset, to, *to_offset, *length)
            }
            Call::Sync { slot, kind: Synced::All } => done(fs::fsync(&self.slot(*slot)?.file)),
            Call::Sync { slot, kind: Synced::Data } => done(fs::fdatasync(&self.slot(*slot)?.file)),
            Call::LinkOpen { slot, path } => {
                let (file, path) = (&self.slot(*slot)?.file, self.path(path));
                done(fs::linkat(file, "", CWD, &path, AtFlags::EMPTY_PATH))
            }
            Call::ChangeModeOpen { slot, .. } if self.slot(*slot)?.is_special => {
                Ok("special".into())
            }
            Call::ChangeModeOpen { slot, mode } => {
                done(fs::fchmod(&self.slot(*slot)?.file, Mode::from_raw_mode(*mode)))
            }
            // Answered without an identity.
            Call::MapRead { .. } | Call::MapWrite { .. } => Ok(String::new()),
            _ => self.call_by_name(call, bytes),
        }
    }

    fn call_by_name(&self, call: &Call, bytes: &mut Vec<u8>) -> Returned {
        match call {
            Call::Truncate { path, length } => {
                let flags = OFlags::WRONLY | OFlags::NONBLOCK;
                done(fs::ftruncate(fs::open(self.path(path), flags, Mode::empty())?, *length))
            }
            Call::Stat { path, links } => {
                Ok(self.shown(&fs::statat(CWD, self.path(path), at_flags(*links))?))
            }
            Call::Access { path, bits } => {
                let bits = Access::from_bits_retain(*bits);
                done(fs::accessat(CWD, self.path(path), bits, AtFlags::EACCESS))
            }
            Call::Rename { from, to, flags } => {
                done(fs::renameat_with(CWD, self.path(from), CWD, self.path(to), *flags))
            }
            Call::Link { from, to, links } => {
                let follow = match links {
                    Links::Follow => AtFlags::SYMLINK_FOLLOW,
                    Links::Stay => AtFlags::empty(),
                };
                done(fs::linkat(CWD, self.path(from), CWD, self.path(to), follow))
            }
            Call::SymbolicLink { target, path } => {
                done(fs::symlinkat(OsStr::from_bytes(target), CWD, self.path(path)))
            }
            Call::ReadLink { path } => {
                *bytes = fs::readlinkat(CWD, self.path(path), Vec::new())?.into_bytes();
                done(Ok(()))
            }
            Call::Unlink { path } => done(fs::unlinkat(CWD, self.path(path), AtFlags::empty())),
            Call::RemoveDirectory { path } => {
                done(fs::unlinkat(CWD, self.path(path), AtFlags::REMOVEDIR))
            }
            Call::MakeDirectory { path, mode } => {
                done(fs::mkdirat(CWD, self.path(path), Mode::from_raw_mode(*mode)))
            }
            Call::MakeNode { path, kind, mode, device } => {
                let device = fs::makedev(device.0, device.1);
                let mode = Mode::from_raw_mode(*mode);
                done(fs::mknodat(CWD, self.path(path), *kind, mode, device))
            }
            Call::ChangeMode { path, mode } => {
                let mode = Mode::from_raw_mode(*mode);
                done(fs::chmodat(CWD, self.path(path), mode, AtFlags::empty()))
            }
            Call::ChangeOwner { path, uid, gid, links } => {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                done(fs::chownat(CWD, self.path(path), uid, gid, at_flags(*links)))
            }
            Call::SetTimes { path, accessed, modified, links } => {
                let times = Timestamps {
                    last_access: timespec(*accessed),
                    last_modification: timespec(*modified),
                };
                done(fs::utimensat(CWD, self.path(path), &times, at_flags(*links)))
            }
            Call::StatVolume => {
                let volume = fs::statvfs(&self.root)?;
                let sizes = (volume.f_frsize, volume.f_blocks, volume.f_files, volume.f_namemax);
                Ok(format!("{sizes:?}"))
            }
            _ => self.call_on_attributes(call, bytes),
        }
    }

    fn call_on_attributes(&self, call: &Call, bytes: &mut Vec<u8>) -> Returned {
        match call {
            Call::List { path } => list(&self.path(path)),
            Call::ListFrom { path, after } => list_from(&self.path(path), *after),
            Call::GetFlags { path } => {
                Ok(format!("{:?}", fs::ioctl_getflags(plain(&self.path(path))?)? & WISHES))
            }
            Call::SetFlags { path, set, clear } => {
                let file = plain(&self.path(path))?;
                let flags = fs::ioctl_getflags(&file)?;
                let wanted = (flags | *set) - *clear;
                // Nothing to change: ext4 then changes the time alone.
                if wanted == flags { done(Ok(())) } else { done(fs::ioctl_setflags(&file, wanted)) }
            }
            Call::SetAttribute { path, name, value, flags } => {
                done(fs::lsetxattr(self.path(path), &name[..], &value[..], *flags))
            }
            Call::GetAttribute { path, name } => {
                let mut buffer = vec![0; 65536];
                let length = fs::lgetxattr(self.path(path), &name[..], &mut buffer[..])?;
                buffer.truncate(length);
                *bytes = buffer;
                done(Ok(()))
            }
            Call::ListAttributes { path } => {
                let mut buffer = vec![0; 65536];
                let length = fs::llistxattr(self.path(path), &mut buffer[..])?;
                let mut names: Vec<&[u8]> = buffer[..length].split(|byte| *byte == 0).collect();
                names.sort_unstable();
                *bytes = names.join(&0);
                done(Ok(()))
            }
            Call::RemoveAttribute { path, name } => {
                done(fs::lremovexattr(self.path(path), &name[..]))
            }
            _ => Err(Errno::NOSYS),
        }
    }

    fn open(&mut self, slot: usize, path: &[u8], flags: OFlags, mode: u32) -> Returned {
        let all = flags | OFlags::CLOEXEC;
        let file = fs::open(self.path(path), all, Mode::from_raw_mode(mode & 0o7777))?;
        let kind = FileType::from_raw_mode(fs::fstat(&file)?.st_mode);
        let is_special = !matches!(kind, FileType::RegularFile | FileType::Directory);
        self.slots[slot] =
            Some(Open { file, is_direct: flags.contains(OFlags::DIRECT), is_special });
        done(Ok(()))
    }

    fn read(&self, slot: usize, at: Option<u64>, length: usize, bytes: &mut Vec<u8>) -> Returned {
        let open = self.slot(slot)?;
        let mut buffer = Pages::new(if open.is_direct { whole_pages(length) } else { length });
        let at = open.position(at)?;
        let read = match at {
            Some(at) => rustix::io::pread(&open.file, buffer.bytes(), at)?,
            None => rustix::io::read(&open.file, buffer.bytes())?,
        };
        bytes.extend_from_slice(&buffer.bytes()[..read]);
        Ok(format!("{read} bytes"))
    }

    fn write(&self, slot: usize, at: Option<u64>, length: usize, seed: u64) -> Returned {
        let open = self.slot(slot)?;
        let length = if open.is_direct { whole_pages(length) } else { length };
        let mut buffer = Pages::new(length);
        buffer.bytes().copy_from_slice(&Numbers::new(seed).bytes(length));
        let written = match open.position(at)? {
            Some(at) => rustix::io::pwrite(&open.file, buffer.bytes(), at)?,
            None => rustix::io::write(&open.file, buffer.bytes())?,
        };
        Ok(format!("{written} bytes"))
    }

    fn seek(&self, slot: usize, to: Place) -> Returned {
        let to = match to {
            Place::Start(offset) => SeekFrom::Start(offset),
            Place::Current(offset) => SeekFrom::Current(offset),
            Place::End(offset) => SeekFrom::End(offset),
        };
        let open = self.slot(slot)?;
        // A place in a directory is the file system's own.
        if FileType::from_raw_mode(fs::fstat(&open.file)?.st_mode) == FileType::Directory {
            return Ok("directory".into());
        }
        Ok(fs::seek(&open.file, to)?.to_string())
    }

    /// Whether what is no data by SEEK_DATA and SEEK_HOLE is zero.
    fn ranges(&self, slot: usize) -> Returned {
        let file = &self.slot(slot)?.file;
        let stat = fs::fstat(file)?;
        let size = stat.st_size.cast_unsigned();
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || size > RANGES_MAX || self.slot(slot)?.is_direct {
            return Ok("not looked at".into());
        }
        let position = fs::tell(file)?;
        let found = holes(file, size);
        fs::seek(file, SeekFrom::Start(position))?;
        for (start, end) in found? {
            let mut bytes = vec![0; (end - start) as usize];
            let read = match rustix::io::pread(file, &mut bytes, start) {
                // It is open for writing alone.
                Err(Errno::BADF) => break,
                read => read?,
            };
            if let Some(at) = bytes[..read].iter().position(|byte| *byte != 0) {
                return Ok(format!("byte {} is in a hole ({start}-{end})", start + at as u64));
            }
        }
        Ok("holes are zero".into())
    }

    /// What a stat says, but for what depends on the file system's own choices: the number of the
    /// inode, sizes of directories, blocks.
    fn shown(&self, stat: &Stat) -> String {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_directory = kind == FileType::Directory;
        let size = if is_directory { 0 } else { stat.st_size };
        let time = |seconds: i64, nanoseconds: i64| {
            // Of a pipe that is written or read FUSE tells its server nothing.
            if seconds >= self.begun || kind == FileType::Fifo {
                "of the life".to_owned()
            } else {
                format!("{seconds}.{nanoseconds:09}")
            }
        };
        format!(
            "mode {:o} links {} owner {}:{} size {size} device {} accessed {} modified {}",
            stat.st_mode,
            stat.st_nlink,
            stat.st_uid,
            stat.st_gid,
            stat.st_rdev,
            time(stat.st_atime, stat.st_atime_nsec),
            time(stat.st_mtime, stat.st_mtime_nsec),
        )
    }
}

impl Open {
    /// Where to read or write; rounded, and never the file's own place, for direct transfers.
    fn position(&self, at: Option<u64>) -> Result<Option<u64>, Errno> {
        if !self.is_direct {
            return Ok(at);
        }
        let at = at.map_or_else(|| fs::tell(&self.file), Ok)?;
        Ok(Some(at - at % PAGE as u64))
    }
}

/// A buffer that begins at a page, as direct transfers need it.
struct Pages {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Pages {
    fn new(length: usize) -> Pages {
        let bytes = vec![0; length + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Pages { bytes, start, length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

fn done(result: Result<(), Errno>) -> Returned {
    result.map(|()| "done".into())
}

fn whole_pages(length: usize) -> usize {
    length.next_multiple_of(PAGE).max(PAGE)
}

fn at_flags(links: Links) -> AtFlags {
    match links {
        Links::Follow => AtFlags::empty(),
        Links::Stay => AtFlags::SYMLINK_NOFOLLOW,
    }
}

fn timespec(time: SetTime) -> Timespec {
    match time {
        SetTime::Keep => Timespec { tv_sec: 0, tv_nsec: TIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: TIME_NOW },
        SetTime::At(seconds, nanoseconds) => {
            Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() }
        }
    }
}

/// A regular file or directory, opened for its flags.
fn plain(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let kind = FileType::from_raw_mode(fs::lstat(path)?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(Errno::NOTTY);
    }
    fs::open(path, flags, Mode::empty())
}

fn copy(from: &Open, from_offset: u64, to: &Open, to_offset: u64, length: usize) -> Returned {
    if from.is_direct || to.is_direct {
        return Ok("direct".into());
    }
    let (mut left, mut from_at, mut to_at) = (length, from_offset, to_offset);
    let mut copied = 0;
    loop {
        let (source, target) = (Some(&mut from_at), Some(&mut to_at));
        // A file system may copy less than it is asked for.
        match fs::copy_file_range(&from.file, source, &to.file, target, left) {
            Ok(0) => return Ok(format!("{copied} bytes")),
            Ok(count) => {
                copied += count;
                left -= count;
            }
            Err(_) if copied > 0 => return Ok(format!("{copied} bytes")),
            Err(error) => return Err(error),
        }
    }
}

/// The ranges (start, end) that are no data.
fn holes(file: &OwnedFd, size: u64) -> Result<Vec<(u64, u64)>, Errno> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let data = match fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            Err(Errno::NXIO) => size,
            Err(error) => return Err(error),
        };
        if data > at {
            found.push((at, data));
        }
        if data >= size {
            break;
        }
        at = fs::seek(file, SeekFrom::Hole(data))?;
        if at <= data {
            return Err(Errno::LOOP);
        }
    }
    Ok(found)
}

fn folder(path: &Path) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Dir::new(fs::open(path, flags, Mode::empty())?)
}

/// Names and types, sorted: the order is the file system's own.
fn list(path: &Path) -> Returned {
    let mut names = Vec::new();
    for entry in folder(path)? {
        let entry = entry?;
        names.push(format!(
            "{} {:?}",
            entry.file_name().to_bytes().escape_ascii(),
            entry.file_type()
        ));
    }
    names.sort_unstable();
    Ok(names.join(", "))
}

/// Whether a folder that is read again from the place after its entry number `after` shows what
/// it showed after it.
fn list_from(path: &Path, after: usize) -> Returned {
    let mut folder = folder(path)?;
    let mut read = || -> Result<Vec<(i64, Vec<u8>)>, Errno> {
        let mut seen = Vec::new();
        while let Some(entry) = folder.read() {
            let entry = entry?;
            seen.push((entry.offset(), entry.file_name().to_bytes().to_vec()));
        }
        Ok(seen)
    };
    let all = read()?;
    let Some((offset, _)) = all.get(after) else {
        return Ok(format!("{} names", all.len()));
    };
    let offset = *offset;
    folder.seek(offset)?;
    let mut rest = Vec::new();
    while let Some(entry) = folder.read() {
        rest.push(entry?.file_name().to_bytes().to_vec());
    }
    let expected = all.iter().skip(after + 1).map(|(_, name)| name);
    if rest.iter().eq(expected) {
        Ok(format!("{} names, the rest again", all.len()))
    } else {
        Ok(format!("{} names, and another rest: {}", all.len(), rest.len()))
    }
}

fn thaw(path: &Path) {
    let Ok(stat) = fs::lstat(path) else { return };
    if let Ok(file) = plain(path)
        && let Ok(flags) = fs::ioctl_getflags(&file)
        && flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND)
    {
        let _ = fs::ioctl_setflags(&file, flags - IFlags::IMMUTABLE - IFlags::APPEND);
    }
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| thaw(&entry.path()));
    }
}
