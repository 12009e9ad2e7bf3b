//! How full an extent tree has to be, and how it is made so.
//!
//! Splits in the middle leave nodes half full, and removals leave fewer entries. e2fsck reports a
//! level as too wide if its entries would fit into one node less with one entry of each to spare,
//! and counts a full node as if it had that one to spare too (found by experiment), and a tree as
//! too deep if the entries at its top would fit into the
//! inode. A map is made dense once no one has the file open, and when the volume is closed.
//!
//! *Invariants*: with a journal, a tree is made dense in place, in steps (`extents/compact.rs`).
//! Else, with data first, a dense tree is made of new blocks, and the old one stays on disk until
//! the inode points to the new one. Otherwise, or without room for that, the dense tree reuses the
//! first blocks of the old one and frees the rest; both need credits for all of their nodes.
//! *Locking*: the caller has locked the inode exclusively.
use super::extents::{
    Covered, comfortable, compact, depth as depth_of, first_key, new_node, read_child, with_node,
};
use super::{Grant, change_map, free_map_block};
use crate::error::Result;
use crate::inode::credits;
use crate::inode::node::{Leads, MapDensity, NodeState};
use crate::inode::operation::Operation;
use crate::inode::volume::Volume;
use crate::policy::allocation::Purpose;
use crate::space::Reservation;
use extant_format::extent::{self, Extent, Index, State};
use extant_format::{BlockNo, FileBlock};

/// The nodes of one level.
#[derive(Default)]
pub(super) struct Level {
    pub(super) blocks: Vec<BlockNo>,
    /// Entries of all nodes, of each at most what is comfortable.
    entries: usize,
}

/// Makes the tree dense if it is not.
pub(super) fn make_dense(operation: &Operation<'_>, node: &mut NodeState) -> Result<()> {
    let volume = operation.volume();
    let MapDensity { nodes_changed, removed, allowed } = node.density;
    if !nodes_changed && removed <= allowed || depth_of(volume, node)? == 0 {
        return Ok(());
    }
    let (levels, extents) = collect(volume, node)?;
    let capacity = comfortable(volume);
    let is_wide = |level: &Level| level.entries <= (level.blocks.len() - 1) * capacity;
    let root = extent::capacity(node.inode.block.len());
    let is_deep = levels.last().is_some_and(|top| top.blocks.len() == 1 && top.entries <= root);
    let to_spare = |entries: usize, nodes: usize| {
        entries.saturating_sub(nodes.saturating_sub(1) * capacity).saturating_sub(1)
    };
    let mut allowed =
        levels.first().map_or(0, |leaves| to_spare(leaves.entries, leaves.blocks.len()));
    if is_deep || levels.iter().any(is_wide) {
        allowed = match operation.works_in_steps() {
            true => {
                compact(operation, node)?;
                0
            }
            false => {
                rebuild(operation, node, levels, &extents)?;
                to_spare(extents.len(), extents.len().div_ceil(capacity))
            }
        };
    }
    if extents.len() <= capacity {
        // Extents that join may leave an only leaf of which the inode could hold all. What removes
        // them looks for that itself.
        allowed = allowed.min(extents.len().saturating_sub(root + 1));
    }
    node.density = MapDensity { nodes_changed: false, removed: 0, allowed: allowed as u64 };
    Ok(())
}

/// The levels below the root, leaves first, and all extents.
pub(super) fn collect(volume: &Volume, node: &NodeState) -> Result<(Vec<Level>, Vec<Extent>)> {
    let depth = depth_of(volume, node)?;
    let mut levels: Vec<Level> = (0..depth).map(|_| Level::default()).collect();
    let mut extents = Vec::new();
    let mut covered =
        with_node(volume, node, None, Some(depth), |root| Covered::children(&root, None))?;
    for (level, filled) in levels.iter_mut().enumerate().rev() {
        let mut below = Vec::new();
        for covered in covered {
            let frame = read_child(volume, node, covered.child)?;
            with_node(volume, node, Some(&frame), Some(level as u16), |here| {
                covered.check(node, &here)?;
                filled.entries += here.len().min(comfortable(volume));
                match level {
                    0 => extents.extend((0..here.len()).map(|at| here.extent(at))),
                    _ => below.extend(Covered::children(&here, covered.next)),
                }
                Ok::<(), crate::error::Error>(())
            })??;
            filled.blocks.push(covered.child);
        }
        covered = below;
    }
    Ok((levels, extents))
}

