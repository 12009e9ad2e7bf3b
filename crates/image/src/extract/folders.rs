//! Where in the target we are: the directories from its root to the one that is being filled, with
//! a descriptor for the last of them.
//!
//! *Invariants*: the last directory that is not left out has a descriptor. Of the others all but
//! the root may have been closed; they are opened again through `..` from below, and it is made
//! sure that this is the same directory. So neither the depth of a tree nor what others rename
//! meanwhile leads anywhere else.
use extant_engine::survey::ObjectId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use std::fs::File;

/// Descriptors that are kept open.
const OPEN_MAX: usize = 48;

/// How directories are opened.
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// A directory on the way down.
pub(super) struct Level {
    pub(super) object: ObjectId,
    pub(super) state: LevelState,
    /// What it is when it is opened again; known when it was closed.
    identity: Option<(u64, u64)>,
}

/// What there is of a directory.
pub(super) enum LevelState {
    Open(File),
    Closed,
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
    levels: Vec<Level>,
}

impl Folders {
    /// At the root of the target, which stands for an object of the image.
    pub(super) fn new(root: File, object: ObjectId) -> Folders {
        Folders { levels: vec![Level { object, state: LevelState::Open(root), identity: None }] }
    }

    /// The root of the target.
    pub(super) fn root(&self) -> Option<&File> {
        match &self.levels.first()?.state {
            LevelState::Open(file) => Some(file),
            LevelState::Closed | LevelState::LeftOut => None,
        }
    }

    /// The object that the root stands for.
    pub(super) fn root_object(&self) -> Option<ObjectId> {
        self.levels.first().map(|level| level.object)
    }

    /// The object of the last directory.
    pub(super) fn here(&self) -> Option<ObjectId> {
        self.levels.last().map(|level| level.object)
    }

    /// The last directory; `None` if it is left out.
    pub(super) fn folder(&self) -> Option<&File> {
        match &self.levels.last()?.state {
            LevelState::Open(file) => Some(file),
            LevelState::Closed | LevelState::LeftOut => None,
        }
    }

    /// Whether we are at the root.
    pub(super) fn is_at_root(&self) -> bool {
        self.levels.len() == 1
    }

    /// Goes down into a directory that is open, or that is left out.
    ///
    /// # Errors
    /// Those of the host.
    pub(super) fn push(&mut self, object: ObjectId, state: LevelState) -> Result<(), Errno> {
        if let (LevelState::Open(_), Some(at)) = (&state, self.levels.len().checked_sub(OPEN_MAX))
            && at > 0
            && let LevelState::Open(file) = &self.levels[at].state
        {
            let found = fstat(file)?;
            self.levels[at].identity = Some((found.st_dev, found.st_ino));
            self.levels[at].state = LevelState::Closed;
        }
        self.levels.push(Level { object, state, identity: None });
        Ok(())
    }

    /// Goes up; gives the directory that was left. The root is never left.
    ///
    /// # Errors
    /// The directory above cannot be opened, or is another one by now.
    pub(super) fn pop(&mut self) -> Result<Option<Level>, Errno> {
        if self.is_at_root() {
            return Ok(None);
        }
        let Some(left) = self.levels.pop() else { return Ok(None) };
        if let (LevelState::Open(below), Some(above)) = (&left.state, self.levels.last_mut())
            && matches!(above.state, LevelState::Closed)
        {
            let opened = openat(below, c"..", FOLDER, Mode::empty())?;
            let found = fstat(&opened)?;
            if above.identity != Some((found.st_dev, found.st_ino)) {
                return Err(Errno::STALE);
            }
            above.state = LevelState::Open(opened.into());
        }
        Ok(Some(left))
    }
}

/// Makes a directory, closed to others, or opens the one that is there.
///
/// # Errors
/// `NOTDIR` or `LOOP` if something else is there; others of the host.
pub(super) fn make(folder: &File, name: &[u8]) -> Result<(File, Origin), Errno> {
    let origin = match mkdirat(folder, name, Mode::RWXU) {
        Ok(()) => Origin::New,
        Err(Errno::EXIST) => Origin::Found,
        Err(error) => return Err(error),
    };
    Ok((open(folder.as_fd(), name)?.into(), origin))
}

/// Opens a directory, and nothing else.
///
/// # Errors
/// As [`make`].
pub(super) fn open(folder: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(folder, name, FOLDER, Mode::empty())
}

/// Takes away what is no directory.
///
/// # Errors
/// `ISDIR` for a directory; others of the host.
pub(super) fn remove(folder: &File, name: &[u8]) -> Result<(), Errno> {
    unlinkat(folder, name, AtFlags::empty())
}
