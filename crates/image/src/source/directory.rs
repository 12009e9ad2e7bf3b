//! A folder of the host as a source: its content becomes the image's root.
//!
//! Every name is looked at once with `fstatat`, in sorted order, relative to its open folder; depth
//! is limited by nothing but memory. Attributes are asked for through `/proc/self/fd`, which is as
//! good as a file descriptor for things that cannot be opened. All that the host shows is kept,
//! `security.selinux` included. Reading leaves the access times of files and folders as they are
//! where the host allows it; that of a symlink changes when its target is read.
//!
//! Every question to the host goes through the C library, and through calls that fakeroot and
//! pseudo replace (`fstatat`, `fstat`, `readlinkat`, `llistxattr`, `lgetxattr`): the image is what
//! they pretend.
use super::body::open_folder;
use super::intake::Intake;
use super::mounts::kernel_made;
use super::opening::Opening;
use super::wrapper::{self, Host};
use super::{Holes, Mounts, Origin, Sources};
use crate::error::{Error, ErrorKind};
use crate::tree::{MapId, NodeBody, NodeContent, NodeFacts, NodeId, SourceId};
use extant_archive::printable;
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType, Time};
use rustc_hash::FxHashMap;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, Dir, Mode, OFlags, SeekFrom, Stat, openat, statat};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Folders kept open for those below them; beyond, a folder is opened by its path from the root.
const OPEN_MAX: usize = 200;
/// The longest list of names of attributes, and the longest value, that Linux gives.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// A folder that is still to be read.
struct Pending {
    node: NodeId,
    /// The open folder that holds it, while there are not too many.
    parent: Option<Rc<Held>>,
    name: Vec<u8>,
    path: Vec<u8>,
    device: u64,
    mounted: Mounted,
}

/// Whether a folder is on the file system of the folder that holds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mounted {
    Same,
    Other,
}

/// An open folder, counted.
struct Held {
    folder: OwnedFd,
    device: u64,
    open: Rc<Cell<usize>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.open.set(self.open.get().saturating_sub(1));
    }
}

struct Walk<'a, 'b> {
    intake: &'a mut Intake<'b>,
    source: SourceId,
    root_name: String,
    /// The first name of each file that has several.
    links: FxHashMap<(u64, u64), NodeId>,
    pending: Vec<Pending>,
    open: Rc<Cell<usize>>,
    checks_access: bool,
    /// How folders are opened.
    opening: Opening,
    /// How files are opened that are looked for zeros.
    files: Opening,
    patterns: Patterns,
}

/// Where in the tree a folder goes.
pub(super) struct Place<'a> {
    /// The directory whose content its content becomes: the root, if there is no name.
    pub(super) directory: NodeId,
    /// The name in that directory that the folder gets; empty for the directory itself.
    pub(super) name: &'a [u8],
    /// The lower twelve bits of its mode, in place of its own.
    pub(super) permissions: Option<u16>,
    /// Whether patterns of what is left out count.
    pub(super) patterns: Patterns,
    /// Whose owner, mode, times and attributes a directory has that is there already.
    pub(super) facts: FactsOf,
}

/// Whose owner, mode, times and attributes count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FactsOf {
    Folder,
    Tree,
}

/// Whether patterns of what is left out count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patterns {
    Apply,
    Ignore,
}

impl Place<'_> {
    /// The root of the tree.
    const ROOT: Place<'static> = Place {
        directory: NodeId::ROOT,
        name: b"",
        permissions: None,
        patterns: Patterns::Apply,
        facts: FactsOf::Folder,
    };
}

