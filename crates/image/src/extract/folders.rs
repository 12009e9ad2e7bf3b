//! Where in the target we are: the directories from its root to the one that is being filled.
//!
//! *Invariants*: of the directories of the image those that are not left out are those of the way
//! in the target, and all below one that is left out is left out.
use extant_engine::survey::ObjectId;
use extant_tree::Links;
use extant_tree::host::{Back, Way};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

/// How directories are opened.
pub(super) const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Whether a directory of the target can be filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    Here,
    /// It could not be made: all below it is left out.
    LeftOut,
}

/// How a directory came to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    New,
    /// It was there before.
    Found,
}

/// The way down.
pub(super) struct Folders {
    way: Way,
    /// The object that the root stands for.
    root: ObjectId,
    /// Those below the root.
    levels: Vec<(ObjectId, Reached)>,
}

impl Folders {
    /// At the root of the target, which stands for an object of the image.
    pub(super) fn new(root: OwnedFd, object: ObjectId) -> Folders {
        Folders { way: Way::new(root, FOLDER), root: object, levels: Vec::new() }
    }

    /// The root of the target.
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.way.base()
    }

    /// The object that the root stands for.
    pub(super) fn root_object(&self) -> ObjectId {
        self.root
    }

    /// The object of the last directory.
    pub(super) fn here(&self) -> ObjectId {
        self.levels.last().map_or(self.root, |(object, _)| *object)
    }

    /// The last directory; `None` if it is left out.
    pub(super) fn folder(&self) -> Option<BorrowedFd<'_>> {
        match self.levels.last() {
            Some((_, Reached::LeftOut)) => None,
            _ => Some(self.way.here()),
        }
    }

    /// Goes down into a directory that is open.
    ///
    /// # Errors
    /// Those of the host.
    pub(super) fn push(
        &mut self,
        object: ObjectId,
        folder: OwnedFd,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.way.push(folder, name, Links::Stay)?;
        self.levels.push((object, Reached::Here));
        Ok(())
    }

    /// Goes down into a directory that is left out.
    pub(super) fn push_left_out(&mut self, object: ObjectId) {
        self.levels.push((object, Reached::LeftOut));
    }

    /// Goes up; gives the directory that was left, and its object, `None` at the root.
    ///
    /// # Errors
    /// The directory above cannot be opened, or is another one by now.
    pub(super) fn pop(&mut self) -> Result<Option<(ObjectId, Option<OwnedFd>)>, Errno> {
        Ok(match self.levels.pop() {
            Some((object, Reached::Here)) => Some((object, self.way.leave(Back::Parent)?)),
            Some((object, Reached::LeftOut)) => Some((object, None)),
            None => None,
        })
    }
}

/// Makes a directory, closed to others, or opens the one that is there.
///
/// # Errors
/// `NOTDIR` or `LOOP` if something else is there; others of the host.
pub(super) fn make(folder: BorrowedFd<'_>, name: &[u8]) -> Result<(OwnedFd, Origin), Errno> {
    let origin = match mkdirat(folder, name, Mode::RWXU) {
        Ok(()) => Origin::New,
        Err(Errno::EXIST) => Origin::Found,
        Err(error) => return Err(error),
    };
    Ok((openat(folder, name, FOLDER, Mode::empty())?, origin))
}

/// Takes away what is no directory.
///
/// # Errors
/// `ISDIR` for a directory; others of the host.
pub(super) fn remove(folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    unlinkat(folder, name, AtFlags::empty())
}
