//! Pass 1: the maps of files, one map block at a time in whatever order the [plan](super::plan)
//! reads them.
//!
//! ```text
//! inode --roots--> map blocks --judge_block--> runs of data: claimed
//!                      ^            |
//!                      +--children--+          the last one of a file: Walk::finish compares size and sectors
//! ```
//!
//! *Invariants*: what is told of a map block depends on its bytes, its inode and its place in the
//! tree alone. A map block that was followed is not followed again, so that the work is bounded by
//! the blocks of the volume.
//! *Locking*: the edges of clusters have a short lock, held for a push.
use super::codes::Code;
use super::problem::Problem;
use super::state::{DirectoryBlock, State};
use super::words::{u16_at, u32_at};
use extant_block::ShortLock;
use extant_format::checksum::inode_seed;
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino, extent, indirect};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Faults of pointers that are told one by one, of a map block; of more only the number is told.
const TOLD_MAX: u64 = 12;
/// The deepest tree that a file can need: what is deeper is told.
const USEFUL_DEPTH: u16 = 5;

/// What a map belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Regular,
    Directory,
    Symlink,
    /// The list of bad blocks: may hold blocks of metadata.
    BadBlocks,
    /// The map of the descriptors kept for growth, which are metadata.
    Resize,
}

impl Kind {
    pub(crate) fn of(file_type: Option<FileType>) -> Option<Kind> {
        match file_type? {
            FileType::Regular => Some(Kind::Regular),
            FileType::Directory => Some(Kind::Directory),
            FileType::Symlink => Some(Kind::Symlink),
            _ => None,
        }
    }
}

/// A map that is being walked.
pub(crate) struct Walk {
    pub(crate) ino: Ino,
    kind: Kind,
    size: u64,
    sectors: u64,
    flags: u32,
    generation: u32,
    /// The seed of checksums of its extent blocks.
    seed: u32,
    /// Blocks of attributes, which count as the file's.
    held_blocks: u64,
    /// Map blocks that were found but not judged yet.
    outstanding: AtomicU32,
    /// Something of it was not followed: what depends on all of it is not judged.
    cut: AtomicU32,
    blocks: AtomicU64,
    /// Behind the last file block that is mapped, and that holds data.
    end: AtomicU64,
    written_end: AtomicU64,
    illegal: AtomicU64,
    /// With clusters: the first and the last of each node. The next node may go on in the last one,
    /// and nodes are not met in the order of the file, so that [`finish`] claims these.
    edges: ShortLock<Vec<Edges>>,
}

/// A map block that is to be read.
#[derive(Clone)]
pub(crate) struct MapBlock {
    pub(crate) block: BlockNo,
    pub(crate) walk: Arc<Walk>,
    shape: Shape,
    /// The first file block under it; behind the last that may be under it.
    first: u64,
    end: u64,
}

#[derive(Clone, Copy)]
enum Shape {
    /// Levels below it: 0 points to data.
    Indirect(u32),
    Extents(u16),
}

/// What one node adds to its walk.
#[derive(Default)]
pub(crate) struct Tally {
    blocks: u64,
    end: u64,
    written_end: u64,
    illegal: u64,
    told: u64,
    is_cut: bool,
    edges: Option<Edges>,
    directories: Vec<DirectoryBlock>,
}

/// A cluster of a file: which of the file's, and which of the volume's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cluster {
    of_file: u64,
    of_volume: u64,
}

/// The first and the last cluster of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edges {
    first: Cluster,
    /// `None` when the node has reached no other.
    last: Option<Cluster>,
}

impl Edges {
    fn end(self) -> Cluster {
        self.last.unwrap_or(self.first)
    }
}

impl Walk {
    pub(crate) fn new(
        ino: Ino,
        kind: Kind,
        inode: &Inode,
        held_blocks: u64,
        state: &State,
    ) -> Walk {
        Walk {
            ino,
            kind,
            size: inode.size,
            sectors: inode.sectors,
            flags: inode.flags,
            generation: inode.generation,
            seed: inode_seed(state.volume.superblock().checksum_seed, ino, inode.generation),
            held_blocks,
            outstanding: AtomicU32::new(0),
            cut: AtomicU32::new(0),
            blocks: AtomicU64::new(0),
            end: AtomicU64::new(0),
            written_end: AtomicU64::new(0),
            illegal: AtomicU64::new(0),
            edges: ShortLock::default(),
        }
    }

