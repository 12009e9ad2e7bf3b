//! Content that is in the inode itself (`inline_data`) moves out to a block before it changes. New
//! files never have any.
//!
//! ```text
//! (in the inode) --write_locked--> a dirty page, no block yet --place--> on its way to a block
//!        |                                                                      |
//!        |  the table keeps the inode as it was (NodeState::moving)             | enter the map
//!        |                                                                      v
//!        +--- cut to nothing ------------------------------------------> (in blocks)
//! ```
//!
//! *Invariants*: the table never has an inode that has lost its content and has no block with it
//! yet. What cannot move for want of room stays where it is, unchanged.
//! *Locking*: the inode is locked exclusively, and no operation is open.
use super::{WRITE, forget_all, write_locked};
use crate::error::{Error, Place, Result};
use crate::inode::credits;
use crate::inode::mapping;
use crate::inode::node::{Leads, Node, NodeState};
use crate::inode::table;
use crate::inode::volume::Volume;
use crate::inode::write_back::{Wait, enter_map, submit_moved};
use crate::space::Room;
use extant_format::attribute::without_inline_rest;
use extant_format::inode::flags;
use extant_format::superblock::Feature;
use std::sync::atomic::Ordering;

/// Moves the content of a file out of its inode, if it is there.
///
/// # Errors
/// `NoSpace`, with nothing changed; `Corrupt`; what the device returns.
pub(crate) fn move_out(
    volume: &Volume,
    node: &Node,
    state: &mut NodeState,
    room: Room,
) -> Result<()> {
    let Some(data) = state.inline_data(volume)? else { return Ok(()) };
    let _table = table::hold(volume, state.ino)?;
    state.before_map_change(volume, Leads::More)?;
    detach(volume, state)?;
    let moved = move_data(volume, node, state, &data, room);
    if moved.is_err()
        && let Some(before) = state.moving.take()
    {
        forget_all(volume, &node.pages, state);
        state.inode = *before;
    }
    assert!(moved.is_err() || state.moving.is_none(), "{}: content without a place", state.ino);
    moved
}

fn move_data(
    volume: &Volume,
    node: &Node,
    state: &mut NodeState,
    data: &[u8],
    room: Room,
) -> Result<()> {
    if data.is_empty() {
        return volume.change(credits::INODE, |operation| {
            state.moving = None;
            state.store_now(operation)
        });
    }
    volume.change(WRITE + credits::STEP, |operation| {
        write_locked(operation, &node.pages, state, 0, (data, room))?;
        if state.delayed.is_empty() {
            // Without delayed allocation the map leads to the block before its data is written, as
            // for every write of such a system.
            state.moving = None;
        }
        submit_moved(operation, &node.pages, state)
    })?;
    enter_map(volume, &node.pages, state, Wait::AtCommit)
}

/// Cuts a file to nothing whose content is in its inode. Does nothing for others.
///
/// # Errors
/// `Corrupt`; what the device returns.
pub(super) fn empty(volume: &Volume, node: &Node, state: &mut NodeState) -> Result<()> {
    if !state.inode.is_inline(&volume.store.superblock) {
        return Ok(());
    }
    let _table = table::hold(volume, state.ino)?;
    if state.inode.size > 0 {
        node.rewritten.store(true, Ordering::Release);
    }
    detach(volume, state)?;
    volume.change(credits::INODE, |operation| {
        state.inode.size = 0;
        state.moving = None;
        state.store_now(operation)
    })
}

/// Makes the inode in memory one with a map that is empty. Its size stays; so does the inode in the
/// table, until the caller clears `moving`.
///
/// # Errors
/// `Corrupt` for attributes that cannot be read; nothing has changed then.
pub(crate) fn detach(volume: &Volume, state: &mut NodeState) -> Result<()> {
    let tail = without_inline_rest(&state.inode.tail)
        .map_err(|fault| Error::corrupt(Place::Inode(state.ino), fault))?;
    state.moving = Some(Box::new(state.inode.clone()));
    state.inode.tail = tail;
    state.inode.flags &= !flags::INLINE_DATA;
    if volume.store.superblock.has(Feature::EXTENTS) {
        state.inode.flags |= flags::EXTENTS;
    }
    mapping::initialize(state);
    Ok(())
}
