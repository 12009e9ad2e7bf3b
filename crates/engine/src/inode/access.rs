//! Which callers may do what: owner, group and other bits, access lists, sticky directories, and
//! what only an owner may change.
//!
//! Every check takes `Option<&Caller>`: without a caller nothing is checked here, and only what
//! inode flags forbid (see `permission`) remains. A refusal is `PermissionDenied` (EACCES) if modes
//! and lists decide, and `NotPermitted` (EPERM) if ownership or a privilege does. The test
//! `by_inode` compares every rule with a kernel mount.
//!
//! *Locking*: the inodes are locked.
use crate::error::{ErrorKind, Result};
use crate::inode::NodeState;
use crate::inode::attribute;
use crate::inode::caller::{Caller, Privileges};
use crate::inode::volume::Volume;
use crate::inode::{access_list, permission, rights};
use extant_format::acl::{ACCESS, AccessList};
use extant_format::inode::mode::{GROUP_EXECUTE, SET_GROUP_ID, STICKY};
use extant_format::inode::{FileType, flags};

/// Read, as in a mode.
pub(crate) const READ: u16 = 4;
/// Write, as in a mode.
pub(crate) use crate::inode::permission::WRITE;
/// Execute a file, or search a directory.
pub(crate) const EXECUTE: u16 = 1;

fn denied() -> crate::error::Error {
    ErrorKind::PermissionDenied.into()
}

fn not_owner() -> crate::error::Error {
    ErrorKind::NotPermitted("only the owner may do that").into()
}

/// Fails unless the caller may use an inode in all of these ways.
///
/// # Errors
/// `NotPermitted` for writing what is immutable; `PermissionDenied`; `Corrupt`, for an access list
/// that cannot be read; what the device returns.
pub(crate) fn check(
    volume: &Volume,
    state: &NodeState,
    caller: Option<&Caller>,
    wanted: u16,
) -> Result<()> {
    let Some(caller) = caller else { return Ok(()) };
    if wanted & WRITE != 0 {
        permission::check_not_immutable(state)?;
    }
    if gives(volume, state, caller, wanted)? {
        return Ok(());
    }
    let is_directory = state.file_type()? == FileType::Directory;
    let overrides = match is_directory {
        true => true,
        // No privilege runs a file that has no execute bit at all.
        false => wanted & EXECUTE == 0 || state.inode.mode & 0o111 != 0,
    };
    let reads = match is_directory {
        true => wanted & WRITE == 0,
        false => wanted == READ,
    };
    if reads && caller.has(Privileges::READ_SEARCH) || overrides && caller.has(Privileges::OVERRIDE)
    {
        return Ok(());
    }
    Err(denied())
}

/// Whether mode and access list permit it, without privileges.
fn gives(volume: &Volume, state: &NodeState, caller: &Caller, wanted: u16) -> Result<bool> {
    let inode = &state.inode;
    if caller.uid == inode.uid {
        return Ok(wanted & !(inode.mode >> 6) & 7 == 0);
    }
    // As in Linux: a list whose mask gives nothing is not looked at, and the other bits decide.
    if inode.mode & 0o070 != 0
        && let Some(list) = access_list(volume, state)?
    {
        return Ok(list.permits((caller.uid, |gid| caller.is_in_group(gid)), inode.gid, wanted));
    }
    let bits = if caller.is_in_group(inode.gid) { inode.mode >> 3 } else { inode.mode };
    Ok(wanted & !bits & 7 == 0)
}

/// The access list of an inode, if it has one.
pub(crate) fn access_list(volume: &Volume, state: &NodeState) -> Result<Option<AccessList>> {
    let value = attribute::get(volume, state, ACCESS)?;
    Ok(value.map(|value| access_list::parse(&value)).transpose()?.flatten())
}

/// Fails unless the caller may search a directory.
pub(crate) fn check_search(
    volume: &Volume,
    directory: &NodeState,
    caller: Option<&Caller>,
) -> Result<()> {
    check(volume, directory, caller, EXECUTE)
}

/// Whether the caller owns an inode, or may do what only its owner may.
pub(crate) fn owns(state: &NodeState, caller: Option<&Caller>) -> bool {
    caller.is_none_or(|caller| caller.uid == state.inode.uid || caller.has(Privileges::OWNER))
}

/// Fails unless the caller owns an inode, or may do what only its owner may.
pub(crate) fn check_owner(state: &NodeState, caller: Option<&Caller>) -> Result<()> {
    if owns(state, caller) { Ok(()) } else { Err(not_owner()) }
}

/// Fails if the caller must not add a name to a directory.
pub(crate) fn check_may_add(
    volume: &Volume,
    directory: &NodeState,
    caller: Option<&Caller>,
) -> Result<()> {
    permission::check_may_add(directory)?;
    check(volume, directory, caller, WRITE | EXECUTE)
}

