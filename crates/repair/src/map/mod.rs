//! The map of a file, read as far as it can be and written anew.
//!
//! ```text
//! read    runs by file block, none of them outside of the volume or on its metadata; the blocks
//!         that the map itself has, each once
//! write   a map of those runs: into the blocks that it has, and more where these do not suffice
//! ```
//!
//! A node of an extent tree whose header is damaged is read by its entries, as long as they rise
//! and lead to blocks of the volume; what stands behind the entries that a node counts may have
//! been counted, too ([`read_remains`]). [`leaf`] sets right what cannot be in a leaf as it is.
mod leaf;

use crate::draft::{Draft, Result};
use crate::error::Error;
use extant_format::extent::StoredNode;
use extant_format::extent::{self, Extent, ExtentState, Index};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, FileBlock, Ino, indirect};
use leaf::Room;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of an extent node's header, and of an entry.
const HEADER: usize = 12;
const ENTRY: usize = 12;

/// Levels of a tree that are read: more than any file needs.
const DEPTH_MAX: u16 = 32;

/// Neighbouring blocks of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MapRun {
    pub(crate) file_block: u64,
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) state: ExtentState,
}

/// What could be read of a map.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FileMap {
    /// By file block; none overlaps another.
    pub(crate) runs: Vec<MapRun>,
    /// The blocks of the map itself.
    pub(crate) nodes: Vec<BlockNo>,
}

impl FileMap {
    /// With what another map has; `None` where both have a block of the file.
    pub(crate) fn joined(&self, other: &FileMap) -> Option<FileMap> {
        let blocks = |runs: &[MapRun]| runs.iter().map(|run| run.length).sum::<u64>();
        let runs: Vec<MapRun> = self.runs.iter().chain(&other.runs).copied().collect();
        let all = blocks(&runs);
        let runs = apart(runs);
        let nodes = self.nodes.iter().chain(&other.nodes).copied().collect();
        (blocks(&runs) == all).then_some(FileMap { runs, nodes })
    }
}

/// What one entry of a node leads to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) runs: Vec<MapRun>,
    pub(crate) nodes: Vec<BlockNo>,
}

/// A read under way.
struct Reader<'a> {
    draft: &'a Draft,
    runs: Vec<MapRun>,
    nodes: Vec<BlockNo>,
    /// Of each node that has any, what stands behind its entries.
    behind: Vec<Vec<Entry>>,
    sought: Sought,
    /// Every node is what its checksum says, as it is or with one field set right, and in order.
    is_sound: bool,
    /// Nodes of a depth that stand behind the entries of others, and were not read.
    nodes_behind: Vec<(u16, Vec<Index>)>,
    met: BTreeSet<BlockNo>,
    /// Blocks of the file, by its size.
    file_blocks: u64,
    /// The first file block that it cannot have.
    blocks_max: u64,
    /// Blocks that are still looked at.
    budget: u64,
}

/// Whether a file keeps blocks that metadata of the volume has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnMetadata {
    /// It does not: there is a hole.
    Dropped,
    /// It does: they are copied.
    Kept,
}

/// What is looked for in a map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sought {
    /// What it counts.
    Counted(OnMetadata),
    /// What it may have been; where nodes have checksums, with what these begin.
    Remains(Option<u32>),
}

/// Reads the map of an inode that has one.
///
/// # Errors
/// The device's.
pub(crate) fn read(draft: &Draft, inode: &Inode) -> Result<FileMap> {
    read_with(draft, inode, OnMetadata::Dropped)
}

/// As [`read`], with or without blocks on metadata.
///
/// # Errors
/// The device's.
pub(crate) fn read_with(draft: &Draft, inode: &Inode, kept: OnMetadata) -> Result<FileMap> {
    let Reader { runs, nodes, .. } = reader(draft, inode, Sought::Counted(kept))?;
    Ok(FileMap { runs: apart(runs), nodes })
}

