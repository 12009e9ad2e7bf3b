//! Extent trees over their nodes: look-up, insertion with splits, removal with merges.
mod compact;
mod merge;
mod removal;
mod shift;
mod unwritten;

pub(super) use compact::compact;
pub(super) use removal::{remove, splits_one};
pub(super) use shift::{shift_down, shift_up};
pub(super) use unwritten::{set_unwritten, set_written};

use super::{Grant, Piece, Wish, change_map, clusters, free_map_block, too_large};
use crate::error::{Error, Place, Result};
use crate::inode::node::{Leads, NodeState};
use crate::inode::operation::Operation;
use crate::inode::volume::Volume;
use crate::policy::allocation::Purpose;
use crate::store::cache::{BlockKind, Frame};
use extant_format::extent::{self, Extent, Index, MAX_DEPTH, MAX_LENGTH, Node, State};
use extant_format::{BlockNo, FileBlock, Run};
use std::ops::Range;
use std::sync::Arc;

/// One node on the path to a leaf.
struct Step {
    /// `None` for the root, which is in the inode.
    frame: Option<Arc<Frame>>,
    /// The index of the entry that was followed (index node) or found (leaf); `None` if the block
    /// comes before the first entry.
    at: Option<usize>,
}

/// The path from the root to the leaf that covers a file block.
struct Way {
    steps: Vec<Step>,
    /// First file block of the next leaf, if there is one: where this leaf's range ends.
    next_leaf: Option<FileBlock>,
}

pub(super) fn with_node<R>(
    volume: &Volume,
    node: &NodeState,
    frame: Option<&Arc<Frame>>,
    depth: Option<u16>,
    look: impl FnOnce(Node<'_>) -> R,
) -> Result<R> {
    let blocks = volume.store.superblock.blocks_count;
    match frame {
        None => Node::parse(&node.inode.block, depth, blocks)
            .map(look)
            .map_err(|fault| Error::corrupt(Place::Inode(node.ino), fault)),
        Some(frame) => {
            let bytes = frame.bytes();
            Node::parse(&bytes, depth, blocks)
                .map(look)
                .map_err(|fault| Error::corrupt(Place::InodeBlock(node.ino, frame.block()), fault))
        }
    }
}

pub(super) fn read_child(volume: &Volume, node: &NodeState, child: BlockNo) -> Result<Arc<Frame>> {
    super::check_block(volume, node, child)?;
    volume.store.cache.read(child, BlockKind::Extents { ino: node.ino, seed: node.seed })
}

pub(super) fn depth(volume: &Volume, node: &NodeState) -> Result<u16> {
    let depth = with_node(volume, node, None, None, |root| root.depth())?;
    if depth > MAX_DEPTH {
        let place = Place::Inode(node.ino);
        return Err(Error::field(place, "extent tree", "depth", depth.into(), "more than five"));
    }
    Ok(depth)
}

/// How many entries of a node a level should use at least on average: all but one.
pub(super) fn comfortable(volume: &Volume) -> usize {
    extent::capacity(volume.store.block_size() as usize).saturating_sub(1).max(1)
}

/// The file block of a node's first entry.
pub(super) fn first_key(here: &Node<'_>) -> Option<FileBlock> {
    match (here.is_empty(), here.depth()) {
        (true, _) => None,
        (false, 0) => Some(here.extent(0).file_block),
        (false, _) => Some(here.index(0).file_block),
    }
}

/// The file block of a node's last entry.
fn last_key(here: &Node<'_>) -> Option<FileBlock> {
    let last = here.len().checked_sub(1)?;
    Some(if here.depth() == 0 { here.extent(last).file_block } else { here.index(last).file_block })
}

/// What an index entry says about the node that it points to.
#[derive(Clone, Copy)]
pub(super) struct Covered {
    pub(super) child: BlockNo,
    first: FileBlock,
    /// File block at which the next node of that level begins.
    pub(super) next: Option<FileBlock>,
}

impl Covered {
    /// All children of an index node after which the next one begins at file block `next`.
    pub(super) fn children(here: &Node<'_>, next: Option<FileBlock>) -> Vec<Covered> {
        let next = |at: usize| {
            if at + 1 < here.len() { Some(here.index(at + 1).file_block) } else { next }
        };
        let covered = |at: usize| {
            let Index { file_block, child } = here.index(at);
            Covered { child, first: file_block, next: next(at) }
        };
        (0..here.len()).map(covered).collect()
    }

    /// Fails unless a node begins where its parent says, and ends before the next node begins. So
    /// no node is reached twice, and no walk is longer than the volume has blocks.
    pub(super) fn check(self, node: &NodeState, here: &Node<'_>) -> Result<()> {
        let (first, last) = (first_key(here), last_key(here));
        if first == Some(self.first)
            && self.next.is_none_or(|next| last.is_some_and(|last| last < next))
        {
            return Ok(());
        }
        let (place, found) =
            (Place::InodeBlock(node.ino, self.child), first.map_or(0, |first| first.0));
        Err(Error::field(
            place,
            "extent node",
            "first or last file block",
            found.into(),
            "not within what its parent says",
        ))
    }
}

fn walk(volume: &Volume, node: &NodeState, block: FileBlock) -> Result<Way> {
    let mut way = Way { steps: Vec::with_capacity(2), next_leaf: None };
    let mut frame: Option<Arc<Frame>> = None;
    let mut covered: Option<Covered> = None;
    for level in (0..=depth(volume, node)?).rev() {
        let look = |here: Node<'_>| -> Result<(Option<usize>, Option<Covered>)> {
            if let Some(covered) = covered {
                covered.check(node, &here)?;
            }
            let at = here.find(block);
            if level == 0 {
                return Ok((at, None));
            }
            // A block before the first entry belongs to the first child.
            let taken = at.unwrap_or(0);
            let next = (taken + 1 < here.len()).then(|| here.index(taken + 1).file_block);
            let below = (taken < here.len()).then(|| here.index(taken));
            Ok((
                Some(taken),
                below.map(|index| Covered { child: index.child, first: index.file_block, next }),
            ))
        };
        let (at, below) = with_node(volume, node, frame.as_ref(), Some(level), look)??;
        way.steps.push(Step { frame: frame.take(), at });
        if level > 0 {
            let empty = || {
                Error::field(
                    Place::Inode(node.ino),
                    "extent tree",
                    "entries of an index node",
                    0,
                    "too few",
                )
            };
            let below = below.ok_or_else(empty)?;
            way.next_leaf = below.next.or(way.next_leaf);
            frame = Some(read_child(volume, node, below.child)?);
            covered = Some(Covered { next: way.next_leaf, ..below });
        }
    }
    Ok(way)
}

