//! The inodes of an open volume: those in memory, those without a name, and the lock that orders
//! renames.
//!
//! *Invariants*: an inode without a name that is open is in `nameless`, and an orphan. One
//! whose last name was replaced, and whose old name may still be on disk, is in `replaced`. One
//! that could not be freed, because a part of it could not be read, is in `unfreed`, and an orphan.
//! *Locking*: `renaming` comes before any inode. `nameless`, `replaced` and `unfreed` are short
//! locks under which no other is taken.
use crate::error::{ErrorKind, Result};
use crate::inode::credits;
use crate::inode::node::{Node, NodeState};
use crate::inode::nodes::Nodes;
use crate::inode::table::place;
use crate::inode::volume::Volume;
use crate::inode::write_back::{Wait, enter_map, make_entered_dense, write_out};
use crate::policy::preset::Journal;
use crate::ranks;
use crate::store::Shares;
use crate::store::cache::BlockKind;
use extant_block::{ShortLock, SleepLock};
use extant_format::{BlockNo, Ino};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// All inodes of an open volume.
pub(crate) struct Inodes {
    pub(crate) volume: Volume,
    pub(crate) nodes: Nodes,
    /// Held by every rename, so that no directory moves while the path between two is examined.
    pub(crate) renaming: SleepLock<()>,
    /// Inodes without a name that are still open.
    pub(crate) nameless: ShortLock<BTreeMap<Ino, Arc<Node>>>,
    /// Inodes whose last name was replaced. They are freed after the sweep that makes that durable.
    pub(crate) replaced: ShortLock<Vec<Arc<Node>>>,
    /// Inodes that could not be freed. Each sync tries again; at last whoever opens the volume.
    pub(crate) unfreed: ShortLock<Vec<Arc<Node>>>,
}

impl Inodes {
    /// A volume with no inode in memory. `cache_bytes` is what all of it may take.
    pub(crate) fn new(volume: Volume, cache_bytes: usize) -> Inodes {
        Inodes {
            nodes: Nodes::new(&volume, Shares::of(cache_bytes).nodes),
            renaming: SleepLock::new(Arc::clone(&volume.store.clock), ()).ranked(ranks::RENAMING),
            nameless: ShortLock::ranked(ranks::LAST, BTreeMap::new()),
            replaced: ShortLock::ranked(ranks::LAST, Vec::new()),
            unfreed: ShortLock::ranked(ranks::LAST, Vec::new()),
            volume,
        }
    }

    /// Whether the volume may be changed now.
    pub(crate) fn is_writable(&self) -> bool {
        self.volume.store.check_writable().is_ok()
    }

    /// In debug builds panics when the volume promises something else to delayed data than its
    /// inodes know. Looks only when no inode is being changed.
    pub(crate) fn assert_promises(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let kept = self.volume.space.kept();
        let nodes = self.nodes.all();
        // All at once: what one thread gives back is known to the inode and to the volume by then.
        let states: Option<Vec<_>> = nodes.iter().map(|node| node.state.try_read()).collect();
        let Some(states) = states else { return };
        let promised: u64 = states.iter().map(|state| self.promised_to(state)).sum();
        // Other threads may have promised something to an inode that was loaded meanwhile.
        let now = self.nodes.all();
        let has_same_nodes = now.len() == nodes.len()
            && now.iter().zip(&nodes).all(|(one, other)| Arc::ptr_eq(one, other));
        if !has_same_nodes || self.volume.space.kept() != kept {
            return;
        }
        assert_eq!(promised, kept, "blocks promised, to inodes and in all");
    }

    /// How many blocks are promised to an inode.
    fn promised_to(&self, state: &NodeState) -> u64 {
        let window = state.window.filter(|_| self.volume.store.journals());
        let window = window.map_or(0, |window| u64::from(window.length));
        state.delayed.len() + state.placed.new_blocks() + state.promised_map + window
    }

    /// Maps the blocks of all files that were placed and whose data is written.
    ///
    /// # Errors
    /// What closed the latch; `Corrupt`; what the device returns.
    pub(crate) fn enter_maps(&self, wait: Wait) -> Result<()> {
        if self.volume.store.journal() != Journal::Ordered {
            return Ok(());
        }
        let mut nodes = self.nodes.of(self.volume.pages.placed_inodes());
        nodes.retain(|node| node.pages.has_placed());
        if wait == Wait::ForAll {
            // All are written before the first is locked.
            nodes.iter().for_each(|node| node.pages.under_way.wait_for(&(0..u64::MAX)));
        }
        nodes.iter().try_for_each(|node| {
            let mut state = node.state.write();
            match wait {
                // What another thread has written meanwhile would keep later blocks out of the map.
                Wait::ForAll => write_out(&self.volume, &node.pages, &mut state)?,
                Wait::ForNone | Wait::AtCommit => {
                    enter_map(&self.volume, &node.pages, &mut state, wait)?;
                }
            }
            make_entered_dense(&self.volume, node, &mut state)
        })
    }

    /// Counts an open file.
    ///
    /// # Errors
    /// `NotFound` if the inode was freed since its node was found.
    pub(crate) fn hold(&self, node: &Arc<Node>) -> Result<()> {
        let state = node.state.read();
        if state.gone {
            return Err(ErrorKind::NotFound.into());
        }
        node.opens.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Stores those of these inodes that are unstored. Missing table blocks are read in rising
    /// order, many at a time.
    ///
    /// # Errors
    /// Those of reading a table block.
    pub(crate) fn store_clustered(&self, mut nodes: Vec<Arc<Node>>) -> Result<()> {
        let volume = &self.volume;
        let unstored = volume.unstored.inodes.lock().clone();
        nodes.retain(|node| unstored.contains_key(&node.ino));
        nodes.sort_unstable_by_key(|node| node.ino);
        let mut tables: Vec<BlockNo> = nodes
            .iter()
            .filter_map(|node| place(volume, node.ino).ok())
            .map(|(block, _)| block)
            .collect();
        tables.sort_unstable();
        tables.dedup();
        volume.store.cache.prefetch(tables.into_iter().map(|block| (block, BlockKind::Plain)));
        nodes.iter().try_for_each(|node| self.store_late(node))
    }

    /// Stores those of these inodes that are unstored, one after the other: a table block is read,
    /// and under way to the disk before the next one is read. Not for volumes that write data
    /// first.
    ///
    /// # Errors
    /// Those of reading a table block.
    pub(crate) fn store_interleaved(&self, nodes: &[Arc<Node>]) -> Result<()> {
        let cache = &self.volume.store.cache;
        let write = |table: Option<BlockNo>| {
            let frame = table.and_then(|block| cache.find(block, BlockKind::Plain));
            cache.start_writing(frame.into_iter().collect());
        };
        let mut table = None;
        for node in nodes {
            let next = place(&self.volume, node.ino).ok().map(|(block, _)| block);
            if next != table {
                write(std::mem::replace(&mut table, next));
            }
            self.store_late(node)?;
        }
        write(table);
        Ok(())
    }

    /// Stores an inode if it is unstored.
    ///
    /// # Errors
    /// Those of reading its table block.
    pub(crate) fn store_late(&self, node: &Node) -> Result<()> {
        if !self.volume.unstored.inodes.lock().contains_key(&node.ino) {
            return Ok(());
        }
        let mut state = node.state.write();
        if state.gone {
            return Ok(());
        }
        self.volume.change(credits::INODE, |operation| state.store_now(operation))
    }
}
