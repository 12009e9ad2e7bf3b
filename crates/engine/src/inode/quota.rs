//! What each user, group and project has, as the quota files of the volume count it: inodes and
//! bytes. Limits and times in the files stay as they are, and no limit holds anybody up.
//!
//! What an inode counts for is compared with what it counted for before whenever it is stored, and
//! the difference goes into the entries of its owners at once, in the operation that stores it. So
//! with a journal the transaction that has the inode has the counts too. An owner without an entry
//! gets one before anything else changes, as far as the operation knows the owner by then.
//!
//! ```text
//! new_inode, change of owner or project ----> prepare   an entry for each owner
//! NodeState::store, and freeing an inode ---> change    the difference, into the entries
//! ```
//!
//! *Invariants*: when an operation ends, each entry has what the inodes that are stored count for.
//! Files are read, and their trees checked, before a volume is written. Entries stay when their
//! owner has nothing any more.
//! *Locking*: `files` is a sleeping lock, taken with an operation open. Frames are changed after
//! it is released, but for those of a new entry.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::credits::QUOTA_ENTRY;
use crate::inode::mapping;
use crate::inode::node::NodeState;
use crate::inode::operation::{self, Operation, QuotaFiles};
use crate::inode::shares::{Counted, Share};
use crate::inode::table;
use crate::inode::volume::Volume;
use crate::policy::allocation::Purpose;
use crate::ranks;
use crate::store::cache::{BlockKind, Frame};
use extant_block::SleepLock;
use extant_format::extent::State;
use extant_format::inode::FileType;
use extant_format::quota_file::{self, BLOCK_BYTES, EntryChange, Head, ROOT_BLOCK, STEPS};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, FileBlock, Ino};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Blocks of a quota file, at most: 900,000 entries.
const BLOCKS_MAX: u32 = 1 << 16;

/// The quota files of a volume.
struct Quotas {
    files: SleepLock<Vec<QuotaFile>>,
}

/// Where an entry is.
#[derive(Clone, Copy)]
struct Spot {
    block: BlockNo,
    offset: usize,
}

/// One file, of users (0), groups (1) or projects (2).
struct QuotaFile {
    kind: usize,
    state: NodeState,
    /// Where the blocks of the file are on the volume.
    places: Vec<BlockNo>,
    head: Head,
    entries: FxHashMap<u32, Spot>,
    /// The lists of free blocks and of leaves with room, the first one last.
    free_blocks: Vec<u32>,
    leaves_with_room: Vec<u32>,
}

/// Reads the quota files of a volume that is to be written, and has every operation count in them
/// from then on. Nothing for a volume that has none, or is only read.
///
/// # Errors
/// `Corrupt` for a file that cannot be; what the device returns.
pub(crate) fn attach(volume: &mut Volume) -> Result<()> {
    let superblock = &volume.store.superblock;
    let inodes = superblock.quota_inodes();
    let has_files = superblock.has(Feature::QUOTA) && inodes != [Ino(0); 3];
    if !has_files || volume.store.check_writable().is_err() {
        return Ok(());
    }
    let mut files: Vec<QuotaFile> = Vec::new();
    for (kind, ino) in inodes.into_iter().enumerate().filter(|(_, ino)| ino.0 != 0) {
        if files.iter().any(|file| file.state.ino == ino) {
            return Err(wrong(ino, "inode", ino.0.into(), "two quota files in one"));
        }
        files.push(QuotaFile::read(volume, kind, ino)?);
    }
    let clock = Arc::clone(&volume.store.clock);
    let files = SleepLock::new(clock, files).ranked(ranks::QUOTAS);
    operation::count_in(volume, Box::new(Quotas { files }));
    Ok(())
}

impl QuotaFiles for Quotas {
    fn prepare(&self, operation: &Operation<'_>, ids: [u32; 3]) -> Result<()> {
        let was_whole = operation.is_whole();
        let mut files = self.files.lock();
        for file in &mut *files {
            file.spot(operation, ids.get(file.kind).copied().unwrap_or_default())?;
        }
        if was_whole {
            operation.note_whole();
        }
        Ok(())
    }

    fn change(&self, operation: &Operation<'_>, before: &Counted, after: &Counted) -> Result<()> {
        let mut changes: Vec<(Spot, EntryChange)> = Vec::with_capacity(6);
        let mut files = self.files.lock();
        for file in &mut *files {
            for (id, change) in differences(file.kind, before, after).into_iter().flatten() {
                changes.push((file.spot(operation, id)?, change));
            }
        }
        drop(files);
        for (Spot { block, offset }, change) in changes {
            let frame = operation.volume().store.cache.read(block, BlockKind::Plain)?;
            operation.modify_beside(&frame, |bytes| {
                let (start, at) = (offset - offset % UNIT, offset % UNIT);
                if let Some(leaf) = bytes.get_mut(start..start + UNIT) {
                    quota_file::change_entry(leaf, at, change);
                }
            });
        }
        Ok(())
    }
}

