//! A file or a block special file as a device: pread and pwrite.
//!
//! While it is open no other opening may write it, here or in another process, and none may read
//! it if this one writes ([`in_use`](crate::in_use) says how).
//!
//! The blocking methods go straight to the file on the caller's thread. So do submitted reads of at
//! most 64 KiB that a thread waits for, if the host has the bytes in memory: handing one over takes
//! longer than the copy. Other requests wait in a queue for a few worker threads, which are started
//! with the first of them. One worker writes at a time: the host lets one thread write to a file,
//! and a second one would spin beside it.
//!
//! *Invariants*: every request in the queue is completed, even if the device is dropped: a worker
//! ends when the device is closing *and* there is nothing left that it may do, and the one that
//! writes goes on until no write is left. The queue has no limit of its
//! own: requests own their memory, so the submitters bound it.
//!
//! *Locking*: `Shared::queue`, `Shared::stretch` and `FileDevice::workers` are short and never held
//! together, nor across I/O or a completion.
use crate::capability::{Capabilities, Discards, KnowsHoles, Remembers};
use crate::clock::{Clock, Task};
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment};
use crate::device::{check_range, pieces_bytes, read_into_shared, segments_bytes};
use crate::error::DeviceError;
use crate::in_use;
pub use crate::in_use::Access;
use crate::lock::{ShortLock, WaitQueue};
use crate::order::assert_no_short_lock;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::collections::VecDeque;
use std::fs::{File, FileType};
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ThreadId;

const WORKERS: usize = 2;
/// Submitted reads of at most this many bytes are copied on the caller's thread, if the host has
/// them in memory.
const COPIED_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a block of `st_blocks`.
const HOST_BLOCK_BYTES: u64 = 512;
/// The most pieces that one pwritev accepts (IOV_MAX of Linux).
const PIECES_MAX: usize = 1024;

/// What is between the end of the file and the end of the device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Zeros that were never written. Writes past the end of the device make it larger.
    Sparse,
    /// Nothing: the file was cut meanwhile, or the drive is smaller than it said.
    Missing,
}

/// A file as a device, starting at byte `origin`.
///
/// Dropping it completes all requests and joins the workers. (If a completion drops it on a worker,
/// the workers are not joined, and end by themselves.)
pub struct FileDevice {
    shared: Arc<Shared>,
    workers: ShortLock<Vec<Task>>,
}

/// What the workers know of the device.
struct Shared {
    clock: Arc<dyn Clock>,
    file: File,
    /// Keeps others from it, and from what holds the same bytes.
    _claim: in_use::Claim,
    name: String,
    origin: u64,
    /// Grows only if the tail is sparse.
    bytes: AtomicU64,
    sector_bytes: u32,
    access: Access,
    tail: Tail,
    /// Whether it is no block special file, and could be cut.
    is_regular: bool,
    /// The host does not say what it has in memory of this file.
    is_silent: AtomicBool,
    /// The last stretch that the host said holds data: finding its end takes a host that keeps
    /// files in memory as long as reading it. At worst what became a hole since is taken for data.
    stretch: ShortLock<Range<u64>>,
    queue: ShortLock<Queue>,
    arrived: WaitQueue,
}

#[derive(Default)]
struct Queue {
    /// Reads and flushes.
    requests: VecDeque<Request>,
    writes: VecDeque<Request>,
    /// A worker has taken a write and will take the next one.
    is_writing: bool,
    started: bool,
    closing: bool,
    workers: Vec<ThreadId>,
}

impl Queue {
    /// The next request for a worker.
    fn take(&mut self) -> Option<Request> {
        if !self.is_writing
            && let Some(write) = self.writes.pop_front()
        {
            self.is_writing = true;
            return Some(write);
        }
        self.requests.pop_front()
    }
}

impl FileDevice {
    /// Opens an existing file or block special file. `origin` is the byte of the file that is byte
    /// 0 of the device, such as the start of a partition.
    ///
    /// # Errors
    /// Those of the host; `ResourceBusy` if it is open elsewhere and one of the two writes, or if
    /// it is to be written and is mounted or attached to a loop device; `InvalidInput` for other
    /// kinds of files or an `origin` past the end.
    pub fn open(
        clock: Arc<dyn Clock>,
        path: &Path,
        access: Access,
        origin: u64,
    ) -> io::Result<FileDevice> {
        let name = path.display().to_string();
        let open = || {
            // Checked before it is opened too: opening a fifo waits for its other end.
            check_type(std::fs::metadata(path)?.file_type())?;
            let file = in_use::open(path, access)?;
            let whole = size(&file)?;
            let past_end = || invalid(format!("byte {origin} lies past its end at byte {whole}"));
            let bytes = whole.checked_sub(origin).ok_or_else(past_end)?;
            Ok((file, bytes))
        };
        let (file, bytes) = open().map_err(|error| opening(&name, error))?;
        FileDevice::build(clock, file, name, bytes, origin, Tail::Missing)
    }

