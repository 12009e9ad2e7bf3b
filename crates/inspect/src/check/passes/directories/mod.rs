//! Pass 2: the blocks of directories, in the order of the disk.
//!
//! ```text
//! entries   what is wrong with entries by themselves
//! tree      which directory is in which
//! piece     entries of a block or an inode, and what they point to: links are counted
//!   inline  directories in their inodes
//! index     the hash index
//! twice     names that are in two blocks of a directory
//! again     blocks that a repair has written, and no others
//! ```
//!
//! *Invariants*: each block is judged once, by one thread, from its bytes, the facts of pass 1 and
//! nothing else; what two threads may write are counters and the lowest place, which do not depend
//! on the order.
//! *Locking*: findings of the index have one short lock, held when a thread ends.
pub(crate) mod again;
mod entries;
mod index;
mod inline;
mod piece;
mod tree;
mod twice;

pub(crate) use tree::Tree;

use crate::check::codes::Code;
use crate::check::facts::{DirectoryBlock, Facts};
use crate::check::options::ReadOrder;
use crate::check::problem::Problem;
use crate::check::reader::Reader;
use crate::check::rule::Pass;
use crate::check::work::Worker;
use crate::error::Error;
use entries::{Dot, Seen, Shape, quick_hash};
use extant_block::ShortLock;
use extant_format::checksum::inode_seed;
use extant_format::directory::stored::{ChainEnd, StoredEntry, is_dots, leaf_checksums};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};
use index::{BlockContent, IndexedBlock};
use piece::Piece;
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::sync::Arc;
use twice::Notes;

/// Batches that are being fetched while those before them are judged.
const FETCHED_AHEAD: u64 = 4;

/// What the threads of this pass share.
struct DirectoryPass {
    facts: Arc<Facts>,
    tree: Arc<Tree>,
    /// Which blocks are read together.
    batches: Vec<Range<usize>>,
    /// What blocks of indexed directories say.
    index: ShortLock<Vec<IndexedBlock>>,
    /// Names that may be in several blocks of a directory.
    notes: Notes,
}

impl DirectoryPass {
    /// The blocks of a batch, and the number of the first in the tree.
    fn batch(&self, number: u64) -> Option<(usize, &[DirectoryBlock])> {
        let range = self.batches.get(usize::try_from(number).ok()?)?.clone();
        Some((range.start, self.tree.blocks.get(range)?))
    }

    /// Has a batch fetched, if there is one. The checkers of the time of vanilla order did not.
    fn fetch(&self, number: u64) {
        if let (Some((_, batch)), ReadOrder::DiskOrder) =
            (self.batch(number), self.facts.read_order)
        {
            Reader::fetch(&self.facts, batch, place);
        }
    }
}

/// Judges all directories. Gives the tree that they are.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(facts: &Arc<Facts>) -> Result<Arc<Tree>, Error> {
    let blocks = facts.directories.take_blocks();
    let inline = facts.directories.take_inline();
    let directories = facts.inodes.used().filter(|(_, known)| known.is_directory());
    let inodes = directories.map(|(ino, _)| ino).collect();
    let batches = Reader::batches(facts, &blocks, place);
    facts.begin(Pass::Directories, (blocks.len() * facts.volume.block_size()) as u64);
    let notes = Notes::of(facts, &blocks);
    let tree = Arc::new(Tree::new(inodes, inline, blocks));
    let pass = Arc::new(DirectoryPass {
        facts: Arc::clone(facts),
        tree: Arc::clone(&tree),
        batches,
        index: ShortLock::default(),
        notes,
    });
    (0..FETCHED_AHEAD).for_each(|piece| pass.fetch(piece));
    facts.threads.share::<DirectoryReader>("directories", &pass, pass.batches.len() as u64)?;
    inline::judge(facts, &tree)?;
    holes(facts, &tree);
    linked_twice(facts, &tree, &pass.batches)?;
    twice::judge(facts, &tree, &pass.notes)?;
    let found = std::mem::take(&mut *pass.index.lock());
    index::judge(facts, &tree, found)?;
    Ok(tree)
}

