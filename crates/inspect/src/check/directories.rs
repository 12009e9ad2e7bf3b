//! Pass 2: the blocks of directories, in the order of the disk.
//!
//! *Invariants*: each block is judged once, by one thread, from its bytes, the facts of pass 1 and
//! nothing else; what two threads may write are counters and the lowest place, which do not depend
//! on who is first.
//! *Locking*: none here; problems and findings have their own.
use super::codes::Code;
use super::entries::{Dot, End, Entry, Names, Seen, Shape, TAIL, is_dots, quick_hash};
use super::index;
use super::inline;
use super::problem::{Pass, Problem};
use super::reader::Reader;
use super::state::{DirectoryBlock, Facts, State};
use super::tree::Tree;
use super::twice::{self, Notes};
use super::words::u32_at;
use super::work::{Worker, share};
use crate::error::Error;
use crate::fields;
use extant_format::checksum::{crc32c, inode_seed};
use extant_format::inode::FileType;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// The encoding's flag that names must be valid in it.
const STRICT_ENCODING: u16 = 1;

/// Judges all directories, and leaves a tree.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(state: &Arc<State>) -> Result<(), Error> {
    let mut blocks = std::mem::take(&mut *state.directories.lock());
    blocks.sort_unstable();
    let mut inline = std::mem::take(&mut *state.inline_directories.lock());
    inline.sort_unstable();
    let directories = state.inodes.used().filter(|(_, facts)| facts.is_directory());
    let inodes = directories.map(|(ino, _)| ino).collect();
    let batches = Reader::batches(state, &blocks, place);
    let (pieces, bytes) = (batches.len() as u64, (blocks.len() * state.volume.block_size()) as u64);
    state.meter.begin(Pass::Directories, bytes, &*state.clock);
    let notes = Notes::of(state, &blocks);
    let tree = Tree::new(inodes, inline, blocks, batches, notes);
    let Ok(()) = state.tree.set(tree) else { return Ok(()) };
    let Some(tree) = state.tree.get() else { return Ok(()) };
    share::<Judge>(state, "directories", pieces)?;
    inline::judge(state, tree)?;
    holes(state, tree);
    linked_twice(state, tree)?;
    twice::judge(state, tree)?;
    index::judge(state, tree)
}

fn place(block: &DirectoryBlock) -> BlockNo {
    block.block
}

/// What entries of one piece of directory are judged with.
pub(crate) struct Piece<'a> {
    pub(crate) state: &'a State,
    pub(crate) tree: &'a Tree,
    pub(crate) ino: Ino,
    pub(crate) file_block: u32,
    pub(crate) place: u32,
    pub(crate) shape: Shape,
    pub(crate) is_typed: bool,
}

/// How blocks of a directory look.
pub(crate) fn shape(state: &State, facts: Facts) -> Shape {
    let strict = facts.is_casefolded()
        && state.volume.fields().u16(fields::ENCODING + 2) & STRICT_ENCODING != 0;
    let names = match (facts.is_encrypted(), strict) {
        (true, _) => Names::Encrypted,
        (false, true) => Names::Text,
        (false, false) => Names::Plain,
    };
    let is_hashed = facts.is_encrypted() && facts.is_casefolded();
    Shape {
        block_size: state.volume.block_size(),
        names,
        hash_bytes: if is_hashed { 8 } else { 0 },
    }
}

