//! The host as what is copied, and as where it goes.
//!
//! What is written on the host stays below one folder, which the caller named: each folder on the
//! way is opened without following a symbolic link, and a link that has the name of a file is not
//! written through. Names come from an image, which may be hostile.
use super::Description;
use super::sink::{Sink, Target};
use super::source::{Body, Facts, Source};
use crate::error::{Error, Result};
use crate::tree::Links;
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType, Time};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType as HostType, Gid, Mode, OFlags, SeekFrom, Stat};
use rustix::fs::{Timespec, Timestamps, Uid, XattrFlags, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The longest list of names of attributes, and the longest value, that Linux gives.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// Files of the host, by their paths.
pub struct HostSource;

fn facts(stat: &Stat) -> Facts {
    let time = |seconds: i64, nanoseconds: u32| Time { seconds, nanoseconds };
    let mode = (stat.st_mode & 0xffff) as u16;
    Facts {
        file_type: FileType::from_mode(mode).unwrap_or(FileType::Regular),
        permissions: mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size.max(0).cast_unsigned(),
        links: stat.st_nlink,
        access_time: time(stat.st_atime, stat.st_atime_nsec as u32),
        modify_time: time(stat.st_mtime, stat.st_mtime_nsec as u32),
        change_time: time(stat.st_ctime, stat.st_ctime_nsec as u32),
        device: Device {
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
        },
        identity: (stat.st_dev, stat.st_ino),
    }
}

impl Source for HostSource {
    fn facts(&self, path: &Path, links: Links) -> Result<Facts> {
        let stat = match links {
            Links::Follow => rustix::fs::stat(path),
            Links::Stay => rustix::fs::lstat(path),
        };
        Ok(facts(&stat.map_err(|error| Error::host(path, error))?))
    }
    fn names(&self, path: &Path) -> Result<Vec<Vec<u8>>> {
        let failed = |error: std::io::Error| Error::host(path, error);
        let entries = std::fs::read_dir(path).map_err(failed)?;
        let names = entries.map(|entry| Ok(entry?.file_name().as_bytes().to_vec()));
        let mut names: Vec<Vec<u8>> = names.collect::<std::io::Result<_>>().map_err(failed)?;
        names.sort_unstable();
        Ok(names)
    }
    fn target(&self, path: &Path) -> Result<Vec<u8>> {
        let target = rustix::fs::readlink(path, Vec::new());
        Ok(target.map_err(|error| Error::host(path, error))?.into_bytes())
    }
    fn attributes(&self, path: &Path, links: Links) -> Result<Vec<Attribute>> {
        attributes(path, links).map_err(|error| Error::host(path, error))
    }
    fn open(&self, path: &Path, facts: &Facts) -> Result<Box<dyn Body>> {
        let failed = |error: Errno| Error::host(path, error);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = match openat(CWD, path, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => openat(CWD, path, flags, Mode::empty()),
            opened => opened,
        };
        let file = opened.map_err(failed)?;
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        let body = HostBody { file, path: path.to_owned(), facts: facts.clone(), is_dense: false };
        if self::facts(&stat).identity != facts.identity {
            return Err(body.changed());
        }
        let is_dense = stat.st_blocks.max(0).cast_unsigned().saturating_mul(512) >= facts.size;
        Ok(Box::new(HostBody { is_dense, ..body }))
    }
    fn error(&self, path: &Path, said: &str) -> Error {
        Error::host_said(path, said)
    }
    fn tree_identity(&self) -> Option<usize> {
        None
    }
}

/// The attributes of a path. A name that a file system lists but has no value for, as some do with
/// their own, is left out.
fn attributes(path: &Path, links: Links) -> std::result::Result<Vec<Attribute>, Errno> {
    let list = grown(|buffer| match links {
        Links::Follow => rustix::fs::listxattr(path, buffer),
        Links::Stay => rustix::fs::llistxattr(path, buffer),
    });
    let list = match list {
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        list => list?,
    };
    let mut attributes = Vec::new();
    for name in list.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let value = grown(|buffer| match links {
            Links::Follow => rustix::fs::getxattr(path, name, buffer),
            Links::Stay => rustix::fs::lgetxattr(path, name, buffer),
        });
        match value {
            Ok(value) => attributes.push(Attribute { name: name.to_vec(), value }),
            Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(attributes)
}

/// What a call puts into a buffer: a small one first, since most lists are empty and most values
/// short.
fn grown(
    call: impl Fn(&mut [u8]) -> std::result::Result<usize, Errno>,
) -> std::result::Result<Vec<u8>, Errno> {
    let mut small = [0; 256];
    match call(&mut small) {
        Ok(length) => Ok(small[..length].to_vec()),
        Err(Errno::RANGE) => {
            let mut large = vec![0; ATTRIBUTE_BYTES_MAX];
            let length = call(&mut large)?;
            large.truncate(length);
            Ok(large)
        }
        Err(error) => Err(error),
    }
}

struct HostBody {
    file: OwnedFd,
    path: PathBuf,
    facts: Facts,
    /// It has no holes.
    is_dense: bool,
}

impl HostBody {
    fn changed(&self) -> Error {
        Error::host_said(&self.path, "changed while it was read")
            .hint("copy it when nothing writes it")
    }
}

impl Body for HostBody {
    fn next_data(&mut self, at: u64, size: u64) -> Result<Option<Range<u64>>> {
        if self.is_dense {
            return Ok(Some(at..size));
        }
        let failed = |error: Errno| Error::host(&self.path, error);
        let start = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            Ok(start) => start.max(at),
            Err(Errno::NXIO) => return Ok(None),
            // A file system that knows no holes.
            Err(Errno::INVAL) => return Ok(Some(at..size)),
            Err(error) => return Err(failed(error)),
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start)).map_err(failed)?.min(size);
        Ok((start < end).then_some(start..end))
    }
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<usize> {
        loop {
            match rustix::io::pread(&self.file, &mut *bytes, at) {
                Err(Errno::INTR) => {}
                read => return read.map_err(|error| Error::host(&self.path, error)),
            }
        }
    }
    fn end(&mut self) -> Result<()> {
        let stat = rustix::fs::fstat(&self.file).map_err(|error| Error::host(&self.path, error))?;
        let now = facts(&stat);
        let same = (now.size, now.modify_time) == (self.facts.size, self.facts.modify_time);
        // What the kernel makes up has any time.
        let same = same || now.size == 0 && self.facts.size == 0;
        if same { Ok(()) } else { Err(self.changed()) }
    }
}

