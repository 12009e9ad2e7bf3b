//! An open file system: its inodes, and when what is dirty is written.
//!
//! ```text
//! admission   when writers may make blocks dirty    changes   what is dirty, in writing order
//! flusher     writes in the background              memory    is kept within its bounds
//! committer   commits the journal's transactions in time
//! growth      the volume gets longer
//! ```
//!
//! *Invariants*: after every call memory is within its bounds (`balance`). Nothing is written after
//! a failed write, but the note of it in journal and superblock.
//! *Locking*: `backlog` is a short lock under which no other is taken.
pub(crate) mod admission;
mod changes;
#[cfg(test)]
mod checkpoint_tests;
pub(crate) mod committer;
pub(crate) mod flusher;
mod growth;
mod memory;

use crate::error::{ErrorKind, Result};
use crate::inode::file::{self, Durable};
use crate::inode::quota;
use crate::inode::write_back::{Wait, make_map_dense};
use crate::inode::{Inodes, Node, Volume, credits, journal, mapping};
use crate::policy::preset::Mount;
use crate::ranks;
use crate::store::Options;
use crate::store::budget::DirtyBudget;
use crate::store::cache::BlockKind;
use crate::store::mount_hold::MountHold;
use admission::Backlog;
use committer::Committer;
use extant_block::{BlockDevice, ShortLock};
use extant_format::superblock::state;
use extant_format::{BlockNo, GroupNo};
use flusher::Flusher;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open file system with its threads: what opens, syncs and closes it. Five words say how much
/// of an open volume is meant, each with all of the one before: [`Store`](crate::store::Store), up
/// to the device; [`Volume`], with its space and what inodes share; [`Inodes`], with the inodes and
/// names in memory; this; and [`Filesystem`](crate::Filesystem), for programs, by paths.
pub(crate) struct Core {
    pub(crate) inodes: Inodes,
    /// `s_state` as it was found; closing restores it.
    state_found: u16,
    /// Whether it was opened to be changed. If so, and it is neither closed nor writable any more,
    /// a failure has closed the latch.
    opened_to_change: bool,
    closed: AtomicBool,
    /// It is being closed: calls that change something are refused.
    pub(crate) closing: AtomicBool,
    /// It is being made longer.
    growing: AtomicBool,
    /// Writes in the background, if the policy has a flusher.
    pub(crate) flusher: Flusher,
    /// Commits in time, where changes go through a journal.
    pub(crate) committer: Committer,
    /// What the next writer that has to write continues with.
    pub(crate) backlog: ShortLock<Backlog>,
    /// What keeps other machines from it (mmp), where it was taken for this.
    hold: Option<MountHold>,
}

/// Starts the threads of a volume that is opened to be written.
///
/// # Errors
/// Those of the host: it gives no thread.
pub(crate) fn start_threads(core: &Arc<Core>, options: &Options) -> io::Result<()> {
    if !core.is_writable() {
        return Ok(());
    }
    Committer::start(core)?;
    let has_flusher = options.policies.throttle.has_flusher();
    if has_flusher { Flusher::start(core) } else { Ok(()) }
}

impl Core {
    pub(crate) fn open(
        device: Arc<dyn BlockDevice>,
        options: &Options,
        shared: Option<(&Arc<DirtyBudget>, u32)>,
    ) -> Result<Core> {
        let mut volume = Volume::open(device, options, shared)?;
        quota::attach(&mut volume)?;
        journal::start(&volume)?;
        let changes = volume.store.check_writable().is_ok();
        let state_found = volume.store.superblock.state;
        let core = Core {
            state_found,
            opened_to_change: changes,
            closed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            growing: AtomicBool::new(false),
            flusher: Flusher::new(&volume.store.clock),
            committer: Committer::new(&volume.store),
            backlog: ShortLock::ranked(ranks::LAST, Backlog::default()),
            inodes: Inodes::new(volume, options.cache_bytes),
            hold: None,
        };
        if core.is_writable() {
            match core.volume().store.journals() {
                // The mark that asks for recovery is durable before anything is journalled.
                true => {
                    core.store_state(core.volume().store.record.now().state)?;
                    core.volume().store.barrier.pass()?;
                    core.volume().store.begin_log()?;
                }
                false => core.store_state(state_found & !state::CLEAN)?,
            }
        }
        Ok(core)
    }

