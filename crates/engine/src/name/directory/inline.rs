//! Names that are in the inode of their directory (`inline_data`). One that is removed or replaced
//! is changed there, which takes no room; before one is added they move out to a block. New
//! directories always have blocks.
//!
//! *Invariants*: what is changed in the inode is stored by the caller, in the same operation.
use super::{append, inline_block};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::file::inline::detach;
use crate::inode::volume::Volume;
use crate::inode::{NodeState, credits, mapping, table};
use crate::space::Room;
use extant_format::attribute::inline_rest;
use extant_format::directory::Form;
use extant_format::{Fault, FileBlock, Ino};
use std::ops::Range;

/// Blocks of metadata that moving names out of an inode changes.
const MOVE: u32 = credits::RUN + 1 + credits::INODE;

/// Moves the names of a directory out of its inode, if they are there, and stores it. No operation
/// is open.
///
/// # Errors
/// `NoSpace`, with nothing changed; `Corrupt`; what the device returns.
pub(crate) fn move_out(volume: &Volume, node: &mut NodeState, room: Room) -> Result<()> {
    let Some(block) = inline_block(volume, node)? else { return Ok(()) };
    let _table = table::hold(volume, node.ino)?;
    detach(volume, node)?;
    node.inode.size = 0;
    let moved = move_names(volume, node, &block, room);
    if let Some(before) = node.moving.take() {
        node.inode = *before;
    }
    if moved.is_ok() && volume.store.writes_in_stages() {
        // A new block is written before inodes, and names after them: what happens to names from
        // here on must not be in the same sweep.
        volume.space.write_metadata()?;
    }
    moved
}

fn move_names(volume: &Volume, node: &mut NodeState, block: &[u8], room: Room) -> Result<()> {
    let need = mapping::worst_case(volume, node, FileBlock(0), 1);
    let mut reservation = volume.space.reserve_within(need, room)?;
    volume.change(MOVE, |operation| {
        append(operation, &mut reservation, node, Form::Linear, |bytes| {
            bytes.copy_from_slice(block);
        })?;
        node.moving = None;
        node.store(operation)
    })
}

/// Removes a name that is in the inode.
///
/// # Errors
/// `NotFound`; `Corrupt`.
pub(super) fn remove(volume: &Volume, node: &mut NodeState, name: &[u8]) -> Result<()> {
    let style = volume.store.style;
    change(node, |part| style.remove_inline(part, name))
}

/// Points a name that is in the inode, or "..", to another inode.
///
/// # Errors
/// `NotFound`; `Corrupt`.
pub(super) fn replace(
    volume: &Volume,
    node: &mut NodeState,
    name: &[u8],
    (ino, file_type): (Ino, extant_format::inode::FileType),
) -> Result<()> {
    if name == b".." {
        node.inode.block[..PARENT].copy_from_slice(&ino.0.to_le_bytes());
        return Ok(());
    }
    let style = volume.store.style;
    change(node, |part| style.replace(part, name, ino, file_type))
}

/// Bytes of the parent's number, with which the inode's first part begins.
const PARENT: usize = size_of::<u32>();

/// Makes a change in the first part of the names that takes it.
fn change(
    node: &mut NodeState,
    mut work: impl FnMut(&mut [u8]) -> std::result::Result<bool, Fault>,
) -> Result<()> {
    let ino = node.ino;
    let wrong = |fault| Error::corrupt(Place::Inode(ino), fault);
    let rest: Range<usize> = inline_rest(&node.inode.tail).map_err(wrong)?.unwrap_or_default();
    // What comes after the size counts for nobody.
    let used = usize::try_from(node.inode.size).unwrap_or(usize::MAX);
    let used = used.saturating_sub(node.inode.block.len()).min(rest.len());
    let second = node.inode.tail.get_mut(rest.start..rest.start + used).unwrap_or_default();
    for part in [&mut node.inode.block[PARENT..], second] {
        if work(part).map_err(wrong)? {
            return Ok(());
        }
    }
    Err(ErrorKind::NotFound.into())
}
