//! The merged tree of all sources: what the image will hold, complete and in canonical order,
//! before a byte is written.
//!
//! A tree is grown by [`Growing`] while sources are read, and is then fixed: names sorted, links
//! counted, the dead dropped. The same content gives the same tree whatever the order in which it
//! came, up to the numbers of nodes, which reach no image.
//!
//! ```text
//! body                 where the bytes of a file are
//! given                what the maker of a volume gives the root
//! growing              a tree while sources are laid over each other
//! growing::whiteouts   what a layer removes of those below it
//! ```
//!
//! ```text
//! nodes     64 bytes a file: mode, ids, times, and where its body, target or children are
//! entries   16 bytes a name: directory, node, and where the name is
//! names     all names and symlink targets, end to end
//! order      4 bytes a name: entries by directory and name
//! ```
//! That is about 110 bytes a file. Attribute lists are shared: most files have none, and those that
//! have one mostly have the same.
//!
//! *Invariants*: node 0 is the root. A directory has exactly one name. An entry comes after the
//! entry of its directory. Segments of a map rise, do not touch holes, and end within the body's
//! length.

mod body;
mod given;
mod growing;

pub use body::{MapId, NodeBody, Segment, SourceId};
pub use given::RootFacts;
pub use growing::{Growing, Layers, NodeContent, packed};

use crate::error::Error;
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType, Time};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A file of the tree, below [`Tree::node_bound`]. Hard links are names of one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root directory.
    pub const ROOT: NodeId = NodeId(0);
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// No list of attributes, no map, no times beside the modify time.
const NONE: u32 = 0;
/// In `times`: a directory that no source describes.
const IMPLICIT: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    mode: u16,
    source: u16,
    uid: u32,
    gid: u32,
    /// Names; 0 is a dead node.
    links: u32,
    nanoseconds: u32,
    /// Index into `attributes`.
    attributes: u32,
    /// Index into `maps`; see `body`.
    map: u32,
    /// Its first name: where it was found in a source directory, and the only one of a directory.
    entry: u32,
    /// Index into `times`, or `IMPLICIT`.
    times: u32,
    seconds: i64,
    /// Of the body in its source; of a target in `names`; of children in `order`; major and minor
    /// of a device.
    offset: u64,
    /// Of the body or target in bytes; of children in entries.
    length: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    directory: u32,
    node: u32,
    name: u32,
    length: u8,
    state: EntryState,
    layer: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryState {
    Alive,
    Dead,
}

/// Access and change time.
type Times = [Time; 2];

/// The finished tree. Plain tables: any number of threads may read it.
///
/// # Panics
/// All that takes a [`NodeId`] or a [`MapId`] panics for one of another tree.
pub struct Tree {
    nodes: Vec<Node>,
    entries: Vec<Entry>,
    names: Vec<u8>,
    order: Vec<u32>,
    attributes: Vec<Arc<[Attribute]>>,
    /// The number of each attribute list.
    lists: FxHashMap<Arc<[Attribute]>, u32>,
    times: Vec<Times>,
    maps: Vec<(u32, u32)>,
    segments: Vec<Segment>,
    /// Flags of inodes, of the few files that have any of their own.
    flags: FxHashMap<u32, u32>,
    inodes: u32,
}

/// A name in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Child<'a> {
    /// 1 to 255 bytes without `/` and NUL.
    pub name: &'a [u8],
    /// What it names.
    pub node: NodeId,
}

