//! What a device is: requests go in, completions come out.
use crate::buffer::Buffer;
use crate::clock::{Clock, Waker};
use crate::edge::{self, Edge};
use crate::lock::ShortLock;
use std::fs::File;
use std::io;
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

/// A part of a request's memory. Parts are stored end to end on the device.
#[derive(Debug)]
pub enum Segment {
    /// Bytes that the request owns: the target of reads, or the source of writes.
    Owned(Vec<u8>),
    /// Bytes shared with a cache frame, which copies them before a change. For writes only.
    Shared(Arc<Vec<u8>>),
    /// Pooled memory that the request owns: the target of reads, or the source of writes. It may
    /// have any content before a read.
    Pooled(Buffer),
    /// A part of memory shared with pages of a file, which copy it before a change. For writes
    /// only.
    Part(Arc<Buffer>, Range<usize>),
    /// This many bytes that are not kept: file data in the laboratory. Reads return nothing, writes
    /// store nothing.
    Phantom(usize),
}

impl Segment {
    /// How many bytes of the device it covers.
    pub fn bytes(&self) -> usize {
        match self {
            Segment::Owned(bytes) => bytes.len(),
            Segment::Shared(bytes) => bytes.len(),
            Segment::Pooled(buffer) => buffer.len(),
            Segment::Part(_, range) => range.len(),
            Segment::Phantom(bytes) => *bytes,
        }
    }

    /// The bytes that a write stores; `None` for phantoms.
    pub fn content(&self) -> Option<&[u8]> {
        match self {
            Segment::Owned(bytes) => Some(bytes),
            Segment::Shared(bytes) => Some(bytes),
            Segment::Pooled(buffer) => Some(buffer),
            Segment::Part(buffer, range) => Some(buffer.get(range.clone()).unwrap_or_default()),
            Segment::Phantom(_) => None,
        }
    }

    /// The bytes that a read fills, all of them; `None` for phantoms, and for shared memory.
    pub fn target(&mut self) -> Option<&mut [u8]> {
        match self {
            Segment::Owned(bytes) => Some(bytes),
            Segment::Pooled(buffer) => Some(buffer),
            Segment::Shared(_) | Segment::Part(..) | Segment::Phantom(_) => None,
        }
    }

    /// Whether it is memory that others use too, which no read may fill.
    pub fn is_shared(&self) -> bool {
        matches!(self, Segment::Shared(_) | Segment::Part(..))
    }

    /// Whether it has no bytes.
    pub fn is_phantom(&self) -> bool {
        matches!(self, Segment::Phantom(_))
    }
}

/// How many bytes of the device the segments cover.
pub fn segments_bytes(segments: &[Segment]) -> u64 {
    segments.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.bytes() as u64))
}

/// One request. It owns its memory, and ends by calling its completion exactly once, even on
/// failure.
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// First byte on the device. File and memory devices do not require alignment to sectors.
    pub offset: u64,
    /// The memory. Empty for `Flush`.
    pub segments: Vec<Segment>,
    /// Whether a thread waits for it. If not (read-ahead, write-back), an elevator may put it after
    /// others.
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
    /// The bytes of the device that it covers.
    pub(crate) fn place(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes())
    }
    /// Ends it: returns its memory and the result to the completion.
    pub fn complete(self, result: io::Result<()>) {
        (self.completion)(Completed { segments: self.segments, result });
    }
}

/// Whether a thread waits for a request, and what for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// A thread waits for a directory or an inode: what it wants to read comes after. Some
    /// elevators prefer these (`READ_META` of Linux 2.6.19 and later).
    Metadata,
    /// A thread waits for it.
    Awaited,
    /// Read-ahead or write-back.
    Background,
}

impl Urgency {
    /// Whether a thread waits.
    pub fn is_awaited(self) -> bool {
        self != Urgency::Background
    }
}

/// What a completion gets: the memory of the request, and its result.
#[derive(Debug)]
pub struct Completed {
    /// The request's segments.
    pub segments: Vec<Segment>,
    /// Whether it succeeded. A read past the end is `UnexpectedEof`.
    pub result: io::Result<()>,
}

impl Completed {
    /// Copies what a read into one owned segment brought.
    ///
    /// # Errors
    /// The read's own; that the device with this name gave other memory back.
    fn copy_to(self, bytes: &mut [u8], name: &str) -> io::Result<()> {
        self.result?;
        match self.segments.first() {
            Some(Segment::Owned(read)) if read.len() == bytes.len() => {
                bytes.copy_from_slice(read);
                Ok(())
            }
            _ => Err(io::Error::other(format!("{name}: gave other memory back"))),
        }
    }
}