/// What a map may have been before one field of a node was damaged.
pub(crate) struct Remains {
    /// What its nodes count, each as its checksum says that it was, if one field says so.
    pub(crate) map: FileMap,
    /// Of each node that has any, what follows behind the entries that it counts, in order: what
    /// was removed, or what the node counted before.
    pub(crate) behind: Vec<Vec<Entry>>,
    /// No checksum speaks against it, nor the order of its extents.
    pub(crate) is_sound: bool,
}

/// Reads what is left of the map of an inode that has one.
///
/// # Errors
/// The device's.
pub(crate) fn read_remains(draft: &Draft, ino: Ino, inode: &Inode) -> Result<Remains> {
    let seed = draft.has_checksums().then(|| draft.seed(ino, inode));
    let mut reader = reader(draft, inode, Sought::Remains(seed))?;
    reader.read_nodes_behind()?;
    let Reader { runs, nodes, behind, is_sound, .. } = reader;
    Ok(Remains { map: FileMap { runs: apart(runs), nodes }, behind, is_sound })
}

/// A reader that has read what the map counts.
fn reader<'a>(draft: &'a Draft, inode: &Inode, sought: Sought) -> Result<Reader<'a>> {
    let block_size = u64::from(draft.superblock.block_size());
    let mut reader = Reader {
        draft,
        runs: Vec::new(),
        nodes: Vec::new(),
        behind: Vec::new(),
        is_sound: true,
        nodes_behind: Vec::new(),
        met: BTreeSet::new(),
        sought,
        file_blocks: inode.size.div_ceil(block_size),
        blocks_max: blocks_max(inode, &draft.superblock),
        budget: draft.superblock.blocks_count.saturating_mul(2),
    };
    if inode.has_extents() {
        let depth = StoredNode::read(&inode.block).map(|node| node.depth());
        let depth = match depth {
            Some(depth) => depth,
            None => reader.guessed_depth(&inode.block)?,
        };
        reader.node(&inode.block, depth.min(DEPTH_MAX), FileBlock(0))?;
    } else {
        reader.roots(&inode.block)?;
    }
    Ok(reader)
}

/// The first file block that a file of this kind cannot have.
fn blocks_max(inode: &Inode, superblock: &Superblock) -> u64 {
    let is_directory = inode.file_type() == Some(FileType::Directory);
    match is_directory && !superblock.has(Feature::LARGE_DIR) {
        // A directory has less than 2 GiB.
        true => 1 << 31_u32.saturating_sub(superblock.block_size_log2.into()),
        false => u64::from(u32::MAX),
    }
}

/// Runs by file block. Where two overlap, the one that stands first in the map has the blocks.
fn apart(runs: Vec<MapRun>) -> Vec<MapRun> {
    let mut kept: BTreeMap<u64, MapRun> = BTreeMap::new();
    for run in runs {
        let (mut at, end) = (run.file_block, run.file_block.saturating_add(run.length));
        while at < end {
            let before = kept.range(..=at).next_back().map(|(_, run)| *run);
            let covered = before.map_or(0, |run| run.file_block.saturating_add(run.length));
            if covered > at {
                at = covered;
                continue;
            }
            let next = kept.range(at..).next().map_or(end, |(next, _)| (*next).min(end));
            let start = run.start.saturating_add(at.saturating_sub(run.file_block));
            let length = next.saturating_sub(at);
            kept.insert(at, MapRun { file_block: at, start, length, ..run });
            at = next;
        }
    }
    kept.into_values().collect()
}

