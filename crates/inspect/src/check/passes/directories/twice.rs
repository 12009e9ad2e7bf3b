//! Names that are in two blocks of one directory. A look-up finds one of them; e2fsck looks within
//! blocks only, so this is advice.
//!
//! In indexed directories equal names have equal hashes and so are together. In others every name
//! of a directory of several blocks is noted by a hash; what then looks alike is read again and
//! compared.
//!
//! *Invariants*: at most [`NOTES_MAX`] names are noted by all threads together; above that none is
//! reported.
//! *Locking*: one short lock around the notes, held when a thread ends a batch.
use super::entries::{Shape, quick_hash};
use super::tree::Tree;
use crate::check::codes::Code;
use crate::check::facts::{DirectoryBlock, Facts};
use crate::check::problem::Problem;
use crate::check::reader::Reader;
use crate::error::Error;
use extant_block::ShortLock;
use extant_format::Ino;
use extant_format::directory::stored::is_dots;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names that are noted: 64 MiB.
const NOTES_MAX: usize = 4 << 20;

/// A name, as far as it is noted.
type Note = (Ino, u64);

/// Names of directories of several blocks.
#[derive(Default)]
pub(crate) struct Notes {
    directories: FxHashSet<Ino>,
    names: ShortLock<Vec<Note>>,
    count: AtomicUsize,
}

impl Notes {
    /// For the directories that are not indexed and have several of these blocks.
    pub(crate) fn of(facts: &Facts, blocks: &[DirectoryBlock]) -> Notes {
        let later = blocks.iter().filter(|block| block.file_block > 0);
        let directories =
            later.map(|block| block.ino).filter(|ino| !facts.inodes.get(*ino).is_indexed());
        Notes { directories: directories.collect(), ..Notes::default() }
    }

    /// Whether names of this directory are noted.
    pub(crate) fn wants(&self, ino: Ino) -> bool {
        !self.directories.is_empty() && self.directories.contains(&ino)
    }

    /// Takes what one thread noted.
    pub(crate) fn append(&self, names: &mut Vec<Note>) {
        let before = self.count.fetch_add(names.len(), Ordering::Relaxed);
        if before < NOTES_MAX {
            self.names.lock().append(names);
        }
        names.clear();
    }
}

/// Reports names that are in several blocks, but for the first block by number.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(facts: &Facts, tree: &Tree, notes: &Notes) -> Result<(), Error> {
    let mut names = std::mem::take(&mut *notes.names.lock());
    if notes.count.load(Ordering::Relaxed) > NOTES_MAX {
        // Which names were not noted depends on the threads; what is reported may not.
        return Ok(());
    }
    names.sort_unstable();
    let alike = names.windows(2).filter_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    });
    let alike: FxHashSet<Note> = alike.collect();
    if alike.is_empty() {
        return Ok(());
    }
    let directories: FxHashSet<Ino> = alike.iter().map(|note| note.0).collect();
    let own = tree.blocks.iter().filter(|block| directories.contains(&block.ino));
    let mut blocks: Vec<DirectoryBlock> = own.copied().collect();
    blocks.sort_unstable_by_key(|block| (block.ino, block.file_block));
    let mut first: FxHashMap<(Ino, Vec<u8>), u32> = FxHashMap::default();
    let mut reader = Reader::default();
    for block in &blocks {
        reader.read(facts, "directory", std::slice::from_ref(block), |block| block.block)?;
        let shape = Shape::of(facts, facts.inodes.get(block.ino));
        shape.entries.walk(reader.item(0), 0, &mut |entry| {
            if entry.ino == 0
                || is_dots(entry.name)
                || !alike.contains(&(block.ino, quick_hash(entry.name)))
            {
                return;
            }
            let before = *first.entry((block.ino, entry.name.to_vec())).or_insert(block.file_block);
            if before != block.file_block {
                let problem = Problem::new(Code::EntryTwiceApart).ino(block.ino);
                let problem = problem.file_block(block.file_block.into()).name(entry.name);
                facts.report(problem.found(before));
            }
        });
    }
    Ok(())
}
