//! The hash index: the path from the root to a leaf, and from leaf to leaf.
//!
//! ```text
//! root (block 0)   | 0: f1 | 7c02: f9 |             these are leaves, or nodes with one level more
//! node (f1)        | 0: f2 | 31aa: f5 | 31ab: f6 |      f6 goes on with hash 31aa,
//!                                                   as its low bit says
//! ```
//!
//! *Invariants*: a path only moves forward, and visits no more leaves than the directory has
//! blocks.
use super::{Directory, NameTarget, Sought, Vacancy, Way};
use crate::error::Result;
use crate::store::cache::Frame;
use extant_format::FileBlock;
use extant_format::directory::{self as leaf, IndexPlace, IndexView, LEVELS_MAX, RootInfo};
use extant_format::fold;
use extant_format::hash::Hasher;
use extant_format::superblock::Feature;
use std::sync::Arc;

/// Set in an index entry if its leaf begins with the hash that the leaf before it ends with.
pub(super) const CONTINUED: u32 = 1;

/// An index block and the entry in it that was followed.
pub(super) struct Step {
    pub(super) frame: Arc<Frame>,
    pub(super) block: FileBlock,
    pub(super) place: IndexPlace,
    pub(super) at: usize,
}

impl Step {
    /// Calls `look` with the block's entries.
    pub(super) fn view<R>(
        &self,
        directory: Directory<'_>,
        look: impl FnOnce(IndexView<'_>) -> R,
    ) -> Result<R> {
        let (bytes, style) = (self.frame.bytes(), directory.volume.store.style);
        let view = match self.place {
            IndexPlace::Root => style.root(&bytes).map(|(_, view)| view),
            IndexPlace::Node => style.node(&bytes),
        };
        view.map(look).map_err(|fault| directory.corrupt(&self.frame, fault))
    }

    /// Entry `at`, if there is one: the lowest hash it covers, and a block inside the directory.
    fn entry(&self, directory: Directory<'_>, at: usize) -> Result<Option<(u32, FileBlock)>> {
        let entry = self.view(directory, |view| (at < view.len()).then(|| view.get(at)))?;
        let Some((hash, child)) = entry else { return Ok(None) };
        if child.0 == 0 || child == self.block || child.0 >= directory.blocks()? {
            return Err(directory.field(
                &self.frame,
                "directory index",
                "block",
                child.0,
                "no leaf or node",
            ));
        }
        Ok(Some((hash, child)))
    }

    /// The entry that was followed. It exists, because the view that gave `at` had it.
    fn taken(&self, directory: Directory<'_>) -> Result<(u32, FileBlock)> {
        let entry = self.entry(directory, self.at)?;
        entry.ok_or_else(|| {
            directory.field(&self.frame, "directory index", "entry", self.at as u32, "gone")
        })
    }

    /// Reads the node that the entry points to.
    fn enter(&self, directory: Directory<'_>) -> Result<Step> {
        let (_, block) = self.taken(directory)?;
        Ok(Step { frame: directory.read(block)?, block, place: IndexPlace::Node, at: 0 })
    }

    fn is_full(&self, directory: Directory<'_>) -> Result<bool> {
        let capacity = directory.volume.store.style.index_capacity(self.place);
        self.view(directory, |view| view.len() >= capacity)
    }
}

/// The path from the root to a leaf.
pub(super) struct Path {
    pub(super) root: Step,
    /// The node between the root and `node`, if the index has two more levels (large_dir).
    pub(super) middle: Option<Step>,
    /// The node above the leaf, if the index has one more level.
    pub(super) node: Option<Step>,
    /// How the names of this directory are hashed.
    pub(super) hasher: Hasher,
    leaves_seen: u32,
}

impl Path {
    /// Reads the root: how names are hashed here, and how deep the index is.
    fn open(directory: Directory<'_>) -> Result<(Path, RootInfo)> {
        let frame = directory.read(FileBlock(0))?;
        let info = match directory.volume.store.style.root(&frame.bytes()) {
            Ok((info, _)) => info,
            Err(fault) => return Err(directory.corrupt(&frame, fault)),
        };
        let is_large = directory.volume.store.superblock.has(Feature::LARGE_DIR);
        if info.levels > LEVELS_MAX && !is_large {
            let (levels, why) = (info.levels.into(), "more than an index can have");
            return Err(directory.field(&frame, "directory index root", "levels", levels, why));
        }
        let root = Step { frame, block: FileBlock(0), place: IndexPlace::Root, at: 0 };
        let hasher = Hasher { version: info.hash, ..directory.volume.store.hasher };
        Ok((Path { root, middle: None, node: None, hasher, leaves_seen: 1 }, info))
    }

