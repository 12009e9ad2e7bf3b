//! Pass 1: the maps of files, one map block at a time, in whatever order the [pool] reads them.
//!
//! ```text
//! inode --roots--> map blocks --judge_block--> runs of data --> the claimant
//!                      ^            |
//!                      +--children--+          `finish` of a file compares size and sectors
//!
//! pool                 which map blocks are read next
//! pointers, extents    the two kinds of nodes
//! judge                what both do with what they point to
//! claimant             what is done with the blocks: pass 1 claims, pass 1b searches for owners
//! walk, clusters       sums over the nodes of a map
//! levels               whether an extent tree could be smaller
//! ```
//!
//! *Invariants*: what is reported of a map block depends on its bytes, its inode and its place in
//! the tree alone. A map block that was followed is not followed again, so that the work is bounded
//! by the blocks of the volume.
//! *Locking*: none here; walks and claimants have their own.
mod claimant;
mod clusters;
mod extents;
mod judge;
mod levels;
mod pointers;
pub(crate) mod pool;
mod walk;

pub(crate) use claimant::{Claimant, Claiming, Owner, Searching};
pub(crate) use walk::{MapBlock, MapKind, Mapped};

use super::codes::Code;
use super::facts::Facts;
use super::problem::Problem;
use extant_format::SECTOR_BYTES;
use extant_format::inode::{Inode, flags};
use extant_format::superblock::Feature;
use judge::{NodeJudge, REPORTED_MAX};
use std::sync::Arc;
use walk::{MapSums, MapWalk, NodeShape};

/// Blocks of a directory from which on e2fsck gives it an index.
const DIRECTORY_BLOCKS_INDEXED: u64 = 3;

/// The maps of inodes that are met one after the other: what the inodes themselves map is claimed,
/// what map blocks map when these are read.
pub(crate) struct Roots<'a> {
    claiming: Claiming<'a>,
    /// The map blocks that they lead to.
    pub(crate) blocks: Vec<MapBlock>,
}

impl<'a> Roots<'a> {
    /// None was met yet.
    pub(crate) fn new(facts: &'a Facts) -> Roots<'a> {
        Roots { claiming: Claiming::new(facts), blocks: Vec::new() }
    }

    /// Judges the next one.
    pub(crate) fn add(&mut self, map: Mapped, inode: &Inode) {
        roots(&self.claiming, map, inode, &mut self.blocks);
    }
}

/// Judges what is mapped in the inode itself, and adds the map blocks that the root leads to. When
/// there are none the walk is over, and judged.
pub(crate) fn roots(
    claimant: &impl Claimant,
    map: Mapped,
    inode: &Inode,
    children: &mut Vec<MapBlock>,
) {
    let mut judge = NodeJudge::new(claimant, &map, None);
    let is_of_pointers = matches!(map.kind, MapKind::BadBlocks | MapKind::Resize);
    if inode.has_extents() && !is_of_pointers {
        judge.root_of_extents(inode);
    } else {
        judge.root_of_pointers(inode);
    }
    let (mut tally, found) = judge.end();
    if found.is_empty() {
        return finish(claimant, &map, tally.sums());
    }
    // Most maps are in their inodes: only those that are not are shared.
    let walk = Arc::new(MapWalk::new(claimant.facts(), map, tally, found.len()));
    children.extend(found.into_iter().map(|child| child.of(&walk)));
}

/// Judges a map block that was read, and adds its children. The last one of a walk ends it.
pub(crate) fn judge_block(
    claimant: &impl Claimant,
    map_block: &MapBlock,
    bytes: &[u8],
    children: &mut Vec<MapBlock>,
) {
    let walk = &map_block.walk;
    let mut judge = NodeJudge::new(claimant, &walk.map, walk.levels.as_ref());
    match map_block.shape {
        NodeShape::Indirect(below) => judge.pointers(map_block, below, bytes),
        NodeShape::Extents(depth) => judge.node_block(map_block, depth, bytes),
    }
    let (tally, found) = judge.end();
    walk.add(&tally);
    let is_over = walk.step(found.len());
    children.extend(found.into_iter().map(|child| child.of(walk)));
    if is_over {
        finish(claimant, &walk.map, walk.sums(&mut walk.edges.lock()));
    }
}

/// All of a map was seen: judges what depends on all of it.
fn finish(claimant: &impl Claimant, map: &Mapped, sums: MapSums<'_>) {
    let facts = claimant.facts();
    let cluster_blocks = u64::from(facts.volume.cluster_blocks());
    let joined = clusters::claim_edges(&facts.claims, cluster_blocks, sums.edges);
    if let Some(file_block) = joined.split {
        claimant.report(Problem::new(Code::ClusterSplit).ino(map.ino).file_block(file_block));
    }
    if sums.illegal > REPORTED_MAX {
        let problem = Problem::new(Code::ManyIllegalBlocks).ino(map.ino);
        claimant.report(problem.found(sums.illegal));
    }
    if map.kind == MapKind::BadBlocks || sums.is_cut {
        return;
    }
    let is_of_pointers = map.flags & flags::EXTENTS == 0 && map.kind != MapKind::Resize;
    if cluster_blocks > 1 && is_of_pointers && sums.blocks > 0 {
        claimant.report(Problem::new(Code::ClusterPointers).ino(map.ino));
    }
    if sums.illegal == 0 {
        judge_size(claimant, map, &sums);
        note_shape(facts, map, &sums);
    }
    let sectors_per_block = u64::from(facts.volume.superblock().block_size()) / SECTOR_BYTES;
    let blocks = sums.blocks.saturating_sub(joined.shared * cluster_blocks);
    let expected = (blocks + map.held_blocks) * sectors_per_block;
    if expected != map.sectors {
        let problem = Problem::new(Code::SectorCount).ino(map.ino);
        claimant.report(problem.found(map.sectors).expected(expected));
    }
}

/// Notes what could be smaller or faster.
fn note_shape(facts: &Facts, map: &Mapped, sums: &MapSums<'_>) {
    let superblock = facts.volume.superblock();
    if sums.levels.is_some_and(|levels| levels.are_large(facts.volume.block_size())) {
        facts.shapes.add_large_tree(map.ino);
    }
    let is_hashed = flags::INDEX | flags::CASEFOLDED | flags::ENCRYPTED;
    if map.kind == MapKind::Directory
        && sums.end >= DIRECTORY_BLOCKS_INDEXED
        && map.flags & is_hashed == 0
        && superblock.has(Feature::DIR_INDEX)
    {
        facts.shapes.add_unindexed(map.ino);
    }
}

/// The size of a file against what its map has.
fn judge_size(claimant: &impl Claimant, map: &Mapped, sums: &MapSums<'_>) {
    let block_size = u64::from(claimant.facts().volume.superblock().block_size());
    let problem = |code| Problem::new(code).ino(map.ino).found(map.size);
    match map.kind {
        MapKind::Directory if sums.end == 0 => {
            claimant.report(problem(Code::DirectoryWithoutBlocks));
        }
        MapKind::Directory if map.size != sums.end * block_size => {
            claimant.report(problem(Code::DirectorySize).expected(sums.end * block_size));
        }
        MapKind::Regular | MapKind::Resize => {
            let last = sums.written_end.saturating_sub(1) * block_size;
            if map.size < last && map.flags & flags::VERITY == 0 {
                claimant.report(problem(Code::FileSize).expected(last + block_size));
            }
        }
        _ => {}
    }
}