impl Way {
    fn leaf(&self) -> &Step {
        &self.steps[self.steps.len() - 1]
    }
}

/// The extent at or before a block, the first extent after it, and where the next leaf begins.
fn neighbours(
    volume: &Volume,
    node: &NodeState,
    way: &Way,
) -> Result<(Option<Extent>, Option<Extent>)> {
    let leaf = way.leaf();
    with_node(volume, node, leaf.frame.as_ref(), Some(0), |here| {
        let next = leaf.at.map_or(0, |at| at + 1);
        (leaf.at.map(|at| here.extent(at)), (next < here.len()).then(|| here.extent(next)))
    })
}

pub(super) fn find(volume: &Volume, node: &NodeState, block: FileBlock, max: u32) -> Result<Piece> {
    let way = walk(volume, node, block)?;
    let (before, after) = neighbours(volume, node, &way)?;
    if let Some(extent) = before {
        let into = block.0 - extent.file_block.0;
        if into < extent.length {
            let start = BlockNo(extent.start.0 + u64::from(into));
            return Ok(Piece::Run(
                Run { start, length: (extent.length - into).min(max) },
                extent.state,
            ));
        }
    }
    let next = after.map(|extent| extent.file_block).or(way.next_leaf);
    let length = next.map_or(max, |next| next.0.saturating_sub(block.0).max(1));
    Ok(Piece::Hole(length.min(max)))
}

/// See [`super::map_need`]. Every hole may split its leaf and all nodes above it. Filling it in
/// rising order then adds, at worst, a leaf for each half leaf of extents.
pub(super) fn map_need(
    volume: &Volume,
    node: &NodeState,
    holes: &[Range<u64>],
    splits: u64,
) -> u64 {
    let half =
        (extent::capacity(volume.store.block_size() as usize) as u64 / 2).saturating_sub(1).max(1);
    let blocks: u64 = holes.iter().map(|hole| hole.end - hole.start).sum();
    let root = with_node(volume, node, None, None, |root| (root.depth(), root.len()));
    let (depth, entries) = root.unwrap_or((MAX_DEPTH, 0));
    // Dirty blocks may have been promised no map at all, and still become extents before this write
    // does.
    let extents = (entries as u64)
        .saturating_add(2 * node.dirty.len())
        .saturating_add(2 * node.placed.len() as u64)
        .saturating_add(blocks)
        .saturating_add(2 * splits);
    if depth == 0 && extents <= 4 || blocks == 0 && splits == 0 {
        return 0;
    }
    // A new level, and a node beside each on the way; with data first a node that is on the disk is
    // split into two new ones.
    let way = match volume.store.writes_in_stages() {
        true => (2 * u64::from(depth) + 1).max(u64::from(depth) + 2),
        false => u64::from(depth) + 2,
    };
    let leaves = holes.iter().map(|hole| (hole.end - hole.start) / half);
    let below: u64 = leaves.map(|leaves| leaves + leaves / half + way).sum();
    below.saturating_add(splits.saturating_mul(2 * way))
}