    /// The path to the first leaf that may hold names with this (even) hash.
    pub(super) fn to_hash(directory: Directory<'_>, hash: u32) -> Result<Path> {
        let (mut path, info) = Path::open(directory)?;
        path.descend(directory, info, hash)?;
        Ok(path)
    }

    /// The hash of a name, and the path to the first leaf that may hold it.
    pub(super) fn to_name(directory: Directory<'_>, name: &[u8]) -> Result<(u32, Path)> {
        let (mut path, info) = Path::open(directory)?;
        let hash = directory.hash_of(&path.hasher, name).major;
        path.descend(directory, info, hash)?;
        Ok((hash, path))
    }

    fn descend(&mut self, directory: Directory<'_>, info: RootInfo, hash: u32) -> Result<()> {
        self.root.at = self.root.view(directory, |view| view.find(hash))?;
        if info.levels > 1 {
            let mut middle = self.root.enter(directory)?;
            middle.at = middle.view(directory, |view| view.find(hash))?;
            self.middle = Some(middle);
        }
        if info.levels > 0 {
            let mut node = self.middle.as_ref().unwrap_or(&self.root).enter(directory)?;
            node.at = node.view(directory, |view| view.find(hash))?;
            self.node = Some(node);
        }
        Ok(())
    }

    /// The index block directly above the leaf.
    pub(super) fn parent(&self) -> &Step {
        self.node.as_ref().unwrap_or(&self.root)
    }

    /// Which block of the directory the leaf is.
    pub(super) fn leaf_block(&self, directory: Directory<'_>) -> Result<FileBlock> {
        Ok(self.parent().taken(directory)?.1)
    }

    /// Reads the leaf.
    pub(super) fn leaf(&self, directory: Directory<'_>) -> Result<Arc<Frame>> {
        directory.read(self.leaf_block(directory)?)
    }

    /// The lowest hash that leads to this leaf, by its index entry.
    pub(super) fn leaf_hash(&self, directory: Directory<'_>) -> Result<u32> {
        match &self.node {
            Some(node) if node.at > 0 => return Ok(node.taken(directory)?.0),
            _ => {}
        }
        match &self.middle {
            Some(middle) if middle.at > 0 => Ok(middle.taken(directory)?.0),
            _ => Ok(self.root.taken(directory)?.0),
        }
    }

    /// The lowest hash that leads to the next leaf, by its index entry; `None` after the last leaf.
    pub(super) fn next_hash(&self, directory: Directory<'_>) -> Result<Option<u32>> {
        for step in [&self.node, &self.middle].into_iter().flatten() {
            if let Some((hash, _)) = step.entry(directory, step.at + 1)? {
                return Ok(Some(hash));
            }
        }
        let next = self.root.entry(directory, self.root.at + 1)?;
        Ok(next.map(|(hash, _)| hash))
    }

    /// Moves to the next leaf. The caller knows from `next_hash` that there is one.
    pub(super) fn advance(&mut self, directory: Directory<'_>) -> Result<()> {
        self.leaves_seen += 1;
        if self.leaves_seen >= directory.blocks()? {
            let (frame, seen) = (&self.root.frame, self.leaves_seen);
            return Err(directory.field(
                frame,
                "directory index",
                "number of leaves",
                seen,
                "more than there are",
            ));
        }
        if let Some(node) = &mut self.node
            && node.entry(directory, node.at + 1)?.is_some()
        {
            node.at += 1;
            return Ok(());
        }
        match &mut self.middle {
            Some(middle) if middle.entry(directory, middle.at + 1)?.is_some() => middle.at += 1,
            middle => {
                self.root.at += 1;
                if middle.is_some() {
                    *middle = Some(self.root.enter(directory)?);
                }
            }
        }
        if self.node.is_some() {
            self.node = Some(self.middle.as_ref().unwrap_or(&self.root).enter(directory)?);
        }
        Ok(())
    }

