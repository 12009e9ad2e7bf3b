//! Clusters of several blocks (`bigalloc`). A file has whole clusters, of which its map may lead to
//! any part: what else is in one is this file's too, and no other's.
//!
//! ```text
//! blocks of the file     | 0  1  2  3 | 4  5  6  7 |    clusters of four blocks
//! what the map has         0  1     3   4
//! blocks of the volume   | 40 41 .. 43|60 .. .. .. |    2 needs no allocation: it is block 42
//! ```
//!
//! Without bigalloc a cluster is a block, and nothing here looks at a map.
//!
//! *Invariants*: a block of a file and its block on the volume have the same place in their
//! clusters. A cluster of a file is one cluster of the volume. It is allocated with the first block
//! that is mapped in it, and freed with the last; the inode counts it whole.
//! *Locking*: as for [`super`].
use super::{Grant, Piece, Wish, check_data, facts, find_mapped};
use crate::error::{Error, Place, Result};
use crate::inode::node::NodeState;
use crate::inode::volume::Volume;
use crate::policy::allocation::Purpose;
use extant_format::{BlockNo, FileBlock, Run};
use std::ops::Range;

/// How many blocks a cluster has: 1 but for bigalloc.
pub(crate) fn cluster_blocks(volume: &Volume) -> u64 {
    1 << volume.space.unit_log2()
}

/// What the inode counts for each cluster, in sectors.
pub(crate) fn cluster_sectors(volume: &Volume) -> u64 {
    u64::from(volume.store.block_size() / 512) << volume.space.unit_log2()
}

/// Blocks of a file's cluster that this block is in.
fn cluster_at(volume: &Volume, block: u64) -> Range<u64> {
    let size = cluster_blocks(volume);
    let first = block - block % size;
    first..first + size
}

/// Where on the volume a file's cluster begins that these blocks of it are in, if any of them is
/// mapped.
///
/// # Errors
/// `Corrupt` for a block that does not have the same place in its cluster as on the volume.
fn place_of(volume: &Volume, node: &NodeState, blocks: Range<u64>) -> Result<Option<BlockNo>> {
    let mut at = blocks.start;
    while at < blocks.end {
        let Ok(block) = u32::try_from(at) else { break };
        // At most a cluster.
        let piece = find_mapped(volume, node, FileBlock(block), (blocks.end - at) as u32)?;
        if let Piece::Run(run, _) = piece {
            return start_of(volume, node, at, run.start).map(Some);
        }
        at += u64::from(piece.length().max(1));
    }
    Ok(None)
}

/// Whether a block of a file may be there on the volume.
pub(crate) fn is_in_place(volume: &Volume, block: u64, place: BlockNo) -> bool {
    let size = cluster_blocks(volume);
    place.0 % size == block % size
}

/// The first block of the cluster on the volume that holds a block of a file.
fn start_of(volume: &Volume, node: &NodeState, block: u64, place: BlockNo) -> Result<BlockNo> {
    if is_in_place(volume, block, place) {
        return Ok(BlockNo(place.0 - block % cluster_blocks(volume)));
    }
    let why = "not at the place in its cluster that the block of the file has";
    Err(Error::field(Place::Inode(node.ino), "block map", "run at block", place.0, why))
}

/// How many units (see [`crate::space`]) the data of these holes needs, which rise: all of them but
/// those of clusters that the file has already. One that cannot be looked at counts.
pub(crate) fn data_need(volume: &Volume, node: &NodeState, holes: &[Range<u64>]) -> u64 {
    let size = cluster_blocks(volume);
    if size == 1 {
        return holes.iter().map(|hole| hole.end - hole.start).sum();
    }
    let is_there = |cluster: u64| {
        let blocks = cluster * size..(cluster + 1) * size;
        place_of(volume, node, blocks).is_ok_and(|place| place.is_some())
    };
    let (mut need, mut counted_to) = (0, 0);
    for hole in holes.iter().filter(|hole| !hole.is_empty()) {
        let (first, last) = (hole.start / size, (hole.end - 1) / size);
        let from = first.max(counted_to);
        counted_to = last + 1;
        need += counted_to.saturating_sub(from);
        // Those between the first and the last are holes from end to end.
        if from == first && from <= last && is_there(first) {
            need -= 1;
        }
        if last > first && from <= last && is_there(last) {
            need -= 1;
        }
    }
    need
}

