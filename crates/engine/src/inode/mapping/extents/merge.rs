//! After a removal, nodes are joined: leaves with their neighbours, and the root with an only
//! child.
use super::{depth, modify, read_child, walk, with_node};
use crate::error::{Error, Place, Result};
use crate::inode::credits;
use crate::inode::mapping::{change_map, check_map_block, free_map_block};
use crate::inode::node::{Leads, NodeState};
use crate::inode::operation::Operation;
use crate::inode::unfinished::pause;
use crate::store::cache::Frame;
use extant_format::FileBlock;
use extant_format::extent::{self, Node};
use std::sync::Arc;

/// Joins the leaf at `from` with its neighbours if they fit into one, and removes levels that are
/// not needed.
pub(super) fn tidy(operation: &Operation<'_>, node: &mut NodeState, from: u64) -> Result<()> {
    let volume = operation.volume();
    let block = FileBlock(u32::try_from(from).unwrap_or(u32::MAX));
    for level in 1..=depth(volume, node)? {
        pause(operation, node, credits::STEP)?;
        while merge_children(operation, node, block, level)? {
            pause(operation, node, credits::STEP)?;
        }
    }
    pause(operation, node, credits::STEP)?;
    while collapse_root(operation, node)? {}
    Ok(())
}

/// In the node at `level` on the path to `block`, joins the child on the path with the one before
/// or after it, if both fit into one.
fn merge_children(
    operation: &Operation<'_>,
    node: &mut NodeState,
    block: FileBlock,
    level: u16,
) -> Result<bool> {
    let volume = operation.volume();
    let way = walk(volume, node, block)?;
    let Some(step) =
        way.steps.len().checked_sub(1 + usize::from(level)).and_then(|at| way.steps.get(at))
    else {
        return Ok(false);
    };
    let taken = step.at.unwrap_or(0);
    for left in [taken.checked_sub(1), Some(taken)].into_iter().flatten() {
        let pair = with_node(volume, node, step.frame.as_ref(), Some(level), |here| {
            (left + 1 < here.len()).then(|| (here.index(left).child, here.index(left + 1).child))
        })?;
        let Some((left_child, right_child)) = pair else {
            continue;
        };
        let (left_frame, right_frame) =
            (read_child(volume, node, left_child)?, read_child(volume, node, right_child)?);
        let length = |frame| {
            with_node(volume, node, Some(frame), Some(level - 1), |here| {
                (here.len(), here.capacity())
            })
        };
        let ((left_len, capacity), (right_len, _)) = (length(&left_frame)?, length(&right_frame)?);
        if left_len + right_len > capacity {
            continue;
        }
        if volume.store.writes_in_stages() && !volume.store.cache.is_new(&left_frame) {
            // A sweep cannot replace two nodes on disk by one in a single step. This is left until
            // the map is made dense.
            node.density.nodes_changed = true;
            continue;
        }
        check_map_block(volume, node, right_child)?;
        append_node(operation, node, &left_frame, &right_frame, level - 1)?;
        modify(operation, node, step.frame.as_ref(), Leads::Fewer, |bytes| {
            extent::remove(bytes, left + 1)
        });
        free_map_block(operation, node, right_child)?;
        node.density.nodes_changed = true;
        operation.note_whole();
        return Ok(true);
    }
    Ok(false)
}

/// Appends all entries of one node to those of another.
fn append_node(
    operation: &Operation<'_>,
    node: &mut NodeState,
    to: &Arc<Frame>,
    from: &Arc<Frame>,
    level: u16,
) -> Result<()> {
    let volume = operation.volume();
    let start = with_node(volume, node, Some(to), Some(level), |here| here.len())?;
    let source = from.bytes();
    let parsed = Node::parse(&source, Some(level), volume.store.superblock.blocks_count)
        .map_err(|fault| Error::corrupt(Place::InodeBlock(node.ino, from.block()), fault))?;
    change_map(operation, node, to, Leads::More, |bytes| {
        for at in 0..parsed.len() {
            match level {
                0 => extent::insert_extent(bytes, start + at, parsed.extent(at)),
                _ => extent::insert_index(bytes, start + at, parsed.index(at)),
            }
        }
    });
    Ok(())
}

/// Moves the entries of an only child into the root, if they fit.
pub(super) fn collapse_root(operation: &Operation<'_>, node: &mut NodeState) -> Result<bool> {
    let volume = operation.volume();
    let (depth, only) = with_node(volume, node, None, None, |root| {
        (root.depth(), (root.depth() > 0 && root.len() == 1).then(|| root.index(0).child))
    })?;
    let Some(child) = only else { return Ok(false) };
    let frame = read_child(volume, node, child)?;
    let length = with_node(volume, node, Some(&frame), Some(depth - 1), |here| here.len())?;
    if length > extent::capacity(node.inode.block.len()) {
        return Ok(false);
    }
    check_map_block(volume, node, child)?;
    let was_whole = operation.is_whole();
    operation.note_midway();
    extent::initialize(&mut node.inode.block, depth - 1);
    extent::copy(&frame.bytes(), &mut node.inode.block);
    free_map_block(operation, node, child)?;
    if was_whole {
        operation.note_whole();
    }
    Ok(true)
}