/// Whether an object got what it was to have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Yes,
    LeftOut,
}

/// A folder of the host that is written below. Paths are relative to it.
pub struct HostSink {
    root: OwnedFd,
    shown: PathBuf,
    /// The folder that was opened last, by its path: most objects are beside the one before.
    last: std::cell::RefCell<Option<(PathBuf, std::rc::Rc<OwnedFd>)>>,
    /// Owners and attributes that only root may give.
    left_out: std::cell::Cell<u64>,
}

impl HostSink {
    /// The folder at a path; links on the way there are the caller's.
    ///
    /// # Errors
    /// The host's.
    pub fn new(folder: &Path) -> Result<HostSink> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = openat(CWD, folder, flags, Mode::empty());
        let root = root.map_err(|error| Error::host(folder, error))?;
        let (last, left_out) = (std::cell::RefCell::default(), std::cell::Cell::default());
        Ok(HostSink { root, shown: folder.to_owned(), last, left_out })
    }

    /// How many owners and attributes were left out because only root may give them.
    pub fn left_out(&self) -> u64 {
        self.left_out.get()
    }

    /// Takes what only root may do as left out, for others, as cp(1) does.
    fn unless_root(&self, path: &Path, outcome: std::result::Result<(), Errno>) -> Result<Given> {
        match outcome {
            Ok(()) => Ok(Given::Yes),
            Err(Errno::PERM) if !rustix::process::geteuid().is_root() => {
                self.left_out.set(self.left_out.get() + 1);
                Ok(Given::LeftOut)
            }
            Err(error) => Err(self.failed(path)(error)),
        }
    }

    fn failed(&self, path: &Path) -> impl Fn(Errno) -> Error {
        let shown = self.shown.join(path);
        move |error| match error {
            Errno::LOOP => Error::host_said(&shown, "is a symbolic link, which is not followed"),
            error => Error::host(&shown, error),
        }
    }

    /// The folder that a path is in, open, and the last name.
    fn place<'p>(&self, path: &'p Path) -> Result<(std::rc::Rc<OwnedFd>, &'p OsStr)> {
        let wrong = || self.error(path, "leads out of the folder");
        if path == Path::new("") {
            let root = self.root.try_clone().map_err(|error| Error::host(&self.shown, error))?;
            return Ok((std::rc::Rc::new(root), OsStr::new(".")));
        }
        let name = path.file_name().ok_or_else(wrong)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if let Some((last, open)) = &*self.last.borrow()
            && last == folder
        {
            return Ok((std::rc::Rc::clone(open), name));
        }
        let mut open = self.root.try_clone().map_err(|error| Error::host(&self.shown, error))?;
        for part in folder.components() {
            let Component::Normal(part) = part else { return Err(wrong()) };
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::PATH | OFlags::CLOEXEC;
            open = openat(&open, part, flags, Mode::empty()).map_err(self.failed(path))?;
        }
        let open = std::rc::Rc::new(open);
        *self.last.borrow_mut() = Some((folder.to_owned(), std::rc::Rc::clone(&open)));
        Ok((open, name))
    }

    fn open(&self, path: &Path, flags: OFlags, mode: u16) -> Result<Box<dyn Target>> {
        let (folder, name) = self.place(path)?;
        let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = openat(&*folder, name, flags, Mode::from_raw_mode(mode.into()));
        let file = file.map_err(self.failed(path))?;
        Ok(Box::new(HostTarget { file, path: self.shown.join(path) }))
    }
}

