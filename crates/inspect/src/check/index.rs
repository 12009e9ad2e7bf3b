//! The hash index of directories: what each block of an indexed directory says, and whether it all
//! fits together.
//!
//! Blocks are met in the order of the disk, so a leaf is hashed before the root was seen, by the
//! hash that the superblock names; where the root names another, the leaves of that directory are
//! read again.
//!
//! *Invariants*: a walk through an index visits each block once, and ends at the deepest level that
//! the format has.
//! *Locking*: none; findings are judged when all blocks were met.
use super::codes::Code;
use super::directories::{Piece, shape};
use super::entries::is_dots;
use super::problem::Problem;
use super::reader::Reader;
use super::state::{DirectoryBlock, Facts, State};
use super::superblock::LARGE_DIRECTORY;
use super::tree::Tree;
use super::words::{u16_at, u32_at};
use crate::error::Error;
use extant_format::Ino;
use extant_format::checksum::crc32c;
use extant_format::hash::Hasher;
use extant_format::superblock::{Feature, HashVersion};
use std::sync::Arc;

/// Bytes of an entry, and of the tail with the checksum.
const ENTRY: usize = 8;
/// Where entries begin in the root, and in a node.
const ROOT_START: usize = 32;
const NODE_START: usize = 8;
/// The high bits of a block number are not part of it.
const BLOCK_MASK: u32 = 0x0fff_ffff;
/// The highest hash that a name can have.
const HASH_MAX: u32 = 0xffff_fffe;
/// The number of the hash of encrypted names that know no case. It needs the key.
const SIPHASH: u8 = 6;

/// What one block of an indexed directory says.
pub(crate) struct Block {
    ino: Ino,
    file_block: u32,
    what: What,
}

/// What a block is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// The first block.
    Root(Root),
    /// An index block below.
    Node(Pointers),
    /// Names.
    Leaf(Hashes),
}

/// What the root says of the whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Root {
    reserved: u32,
    hash: u8,
    info_length: u8,
    levels: u8,
    flags: u8,
    pointers: Pointers,
}

/// The entries of a root or node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pointers {
    limit: usize,
    count: usize,
    /// How many fit.
    capacity: usize,
    /// Lowest hash and block; as many as are there.
    entries: Box<[(u32, u32)]>,
}

/// The lowest and the highest hash of the names of a leaf; the other way round when it has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hashes {
    low: u32,
    high: u32,
}

impl Block {
    pub(crate) fn new(block: &DirectoryBlock, what: What) -> Block {
        Block { ino: block.ino, file_block: block.file_block, what }
    }
}

impl Root {
    /// Whether this is a root at all.
    fn is_root(&self) -> bool {
        self.reserved == 0 && self.info_length == 8
    }
}

/// Reads a block of an indexed directory.
pub(crate) fn read(state: &State, piece: &Piece<'_>, facts: Facts, bytes: &[u8]) -> What {
    let tail = if state.volume.superblock().has(Feature::METADATA_CSUM) { ENTRY } else { 0 };
    if piece.file_block == 0 {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        return What::Root(Root {
            reserved: u32_at(bytes, 24),
            hash: byte(28),
            info_length: byte(29),
            levels: byte(30),
            flags: byte(31),
            pointers: pointers(bytes, ROOT_START, tail),
        });
    }
    if piece.shape.is_node(bytes, tail) {
        return What::Node(pointers(bytes, NODE_START, tail));
    }
    let hasher = Hasher::of(state.volume.superblock());
    What::Leaf(hashes(piece, facts, hasher, bytes))
}

fn pointers(bytes: &[u8], start: usize, tail: usize) -> Pointers {
    let capacity = bytes.len().saturating_sub(start + tail) / ENTRY;
    let (limit, count) = (usize::from(u16_at(bytes, start)), usize::from(u16_at(bytes, start + 2)));
    let there = count.min(capacity);
    let entry = |at: usize| {
        let at = start + at * ENTRY;
        (u32_at(bytes, at), u32_at(bytes, at + 4) & BLOCK_MASK)
    };
    Pointers { limit, count, capacity, entries: (0..there).map(entry).collect() }
}

fn hashes(piece: &Piece<'_>, facts: Facts, hasher: Hasher, bytes: &[u8]) -> Hashes {
    let mut hashes = Hashes { low: u32::MAX, high: 0 };
    if piece.shape.hash_bytes > 0 {
        return hashes;
    }
    let mut folded = [0_u8; 256];
    piece.shape.walk(bytes, 0, &mut |entry| {
        if entry.ino == 0 || is_dots(entry.name) {
            return;
        }
        let mut name = entry.name;
        if facts.is_casefolded() {
            // What letters beyond ASCII become would take a table of all scripts.
            let Some(place) = folded.get_mut(..name.len()).filter(|_| name.is_ascii()) else {
                return;
            };
            place.copy_from_slice(name);
            place.make_ascii_lowercase();
            name = place;
        }
        let major = hasher.hash(name).major;
        hashes.low = hashes.low.min(major);
        hashes.high = hashes.high.max(major);
    });
    hashes
}

