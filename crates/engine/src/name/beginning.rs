//! The permissions and the access lists of a new object.
//!
//! *Invariants*: they are decided, and room for them promised, before the first change.
//! *Locking*: the caller has locked the parent.
use crate::error::Result;
use crate::inode::access;
use crate::inode::caller::Caller;
use crate::inode::operation::Operation;
use crate::inode::volume::Volume;
use crate::inode::{NodeState, access_list, attribute};
use crate::space::Reservation;
use extant_format::acl::{ACCESS, AccessList, DEFAULT};
use extant_format::attribute::{Attribute, Placed, place};
use extant_format::inode::{FileType, Inode};

/// Whether umask and default access list count for a new object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Defaults {
    /// It gets exactly the permissions asked for, as for copies of objects.
    Ignore,
    /// The default access list of the directory counts or, without one, the umask.
    Apply {
        /// Bits that are removed from the permissions.
        umask: u16,
    },
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) file_type: FileType,
    /// The low twelve bits of the mode.
    pub(crate) permissions: u16,
    pub(crate) defaults: Defaults,
}

/// The permissions and access lists of a new object.
pub(crate) struct Beginning {
    permissions: u16,
    /// Its access lists, and where they go.
    placed: Option<Placed>,
}

impl Beginning {
    /// Those of an object that this caller makes in this directory.
    ///
    /// # Errors
    /// `AttributesTooLarge`; `Corrupt`, for a default list that cannot be read; what the device
    /// returns.
    pub(crate) fn of(
        volume: &Volume,
        parent: &NodeState,
        new: Wish,
        caller: Option<&Caller>,
    ) -> Result<Beginning> {
        let is_symlink = new.file_type == FileType::Symlink;
        let Defaults::Apply { umask } = new.defaults else {
            return Ok(Beginning { permissions: new.permissions, placed: None });
        };
        if is_symlink {
            return Ok(Beginning { permissions: 0o777, placed: None });
        }
        let permissions =
            access::permissions_of_new(new.permissions, new.file_type, parent, caller);
        let value = attribute::get(volume, parent, DEFAULT)?;
        let default = value.map(|value| access_list::parse(&value)).transpose()?.flatten();
        let Some(default) = default else {
            return Ok(Beginning { permissions: permissions & !umask, placed: None });
        };
        let mut own = default.clone();
        let permissions = own.inherit(permissions);
        let mut lists = Vec::new();
        let list = |name: &[u8], list: &AccessList| Attribute {
            name: name.to_vec(),
            value: list.to_attribute(),
        };
        if !own.is_minimal() {
            lists.push(list(ACCESS, &own));
        }
        if new.file_type == FileType::Directory {
            lists.push(list(DEFAULT, &default));
        }
        let tail_length = Inode::new(0, &volume.store.superblock).tail.len();
        let placed = place(&lists, tail_length, &volume.store.superblock)?;
        Ok(Beginning { permissions, placed: (!lists.is_empty()).then_some(placed) })
    }

    /// The low twelve bits of the mode.
    pub(crate) fn permissions(&self) -> u16 {
        self.permissions
    }

    /// Blocks that its access lists need.
    pub(crate) fn blocks(&self) -> u64 {
        u64::from(self.placed.as_ref().is_some_and(|placed| placed.block.is_some()))
    }

    /// Gives a new inode its access lists, in reserved room. The caller stores the inode.
    pub(crate) fn apply(
        &self,
        operation: &Operation<'_>,
        reservation: &mut Reservation<'_>,
        state: &mut NodeState,
    ) -> Result<()> {
        if let Some(placed) = &self.placed {
            attribute::place_new_reserved(operation, reservation, state, placed)?;
        }
        Ok(())
    }
}
