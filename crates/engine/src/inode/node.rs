//! An inode in memory.
//!
//! ```text
//!            nodes::get, create                change                 store
//!  (none) ---------------------> as in its table -----> changed in memory -----> as in its table
//!                                      |                     |
//!                                      +---- freed: gone ----+   every later use is NotFound
//! ```
//!
//! *Invariants*: a thread that changes a node's inode stores it, or notes it as not stored, before
//! it lets go of the lock. `delayed` is a part of `dirty`; as many blocks are promised as `delayed`
//! has, and `promised_map` more. Where data comes first, `table_size` is never beyond the data that
//! was submitted.
//! *Locking*: `state` is a sleeping lock: parent before child, then by rising number. The counts
//! beside it are atomic.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::credits;
use crate::inode::operation::Operation;
use crate::inode::pages::Pages;
use crate::inode::table::{place, table_frame};
use crate::inode::volume::Volume;
use crate::policy::allocation::Stream;
use crate::policy::preset::Mount;
use crate::runs::RunSet;
use extant_block::SleepRwLock;
use extant_format::inode::{FileType, Inode};
use extant_format::{Ino, Run};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// One inode in memory.
pub(crate) struct Node {
    pub(crate) ino: Ino,
    /// Held while names in a directory change, or a file's bytes or attributes do.
    pub(crate) state: SleepRwLock<NodeState>,
    /// How many open files refer to it: an unlinked one is freed when it falls to 0.
    pub(crate) opens: AtomicU32,
    /// A file's blocks in memory.
    pub(crate) pages: Pages,
    /// The file was emptied to be written anew: it is written back when it is closed, so that a
    /// power cut some time later finds the old content or the new one.
    pub(crate) rewritten: AtomicBool,
}

/// What is known of an inode in memory.
pub(crate) struct NodeState {
    pub(crate) ino: Ino,
    /// The inode. Stored with [`NodeState::store`].
    pub(crate) inode: Inode,
    /// The size that the inode has in its table: where data comes first, never beyond the data that
    /// was submitted.
    table_size: u64,
    /// Blocks that were freed since the inode was stored, and are held back.
    freed: Vec<Run>,
    /// Its last name was replaced, and the directory on the disk may still lead to it: the links
    /// that its table says until that is durable.
    pub(crate) kept_links: Option<u16>,
    /// How many sweeps there had been when its map was last made to lead to more blocks, and to
    /// fewer. The two may not be written by the same sweep, which knows one order for both.
    grown_before: Option<u64>,
    shrunk_before: Option<u64>,
    /// Seed of the checksums of its blocks.
    pub(crate) seed: u32,
    /// Where the last block was allocated.
    pub(crate) stream: Stream,
    /// What its map went through since it was settled.
    pub(crate) looseness: Looseness,
    /// Blocks in hand for its growth: see `mapping::window`.
    pub(crate) window: Option<Run>,
    /// File blocks that were written and are not on the disk yet.
    pub(crate) dirty: RunSet,
    /// File blocks of `dirty` that have no place on the disk yet; as many blocks are promised to
    /// them, and `promised_map` for their map.
    pub(crate) delayed: RunSet,
    pub(crate) promised_map: u64,
    /// The inode was freed while somebody held the node: every use is `NotFound`.
    pub(crate) gone: bool,
}

impl NodeState {
    /// An inode just loaded, or just made.
    pub(crate) fn new(volume: &Volume, ino: Ino, inode: Inode) -> NodeState {
        NodeState {
            ino,
            seed: volume.store.inode_seed(ino, inode.generation),
            table_size: inode.size,
            freed: Vec::new(),
            kept_links: None,
            grown_before: None,
            shrunk_before: None,
            inode,
            stream: Stream::default(),
            looseness: Looseness::default(),
            window: None,
            dirty: RunSet::default(),
            delayed: RunSet::default(),
            promised_map: 0,
            gone: false,
        }
    }

    /// The type; an inode without one is corrupt.
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