impl Reader<'_> {
    /// Adds the blocks of a run that the file can have: all of them, or, of a run that cannot be
    /// as long as it says, those before the end of the file that nobody else has.
    fn add(&mut self, run: MapRun) {
        // A file has no more blocks than the volume, whatever nodes say that lead to the same ones.
        let Some(budget) = self.budget.checked_sub(run.length) else { return };
        self.budget = budget;
        let usage = &self.draft.usage;
        let cluster = u64::from(usage.cluster_blocks());
        if run.start % cluster != run.file_block % cluster {
            return;
        }
        let may_be = |block: u64| self.may_have(BlockNo(block));
        let end = run.start.saturating_add(run.length);
        let is_whole = run.file_block.saturating_add(run.length) <= self.blocks_max
            && usage.holds(BlockNo(end.saturating_sub(1)))
            && (run.start..end).all(may_be);
        if is_whole {
            self.runs.push(run);
            return;
        }
        let most = self.file_blocks.min(self.blocks_max).saturating_sub(run.file_block);
        let mut parts: Vec<MapRun> = Vec::new();
        for at in 0..run.length.min(most) {
            let start = run.start.saturating_add(at);
            let is_own = match self.sought {
                Sought::Counted(_) => usage.is_free(BlockNo(start), 1),
                // The file itself may be who has it.
                Sought::Remains(_) => !usage.is_double(BlockNo(start)),
            };
            if !may_be(start) || !is_own {
                continue;
            }
            let file_block = run.file_block.saturating_add(at);
            let follows = |part: &&mut MapRun| part.start.saturating_add(part.length) == start;
            match parts.last_mut().filter(follows) {
                Some(part) => part.length = part.length.saturating_add(1),
                None => parts.push(MapRun { file_block, start, length: 1, ..run }),
            }
        }
        self.runs.extend(parts);
    }

    /// Whether the file can have a block.
    fn may_have(&self, block: BlockNo) -> bool {
        let is_kept =
            self.sought == Sought::Counted(OnMetadata::Kept) && self.draft.usage.is_metadata(block);
        self.draft.may_hold(block) || is_kept && self.draft.usage.holds(block)
    }

    /// A block of the map, if it can be one and was not met.
    fn block(&mut self, block: BlockNo) -> Result<Option<Vec<u8>>> {
        let may_be = self.draft.may_hold(block);
        if !may_be || !self.met.insert(block) {
            return Ok(None);
        }
        self.draft.read(block)
    }

    /// Reads what is under a node of an extent tree, which should have this depth, and begin at
    /// this block of the file at the earliest.
    fn node(&mut self, bytes: &[u8], depth: u16, begins: FileBlock) -> Result<()> {
        let stored = StoredNode::read(bytes).filter(|node| node.depth() == depth);
        if depth == 0 {
            let mut extents: Vec<Extent> = match stored {
                Some(node) => node.extents().collect(),
                None => self.guessed(bytes, 0, 0),
            };
            let room = match self.sought {
                Sought::Remains(_) => {
                    leaf::set_lengths(&mut extents);
                    Room::Exact
                }
                Sought::Counted(_) => Room::Enough,
            };
            leaf::set_in_order(&mut extents, begins, (self.file_blocks, room));
            self.is_sound &= leaf::is_in_order(&extents);
            let end = extents
                .last()
                .map_or(0, |last| u64::from(last.file_block.0).saturating_add(last.length.into()));
            let behind = stored.map(|_| self.guessed(bytes, extents.len(), end));
            extents.into_iter().for_each(|extent| self.add(run_of(extent)));
            let entry = |extent| Entry { runs: vec![run_of(extent)], nodes: Vec::new() };
            let behind: Vec<Entry> = behind.into_iter().flatten().map(entry).collect();
            if !behind.is_empty() {
                self.behind.push(behind);
            }
            return Ok(());
        }
        let counted: Vec<Index> = match stored {
            Some(node) => node.indexes().collect(),
            None => self.guessed_indexes(bytes, 0, 0)?,
        };
        for index in &counted {
            let Some(bytes) = self.block(index.child)? else { continue };
            // What has neither the number of a node nor entries of one is none.
            if has_magic(&bytes) || !self.guessed(&bytes, 0, 0).is_empty() {
                self.nodes.push(index.child);
                let below = depth.saturating_sub(1);
                let bytes = self.as_written(bytes, below, index.file_block);
                self.node(&bytes, below, index.file_block)?;
            }
        }
        if let Some(last) = counted.last().filter(|_| stored.is_some()) {
            let next = u64::from(last.file_block.0).saturating_add(1);
            let behind = self.guessed_indexes(bytes, counted.len(), next)?;
            if !behind.is_empty() {
                self.nodes_behind.push((depth.saturating_sub(1), behind));
            }
        }
        Ok(())
    }

    /// Reads what stands behind the entries of index nodes, when all that they count was read: no
    /// node is taken from where it is counted.
    fn read_nodes_behind(&mut self) -> Result<()> {
        for (depth, indexes) in std::mem::take(&mut self.nodes_behind) {
            let mut behind = Vec::new();
            for index in indexes {
                let Some(bytes) = self.block(index.child)? else { break };
                let runs = std::mem::take(&mut self.runs);
                let nodes = std::mem::replace(&mut self.nodes, vec![index.child]);
                let bytes = self.as_written(bytes, depth, index.file_block);
                let read = self.node(&bytes, depth, index.file_block);
                let runs = std::mem::replace(&mut self.runs, runs);
                behind.push(Entry { runs, nodes: std::mem::replace(&mut self.nodes, nodes) });
                read?;
            }
            self.behind.push(behind);
        }
        Ok(())
    }

    /// A node with the one field set right that makes its checksum right, if there is one.
    fn as_written(&mut self, bytes: Vec<u8>, depth: u16, begins: FileBlock) -> Vec<u8> {
        let Sought::Remains(Some(seed)) = self.sought else { return bytes };
        let is_written = |bytes: &[u8]| extent::verify(bytes, seed).is_ok();
        if is_written(&bytes) {
            return bytes;
        }
        let restored = |entries: u16| {
            let mut restored = bytes.clone();
            extent::restore_header(&mut restored, depth, entries);
            restored
        };
        let most = u16::try_from(extent::capacity(bytes.len())).unwrap_or(0);
        if let Some(restored) = (0..=most).map(restored).find(|bytes| is_written(bytes)) {
            return restored;
        }
        if depth == 0
            && let Some(node) = StoredNode::read(&bytes)
        {
            let mut extents: Vec<Extent> = node.extents().collect();
            leaf::set_lengths(&mut extents);
            leaf::set_in_order(&mut extents, begins, (self.file_blocks, Room::Exact));
            let mut restored = bytes.clone();
            let is_possible = |extent: &&Extent| (1..=extent::MAX_LENGTH).contains(&extent.length);
            for (at, extent) in extents.iter().enumerate().filter(|(_, it)| is_possible(it)) {
                extent::set_extent(&mut restored, at, *extent);
            }
            if is_written(&restored) {
                return restored;
            }
        }
        self.is_sound = false;
        bytes
    }

    /// The entries of a leaf from one of them on, whatever its header says: as many as rise from a
    /// file block on and lead to the volume.
    fn guessed(&self, bytes: &[u8], from: usize, mut next: u64) -> Vec<Extent> {
        let (entries, _) = bytes.get(HEADER..).unwrap_or_default().as_chunks::<ENTRY>();
        let mut extents = Vec::new();
        for entry in entries.iter().skip(from) {
            let extent = Extent::from_bytes(entry);
            let last = extent.start.0.saturating_add(extent.length.max(1).into()) - 1;
            let rises = u64::from(extent.file_block.0) >= next;
            if !rises || extent.length == 0 || !self.draft.usage.holds(BlockNo(last)) {
                break;
            }
            next = u64::from(extent.file_block.0).saturating_add(extent.length.into());
            extents.push(extent);
        }
        extents
    }

    /// The entries of an index node from one of them on, whatever its header says: as many as rise
    /// from a file block on and lead to nodes.
    fn guessed_indexes(&self, bytes: &[u8], from: usize, mut next: u64) -> Result<Vec<Index>> {
        let (entries, _) = bytes.get(HEADER..).unwrap_or_default().as_chunks::<ENTRY>();
        let mut indexes = Vec::new();
        for entry in entries.iter().skip(from) {
            let index = Index::from_bytes(entry);
            let may_be = u64::from(index.file_block.0) >= next
                && self.draft.may_hold(index.child)
                && !self.met.contains(&index.child);
            let child = if may_be { self.draft.read(index.child)? } else { None };
            if !child.is_some_and(|bytes| has_magic(&bytes)) {
                break;
            }
            next = u64::from(index.file_block.0).saturating_add(1);
            indexes.push(index);
        }
        Ok(indexes)
    }

    /// The depth of a root whose header is damaged, by the first node that it leads to.
    fn guessed_depth(&self, root: &[u8]) -> Result<u16> {
        let indexes = self.guessed_indexes(root, 0, 0)?;
        let Some(first) = indexes.first() else { return Ok(0) };
        let bytes = self.draft.read(first.child)?.unwrap_or_default();
        Ok(StoredNode::read(&bytes).map_or(0, |node| node.depth().saturating_add(1)))
    }

    /// Reads what is under the pointers of an inode.
    fn roots(&mut self, bytes: &[u8]) -> Result<()> {
        let log2 = self.draft.superblock.block_size_log2;
        let pointers: Vec<u32> = indirect::pointers(bytes).collect();
        for (at, pointer) in (0_u64..).zip(pointers) {
            match u32::try_from(at).unwrap_or(u32::MAX).checked_sub(indirect::DIRECT) {
                None => self.pointer(at, pointer),
                Some(above) => {
                    let height = above.saturating_add(1);
                    let first = indirect::tree(height, log2).start;
                    self.tree(BlockNo(pointer.into()), height, first)?;
                }
            }
        }
        Ok(())
    }

    fn pointer(&mut self, file_block: u64, pointer: u32) {
        if pointer == 0 {
            return;
        }
        let start = u64::from(pointer);
        let follows = |run: &&mut MapRun| {
            run.file_block.saturating_add(run.length) == file_block
                && run.start.saturating_add(run.length) == start
        };
        let block = BlockNo(start);
        let cluster = u64::from(self.draft.usage.cluster_blocks());
        let is_aligned = start % cluster == file_block % cluster;
        if !is_aligned || !self.may_have(block) || file_block >= self.blocks_max {
            return;
        }
        match self.runs.last_mut().filter(follows) {
            Some(run) => run.length = run.length.saturating_add(1),
            None => {
                let state = ExtentState::Written;
                self.runs.push(MapRun { file_block, start, length: 1, state });
            }
        }
    }

    fn tree(&mut self, block: BlockNo, height: u32, first: u64) -> Result<()> {
        if block.0 == 0 {
            return Ok(());
        }
        let Some(bytes) = self.block(block)? else { return Ok(()) };
        self.nodes.push(block);
        let log2 = indirect::pointers_log2(self.draft.superblock.block_size_log2);
        let below = height.saturating_sub(1);
        let step = 1_u64 << below.saturating_mul(log2);
        for (at, pointer) in (0_u64..).zip(indirect::pointers(&bytes)) {
            let file_block = first.saturating_add(at.saturating_mul(step));
            match below {
                0 => self.pointer(file_block, pointer),
                _ => self.tree(BlockNo(pointer.into()), below, file_block)?,
            }
        }
        Ok(())
    }
}

