//! A tree while sources are laid over each other.
//!
//! Later names replace earlier ones, directories merge, and whiteouts wait for the end of their
//! layer (`whiteouts`).
mod whiteouts;

use super::*;
use crate::error::Error;
use extant_archive::printable;
use extant_tree::{Described, Facts};
use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::Hasher;
use std::ops::Range;
use whiteouts::Waiting;

/// Components of the longest path: more is an attack.
const DEPTH_MAX: usize = 65_535;
/// Symlinks followed in one path, as the kernel allows.
const FOLLOW_MAX: u32 = 40;
/// The longest target of a symlink that the kernel makes.
const TARGET_MAX: usize = 4095;
/// Permissions of a directory that no source describes.
const IMPLICIT_PERMISSIONS: u16 = 0o755;

/// The segments of pieces that are stored end to end.
pub fn packed(pieces: &[Range<u64>]) -> Vec<Segment> {
    let mut packed = 0_u64;
    let segment = |piece: &Range<u64>| {
        let segment = Segment { offset: piece.start, length: piece.end - piece.start, packed };
        packed = packed.saturating_add(segment.length);
        segment
    };
    pieces.iter().map(segment).collect()
}

/// What a new file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeContent<'a> {
    /// Nothing: directories, FIFOs, sockets, and devices, whose numbers are among the facts.
    None,
    /// The bytes of a regular file.
    Body(NodeBody),
    /// The target of a symlink.
    Target(&'a [u8]),
}

/// Whether names beginning with `.wh.` are whiteouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layers {
    /// `.wh.x` is a file like others.
    #[default]
    Plain,
    /// `.wh.x` removes x of the layers below, `.wh..wh..opq` all of them in its directory.
    Oci,
}

/// The tree under construction.
pub struct Growing {
    tree: Tree,
    /// Entries by directory and name.
    index: HashTable<u32>,
    layer: u16,
    /// Entries that this layer's whiteouts name, and directories that it makes opaque.
    whited: FxHashSet<u32>,
    opaque: FxHashSet<u32>,
    /// Whiteouts of this layer whose paths are not resolved yet.
    waiting: Vec<Waiting>,
    /// The directories on the way of the last path: where each ends in `trail_path`.
    trail: Vec<(usize, NodeId)>,
    trail_path: Vec<u8>,
}

impl Default for Growing {
    fn default() -> Growing {
        Growing::new()
    }
}

impl Growing {
    /// A root directory that no source describes yet.
    pub fn new() -> Growing {
        let nothing: Arc<[Attribute]> = Arc::from(Vec::new());
        let tree = Tree {
            nodes: vec![implicit()],
            entries: Vec::new(),
            names: Vec::new(),
            order: Vec::new(),
            attributes: vec![nothing.clone()],
            lists: [(nothing, NONE)].into_iter().collect(),
            times: vec![[Time::default(); 2]],
            maps: vec![(0, 0)],
            segments: Vec::new(),
            flags: FxHashMap::default(),
            inodes: 0,
        };
        Growing {
            tree,
            index: HashTable::new(),
            layer: 0,
            whited: FxHashSet::default(),
            opaque: FxHashSet::default(),
            waiting: Vec::new(),
            trail: Vec::new(),
            trail_path: Vec::new(),
        }
    }