/// Bytes of a block of a quota file.
const UNIT: usize = BLOCK_BYTES as usize;

/// By how much the entries of one file change.
fn differences(kind: usize, before: &Counted, after: &Counted) -> [Option<(u32, EntryChange)>; 2] {
    let part = |counted: &Counted| match counted.as_deref().map(|account| &account.share) {
        Some(Share::Of(ids, bytes, inodes)) => ids.get(kind).map(|id| {
            let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
            (*id, EntryChange { inodes: i64::from(*inodes), bytes })
        }),
        Some(Share::Ended) | None => None,
    };
    match (part(before), part(after)) {
        (Some((old, from)), Some((new, to))) if old == new => {
            let (inodes, bytes) = (to.inodes - from.inodes, to.bytes - from.bytes);
            let change = EntryChange { inodes, bytes };
            [(change != EntryChange::default()).then_some((new, change)), None]
        }
        (old, new) => {
            [old.map(|(id, old)| (id, EntryChange { inodes: -old.inodes, bytes: -old.bytes })), new]
        }
    }
}

/// The error for a file that has as many blocks as it may have.
fn full() -> Error {
    ErrorKind::NoSpace { wanted_blocks: 1, free_blocks: 0 }.into()
}

fn wrong(ino: Ino, field: &'static str, value: u64, reason: &'static str) -> Error {
    Error::field(Place::Inode(ino), "quota file", field, value, reason)
}

impl QuotaFile {
    /// Reads and checks a file.
    fn read(volume: &Volume, kind: usize, ino: Ino) -> Result<QuotaFile> {
        let is_reserved = ino == Ino::USER_QUOTA || ino == Ino::GROUP_QUOTA;
        let is_user = volume.store.superblock.is_usable(ino) && ino != Ino::ROOT;
        if !is_reserved && !is_user {
            return Err(wrong(ino, "inode", ino.0.into(), "not one of a quota file: run e2fsck"));
        }
        let mut state = NodeState::new(volume, ino, table::load(volume, ino)?);
        state.counted = None;
        if state.inode.file_type() != Some(FileType::Regular) {
            let mode = state.inode.mode.into();
            return Err(wrong(ino, "mode", mode, "not that of a file: run e2fsck"));
        }
        let blocks = state.inode.size.div_ceil(u64::from(volume.store.block_size()));
        let size_max = u64::from(BLOCKS_MAX) * BLOCK_BYTES;
        if state.inode.size > size_max || blocks > volume.store.superblock.blocks_count {
            return Err(wrong(ino, "size", state.inode.size, "larger than such a file can be"));
        }
        let mut places = Vec::new();
        for number in 0..u32::try_from(blocks).unwrap_or(u32::MAX) {
            let piece = mapping::find(volume, &state, FileBlock(number), 1)?;
            let mapping::Piece::Run(run, State::Written) = piece else {
                return Err(wrong(ino, "block", number.into(), "not mapped: run e2fsck"));
            };
            mapping::check_data(volume, &state, run)?;
            places.push(run.start);
        }
        let mut file = QuotaFile {
            kind,
            places,
            head: Head { blocks: 1, free_block: 0, free_entry: 0 },
            state,
            entries: FxHashMap::default(),
            free_blocks: Vec::new(),
            leaves_with_room: Vec::new(),
        };
        let size = file.state.inode.size;
        let head = match file.places.is_empty() {
            true => None,
            false => Head::parse(kind, &file.bytes(volume, 0)?, size),
        };
        let reason = "not one of a quota file: run e2fsck";
        file.head = head.ok_or_else(|| wrong(ino, "head", 0, reason))?;
        Tree::default().read(volume, &mut file)?;
        Ok(file)
    }

    /// The frame that has a block of the file, and where it begins there.
    fn frame(&self, volume: &Volume, block: u32) -> Result<(Arc<Frame>, usize)> {
        let byte = u64::from(block) * BLOCK_BYTES;
        let block_size = u64::from(volume.store.block_size());
        let place = usize::try_from(byte / block_size).ok().and_then(|at| self.places.get(at));
        let Some(place) = place.filter(|_| block < self.head.blocks) else {
            return Err(self.wrong(block, "after the end of the file: run e2fsck"));
        };
        let frame = volume.store.cache.read(*place, BlockKind::Plain)?;
        Ok((frame, (byte % block_size) as usize))
    }