    /// Blocks that splitting the leaf needs: a leaf, a node if the index has no room for its entry,
    /// and one more if it has none for that of the node.
    pub(super) fn split_need(&self, directory: Directory<'_>) -> Result<SplitNeed> {
        if !self.parent().is_full(directory)? {
            return Ok(SplitNeed::Leaf);
        }
        let above = self.middle.as_ref().unwrap_or(&self.root);
        if self.node.is_none() || !above.is_full(directory)? {
            return Ok(SplitNeed::LeafAndNode);
        }
        let may_grow = match self.middle {
            Some(_) => !self.root.is_full(directory)?,
            None => directory.volume.store.superblock.has(Feature::LARGE_DIR),
        };
        Ok(if may_grow { SplitNeed::LeafAndTwoNodes } else { SplitNeed::Impossible })
    }
}

/// What splitting a leaf needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SplitNeed {
    Leaf,
    LeafAndNode,
    /// With large_dir only.
    LeafAndTwoNodes,
    /// Root and node are full, and a further level is not allowed.
    Impossible,
}

/// What is known of a name that is sought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Before {
    Nothing,
    /// It is not there.
    Absent,
}

/// Finds a name, or the leaf in which it belongs.
pub(super) fn seek(directory: Directory<'_>, name: &[u8], before: Before) -> Result<Sought> {
    let (hash, path) = Path::to_name(directory, name)?;
    let leaf = path.leaf(directory)?;
    let mut has_room = false;
    if before == Before::Nothing {
        let bytes = leaf.bytes();
        match directory.volume.store.style.seek(&bytes, name) {
            Ok(leaf::Sought::There(entry)) => {
                return Ok(Sought::There(directory.found(&leaf, &entry)?));
            }
            Ok(leaf::Sought::Vacant { has_room: room }) => has_room = room,
            Err(fault) => return Err(directory.corrupt(&leaf, fault)),
        }
        let is_continued = path.next_hash(directory)? == Some(hash | CONTINUED);
        if is_continued && let Some((_, target)) = locate(directory, name)? {
            return Ok(Sought::There(target));
        }
    }
    Ok(Sought::Vacant(Vacancy { way: Some(Way { path, leaf, has_room }) }))
}

/// Finds a name, and the leaf that contains it.
pub(super) fn locate(
    directory: Directory<'_>,
    name: &[u8],
) -> Result<Option<(Arc<Frame>, NameTarget)>> {
    let (hash, mut path) = Path::to_name(directory, name)?;
    loop {
        let leaf = path.leaf(directory)?;
        if let Some(located) = directory.find_in(&leaf, name)? {
            return Ok(Some(located));
        }
        match path.next_hash(directory)? {
            Some(next) if next == hash | CONTINUED => path.advance(directory)?,
            _ => return Ok(None),
        }
    }
}

/// Finds a name of a directory whose names know no case, and the leaf that contains it: with
/// exactly its bytes, or else the first that is the same without case.
pub(super) fn locate_folded(
    directory: Directory<'_>,
    name: &[u8],
) -> Result<Option<(Arc<Frame>, NameTarget)>> {
    let (hash, mut path) = Path::to_name(directory, name)?;
    let mut same = None;
    loop {
        let leaf = path.leaf(directory)?;
        if let Some(located) = directory.find_in(&leaf, name)? {
            return Ok(Some(located));
        }
        if same.is_none() {
            same = same_in(directory, &leaf, name)?;
        }
        match path.next_hash(directory)? {
            Some(next) if next == hash | CONTINUED => path.advance(directory)?,
            _ => return Ok(same),
        }
    }
}

/// The first name of a leaf that is the same without case.
fn same_in(
    directory: Directory<'_>,
    leaf: &Arc<Frame>,
    name: &[u8],
) -> Result<Option<(Arc<Frame>, NameTarget)>> {
    let bytes = leaf.bytes();
    for entry in directory.volume.store.style.entries(&bytes) {
        let entry = entry.map_err(|fault| directory.corrupt(leaf, fault))?;
        if fold::is_same(entry.name, name) {
            return Ok(Some((Arc::clone(leaf), directory.found(leaf, &entry)?)));
        }
    }
    Ok(None)
}