    fn add(&self, state: &State, tally: &mut Tally) {
        self.blocks.fetch_add(tally.blocks, Ordering::Relaxed);
        self.end.fetch_max(tally.end, Ordering::Relaxed);
        self.written_end.fetch_max(tally.written_end, Ordering::Relaxed);
        self.illegal.fetch_add(tally.illegal, Ordering::Relaxed);
        self.cut.fetch_or(tally.is_cut.into(), Ordering::Relaxed);
        self.edges.lock().extend(tally.edges);
        if !tally.directories.is_empty() {
            state.add_directory_blocks(&mut tally.directories);
        }
    }
}

/// What stands in the inode: claims the data that it points to, and gives the map blocks that hang
/// under it. When there are none the walk is over, and judged.
pub(crate) fn roots(state: &State, walk: Walk, inode: &Inode, children: &mut Vec<MapBlock>) {
    let walk = Arc::new(walk);
    let mut tally = Tally::default();
    let before = children.len();
    if inode.has_extents() && walk.kind != Kind::BadBlocks && walk.kind != Kind::Resize {
        root_of_extents(state, &walk, inode, &mut tally, children);
    } else {
        root_of_pointers(state, &walk, inode, &mut tally, children);
    }
    walk.add(state, &mut tally);
    let outstanding = u32::try_from(children.len() - before).unwrap_or(u32::MAX);
    walk.outstanding.store(outstanding, Ordering::Release);
    if outstanding == 0 {
        finish(state, &walk);
    }
}

/// A map block that was read: claims what it points to, and gives its children. The last one of a
/// walk ends it.
pub(crate) fn judge_block(
    state: &State,
    map_block: &MapBlock,
    bytes: &[u8],
    children: &mut Vec<MapBlock>,
) {
    let walk = &map_block.walk;
    let mut tally = Tally::default();
    let before = children.len();
    match map_block.shape {
        Shape::Indirect(below) => pointers(state, map_block, below, bytes, &mut tally, children),
        Shape::Extents(depth) => node_block(state, map_block, depth, bytes, &mut tally, children),
    }
    walk.add(state, &mut tally);
    let more = u32::try_from(children.len() - before).unwrap_or(u32::MAX);
    // Those that are added count before this one is done.
    walk.outstanding.fetch_add(more, Ordering::AcqRel);
    if walk.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
        finish(state, walk);
    }
}

fn root_of_pointers(
    state: &State,
    walk: &Arc<Walk>,
    inode: &Inode,
    tally: &mut Tally,
    children: &mut Vec<MapBlock>,
) {
    let direct = (0..indirect::DIRECT)
        .map(|index| (u64::from(index), indirect::pointer(&inode.block, index)));
    data_pointers(state, walk, direct, tally);
    let log2 = u32::from(state.volume.superblock().block_size_log2) - 2;
    let mut first = u64::from(indirect::DIRECT);
    for below in 0..3 {
        let root = indirect::pointer(&inode.block, indirect::DIRECT + below);
        let end = first + (1 << (log2 * (below + 1)));
        if root != 0 {
            let shape = Shape::Indirect(below);
            child(state, walk, BlockNo(root.into()), shape, first..end, tally, children);
        }
        first = end;
    }
}

fn pointers(
    state: &State,
    map_block: &MapBlock,
    below: u32,
    bytes: &[u8],
    tally: &mut Tally,
    children: &mut Vec<MapBlock>,
) {
    let (words, _) = bytes.as_chunks::<4>();
    let words = (0_u64..).zip(words).map(|(index, word)| (index, u32::from_le_bytes(*word)));
    let first = map_block.first;
    if below == 0 {
        return data_pointers(
            state,
            &map_block.walk,
            words.map(|(index, word)| (first + index, word)),
            tally,
        );
    }
    let log2 = u32::from(state.volume.superblock().block_size_log2) - 2;
    let under_each = 1_u64 << (log2 * below);
    for (index, pointer) in words.filter(|(_, pointer)| *pointer != 0) {
        let first = first + index * under_each;
        let range = first..first + under_each;
        let shape = Shape::Indirect(below - 1);
        child(state, &map_block.walk, BlockNo(pointer.into()), shape, range, tally, children);
    }
}

