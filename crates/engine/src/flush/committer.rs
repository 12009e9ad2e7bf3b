//! The thread that makes changes durable in time: it commits the journal's transactions, and
//! checkpoints them before the log is full; with `commit=5s+data` it writes all that is dirty, data
//! too, with and without a journal.
//!
//! With `+data` a round begins when the time of the column has passed since the last one began, or
//! when that one has ended, if it took longer. A round makes durable what was changed before it
//! began. So after a power cut a change is lost only if it is younger than this time and what the
//! round takes that begins next; on a device on which a round takes longer than this time, than two
//! rounds. What is being written to all the time enters the map as far as it was written.
//!
//! *Invariants*: it does not keep a file system alive, and ends before `close` empties the journal.
//! A failure closes the latch, so that the next caller gets the error.
//! *Locking*: `task` and `called` are short locks, held by nothing else.
use super::Core;
use super::changes::WhenCongested;
use crate::error::Result;
use crate::inode::write_back::Wait;
use crate::policy::preset::{CommitReach, Journal};
use crate::policy::throttle::Manner;
use crate::ranks;
use crate::store::Store;
use extant_block::{ShortLock, Task, WaitQueue};
use std::io;
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
    /// Where it waits if there is no journal, whose first change would wake it.
    called: ShortLock<()>,
    caller: WaitQueue,
}

impl Committer {
    /// A thread that has not started.
    pub(crate) fn new(store: &Arc<Store>) -> Committer {
        Committer {
            task: ShortLock::ranked(ranks::LAST, None),
            shared: Arc::new(Shared {
                store: Arc::clone(store),
                ended: AtomicBool::new(false),
                called: ShortLock::ranked(ranks::LAST, ()),
                caller: WaitQueue::new(Arc::clone(&store.clock)),
            }),
        }
    }

    /// Starts the thread, if the volume has a journal in use, or writes all that is dirty in time.
    ///
    /// # Errors
    /// Those of the host: it gives no thread.
    pub(crate) fn start(core: &Arc<Core>) -> io::Result<()> {
        let shared = Arc::clone(&core.committer.shared);
        if !shared.store.journals() && !shared.writes_everything() {
            return Ok(());
        }
        let clock = Arc::clone(&shared.store.clock);
        let weak = Arc::downgrade(core);
        let task = clock.try_spawn("commits", Box::new(move || run(&weak, &shared)))?;
        *core.committer.task.lock() = Some(task);
        Ok(())
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
        // Under the lock: the thread is waiting by then, or will see that it has to end.
        let called = self.shared.called.lock();
        drop(called);
        self.shared.caller.wake_all();
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn writes_everything(&self) -> bool {
        self.store.policies.commit_reach == CommitReach::Everything
    }

    fn wait(&self, deadline: Option<u64>) {
        let ended = |_: &mut ()| self.ended.load(Ordering::Acquire).then_some(());
        match (self.store.log(), deadline) {
            (Some(log), _) => log.wait_for_call(deadline),
            (None, Some(deadline)) => {
                self.caller.wait_until_deadline(&self.called, deadline, ended);
            }
            (None, None) => self.caller.wait_until(&self.called, ended),
        }
    }
}

/// Works until it is asked to end, or the file system is gone.
fn run(core: &Weak<Core>, shared: &Shared) {
    let period = u64::from(shared.store.policies.commit_seconds).saturating_mul(SECOND_NS);
    let mut next = shared.store.clock.now().saturating_add(period);
    while !shared.ended.load(Ordering::Acquire) {
        let deadline = {
            let Some(core) = core.upgrade() else { return };
            match shared.writes_everything() {
                // A failure has closed the latch: there is nothing more to do.
                false => core.report(core.commit_in_time(period)).unwrap_or(None),
                true => core.write_in_time(&mut next, period),
            }
        };
        shared.wait(deadline);
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

    /// Commits what has been changed for `age` nanoseconds, and checkpoints if it is time. Returns
    /// when to look again, in nanoseconds of the clock.
    fn commit_in_time(&self, age: u64) -> Result<Option<u64>> {
        let store = &self.volume().store;
        let Some(log) = store.log() else { return Ok(None) };
        if log.wants_checkpoint() {
            log.checkpoint(store)?;
        }
        let Some(since) = log.changed_since() else { return Ok(None) };
        let due = since.saturating_add(age);
        if store.clock.now() < due {
            return Ok(Some(due));
        }
        self.write_for_commit()?;
        self.inodes.enter_maps(Wait::ForNone)?;
        self.volume().space.write_metadata()?;
        if !self.volume().pages.placed_inodes().is_empty() {
            // Data that is still under way enters the map next time.
            log.note_change(&*store.clock);
        }
        Ok(log.changed_since().map(|since| since.saturating_add(age)))
    }
    /// Writes all that is dirty at the time `next`, and checkpoints if it is time. Returns when to
    /// look again, in nanoseconds of the clock; `None` after a failure.
    fn write_in_time(&self, next: &mut u64, period: u64) -> Option<u64> {
        let store = &self.volume().store;
        if let Some(log) = store.log().filter(|log| log.wants_checkpoint()) {
            let _ = self.report(log.checkpoint(store));
        }
        let now = store.clock.now();
        if now >= *next {
            *next = now.saturating_add(period);
            // What cannot be read is tried again with the next round, and by the next sync, which
            // reports the error. A failed write has closed the latch.
            let _ = self.report(self.write_everything());
        }
        self.is_writable().then_some(*next)
    }

    /// Writes what is dirty now, file by file, and waits until it is durable. Unlike a sync it does
    /// not take back what files have in hand for their growth, and locks no file while its data is
    /// being written.
    fn write_everything(&self) -> Result<()> {
        if !self.has_changes() {
            return Ok(());
        }
        let mut changes = self.changes();
        match self.manner() {
            Manner::Whole => self.write_changes(&mut changes, u64::MAX)?,
            Manner::Pieces => self.write_each(&mut changes, WhenCongested::Sleeps)?,
        }
        self.volume().store.writes.wait()?;
        self.inodes.enter_maps(Wait::ForNone)?;
        self.inodes.free_replaced()?;
        self.volume().space.sync()
    }

    /// Whether anything is not durable yet.
    fn has_changes(&self) -> bool {
        let (volume, inodes) = (self.volume(), &self.inodes);
        volume.dirty_bytes() > 0
            || volume.store.barrier.has_unflushed()
            || volume.store.log().is_some_and(|log| log.changed_since().is_some())
            || !volume.unstored.inodes.lock().is_empty()
            || !inodes.replaced.lock().is_empty()
            || !volume.pages.placed_inodes().is_empty()
    }
}