/// What of a wish is in a cluster that the file has already: it needs no allocation. Otherwise the
/// wish is shortened to end before such a cluster. Nothing without bigalloc.
///
/// # Errors
/// `Corrupt` for a map that leads to where it cannot.
pub(super) fn at_hand(volume: &Volume, node: &NodeState, wish: &mut Wish) -> Result<Option<Run>> {
    if cluster_blocks(volume) == 1 {
        return Ok(None);
    }
    let block = u64::from(wish.file_block.0);
    let own = cluster_at(volume, block);
    if let Some(start) = place_of(volume, node, own.clone())? {
        let start = BlockNo(start.0 + (block - own.start));
        let run = Run { start, length: wish.want.min((own.end - block) as u32) };
        check_data(volume, node, run)?;
        return Ok(Some(run));
    }
    let last = cluster_at(volume, block + u64::from(wish.want.max(1)) - 1);
    if last.start > block && place_of(volume, node, last.clone())?.is_some() {
        wish.want = (last.start - block) as u32;
    }
    Ok(None)
}

/// What of a run that is about to be unmapped can be freed then: the clusters of which nothing else
/// is mapped. `gone` are its blocks in the file. Without bigalloc that is all of it.
///
/// # Errors
/// `Corrupt`; what the device returns.
pub(super) fn freed_with(
    volume: &Volume,
    node: &NodeState,
    gone: &Range<u64>,
    run: Run,
) -> Result<Option<Run>> {
    if cluster_blocks(volume) == 1 || gone.is_empty() {
        return Ok(Some(run));
    }
    let start = start_of(volume, node, gone.start, run.start)?;
    let (first, last) = (cluster_at(volume, gone.start), cluster_at(volume, gone.end - 1));
    let stays = |cluster: &Range<u64>| -> Result<bool> {
        let before = cluster.start..cluster.end.min(gone.start.max(cluster.start));
        let after = cluster.start.max(gone.end.min(cluster.end))..cluster.end;
        Ok(place_of(volume, node, before)?.is_some() || place_of(volume, node, after)?.is_some())
    };
    let mut whole = first.start..last.end;
    if stays(&first)? {
        whole.start = first.end;
    }
    if last != first && stays(&last)? {
        whole.end = last.start;
    }
    if whole.is_empty() {
        return Ok(None);
    }
    let start = BlockNo(start.0 + (whole.start - first.start));
    Ok(Some(Run { start, length: (whole.end - whole.start) as u32 }))
}

/// The clusters of runs that a file no longer maps, in its order, each of them once.
pub(crate) fn each_once(volume: &Volume, runs: Vec<Run>) -> Vec<Run> {
    let size = cluster_blocks(volume);
    if size == 1 {
        return runs;
    }
    let mut last = None;
    let mut clusters = Vec::with_capacity(runs.len());
    for run in runs {
        let mut run = volume.space.whole_units(run);
        if last == Some(run.start) {
            run = Run { start: BlockNo(run.start.0 + size), length: run.length - size as u32 };
        }
        if run.length > 0 {
            last = Some(BlockNo(run.start.0 + u64::from(run.length) - size));
            clusters.push(run);
        }
    }
    clusters
}

impl Grant<'_, '_, '_> {
    /// As [`Grant::take`], of whole clusters, of which the file gets what it wished for: the block
    /// with the place that the file's block has in its cluster, and those after it. A node of the
    /// map, which has no place in the file, gets the first.
    pub(super) fn take_clusters(&mut self, node: &mut NodeState, wish: Wish) -> Result<Run> {
        let volume = self.volume();
        let size = cluster_blocks(volume);
        let into = match wish.purpose {
            Purpose::Map | Purpose::Attribute => 0,
            Purpose::Data | Purpose::Directory => (u64::from(wish.file_block.0) % size) as u32,
        };
        let want = wish.want.saturating_add(into);
        let short = volume.space.units(want.into()).saturating_sub(self.reservation.remaining());
        if short > 0 && self.reservation.grow(short).is_err() && self.reservation.remaining() == 0 {
            self.reservation.grow(1)?;
        }
        let facts = facts(volume, node, wish);
        let mut plan = volume.store.policies.allocation.plan(&facts);
        plan.length = plan.length.max(1).saturating_add(into).min(want);
        plan.goal.0 = plan.goal.0.saturating_sub(into.into());
        let route = volume.store.policies.map_blocks.route(&facts, &plan);
        let given = volume.space.allocate(self.operation, self.reservation, &plan, route)?;
        node.inode.sectors += u64::from(given.length) / size * cluster_sectors(volume);
        let start = BlockNo(given.start.0 + u64::from(into));
        let run = Run { start, length: given.length.saturating_sub(into).min(wish.want) };
        self.tell_policy(node, &wish, &facts, run);
        Ok(run)
    }
}
