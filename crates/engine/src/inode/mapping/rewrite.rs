//! A whole extent tree written anew from a list of extents, when the blocks of a file move within
//! it. Where a journal has no room for that, the extents move leaf by leaf.
//!
//! *Invariants*: a new tree is made of new blocks, and the old one stays on disk until the inode
//! points to the new one. So a change of any number of extents is one change of the inode: after a
//! power cut the file has its old map or its new one. Leaf by leaf, the map is valid after each
//! step, and after a power cut what comes after the range is moved in part.
//! *Locking*: the caller has locked the inode exclusively.
use super::dense::collect;
use super::extents::{comfortable, depth as depth_of, first_key, new_node, with_node};
use super::{Grant, check_data, clusters, extents, free_at_once_max, free_map_block, free_run};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::credits;
use crate::inode::node::{MapDensity, NodeState};
use crate::inode::operation::Operation;
use crate::inode::volume::Volume;
use crate::policy::allocation::Purpose;
use crate::space::Reservation;
use extant_format::extent::{self, Extent, Index, State};
use extant_format::{BlockNo, FileBlock, Run};
use std::ops::Range;

/// How a part of a file moves, in blocks of it.
#[derive(Clone, Debug)]
pub(crate) enum Shift {
    /// This range goes, and what comes after it moves to its start.
    Collapse(Range<u64>),
    /// A hole comes to be here: what begins at its start, and all after it, moves to its end.
    Insert(Range<u64>),
}

/// Moves a part of a file leaf by leaf, in steps. What Linux does, and what a power cut leaves, is
/// the same: a collapsed range is first a hole, and then leaves move down one by one until the size
/// changes; for an inserted one the size changes first, and then leaves move up from the last one
/// on. The caller has found the move possible, and sets and stores the size of a collapsed file.
///
/// # Errors
/// `NoSpace`, with nothing changed, if an extent has to be split; `Corrupt`; what the device
/// returns.
pub(crate) fn shift_in_steps(
    operation: &Operation<'_>,
    node: &mut NodeState,
    (shift, size): (&Shift, u64),
) -> Result<()> {
    let volume = operation.volume();
    let narrow = |at: u64| u32::try_from(at).map_err(|_| super::too_large());
    match shift {
        Shift::Collapse(range) => {
            let by = narrow(range.end - range.start)?;
            super::remove(operation, node, range.clone(), Purpose::Data)?;
            extents::shift_down(operation, node, range.end, by)
        }
        Shift::Insert(range) => {
            let (from, by) = (narrow(range.start)?, narrow(range.end - range.start)?);
            let mut reservation = volume.space.reserve(extents::map_need(volume, node, &[], 1))?;
            node.inode.size = size;
            let (purpose, state) = (Purpose::Data, State::Written);
            let reservation = &mut reservation;
            let mut grant = Grant { operation, reservation, purpose, state };
            extents::shift_up(&mut grant, node, from, by)
        }
    }
}

/// The map of a file as a list, while it is changed.
pub(crate) struct Rewrite {
    /// Rising, without overlaps.
    extents: Vec<Extent>,
    /// Nodes of the tree that it was read from.
    nodes: Vec<BlockNo>,
    /// Blocks of the file that are no longer mapped.
    freed: Vec<Run>,
}

impl Rewrite {
    /// Reads the map of a file with extents.
    ///
    /// # Errors
    /// `Corrupt`, for a tree that is damaged anywhere; what the device returns.
    pub(crate) fn read(volume: &Volume, node: &NodeState) -> Result<Rewrite> {
        let (extents, nodes) = match depth_of(volume, node)? {
            0 => with_node(volume, node, None, Some(0), |root| {
                ((0..root.len()).map(|at| root.extent(at)).collect(), Vec::new())
            })?,
            _ => {
                let (levels, extents) = collect(volume, node)?;
                (extents, levels.into_iter().flat_map(|level| level.blocks).collect())
            }
        };
        let rewrite = Rewrite { extents, nodes, freed: Vec::new() };
        rewrite.check(volume, node)?;
        Ok(rewrite)
    }