/// Pointers to data, as runs.
fn data_pointers(
    state: &State,
    walk: &Walk,
    pointers: impl Iterator<Item = (u64, u32)>,
    tally: &mut Tally,
) {
    let (mut first, mut start, mut length) = (0_u64, 0_u64, 0_u64);
    for (file_block, pointer) in pointers {
        let pointer = u64::from(pointer);
        if length > 0 && pointer == start + length && file_block == first + length {
            length += 1;
            continue;
        }
        if length > 0 {
            data(state, walk, first, BlockNo(start), length, extent::State::Written, tally);
        }
        (first, start, length) = (file_block, pointer, u64::from(pointer != 0));
    }
    if length > 0 {
        data(state, walk, first, BlockNo(start), length, extent::State::Written, tally);
    }
}

/// A pointer to a map block: claims it, and puts it on the list if it can be followed.
fn child(
    state: &State,
    walk: &Arc<Walk>,
    block: BlockNo,
    shape: Shape,
    range: std::ops::Range<u64>,
    tally: &mut Tally,
    children: &mut Vec<MapBlock>,
) {
    let problem = |code| Problem::new(code).ino(walk.ino).block(block).file_block(range.start);
    if block.0 <= state.volume.superblock().first_data_block.into() || !state.volume.holds(block) {
        tally.illegal += 1;
        tally.is_cut = true;
        let code = match shape {
            Shape::Indirect(_) => Code::IndirectOutside,
            Shape::Extents(_) => Code::MapBlockOutside,
        };
        return tell(state, tally, problem(code));
    }
    // With clusters a map block has one to itself.
    tally.blocks += u64::from(state.volume.cluster_blocks());
    let is_free = if state.is_searching() {
        search(state, walk, block, 1);
        !state.owners.is_full() && (!state.claims.is_double(block) || state.owners.follow(block))
    } else {
        // Whose data lies there too does not matter: only a map block that was followed is not
        // followed again. Of the map for growth only the root is no metadata.
        let is_root = matches!(shape, Shape::Indirect(1..));
        if walk.kind != Kind::Resize || is_root && !state.is_metadata(block) {
            state.claims.claim_run(block, 1);
        }
        state.followed.claim_run(block, 1)
    };
    let may_be_metadata = matches!(walk.kind, Kind::BadBlocks | Kind::Resize);
    if !may_be_metadata && state.is_metadata(block) {
        tally.is_cut = true;
        return tell(state, tally, problem(Code::MapBlockOnMetadata));
    }
    if !is_free {
        // Who was first follows it. Who that is must not depend on threads.
        state.set_order_matters();
        tally.is_cut = true;
        return;
    }
    children.push(MapBlock {
        block,
        walk: Arc::clone(walk),
        shape,
        first: range.start,
        end: range.end,
    });
}

fn tell(state: &State, tally: &mut Tally, problem: Problem) {
    if tally.told < TOLD_MAX {
        state.tell(problem);
    }
    tally.told += 1;
}

/// A run of data: claims it.
fn data(
    state: &State,
    walk: &Walk,
    file_block: u64,
    start: BlockNo,
    length: u64,
    written: extent::State,
    tally: &mut Tally,
) {
    let superblock = state.volume.superblock();
    let problem = |code| Problem::new(code).ino(walk.ino).block(start).file_block(file_block);
    let end = start.0.saturating_add(length);
    if start.0 < u64::from(superblock.first_data_block).max(1) || end > superblock.blocks_count {
        tally.illegal += length;
        return tell(state, tally, problem(Code::BlockOutside).found(length));
    }
    if walk.kind == Kind::BadBlocks {
        return bad_blocks(state, walk, start, length, tally);
    }
    if walk.kind == Kind::Resize {
        // All of it is metadata, and claimed as that.
        tally.blocks += length;
        tally.end = tally.end.max(file_block.saturating_add(length));
        tally.written_end = tally.end;
        return;
    }
    let file_end = file_block.saturating_add(length);
    if walk.kind == Kind::Directory
        && !directory_run(state, walk, file_block, start, length, written, tally)
    {
        return;
    }
    tally.end = tally.end.max(file_end);
    if written == extent::State::Written {
        tally.written_end = tally.written_end.max(file_end);
    }
    claim_data(state, walk, file_block, start, length, tally);
}

/// Pass 1b: collects the double blocks of a run.
fn search(state: &State, walk: &Walk, start: BlockNo, length: u64) {
    if state.owners.is_full() {
        return;
    }
    for block in state.claims.double_in(start, length) {
        state.owners.add(block, walk.ino);
    }
}

