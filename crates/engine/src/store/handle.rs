//! Handles: every change of metadata goes through one, whatever the file system.
//!
//! ```text
//!                 the gate is open                    work has ended
//!   change(n) ----------------------> Handle: at most n blocks ----------> the gate may close
//!                                      |  need(m): m more blocks
//!                                      |  breathe: lets a sweep that waits freeze, between two
//!                                      |           changes that stand each for itself
//! ```
//!
//! *Invariants*: an operation has one handle at a time. Through it the operation changes at most as
//! many blocks as it said (`credits`): a journal has to have room for them. What is frozen by a
//! sweep contains all that a handle changed, or nothing of it. An operation that meets damage or a
//! device's error after its first change leaves memory and disk apart: the latch closes.
//! *Locking*: begun after inode locks, and before group locks; never while another one is open in
//! the same thread. No inode is locked, and no sweep waited for, while one is open.
use super::Store;
use super::cache::{Frame, Kind, Stage};
use super::gate::Pass;
use super::superblock::Changes;
use crate::error::{Error, ErrorKind, Result};
use extant_format::BlockNo;
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// One operation's right to change metadata.
pub(crate) struct Handle<'s> {
    store: &'s Store,
    /// Keeps the gate open. A sweep's own handle has none: it has closed the gate.
    pass: RefCell<Option<Pass<'s>>>,
    /// Blocks that it may still change for the first time.
    credits: Cell<u32>,
    /// Blocks that it has changed.
    changed: RefCell<FxHashSet<BlockNo>>,
    has_changed: Cell<bool>,
}

impl Store {
    /// Runs an operation that changes at most `credits` blocks of metadata. Fails with what the
    /// operation fails with; damage or a device's error after its first change closes the latch.
    ///
    /// # Errors
    /// `ReadOnly`; what closed the latch; the operation's own.
    pub(crate) fn change<T>(
        &self,
        credits: u32,
        work: impl FnOnce(&Handle<'_>) -> Result<T>,
    ) -> Result<T> {
        let handle = Handle::begin(self, credits)?;
        let outcome = work(&handle);
        handle.end(outcome)
    }
}

impl<'s> Handle<'s> {
    /// Begins an operation that changes at most `credits` blocks.
    ///
    /// # Errors
    /// `ReadOnly`; what closed the latch.
    pub(crate) fn begin(store: &'s Store, credits: u32) -> Result<Handle<'s>> {
        store.check_writable()?;
        Ok(Handle::with_pass(store, credits, Some(store.gate.pass())))
    }

    /// The handle of a sweep that has closed the gate, or that no gate stops.
    pub(super) fn of_sweep(store: &'s Store) -> Handle<'s> {
        Handle::with_pass(store, u32::MAX, None)
    }

    fn with_pass(store: &'s Store, credits: u32, pass: Option<Pass<'s>>) -> Handle<'s> {
        Handle {
            store,
            pass: RefCell::new(pass),
            credits: Cell::new(credits),
            changed: RefCell::default(),
            has_changed: Cell::new(false),
        }
    }

    /// Ends the operation.
    ///
    /// # Errors
    /// Those of the operation. Damage and a device's error latch if anything was changed.
    pub(crate) fn end<T>(self, outcome: Result<T>) -> Result<T> {
        let breaks =
            |error: &Error| matches!(error.kind, ErrorKind::Corrupt(_) | ErrorKind::Device(_));
        if let Err(error) = &outcome
            && breaks(error)
            && self.has_changed.get()
        {
            self.store.latch.close(Some(error));
        }
        outcome
    }

    /// From here on the operation changes at most `credits` blocks that it has not changed yet.
    /// Called where a loop begins its next step, so that work of any length has few of them.
    pub(crate) fn need(&self, credits: u32) {
        self.credits.set(self.credits.get().max(credits));
    }

    /// Lets a sweep that waits freeze what was changed so far. `consistent` stores what the
    /// operation has only in memory: what is frozen then stands for itself. Does nothing when no
    /// sweep waits, so that the outcome does not depend on when it is called.
    ///
    /// # Errors
    /// Those of `consistent`.
    pub(crate) fn breathe(
        &self,
        credits: u32,
        consistent: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !self.store.gate.is_wanted() || self.pass.borrow().is_none() {
            return Ok(());
        }
        consistent()?;
        drop(self.pass.take());
        self.pass.replace(Some(self.store.gate.pass()));
        self.changed.borrow_mut().clear();
        self.credits.set(credits);
        Ok(())
    }

    /// Counts a block that is about to be changed.
    fn count(&self, block: BlockNo) {
        self.has_changed.set(true);
        if self.changed.borrow_mut().insert(block) {
            let left = self.credits.get();
            debug_assert!(left > 0, "{block} is one block more than the operation said");
            self.credits.set(left.saturating_sub(1));
        }
    }

    /// Changes a frame's bytes. Copies them first if a reader or a write still has the old ones.
    pub(crate) fn modify<R>(&self, frame: &Arc<Frame>, change: impl FnOnce(&mut [u8]) -> R) -> R {
        self.count(frame.block());
        self.store.cache.modify(frame, None, change).0
    }

    /// The same for a change that has to be written in this stage of a sweep.
    pub(crate) fn modify_in<R>(
        &self,
        frame: &Arc<Frame>,
        stage: Stage,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        self.count(frame.block());
        self.store.cache.modify(frame, Some(stage), change).0
    }

    /// Gives a block that holds something already another structure: zeroed, then filled.
    pub(crate) fn rewrite(&self, frame: &Arc<Frame>, kind: Kind, fill: impl FnOnce(&mut [u8])) {
        self.count(frame.block());
        self.store.cache.rewrite(frame, kind, fill);
    }

    /// A metadata block that was allocated just now: zeroed without being read, then filled. What
    /// is to lead to it is changed afterwards.
    pub(crate) fn create(
        &self,
        block: BlockNo,
        kind: Kind,
        fill: impl FnOnce(&mut [u8]),
    ) -> Arc<Frame> {
        self.fill(block, kind, Stage::New, fill)
    }

    /// A bitmap or a block of an inode table whose old bytes do not matter: zeroed without being
    /// read, then filled.
    pub(crate) fn overwrite(&self, block: BlockNo, fill: impl FnOnce(&mut [u8])) -> Arc<Frame> {
        self.fill(block, Kind::Plain, Stage::Tables, fill)
    }

    fn fill(
        &self,
        block: BlockNo,
        kind: Kind,
        stage: Stage,
        fill: impl FnOnce(&mut [u8]),
    ) -> Arc<Frame> {
        self.count(block);
        let frame = self.store.cache.create(block, kind, stage);
        self.store.cache.modify(&frame, Some(stage), fill);
        frame
    }

    /// Changes words of the superblock, which is written by the next sync.
    pub(crate) fn change_superblock<R>(&self, change: impl FnOnce(&mut Changes) -> R) -> R {
        self.store.record.change(change)
    }
}
