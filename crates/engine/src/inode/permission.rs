//! What inode flags forbid, and which rights of a file end when it is changed.
//!
//! The engine knows no caller and acts as root, with two exceptions that root has on Linux too:
//! nothing immutable changes, and what is append-only can only grow at its end. It also removes
//! set-user-ID, set-group-ID and capabilities where the kernel does so for a process without
//! privileges: the engine cannot tell on whose behalf it makes the change, and a program must not
//! keep its owner's rights with content from someone else.
//!
//! The order of these checks among others (`Exists` and `NotFound` before, `IsDirectory` and
//! `NotEmpty` after) is that of Linux. The test `kernel_rules` compares it with a kernel mount,
//! call by call.
//!
//! *Locking*: the caller has locked the inodes.
use crate::error::{ErrorKind, Result};
use crate::inode::node::NodeState;
use extant_format::inode::{FileType, flags};

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;

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

/// The mode of a file without set-user-ID. Set-group-ID is removed as well if the group may execute
/// the file: otherwise that bit means something else.
pub(crate) fn without_set_id(mode: u16) -> u16 {
    match mode & GROUP_EXECUTE {
        0 => mode & !SET_USER_ID,
        _ => mode & !(SET_USER_ID | SET_GROUP_ID),
    }
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
        FileType::Directory => parent & (INHERITED | flags::DIRECTORY_SYNC),
        FileType::Regular => parent & INHERITED,
        _ => parent & (flags::NODUMP | flags::NOATIME),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_ids_go_as_the_kernel_has_them_go() {
        // Bits before and after, as a kernel mount of Linux 6.18 showed them.
        let rows = [
            (0o106755, 0o100755),
            (0o106745, 0o102745),
            (0o102745, 0o102745),
            (0o102755, 0o100755),
            (0o104644, 0o100644),
            (0o106666, 0o102666),
            (0o101777, 0o101777),
            (0o016777, 0o010777),
        ];
        for (before, after) in rows {
            assert_eq!(without_set_id(before), after, "{before:o}");
        }
    }
}
