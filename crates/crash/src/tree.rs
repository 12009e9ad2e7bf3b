//! A tree of names in memory, and what every file in it ever held: the model that a recovered
//! volume is compared with.
//!
//! *Invariants*: a node is in `nodes` exactly while it has a name; the root is the node of the
//! empty path. Versions of a file are numbered in the order in which they were asked for.
use crate::operation::{NodeId, Operation, Piece, Sync, split};
use extant_engine::Size;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// What a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A file; its bytes are in the contents.
    File,
    /// A directory.
    Directory,
    /// A symlink with this target.
    Symlink(Vec<u8>),
}

/// A file, directory or symlink with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Extended attributes: names with their prefix.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The last version of its bytes.
    pub version: usize,
}

/// Names and what they lead to, at a moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    /// By path, without a slash at the end.
    pub names: BTreeMap<String, NodeId>,
    /// What has a name.
    pub nodes: BTreeMap<NodeId, Node>,
}

/// How a version came to be from the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// By a change of metadata alone: the file is the old one or the new one.
    Whole,
    /// By writing blocks, which reach the disk one by one.
    InPlace,
    /// By moving what is in the file: whole, but later writes find their blocks at other places.
    Shift,
}

/// What a file held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// All of it.
    pub bytes: Arc<Vec<u8>>,
    /// How it came to be.
    pub change: Change,
    /// Bytes that may read as zeros meanwhile: the rests of blocks that are zeroed in place.
    pub zeros: Range<u64>,
    /// Whether these zeros are on the disk before the change itself is: the rest of the last block
    /// of a file that became shorter.
    pub zeros_first: bool,
}

/// All versions of each file.
pub type Contents = BTreeMap<NodeId, Vec<Version>>;

/// What an operation touched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// Nodes whose inode or names changed: `fsync` of one of them waits for it.
    pub nodes: BTreeSet<NodeId>,
    /// Files whose size changed, or that were made: `fdatasync` waits for it too.
    pub mapped: BTreeSet<NodeId>,
}

/// The tree of one process as it changes.
#[derive(Clone, Debug)]
pub struct Model {
    /// As it is now.
    pub tree: Tree,
    /// What every file held.
    pub contents: Contents,
    /// Bytes of a block of the volume.
    block_bytes: u64,
    /// The number of the next node.
    next_node: NodeId,
}

/// The root directory.
pub const ROOT: NodeId = 0;

impl Model {
    /// A volume with nothing on it. New nodes are numbered from `first_node`, which is not 0.
    pub fn new(block_bytes: u64, first_node: NodeId) -> Model {
        let mut tree = Tree::default();
        tree.names.insert(String::new(), ROOT);
        tree.nodes.insert(ROOT, node(Kind::Directory));
        Model { tree, contents: Contents::new(), block_bytes, next_node: first_node }
    }

    /// The same, with new nodes numbered from here on: for one of several processes.
    #[must_use]
    pub fn numbered_from(self, first_node: NodeId) -> Model {
        Model { next_node: first_node, ..self }
    }

    /// What a path leads to.
    pub fn node(&self, path: &str) -> Option<NodeId> {
        self.tree.names.get(path).copied()
    }

    /// The number that the next new node gets.
    pub fn next_node(&self) -> NodeId {
        self.next_node
    }

    /// The bytes of a file as they are now; none if it is no file.
    pub fn bytes(&self, path: &str) -> Option<Arc<Vec<u8>>> {
        let id = self.node(path)?;
        let version = self.tree.nodes.get(&id)?.version;
        self.contents.get(&id)?.get(version).map(|version| Arc::clone(&version.bytes))
    }

    fn add(&mut self, path: &str, kind: Kind, touched: &mut Touched) -> NodeId {
        let id = self.next_node;
        self.next_node += 1;
        if kind == Kind::File {
            self.contents.insert(id, vec![version(Vec::new(), Change::Whole)]);
        }
        self.tree.nodes.insert(id, node(kind));
        self.tree.names.insert(path.to_owned(), id);
        touched.nodes.insert(id);
        touched.mapped.insert(id);
        self.touch_parent(path, touched);
        id
    }

    fn touch_parent(&self, path: &str, touched: &mut Touched) {
        touched.nodes.extend(self.node(split(path).0));
    }

    /// Takes a name away.
    fn remove(&mut self, path: &str, touched: &mut Touched) {
        let Some(id) = self.tree.names.remove(path) else { return };
        touched.nodes.insert(id);
        self.touch_parent(path, touched);
        if !self.tree.names.values().any(|other| *other == id) {
            self.tree.nodes.remove(&id);
        }
    }

