//! The flusher of a volume: a thread of the clock that writes in the background what the throttle
//! says.
//!
//! *Invariants*: a flusher does not keep a file system alive, and ends before `close` does. A write
//! that fails closes the latch, so the next writer gets the error. What cannot be read is tried
//! again later, and by the next sync, which reports the error.
//! *Locking*: `shared` is a short lock, never held while anything is written.
use super::Core;
use super::changes::{Changed, WhenCongested};
use crate::error::Result;
use crate::policy::throttle::{FlusherAdvice, FlusherFacts, Manner};
use crate::ranks;
use crate::store::writes::wait_for_relief;
use extant_block::{BlockDevice, Clock, ShortLock, Task, WaitQueue};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

/// How long after a failed read (of a block of an inode table) it is tried again, in nanoseconds.
/// Other writing goes on.
const RETRY_NS: u64 = 5_000_000_000;

#[derive(Default)]
struct Shared {
    /// A writer has found work for it.
    called: bool,
    ended: bool,
    /// Its last round failed to read or write something.
    stuck: bool,
    /// What is dirty can wait, so only a writer that was stopped wakes it.
    resting: bool,
    task: Option<Task>,
}

/// Wakes and ends the flusher.
pub(crate) struct Flusher {
    shared: Arc<(ShortLock<Shared>, WaitQueue)>,
}

impl Flusher {
    /// A flusher that has not started.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Flusher {
        let queue = WaitQueue::new(Arc::clone(clock));
        Flusher { shared: Arc::new((ShortLock::ranked(ranks::LAST, Shared::default()), queue)) }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// Those of the host: it gives no thread.
    pub(crate) fn start(core: &Arc<Core>) -> io::Result<()> {
        let shared = Arc::clone(&core.flusher.shared);
        let weak = Arc::downgrade(core);
        let clock = &core.volume().store.clock;
        let task = clock.try_spawn("flusher", Box::new(move || run(&weak, &shared)))?;
        core.flusher.shared.0.lock().task = Some(task);
        Ok(())
    }

    /// Wakes it: a writer was stopped.
    pub(crate) fn call(&self) {
        self.shared.0.lock().called = true;
        self.shared.1.wake_all();
    }

    /// Wakes it, if it does not rest: much is dirty.
    pub(crate) fn tell(&self) {
        let mut shared = self.shared.0.lock();
        if !shared.resting {
            shared.called = true;
            drop(shared);
            self.shared.1.wake_all();
        }
    }

    /// Whether its last round failed.
    pub(crate) fn is_stuck(&self) -> bool {
        self.shared.0.lock().stuck
    }

    /// Ends the thread, and waits until it has ended.
    pub(crate) fn stop(&self) {
        self.end();
        let task = self.shared.0.lock().task.take();
        if let Some(task) = task {
            task.join();
        }
    }

    fn end(&self) {
        self.shared.0.lock().ended = true;
        self.shared.1.wake_all();
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.end();
    }
}

/// Works until it is asked to end, or the file system is gone.
fn run(core: &Weak<Core>, shared: &(ShortLock<Shared>, WaitQueue)) {
    let (state, queue) = shared;
    let mut round = Round::default();
    loop {
        if state.lock().ended {
            return;
        }
        let Some(core) = core.upgrade() else { return };
        let next = match core.is_writable() {
            true => {
                let outcome = core.report(round.work(&core));
                state.lock().stuck = outcome.is_err();
                outcome.unwrap_or_else(|_| {
                    let now = core.volume().store.clock.now();
                    Some(Sleep::Until(now.saturating_add(RETRY_NS)))
                })
            }
            false => {
                // After a failure what is dirty is never written: it must not count any more.
                core.note_failure();
                None
            }
        };
        drop(core);
        match next {
            Some(Sleep::No) => {}
            Some(Sleep::Rest(deadline)) => {
                state.lock().resting = true;
                queue.wait_until_deadline(state, deadline, |shared| {
                    (std::mem::take(&mut shared.called) || shared.ended).then_some(())
                });
                state.lock().resting = false;
            }
            Some(Sleep::Until(deadline)) => {
                queue.wait_until_deadline(state, deadline, |shared| {
                    (std::mem::take(&mut shared.called) || shared.ended).then_some(())
                });
            }
            Some(Sleep::UntilRelief(device)) => {
                let deadline = device.clock().now().saturating_add(CONGESTED_NS);
                wait_for_relief(&*device, deadline);
            }
            None => {
                queue.wait_until(state, |shared| shared.ended.then_some(()));
            }
        }
    }
}

