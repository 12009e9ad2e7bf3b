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
pub(crate) use walk::{MapBlock, MapKind, MapWalk};

use super::codes::Code;
use super::facts::Facts;
use super::problem::Problem;
use extant_format::SECTOR_BYTES;
use extant_format::inode::{Inode, flags};
use extant_format::superblock::Feature;
use judge::{NodeJudge, REPORTED_MAX};
use std::sync::Arc;
use walk::{MapSums, NodeShape};

/// Blocks of a directory from which on e2fsck gives it an index.
const DIRECTORY_BLOCKS_INDEXED: u64 = 3;

/// Judges what is mapped in the inode itself, and adds the map blocks that the root leads to. When
/// there are none the walk is over, and judged.
pub(crate) fn roots(
    claimant: &impl Claimant,
    walk: MapWalk,
    inode: &Inode,
    children: &mut Vec<MapBlock>,
) {
    let mut judge = NodeJudge::new(claimant, &walk);
    let is_of_pointers = matches!(walk.kind, MapKind::BadBlocks | MapKind::Resize);
    if inode.has_extents() && !is_of_pointers {
        judge.root_of_extents(inode);
    } else {
        judge.root_of_pointers(inode);
    }
    let found = judge.end();
    if walk.begin(found.len()) {
        return finish(claimant, &walk);
    }
    // Most maps are in their inodes: only those that are not are shared.
    let walk = Arc::new(walk);
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
    let mut judge = NodeJudge::new(claimant, walk);
    match map_block.shape {
        NodeShape::Indirect(below) => judge.pointers(map_block, below, bytes),
        NodeShape::Extents(depth) => judge.node_block(map_block, depth, bytes),
    }
    let found = judge.end();
    let is_over = walk.step(found.len());
    children.extend(found.into_iter().map(|child| child.of(walk)));
    if is_over {
        finish(claimant, walk);
    }
}

/// All of a map was seen: judges what depends on all of it.
fn finish(claimant: &impl Claimant, walk: &MapWalk) {
    let facts = claimant.facts();
    let cluster_blocks = u64::from(facts.volume.cluster_blocks());
    let joined = clusters::claim_edges(&facts.claims, cluster_blocks, &mut walk.edges.lock());
    if let Some(file_block) = joined.split {
        claimant.report(Problem::new(Code::ClusterSplit).ino(walk.ino).file_block(file_block));
    }
    let sums = walk.sums();
    if sums.illegal > REPORTED_MAX {
        let problem = Problem::new(Code::ManyIllegalBlocks).ino(walk.ino);
        claimant.report(problem.found(sums.illegal));
    }
    if walk.kind == MapKind::BadBlocks || sums.is_cut {
        return;
    }
    let is_of_pointers = walk.flags & flags::EXTENTS == 0 && walk.kind != MapKind::Resize;
    if cluster_blocks > 1 && is_of_pointers && sums.blocks > 0 {
        claimant.report(Problem::new(Code::ClusterPointers).ino(walk.ino));
    }
    if sums.illegal == 0 {
        judge_size(claimant, walk, &sums);
        note_shape(facts, walk, &sums);
    }
    let sectors_per_block = u64::from(facts.volume.superblock().block_size()) / SECTOR_BYTES;
    let blocks = sums.blocks.saturating_sub(joined.shared * cluster_blocks);
    let expected = (blocks + walk.held_blocks) * sectors_per_block;
    if expected != walk.sectors {
        let problem = Problem::new(Code::SectorCount).ino(walk.ino);
        claimant.report(problem.found(walk.sectors).expected(expected));
    }
}

/// Notes what could be smaller or faster.
fn note_shape(facts: &Facts, walk: &MapWalk, sums: &MapSums) {
    let superblock = facts.volume.superblock();
    if walk.levels().is_some_and(|levels| levels.are_large(facts.volume.block_size())) {
        facts.shapes.add_large_tree(walk.ino);
    }
    let is_hashed = flags::INDEX | flags::CASEFOLDED | flags::ENCRYPTED;
    if walk.kind == MapKind::Directory
        && sums.end >= DIRECTORY_BLOCKS_INDEXED
        && walk.flags & is_hashed == 0
        && superblock.has(Feature::DIR_INDEX)
    {
        facts.shapes.add_unindexed(walk.ino);
    }
}

/// The size of a file against what its map has.
fn judge_size(claimant: &impl Claimant, walk: &MapWalk, sums: &MapSums) {
    let block_size = u64::from(claimant.facts().volume.superblock().block_size());
    let problem = |code| Problem::new(code).ino(walk.ino).found(walk.size);
    match walk.kind {
        MapKind::Directory if sums.end == 0 => {
            claimant.report(problem(Code::DirectoryWithoutBlocks));
        }
        MapKind::Directory if walk.size != sums.end * block_size => {
            claimant.report(problem(Code::DirectorySize).expected(sums.end * block_size));
        }
        MapKind::Regular | MapKind::Resize => {
            let last = sums.written_end.saturating_sub(1) * block_size;
            if walk.size < last && walk.flags & flags::VERITY == 0 {
                claimant.report(problem(Code::FileSize).expected(last + block_size));
            }
        }
        _ => {}
    }
}
