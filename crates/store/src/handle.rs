//! Handles: every change of metadata goes through one, whatever the file system.
//!
//! ```text
//!                the gate is open                     `work` returned
//!   change(n) ----------------------> Handle: at most n blocks ----------> the gate may close
//!                                      |  need(m): at most m more blocks
//!                                      |  pause, try_resume: a waiting sweep freezes what was
//!                                      |           changed so far, between two consistent steps
//! ```
//!
//! *Invariants*: an operation has one handle at a time, and changes at most as many blocks through
//! it as it declared (`credits`), so that a journal can reserve room for them. A sweep freezes
//! either all changes of a handle or none. If an operation meets damage or a device error between
//! two changes that belong together, memory and disk no longer agree, and the latch closes. An
//! operation that says where its changes fit together ([`Handle::note_whole`]) may fail there, and
//! only there, without that.
//! *Locking*: a handle is opened after inode locks and before the superblock lock and the groups,
//! and never while the same thread has another one open. While it is open, no inode is locked and
//! no sweep is waited for; with `journal=ordered-jbd` one that is past its freeze is, until it has
//! written the frame's copy to the log: that needs no lock.
use super::Store;
use super::cache::{BlockKind, Frame, Stage};
use super::gate::Pass;
use super::superblock::{FreeCounts, SuperblockFields};
use crate::error::Result;
use extant_block::order::assert_no_short_lock;
use extant_format::BlockNo;
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// One operation's permission to change metadata.
pub struct Handle<'s> {
    store: &'s Store,
    /// Keeps the gate open. `None` in a sweep's own handle: the sweep has closed the gate, or needs
    /// no gate.
    pass: RefCell<Option<Pass<'s>>>,
    /// How many more blocks it may change that it has not changed yet.
    credits: Cell<u32>,
    /// How many blocks the journal has granted it.
    granted: Cell<u32>,
    /// Blocks that it has changed since it passed the gate.
    changed: RefCell<ChangedBlocks>,
    /// Something was changed since all changes last fitted together.
    is_midway: Cell<bool>,
}