    /// The node of a name in a directory.
    pub fn find(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        self.find_entry(directory, name).map(|entry| NodeId(self.tree.entries[entry as usize].node))
    }
    /// The type of what an earlier source has under a name; `None` if it has nothing there, or this
    /// source replaced it.
    pub fn earlier(&self, directory: NodeId, name: &[u8]) -> Option<FileType> {
        if self.layer == 0 {
            return None;
        }
        let entry = &self.tree.entries[self.find_entry(directory, name)? as usize];
        (entry.layer < self.layer).then(|| self.file_type(NodeId(entry.node)))
    }
    /// The type of a node.
    pub fn file_type(&self, node: NodeId) -> FileType {
        self.tree.file_type(node)
    }
    /// Where the bytes of a regular file are; `Empty` for anything else.
    pub fn body(&self, node: NodeId) -> NodeBody {
        self.tree.body(node)
    }
    /// The pieces of a file that hold data, as [`Tree::data_segments`] gives them.
    pub fn data_segments(&self, node: NodeId) -> impl Iterator<Item = Segment> + '_ {
        self.tree.data_segments(node)
    }
    /// The path of a node, for messages.
    pub fn path(&self, node: NodeId) -> Vec<u8> {
        self.tree.path(node)
    }

    /// Gives a file these flags of its inode, and no others.
    pub fn set_flags(&mut self, node: NodeId, flags: u32) {
        self.tree.set_flags(node, flags);
    }

    /// Gives the root its owner, mode, times and attributes.
    ///
    /// # Errors
    /// More different lists of attributes, or times, than the tree can number.
    pub fn describe_root(&mut self, facts: &Described) -> Result<(), Error> {
        self.describe(NodeId::ROOT, facts)
    }

    /// Gives a directory its owner, mode, times and attributes.
    ///
    /// # Errors
    /// As [`Growing::describe_root`].
    pub fn describe_directory(&mut self, node: NodeId, facts: &Described) -> Result<(), Error> {
        self.describe(node, facts)
    }

    /// Puts a new file under a name. A directory over a directory only describes it anew; anything
    /// else replaces what was there, with all below it. Other names of what was there keep it.
    ///
    /// # Errors
    /// A name of 0 or more than 255 bytes; a target that no kernel makes; more than the tree can
    /// number. The path is named.
    pub fn insert(
        &mut self,
        directory: NodeId,
        name: &[u8],
        facts: &Described,
        content: NodeContent<'_>,
    ) -> Result<NodeId, Error> {
        let both_directories = |node: &NodeId| {
            facts.file_type == FileType::Directory && self.file_type(*node) == FileType::Directory
        };
        if let Some(node) = self.find(directory, name).filter(both_directories) {
            self.describe(node, facts)?;
            let entry = self.tree.nodes[node.index()].entry;
            self.tree.entries[entry as usize].layer = self.layer;
            return Ok(node);
        }
        let node = self
            .new_node(facts, content)
            .map_err(|error| error.about(self.shown(directory, name)))?;
        self.name(directory, name, node)?;
        Ok(node)
    }

    /// A file without a name: one that is excluded, but may be the target of a hard link.
    ///
    /// # Errors
    /// As [`Growing::insert`], without a path.
    pub fn insert_nameless(
        &mut self,
        facts: &Described,
        content: NodeContent<'_>,
    ) -> Result<NodeId, Error> {
        self.new_node(facts, content)
    }

    /// One more name for a file that is not a directory.
    ///
    /// # Errors
    /// The file is a directory; otherwise as [`Growing::insert`].
    pub fn link(&mut self, directory: NodeId, name: &[u8], node: NodeId) -> Result<(), Error> {
        if self.file_type(node) == FileType::Directory {
            return Err(Error::new(format!(
                "{}: is a hard link to a directory",
                self.shown(directory, name)
            )));
        }
        if self.find(directory, name) == Some(node) {
            return Ok(());
        }
        self.name(directory, name, node)
    }

    /// Keeps a map of pieces that are stored end to end; they have to rise, and none may be empty.
    ///
    /// # Errors
    /// More than 4,294,967,295 pieces in the whole tree.
    pub fn keep_map(&mut self, pieces: &[Range<u64>]) -> Result<MapId, Error> {
        self.keep_segments(&packed(pieces))
    }

    /// Keeps a map of segments; they have to rise, and none may be empty.
    ///
    /// # Errors
    /// More than 4,294,967,295 pieces in the whole tree.
    pub fn keep_segments(&mut self, segments: &[Segment]) -> Result<MapId, Error> {
        let full = |_| Error::new("more than 4,294,967,295 pieces of files with holes");
        let start = u32::try_from(self.tree.segments.len()).map_err(full)?;
        u32::try_from(self.tree.segments.len() + segments.len()).map_err(full)?;
        self.tree.segments.extend_from_slice(segments);
        let map = u32::try_from(self.tree.maps.len()).map_err(full)?;
        self.tree.maps.push((start, segments.len() as u32));
        Ok(MapId(map))
    }

    /// Gives the body of a file these segments in place of those that it has; a body that is empty
    /// stays so.
    ///
    /// # Errors
    /// More than 4,294,967,295 pieces in the whole tree.
    pub fn set_segments(&mut self, node: NodeId, segments: &[Segment]) -> Result<(), Error> {
        let body = match self.tree.body(node) {
            NodeBody::Empty => return Ok(()),
            NodeBody::File { source, length, .. } => {
                NodeBody::File { source, map: Some(self.keep_segments(segments)?), length }
            }
            NodeBody::Range { source, offset, length }
            | NodeBody::Sparse { source, offset, length, .. } => {
                NodeBody::Sparse { source, offset, map: self.keep_segments(segments)?, length }
            }
        };
        body::store(&mut self.tree.nodes[node.index()], body);
        Ok(())
    }

    /// The directory of a clean path (see [`extant_archive::clean_path`]) and the path's last name.
    /// Directories on the way that are missing are made, described by no source; symlinks on the
    /// way are followed within the tree, as tar does when it unpacks.
    ///
    /// # Errors
    /// A file on the way that is no directory, by its path; more than 65,535 components.
    pub fn walk<'a>(&mut self, path: &'a [u8]) -> Result<(NodeId, &'a [u8]), Error> {
        let split = path.iter().rposition(|byte| *byte == b'/');
        let (folder, name) = split.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
        let common =
            folder.iter().zip(&self.trail_path).take_while(|(new, old)| new == old).count();
        let on_the_way = |end: usize| end <= common && (end == folder.len() || folder[end] == b'/');
        while self.trail.last().is_some_and(|(end, _)| !on_the_way(*end)) {
            self.trail.pop();
        }
        let (mut end, mut directory) = self.trail.last().copied().unwrap_or((0, NodeId::ROOT));
        self.trail_path.truncate(common);
        self.trail_path.extend_from_slice(&folder[common..]);
        while end < folder.len() {
            let start = if end == 0 { 0 } else { end + 1 };
            end = folder[start..]
                .iter()
                .position(|byte| *byte == b'/')
                .map_or(folder.len(), |length| start + length);
            directory = self.step(directory, &folder[start..end], FOLLOW_MAX)?;
            if self.trail.len() >= DEPTH_MAX {
                self.trail.clear();
                return Err(Error::new(format!(
                    "{}: is deeper than {DEPTH_MAX} directories",
                    printable(path)
                )));
            }
            self.trail.push((end, directory));
        }
        Ok((directory, name))
    }

    /// The node of a clean path; `None` when there is none. Symlinks on the way are followed, a
    /// last one is not.
    pub fn look_up(&self, path: &[u8]) -> Option<NodeId> {
        if path.is_empty() {
            return Some(NodeId::ROOT);
        }
        let mut follow = FOLLOW_MAX;
        self.resolve(NodeId::ROOT, path, &mut follow, LastLink::Keep)
    }

    /// The node that a clean path leads to, a symlink at its end followed too.
    pub fn reach(&self, path: &[u8]) -> Option<NodeId> {
        let mut follow = FOLLOW_MAX;
        self.resolve(NodeId::ROOT, path, &mut follow, LastLink::Follow)
    }

    /// One step into a directory, made when missing.
    fn step(&mut self, directory: NodeId, name: &[u8], follow: u32) -> Result<NodeId, Error> {
        let Some(node) = self.find(directory, name) else {
            let node = self.push_node(implicit())?;
            self.name(directory, name, node)?;
            return Ok(node);
        };
        let mut follow = follow;
        let reached = match self.file_type(node) {
            FileType::Directory => Some(node),
            FileType::Symlink => self.resolve(directory, name, &mut follow, LastLink::Follow),
            _ => None,
        };
        reached.filter(|node| self.file_type(*node) == FileType::Directory).ok_or_else(|| {
            Error::new(format!(
                "{}: is not a directory, but has files below it",
                self.shown(directory, name)
            ))
        })
    }

    /// Follows a path as a symlink has it: `..` and absolute ones are allowed, missing ones
    /// are not.
    fn resolve(
        &self,
        from: NodeId,
        path: &[u8],
        follow: &mut u32,
        last: LastLink,
    ) -> Option<NodeId> {
        let mut at = if path.first() == Some(&b'/') { NodeId::ROOT } else { from };
        let mut names = path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".")
            .peekable();
        while let Some(name) = names.next() {
            if self.file_type(at) != FileType::Directory {
                return None;
            }
            if name == b".." {
                at = self.tree.parent(at);
                continue;
            }
            let node = self.find(at, name)?;
            let passes = names.peek().is_some() || last == LastLink::Follow;
            at = match self.file_type(node) {
                FileType::Symlink if passes => {
                    *follow = follow.checked_sub(1)?;
                    self.resolve(at, self.tree.target(node), follow, LastLink::Follow)?
                }
                _ => node,
            };
        }
        Some(at)
    }

    fn shown(&self, directory: NodeId, name: &[u8]) -> String {
        let mut path = self.tree.path(directory);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        printable(&path)
    }

    fn find_entry(&self, directory: NodeId, wanted: &[u8]) -> Option<u32> {
        let tree = &self.tree;
        let is_it = |at: &u32| {
            let entry = &tree.entries[*at as usize];
            entry.directory == directory.0 && name(&tree.names, entry) == wanted
        };
        self.index.find(hash(directory.0, wanted), is_it).copied()
    }

    fn entry_hash(&self, at: u32) -> u64 {
        let entry = &self.tree.entries[at as usize];
        hash(entry.directory, name(&self.tree.names, entry))
    }

    fn describe(&mut self, node: NodeId, facts: &Described) -> Result<(), Error> {
        let described = self.bare_node(facts)?;
        let node = &mut self.tree.nodes[node.index()];
        *node = Node { entry: node.entry, links: node.links, ..described };
        Ok(())
    }

    fn bare_node(&mut self, facts: &Described) -> Result<Node, Error> {
        Ok(Node {
            mode: facts.file_type.mode_bits() | (facts.permissions & 0o7777),
            uid: facts.uid,
            gid: facts.gid,
            nanoseconds: facts.modify_time.nanoseconds,
            seconds: facts.modify_time.seconds,
            attributes: self.tree.keep_attributes(&facts.attributes)?,
            times: self.keep_times(facts)?,
            ..implicit()
        })
    }

    fn new_node(&mut self, facts: &Described, content: NodeContent<'_>) -> Result<NodeId, Error> {
        let mut node = self.bare_node(facts)?;
        match content {
            NodeContent::None if facts.file_type.is_device() => {
                let Device { major, minor } = facts.device;
                node.offset = u64::from(major) << 32 | u64::from(minor);
            }
            NodeContent::None => {}
            NodeContent::Body(body) => body::store(&mut node, body),
            NodeContent::Target(target) => {
                if target.is_empty() || target.len() > TARGET_MAX || target.contains(&0) {
                    let what = match target.len() {
                        0 => "empty",
                        length if length > TARGET_MAX => "longer than 4,095 bytes",
                        _ => "no text",
                    };
                    return Err(Error::new(format!("is a symlink whose target is {what}")));
                }
                node.offset = u64::from(self.keep_name(target)?);
                node.length = target.len() as u64;
            }
        }
        self.push_node(node)
    }

    fn push_node(&mut self, node: Node) -> Result<NodeId, Error> {
        let id = u32::try_from(self.tree.nodes.len()).ok().filter(|id| *id < u32::MAX);
        let id = id.ok_or_else(|| Error::new("more files than an ext file system has inodes"))?;
        self.tree.nodes.push(node);
        Ok(NodeId(id))
    }

    fn keep_name(&mut self, bytes: &[u8]) -> Result<u32, Error> {
        let start = u32::try_from(self.tree.names.len());
        let start = start
            .map_err(|_| Error::new("the names of all files together are larger than 4 GiB"))?;
        self.tree.names.extend_from_slice(bytes);
        Ok(start)
    }

    fn keep_times(&mut self, facts: &Facts) -> Result<u32, Error> {
        let times = [facts.last_read(), facts.change_time.unwrap_or(facts.modify_time)];
        if times == [facts.modify_time; 2] {
            return Ok(NONE);
        }
        let number = u32::try_from(self.tree.times.len()).ok().filter(|number| *number != IMPLICIT);
        let number = number.ok_or_else(|| Error::new("more than 4,294,967,294 times"))?;
        self.tree.times.push(times);
        Ok(number)
    }

    /// Gives a node a name; what had the name before loses it.
    fn name(&mut self, directory: NodeId, name: &[u8], node: NodeId) -> Result<(), Error> {
        let Ok(length @ 1..) = u8::try_from(name.len()) else {
            let shown = self.shown(directory, name);
            return Err(Error::new(format!(
                "{shown}: a name has {} bytes, 1 to 255 are possible",
                name.len()
            )));
        };
        let entry = match self.find_entry(directory, name) {
            Some(entry) => {
                let entry_mut = &mut self.tree.entries[entry as usize];
                let before = std::mem::replace(&mut entry_mut.node, node.0);
                entry_mut.layer = self.layer;
                let before = &mut self.tree.nodes[before as usize];
                before.links = before.links.saturating_sub(1);
                // It may have been a directory on the way.
                self.trail.clear();
                entry
            }
            None => self.push_entry(directory, name, length, node)?,
        };
        let node = &mut self.tree.nodes[node.index()];
        if node.links == 0 {
            node.entry = entry;
        }
        node.links = node.links.saturating_add(1);
        Ok(())
    }

    fn push_entry(
        &mut self,
        directory: NodeId,
        name: &[u8],
        length: u8,
        node: NodeId,
    ) -> Result<u32, Error> {
        let at = u32::try_from(self.tree.entries.len())
            .map_err(|_| Error::new("more than 4,294,967,295 names"))?;
        let start = self.keep_name(name)?;
        let (state, layer) = (EntryState::Alive, self.layer);
        self.tree.entries.push(Entry {
            directory: directory.0,
            node: node.0,
            name: start,
            length,
            state,
            layer,
        });
        let tree = &self.tree;
        let rehash = |at: &u32| {
            let entry = &tree.entries[*at as usize];
            hash(entry.directory, super::name(&tree.names, entry))
        };
        self.index.insert_unique(hash(directory.0, name), at, rehash);
        Ok(at)
    }

    /// Fixes the tree: drops what is dead, counts links, sorts names, and dates directories that
    /// no source described by the newest file in them.
    pub fn finish(self) -> Tree {
        let Growing { mut tree, index, .. } = self;
        drop(index);
        tree.count_links();
        tree.date_implicit();
        tree.sort();
        tree
    }
}