fn run_of(extent: Extent) -> MapRun {
    MapRun {
        file_block: extent.file_block.0.into(),
        start: extent.start.0,
        length: extent.length.into(),
        state: extent.state,
    }
}

fn has_magic(bytes: &[u8]) -> bool {
    bytes.first_chunk::<2>() == Some(&extent::MAGIC.to_le_bytes())
}

/// Blocks for a map that is written: those that the file has for it, then new ones.
struct Supply {
    own: Vec<BlockNo>,
    goal: BlockNo,
    /// How many were taken.
    given: u64,
}

impl Supply {
    fn of(draft: &Draft, map: &FileMap) -> Supply {
        let own = map.nodes.iter().rev().copied();
        let is_own =
            |block: &BlockNo| !draft.usage.is_double(*block) && !draft.shared.contains(block);
        let own = own.filter(is_own).collect();
        Supply { own, goal: BlockNo(map.runs.first().map_or(0, |run| run.start)), given: 0 }
    }

    fn take(&mut self, draft: &mut Draft) -> Result<BlockNo> {
        self.given = self.given.saturating_add(1);
        let block = self.own.pop().or_else(|| draft.allocate(self.goal));
        block.ok_or_else(|| Error::Refused("no free block is left for the map of a file".into()))
    }
}

/// Writes a map with these runs into an inode, which the caller stores. Gives how many blocks the
/// map has.
///
/// # Errors
/// The device's; no block is free.
pub(crate) fn write(draft: &mut Draft, ino: Ino, inode: &mut Inode, map: &FileMap) -> Result<u64> {
    let mut supply = Supply::of(draft, map);
    match inode.has_extents() {
        true => write_extents(draft, ino, inode, map, &mut supply)?,
        false => write_pointers(draft, inode, &map.runs, &mut supply)?,
    }
    Ok(supply.given)
}

