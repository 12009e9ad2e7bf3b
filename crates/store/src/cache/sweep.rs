//! Dirty frames are written: in rising order, adjacent ones together, many requests at a time.
use super::rollback::{self, Early, Role, Rollback, SweepChanges};
use super::{BlockKind, Cache, Frame, FrameStatus, Shard, Stage, Transit, shard_of};
use crate::error::Result;
use crate::writes::{Announced, Write};
use extant_block::lock::SleepGuard;
use extant_block::{Gather, Segment, Urgency, each_request};
use extant_format::BlockNo;
use extant_policy::preset::DataOrder;
use rustc_hash::FxHashSet;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What to do about a frame with an older write under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    /// Wait for that write.
    Wait,
    /// Leave the frame dirty.
    Leave,
}

/// A frame with the bytes to write.
pub(crate) type Sealed = (Arc<Frame>, Arc<Vec<u8>>);

/// What one sweep writes, by stage.
#[derive(Default)]
pub(crate) struct Frozen {
    /// Frames, by stage; after these, with soft updates, tables and then bitmaps that were written
    /// in another form before.
    stages: [Vec<Sealed>; Stage::COUNT + 2],
    /// What is written with each stage beside its frames.
    early: [Vec<Early>; Stage::COUNT + 2],
}

/// The stage of tables whose early image differed.
const LATE_TABLES: usize = Stage::COUNT;
/// The stage of bitmaps whose early image differed.
const LATE_BITMAPS: usize = Stage::COUNT + 1;

/// A frame that a sweep took, and what the disk has of it, where that is known.
struct Taken {
    sealed: Sealed,
    stage: Stage,
    kind: BlockKind,
    durable: Option<Arc<Vec<u8>>>,
}

/// Adjacent frames that are written together. The write is announced with its first frame, under
/// that frame's lock. So a thread that finds none of these frames dirty and waits for the writes
/// under way also waits for this one, even before there is room to submit it.
struct WriteRun {
    frames: Gather<Sealed>,
    announced: Option<Announced>,
}

