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
use super::entries::Shape;
use super::tree::Tree;
use crate::check::codes::Code;
use crate::check::facts::{DirectoryBlock, Facts, InodeFacts};
use crate::check::problem::Problem;
use crate::check::reader::Reader;
use crate::error::Error;
use extant_format::Ino;
use extant_format::directory::stored::{
    HASH_CONTINUES, HASH_MAX, IndexTail, ROOT_FLAG_UNKNOWN_FORM, ROOT_INFO_LENGTH, SIPHASH,
    StoredIndex, StoredRootInfo, is_dots,
};
use extant_format::directory::{IndexPlace, LEVELS_MAX, LEVELS_MAX_LARGE};
use extant_format::hash::Hasher;
use extant_format::superblock::{Feature, HashVersion};

/// What one block of an indexed directory says.
pub(super) struct IndexedBlock {
    ino: Ino,
    file_block: u32,
    content: BlockContent,
}

/// What a block is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum BlockContent {
    /// The first block: what it says of the whole index, and its entries.
    Root(StoredRootInfo, Pointers),
    /// An index block below.
    Node(Pointers),
    /// Names.
    Leaf(HashRange),
}

/// The entries of a root or node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pointers {
    limit: usize,
    count: usize,
    /// How many fit.
    capacity: usize,
    /// Lowest hash and block; as many as are there.
    entries: Box<[(u32, u32)]>,
}

/// The lowest and the highest hash of the names of a leaf; the other way round when it has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HashRange {
    low: u32,
    high: u32,
}

impl IndexedBlock {
    pub(super) fn new(block: &DirectoryBlock, content: BlockContent) -> IndexedBlock {
        IndexedBlock { ino: block.ino, file_block: block.file_block, content }
    }
}

impl Pointers {
    fn read(index: &StoredIndex<'_>) -> Pointers {
        Pointers {
            limit: index.limit(),
            count: index.count(),
            capacity: index.capacity(),
            entries: index.entries().collect(),
        }
    }
}

/// Reads a block of an indexed directory.
pub(super) fn read(
    facts: &Facts,
    directory: InodeFacts,
    shape: Shape,
    file_block: u32,
    bytes: &[u8],
) -> BlockContent {
    let superblock = facts.volume.superblock();
    let tail = match superblock.has(Feature::METADATA_CSUM) {
        true => IndexTail::Checksum,
        false => IndexTail::None,
    };
    let pointers = |place| Pointers::read(&StoredIndex::new(bytes, place, tail));
    if file_block == 0 {
        return BlockContent::Root(StoredRootInfo::read(bytes), pointers(IndexPlace::Root));
    }
    if shape.entries.is_node(bytes, tail) {
        return BlockContent::Node(pointers(IndexPlace::Node));
    }
    BlockContent::Leaf(hashes(directory, shape, Hasher::of(superblock), bytes))
}

fn hashes(directory: InodeFacts, shape: Shape, hasher: Hasher, bytes: &[u8]) -> HashRange {
    let mut hashes = HashRange { low: u32::MAX, high: 0 };
    if shape.entries.hash_bytes > 0 {
        return hashes;
    }
    shape.entries.walk(bytes, 0, &mut |entry| {
        if entry.ino == 0 || is_dots(entry.name) {
            return;
        }
        let hash = match directory.is_casefolded() {
            true => hasher.hash_folded(entry.name),
            false => hasher.hash(entry.name),
        };
        let major = hash.major;
        hashes.low = hashes.low.min(major);
        hashes.high = hashes.high.max(major);
    });
    hashes
}

/// The stored checksum of an index block and that of its bytes; `None` for a leaf, also for what
/// should be a root and is none.
pub(super) fn checksums(content: &BlockContent, bytes: &[u8], seed: u32) -> Option<(u32, u32)> {
    let place = match content {
        BlockContent::Root(info, _) if info.is_root() => IndexPlace::Root,
        BlockContent::Node(_) => IndexPlace::Node,
        BlockContent::Root(..) | BlockContent::Leaf(_) => return None,
    };
    // Where limit or count cannot be, the checksum is not where it is looked for: that is reported
    // already.
    StoredIndex::new(bytes, place, IndexTail::Checksum).checksums(seed)
}