impl Tree {
    /// All node ids are below this; some may be unused.
    pub fn node_bound(&self) -> usize {
        self.nodes.len()
    }
    /// How many files there are, the root included: inodes that the image needs besides its own.
    pub fn inode_count(&self) -> u32 {
        self.inodes
    }
    /// How many names there are, the root's not counted.
    pub fn name_count(&self) -> usize {
        self.order.len()
    }
    /// The names in a directory, sorted as bytes. Empty for anything else.
    pub fn children(
        &self,
        directory: NodeId,
    ) -> impl ExactSizeIterator<Item = Child<'_>> + DoubleEndedIterator {
        let node = &self.nodes[directory.index()];
        let range = match file_type(node) {
            FileType::Directory => node.offset as usize..(node.offset + node.length) as usize,
            _ => 0..0,
        };
        self.order[range].iter().map(|entry| {
            let entry = &self.entries[*entry as usize];
            Child { name: name(&self.names, entry), node: NodeId(entry.node) }
        })
    }
    /// What a name of a directory leads to.
    pub fn child(&self, directory: NodeId, wanted: &[u8]) -> Option<NodeId> {
        let node = &self.nodes[directory.index()];
        if file_type(node) != FileType::Directory {
            return None;
        }
        let order = &self.order[node.offset as usize..(node.offset + node.length) as usize];
        let name_of = |entry: &u32| name(&self.names, &self.entries[*entry as usize]);
        let at = order.binary_search_by(|entry| name_of(entry).cmp(wanted)).ok()?;
        Some(NodeId(self.entries[order[at] as usize].node))
    }
    /// Whether a node has a name in the finished tree: what a later source replaced has none.
    pub fn is_part(&self, node: NodeId) -> bool {
        self.nodes[node.index()].links > 0
    }
    /// What a file is.
    pub fn file_type(&self, node: NodeId) -> FileType {
        file_type(&self.nodes[node.index()])
    }
    /// Type and permissions, as `i_mode` has them.
    pub fn mode(&self, node: NodeId) -> u16 {
        self.nodes[node.index()].mode
    }
    /// The owner.
    pub fn uid(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].uid
    }
    /// The group.
    pub fn gid(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].gid
    }
    /// When the content changed.
    pub fn modify_time(&self, node: NodeId) -> Time {
        let node = &self.nodes[node.index()];
        Time { seconds: node.seconds, nanoseconds: node.nanoseconds }
    }
    /// When it was read: the modify time where no source said.
    pub fn access_time(&self, node: NodeId) -> Time {
        self.more_times(node)[0]
    }
    /// When the inode changed: the modify time where no source said.
    pub fn change_time(&self, node: NodeId) -> Time {
        self.more_times(node)[1]
    }
    /// Whether a source says anything of it: a directory that is only on the way of others has
    /// an owner, a mode and a time that were made up.
    pub fn is_described(&self, node: NodeId) -> bool {
        self.nodes[node.index()].times != IMPLICIT
    }
    fn more_times(&self, node: NodeId) -> Times {
        match self.nodes[node.index()].times {
            NONE | IMPLICIT => [self.modify_time(node); 2],
            index => self.times[index as usize],
        }
    }
    /// Extended attributes, sorted by name.
    pub fn attributes(&self, node: NodeId) -> &[Attribute] {
        &self.attributes[self.attribute_list(node) as usize]
    }
    /// The number of the file's attribute list: equal numbers are equal lists, 0 is the empty one.
    pub fn attribute_list(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].attributes
    }
    /// All different attribute lists, by number.
    pub fn attribute_lists(&self) -> &[Arc<[Attribute]>] {
        &self.attributes
    }
    /// The link count: names of a file; 2 and one a subdirectory for a directory. The walk over the
    /// children of a directory makes this linear in their number.
    pub fn links(&self, node: NodeId) -> u32 {
        match self.file_type(node) {
            FileType::Directory => {
                let below = self
                    .children(node)
                    .filter(|child| self.file_type(child.node) == FileType::Directory);
                2 + below.count() as u32
            }
            _ => self.nodes[node.index()].links,
        }
    }
    /// Where the bytes of a regular file are; `Empty` for anything else.
    pub fn body(&self, node: NodeId) -> NodeBody {
        body::of(&self.nodes[node.index()])
    }
    /// The size of a regular file, or the length of a symlink's target; 0 for anything else.
    pub fn length(&self, node: NodeId) -> u64 {
        let node = &self.nodes[node.index()];
        match file_type(node) {
            FileType::Regular | FileType::Symlink => node.length,
            _ => 0,
        }
    }
    /// The pieces of a map that hold data, rising. Everything else in the body is a hole.
    pub fn segments(&self, map: MapId) -> &[Segment] {
        let (start, count) = self.maps[map.0 as usize];
        &self.segments[start as usize..(start + count) as usize]
    }
    /// The pieces of a file that hold data, rising: one for a body without holes, none for an empty
    /// one.
    pub fn data_segments(&self, node: NodeId) -> impl Iterator<Item = Segment> + '_ {
        let body = self.body(node);
        let map = match body {
            NodeBody::Sparse { map, .. } => Some(map),
            NodeBody::File { map, .. } => map,
            NodeBody::Empty | NodeBody::Range { .. } => None,
        };
        let whole = Segment { offset: 0, length: self.length(node), packed: 0 };
        let whole = (map.is_none() && body != NodeBody::Empty).then_some(whole);
        whole
            .into_iter()
            .chain(map.map(|map| self.segments(map)).unwrap_or_default().iter().copied())
    }
    /// Bytes of a file that hold data: its size without the holes.
    pub fn stored_bytes(&self, node: NodeId) -> u64 {
        self.data_segments(node).map(|segment| segment.length).sum()
    }
    /// A symlink's target; empty for anything else.
    pub fn target(&self, node: NodeId) -> &[u8] {
        let node = &self.nodes[node.index()];
        match file_type(node) {
            FileType::Symlink => {
                &self.names[node.offset as usize..(node.offset + node.length) as usize]
            }
            _ => &[],
        }
    }
    /// The numbers of a device; 0 and 0 for anything else.
    pub fn device(&self, node: NodeId) -> Device {
        let node = &self.nodes[node.index()];
        match file_type(node) {
            FileType::CharacterDevice | FileType::BlockDevice => {
                Device { major: (node.offset >> 32) as u32, minor: node.offset as u32 }
            }
            _ => Device::default(),
        }
    }
    /// Where a file is in its source: the names from the root, first name first. Empty for the
    /// root.
    pub fn steps(&self, node: NodeId) -> Vec<&[u8]> {
        steps(&self.nodes, &self.entries, &self.names, node)
    }
    /// The path for messages and look-ups, without a leading slash; empty for the root.
    pub fn path(&self, node: NodeId) -> Vec<u8> {
        self.steps(node).join(&b'/')
    }
    /// The directory of a file's first name; the root's is the root.
    pub fn parent(&self, node: NodeId) -> NodeId {
        match node {
            NodeId::ROOT => node,
            _ => NodeId(self.entries[self.nodes[node.index()].entry as usize].directory),
        }
    }
    /// The first name of a file in its source; empty for the root.
    pub fn first_name(&self, node: NodeId) -> &[u8] {
        match node {
            NodeId::ROOT => &[],
            _ => name(&self.names, &self.entries[self.nodes[node.index()].entry as usize]),
        }
    }
}

