//! A folder of the host: each object by its name in an open folder, so that no path is longer than
//! the kernel takes.
use super::image::parted;
use super::{DirectoryNames, Found, Name, Spot, Tree};
use crate::error::{Error, Result};
use crate::tree::Links;
use extant_tree::host::{self, Back, FOLDER, Way};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat};
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What an object of the host is like.
#[allow(clippy::useless_conversion, reason = "a count of links has 32 bits on other processors")]
pub(crate) fn found(stat: &Stat) -> Found {
    let links = u64::from(stat.st_nlink);
    Found { facts: host::facts(stat), links, identity: host::identity(stat) }
}

/// The folder that a path of any length is in, and the last name of the path.
///
/// # Errors
/// The host's: there is no such folder.
pub fn open_host_parent(path: &Path) -> std::io::Result<(OwnedFd, Vec<u8>)> {
    let (folder, name) = parted(path);
    let folder = host::open_path(folder)?;
    Ok((folder, if name.is_empty() { b".".to_vec() } else { name.to_vec() }))
}

/// Whether a path of any length leads to a folder of the host.
pub fn is_host_folder(path: &Path) -> bool {
    host::open_path(path.as_os_str().as_bytes()).is_ok()
}

/// Folders of the host, with one of them open.
#[derive(Default)]
pub struct HostTree {
    way: RefCell<Option<Way>>,
}

impl HostTree {
    /// Runs work with the folder that is open.
    pub(crate) fn within<T>(
        &self,
        work: impl FnOnce(BorrowedFd<'_>) -> std::result::Result<T, Errno>,
    ) -> std::result::Result<T, Errno> {
        work(self.way.borrow().as_ref().ok_or(Errno::NOENT)?.here())
    }

    fn on_way(
        &self,
        path: &Path,
        work: impl FnOnce(&mut Way) -> std::result::Result<(), Errno>,
    ) -> Result<()> {
        let done = self.way.borrow_mut().as_mut().map_or(Err(Errno::NOENT), work);
        done.map_err(|error| Error::host(path, error))
    }
}

impl Tree for HostTree {
    fn begin(&self, path: &Path) -> Result<Vec<u8>> {
        let (folder, name) = parted(path);
        let base = host::open_path(folder).map_err(|error| Error::host(path, error))?;
        *self.way.borrow_mut() = Some(Way::new(base, FOLDER));
        Ok(if name.is_empty() { b".".to_vec() } else { name.to_vec() })
    }
    fn facts(&self, spot: Spot<'_>, links: Links) -> Result<Found> {
        let flags = match links {
            Links::Follow => AtFlags::empty(),
            Links::Stay => AtFlags::SYMLINK_NOFOLLOW,
        };
        let stat = self.within(|here| rustix::fs::statat(here, spot.name, flags));
        Ok(found(&stat.map_err(|error| Error::host(spot.path, error))?))
    }
    fn enter(&self, spot: Spot<'_>, links: Links) -> Result<()> {
        self.on_way(spot.path, |way| way.enter(spot.name, links))
    }
    fn names(&self, path: &Path) -> Result<Vec<Name>> {
        let read = self.within(|here| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            host::names(openat(here, c".", flags, Mode::empty())?)
        });
        let names = read.map_err(|error| Error::host(path, error))?;
        Ok(names.into_iter().map(|bytes| Name { bytes, number: None, stored: None }).collect())
    }
    fn leave(&self, path: &Path) -> Result<()> {
        self.on_way(path, |way| way.leave(Back::ParentOrNames).map(drop))
    }
    fn error(&self, path: &Path, said: &str) -> Error {
        Error::host_said(path, said)
    }
    fn directory_names(&self) -> DirectoryNames {
        DirectoryNames::Several
    }
}