/// Judges the indexes of all directories.
///
/// # Errors
/// When the device fails.
pub(super) fn judge(facts: &Facts, tree: &Tree, mut found: Vec<IndexedBlock>) -> Result<(), Error> {
    found.sort_unstable_by_key(|block| (block.ino, block.file_block));
    let default = Hasher::of(facts.volume.superblock());
    let mut others = Vec::new();
    for blocks in found.chunk_by_mut(|a, b| a.ino == b.ino) {
        let Some(IndexedBlock { ino, content: BlockContent::Root(root, _), .. }) = blocks.first()
        else {
            continue;
        };
        let Some(version) = judge_root(facts, *ino, root) else {
            continue;
        };
        match version {
            Some(version) if version != default.version => others.push((*ino, version)),
            _ => Index::of(facts, blocks).judge(),
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
        hash_again(facts, Hasher { version, ..default }, own, blocks)?;
        Index::of(facts, blocks).judge();
    }
    Ok(())
}

/// Judges what the root says of the whole. Gives the hash, if names can be hashed; nothing when the
/// rest means nothing.
fn judge_root(facts: &Facts, ino: Ino, root: &StoredRootInfo) -> Option<Option<HashVersion>> {
    let report = |code, found: u64, expected: u64| {
        let problem = Problem::new(code).ino(ino).file_block(0);
        facts.report(problem.found(found).expected(expected));
    };
    if !root.is_root() {
        report(Code::IndexRoot, root.info_length.into(), ROOT_INFO_LENGTH.into());
        return None;
    }
    if root.flags & ROOT_FLAG_UNKNOWN_FORM != 0 {
        report(Code::IndexFlags, root.flags.into(), 0);
    }
    let has_large = facts.volume.superblock().has(Feature::LARGE_DIR);
    let levels_max = if has_large { LEVELS_MAX_LARGE } else { LEVELS_MAX };
    if root.levels > levels_max {
        report(Code::IndexLevels, root.levels.into(), levels_max.into());
        return None;
    }
    let known = facts.inodes.get(ino);
    if root.hash == SIPHASH && known.is_encrypted() && known.is_casefolded() {
        return Some(None);
    }
    match HashVersion::from_code(root.hash).filter(|version| version.code() == root.hash) {
        Some(version) => Some(Some(version)),
        None => {
            report(Code::IndexHashVersion, root.hash.into(), 2);
            None
        }
    }
}

/// Hashes the names of one directory, with these blocks, by another hash.
fn hash_again(
    facts: &Facts,
    hasher: Hasher,
    blocks: &[DirectoryBlock],
    found: &mut [IndexedBlock],
) -> Result<(), Error> {
    let Some(ino) = found.first().map(|block| block.ino) else {
        return Ok(());
    };
    let directory = facts.inodes.get(ino);
    let shape = Shape::of(facts, directory);
    let mut reader = Reader::default();
    for range in Reader::batches(facts, blocks, |block| block.block) {
        let batch = blocks.get(range).unwrap_or_default();
        reader.read(facts, "directory", batch, |block| block.block)?;
        for (at, block) in batch.iter().enumerate() {
            let place = found.binary_search_by_key(&block.file_block, |found| found.file_block);
            if let Some(IndexedBlock { content: BlockContent::Leaf(leaf), .. }) =
                place.ok().and_then(|place| found.get_mut(place))
            {
                *leaf = hashes(directory, shape, hasher, reader.item(at));
            }
        }
    }
    Ok(())
}

/// The index of one directory.
struct Index<'a> {
    facts: &'a Facts,
    blocks: &'a [IndexedBlock],
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
    bounds: HashRange,
}

