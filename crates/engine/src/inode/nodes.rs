//! All inodes in memory.
//!
//! *Invariants*: an inode has at most one `Node` in memory. A node that is in use, or has something
//! to write, is never dropped. `count` is how many the shards have.
//! *Locking*: `loading` is a sleeping lock after all inode locks, under which an inode is read. The
//! shards are short locks, not held during that. Under a shard only `unstored.inodes` and `windows`
//! are taken.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::lazy_pages::Paged;
use crate::inode::node::{Node, NodeState};
use crate::inode::shares;
use crate::inode::table::load;
use crate::inode::value;
use crate::inode::volume::Volume;
use crate::ranks;
use crate::store::eviction::EvictionQueue;
use extant_block::{Apart, ShortLock, SleepLock};
use extant_format::Ino;
use extant_format::inode::{Inode, flags};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SHARDS: usize = 16;
/// Nodes that are kept at least.
const NODES_MIN: usize = 4 * SHARDS;
/// What a node takes: itself, what an inode of up to 256 bytes has allocated, and its places in the
/// tables. The same in debug builds, where locks are larger, so that they evict the same.
pub(crate) const NODE_BYTES: usize = 1024;
/// The end of an inode of 256 bytes, places in a table that is half empty and in the queue, and
/// what the allocator takes.
const BESIDE_NODE: usize = 192;
const _: () = assert!(size_of::<Node>() + BESIDE_NODE <= NODE_BYTES);
/// Nodes that are looked at when a shard is full, at most.
const EVICTED_AT_ONCE: usize = 16;

/// How many nodes are too many, where there should be this many.
fn crowd(nodes: usize) -> usize {
    nodes + nodes / 4
}

#[derive(Default)]
struct Shard {
    by_ino: FxHashMap<Ino, Arc<Node>>,
    queue: EvictionQueue<Ino>,
}

/// All nodes in memory.
pub(crate) struct Nodes {
    shards: Vec<Apart<ShortLock<Shard>>>,
    /// One loader at a time in each shard, so that an inode is never in memory twice.
    loading: Vec<SleepLock<()>>,
    /// Those that have pages.
    paged: Arc<Paged>,
    /// At most about this many nodes that are not in use are kept in each shard.
    nodes_max: usize,
    /// What one takes.
    node_bytes: usize,
    /// How many there are, and how many are too many.
    count: Apart<AtomicUsize>,
    crowded_from: AtomicUsize,
}

impl Nodes {
    /// None yet. They take `bytes_max` bytes, but for those that have to stay.
    pub(crate) fn new(volume: &Volume, bytes_max: usize) -> Nodes {
        let longer = usize::from(volume.store.superblock.inode_size).saturating_sub(256);
        let node_bytes = NODE_BYTES + longer;
        let nodes_max = bytes_max / node_bytes;
        Nodes {
            paged: Paged::new(&volume.store.clock, &volume.pages.held),
            nodes_max: nodes_max.max(NODES_MIN) / SHARDS,
            node_bytes,
            count: Apart(AtomicUsize::new(0)),
            crowded_from: AtomicUsize::new(crowd(nodes_max.max(NODES_MIN))),
            shards: (0..SHARDS)
                .map(|_| Apart(ShortLock::ranked(ranks::NODES, Shard::default())))
                .collect(),
            loading: (0..SHARDS)
                .map(|_| SleepLock::new(Arc::clone(&volume.store.clock), ()).ranked(ranks::LOADING))
                .collect(),
        }
    }

