//! Paths inside an image, and walks over the trees below them.
use crate::error::{Error, Result, checked_name};
use extant_engine::{ErrorKind, Filesystem, Inode, Metadata};
use extant_format::inode::FileType;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is asked of a path that ends in a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// What it leads to.
    Follow,
    /// The link itself.
    Stay,
}

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

/// A name below a path.
pub fn join(folder: &Path, name: &[u8]) -> PathBuf {
    folder.join(OsStr::from_bytes(name))
}

/// The names in a directory, sorted by their bytes.
///
/// # Errors
/// A name that no file may have; those of the engine.
pub fn names(filesystem: &Filesystem, folder: &Path) -> Result<Vec<Vec<u8>>> {
    let entries = filesystem.read_dir(folder)?;
    let mut names: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    names.iter().try_for_each(|name| checked_name(folder, name))?;
    Ok(names)
}

/// When a directory is visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Before what is in it.
    Before,
    /// After it.
    After,
}

/// What a visitor wants to see of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Below {
    /// What is in it.
    Enter,
    /// Nothing.
    Skip,
}

/// An object of a walk.
pub struct Visited<'a> {
    /// Its path, as it was reached.
    pub path: &'a Path,
    /// What it is.
    pub metadata: &'a Metadata,
    /// How many directories were entered on the way.
    pub depth: usize,
}

/// What a walk still has to do.
enum Step {
    Visit(PathBuf, usize),
    Leave(PathBuf, Box<Metadata>, usize),
}

/// Calls `visit` for a path and all below it, names sorted. Symbolic links are not followed, but
/// for the path itself where `links` says so. With [`Order::After`] what `visit` returns has no
/// effect.
///
/// # Errors
/// Those of the engine and of `visit`.
pub fn walk(
    filesystem: &Filesystem,
    path: &Path,
    (order, links): (Order, Links),
    visit: &mut dyn FnMut(&Visited<'_>) -> Result<Below>,
) -> Result<()> {
    let mut steps = vec![Step::Visit(path.to_owned(), 0)];
    while let Some(step) = steps.pop() {
        let (path, depth) = match step {
            Step::Leave(path, metadata, depth) => {
                visit(&Visited { path: &path, metadata: &metadata, depth })?;
                continue;
            }
            Step::Visit(path, depth) => (path, depth),
        };
        let metadata = match (links, depth) {
            (Links::Follow, 0) => filesystem.metadata(&path)?,
            _ => filesystem.symlink_metadata(&path)?,
        };
        let is_directory = metadata.file_type == FileType::Directory;
        if order == Order::Before || !is_directory {
            let below = visit(&Visited { path: &path, metadata: &metadata, depth })?;
            if !is_directory || below == Below::Skip {
                continue;
            }
        }
        let names = names(filesystem, &path)?;
        if order == Order::After {
            steps.push(Step::Leave(path.clone(), Box::new(metadata), depth));
        }
        let below = names.iter().rev().map(|name| Step::Visit(join(&path, name), depth + 1));
        steps.extend(below);
    }
    Ok(())
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
