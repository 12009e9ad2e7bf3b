//! The host as what is copied, and as where it goes.
//!
//! What is written on the host stays below one folder, which the caller named: each folder on the
//! way is opened without following a symbolic link, and a link that has the name of a file is not
//! written through. Names come from an image, which may be hostile.
use super::Description;
use super::sink::{Original, Sink, Target};
use super::source::{Body, Source};
use crate::error::{Error, Result};
use crate::tree::Links;
use crate::walk::{Found, HostTree, Spot, found_on_host};
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType};
use extant_tree::host::{self, Attributes, Back, FOLDER, Way};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, XattrFlags, openat};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

impl Source for HostTree {
    fn target(&self, spot: Spot<'_>) -> Result<Vec<u8>> {
        let target = self.within(|here| rustix::fs::readlinkat(here, spot.name, Vec::new()));
        Ok(target.map_err(|error| Error::host(spot.path, error))?.into_bytes())
    }
    fn attributes(&self, spot: Spot<'_>, links: Links) -> Result<Vec<Attribute>> {
        let read = self.within(|here| host::attributes(here, spot.name, links));
        readable(read.map_err(|error| Error::host(spot.path, error))?, spot.path)
    }
    fn open(&self, spot: Spot<'_>, facts: &Found) -> Result<Box<dyn Body>> {
        let failed = |error: Errno| Error::host(spot.path, error);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let open = |flags| self.within(|here| openat(here, spot.name, flags, Mode::empty()));
        let opened = match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => open(flags),
            opened => opened,
        };
        let file = opened.map_err(failed)?;
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        let (path, facts) = (spot.path.to_owned(), *facts);
        let is_dense = stat.st_blocks.max(0).cast_unsigned().saturating_mul(512) >= facts.size;
        let body = HostBody { file, path, facts, is_dense };
        match found_on_host(&stat).identity == body.facts.identity {
            true => Ok(Box::new(body)),
            false => Err(body.changed()),
        }
    }
    fn tree_identity(&self) -> Option<usize> {
        None
    }
}

/// All attributes. One that is listed and has no value is an error with its name.
fn readable(found: Attributes, path: &Path) -> Result<Vec<Attribute>> {
    let Some((name, error)) = found.unreadable.into_iter().next() else {
        return Ok(found.readable);
    };
    let error = std::io::Error::from(error);
    let said = format!("its attribute {} cannot be read: {error}", name.escape_ascii());
    Err(Error::host(path, std::io::Error::new(error.kind(), said)))
}

struct HostBody {
    file: OwnedFd,
    path: PathBuf,
    facts: Found,
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
        let data = host::next_data(self.file.as_fd(), at, size);
        data.map_err(|error| Error::host(&self.path, error))
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
        let now = found_on_host(&stat);
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
    way: RefCell<Way>,
    /// All folders that were entered: the one above, and the name there. The first is the root.
    folders: RefCell<Vec<(usize, Vec<u8>)>>,
    /// Which of them the way goes through.
    places: RefCell<Vec<usize>>,
    /// The folder of the last original: most are beside the one before.
    last: RefCell<Option<(usize, OwnedFd)>>,
    /// Owners and attributes that only root may give.
    left_out: Cell<u64>,
}