/// Whether a symlink at the end of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastLink {
    Follow,
    Keep,
}

impl Tree {
    fn count_links(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.links = 0);
        self.nodes[0].links = 1;
        // A directory is counted before what is in it, so what is below the dead is never counted.
        for entry in &self.entries {
            if entry.state == EntryState::Alive && self.nodes[entry.directory as usize].links > 0 {
                self.nodes[entry.node as usize].links += 1;
            }
        }
        self.inodes = self.nodes.iter().filter(|node| node.links > 0).count() as u32;
    }

    fn is_alive(&self, entry: &Entry) -> bool {
        entry.state == EntryState::Alive && self.nodes[entry.directory as usize].links > 0
    }

    fn date_implicit(&mut self) {
        for at in (0..self.entries.len()).rev() {
            let entry = self.entries[at];
            if !self.is_alive(&entry) {
                continue;
            }
            let time = self.modify_time(NodeId(entry.node));
            let directory = &mut self.nodes[entry.directory as usize];
            if directory.times == IMPLICIT
                && time > (Time { seconds: directory.seconds, nanoseconds: directory.nanoseconds })
            {
                (directory.seconds, directory.nanoseconds) = (time.seconds, time.nanoseconds);
            }
        }
    }

    /// Counts the names of each directory, gives each its part of `order`, and sorts it.
    fn sort(&mut self) {
        let (mut nodes, entries) = (std::mem::take(&mut self.nodes), &self.entries);
        let alive = |nodes: &[Node], entry: &Entry| {
            entry.state == EntryState::Alive && nodes[entry.directory as usize].links > 0
        };
        for entry in entries {
            if alive(&nodes, entry) {
                nodes[entry.directory as usize].length += 1;
            }
        }
        let mut start = 0;
        for node in nodes.iter_mut().filter(|node| file_type(node) == FileType::Directory) {
            node.offset = start;
            start += node.length;
            node.length = 0;
        }
        self.order = vec![0; start as usize];
        for (at, entry) in entries.iter().enumerate() {
            if alive(&nodes, entry) {
                let directory = &mut nodes[entry.directory as usize];
                self.order[(directory.offset + directory.length) as usize] = at as u32;
                directory.length += 1;
            }
        }
        let key = |at: &u32| name(&self.names, &entries[*at as usize]);
        for node in nodes.iter().filter(|node| file_type(node) == FileType::Directory) {
            let part = &mut self.order[node.offset as usize..(node.offset + node.length) as usize];
            if !part.is_sorted_by_key(key) {
                part.sort_unstable_by(|one, other| key(one).cmp(key(other)));
            }
        }
        self.nodes = nodes;
    }
}

/// A directory that no source described: root's, and dated at the end.
fn implicit() -> Node {
    Node {
        mode: FileType::Directory.mode_bits() | IMPLICIT_PERMISSIONS,
        source: 0,
        uid: 0,
        gid: 0,
        links: 0,
        nanoseconds: 0,
        attributes: NONE,
        map: NONE,
        entry: 0,
        times: IMPLICIT,
        seconds: 0,
        offset: 0,
        length: 0,
    }
}

fn hash(directory: u32, name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u32(directory);
    hasher.write(name);
    hasher.finish()
}