/// How long a flusher sleeps if it could write nothing, in nanoseconds.
const STUCK_NS: u64 = 1_000_000;

/// How long a flusher waits at most for writes under way before it asks again, in nanoseconds.
const WRITES_NS: u64 = 1_000_000_000;

/// How long a flusher leaves files that can wait before it looks again, in nanoseconds: much
/// shorter than the time in which a device takes a tenth of the memory.
const REST_NS: u64 = 20_000_000;

/// How long a flusher leaves a queue alone that is nearly full, in nanoseconds, if it stays so.
const CONGESTED_NS: u64 = 100_000_000;

/// After how long soft updates write metadata, in nanoseconds: half of what data has.
const SOFT_METADATA_AGE_NS: u64 = 15_000_000_000;

enum Sleep {
    No,
    /// Until this time, or until a writer has made something dirty.
    Until(u64),
    /// Until this time, or until a writer was stopped.
    Rest(u64),
    /// Until the queue of this device is not nearly full, or for [`CONGESTED_NS`].
    UntilRelief(Arc<dyn BlockDevice>),
}

/// A pass over what became dirty before `since`.
struct Pass {
    since: u64,
    /// What is not written yet.
    changes: VecDeque<Changed>,
}

/// What the flusher remembers from one round to the next.
#[derive(Default)]
struct Round {
    changes: VecDeque<Changed>,
    /// A pass over what is old that was not done: the queue was nearly full.
    old: Option<Pass>,
    last_look: u64,
    metadata_written: u64,
    /// Whether the last advice was to write because of how much is dirty.
    is_at_work: bool,
}

impl Round {
    /// Does what the policy says, once. `None` means that there will never be anything to do.
    fn work(&mut self, core: &Core) -> Result<Option<Sleep>> {
        let volume = core.volume();
        if let Some(pass) = self.old.take() {
            return self.write_old(core, pass).map(Some);
        }
        let now = volume.store.clock.now();
        let facts = FlusherFacts {
            dirty_bytes: volume.dirty_bytes() + volume.store.seat.dirty_bytes_of_others(),
            is_at_work: self.is_at_work,
            ..volume.store.seat.flusher_facts(now, self.last_look)
        };
        let advice = volume.store.policies.throttle.flusher(&facts);
        self.is_at_work = match advice {
            FlusherAdvice::Write(_)
            | FlusherAdvice::WriteLong(_)
            | FlusherAdvice::WriteOldest(_)
            | FlusherAdvice::WaitForWrites(_) => true,
            // Between two looks at what is old it goes on.
            FlusherAdvice::Update(_) => self.is_at_work,
            FlusherAdvice::WriteOlderThan(_) | FlusherAdvice::SleepUntil(_) => false,
        };
        match advice {
            FlusherAdvice::WaitForWrites(bytes_max) => {
                volume.store.seat.wait_for_writes(bytes_max, WRITES_NS);
                Ok(Some(Sleep::No))
            }
            FlusherAdvice::SleepUntil(deadline) => {
                self.changes.clear();
                Ok(Some(Sleep::Until(deadline.max(now + 1))))
            }
            FlusherAdvice::WriteLong(bytes) => {
                if self.changes.is_empty() {
                    self.changes = core.changes();
                    let all = self.changes.len();
                    self.changes.retain(|change| !change.is_scattered(volume));
                    if self.changes.is_empty() && all > 0 {
                        return Ok(Some(Sleep::Rest(now.saturating_add(REST_NS))));
                    }
                }
                self.write_much(core, now, bytes).map(Some)
            }
            FlusherAdvice::Write(bytes) => self.write_much(core, now, bytes).map(Some),
            FlusherAdvice::WriteOldest(bytes) => {
                let is_stuck = core.write_oldest(bytes)? == 0
                    && !volume.store.writes.wait_for_one()
                    && !volume.store.cache.wait_for_one();
                Ok(Some(match is_stuck {
                    true => Sleep::Until(now.saturating_add(STUCK_NS)),
                    false => Sleep::No,
                }))
            }
            FlusherAdvice::Update(since) => {
                self.last_look = now;
                core.update(since)?;
                Ok(Some(Sleep::No))
            }
            FlusherAdvice::WriteOlderThan(since) => {
                self.last_look = now;
                self.changes.clear();
                let mut changes = core.changes();
                changes.retain(|change| change.since() <= since);
                self.write_old(core, Pass { since, changes }).map(Some)
            }
        }
    }

