//! Writing files' dirty blocks: one inode, one run at a time, many requests under way.
//!
//! *Invariants*: blocks are allocated in rising order of the file; an inode's blocks are submitted before its table block
//! is; the first write error latches.
//! *Locking*: the inode is held exclusively while its runs are allocated and submitted.
use crate::allocation::Purpose;
use crate::error::Result;
use crate::inode::{Node, NodeState};
use crate::journal::Handle;
use crate::mapping::{self, Piece};
use crate::pages::{Pages, Payload};
use crate::volume::Volume;
use extant_block::device::Urgency;
use extant_block::{BlockDevice, Completed, Operation, Request, Segment, ShortLock, WaitQueue};
use extant_format::extent::State;
use extant_format::{FileBlock, Run};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks of one write request, in bytes, at most.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Requests under way, at most.
const UNDER_WAY_MAX: usize = 16;

#[derive(Default)]
struct Progress {
    under_way: usize,
    error: Option<io::Error>,
}

/// Write requests under way, and the first error among them.
pub(crate) struct Batch {
    shared: Arc<(ShortLock<Progress>, WaitQueue)>,
}

impl Batch {
    pub(crate) fn new(volume: &Volume) -> Batch {
        let queue = WaitQueue::new(Arc::clone(&volume.clock));
        Batch {
            shared: Arc::new((ShortLock::new(Progress::default()), queue)),
        }
    }

    /// Starts a write; waits only when very many are under way.
    fn write(&self, device: &dyn BlockDevice, offset: u64, segments: Vec<Segment>) {
        let (progress, queue) = &*self.shared;
        queue.wait_until(progress, |progress| {
            (progress.under_way < UNDER_WAY_MAX).then(|| progress.under_way += 1)
        });
        let shared = Arc::clone(&self.shared);
        let completion = Box::new(move |completed: Completed| {
            drop(completed.segments);
            let mut progress = shared.0.lock();
            progress.under_way -= 1;
            if let Err(error) = completed.result {
                progress.error.get_or_insert(error);
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
        device.submit(request);
    }

    /// Waits for all of them.
    pub(crate) fn finish(self) -> Result<()> {
        let (progress, queue) = &*self.shared;
        let error = queue.wait_until(progress, |progress| {
            (progress.under_way == 0).then(|| progress.error.take())
        });
        error.map_or(Ok(()), |error| Err(error.into()))
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

/// The same, for a caller who holds the inode.
pub(crate) fn write_back_locked(volume: &Volume, pages: &Pages, state: &mut NodeState) -> Result<()> {
    if state.dirty.is_empty() {
        return Ok(());
    }
    let handle = Handle::begin(volume, 8)?;
    let batch = Batch::new(volume);
    let submitted = submit_all(&handle, &batch, pages, state);
    let written = batch.finish();
    if submitted.is_err() || written.is_err() {
        volume.latch_failure();
    }
    submitted.and(written)?;
    state.dirty = Default::default();
    pages.count_dirty(0);
    state.store(&handle)
}

fn submit_all(handle: &Handle<'_>, batch: &Batch, pages: &Pages, state: &mut NodeState) -> Result<()> {
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
            submit_run(volume, batch, pages, block, placed);
            at += u64::from(placed.length);
        }
    }
    state.delayed = Default::default();
    Ok(())
}

fn submit_run(volume: &Volume, batch: &Batch, pages: &Pages, block: FileBlock, run: Run) {
    let block_size = volume.block_size() as usize;
    let per_request = (REQUEST_BYTES_MAX / block_size).max(1) as u32;
    let mut at = 0;
    while at < run.length {
        let count = per_request.min(run.length - at);
        let segments = (at..at + count)
            .map(|at| match pages.get(block.0 + at) {
                Some(Payload::Bytes(bytes)) => Segment::Shared(bytes),
                Some(Payload::Phantom) => Segment::Phantom(block_size),
                None => Segment::Owned(vec![0; block_size]),
            })
            .collect();
        let offset = (run.start.0 + u64::from(at)) * block_size as u64;
        batch.write(&*volume.device, offset, segments);
        at += count;
    }
}