    /// The same, with what keeps other machines from it until it is closed. Nothing more is written
    /// once that is lost.
    pub(crate) fn held(self, hold: MountHold) -> Core {
        hold.closes(&self.volume().store.latch);
        Core { hold: Some(hold), ..self }
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

    /// Writes everything and waits until it is durable.
    ///
    /// # Errors
    /// The first write error. Nothing is ever written after it.
    pub(crate) fn sync(&self) -> Result<()> {
        self.report(self.sync_all())
    }

    /// Makes one inode durable, with its data, and all that was done before.
    ///
    /// # Errors
    /// The first write error. Nothing is ever written after it.
    pub(crate) fn sync_node(&self, node: &Node, what: Durable) -> Result<()> {
        let sync = || {
            self.inodes.free_replaced()?;
            self.write_for_commit()?;
            file::sync(self.volume(), node, what)
        };
        self.report(sync())
    }

    /// Returns an outcome to the caller: a failure only once the writes started before it have
    /// completed. If the latch is closed, what is dirty no longer counts against other volumes.
    pub(crate) fn report<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.note_failure();
        }
        outcome
    }

    /// After a failure that closed the latch: waits until no write is under way, and notes the
    /// failure on the device.
    fn note_failure(&self) {
        let store = &self.volume().store;
        store.latch.wait_until_empty();
        if store.latch.is_closed() {
            store.note_error();
            store.seat.leave();
        }
    }

    fn sync_all(&self) -> Result<()> {
        self.submit_dirty()?;
        self.inodes.enter_maps(Wait::ForAll)?;
        self.inodes.free_replaced()?;
        self.inodes.free_left()?;
        self.inodes.free_values()?;
        if self.volume().store.journals() && !self.volume().store.is_of_the_posts() {
            // The flush before the commit covers the data then, and no other is needed for it.
            self.volume().store.writes.wait()?;
        }
        self.volume().space.sync()?;
        self.volume().unstored.tables.lock().clear();
        self.inodes.assert_promises();
        Ok(())
    }

    /// Allocates and submits all dirty blocks, and takes back what inodes have in hand. Afterwards
    /// nothing is promised, and all writes are under way.
    pub(super) fn submit_dirty(&self) -> Result<()> {
        match self.writes_by_age() {
            true => self.write_by_age()?,
            false => self.write_changes(&mut self.changes(), u64::MAX)?,
        }
        if self.volume().space.inodes_in_hand() > 0 {
            for node in self.inodes.nodes.all() {
                let mut state = node.state.write();
                if state.window.is_none() {
                    continue;
                }
                self.volume().change(credits::RUN, |operation| {
                    mapping::window::discard(operation, &mut state)
                })?;
            }
        }
        Ok(())
    }

    /// Writes everything, marks the volume clean and waits until that is durable.
    pub(crate) fn close(&self) -> Result<()> {
        let outcome = self.report(self.close_all());
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
        self.committer.stop();
        self.inodes.assert_promises();
        self.submit_dirty()?;
        self.inodes.enter_maps(Wait::ForAll)?;
        self.inodes.free_replaced()?;
        self.inodes.free_left()?;
        self.inodes.free_nameless()?;
        self.inodes.free_values()?;
        for node in self.inodes.nodes.all() {
            let mut state = node.state.write();
            match file::finish_cut(self.volume(), &node, &mut state) {
                // It stays an orphan, which whoever opens the volume cuts.
                Err(error) if error.is_of_the_disk() && self.inodes.is_writable() => {}
                finished => finished?,
            }
            make_map_dense(self.volume(), &mut state)?;
        }
        // The counts are made durable before the mark that vouches for them, even if a sync has
        // just written them: what closing asks of a device does not depend on earlier calls.
        self.volume().store.barrier.note_written();
        self.sync()?;
        self.volume().store.finish_journal()?;
        let errors = self.volume().store.record.now().state & state::ERRORS;
        self.store_state(self.state_found | errors)?;
        self.volume().store.barrier.pass()?;
        if let Some(hold) = &self.hold {
            hold.release()?;
        }
        self.closed.store(true, Ordering::Release);
        self.volume().store.latch.close(None);
        // What a call that was under way has made dirty since then is never written, and must not
        // count against other volumes.
        self.volume().store.seat.leave();
        Ok(())
    }

    /// Makes the volume end at block `blocks`, in its last group and after everything in use.
    pub(crate) fn cut(&self, blocks: u64) -> Result<()> {
        let volume = self.volume();
        volume.change(1, |operation| {
            volume.space.cut(operation, BlockNo(blocks))?;
            operation.change_superblock(|changes| changes.blocks_count = blocks);
            Ok(())
        })?;
        let copies = (1..volume.space.group_count())
            .map(GroupNo)
            .filter(|group| volume.store.superblock.has_super(*group));
        for group in copies {
            volume.store.write_superblock(volume.space.free_counts(), group)?;
        }
        Ok(())
    }

    /// See [`Filesystem::trim`](crate::Filesystem::trim).
    pub(crate) fn trim(&self, start: u64, length: u64, minimum: u64) -> Result<u64> {
        let volume = self.volume();
        let superblock = &volume.store.superblock;
        let block_size = u64::from(superblock.block_size());
        let minimum = minimum.div_ceil(block_size);
        let refused = |reason| Err(ErrorKind::InvalidArgument(reason).into());
        if start >= superblock.blocks_count.saturating_mul(block_size) {
            return refused("after the end of the volume");
        }
        if length < block_size {
            return refused("less than a block");
        }
        let Some(minimum) =
            u32::try_from(minimum).ok().filter(|blocks| *blocks <= superblock.blocks_per_group)
        else {
            return refused("no group has as many blocks in a row");
        };
        volume.store.check_writable()?;
        if !volume.store.keeps_order() {
            // What was freed may be reused at once there, and is given back once it is durable.
            self.sync()?;
        }
        let blocks = start.div_ceil(block_size)..start.saturating_add(length) / block_size;
        Ok(self.report(volume.space.trim(blocks, minimum))?.saturating_mul(block_size))
    }

    pub(crate) fn write_metadata(&self) -> Result<()> {
        self.volume().space.write_metadata()
    }

    /// Starts to write metadata. Returns how many bytes. With data first it has to wait for them,
    /// otherwise it does not.
    pub(crate) fn start_metadata(&self) -> Result<u64> {
        let volume = self.volume();
        if volume.store.keeps_order() {
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

    /// On a synchronous mount: writes the directory blocks and inode tables that a call has
    /// changed, and waits for them.
    pub(crate) fn write_through(&self) -> Result<()> {
        if !self.volume().store.policies.mount.is_synchronous() || !self.is_writable() {
            return Ok(());
        }
        let tables = std::mem::take(&mut *self.volume().unstored.tables.lock());
        if self.volume().store.keeps_order() {
            return self.volume().space.write_metadata();
        }
        self.volume().store.cache.write_back_some(|block, kind| {
            matches!(kind, BlockKind::Directory { .. }) || tables.contains(&block)
        })?;
        self.write_new_maps()
    }

    /// Under `mount=sync-maps`: writes the indirect blocks that a call has made, and waits for
    /// them.
    pub(crate) fn write_new_maps(&self) -> Result<()> {
        if self.volume().store.policies.mount != Mount::SyncMaps || !self.is_writable() {
            return Ok(());
        }
        let maps = std::mem::take(&mut *self.volume().unstored.maps.lock());
        // Where metadata is written in an order, a sweep or a commit takes them.
        if maps.is_empty() || self.volume().store.keeps_order() {
            return Ok(());
        }
        self.volume().store.cache.write_back_some(|block, _| maps.contains(&block))
    }
}
