//! An inode in memory.
//!
//! ```text
//!            Nodes::get, insert               a caller              store, store_now
//! (absent) ----------------------> stored ---------------> changed -----------------> stored
//!     ^                              | |                      |
//!     +-------- Shard::evict --------+ +---- free_locked -----+----> gone: each use is NotFound
//! ```
//!
//! *Invariants*: a thread that changes a node's inode stores it, or notes it as unstored, before it
//! unlocks the node. `delayed` is a subset of `dirty`; as many blocks are promised as `delayed`
//! and `placed` have, and `promised_map` more. With data first, `table_size` never counts data that
//! was not submitted.
//! *Locking*: `state` is a sleeping lock: parent before child, then by rising inode number. The
//! other fields that change are atomic, or have locks of their own.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::credits;
use crate::inode::known_names::DirectorySerial;
use crate::inode::lazy_pages::{LazyPages, Paged};
use crate::inode::operation::Operation;
use crate::inode::placed::{Chosen, Placed};
use crate::inode::shares::{Counted, counted};
use crate::inode::table::{place, table_frame};
use crate::inode::volume::Volume;
use crate::policy::allocation::LastAllocation;
use crate::ranks;
use crate::runs::RunSet;
use extant_block::{Clock, SleepRwLock};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::journal::Sequence;
use extant_format::{FileBlock, Ino, Run};
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// One inode in memory.
pub(crate) struct Node {
    pub(crate) ino: Ino,
    /// Its type, which never changes; `None` if its mode has none.
    file_type: Option<FileType>,
    /// Tells it from other inodes with its number; never changes.
    pub(crate) generation: u32,
    /// Locked while names in a directory, or a file's bytes or attributes, are read or changed.
    pub(crate) state: SleepRwLock<NodeState>,
    /// How many open files refer to it. An unlinked inode is freed when this falls to 0.
    pub(crate) opens: AtomicU32,
    /// A file's blocks in memory.
    pub(crate) pages: LazyPages,
    /// The inode was freed. Set before its number can belong to another inode, and read by those
    /// that do not lock the node.
    pub(crate) freed: AtomicBool,
    /// Changes of its bytes, or of the names in it, are durable when the call returns that makes
    /// them: a copy of what its flags say.
    pub(crate) synchronous: AtomicBool,
    /// The file was cut to nothing, and is written back when it is closed, so that a power cut some
    /// time later leaves either the old content or the new.
    pub(crate) rewritten: AtomicBool,
}

impl Node {
    /// A node that is not open, of this state.
    pub(crate) fn new(paged: &Arc<Paged>, state: NodeState) -> Node {
        let (ino, clock) = (state.ino, Arc::clone(paged) as Arc<dyn Clock>);
        let inode_flags = state.inode.flags;
        let node = Node {
            ino,
            file_type: state.inode.file_type(),
            generation: state.inode.generation,
            pages: LazyPages::new(ino, paged),
            state: SleepRwLock::new(clock, state).ranked(ranks::INODE).hurried(),
            opens: AtomicU32::new(0),
            freed: AtomicBool::new(false),
            synchronous: AtomicBool::new(false),
            rewritten: AtomicBool::new(false),
        };
        node.note_flags(inode_flags);
        node
    }

    /// Notes the flags of the inode, which are `flags` from now on.
    pub(crate) fn note_flags(&self, flags: u32) {
        let all = match self.file_type {
            Some(FileType::Directory) => flags::SYNC | flags::DIRECTORY_SYNC,
            _ => flags::SYNC,
        };
        self.synchronous.store(flags & all != 0, Ordering::Relaxed);
    }

    /// The file type. Unlike [`NodeState::file_type`], takes no lock.
    ///
    /// # Errors
    /// `Corrupt` if the mode has none.
    pub(crate) fn file_type(&self) -> Result<FileType> {
        match self.file_type {
            Some(file_type) => Ok(file_type),
            None => self.state.read().file_type(),
        }
    }
}