    /// Makes a device of `bytes` from an open file, which may be shorter: holes read as zeros.
    /// Writes past `bytes` make the device larger, unless it is a block special file.
    ///
    /// # Errors
    /// Those of the host; `ResourceBusy` as for [`FileDevice::open`]; `InvalidInput` for other
    /// kinds of files, a file not open for reading, impossible sizes, and a block special file that
    /// is too small.
    pub fn from_file(
        clock: Arc<dyn Clock>,
        file: File,
        name: String,
        bytes: u64,
        origin: u64,
    ) -> io::Result<FileDevice> {
        let tail = || match file.metadata()?.file_type().is_block_device() {
            true if size(&file)? < origin.saturating_add(bytes) => {
                Err(invalid("it is too small".to_owned()))
            }
            true => Ok(Tail::Missing),
            false => Ok(Tail::Sparse),
        };
        let tail = tail().map_err(|error| opening(&name, error))?;
        FileDevice::build(clock, file, name, bytes, origin, tail)
    }

    fn build(
        clock: Arc<dyn Clock>,
        file: File,
        name: String,
        bytes: u64,
        origin: u64,
        tail: Tail,
    ) -> io::Result<FileDevice> {
        let facts = || {
            check_type(file.metadata()?.file_type())?;
            if origin.checked_add(bytes).is_none_or(|end| end > i64::MAX as u64) {
                return Err(invalid(format!("no file has {bytes} bytes from byte {origin} on")));
            }
            let access = access_of(&file)?;
            if access == Access::ReadWrite && is_write_protected(&file)? {
                let kind = io::ErrorKind::ReadOnlyFilesystem;
                return Err(io::Error::new(kind, "the device is write-protected"));
            }
            let claim = in_use::claim(&*clock, &file, access)?;
            Ok((claim, access, sector_bytes(&file)?, file.metadata()?.is_file()))
        };
        let (claim, access, sector_bytes, is_regular) =
            facts().map_err(|error| opening(&name, error))?;
        let shared = Shared {
            arrived: WaitQueue::new(Arc::clone(&clock)),
            queue: ShortLock::default(),
            bytes: AtomicU64::new(bytes),
            clock,
            file,
            _claim: claim,
            name,
            origin,
            sector_bytes,
            access,
            tail,
            is_regular,
            is_silent: AtomicBool::new(false),
            stretch: ShortLock::new(0..0),
        };
        Ok(FileDevice { shared: Arc::new(shared), workers: ShortLock::default() })
    }

    /// The file itself. With an origin, its byte 0 is not that of the device.
    pub fn file(&self) -> &File {
        &self.shared.file
    }

    /// Has the device end at another byte: its file has become longer, or is to become shorter.
    pub fn set_bytes(&self, bytes: u64) {
        self.shared.bytes.store(bytes, Ordering::Release);
    }

    /// Called for the first request: starts threads. One is enough; without any the request
    /// fails, and the next one tries again. No lock is held while they start.
    fn start_workers(&self) {
        for number in 0..WORKERS {
            let shared = Arc::clone(&self.shared);
            let body = Box::new(move || shared.work());
            match self.shared.clock.try_spawn(&format!("device-{number}"), body) {
                Ok(task) => self.workers.lock().push(task),
                Err(error) if number == 0 => return self.shared.refuse_all(&error),
                Err(_) => return,
            }
        }
    }
}