/// Fails if the caller must not remove the name of `child` from a directory.
pub(crate) fn check_may_unlink(
    volume: &Volume,
    directory: &NodeState,
    child: &NodeState,
    caller: Option<&Caller>,
) -> Result<()> {
    check_may_add(volume, directory, caller)?;
    permission::check_may_unlink(directory, child)?;
    let is_sticky = directory.inode.mode & STICKY != 0;
    let Some(caller) = caller.filter(|_| is_sticky) else { return Ok(()) };
    let owners = [child.inode.uid, directory.inode.uid];
    if owners.contains(&caller.uid) || caller.has(Privileges::OWNER) {
        return Ok(());
    }
    Err(ErrorKind::NotPermitted("the directory is sticky").into())
}

/// Fails if the caller must not make an inode of this type.
pub(crate) fn check_may_make(file_type: FileType, caller: Option<&Caller>) -> Result<()> {
    let is_device = file_type.is_device();
    if is_device && caller.is_some_and(|caller| !caller.has(Privileges::MAKE_DEVICE)) {
        return Err(ErrorKind::NotPermitted("making devices takes a privilege").into());
    }
    Ok(())
}

/// Fails if an inode must not get another parent: the ".." of a directory changes with it.
pub(crate) fn check_may_move(
    volume: &Volume,
    moving: &NodeState,
    caller: Option<&Caller>,
) -> Result<()> {
    match moving.file_type()? {
        FileType::Directory => check(volume, moving, caller, WRITE),
        _ => Ok(()),
    }
}

/// Whether the caller may give set-group-ID to an object of this group.
pub(crate) fn keeps_set_group_id(gid: u32, caller: Option<&Caller>) -> bool {
    caller.is_none_or(|caller| caller.is_in_group(gid) || caller.has(Privileges::SET_ID))
}

/// The mode of anything but a directory after the caller changed its owner or content.
pub(crate) fn without_set_id(mode: u16, gid: u32, caller: Option<&Caller>) -> u16 {
    let mode = rights::without_set_id(mode);
    if keeps_set_group_id(gid, caller) { mode } else { mode & !SET_GROUP_ID }
}

/// The permissions of a new object before umask and lists. A file that inherits its group from the
/// directory must not run as that group if its maker is not in it.
pub(crate) fn permissions_of_new(
    permissions: u16,
    file_type: FileType,
    parent: &NodeState,
    caller: Option<&Caller>,
) -> u16 {
    let runs_as_group = SET_GROUP_ID | GROUP_EXECUTE;
    let inherits = parent.inode.mode & SET_GROUP_ID != 0;
    if file_type == FileType::Directory
        || !inherits
        || permissions & runs_as_group != runs_as_group
        || keeps_set_group_id(parent.inode.gid, caller)
    {
        return permissions;
    }
    permissions & !SET_GROUP_ID
}

/// Fails if the caller must not change inode flags from `before` to `after`.
pub(crate) fn check_flags(
    state: &NodeState,
    (before, after): (u32, u32),
    caller: Option<&Caller>,
) -> Result<()> {
    check_owner(state, caller)?;
    let locks = flags::IMMUTABLE | flags::APPEND;
    let changes = (before ^ after) & locks != 0;
    if changes && caller.is_some_and(|caller| !caller.has(Privileges::IMMUTABLE)) {
        return Err(ErrorKind::NotPermitted("locking an inode takes a privilege").into());
    }
    Ok(())
}

/// Whether an extended attribute is to be looked at or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Look,
    Change,
}

/// Fails if the caller must not use this extended attribute, which is not an access list.
pub(crate) fn check_attribute(
    volume: &Volume,
    state: &NodeState,
    (name, how): (&[u8], Use),
    caller: Option<&Caller>,
) -> Result<()> {
    let Some(caller) = caller else { return Ok(()) };
    if how == Use::Change {
        permission::check_not_locked(state)?;
    }
    let refused = |reason| match how {
        Use::Look => Err(ErrorKind::NoAttribute.into()),
        Use::Change => Err(ErrorKind::NotPermitted(reason).into()),
    };
    if name.starts_with(b"trusted.") {
        return match caller.has(Privileges::ADMINISTER) {
            true => Ok(()),
            false => refused("trusted attributes take a privilege"),
        };
    }
    if name.starts_with(b"security.") {
        let privilege = match name {
            b"security.capability" => Privileges::SET_CAPABILITY,
            _ => Privileges::ADMINISTER,
        };
        return match how == Use::Look || caller.has(privilege) {
            true => Ok(()),
            false => refused("security attributes take a privilege"),
        };
    }
    if name.starts_with(b"system.") {
        return Ok(());
    }
    if name.starts_with(b"user.") {
        let file_type = state.file_type()?;
        if !matches!(file_type, FileType::Regular | FileType::Directory) {
            return refused("only files and directories have user attributes");
        }
        let is_sticky = file_type == FileType::Directory && state.inode.mode & STICKY != 0;
        if how == Use::Change && is_sticky {
            check_owner(state, Some(caller))?;
        }
    }
    check(volume, state, Some(caller), if how == Use::Look { READ } else { WRITE })
}