/// Runs as extents, neighbours joined.
fn extents(runs: &[MapRun]) -> Vec<Extent> {
    let mut joined: Vec<MapRun> = Vec::new();
    for run in runs {
        let follows = |last: &&mut MapRun| {
            last.file_block.saturating_add(last.length) == run.file_block
                && last.start.saturating_add(last.length) == run.start
                && last.state == run.state
        };
        match joined.last_mut().filter(follows) {
            Some(last) => last.length = last.length.saturating_add(run.length),
            None => joined.push(*run),
        }
    }
    let mut extents = Vec::new();
    for run in joined {
        let most = match run.state {
            ExtentState::Written => u64::from(extent::MAX_LENGTH),
            ExtentState::Unwritten => u64::from(extent::MAX_LENGTH) - 1,
        };
        let mut at = 0;
        while at < run.length {
            let length = (run.length - at).min(most);
            let Ok(file_block) = u32::try_from(run.file_block.saturating_add(at)) else { break };
            extents.push(Extent {
                file_block: FileBlock(file_block),
                length: u32::try_from(length).unwrap_or(1),
                start: BlockNo(run.start.saturating_add(at)),
                state: run.state,
            });
            at = at.saturating_add(length);
        }
    }
    extents
}

fn write_extents(
    draft: &mut Draft,
    ino: Ino,
    inode: &mut Inode,
    map: &FileMap,
    supply: &mut Supply,
) -> Result<()> {
    let extents = extents(&map.runs);
    let root = extent::capacity(inode.block.len());
    // A tree that has a node keeps it, as e2fsck would, where the root would be full without it.
    let is_left = extents.len() == root && !supply.own.is_empty();
    if extents.len() <= root && !is_left {
        extent::initialize(&mut inode.block, 0);
        for (at, extent) in extents.into_iter().enumerate() {
            extent::insert_extent(&mut inode.block, at, extent);
        }
        return Ok(());
    }
    let seed = draft.seed(ino, inode);
    let full = extent::capacity(draft.block_size());
    // An entry of each node is left, as e2fsck leaves it, where the blocks that there are suffice.
    let spare = full.saturating_sub(1).max(1);
    let room = if extents.len().div_ceil(spare) < supply.own.len() { spare } else { full };
    let mut level = Vec::new();
    for part in extents.chunks(room) {
        let mut bytes = vec![0; draft.block_size()];
        extent::initialize(&mut bytes, 0);
        for (at, extent) in part.iter().enumerate() {
            extent::insert_extent(&mut bytes, at, *extent);
        }
        let first = part.first().map_or(FileBlock(0), |extent| extent.file_block);
        level.push(Index { file_block: first, child: placed(draft, supply, bytes, seed)? });
    }
    let mut depth = 1;
    while level.len() > root {
        let mut above = Vec::new();
        for part in level.chunks(room) {
            let mut bytes = vec![0; draft.block_size()];
            extent::initialize(&mut bytes, depth);
            for (at, index) in part.iter().enumerate() {
                extent::insert_index(&mut bytes, at, *index);
            }
            let first = part.first().map_or(FileBlock(0), |index| index.file_block);
            above.push(Index { file_block: first, child: placed(draft, supply, bytes, seed)? });
        }
        level = above;
        depth = depth.saturating_add(1);
    }
    extent::initialize(&mut inode.block, depth);
    for (at, index) in level.into_iter().enumerate() {
        extent::insert_index(&mut inode.block, at, index);
    }
    Ok(())
}

