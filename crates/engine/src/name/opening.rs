//! Files that are open from the start: made or found by name, and made without a name.
//!
//! *Invariants*: no other call comes between the making of a file and its opening. An inode that
//! was made without a name is open, and an orphan, until it is linked or its last open file is
//! closed.
//! *Locking*: parent before child.
use crate::error::{ErrorKind, Result};
use crate::inode::access::{check, check_may_add, check_search};
use crate::inode::caller::{Caller, room_of};
use crate::inode::credits;
use crate::inode::inodes::Inodes;
use crate::inode::node::Node;
use crate::inode::permission::{check_may_open, check_names, opening};
use crate::inode::unfinished::add_orphan;
use crate::name::beginning::Beginning;
use crate::name::directory::{self, Sought};
use crate::name::namespace::{NewInode, check_new_name, group_of, leads_to_itself, own_blocks};
use extant_format::inode::FileType;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a call that makes a file does with one that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// Fails with `Exists`, as O_EXCL does.
    Refuse,
    /// Opens the file.
    Open,
}

/// Whether a call that opens a file made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenOutcome {
    /// It is new.
    Made,
    /// It was there.
    Found,
}

/// Blocks of metadata that making an inode without a name changes.
const NAMELESS: u32 = credits::NEW_INODE + credits::CHANGE;

impl Inodes {
    /// Makes a regular file, or finds it, and counts it as open, with nothing in between: it
    /// cannot be removed before it is open. `wanted` is what the caller has to be allowed to do
    /// with a file that was there.
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
        let found = match directory::seek(volume, &parent, name)? {
            Sought::There(found) => found,
            Sought::Vacant(vacancy) => {
                volume.store.check_writable()?;
                let node = self.make_in(&mut parent, (name, &vacancy), new, caller)?;
                node.opens.fetch_add(1, Ordering::AcqRel);
                return Ok((node, OpenOutcome::Made));
            }
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
        check_may_open(volume, &state, opening(wanted))?;
        drop(state);
        self.hold(&node)?;
        Ok((node, OpenOutcome::Found))
    }

    /// Makes a regular file without a name and counts it as open. It is freed when it is closed,
    /// unless it was linked before.
    pub(crate) fn make_nameless(
        &self,
        directory: &Node,
        new: &NewInode<'_>,
        caller: Option<&Caller>,
    ) -> Result<Arc<Node>> {
        let volume = &self.volume;
        volume.store.check_writable()?;
        let parent = directory.state.read();
        parent.check_directory()?;
        check_may_add(volume, &parent, caller)?;
        check_names(volume, &parent)?;
        let beginning = Beginning::of(volume, &parent, new.wish(), caller)?;
        let new = &NewInode { permissions: beginning.permissions(), ..*new };
        let need = own_blocks(volume, new)? + beginning.blocks();
        let mut reservation = volume.space.reserve_within(need, room_of(caller))?;
        volume.space.check_may_allocate(group_of(volume, parent.ino), need)?;
        volume.change(NAMELESS, |operation| {
            let mut state = self.new_inode(operation, &mut reservation, &parent, b"", new)?;
            beginning.apply(operation, &mut reservation, &mut state)?;
            state.inode.links = 0;
            state.may_be_named = true;
            add_orphan(operation, &state);
            state.store(operation)?;
            let node = self.nodes.insert_state(volume, state);
            node.opens.fetch_add(1, Ordering::AcqRel);
            self.nameless.lock().insert(node.ino, Arc::clone(&node));
            Ok(node)
        })
    }
}