    /// The bytes of a block.
    fn bytes(&self, volume: &Volume, block: u32) -> Result<Vec<u8>> {
        let (frame, at) = self.frame(volume, block)?;
        Ok(frame.copy(at, UNIT))
    }

    fn wrong(&self, block: u32, reason: &'static str) -> Error {
        wrong(self.state.ino, "pointer to block", block.into(), reason)
    }

    /// Where the entry of an id is, which is made if there is none.
    fn spot(&mut self, operation: &Operation<'_>, id: u32) -> Result<Spot> {
        match self.entries.get(&id) {
            Some(spot) => Ok(*spot),
            None => self.make_entry(operation, id),
        }
    }

    /// Makes an entry: blocks of the tree that lead to it, as far as there are none, and a leaf, if
    /// none has room.
    fn make_entry(&mut self, operation: &Operation<'_>, id: u32) -> Result<Spot> {
        operation.need_beside(QUOTA_ENTRY);
        let volume = operation.volume();
        let bytes = id.to_be_bytes();
        let mut path = vec![ROOT_BLOCK];
        for (at, byte) in (0..).zip(bytes.iter().take(STEPS as usize - 1)) {
            let Some(here) = path.get(at) else { break };
            match quota_file::child(&self.bytes(volume, *here)?, *byte) {
                0 => break,
                child => path.push(child),
            }
        }
        let known = path.len();
        let with_room = self.leaves_with_room.last().copied();
        let missing = STEPS as usize - known + usize::from(with_room.is_none());
        let mut fresh = self.take_blocks(operation, missing)?.into_iter();
        let leaf = match with_room.or_else(|| fresh.next()) {
            Some(leaf) => leaf,
            None => return Err(full()),
        };
        path.extend(fresh);
        path.push(leaf);
        if with_room.is_none() {
            self.leaves_with_room.push(leaf);
        }
        let spot = self.fill_leaf(operation, leaf, id)?;
        // From the leaf to the root: nothing leads to a block before it is filled.
        let steps = bytes.iter().zip(path.iter().zip(path.iter().skip(1)));
        let from = known.saturating_sub(1);
        for (byte, (above, below)) in steps.skip(from).collect::<Vec<_>>().into_iter().rev() {
            let (frame, at) = self.frame(volume, *above)?;
            operation.modify(&frame, |block| {
                if let Some(block) = block.get_mut(at..at + UNIT) {
                    quota_file::set_child(block, *byte, *below);
                }
            });
        }
        self.store_head(operation)?;
        self.state.store(operation)?;
        self.entries.insert(id, spot);
        Ok(spot)
    }

    /// Puts an entry into the first leaf with room, which leaves the list if it is full then.
    fn fill_leaf(&mut self, operation: &Operation<'_>, leaf: u32, id: u32) -> Result<Spot> {
        let (frame, start) = self.frame(operation.volume(), leaf)?;
        let at = quota_file::room_at(&frame.copy(start, UNIT));
        let at = at.ok_or_else(|| self.wrong(leaf, "a leaf without room: run e2fsck"))?;
        let is_full = operation.modify(&frame, |block| {
            let leaf = block.get_mut(start..start + UNIT).unwrap_or_default();
            quota_file::begin_entry(leaf, at, id);
            debug_assert_eq!(quota_file::entry_at(leaf, id), Some(at));
            quota_file::room_at(leaf).is_none()
        });
        if is_full {
            self.leaves_with_room.pop();
            if let Some(next) = self.leaves_with_room.last() {
                let (frame, at) = self.frame(operation.volume(), *next)?;
                operation.modify(&frame, |block| {
                    let leaf = block.get_mut(at..at + UNIT).unwrap_or_default();
                    quota_file::set_first_with_room(leaf);
                });
            }
        }
        Ok(Spot { block: frame.block(), offset: start + at })
    }

    /// Takes blocks that are free, or makes the file longer. They are zeros.
    fn take_blocks(&mut self, operation: &Operation<'_>, count: usize) -> Result<Vec<u32>> {
        let volume = operation.volume();
        let again = count.min(self.free_blocks.len());
        let more = (count - again) as u32;
        let after = self.head.blocks.saturating_add(more);
        if after > BLOCKS_MAX {
            return Err(full());
        }
        let block_size = volume.store.block_size();
        let places = u64::from(after) * BLOCK_BYTES;
        let places = places.div_ceil(block_size.into()) as usize;
        let (first, added) = (self.places.len(), places.saturating_sub(self.places.len()));
        if added > 0 {
            let first = FileBlock(first as u32);
            let need = mapping::worst_case(volume, &self.state, first, added as u64);
            let mut reservation = volume.space.reserve(need)?;
            for at in first.0..first.0.saturating_add(added as u32) {
                let (block, purpose) = (FileBlock(at), Purpose::Data);
                let (held, node) = (&mut reservation, &mut self.state);
                let run =
                    mapping::allocate(operation, held, node, block, 1, purpose, State::Written)?;
                operation.create(run.start, BlockKind::Plain, |_| ());
                self.places.push(run.start);
            }
            mapping::window::discard(operation, &mut self.state)?;
        }
        let mut taken = self.free_blocks.split_off(self.free_blocks.len() - again);
        taken.reverse();
        taken.extend(self.head.blocks..after);
        self.head.blocks = after;
        let size = u64::from(after) * BLOCK_BYTES;
        self.state.inode.size = self.state.inode.size.max(size);
        for block in &taken {
            let (frame, at) = self.frame(volume, *block)?;
            operation.modify(&frame, |bytes| {
                bytes.get_mut(at..at + UNIT).unwrap_or_default().fill(0);
            });
        }
        Ok(taken)
    }