fn place(block: &DirectoryBlock) -> BlockNo {
    block.block
}

/// A thread that reads blocks of directories.
#[derive(Default)]
struct DirectoryReader {
    reader: Reader,
    memory: Memory,
}

/// What a thread remembers.
#[derive(Default)]
struct Memory {
    seen: Seen,
    index: Vec<IndexedBlock>,
    names: Vec<(Ino, u64)>,
}

impl Worker for DirectoryReader {
    type Shared = DirectoryPass;

    fn work(&mut self, pass: &DirectoryPass, piece: u64) -> Result<(), Error> {
        pass.fetch(piece.saturating_add(FETCHED_AHEAD));
        let Some((first, batch)) = pass.batch(piece) else { return Ok(()) };
        self.reader.read(&pass.facts, "directory", batch, place)?;
        for (at, block) in batch.iter().enumerate() {
            let place = pass.tree.place_of_block(first + at);
            let bytes = self.reader.item(at);
            if !bytes.is_empty() {
                self.memory.judge(pass, block, place, bytes);
            }
        }
        pass.notes.append(&mut self.memory.names);
        Ok(())
    }

    fn finish(&mut self, pass: &DirectoryPass) -> Result<(), Error> {
        pass.index.lock().append(&mut self.memory.index);
        Ok(())
    }
}

impl Memory {
    fn judge(&mut self, pass: &DirectoryPass, block: &DirectoryBlock, place: u32, bytes: &[u8]) {
        let facts = &*pass.facts;
        let piece = Piece::new(facts, &pass.tree, block.ino, block.file_block, place);
        let superblock = facts.volume.superblock();
        let end = judge_entries(&piece, bytes, &mut self.seen);
        if pass.notes.wants(block.ino) {
            note_names(facts, block, bytes, &mut self.names);
        }
        let directory = facts.inodes.get(block.ino);
        let is_indexed = directory.is_indexed() && superblock.has(Feature::DIR_INDEX);
        let content =
            is_indexed.then(|| index::read(facts, directory, piece.shape, block.file_block, bytes));
        match end {
            ChainEnd::Broken(offset) => piece.report(Code::DirectoryChain, |problem| {
                problem.block(block.block).found(offset as u64)
            }),
            ChainEnd::Block | ChainEnd::Tail if superblock.has(Feature::METADATA_CSUM) => {
                let seed = inode_seed(superblock.checksum_seed, block.ino, block.generation);
                judge_checksum(&piece, content.as_ref(), end, bytes, seed);
            }
            ChainEnd::Block | ChainEnd::Tail => {}
        }
        if let Some(content) = content {
            self.index.push(IndexedBlock::new(block, content));
        }
    }
}

/// Notes the names of a block of a directory.
fn note_names(facts: &Facts, block: &DirectoryBlock, bytes: &[u8], names: &mut Vec<(Ino, u64)>) {
    let shape = Shape::of(facts, facts.inodes.get(block.ino));
    shape.entries.walk(bytes, 0, &mut |entry| {
        if entry.ino != 0 && !is_dots(entry.name) {
            names.push((block.ino, quick_hash(entry.name)));
        }
    });
}

/// Judges the checksum of a block whose entries are whole.
fn judge_checksum(
    piece: &Piece<'_>,
    content: Option<&BlockContent>,
    end: ChainEnd,
    bytes: &[u8],
    seed: u32,
) {
    match content.and_then(|content| index::checksums(content, bytes, seed)) {
        Some(sums) => compare_checksums(piece, Code::IndexChecksum, sums),
        None if end == ChainEnd::Tail => {
            compare_checksums(piece, Code::DirectoryChecksum, leaf_checksums(bytes, seed));
        }
        None => piece.report(Code::DirectoryNoChecksum, |problem| problem),
    }
}

fn compare_checksums(piece: &Piece<'_>, code: Code, (stored, computed): (u32, u32)) {
    if stored != computed {
        piece.report(code, |problem| problem.found(stored).expected(computed));
    }
}