/// What is called when a request is done.
pub type Completion = Box<dyn FnOnce(Completed) + Send>;

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
    /// Waits until the host's queue has room for what was submitted in this direction, where a
    /// process that finds it full sleeps (Linux 2.4). Called with no short lock held. By default,
    /// and for devices without such a queue, it does not wait.
    fn wait_for_room(&self, operation: Operation) {
        let _ = operation;
    }
    /// Whether the host's queue is nearly full in this direction, so that a thread that has other
    /// work leaves it alone (Linux 2.6). By default, and for devices without such a queue, it never
    /// is.
    fn is_congested(&self, operation: Operation) -> bool {
        let _ = operation;
        false
    }
    /// Waits until a request of this direction has ended and the queue is not congested, or until
    /// `deadline`, in nanoseconds of the clock. Called with no short lock held. By default it does
    /// not wait.
    fn wait_for_relief(&self, operation: Operation, deadline: u64) {
        let _ = (operation, deadline);
    }
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
    /// Reads a directory or an inode, and waits until that is done ([`Urgency::Metadata`]). By
    /// default a read as any other.
    fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read(offset, bytes)
    }
    /// Reads what the host holds in memory of these bytes, without waiting for any device. Returns
    /// how many bytes from the start on were read: fewer than asked for, or none, if the rest is
    /// not in memory, cannot be read, or the device does not know.
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        let _ = (offset, bytes);
        0
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
    /// Makes all completed writes durable, and waits until that is done.
    fn flush(&self) -> io::Result<()> {
        self.transfer(Operation::Flush, 0, Vec::new()).result
    }
    /// Writes, and returns when this write is durable. Nothing is guaranteed about others. A device
    /// that can force one write through its cache overrides it.
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset, bytes)?;
        self.flush()
    }
    /// Tells the device that bytes are not needed any more, so that it may give back what keeps
    /// them, and waits until that is done. They may read as anything until they are written again.
    /// As for a write, it is not known before the next flush whether a power cut undoes it.
    ///
    /// # Errors
    /// `Unsupported` for a device that can do nothing with that, as by default; those of a write.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let _ = (offset, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The host's file in which this device's bytes are as it gives them, and the byte of that file
    /// at which the device begins: for calls that move bytes without a copy. `None` for a device
    /// that is no such file, or changes what it reads.
    fn host_file(&self) -> Option<(&File, u64)> {
        None
    }
    /// The first stretch of bytes at or after `offset` that may hold anything but zeros; `None` if
    /// only zeros are left.
    ///
    /// Bytes outside such stretches are known to be zeros without reading them. A stretch may hold
    /// zeros too, and end before the next one begins. By default a device knows of no holes:
    /// everything up to its end may be data.
    ///
    /// # Errors
    /// Those of the host.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let end = self.info().bytes;
        Ok((offset < end).then_some(offset..end))
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
    fn wait_for_room(&self, operation: Operation) {
        (**self).wait_for_room(operation)
    }
    fn is_congested(&self, operation: Operation) -> bool {
        (**self).is_congested(operation)
    }
    fn wait_for_relief(&self, operation: Operation, deadline: u64) {
        (**self).wait_for_relief(operation, deadline)
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        (**self).transfer(operation, offset, segments)
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        (**self).read(offset, bytes)
    }
    fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        (**self).read_metadata(offset, bytes)
    }
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        (**self).read_remembered(offset, bytes)
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
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        (**self).discard(offset, bytes)
    }
    fn host_file(&self) -> Option<(&File, u64)> {
        (**self).host_file()
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        (**self).next_data(offset)
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

/// What [`BlockDevice::read_metadata`] does on a device with a queue that tells metadata apart.
pub fn read_as_metadata(device: &dyn BlockDevice, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    let segments = vec![Segment::Owned(vec![0; bytes.len()])];
    let submit = |request| device.submit(request);
    let urgency = Urgency::Metadata;
    let pending =
        Pending::start(device.clock(), submit, Operation::Read, offset, segments, urgency);
    pending.wait().copy_to(bytes, &device.info().name)
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

    fn start(
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

/// Refuses a range that is not within a device of `device_bytes`.
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
pub fn pieces_bytes(pieces: &[io::IoSlice<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// The error for a read into shared memory.
pub(crate) fn read_into_shared() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a read into shared memory")
}