impl WriteRun {
    fn new(block_size: usize) -> WriteRun {
        WriteRun { frames: Gather::new(block_size), announced: None }
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
    pub fn write_back_some(&self, wanted: impl Fn(BlockNo, BlockKind) -> bool) -> Result<()> {
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
    pub(crate) fn lock_sweep(&self) -> SleepGuard<'_, ()> {
        self.sweep.lock()
    }

    /// Takes the bytes of all dirty frames, for a commit, by block number. Called while no
    /// operation is open.
    pub(crate) fn freeze_all(&self) -> Vec<Sealed> {
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
    pub(crate) fn end_freeze(&self, frozen: &[Sealed], outcome: &Result<()>) {
        for (frame, _) in frozen {
            let mut state = frame.state.lock();
            debug_assert!(
                matches!(state.transit, Transit::Frozen | Transit::Logging),
                "{}: a commit ended",
                frame.block
            );
            state.transit = Transit::None;
            if outcome.is_ok() && state.status == FrameStatus::Writing {
                state.status = FrameStatus::Logged;
            }
            drop(state);
            self.seat.write_ended(self.block_size as u64);
            self.shard(frame.block).changed.wake_all();
        }
    }

    /// Notes that copies of these frames are being written to the log, where changes wait for that.
    pub(crate) fn begin_logging(&self, frozen: &[Sealed]) {
        for (frame, _) in frozen {
            let mut state = frame.state.lock();
            debug_assert_eq!(state.transit, Transit::Frozen, "{}: is logged", frame.block);
            state.transit = Transit::Logging;
        }
    }

    /// What is called when the copies of some of these frames are in the log.
    pub(crate) fn end_of_logging(&self, frames: Vec<Arc<Frame>>) -> impl FnOnce() + Send + 'static {
        let shards = Arc::clone(&self.shards);
        move || {
            for frame in frames {
                let mut state = frame.state.lock();
                if state.transit != Transit::Logging {
                    continue;
                }
                state.transit = Transit::Frozen;
                drop(state);
                shards[shard_of(frame.block)].changed.wake_all();
            }
        }
    }

    /// Whether a copy of a frame is being written to the log that has all its changes: JBD's shadow
    /// buffers. One that was changed since the commit took it was copied then, and changes again at
    /// once.
    pub(crate) fn is_being_logged(&self, frame: &Frame) -> bool {
        frame.state.lock().is_being_logged()
    }

    /// Waits until that copy is in the log.
    pub(crate) fn wait_for_log(&self, frame: &Frame) {
        let shard = self.shard(frame.block);
        shard.changed.wait_until(&frame.state, |state| (!state.is_being_logged()).then_some(()));
    }

    /// Notes that a checkpoint has written frames to their place, whose bytes the journal no longer
    /// keeps.
    pub(crate) fn in_place(&self, frames: &[Arc<Frame>]) {
        let mut copies = 0;
        for frame in frames {
            let mut state = frame.state.lock();
            match state.status {
                FrameStatus::Logged => state.status = FrameStatus::Clean,
                // It has changed since: the journal's bytes were a copy.
                _ => copies += 1,
            }
        }
        self.note_copies_gone(copies);
    }

    /// Takes the bytes of all dirty frames. Called while no operation is open, so that they are
    /// consistent.
    pub(crate) fn freeze(&self) -> Frozen {
        let mut frames = self.take_listed();
        frames.sort_unstable_by_key(|frame| frame.block);
        let mut taken = Vec::with_capacity(frames.len());
        for frame in frames {
            let mut state = frame.state.lock();
            let (stage, kind, durable) = (state.stage, state.kind, state.durable.take());
            drop(state);
            if let Some(bytes) = self.prepare(&frame, Transit::Frozen, || {}) {
                taken.push(Taken { sealed: (frame, bytes), stage, kind, durable });
            }
        }
        self.sweeps.fetch_add(1, Ordering::AcqRel);
        let mut frozen = Frozen::default();
        match self.rollback.get() {
            Some(rollback) => self.roll_back(rollback, taken, &mut frozen),
            None => taken.into_iter().for_each(|Taken { sealed, stage, .. }| {
                frozen.stages[stage as usize].push(sealed);
            }),
        }
        frozen
    }

    /// Sorts what was taken into stages, and blocks that hold changes which have to wait into two:
    /// see `rollback`.
    fn roll_back(&self, rollback: &Rollback, taken: Vec<Taken>, frozen: &mut Frozen) {
        let mut new = FxHashSet::default();
        for Taken { sealed: (frame, bytes), durable, .. } in &taken {
            if let Some(Role::InodeBitmap(first)) = rollback.role(frame.block) {
                let durable = durable.as_ref().map(|durable| durable.as_slice());
                new.extend(rollback::new_inodes(first, durable, bytes));
            }
        }
        let changes = SweepChanges { new, removals: rollback.take_removals() };
        frozen.early[Stage::Names as usize] = rollback.take_emptied();
        for Taken { sealed, stage, kind, durable } in taken {
            let (block, bytes) = (sealed.0.block, &sealed.1);
            let before = durable.as_ref().map(|durable| durable.as_slice());
            let (early, first, last) = match (rollback.role(block), kind) {
                (Some(Role::Table(first)), _) => {
                    let early = rollback.early_table(first, before, bytes, &changes);
                    (Some(early), Stage::Tables, LATE_TABLES)
                }
                (Some(Role::InodeBitmap(_) | Role::BlockBitmap), _) => {
                    (Some(rollback::early_bitmap(before, bytes)), Stage::New, LATE_BITMAPS)
                }
                (None, BlockKind::Directory { .. }) if stage == Stage::New => {
                    let early = rollback.early_directory(bytes, &changes);
                    (early, Stage::New, Stage::Names as usize)
                }
                (None, _) => (None, stage, stage as usize),
            };
            match early.filter(|early| early != &**bytes) {
                None => frozen.stages[first as usize].push(sealed),
                Some(mut early) => {
                    if before != Some(early.as_slice()) {
                        kind.seal(&mut early, block, &self.checksums);
                        frozen.early[first as usize].push(Early { block, bytes: Arc::new(early) });
                    }
                    frozen.stages[last].push(sealed);
                }
            }
        }
    }

    /// Writes what was frozen, stage by stage, each durable before the next; new blocks first.
    /// Writes nothing if `data`, the outcome of writing files' blocks, is an error.
    ///
    /// # Errors
    /// That of `data`, or the first write error.
    pub(crate) fn write_frozen(&self, frozen: &Frozen, data: Result<()>) -> Result<()> {
        let mut steps = frozen.early.iter().zip(&frozen.stages);
        let mut outcome = match steps.next() {
            Some((early, new)) => data.and_then(|()| self.write_stage(early, new)),
            None => data,
        };
        for (early, stage) in steps.filter(|(early, stage)| !early.is_empty() || !stage.is_empty())
        {
            let passed = outcome.and_then(|()| self.barrier.pass());
            outcome = passed.and_then(|()| self.write_stage(early, stage));
        }
        if outcome.is_err() {
            frozen.stages.iter().for_each(|stage| self.thaw(stage));
        }
        outcome
    }

    /// Writes one stage, adjacent blocks together, and waits for it.
    fn write_stage(&self, early: &[Early], stage: &[Sealed]) -> Result<()> {
        self.write_early(early);
        let mut run = WriteRun::new(self.block_size);
        for (frame, bytes) in stage {
            if !run.frames.takes(frame.block.0) {
                self.write_run(&mut run);
            }
            let mut state = frame.state.lock();
            if state.transit != Transit::Frozen {
                continue;
            }
            run.announced.get_or_insert_with(|| self.writes.announce());
            state.transit = Transit::UnderWay;
            drop(state);
            run.frames.push(frame.block.0, (Arc::clone(frame), Arc::clone(bytes)));
        }
        self.write_run(&mut run);
        self.writes.wait()
    }

    /// Starts to write bytes that are not those of frames, adjacent blocks together.
    fn write_early(&self, early: &[Early]) {
        let segments = early.iter().map(|Early { block, bytes }| {
            Ok::<_, Infallible>((block.0, Segment::Shared(Arc::clone(bytes))))
        });
        let Ok(()) = each_request(segments, self.block_size, |offset, segments| {
            let write = Write { offset, segments, urgency: Urgency::Background };
            self.writes.write(&*self.device, write, |_| {});
            Ok(())
        });
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
    pub fn start_writing(&self, frames: Vec<Arc<Frame>>) {
        debug_assert!(self.order != DataOrder::DataFirst, "metadata started without its data");
        self.submit(frames, Busy::Leave);
    }

    fn submit(&self, mut frames: Vec<Arc<Frame>>, busy: Busy) {
        frames.sort_unstable_by_key(|frame| frame.block);
        let mut run = WriteRun::new(self.block_size);
        for frame in frames {
            if !run.frames.takes(frame.block.0) {
                self.write_run(&mut run);
            }
            if busy == Busy::Wait && frame.state.lock().transit != Transit::None {
                // The device may reorder two writes of the same block.
                self.write_run(&mut run);
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
                run.frames.push(frame.block.0, (frame, bytes));
            }
        }
        self.write_run(&mut run);
    }

    /// Waits for the writes of frames that are under way.
    pub fn wait(&self) -> Result<()> {
        self.writes.wait()
    }

    /// Waits until one of the writes of frames has ended; says whether one was under way.
    pub fn wait_for_one(&self) -> bool {
        self.writes.wait_for_one()
    }

    /// The dirty frames with no older write under way, and when each became dirty, in nanoseconds
    /// of the clock. They stay listed.
    pub fn changed(&self) -> Vec<(u64, Arc<Frame>)> {
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

    fn write_run(&self, run: &mut WriteRun) {
        let (Some((first, frames)), Some(announced)) = (run.frames.take(), run.announced.take())
        else {
            return;
        };
        let offset = first * self.block_size as u64;
        debug_assert!(
            frames.iter().all(|(frame, _)| frame.state.lock().transit == Transit::UnderWay),
            "a frame is submitted that no sweep took"
        );
        let (frames, bytes): (Vec<_>, Vec<_>) = frames.into_iter().unzip();
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