/// Writes a node where there is room.
fn placed(draft: &mut Draft, supply: &mut Supply, mut node: Vec<u8>, seed: u32) -> Result<BlockNo> {
    let block = supply.take(draft)?;
    if draft.has_checksums() {
        extent::seal(&mut node, seed);
    }
    draft.write(block, &node)?;
    Ok(block)
}

/// Nodes of a map of pointers, by the path that leads to them.
type Nodes = BTreeMap<Vec<u32>, (BlockNo, Vec<u8>)>;

fn write_pointers(
    draft: &mut Draft,
    inode: &mut Inode,
    runs: &[MapRun],
    supply: &mut Supply,
) -> Result<()> {
    let log2 = draft.superblock.block_size_log2;
    inode.block.fill(0);
    let mut nodes = Nodes::new();
    for run in runs {
        for at in 0..run.length {
            let file_block = u32::try_from(run.file_block.saturating_add(at)).ok();
            let path = file_block.and_then(|block| indirect::path(FileBlock(block), log2));
            let (Some(path), Ok(block)) = (path, u32::try_from(run.start.saturating_add(at)))
            else {
                continue;
            };
            let index = path.index.get(..path.depth).unwrap_or_default();
            let Some((last, above)) = index.split_last() else { continue };
            lead(draft, inode, &mut nodes, above, supply)?;
            match nodes.get_mut(above) {
                Some((_, bytes)) => indirect::set_pointer(bytes, *last, block),
                None => indirect::set_pointer(&mut inode.block, *last, block),
            }
        }
    }
    for (block, bytes) in nodes.values() {
        draft.write(*block, bytes)?;
    }
    Ok(())
}

