//! How a new object begins: its permissions and its access lists, and objects without a name.
//!
//! *Invariants*: what an object begins with is decided, and room for it promised, before the first
//! change. An inode that was made without a name is open, and an orphan, until it is linked or its
//! last open file goes.
//! *Locking*: parent before child.
use crate::error::{ErrorKind, Result};
use crate::flush::Core;
use crate::inode::access::{self, check, check_may_add, check_search};
use crate::inode::access_list::{ACCESS, AccessList, DEFAULT, Extent};
use crate::inode::caller::Caller;
use crate::inode::{Node, NodeState, attribute};
use crate::name::directory;
use crate::name::namespace::{NewInode, check_new_name, leads_to_itself, own_blocks};
use crate::space::Reservation;
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_format::attribute::{Attribute, Placed, place};
use extant_format::inode::{FileType, Inode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whether the defaults of a place count for a new object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Defaults {
    /// The permissions given are those that it gets: for copies of objects as they are.
    Ignore,
    /// The directory's default access list counts; where it has none, the umask.
    Apply {
        /// Bits that are taken out of the permissions.
        umask: u16,
    },
}

/// What a call that makes a file does with one that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// Fails with `Exists`, as O_EXCL does.
    Refuse,
    /// Opens it.
    Open,
}

/// What a new object begins with.
pub(crate) struct Beginning {
    permissions: u16,
    /// Its access lists, and where they go.
    placed: Option<Placed>,
}

impl Beginning {
    /// What an object would begin with that this caller makes in this directory.
    ///
    /// # Errors
    /// `AttributesTooLarge`; `Corrupt`, for a default list that cannot be read; what the device
    /// answers.
    pub(crate) fn of(
        volume: &Volume,
        parent: &NodeState,
        new: &NewInode<'_>,
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
        let default = value.map(|value| AccessList::parse(&value)).transpose()?.flatten();
        let Some(default) = default else {
            return Ok(Beginning { permissions: permissions & !umask, placed: None });
        };
        let mut own = default.clone();
        let permissions = own.inherit(permissions);
        let mut lists = Vec::new();
        let list = |name: &[u8], list: &AccessList| Attribute {
            name: name.to_vec(),
            value: list.to_value(),
        };
        if own.extent() == Extent::Extended {
            lists.push(list(ACCESS, &own));
        }
        if new.file_type == FileType::Directory {
            lists.push(list(DEFAULT, &default));
        }
        let tail_length = Inode::new(0, &volume.superblock).tail.len();
        let placed = place(&lists, tail_length, &volume.superblock)?;
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

    /// Gives a new inode its access lists, with the room that they need. The caller stores it.
    pub(crate) fn apply(
        &self,
        handle: &Handle<'_>,
        reservation: &mut Reservation<'_>,
        state: &mut NodeState,
    ) -> Result<()> {
        if let Some(placed) = &self.placed {
            attribute::place_new_reserved(handle, reservation, state, placed)?;
        }
        Ok(())
    }
}

/// Whether a call that opens a file made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenOutcome {
    /// It is new.
    Made,
    /// It was there.
    Found,
}

impl Core {
    /// Makes a regular file, or finds it, and counts it as open, with nothing in between: it
    /// cannot be removed before it is open. `wanted` is what the caller has to be allowed to do with
    /// one that was there.
    pub(crate) fn make_open(
        &self,
        parent: &Node,
        name: &[u8],
        (new, existing): (&NewInode<'_>, Existing),
        (caller, wanted): (Option<&Caller>, u16),
    ) -> Result<(Arc<Node>, OpenOutcome)> {
        check_new_name(name)?;
        let volume = &self.volume;
        let mut parent = parent.state.write();
        parent.check_directory()?;
        check_search(volume, &parent, caller)?;
        let Some(found) = directory::lookup(volume, &parent, name)? else {
            volume.check_writable()?;
            let node = self.make_in(&mut parent, name, new, caller)?;
            node.opens.fetch_add(1, Ordering::AcqRel);
            return Ok((node, OpenOutcome::Made));
        };
        if existing == Existing::Refuse {
            return Err(ErrorKind::Exists.into());
        }
        if found.ino == parent.ino {
            return Err(leads_to_itself(parent.ino));
        }
        let node = self.nodes.get(volume, found.ino)?;
        let state = node.state.read();
        match state.file_type()? {
            FileType::Regular => {}
            FileType::Directory => return Err(ErrorKind::IsDirectory.into()),
            _ => return Err(ErrorKind::Exists.into()),
        }
        check(volume, &state, caller, wanted)?;
        drop(state);
        self.hold(&node)?;
        Ok((node, OpenOutcome::Found))
    }

    /// Makes a regular file without a name and counts it as open: it is freed with its last open
    /// file, unless it is linked before.
    pub(crate) fn make_nameless(
        &self,
        directory: &Node,
        new: &NewInode<'_>,
        caller: Option<&Caller>,
    ) -> Result<Arc<Node>> {
        let volume = &self.volume;
        volume.check_writable()?;
        let parent = directory.state.read();
        parent.check_directory()?;
        check_may_add(volume, &parent, caller)?;
        let beginning = Beginning::of(volume, &parent, new, caller)?;
        let new = &NewInode { permissions: beginning.permissions(), ..*new };
        let need = own_blocks(volume, new)? + beginning.blocks();
        let mut reservation = volume.groups.reserve(volume, need)?;
        let state = {
            let handle = Handle::begin(volume, 16)?;
            let mut state = self.new_inode(&handle, &mut reservation, &parent, b"", new)?;
            beginning.apply(&handle, &mut reservation, &mut state)?;
            state.inode.links = 0;
            state.store(&handle)?;
            state
        };
        let node = self.nodes.insert(volume, state.ino, state.inode);
        node.opens.fetch_add(1, Ordering::AcqRel);
        node.state.write().may_be_named = true;
        self.orphans.lock().insert(node.ino, Arc::clone(&node));
        Ok(node)
    }
}