impl BlockDevice for FileDevice {
    fn info(&self) -> DeviceInfo {
        let shared = &self.shared;
        DeviceInfo {
            name: shared.name.clone(),
            bytes: shared.bytes.load(Ordering::Acquire),
            sector_bytes: shared.sector_bytes,
            read_only: shared.access == Access::ReadOnly,
        }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }
    fn submit(&self, request: Request) {
        let Some(request) = self.shared.copy_remembered(request) else { return };
        let mut queue = self.shared.queue.lock();
        let is_write = request.operation == Operation::Write;
        match is_write {
            true => queue.writes.push_back(request),
            false => queue.requests.push_back(request),
        }
        let is_in_hand = is_write && queue.is_writing;
        let first = !std::mem::replace(&mut queue.started, true);
        drop(queue);
        if first {
            self.start_workers();
        }
        if !is_in_hand {
            self.shared.arrived.wake_one();
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: Some(self),
            congestion: None,
            holes: Some(self),
            discard: Some(self),
            metadata: None,
            host_file: Some((&self.shared.file, self.shared.origin)),
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, mut segments: Vec<Segment>) -> Completed {
        let result = self.shared.perform(operation, offset, &mut segments);
        Completed { segments, result }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let shared = &self.shared;
        shared.named(Operation::Read, offset, || {
            let position = shared.check(Operation::Read, offset, bytes.len() as u64)?;
            shared.load(position, &mut [IoSliceMut::new(bytes)])
        })
    }
    fn write_vectored(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        let shared = &self.shared;
        shared.named(Operation::Write, offset, || {
            let bytes = pieces_bytes(pieces);
            let position = shared.check(Operation::Write, offset, bytes)?;
            shared.check_end(position.saturating_add(bytes))?;
            shared.store(position, &mut pieces.to_vec())?;
            shared.grow(offset + bytes);
            Ok(())
        })
    }
    fn flush(&self) -> io::Result<()> {
        self.shared.named(Operation::Flush, 0, || self.shared.file.sync_data())
    }
}

impl Remembers for FileDevice {
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        self.shared.remembered(offset, &mut [IoSliceMut::new(bytes)])
    }
}

impl KnowsHoles for FileDevice {
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let shared = &self.shared;
        let known = shared.stretch.lock().clone();
        if known.contains(&offset) {
            return Ok(Some(offset..known.end));
        }
        let found = shared.named(Operation::Read, offset, || shared.next_data(offset))?;
        if let Some(found) = &found {
            shared.stretch.lock().clone_from(found);
        }
        Ok(found)
    }
}

impl Discards for FileDevice {
    /// A file gets a hole. A block special file is asked for the same: drives that give back what
    /// they erase do.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let shared = &self.shared;
        shared.named(Operation::Write, offset, || {
            let position = shared.check(Operation::Write, offset, bytes)?;
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let outcome = loop {
                match rustix::fs::fallocate(&shared.file, hole, position, bytes) {
                    Err(Errno::INTR) => {}
                    outcome => break outcome,
                }
            };
            *shared.stretch.lock() = 0..0;
            match outcome {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => {
                    Err(io::ErrorKind::Unsupported.into())
                }
                outcome => Ok(outcome?),
            }
        })
    }
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.closing = true;
        let on_worker = queue.workers.contains(&std::thread::current().id());
        drop(queue);
        self.shared.arrived.wake_all();
        if on_worker {
            return;
        }
        let mut raised = None;
        for task in std::mem::take(self.workers.get_mut()) {
            raised = catch_unwind(AssertUnwindSafe(|| task.join())).err().or(raised);
        }
        if let Some(payload) = raised.filter(|_| !std::thread::panicking()) {
            resume_unwind(payload);
        }
    }
}

impl Shared {
    /// The loop of a worker. A completion that panics must not keep the others from running: its
    /// panic is raised again at the end.
    fn work(&self) {
        self.queue.lock().workers.push(std::thread::current().id());
        let mut raised = None;
        while let Some(request) = self.next() {
            let is_write = request.operation == Operation::Write;
            raised = catch_unwind(AssertUnwindSafe(|| self.serve(request))).err().or(raised);
            if is_write {
                self.queue.lock().is_writing = false;
            }
        }
        if let Some(payload) = raised {
            resume_unwind(payload);
        }
    }

    /// Fails what waits for a worker, because there is none.
    fn refuse_all(&self, error: &io::Error) {
        let mut queue = self.queue.lock();
        queue.started = false;
        let mut waiting = std::mem::take(&mut queue.requests);
        waiting.append(&mut queue.writes);
        drop(queue);
        for request in waiting {
            let error = io::Error::new(error.kind(), error.to_string());
            request.complete(Err(opening(&self.name, error)));
        }
    }

