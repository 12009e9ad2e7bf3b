//! The directories as a tree: what pass 2 finds out and passes 3 and 4 judge.
//!
//! *Invariants*: `inodes` rises; the other lists have one element for each of it. A parent is the directory of the entry
//! that comes first by place on the disk, whichever thread met it.
//! *Locking*: none; numbers only fall (parents) or are stored by the one thread that judges a directory's first block.
use extant_format::Ino;
use std::sync::atomic::{AtomicU32, Ordering};

/// All directories in use, and how they hang together.
#[derive(Debug)]
pub(crate) struct Tree {
    inodes: Vec<Ino>,
    nodes: Vec<Node>,
}

/// What is known of one directory.
#[derive(Debug)]
struct Node {
    /// What its `..` says; 0 when it has none.
    dotdot: AtomicU32,
    /// The first directory block, by place, with an entry for it.
    first: AtomicU32,
    /// Entries for it, `.` and `..` apart.
    entries: AtomicU32,
}

/// No entry was found.
const NOWHERE: u32 = u32::MAX;

impl Tree {
    /// A tree of these directories, which must rise, not yet connected.
    pub(crate) fn new(inodes: Vec<Ino>) -> Tree {
        let node = |_: &Ino| Node {
            dotdot: AtomicU32::new(0),
            first: AtomicU32::new(NOWHERE),
            entries: AtomicU32::new(0),
        };
        let nodes = inodes.iter().map(node).collect();
        Tree { inodes, nodes }
    }

    /// The directories, rising.
    pub(crate) fn inodes(&self) -> &[Ino] {
        &self.inodes
    }

    fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(self.inodes.binary_search(&ino).ok()?)
    }

    /// What `..` of a directory says.
    pub(crate) fn set_dotdot(&self, ino: Ino, parent: Ino) {
        if let Some(node) = self.node(ino) {
            node.dotdot.store(parent.0, Ordering::Relaxed);
        }
    }

    /// What `..` of a directory says; 0 when it has none.
    pub(crate) fn dotdot(&self, ino: Ino) -> Ino {
        Ino(self.node(ino).map_or(0, |node| node.dotdot.load(Ordering::Relaxed)))
    }

    /// Directory block `place`, by place on the disk, has an entry for a directory.
    pub(crate) fn add_entry(&self, ino: Ino, place: u32) {
        if let Some(node) = self.node(ino) {
            node.first.fetch_min(place, Ordering::Relaxed);
            node.entries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The directory block with the first entry for a directory.
    pub(crate) fn first_entry(&self, ino: Ino) -> Option<u32> {
        let first = self.node(ino)?.first.load(Ordering::Relaxed);
        (first != NOWHERE).then_some(first)
    }

    /// How many entries a directory has, `.` and `..` apart.
    pub(crate) fn entries(&self, ino: Ino) -> u32 {
        self.node(ino).map_or(0, |node| node.entries.load(Ordering::Relaxed))
    }
}
