//! Folders of the host: by paths of any length, by names from one that is open, and the way down.
use super::{Links, identity};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Dir, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

/// How a folder is opened that others are reached from.
pub const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Folders on the way down that are kept open.
const OPEN_MAX: usize = 48;
/// Bytes of a path that are given to the kernel at once: it takes 4,095.
const PATH_PIECE: usize = 4000;

/// Opens a folder by a path of any length; an empty one is the working directory.
///
/// # Errors
/// The host's.
pub fn open_path(path: &[u8]) -> Result<OwnedFd, Errno> {
    open_path_from(CWD, path, FOLDER)
}

/// Opens a folder by a path of any length from another folder, which an empty path is. Symbolic
/// links on the way are followed: see [`open_below`] where a stranger may have made them.
///
/// # Errors
/// The host's.
pub fn open_path_from(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
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
        let from = folder.as_ref().map_or(root, AsFd::as_fd);
        folder = Some(openat(from, piece, flags, Mode::empty())?);
        rest = rest.get(piece.len()..).unwrap_or_default();
        while let Some(tail) = rest.strip_prefix(b"/") {
            rest = tail;
        }
        if let Some(folder) = folder.take_if(|_| rest.is_empty()) {
            return Ok(folder);
        }
    }
}

/// Opens a folder below another by the names on the way, one by one; the other one again, if there
/// are none.
///
/// # Errors
/// The host's.
pub fn open_below<'n>(
    root: BorrowedFd<'_>,
    names: impl IntoIterator<Item = &'n [u8]>,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let mut folder: Option<OwnedFd> = None;
    for name in names {
        let from = folder.as_ref().map_or(root, AsFd::as_fd);
        folder = Some(openat(from, name, flags, Mode::empty())?);
    }
    folder.map_or_else(|| openat(root, c".", flags, Mode::empty()), Ok)
}

/// The names in a folder that is open to be read, sorted: the order in which the host lists them
/// has no effect.
///
/// # Errors
/// The host's.
pub fn names(folder: OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    // Not `read_from`, which opens the folder once more, and changes its access time.
    for entry in Dir::new(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// How the folder above is found again, where it was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Back {
    /// By `..` alone. What was filled and is not there any more is an error.
    Parent,
    /// By `..`, and where a symbolic link led or a folder was moved, by all names on the way.
    ParentOrNames,
}

/// The way down from a folder, with the last folder open.
///
/// *Invariants*: of the folders above all but the nearest may have been closed. They are opened
/// again from below by `..`, or by their names from the beginning, and it is made sure that each is
/// the one that it was. So neither the depth of a tree nor what others rename meanwhile leads
/// anywhere else.
#[derive(Debug)]
pub struct Way {
    base: OwnedFd,
    levels: Vec<Level>,
    flags: OFlags,
}

#[derive(Debug)]
struct Level {
    folder: Option<OwnedFd>,
    identity: (u64, u64),
    name: Vec<u8>,
    links: Links,
}

impl Way {
    /// At its beginning. `flags` say how folders are opened: [`FOLDER`], or to be read.
    pub fn new(base: OwnedFd, flags: OFlags) -> Way {
        Way { base, levels: Vec::new(), flags }
    }

    /// The folder that it begins at.
    pub fn base(&self) -> BorrowedFd<'_> {
        self.base.as_fd()
    }

    /// The folder that is open.
    pub fn here(&self) -> BorrowedFd<'_> {
        let last = self.levels.last().and_then(|level| level.folder.as_ref());
        last.unwrap_or(&self.base).as_fd()
    }

    /// Goes down.
    ///
    /// # Errors
    /// The host's; then the folder stays open.
    pub fn enter(&mut self, name: &[u8], links: Links) -> Result<(), Errno> {
        let folder = open_one(self.here(), name, links, self.flags)?;
        self.push(folder, name, links)
    }

    /// Goes down into a folder that was opened or made by this name.
    ///
    /// # Errors
    /// The host's; then the folder stays open.
    pub fn push(&mut self, folder: OwnedFd, name: &[u8], links: Links) -> Result<(), Errno> {
        let identity = identity(&fstat(&folder)?);
        if let Some(far) = self.levels.len().checked_sub(OPEN_MAX)
            && let Some(level) = self.levels.get_mut(far)
        {
            level.folder = None;
        }
        self.levels.push(Level { folder: Some(folder), identity, name: name.to_vec(), links });
        Ok(())
    }

    /// Goes up; gives the folder that was left, `None` at the beginning.
    ///
    /// # Errors
    /// The host's; `STALE` if the folder above is another one by now, and with [`Back::Parent`] if
    /// the folder that is left was moved.
    pub fn leave(&mut self, back: Back) -> Result<Option<OwnedFd>, Errno> {
        let left = self.levels.pop().and_then(|left| left.folder);
        let Some(above) = self.levels.last().filter(|above| above.folder.is_none()) else {
            return Ok(left);
        };
        let is_same =
            |folder: &OwnedFd| fstat(folder).is_ok_and(|found| identity(&found) == above.identity);
        // Not where it leads after a symbolic link.
        let by_left = left
            .as_ref()
            .and_then(|left| openat(left, c"..", self.flags, Mode::empty()).ok())
            .filter(is_same);
        let folder = match by_left {
            Some(folder) => folder,
            None if back == Back::Parent => return Err(Errno::STALE),
            None => Some(self.by_names()?).filter(is_same).ok_or(Errno::STALE)?,
        };
        if let Some(above) = self.levels.last_mut() {
            above.folder = Some(folder);
        }
        Ok(left)
    }

    /// Opens the last folder by the names of all on the way.
    fn by_names(&self) -> Result<OwnedFd, Errno> {
        let mut folder: Option<OwnedFd> = None;
        for Level { name, links, .. } in &self.levels {
            let from = folder.as_ref().unwrap_or(&self.base).as_fd();
            folder = Some(open_one(from, name, *links, self.flags)?);
        }
        folder.ok_or(Errno::STALE)
    }
}

fn open_one(
    folder: BorrowedFd<'_>,
    name: &[u8],
    links: Links,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = match links {
        Links::Follow => flags,
        Links::Stay => flags | OFlags::NOFOLLOW,
    };
    openat(folder, name, flags, Mode::empty())
}
