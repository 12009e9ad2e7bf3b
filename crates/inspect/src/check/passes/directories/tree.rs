//! The directories as a tree: what pass 2 works on and finds out, and what pass 3 judges.
//!
//! A *place* is a number for a piece of directory, in the order in which they are judged:
//! directories in inodes first, then blocks by their place on the disk.
//!
//! *Invariants*: `inodes` rises, and `nodes` has one element for each of it; blocks rise by place.
//! A parent is the directory of the entry that has the lowest place, whichever thread met it.
//! *Locking*: none; numbers only fall (parents), are added to, or are stored by the one thread that
//! judges a directory's first block.
use crate::check::facts::DirectoryBlock;
use extant_format::Ino;
use std::sync::atomic::{AtomicU32, Ordering};

/// All directories in use, and which is in which.
pub(crate) struct Tree {
    inodes: Vec<Ino>,
    nodes: Vec<Node>,
    /// Directories that are in their inodes, rising.
    pub(crate) inline: Vec<Ino>,
    /// The blocks of all others, by place on the disk.
    pub(crate) blocks: Vec<DirectoryBlock>,
}

/// What is known of one directory.
struct Node {
    /// What its `..` says; 0 when it has none.
    dotdot: AtomicU32,
    /// The lowest place with an entry for it.
    first: AtomicU32,
    /// Entries for it, `.` and `..` apart.
    entries: AtomicU32,
}

/// No entry was found.
const NOWHERE: u32 = u32::MAX;

impl Tree {
    /// A tree of these directories, which must rise, not yet connected.
    pub(crate) fn new(inodes: Vec<Ino>, inline: Vec<Ino>, blocks: Vec<DirectoryBlock>) -> Tree {
        let node = |_: &Ino| Node {
            dotdot: AtomicU32::new(0),
            first: AtomicU32::new(NOWHERE),
            entries: AtomicU32::new(0),
        };
        Tree { nodes: inodes.iter().map(node).collect(), inodes, inline, blocks }
    }

    /// The directories, rising.
    pub(crate) fn inodes(&self) -> &[Ino] {
        &self.inodes
    }

    fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(self.inodes.binary_search(&ino).ok()?)
    }

    /// The place of block `at`.
    pub(crate) fn place_of_block(&self, at: usize) -> u32 {
        u32::try_from(self.inline.len() + at).unwrap_or(NOWHERE - 1)
    }

    /// The directory whose entries are at a place.
    fn owner(&self, place: u32) -> Option<Ino> {
        let place = place as usize;
        match place.checked_sub(self.inline.len()) {
            Some(at) => self.blocks.get(at).map(|block| block.ino),
            None => self.inline.get(place).copied(),
        }
    }

    /// `..` of a directory is this.
    pub(crate) fn set_dotdot(&self, ino: Ino, parent: Ino) {
        if let Some(node) = self.node(ino) {
            node.dotdot.store(parent.0, Ordering::Relaxed);
        }
    }

    /// What `..` of a directory says; 0 when it has none.
    pub(crate) fn dotdot(&self, ino: Ino) -> Ino {
        Ino(self.node(ino).map_or(0, |node| node.dotdot.load(Ordering::Relaxed)))
    }

    /// There is an entry for a directory at this place.
    pub(crate) fn add_entry(&self, ino: Ino, place: u32) {
        if let Some(node) = self.node(ino) {
            node.first.fetch_min(place, Ordering::Relaxed);
            node.entries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One of the entries for a directory was counted twice.
    pub(crate) fn remove_entry(&self, ino: Ino) {
        if let Some(node) = self.node(ino) {
            node.entries.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The place of the first entry for a directory.
    pub(crate) fn first_entry(&self, ino: Ino) -> Option<u32> {
        let first = self.node(ino)?.first.load(Ordering::Relaxed);
        (first != NOWHERE).then_some(first)
    }

    /// The directory that has the first entry for a directory.
    pub(crate) fn parent(&self, ino: Ino) -> Option<Ino> {
        self.owner(self.first_entry(ino)?)
    }

    /// Directories that have several entries, `.` and `..` apart; rising.
    pub(crate) fn linked_twice(&self) -> Vec<Ino> {
        let nodes = self.inodes.iter().zip(&self.nodes);
        let twice = nodes.filter(|(_, node)| node.entries.load(Ordering::Relaxed) > 1);
        twice.map(|(ino, _)| *ino).collect()
    }
}
