//! Blocks are unmapped, and nodes that become empty go.
use super::{
    Step, Way, find, first_key, insert, merge, modify, neighbours, set_keys, walk, with_node,
};
use crate::error::Result;
use crate::inode::credits;
use crate::inode::mapping::{
    Grant, Piece, check_map_block, clusters, free_at_once_max, free_map_block, free_run,
};
use crate::inode::node::{Leads, NodeState};
use crate::inode::operation::Operation;
use crate::inode::unfinished::pause;
use crate::inode::volume::Volume;
use extant_format::extent::{self, Extent};
use extant_format::{BlockNo, FileBlock, Run};
use std::ops::Range;

/// What happens to blocks that are unmapped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Free,
    Keep,
}

pub(in crate::inode::mapping) fn remove(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    range: Range<u64>,
) -> Result<u64> {
    let (operation, fate) = (grant.operation, Fate::Free);
    let freed = unmap(grant, node, range.clone(), fate)?;
    match merge::tidy(operation, node, range.start) {
        // The neighbours cannot be read: the map stays as loose as it is.
        Err(error) if operation.is_whole() && error.is_of_the_disk() => {
            node.density.nodes_changed = true;
        }
        tidied => tidied?,
    }
    Ok(freed)
}

/// Whether a range is strictly inside one extent.
pub(in crate::inode::mapping) fn splits_one(
    volume: &Volume,
    node: &NodeState,
    range: &Range<u64>,
) -> Result<bool> {
    let Ok(start) = u32::try_from(range.start) else {
        return Ok(false);
    };
    let Some(before) = start.checked_sub(1) else {
        return Ok(false);
    };
    let length = range.end - range.start;
    let want = u32::try_from(length + 2).unwrap_or(u32::MAX);
    let piece = find(volume, node, FileBlock(before), want)?;
    Ok(matches!(piece, Piece::Run(run, _) if u64::from(run.length) > length + 1))
}

