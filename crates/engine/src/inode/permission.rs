//! What inode flags forbid, and which rights of a file end when it is changed.
//!
//! These checks hold for every caller (what depends on who calls is in `access`), as they do on
//! Linux, for root too: nothing changes what is immutable, and what is append-only grows at its end
//! and in no other way. Set-user-ID, set-group-ID and capabilities go where the kernel takes them
//! away from a process without privileges: where no caller is known the engine cannot tell whose
//! the change is, and a program must not keep the rights of its owner with content that someone
//! else gave it.
//!
//! The order of these checks beside others (`Exists` and `NotFound` come first, `IsDirectory` and
//! `NotEmpty` after) is that of Linux; `tests/kernel_rules.rs` compares them with a kernel mount,
//! call by call.
//!
//! *Locking*: the caller holds the inodes.
use crate::api::filesystem::{Change, FlagChange};
use crate::error::{ErrorKind, Result};
use crate::inode::NodeState;
use crate::inode::attribute;
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_format::inode::{FileType, Time, flags};

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

fn has(state: &NodeState, flag: u32) -> bool {
    state.inode.flags & flag != 0
}

/// Fails for what may not change at all.
pub(crate) fn check_not_immutable(state: &NodeState) -> Result<()> {
    if has(state, flags::IMMUTABLE) {
        return Err(ErrorKind::NotPermitted("it is immutable").into());
    }
    Ok(())
}

/// Fails for what may only grow at its end.
pub(crate) fn check_not_append(state: &NodeState) -> Result<()> {
    if has(state, flags::APPEND) {
        return Err(ErrorKind::NotPermitted("it is append-only").into());
    }
    Ok(())
}

/// Fails for either: its attributes, owner, times and links stay.
pub(crate) fn check_not_locked(state: &NodeState) -> Result<()> {
    check_not_immutable(state)?;
    check_not_append(state)
}

/// Whether a new name may come into a directory.
pub(crate) fn check_may_add(directory: &NodeState) -> Result<()> {
    if has(directory, flags::IMMUTABLE) {
        return Err(ErrorKind::NotPermitted("the directory is immutable").into());
    }
    Ok(())
}

/// Whether a name may leave a directory, and what it leads to may lose it.
pub(crate) fn check_may_unlink(directory: &NodeState, child: &NodeState) -> Result<()> {
    check_may_add(directory)?;
    if has(directory, flags::APPEND) {
        return Err(ErrorKind::NotPermitted("the directory is append-only").into());
    }
    check_not_locked(child)
}

/// The mode of what is no directory without the right to run as its owner; and without that to run
/// as its group, where the group may execute it: elsewhere the bit means something else.
pub(crate) fn without_set_id(mode: u16) -> u16 {
    match mode & GROUP_EXECUTE {
        0 => mode & !SET_USER_ID,
        _ => mode & !(SET_USER_ID | SET_GROUP_ID),
    }
}

/// Takes the capabilities away with which a file is run. Before the content changes: it may need
/// room for what is left.
///
/// # Errors
/// `NoSpace`; `Corrupt`, for attributes that cannot be read; what the device answers.
pub(crate) fn remove_capability(volume: &Volume, state: &mut NodeState) -> Result<()> {
    let mut attributes = attribute::list(volume, state)?;
    let before = attributes.len();
    attributes.retain(|attribute| attribute.name != CAPABILITY);
    if attributes.len() == before {
        return Ok(());
    }
    attribute::replace_all(volume, state, &attributes)
}

/// Changes owner, permissions or times.
pub(crate) fn change(volume: &Volume, state: &mut NodeState, change: &Change) -> Result<()> {
    let handle = Handle::begin(volume, 2)?;
    state.check_alive()?;
    check_not_immutable(state)?;
    if *change != Change::default() {
        check_not_append(state)?;
    }
    let owns_anew = change.uid.is_some() || change.gid.is_some();
    if owns_anew && state.file_type()? != FileType::Directory {
        remove_capability(volume, state)?;
        state.inode.mode = without_set_id(state.inode.mode);
    }
    let inode = &mut state.inode;
    if let Some(permissions) = change.permissions {
        inode.mode = (inode.mode & !0o7777) | (permissions & 0o7777);
    }
    inode.uid = change.uid.unwrap_or(inode.uid);
    inode.gid = change.gid.unwrap_or(inode.gid);
    let kept = |time: Option<Time>, otherwise| time.map_or(otherwise, |time| volume.kept(time));
    inode.access_time = kept(change.access_time, inode.access_time);
    inode.modify_time = kept(change.modify_time, inode.modify_time);
    inode.change_time = kept(change.change_time, volume.now());
    state.store(&handle)
}

/// Flags that may be changed: those that mean something to this engine or to programs.
const CHANGEABLE: u32 = flags::IMMUTABLE | flags::APPEND | flags::NODUMP | flags::NOATIME;

/// Changes inode flags.
pub(crate) fn change_flags(
    volume: &Volume,
    state: &mut NodeState,
    change: FlagChange,
) -> Result<()> {
    let handle = Handle::begin(volume, 2)?;
    state.check_alive()?;
    let changeable = match state.file_type()? {
        FileType::Directory => CHANGEABLE | flags::TOP_DIRECTORY,
        FileType::Regular => CHANGEABLE,
        _ => {
            return Err(ErrorKind::OperationUnsupported(
                "only files and directories have flags to change",
            )
            .into());
        }
    };
    if (change.set | change.clear) & !changeable != 0 {
        return Err(
            ErrorKind::OperationUnsupported("an inode flag that cannot be changed here").into()
        );
    }
    let before = state.inode.flags;
    let after = before & !change.clear | change.set;
    if before & after & flags::IMMUTABLE != 0 && before != after {
        check_not_immutable(state)?;
    }
    state.inode.flags = after;
    state.inode.change_time = volume.now();
    state.store(&handle)
}

/// What every new file or directory inherits.
const INHERITED: u32 = flags::SECURE_DELETION
    | flags::UNDELETE
    | flags::COMPRESS
    | flags::SYNC
    | flags::NODUMP
    | flags::NOATIME;

/// Which flags of a directory a new object in it begins with.
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