/// The part of a node that is under its lock.
pub(crate) struct NodeState {
    pub(crate) ino: Ino,
    /// The inode. Stored with [`NodeState::store`].
    pub(crate) inode: Inode,
    /// The size in the inode table. With data first it counts only data that was submitted.
    table_size: u64,
    /// Blocks that were freed since the inode was last stored, and are held back.
    freed: Vec<Run>,
    /// Set when its last name was replaced: the link count that its table keeps, because the
    /// directory on disk may still point to it.
    pub(crate) kept_links: Option<u16>,
    /// How many sweeps there had been when its map last changed to point to more blocks. One sweep
    /// must not write changes of both kinds: it writes maps that grew early, and maps that shrank
    /// last.
    grown_before: Option<NonZeroU64>,
    /// The same for a change to fewer blocks.
    shrunk_before: Option<NonZeroU64>,
    /// A directory's number among those that names are known of.
    pub(crate) serial: DirectorySerial,
    /// Seed of the checksums of its blocks.
    pub(crate) seed: u32,
    /// Where the last block was allocated.
    pub(crate) stream: LastAllocation,
    /// The number of the process that wrote to it last, or brought it into memory.
    pub(crate) writer: u32,
    /// What happened to its map since it was last made dense.
    pub(crate) density: MapDensity,
    /// Blocks in hand for its growth: see `mapping::window`.
    pub(crate) window: Option<Run>,
    /// File blocks that were changed in memory and not submitted yet.
    pub(crate) dirty: RunSet,
    /// New file blocks that were submitted to a device that remembers them.
    pub(crate) submitted: RunSet,
    /// The part of `dirty` that has no block on the volume yet. As many blocks are promised.
    pub(crate) delayed: RunSet,
    /// Further blocks that are promised, for the map of those in `delayed`.
    pub(crate) promised_map: u64,
    /// Blocks that have a place and data, and are not in the map yet.
    pub(crate) placed: Placed,
    /// Places that were chosen for blocks in `delayed` when they were written.
    pub(crate) chosen: Chosen,
    /// The transaction of the journal that it was last stored in.
    pub(crate) changed_in: Option<Sequence>,
    /// The last one in which something changed that is needed to read its data: size or map.
    pub(crate) mapped_in: Option<Sequence>,
    /// Size, blocks and root of the map as they were last stored.
    stored_map: (u64, u64, [u8; 60]),
    /// A block of its map was changed since it was last stored.
    map_changed: bool,
    /// Blocks are being removed that recovery has to remove too: where that takes several steps,
    /// the inode is an orphan until the last one.
    pub(crate) is_shrinking: bool,
    /// Blocks after its end are left, because a part of its map could not be read. It is an orphan,
    /// so that recovery removes them; they have to go before it grows.
    pub(crate) is_cut_unfinished: bool,
    /// Its attributes were looked at, and give it no capabilities.
    pub(crate) has_no_capability: bool,
    /// It was made without a name, and may still be given one.
    pub(crate) may_be_named: bool,
    /// While content moves out of the inode to a block: the inode as its table keeps it until the
    /// map leads to that block.
    pub(crate) moving: Option<Box<Inode>>,
    /// The inode was freed while some thread held the node.
    pub(crate) gone: bool,
    /// What the quota files count it as.
    pub(crate) counted: Counted,
}

/// What happens to an inode that its table has already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unchanged {
    /// It is stored: something beside it changed, which a sync of it has to commit.
    Stored,
    /// It is left alone.
    Left,
}

impl NodeState {
    /// The state of an inode that was just loaded, or made and stored. One that is stored for the
    /// first time is [`NodeState::fresh`].
    pub(crate) fn new(volume: &Volume, ino: Ino, inode: Inode) -> NodeState {
        let counted = counted(volume, ino, &inode, None);
        NodeState::counted_as(volume, ino, inode, counted)
    }

    fn counted_as(volume: &Volume, ino: Ino, inode: Inode, counted: Counted) -> NodeState {
        let stored_map = (inode.size, inode.sectors, inode.block);
        NodeState {
            ino,
            serial: volume.names.serial(),
            seed: volume.store.inode_seed(ino, inode.generation),
            table_size: inode.size,
            freed: Vec::new(),
            kept_links: None,
            grown_before: None,
            shrunk_before: None,
            inode,
            stream: LastAllocation::default(),
            writer: volume.store.clock.process_number(),
            density: MapDensity::default(),
            window: None,
            dirty: RunSet::default(),
            submitted: RunSet::default(),
            delayed: RunSet::default(),
            promised_map: 0,
            placed: Placed::default(),
            chosen: Chosen::default(),
            changed_in: None,
            mapped_in: None,
            stored_map,
            map_changed: false,
            is_shrinking: false,
            is_cut_unfinished: false,
            has_no_capability: false,
            may_be_named: false,
            moving: None,
            gone: false,
            counted,
        }
    }

