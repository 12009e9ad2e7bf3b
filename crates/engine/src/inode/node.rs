//! The inode table: load, lock, store.
//!
//! *Invariants*: at most one `Node` of an inode is in memory; a node that is in use by anyone is
//! never dropped; whoever changes a node's inode stores it before he lets go of the lock.
//! *Locking*: a node's state is under a sleeping lock (parent before child, then rising number);
//! the table of nodes is under short locks that are never held while a node is loaded.

use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::mapping::{Leads, Looseness};
use crate::inode::pages::Pages;
use crate::policy::allocation::Stream;
use crate::policy::preset::Mount;
use crate::runs::RunSet;
use crate::store::cache::{Frame, Kind};
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_block::{ShortLock, SleepLock, SleepRwLock};
use extant_format::inode::{FileType, Inode};
use extant_format::{BlockNo, Ino, Run};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
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
    /// The sweeps before which its map was last made to lead to more blocks, and to fewer, where
    /// the disk knows that part of it: the two may not come before the same sweep, or they would be
    /// written as one.
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
    /// It was made without a name, and may still be given one.
    pub(crate) may_be_named: bool,
    /// The inode was freed while somebody held the node: every use is `NotFound`.
    pub(crate) gone: bool,
}

impl NodeState {
    /// An inode just loaded, or just made.
    pub(crate) fn new(volume: &Volume, ino: Ino, inode: Inode) -> NodeState {
        NodeState {
            ino,
            seed: volume.inode_seed(ino, inode.generation),
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
            may_be_named: false,
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
    pub(crate) fn store(&mut self, handle: &Handle<'_>) -> Result<()> {
        if self.gone {
            return Err(ErrorKind::NotFound.into());
        }
        let volume = handle.volume();
        let (block, _) = place(volume, self.ino)?;
        if volume.stores_inodes_late() && !volume.cache.holds_filled(block) {
            volume.unstored.lock().entry(self.ino).or_insert(volume.clock.now());
            return Ok(());
        }
        self.store_now(handle)
    }

    /// Writes the inode into its table block, which is read if need be.
    ///
    /// # Errors
    /// As for [`NodeState::store`].
    pub(crate) fn store_now(&mut self, handle: &Handle<'_>) -> Result<()> {
        if self.gone {
            return Err(ErrorKind::NotFound.into());
        }
        let volume = handle.volume();
        let (frame, offset) = table_frame(volume, self.ino)?;
        if volume.policies.mount == Mount::Sync {
            volume.touched_tables.lock().insert(frame.block());
        }
        let size = usize::from(volume.superblock.inode_size);
        let ino = self.ino;
        let inode = self.as_stored(volume);
        handle.modify(&frame, |bytes| {
            if let Some(bytes) = bytes.get_mut(offset..offset + size) {
                inode.encode(bytes, ino, &volume.superblock);
            }
        });
        volume.unstored.lock().remove(&self.ino);
        let freed = std::mem::take(&mut self.freed);
        freed.iter().for_each(|run| volume.cache.forget_run(*run));
        volume.groups.publish_blocks(freed);
        Ok(())
    }

    /// The inode as its table is to have it.
    fn as_stored(&mut self, volume: &Volume) -> Cow<'_, Inode> {
        self.table_size = match volume.writes_data_first() {
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
        let block_size = u64::from(volume.block_size());
        let dirty = self.dirty.next(self.table_size / block_size);
        let submitted = dirty.map_or(self.inode.size, |run| run.start.saturating_mul(block_size));
        submitted.max(self.table_size).min(self.inode.size)
    }

    /// Blocks of this inode were freed: they are published when the inode, which led to them, has
    /// been stored.
    pub(crate) fn note_freed(&mut self, volume: &Volume, run: Run) {
        if volume.writes_data_first() {
            self.freed.push(run);
        }
    }

    /// Its map leads to other blocks than before, in a part that the disk knows.
    pub(crate) fn note_map_change(&mut self, volume: &Volume, leads: Leads) {
        let noted = match leads {
            Leads::More => &mut self.grown_before,
            Leads::Fewer => &mut self.shrunk_before,
        };
        *noted = Some(volume.cache.sweeps());
    }

    /// Whether a change of its map waits for a sweep.
    fn may_be_unfrozen(&self, volume: &Volume) -> bool {
        let noted = [self.grown_before, self.shrunk_before].into_iter().flatten();
        volume.writes_data_first()
            && noted.max().is_some_and(|noted| volume.cache.may_be_unfrozen(noted))
    }

    /// Before a change of the map: writes the metadata if a change of the other kind waits for the
    /// next sweep.
    ///
    /// # Errors
    /// What writing meets.
    pub(crate) fn before_map_change(&mut self, handle: &Handle<'_>, leads: Leads) -> Result<()> {
        let volume = handle.volume();
        let other = match leads {
            Leads::More => self.shrunk_before,
            Leads::Fewer => self.grown_before,
        };
        let is_pending = other.is_some_and(|noted| volume.cache.may_be_unfrozen(noted));
        if !volume.writes_data_first() || !is_pending {
            return Ok(());
        }
        self.store(handle)?;
        volume.write_metadata()
    }

    /// Gives what was freed, for a caller who knows that the disk never led to it.
    pub(crate) fn take_freed(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.freed)
    }
}

/// Where an inode lies: its table block and its byte offset there.
pub(crate) fn place(volume: &Volume, ino: Ino) -> Result<(BlockNo, usize)> {
    let (group, index) = volume.superblock.group_of_inode(ino).ok_or(ErrorKind::NotFound)?;
    let byte = u64::from(index) * u64::from(volume.superblock.inode_size);
    let block_size = u64::from(volume.block_size());
    let table = volume.groups.descriptor(group).inode_table;
    Ok((BlockNo(table.0 + byte / block_size), (byte % block_size) as usize))
}

fn table_frame(volume: &Volume, ino: Ino) -> Result<(Arc<Frame>, usize)> {
    let (block, offset) = place(volume, ino)?;
    if let Some((group, _)) = volume.superblock.group_of_inode(ino) {
        super::table::read_around(volume, group, block);
    }
    Ok((volume.cache.read(block, Kind::Plain)?, offset))
}

/// Reads an inode from its table block, verifying its checksum.
pub(crate) fn load(volume: &Volume, ino: Ino) -> Result<Inode> {
    let (frame, offset) = table_frame(volume, ino)?;
    let bytes = frame.bytes();
    let size = usize::from(volume.superblock.inode_size);
    let bytes = bytes.get(offset..offset + size).unwrap_or_default();
    Inode::parse(bytes, ino, &volume.superblock)
        .map_err(|fault| Error::corrupt(Place::Inode(ino), fault))
}

const SHARDS: usize = 16;
/// Nodes that nobody uses are kept up to this many.
const NODES_MAX: usize = 16 * 1024;

#[derive(Default)]
struct Shard {
    by_ino: FxHashMap<Ino, Arc<Node>>,
    queue: VecDeque<Ino>,
}

/// All nodes in memory.
pub(crate) struct Nodes {
    shards: Vec<ShortLock<Shard>>,
    /// One loader at a time and shard, so that an inode is never in memory twice.
    loading: Vec<SleepLock<()>>,
}

impl Nodes {
    pub(crate) fn new(volume: &Volume) -> Nodes {
        Nodes {
            shards: (0..SHARDS).map(|_| ShortLock::default()).collect(),
            loading: (0..SHARDS).map(|_| SleepLock::new(Arc::clone(&volume.clock), ())).collect(),
        }
    }