/// Splits `entries` into pieces of nearly equal length.
fn evenly<T>(entries: &[T], pieces: usize) -> impl Iterator<Item = &[T]> {
    (0..pieces).map(move |at| {
        let cut = |at: usize| entries.len() * at / pieces;
        &entries[cut(at)..cut(at + 1)]
    })
}

/// Fills as few nodes as possible, level by level, and frees the others.
fn rebuild(
    operation: &Operation<'_>,
    node: &mut NodeState,
    levels: Vec<Level>,
    extents: &[Extent],
) -> Result<()> {
    let volume = operation.volume();
    let root = extent::capacity(node.inode.block.len());
    let mut fresh = FreshNodes::promise(volume, &levels);
    let mut above: Vec<Index> = Vec::new();
    let mut depth = 0;
    for (level, Level { blocks, .. }) in levels.into_iter().enumerate() {
        operation.need(3 * blocks.len() as u32 + credits::STEP);
        let count = if level == 0 { extents.len() } else { above.len() };
        let wanted =
            if count <= root { 0 } else { count.div_ceil(comfortable(volume)).min(blocks.len()) };
        let (kept, freed) = match &mut fresh {
            Some(fresh) => {
                (fresh.take(operation, node, &blocks[..wanted], level as u16)?, &blocks[..])
            }
            None => (blocks[..wanted].to_vec(), &blocks[wanted..]),
        };
        if wanted > 0 {
            depth = level as u16 + 1;
            above = match level {
                0 => fill(
                    operation,
                    node,
                    &kept,
                    evenly(extents, wanted),
                    depth - 1,
                    |bytes, at, one| {
                        extent::insert_extent(bytes, at, one);
                    },
                )?,
                _ => fill(
                    operation,
                    node,
                    &kept,
                    evenly(&above, wanted),
                    depth - 1,
                    |bytes, at, one| {
                        extent::insert_index(bytes, at, one);
                    },
                )?,
            };
        }
        for block in freed {
            free_map_block(operation, node, *block)?;
        }
    }
    let bytes = &mut node.inode.block;
    extent::initialize(bytes, depth);
    match depth {
        0 => {
            extents.iter().enumerate().for_each(|(at, one)| extent::insert_extent(bytes, at, *one))
        }
        _ => above.iter().enumerate().for_each(|(at, one)| extent::insert_index(bytes, at, *one)),
    }
    Ok(())
}

/// New blocks for the nodes of a tree.
struct FreshNodes<'v> {
    reservation: Reservation<'v>,
}

impl<'v> FreshNodes<'v> {
    /// Reserves room for all nodes; `None` if the tree is changed in place, or the volume has no
    /// room.
    fn promise(volume: &'v Volume, levels: &[Level]) -> Option<FreshNodes<'v>> {
        let blocks = levels.iter().map(|level| level.blocks.len() as u64).sum();
        let promised = volume.store.writes_in_stages().then(|| volume.space.reserve(blocks).ok());
        promised.flatten().map(|reservation| FreshNodes { reservation })
    }

    /// Allocates a new node for each old one, near it.
    fn take(
        &mut self,
        operation: &Operation<'v>,
        node: &mut NodeState,
        near: &[BlockNo],
        depth: u16,
    ) -> Result<Vec<BlockNo>> {
        let mut grant = Grant {
            operation,
            reservation: &mut self.reservation,
            purpose: Purpose::Map,
            state: State::Written,
        };
        near.iter()
            .map(|near| Ok(new_node(&mut grant, node, depth, *near, FileBlock(0), |_| {})?.block()))
            .collect()
    }
}

/// Fills the nodes of one level. Returns the index entries that point to them.
fn fill<'e, T: Copy + 'e>(
    operation: &Operation<'_>,
    node: &mut NodeState,
    blocks: &[BlockNo],
    pieces: impl Iterator<Item = &'e [T]>,
    depth: u16,
    insert: impl Fn(&mut [u8], usize, T),
) -> Result<Vec<Index>> {
    let volume = operation.volume();
    let mut entries = Vec::with_capacity(blocks.len());
    for (block, piece) in blocks.iter().zip(pieces) {
        let frame = read_child(volume, node, *block)?;
        change_map(operation, node, &frame, Leads::More, |bytes| {
            extent::initialize(bytes, depth);
            piece.iter().enumerate().for_each(|(at, one)| insert(bytes, at, *one));
        });
        let first = with_node(volume, node, Some(&frame), Some(depth), |here| first_key(&here))?;
        entries.extend(first.map(|file_block| Index { file_block, child: *block }));
    }
    Ok(entries)
}