    /// The node of an inode in use; loads it if it is not in memory.
    ///
    /// # Errors
    /// `NotFound` if the inode is free; `Corrupt`; what the device returns.
    pub(crate) fn get(&self, volume: &Volume, ino: Ino) -> Result<Arc<Node>> {
        let at = ino.0 as usize % SHARDS;
        if let Some(node) = self.shards[at].lock().by_ino.get(&ino) {
            return Ok(Arc::clone(node));
        }
        let _loading = self.loading[at].lock();
        if let Some(node) = self.shards[at].lock().by_ino.get(&ino) {
            return Ok(Arc::clone(node));
        }
        let is_quota_file = shares::is_quota_file(volume, ino);
        if !volume.store.superblock.is_usable(ino) || is_quota_file {
            let reason = "not one that a name may lead to";
            return Err(Error::field(Place::Inode(ino), "inode", "number", ino.0.into(), reason));
        }
        let inode = load(volume, ino)?;
        if inode.flags & flags::EA_INODE != 0 && value::has_values(volume) {
            let reason = "those of an attribute's value, which no name may lead to";
            return Err(Error::field(
                Place::Inode(ino),
                "inode",
                "flags",
                inode.flags.into(),
                reason,
            ));
        }
        if inode.links == 0 && (inode.deletion_time != 0 || inode.mode == 0) {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(self.insert(volume, ino, inode))
    }

    /// Adds a node for an inode. If the inode already has one, that one stays and is returned:
    /// another thread read the inode from disk before the thread that made it came here.
    pub(crate) fn insert(&self, volume: &Volume, ino: Ino, inode: Inode) -> Arc<Node> {
        let mut state = NodeState::new(volume, ino, inode);
        // A node that was made just now was changed, and one that was evicted may have been: a sync
        // of it has to wait for what is running.
        let running = volume.store.log().map(|log| log.running());
        (state.changed_in, state.mapped_in) = (running, running);
        self.insert_state(volume, state)
    }

    /// The same for an inode of which more is known than what its table says.
    pub(crate) fn insert_state(&self, volume: &Volume, state: NodeState) -> Arc<Node> {
        let ino = state.ino;
        let node = Arc::new(Node::new(&self.paged, state));
        let mut shard = self.shards[ino.0 as usize % SHARDS].lock();
        if let Some(there) = shard.by_ino.get(&ino) {
            return Arc::clone(there);
        }
        if shard.by_ino.len() >= self.nodes_max {
            self.note_evicted(shard.evict(volume, EVICTED_AT_ONCE, 0));
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let Shard { by_ino, queue } = &mut *shard;
        queue.sweep_if_long(by_ino.len(), |ino| by_ino.contains_key(ino));
        shard.by_ino.insert(ino, Arc::clone(&node));
        shard.queue.push(ino);
        node
    }

    /// Removes the node of a freed inode.
    pub(crate) fn remove(&self, ino: Ino) {
        let removed = self.shards[ino.0 as usize % SHARDS].lock().by_ino.remove(&ino);
        self.note_evicted(removed.is_some().into());
    }

    fn note_evicted(&self, nodes: usize) {
        self.count.fetch_sub(nodes, Ordering::Relaxed);
    }

    /// Whether there are a quarter more nodes than should be: most of them have something to write.
    pub(crate) fn is_crowded(&self) -> bool {
        self.count.load(Ordering::Relaxed) > self.crowded_from.load(Ordering::Relaxed)
    }

    /// Has no other thread find it crowded, until `make_room` was called.
    pub(crate) fn begin_to_make_room(&self) {
        self.crowded_from.store(usize::MAX, Ordering::Relaxed);
    }

    /// Evicts nodes until there are as few as should be. Those that have to stay do not make it
    /// crowded again.
    pub(crate) fn make_room(&self, volume: &Volume) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let turns = shard.queue.queued();
            self.note_evicted(shard.evict(volume, turns, self.nodes_max));
        }
        let left = self.count.load(Ordering::Relaxed).max(self.nodes_max * SHARDS);
        self.crowded_from.store(crowd(left), Ordering::Relaxed);
    }

    /// Evicts all nodes that are not in use and have nothing to write, and forgets all names; the
    /// next use of one loads it again.
    pub(crate) fn drop_idle(&self, volume: &Volume) {
        volume.names.clear();
        for shard in &self.shards {
            let mut shard = shard.lock();
            let turns = shard.queue.queued();
            self.note_evicted(shard.evict(volume, turns, 0));
        }
    }

    /// Memory that the nodes take without their pages, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let nodes: usize = self.shards.iter().map(|shard| shard.lock().by_ino.len()).sum();
        nodes * self.node_bytes
    }

    /// The nodes that have pages, by rising inode number.
    pub(crate) fn with_pages(&self) -> Vec<Arc<Node>> {
        self.of(self.paged.inodes())
    }

    /// Those of these inodes that are in memory, in the same order.
    pub(crate) fn of(&self, inodes: impl IntoIterator<Item = Ino>) -> Vec<Arc<Node>> {
        let node = |ino: Ino| self.shards[ino.0 as usize % SHARDS].lock().by_ino.get(&ino).cloned();
        inodes.into_iter().filter_map(node).collect()
    }

    /// All nodes in memory, by rising inode number.
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
    /// Evicts nodes that are not in use and have nothing to write, among the oldest `turns`, as
    /// long as more than `kept` are left. Returns how many.
    fn evict(&mut self, volume: &Volume, turns: usize, kept: usize) -> usize {
        let unstored = volume.unstored.inodes.lock();
        let before = self.by_ino.len();
        let mut turns = turns.min(self.queue.queued());
        while turns > 0 && self.by_ino.len() > kept {
            turns -= 1;
            let Some(ino) = self.queue.pop() else { break };
            let Some(node) = self.by_ino.get_mut(&ino) else {
                continue;
            };
            // Without another reference no thread can get one now: the shard is locked.
            let idle = Arc::get_mut(node).is_some_and(|node| {
                let state = node.state.get_mut();
                let is_needed = state.window.is_some()
                    || state.is_map_unswept(volume)
                    || state.is_cut_unfinished
                    || state.has_unpublished();
                *node.opens.get_mut() == 0 && node.pages.is_clean() && !is_needed
            });
            if idle && !unstored.contains_key(&ino) {
                self.by_ino.remove(&ino);
                volume.space.close_window(ino);
            } else {
                self.queue.push(ino);
            }
        }
        before - self.by_ino.len()
    }
}