/// Lays a folder over the tree.
pub(super) fn read(
    path: &Path,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<(), Error> {
    read_into(path, &Place::ROOT, intake, sources)
}

/// Lays a folder over a directory of the tree.
pub(super) fn read_into(
    path: &Path,
    place: &Place<'_>,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<(), Error> {
    let failed = |error: Errno| Error::io(path.display(), &error.into());
    let host = wrapper::host()?;
    let mut opening = Opening::new(OFlags::DIRECTORY);
    let root = opening.open(|flags| rustix::fs::open(path, flags, Mode::empty()));
    let root = root.map_err(failed)?;
    let mut stat = rustix::fs::fstat(&root).map_err(failed)?;
    if let Some(pretended) = &intake.options.pretended {
        pretended.apply(&mut stat);
    }
    let found = attributes(root.as_fd(), c".").map_err(failed)?;
    let attributes = found.readable(&path.display(), intake)?;
    let mut facts = facts(&stat, FileType::Directory, attributes);
    intake.adjust(&mut facts, b"");
    facts.permissions = place.permissions.unwrap_or(facts.permissions);
    let base = match place.name {
        b"" if place.facts == FactsOf::Tree => Ok(place.directory),
        b"" => intake.tree.describe_directory(place.directory, &facts).map(|()| place.directory),
        name => intake.insert(place.directory, name, &facts, NodeContent::None),
    }?;
    let copy = root.try_clone().map_err(|error| Error::io(path.display(), &error))?;
    let source = sources.add(Origin::Folder { folder: copy, name: path.to_owned(), base })?;
    let mut walk = Walk {
        intake,
        source,
        root_name: path.display().to_string(),
        links: FxHashMap::default(),
        pending: Vec::new(),
        open: Rc::new(Cell::new(0)),
        checks_access: host == Host::Wrapped || !rustix::process::geteuid().is_root(),
        opening: opening.with(OFlags::NOFOLLOW),
        files: Opening::new(OFlags::NOFOLLOW | OFlags::NONBLOCK),
        patterns: place.patterns,
    };
    walk.enter(base, root, Vec::new(), stat.st_dev, Mounted::Other)?;
    let Some(Origin::Folder { folder: root, .. }) = sources.list.last() else {
        return Ok(());
    };
    while let Some(next) = walk.pending.pop() {
        walk.descend(root.as_fd(), next)?;
    }
    Ok(())
}

/// A file of the host that becomes a file of the tree: what is known of it, and its body.
pub(super) struct Single {
    pub(super) facts: NodeFacts,
    pub(super) body: NodeBody,
}

/// Reads one regular file; `path` leads through no link at its end.
///
/// # Errors
/// The host's.
pub(super) fn read_single(
    path: &Path,
    stat: &Stat,
    intake: &mut Intake<'_>,
    source: SourceId,
) -> Result<Single, Error> {
    let failed = |error: Errno| Error::io(path.display(), &error.into());
    let found = attributes_at(path).map_err(failed)?;
    let attributes = found.readable(&path.display(), intake)?;
    let facts = facts(stat, FileType::Regular, attributes);
    let body = body(rustix::fs::CWD, path.as_os_str().as_bytes(), stat, source, intake)?;
    Ok(Single { facts, body: body.map_err(failed)? })
}

impl Walk<'_, '_> {
    fn trouble(&mut self, path: &[u8], error: Errno) -> Result<(), Error> {
        let shown = self.shown(path);
        self.intake.trouble(Error::io(shown, &error.into()))
    }

    fn descend(&mut self, root: BorrowedFd<'_>, next: Pending) -> Result<(), Error> {
        let open = |flags: OFlags| match &next.parent {
            Some(parent) => openat(&parent.folder, next.name.as_slice(), flags, Mode::empty()),
            None => {
                open_folder(root, &next.path.split(|byte| *byte == b'/').collect::<Vec<_>>(), flags)
            }
        };
        let opened = self.opening.open(open);
        drop(next.parent);
        match opened {
            Ok(folder) => {
                self.open.set(self.open.get() + 1);
                self.enter(next.node, folder, next.path, next.device, next.mounted)
            }
            Err(error) => self.trouble(&next.path, error),
        }
    }

    /// Reads an open folder, unless the kernel makes up what is in it.
    fn enter(
        &mut self,
        node: NodeId,
        folder: OwnedFd,
        path: Vec<u8>,
        device: u64,
        mounted: Mounted,
    ) -> Result<(), Error> {
        let held = Held { folder, device, open: self.open.clone() };
        match kernel_made(held.folder.as_fd()).filter(|_| mounted == Mounted::Other) {
            Some(system) => self.refuse_kernel_made(&path, system),
            None => self.folder(node, Rc::new(held), path),
        }
    }

    fn refuse_kernel_made(&mut self, path: &[u8], system: &str) -> Result<(), Error> {
        let refusal = Error::new(format!(
            "{}: is the kernel's {system}: it holds no files, but what the kernel makes up while \
             it is read",
            self.shown(path)
        ));
        self.intake.trouble(refusal.of(ErrorKind::KernelFiles { path: path.to_vec() }))
    }

    /// A path in the source as messages have it.
    fn shown(&self, path: &[u8]) -> String {
        match path.is_empty() {
            true => self.root_name.clone(),
            false => format!("{}/{}", self.root_name.trim_end_matches('/'), printable(path)),
        }
    }

    /// Reads one folder; folders in it wait in `pending`.
    fn folder(&mut self, node: NodeId, held: Rc<Held>, path: Vec<u8>) -> Result<(), Error> {
        let names = match names(&held.folder) {
            Ok(names) => names,
            Err(error) => return self.trouble(&path, error),
        };
        let mut child_path = path;
        let stem = child_path.len();
        for name in names {
            child_path.truncate(stem);
            if stem > 0 {
                child_path.push(b'/');
            }
            child_path.extend_from_slice(&name);
            let excluded = self.patterns == Patterns::Apply && self.intake.excludes(&child_path);
            if excluded || self.intake.applies_whiteout(node, &name) {
                continue;
            }
            if let Err(error) = self.name(node, &held, &name, &child_path)? {
                self.trouble(&child_path, error)?;
            }
            self.intake.progress.advance(1);
        }
        Ok(())
    }

    /// One name. The inner error is the host's, about this file.
    fn name(
        &mut self,
        node: NodeId,
        held: &Rc<Held>,
        name: &[u8],
        path: &[u8],
    ) -> Result<Result<(), Errno>, Error> {
        let folder = held.folder.as_fd();
        let mut stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(error) => return Ok(Err(error)),
        };
        let identity = (stat.st_dev, stat.st_ino);
        if let Some(pretended) = &self.intake.options.pretended {
            pretended.apply(&mut stat);
        }
        if self.intake.options.never.contains(&identity) {
            return Ok(Ok(()));
        }
        if stat.st_nlink > 1
            && let Some(first) = self.links.get(&identity)
        {
            return self.intake.link(node, name, *first).map(Ok);
        }
        let file_type = file_type(&stat);
        if file_type == FileType::Regular && self.checks_access && stat.st_size > 0 {
            match rustix::fs::accessat(folder, name, Access::READ_OK, AtFlags::EACCESS) {
                Ok(()) | Err(Errno::NOSYS) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        let attributes = match attributes_of(folder, name) {
            Ok(found) if found.unreadable.is_empty() => found.attributes,
            Ok(found) => found.readable(&self.shown(path), self.intake)?,
            Err(error) => return Ok(Err(error)),
        };
        let mut facts = facts(&stat, file_type, attributes);
        self.intake.adjust(&mut facts, path);
        let made = match self.put(node, folder, name, &facts, &stat)? {
            Ok(made) => made,
            Err(error) => return Ok(Err(error)),
        };
        if file_type == FileType::Regular {
            self.search(made, folder, name, &stat);
        }
        if file_type == FileType::Directory {
            self.put_off(made, held, name, path, stat.st_dev);
        } else if stat.st_nlink > 1 {
            self.links.insert(identity, made);
        }
        Ok(Ok(()))
    }

    /// Has a file looked for zeros; one that cannot be opened is reported where it is read.
    fn search(&mut self, node: NodeId, folder: BorrowedFd<'_>, name: &[u8], stat: &Stat) {
        if !self.intake.searches(stat.st_size.cast_unsigned()) {
            return;
        }
        let opened = self.files.open(|flags| openat(folder, name, flags, Mode::empty()));
        if let Ok(file) = opened {
            self.intake.search(node, &Arc::new(File::from(file)));
        }
    }

    /// A folder that is read later, unless something else is mounted there that is not wanted.
    fn put_off(&mut self, node: NodeId, held: &Rc<Held>, name: &[u8], path: &[u8], device: u64) {
        let mounted = match device == held.device {
            true => Mounted::Same,
            false => Mounted::Other,
        };
        if mounted == Mounted::Other && self.intake.options.mounts == Mounts::Stay {
            return;
        }
        let parent = (self.open.get() < OPEN_MAX).then(|| held.clone());
        self.pending.push(Pending {
            node,
            parent,
            name: name.to_vec(),
            path: path.to_vec(),
            device,
            mounted,
        });
    }

    fn put(
        &mut self,
        node: NodeId,
        folder: BorrowedFd<'_>,
        name: &[u8],
        facts: &NodeFacts,
        stat: &Stat,
    ) -> Result<Result<NodeId, Errno>, Error> {
        let target;
        let content = match facts.file_type {
            FileType::Directory | FileType::Fifo | FileType::Socket => NodeContent::None,
            FileType::CharacterDevice | FileType::BlockDevice => NodeContent::Device(Device {
                major: rustix::fs::major(stat.st_rdev),
                minor: rustix::fs::minor(stat.st_rdev),
            }),
            FileType::Symlink => match rustix::fs::readlinkat(folder, name, Vec::new()) {
                Ok(read) => {
                    target = read;
                    NodeContent::Target(target.to_bytes())
                }
                Err(error) => return Ok(Err(error)),
            },
            FileType::Regular => match body(folder, name, stat, self.source, self.intake)? {
                Ok(body) => NodeContent::Body(body),
                Err(error) => return Ok(Err(error)),
            },
        };
        self.intake.insert(node, name, facts, content).map(Ok)
    }
}

/// Where the bytes of a regular file are. The inner error is the host's.
fn body(
    folder: BorrowedFd<'_>,
    name: &[u8],
    stat: &Stat,
    source: SourceId,
    intake: &mut Intake<'_>,
) -> Result<Result<NodeBody, Errno>, Error> {
    let length = stat.st_size.cast_unsigned();
    if length == 0 {
        return Ok(Ok(NodeBody::Empty));
    }
    let is_dense = stat.st_blocks.cast_unsigned().saturating_mul(512) >= length;
    if is_dense || intake.options.holes == Holes::Never {
        return Ok(Ok(NodeBody::File { source, map: None, length }));
    }
    let pieces = match pieces(folder, name, length) {
        Ok(pieces) => pieces,
        Err(error) => return Ok(Err(error)),
    };
    let whole = matches!(&pieces[..], [only] if *only == (0..length));
    let map: Option<MapId> = if whole { None } else { Some(intake.tree.keep_map(&pieces)?) };
    Ok(Ok(NodeBody::File { source, map, length }))
}

/// The names in a folder, sorted: the order in which the host lists them has no effect.
fn names(folder: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    // Not `read_from`, which opens the folder once more, and changes its access time.
    for entry in Dir::new(folder.try_clone().map_err(errno)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn file_type(stat: &Stat) -> FileType {
    FileType::from_mode((stat.st_mode & 0xffff) as u16).unwrap_or(FileType::Regular)
}

fn facts(stat: &Stat, file_type: FileType, attributes: Vec<Attribute>) -> NodeFacts {
    NodeFacts {
        file_type,
        permissions: (stat.st_mode & 0o7777) as u16,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modify_time: time(stat.st_mtime, stat.st_mtime_nsec as u32),
        access_time: Some(time(stat.st_atime, stat.st_atime_nsec as u32)),
        change_time: Some(time(stat.st_ctime, stat.st_ctime_nsec as u32)),
        attributes,
    }
}

fn time(seconds: i64, nanoseconds: u32) -> Time {
    Time { seconds, nanoseconds }
}

/// The pieces of a file that hold data, as the host knows them.
fn pieces(folder: BorrowedFd<'_>, name: &[u8], length: u64) -> Result<Vec<Range<u64>>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(folder, name, flags, Mode::empty())?;
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(start) => start.max(at),
            Err(Errno::NXIO) => break,
            // A file system that knows no holes.
            Err(Errno::INVAL) if at == 0 => return Ok(std::iter::once(0..length).collect()),
            Err(error) => return Err(error),
        };
        let end = rustix::fs::seek(&file, SeekFrom::Hole(start))?.min(length);
        if start >= length || end <= start {
            break;
        }
        pieces.push(start..end);
        at = end;
    }
    Ok(pieces)
}

/// The attributes of a file.
#[derive(Default)]
struct Found {
    attributes: Vec<Attribute>,
    /// Names that the host lists and has no value for, and why.
    unreadable: Vec<(Vec<u8>, Errno)>,
}

impl Found {
    /// Those that could be read; the others are trouble, each with its name.
    fn readable(
        self,
        path: &dyn std::fmt::Display,
        intake: &mut Intake<'_>,
    ) -> Result<Vec<Attribute>, Error> {
        for (name, error) in self.unreadable {
            let what = format!("{path}: its attribute {} cannot be read", printable(&name));
            intake.trouble(Error::io(what, &error.into()))?;
        }
        Ok(self.attributes)
    }
}

fn attributes_of(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Found, Errno> {
    let name = std::ffi::CString::new(name).map_err(|_| Errno::INVAL)?;
    attributes(folder, &name)
}

/// The attributes of a name in a folder, not following a symlink.
fn attributes(folder: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<Found, Errno> {
    let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    attributes_at(Path::new(std::ffi::OsStr::from_bytes(&path)))
}

/// The attributes of a path, not following a symlink at its end.
fn attributes_at(path: &Path) -> Result<Found, Errno> {
    let mut found = Found::default();
    for name in attribute_names(path)? {
        match grown(|buffer| rustix::fs::lgetxattr(path, name.as_slice(), buffer)) {
            Ok(value) => found.attributes.push(Attribute { name, value }),
            Err(error) => found.unreadable.push((name, error)),
        }
    }
    if !found.unreadable.is_empty() {
        // One that was taken away meanwhile is none.
        let names = attribute_names(path)?;
        found.unreadable.retain(|(name, _)| names.contains(name));
    }
    Ok(found)
}

fn attribute_names(path: &Path) -> Result<Vec<Vec<u8>>, Errno> {
    let list = match grown(|buffer| rustix::fs::llistxattr(path, buffer)) {
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        list => list?,
    };
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// What a call puts into a buffer: a small one first, since most lists are empty and most values
/// short.
fn grown(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
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
