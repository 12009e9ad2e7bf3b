//! Writing files' dirty blocks: one inode, one run at a time, many requests under way.
//!
//! *Invariants*: blocks are allocated in rising order of the file; an inode's blocks are submitted
//! before its table block is, and, where data comes first, announced before the map leads to them;
//! a block is not written again before its last write has ended; the first write error latches.
//! *Locking*: the inode is held exclusively while its runs are allocated and submitted, not while
//! they are written.
use crate::error::Result;
use crate::inode::mapping::{self, Leads, Piece};
use crate::inode::pages::{Pages, Payload};
use crate::inode::{Node, NodeState};
use crate::policy::allocation::Purpose;
use crate::space::Reservation;
use crate::store::barrier::Barrier;
use crate::store::handle::Handle;
use crate::store::latch::Latch;
use crate::volume::Volume;
use extant_block::device::Urgency;
use extant_block::{
    BlockDevice, Clock, Completed, Operation, Request, Segment, ShortLock, WaitQueue,
};
use extant_format::extent::State;
use extant_format::{FileBlock, Run};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks of one write request, in bytes, at most.
const REQUEST_BYTES_MAX: usize = crate::policy::throttle::REQUEST_BYTES_MAX as usize;
/// Bytes of a file that are submitted while its inode is held, at most, where files are written
/// piece by piece.
pub(crate) const PIECE_BYTES: u64 = 4 << 20;
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
            shared: Arc::new((ShortLock::default(), queue)),
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
pub(crate) fn write_back_locked(
    volume: &Volume,
    pages: &Pages,
    state: &mut NodeState,
) -> Result<()> {
    write_blocks(volume, pages, state, 0, u64::MAX).map(drop)
}

/// Starts to write a piece of a file: so many bytes, or one block. Waits for room for them before
/// the inode is held. Gives how many bytes it were; the next piece goes on behind them.
pub(crate) fn write_back_piece(volume: &Volume, node: &Node, bytes: u64) -> Result<u64> {
    volume.writes.wait_for_room(bytes as usize);
    let block_size = u64::from(volume.block_size());
    let mut state = node.state.write();
    let from = node.pages.piece_at.load(Ordering::Acquire);
    let from = state.dirty.next(from).map_or(0, |_| from);
    let before = state.dirty.len();
    let end = write_blocks(volume, &node.pages, &mut state, from, (bytes / block_size).max(1))?;
    node.pages.piece_at.store(end, Ordering::Release);
    let written = before - state.dirty.len();
    if state.dirty.is_empty() && node.opens.load(Ordering::Acquire) == 0 {
        settle_map(volume, &mut state)?;
    }
    Ok(written * block_size)
}

/// Writes at most so many dirty blocks from one on; gives where it ended.
fn write_blocks(
    volume: &Volume,
    pages: &Pages,
    state: &mut NodeState,
    from: u64,
    most: u64,
) -> Result<u64> {
    if state.dirty.is_empty() {
        return Ok(from);
    }
    let handle = Handle::begin(volume, 8)?;
    state.before_map_change(&handle, Leads::More)?;
    // Before the map changes: a sweep of metadata that has the change in it waits for these writes.
    let _begun = volume.writes_data_first().then(|| volume.writes.announce());
    let submitted = submit_some(&handle, pages, state, from, most)
        .inspect_err(|error| volume.latch.close(Some(error)));
    // Stored first: whoever finds nothing dirty here finds the map in its place.
    let stored = submitted.and_then(|end| state.store(&handle).map(|()| end));
    volume.note_submitted(pages, state);
    stored
}

/// What was submitted is neither dirty nor promised any more, also when something goes wrong behind
/// it.
fn submit_some(
    handle: &Handle<'_>,
    pages: &Pages,
    state: &mut NodeState,
    from: u64,
    most: u64,
) -> Result<u64> {
    let volume = handle.volume();
    let promised = state.delayed.len() + state.promised_map;
    let mut reservation = volume.groups.adopt(volume, promised);
    state.promised_map = 0;
    let mut submitted = Vec::new();
    let outcome = submit_runs(handle, &mut reservation, pages, state, (from, most), &mut submitted);
    for range in submitted.into_iter().filter(|range| !range.is_empty()) {
        state.dirty.remove(range.clone());
        state.delayed.remove(range);
    }
    let kept = keep_promises(&mut reservation, state);
    outcome.and_then(|end| kept.map(|()| end))
}

/// Submits at most so many dirty blocks from one on, and notes which; gives where it ended.
fn submit_runs(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    (from, most): (u64, u64),
    submitted: &mut Vec<Range<u64>>,
) -> Result<u64> {
    let (mut at, mut left) = (from, most);
    while let Some(run) = state.dirty.next(at).filter(|_| left > 0) {
        at = run.start;
        let end = run.end.min(at.saturating_add(left));
        submitted.push(at..at);
        while at < end {
            let block = FileBlock(at as u32);
            let want = (end - at).min(u64::from(u32::MAX)) as u32;
            let placed = place(handle, reservation, state, block, want)?;
            submit_run(handle.volume(), pages, block, placed);
            at += u64::from(placed.length);
            if let Some(range) = submitted.last_mut() {
                range.end = at;
            }
        }
        left = left.saturating_sub(at - run.start);
    }
    Ok(at)
}

/// What is promised to blocks that are still dirty stays so. Where that cannot be, nothing is: what
/// is given back later is no more than was promised.
fn keep_promises(reservation: &mut Reservation<'_>, state: &mut NodeState) -> Result<()> {
    if state.dirty.is_empty() {
        return Ok(());
    }
    let data = state.delayed.len();
    if let Err(error) = reservation.grow(data.saturating_sub(reservation.remaining())) {
        state.delayed.remove(0..u64::MAX);
        return Err(error);
    }
    state.promised_map = reservation.remaining() - data;
    reservation.take(reservation.remaining());
    Ok(())
}

/// Where a run of dirty blocks is written: where it was, or a place that it is given now.
fn place(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    state: &mut NodeState,
    block: FileBlock,
    want: u32,
) -> Result<Run> {
    let volume = handle.volume();
    match mapping::find(volume, state, block, want)? {
        Piece::Run(placed, State::Written) => {
            mapping::check_data(volume, state, placed)?;
            Ok(placed)
        }
        Piece::Run(placed, State::Unwritten) => {
            mapping::set_written(handle, reservation, state, block, placed.length)?;
            Ok(placed)
        }
        Piece::Hole(length) => {
            let purpose = Purpose::Data;
            mapping::allocate(handle, reservation, state, block, length, purpose, State::Written)
        }
    }
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
        let bytes = u64::from(count) * block_size as u64;
        volume.seat.write_begins(bytes);
        let ended = end_of(pages, volume, range, bytes);
        volume.writes.write(&*volume.traffic, offset, segments, ended);
        at += count;
    }
}

/// What ends the write of a range.
fn end_of(
    pages: &Pages,
    volume: &Volume,
    range: Range<u64>,
    bytes: u64,
) -> impl FnOnce(&io::Result<()>) + Send + 'static {
    let (under_way, seat) = (Arc::clone(&pages.under_way), Arc::clone(&volume.seat));
    move |_| {
        under_way.end(range);
        seat.write_ended(bytes);
    }
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
