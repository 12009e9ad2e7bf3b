//! What pass 1 finds out of every inode, and how many entries pass 2 finds for it: one word each.
//!
//! *Invariants*: the word of an inode that is not in use is 0; facts are set once, by the thread
//! that judges the inode; afterwards links are only added and the mark of a bad inode only set,
//! but between two checks, when one thread sets links, and forgets or withdraws entries.
//! *Locking*: none; each word is an atomic of its own.
use crate::slabs::Slabs;
use extant_format::Ino;
use extant_format::inode::FileType;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Inodes whose words are allocated together, when the first of them is found to be in use.
const CHUNK: usize = 1024;

fn chunk() -> Box<[AtomicU64]> {
    (0..CHUNK).map(|_| AtomicU64::new(0)).collect()
}

/// What is known of an inode, packed into one word: 0 for one that is not in use.
///
/// ```text
/// bits 0..16 links on the disk | 16..24 marks | 24..27 file type | 32..64 entries that were found
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct InodeFacts(u64);

const USED: u64 = 1 << 16;
const BAD: u64 = 1 << 17;
const INDEXED: u64 = 1 << 18;
const ATTRIBUTE_INODE: u64 = 1 << 19;
const ENCRYPTED: u64 = 1 << 20;
const CASEFOLDED: u64 = 1 << 21;
const NAMELESS: u64 = 1 << 22;
const RESERVED: u64 = 1 << 23;
const TYPE_SHIFT: u32 = 24;
const COUNT_SHIFT: u32 = 32;

impl InodeFacts {
    /// Facts of an inode in use, with its links on the disk. `None`: the mode has no type.
    pub(crate) fn new(file_type: Option<FileType>, links: u16) -> InodeFacts {
        let code = file_type.map_or(0, FileType::entry_code);
        InodeFacts(u64::from(links) | USED | u64::from(code) << TYPE_SHIFT)
    }

    /// Its map or fields are so wrong that its content is not judged; it would be cleared.
    #[must_use]
    pub(crate) fn bad(self) -> InodeFacts {
        InodeFacts(self.0 | BAD)
    }

    /// A directory with a hash index.
    #[must_use]
    pub(crate) fn indexed(self) -> InodeFacts {
        InodeFacts(self.0 | INDEXED)
    }

    /// An inode that holds the value of an attribute.
    #[must_use]
    pub(crate) fn attribute_inode(self) -> InodeFacts {
        InodeFacts(self.0 | ATTRIBUTE_INODE)
    }

    /// A directory with encrypted names.
    #[must_use]
    pub(crate) fn encrypted(self) -> InodeFacts {
        InodeFacts(self.0 | ENCRYPTED)
    }

    /// A directory whose names know no case.
    #[must_use]
    pub(crate) fn casefolded(self) -> InodeFacts {
        InodeFacts(self.0 | CASEFOLDED)
    }

    /// An inode of the system: it needs no name.
    #[must_use]
    pub(crate) fn reserved(self) -> InodeFacts {
        InodeFacts(self.0 | RESERVED)
    }

    /// A file that must not have a name.
    #[must_use]
    pub(crate) fn nameless(self) -> InodeFacts {
        InodeFacts(self.0 | NAMELESS)
    }

    /// Whether an entry may point to it: it is in use, and may have a name.
    #[inline]
    pub(crate) fn may_be_named(self) -> bool {
        self.0 & (USED | NAMELESS) == USED
    }

    pub(crate) fn is_reserved(self) -> bool {
        self.0 & RESERVED != 0
    }

    pub(crate) fn is_used(self) -> bool {
        self.0 & USED != 0
    }

    pub(crate) fn is_bad(self) -> bool {
        self.0 & BAD != 0
    }

    pub(crate) fn is_indexed(self) -> bool {
        self.0 & INDEXED != 0
    }

    pub(crate) fn is_attribute_inode(self) -> bool {
        self.0 & ATTRIBUTE_INODE != 0
    }

    pub(crate) fn is_encrypted(self) -> bool {
        self.0 & ENCRYPTED != 0
    }

    pub(crate) fn is_casefolded(self) -> bool {
        self.0 & CASEFOLDED != 0
    }

    pub(crate) fn is_directory(self) -> bool {
        self.file_type() == Some(FileType::Directory)
    }