/// The first extent that ends after `from`.
pub(super) fn first_after(
    volume: &Volume,
    node: &NodeState,
    from: u64,
) -> Result<Option<(Way, Extent)>> {
    let mut from = from;
    // No leaf is empty, so the second leaf has an extent, unless the disk is damaged.
    for _ in 0..2 {
        let Ok(block) = u32::try_from(from) else {
            return Ok(None);
        };
        let mut way = walk(volume, node, FileBlock(block))?;
        let (before, after) = neighbours(volume, node, &way)?;
        if let Some(extent) = before
            && u64::from(extent.file_block.0) + u64::from(extent.length) > from
        {
            return Ok(Some((way, extent)));
        }
        if let Some(extent) = after {
            let last = way.steps.len() - 1;
            let at = &mut way.steps[last].at;
            *at = Some(at.map_or(0, |at| at + 1));
            return Ok(Some((way, extent)));
        }
        match way.next_leaf {
            Some(next) if u64::from(next.0) > from => from = next.0.into(),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

pub(super) fn unmap(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    range: Range<u64>,
    fate: Fate,
) -> Result<u64> {
    let volume = grant.volume();
    let mut freed = 0;
    let mut from = range.start;
    let most = match fate {
        Fate::Free => free_at_once_max(volume),
        Fate::Keep => u64::MAX,
    };
    while let Some((way, extent)) = first_after(volume, node, from)? {
        if fate == Fate::Free {
            pause(grant.operation, node, credits::STEP)?;
        }
        let first = u64::from(extent.file_block.0);
        let next = first + u64::from(extent.length);
        let (cut_from, cut_to) = (from.max(first), range.end.min(next));
        if cut_from >= cut_to {
            break;
        }
        let gone = match cut_to - cut_from <= most {
            true => cut_from..cut_to,
            // What stays at its front is not split off what goes later.
            false if cut_to == next && cut_from > first => cut_to - most..cut_to,
            false => cut_from..cut_from + most,
        };
        let leads = match fate {
            Fate::Free => Leads::Fewer,
            Fate::Keep => Leads::More,
        };
        let run = Run {
            start: BlockNo(extent.start.0 + (gone.start - first)),
            length: (gone.end - gone.start) as u32,
        };
        let mut freed_run = None;
        if fate == Fate::Free {
            volume.space.check_to_free(run)?;
            freed_run = clusters::freed_with(volume, node, &gone, run)?;
            check_way(volume, node, &way)?;
        }
        cut(grant, node, &way, (extent, leads), gone.clone())?;
        if fate == Fate::Free {
            freed_run.map_or(Ok(()), |run| free_run(grant.operation, node, run))?;
            grant.operation.note_whole();
        }
        freed += u64::from(run.length);
        if gone.start == cut_from {
            from = gone.end;
        }
    }
    Ok(freed)
}

/// Fails if one of the nodes of a path could not be freed.
fn check_way(volume: &Volume, node: &NodeState, way: &Way) -> Result<()> {
    let frames = way.steps.iter().filter_map(|step| step.frame.as_ref());
    frames.into_iter().try_for_each(|frame| check_map_block(volume, node, frame.block()))
}

/// Removes the blocks of `gone` from the extent at the end of `way`.
fn cut(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    way: &Way,
    (extent, leads): (Extent, Leads),
    gone: Range<u64>,
) -> Result<()> {
    let first = u64::from(extent.file_block.0);
    let next = first + u64::from(extent.length);
    let leaf = way.leaf();
    let at = leaf.at.unwrap_or(0);
    let left = Extent { length: (gone.start - first) as u32, ..extent };
    let right = Extent {
        file_block: FileBlock(gone.end as u32),
        length: (next - gone.end) as u32,
        start: BlockNo(extent.start.0 + (gone.end - first)),
        state: extent.state,
    };
    let frame = leaf.frame.as_ref();
    match (left.length > 0, right.length > 0) {
        (false, false) => remove_entry(grant.operation, node, way, leads)?,
        (true, false) => {
            modify(grant.operation, node, frame, leads, |bytes| extent::set_extent(bytes, at, left))
        }
        (false, true) => {
            modify(grant.operation, node, frame, leads, |bytes| {
                extent::set_extent(bytes, at, right)
            });
            if at == 0 {
                set_keys(grant.operation, node, &way.steps, (0, leads), right.file_block)?;
            }
        }
        (true, true) => {
            let was_whole = grant.operation.is_whole();
            modify(grant.operation, node, frame, leads, |bytes| {
                extent::set_extent(bytes, at, left)
            });
            if let Err(error) = insert(grant, node, right) {
                restore(grant.operation, node, extent)?;
                if was_whole {
                    grant.operation.note_whole();
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Gives an extent its length again, after what should have become its second part found no room.
fn restore(operation: &Operation<'_>, node: &mut NodeState, extent: Extent) -> Result<()> {
    let way = walk(operation.volume(), node, extent.file_block)?;
    let leaf = way.leaf();
    let at = leaf.at.unwrap_or(0);
    modify(operation, node, leaf.frame.as_ref(), Leads::More, |bytes| {
        extent::set_extent(bytes, at, extent);
    });
    Ok(())
}

/// Removes the entry at the end of a path, and nodes that become empty.
fn remove_entry(
    operation: &Operation<'_>,
    node: &mut NodeState,
    way: &Way,
    leads: Leads,
) -> Result<()> {
    remove_entry_of(operation, node, &way.steps, (0, leads))
}

/// As [`remove_entry`], of a node on this level, with which the path ends.
pub(super) fn remove_entry_of(
    operation: &Operation<'_>,
    node: &mut NodeState,
    steps: &[Step],
    (lowest, leads): (u16, Leads),
) -> Result<()> {
    let volume = operation.volume();
    for (above, step) in steps.iter().rev().enumerate() {
        let level = lowest + above as u16;
        let at = step.at.unwrap_or(0);
        let frame = step.frame.as_ref();
        let length = with_node(volume, node, frame, Some(level), |here| here.len())?;
        node.density.removed += u64::from(level == 0);
        node.density.nodes_changed |= level > 0;
        if length > 1 {
            modify(operation, node, frame, leads, |bytes| extent::remove(bytes, at));
            let key = with_node(volume, node, frame, Some(level), |here| first_key(&here))?;
            if let Some(key) = key.filter(|_| at == 0) {
                let steps = &steps[..steps.len() - above];
                set_keys(operation, node, steps, (level, leads), key)?;
            }
            return Ok(());
        }
        match frame {
            Some(frame) => free_map_block(operation, node, frame.block())?,
            None => extent::initialize(&mut node.inode.block, 0),
        }
    }
    Ok(())
}