    fn rename(&mut self, from: &str, to: &str, touched: &mut Touched) {
        let Some(id) = self.node(from).filter(|id| self.node(to) != Some(*id)) else { return };
        self.remove(to, touched);
        touched.nodes.insert(id);
        self.touch_parent(from, touched);
        self.touch_parent(to, touched);
        let below = format!("{from}/");
        let moved: Vec<String> = self
            .tree
            .names
            .keys()
            .filter(|path| *path == from || path.starts_with(&below))
            .cloned()
            .collect();
        for path in moved {
            if let Some(id) = self.tree.names.remove(&path) {
                self.tree.names.insert(format!("{to}{}", &path[from.len()..]), id);
            }
        }
    }

    /// The file has other bytes from now on.
    fn set(&mut self, path: &str, version: Version, touched: &mut Touched) {
        let Some(id) = self.node(path) else { return };
        let Some(versions) = self.contents.get_mut(&id) else { return };
        let old = versions.last().map_or(0, |last| last.bytes.len());
        touched.nodes.insert(id);
        if old != version.bytes.len() {
            touched.mapped.insert(id);
        }
        versions.push(version);
        if let Some(node) = self.tree.nodes.get_mut(&id) {
            node.version = versions.len() - 1;
        }
    }

    /// Whether an operation would succeed now.
    pub fn allows(&self, operation: &Operation) -> bool {
        let kind = |path: &str| Some(&self.tree.nodes.get(&self.node(path)?)?.kind);
        let is_file = |path: &str| kind(path) == Some(&Kind::File);
        let is_directory = |path: &str| kind(path) == Some(&Kind::Directory);
        let is_new = |path: &str| self.node(path).is_none() && is_directory(split(path).0);
        let size = |path: &str| self.bytes(path).map_or(0, |bytes| bytes.len() as u64);
        let is_aligned = |at: u64| at.is_multiple_of(self.block_bytes);
        match operation {
            Operation::Create { path }
            | Operation::MakeDirectory { path }
            | Operation::Symlink { path, .. }
            | Operation::Nameless { path, .. } => is_new(path),
            Operation::Link { from, to } => {
                kind(from).is_some() && !is_directory(from) && is_new(to)
            }
            Operation::Unlink { path } => kind(path).is_some() && !is_directory(path),
            Operation::RemoveDirectory { path } => is_directory(path) && self.is_empty(path),
            Operation::Rename { from, to } => {
                let is_below = format!("{to}/").starts_with(&format!("{from}/"));
                let is_above = format!("{from}/").starts_with(&format!("{to}/"));
                let fits = is_directory(from) == is_directory(to) && self.is_empty(to);
                kind(from).is_some() && !is_below && !is_above && (is_new(to) || fits)
            }
            Operation::Write { path, .. }
            | Operation::Truncate { path, .. }
            | Operation::Allocate { path, .. }
            | Operation::Zero { path, .. }
            | Operation::Punch { path, .. }
            | Operation::Hold { path } => is_file(path),
            Operation::Collapse { path, offset, length } => {
                is_file(path)
                    && is_aligned(*offset)
                    && is_aligned(*length)
                    && *length > 0
                    && offset + length < size(path)
            }
            Operation::Insert { path, offset, length } => {
                is_file(path)
                    && is_aligned(*offset)
                    && is_aligned(*length)
                    && *length > 0
                    && *offset < size(path)
            }
            Operation::SetAttribute { path, .. } => is_file(path) || is_directory(path),
            Operation::RemoveAttribute { path, name } => {
                let node = self.node(path).and_then(|id| self.tree.nodes.get(&id));
                node.is_some_and(|node| node.attributes.contains_key(name.as_bytes()))
            }
            Operation::Release { .. } | Operation::Sync(Sync::All) => true,
            Operation::Sync(Sync::File(path) | Sync::Data(path)) => is_file(path),
            Operation::Sync(Sync::Directory(path)) => is_directory(path),
        }
    }

    /// Whether a path is of no directory with names in it.
    fn is_empty(&self, path: &str) -> bool {
        let below = format!("{path}/");
        !self.tree.names.keys().any(|name| name.starts_with(&below))
    }