impl Piece<'_> {
    #[cold]
    fn tell(&self, code: Code, detail: impl FnOnce(Problem) -> Problem) {
        let problem = Problem::new(code).ino(self.ino).file_block(self.file_block.into());
        self.state.tell(detail(problem));
    }

    /// Judges a used entry that is neither of the first two.
    #[inline]
    pub(crate) fn named(&self, entry: &Entry<'_>, is_twice: bool) {
        let ino = Ino(entry.ino);
        if let Some(code) = self.shape.name_problem(entry.name) {
            self.tell(code, |problem| problem.name(entry.name).other(ino));
        } else if is_twice {
            self.tell(Code::EntryTwice, |problem| problem.name(entry.name));
        }
        let Some(facts) = self.target(entry) else { return };
        if ino == self.ino {
            self.tell(Code::EntryToSelf, |problem| problem.name(entry.name));
        } else if ino == Ino::ROOT {
            self.tell(Code::EntryToRoot, |problem| problem.name(entry.name));
        } else if facts.is_directory() {
            self.tree.add_entry(ino, self.place);
        } else if facts.is_attribute_inode() {
            self.tell(Code::EntryToValue, |problem| problem.name(entry.name).other(ino));
        }
    }

    /// Judges what any entry points to, and counts it; `None` when that is not in use.
    #[inline]
    fn target(&self, entry: &Entry<'_>) -> Option<Facts> {
        let ino = Ino(entry.ino);
        let facts = self.state.inodes.get(ino);
        // What has no link is only kept for those who have it open.
        if !facts.is_used() || facts.links() == 0 || !self.state.volume.superblock().is_usable(ino)
        {
            self.not_there(entry);
            return None;
        }
        self.state.inodes.count_link(ino);
        if entry.code != 0 {
            self.typed(entry, facts);
        }
        Some(facts)
    }

    #[cold]
    fn not_there(&self, entry: &Entry<'_>) {
        let code = if self.state.volume.superblock().is_usable(Ino(entry.ino)) {
            Code::EntryUnused
        } else {
            Code::EntryInode
        };
        self.tell(code, |problem| problem.name(entry.name).other(Ino(entry.ino)));
    }

    #[inline]
    fn typed(&self, entry: &Entry<'_>, facts: Facts) {
        let detail =
            |problem: Problem| problem.name(entry.name).other(Ino(entry.ino)).found(entry.code);
        if !self.is_typed {
            self.tell(Code::EntryTyped, detail);
            return;
        }
        // What the judge of an inode would clear has no type.
        let Some(expected) =
            facts.file_type().map(FileType::entry_code).filter(|_| !facts.is_bad())
        else {
            return;
        };
        if entry.code != expected {
            self.tell(Code::EntryType, |problem| detail(problem).expected(expected));
        }
    }

    /// Judges one of the first two entries of a directory.
    fn dot(&self, dot: Dot, entry: &Entry<'_>) {
        let problem = dot.problem(entry);
        if let Some(code) = problem {
            self.tell(code, |problem| problem.name(entry.name));
        }
        if entry.ino == 0 {
            return;
        }
        match dot {
            Dot::Itself => {
                // One more entry would fit behind it, and one must.
                if entry.length > 24 {
                    self.tell(Code::DotTooLong, |problem| {
                        problem.found(entry.length as u64).expected(12_u64)
                    });
                }
                if entry.ino != self.ino.0 {
                    self.tell(Code::DotWrong, |problem| problem.other(Ino(entry.ino)));
                }
            }
            Dot::Parent if problem.is_none() => self.tree.set_dotdot(self.ino, Ino(entry.ino)),
            Dot::Parent => {}
        }
        let _ = self.target(entry);
    }
}

/// A thread.
#[derive(Default)]
struct Judge {
    reader: Reader,
    memory: Memory,
}

/// What it remembers.
#[derive(Default)]
struct Memory {
    seen: Seen,
    index: Vec<index::Block>,
    names: Vec<(Ino, u64)>,
}

impl Worker for Judge {
    fn work(&mut self, state: &Arc<State>, piece: u64) -> Result<(), Error> {
        let Some(tree) = state.tree.get() else { return Ok(()) };
        let range = usize::try_from(piece).ok().and_then(|piece| tree.batches.get(piece));
        let Some(range) = range.cloned() else { return Ok(()) };
        let batch = tree.blocks.get(range.clone()).unwrap_or_default();
        self.reader.read(state, "directory", batch, place)?;
        for (at, block) in batch.iter().enumerate() {
            let place = tree.place_of_block(range.start + at);
            let bytes = self.reader.item(at);
            if !bytes.is_empty() {
                self.memory.judge(state, tree, (block, place), bytes);
            }
        }
        tree.notes.append(&mut self.memory.names);
        Ok(())
    }

    fn finish(&mut self, state: &Arc<State>) -> Result<(), Error> {
        if let Some(tree) = state.tree.get() {
            tree.index.lock().append(&mut self.memory.index);
        }
        Ok(())
    }
}

impl Memory {
    fn judge(
        &mut self,
        state: &State,
        tree: &Tree,
        (block, place): (&DirectoryBlock, u32),
        bytes: &[u8],
    ) {
        let facts = state.inodes.get(block.ino);
        let superblock = state.volume.superblock();
        let piece = Piece {
            state,
            tree,
            ino: block.ino,
            file_block: block.file_block,
            place,
            shape: shape(state, facts),
            is_typed: superblock.has(Feature::FILETYPE),
        };
        let end = judge_entries(&piece, bytes, &mut self.seen);
        if tree.notes.wants(block.ino) {
            piece.shape.walk(bytes, 0, &mut |entry| {
                if entry.ino != 0 && !is_dots(entry.name) {
                    self.names.push((block.ino, quick_hash(entry.name)));
                }
            });
        }
        let is_indexed = facts.is_indexed() && superblock.has(Feature::DIR_INDEX);
        let what = is_indexed.then(|| index::read(state, &piece, facts, bytes));
        match end {
            End::Broken(offset) => piece.tell(Code::DirectoryChain, |problem| {
                problem.block(block.block).found(offset as u64)
            }),
            End::Block | End::Tail if superblock.has(Feature::METADATA_CSUM) => {
                let seed = inode_seed(superblock.checksum_seed, block.ino, block.generation);
                judge_checksum(&piece, what.as_ref(), end, bytes, seed);
            }
            End::Block | End::Tail => {}
        }
        if let Some(what) = what {
            self.index.push(index::Block::new(block, what));
        }
    }
}

