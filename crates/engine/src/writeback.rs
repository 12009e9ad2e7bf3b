//! Writing files' dirty blocks: one inode, one run at a time, many requests under way.
//!
//! *Invariants*: blocks are allocated in rising order of the file; an inode's blocks are submitted before its table block
//! is; a block is not written again before its last write has ended; the first write error latches.
//! *Locking*: the inode is held exclusively while its runs are allocated and submitted, not while they are written.
use crate::allocation::Purpose;
use crate::error::Result;
use crate::inode::{Node, NodeState};
use crate::journal::Handle;
use crate::mapping::{self, Piece};
use crate::pages::{Pages, Payload, UnderWay};
use crate::volume::Volume;
use extant_block::device::Urgency;
use extant_block::{BlockDevice, Clock, Completed, Operation, Request, Segment, ShortLock, WaitQueue};
use extant_format::extent::State;
use extant_format::{FileBlock, Run};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks of one write request, in bytes, at most.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Bytes under way, at most: the device's queue merges and orders them.
const UNDER_WAY_BYTES_MAX: usize = 64 << 20;
/// Requests under way, at most.
const UNDER_WAY_MAX: u32 = 16 << 10;

#[derive(Default)]
struct Progress {
    requests: u32,
    bytes: usize,
    error: Option<io::Error>,
    failed: bool,
}

/// The writes of a volume that are under way, and the first error among them.
pub(crate) struct Writes {
    shared: Arc<(ShortLock<Progress>, WaitQueue)>,
}

impl Writes {
    /// None under way.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Writes {
        let queue = WaitQueue::new(Arc::clone(clock));
        Writes {
            shared: Arc::new((ShortLock::default(), queue)),
        }
    }

    /// Starts a write, and calls `ended` when it has ended, however it did. Waits only when very much is under way. Behind a
    /// failure nothing is written: the device is not asked.
    pub(crate) fn write(
        &self,
        device: &dyn BlockDevice,
        offset: u64,
        segments: Vec<Segment>,
        ended: impl FnOnce(&io::Result<()>) + Send + 'static,
    ) {
        let bytes = segments.iter().map(Segment::bytes).sum::<usize>();
        let (progress, queue) = &*self.shared;
        let has_failed = queue.wait_until(progress, |progress| {
            let room = progress.requests < UNDER_WAY_MAX && progress.bytes + bytes <= UNDER_WAY_BYTES_MAX;
            (room || progress.requests == 0).then(|| {
                progress.requests += 1;
                progress.bytes += bytes;
                progress.failed
            })
        });
        let shared = Arc::clone(&self.shared);
        let completion = Box::new(move |completed: Completed| {
            drop(completed.segments);
            ended(&completed.result);
            let mut progress = shared.0.lock();
            progress.requests -= 1;
            progress.bytes -= bytes;
            if let Err(error) = completed.result {
                progress.error.get_or_insert(error);
                progress.failed = true;
            }
            drop(progress);
            shared.1.wake_all();
        });
        let request = Request {
            operation: Operation::Write,
            offset,
            segments,
            urgency: Urgency::Background,
            completion,
        };
        match has_failed {
            true => request.complete(Err(io::Error::other("an earlier write failed"))),
            false => device.submit(request),
        }
    }

    /// Waits until none is under way.
    ///
    /// # Errors
    /// The first that any of them met since this was last asked.
    pub(crate) fn wait(&self) -> Result<()> {
        let (progress, queue) = &*self.shared;
        let error = queue.wait_until(progress, |progress| {
            (progress.requests == 0).then(|| progress.error.take())
        });
        error.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Whether any of them ever failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.0.lock().failed
    }
}

/// Gives a file's dirty blocks their places and writes them.
pub(crate) fn write_back(volume: &Volume, node: &Node) -> Result<()> {
    let mut state = node.state.write();
    write_back_locked(volume, &node.pages, &mut state)?;
    match node.opens.load(Ordering::Acquire) {
        0 => settle_map(volume, &mut state),
        _ => Ok(()),
    }
}

