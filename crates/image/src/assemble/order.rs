//! In which order an image is laid out: inode numbers, and with them the order of directories and
//! of file data.
//!
//! Names are numbered as a cold walk reads them: all names of a directory one after the other in
//! the order of readdir, then those of each of its subdirectories. Data follows the numbers, so a
//! directory's files are next to each other.
use crate::tree::{NodeId, Tree};
use extant_engine::Packing;
use extant_format::Ino;
use extant_format::hash::NameHash;
use extant_format::inode::FileType;

/// The directory that e2fsck needs.
pub const LOST_AND_FOUND: &[u8] = b"lost+found";

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

impl Order {
    /// Numbers all nodes. mkfs takes `first_free` for lost+found if it makes one, and `made_before`
    /// numbers more.
    pub fn new(
        tree: &Tree,
        packing: Packing,
        first_free: Ino,
        made_before: u32,
        folder: LostFolder,
    ) -> Order {
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
        order.number_all(tree, next);
        order
    }

    fn number_all(&mut self, tree: &Tree, mut next: u32) {
        // Subdirectories wait on a stack, the first one on top: each is numbered whole before its
        // next sibling.
        let mut waiting = vec![NodeId::ROOT];
        let mut children = Vec::new();
        while let Some(directory) = waiting.pop() {
            self.sorted(tree, directory, &mut children);
            for (_, child) in &children {
                let number = &mut self.numbers[child.node.0 as usize];
                if *number == 0 {
                    *number = next;
                    next += 1;
                    self.sequence.push(child.node);
                }
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