    /// Fails when the inode was freed since its node was found: its number may belong to another
    /// inode.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.gone { Err(ErrorKind::NotFound.into()) } else { Ok(()) }
    }

    /// Fails unless it is a directory, and one that has a name: what came into one that was
    /// replaced would be lost with it, also while the disk still has to forget its name.
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

    /// Writes the inode into its table block; or, where table blocks are read late and this one is
    /// not in memory, notes that it has to be.
    ///
    /// # Errors
    /// `NotFound` when it was freed meanwhile: the table may hold another inode of that number.
    pub(crate) fn store(&mut self, operation: &Operation<'_>) -> Result<()> {
        if self.gone {
            return Err(ErrorKind::NotFound.into());
        }
        let volume = operation.volume();
        let (block, _) = place(volume, self.ino)?;
        if volume.store.stores_inodes_late() && !volume.store.cache.holds_filled(block) {
            volume.unstored.inodes.lock().entry(self.ino).or_insert(volume.store.clock.now());
            return Ok(());
        }
        self.store_now(operation)
    }

    /// Writes the inode into its table block, which is read if need be.
    ///
    /// # Errors
    /// As for [`NodeState::store`].
    pub(crate) fn store_now(&mut self, operation: &Operation<'_>) -> Result<()> {
        if self.gone {
            return Err(ErrorKind::NotFound.into());
        }
        self.assert_consistent();
        let volume = operation.volume();
        let (frame, offset) = table_frame(volume, self.ino)?;
        if volume.store.policies.mount == Mount::Sync {
            volume.unstored.tables.lock().insert(frame.block());
        }
        let size = usize::from(volume.store.superblock.inode_size);
        let ino = self.ino;
        let inode = self.as_stored(volume);
        operation.modify(&frame, |bytes| {
            if let Some(bytes) = bytes.get_mut(offset..offset + size) {
                inode.encode(bytes, ino, &volume.store.superblock);
            }
        });
        volume.unstored.inodes.lock().remove(&self.ino);
        let freed = std::mem::take(&mut self.freed);
        freed.iter().for_each(|run| volume.store.cache.forget_run(*run));
        volume.space.publish_blocks(freed);
        Ok(())
    }

    /// In debug builds panics when blocks are delayed that are not dirty, or promises are kept for
    /// nothing.
    pub(crate) fn assert_consistent(&self) {
        debug_assert!(
            self.delayed.len() <= self.dirty.len(),
            "{}: {} blocks are delayed and {} dirty",
            self.ino,
            self.delayed.len(),
            self.dirty.len()
        );
    }

    /// The inode as its table is to have it.
    fn as_stored(&mut self, volume: &Volume) -> Cow<'_, Inode> {
        self.table_size = match volume.store.writes_data_first() {
            true => self.size_with_data(volume),
            false => self.inode.size,
        };
        let links = self.kept_links.unwrap_or(self.inode.links);
        if self.table_size == self.inode.size && links == self.inode.links {
            return Cow::Borrowed(&self.inode);
        }
        Cow::Owned(Inode { size: self.table_size, links, ..self.inode.clone() })
    }

    /// The size that the table has, or will have after the next sweep.
    pub(crate) fn table_size(&self) -> u64 {
        self.table_size
    }

    /// How far the file's data has been submitted: the size, or the first dirty block behind the
    /// size that the table has. Dirty blocks before that one change or fill what the disk already
    /// counts as part of the file.
    fn size_with_data(&self, volume: &Volume) -> u64 {
        let block_size = u64::from(volume.store.block_size());
        let dirty = self.dirty.next(self.table_size / block_size);
        let submitted = dirty.map_or(self.inode.size, |run| run.start.saturating_mul(block_size));
        submitted.max(self.table_size).min(self.inode.size)
    }

    /// Blocks of this inode were freed: they are published when the inode, which led to them, has
    /// been stored.
    pub(crate) fn note_freed(&mut self, volume: &Volume, run: Run) {
        if volume.store.writes_data_first() {
            self.freed.push(run);
        }
    }

    /// Its map leads to other blocks than before, in a part that the disk knows.
    pub(crate) fn note_map_change(&mut self, volume: &Volume, leads: Leads) {
        let noted = match leads {
            Leads::More => &mut self.grown_before,
            Leads::Fewer => &mut self.shrunk_before,
        };
        *noted = Some(volume.store.cache.sweeps());
    }

    /// Whether a change of its map waits for a sweep.
    pub(super) fn is_map_unswept(&self, volume: &Volume) -> bool {
        let sweeps = Some(volume.store.cache.sweeps());
        volume.store.writes_data_first()
            && (self.grown_before == sweeps || self.shrunk_before == sweeps)
    }

    /// Before an operation that changes the map: sweeps, if a change of the other kind waits for
    /// it. No operation is open.
    ///
    /// # Errors
    /// What writing meets.
    pub(crate) fn before_map_change(&mut self, volume: &Volume, leads: Leads) -> Result<()> {
        let other = match leads {
            Leads::More => self.shrunk_before,
            Leads::Fewer => self.grown_before,
        };
        let is_pending = other == Some(volume.store.cache.sweeps());
        if !volume.store.writes_data_first() || !is_pending {
            return Ok(());
        }
        volume.change(credits::INODE, |operation| self.store(operation))?;
        volume.space.write_metadata()
    }

    /// Gives what was freed, for a caller who knows that the disk never led to it.
    pub(crate) fn take_freed(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.freed)
    }
}

/// What a change of a map does to the file: in which stage of a sweep it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leads {
    /// It leads to more blocks, or to the same.
    More,
    /// It leads to fewer.
    Fewer,
}

/// What happened to a map since it was known to be dense.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looseness {
    /// Nodes were split or freed.
    pub(super) nodes_changed: bool,
    /// Extents that were removed, and how many may be before a level may be too wide.
    pub(super) removed: u64,
    pub(super) allowed: u64,
}

impl Looseness {
    /// Whether no level can have become too wide.
    pub(crate) fn is_dense(self) -> bool {
        !self.nodes_changed && self.removed <= self.allowed
    }
}