/// Makes a map dense when nobody is about to change it: each time costs as much as the map is long.
pub(crate) fn settle_map(volume: &Volume, state: &mut NodeState) -> Result<()> {
    if state.gone || state.looseness.is_settled() || volume.check_writable().is_err() {
        return Ok(());
    }
    let handle = Handle::begin(volume, 8)?;
    // Half a tree made anew is none: what goes wrong there stops all further writing.
    let before = volume.cache.changes();
    volume.guard(before, mapping::settle(&handle, state))?;
    state.store(&handle)
}

/// The same, for a caller who holds the inode. Returns when the writes are under way.
pub(crate) fn write_back_locked(volume: &Volume, pages: &Pages, state: &mut NodeState) -> Result<()> {
    if state.dirty.is_empty() {
        return Ok(());
    }
    let handle = Handle::begin(volume, 8)?;
    if let Err(error) = submit_all(&handle, pages, state) {
        volume.latch_failure();
        return Err(error);
    }
    state.dirty = Default::default();
    volume.note_dirty(pages, state);
    state.store(&handle)
}

fn submit_all(handle: &Handle<'_>, pages: &Pages, state: &mut NodeState) -> Result<()> {
    let volume = handle.volume();
    let promised = state.delayed.len() + state.promised_map;
    let mut reservation = volume.groups.adopt(volume, promised);
    state.promised_map = 0;
    let mut at = 0;
    while let Some(run) = state.dirty.next(at) {
        at = run.start;
        while at < run.end {
            let block = FileBlock(at as u32);
            let want = (run.end - at).min(u64::from(u32::MAX)) as u32;
            let placed = match mapping::find(volume, state, block, want)? {
                Piece::Run(placed, State::Written) => {
                    mapping::check_data(volume, state, placed)?;
                    placed
                }
                Piece::Run(placed, State::Unwritten) => {
                    mapping::set_written(handle, &mut reservation, state, block, placed.length)?;
                    placed
                }
                Piece::Hole(length) => {
                    let purpose = Purpose::Data;
                    mapping::allocate(handle, &mut reservation, state, block, length, purpose, State::Written)?
                }
            };
            submit_run(volume, pages, block, placed);
            at += u64::from(placed.length);
        }
    }
    state.delayed = Default::default();
    Ok(())
}

fn submit_run(volume: &Volume, pages: &Pages, block: FileBlock, run: Run) {
    let block_size = volume.block_size() as usize;
    let per_request = (REQUEST_BYTES_MAX / block_size).max(1) as u32;
    let mut at = 0;
    while at < run.length {
        let count = per_request.min(run.length - at);
        let first = block.0 + at;
        let range = u64::from(first)..u64::from(first) + u64::from(count);
        pages.under_way.wait_for(&range);
        let offset = (run.start.0 + u64::from(at)) * block_size as u64;
        let segments = segments(pages, first, count, block_size);
        pages.under_way.begin(range.clone());
        let ended = end_of(&pages.under_way, range);
        volume.writes.write(&*volume.traffic, offset, segments, ended);
        at += count;
    }
}

/// What ends the write of a range.
fn end_of(under_way: &Arc<UnderWay>, range: Range<u64>) -> impl FnOnce(&io::Result<()>) + Send + 'static {
    let under_way = Arc::clone(under_way);
    move |_| under_way.end(range)
}

/// The memory of some pages; what carries no bytes in one piece.
fn segments(pages: &Pages, first: u32, count: u32, block_size: usize) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for block in first..first + count {
        let segment = match pages.get(block) {
            Some(Payload::Bytes(bytes)) => Segment::Shared(bytes),
            Some(Payload::Phantom) => Segment::Phantom(block_size),
            None => Segment::Owned(vec![0; block_size]),
        };
        match (segments.last_mut(), segment) {
            (Some(Segment::Phantom(bytes)), Segment::Phantom(more)) => *bytes += more,
            (_, segment) => segments.push(segment),
        }
    }
    segments
}