impl HostSink {
    /// The folder at a path; links on the way there are the caller's.
    ///
    /// # Errors
    /// The host's.
    pub fn new(folder: &Path) -> Result<HostSink> {
        let failed = |error: Errno| Error::host(folder, error);
        let root = host::open_path(folder.as_os_str().as_bytes()).map_err(failed)?;
        let copy = root.try_clone().map_err(|error| Error::host(folder, error))?;
        Ok(HostSink {
            root,
            shown: folder.to_owned(),
            way: RefCell::new(Way::new(copy, FOLDER)),
            folders: RefCell::new(vec![(0, Vec::new())]),
            places: RefCell::new(vec![0]),
            last: RefCell::default(),
            left_out: Cell::new(0),
        })
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

    /// Runs a call with the folder that is open.
    fn call<T>(
        &self,
        path: &Path,
        work: impl FnOnce(BorrowedFd<'_>) -> std::result::Result<T, Errno>,
    ) -> Result<T> {
        work(self.way.borrow().here()).map_err(self.failed(path))
    }

    fn place(&self) -> usize {
        self.places.borrow().last().copied().unwrap_or(0)
    }

    /// Opens a folder that was entered, by its names from the root.
    fn folder(&self, place: usize) -> std::result::Result<OwnedFd, Errno> {
        let folders = self.folders.borrow();
        let (mut names, mut at) = (Vec::new(), place);
        while at > 0 {
            let (above, name) = folders.get(at).ok_or(Errno::NOENT)?;
            names.push(name.as_slice());
            at = *above;
        }
        host::open_below(self.root.as_fd(), names.into_iter().rev(), FOLDER | OFlags::NOFOLLOW)
    }

    fn open(&self, spot: Spot<'_>, flags: OFlags, mode: u16) -> Result<Box<dyn Target>> {
        let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(mode.into());
        let file = self.call(spot.path, |here| openat(here, spot.name, flags, mode))?;
        Ok(Box::new(HostTarget { file: file.into(), path: self.shown.join(spot.path) }))
    }
}

impl Sink for HostSink {
    fn begin(&self, path: &Path) -> Result<Vec<u8>> {
        let root = self.root.try_clone().map_err(|error| Error::host(&self.shown, error))?;
        *self.way.borrow_mut() = Way::new(root, FOLDER);
        *self.places.borrow_mut() = vec![0];
        let mut parts = path.components();
        match (parts.next(), parts.next()) {
            (None, None) => Ok(b".".to_vec()),
            (Some(Component::Normal(name)), None) => Ok(name.as_bytes().to_vec()),
            _ => Err(self.error(path, "leads out of the folder")),
        }
    }
    fn enter(&self, spot: Spot<'_>) -> Result<()> {
        let entered = self.way.borrow_mut().enter(spot.name, Links::Stay);
        entered.map_err(self.failed(spot.path))?;
        let mut folders = self.folders.borrow_mut();
        let above = self.place();
        self.places.borrow_mut().push(folders.len());
        folders.push((above, spot.name.to_vec()));
        Ok(())
    }
    fn leave(&self, path: &Path) -> Result<()> {
        self.places.borrow_mut().pop();
        self.way.borrow_mut().leave(Back::ParentOrNames).map(drop).map_err(self.failed(path))
    }
    fn found(&self, spot: Spot<'_>, _links: Links) -> Result<Option<Found>> {
        let stat =
            |here: BorrowedFd<'_>| rustix::fs::statat(here, spot.name, AtFlags::SYMLINK_NOFOLLOW);
        match stat(self.way.borrow().here()) {
            Ok(stat) => Ok(Some(found_on_host(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed(spot.path)(error)),
        }
    }
    fn make_directory(&self, spot: Spot<'_>, permissions: u16) -> Result<()> {
        let mode = Mode::from_raw_mode(permissions.into());
        self.call(spot.path, |here| rustix::fs::mkdirat(here, spot.name, mode))
    }
    fn make_file(&self, spot: Spot<'_>, permissions: u16) -> Result<Box<dyn Target>> {
        self.open(spot, OFlags::CREATE | OFlags::EXCL, permissions)
    }
    fn open_cut(&self, spot: Spot<'_>) -> Result<Box<dyn Target>> {
        self.open(spot, OFlags::TRUNC, 0)
    }
    fn make_symlink(&self, spot: Spot<'_>, target: &[u8]) -> Result<()> {
        self.call(spot.path, |here| rustix::fs::symlinkat(target, here, spot.name))
    }
    fn make_node(
        &self,
        spot: Spot<'_>,
        kind: FileType,
        permissions: u16,
        device: Device,
    ) -> Result<()> {
        self.call(spot.path, |here| host::make_node((here, spot.name), kind, permissions, device))
    }
    fn original(&self, spot: Spot<'_>) -> Result<Original> {
        Ok(Original { number: self.place() as u64, name: spot.name.to_vec() })
    }
    fn link(&self, original: &Original, spot: Spot<'_>) -> Result<()> {
        let place = usize::try_from(original.number).unwrap_or(usize::MAX);
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|(open, _)| *open != place) {
            let folder = self.folder(place).map_err(self.failed(spot.path))?;
            *last = Some((place, folder));
        }
        let Some((_, from)) = last.as_ref() else { return Ok(()) };
        self.call(spot.path, |here| {
            rustix::fs::linkat(from, original.name.as_slice(), here, spot.name, AtFlags::empty())
        })
    }
    fn remove(&self, spot: Spot<'_>) -> Result<()> {
        self.call(spot.path, |here| rustix::fs::unlinkat(here, spot.name, AtFlags::empty()))
    }
    fn describe(&self, spot: Spot<'_>, _links: Links, description: &Description) -> Result<()> {
        let way = self.way.borrow();
        let (place, path) = ((way.here(), spot.name), spot.path);
        let failed = self.failed(path);
        let Description { permissions, owner, times, attributes } = description;
        let mut permissions = *permissions;
        if owner.uid.is_some() || owner.gid.is_some() {
            let owned = host::set_owner(place, owner.uid, owner.gid);
            if self.unless_root(path, owned)? == Given::LeftOut {
                // Nobody is to run it with the rights of somebody else.
                permissions = permissions.map(|permissions| permissions & 0o1777);
            }
        }
        let object = host::open_object(place).map_err(&failed)?;
        let stat = rustix::fs::fstat(&object).map_err(&failed)?;
        let is_symlink = found_on_host(&stat).file_type == FileType::Symlink;
        if let Some(permissions) = permissions.filter(|_| !is_symlink) {
            host::set_permissions(object.as_fd(), permissions).map_err(&failed)?;
        }
        let by_number = host::path_of(object.as_fd());
        for Attribute { name, value } in attributes.iter().filter(|_| !is_symlink) {
            let set = rustix::fs::setxattr(&by_number, name.as_slice(), value, XattrFlags::empty());
            self.unless_root(path, set)?;
        }
        if let Some((access, modify)) = times {
            host::set_times(place, &host::times(*access, *modify)).map_err(&failed)?;
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
    file: File,
    path: PathBuf,
}

impl Target for HostTarget {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(|error| Error::host(&self.path, error))
    }
    fn end(&mut self, size: u64) -> Result<()> {
        self.file.set_len(size).map_err(|error| Error::host(&self.path, error))
    }
}
