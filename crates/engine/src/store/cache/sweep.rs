//! Dirty frames are written: in rising order, adjacent ones together, many requests at a time.
use super::{BlockKind, Cache, Frame, FrameStatus, Shard, Stage, Transit, shard_of};
use crate::error::Result;
use crate::policy::preset::DataOrder;
use crate::store::writes::{Announced, Write};
use extant_block::lock::SleepGuard;
use extant_block::{Segment, Urgency};
use extant_format::BlockNo;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of one write of adjacent frames, at most.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// What to do about a frame with an older write under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    /// Wait for that write.
    Wait,
    /// Leave the frame dirty.
    Leave,
}

/// A frame with the bytes to write.
pub(in crate::store) type Sealed = (Arc<Frame>, Arc<Vec<u8>>);

/// What one sweep writes, by stage.
#[derive(Default)]
pub(in crate::store) struct Frozen {
    stages: [Vec<Sealed>; Stage::COUNT],
}

/// Adjacent frames that are written together. The write is announced with its first frame, under
/// that frame's lock. So a thread that finds none of these frames dirty and waits for the writes
/// under way also waits for this one, even before there is room to submit it.
#[derive(Default)]
struct WriteRun {
    frames: Vec<Sealed>,
    announced: Option<Announced>,
}

impl WriteRun {
    /// Whether a block can be added: it is adjacent, and the write stays within its limit.
    fn takes(&self, block: BlockNo, block_size: usize) -> bool {
        let follows = self.frames.last().is_none_or(|(last, _)| last.block.0 + 1 == block.0);
        follows && self.frames.len() * block_size < WRITE_BYTES_MAX
    }
}

impl Cache {
    /// Writes all frames that are dirty now, in rising order, adjacent ones together, and waits for
    /// them.
    ///
    /// # Errors
    /// The first write error, which closes the latch: it is not known what the disk holds.
    pub(crate) fn write_back(&self) -> Result<()> {
        self.write_back_some(|_, _| true)
    }

    /// As `write_back`, for the frames for which `wanted` returns true.
    pub(crate) fn write_back_some(
        &self,
        wanted: impl Fn(BlockNo, BlockKind) -> bool,
    ) -> Result<()> {
        debug_assert!(self.order != DataOrder::DataFirst, "metadata written without its data");
        self.latch.check()?;
        let _sweep = self.sweep.lock();
        let mut frames = self.take_listed();
        let later =
            frames.extract_if(.., |frame| !wanted(frame.block, frame.state.lock().kind)).collect();
        self.list_again(later);
        self.submit(frames, Busy::Wait);
        self.writes.wait()
    }

    /// Empties the list of dirty frames, and returns what was in it.
    fn take_listed(&self) -> Vec<Arc<Frame>> {
        let frames = std::mem::take(&mut *self.dirty.lock());
        frames.iter().for_each(|frame| frame.state.lock().is_listed = false);
        frames
    }

    /// Puts frames back into the list, for a later sweep.
    fn list_again(&self, frames: Vec<Arc<Frame>>) {
        for frame in frames {
            if !std::mem::replace(&mut frame.state.lock().is_listed, true) {
                self.dirty.lock().push(frame);
            }
        }
    }

