//! The writes of a kind that are under way: files' blocks, or frames of metadata.
//!
//! ```text
//!            announce            write_announced             completion
//!  (nothing) --------> Announced ---------------> Under way -----------> ended
//!                          |          the latch is closed: ended at once, with an error
//!                          +-- dropped: it never was
//! ```
//!
//! *Invariants*: a write is counted from its announcement until its completion has run; the first
//! error that any of them meets closes the latch, before the write counts as ended, so that a
//! thread that waits for it sees the latch closed; bytes under way are bounded.
//! *Locking*: `progress` is a short lock under which nothing else is taken.
use super::barrier::Barrier;
use super::latch::Latch;
use crate::error::Result;
use crate::ranks;
use extant_block::device::Urgency;
use extant_block::{
    BlockDevice, Clock, Completed, Operation, Request, Segment, ShortLock, WaitQueue,
};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Bytes under way, at most: the device's queue merges and orders them.
const UNDER_WAY_BYTES_MAX: usize = 64 << 20;
/// Requests under way, at most.
const UNDER_WAY_MAX: usize = 16 << 10;

#[derive(Default)]
struct Progress {
    /// Numbers of the requests that are announced or under way, in the order of their announcement.
    under_way: BTreeSet<u64>,
    number_next: u64,
    /// How many of them the device was given, and their bytes.
    begun: usize,
    bytes: usize,
}

/// A write that will be asked for: whoever waits for those under way waits for it too. Dropped, it
/// was none.
pub(crate) struct Announced {
    shared: Arc<(ShortLock<Progress>, WaitQueue)>,
    number: Option<u64>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.shared.0.lock().under_way.remove(&number);
            self.shared.1.wake_all();
        }
    }
}

/// The writes of a kind that are under way; the first error that any of them meets closes the
/// volume's latch.
pub(crate) struct Writes {
    shared: Arc<(ShortLock<Progress>, WaitQueue)>,
    latch: Arc<Latch>,
    barrier: Arc<Barrier>,
}

impl Writes {
    /// None under way.
    pub(crate) fn new(
        clock: &Arc<dyn Clock>,
        latch: &Arc<Latch>,
        barrier: &Arc<Barrier>,
    ) -> Writes {
        let queue = WaitQueue::new(Arc::clone(clock));
        Writes {
            shared: Arc::new((ShortLock::ranked(ranks::LAST, Progress::default()), queue)),
            latch: Arc::clone(latch),
            barrier: Arc::clone(barrier),
        }
    }

    /// Starts a write, and calls `ended` when it has ended, however it did. Waits only when very
    /// much is under way. Behind a failure nothing is written: the device is not asked.
    pub(crate) fn write(
        &self,
        device: &dyn BlockDevice,
        offset: u64,
        segments: Vec<Segment>,
        ended: impl FnOnce(&io::Result<()>) + Send + 'static,
    ) {
        self.write_announced(self.announce(), device, offset, segments, ended);
    }

    /// Counts a write as under way before it begins: for who marks as being written what waits for
    /// room in the queue.
    pub(crate) fn announce(&self) -> Announced {
        let mut progress = self.shared.0.lock();
        let number = progress.number_next;
        progress.number_next += 1;
        progress.under_way.insert(number);
        drop(progress);
        Announced { shared: Arc::clone(&self.shared), number: Some(number) }
    }

    /// The same as `write`, for what was announced.
    pub(crate) fn write_announced(
        &self,
        mut announced: Announced,
        device: &dyn BlockDevice,
        offset: u64,
        segments: Vec<Segment>,
        ended: impl FnOnce(&io::Result<()>) + Send + 'static,
    ) {
        let bytes = segments.iter().map(Segment::bytes).sum::<usize>();
        let (progress, queue) = &*self.shared;
        queue.wait_until(progress, |progress| progress.begin(bytes));
        let Some(number) = announced.number.take() else { return };
        let entered = self.latch.enter();
        let landing = Landing {
            shared: Arc::clone(&self.shared),
            latch: Arc::clone(&self.latch),
            barrier: Arc::clone(&self.barrier),
            entered,
            number,
            bytes,
            ended: Some(Box::new(ended)),
        };
        let request = Request {
            operation: Operation::Write,
            offset,
            segments,
            urgency: Urgency::Background,
            completion: Box::new(move |completed| landing.land(completed)),
        };
        match entered {
            true => device.submit(request),
            false => request.complete(Err(io::Error::other("an earlier write failed"))),
        }
    }

    /// Waits until those that are announced or under way now have ended; others may begin
    /// meanwhile.
    ///
    /// # Errors
    /// What closed the latch: what the disk holds is not known since.
    pub(crate) fn wait(&self) -> Result<()> {
        let (progress, queue) = &*self.shared;
        let behind = progress.lock().number_next;
        queue.wait_until(progress, |progress| {
            let oldest = progress.under_way.first();
            oldest.is_none_or(|oldest| *oldest >= behind).then_some(())
        });
        self.latch.check()
    }

    /// Waits until so many bytes could be begun at once: a full queue is waited for with no inode
    /// held.
    pub(crate) fn wait_for_room(&self, bytes: usize) {
        let (progress, queue) = &*self.shared;
        let bytes = bytes.min(UNDER_WAY_BYTES_MAX);
        queue.wait_until(progress, |progress| progress.has_room(bytes).then_some(()));
    }

    /// Waits until one of those that are under way now has ended; says whether there was one.
    pub(crate) fn wait_for_one(&self) -> bool {
        let (progress, queue) = &*self.shared;
        let before = progress.lock().under_way.clone();
        queue.wait_until(progress, |progress| {
            (!progress.under_way.is_superset(&before) || before.is_empty()).then_some(())
        });
        !before.is_empty()
    }
}

impl Progress {
    fn has_room(&self, bytes: usize) -> bool {
        let room = self.begun < UNDER_WAY_MAX && self.bytes + bytes <= UNDER_WAY_BYTES_MAX;
        room || self.begun == 0
    }

    /// Counts a write that may begin.
    fn begin(&mut self, bytes: usize) -> Option<()> {
        self.has_room(bytes).then(|| {
            self.begun += 1;
            self.bytes += bytes;
        })
    }
}

/// What is called when a write has ended.
type Ended = Box<dyn FnOnce(&io::Result<()>) + Send>;

/// A write under way. Dropped without an answer, it has failed: nobody waits for ever for a request
/// that a device has lost.
struct Landing {
    shared: Arc<(ShortLock<Progress>, WaitQueue)>,
    latch: Arc<Latch>,
    barrier: Arc<Barrier>,
    /// The latch let it in.
    entered: bool,
    number: u64,
    bytes: usize,
    ended: Option<Ended>,
}

impl Landing {
    fn land(mut self, completed: Completed) {
        drop(completed.segments);
        self.end(completed.result);
    }

    fn end(&mut self, result: io::Result<()>) {
        let Some(ended) = self.ended.take() else { return };
        ended(&result);
        // Before it counts as ended: whoever waits for it hears of it.
        match result {
            Ok(()) => self.barrier.note_written(),
            Err(error) => self.latch.close(Some(&error.into())),
        }
        let mut progress = self.shared.0.lock();
        progress.under_way.remove(&self.number);
        progress.begun -= 1;
        progress.bytes -= self.bytes;
        drop(progress);
        self.shared.1.wake_all();
        if self.entered {
            self.latch.leave();
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.end(Err(io::Error::other("the device lost a request")));
    }
}
