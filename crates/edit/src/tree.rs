//! Paths inside an image.
use crate::error::{Error, Result};
use extant_engine::{ErrorKind, Filesystem, Inode, Metadata};
use extant_format::inode::FileType;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use extant_tree::Links;

/// Whether a call is for one object, or for all below it too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// One object.
    #[default]
    One,
    /// A directory with all that is in it.
    Tree,
}

/// What is at a path; `None` if nothing is.
///
/// # Errors
/// Those of the engine, but `NotFound`.
pub fn found(filesystem: &Filesystem, path: &Path, links: Links) -> Result<Option<Metadata>> {
    let found = match links {
        Links::Follow => filesystem.metadata(path),
        Links::Stay => filesystem.symlink_metadata(path),
    };
    match found {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind, ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a path leads to a directory.
///
/// # Errors
/// Those of the engine, but `NotFound`.
pub fn is_directory(filesystem: &Filesystem, path: &Path) -> Result<bool> {
    let found = found(filesystem, path, Links::Follow)?;
    Ok(found.is_some_and(|found| found.file_type == FileType::Directory))
}

/// The inode at a path.
///
/// # Errors
/// Those of the engine.
pub fn inode(filesystem: &Filesystem, path: &Path, links: Links) -> Result<Inode> {
    Ok(match links {
        Links::Stay => filesystem.inode(path)?,
        Links::Follow => {
            let ino = filesystem.metadata(path)?.ino;
            filesystem.inodes().by_number(ino)?
        }
    })
}

/// The directory that a path is in, and the name there.
///
/// # Errors
/// The root, or a path that ends in `.` or `..`; those of the engine.
pub fn parent<'p>(filesystem: &Filesystem, path: &'p Path) -> Result<(Inode, &'p [u8])> {
    let (folder, name) = split(path);
    if matches!(name, b"" | b"." | b"..") {
        return Err(Error::inside(path, "names no file that could be made or removed"));
    }
    let folder = inode(filesystem, folder, Links::Follow).map_err(|error| {
        // The folder is missing, not the file.
        match error.is_not_found() {
            true => Error { place: crate::Place::Inside(folder.to_owned()), ..error },
            false => error,
        }
    })?;
    Ok((folder, name))
}

/// The same for something that is no directory: a slash at the end says that it is one.
///
/// # Errors
/// As [`parent`]; a path with a slash at its end.
pub fn parent_of_file<'p>(filesystem: &Filesystem, path: &'p Path) -> Result<(Inode, &'p [u8])> {
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(Error::inside(path, "is not a directory"));
    }
    parent(filesystem, path)
}

/// A path as its folder, which is never empty, and its last name, without slashes at its end.
pub fn split(path: &Path) -> (&Path, &[u8]) {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let bytes = &bytes[..end];
    match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (Path::new(OsStr::from_bytes(&bytes[..slash.max(1)])), &bytes[slash + 1..]),
        None => (Path::new("/"), bytes),
    }
}

/// A name without the slashes at its end.
pub(crate) fn without_slashes(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    name.get(..end).unwrap_or_default()
}

/// A name below a path.
pub fn join(folder: &Path, name: &[u8]) -> PathBuf {
    folder.join(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_folder_and_a_name() {
        for (path, folder, name) in [
            ("/a", "/", "a"),
            ("/a/b", "/a", "b"),
            ("/a/b//", "/a", "b"),
            ("//a", "/", "a"),
            ("/", "/", ""),
            ("", "/", ""),
            ("/a/..", "/a", ".."),
        ] {
            let (found, last) = split(Path::new(path));
            assert_eq!((found, last), (Path::new(folder), name.as_bytes()), "{path}");
        }
    }
}