/// The checksum that stands in an index block and the one that should; `None` for a leaf, also for
/// what should be a root and is none.
pub(crate) fn checksum(what: &What, bytes: &[u8], seed: u32) -> Option<(u32, u32)> {
    let (start, pointers) = match what {
        What::Root(root) if root.is_root() => (ROOT_START, &root.pointers),
        What::Node(pointers) => (NODE_START, pointers),
        What::Root(_) | What::Leaf(_) => return None,
    };
    // Where limit or count cannot be, the checksum is not where it is looked for: that is told
    // already.
    let tail = start + pointers.limit.min(pointers.capacity) * ENTRY;
    let covered = bytes.get(..start + pointers.count.min(pointers.capacity) * ENTRY)?;
    let reserved = bytes.get(tail..tail + 4)?;
    let computed = crc32c(crc32c(crc32c(seed, covered), reserved), &[0; 4]);
    Some((u32_at(bytes, tail + 4), computed))
}

/// Judges the indexes of all directories.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(state: &Arc<State>, tree: &Tree) -> Result<(), Error> {
    let mut found = std::mem::take(&mut *tree.index.lock());
    found.sort_unstable_by_key(|block| (block.ino, block.file_block));
    let default = Hasher::of(state.volume.superblock());
    let mut others = Vec::new();
    for blocks in found.chunk_by_mut(|a, b| a.ino == b.ino) {
        let Some(Block { ino, what: What::Root(root), .. }) = blocks.first() else {
            continue;
        };
        let Some(version) = judge_root(state, *ino, root) else {
            continue;
        };
        match version {
            Some(version) if version != default.version => others.push((*ino, version)),
            _ => Index::of(state, blocks).judge(),
        }
    }
    let mut own_blocks: Vec<DirectoryBlock> = if others.is_empty() {
        Vec::new()
    } else {
        let is_other = |block: &&DirectoryBlock| {
            others.binary_search_by_key(&block.ino, |other| other.0).is_ok()
        };
        tree.blocks.iter().filter(is_other).copied().collect()
    };
    // Within a directory they stay in the order of the disk.
    own_blocks.sort_by_key(|block| block.ino);
    for (ino, version) in others {
        let first = found.partition_point(|block| block.ino < ino);
        let own = found.get_mut(first..).unwrap_or_default();
        let length = own.partition_point(|block| block.ino == ino);
        let blocks = own.get_mut(..length).unwrap_or_default();
        let from = own_blocks.partition_point(|block| block.ino < ino);
        let to = own_blocks.partition_point(|block| block.ino <= ino);
        let own = own_blocks.get(from..to).unwrap_or_default();
        hash_again(state, tree, Hasher { version, ..default }, own, blocks)?;
        Index::of(state, blocks).judge();
    }
    Ok(())
}

/// Judges what the root says of the whole. Gives the hash, if names can be hashed; nothing when the
/// rest means nothing.
fn judge_root(state: &State, ino: Ino, root: &Root) -> Option<Option<HashVersion>> {
    let tell = |code, found: u64, expected: u64| {
        let problem = Problem::new(code).ino(ino).file_block(0);
        state.tell(problem.found(found).expected(expected));
    };
    if !root.is_root() {
        tell(Code::IndexRoot, root.info_length.into(), 8);
        return None;
    }
    if root.flags & 1 != 0 {
        tell(Code::IndexFlags, root.flags.into(), 0);
    }
    let levels_max = if state.volume.superblock().has(LARGE_DIRECTORY) { 2 } else { 1 };
    if root.levels > levels_max {
        tell(Code::IndexLevels, root.levels.into(), levels_max.into());
        return None;
    }
    let facts = state.inodes.get(ino);
    if root.hash == SIPHASH && facts.is_encrypted() && facts.is_casefolded() {
        return Some(None);
    }
    match HashVersion::from_code(root.hash).filter(|version| version.code() == root.hash) {
        Some(version) => Some(Some(version)),
        None => {
            tell(Code::IndexHashVersion, root.hash.into(), 2);
            None
        }
    }
}

/// Hashes the names of one directory, with these blocks, by another hash.
fn hash_again(
    state: &Arc<State>,
    tree: &Tree,
    hasher: Hasher,
    blocks: &[DirectoryBlock],
    found: &mut [Block],
) -> Result<(), Error> {
    let Some(ino) = found.first().map(|block| block.ino) else {
        return Ok(());
    };
    let facts = state.inodes.get(ino);
    let mut reader = Reader::default();
    for range in Reader::batches(state, blocks, |block| block.block) {
        let batch = blocks.get(range).unwrap_or_default();
        reader.read(state, "directory", batch, |block| block.block)?;
        for (at, block) in batch.iter().enumerate() {
            let piece = Piece {
                state,
                tree,
                ino,
                file_block: block.file_block,
                place: 0,
                shape: shape(state, facts),
                is_typed: true,
            };
            let place = found.binary_search_by_key(&block.file_block, |found| found.file_block);
            if let Some(Block { what: What::Leaf(leaf), .. }) =
                place.ok().and_then(|place| found.get_mut(place))
            {
                *leaf = hashes(&piece, facts, hasher, reader.item(at));
            }
        }
    }
    Ok(())
}

