//! Writes under way, of files' blocks or of metadata frames.
//!
//! ```text
//!          announce             write_announced               the completion runs: end
//!  (none) ----------> Announced ----------------> Under way ---------------------------> (none)
//!                         |                          ^
//!                         | dropped                  | the latch is closed: the request completes
//!                         v                          | at once, with an error
//!                       (none)
//! ```
//!
//! *Invariants*: a write is counted from its announcement until its completion has run. The first
//! error closes the latch before its write counts as ended, so threads that wait for the write see
//! the latch closed. Bytes under way are bounded.
//! *Locking*: `progress` is a short lock under which no other lock is taken.
use super::barrier::Barrier;
use super::latch::Latch;
use crate::error::{Error, Result};
use crate::ranks;
use extant_block::device::Urgency;
use extant_block::{
    BlockDevice, Clock, Completed, Operation, Request, Segment, ShortLock, WaitQueue,
};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Bytes under way at most: enough for the device's queue to merge and order.
const UNDER_WAY_BYTES_MAX: usize = 64 << 20;
/// Requests under way at most.
const UNDER_WAY_MAX: usize = 16 << 10;

#[derive(Default)]
struct Progress {
    /// Numbers of the requests that are announced or under way, in the order of announcement.
    under_way: BTreeSet<u64>,
    number_next: u64,
    /// How many of them were given to the device, and their bytes.
    begun: usize,
    bytes: usize,
}

/// Waits until a write has ended and the device's queue is not congested, or until `deadline`, in
/// nanoseconds of the clock.
pub fn wait_for_relief(device: &dyn BlockDevice, deadline: u64) {
    device.wait_for_relief(Operation::Write, deadline);
}

/// A write that will be submitted. Waiting for the writes under way includes it. If it is dropped
/// instead, it no longer counts.
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

/// A write to be submitted.
pub struct Write {
    /// Its first byte on the device.
    pub offset: u64,
    /// Its bytes.
    pub segments: Vec<Segment>,
    /// Whether a thread waits for it.
    pub urgency: Urgency,
}

/// The writes under way of one kind: of files' blocks, or of metadata.
pub struct Writes {
    shared: Arc<(ShortLock<Progress>, WaitQueue)>,
    latch: Arc<Latch>,
    barrier: Arc<Barrier>,
}

impl Writes {
    /// No writes under way.
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

    /// Starts a write, and calls `ended` when it has ended, successfully or not. Waits only when
    /// the limits on requests and bytes under way are reached. Once the latch is closed, the device
    /// is not asked and the write fails.
    pub fn write(
        &self,
        device: &dyn BlockDevice,
        write: Write,
        ended: impl FnOnce(&io::Result<()>) + Send + 'static,
    ) {
        self.write_announced(self.announce(), device, write, ended);
    }

    /// Counts a write as under way before it is submitted. Used by callers that mark blocks as
    /// being written before there is room for the request.
    pub(crate) fn announce(&self) -> Announced {
        let mut progress = self.shared.0.lock();
        let number = progress.number_next;
        progress.number_next += 1;
        progress.under_way.insert(number);
        drop(progress);
        Announced { shared: Arc::clone(&self.shared), number: Some(number) }
    }

    /// As `write`, for a write that was announced.
    pub(crate) fn write_announced(
        &self,
        mut announced: Announced,
        device: &dyn BlockDevice,
        Write { offset, segments, urgency }: Write,
        ended: impl FnOnce(&io::Result<()>) + Send + 'static,
    ) {
        let bytes = segments.iter().map(Segment::bytes).sum::<usize>();
        let (progress, queue) = &*self.shared;
        queue.wait_until(progress, |progress| progress.begin(bytes));
        let Some(number) = announced.number.take() else { return };
        let entered = self.latch.enter();
        let submitted = SubmittedWrite {
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
            urgency,
            completion: Box::new(move |completed| submitted.complete(completed)),
        };
        match entered {
            true => {
                device.submit(request);
                device.wait_for_room(Operation::Write);
            }
            false => request.complete(Err(io::Error::other("an earlier write failed"))),
        }
    }

    /// Waits until the writes announced or under way now have ended; later ones may still be under
    /// way.
    ///
    /// # Errors
    /// The failure that closed the latch.
    pub fn wait(&self) -> Result<()> {
        let (progress, queue) = &*self.shared;
        let end = progress.lock().number_next;
        queue.wait_until(progress, |progress| {
            let oldest = progress.under_way.first();
            oldest.is_none_or(|oldest| *oldest >= end).then_some(())
        });
        self.latch.check()
    }

    /// Waits until `bytes` could be submitted at once. Callers wait here before they lock an inode,
    /// so that no inode is locked while the queue is full.
    pub fn wait_for_room(&self, bytes: usize) {
        let (progress, queue) = &*self.shared;
        let bytes = bytes.min(UNDER_WAY_BYTES_MAX);
        queue.wait_until(progress, |progress| progress.has_room(bytes).then_some(()));
    }

    /// Waits until one of the writes under way now has ended. Returns false if there was none.
    pub fn wait_for_one(&self) -> bool {
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

    /// Counts a write as submitted if there is room for it.
    fn begin(&mut self, bytes: usize) -> Option<()> {
        self.has_room(bytes).then(|| {
            self.begun += 1;
            self.bytes += bytes;
        })
    }
}

/// What is called when a write has ended.
type Ended = Box<dyn FnOnce(&io::Result<()>) + Send>;

/// A write under way. If it is dropped without having completed, it fails, so a request that a
/// device lost is not waited for forever.
struct SubmittedWrite {
    shared: Arc<(ShortLock<Progress>, WaitQueue)>,
    latch: Arc<Latch>,
    barrier: Arc<Barrier>,
    /// Whether the latch let it in.
    entered: bool,
    number: u64,
    bytes: usize,
    ended: Option<Ended>,
}

impl SubmittedWrite {
    fn complete(mut self, completed: Completed) {
        drop(completed.segments);
        self.end(completed.result);
    }

    fn end(&mut self, result: io::Result<()>) {
        let Some(ended) = self.ended.take() else { return };
        // Before anything says that it has ended: a thread that waits for it has to see the latch
        // closed, or that there is something to flush.
        match result {
            Ok(()) => {
                self.barrier.note_written();
                ended(&Ok(()));
            }
            Err(error) => {
                let error = Error::from(error);
                self.latch.close(Some(&error));
                ended(&Err(io::Error::other(error.to_string())));
            }
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

impl Drop for SubmittedWrite {
    fn drop(&mut self) {
        self.end(Err(io::Error::other("the device lost a request")));
    }
}