/// See [`super::split_need`]. A node is full before it is split, and two half full ones follow it:
/// apart from the leaves that are there, each split takes half a node of extents. Above them one
/// node of each level may have to split, and one more for each half node of splits.
pub(super) fn split_need(volume: &Volume, node: &NodeState, extents: u64) -> u64 {
    let capacity = extent::capacity(volume.store.block_size() as usize) as u64;
    let half = (capacity / 2).saturating_sub(1).max(1);
    let root = with_node(volume, node, None, None, |root| (root.depth(), root.len() as u64));
    let (depth, entries) = root.unwrap_or((MAX_DEPTH, 0));
    let leaves = match depth {
        0 if entries + extents <= 4 => return 0,
        0 if entries + extents <= capacity => return 1,
        0 => 1,
        depth => (1..depth).fold(entries, |nodes, _| nodes.saturating_mul(capacity)),
    };
    let split = leaves.min(extents) + extents / half;
    let need = split + split / half + u64::from(depth).max(1);
    // With data first a node that is on the disk is split into two new ones.
    if volume.store.writes_in_stages() { 2 * need } else { need }
}

/// What to ask the policy for.
pub(super) fn wish(
    grant: &Grant<'_, '_, '_>,
    node: &NodeState,
    block: FileBlock,
    want: u32,
) -> Result<Wish> {
    let volume = grant.volume();
    let way = walk(volume, node, block)?;
    let (before, after) = neighbours(volume, node, &way)?;
    let next = after.map(|extent| extent.file_block).or(way.next_leaf);
    let free = next.map_or(want, |next| want.min(next.0.saturating_sub(block.0))).max(1);
    let longest = if grant.state == State::Written { MAX_LENGTH } else { MAX_LENGTH - 1 };
    let previous = before.map(|extent| {
        let last = extent.length - 1;
        (FileBlock(extent.file_block.0 + last), BlockNo(extent.start.0 + u64::from(last)))
    });
    let map_block = way.leaf().frame.as_ref().map(|frame| frame.block());
    let want = free.min(longest);
    Ok(Wish { purpose: grant.purpose, file_block: block, want, previous, map_block })
}

/// Maps a run, which may be longer than an extent.
pub(super) fn enter(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    block: FileBlock,
    run: Run,
) -> Result<()> {
    let mut at = 0;
    while at < run.length {
        let length = (run.length - at).min(MAX_LENGTH);
        let start = BlockNo(run.start.0 + u64::from(at));
        let file_block = FileBlock(block.0 + at);
        insert(grant, node, Extent { file_block, length, start, state: State::Written })?;
        at += length;
    }
    Ok(())
}

pub(super) fn allocate(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    block: FileBlock,
    want: u32,
) -> Result<Run> {
    let mut wish = wish(grant, node, block, want)?;
    let run = match clusters::at_hand(grant.volume(), node, &mut wish)? {
        Some(run) => run,
        None => grant.take(node, wish)?,
    };
    let extent =
        Extent { file_block: block, length: run.length, start: run.start, state: grant.state };
    insert(grant, node, extent)?;
    Ok(run)
}

/// Changes the bytes of a node, which is in the inode if `frame` is `None`.
fn modify<R>(
    operation: &Operation<'_>,
    node: &mut NodeState,
    frame: Option<&Arc<Frame>>,
    leads: Leads,
    change: impl FnOnce(&mut [u8]) -> R,
) -> R {
    match frame {
        None => {
            operation.note_midway();
            change(&mut node.inode.block)
        }
        Some(frame) => change_map(operation, node, frame, leads, change),
    }
}

pub(super) fn joins(left: &Extent, right: &Extent) -> bool {
    let longest = if left.state == State::Written { MAX_LENGTH } else { MAX_LENGTH - 1 };
    left.state == right.state
        && left.file_block.0.checked_add(left.length) == Some(right.file_block.0)
        && left.start.0 + u64::from(left.length) == right.start.0
        && left.length + right.length <= longest
}