/// The index of one directory.
struct Index<'a> {
    state: &'a State,
    blocks: &'a [Block],
    /// Which of them are pointed to.
    referenced: Vec<bool>,
    levels: u8,
}

/// Where a walk is.
#[derive(Clone, Copy)]
struct Step {
    /// Of the block in `blocks`.
    at: usize,
    /// Levels below the root.
    depth: u8,
    /// What the index has there.
    bounds: Hashes,
}

impl<'a> Index<'a> {
    /// Of blocks of one directory that rise, the first of which is a root.
    fn of(state: &'a State, blocks: &'a [Block]) -> Index<'a> {
        let levels = match blocks.first() {
            Some(Block { what: What::Root(root), .. }) => root.levels,
            _ => 0,
        };
        Index { state, blocks, referenced: vec![false; blocks.len()], levels }
    }

    fn tell(&self, at: usize, code: Code, found: u64, expected: u64) {
        let Some(block) = self.blocks.get(at) else { return };
        let problem = Problem::new(code).ino(block.ino).file_block(block.file_block.into());
        self.state.tell(problem.found(found).expected(expected));
    }

    fn judge(mut self) {
        if let Some(root) = self.referenced.first_mut() {
            *root = true;
        }
        let bounds = Hashes { low: 0, high: HASH_MAX };
        let mut steps = vec![Step { at: 0, depth: 0, bounds }];
        let mut is_whole = true;
        while let Some(step) = steps.pop() {
            match self.blocks.get(step.at).map(|block| &block.what) {
                Some(What::Root(Root { pointers, .. }) | What::Node(pointers)) => {
                    is_whole &= self.pointers(step, pointers, &mut steps);
                }
                Some(What::Leaf(hashes)) => self.leaf(step, *hashes),
                None => {}
            }
        }
        // Where pointers cannot be read it is no wonder that blocks are not pointed to.
        if !is_whole {
            return;
        }
        for at in 0..self.blocks.len() {
            if self.referenced.get(at) == Some(&false) {
                self.tell(at, Code::IndexUnreferenced, 0, 1);
            }
        }
    }

    fn leaf(&self, step: Step, hashes: Hashes) {
        if step.depth != self.levels + 1 {
            self.tell(step.at, Code::IndexDepth, step.depth.into(), u64::from(self.levels) + 1);
        }
        self.within(step, hashes);
    }

    /// Whether hashes lie where the index has them.
    fn within(&self, step: Step, hashes: Hashes) {
        if hashes.low < step.bounds.low & !1 {
            self.tell(step.at, Code::IndexBelow, hashes.low.into(), step.bounds.low.into());
        }
        if hashes.high > step.bounds.high {
            self.tell(step.at, Code::IndexAbove, hashes.high.into(), step.bounds.high.into());
        }
    }

    /// Judges the pointers of a root or node, and adds where they lead to; false when they cannot
    /// be read.
    fn pointers(&mut self, step: Step, pointers: &Pointers, steps: &mut Vec<Step>) -> bool {
        if pointers.limit != pointers.capacity {
            let (found, expected) = (pointers.limit as u64, pointers.capacity as u64);
            self.tell(step.at, Code::IndexLimit, found, expected);
            return false;
        }
        if pointers.count > pointers.limit {
            let (found, expected) = (pointers.count as u64, pointers.limit as u64);
            self.tell(step.at, Code::IndexCount, found, expected);
            return false;
        }
        let mut own = Hashes { low: u32::MAX, high: 0 };
        let mut before = 0;
        for (at, &(hash, child)) in pointers.entries.iter().enumerate() {
            let low = if at == 0 { step.bounds.low } else { hash };
            if at > 0 {
                (own.low, own.high) = (own.low.min(hash), own.high.max(hash));
                if hash < before {
                    self.tell(step.at, Code::IndexOrder, hash.into(), before.into());
                }
                before = hash;
            }
            let high = pointers.entries.get(at + 1).map_or(step.bounds.high, |next| next.0);
            self.child(step, child, Hashes { low, high }, steps);
        }
        self.within(step, own);
        true
    }

    fn child(&mut self, step: Step, child: u32, bounds: Hashes, steps: &mut Vec<Step>) {
        let Ok(at) = self.blocks.binary_search_by_key(&child, |block| block.file_block) else {
            // A block that is missing before the last is told as a hole.
            if self.blocks.last().is_none_or(|last| last.file_block < child) {
                self.tell(step.at, Code::IndexOutside, child.into(), self.blocks.len() as u64);
            }
            return;
        };
        match self.referenced.get_mut(at) {
            Some(referenced) if !*referenced => *referenced = true,
            _ => {
                self.tell(at, Code::IndexTwice, 2, 1);
                return;
            }
        }
        let depth = step.depth.saturating_add(1);
        steps.push(Step { at, depth, bounds });
    }
}
