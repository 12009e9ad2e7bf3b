//! Size, owner, permissions and times, changed in one step.
//!
//! *Invariants*: everything that can be refused is refused before the first change. Then the size
//! changes, which may need room; then the rest, with one write of the inode. So a call that fails
//! for want of room has changed nothing, or the size alone, as on Linux.
//! *Locking*: the inode is held exclusively for the whole step.
use crate::error::{ErrorKind, Result};
use crate::inode::access::{self, WRITE, check_owner};
use crate::inode::access_list::{ACCESS, AccessList};
use crate::inode::attribute;
use crate::inode::caller::{Caller, Privileges};
use crate::inode::file;
use crate::inode::permission::{CAPABILITY, check_not_append, check_not_immutable};
use crate::inode::{Node, NodeState};
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_format::attribute::Attribute;
use extant_format::inode::{FileType, Time};

const SET_GROUP_ID: u16 = 0o2000;

/// What a time is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The present time of the volume's clock.
    Now,
    /// This time, cut to what inodes of this volume keep.
    To(Time),
}

/// What of an inode to change, in one step; `None` leaves a part as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataChange {
    /// The low twelve bits of the mode. An access list follows.
    pub permissions: Option<u16>,
    /// Owner. As a new group, it takes set-user-ID, set-group-ID of what its group may execute, and
    /// the capabilities away from everything but directories, unless permissions are given too.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes: a file is cut, or ends in a hole.
    pub size: Option<u64>,
    /// Last read.
    pub access_time: Option<SetTime>,
    /// Last change of the content.
    pub modify_time: Option<SetTime>,
    /// Last change of the inode; the present time unless given.
    pub change_time: Option<Time>,
}

impl MetadataChange {
    fn sets_times(&self) -> bool {
        self.access_time.is_some() || self.modify_time.is_some()
    }

    /// Both times become the present one: what a program may do that may write the file.
    fn touches(&self) -> bool {
        let times = (self.access_time, self.modify_time);
        times == (Some(SetTime::Now), Some(SetTime::Now))
    }

    fn owns_anew(&self) -> bool {
        self.uid.is_some() || self.gid.is_some()
    }

    /// Whether nothing but the size changes.
    fn is_size_alone(&self) -> bool {
        self.size.is_some() && *self == MetadataChange { size: self.size, ..Self::default() }
    }
}

/// Changes an inode.
///
/// # Errors
/// `NotPermitted` for what is immutable or append-only, and for what only an owner, or a privilege,
/// may do; `PermissionDenied` for a size, or the present time, that the caller may not write;
/// `OperationUnsupported` for permissions of a symlink; what changing a size, or an access list,
/// may meet.
pub(crate) fn apply(
    volume: &Volume,
    node: &Node,
    change: &MetadataChange,
    caller: Option<&Caller>,
) -> Result<()> {
    volume.check_writable()?;
    let mut state = node.state.write();
    state.check_alive()?;
    check(volume, &state, change, caller)?;
    if let Some(size) = change.size {
        let mode = state.inode.mode;
        file::set_size_locked(volume, node, &mut state, size)?;
        let after = mode_after_writing(mode, state.inode.gid, caller);
        if change.is_size_alone() && state.inode.mode == after {
            return Ok(());
        }
        state.inode.mode = after;
    }
    let attributes = attributes_after(volume, &state, change)?;
    let before = state.inode.clone();
    set(volume, &mut state, change, caller);
    let stored = match &attributes {
        Some(attributes) => attribute::replace_all(volume, &mut state, attributes),
        None => state.store(&Handle::begin(volume, 2)?),
    };
    if let Err(error) = stored {
        state.inode = before;
        return Err(error);
    }
    match change.change_time {
        Some(time) if attributes.is_some() => {
            state.inode.change_time = volume.kept(time);
            state.store(&Handle::begin(volume, 2)?)
        }
        _ => Ok(()),
    }
}

/// The mode of a file whose content a caller changed. A caller who is not known loses set-user-ID
/// and set-group-ID for the file.
fn mode_after_writing(mode: u16, gid: u32, caller: Option<&Caller>) -> u16 {
    match caller {
        Some(caller) if caller.has(Privileges::SET_ID) => mode,
        _ => access::without_set_id(mode, gid, caller),
    }
}