/// Inserts an extent into a hole: joins it with a neighbour if possible, and splits nodes if
/// necessary.
fn insert(grant: &mut Grant<'_, '_, '_>, node: &mut NodeState, extent: Extent) -> Result<()> {
    let volume = grant.volume();
    // Each round inserts, or makes room on one level; a deeper tree has one level more.
    for _ in 0..=2 * usize::from(MAX_DEPTH) + 2 {
        let way = walk(volume, node, extent.file_block)?;
        if join(grant.operation, node, &way, extent)? {
            return Ok(());
        }
        let leaf = way.leaf();
        let at = leaf.at.map_or(0, |at| at + 1);
        let full = with_node(volume, node, leaf.frame.as_ref(), Some(0), |here| {
            here.len() >= here.capacity()
        })?;
        if !full {
            modify(grant.operation, node, leaf.frame.as_ref(), Leads::More, |bytes| {
                extent::insert_extent(bytes, at, extent)
            });
            if at == 0 {
                lower_keys(grant.operation, node, &way, extent.file_block)?;
            }
            return Ok(());
        }
        make_room(grant, node, &way, at, extent.file_block)?;
    }
    Err(too_large())
}

/// Lengthens a neighbouring extent instead of inserting one; returns false if none fits.
fn join(
    operation: &Operation<'_>,
    node: &mut NodeState,
    way: &Way,
    extent: Extent,
) -> Result<bool> {
    let volume = operation.volume();
    let (before, after) = neighbours(volume, node, way)?;
    let leaf = way.leaf();
    let next = leaf.at.map_or(0, |at| at + 1);
    let frame = leaf.frame.as_ref();
    if let (Some(left), Some(at)) = (before, leaf.at)
        && joins(&left, &extent)
    {
        let joined = Extent { length: left.length + extent.length, ..left };
        let both = after.filter(|right| joins(&joined, right));
        let length = joined.length + both.map_or(0, |right| right.length);
        modify(operation, node, frame, Leads::More, |bytes| {
            extent::set_extent(bytes, at, Extent { length, ..joined });
            if both.is_some() {
                extent::remove(bytes, next);
            }
        });
        node.density.removed += u64::from(both.is_some());
        return Ok(true);
    }
    if let Some(right) = after
        && joins(&extent, &right)
    {
        let joined = Extent { length: extent.length + right.length, ..extent };
        modify(operation, node, frame, Leads::More, |bytes| {
            extent::set_extent(bytes, next, joined)
        });
        if next == 0 {
            lower_keys(operation, node, way, extent.file_block)?;
        }
        return Ok(true);
    }
    Ok(false)
}

/// Updates the index entries that point to a leaf as first child, after its first entry changed.
fn lower_keys(
    operation: &Operation<'_>,
    node: &mut NodeState,
    way: &Way,
    first: FileBlock,
) -> Result<()> {
    set_keys(operation, node, &way.steps, (0, Leads::More), first)
}

/// Sets the key of the index entry that points to a node of this level, and of those above it, as
/// long as each is the first of its own node.
fn set_keys(
    operation: &Operation<'_>,
    node: &mut NodeState,
    steps: &[Step],
    (level, leads): (u16, Leads),
    first: FileBlock,
) -> Result<()> {
    let volume = operation.volume();
    for (level, step) in (level + 1..).zip(steps.iter().rev().skip(1)) {
        let at = step.at.unwrap_or(0);
        let entry =
            with_node(volume, node, step.frame.as_ref(), Some(level), |here| here.index(at))?;
        if entry.file_block != first {
            let entry = Index { file_block: first, ..entry };
            modify(operation, node, step.frame.as_ref(), leads, |bytes| {
                extent::set_index(bytes, at, entry)
            });
        }
        if at > 0 {
            break;
        }
    }
    Ok(())
}

/// Splits the lowest node whose parent has room, or makes the tree one level deeper.
fn make_room(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    way: &Way,
    at: usize,
    first: FileBlock,
) -> Result<()> {
    let volume = grant.volume();
    let deepest = way.steps.len() - 1;
    let mut split = deepest;
    while split > 0 {
        let level = (deepest - split + 1) as u16;
        let parent = &way.steps[split - 1];
        let room = with_node(volume, node, parent.frame.as_ref(), Some(level), |here| {
            here.len() < here.capacity()
        })?;
        if room {
            return split_node(grant, node, way, split, at, first);
        }
        split -= 1;
    }
    grow_deeper(grant, node, deepest as u16, first)
}