/// Judges all entries of a block.
fn judge_entries(piece: &Piece<'_>, bytes: &[u8], seen: &mut Seen) -> ChainEnd {
    seen.begin(bytes.len());
    let mut first = match piece.file_block {
        0 => Some(Dot::Itself),
        _ => None,
    };
    piece.shape.entries.walk(bytes, 0, &mut |entry| match first {
        Some(dot) => {
            piece.dot(dot, entry);
            if entry.ino != 0 {
                seen.note(bytes, entry);
            }
            first = (dot == Dot::Itself).then_some(Dot::Parent);
        }
        None if entry.ino != 0 => {
            let met = seen.note(bytes, entry);
            piece.named(entry, met);
        }
        None => {}
    })
}

/// Reports blocks that are missing before the last.
fn holes(facts: &Facts, tree: &Tree) {
    let mut blocks: Vec<(Ino, u32)> =
        tree.blocks.iter().map(|block| (block.ino, block.file_block)).collect();
    blocks.sort_unstable();
    let mut rest = blocks.as_slice();
    for &ino in tree.inodes() {
        let before = rest.partition_point(|block| block.0 < ino);
        let (_, from) = rest.split_at(before);
        let (own, after) = from.split_at(from.partition_point(|block| block.0 == ino));
        rest = after;
        let known = facts.inodes.get(ino);
        if known.is_bad() || tree.inline.binary_search(&ino).is_ok() {
            continue;
        }
        let hole = |first: u32, count: u32| {
            let problem = Problem::new(Code::DirectoryHole).ino(ino);
            facts.report(problem.file_block(first.into()).found(count));
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

/// Reports all entries for a directory but the first. Rare, so the blocks are simply read again, in
/// order.
fn linked_twice(facts: &Facts, tree: &Tree, batches: &[Range<usize>]) -> Result<(), Error> {
    let twice: FxHashSet<Ino> = tree.linked_twice().into_iter().collect();
    if twice.is_empty() {
        return Ok(());
    }
    let mut met: FxHashSet<Ino> = FxHashSet::default();
    let mut visit = |owner: Ino, file_block: u32, entry: &StoredEntry<'_>| {
        let ino = Ino(entry.ino);
        let is_counted =
            twice.contains(&ino) && ino != owner && !(file_block == 0 && is_dots(entry.name));
        if is_counted && !met.insert(ino) {
            let problem =
                Problem::new(Code::DirectoryTwice).ino(owner).file_block(file_block.into());
            facts.report(problem.name(entry.name).other(ino));
        }
    };
    entries_again(facts, tree, batches, &mut visit)
}

/// All used entries but `.` and `..`, read once more, with the directories that they are in: those
/// in inodes first, then by place on the disk.
///
/// # Errors
/// When the device fails.
pub(crate) fn each_entry(
    facts: &Facts,
    tree: &Tree,
    visit: &mut dyn FnMut(Ino, &StoredEntry<'_>),
) -> Result<(), Error> {
    let batches = Reader::batches(facts, &tree.blocks, place);
    entries_again(facts, tree, &batches, &mut |owner, _, entry| visit(owner, entry))
}

fn entries_again(
    facts: &Facts,
    tree: &Tree,
    batches: &[Range<usize>],
    visit: &mut dyn FnMut(Ino, u32, &StoredEntry<'_>),
) -> Result<(), Error> {
    inline::each_entry(facts, tree, &mut |owner, entry| visit(owner, 0, entry))?;
    let mut reader = Reader::default();
    for range in batches {
        let batch = tree.blocks.get(range.clone()).unwrap_or_default();
        reader.read(facts, "directory", batch, place)?;
        for (at, block) in batch.iter().enumerate() {
            let shape = Shape::of(facts, facts.inodes.get(block.ino));
            let mut dots = if block.file_block == 0 { 2 } else { 0 };
            shape.entries.walk(reader.item(at), 0, &mut |entry| {
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
