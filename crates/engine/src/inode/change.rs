//! Changes of an inode's own fields: size, owner, permissions, times and flags.
//!
//! *Invariants*: what can be refused is refused before the first change. Then the size changes,
//! which may need room; then the rest, with one write of the inode. So a call that fails for want
//! of room has changed nothing, or the size alone, as on Linux.
//! *Locking*: the inode is locked exclusively for the whole change, and before any operation.
use crate::error::{ErrorKind, Result};
use crate::inode::access::{self, WRITE, check_owner};
use crate::inode::caller::{Caller, Privileges};
use crate::inode::node::{Node, NodeState};
use crate::inode::operation::Operation;
use crate::inode::permission::{check_not_append, check_not_immutable};
use crate::inode::rights::{self, CAPABILITY, RunRights};
use crate::inode::table;
use crate::inode::volume::Volume;
use crate::inode::{access_list, attribute, credits, file};
use extant_format::acl::ACCESS;
use extant_format::attribute::Attribute;
use extant_format::inode::mode::SET_GROUP_ID;
use extant_format::inode::{FileType, Time, flags};
use extant_format::superblock::Feature;

/// What a time is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The current time of the volume's clock.
    Now,
    /// The current time, as the clock of who asks has it.
    NowBy(Time),
    /// This time, cut to what inodes of this volume keep.
    To(Time),
}

/// What to change of an inode in one step; `None` leaves a part as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataChange {
    /// The low twelve bits of the mode. An access list follows.
    pub permissions: Option<u16>,
    /// Number of the owner. Like a new group, it removes set-user-ID, set-group-ID of what its
    /// group may execute, and the capabilities from everything but directories, unless permissions
    /// are given too.
    pub uid: Option<u32>,
    /// Number of the group.
    pub gid: Option<u32>,
    /// Size in bytes: a file is cut, or extended with a hole.
    pub size: Option<u64>,
    /// When it was last read.
    pub access_time: Option<SetTime>,
    /// When its content last changed.
    pub modify_time: Option<SetTime>,
    /// When the inode last changed; `None` sets the current time.
    pub change_time: Option<Time>,
    /// What a new size does to the rights that the file is run with; `None`: what it does on Linux
    /// for this caller, and without a caller they end.
    pub run_rights: Option<RunRights>,
}

/// Inode flags to set and to clear, as values of [`extant_format::inode::flags`]: those that
/// programs may change on ext4 of Linux. Immutable, append-only, sync and noatime are acted on, and
/// for directories the ones for synchronous names and for projects; nodump, for the top of a
/// hierarchy, secure deletion, undeletion, compression, tail merging and direct access are kept for
/// other programs. Whether a file has extents or journals its data cannot be changed.
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

impl MetadataChange {
    fn sets_times(&self) -> bool {
        self.access_time.is_some() || self.modify_time.is_some()
    }

    /// Whether both times become the current one, which a program may do that may write the file.
    fn touches(&self) -> bool {
        let is_now = |time: Option<SetTime>| matches!(time, Some(SetTime::Now | SetTime::NowBy(_)));
        is_now(self.access_time) && is_now(self.modify_time)
    }

    fn owns_anew(&self) -> bool {
        self.uid.is_some() || self.gid.is_some()
    }

    /// Whether nothing but the size changes.
    fn is_size_alone(&self) -> bool {
        let MetadataChange { size, run_rights, .. } = *self;
        size.is_some() && *self == MetadataChange { size, run_rights, ..Self::default() }
    }
}

/// Changes an inode on behalf of a caller.
///
/// # Errors
/// `NotPermitted` for an immutable or append-only inode, and for what needs the owner or a
/// privilege; `PermissionDenied` for a size or the current time of a file that the caller may not
/// write; `OperationUnsupported` for permissions of a symlink; those of changing a size or an
/// access list.
pub(crate) fn apply(
    volume: &Volume,
    node: &Node,
    change: &MetadataChange,
    caller: Option<&Caller>,
) -> Result<()> {
    volume.store.check_writable()?;
    let mut state = node.state.write();
    state.check_alive()?;
    check(volume, &state, change, caller)?;
    if let Some(size) = change.size {
        let mode = match change.run_rights {
            Some(rights) => rights.mode_after(state.inode.mode),
            None => mode_after_writing(state.inode.mode, state.inode.gid, caller),
        };
        let rights = change.run_rights.unwrap_or_default();
        file::set_size_locked(volume, node, &mut state, size, (mode, rights))?;
        if change.is_size_alone() {
            return Ok(());
        }
    }
    let attributes = attributes_after(volume, &state, change)?;
    attribute::know_values(volume, &mut state)?;
    let before = state.inode.clone();
    volume.change(credits::CHANGE, |operation| {
        let inode = &state.inode;
        let (uid, gid) = (change.uid.unwrap_or(inode.uid), change.gid.unwrap_or(inode.gid));
        operation.prepare_quotas([uid, gid, inode.project])?;
        set(volume, &mut state, change, caller);
        let stored = match &attributes {
            Some(attributes) => attribute::replace_all(operation, &mut state, attributes),
            None => state.store(operation),
        };
        if let Err(error) = stored {
            state.inode = before;
            return Err(error);
        }
        match change.change_time {
            // Changing the attributes has set it to the current time.
            Some(time) if attributes.is_some() => {
                state.inode.change_time = volume.store.kept(time);
                state.store(operation)
            }
            _ => Ok(()),
        }
    })
}