pub(super) fn new_node(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    depth: u16,
    near: BlockNo,
    first: FileBlock,
    fill: impl FnOnce(&mut [u8]),
) -> Result<Arc<Frame>> {
    let wish = Wish {
        purpose: Purpose::Map,
        file_block: first,
        want: 1,
        previous: Some((first, near)),
        map_block: Some(near),
    };
    let run = grant.take(node, wish)?;
    let kind = BlockKind::Extents { ino: node.ino, seed: node.seed };
    // Created with its content: a sweep may take it at any time from now on.
    node.note_map_change(grant.volume(), Leads::More);
    Ok(grant.operation.create(run.start, kind, |bytes| {
        extent::initialize(bytes, depth);
        fill(bytes);
    }))
}

/// Moves the root's entries to a block of their own, to which the root then points.
fn grow_deeper(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    depth: u16,
    first: FileBlock,
) -> Result<()> {
    if depth >= MAX_DEPTH {
        return Err(too_large());
    }
    let near = node.stream.next_goal;
    let root = node.inode.block;
    let frame = new_node(grant, node, depth, near, first, |bytes| {
        extent::copy(&root, bytes);
    })?;
    let volume = grant.volume();
    let lowest = with_node(volume, node, Some(&frame), Some(depth), |here| first_key(&here))?
        .unwrap_or(first);
    extent::initialize(&mut node.inode.block, depth + 1);
    extent::insert_index(
        &mut node.inode.block,
        0,
        Index { file_block: lowest, child: frame.block() },
    );
    Ok(())
}

/// Moves the upper part of a node to a new one. A node that grows at the end of the file keeps its
/// entries, so that a file written in order has full nodes.
fn split_node(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    way: &Way,
    split: usize,
    leaf_at: usize,
    first: FileBlock,
) -> Result<()> {
    let volume = grant.volume();
    let deepest = way.steps.len() - 1;
    let level = (deepest - split) as u16;
    let step = &way.steps[split];
    let Some(frame) = &step.frame else {
        return Err(too_large());
    };
    let insert_at = if level == 0 { leaf_at } else { step.at.unwrap_or(0) + 1 };
    let length = with_node(volume, node, Some(frame), Some(level), |here| here.len())?;
    // Only at the end of the whole tree: elsewhere, some order of writing could leave a node for
    // every entry. The last entry moves, because no node may be empty.
    let grows_at_end = insert_at >= length && way.next_leaf.is_none();
    let cut = if grows_at_end { length.saturating_sub(1) } else { length / 2 }.max(1);
    let mut lower = frame.bytes().to_vec();
    let fresh = new_node(grant, node, level, frame.block(), first, |upper| {
        extent::split_off(&mut lower, cut, upper);
    })?;
    node.density.nodes_changed = true;
    let key = with_node(volume, node, Some(&fresh), Some(level), |here| first_key(&here))?;
    let key = key.unwrap_or(first);
    let parent = &way.steps[split - 1];
    let (at, above) = (parent.at.unwrap_or(0), parent.frame.as_ref());
    let entry = Index { file_block: key, child: fresh.block() };
    let moved = move_lower(grant, node, (frame, level), &lower, first)?;
    modify(grant.operation, node, above, Leads::More, |bytes| {
        extent::insert_index(bytes, at + 1, entry);
    });
    if let Some(child) = moved {
        let entry = with_node(volume, node, above, Some(level + 1), |here| here.index(at))?;
        modify(grant.operation, node, above, Leads::More, |bytes| {
            extent::set_index(bytes, at, Index { child, ..entry });
        });
        free_map_block(grant.operation, node, frame.block())?;
    }
    Ok(())
}

/// Keeps the lower part of a node that was split: in place or, if the node is on disk and data
/// comes first, in a new block. Then no sweep has to write the shorter node before or after the
/// pointer to the other half. Returns the new block.
fn move_lower(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    (frame, level): (&Arc<Frame>, u16),
    lower: &[u8],
    first: FileBlock,
) -> Result<Option<BlockNo>> {
    let volume = grant.volume();
    let mut leads = Leads::More;
    if volume.store.writes_in_stages() && !volume.store.cache.is_new(frame) {
        // Without room for a new block, the node is changed in place after all.
        let new = new_node(grant, node, level, frame.block(), first, |bytes| {
            bytes.copy_from_slice(lower);
        });
        if let Ok(new) = new {
            return Ok(Some(new.block()));
        }
        leads = Leads::Fewer;
    }
    change_map(grant.operation, node, frame, leads, |bytes| bytes.copy_from_slice(lower));
    Ok(None)
}