    /// Locks sweeps: only one at a time, so that an older state of a frame is never written after a
    /// newer one.
    pub(in crate::store) fn lock_sweep(&self) -> SleepGuard<'_, ()> {
        self.sweep.lock()
    }

    /// Takes the bytes of all dirty frames, for a commit, by block number. Called while no
    /// operation is open.
    pub(in crate::store) fn freeze_all(&self) -> Vec<Sealed> {
        let mut frames = self.take_listed();
        frames.sort_unstable_by_key(|frame| frame.block);
        let mut frozen = Vec::with_capacity(frames.len());
        for frame in frames {
            if let Some(bytes) = self.prepare(&frame, Transit::Frozen, || {}) {
                frozen.push((frame, bytes));
            }
        }
        frozen
    }

    /// Ends what `freeze_all` began: the frames are durable in the journal if `outcome` is not an
    /// error, and are never written otherwise.
    pub(in crate::store) fn end_freeze(&self, frozen: &[Sealed], outcome: &Result<()>) {
        for (frame, _) in frozen {
            let mut state = frame.state.lock();
            debug_assert_eq!(state.transit, Transit::Frozen, "{}: a commit ended", frame.block);
            state.transit = Transit::None;
            if outcome.is_ok() && state.status == FrameStatus::Writing {
                state.status = FrameStatus::Logged;
            }
            drop(state);
            self.seat.write_ended(self.block_size as u64);
            self.shard(frame.block).changed.wake_all();
        }
    }

    /// Notes that a checkpoint has written a frame to its place.
    pub(in crate::store) fn in_place(&self, frame: &Frame) {
        let mut state = frame.state.lock();
        if state.status == FrameStatus::Logged {
            state.status = FrameStatus::Clean;
        }
    }

    /// Takes the bytes of all dirty frames. Called while no operation is open, so that they are
    /// consistent.
    pub(in crate::store) fn freeze(&self) -> Frozen {
        let mut frames = self.take_listed();
        frames.sort_unstable_by_key(|frame| frame.block);
        let mut frozen = Frozen::default();
        for frame in frames {
            let stage = frame.state.lock().stage;
            if let Some(bytes) = self.prepare(&frame, Transit::Frozen, || {}) {
                frozen.stages[stage as usize].push((frame, bytes));
            }
        }
        self.sweeps.fetch_add(1, Ordering::AcqRel);
        frozen
    }

    /// Writes what was frozen, stage by stage, each durable before the next; new blocks first.
    /// Writes nothing if `data`, the outcome of writing files' blocks, is an error.
    ///
    /// # Errors
    /// That of `data`, or the first write error.
    pub(in crate::store) fn write_frozen(&self, frozen: &Frozen, data: Result<()>) -> Result<()> {
        let [new, later @ ..] = &frozen.stages;
        let mut outcome = data.and_then(|()| self.write_stage(new));
        for stage in later.iter().filter(|stage| !stage.is_empty()) {
            let passed = outcome.and_then(|()| self.barrier.pass());
            outcome = passed.and_then(|()| self.write_stage(stage));
        }
        if outcome.is_err() {
            frozen.stages.iter().for_each(|stage| self.thaw(stage));
        }
        outcome
    }

    /// Writes one stage, adjacent blocks together, and waits for it.
    fn write_stage(&self, stage: &[Sealed]) -> Result<()> {
        let mut run = WriteRun::default();
        for (frame, bytes) in stage {
            if !run.takes(frame.block, self.block_size) {
                self.write_run(std::mem::take(&mut run));
            }
            let mut state = frame.state.lock();
            if state.transit != Transit::Frozen {
                continue;
            }
            run.announced.get_or_insert_with(|| self.writes.announce());
            state.transit = Transit::UnderWay;
            drop(state);
            run.frames.push((Arc::clone(frame), Arc::clone(bytes)));
        }
        self.write_run(run);
        self.writes.wait()
    }

    /// Releases what was frozen and will never be written.
    fn thaw(&self, stage: &[Sealed]) {
        for (frame, _) in stage {
            let mut state = frame.state.lock();
            if state.transit == Transit::Frozen {
                state.transit = Transit::None;
                self.seat.write_ended(self.block_size as u64);
            }
        }
    }

    /// Starts to write those of these frames that are dirty, in rising order, adjacent ones
    /// together, without waiting. Frames with an older write under way stay dirty. Not for volumes
    /// that write data first, where only sweeps write.
    pub(crate) fn start_writing(&self, frames: Vec<Arc<Frame>>) {
        debug_assert!(self.order != DataOrder::DataFirst, "metadata started without its data");
        self.submit(frames, Busy::Leave);
    }

    fn submit(&self, mut frames: Vec<Arc<Frame>>, busy: Busy) {
        frames.sort_unstable_by_key(|frame| frame.block);
        let mut run = WriteRun::default();
        for frame in frames {
            if !run.takes(frame.block, self.block_size) {
                self.write_run(std::mem::take(&mut run));
            }
            if busy == Busy::Wait && frame.state.lock().transit != Transit::None {
                // The device may reorder two writes of the same block.
                self.write_run(std::mem::take(&mut run));
                let shard = self.shard(frame.block);
                shard.changed.wait_until(&frame.state, |state| {
                    (state.transit == Transit::None).then_some(())
                });
            }
            let announced = &mut run.announced;
            let announce = || {
                announced.get_or_insert_with(|| self.writes.announce());
            };
            if let Some(bytes) = self.prepare(&frame, Transit::UnderWay, announce) {
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

    /// The dirty frames with no older write under way, and when each became dirty, in nanoseconds
    /// of the clock. They stay listed.
    pub(crate) fn changed(&self) -> Vec<(u64, Arc<Frame>)> {
        let mut changed = Vec::new();
        self.dirty.lock().retain(|frame| {
            let mut state = frame.state.lock();
            state.is_listed = state.status == FrameStatus::Dirty;
            // A frame with an older write under way is written after that write has ended.
            if state.is_listed && state.transit == Transit::None {
                changed.push((state.dirty_since, Arc::clone(frame)));
            }
            state.is_listed
        });
        changed
    }

    /// Seals a dirty frame and takes its bytes, whose transit is `transit` from then on. `taken` is
    /// called under the frame's lock. Returns `None` if the frame is no longer dirty, or if bytes
    /// taken earlier are not written yet.
    fn prepare(
        &self,
        frame: &Frame,
        transit: Transit,
        taken: impl FnOnce(),
    ) -> Option<Arc<Vec<u8>>> {
        let mut state = frame.state.lock();
        if state.status != FrameStatus::Dirty || state.transit != Transit::None {
            return None;
        }
        taken();
        state.transit = transit;
        state.status = FrameStatus::Writing;
        self.dirty_count.fetch_sub(1, Ordering::Relaxed);
        self.seat.write_begins(self.block_size as u64);
        let kind = state.kind;
        kind.seal(Arc::make_mut(&mut state.bytes).as_mut_slice(), frame.block, &self.checksums);
        state.stage = Stage::Tables;
        Some(Arc::clone(&state.bytes))
    }

    fn write_run(&self, run: WriteRun) {
        let (Some((first, _)), Some(announced)) = (run.frames.first(), run.announced) else {
            return;
        };
        let offset = first.block.0 * self.block_size as u64;
        debug_assert!(
            run.frames.iter().all(|(frame, _)| frame.state.lock().transit == Transit::UnderWay),
            "a frame is submitted that no sweep took"
        );
        let (frames, bytes): (Vec<_>, Vec<_>) = run.frames.into_iter().unzip();
        let segments = bytes.into_iter().map(Segment::Shared).collect();
        let shards = Arc::clone(&self.shards);
        let (seat, bytes) = (Arc::clone(&self.seat), frames.len() as u64 * self.block_size as u64);
        let write = Write { offset, segments, urgency: Urgency::Background };
        self.writes.write_announced(announced, &*self.device, write, move |result| {
            finish_write(&shards, &frames, result);
            seat.write_ended(bytes);
        });
    }
}

/// Ends a write of adjacent frames. Frames whose write failed stay in `Writing`: they remain in
/// memory and no longer count as dirty, and nothing is written after the failure.
fn finish_write(shards: &[Shard], frames: &[Arc<Frame>], result: &io::Result<()>) {
    for frame in frames {
        let mut state = frame.state.lock();
        debug_assert_eq!(state.transit, Transit::UnderWay, "{}: a write ended", frame.block);
        state.transit = Transit::None;
        if result.is_ok() && state.status == FrameStatus::Writing {
            state.status = FrameStatus::Clean;
        }
        drop(state);
        shards[shard_of(frame.block)].changed.wake_all();
    }
}
