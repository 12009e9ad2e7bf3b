//! What moves names: mv.
use crate::change::Change;
use crate::error::{Error, Result};
use crate::tree::{self, Links};
use extant_engine::Rename;
use extant_format::inode::FileType;
use std::path::Path;

/// What becomes of a name that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and so does what was to be moved (`-n`).
    Keep,
}

/// Whether a name was moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// It was.
    Yes,
    /// The new name was there, and stays.
    Kept,
}

/// Moves a name.
///
/// # Errors
/// Both names are of one file; a directory and something else; those of the engine.
pub fn rename(change: &Change, from: &Path, to: &Path, existing: Existing) -> Result<Moved> {
    let moved = change.symlink_metadata(from)?;
    if let Some(there) = tree::found(change, to, Links::Stay)? {
        if existing == Existing::Keep {
            return Ok(Moved::Kept);
        }
        if there.ino == moved.ino {
            return rename_link(change, from, to);
        }
        // As mv(1) has it: what a link leads to is not replaced by the link.
        let leads_to = tree::found(change, from, Links::Follow)?;
        if leads_to.is_some_and(|found| found.ino == there.ino) {
            return Err(Error::inside(from, format!("is the same file as {}", to.display())));
        }
        let is_directory = |file_type| file_type == FileType::Directory;
        match (is_directory(moved.file_type), is_directory(there.file_type)) {
            (true, false) => return Err(Error::inside(to, "is no directory, and stays one")),
            (false, true) => return Err(Error::inside(to, "is a directory, and stays one")),
            _ => {}
        }
    }
    if moved.file_type != FileType::Directory {
        tree::parent_of_file(change, to).map_err(Error::of_missing_folder)?;
    }
    change.rename(from, to, Rename::Replace).map_err(|error| match error.kind {
        extant_engine::ErrorKind::InvalidArgument(_) => {
            Error::inside(from, format!("cannot become a part of itself: {}", to.display()))
        }
        _ => error.into(),
    })?;
    Ok(Moved::Yes)
}

/// Moves a name of a file to another name that it has: the first one goes, as mv(1) has it.
fn rename_link(change: &Change, from: &Path, to: &Path) -> Result<Moved> {
    let place = |path| {
        let (folder, name) = tree::parent(change, path)?;
        Ok::<_, Error>((folder.number(), name))
    };
    if place(from)? == place(to)? {
        return Err(Error::inside(from, format!("is the same file as {}", to.display())));
    }
    change.remove_file(from)?;
    Ok(Moved::Yes)
}