    fn store_head(&mut self, operation: &Operation<'_>) -> Result<()> {
        let first = |list: &[u32]| list.last().copied().unwrap_or(0);
        self.head.free_block = first(&self.free_blocks);
        self.head.free_entry = first(&self.leaves_with_room);
        let (frame, at) = self.frame(operation.volume(), 0)?;
        let head = self.head;
        operation.modify(&frame, |block| {
            head.store(block.get_mut(at..at + UNIT).unwrap_or_default());
        });
        Ok(())
    }
}

/// What is known of a tree while it is read: each of its blocks is met once.
#[derive(Default)]
struct Tree {
    inner: FxHashSet<u32>,
    leaves: FxHashSet<u32>,
}

impl Tree {
    /// Reads the entries of a file, and its lists.
    fn read(mut self, volume: &Volume, file: &mut QuotaFile) -> Result<()> {
        let mut pending = vec![(ROOT_BLOCK, 1, 0_u32)];
        while let Some((block, step, high)) = pending.pop() {
            if !self.inner.insert(block) {
                return Err(file.wrong(block, "met twice in the tree: run e2fsck"));
            }
            let bytes = file.bytes(volume, block)?;
            for byte in 0..=u8::MAX {
                let below = quota_file::child(&bytes, byte);
                let id = high << 8 | u32::from(byte);
                if below == 0 {
                    continue;
                }
                if below <= ROOT_BLOCK {
                    return Err(file.wrong(below, "not one of the tree: run e2fsck"));
                }
                match step < STEPS {
                    true => pending.push((below, step + 1, id)),
                    false => self.note_entry(volume, file, below, id)?,
                }
            }
        }
        if self.leaves.iter().any(|leaf| self.inner.contains(leaf)) {
            return Err(file.wrong(ROOT_BLOCK, "to a leaf that is none: run e2fsck"));
        }
        self.read_lists(volume, file)
    }

    /// Notes where the entry of an id is, in the leaf that the tree leads to.
    fn note_entry(
        &mut self,
        volume: &Volume,
        file: &mut QuotaFile,
        leaf: u32,
        id: u32,
    ) -> Result<()> {
        let (frame, start) = file.frame(volume, leaf)?;
        let at =
            frame.bytes().get(start..start + UNIT).and_then(|leaf| quota_file::entry_at(leaf, id));
        let at = at.ok_or_else(|| file.wrong(leaf, "without the entry of the id: run e2fsck"))?;
        self.leaves.insert(leaf);
        file.entries.insert(id, Spot { block: frame.block(), offset: start + at });
        Ok(())
    }

    /// Reads the lists of free blocks and of leaves with room.
    fn read_lists(&self, volume: &Volume, file: &mut QuotaFile) -> Result<()> {
        let mut met = FxHashSet::default();
        let mut next = file.head.free_block;
        while next != 0 {
            let is_used = self.inner.contains(&next) || self.leaves.contains(&next);
            if is_used || !met.insert(next) {
                return Err(file.wrong(next, "said to be free: run e2fsck"));
            }
            file.free_blocks.push(next);
            next = quota_file::next_free(&file.bytes(volume, next)?);
        }
        let mut next = file.head.free_entry;
        while next != 0 {
            let bytes = file.bytes(volume, next)?;
            let has_room = quota_file::room_at(&bytes).is_some();
            // One that is full, and first, is how a new file may be made.
            if !has_room && next == file.head.free_entry && quota_file::next_free(&bytes) == 0 {
                break;
            }
            if !has_room || !self.leaves.contains(&next) || !met.insert(next) {
                return Err(file.wrong(next, "said to have room: run e2fsck"));
            }
            file.leaves_with_room.push(next);
            next = quota_file::next_free(&bytes);
        }
        file.free_blocks.reverse();
        file.leaves_with_room.reverse();
        Ok(())
    }
}
