//! Write-back of metadata: dirty frames in rising order, many requests under way.
use super::{Cache, Frame, Kind, Shard, Status, shard_of};
use crate::error::{ErrorKind, Result};
use crate::writeback::Announced;
use extant_block::Segment;
use extant_format::BlockNo;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of one write of adjacent frames, at most.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// What becomes of a frame with an older write under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    /// It is waited for.
    Wait,
    /// It stays dirty.
    Leave,
}

/// A frame with the bytes that are to be written.
type Sealed = (Arc<Frame>, Arc<Vec<u8>>);

/// Adjacent frames that are written together. Announced together with the first of them, under the lock of its state: who
/// finds none of them dirty any more, and waits for what is under way, waits for their write, even while it waits for room.
#[derive(Default)]
struct WriteRun {
    frames: Vec<Sealed>,
    announced: Option<Announced>,
}

impl Cache {
    /// Writes all frames that are dirty now, in one rising sweep, adjacent ones together, and waits for them.
    ///
    /// # Errors
    /// The first write error; it latches, and later calls fail too: what the disk holds is no longer known.
    pub(crate) fn write_back(&self) -> Result<()> {
        self.write_back_some(|_, _| true)
    }

    /// The same for the frames for which `wanted` says so.
    pub(crate) fn write_back_some(&self, wanted: impl Fn(BlockNo, Kind) -> bool) -> Result<()> {
        if self.latch.is_closed() {
            return Err(ErrorKind::ReadOnly.into());
        }
        let _sweep = self.sweep.lock();
        let mut frames = std::mem::take(&mut *self.dirty.lock());
        let later = frames.extract_if(.., |frame| {
            let mut state = frame.state.lock();
            state.is_listed = !wanted(frame.block, state.kind);
            state.is_listed
        });
        let later: Vec<Arc<Frame>> = later.collect();
        self.dirty.lock().extend(later);
        self.submit(frames, Busy::Wait);
        self.writes.wait()
    }

    /// Writes those of these frames that are dirty, in rising order, adjacent ones together, and does not wait for them. Those
    /// with an older write under way are left for later.
    pub(crate) fn start_writing(&self, frames: Vec<Arc<Frame>>) {
        self.submit(frames, Busy::Leave);
    }

    fn submit(&self, mut frames: Vec<Arc<Frame>>, busy: Busy) {
        frames.sort_unstable_by_key(|frame| frame.block);
        let mut run = WriteRun::default();
        for frame in frames {
            let follows = run
                .frames
                .last()
                .is_none_or(|(last, _)| last.block.0 + 1 == frame.block.0);
            if !follows || run.frames.len() * self.block_size >= WRITE_BYTES_MAX {
                self.write_run(std::mem::take(&mut run));
            }
            if busy == Busy::Wait && frame.state.lock().under_way {
                // The device may change the order of two writes.
                self.write_run(std::mem::take(&mut run));
                let shard = self.shard(frame.block);
                shard
                    .changed
                    .wait_until(&frame.state, |state| (!state.under_way).then_some(()));
            }
            if let Some(bytes) = self.prepare(&frame, &mut run.announced) {
                run.frames.push((frame, bytes));
            }
        }
        self.write_run(run);
    }

    /// Waits for the writes of frames that are under way.
    pub(crate) fn wait(&self) -> Result<()> {
        self.writes.wait()
    }

    /// Waits until one of the writes of frames has ended; says whether one was under way.
    pub(crate) fn wait_for_one(&self) -> bool {
        self.writes.wait_for_one()
    }

    /// The dirty frames, with the time at which each became so. They stay in the list of those to be written.
    pub(crate) fn changed(&self) -> Vec<(u64, Arc<Frame>)> {
        let mut changed = Vec::new();
        self.dirty.lock().retain(|frame| {
            let mut state = frame.state.lock();
            state.is_listed = state.status == Status::Dirty;
            // One with an older write under way has its turn when that has ended.
            if state.is_listed && !state.under_way {
                changed.push((state.dirty_since, Arc::clone(frame)));
            }
            state.is_listed
        });
        changed
    }

    /// Seals a dirty frame, announces its write and takes its bytes; `None` when it was forgotten, written meanwhile, or an older
    /// write of it is under way.
    fn prepare(&self, frame: &Frame, announced: &mut Option<Announced>) -> Option<Arc<Vec<u8>>> {
        let mut state = frame.state.lock();
        if state.status != Status::Dirty || state.under_way {
            return None;
        }
        announced.get_or_insert_with(|| self.writes.announce());
        self.dirty_count.fetch_sub(1, Ordering::Relaxed);
        self.seat.write_begins(self.block_size as u64);
        let kind = state.kind;
        kind.seal(
            Arc::make_mut(&mut state.bytes).as_mut_slice(),
            frame.block,
            &self.checksums,
        );
        state.status = Status::Writing;
        state.under_way = true;
        Some(Arc::clone(&state.bytes))
    }

    fn write_run(&self, run: WriteRun) {
        let (Some((first, _)), Some(announced)) = (run.frames.first(), run.announced) else {
            return;
        };
        let offset = first.block.0 * self.block_size as u64;
        let (frames, bytes): (Vec<_>, Vec<_>) = run.frames.into_iter().unzip();
        let segments = bytes.into_iter().map(Segment::Shared).collect();
        let shards = Arc::clone(&self.shards);
        let (seat, bytes) = (Arc::clone(&self.seat), frames.len() as u64 * self.block_size as u64);
        self.writes
            .write_announced(announced, &*self.device, offset, segments, move |result| {
                settle(&shards, &frames, result);
                seat.write_ended(bytes);
            });
    }
}

/// A write of adjacent frames has ended. One that failed leaves them as they are, neither clean nor counted as dirty: they stay
/// in memory, and nothing is written after it.
fn settle(shards: &[Shard], frames: &[Arc<Frame>], result: &io::Result<()>) {
    for frame in frames {
        let mut state = frame.state.lock();
        state.under_way = false;
        if result.is_ok() && state.status == Status::Writing {
            state.status = Status::Clean;
        }
        drop(state);
        shards[shard_of(frame.block)].changed.wake_all();
    }
}
