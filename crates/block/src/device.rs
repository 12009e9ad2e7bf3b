//! What a device is: requests go in, completions come out.
use crate::clock::{Clock, Waker};
use crate::lock::ShortLock;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What a device says of itself.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name for messages: a path, or "memory".
    pub name: String,
    /// Its size in bytes (a file device may grow by writes past it when it was opened so).
    pub bytes: u64,
    /// Smallest unit that is written whole: 512 or 4096.
    pub sector_bytes: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Fill the segments.
    Read,
    /// Store the segments.
    Write,
    /// Make all completed writes durable.
    Flush,
}

/// A piece of the memory of a request. Pieces lie end to end on the device.
#[derive(Debug)]
pub enum Segment {
    /// Bytes that the request owns: the target of reads, or the source of writes.
    Owned(Vec<u8>),
    /// Bytes shared with a cache frame, which copies before it changes them. Writes only.
    Shared(Arc<Vec<u8>>),
    /// So many bytes that are not kept: the laboratory's file data. Reads give nothing, writes
    /// store nothing.
    Phantom(usize),
}

impl Segment {
    /// How many bytes of the device it covers.
    pub fn bytes(&self) -> usize {
        match self {
            Segment::Owned(bytes) => bytes.len(),
            Segment::Shared(bytes) => bytes.len(),
            Segment::Phantom(bytes) => *bytes,
        }
    }
}

/// How many bytes of the device these cover.
pub fn segments_bytes(segments: &[Segment]) -> u64 {
    segments.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.bytes() as u64))
}

/// One request. It owns its memory, and ends through its completion, exactly once, also when it
/// fails.
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// First byte on the device. Requests need not be aligned to sectors on file and memory
    /// devices.
    pub offset: u64,
    /// The memory. Empty for `Flush`.
    pub segments: Vec<Segment>,
    /// Nobody waits for this one (read-ahead, write-back): an elevator may put it behind others.
    pub urgency: Urgency,
    /// Called once when it is done, from any thread, with no lock of the device held. It must not
    /// block.
    pub completion: Completion,
}

impl Request {
    /// How many bytes of the device it covers.
    pub fn bytes(&self) -> u64 {
        segments_bytes(&self.segments)
    }
    /// Ends it: gives its memory back, and how it went.
    pub fn complete(self, result: io::Result<()>) {
        (self.completion)(Completed { segments: self.segments, result });
    }
}

/// Whether somebody waits for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Somebody is parked on it.
    Awaited,
    /// Read-ahead or write-back.
    Background,
}

/// What a completion is given: the memory back, and how it went.
#[derive(Debug)]
pub struct Completed {
    /// The request's segments.
    pub segments: Vec<Segment>,
    /// A read past the end is `UnexpectedEof`.
    pub result: io::Result<()>,
}

/// What is called when a request is done.
pub type Completion = Box<dyn FnOnce(Completed) + Send>;