/// The mode of a file whose content a caller changed. Without a caller the file loses set-user-ID
/// and set-group-ID.
fn mode_after_writing(mode: u16, gid: u32, caller: Option<&Caller>) -> u16 {
    match caller {
        Some(caller) if caller.has(Privileges::SET_ID) => mode,
        _ => access::without_set_id(mode, gid, caller),
    }
}

/// Fails if something must not be changed, or not by this caller.
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

/// The attributes that the inode has afterwards, or `None` if they stay as they are: an access list
/// follows the mode, and a capability ends with a change of owner.
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
        && let Some(mut list) = access_list::parse(&attribute.value)?
    {
        list.set_permissions(permissions);
        attribute.value = list.to_attribute();
    }
    Ok((before != after).then_some(after))
}

/// Changes the fields of the inode, without storing it.
fn set(volume: &Volume, state: &mut NodeState, change: &MetadataChange, caller: Option<&Caller>) {
    let now = volume.store.now();
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
        Some(SetTime::To(time) | SetTime::NowBy(time)) => volume.store.kept(time),
    };
    inode.access_time = time(change.access_time, inode.access_time);
    inode.modify_time = time(change.modify_time, inode.modify_time);
    inode.change_time = change.change_time.map_or(now, |time| volume.store.kept(time));
}

/// Changes owner, permissions or times as they are given: access lists do not follow, and no caller
/// is checked.
///
/// # Errors
/// `NotPermitted` for an immutable or append-only inode; those of changing attributes.
pub(crate) fn by_path(
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
    let _table = table::hold(operation.volume(), state.ino)?;
    attribute::know_values(operation.volume(), state)?;
    let inode = &state.inode;
    let (uid, gid) = (change.uid.unwrap_or(inode.uid), change.gid.unwrap_or(inode.gid));
    operation.prepare_quotas([uid, gid, inode.project])?;
    let owns_anew = change.uid.is_some() || change.gid.is_some();
    if owns_anew && state.file_type()? != FileType::Directory {
        rights::remove_capability(operation, state)?;
        state.inode.mode = rights::without_set_id(state.inode.mode);
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

/// Flags that may be changed, of files and directories.
const CHANGEABLE: u32 = flags::IMMUTABLE
    | flags::APPEND
    | flags::NODUMP
    | flags::NOATIME
    | flags::SYNC
    | flags::SECURE_DELETION
    | flags::UNDELETE
    | flags::COMPRESS
    | flags::NO_TAIL_MERGING
    | flags::DIRECT_ACCESS;
/// Those of directories alone.
const OF_DIRECTORIES: u32 = flags::DIRECTORY_SYNC | flags::TOP_DIRECTORY | flags::PROJECT_INHERIT;
/// Bits that Linux shows, or knows, and leaves as they are whatever a program asks for.
const LEFT_ALONE: u32 = flags::ENCRYPTED
    | flags::INDEX
    | flags::VERITY
    | flags::BLOCKS_AFTER_END
    | flags::INLINE_DATA
    | flags::COMPRESSION_STATE;
/// Bits that Linux does not show: programs do not know that they are set, and may not set them.
const HIDDEN: u32 = flags::HUGE_FILE | flags::EA_INODE;

/// The flags of an inode after a program has asked for this word, as `FS_IOC_SETFLAGS` takes it:
/// flags that no program can change stay as they are.
pub(crate) fn flags_asked_for(state: &NodeState, word: u32) -> FlagChange {
    let before = state.inode.flags;
    let asked = word & !LEFT_ALONE | before & (LEFT_ALONE | HIDDEN);
    FlagChange { set: asked & !before, clear: before & !asked }
}

/// Changes inode flags. `node` is the one whose state this is.
///
/// # Errors
/// `OperationUnsupported` for flags or inodes other than [`FlagChange`] names; `NotPermitted` for
/// an inode that stays immutable; those of storing the inode.
pub(crate) fn change_flags(
    operation: &Operation<'_>,
    node: &Node,
    state: &mut NodeState,
    change: FlagChange,
) -> Result<()> {
    state.check_alive()?;
    let changeable = match state.file_type()? {
        FileType::Directory => CHANGEABLE | OF_DIRECTORIES,
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
    let _table = table::hold(operation.volume(), state.ino)?;
    state.inode.flags = after;
    state.inode.change_time = operation.volume().store.now();
    state.store(operation)?;
    node.note_flags(after);
    Ok(())
}

/// Gives an inode to another project.
///
/// # Errors
/// `OperationUnsupported` for a volume without projects, unless it is project 0, and for an inode
/// without room for the number; `NotPermitted` for an immutable inode; those of storing it.
pub(crate) fn set_project(
    operation: &Operation<'_>,
    state: &mut NodeState,
    project: u32,
) -> Result<()> {
    let superblock = &operation.volume().store.superblock;
    state.check_alive()?;
    let has_projects = superblock.has(Feature::PROJECT);
    if project == if has_projects { state.inode.project } else { 0 } {
        return Ok(());
    }
    if !has_projects || !state.inode.keeps_project() {
        return Err(ErrorKind::OperationUnsupported("it has no room for a project").into());
    }
    check_not_immutable(state)?;
    attribute::know_values(operation.volume(), state)?;
    operation.prepare_quotas([state.inode.uid, state.inode.gid, project])?;
    state.inode.project = project;
    state.inode.change_time = operation.volume().store.now();
    state.store(operation)
}
