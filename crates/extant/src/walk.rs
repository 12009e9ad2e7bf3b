//! The walk over a tree as an iterator that borrows nothing.
//!
//! *Invariants*: each object is reached by the number of its inode, never by a path from the root,
//! so a level costs the same however deep it is. No directory is entered twice: a walk ends
//! whatever is on disk. (`extant_edit::walk` goes the same way for commands, and calls; this one is
//! called.)
use crate::error::{Error, ErrorKind, Result};
use extant_engine::{DirectoryEntry, Filesystem, Follow, Inode, Metadata};
use extant_format::Ino;
use extant_format::inode::FileType;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::iter::FusedIterator;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

/// An object that a walk meets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where it is: the path that the walk began at, and the names from there on.
    pub path: PathBuf,
    /// What `lstat` tells of it.
    pub metadata: Metadata,
}

/// How far a walk goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// What is in one directory.
    Directory,
    /// An object, and all below it.
    Tree,
}

/// A directory that the walk is in.
struct Level {
    path: PathBuf,
    names: IntoIter<DirectoryEntry>,
}

/// Gives [`Entry`] after entry. What cannot be read is an error in its place, with its path, and
/// the walk goes on after it.
///
/// It keeps the image open, and sees what changes meanwhile in directories that it has not come to
/// yet.
pub struct Walk {
    filesystem: Filesystem,
    reach: Reach,
    /// Where it begins, as long as that was not given.
    first: Option<Entry>,
    levels: Vec<Level>,
    /// The directories that were entered.
    seen: BTreeSet<Ino>,
    /// Met before the next entry.
    trouble: Option<Error>,
}

impl Walk {
    /// # Errors
    /// The path leads nowhere; for [`Reach::Directory`], to no directory, or to one that cannot be
    /// read.
    pub(crate) fn new(filesystem: &Filesystem, path: &Path, reach: Reach) -> Result<Walk> {
        let mut walk = Walk {
            filesystem: filesystem.clone(),
            reach,
            first: None,
            levels: Vec::new(),
            seen: BTreeSet::new(),
            trouble: None,
        };
        let inodes = filesystem.inodes();
        let follow = match reach {
            Reach::Directory => Follow::Last,
            Reach::Tree => Follow::NotLast,
        };
        let bytes = path.as_os_str().as_bytes();
        let found = inodes.root().and_then(|root| inodes.resolve(&root, bytes, follow));
        let inode = found.map_err(|error| error.at(path))?;
        match reach {
            Reach::Directory => walk.enter(&inode, path)?,
            Reach::Tree => {
                let metadata = inodes.metadata(&inode).map_err(|error| error.at(path))?;
                walk.first = Some(Entry { path: path.to_owned(), metadata });
            }
        }
        Ok(walk)
    }

    /// Goes into a directory.
    fn enter(&mut self, inode: &Inode, path: &Path) -> Result<()> {
        if !self.seen.insert(inode.number()) {
            let words = "directory has another name already, or is its own ancestor";
            return Err(Error::new(ErrorKind::Damaged, words).at(path));
        }
        let names = self.filesystem.inodes().names(inode);
        let mut names = names.map_err(|error| error.at(path))?;
        names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.levels.push(Level { path: path.to_owned(), names: names.into_iter() });
        Ok(())
    }

    /// What a name leads to.
    fn visit(&mut self, path: PathBuf, name: &DirectoryEntry) -> Result<Entry> {
        if name.stored.is_some() {
            let words = "is written so, as no file may have the name that is on disk";
            return Err(Error::new(ErrorKind::Damaged, words).at(path));
        }
        let inodes = self.filesystem.inodes();
        let inode = inodes.by_number(name.ino).map_err(|error| error.at(&path))?;
        let metadata = inodes.metadata(&inode).map_err(|error| error.at(&path))?;
        let entry = Entry { path, metadata };
        self.descend(&inode, &entry);
        Ok(entry)
    }

    /// Goes into an entry that is given now, if it is a directory that is wanted.
    fn descend(&mut self, inode: &Inode, entry: &Entry) {
        if self.reach == Reach::Tree && entry.metadata.file_type == FileType::Directory {
            self.trouble = self.enter(inode, &entry.path).err();
        }
    }
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        if let Some(error) = self.trouble.take() {
            return Some(Err(error));
        }
        if let Some(entry) = self.first.take() {
            match self.filesystem.inodes().by_number(entry.metadata.ino) {
                Ok(inode) => self.descend(&inode, &entry),
                Err(error) => self.trouble = Some(error.at(&entry.path).into()),
            }
            return Some(Ok(entry));
        }
        loop {
            let level = self.levels.last_mut()?;
            match level.names.next() {
                Some(name) => {
                    let path = level.path.join(OsStr::from_bytes(&name.name));
                    return Some(self.visit(path, &name));
                }
                None => drop(self.levels.pop()),
            }
        }
    }
}

impl FusedIterator for Walk {}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Walk({} levels deep)", self.levels.len())
    }
}
