//! A map, and what is known of it while it is walked: sums over its nodes, which any thread may add
//! to. Most maps have no node but the root in their inode: of these nothing is shared.
//!
//! *Invariants*: sums only grow; they are complete when no map block is outstanding.
//! *Locking*: counters are atomics; the edges of clusters have a short lock, held for a push.
use super::clusters::Edges;
use super::levels::Levels;
use crate::check::facts::{DirectoryBlock, Facts};
use extant_block::ShortLock;
use extant_format::checksum::inode_seed;
use extant_format::inode::{FileType, Inode};
use extant_format::{BlockNo, Ino};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What a map belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MapKind {
    Regular,
    Directory,
    Symlink,
    /// The list of bad blocks: may hold blocks of metadata.
    BadBlocks,
    /// The map of the descriptors kept for growth, which are metadata.
    Resize,
}

impl MapKind {
    /// `None` for what has no map.
    pub(crate) fn of(file_type: Option<FileType>) -> Option<MapKind> {
        match file_type? {
            FileType::Regular => Some(MapKind::Regular),
            FileType::Directory => Some(MapKind::Directory),
            FileType::Symlink => Some(MapKind::Symlink),
            _ => None,
        }
    }
}

/// What a map belongs to, as its inode says.
pub(crate) struct Mapped {
    pub(super) ino: Ino,
    pub(super) kind: MapKind,
    pub(super) size: u64,
    pub(super) sectors: u64,
    pub(super) flags: u32,
    pub(super) generation: u32,
    /// Blocks of attributes, which count as the file's.
    pub(super) held_blocks: u64,
}

impl Mapped {
    /// Of an inode whose attributes take `held_blocks`.
    pub(crate) fn new(ino: Ino, kind: MapKind, inode: &Inode, held_blocks: u64) -> Mapped {
        Mapped {
            ino,
            kind,
            size: inode.size,
            sectors: inode.sectors,
            flags: inode.flags,
            generation: inode.generation,
            held_blocks,
        }
    }
}

/// A map that has more than its root, and is being walked.
pub(crate) struct MapWalk {
    pub(super) map: Mapped,
    /// The seed of checksums of its extent blocks.
    pub(super) seed: u32,
    /// Map blocks that were found but not judged yet.
    outstanding: AtomicU32,
    /// Something of it was not followed: what depends on all of it is not judged.
    is_cut: AtomicBool,
    blocks: AtomicU64,
    /// After the last file block that is mapped, and after the last that holds data.
    end: AtomicU64,
    written_end: AtomicU64,
    illegal: AtomicU64,
    pub(super) edges: ShortLock<Vec<Edges>>,
    /// Of an extent tree.
    pub(super) levels: Option<Levels>,
}

/// What a whole map comes to.
pub(super) struct MapSums<'a> {
    pub(super) is_cut: bool,
    pub(super) blocks: u64,
    pub(super) end: u64,
    pub(super) written_end: u64,
    pub(super) illegal: u64,
    pub(super) edges: &'a mut [Edges],
    pub(super) levels: Option<&'a Levels>,
}

/// What one node adds to its walk.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) blocks: u64,
    pub(super) end: u64,
    pub(super) written_end: u64,
    pub(super) illegal: u64,
    /// Faults that were found; not all of them are reported one by one.
    pub(super) faults: u64,
    pub(super) is_cut: bool,
    pub(super) edges: Option<Edges>,
    pub(super) directory_blocks: Vec<DirectoryBlock>,
    /// Of the root of an extent tree that has more than a root.
    pub(super) levels: Option<Levels>,
}

impl Tally {
    /// What a map comes to that has no other node.
    pub(super) fn sums(&mut self) -> MapSums<'_> {
        MapSums {
            is_cut: self.is_cut,
            blocks: self.blocks,
            end: self.end,
            written_end: self.written_end,
            illegal: self.illegal,
            edges: self.edges.as_mut_slice(),
            levels: self.levels.as_ref(),
        }
    }
}

/// A map block that is to be read.
#[derive(Clone)]
pub(crate) struct MapBlock {
    pub(crate) block: BlockNo,
    pub(super) walk: Arc<MapWalk>,
    pub(super) shape: NodeShape,
    /// The first file block under it.
    pub(super) first: u64,
    /// After the last file block that may be under it.
    pub(super) end: u64,
}

/// A map block that a node leads to.
pub(super) struct Child {
    pub(super) block: BlockNo,
    pub(super) shape: NodeShape,
    pub(super) first: u64,
    pub(super) end: u64,
}

impl Child {
    /// As one that is to be read for this walk.
    pub(super) fn of(self, walk: &Arc<MapWalk>) -> MapBlock {
        let Child { block, shape, first, end } = self;
        MapBlock { block, walk: Arc::clone(walk), shape, first, end }
    }
}

/// What a map block is.
#[derive(Clone, Copy)]
pub(super) enum NodeShape {
    /// With that many levels below it: 0 points to data.
    Indirect(u32),
    /// A node of an extent tree of that depth.
    Extents(u16),
}

impl MapWalk {
    /// Of a map whose root came to this, and has that many children.
    pub(super) fn new(facts: &Facts, map: Mapped, root: Tally, children: usize) -> MapWalk {
        let seed = facts.volume.superblock().checksum_seed;
        MapWalk {
            seed: inode_seed(seed, map.ino, map.generation),
            map,
            outstanding: AtomicU32::new(u32::try_from(children).unwrap_or(u32::MAX)),
            is_cut: AtomicBool::new(root.is_cut),
            blocks: AtomicU64::new(root.blocks),
            end: AtomicU64::new(root.end),
            written_end: AtomicU64::new(root.written_end),
            illegal: AtomicU64::new(root.illegal),
            edges: ShortLock::new(root.edges.into_iter().collect()),
            levels: root.levels,
        }
    }

    /// Adds what a node comes to, all but its directory blocks.
    pub(super) fn add(&self, tally: &Tally) {
        self.blocks.fetch_add(tally.blocks, Ordering::Relaxed);
        self.end.fetch_max(tally.end, Ordering::Relaxed);
        self.written_end.fetch_max(tally.written_end, Ordering::Relaxed);
        self.illegal.fetch_add(tally.illegal, Ordering::Relaxed);
        self.is_cut.fetch_or(tally.is_cut, Ordering::Relaxed);
        if let Some(edges) = tally.edges {
            self.edges.lock().push(edges);
        }
    }

    /// A map block was judged, and has that many children. Gives whether the walk is over.
    pub(super) fn step(&self, children: usize) -> bool {
        let children = u32::try_from(children).unwrap_or(u32::MAX);
        // Those that are added count before this one is done.
        self.outstanding.fetch_add(children, Ordering::AcqRel);
        self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// What all nodes come to, with their edges. Means something when the walk is over.
    pub(super) fn sums<'a>(&'a self, edges: &'a mut [Edges]) -> MapSums<'a> {
        MapSums {
            is_cut: self.is_cut.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            end: self.end.load(Ordering::Relaxed),
            written_end: self.written_end.load(Ordering::Relaxed),
            illegal: self.illegal.load(Ordering::Relaxed),
            edges,
            levels: self.levels.as_ref(),
        }
    }
}
