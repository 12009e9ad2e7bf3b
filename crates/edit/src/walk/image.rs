//! The tree in an image: each object by the number of its inode.
use super::{DirectoryNames, Found, Name, Spot, Tree};
use crate::error::{Error, Result};
use crate::tree::Links;
use extant_engine::{Filesystem, Follow, Inode, Metadata};
use extant_format::Ino;
use extant_format::inode::FileType;
use extant_tree::Facts;
use extant_tree::flags::SETTABLE;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file system, with one directory of it open.
pub struct ImageTree<'a> {
    filesystem: &'a Filesystem,
    /// The directories that were entered, the one that is open last.
    way: RefCell<Vec<Ino>>,
}

/// What an object of an image is like.
fn found(metadata: &Metadata) -> Found {
    let facts = Facts {
        file_type: metadata.file_type,
        permissions: metadata.mode & 0o7777,
        uid: metadata.uid,
        gid: metadata.gid,
        size: metadata.size,
        modify_time: metadata.modify_time,
        access_time: Some(metadata.access_time),
        change_time: Some(metadata.change_time),
        device: metadata.device.unwrap_or_default(),
        flags: Some(metadata.flags & SETTABLE),
    };
    Found { facts, links: metadata.links.into(), identity: (0, metadata.ino.0.into()) }
}

/// A path as the folder that its last name is in, and that name with the slashes after it.
pub(super) fn parted(path: &Path) -> (&[u8], &[u8]) {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let named = bytes.get(..end).unwrap_or_default();
    let cut = named.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    match end {
        0 => (bytes, b""),
        _ => bytes.split_at_checked(cut).unwrap_or((b"", bytes)),
    }
}

impl<'a> ImageTree<'a> {
    /// With the root open.
    pub fn new(filesystem: &'a Filesystem) -> ImageTree<'a> {
        ImageTree { filesystem, way: RefCell::new(vec![Ino::ROOT]) }
    }

    /// The file system.
    pub fn filesystem(&self) -> &'a Filesystem {
        self.filesystem
    }

    /// The directory that is open.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn here(&self) -> Result<Inode> {
        let number = self.way.borrow().last().copied().unwrap_or(Ino::ROOT);
        Ok(self.filesystem.inodes().by_number(number)?)
    }

    /// The inode at a place.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn inode(&self, spot: Spot<'_>, links: Links) -> Result<Inode> {
        self.find(spot, links).map_err(|error| error.at(spot.path).into())
    }

    fn find(&self, spot: Spot<'_>, links: Links) -> extant_engine::Result<Inode> {
        let inodes = self.filesystem.inodes();
        let here = || {
            let number = self.way.borrow().last().copied().unwrap_or(Ino::ROOT);
            inodes.by_number(number)
        };
        let Some(number) = spot.number else {
            let follow = match links {
                Links::Follow => Follow::Last,
                Links::Stay => Follow::NotLast,
            };
            return inodes.resolve(&here()?, spot.name, follow);
        };
        let inode = inodes.by_number(number)?;
        let is_symlink = || {
            Ok(inodes.metadata(&inode)?.file_type == FileType::Symlink) as extant_engine::Result<_>
        };
        match links == Links::Follow && is_symlink()? {
            true => self.follow(&here()?, &inode),
            false => Ok(inode),
        }
    }

    /// What a symbolic link in a directory leads to.
    fn follow(&self, from: &Inode, link: &Inode) -> extant_engine::Result<Inode> {
        let inodes = self.filesystem.inodes();
        let target = inodes.read_link(link)?;
        match target.first() {
            Some(b'/') => inodes.resolve(&inodes.root()?, &target, Follow::Last),
            _ => inodes.resolve(from, &target, Follow::Last),
        }
    }
}

impl Tree for ImageTree<'_> {
    fn begin(&self, path: &Path) -> Result<Vec<u8>> {
        let (folder, name) = parted(path);
        let inodes = self.filesystem.inodes();
        let found = inodes.root().and_then(|root| inodes.resolve(&root, folder, Follow::Last));
        let folder = found.map_err(|error| error.at(OsStr::from_bytes(folder)))?;
        *self.way.borrow_mut() = vec![folder.number()];
        Ok(name.to_vec())
    }
    fn facts(&self, spot: Spot<'_>, links: Links) -> Result<Found> {
        let inode = self.inode(spot, links)?;
        let metadata = self.filesystem.inodes().metadata(&inode);
        Ok(found(&metadata.map_err(|error| error.at(spot.path))?))
    }
    fn enter(&self, spot: Spot<'_>, links: Links) -> Result<()> {
        let number = self.inode(spot, links)?.number();
        self.way.borrow_mut().push(number);
        Ok(())
    }
    fn names(&self, path: &Path) -> Result<Vec<Name>> {
        let here = self.here()?;
        let entries = self.filesystem.inodes().names(&here).map_err(|error| error.at(path))?;
        let name = |entry: extant_engine::DirectoryEntry| Name {
            bytes: entry.name,
            number: Some(entry.ino),
            stored: entry.stored,
        };
        let mut names: Vec<Name> = entries.into_iter().map(name).collect();
        names.sort_unstable_by(|one, other| one.bytes.cmp(&other.bytes));
        Ok(names)
    }
    fn leave(&self, _path: &Path) -> Result<()> {
        self.way.borrow_mut().pop();
        Ok(())
    }
    fn error(&self, path: &Path, said: &str) -> Error {
        Error::inside(path, said)
    }
    fn directory_names(&self) -> DirectoryNames {
        DirectoryNames::One
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_parted_before_its_last_name() {
        for (path, folder, name) in [
            ("/a", "/", "a"),
            ("/a/b//", "/a/", "b//"),
            ("a", "", "a"),
            ("/", "/", ""),
            ("", "", ""),
            ("/a/.", "/a/", "."),
        ] {
            let parts = parted(Path::new(path));
            assert_eq!(parts, (folder.as_bytes(), name.as_bytes()), "{path}");
        }
    }
}