    /// The node of an inode in use; loads it if needed. A free inode is `NotFound`.
    pub(crate) fn get(&self, volume: &Volume, ino: Ino) -> Result<Arc<Node>> {
        let at = ino.0 as usize % SHARDS;
        if let Some(node) = self.shards[at].lock().by_ino.get(&ino) {
            return Ok(Arc::clone(node));
        }
        let _loading = self.loading[at].lock();
        if let Some(node) = self.shards[at].lock().by_ino.get(&ino) {
            return Ok(Arc::clone(node));
        }
        if !volume.superblock.is_usable(ino) {
            let reason = "not one that a name may lead to";
            return Err(Error::field(Place::Inode(ino), "inode", "number", ino.0.into(), reason));
        }
        let inode = load(volume, ino)?;
        if inode.links == 0 && (inode.deletion_time != 0 || inode.mode == 0) {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(self.insert(volume, ino, inode))
    }

    /// Puts a new node into the table. One that is there already stays: somebody met the inode on
    /// the disk before its maker came here.
    pub(crate) fn insert(&self, volume: &Volume, ino: Ino, inode: Inode) -> Arc<Node> {
        let node = Arc::new(Node {
            ino,
            pages: Pages::new(&volume.clock),
            state: SleepRwLock::new(Arc::clone(&volume.clock), NodeState::new(volume, ino, inode)),
            opens: AtomicU32::new(0),
            rewritten: AtomicBool::new(false),
        });
        let mut shard = self.shards[ino.0 as usize % SHARDS].lock();
        if let Some(there) = shard.by_ino.get(&ino) {
            return Arc::clone(there);
        }
        if shard.by_ino.len() >= NODES_MAX / SHARDS {
            shard.evict(volume);
        }
        if shard.queue.len() > 2 * shard.by_ino.len() + 64 {
            shard.forget_freed();
        }
        shard.by_ino.insert(ino, Arc::clone(&node));
        shard.queue.push_back(ino);
        node
    }

    /// Takes a freed inode's node out of the table.
    pub(crate) fn remove(&self, ino: Ino) {
        self.shards[ino.0 as usize % SHARDS].lock().by_ino.remove(&ino);
    }

    /// Lets go of every node that nobody uses and that has nothing to write; the next use loads it
    /// again.
    pub(crate) fn drop_idle(&self, volume: &Volume) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let turns = shard.queue.len();
            shard.evict_some(volume, turns);
        }
    }

