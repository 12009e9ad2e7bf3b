//! What a device is: requests go in, completions come out; and what it may have beside them.
//!
//! ```text
//!  info, clock, submit          required: what it is, on which clock one waits, a request
//!     |  transfer               a request and a wait        | provided, and overridden where that
//!     |  read, write_vectored, write, flush                 | is faster: the way of all file data
//!     |
//!  capabilities                 required: which of these it has
//!     +- durable     one write forced through its cache      else write, then flush
//!     +- remembers   bytes that are in memory                else none are
//!     +- congestion  a queue that fills                      else it never does
//!     +- holes       where nothing is                        else all may be data
//!     +- discard     bytes that are not needed               else `Unsupported`
//!     +- metadata    reads of metadata told apart            else a read
//!     +- host_file   the host's file with its bytes          else none
//!     +- annex       another device behind it                else none is
//! ```
//!
//! Callers have the right column by the methods of `dyn BlockDevice`, which no device can override.
use crate::capability::Capabilities;
use crate::clock::{Clock, Waker};
use crate::edge::{self, Edge};
use crate::lock::ShortLock;
pub use crate::request::{
    Completed, Completion, Operation, Request, Segment, Urgency, pieces_bytes, segments_bytes,
};
pub(crate) use crate::request::{check_range, read_into_shared};
use rustix::fs::Advice;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

/// The properties of a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name for messages: a path, or "memory".
    pub name: String,
    /// Its size in bytes. A file device may grow by writes past its end, if it was opened for that.
    pub bytes: u64,
    /// Smallest unit that is written whole, in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// A device. Shared by reference between threads; its methods may be called at the same time.
///
/// Contract (one test suite, run by every device): a completed write is seen by every later read;
/// `flush` returns after all writes completed before it are durable; requests under way at the same
/// time have no order; every request completes once. A range that is partly or wholly past the end
/// is refused before anything is done: `UnexpectedEof` for reads, `InvalidInput` for writes (unless
/// the device grows). A write to a device that is read only is `ReadOnlyFilesystem`. Errors carry a
/// [`DeviceError`](crate::DeviceError).
///
/// The blocking methods must be called with no short lock held. A device that can do better than a
/// request and a wait overrides them.
pub trait BlockDevice: Send + Sync {
    /// Its properties.
    fn info(&self) -> DeviceInfo;
    /// The clock on which threads wait for it.
    fn clock(&self) -> &Arc<dyn Clock>;
    /// Starts a request; never blocks on the device. The completion may be called before this
    /// returns, so the caller holds no lock that the completion takes.
    fn submit(&self, request: Request);
    /// What it can do beside requests. A device that is made of another one writes all of them out.
    fn capabilities(&self) -> Capabilities<'_>;
    /// Does one operation with the caller's memory, waits for it, and returns the memory.
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        wait_for(self.clock(), |request| self.submit(request), operation, offset, segments)
    }
    /// Reads, and waits until that is done.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let segments = vec![Segment::Owned(vec![0; bytes.len()])];
        let completed = self.transfer(Operation::Read, offset, segments);
        completed.copy_to(bytes, &self.info().name)
    }
    /// Writes, and waits until that is done.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_vectored(offset, &[io::IoSlice::new(bytes)])
    }
    /// Writes pieces end to end, and waits until that is done.
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        let segments = pieces.iter().map(|piece| Segment::Owned(piece.to_vec())).collect();
        self.transfer(Operation::Write, offset, segments).result
    }
    /// Has bytes fetched that will be read soon, if the host can; waits for nothing.
    fn will_read(&self, offset: u64, bytes: u64) {
        advise(self.capabilities(), offset, bytes, Advice::WillNeed);
    }
    /// Makes all completed writes durable, and waits until that is done.
    fn flush(&self) -> io::Result<()> {
        self.transfer(Operation::Flush, 0, Vec::new()).result
    }
}

/// What callers ask of any device: what it has, or what is done without.
impl dyn BlockDevice + '_ {
    /// Waits until the host's queue has room in this direction (`Congests::wait_for_room`);
    /// without such a queue it does not wait.
    pub fn wait_for_room(&self, operation: Operation) {
        if let Some(queue) = self.capabilities().congestion {
            queue.wait_for_room(operation);
        }
    }
    /// Whether the host's queue is nearly full in this direction (`Congests::is_congested`); one
    /// that is not there never is.
    pub fn is_congested(&self, operation: Operation) -> bool {
        self.capabilities().congestion.is_some_and(|queue| queue.is_congested(operation))
    }
    /// Waits until the queue is not congested, or until `deadline`
    /// (`Congests::wait_for_relief`); without a queue it does not wait.
    pub fn wait_for_relief(&self, operation: Operation, deadline: u64) {
        if let Some(queue) = self.capabilities().congestion {
            queue.wait_for_relief(operation, deadline);
        }
    }
    /// Reads a directory or an inode (`ReadsMetadata::read_metadata`); as any other bytes where
    /// they are not told apart.
    ///
    /// # Errors
    /// Those of a read.
    pub fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self.capabilities().metadata {
            Some(queue) => queue.read_metadata(offset, bytes),
            None => self.read(offset, bytes),
        }
    }
    /// Reads what is in memory, and returns how many bytes that is
    /// (`Remembers::read_remembered`): none where nothing is.
    pub fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        let memory = self.capabilities().remembers;
        memory.map_or(0, |memory| memory.read_remembered(offset, bytes))
    }
    /// Writes, and returns when this write is durable (`WritesDurably::write_durable`): by a flush
    /// after it where one write cannot be forced.
    ///
    /// # Errors
    /// Those of a write and of a flush.
    pub fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(cache) = self.capabilities().durable {
            return cache.write_durable(offset, bytes);
        }
        self.write(offset, bytes)?;
        self.flush()
    }
    /// Reads bytes that another machine may have written since they were read last: what the host
    /// has in memory of them is forgotten first, where it can be.
    ///
    /// # Errors
    /// Those of a read.
    pub fn read_anew(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        advise(self.capabilities(), offset, bytes.len() as u64, Advice::DontNeed);
        self.read(offset, bytes)
    }
    /// Tells the device that bytes are not needed any more (`Discards::discard`).
    ///
    /// # Errors
    /// `Unsupported` for a device that can do nothing with that; those of a write.
    pub fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        match self.capabilities().discard {
            Some(holder) => holder.discard(offset, bytes),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }
    /// The host's file in which this device's bytes are as it gives them, and the byte of that file
    /// at which the device begins. `None` for a device that is no such file, or changes what it
    /// reads.
    pub fn host_file(&self) -> Option<(&File, u64)> {
        self.capabilities().host_file
    }
    /// How many bytes it has without those of a device behind it ([`Annex`](crate::Annex)): what a
    /// volume on it may take.
    pub fn own_bytes(&self) -> u64 {
        self.capabilities().annex.map_or_else(|| self.info().bytes, |annex| annex.own_bytes)
    }
    /// The first stretch of bytes at or after `offset` that may hold anything but zeros
    /// (`KnowsHoles::next_data`); where no holes are known, everything up to the end may be data.
    ///
    /// # Errors
    /// Those of the host.
    pub fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        if let Some(holes) = self.capabilities().holes {
            return holes.next_data(offset);
        }
        let end = self.info().bytes;
        Ok((offset < end).then_some(offset..end))
    }
}

