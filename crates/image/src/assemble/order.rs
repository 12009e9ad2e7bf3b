//! In which order an image is laid out: inode numbers, and with them the order of directories and
//! of file data.
//!
//! Names are numbered as a cold walk reads them: all names of a directory one after the other in
//! the order of readdir, then those of each of its subdirectories. Data follows the numbers, so a
//! directory's files are next to each other.
//!
//! What is wanted first, as a program reads it when it starts, has the first numbers, and so is
//! together too: its directories as a walk meets them, then its files in the order in which they
//! are wanted. Everything else follows exactly as a walk that goes into each directory at once
//! meets it (find, tar, a copy), so that such a walk, which goes to the front and back for what is
//! there, goes nowhere else.
use crate::tree::{NodeId, Tree};
use extant_engine::Packing;
use extant_format::Ino;
use extant_format::hash::NameHash;
use extant_format::inode::FileType;
use std::collections::BTreeSet;

/// The directory that e2fsck needs.
pub const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Symlinks that one path leads through at most, as in Linux.
const LINKS_MAX: u32 = 40;

/// Whether a volume has a lost+found that no source has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostFolder {
    /// It has one, as mke2fs makes it.
    Made,
    /// It has none. e2fsck is content with that, and makes one when it needs one.
    Omitted,
}

/// Where the lost+found of an image comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostAndFound {
    /// mkfs makes it; no source has one.
    Made,
    /// mkfs makes it, and an empty one of a source gives it its owner, mode and times.
    Redressed(NodeId),
    /// mkfs makes none: a source has one with content, or something else of that name, and it is
    /// built like anything else; or there is to be none.
    Own,
}

/// Which numbers the files of a tree get.
pub struct Order {
    /// By node; 0 is not part of the image.
    numbers: Vec<u32>,
    /// Nodes in the order of their numbers, the root (and what mkfs makes) left out.
    sequence: Vec<NodeId>,
    /// Where lost+found comes from.
    pub lost_and_found: LostAndFound,
    lost_and_found_ino: Ino,
    packing: Packing,
}

/// A name of a directory in the order of readdir.
#[derive(Clone, Copy, Debug)]
pub struct Name<'t> {
    /// Its bytes.
    pub name: &'t [u8],
    /// The inode.
    pub ino: Ino,
    /// Its type.
    pub file_type: FileType,
}

/// Where the numbers of a tree begin.
#[derive(Clone, Copy)]
pub struct Numbers {
    /// The first that is not reserved: that of lost+found, if mkfs makes one.
    pub first_free: Ino,
    /// How many mkfs takes after it.
    pub made_before: u32,
}

impl Order {
    /// Numbers all nodes, those of the paths in `first` before all others.
    pub fn new(
        tree: &Tree,
        packing: Packing,
        numbers: Numbers,
        folder: LostFolder,
        first: &[Vec<u8>],
    ) -> Order {
        let Numbers { first_free, made_before } = numbers;
        let lost_and_found = match folder {
            LostFolder::Made => lost_and_found(tree),
            LostFolder::Omitted => LostAndFound::Own,
        };
        let mut numbers = vec![0; tree.node_bound()];
        if let Some(root) = numbers.get_mut(NodeId::ROOT.0 as usize) {
            *root = Ino::ROOT.0;
        }
        let mut next = first_free.0;
        if lost_and_found != LostAndFound::Own {
            next += 1;
        }
        if let LostAndFound::Redressed(node) = lost_and_found {
            numbers[node.0 as usize] = first_free.0;
        }
        next += made_before;
        let mut order = Order {
            numbers,
            sequence: Vec::with_capacity(tree.inode_count() as usize),
            lost_and_found,
            lost_and_found_ino: first_free,
            packing,
        };
        match first {
            [] => order.number_all(tree, next),
            first => {
                order.number_first(tree, first, &mut next);
                order.number_by_depth(tree, &|_| true, &mut next);
            }
        }
        order
    }

    /// Gives a node the next number, unless it has one.
    fn number(&mut self, node: NodeId, next: &mut u32) {
        let number = &mut self.numbers[node.0 as usize];
        if *number == 0 {
            *number = *next;
            *next += 1;
            self.sequence.push(node);
        }
    }

    /// Numbers what is wanted first, as these paths lead to it: the directories on all ways as a
    /// walk meets them, then each symlink on a way and what is at its end.
    fn number_first(&mut self, tree: &Tree, paths: &[Vec<u8>], next: &mut u32) {
        let nodes: Vec<NodeId> = paths.iter().flat_map(|path| way(tree, path).0).collect();
        let is_directory = |node: &NodeId| tree.file_type(*node) == FileType::Directory;
        let directories: BTreeSet<NodeId> = nodes.iter().copied().filter(is_directory).collect();
        let wanted = |node: NodeId| directories.contains(&node);
        self.number_by_depth(tree, &wanted, next);
        for node in nodes {
            self.number(node, next);
        }
    }

