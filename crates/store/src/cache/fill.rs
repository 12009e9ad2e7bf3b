//! Frames are filled from the device: one that is wanted now, or many that will be.
//!
//! A thread that finds a frame filling waits for it. A frame whose fill failed is forgotten; a
//! waiting thread then reads the block itself and gets the error.
use super::{BlockKind, Cache, Checksums, Frame, FrameStatus, Shard, shard_of};
use crate::error::{Error, Result};
use extant_block::{BlockDevice, Completed, Operation, Request, Segment, Urgency};
use extant_format::BlockNo;
use std::sync::Arc;

/// Blocks of one request, at most.
const RUN_MAX: usize = 32;
/// Blocks of one call at most. Those beyond it are read when they are wanted.
const PREFETCH_MAX: usize = 4096;

/// A frame that this request fills.
struct Filling {
    frame: Arc<Frame>,
    kind: BlockKind,
}

impl Cache {
    pub(super) fn fill(
        &self,
        shard: &Shard,
        frame: Arc<Frame>,
        kind: BlockKind,
        urgency: Urgency,
    ) -> Result<Arc<Frame>> {
        let mut bytes = vec![0; 0];
        std::mem::swap(&mut bytes, Arc::make_mut(&mut frame.state.lock().bytes));
        let offset = frame.block.0 * self.block_size as u64;
        let read = match urgency {
            Urgency::Metadata => self.device.read_metadata(offset, &mut bytes),
            Urgency::Awaited | Urgency::Background => self.device.read(offset, &mut bytes),
        };
        let outcome = read
            .map_err(Error::from)
            .and_then(|()| kind.verify(&bytes, frame.block, &self.checksums));
        finish_fill(shard, &frame, outcome.is_ok().then_some(bytes));
        outcome.map(|()| frame)
    }

    /// Starts to read those of these blocks that are not in memory, in any order, with one request
    /// per run of adjacent blocks. Does not wait, and does not report blocks that cannot be read.
    pub fn prefetch(&self, blocks: impl IntoIterator<Item = (BlockNo, BlockKind)>) {
        self.fetch(Urgency::Background, blocks);
    }

    /// As `prefetch`, with an urgency: foreground if the caller will wait for at least one block.
    pub fn fetch(&self, urgency: Urgency, blocks: impl IntoIterator<Item = (BlockNo, BlockKind)>) {
        let most = PREFETCH_MAX.min(self.frames_max / 2);
        let missing = blocks.into_iter().filter(|(block, _)| !self.holds(*block)).take(most);
        let mut missing: Vec<(BlockNo, BlockKind)> = missing.collect();
        missing.sort_unstable_by_key(|(block, _)| *block);
        missing.dedup_by_key(|(block, _)| *block);
        let mut run: Vec<Filling> = Vec::new();
        for (block, kind) in missing {
            let shard = self.shard(block);
            let (frame, mine) = self.find_or_insert(shard, block, kind, FrameStatus::Filling);
            if !mine {
                continue;
            }
            let follows = run.last().is_none_or(|last| last.frame.block.0 + 1 == block.0);
            if !follows || run.len() >= RUN_MAX {
                self.submit_run(urgency, std::mem::take(&mut run));
            }
            run.push(Filling { frame, kind });
        }
        self.submit_run(urgency, run);
    }

    /// Reads adjacent blocks in one request. Called with no lock held, because the completion may
    /// run before this returns.
    fn submit_run(&self, urgency: Urgency, run: Vec<Filling>) {
        let Some(first) = run.first() else { return };
        let offset = first.frame.block.0 * self.block_size as u64;
        let segments = run.iter().map(|filling| Segment::Owned(filling.take_buffer()));
        let segments = segments.collect();
        let reading = FrameRead {
            run,
            shards: Arc::clone(&self.shards),
            checksums: Arc::clone(&self.checksums),
        };
        self.device.submit(Request {
            operation: Operation::Read,
            offset,
            segments,
            urgency,
            completion: Box::new(move |completed| reading.complete(completed)),
        });
        self.device.wait_for_room(Operation::Read);
    }

    /// How many frames the cache may hold at most.
    pub fn frames_max(&self) -> usize {
        self.frames_max
    }
}

impl Filling {
    fn take_buffer(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        std::mem::swap(&mut bytes, Arc::make_mut(&mut self.frame.state.lock().bytes));
        bytes
    }
}

/// A read under way and the frames that it fills. If it is dropped without having completed, the
/// frames are forgotten, so a request that a device lost is not waited for forever.
struct FrameRead {
    run: Vec<Filling>,
    shards: Arc<Vec<Shard>>,
    checksums: Arc<Checksums>,
}

impl FrameRead {
    fn complete(mut self, completed: Completed) {
        let read = completed.result.is_ok();
        let mut segments = completed.segments.into_iter();
        for Filling { frame, kind } in std::mem::take(&mut self.run) {
            let bytes = match segments.next() {
                Some(Segment::Owned(bytes)) if read => bytes,
                _ => Vec::new(),
            };
            let whole = bytes.len() as u32 == self.checksums.superblock.block_size();
            let good = whole && kind.verify(&bytes, frame.block, &self.checksums).is_ok();
            let shard = &self.shards[shard_of(frame.block)];
            finish_fill(shard, &frame, good.then_some(bytes));
        }
    }
}

impl Drop for FrameRead {
    fn drop(&mut self) {
        for Filling { frame, .. } in self.run.drain(..) {
            finish_fill(&self.shards[shard_of(frame.block)], &frame, None);
        }
    }
}

/// Ends a frame's fill with its bytes, or with `None` if it failed. A failed frame is removed
/// before the waiting threads are woken, so that one that tries again makes a new frame.
fn finish_fill(shard: &Shard, frame: &Arc<Frame>, bytes: Option<Vec<u8>>) {
    if bytes.is_none() {
        shard.remove(frame.block, |there| Arc::ptr_eq(there, frame));
    }
    let mut state = frame.state.lock();
    state.status = match bytes {
        Some(_) => FrameStatus::Clean,
        None => FrameStatus::Forgotten,
    };
    state.bytes = Arc::new(bytes.unwrap_or_default());
    drop(state);
    shard.changed.wake_all();
}
