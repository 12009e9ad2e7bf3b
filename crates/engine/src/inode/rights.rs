//! Changing owner, mode, times and flags of an inode; rights that end with a change are removed.
//! What may be changed at all is decided in `permission`.
//!
//! *Locking*: the caller has locked the inode exclusively.
use crate::error::{ErrorKind, Result};
use crate::inode::attribute;
use crate::inode::node::NodeState;
use crate::inode::operation::Operation;
use crate::inode::permission::{check_not_append, check_not_immutable, without_set_id};
use extant_format::inode::{FileType, Time, flags};

/// Inode flags to set and to clear, as values of [`extant_format::inode::flags`]: immutable,
/// append-only, nodump, noatime, and for directories the one for the top of a hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagChange {
    /// Flags to set.
    pub set: u32,
    /// Flags to clear, unless they are in `set`.
    pub clear: u32,
}

/// Which attributes of an inode to change; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The low twelve bits of the mode.
    pub permissions: Option<u16>,
    /// Number of the owner.
    pub uid: Option<u32>,
    /// Number of the group.
    pub gid: Option<u32>,
    /// When it was last read.
    pub access_time: Option<Time>,
    /// When its content last changed.
    pub modify_time: Option<Time>,
    /// When the inode last changed; `None` sets the current time.
    pub change_time: Option<Time>,
}

const CAPABILITY: &[u8] = b"security.capability";

/// Removes the capabilities that a file is run with. Called before its content changes, because the
/// remaining attributes may need room.
///
/// # Errors
/// `NoSpace`; `Corrupt` for attributes that cannot be read; what the device returns.
pub(crate) fn remove_capability(operation: &Operation<'_>, state: &mut NodeState) -> Result<()> {
    let mut attributes = attribute::list(operation.volume(), state)?;
    let before = attributes.len();
    attributes.retain(|attribute| attribute.name != CAPABILITY);
    if attributes.len() == before {
        return Ok(());
    }
    attribute::replace_all(operation, state, &attributes)
}

/// Changes owner, permissions or times.
pub(crate) fn change(
    operation: &Operation<'_>,
    state: &mut NodeState,
    change: &Change,
) -> Result<()> {
    let store = &operation.volume().store;
    state.check_alive()?;
    check_not_immutable(state)?;
    if *change != Change::default() {
        check_not_append(state)?;
    }
    let owns_anew = change.uid.is_some() || change.gid.is_some();
    if owns_anew && state.file_type()? != FileType::Directory {
        remove_capability(operation, state)?;
        state.inode.mode = without_set_id(state.inode.mode);
    }
    let inode = &mut state.inode;
    if let Some(permissions) = change.permissions {
        inode.mode = (inode.mode & !0o7777) | (permissions & 0o7777);
    }
    inode.uid = change.uid.unwrap_or(inode.uid);
    inode.gid = change.gid.unwrap_or(inode.gid);
    let kept = |time: Option<Time>, otherwise| time.map_or(otherwise, |time| store.kept(time));
    inode.access_time = kept(change.access_time, inode.access_time);
    inode.modify_time = kept(change.modify_time, inode.modify_time);
    inode.change_time = kept(change.change_time, store.now());
    state.store(operation)
}

/// Flags that may be changed: those that this engine or other programs act on.
const CHANGEABLE: u32 = flags::IMMUTABLE | flags::APPEND | flags::NODUMP | flags::NOATIME;

/// Changes inode flags.
pub(crate) fn change_flags(
    operation: &Operation<'_>,
    state: &mut NodeState,
    change: FlagChange,
) -> Result<()> {
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
    state.inode.change_time = operation.volume().store.now();
    state.store(operation)
}
