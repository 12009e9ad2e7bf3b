//! A tree made dense in steps, each of which changes two nodes and what leads to them, where a
//! journal makes a step one change. Every node is filled from the one after it, so that all but the
//! last of a level are full.
use super::merge::collapse_root;
use super::removal::remove_entry_of;
use super::{Way, comfortable, depth, first_key, modify, set_keys, walk, with_node};
use crate::error::Result;
use crate::inode::credits;
use crate::inode::mapping::{change_map, free_map_block};
use crate::inode::node::{Leads, NodeState};
use crate::inode::operation::Operation;
use crate::inode::unfinished::pause;
use crate::inode::volume::Volume;
use extant_format::FileBlock;
use extant_format::extent::{self, Extent, Index, Node};

/// Makes an extent tree as dense as e2fsck expects, in steps. The caller stores the inode.
pub(in crate::inode::mapping) fn compact(
    operation: &Operation<'_>,
    node: &mut NodeState,
) -> Result<()> {
    let volume = operation.volume();
    for level in 0..depth(volume, node)? {
        let mut at = Some(FileBlock(0));
        while let Some(block) = at {
            pause(operation, node, credits::STEP)?;
            at = fill_from_next(operation, node, level, block)?;
        }
    }
    loop {
        pause(operation, node, credits::STEP)?;
        if !collapse_root(operation, node)? {
            return Ok(());
        }
    }
}

/// The entries of a node.
enum Entries {
    Extents(Vec<Extent>),
    Indices(Vec<Index>),
}

impl Entries {
    fn of(here: &Node<'_>) -> Entries {
        match here.depth() {
            0 => Entries::Extents((0..here.len()).map(|at| here.extent(at)).collect()),
            _ => Entries::Indices((0..here.len()).map(|at| here.index(at)).collect()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Entries::Extents(extents) => extents.len(),
            Entries::Indices(indices) => indices.len(),
        }
    }

    /// Appends those before `end` to a node that has `length`.
    fn append(&self, bytes: &mut [u8], length: usize, end: usize) {
        match self {
            Entries::Extents(extents) => (length..)
                .zip(&extents[..end])
                .for_each(|(at, one)| extent::insert_extent(bytes, at, *one)),
            Entries::Indices(indices) => (length..)
                .zip(&indices[..end])
                .for_each(|(at, one)| extent::insert_index(bytes, at, *one)),
        }
    }
}

/// Fills the node of this level on the path to `block` from the one after it. Returns a block of
/// the node that is filled next: the same one if the other has become empty and was freed; `None`
/// after the last node of the level.
fn fill_from_next(
    operation: &Operation<'_>,
    node: &mut NodeState,
    level: u16,
    block: FileBlock,
) -> Result<Option<FileBlock>> {
    let volume = operation.volume();
    let way = walk(volume, node, block)?;
    let Some(next) = next_node(volume, node, &way, level)? else { return Ok(None) };
    let after = walk(volume, node, next)?;
    let above = |way: &Way| way.steps.len().saturating_sub(1 + usize::from(level));
    let (Some(left), Some(right)) = (
        way.steps.get(above(&way)).and_then(|step| step.frame.clone()),
        after.steps.get(above(&after)).and_then(|step| step.frame.clone()),
    ) else {
        return Ok(None);
    };
    let length = with_node(volume, node, Some(&left), Some(level), |here| here.len())?;
    let entries = with_node(volume, node, Some(&right), Some(level), |here| Entries::of(&here))?;
    let taken = comfortable(volume).saturating_sub(length).min(entries.len());
    if taken == 0 {
        return Ok(Some(next));
    }
    change_map(operation, node, &left, Leads::More, |bytes| entries.append(bytes, length, taken));
    node.density.nodes_changed = true;
    if taken == entries.len() {
        free_map_block(operation, node, right.block())?;
        let steps = &after.steps[..above(&after)];
        remove_entry_of(operation, node, steps, (level + 1, Leads::More))?;
        return Ok(Some(block));
    }
    modify(operation, node, Some(&right), Leads::More, |bytes| {
        (0..taken).for_each(|_| extent::remove(bytes, 0));
    });
    let key = with_node(volume, node, Some(&right), Some(level), |here| first_key(&here))?;
    if let Some(key) = key {
        let steps = &after.steps[..=above(&after)];
        set_keys(operation, node, steps, (level, Leads::More), key)?;
    }
    Ok(key)
}

/// The first file block of the node of this level after the one on a path.
fn next_node(
    volume: &Volume,
    node: &NodeState,
    way: &Way,
    level: u16,
) -> Result<Option<FileBlock>> {
    let above = way.steps.iter().rev().enumerate().skip(usize::from(level) + 1);
    for (level, step) in above {
        let at = step.at.unwrap_or(0) + 1;
        let next = with_node(volume, node, step.frame.as_ref(), Some(level as u16), |here| {
            (at < here.len()).then(|| here.index(at).file_block)
        })?;
        if next.is_some() {
            return Ok(next);
        }
    }
    Ok(None)
}