    /// The map of a file that has none yet.
    pub(crate) fn empty() -> Rewrite {
        Rewrite { extents: Vec::new(), nodes: Vec::new(), freed: Vec::new() }
    }

    /// Unmaps a range, and maps these blocks to its start instead. What was mapped there is not
    /// freed: the caller knows who owns it.
    pub(crate) fn put(&mut self, range: Range<u64>, blocks: Option<Extent>) {
        let from = self.extents.partition_point(|extent| end_of(extent) <= range.start);
        let to = self.extents.partition_point(|extent| first(extent) < range.end).max(from);
        let before = self.extents.get(from).and_then(|extent| part(extent, 0..range.start));
        let last = to.checked_sub(1).filter(|last| *last >= from);
        let after = last.and_then(|last| part(&self.extents[last], range.end..u64::MAX));
        self.extents.splice(from..to, before.into_iter().chain(blocks).chain(after));
    }

    /// What is mapped, as runs of the volume in the order of the file.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.extents.iter().map(|extent| Run { start: extent.start, length: extent.length })
    }

    /// Takes out the nodes of the tree that it was read from: [`Rewrite::apply`] no longer frees
    /// them.
    pub(crate) fn take_nodes(&mut self) -> Vec<BlockNo> {
        std::mem::take(&mut self.nodes)
    }

    /// How many nodes the tree has that it was read from.
    pub(crate) fn node_count(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// Fails if extents of different nodes overlap, or are not where a file's blocks may be.
    fn check(&self, volume: &Volume, node: &NodeState) -> Result<()> {
        let mut free_from = 0;
        for extent in &self.extents {
            check_data(volume, node, Run { start: extent.start, length: extent.length })?;
            if first(extent) < free_from {
                let (place, block) = (Place::Inode(node.ino), extent.file_block.0);
                let why = "inside the extent before it";
                return Err(Error::field(place, "extent tree", "file block", block.into(), why));
            }
            free_from = end_of(extent);
        }
        Ok(())
    }

    /// Applies a move to the list.
    ///
    /// # Errors
    /// As [`Rewrite::insert`].
    pub(crate) fn shift(&mut self, shift: &Shift) -> Result<()> {
        match shift {
            Shift::Collapse(range) => {
                self.collapse(range.clone());
                Ok(())
            }
            Shift::Insert(range) => self.insert(range.start, range.end - range.start),
        }
    }

    /// Whether writing the tree anew, and freeing the old one, is more than one step of an
    /// operation may change.
    pub(crate) fn is_long(&self, volume: &Volume, node: &NodeState) -> bool {
        let nodes = self.need(volume, node).saturating_mul(2) + self.nodes.len() as u64;
        let groups = self.freed.iter().map(|run| {
            let whole = u64::from(run.length) / free_at_once_max(volume);
            (whole + 1) * u64::from(credits::GROUPS)
        });
        nodes.saturating_add(groups.sum()) > u64::from(credits::RUN)
    }

    /// Removes a range and moves what comes after it to its start.
    fn collapse(&mut self, range: Range<u64>) {
        let gone = range.end - range.start;
        let mut extents = Vec::with_capacity(self.extents.len() + 1);
        for extent in &self.extents {
            let kept_before = part(extent, 0..range.start);
            let cut = part(extent, range.clone());
            let kept_after = part(extent, range.end..u64::MAX);
            self.freed.extend(cut.map(|cut| Run { start: cut.start, length: cut.length }));
            let moved = kept_after
                .map(|kept| Extent { file_block: FileBlock((first(&kept) - gone) as u32), ..kept });
            extents.extend(kept_before);
            extents.extend(moved);
        }
        self.extents = joined(extents);
    }

    /// Moves what begins at a block, and all after it, up by a number of blocks.
    ///
    /// # Errors
    /// `InvalidArgument` if something would pass the last block that a map can have.
    fn insert(&mut self, at: u64, blocks: u64) -> Result<()> {
        let last = self.extents.last().map_or(0, end_of);
        if last > at && last.saturating_add(blocks) > u64::from(u32::MAX) {
            let reason = "what is moved would pass the largest file";
            return Err(ErrorKind::InvalidArgument(reason).into());
        }
        let mut extents = Vec::with_capacity(self.extents.len() + 1);
        for extent in &self.extents {
            extents.extend(part(extent, 0..at));
            let above = part(extent, at..u64::MAX);
            extents.extend(above.map(|above| Extent {
                file_block: FileBlock((first(&above) + blocks) as u32),
                ..above
            }));
        }
        self.extents = extents;
        Ok(())
    }

    /// How many nodes the new tree needs, all of them new.
    pub(crate) fn need(&self, volume: &Volume, node: &NodeState) -> u64 {
        let root = extent::capacity(node.inode.block.len());
        let (mut entries, mut need) = (self.extents.len(), 0);
        while entries > root {
            entries = entries.div_ceil(comfortable(volume));
            need += entries as u64;
        }
        need
    }

    /// Writes the tree into reserved blocks, and frees the old tree and the blocks that are no
    /// longer mapped. The caller stores the inode.
    ///
    /// # Errors
    /// What the device returns; `NoSpace` if less than [`Rewrite::need`] was reserved.
    pub(crate) fn apply(
        self,
        operation: &Operation<'_>,
        reservation: &mut Reservation<'_>,
        node: &mut NodeState,
    ) -> Result<()> {
        let volume = operation.volume();
        let near = self.nodes.first().copied().unwrap_or(node.stream.next_goal);
        let (purpose, state) = (Purpose::Map, State::Written);
        let mut tree = Tree {
            grant: Grant { operation, reservation, purpose, state },
            near,
            root: extent::capacity(node.inode.block.len()),
        };
        tree.build(node, &self.extents)?;
        for block in self.nodes {
            operation.need(credits::STEP);
            free_map_block(operation, node, block)?;
        }
        for run in clusters::each_once(volume, self.freed) {
            operation.need(credits::STEP + volume.space.groups_of(run));
            free_run(operation, node, run)?;
        }
        node.density = MapDensity::default();
        Ok(())
    }
}

