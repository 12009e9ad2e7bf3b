//! Moving extents within a file, leaf by leaf, for maps that are too long to be written anew at
//! once.
//!
//! *Invariants*: after each step the map is valid: extents rise and do not overlap. A power cut
//! between two steps leaves some of them moved and the others not, as in Linux.
//! *Locking*: the caller has locked the inode exclusively.
use super::removal::{Fate, first_after, unmap};
use super::{insert, modify, set_keys, walk, with_node};
use crate::error::Result;
use crate::inode::credits;
use crate::inode::mapping::Grant;
use crate::inode::node::{Leads, NodeState};
use crate::inode::operation::Operation;
use crate::inode::unfinished::pause;
use extant_format::extent::{self, Extent};
use extant_format::{BlockNo, FileBlock};

/// Moves all extents from file block `from` on down by `by` blocks, which are a hole before `from`.
pub(in crate::inode::mapping) fn shift_down(
    operation: &Operation<'_>,
    node: &mut NodeState,
    from: u64,
    by: u32,
) -> Result<()> {
    let volume = operation.volume();
    let mut from = from;
    loop {
        pause(operation, node, credits::STEP)?;
        let Some((way, _)) = first_after(volume, node, from)? else { return Ok(()) };
        let leaf = way.leaf();
        let start = leaf.at.unwrap_or(0);
        let moved: Vec<Extent> = with_node(volume, node, leaf.frame.as_ref(), Some(0), |here| {
            (start..here.len()).map(|at| here.extent(at)).collect()
        })?;
        let Some(last) = moved.last() else { return Ok(()) };
        from = u64::from(last.file_block.0) + u64::from(last.length);
        let down = |extent: &Extent| FileBlock(extent.file_block.0.saturating_sub(by));
        modify(operation, node, leaf.frame.as_ref(), Leads::More, |bytes| {
            for (at, one) in (start..).zip(&moved) {
                extent::set_extent(bytes, at, Extent { file_block: down(one), ..*one });
            }
        });
        if start == 0 {
            set_keys(operation, node, &way.steps, (0, Leads::More), down(&moved[0]))?;
        }
    }
}

/// Moves all of the map from file block `from` on up by `by` blocks. An extent that begins before
/// is split; room for that is reserved.
pub(in crate::inode::mapping) fn shift_up(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    from: u32,
    by: u32,
) -> Result<()> {
    let (operation, volume) = (grant.operation, grant.volume());
    let mut last = Some(u32::MAX);
    while let Some(at_most) = last.filter(|last| *last >= from) {
        pause(operation, node, credits::STEP)?;
        let way = walk(volume, node, FileBlock(at_most))?;
        let leaf = way.leaf();
        let Some(end) = leaf.at else { break };
        let (start, moved) = with_node(volume, node, leaf.frame.as_ref(), Some(0), |here| {
            let is_before = |at: &usize| here.extent(*at).file_block.0 < from;
            let start = (0..=end).take_while(is_before).count();
            (start, (start..=end).map(|at| here.extent(at)).collect::<Vec<_>>())
        })?;
        let Some(first) = moved.first() else { break };
        last = first.file_block.0.checked_sub(1);
        let up = |extent: &Extent| FileBlock(extent.file_block.0.saturating_add(by));
        modify(operation, node, leaf.frame.as_ref(), Leads::More, |bytes| {
            for (at, one) in (start..).zip(&moved) {
                extent::set_extent(bytes, at, Extent { file_block: up(one), ..*one });
            }
        });
        if start > 0 {
            break;
        }
        set_keys(operation, node, &way.steps, (0, Leads::More), up(first))?;
    }
    pause(operation, node, credits::STEP)?;
    let Some((_, extent)) = first_after(volume, node, from.into())? else { return Ok(()) };
    let Some(before) = from.checked_sub(extent.file_block.0).filter(|before| *before > 0) else {
        return Ok(());
    };
    let upper = Extent {
        file_block: FileBlock(from.saturating_add(by)),
        length: extent.length.saturating_sub(before),
        start: BlockNo(extent.start.0 + u64::from(before)),
        state: extent.state,
    };
    let range = u64::from(from)..u64::from(from) + u64::from(upper.length);
    unmap(grant, node, range, Fate::Keep)?;
    insert(grant, node, upper)
}
