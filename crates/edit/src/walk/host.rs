//! A folder of the host: each object by its name in an open folder, so that no path is longer than
//! the kernel takes.
use super::image::parted;
use super::{DirectoryNames, Facts, Name, Spot, Tree};
use crate::error::{Error, Result};
use crate::tree::Links;
use extant_format::inode::{Device, FileType, Time};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Folders on the way down that are kept open.
const OPEN_MAX: usize = 48;
/// Bytes of a path that are given to the kernel at once: it takes 4,095.
const PATH_PIECE: usize = 4000;
/// How a folder is opened that others are reached from.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What an object of the host is like.
pub(crate) fn facts(stat: &Stat) -> Facts {
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

/// Opens a folder by a path of any length; an empty one is the working directory.
pub(crate) fn open_folder(path: &[u8]) -> std::result::Result<OwnedFd, Errno> {
    let mut rest = if path.is_empty() { b"." } else { path };
    let mut folder: Option<OwnedFd> = None;
    loop {
        let piece = match rest.get(..PATH_PIECE) {
            None => rest,
            Some(head) => {
                let slash =
                    head.iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
                rest.get(..=slash).unwrap_or(rest)
            }
        };
        let from = folder.as_ref().map_or(CWD, AsFd::as_fd);
        folder = Some(openat(from, piece, FOLDER, Mode::empty())?);
        rest = rest.get(piece.len()..).unwrap_or_default();
        while let Some(tail) = rest.strip_prefix(b"/") {
            rest = tail;
        }
        if let Some(folder) = folder.take_if(|_| rest.is_empty()) {
            return Ok(folder);
        }
    }
}

/// The folder that a path of any length is in, and the last name of the path.
///
/// # Errors
/// The host's: there is no such folder.
pub fn open_host_parent(path: &Path) -> std::io::Result<(OwnedFd, Vec<u8>)> {
    let (folder, name) = parted(path);
    let folder = open_folder(folder)?;
    Ok((folder, if name.is_empty() { b".".to_vec() } else { name.to_vec() }))
}

/// Whether a path of any length leads to a folder of the host.
pub fn is_host_folder(path: &Path) -> bool {
    open_folder(path.as_os_str().as_bytes()).is_ok()
}

/// The way down from a folder, with the last folder open.
///
/// *Invariants*: of the folders above all but the nearest may have been closed. They are opened
/// again from below by `..`, or by their names from the beginning, and it is made sure that each is
/// the one that it was.
pub(crate) struct Way {
    base: OwnedFd,
    levels: Vec<Level>,
}

struct Level {
    folder: Option<OwnedFd>,
    identity: (u64, u64),
    name: Vec<u8>,
    links: Links,
}

impl Way {
    pub(crate) fn new(base: OwnedFd) -> Way {
        Way { base, levels: Vec::new() }
    }

    /// The folder that is open.
    pub(crate) fn here(&self) -> BorrowedFd<'_> {
        let last = self.levels.last().and_then(|level| level.folder.as_ref());
        last.unwrap_or(&self.base).as_fd()
    }

    /// Goes down.
    ///
    /// # Errors
    /// The host's; then the folder stays open.
    pub(crate) fn enter(&mut self, name: &[u8], links: Links) -> std::result::Result<(), Errno> {
        let folder = open_below(self.here(), name, links)?;
        let identity = facts(&fstat(&folder)?).identity;
        if let Some(far) = self.levels.len().checked_sub(OPEN_MAX)
            && let Some(level) = self.levels.get_mut(far)
        {
            level.folder = None;
        }
        self.levels.push(Level { folder: Some(folder), identity, name: name.to_vec(), links });
        Ok(())
    }

    /// Goes up.
    ///
    /// # Errors
    /// The host's; `STALE` if the folder above is another one by now.
    pub(crate) fn leave(&mut self) -> std::result::Result<(), Errno> {
        let left = self.levels.pop();
        let Some(above) = self.levels.last() else { return Ok(()) };
        if above.folder.is_some() {
            return Ok(());
        }
        let is_same = |folder: &OwnedFd| {
            fstat(folder).is_ok_and(|found| facts(&found).identity == above.identity)
        };
        // Not where it leads after a symbolic link.
        let below = left.and_then(|left| left.folder);
        let by_below = below
            .and_then(|below| openat(below, c"..", FOLDER, Mode::empty()).ok())
            .filter(is_same);
        let folder = match by_below {
            Some(folder) => folder,
            None => Some(self.by_names()?).filter(is_same).ok_or(Errno::STALE)?,
        };
        if let Some(above) = self.levels.last_mut() {
            above.folder = Some(folder);
        }
        Ok(())
    }

    /// Opens the last folder by the names of all on the way.
    fn by_names(&self) -> std::result::Result<OwnedFd, Errno> {
        let mut folder: Option<OwnedFd> = None;
        for Level { name, links, .. } in &self.levels {
            let from = folder.as_ref().unwrap_or(&self.base).as_fd();
            folder = Some(open_below(from, name, *links)?);
        }
        folder.ok_or(Errno::STALE)
    }
}

fn open_below(
    folder: BorrowedFd<'_>,
    name: &[u8],
    links: Links,
) -> std::result::Result<OwnedFd, Errno> {
    let flags = match links {
        Links::Follow => FOLDER,
        Links::Stay => FOLDER | OFlags::NOFOLLOW,
    };
    openat(folder, name, flags, Mode::empty())
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
        let base = open_folder(folder).map_err(|error| Error::host(path, error))?;
        *self.way.borrow_mut() = Some(Way::new(base));
        Ok(if name.is_empty() { b".".to_vec() } else { name.to_vec() })
    }
    fn facts(&self, spot: Spot<'_>, links: Links) -> Result<Facts> {
        let flags = match links {
            Links::Follow => AtFlags::empty(),
            Links::Stay => AtFlags::SYMLINK_NOFOLLOW,
        };
        let stat = self.within(|here| rustix::fs::statat(here, spot.name, flags));
        Ok(facts(&stat.map_err(|error| Error::host(spot.path, error))?))
    }
    fn enter(&self, spot: Spot<'_>, links: Links) -> Result<()> {
        self.on_way(spot.path, |way| way.enter(spot.name, links))
    }
    fn names(&self, path: &Path) -> Result<Vec<Name>> {
        let read = self.within(|here| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let mut names = Vec::new();
            for entry in Dir::new(openat(here, c".", flags, Mode::empty())?)? {
                let bytes = entry?.file_name().to_bytes().to_vec();
                if bytes != b"." && bytes != b".." {
                    names.push(Name { bytes, number: None, stored: None });
                }
            }
            Ok(names)
        });
        let mut names = read.map_err(|error| Error::host(path, error))?;
        names.sort_unstable_by(|one, other| one.bytes.cmp(&other.bytes));
        Ok(names)
    }
    fn leave(&self, path: &Path) -> Result<()> {
        self.on_way(path, Way::leave)
    }
    fn error(&self, path: &Path, said: &str) -> Error {
        Error::host_said(path, said)
    }
    fn directory_names(&self) -> DirectoryNames {
        DirectoryNames::Several
    }
}