/// A tree that is being written.
struct Tree<'a, 'v, 'r> {
    grant: Grant<'a, 'v, 'r>,
    near: BlockNo,
    /// Entries that the inode has room for.
    root: usize,
}

impl Tree<'_, '_, '_> {
    fn build(&mut self, node: &mut NodeState, extents: &[Extent]) -> Result<()> {
        if extents.len() <= self.root {
            let bytes = &mut node.inode.block;
            extent::initialize(bytes, 0);
            for (at, one) in extents.iter().enumerate() {
                extent::insert_extent(bytes, at, *one);
            }
            return Ok(());
        }
        let mut above = self.level(node, 0, extents, extent::insert_extent)?;
        let mut depth = 1;
        while above.len() > self.root {
            above = self.level(node, depth, &above, extent::insert_index)?;
            depth += 1;
        }
        let bytes = &mut node.inode.block;
        extent::initialize(bytes, depth);
        for (at, one) in above.iter().enumerate() {
            extent::insert_index(bytes, at, *one);
        }
        Ok(())
    }

    /// Writes the nodes of one level. Returns the index entries that point to them.
    fn level<T: Copy>(
        &mut self,
        node: &mut NodeState,
        depth: u16,
        entries: &[T],
        insert: fn(&mut [u8], usize, T),
    ) -> Result<Vec<Index>> {
        let volume = self.grant.volume();
        let count = entries.len().div_ceil(comfortable(volume));
        let mut above = Vec::with_capacity(count);
        for number in 0..count {
            let cut = |number: usize| entries.len() * number / count;
            let piece = &entries[cut(number)..cut(number + 1)];
            self.grant.operation.need(credits::RUN);
            let frame = new_node(&mut self.grant, node, depth, self.near, FileBlock(0), |bytes| {
                piece.iter().enumerate().for_each(|(at, one)| insert(bytes, at, *one));
            })?;
            self.near = frame.block();
            let key = with_node(volume, node, Some(&frame), Some(depth), |here| first_key(&here))?;
            above.extend(key.map(|file_block| Index { file_block, child: frame.block() }));
        }
        Ok(above)
    }
}