    /// All nodes in memory, by rising number.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for shard in &self.shards {
            nodes.extend(shard.lock().by_ino.values().cloned());
        }
        nodes.sort_unstable_by_key(|node| node.ino);
        nodes
    }
}

impl Shard {
    /// Takes numbers out of the queue that were freed, or stand in it twice.
    fn forget_freed(&mut self) {
        let mut seen = FxHashSet::default();
        self.queue.retain(|ino| self.by_ino.contains_key(ino) && seen.insert(*ino));
    }

    /// Lets go of a few nodes that nobody uses and that have nothing to write.
    fn evict(&mut self, volume: &Volume) {
        self.evict_some(volume, 16);
    }

    /// The same after a look at this many nodes.
    fn evict_some(&mut self, volume: &Volume, turns: usize) {
        let unstored = volume.unstored.lock();
        let mut turns = turns.min(self.queue.len());
        while turns > 0 {
            turns -= 1;
            let Some(ino) = self.queue.pop_front() else { return };
            let Some(node) = self.by_ino.get_mut(&ino) else {
                continue;
            };
            // Where nobody else has the node, nobody can come by it: the table is locked.
            let idle = Arc::get_mut(node).is_some_and(|node| {
                let state = node.state.get_mut();
                let is_needed = state.window.is_some() || state.may_be_unfrozen(volume);
                *node.opens.get_mut() == 0 && node.pages.is_clean() && !is_needed
            });
            if idle && !unstored.contains_key(&ino) {
                self.by_ino.remove(&ino);
                volume.groups.close_window(ino);
            } else {
                self.queue.push_back(ino);
            }
        }
    }
}
