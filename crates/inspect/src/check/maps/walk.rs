//! What is known of a map while it is walked: sums over its nodes, which any thread may add to.
//!
//! *Invariants*: sums only grow; they are complete when no map block is outstanding. The depth of a
//! tree is set before anything else of it is seen.
//! *Locking*: counters are atomics; the edges of clusters have a short lock, held for a push.
use super::clusters::Edges;
use super::levels::Levels;
use crate::check::facts::{DirectoryBlock, Facts};
use extant_block::ShortLock;
use extant_format::checksum::inode_seed;
use extant_format::inode::{FileType, Inode};
use extant_format::{BlockNo, Ino};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

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

/// A map that is being walked.
pub(crate) struct MapWalk {
    pub(super) ino: Ino,
    pub(super) kind: MapKind,
    pub(super) size: u64,
    pub(super) sectors: u64,
    pub(super) flags: u32,
    pub(super) generation: u32,
    /// The seed of checksums of its extent blocks.
    pub(super) seed: u32,
    /// Blocks of attributes, which count as the file's.
    pub(super) held_blocks: u64,
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
    /// Of an extent tree that has more than a root.
    levels: OnceLock<Levels>,
}

/// What a whole map comes to.
pub(super) struct MapSums {
    pub(super) is_cut: bool,
    pub(super) blocks: u64,
    pub(super) end: u64,
    pub(super) written_end: u64,
    pub(super) illegal: u64,
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
    /// Of an inode whose attributes take `held_blocks`.
    pub(crate) fn new(
        facts: &Facts,
        ino: Ino,
        kind: MapKind,
        inode: &Inode,
        held_blocks: u64,
    ) -> MapWalk {
        let seed = facts.volume.superblock().checksum_seed;
        MapWalk {
            ino,
            kind,
            size: inode.size,
            sectors: inode.sectors,
            flags: inode.flags,
            generation: inode.generation,
            seed: inode_seed(seed, ino, inode.generation),
            held_blocks,
            outstanding: AtomicU32::new(0),
            is_cut: AtomicBool::new(false),
            blocks: AtomicU64::new(0),
            end: AtomicU64::new(0),
            written_end: AtomicU64::new(0),
            illegal: AtomicU64::new(0),
            edges: ShortLock::default(),
            levels: OnceLock::new(),
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

    /// The root of an extent tree is that deep.
    pub(super) fn set_depth(&self, depth: u16) {
        if depth > 0 {
            let _ = self.levels.set(Levels::of(depth));
        }
    }

    /// The levels of an extent tree that has more than a root.
    pub(super) fn levels(&self) -> Option<&Levels> {
        self.levels.get()
    }

    /// The root was judged, and has that many children. Gives whether the walk is over.
    pub(super) fn begin(&self, children: usize) -> bool {
        let children = u32::try_from(children).unwrap_or(u32::MAX);
        self.outstanding.store(children, Ordering::Release);
        children == 0
    }

    /// A map block was judged, and has that many children. Gives whether the walk is over.
    pub(super) fn step(&self, children: usize) -> bool {
        let children = u32::try_from(children).unwrap_or(u32::MAX);
        // Those that are added count before this one is done.
        self.outstanding.fetch_add(children, Ordering::AcqRel);
        self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// What all nodes come to. Means something when the walk is over.
    pub(super) fn sums(&self) -> MapSums {
        MapSums {
            is_cut: self.is_cut.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            end: self.end.load(Ordering::Relaxed),
            written_end: self.written_end.load(Ordering::Relaxed),
            illegal: self.illegal.load(Ordering::Relaxed),
        }
    }
}