    /// Completes a read that a thread waits for from what the host has in memory. Returns every
    /// other request.
    fn copy_remembered(&self, mut request: Request) -> Option<Request> {
        let bytes = request.bytes();
        if request.operation != Operation::Read
            || !request.urgency.is_awaited()
            || !(1..=COPIED_BYTES_MAX).contains(&bytes)
            || request.segments.iter().any(|segment| segment.is_shared() || segment.is_phantom())
        {
            return Some(request);
        }
        let targets = request.segments.iter_mut().filter_map(Segment::target);
        let mut targets: Vec<_> = targets.map(IoSliceMut::new).collect();
        if self.remembered(request.offset, &mut targets) as u64 != bytes {
            return Some(request);
        }
        request.complete(Ok(()));
        None
    }

    /// Fills the pieces as far as the host has their bytes in memory. Returns how many bytes. What
    /// cannot be read counts as not in memory: a read that waits has the error.
    fn remembered(&self, offset: u64, pieces: &mut [IoSliceMut<'_>]) -> usize {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let Ok(position) = self.check(Operation::Read, offset, bytes) else { return 0 };
        if self.is_silent.load(Ordering::Relaxed) {
            return 0;
        }
        match rustix::io::preadv2(&self.file, pieces, position, ReadWriteFlags::NOWAIT) {
            Ok(read) => read,
            Err(error) => {
                let is_silent = matches!(error, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS);
                self.is_silent.fetch_or(is_silent, Ordering::Relaxed);
                0
            }
        }
    }

    /// Waits for the next request; `None` if the device is closing and there are no more for this
    /// worker. Writes come first, so that one worker writes and the others read.
    fn next(&self) -> Option<Request> {
        self.arrived.wait_until(&self.queue, |queue| match queue.take() {
            Some(request) => Some(Some(request)),
            None => queue.closing.then_some(None),
        })
    }

    fn serve(&self, mut request: Request) {
        let result = self.perform(request.operation, request.offset, &mut request.segments);
        request.complete(result);
    }

    fn perform(
        &self,
        operation: Operation,
        offset: u64,
        segments: &mut [Segment],
    ) -> io::Result<()> {
        self.named(operation, offset, || {
            let bytes = segments_bytes(segments);
            let position = self.check(operation, offset, bytes)?;
            match operation {
                Operation::Read => self.read_segments(position, segments),
                Operation::Write => {
                    self.check_end(position.saturating_add(bytes))?;
                    self.write_segments(position, segments)?;
                    self.grow(offset + bytes);
                    Ok(())
                }
                Operation::Flush => self.file.sync_data(),
            }
        })
    }

    /// Runs a host call. Errors get the name of the device and the operation.
    fn named<T>(
        &self,
        operation: Operation,
        offset: u64,
        perform: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        assert_no_short_lock();
        let name = |source| DeviceError { device: self.name.clone(), operation, offset, source };
        Ok(perform().map_err(name)?)
    }

    /// Where the range begins in the file, if it is within the device.
    fn check(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<u64> {
        if operation == Operation::Write && self.access == Access::ReadOnly {
            return Err(io::Error::new(
                io::ErrorKind::ReadOnlyFilesystem,
                "the device is open for reading only",
            ));
        }
        let limit = match (operation, self.tail) {
            (Operation::Write, Tail::Sparse) => i64::MAX as u64 - self.origin,
            _ => self.bytes.load(Ordering::Acquire),
        };
        check_range(limit, operation, offset, bytes)?;
        Ok(self.origin.saturating_add(offset))
    }

    /// Fails if a file that is the whole device was cut meanwhile, and ends before this byte: a
    /// write would make it longer, and what was cut off would read as zeros.
    fn check_end(&self, end: u64) -> io::Result<()> {
        if self.tail == Tail::Sparse || !self.is_regular {
            return Ok(());
        }
        let there = self.file.metadata()?.len();
        match end <= there {
            true => Ok(()),
            false => Err(io::Error::from(Errno::IO)),
        }
    }

    fn grow(&self, end: u64) {
        if self.tail == Tail::Sparse && end > self.bytes.load(Ordering::Relaxed) {
            self.bytes.fetch_max(end, Ordering::AcqRel);
        }
    }

    /// As [`KnowsHoles::next_data`]: the holes known to the host's file system. Hosts and devices
    /// that know of none report everything as data.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let end = self.bytes.load(Ordering::Acquire);
        if offset >= end {
            return Ok(None);
        }
        // To look for the end of the data takes a host that keeps files in memory as long as it has
        // pages.
        let host = self.file.metadata()?;
        let there = host.len().saturating_sub(self.origin).min(end);
        let is_whole = host.blocks().saturating_mul(HOST_BLOCK_BYTES) >= host.len();
        if self.is_regular && is_whole && offset < there {
            return Ok(Some(offset..there));
        }
        let from = self.origin.saturating_add(offset);
        let start = match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(from)) {
            Ok(start) => start,
            // Only a hole is left. If the file was cut meanwhile there is none, and reading fails.
            Err(Errno::NXIO)
                if self.tail == Tail::Sparse
                    || size(&self.file)? >= self.origin.saturating_add(end) =>
            {
                return Ok(None);
            }
            Err(Errno::INVAL | Errno::NXIO | Errno::OPNOTSUPP) => return Ok(Some(offset..end)),
            Err(error) => return Err(error.into()),
        };
        let behind =
            rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Hole(start)).unwrap_or(u64::MAX);
        let [start, behind] = [start, behind].map(|byte| byte.saturating_sub(self.origin).min(end));
        Ok((start < end).then_some(start..behind.max(start + 1)))
    }

    /// Reads adjacent segments in one call, and skips what phantoms cover.
    fn read_segments(&self, mut position: u64, segments: &mut [Segment]) -> io::Result<()> {
        if segments.iter().any(Segment::is_shared) {
            return Err(read_into_shared());
        }
        for run in segments.chunk_by_mut(|a, b| a.is_phantom() == b.is_phantom()) {
            let bytes = segments_bytes(run);
            let targets = run.iter_mut().filter_map(Segment::target).map(IoSliceMut::new);
            self.load(position, &mut targets.collect::<Vec<_>>())?;
            position += bytes;
        }
        Ok(())
    }

    /// Writes adjacent segments in one call, and skips what phantoms cover.
    fn write_segments(&self, mut position: u64, segments: &[Segment]) -> io::Result<()> {
        for run in segments.chunk_by(|a, b| a.is_phantom() == b.is_phantom()) {
            let kept = run.iter().filter_map(Segment::content).map(IoSlice::new);
            self.store(position, &mut kept.collect::<Vec<_>>())?;
            position += segments_bytes(run);
        }
        Ok(())
    }

    /// Fills the pieces from this byte of the file on.
    fn load(&self, mut position: u64, mut pieces: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        IoSliceMut::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let batch = pieces.len().min(PIECES_MAX);
            match rustix::io::preadv(&self.file, &mut pieces[..batch], position) {
                Ok(0) if self.tail == Tail::Sparse => {
                    pieces.iter_mut().for_each(|piece| piece.fill(0));
                    return Ok(());
                }
                Ok(0) => {
                    let message = format!("the file ends at byte {position}");
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
                }
                Ok(bytes) => {
                    position += bytes as u64;
                    IoSliceMut::advance_slices(&mut pieces, bytes);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Stores the pieces from this byte of the file on.
    fn store(&self, mut position: u64, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut pieces, 0);
        // One piece is the usual case, and std has a loop for it.
        if let [piece] = pieces {
            return self.file.write_all_at(piece, position);
        }
        while !pieces.is_empty() {
            let batch = pieces.len().min(PIECES_MAX);
            match rustix::io::pwritev(&self.file, &pieces[..batch], position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    position += bytes as u64;
                    IoSlice::advance_slices(&mut pieces, bytes);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn opening(name: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

fn check_type(file_type: FileType) -> io::Result<()> {
    match file_type {
        kind if kind.is_file() || kind.is_block_device() => Ok(()),
        kind if kind.is_dir() => {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"))
        }
        _ => Err(invalid("it is neither a file nor a block special file".to_owned())),
    }
}

/// Size of a file in bytes, by seeking, because the length of a block special file reads as 0.
fn size(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

fn access_of(file: &File) -> io::Result<Access> {
    match rustix::fs::fcntl_getfl(file)? & OFlags::ACCMODE {
        OFlags::RDONLY => Ok(Access::ReadOnly),
        OFlags::RDWR => Ok(Access::ReadWrite),
        _ => Err(invalid("it is not open for reading".to_owned())),
    }
}

/// Whether this is a block special file that takes no writes, as the kernel says: it can be opened
/// for writing all the same.
fn is_write_protected(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.file_type().is_block_device() {
        return Ok(false);
    }
    let number = metadata.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    // A host without /sys says it with the first write.
    let says = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    Ok(says.is_ok_and(|says| says.trim() == "1"))
}

fn sector_bytes(file: &File) -> io::Result<u32> {
    match file.metadata()?.file_type().is_block_device() {
        true if rustix::fs::ioctl_blkpbszget(file)? >= 4096 => Ok(4096),
        _ => Ok(512),
    }
}
