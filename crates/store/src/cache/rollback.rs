//! Soft updates: what a sweep writes of a block while not all of its changes may be on the disk.
//!
//! A sweep freezes all dirty frames together. Some blocks hold changes of both kinds: a table block
//! one new inode, which has to be on the disk before its name, and one freed inode, whose name has
//! to be gone from the disk before. Such a block is written twice. First without the changes that
//! wait (McKusick and Ganger, 1999, call it rolled back), later as it is:
//!
//! ```text
//! block                 early image                                 final image
//! inode bitmap, blocks' what is in use, or was                      after all tables
//! inode table           freed inodes as they were, lost names       after the names
//!                       still counted as links
//! new directory block   without names of new inodes                 with the names
//! ```
//!
//! An early image that is what the disk has already is not written.
//!
//! *Invariants*: `FrameState::durable` is what the disk has of a dirty table block or bitmap, as of
//! the last sweep; none if the block's bytes on the disk do not matter. Names that were removed
//! since the last sweep are counted in `removals`. The blocks of a removed directory are in
//! `emptied` if the disk still has names in them: while the directory's inode is there, its blocks
//! name nothing that is not.
//! *Locking*: `removals` and `emptied` are short locks under which no other is taken.
use super::{BlockKind, Cache, FrameState, FrameStatus, Stage};
use crate::ranks;
use extant_block::ShortLock;
use extant_format::directory::Style;
use extant_format::inode::{Inode, StoredInode};
use extant_format::superblock::Superblock;
use extant_format::{BlockNo, Ino};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes for a block, other than those of its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Early {
    pub(super) block: BlockNo,
    pub(super) bytes: Arc<Vec<u8>>,
}

/// What a block is, of those that may be rolled back by their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// A block of an inode table; its first inode.
    Table(Ino),
    /// An inode bitmap; its first inode.
    InodeBitmap(Ino),
    /// A block bitmap.
    BlockBitmap,
}

/// What a group has of these.
#[derive(Clone, Copy)]
pub(crate) struct GroupPlaces {
    /// Its first inode.
    pub(crate) first: Ino,
    /// The first block of its table.
    pub(crate) table: BlockNo,
    /// Its bitmap of inodes.
    pub(crate) inode_bitmap: BlockNo,
    /// Its bitmap of blocks.
    pub(crate) block_bitmap: BlockNo,
}

/// See the head of the file.
pub(crate) struct Rollback {
    superblock: Superblock,
    style: Style,
    /// First block of each table, and its first inode.
    tables: BTreeMap<u64, Ino>,
    bitmaps: FxHashMap<BlockNo, Role>,
    /// Names that inodes lost since the last sweep.
    removals: ShortLock<FxHashMap<Ino, u16>>,
    /// Blocks of removed directories that no frame holds any more.
    emptied: ShortLock<Vec<Early>>,
}

/// What a sweep knows of the changes since the last one.
pub struct SweepChanges {
    /// Inodes that the disk does not have yet.
    pub(super) new: FxHashSet<Ino>,
    /// Names that inodes lost.
    pub(super) removals: FxHashMap<Ino, u16>,
}

impl SweepChanges {
    /// Whether a new directory block must not name this inode yet.
    fn hides(&self, ino: Ino) -> bool {
        self.new.contains(&ino) || self.removals.contains_key(&ino)
    }
}

impl Rollback {
    /// For a volume with these groups.
    pub(crate) fn new(
        superblock: &Superblock,
        style: Style,
        groups: impl Iterator<Item = GroupPlaces>,
    ) -> Rollback {
        let (mut tables, mut bitmaps) = (BTreeMap::new(), FxHashMap::default());
        for group in groups {
            tables.insert(group.table.0, group.first);
            bitmaps.insert(group.inode_bitmap, Role::InodeBitmap(group.first));
            bitmaps.insert(group.block_bitmap, Role::BlockBitmap);
        }
        Rollback {
            superblock: superblock.clone(),
            style,
            tables,
            bitmaps,
            removals: ShortLock::ranked(ranks::LAST, FxHashMap::default()),
            emptied: ShortLock::ranked(ranks::LAST, Vec::new()),
        }
    }

    /// What a block is by its place; `None` for all other blocks.
    pub(super) fn role(&self, block: BlockNo) -> Option<Role> {
        if let Some(role) = self.bitmaps.get(&block) {
            return Some(*role);
        }
        let (start, first) = self.tables.range(..=block.0).next_back()?;
        let into = u32::try_from(block.0 - start).ok()?;
        if into >= self.superblock.inode_table_blocks() {
            return None;
        }
        let per_block = self.superblock.block_size() / u32::from(self.superblock.inode_size).max(1);
        Some(Role::Table(Ino(first.0.saturating_add(into.saturating_mul(per_block)))))
    }

