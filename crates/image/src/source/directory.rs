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
use super::intake::Intake;
use super::mounts::kernel_made;
use super::wrapper::{self, Host};
use super::zeros::Bytes;
use super::{Holes, Mounts, Origin, Sources};
use crate::error::{Error, ErrorKind};
use crate::tree::{MapId, NodeBody, NodeContent, NodeId, SourceId};
use extant_archive::printable;
use extant_format::attribute::Attribute;
use extant_format::inode::FileType;
use extant_tree::host::{self, Attributes, Opening, open_path_from};
use extant_tree::{Described, Facts, Links};
use rustc_hash::FxHashMap;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Folders kept open for those below them; beyond, a folder is opened by its path from the root.
const OPEN_MAX: usize = 200;

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
    let found = host::attributes(root.as_fd(), b".", Links::Stay).map_err(failed)?;
    let attributes = readable(found, &path.display(), intake)?;
    let facts = Facts { file_type: FileType::Directory, ..host::facts(&stat) };
    let mut facts = Described { facts, attributes };
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
    pub(super) facts: Described,
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
    let bytes = path.as_os_str().as_bytes();
    let found = host::attributes_at(bytes, Links::Stay).map_err(failed)?;
    let attributes = readable(found, &path.display(), intake)?;
    let facts = Facts { file_type: FileType::Regular, ..host::facts(stat) };
    let facts = Described { facts, attributes };
    let body = body(rustix::fs::CWD, bytes, stat, source, intake)?;
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
            None => open_path_from(root, &next.path, flags),
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
        let listed = held.folder.try_clone();
        let names = listed.map_err(errno).and_then(host::names);
        let names = match names {
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
            self.intake.progress.step(1)?;
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
        let facts = host::facts(&stat);
        let file_type = facts.file_type;
        if file_type == FileType::Regular && self.checks_access && stat.st_size > 0 {
            match rustix::fs::accessat(folder, name, Access::READ_OK, AtFlags::EACCESS) {
                Ok(()) | Err(Errno::NOSYS) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        let attributes = match host::attributes(folder, name, Links::Stay) {
            Ok(found) if found.unreadable.is_empty() => found.readable,
            Ok(found) => readable(found, &self.shown(path), self.intake)?,
            Err(error) => return Ok(Err(error)),
        };
        let mut facts = Described { facts, attributes };
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
            self.intake.search(node, &Bytes::File(Arc::new(File::from(file))));
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
        facts: &Described,
        stat: &Stat,
    ) -> Result<Result<NodeId, Errno>, Error> {
        let target;
        let content = match facts.file_type {
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
            _ => NodeContent::None,
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
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = openat(folder, name, flags, Mode::empty());
    let pieces = match opened.and_then(|file| host::pieces(file.as_fd(), length)) {
        Ok(pieces) => pieces,
        Err(error) => return Ok(Err(error)),
    };
    let whole = matches!(&pieces[..], [only] if *only == (0..length));
    let map: Option<MapId> = if whole { None } else { Some(intake.tree.keep_map(&pieces)?) };
    Ok(Ok(NodeBody::File { source, map, length }))
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// The attributes that could be read; the others are trouble, each with its name.
fn readable(
    found: Attributes,
    path: &dyn std::fmt::Display,
    intake: &mut Intake<'_>,
) -> Result<Vec<Attribute>, Error> {
    for (name, error) in found.unreadable {
        let what = format!("{path}: its attribute {} cannot be read", printable(&name));
        intake.trouble(Error::io(what, &error.into()))?;
    }
    Ok(found.readable)
}
