//! What inode flags forbid, to every caller.
//!
//! As on Linux this holds for root too: nothing immutable changes, and what is append-only can only
//! grow at its end. What depends on the caller is in `access`.
//!
//! The order of these checks among others (`Exists` and `NotFound` before, `IsDirectory` and
//! `NotEmpty` after) is that of Linux. The test `kernel_rules` compares it with a kernel mount,
//! call by call.
//!
//! *Locking*: the caller has locked the inodes.
use crate::error::{ErrorKind, Result};
use crate::inode::node::NodeState;
use crate::inode::volume::Volume;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::Feature;

/// The right to change bytes or names.
pub(crate) const WRITE: u16 = 2;

fn has(state: &NodeState, flag: u32) -> bool {
    state.inode.flags & flag != 0
}

/// Fails if the inode is immutable.
pub(crate) fn check_not_immutable(state: &NodeState) -> Result<()> {
    if has(state, flags::IMMUTABLE) {
        return Err(ErrorKind::NotPermitted("it is immutable").into());
    }
    Ok(())
}

/// Fails if the inode is append-only.
pub(crate) fn check_not_append(state: &NodeState) -> Result<()> {
    if has(state, flags::APPEND) {
        return Err(ErrorKind::NotPermitted("it is append-only").into());
    }
    Ok(())
}

/// Fails in either case: attributes, owner, times and links must not change then.
pub(crate) fn check_not_locked(state: &NodeState) -> Result<()> {
    check_not_immutable(state)?;
    check_not_append(state)
}

/// Fails if the content must not change: it is encrypted, or sealed by verity.
pub(crate) fn check_content(volume: &Volume, state: &NodeState) -> Result<()> {
    state.check_not_encrypted(volume)?;
    if has(state, flags::VERITY) {
        return Err(ErrorKind::NotPermitted("verity seals its content").into());
    }
    Ok(())
}

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opening {
    ToRead,
    ToWrite,
}

/// What a file is opened for by a caller who wants these rights.
pub(crate) fn opening(wanted: u16) -> Opening {
    if wanted & WRITE == 0 { Opening::ToRead } else { Opening::ToWrite }
}

/// Fails if a file must not be opened for this: an encrypted one for anything, as without the key
/// on Linux, and one with verity to be written.
pub(crate) fn check_may_open(volume: &Volume, state: &NodeState, opening: Opening) -> Result<()> {
    match (state.file_type()?, opening) {
        (FileType::Regular, Opening::ToWrite) => check_content(volume, state),
        (FileType::Regular, Opening::ToRead) => state.check_not_encrypted(volume),
        _ => Ok(()),
    }
}

/// Fails if names of a directory must not be made or moved: what to call them takes the key.
pub(crate) fn check_names(volume: &Volume, directory: &NodeState) -> Result<()> {
    directory.check_not_encrypted(volume)
}

/// Fails if a name must not be added to a directory.
pub(crate) fn check_may_add(directory: &NodeState) -> Result<()> {
    if has(directory, flags::IMMUTABLE) {
        return Err(ErrorKind::NotPermitted("the directory is immutable").into());
    }
    Ok(())
}

/// Fails if a name must not be removed from a directory, or `child` must not lose it.
pub(crate) fn check_may_unlink(directory: &NodeState, child: &NodeState) -> Result<()> {
    check_may_add(directory)?;
    if has(directory, flags::APPEND) {
        return Err(ErrorKind::NotPermitted("the directory is append-only").into());
    }
    check_not_locked(child)
}

/// Fails if a directory takes objects of its own project only, and this one belongs to another.
pub(crate) fn check_project(
    volume: &Volume,
    directory: &NodeState,
    child: &NodeState,
) -> Result<()> {
    let takes_all = !volume.store.superblock.has(Feature::PROJECT)
        || !has(directory, flags::PROJECT_INHERIT)
        || directory.inode.project == child.inode.project;
    if takes_all { Ok(()) } else { Err(ErrorKind::OtherProject.into()) }
}

/// The project of a new object in a directory.
pub(crate) fn inherited_project(volume: &Volume, parent: &Inode) -> u32 {
    let inherits =
        volume.store.superblock.has(Feature::PROJECT) && parent.flags & flags::PROJECT_INHERIT != 0;
    if inherits { parent.project } else { 0 }
}

/// Flags that every new file or directory inherits.
const INHERITED: u32 = flags::SECURE_DELETION
    | flags::UNDELETE
    | flags::COMPRESS
    | flags::SYNC
    | flags::NODUMP
    | flags::NOATIME;

/// The flags that a new object inherits from its directory.
pub(crate) fn inherited_flags(parent: u32, file_type: FileType) -> u32 {
    match file_type {
        FileType::Directory => {
            parent & (INHERITED | flags::DIRECTORY_SYNC | flags::PROJECT_INHERIT)
        }
        FileType::Regular => parent & INHERITED,
        _ => parent & (flags::NODUMP | flags::NOATIME),
    }
}