impl Sink for HostSink {
    fn found(&self, path: &Path, _links: Links) -> Result<Option<Facts>> {
        let (folder, name) = self.place(path)?;
        match rustix::fs::statat(&*folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(facts(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed(path)(error)),
        }
    }
    fn make_directory(&self, path: &Path, permissions: u16) -> Result<()> {
        let (folder, name) = self.place(path)?;
        let mode = Mode::from_raw_mode(permissions.into());
        rustix::fs::mkdirat(&*folder, name, mode).map_err(self.failed(path))
    }
    fn make_file(&self, path: &Path, permissions: u16) -> Result<Box<dyn Target>> {
        self.open(path, OFlags::CREATE | OFlags::EXCL, permissions)
    }
    fn open_cut(&self, path: &Path) -> Result<Box<dyn Target>> {
        self.open(path, OFlags::TRUNC, 0)
    }
    fn make_symlink(&self, path: &Path, target: &[u8]) -> Result<()> {
        let (folder, name) = self.place(path)?;
        rustix::fs::symlinkat(target, &*folder, name).map_err(self.failed(path))
    }
    fn make_node(
        &self,
        path: &Path,
        kind: FileType,
        permissions: u16,
        device: Device,
    ) -> Result<()> {
        let (folder, name) = self.place(path)?;
        let kind = match kind {
            FileType::CharacterDevice => HostType::CharacterDevice,
            FileType::BlockDevice => HostType::BlockDevice,
            FileType::Socket => HostType::Socket,
            _ => HostType::Fifo,
        };
        let mode = Mode::from_raw_mode(permissions.into());
        let device = rustix::fs::makedev(device.major, device.minor);
        rustix::fs::mknodat(&*folder, name, kind, mode, device).map_err(self.failed(path))
    }
    fn link(&self, original: &Path, path: &Path) -> Result<()> {
        let (from, old) = self.place(original)?;
        let (to, new) = self.place(path)?;
        let made = rustix::fs::linkat(&*from, old, &*to, new, AtFlags::empty());
        made.map_err(self.failed(path))
    }
    fn remove(&self, path: &Path) -> Result<()> {
        let (folder, name) = self.place(path)?;
        rustix::fs::unlinkat(&*folder, name, AtFlags::empty()).map_err(self.failed(path))
    }
    fn describe(&self, path: &Path, _links: Links, description: &Description) -> Result<()> {
        let (folder, name) = self.place(path)?;
        let failed = self.failed(path);
        let Description { permissions, owner, times, attributes } = description;
        let mut permissions = *permissions;
        if owner.uid.is_some() || owner.gid.is_some() {
            let (uid, gid) = (owner.uid.map(Uid::from_raw), owner.gid.map(Gid::from_raw));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let owned = rustix::fs::chownat(&*folder, name, uid, gid, flags);
            if self.unless_root(path, owned)? == Given::LeftOut {
                // Nobody is to run it with the rights of somebody else.
                permissions = permissions.map(|permissions| permissions & 0o1777);
            }
        }
        // By the open object: a name may have become another's meanwhile.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let object = openat(&*folder, name, flags, Mode::empty()).map_err(&failed)?;
        let stat = rustix::fs::fstat(&object).map_err(&failed)?;
        let is_symlink = facts(&stat).file_type == FileType::Symlink;
        let by_number = format!("/proc/self/fd/{}", object.as_fd().as_raw_fd());
        if let Some(permissions) = permissions.filter(|_| !is_symlink) {
            let mode = Mode::from_raw_mode(permissions.into());
            rustix::fs::chmod(&by_number, mode).map_err(&failed)?;
        }
        for Attribute { name: attribute, value } in attributes.iter().filter(|_| !is_symlink) {
            let set =
                rustix::fs::setxattr(&by_number, attribute.as_slice(), value, XattrFlags::empty());
            self.unless_root(path, set)?;
        }
        if let Some((access, modify)) = times {
            let spec =
                |time: &Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
            let times = Timestamps { last_access: spec(access), last_modification: spec(modify) };
            let set = rustix::fs::utimensat(&*folder, name, &times, AtFlags::SYMLINK_NOFOLLOW);
            set.map_err(&failed)?;
        }
        Ok(())
    }
    fn error(&self, path: &Path, said: &str) -> Error {
        Error::host_said(self.shown.join(path), said)
    }
    fn tree_identity(&self) -> Option<usize> {
        None
    }
}

struct HostTarget {
    file: OwnedFd,
    path: PathBuf,
}

impl Target for HostTarget {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(&self.file, &bytes[done..], at + done as u64) {
                Err(Errno::INTR) => {}
                written => {
                    done += written.map_err(|error| Error::host(&self.path, error))?;
                }
            }
        }
        Ok(())
    }
    fn end(&mut self, size: u64) -> Result<()> {
        rustix::fs::ftruncate(&self.file, size).map_err(|error| Error::host(&self.path, error))
    }
}