    /// The state of an inode that was not stored so far, and is counted nowhere.
    pub(crate) fn fresh(volume: &Volume, ino: Ino, inode: Inode) -> NodeState {
        NodeState::counted_as(volume, ino, inode, None)
    }

    /// The file type.
    ///
    /// # Errors
    /// `Corrupt` if the mode has none.
    pub(crate) fn file_type(&self) -> Result<FileType> {
        let wrong = || {
            Error::field(
                Place::Inode(self.ino),
                "inode",
                "mode",
                self.inode.mode.into(),
                "not a file type",
            )
        };
        self.inode.file_type().ok_or_else(wrong)
    }

    /// The bytes of its content, if that is in the inode: at most as many as its size; what they
    /// do not reach reads as zeros.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn inline_data(&self, volume: &Volume) -> Result<Option<Vec<u8>>> {
        if !self.inode.is_inline(&volume.store.superblock) {
            return Ok(None);
        }
        let data = self.inode.inline_data();
        let mut data = data.map_err(|fault| Error::corrupt(Place::Inode(self.ino), fault))?;
        data.truncate(usize::try_from(self.inode.size).unwrap_or(usize::MAX));
        Ok(Some(data))
    }

    /// How many of its attributes have values in inodes, if quotas count it and that is known.
    pub(crate) fn values(&self) -> Option<u32> {
        self.counted.as_deref()?.values
    }

    /// Sets it, if quotas count it. The next store counts them.
    pub(crate) fn set_values(&mut self, values: Option<u32>) {
        if let Some(account) = self.counted.as_deref_mut() {
            account.values = values;
        }
    }

    /// Fails if its content is encrypted, which of a directory are its names: without the key it is
    /// no more than noise.
    ///
    /// # Errors
    /// `NoKey`.
    pub(crate) fn check_not_encrypted(&self, volume: &Volume) -> Result<()> {
        match self.inode.is_encrypted(&volume.store.superblock) {
            true => Err(ErrorKind::NoKey.into()),
            false => Ok(()),
        }
    }

    /// Fails with `NotFound` if the inode was freed since its node was found: its number may belong
    /// to another inode by now.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.gone { Err(ErrorKind::NotFound.into()) } else { Ok(()) }
    }

    /// Fails unless it is a directory that has a name. Entries made in a directory that was
    /// replaced would be lost with it, even while the disk still has its name.
    pub(crate) fn check_directory(&self) -> Result<()> {
        self.check_alive()?;
        if self.kept_links.is_some() {
            return Err(ErrorKind::NotFound.into());
        }
        match self.file_type()? {
            FileType::Directory => Ok(()),
            _ => Err(ErrorKind::NotDirectory.into()),
        }
    }

    /// Stores the inode in its table block. If inodes are stored late and the block is not in
    /// memory, only notes that the inode is unstored.
    ///
    /// # Errors
    /// `NotFound` if it was freed: the table may hold another inode of that number.
    pub(crate) fn store(&mut self, operation: &Operation<'_>) -> Result<()> {
        self.store_soon(operation, Unchanged::Stored)
    }

    /// As [`NodeState::store`], after a change of content: of data, size, times, mode or map. An
    /// inode that its table has already is left alone, as after a second write within a tick of
    /// the clock, so that a sync has nothing to commit then.
    ///
    /// # Errors
    /// As for [`NodeState::store`].
    pub(crate) fn store_content(&mut self, operation: &Operation<'_>) -> Result<()> {
        self.store_soon(operation, Unchanged::Left)
    }

    fn store_soon(&mut self, operation: &Operation<'_>, unchanged: Unchanged) -> Result<()> {
        if self.gone {
            return Err(ErrorKind::NotFound.into());
        }
        let volume = operation.volume();
        let (block, _) = place(volume, self.ino)?;
        if volume.store.stores_inodes_late() && !volume.store.cache.holds_filled(block) {
            self.count(operation)?;
            volume.unstored.note(self.ino, volume.store.clock.now());
            return Ok(());
        }
        self.store_in_table(operation, unchanged)
    }

    /// Stores the inode in its table block, which is read if necessary.
    ///
    /// # Errors
    /// As for [`NodeState::store`].
    pub(crate) fn store_now(&mut self, operation: &Operation<'_>) -> Result<()> {
        self.store_in_table(operation, Unchanged::Stored)
    }

    /// Counts it for the quota files, as its table has it from now on.
    fn count(&mut self, operation: &Operation<'_>) -> Result<()> {
        let inode = self.moving.as_deref().unwrap_or(&self.inode);
        operation.count(self.ino, inode, &mut self.counted)
    }

    fn store_in_table(&mut self, operation: &Operation<'_>, unchanged: Unchanged) -> Result<()> {
        if self.gone {
            return Err(ErrorKind::NotFound.into());
        }
        self.assert_consistent();
        let volume = operation.volume();
        self.count(operation)?;
        let (frame, offset) = table_frame(volume, self.ino)?;
        if volume.store.policies.mount.is_synchronous() {
            volume.unstored.tables.lock().insert(frame.block());
        }
        let slot = offset..offset + usize::from(volume.store.superblock.inode_size);
        let map_changed = std::mem::take(&mut self.map_changed);
        // The systems of the posts stored it each time.
        let may_leave = unchanged == Unchanged::Left
            && !volume.store.is_of_the_posts()
            && !map_changed
            && self.freed.is_empty();
        let ino = self.ino;
        let inode = self.as_stored(volume);
        operation.wait_for_log(&frame);
        let left = volume.orphans.store(ino, |next_orphan| {
            let inode = match next_orphan {
                Some(next) => Cow::Owned(Inode { deletion_time: next, ..inode.into_owned() }),
                None => inode,
            };
            // Encoded before the block is locked, which other inodes are in too.
            let mut stored = vec![0; slot.len()];
            inode.encode(&mut stored, ino, &volume.store.superblock);
            let left = may_leave && frame.bytes().get(slot.clone()) == Some(&stored[..]);
            if !left {
                operation.modify_at_once(&frame, |bytes| {
                    if let Some(bytes) = bytes.get_mut(slot) {
                        bytes.copy_from_slice(&stored);
                    }
                });
            }
            volume.unstored.remove(ino);
            left
        });
        if left {
            return Ok(());
        }
        if let Some(log) = volume.store.log() {
            let running = Some(log.running());
            let map = (self.table_size, self.inode.sectors, self.inode.block);
            if map_changed || self.stored_map != map {
                (self.stored_map, self.mapped_in) = (map, running);
            }
            self.changed_in = running;
        }
        let freed = std::mem::take(&mut self.freed);
        freed.iter().for_each(|run| volume.store.forget_run(*run));
        volume.space.publish_blocks(freed);
        Ok(())
    }

    /// In debug builds panics when more blocks are delayed than dirty.
    pub(crate) fn assert_consistent(&self) {
        debug_assert!(
            self.delayed.len() <= self.dirty.len(),
            "{}: {} blocks are delayed and {} dirty",
            self.ino,
            self.delayed.len(),
            self.dirty.len()
        );
    }

    /// The inode with the size and link count that its table should have.
    fn as_stored(&mut self, volume: &Volume) -> Cow<'_, Inode> {
        if let Some(before) = &self.moving {
            return Cow::Borrowed(before);
        }
        self.table_size = match volume.store.keeps_order() {
            true => self.size_with_data(volume),
            false => self.inode.size,
        };
        let links = self.kept_links.unwrap_or(self.inode.links);
        if self.table_size == self.inode.size && links == self.inode.links {
            return Cow::Borrowed(&self.inode);
        }
        Cow::Owned(Inode { size: self.table_size, links, ..self.inode.clone() })
    }

    /// The size in the table, or in the table after the next sweep.
    pub(crate) fn table_size(&self) -> u64 {
        self.table_size
    }

    /// How much of the file has been submitted, in bytes: up to the first dirty block after the
    /// size in the table. Dirty blocks before that size do not matter, because the disk already
    /// counts them as part of the file.
    fn size_with_data(&self, volume: &Volume) -> u64 {
        let block_size = u64::from(volume.store.block_size());
        let from = self.table_size / block_size;
        let dirty = self.dirty.next(from).map(|run| run.start);
        let placed =
            u32::try_from(from).ok().and_then(|from| match self.placed.at(FileBlock(from)) {
                // A run that begins before it.
                Some(_) => Some(from),
                None => self.placed.next(from),
            });
        let first = dirty.into_iter().chain(placed.map(u64::from)).min();
        let submitted = first.map_or(self.inode.size, |first| first.saturating_mul(block_size));
        submitted.max(self.table_size).min(self.inode.size)
    }

    /// Whether a run of its blocks holds bytes that the size in the table does not count yet.
    pub(crate) fn grows_into(&self, volume: &Volume, block: FileBlock, run: Run) -> bool {
        let end = u64::from(block.0) + u64::from(run.length);
        let end = end.saturating_mul(u64::from(volume.store.block_size()));
        self.table_size < self.inode.size && end > self.table_size
    }

    /// Notes that blocks of this inode were freed. They are published once the inode, which pointed
    /// to them, is stored.
    pub(crate) fn note_freed(&mut self, volume: &Volume, run: Run) {
        if volume.store.keeps_order() {
            self.freed.push(run);
        }
    }

    /// Notes that its map points to other blocks than before.
    pub(crate) fn note_map_change(&mut self, volume: &Volume, leads: Leads) {
        let noted = match leads {
            Leads::More => &mut self.grown_before,
            Leads::Fewer => &mut self.shrunk_before,
        };
        *noted = sweep_number(volume);
        self.map_changed = true;
    }

    /// Whether blocks were freed that are published when the inode is stored.
    pub(super) fn has_unpublished(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Whether a change of its map is not in any sweep yet.
    pub(super) fn is_map_unswept(&self, volume: &Volume) -> bool {
        let sweeps = sweep_number(volume);
        volume.store.writes_in_stages()
            && (self.grown_before == sweeps || self.shrunk_before == sweeps)
    }

    /// Notes that data of the file is a part of the running transaction.
    pub(crate) fn note_logged_data(&mut self, volume: &Volume) {
        let running = volume.store.log().map(|log| log.running());
        (self.changed_in, self.mapped_in) = (running, running);
    }

    /// Called before an operation that changes the map, with no operation open. Sweeps if a change
    /// of the other kind is not in any sweep yet.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn before_map_change(&mut self, volume: &Volume, leads: Leads) -> Result<()> {
        let other = match leads {
            Leads::More => self.shrunk_before,
            Leads::Fewer => self.grown_before,
        };
        let is_pending = other.is_some() && other == sweep_number(volume);
        if !volume.store.writes_in_stages() || !is_pending {
            return Ok(());
        }
        volume.change(credits::INODE, |operation| self.store(operation))?;
        volume.space.write_metadata()
    }

    /// Takes the blocks noted as freed, for a caller that knows that the disk never pointed to
    /// them.
    pub(crate) fn take_freed(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.freed)
    }
}

/// The number of the next sweep, from 1 on.
fn sweep_number(volume: &Volume) -> Option<NonZeroU64> {
    NonZeroU64::new(volume.store.cache.sweeps().saturating_add(1))
}

/// Which way a map changes, which decides the stage of a sweep that writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leads {
    /// It points to more blocks, or to as many.
    More,
    /// It points to fewer blocks.
    Fewer,
}

/// What happened to a map since it was last dense.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MapDensity {
    /// Whether nodes were split or freed.
    pub(super) nodes_changed: bool,
    /// How many extents were removed.
    pub(super) removed: u64,
    /// How many may be removed before a level can be too wide.
    pub(super) allowed: u64,
}

impl MapDensity {
    /// Whether no level can be too wide.
    pub(crate) fn is_dense(self) -> bool {
        !self.nodes_changed && self.removed <= self.allowed
    }
}
