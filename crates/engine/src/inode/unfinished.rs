//! What recovery has to finish: inodes enter and leave the list of orphans, and work of any length
//! is cut into steps.
//!
//! ```text
//! the operation begins --> a step --> pause --> a step --> .. --> the last step
//!                                       |                           |
//!                  recorded on disk: an orphan, with what        no orphan any more
//!                  is left of its map; recovery goes on
//! ```
//!
//! Work that meets what cannot be read stops between two steps ([`stop_here`]): an inode without a
//! name then stays an orphan, and is freed later.
//!
//! *Invariants*: a caller that changes the list stores the inode in the same operation. After each
//! step the map on the disk leads to no block that is free. A step reads what it needs before it
//! changes anything.
//! *Locking*: the caller has locked the inode exclusively. The list's lock is not held while a
//! table block is read; the orphan before it is changed in its table block, without its lock.
use crate::error::{Error, Place, Result};
use crate::inode::node::NodeState;
use crate::inode::operation::Operation;
use crate::inode::orphans::PointedTo;
use crate::inode::table::table_frame;
use crate::inode::volume::Volume;
use crate::seeded::{Bug, bug};
use crate::store::cache::Frame;
use extant_format::Ino;
use extant_format::inode::Inode;
use std::sync::Arc;

/// Adds an inode to the list of orphans, if it is not there. The caller stores the inode.
pub(crate) fn add_orphan(operation: &Operation<'_>, state: &NodeState) {
    if bug(Bug::OrphanNotLinked) {
        return;
    }
    operation.volume().orphans.insert(state.ino, |head| {
        operation.change_superblock(|changes| changes.last_orphan = head);
    });
}

/// Removes an inode from the list of orphans, if it is there. The caller stores the inode.
///
/// # Errors
/// Those of reading the table block of the orphan before it; nothing has changed then.
pub(crate) fn remove_orphan(operation: &Operation<'_>, state: &NodeState) -> Result<()> {
    let (volume, ino) = (operation.volume(), state.ino);
    // Once more if the orphan before it was removed meanwhile: then one that is older is.
    while let Some(at) = volume.orphans.pointed_to(ino) {
        let removed = match at {
            PointedTo::BySuperblock => volume.orphans.remove(ino, at, |next| {
                operation.change_superblock(|changes| changes.last_orphan = next);
                Ok(())
            }),
            PointedTo::By(before) => {
                let place = table_frame(volume, before)?;
                operation.wait_for_log(&place.0);
                volume.orphans.remove(ino, at, |next| point_to(operation, before, &place, next))
            }
        };
        if removed? {
            break;
        }
    }
    Ok(())
}

/// Makes the table entry of an orphan point to the next one. The list is locked.
fn point_to(
    operation: &Operation<'_>,
    ino: Ino,
    (frame, offset): &(Arc<Frame>, usize),
    next: u32,
) -> Result<()> {
    let volume = operation.volume();
    let superblock = &volume.store.superblock;
    if volume.store.stores_inodes_late() && volume.unstored.inodes.lock().contains_key(&ino) {
        return Ok(()); // Its table entry is older than the inode, and gets the number with it.
    }
    let range = *offset..*offset + usize::from(superblock.inode_size);
    operation.modify_at_once(frame, |bytes| {
        let Some(bytes) = bytes.get_mut(range) else { return Ok(()) };
        let inode = Inode::parse(bytes, ino, superblock)
            .map_err(|fault| Error::corrupt(Place::Inode(ino), fault))?;
        Inode { deletion_time: next, ..inode }.encode(bytes, ino, superblock);
        Ok(())
    })
}

/// Between two steps of long work: what was changed so far may be recorded now, and the next step
/// changes at most `credits` blocks, the store of the inode at its end included. If the inode must
/// not stay as it is, it enters the list of orphans with what is recorded.
///
/// # Errors
/// Those of storing the inode.
pub(crate) fn pause(operation: &Operation<'_>, state: &mut NodeState, credits: u32) -> Result<()> {
    operation.next_step(credits, || record(operation, state))
}

/// Ends work on an inode that cannot go on, because the disk cannot be read or is damaged. Between
/// two steps the inode is stored as it is then, an orphan if it must not stay so, and nothing is
/// half done; in the middle of one the error closes the latch when the operation ends. Returns the
/// error.
pub(crate) fn stop_here(operation: &Operation<'_>, state: &mut NodeState, error: Error) -> Error {
    if !operation.is_whole() || !error.is_of_the_disk() {
        return error;
    }
    match record(operation, state) {
        Ok(()) => operation.note_whole(),
        Err(_) => operation.note_midway(),
    }
    error
}

/// Brings into memory what [`remove_orphan`] reads, where it stays as long as the result is kept.
///
/// # Errors
/// Those of reading the table block of the orphan before it.
pub(crate) fn hold_neighbour(volume: &Volume, ino: Ino) -> Result<Option<Arc<Frame>>> {
    match volume.orphans.pointed_to(ino) {
        Some(PointedTo::By(before)) => table_frame(volume, before).map(|(frame, _)| Some(frame)),
        Some(PointedTo::BySuperblock) | None => Ok(None),
    }
}

/// Stores an inode in the middle of long work.
///
/// # Errors
/// Those of storing the inode.
pub(crate) fn record(operation: &Operation<'_>, state: &mut NodeState) -> Result<()> {
    if state.is_shrinking {
        add_orphan(operation, state);
    }
    state.store(operation)
}