/// Fails for what may not be changed, and for what this caller may not change.
fn check(
    volume: &Volume,
    state: &NodeState,
    change: &MetadataChange,
    caller: Option<&Caller>,
) -> Result<()> {
    let file_type = state.file_type()?;
    if change.permissions.is_some() || change.owns_anew() || change.sets_times() {
        check_not_immutable(state)?;
        if !change.touches() || change.permissions.is_some() || change.owns_anew() {
            check_not_append(state)?;
        }
    }
    if change.permissions.is_some() && file_type == FileType::Symlink {
        return Err(ErrorKind::OperationUnsupported("symlinks have no permissions").into());
    }
    if change.size.is_some() {
        file::check_sized(state)?;
        access::check(volume, state, caller, WRITE)?;
    }
    let Some(identity) = caller else { return Ok(()) };
    let inode = &state.inode;
    let is_owner = identity.uid == inode.uid;
    let gives_away = change.uid.is_some_and(|uid| !is_owner || uid != inode.uid);
    let regroups =
        change.gid.is_some_and(|gid| !is_owner || gid != inode.gid && !identity.is_in_group(gid));
    if (gives_away || regroups) && !identity.has(Privileges::CHANGE_OWNER) {
        return Err(ErrorKind::NotPermitted("a new owner takes a privilege").into());
    }
    // As in Linux: taking set-user-ID away with the owner counts as a change of the mode.
    let without_set_id = access::without_set_id(inode.mode, inode.gid, caller);
    let changes_mode =
        change.owns_anew() && file_type != FileType::Directory && without_set_id != inode.mode;
    if change.permissions.is_some() || changes_mode {
        check_owner(state, caller)?;
    }
    if change.touches() {
        return match access::owns(state, caller) {
            true => Ok(()),
            false => access::check(volume, state, caller, WRITE),
        };
    }
    if change.sets_times() { check_owner(state, caller) } else { Ok(()) }
}

/// The attributes that the inode has to have afterwards, where they change: an access list follows
/// the mode, and a capability ends with the owner that gave it.
fn attributes_after(
    volume: &Volume,
    state: &NodeState,
    change: &MetadataChange,
) -> Result<Option<Vec<Attribute>>> {
    let loses = change.owns_anew() && state.file_type()? != FileType::Directory;
    if change.permissions.is_none() && !loses {
        return Ok(None);
    }
    let before = attribute::list(volume, state)?;
    let mut after = before.clone();
    after.retain(|attribute| !loses || attribute.name != CAPABILITY);
    if let Some(permissions) = change.permissions
        && let Some(attribute) = after.iter_mut().find(|attribute| attribute.name == ACCESS)
        && let Some(mut list) = AccessList::parse(&attribute.value)?
    {
        list.set_permissions(permissions);
        attribute.value = list.to_value();
    }
    Ok((before != after).then_some(after))
}

/// Sets what is kept in the inode itself.
fn set(volume: &Volume, state: &mut NodeState, change: &MetadataChange, caller: Option<&Caller>) {
    let now = volume.now();
    let is_directory = state.inode.file_type() == Some(FileType::Directory);
    let inode = &mut state.inode;
    if change.owns_anew() && !is_directory {
        inode.mode = access::without_set_id(inode.mode, inode.gid, caller);
    }
    inode.uid = change.uid.unwrap_or(inode.uid);
    inode.gid = change.gid.unwrap_or(inode.gid);
    if let Some(permissions) = change.permissions {
        inode.mode = inode.mode & !0o7777 | permissions & 0o7777;
        if !access::keeps_set_group_id(inode.gid, caller) {
            inode.mode &= !SET_GROUP_ID;
        }
    }
    let time = |set: Option<SetTime>, otherwise: Time| match set {
        None => otherwise,
        Some(SetTime::Now) => now,
        Some(SetTime::To(time)) => volume.kept(time),
    };
    inode.access_time = time(change.access_time, inode.access_time);
    inode.modify_time = time(change.modify_time, inode.modify_time);
    inode.change_time = change.change_time.map_or(now, |time| volume.kept(time));
}