/// Advises the host about bytes of a device that is a file of it, if it takes advice.
fn advise(of: Capabilities<'_>, offset: u64, bytes: u64, advice: Advice) {
    // No length would be all to the end.
    if let (Some((file, start)), Some(bytes)) = (of.host_file, NonZeroU64::new(bytes)) {
        let _ = rustix::fs::fadvise(file, start.saturating_add(offset), Some(bytes), advice);
    }
}

/// A shared device is a device, so decorators need not know whether a device is shared.
impl<D: BlockDevice + ?Sized> BlockDevice for Arc<D> {
    fn info(&self) -> DeviceInfo {
        (**self).info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        (**self).clock()
    }
    fn submit(&self, request: Request) {
        (**self).submit(request)
    }
    fn capabilities(&self) -> Capabilities<'_> {
        (**self).capabilities()
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        (**self).transfer(operation, offset, segments)
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        (**self).read(offset, bytes)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (**self).write(offset, bytes)
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        (**self).write_vectored(offset, pieces)
    }
    fn will_read(&self, offset: u64, bytes: u64) {
        (**self).will_read(offset, bytes)
    }
    fn flush(&self) -> io::Result<()> {
        (**self).flush()
    }
}

/// Submits a request that the calling thread waits for, and waits.
pub(crate) fn wait_for(
    clock: &Arc<dyn Clock>,
    submit: impl FnOnce(Request),
    operation: Operation,
    offset: u64,
    segments: Vec<Segment>,
) -> Completed {
    Pending::start(clock, submit, operation, offset, segments, Urgency::Awaited).wait()
}

/// A request under way whose result a thread takes later: to work while the device does.
pub struct Pending {
    clock: Arc<dyn Clock>,
    slot: Arc<ShortLock<Slot>>,
}

impl Pending {
    /// Submits a request to a device.
    pub fn submit(
        device: &dyn BlockDevice,
        operation: Operation,
        offset: u64,
        segments: Vec<Segment>,
    ) -> Pending {
        let submit = |request| device.submit(request);
        Pending::start(device.clock(), submit, operation, offset, segments, Urgency::Awaited)
    }

    /// Submits a request of any urgency, by `submit`.
    pub fn start(
        clock: &Arc<dyn Clock>,
        submit: impl FnOnce(Request),
        operation: Operation,
        offset: u64,
        segments: Vec<Segment>,
        urgency: Urgency,
    ) -> Pending {
        edge::meet(Edge::Device);
        let slot = Arc::new(ShortLock::new(Slot::default()));
        let answer = Answer(Arc::clone(&slot));
        submit(Request {
            operation,
            offset,
            segments,
            urgency,
            completion: Box::new(move |completed| answer.give(completed)),
        });
        Pending { clock: Arc::clone(clock), slot }
    }

    /// Waits until it is done. To be called with no short lock held.
    pub fn wait(self) -> Completed {
        let Pending { clock, slot } = self;
        // The clock is used only if the thread has to wait: memory completes at once, even outside
        // of a run in virtual time.
        if let Some(completed) = slot.lock().completed.take() {
            return completed;
        }
        let waker = clock.waker();
        loop {
            let mut answered = slot.lock();
            if let Some(completed) = answered.completed.take() {
                return completed;
            }
            answered.waker.get_or_insert_with(|| waker.clone());
            drop(answered);
            clock.park(None);
        }
    }
}

/// Where a thread finds the result of its request, and what wakes it.
#[derive(Default)]
struct Slot {
    completed: Option<Completed>,
    waker: Option<Waker>,
}

/// Puts a result into a slot. If it is dropped without one, the result is that the request was
/// lost: better an error than a thread that waits forever.
struct Answer(Arc<ShortLock<Slot>>);

impl Answer {
    fn give(self, completed: Completed) {
        self.0.lock().completed = Some(completed);
    }
}
impl Drop for Answer {
    fn drop(&mut self) {
        let lost = || Completed {
            segments: Vec::new(),
            result: Err(io::Error::other("the device lost a request")),
        };
        let mut slot = self.0.lock();
        slot.completed.get_or_insert_with(lost);
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