impl Store {
    /// Runs an operation that changes at most `credits` blocks of metadata. Fails with what the
    /// operation fails with; damage or a device's error in the middle of its changes closes the
    /// latch.
    ///
    /// # Errors
    /// `ReadOnly`; what closed the latch; the operation's own.
    pub fn change<T>(
        &self,
        credits: u32,
        work: impl FnOnce(&Handle<'_>) -> Result<T>,
    ) -> Result<T> {
        let handle = Handle::begin(self, credits)?;
        let outcome = work(&handle);
        handle.end(outcome)
    }
}

impl Store {
    /// Grants an operation this many blocks of the running transaction, if it has room for them.
    fn has_room_for(&self, credits: u32) -> bool {
        match self.log() {
            Some(log) => log.try_join(credits, self.cache.dirty_frames()),
            None => true,
        }
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        self.grant(0);
    }
}

impl<'s> Handle<'s> {
    /// Begins an operation that changes at most `credits` blocks, whether the running transaction
    /// has room for it or not.
    ///
    /// # Errors
    /// `ReadOnly`; what closed the latch.
    pub(crate) fn begin(store: &'s Store, credits: u32) -> Result<Handle<'s>> {
        store.check_writable()?;
        if let Some(log) = store.log() {
            log.join(credits);
        }
        Ok(Handle::with_pass(store, credits, Some(store.gate.pass())))
    }

    /// As [`Handle::begin`]; `None` if the running transaction has no room: then it has to be
    /// committed first.
    ///
    /// # Errors
    /// `ReadOnly`; what closed the latch.
    pub fn try_begin(store: &'s Store, credits: u32) -> Result<Option<Handle<'s>>> {
        store.check_writable()?;
        let fits = store.has_room_for(credits);
        Ok(fits.then(|| Handle::with_pass(store, credits, Some(store.gate.pass()))))
    }

    /// The handle of a sweep, which has closed the gate or does not need it.
    pub(super) fn of_sweep(store: &'s Store) -> Handle<'s> {
        Handle::with_pass(store, u32::MAX, None)
    }

    fn with_pass(store: &'s Store, credits: u32, pass: Option<Pass<'s>>) -> Handle<'s> {
        Handle {
            store,
            credits: Cell::new(credits),
            granted: Cell::new(if store.journals() && pass.is_some() { credits } else { 0 }),
            pass: RefCell::new(pass),
            changed: RefCell::default(),
            is_midway: Cell::new(false),
        }
    }

    /// Ends the operation with this outcome.
    ///
    /// # Errors
    /// The error of `outcome`. Damage and device errors close the latch in the middle of changes.
    pub fn end<T>(self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome
            && error.is_of_the_disk()
            && self.is_midway.get()
        {
            self.store.latch.close(Some(error));
        }
        #[cfg(any(test, feature = "testing"))]
        {
            drop(self.pass.take());
            watch::ended(self.changed.borrow().count);
        }
        outcome
    }

    /// Notes that everything that was changed so far fits together, so that an error before the
    /// next change leaves nothing half done. The caller has stored every inode that it changed, or
    /// stores it when it fails.
    pub fn note_whole(&self) {
        self.is_midway.set(false);
    }

    /// Notes a change outside of frames, to which others belong: one of the map in an inode.
    pub fn note_midway(&self) {
        self.is_midway.set(true);
    }

    /// Whether everything that was changed so far fits together.
    pub fn is_whole(&self) -> bool {
        !self.is_midway.get()
    }

    /// Declares that the operation changes at most `credits` more blocks from here on. Loops call
    /// this at each step, so that work of any length needs only the credits of one step.
    pub fn need(&self, credits: u32) {
        self.credits.set(self.credits.get().max(credits));
        if self.pass.borrow().is_some() {
            self.grant(self.credits.get());
        }
    }

    /// As [`Handle::need`], beside what was declared so far and is not changed yet: for work of
    /// which the operation that it is a part of does not know.
    pub fn need_beside(&self, credits: u32) {
        self.need(self.credits.get().saturating_add(credits));
    }

    /// As [`Handle::modify`], for a block that the operation's credits do not count.
    pub fn modify_beside<R>(&self, frame: &Arc<Frame>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let left = self.credits.get();
        self.need_beside(1);
        let changed = self.modify(frame, change);
        self.credits.set(left.min(self.credits.get()));
        changed
    }

    /// Makes the journal's grant that of `credits`.
    fn grant(&self, credits: u32) {
        let before = self.granted.get();
        let Some(log) = self.store.log().filter(|_| before != credits) else { return };
        self.granted.set(credits);
        match before < credits {
            true => log.join(credits - before),
            false => log.leave(before - credits),
        }
    }

    /// Whether a sweep or a commit waits until this operation ends, or the running transaction has
    /// no room left.
    pub fn should_pause(&self) -> bool {
        let is_full = |log: &super::journal::Log| log.is_full(self.store.cache.dirty_frames());
        let is_wanted = self.store.gate.is_wanted() || self.store.log().is_some_and(is_full);
        #[cfg(any(test, feature = "testing"))]
        let is_wanted = is_wanted || watch::is_watched();
        is_wanted && self.pass.borrow().is_some()
    }

    /// Lets what was changed so far be frozen. Nothing may be changed until `try_resume`.
    pub fn pause(&self) {
        drop(self.pass.take());
        self.grant(0);
        #[cfg(any(test, feature = "testing"))]
        watch::ended(self.changed.borrow().count);
    }

    /// Goes on, and may change `credits` blocks. Fails if the running transaction has no room.
    #[must_use]
    pub fn try_resume(&self, credits: u32) -> bool {
        if !self.store.has_room_for(credits) {
            return false;
        }
        if self.store.journals() {
            self.granted.set(credits);
        }
        self.pass.replace(Some(self.store.gate.pass()));
        *self.changed.borrow_mut() = ChangedBlocks::default();
        self.credits.set(credits);
        true
    }

    /// Counts a block that is about to be changed.
    fn count(&self, block: BlockNo) {
        self.is_midway.set(true);
        if let Some(log) = self.store.log() {
            log.note_change(&*self.store.clock);
        }
        if self.changed.borrow_mut().insert(block) {
            let left = self.credits.get();
            debug_assert!(left > 0, "{block} is one block more than the operation said");
            self.credits.set(left.saturating_sub(1));
        }
    }

    /// Whether a change of this frame has to wait for a copy of it that is being written to the
    /// log.
    pub(crate) fn has_to_wait(&self, frame: &Frame) -> bool {
        // No log is being written while a sweep has a handle.
        self.store.waits_for_log()
            && self.pass.borrow().is_some()
            && self.store.cache.is_being_logged(frame)
    }

    /// Waits until the frame may be changed. Called with no short lock held: before one is taken
    /// under which `modify_at_once` follows. If a commit begins to log the frame in between, the
    /// change copies it, as if it had come before that.
    pub fn wait_for_log(&self, frame: &Frame) {
        if self.store.waits_for_log() {
            assert_no_short_lock();
        }
        if self.has_to_wait(frame) {
            self.store.cache.wait_for_log(frame);
        }
    }

    /// Changes a frame's bytes, once it may be changed. They are copied first if a reader or a
    /// write still uses the old ones. Called with no short lock held.
    pub fn modify<R>(&self, frame: &Arc<Frame>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        self.wait_for_log(frame);
        self.modify_at_once(frame, change)
    }

    /// As `modify`, under a short lock: the caller has waited until the frame may be changed.
    pub fn modify_at_once<R>(&self, frame: &Arc<Frame>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        self.count(frame.block());
        self.store.cache.modify(frame, None, change).0
    }

    /// As `modify`, for a change that has to be written in this stage of a sweep.
    pub fn modify_in<R>(
        &self,
        frame: &Arc<Frame>,
        stage: Stage,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        self.wait_for_log(frame);
        self.count(frame.block());
        self.store.cache.modify(frame, Some(stage), change).0
    }

    /// Turns a block in use into another kind of structure: zeroed, then filled.
    pub fn rewrite(&self, frame: &Arc<Frame>, kind: BlockKind, fill: impl FnOnce(&mut [u8])) {
        self.wait_for_log(frame);
        self.count(frame.block());
        self.store.cache.rewrite(frame, kind, fill);
    }

    /// The frame of a newly allocated metadata block: zeroed without being read, then filled. The
    /// pointer to it is changed afterwards.
    pub fn create(
        &self,
        block: BlockNo,
        kind: BlockKind,
        fill: impl FnOnce(&mut [u8]),
    ) -> Arc<Frame> {
        self.fill(block, kind, Stage::New, fill)
    }

    /// The frame of a bitmap or inode table block whose old bytes do not matter: zeroed without
    /// being read, then filled.
    pub fn overwrite(&self, block: BlockNo, fill: impl FnOnce(&mut [u8])) -> Arc<Frame> {
        self.fill(block, BlockKind::Plain, Stage::Tables, fill)
    }

    fn fill(
        &self,
        block: BlockNo,
        kind: BlockKind,
        stage: Stage,
        fill: impl FnOnce(&mut [u8]),
    ) -> Arc<Frame> {
        self.count(block);
        let frame = self.store.cache.create(block, kind, stage);
        self.store.cache.modify(&frame, Some(stage), fill);
        frame
    }

    /// Changes fields of the superblock; the next commit or sync writes them.
    pub fn change_superblock<R>(&self, change: impl FnOnce(&mut SuperblockFields) -> R) -> R {
        if let Some(log) = self.store.log() {
            log.note_change(&*self.store.clock);
        }
        self.store.record.change(change)
    }

    /// Stores the superblock in its frame, for a commit, unless only its time would change.
    ///
    /// # Errors
    /// Those of reading its block.
    pub(crate) fn store_superblock(&self, free: FreeCounts) -> Result<()> {
        let Some(superblock) = self.store.changed_superblock(free) else { return Ok(()) };
        let block_size = u64::from(self.store.block_size());
        let block = BlockNo(SUPERBLOCK_OFFSET / block_size);
        let offset = (SUPERBLOCK_OFFSET % block_size) as usize;
        let frame = self.store.cache.read(block, BlockKind::Plain)?;
        self.modify(&frame, |bytes| {
            let bytes = bytes.get_mut(offset..offset + SUPERBLOCK_SIZE);
            bytes.unwrap_or_default().copy_from_slice(&superblock.encode());
        });
        self.store.record.note_written(&superblock);
        Ok(())
    }
}

/// The ends of steps, as a test on the same thread sees them. While it watches, every step that may
/// be followed by a pause is.
#[cfg(any(test, feature = "testing"))]
pub mod watch {
    use std::cell::RefCell;

    /// Called with the number of blocks that a step changed.
    type Watcher = Box<dyn FnMut(usize)>;

    thread_local! {
        static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
    }

    /// Calls `watcher` at the end of each step on this thread, with no operation open.
    pub fn steps(watcher: impl FnMut(usize) + 'static) {
        WATCHER.set(Some(Box::new(watcher)));
    }

    /// Ends it.
    pub fn no_more() {
        WATCHER.set(None);
    }

    /// Whether a test on this thread watches.
    pub fn is_watched() -> bool {
        WATCHER.with_borrow(Option::is_some)
    }

    /// A step has ended. What the watcher does itself is not watched.
    pub(super) fn ended(changed: usize) {
        let Some(mut watcher) = WATCHER.take() else { return };
        watcher(changed);
        WATCHER.set(Some(watcher));
    }
}

/// Most operations change fewer blocks than this, and allocate no memory to count them.
const FEW: usize = 12;

/// The blocks that an operation has changed, each once.
#[derive(Default)]
struct ChangedBlocks {
    few: [BlockNo; FEW],
    count: usize,
    /// All of them, once there are more than a few.
    many: FxHashSet<BlockNo>,
}

impl ChangedBlocks {
    /// Adds a block; says whether it is new.
    fn insert(&mut self, block: BlockNo) -> bool {
        if self.count > FEW {
            return self.many.insert(block);
        }
        if self.few[..self.count].contains(&block) {
            return false;
        }
        match self.few.get_mut(self.count) {
            Some(place) => *place = block,
            None => {
                self.many.extend(self.few);
                self.many.insert(block);
            }
        }
        self.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_counted_once_be_they_few_or_many() {
        let mut changed = ChangedBlocks::default();
        for round in 0..3 {
            for block in 0..100 {
                assert_eq!(changed.insert(BlockNo(block)), round == 0, "{block} in round {round}");
            }
        }
    }
}
