//! The thread that commits the journal's transactions in time, and checkpoints them before the log
//! is full.
//!
//! *Invariants*: it does not keep a file system alive, and ends before `close` empties the journal.
//! A failure closes the latch, so that the next caller gets the error.
//! *Locking*: `task` is a short lock, held by nothing else.
use super::Core;
use crate::error::Result;
use crate::inode::write_back::Wait;
use crate::policy::preset::Journal;
use crate::ranks;
use crate::store::Store;
use extant_block::{ShortLock, Task};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

const SECOND_NS: u64 = 1_000_000_000;

/// Ends the thread.
pub(crate) struct Committer {
    task: ShortLock<Option<Task>>,
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<Store>,
    ended: AtomicBool,
}

impl Committer {
    /// A thread that has not started.
    pub(crate) fn new(store: &Arc<Store>) -> Committer {
        Committer {
            task: ShortLock::ranked(ranks::LAST, None),
            shared: Arc::new(Shared { store: Arc::clone(store), ended: AtomicBool::new(false) }),
        }
    }

    /// Starts the thread, if the volume has a journal in use.
    pub(crate) fn start(core: &Arc<Core>) {
        let shared = Arc::clone(&core.committer.shared);
        if !shared.store.journals() {
            return;
        }
        let clock = Arc::clone(&shared.store.clock);
        let weak = Arc::downgrade(core);
        let task = clock.spawn("commits", Box::new(move || run(&weak, &shared)));
        *core.committer.task.lock() = Some(task);
    }

    /// Ends the thread, and waits until it has ended.
    pub(crate) fn stop(&self) {
        self.end();
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.join();
        }
    }

    fn end(&self) {
        self.shared.ended.store(true, Ordering::Release);
        if let Some(log) = self.shared.store.log() {
            log.call();
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Works until it is asked to end, or the file system is gone.
fn run(core: &Weak<Core>, shared: &Shared) {
    let Some(log) = shared.store.log() else { return };
    while !shared.ended.load(Ordering::Acquire) {
        let deadline = {
            let Some(core) = core.upgrade() else { return };
            // A failure has closed the latch: there is nothing more to do.
            core.commit_in_time().unwrap_or(None)
        };
        log.wait_for_call(deadline);
    }
}

impl Core {
    /// With `journal=ordered-jbd` a commit writes all dirty data, whichever caller asked for the
    /// commit.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn write_for_commit(&self) -> Result<()> {
        match self.volume().store.journal() {
            Journal::OrderedJbd => self.submit_dirty(),
            _ => Ok(()),
        }
    }

    /// Commits what has been changed for long enough, and checkpoints if it is time. Returns when
    /// to look again, in nanoseconds of the clock.
    fn commit_in_time(&self) -> Result<Option<u64>> {
        let store = &self.volume().store;
        let Some(log) = store.log() else { return Ok(None) };
        if log.wants_checkpoint() {
            log.checkpoint(store)?;
        }
        let Some(since) = log.changed_since() else { return Ok(None) };
        let age = u64::from(store.policies.commit_seconds).saturating_mul(SECOND_NS);
        let due = since.saturating_add(age);
        if store.clock.now() < due {
            return Ok(Some(due));
        }
        self.write_for_commit()?;
        self.inodes.enter_maps(Wait::ForNone)?;
        self.volume().space.write_metadata()?;
        if self.inodes.nodes.with_pages().iter().any(|node| node.pages.has_placed()) {
            // Data that is still under way enters the map next time.
            log.note_change(&*store.clock);
        }
        Ok(log.changed_since().map(|since| since.saturating_add(age)))
    }
}
