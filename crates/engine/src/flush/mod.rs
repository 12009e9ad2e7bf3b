//! An open file system: its inodes, and what writes them.
//!
//! ```text
//! admission   who may make blocks dirty, and when        changes   what there is to write, in order
//! flusher     writes in the background                   memory    kept within its bounds
//! ```
//!
//! *Invariants*: every call leaves memory within its bounds (`balance`); after a failed write
//! nothing more is written.
//! *Locking*: `backlog` is a short lock, under which nothing else is taken.
pub(crate) mod admission;
mod changes;
pub(crate) mod flusher;
mod memory;

use crate::error::{ErrorKind, Result};
use crate::inode::write_back::make_map_dense;
use crate::inode::{Inodes, Volume, credits, mapping};
use crate::policy::preset::Mount;
use crate::ranks;
use crate::store::Options;
use crate::store::budget::DirtyBudget;
use crate::store::cache::Kind;
use admission::Backlog;
use extant_block::{BlockDevice, ShortLock};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo};
use flusher::Flusher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the head of the file.
pub(crate) struct Core {
    pub(crate) inodes: Inodes,
    /// `s_state` as it was found: what closing puts back.
    state_found: u16,
    /// What it was opened for, and whether it was closed: a volume that is no longer writable
    /// without having been closed has lost something.
    opened_to_change: bool,
    closed: AtomicBool,
    /// It is being closed: no further call that changes something begins.
    pub(crate) closing: AtomicBool,
    /// Writes in the background, where the policy has one.
    pub(crate) flusher: Flusher,
    /// What writers that have to write go on with.
    pub(crate) backlog: ShortLock<Backlog>,
}

/// `s_state`: everything was written when it was closed.
const CLEAN: u16 = 1;

impl Core {
    pub(crate) fn open(
        device: Arc<dyn BlockDevice>,
        options: &Options,
        shared: Option<(&Arc<DirtyBudget>, u32)>,
    ) -> Result<Core> {
        let volume = Volume::open(device, options, shared)?;
        let changes = volume.store.check_writable().is_ok();
        if changes && volume.store.superblock.has(Feature::ORPHAN_PRESENT) {
            // The kernel leaves this behind only together with a journal to be replayed: whoever
            // does that frees them too.
            return Err(ErrorKind::NeedsRecovery.into());
        }
        let state_found = volume.store.superblock.state;
        let core = Core {
            state_found,
            opened_to_change: changes,
            closed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            flusher: Flusher::new(&volume.store.clock),
            backlog: ShortLock::ranked(ranks::LAST, Backlog::default()),
            inodes: Inodes::new(volume),
        };
        if core.is_writable() {
            core.store_state(state_found & !CLEAN)?;
            core.inodes.free_old_orphans()?;
        }
        Ok(core)
    }

    /// The volume.
    pub(crate) fn volume(&self) -> &Volume {
        &self.inodes.volume
    }

    /// Whether it may be changed now.
    pub(crate) fn is_writable(&self) -> bool {
        self.inodes.is_writable()
    }

    fn store_state(&self, state: u16) -> Result<()> {
        let volume = self.volume();
        volume.store.change(0, |handle| {
            handle.change_superblock(|changes| changes.state = state);
            Ok(())
        })?;
        volume.store.write_superblock(volume.space.free_counts(), GroupNo(0))
    }

    /// Writes everything and waits until the device has it. When it fails, nothing more will ever
    /// be written.
    pub(crate) fn sync(&self) -> Result<()> {
        self.told(self.sync_all())
    }