    /// Notes that an inode loses a name, in an operation.
    fn note_removal(&self, ino: Ino) {
        let mut removals = self.removals.lock();
        let count = removals.entry(ino).or_default();
        *count = count.saturating_add(1);
    }

    /// Takes the counts of names that were removed, while no operation is open.
    pub(super) fn take_removals(&self) -> FxHashMap<Ino, u16> {
        std::mem::take(&mut *self.removals.lock())
    }

    /// Takes the blocks of removed directories, by block.
    pub(super) fn take_emptied(&self) -> Vec<Early> {
        let mut emptied = std::mem::take(&mut *self.emptied.lock());
        emptied.sort_by_key(|early| early.block);
        emptied
    }

    /// The table block, which begins with this inode, without what has to wait.
    pub(super) fn early_table(
        &self,
        first: Ino,
        durable: Option<&[u8]>,
        after: &[u8],
        changes: &SweepChanges,
    ) -> Vec<u8> {
        let size = usize::from(self.superblock.inode_size).max(1);
        let mut early = after.to_vec();
        for (slot, at) in early.chunks_exact_mut(size).zip(0u32..) {
            let ino = Ino(first.0.saturating_add(at));
            if StoredInode::new(slot).links() == 0 {
                let offset = at as usize * size;
                let before = durable.and_then(|durable| durable.get(offset..offset + size));
                if let Some(before) = before.filter(|before| StoredInode::new(before).links() > 0) {
                    slot.copy_from_slice(before);
                }
            } else if let Some(lost) = changes.removals.get(&ino) {
                let mut inode = Inode::decode(slot, &self.superblock);
                inode.links = inode.links.saturating_add(*lost);
                inode.encode(slot, ino, &self.superblock);
            }
        }
        early
    }

    /// A new directory block without the names that have to wait; `None` if there are none.
    pub(super) fn early_directory(&self, after: &[u8], changes: &SweepChanges) -> Option<Vec<u8>> {
        let waits = |name: &[u8], ino| name != b"." && name != b".." && changes.hides(ino);
        let names: Vec<&[u8]> = self
            .style
            .entries(after)
            .map_while(Result::ok)
            .filter(|entry| waits(entry.name, entry.ino))
            .map(|entry| entry.name)
            .collect();
        if names.is_empty() {
            return None;
        }
        let mut early = after.to_vec();
        for name in names {
            // It was just found there.
            let _ = self.style.remove(&mut early, name);
        }
        Some(early)
    }
}

/// A bitmap in which all is in use that is, or that was.
pub(super) fn early_bitmap(durable: Option<&[u8]>, after: &[u8]) -> Vec<u8> {
    let durable = durable.unwrap_or_default().iter().copied().chain(std::iter::repeat(0));
    after.iter().zip(durable).map(|(after, before)| after | before).collect()
}

/// The inodes of a bitmap that begins with `first`, in use now and not before.
pub(super) fn new_inodes<'b>(
    first: Ino,
    durable: Option<&'b [u8]>,
    after: &'b [u8],
) -> impl Iterator<Item = Ino> + 'b {
    let durable = durable.unwrap_or_default();
    after.iter().enumerate().flat_map(move |(at, after)| {
        let new = after & !durable.get(at).copied().unwrap_or(0);
        (0..8u32).filter(move |bit| new >> bit & 1 == 1).map(move |bit| {
            // A bitmap has at most 65,536 bytes.
            Ino(first.0.saturating_add(at as u32 * 8 + bit))
        })
    })
}

impl Cache {
    /// Notes that an inode loses a name, where a sweep rolls back.
    pub fn note_removal(&self, ino: Ino) {
        if let Some(rollback) = self.rollback.get() {
            rollback.note_removal(ino);
        }
    }

    /// Keeps what the disk has of a table block or bitmap that is about to be changed.
    pub(super) fn keep_durable(&self, block: BlockNo, state: &mut FrameState) {
        let is_durable = matches!(state.status, FrameStatus::Clean | FrameStatus::Writing);
        if is_durable
            && state.durable.is_none()
            && self.rollback.get().is_some_and(|rollback| rollback.role(block).is_some())
        {
            state.durable = Some(Arc::clone(&state.bytes));
        }
    }

    /// Keeps a directory's block for the next sweep, whose frame is forgotten: the disk still has
    /// names in it that it does not have any more.
    pub(super) fn keep_emptied(&self, block: BlockNo, state: &FrameState) {
        let is_changed = matches!(state.kind, BlockKind::Directory { .. })
            && state.status == FrameStatus::Dirty
            && state.stage != Stage::New;
        if let Some(rollback) = self.rollback.get().filter(|_| is_changed) {
            let mut bytes = state.bytes.to_vec();
            state.kind.seal(&mut bytes, block, &self.checksums);
            rollback.emptied.lock().push(Early { block, bytes: Arc::new(bytes) });
        }
    }
}
