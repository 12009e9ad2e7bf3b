//! What removes names: rm, rmdir.
use crate::error::{Error, Result};
use crate::tree::{self, Links};
use crate::walk::{self, Below, Event, ImageTree, Loops, Manner, Visited};
use extant_engine::Filesystem;
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

/// Removes a name; returns how many. A directory that is its own ancestor stays, and so do those
/// that it is in; it is added to `loops`.
///
/// # Errors
/// A directory that is not to be removed, the root, `.` or `..`; those of the engine.
pub fn remove(
    filesystem: &Filesystem,
    path: &Path,
    depth: Depth,
    loops: &mut Loops,
) -> Result<u64> {
    let metadata = filesystem.symlink_metadata(path)?;
    if matches!(tree::split(path).1, b"" | b"." | b"..") {
        return Err(Error::inside(path, "\"/\", \".\" and \"..\" are not removed"));
    }
    if metadata.file_type != FileType::Directory {
        filesystem.remove_file(path)?;
        return Ok(1);
    }
    if depth == Depth::File {
        return Err(Error::inside(path, "is a directory").hint("rm -r removes it with its content"));
    }
    let mut removed = 0;
    let image = ImageTree::new(filesystem);
    let inodes = filesystem.inodes();
    let mut gone = |visited: Visited<'_>| {
        let (folder, name) = (image.here()?, tree::without_slashes(visited.spot.name));
        let done = match visited.facts.file_type {
            FileType::Directory => inodes.remove_directory(&folder, name),
            _ => inodes.unlink(&folder, name),
        };
        removed += 1;
        done.map_err(|error| Error::from(error.at(visited.spot.path)))
    };
    // Directories that the walk is in, and how many of them have something in them that stays.
    let (mut within, mut kept) = (0_usize, 0_usize);
    walk::walk(&image, path, Manner::plain(Links::Stay), &mut |event| {
        match event {
            Event::Found(visited) if visited.facts.file_type == FileType::Directory => within += 1,
            Event::Found(visited) => gone(visited)?,
            Event::Left(visited) => {
                within -= 1;
                match kept > within {
                    true => kept = within,
                    false => gone(visited)?,
                }
            }
            Event::Trouble(error) if error.is_loop() => {
                loops.push(error);
                kept = within;
            }
            Event::Trouble(error) => return Err(error),
        }
        Ok(Below::Enter)
    })?;
    Ok(removed)
}

/// Removes an empty directory.
///
/// # Errors
/// Those of the engine.
pub fn remove_directory(filesystem: &Filesystem, path: &Path) -> Result<()> {
    Ok(filesystem.remove_dir(path)?)
}