    pub(crate) fn file_type(self) -> Option<FileType> {
        FileType::from_entry_code((self.0 >> TYPE_SHIFT & 7) as u8)
    }

    /// Links that the inode says it has.
    pub(crate) fn links(self) -> u16 {
        (self.0 & 0xffff) as u16
    }

    /// Entries that were found to point to it.
    pub(crate) fn counted(self) -> u32 {
        (self.0 >> COUNT_SHIFT) as u32
    }
}

/// [`InodeFacts`] of all inodes of the volume; memory follows the inodes that are in use.
pub(crate) struct InodeFactsTable {
    count: u32,
    chunks: Slabs<OnceLock<Box<[AtomicU64]>>>,
}

impl InodeFactsTable {
    /// Of that many inodes, none of them in use.
    pub(crate) fn new(count: u32) -> InodeFactsTable {
        InodeFactsTable { count, chunks: Slabs::new(u64::from(count) / CHUNK as u64 + 1) }
    }

    fn slot(&self, ino: Ino) -> Option<&AtomicU64> {
        let index = ino.0.checked_sub(1).filter(|index| *index < self.count)? as usize;
        self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)
    }

    /// An inode is in use.
    pub(crate) fn set(&self, ino: Ino, facts: InodeFacts) {
        let Some(index) = ino.0.checked_sub(1).filter(|index| *index < self.count) else {
            return;
        };
        let index = index as usize;
        let Some(chunk) = self.chunks.make(index / CHUNK) else {
            return;
        };
        if let Some(slot) = chunk.get_or_init(self::chunk).get(index % CHUNK) {
            slot.store(facts.0, Ordering::Relaxed);
        }
    }

    /// What is known of an inode; not in use for one that does not exist.
    pub(crate) fn get(&self, ino: Ino) -> InodeFacts {
        InodeFacts(self.slot(ino).map_or(0, |slot| slot.load(Ordering::Relaxed)))
    }

    /// The inode says that it has this many links now. It is in use before and after that.
    pub(crate) fn set_links(&self, ino: Ino, links: u16) {
        if let Some(slot) = self.slot(ino) {
            slot.store(
                slot.load(Ordering::Relaxed) & !0xffff | u64::from(links),
                Ordering::Relaxed,
            );
        }
    }

    /// Forgets the entries that were found.
    pub(crate) fn forget_entries(&self) {
        let slots = self.chunks.made().flat_map(|(_, chunk)| chunk.get().into_iter().flatten());
        for slot in slots {
            slot.fetch_and((1 << COUNT_SHIFT) - 1, Ordering::Relaxed);
        }
    }

    /// An entry points to it.
    pub(crate) fn count_link(&self, ino: Ino) {
        if let Some(slot) = self.slot(ino) {
            slot.fetch_add(1 << COUNT_SHIFT, Ordering::Relaxed);
        }
    }

    /// An entry that was counted is not there any more.
    pub(crate) fn uncount_link(&self, ino: Ino) {
        if let Some(slot) = self.slot(ino) {
            slot.fetch_sub(1 << COUNT_SHIFT, Ordering::Relaxed);
        }
    }

    /// It was found to be bad after all.
    pub(crate) fn set_bad(&self, ino: Ino) {
        if let Some(slot) = self.slot(ino) {
            slot.fetch_or(BAD, Ordering::Relaxed);
        }
    }

    /// Whether any of these inodes may be in use; asked before each is looked at.
    pub(crate) fn any_used(&self, first: Ino, count: u32) -> bool {
        let from = first.0.saturating_sub(1) as usize / CHUNK;
        let to = (first.0 as usize + count as usize).div_ceil(CHUNK);
        self.chunks.any_made(from, to)
            && (from..to).any(|at| self.chunks.get(at).is_some_and(|it| it.get().is_some()))
    }

    /// All inodes in use, rising.
    pub(crate) fn used(&self) -> impl Iterator<Item = (Ino, InodeFacts)> + '_ {
        self.chunks.made().flat_map(|(number, chunk)| {
            let slots = chunk.get().map(|slots| &slots[..]).unwrap_or_default();
            let first = number * CHUNK + 1;
            slots.iter().enumerate().filter_map(move |(index, slot)| {
                let facts = InodeFacts(slot.load(Ordering::Relaxed));
                let ino = u32::try_from(first + index).ok()?;
                facts.is_used().then_some((Ino(ino), facts))
            })
        })
    }
}
