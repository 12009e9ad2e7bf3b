//! All inodes in memory.
//!
//! *Invariants*: at most one `Node` of an inode is in memory; a node that is in use by anyone, or
//! has something to write, is never dropped.
//! *Locking*: the shards are short locks, never held while an inode is loaded; `loading` is a
//! sleeping lock after all inodes, under which one thread loads.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::node::{Node, NodeState};
use crate::inode::pages::Pages;
use crate::inode::table::load;
use crate::inode::volume::Volume;
use crate::ranks;
use extant_block::{ShortLock, SleepLock, SleepRwLock};
use extant_format::Ino;
use extant_format::inode::Inode;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

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
            shards: (0..SHARDS)
                .map(|_| ShortLock::ranked(ranks::NODES, Shard::default()))
                .collect(),
            loading: (0..SHARDS)
                .map(|_| SleepLock::new(Arc::clone(&volume.store.clock), ()).ranked(ranks::LOADING))
                .collect(),
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
        if !volume.store.superblock.is_usable(ino) {
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
            pages: Pages::new(&volume.store.clock),
            state: SleepRwLock::new(
                Arc::clone(&volume.store.clock),
                NodeState::new(volume, ino, inode),
            )
            .ranked(ranks::INODE),
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
        let unstored = volume.unstored.inodes.lock();
        let mut turns = 16.min(self.queue.len());
        while turns > 0 {
            turns -= 1;
            let Some(ino) = self.queue.pop_front() else { return };
            let Some(node) = self.by_ino.get_mut(&ino) else {
                continue;
            };
            // Where nobody else has the node, nobody can come by it: the table is locked.
            let idle = Arc::get_mut(node).is_some_and(|node| {
                let state = node.state.get_mut();
                let is_needed = state.window.is_some() || state.is_map_unswept(volume);
                *node.opens.get_mut() == 0 && node.pages.is_clean() && !is_needed
            });
            if idle && !unstored.contains_key(&ino) {
                self.by_ino.remove(&ino);
                volume.space.close_window(ino);
            } else {
                self.queue.push_back(ino);
            }
        }
    }
}