/// A device. Shared by reference between threads; its methods may be called at the same time.
///
/// Contract (one test suite, run by every device): a completed write is seen by every later read;
/// `flush` returns after all writes completed before it are durable; requests under way at the same
/// time have no order; every request completes once. What lies wholly or partly past the end is
/// refused before anything is done: `UnexpectedEof` for reads, `InvalidInput` for writes (unless
/// the device grows); a write to a device that is only read is `ReadOnlyFilesystem`. Errors carry a
/// [`DeviceError`](crate::DeviceError).
///
/// The blocking methods may be called with no short lock held; a device that answers faster than a
/// queue overrides them.
pub trait BlockDevice: Send + Sync {
    /// What it is.
    fn info(&self) -> DeviceInfo;
    /// The clock on which its waiting is done.
    fn clock(&self) -> &Arc<dyn Clock>;
    /// Starts a request; never blocks on the device. The completion may be called before this
    /// returns, so the caller holds no lock that the completion takes.
    fn submit(&self, request: Request);
    /// Does one operation with the caller's memory, and waits for it; the memory comes back.
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        wait_for(self.clock(), |request| self.submit(request), operation, offset, segments)
    }
    /// Reads, and waits for it.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let completed =
            self.transfer(Operation::Read, offset, vec![Segment::Owned(vec![0; bytes.len()])]);
        completed.result?;
        match completed.segments.first() {
            Some(Segment::Owned(read)) if read.len() == bytes.len() => bytes.copy_from_slice(read),
            _ => {
                return Err(io::Error::other(format!(
                    "{}: gave other memory back",
                    self.info().name
                )));
            }
        }
        Ok(())
    }
    /// Writes, and waits for it.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_vectored(offset, &[io::IoSlice::new(bytes)])
    }
    /// Writes pieces end to end, and waits for it.
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        let segments = pieces.iter().map(|piece| Segment::Owned(piece.to_vec())).collect();
        self.transfer(Operation::Write, offset, segments).result
    }
    /// Makes all completed writes durable, and waits for it.
    fn flush(&self) -> io::Result<()> {
        self.transfer(Operation::Flush, 0, Vec::new()).result
    }
    /// Writes, and returns when this write is durable; of others nothing is said. A device that can
    /// force one write through its cache overrides it.
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset, bytes)?;
        self.flush()
    }
    /// The first stretch of bytes at or after `offset` that may hold anything but zeros; `None`
    /// when only zeros are left.
    ///
    /// What lies outside such stretches is known to be zeros without reading it. A stretch may hold
    /// zeros too, and end before the next one begins. By default a device knows of no holes:
    /// everything to its end may be data.
    ///
    /// Errors: those of the host.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let end = self.info().bytes;
        Ok((offset < end).then_some(offset..end))
    }
}

/// A shared device is a device: decorators then need not know who else holds what they decorate.
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
    fn flush(&self) -> io::Result<()> {
        (**self).flush()
    }
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (**self).write_durable(offset, bytes)
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        (**self).next_data(offset)
    }
}

/// Submits a request that somebody waits for, and waits for it.
pub(crate) fn wait_for(
    clock: &Arc<dyn Clock>,
    submit: impl FnOnce(Request),
    operation: Operation,
    offset: u64,
    segments: Vec<Segment>,
) -> Completed {
    let slot = Arc::new(ShortLock::new(Slot::default()));
    let answer = Answer(Arc::clone(&slot));
    submit(Request {
        operation,
        offset,
        segments,
        urgency: Urgency::Awaited,
        completion: Box::new(move |completed| answer.give(completed)),
    });
    // The clock is asked only by those who have to wait: memory answers at once, also outside of a
    // run in virtual time.
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

/// Where a thread finds what its request came to, and what wakes it if it waits.
#[derive(Default)]
struct Slot {
    completed: Option<Completed>,
    waker: Option<Waker>,
}

/// Puts an answer into a slot. Dropped without one, it answers that the request was lost: an error
/// is better than a thread that waits for ever.
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

/// Refuses what does not lie within a device of so many bytes.
pub(crate) fn check_range(
    device_bytes: u64,
    operation: Operation,
    offset: u64,
    bytes: u64,
) -> io::Result<()> {
    if operation == Operation::Flush
        || offset.checked_add(bytes).is_some_and(|end| end <= device_bytes)
    {
        return Ok(());
    }
    let kind = match operation {
        Operation::Write => io::ErrorKind::InvalidInput,
        Operation::Read | Operation::Flush => io::ErrorKind::UnexpectedEof,
    };
    Err(io::Error::new(
        kind,
        format!("{bytes} bytes reach past the end of the device at byte {device_bytes}"),
    ))
}

/// How many bytes pieces hold.
pub(crate) fn pieces_bytes(pieces: &[io::IoSlice<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// What a read into shared memory is answered.
pub(crate) fn read_into_shared() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a read into shared memory")
}
