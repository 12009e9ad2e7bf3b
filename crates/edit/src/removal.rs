//! What removes names: rm, rmdir.
use crate::change::Change;
use crate::error::{Error, Result};
use crate::tree::{self, Below, Links, Order};
use extant_format::inode::FileType;
use std::path::Path;

/// How much goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Anything but a directory.
    File,
    /// A directory too, with all that is in it.
    Tree,
}

/// Removes a name; returns how many.
///
/// # Errors
/// A directory that is not to be removed, the root, `.` or `..`; those of the engine.
pub fn remove(change: &Change, path: &Path, depth: Depth) -> Result<u64> {
    let metadata = change.symlink_metadata(path)?;
    if matches!(tree::split(path).1, b"" | b"." | b"..") {
        return Err(Error::inside(path, "\"/\", \".\" and \"..\" are not removed"));
    }
    if metadata.file_type != FileType::Directory {
        change.remove_file(path)?;
        return Ok(1);
    }
    if depth == Depth::File {
        return Err(Error::inside(path, "is a directory").hint("rm -r removes it with its content"));
    }
    let mut removed = 0;
    tree::walk(change, path, (Order::After, Links::Stay), &mut |visited| {
        match visited.metadata.file_type {
            FileType::Directory => change.remove_dir(visited.path)?,
            _ => change.remove_file(visited.path)?,
        }
        removed += 1;
        Ok(Below::Enter)
    })?;
    Ok(removed)
}

/// Removes an empty directory.
///
/// # Errors
/// Those of the engine.
pub fn remove_directory(change: &Change, path: &Path) -> Result<()> {
    Ok(change.remove_dir(path)?)
}