/// What is given to files in place of what their sources say.
impl Tree {
    /// Gives a file another owner.
    pub(crate) fn set_uid(&mut self, node: NodeId, uid: u32) {
        self.nodes[node.index()].uid = uid;
    }
    /// Gives a file another group.
    pub(crate) fn set_gid(&mut self, node: NodeId, gid: u32) {
        self.nodes[node.index()].gid = gid;
    }
    /// Gives a file other permissions: the lower twelve bits of its mode.
    pub(crate) fn set_permissions(&mut self, node: NodeId, permissions: u16) {
        let node = &mut self.nodes[node.index()];
        node.mode = node.mode & !0o7777 | permissions & 0o7777;
    }
    /// Gives a file flags of its inode.
    pub(crate) fn set_flags(&mut self, node: NodeId, flags: u32) {
        match flags {
            0 => drop(self.flags.remove(&node.0)),
            _ => drop(self.flags.insert(node.0, flags)),
        }
    }
    /// Gives a file other attributes.
    pub(crate) fn set_attributes(
        &mut self,
        node: NodeId,
        attributes: &[Attribute],
    ) -> Result<(), Error> {
        self.nodes[node.index()].attributes = self.keep_attributes(attributes)?;
        Ok(())
    }
    /// The number of a list of attributes, in whatever order it is.
    fn keep_attributes(&mut self, attributes: &[Attribute]) -> Result<u32, Error> {
        if attributes.is_empty() {
            return Ok(NONE);
        }
        let mut sorted = attributes.to_vec();
        sorted.sort();
        if let Some(list) = self.lists.get(sorted.as_slice()) {
            return Ok(*list);
        }
        let number = u32::try_from(self.attributes.len());
        let number =
            number.map_err(|_| Error::new("more than 4,294,967,295 lists of attributes"))?;
        let list: Arc<[Attribute]> = Arc::from(sorted);
        self.attributes.push(list.clone());
        self.lists.insert(list, number);
        Ok(number)
    }
    /// Flags that a file has besides those that its layout needs.
    pub fn flags(&self, node: NodeId) -> u32 {
        self.flags.get(&node.0).copied().unwrap_or(0)
    }
}

fn file_type(node: &Node) -> FileType {
    // Every mode in the tree was made from a FileType.
    FileType::from_mode(node.mode).unwrap_or(FileType::Regular)
}

fn name<'a>(names: &'a [u8], entry: &Entry) -> &'a [u8] {
    let start = entry.name as usize;
    &names[start..start + usize::from(entry.length)]
}

fn steps<'a>(nodes: &[Node], entries: &[Entry], names: &'a [u8], node: NodeId) -> Vec<&'a [u8]> {
    let mut steps = Vec::new();
    let mut at = node;
    while at != NodeId::ROOT {
        let entry = &entries[nodes[at.index()].entry as usize];
        steps.push(name(names, entry));
        at = NodeId(entry.directory);
    }
    steps.reverse();
    steps
}