    fn write_much(&mut self, core: &Core, now: u64, bytes: u64) -> Result<Sleep> {
        let volume = core.volume();
        if let Some(sleep) = leave(core) {
            return Ok(sleep);
        }
        let before = volume.dirty_bytes();
        self.write(core, bytes)?;
        if let Some(sleep) = leave(core) {
            return Ok(sleep);
        }
        // Everything dirty may have an older write under way: then nothing can be done until one
        // has ended.
        let is_stuck = volume.dirty_bytes() >= before && !volume.store.cache.wait_for_one();
        Ok(if is_stuck { Sleep::Until(now.saturating_add(STUCK_NS)) } else { Sleep::No })
    }

    fn write(&mut self, core: &Core, bytes: u64) -> Result<()> {
        if self.changes.is_empty() {
            self.changes = core.changes();
        }
        if self.changes.is_empty() && core.manner() == Manner::Pieces {
            core.start_metadata().map(drop)
        } else if self.changes.is_empty() {
            core.write_metadata()
        } else if core.manner() == Manner::Pieces {
            core.write_pieces(&mut self.changes, bytes, core.flusher_when_congested()).map(drop)
        } else {
            core.write_changes(&mut self.changes, bytes)
        }
    }

    /// Goes on with a pass over what is old, until it is done or the queue is left alone.
    fn write_old(&mut self, core: &Core, mut pass: Pass) -> Result<Sleep> {
        match core.manner() {
            Manner::Whole => core.write_changes(&mut pass.changes, u64::MAX)?,
            Manner::Pieces => core.write_each(&mut pass.changes, core.flusher_when_congested())?,
        }
        if !pass.changes.is_empty() {
            self.old = Some(pass);
            return Ok(leave(core).unwrap_or(Sleep::No));
        }
        self.write_old_metadata(core, pass.since).map(|()| Sleep::No)
    }

    fn write_old_metadata(&mut self, core: &Core, since: u64) -> Result<()> {
        let now = core.volume().store.clock.now();
        let metadata_since = match core.volume().store.updates_softly() {
            true => now.saturating_sub(SOFT_METADATA_AGE_NS),
            false => since,
        };
        // If blocks are allocated at the write, metadata is among the changes.
        if !core.volume().store.journals()
            && core.volume().store.delays_allocation()
            && self.metadata_written <= metadata_since
        {
            self.metadata_written = core.volume().store.clock.now();
            core.write_metadata()?;
        }
        Ok(())
    }
}

/// How a flusher sleeps that leaves its device's queue alone; `None` if it need not.
fn leave(core: &Core) -> Option<Sleep> {
    let leaves =
        core.flusher_when_congested() == WhenCongested::Leaves && core.is_queue_congested();
    leaves.then(|| Sleep::UntilRelief(Arc::clone(&core.volume().store.device)))
}