/// Claims a run, cluster by cluster where there are clusters.
fn claim_data(
    state: &State,
    walk: &Walk,
    file_block: u64,
    start: BlockNo,
    length: u64,
    tally: &mut Tally,
) {
    let cluster = u64::from(state.volume.cluster_blocks());
    if state.is_searching() {
        return search(state, walk, start, length);
    }
    if cluster == 1 {
        tally.blocks += length;
        if !state.claims.claim_run(start, length) && walk.kind == Kind::Directory {
            state.set_order_matters();
        }
        return;
    }
    if start.0 % cluster != file_block % cluster {
        let problem = Problem::new(Code::ClusterAlignment).ino(walk.ino);
        tell(state, tally, problem.block(start).file_block(file_block));
    }
    claim_clusters(state, file_block, start, length, tally);
}

/// Claims the clusters of a run but the first and the last of its node.
fn claim_clusters(state: &State, file_block: u64, start: BlockNo, length: u64, tally: &mut Tally) {
    let cluster = u64::from(state.volume.cluster_blocks());
    let at = |offset: u64| Cluster {
        of_file: (file_block + offset) / cluster,
        of_volume: (start.0 + offset) / cluster,
    };
    let claim = |from: u64, to: u64| {
        let clusters = to.saturating_sub(from);
        state.claims.claim_run(BlockNo(from * cluster), clusters * cluster);
    };
    let (first, last) = (at(0), at(length - 1));
    let before = tally.edges.map(Edges::end);
    let continues = before == Some(first);
    let count = last.of_volume - first.of_volume + u64::from(!continues);
    tally.blocks += count * cluster;
    if continues && last == first {
        return;
    }
    if let Some(edge) = tally.edges.and_then(|edges| edges.last) {
        claim(edge.of_volume, edge.of_volume + 1);
    }
    let is_edge = continues || before.is_none();
    claim(first.of_volume + u64::from(is_edge), last.of_volume);
    let has_more = before.is_some() || last != first;
    tally.edges = Some(Edges {
        first: tally.edges.map_or(first, |edges| edges.first),
        last: has_more.then_some(last),
    });
}

/// Lists the blocks of a directory. Tells whether they can be a directory's at all.
fn directory_run(
    state: &State,
    walk: &Walk,
    file_block: u64,
    start: BlockNo,
    length: u64,
    written: extent::State,
    tally: &mut Tally,
) -> bool {
    // The kernel reads directories of less than 2 GiB, or by an index with large_dir of any size
    // that has 32 bits.
    let log2 = u32::from(state.volume.superblock().block_size_log2);
    let most = if state.volume.superblock().has(super::superblock::LARGE_DIRECTORY) {
        u64::from(u32::MAX)
    } else {
        1 << 31_u32.saturating_sub(log2)
    };
    let problem = |code| Problem::new(code).ino(walk.ino).block(start).file_block(file_block);
    if file_block.saturating_add(length) > most {
        tally.illegal += length;
        tell(state, tally, problem(Code::DirectoryTooBig));
        return false;
    }
    if written == extent::State::Unwritten {
        tell(state, tally, problem(Code::DirectoryUnwritten));
    }
    for index in 0..length {
        tally.directories.push(DirectoryBlock {
            block: BlockNo(start.0 + index),
            ino: walk.ino,
            generation: walk.generation,
            file_block: u32::try_from(file_block + index).unwrap_or(u32::MAX),
        });
    }
    if tally.directories.len() > 4096 {
        state.add_directory_blocks(&mut tally.directories);
    }
    true
}

/// Blocks of the list of bad blocks.
fn bad_blocks(state: &State, walk: &Walk, start: BlockNo, length: u64, tally: &mut Tally) {
    tally.blocks += length;
    for block in (start.0..start.0 + length).map(BlockNo) {
        if state.is_searching() {
            search(state, walk, block, 1);
        } else if is_kept_for_growth(state, block) {
            // Nothing is stored there yet.
            continue;
        } else if state.is_metadata(block) {
            tell(state, tally, Problem::new(Code::BadMetadata).ino(walk.ino).block(block));
        } else {
            state.claims.claim_run(block, 1);
        }
    }
}

