//! The identity of a process, which permissions are checked against.
//!
//! The meaning of each privilege, and which of two errors a refusal is, follow Linux
//! (capabilities(7), path_resolution(7)).
use crate::space::Room;
use std::ops::BitOr;

/// The identity of a process: its effective user and group, its further groups, its privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups, in any order.
    pub groups: Vec<u32>,
    /// Which checks do not apply to it.
    pub privileges: Privileges,
    /// Which of its reads change times.
    pub reads: Reads,
}

/// Which reads of a caller change access times, as far as the policies of the volume let them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// All.
    #[default]
    Noted,
    /// All but listings of directories (nodiratime).
    ListingsUnnoted,
}

/// A set of privileges, each of which lifts one kind of check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(u32);

impl Privileges {
    /// None of them.
    pub const NONE: Privileges = Privileges(0);
    /// All of them: what root has on Linux.
    pub const ALL: Privileges = Privileges(0x3ff);
    /// Changing owners (CAP_CHOWN).
    pub const CHANGE_OWNER: Privileges = Privileges(1);
    /// Reading, writing and searching in spite of modes (CAP_DAC_OVERRIDE).
    pub const OVERRIDE: Privileges = Privileges(2);
    /// Reading files and searching directories in spite of modes (CAP_DAC_READ_SEARCH).
    pub const READ_SEARCH: Privileges = Privileges(4);
    /// Doing what only an owner may (CAP_FOWNER).
    pub const OWNER: Privileges = Privileges(8);
    /// Keeping set-group-ID of groups that the caller is not in (CAP_FSETID).
    pub const SET_ID: Privileges = Privileges(16);
    /// Setting and clearing immutable and append-only (CAP_LINUX_IMMUTABLE).
    pub const IMMUTABLE: Privileges = Privileges(32);
    /// Making devices (CAP_MKNOD).
    pub const MAKE_DEVICE: Privileges = Privileges(64);
    /// Attributes named `trusted.*` and `security.*` (CAP_SYS_ADMIN).
    pub const ADMINISTER: Privileges = Privileges(128);
    /// The attribute `security.capability` (CAP_SETFCAP).
    pub const SET_CAPABILITY: Privileges = Privileges(256);
    /// Taking the blocks that a volume reserves (CAP_SYS_RESOURCE).
    pub const RESERVED_BLOCKS: Privileges = Privileges(512);

    /// All but these.
    pub const fn without(self, privileges: Privileges) -> Privileges {
        Privileges(self.0 & !privileges.0)
    }

    /// Whether all of these are in the set.
    pub const fn has(self, privileges: Privileges) -> bool {
        self.0 & privileges.0 == privileges.0
    }
}

impl BitOr for Privileges {
    type Output = Privileges;
    fn bitor(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }
}

/// Which of the free blocks a caller may take; without one, all.
pub(crate) fn room_of(caller: Option<&Caller>) -> Room {
    match caller {
        Some(caller) if !caller.has(Privileges::RESERVED_BLOCKS) => Room::Unreserved,
        _ => Room::Whole,
    }
}

impl Caller {
    /// A user without privileges, in one group.
    pub fn user(uid: u32, gid: u32) -> Caller {
        Caller { uid, gid, groups: Vec::new(), privileges: Privileges::NONE, reads: Reads::Noted }
    }

    /// User 0 in group 0 with every privilege.
    pub fn root() -> Caller {
        Caller { privileges: Privileges::ALL, ..Caller::user(0, 0) }
    }

    /// Whether the caller is in a group, by its effective group or a supplementary one.
    pub fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether it has all of these privileges.
    pub fn has(&self, privileges: Privileges) -> bool {
        self.privileges.has(privileges)
    }
}