impl<'a> Index<'a> {
    /// Of blocks of one directory that rise, the first of which is a root.
    fn of(facts: &'a Facts, blocks: &'a [IndexedBlock]) -> Index<'a> {
        let levels = match blocks.first() {
            Some(IndexedBlock { content: BlockContent::Root(root, _), .. }) => root.levels,
            _ => 0,
        };
        Index { facts, blocks, referenced: vec![false; blocks.len()], levels }
    }

    fn report(&self, at: usize, code: Code, found: u64, expected: u64) {
        let Some(block) = self.blocks.get(at) else { return };
        let problem = Problem::new(code).ino(block.ino).file_block(block.file_block.into());
        self.facts.report(problem.found(found).expected(expected));
    }

    fn judge(mut self) {
        if let Some(root) = self.referenced.first_mut() {
            *root = true;
        }
        let bounds = HashRange { low: 0, high: HASH_MAX };
        let mut steps = vec![Step { at: 0, depth: 0, bounds }];
        let mut is_whole = true;
        while let Some(step) = steps.pop() {
            match self.blocks.get(step.at).map(|block| &block.content) {
                Some(BlockContent::Root(_, pointers) | BlockContent::Node(pointers)) => {
                    is_whole &= self.pointers(step, pointers, &mut steps);
                }
                Some(BlockContent::Leaf(hashes)) => self.leaf(step, *hashes),
                None => {}
            }
        }
        // Where pointers cannot be read, blocks that are not pointed to mean nothing.
        if !is_whole {
            return;
        }
        for at in 0..self.blocks.len() {
            if self.referenced.get(at) == Some(&false) {
                self.report(at, Code::IndexUnreferenced, 0, 1);
            }
        }
    }

    fn leaf(&self, step: Step, hashes: HashRange) {
        if step.depth != self.levels + 1 {
            self.report(step.at, Code::IndexDepth, step.depth.into(), u64::from(self.levels) + 1);
        }
        self.within(step, hashes);
    }

    /// Whether hashes are where the index has them.
    fn within(&self, step: Step, hashes: HashRange) {
        if hashes.low < step.bounds.low & !HASH_CONTINUES {
            self.report(step.at, Code::IndexBelow, hashes.low.into(), step.bounds.low.into());
        }
        if hashes.high > step.bounds.high {
            self.report(step.at, Code::IndexAbove, hashes.high.into(), step.bounds.high.into());
        }
    }

    /// Judges the pointers of a root or node, and adds where they lead to; false when they cannot
    /// be read.
    fn pointers(&mut self, step: Step, pointers: &Pointers, steps: &mut Vec<Step>) -> bool {
        if pointers.limit != pointers.capacity {
            let (found, expected) = (pointers.limit as u64, pointers.capacity as u64);
            self.report(step.at, Code::IndexLimit, found, expected);
            return false;
        }
        if pointers.count > pointers.limit {
            let (found, expected) = (pointers.count as u64, pointers.limit as u64);
            self.report(step.at, Code::IndexCount, found, expected);
            return false;
        }
        let mut own = HashRange { low: u32::MAX, high: 0 };
        let mut before = 0;
        for (at, &(hash, child)) in pointers.entries.iter().enumerate() {
            let low = if at == 0 { step.bounds.low } else { hash };
            if at > 0 {
                (own.low, own.high) = (own.low.min(hash), own.high.max(hash));
                if hash < before {
                    self.report(step.at, Code::IndexOrder, hash.into(), before.into());
                }
                before = hash;
            }
            let high = pointers.entries.get(at + 1).map_or(step.bounds.high, |next| next.0);
            self.child(step, child, HashRange { low, high }, steps);
        }
        self.within(step, own);
        true
    }

    fn child(&mut self, step: Step, child: u32, bounds: HashRange, steps: &mut Vec<Step>) {
        let Ok(at) = self.blocks.binary_search_by_key(&child, |block| block.file_block) else {
            // A block that is missing before the last is reported as a hole.
            if self.blocks.last().is_none_or(|last| last.file_block < child) {
                self.report(step.at, Code::IndexOutside, child.into(), self.blocks.len() as u64);
            }
            return;
        };
        match self.referenced.get_mut(at) {
            Some(referenced) if !*referenced => *referenced = true,
            _ => {
                self.report(at, Code::IndexTwice, 2, 1);
                return;
            }
        }
        let depth = step.depth.saturating_add(1);
        steps.push(Step { at, depth, bounds });
    }
}