fn first(extent: &Extent) -> u64 {
    extent.file_block.0.into()
}

/// The file block after an extent.
fn end_of(extent: &Extent) -> u64 {
    first(extent) + u64::from(extent.length)
}

/// The part of an extent that is in a range of the file.
fn part(extent: &Extent, range: Range<u64>) -> Option<Extent> {
    let (from, to) = (first(extent).max(range.start), end_of(extent).min(range.end));
    (from < to).then(|| Extent {
        file_block: FileBlock(from as u32),
        length: (to - from) as u32,
        start: BlockNo(extent.start.0 + (from - first(extent))),
        ..*extent
    })
}

/// Joins neighbours that continue each other.
fn joined(extents: Vec<Extent>) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::with_capacity(extents.len());
    for extent in extents {
        match joined.last_mut() {
            Some(last) if super::extents::joins(last, &extent) => last.length += extent.length,
            _ => joined.push(extent),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(file_block: u32, length: u32, start: u64) -> Extent {
        let (file_block, start) = (FileBlock(file_block), BlockNo(start));
        Extent { file_block, length, start, state: State::Written }
    }

    fn rewrite(extents: &[Extent]) -> Rewrite {
        Rewrite { extents: extents.to_vec(), nodes: Vec::new(), freed: Vec::new() }
    }

    #[test]
    fn what_comes_after_a_range_that_goes_moves_down() {
        let mut map = rewrite(&[extent(0, 10, 100), extent(20, 10, 200), extent(40, 5, 300)]);
        map.collapse(5..25);
        assert_eq!(map.extents, [extent(0, 5, 100), extent(5, 5, 205), extent(20, 5, 300)]);
        let freed = [(105, 5), (200, 5)];
        let freed = freed.map(|(start, length)| Run { start: BlockNo(start), length });
        assert_eq!(map.freed, freed);
    }

    #[test]
    fn extents_that_come_to_continue_each_other_are_one() {
        let mut map = rewrite(&[extent(0, 10, 100), extent(15, 10, 110)]);
        map.collapse(10..15);
        assert_eq!(map.extents, [extent(0, 20, 100)]);
    }

    #[test]
    fn what_is_put_takes_the_place_of_what_was_there() {
        let start = [extent(0, 10, 100), extent(20, 10, 200), extent(40, 5, 300)];
        let cases: [(Range<u64>, Option<Extent>, &[Extent]); 6] = [
            (10..20, None, &start),
            (0..50, None, &[]),
            (5..25, None, &[extent(0, 5, 100), extent(25, 5, 205), extent(40, 5, 300)]),
            (2..4, None, &[extent(0, 2, 100), extent(4, 6, 104), start[1], start[2]]),
            (12..14, Some(extent(12, 2, 900)), &[start[0], extent(12, 2, 900), start[1], start[2]]),
            (
                25..60,
                Some(extent(25, 35, 900)),
                &[start[0], extent(20, 5, 200), extent(25, 35, 900)],
            ),
        ];
        for (range, blocks, expected) in cases {
            let mut map = rewrite(&start);
            map.put(range.clone(), blocks);
            assert_eq!(map.extents, expected, "{range:?}");
        }
    }

    #[test]
    fn an_extent_is_split_where_a_range_comes_between() {
        let mut map = rewrite(&[extent(0, 10, 100), extent(20, 10, 200)]);
        map.insert(4, 6).expect("fits");
        assert_eq!(map.extents, [extent(0, 4, 100), extent(10, 6, 104), extent(26, 10, 200)]);
        assert!(map.insert(4, u64::from(u32::MAX) - 35).is_err());
        map.insert(36, u64::from(u32::MAX) - 35).expect("nothing is moved");
    }
}