    /// What is told of a failure is told when the writes that had begun before it have ended.
    pub(crate) fn told<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.volume().store.latch.settle();
            if self.volume().store.latch.is_closed() {
                self.volume().store.seat.leave();
            }
        }
        outcome
    }

    fn sync_all(&self) -> Result<()> {
        self.settle()?;
        self.inodes.free_replaced()?;
        self.inodes.chain_orphans()?;
        self.volume().space.sync()?;
        self.volume().unstored.tables.lock().clear();
        self.inodes.assert_promises();
        Ok(())
    }

    /// Gives all dirty blocks their places, and takes back what files have in hand: then nothing is
    /// promised any more. All writes are under way when it returns.
    fn settle(&self) -> Result<()> {
        self.write_changes(&mut self.changes(), u64::MAX)?;
        if self.volume().space.inodes_in_hand() > 0 {
            for node in self.inodes.nodes.all() {
                let mut state = node.state.write();
                self.volume().change(credits::RUN, |operation| {
                    mapping::window::discard(operation, &mut state)
                })?;
            }
        }
        Ok(())
    }

    /// Writes everything, marks the volume clean and waits until the device has it.
    pub(crate) fn close(&self) -> Result<()> {
        let outcome = self.told(self.close_all());
        if outcome.is_err() {
            self.closing.store(false, Ordering::Release);
        }
        outcome
    }

    fn close_all(&self) -> Result<()> {
        if !self.opened_to_change || self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.closing.store(true, Ordering::Release);
        self.flusher.stop();
        self.inodes.assert_promises();
        self.settle()?;
        self.inodes.free_replaced()?;
        self.inodes.free_nameless()?;
        for node in self.inodes.nodes.all() {
            make_map_dense(self.volume(), &mut node.state.write())?;
        }
        // The counts are durable before the mark that says so, also where a sync has just written
        // them: what closing asks of a device does not depend on the calls before it.
        self.volume().store.barrier.note_written();
        self.sync()?;
        self.store_state(self.state_found)?;
        self.volume().store.barrier.pass()?;
        self.closed.store(true, Ordering::Release);
        self.volume().store.latch.close(None);
        // What a call that was under way has dirtied since is never written: it is no burden to
        // other volumes.
        self.volume().store.seat.leave();
        Ok(())
    }

    /// Ends the volume behind so many blocks: in its last group, and behind everything in use.
    pub(crate) fn cut(&self, blocks: u64) -> Result<()> {
        let volume = self.volume();
        volume.change(1, |operation| {
            volume.space.cut(operation, BlockNo(blocks))?;
            operation.change_superblock(|changes| changes.blocks_count = blocks);
            Ok(())
        })?;
        let copies = (1..volume.space.len())
            .map(GroupNo)
            .filter(|group| volume.store.superblock.has_super(*group));
        for group in copies {
            volume.store.write_superblock(volume.space.free_counts(), group)?;
        }
        Ok(())
    }

    pub(crate) fn write_metadata(&self) -> Result<()> {
        self.volume().space.write_metadata()
    }

    /// Starts to write metadata; gives how many bytes it were. Waits for none of it, unless data
    /// comes first: then it has to.
    pub(crate) fn start_metadata(&self) -> Result<u64> {
        let volume = self.volume();
        if volume.store.writes_data_first() {
            let bytes = volume.store.cache.dirty_frames() * u64::from(volume.store.block_size());
            volume.space.write_metadata()?;
            return Ok(bytes);
        }
        volume.space.start_store()?;
        let changed = volume.store.cache.changed();
        let bytes = changed.len() as u64 * u64::from(volume.store.block_size());
        volume.store.cache.start_writing(changed.into_iter().map(|(_, frame)| frame).collect());
        Ok(bytes)
    }

    /// On a synchronous mount: writes the directory blocks and inode tables that a call changed,
    /// and waits for them.
    pub(crate) fn write_through(&self) -> Result<()> {
        if self.volume().store.policies.mount == Mount::Async || !self.is_writable() {
            return Ok(());
        }
        let tables = std::mem::take(&mut *self.volume().unstored.tables.lock());
        if self.volume().store.writes_data_first() {
            return self.volume().space.write_metadata();
        }
        self.volume().store.cache.write_back_some(|block, kind| {
            matches!(kind, Kind::Directory { .. }) || tables.contains(&block)
        })
    }
}
