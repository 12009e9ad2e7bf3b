//! How full an extent tree has to be, and how it is made so.
//!
//! Splits in the middle leave nodes half full, and removals leave fewer entries. e2fsck takes a
//! level for too wide when its entries would fit into one node less with one entry of each to spare
//! (found out by trying), and a tree for too deep when the entries at its top would fit into the
//! inode. A map is made dense when nobody has the file open any more, and when the volume is
//! closed.
//!
//! *Invariants*: where data comes first, a dense tree is made of new blocks, and the old one stands
//! on the disk until the inode leads to the new one. Elsewhere, and where there is no room for
//! that, it takes the first of the blocks that the tree has, and frees the rest.
//! *Locking*: the caller holds the inode exclusively.
use super::extents::{Covered, depth as depth_of, first_key, new_node, read_child, with_node};
use super::{Grant, Leads, change_map, free_map_block};
use crate::error::Result;
use crate::inode::NodeState;
use crate::policy::allocation::Purpose;
use crate::space::Reservation;
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_format::extent::{self, Extent, Index, State};
use extant_format::{BlockNo, FileBlock};

/// What happened to a map since it was known to be dense.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looseness {
    /// Nodes were split or freed.
    pub(super) nodes_changed: bool,
    /// Extents that were removed, and how many may be before a level may be too wide.
    pub(super) removed: u64,
    allowed: u64,
}

impl Looseness {
    /// Whether no level can have become too wide.
    pub(crate) fn is_settled(self) -> bool {
        !self.nodes_changed && self.removed <= self.allowed
    }
}

/// The nodes of one level.
#[derive(Default)]
pub(super) struct Level {
    pub(super) blocks: Vec<BlockNo>,
    entries: usize,
}

/// Entries of a node that a level is reckoned with.
pub(super) fn comfortable(volume: &Volume) -> usize {
    extent::capacity(volume.block_size() as usize).saturating_sub(1).max(1)
}

/// Makes the tree dense if it is not.
pub(super) fn settle(handle: &Handle<'_>, node: &mut NodeState) -> Result<()> {
    let volume = handle.volume();
    let Looseness { nodes_changed, removed, allowed } = node.looseness;
    if !nodes_changed && removed <= allowed || depth_of(volume, node)? == 0 {
        return Ok(());
    }
    let (levels, extents) = collect(volume, node)?;
    let capacity = comfortable(volume);
    let is_wide = |level: &Level| level.entries <= (level.blocks.len() - 1) * capacity;
    let root = extent::capacity(node.inode.block.len());
    let is_deep = levels.last().is_some_and(|top| top.blocks.len() == 1 && top.entries <= root);
    if is_deep || levels.iter().any(is_wide) {
        rebuild(handle, node, levels, &extents)?;
    }
    let leaves = extents.len().div_ceil(capacity);
    let allowed =
        extents.len().saturating_sub(leaves.saturating_sub(1) * capacity).saturating_sub(1);
    node.looseness = Looseness { nodes_changed: false, removed: 0, allowed: allowed as u64 };
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
                filled.entries += here.len();
                match level {
                    0 => extents.extend((0..here.len()).map(|at| here.extent(at))),
                    _ => below.extend(Covered::children(&here, covered.behind)),
                }
                Ok::<(), crate::error::Error>(())
            })??;
            filled.blocks.push(covered.child);
        }
        covered = below;
    }
    Ok((levels, extents))
}

/// Cuts `entries` into pieces of nearly the same length.
fn evenly<T>(entries: &[T], pieces: usize) -> impl Iterator<Item = &[T]> {
    (0..pieces).map(move |at| {
        let cut = |at: usize| entries.len() * at / pieces;
        &entries[cut(at)..cut(at + 1)]
    })
}

/// Fills as few nodes as are comfortable, level by level, and frees the others.
fn rebuild(
    handle: &Handle<'_>,
    node: &mut NodeState,
    levels: Vec<Level>,
    extents: &[Extent],
) -> Result<()> {
    let volume = handle.volume();
    let root = extent::capacity(node.inode.block.len());
    let mut fresh = FreshNodes::promise(volume, &levels);
    let mut above: Vec<Index> = Vec::new();
    let mut depth = 0;
    for (level, Level { blocks, .. }) in levels.into_iter().enumerate() {
        let count = if level == 0 { extents.len() } else { above.len() };
        let wanted =
            if count <= root { 0 } else { count.div_ceil(comfortable(volume)).min(blocks.len()) };
        let (kept, freed) = match &mut fresh {
            Some(fresh) => {
                (fresh.take(handle, node, &blocks[..wanted], level as u16)?, &blocks[..])
            }
            None => (blocks[..wanted].to_vec(), &blocks[wanted..]),
        };
        if wanted > 0 {
            depth = level as u16 + 1;
            above = match level {
                0 => fill(
                    handle,
                    node,
                    &kept,
                    evenly(extents, wanted),
                    depth - 1,
                    |bytes, at, one| {
                        extent::insert_extent(bytes, at, one);
                    },
                )?,
                _ => fill(
                    handle,
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
            free_map_block(handle, node, *block)?;
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
    /// Room for all nodes; `None` where the tree is changed in place, or the volume has no room.
    fn promise(volume: &'v Volume, levels: &[Level]) -> Option<FreshNodes<'v>> {
        let blocks = levels.iter().map(|level| level.blocks.len() as u64).sum();
        let promised =
            volume.writes_data_first().then(|| volume.groups.reserve(volume, blocks).ok());
        promised.flatten().map(|reservation| FreshNodes { reservation })
    }

    /// As many new nodes as there are old ones, near them.
    fn take(
        &mut self,
        handle: &Handle<'v>,
        node: &mut NodeState,
        near: &[BlockNo],
        depth: u16,
    ) -> Result<Vec<BlockNo>> {
        let mut grant = Grant {
            handle,
            reservation: &mut self.reservation,
            purpose: Purpose::Map,
            state: State::Written,
        };
        near.iter()
            .map(|near| Ok(new_node(&mut grant, node, depth, *near, FileBlock(0), |_| {})?.block()))
            .collect()
    }
}

/// Fills nodes of one level; gives the entries that lead to them.
fn fill<'e, T: Copy + 'e>(
    handle: &Handle<'_>,
    node: &mut NodeState,
    blocks: &[BlockNo],
    pieces: impl Iterator<Item = &'e [T]>,
    depth: u16,
    insert: impl Fn(&mut [u8], usize, T),
) -> Result<Vec<Index>> {
    let volume = handle.volume();
    let mut entries = Vec::with_capacity(blocks.len());
    for (block, piece) in blocks.iter().zip(pieces) {
        let frame = read_child(volume, node, *block)?;
        change_map(handle, node, &frame, Leads::More, |bytes| {
            extent::initialize(bytes, depth);
            piece.iter().enumerate().for_each(|(at, one)| insert(bytes, at, *one));
        });
        let first = with_node(volume, node, Some(&frame), Some(depth), |here| first_key(&here))?;
        entries.extend(first.map(|file_block| Index { file_block, child: *block }));
    }
    Ok(entries)
}