    /// Does an operation that is allowed here, and says what it touched.
    pub fn apply(&mut self, operation: &Operation) -> Touched {
        let mut touched = Touched::default();
        match operation {
            Operation::Create { path } => drop(self.add(path, Kind::File, &mut touched)),
            Operation::MakeDirectory { path } => {
                self.add(path, Kind::Directory, &mut touched);
            }
            Operation::Symlink { target, path } => {
                self.add(path, Kind::Symlink(target.clone().into_bytes()), &mut touched);
            }
            Operation::Link { from, to } => {
                if let Some(id) = self.node(from) {
                    self.tree.names.insert(to.clone(), id);
                    touched.nodes.insert(id);
                    self.touch_parent(to, &mut touched);
                }
            }
            Operation::Unlink { path } | Operation::RemoveDirectory { path } => {
                self.remove(path, &mut touched);
            }
            Operation::Rename { from, to } => self.rename(from, to, &mut touched),
            Operation::Nameless { path, piece } => {
                self.add(path, Kind::File, &mut touched);
                self.write(path, piece, &mut touched);
            }
            Operation::Write { path, piece } => self.write(path, piece, &mut touched),
            Operation::SetAttribute { path, name, value } => {
                self.attribute(path, &mut touched, |attributes| {
                    attributes.insert(name.clone().into_bytes(), value.clone());
                });
            }
            Operation::RemoveAttribute { path, name } => {
                self.attribute(path, &mut touched, |attributes| {
                    attributes.remove(name.as_bytes());
                });
            }
            Operation::Hold { .. } | Operation::Release { .. } | Operation::Sync(_) => {}
            Operation::Truncate { path, .. }
            | Operation::Allocate { path, .. }
            | Operation::Zero { path, .. }
            | Operation::Punch { path, .. }
            | Operation::Collapse { path, .. }
            | Operation::Insert { path, .. } => {
                if let Some(bytes) = self.bytes(path) {
                    let version = self.changed(operation, bytes.to_vec());
                    self.set(path, version, &mut touched);
                }
            }
        }
        touched
    }

    fn attribute(
        &mut self,
        path: &str,
        touched: &mut Touched,
        change: impl FnOnce(&mut BTreeMap<Vec<u8>, Vec<u8>>),
    ) {
        let Some(id) = self.node(path) else { return };
        touched.nodes.insert(id);
        if let Some(node) = self.tree.nodes.get_mut(&id) {
            change(&mut node.attributes);
        }
    }

    fn write(&mut self, path: &str, piece: &Piece, touched: &mut Touched) {
        let Some(bytes) = self.bytes(path) else { return };
        let mut bytes = bytes.to_vec();
        let range = piece.offset as usize..(piece.offset + piece.length) as usize;
        bytes.resize(bytes.len().max(range.end), 0);
        bytes[range].copy_from_slice(&piece.bytes());
        self.set(path, version(bytes, Change::InPlace), touched);
    }

    /// The version that comes of an operation on a range.
    fn changed(&self, operation: &Operation, mut bytes: Vec<u8>) -> Version {
        let block = self.block_bytes;
        let is_aligned = |at: u64| at.is_multiple_of(block);
        let (mut change, mut zeros, mut zeros_first) = (Change::Whole, 0..0, false);
        match *operation {
            Operation::Truncate { size, .. } => {
                if size < bytes.len() as u64 && !is_aligned(size) {
                    (change, zeros) = (Change::InPlace, size..size.next_multiple_of(block));
                    zeros_first = true;
                }
                bytes.resize(size as usize, 0);
            }
            Operation::Allocate { offset, length, size, .. } => {
                grow(&mut bytes, offset + length, size);
            }
            Operation::Zero { offset, length, size, .. } => {
                (change, zeros) = (Change::InPlace, offset..offset + length);
                grow(&mut bytes, offset + length, size);
                fill(&mut bytes, offset, length);
            }
            Operation::Punch { offset, length, .. } => {
                // In steps: a transaction may end between two of them.
                (change, zeros) = (Change::InPlace, offset..offset + length);
                fill(&mut bytes, offset, length);
            }
            Operation::Collapse { offset, length, .. } => {
                change = Change::Shift;
                bytes.drain(offset as usize..(offset + length) as usize);
            }
            Operation::Insert { offset, length, .. } => {
                change = Change::Shift;
                let hole = std::iter::repeat_n(0, length as usize);
                bytes.splice(offset as usize..offset as usize, hole);
            }
            _ => {}
        }
        Version { bytes: Arc::new(bytes), change, zeros, zeros_first }
    }
}

fn node(kind: Kind) -> Node {
    Node { kind, attributes: BTreeMap::new(), version: 0 }
}

fn version(bytes: Vec<u8>, change: Change) -> Version {
    Version { bytes: Arc::new(bytes), change, zeros: 0..0, zeros_first: false }
}

fn grow(bytes: &mut Vec<u8>, end: u64, size: Size) {
    if size == Size::Grow {
        bytes.resize(bytes.len().max(end as usize), 0);
    }
}

fn fill(bytes: &mut [u8], offset: u64, length: u64) {
    let end = bytes.len().min((offset + length) as usize);
    let start = end.min(offset as usize);
    bytes[start..end].fill(0);
}