/// Whether a block is kept for descriptors that do not exist yet: a bad one harms nothing.
fn is_kept_for_growth(state: &State, block: BlockNo) -> bool {
    let group = state.volume.superblock().group_of_block(block);
    let copy = group.and_then(|group| state.volume.copy(group));
    let kept = copy.and_then(|copy| copy.reserved_descriptors);
    kept.is_some_and(|kept| (kept.first..=kept.last).contains(&block.0))
}

/// The head of an extent node.
struct Head {
    entries: usize,
    max: usize,
    depth: u16,
}

impl Head {
    /// `None` for bytes that are no node.
    fn parse(bytes: &[u8]) -> Option<Head> {
        let head = Head {
            entries: u16_at(bytes, 2).into(),
            max: u16_at(bytes, 4).into(),
            depth: u16_at(bytes, 6),
        };
        // Up to two places at the end may be left for a tail.
        let fits = bytes.len().saturating_sub(12) / 12;
        let room = fits.saturating_sub(2).max(1)..=fits;
        let is_node =
            u16_at(bytes, 0) == 0xf30a && head.entries <= head.max && room.contains(&head.max);
        is_node.then_some(head)
    }
}

fn root_of_extents(
    state: &State,
    walk: &Arc<Walk>,
    inode: &Inode,
    tally: &mut Tally,
    children: &mut Vec<MapBlock>,
) {
    let Some(head) = Head::parse(&inode.block) else {
        tally.is_cut = true;
        state.inodes.set_bad(walk.ino);
        return state.tell(Problem::new(Code::ExtentRoot).ino(walk.ino));
    };
    if head.depth > USEFUL_DEPTH {
        let problem = Problem::new(Code::ExtentDepth).ino(walk.ino);
        state.tell(problem.found(head.depth).expected(USEFUL_DEPTH));
    }
    let node = NodeAt { walk, place: None, range: 0..1 << 32 };
    node_entries(state, &node, &head, &inode.block, tally, children);
}

fn node_block(
    state: &State,
    map_block: &MapBlock,
    depth: u16,
    bytes: &[u8],
    tally: &mut Tally,
    children: &mut Vec<MapBlock>,
) {
    let walk = &map_block.walk;
    let problem =
        |code| Problem::new(code).ino(walk.ino).block(map_block.block).file_block(map_block.first);
    let Some(head) = Head::parse(bytes).filter(|head| head.depth == depth) else {
        tally.is_cut = true;
        return tell(state, tally, problem(Code::ExtentNode));
    };
    let checked = state.volume.superblock().has(Feature::METADATA_CSUM);
    if checked && extent::verify(bytes, walk.seed).is_err() {
        state.tell(problem(Code::ExtentChecksum));
    }
    // An index entry says where its child starts; the root of a tree may start behind 0.
    let starts = u64::from(u32_at(bytes, 12));
    if head.entries > 0 && starts != map_block.first {
        state.tell(problem(Code::ExtentStart).found(map_block.first).expected(starts));
    }
    let node = NodeAt { walk, place: Some(map_block.block), range: map_block.first..map_block.end };
    node_entries(state, &node, &head, bytes, tally, children);
}

/// A node and its place in the tree.
struct NodeAt<'a> {
    walk: &'a Arc<Walk>,
    /// `None` in the inode.
    place: Option<BlockNo>,
    /// File blocks that may be under it.
    range: std::ops::Range<u64>,
}

impl NodeAt<'_> {
    fn problem(&self, code: Code, file_block: u64) -> Problem {
        let problem = Problem::new(code).ino(self.walk.ino).file_block(file_block);
        Problem { block: self.place, ..problem }
    }
}

fn node_entries(
    state: &State,
    node: &NodeAt<'_>,
    head: &Head,
    bytes: &[u8],
    tally: &mut Tally,
    children: &mut Vec<MapBlock>,
) {
    let (entries, _) = bytes.get(12..).unwrap_or_default().as_chunks::<12>();
    let entries = entries.get(..head.entries).unwrap_or_default();
    if head.depth > 0 && entries.is_empty() {
        tell(state, tally, node.problem(Code::ExtentEmpty, node.range.start));
    }
    let mut free_from = 0;
    for (index, entry) in entries.iter().enumerate() {
        let file_block = u64::from(u32_at(entry, 0));
        if head.depth == 0 {
            leaf_entry(state, node, entry, file_block, &mut free_from, tally);
            continue;
        }
        if index > 0 && file_block < free_from {
            tally.illegal += 1;
            tell(state, tally, node.problem(Code::ExtentOrder, file_block));
            continue;
        }
        free_from = file_block + 1;
        let next = entries.get(index + 1).map(|next| u64::from(u32_at(next, 0)));
        let end = next.unwrap_or(node.range.end).min(node.range.end);
        let block = u64::from(u16_at(entry, 8)) << 32 | u64::from(u32_at(entry, 4));
        let shape = Shape::Extents(head.depth - 1);
        child(state, node.walk, BlockNo(block), shape, file_block..end, tally, children);
    }
}