    /// Numbers those nodes that are `wanted` as a walk meets them that goes into each directory at
    /// once.
    fn number_by_depth(&mut self, tree: &Tree, wanted: &dyn Fn(NodeId) -> bool, next: &mut u32) {
        // What was met and not numbered yet, the next one on top.
        let mut waiting = vec![NodeId::ROOT];
        let mut children = Vec::new();
        while let Some(node) = waiting.pop() {
            self.number(node, next);
            if tree.file_type(node) == FileType::Directory {
                self.sorted(tree, node, &mut children);
                let met = children.iter().rev().map(|(_, child)| child.node);
                waiting.extend(met.filter(|node| wanted(*node)));
            }
        }
    }

    fn number_all(&mut self, tree: &Tree, mut next: u32) {
        // Subdirectories wait on a stack, the first one on top: each is numbered whole before its
        // next sibling.
        let mut waiting = vec![NodeId::ROOT];
        let mut children = Vec::new();
        while let Some(directory) = waiting.pop() {
            self.sorted(tree, directory, &mut children);
            for (_, child) in &children {
                self.number(child.node, &mut next);
            }
            let directories = children.iter().rev().map(|(_, child)| child.node);
            waiting.extend(directories.filter(|node| tree.file_type(*node) == FileType::Directory));
        }
    }

    /// A directory's children in the order of readdir, into `children`.
    fn sorted<'t>(
        &self,
        tree: &'t Tree,
        directory: NodeId,
        children: &mut Vec<(NameHash, crate::tree::Child<'t>)>,
    ) {
        children.clear();
        children.extend(
            tree.children(directory).map(|child| (self.packing.hash_key(child.name), child)),
        );
        if self.packing.hasher.is_some() {
            children.sort_by_key(|(hash, _)| *hash);
        }
    }

    /// The names of a directory in the order of readdir, lost+found in the root with them.
    pub fn names<'t>(&self, tree: &'t Tree, directory: NodeId) -> Vec<Name<'t>> {
        let mut children = Vec::new();
        self.sorted(tree, directory, &mut children);
        let mut names: Vec<Name<'t>> = children
            .iter()
            .map(|(_, child)| Name {
                name: child.name,
                ino: self.ino(child.node),
                file_type: tree.file_type(child.node),
            })
            .collect();
        if directory == NodeId::ROOT && self.lost_and_found == LostAndFound::Made {
            let made = Name {
                name: LOST_AND_FOUND,
                ino: self.lost_and_found_ino,
                file_type: FileType::Directory,
            };
            let key = self.packing.hash_key(LOST_AND_FOUND);
            let at = match self.packing.hasher {
                Some(_) => children.partition_point(|(hash, _)| *hash <= key),
                None => children.partition_point(|(_, child)| child.name < LOST_AND_FOUND),
            };
            names.insert(at, made);
        }
        names
    }

    /// A node's number.
    pub fn ino(&self, node: NodeId) -> Ino {
        Ino(self.numbers.get(node.0 as usize).copied().unwrap_or(0))
    }

    /// The number after the last one.
    pub fn end(&self) -> Ino {
        Ino(self.numbers.iter().copied().max().unwrap_or(0).max(self.lost_and_found_ino.0) + 1)
    }

    /// The nodes to be made, in the order of their numbers.
    pub fn sequence(&self) -> &[NodeId] {
        &self.sequence
    }

    /// How directories are packed.
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// The link count of a directory in the image: the root has lost+found below it.
    pub fn links(&self, tree: &Tree, node: NodeId) -> u32 {
        let made = node == NodeId::ROOT && self.lost_and_found == LostAndFound::Made;
        tree.links(node) + u32::from(made)
    }
}

/// Whether a path leads to something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WayEnd {
    /// It does.
    Found,
    /// There is nothing of that name where it leads.
    Missing,
}

/// What a path leads over, with what is at its end and without the root. Symlinks on the way are
/// followed; one at the end is meant itself.
pub fn way(tree: &Tree, path: &[u8]) -> (Vec<NodeId>, WayEnd) {
    let (mut node, mut nodes, mut links) = (NodeId::ROOT, Vec::new(), 0);
    // Names that are still to come, the next one last.
    let mut names: Vec<&[u8]> = names_of(path).rev().collect();
    while let Some(name) = names.pop() {
        if name == b".." {
            node = tree.parent(node);
            continue;
        }
        let Some(child) = tree.child(node, name) else { return (nodes, WayEnd::Missing) };
        nodes.push(child);
        if tree.file_type(child) != FileType::Symlink || names.is_empty() {
            node = child;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return (nodes, WayEnd::Missing);
        }
        let target = tree.target(child);
        if target.starts_with(b"/") {
            node = NodeId::ROOT;
        }
        names.extend(names_of(target).rev());
    }
    (nodes, WayEnd::Found)
}

/// The names that a path is made of.
fn names_of(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

fn lost_and_found(tree: &Tree) -> LostAndFound {
    match tree.children(NodeId::ROOT).find(|child| child.name == LOST_AND_FOUND) {
        None => LostAndFound::Made,
        Some(child) => {
            let empty = tree.file_type(child.node) == FileType::Directory
                && tree.children(child.node).len() == 0;
            if empty { LostAndFound::Redressed(child.node) } else { LostAndFound::Own }
        }
    }
}