/// Makes the nodes of a path.
fn lead(
    draft: &mut Draft,
    inode: &mut Inode,
    nodes: &mut Nodes,
    path: &[u32],
    supply: &mut Supply,
) -> Result<()> {
    if nodes.contains_key(path) {
        return Ok(());
    }
    for length in 1..=path.len() {
        let here = path.get(..length).unwrap_or_default();
        if nodes.contains_key(here) {
            continue;
        }
        let Some((last, above)) = here.split_last() else { continue };
        let block = supply.take(draft)?;
        let pointer = u32::try_from(block.0)
            .map_err(|_| Error::Refused("no free block has a number of 32 bits".into()))?;
        match nodes.get_mut(above) {
            Some((_, bytes)) => indirect::set_pointer(bytes, *last, pointer),
            None => indirect::set_pointer(&mut inode.block, *last, pointer),
        }
        nodes.insert(here.to_vec(), (block, vec![0; draft.block_size()]));
    }
    Ok(())
}

/// The sectors of a map and of what it maps: of whole clusters.
pub(crate) fn footprint(draft: &Draft, map: &FileMap) -> u64 {
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    let mut clusters = BTreeSet::new();
    for run in &map.runs {
        let last = run.start.saturating_add(run.length.saturating_sub(1));
        clusters.extend(run.start / cluster..=last / cluster);
    }
    draft.sectors((clusters.len() + map.nodes.len()) as u64)
}

/// Whether an inode has a map that can be read and written here.
pub(crate) fn is_mapped(inode: &Inode, superblock: &Superblock) -> bool {
    if inode.flags & flags::INLINE_DATA != 0 {
        return false;
    }
    match inode.file_type() {
        Some(FileType::Regular | FileType::Directory) | None => true,
        Some(FileType::Symlink) => !inode.is_fast_symlink(superblock),
        Some(_) => false,
    }
}

/// Whether an inode has the root of an extent tree in it.
pub(crate) fn has_root(inode: &Inode) -> bool {
    StoredNode::read(&inode.block).is_some()
}