fn leaf_entry(
    state: &State,
    node: &NodeAt<'_>,
    entry: &[u8; 12],
    file_block: u64,
    free_from: &mut u64,
    tally: &mut Tally,
) {
    let raw = u64::from(u16_at(entry, 4));
    let start = BlockNo(u64::from(u16_at(entry, 6)) << 32 | u64::from(u32_at(entry, 8)));
    let longest = u64::from(extent::MAX_LENGTH);
    let (length, written) = if raw > longest {
        (raw - longest, extent::State::Unwritten)
    } else {
        (raw, extent::State::Written)
    };
    let fault = if length == 0 {
        Some(Code::ExtentLength)
    } else if file_block < *free_from {
        Some(Code::ExtentOrder)
    } else if file_block + length > 1 << 32 {
        Some(Code::ExtentPastFile)
    } else if file_block + length > node.range.end {
        // That a node starts too early is told of the node.
        Some(Code::ExtentBounds)
    } else {
        None
    };
    if let Some(code) = fault {
        tally.illegal += 1;
        return tell(state, tally, node.problem(code, file_block).found(length));
    }
    *free_from = file_block + length;
    data(state, node.walk, file_block, start, length, written, tally);
}

/// All of a map was seen: what depends on all of it.
fn finish(state: &State, walk: &Walk) {
    let shared = claim_edges(state, walk);
    let illegal = walk.illegal.load(Ordering::Relaxed);
    if illegal > TOLD_MAX {
        state.tell(Problem::new(Code::ManyIllegalBlocks).ino(walk.ino).found(illegal));
    }
    if walk.kind == Kind::BadBlocks || walk.cut.load(Ordering::Relaxed) != 0 {
        return;
    }
    if illegal == 0 {
        finish_size(state, walk);
    }
    let superblock = state.volume.superblock();
    let sectors_per_block = u64::from(superblock.block_size() / 512);
    let shared_blocks = shared * u64::from(state.volume.cluster_blocks());
    let blocks = walk.blocks.load(Ordering::Relaxed).saturating_sub(shared_blocks);
    let expected = (blocks + walk.held_blocks) * sectors_per_block;
    if expected != walk.sectors {
        let problem = Problem::new(Code::SectorCount).ino(walk.ino);
        state.tell(problem.found(walk.sectors).expected(expected));
    }
}

/// Claims the first and the last cluster of each node, in the order of the file. Returns how many
/// were counted by two nodes that follow each other.
fn claim_edges(state: &State, walk: &Walk) -> u64 {
    let cluster = u64::from(state.volume.cluster_blocks());
    let mut edges = walk.edges.lock();
    edges.sort_unstable();
    let claim = |edge: Cluster| state.claims.claim_run(BlockNo(edge.of_volume * cluster), cluster);
    let (mut before, mut shared) = (None, 0);
    for edges in edges.iter() {
        if before == Some(edges.first) {
            shared += 1;
        } else {
            claim(edges.first);
        }
        edges.last.map(claim);
        before = Some(edges.end());
    }
    shared
}

/// The size of a file against what its map has.
fn finish_size(state: &State, walk: &Walk) {
    const VERITY: u32 = 0x10_0000;
    let block_size = u64::from(state.volume.superblock().block_size());
    let problem = |code| Problem::new(code).ino(walk.ino).found(walk.size);
    let end = walk.end.load(Ordering::Relaxed);
    match walk.kind {
        Kind::Directory if end == 0 => state.tell(problem(Code::DirectoryWithoutBlocks)),
        Kind::Directory if walk.size != end * block_size => {
            state.tell(problem(Code::DirectorySize).expected(end * block_size));
        }
        Kind::Regular | Kind::Resize => {
            let last = walk.written_end.load(Ordering::Relaxed).saturating_sub(1) * block_size;
            if walk.size < last && walk.flags & VERITY == 0 {
                state.tell(problem(Code::FileSize).expected(last + block_size));
            }
        }
        _ => {}
    }
}