/// Judges the checksum of a block whose entries are whole.
fn judge_checksum(
    piece: &Piece<'_>,
    what: Option<&index::What>,
    end: End,
    bytes: &[u8],
    seed: u32,
) {
    match what.and_then(|what| index::checksum(what, bytes, seed)) {
        Some(sum) => checksum(piece, Code::IndexChecksum, sum),
        None if end == End::Tail => {
            let capacity = bytes.len().saturating_sub(TAIL);
            let computed = crc32c(seed, bytes.get(..capacity).unwrap_or_default());
            checksum(piece, Code::DirectoryChecksum, (u32_at(bytes, capacity + 8), computed));
        }
        None => piece.tell(Code::DirectoryNoChecksum, |problem| problem),
    }
}

fn checksum(piece: &Piece<'_>, code: Code, (stored, computed): (u32, u32)) {
    if stored != computed {
        piece.tell(code, |problem| problem.found(stored).expected(computed));
    }
}

/// Judges all entries of a block.
fn judge_entries(piece: &Piece<'_>, bytes: &[u8], seen: &mut Seen) -> End {
    seen.begin(bytes.len());
    let mut first = match piece.file_block {
        0 => Some(Dot::Itself),
        _ => None,
    };
    piece.shape.walk(bytes, 0, &mut |entry| match first {
        Some(dot) => {
            piece.dot(dot, entry);
            if entry.ino != 0 {
                seen.is_there(bytes, entry);
            }
            first = (dot == Dot::Itself).then_some(Dot::Parent);
        }
        None if entry.ino != 0 => {
            let is_twice = seen.is_there(bytes, entry);
            piece.named(entry, is_twice);
        }
        None => {}
    })
}

/// Tells of blocks that are missing before the last.
fn holes(state: &State, tree: &Tree) {
    let mut blocks: Vec<(Ino, u32)> =
        tree.blocks.iter().map(|block| (block.ino, block.file_block)).collect();
    blocks.sort_unstable();
    let mut rest = blocks.as_slice();
    for &ino in tree.inodes() {
        let before = rest.partition_point(|block| block.0 < ino);
        let (_, from) = rest.split_at(before);
        let (own, after) = from.split_at(from.partition_point(|block| block.0 == ino));
        rest = after;
        let facts = state.inodes.get(ino);
        if facts.is_bad() || tree.inline.binary_search(&ino).is_ok() {
            continue;
        }
        let hole = |first: u32, count: u32| {
            let problem = Problem::new(Code::DirectoryHole).ino(ino);
            state.tell(problem.file_block(first.into()).found(count));
        };
        if own.is_empty() {
            hole(0, 1);
        }
        let mut next = 0_u32;
        for &(_, file_block) in own {
            if file_block > next {
                hole(next, file_block - next);
            }
            next = file_block.saturating_add(1);
        }
    }
}

/// Tells of all entries for a directory but the first. Rare, so the blocks are simply read again,
/// in order.
fn linked_twice(state: &Arc<State>, tree: &Tree) -> Result<(), Error> {
    let twice: FxHashSet<Ino> = tree.linked_twice().into_iter().collect();
    if twice.is_empty() {
        return Ok(());
    }
    let mut met: FxHashSet<Ino> = FxHashSet::default();
    let mut visit = |owner: Ino, file_block: u32, entry: &Entry<'_>| {
        let ino = Ino(entry.ino);
        let is_counted =
            twice.contains(&ino) && ino != owner && !(file_block == 0 && is_dots(entry.name));
        if is_counted && !met.insert(ino) {
            let problem =
                Problem::new(Code::DirectoryTwice).ino(owner).file_block(file_block.into());
            state.tell(problem.name(entry.name).other(ino));
        }
    };
    inline::each_entry(state, tree, &mut |owner, entry| visit(owner, 0, entry))?;
    let mut reader = Reader::default();
    for range in &tree.batches {
        let batch = tree.blocks.get(range.clone()).unwrap_or_default();
        reader.read(state, "directory", batch, place)?;
        for (at, block) in batch.iter().enumerate() {
            let shape = shape(state, state.inodes.get(block.ino));
            let mut dots = if block.file_block == 0 { 2 } else { 0 };
            shape.walk(reader.item(at), 0, &mut |entry| {
                if dots > 0 {
                    dots -= 1;
                } else if entry.ino != 0 {
                    visit(block.ino, block.file_block, entry);
                }
            });
        }
    }
    Ok(())
}
