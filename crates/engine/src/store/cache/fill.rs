//! Frames are filled from the device: one that is wanted now, or many that will be.
//!
//! Whoever finds a frame filling waits for it, whoever fills it. A frame whose filling failed is
//! forgotten: who wants it reads it alone, and meets the error.
use super::{Cache, Checksums, Frame, Kind, Shard, Status, shard_of};
use crate::error::{Error, Result};
use extant_block::{BlockDevice, Completed, Operation, Request, Segment, Urgency};
use extant_format::BlockNo;
use std::sync::Arc;

/// Blocks of one request, at most.
const RUN_MAX: usize = 32;
/// Blocks of one call, at most: what is asked for behind them is left to be read when it is wanted.
const PREFETCH_MAX: usize = 4096;

/// A frame that this call fills.
struct Filling {
    frame: Arc<Frame>,
    kind: Kind,
}

impl Cache {
    pub(super) fn fill(&self, shard: &Shard, frame: Arc<Frame>, kind: Kind) -> Result<Arc<Frame>> {
        let mut bytes = vec![0; 0];
        std::mem::swap(&mut bytes, Arc::make_mut(&mut frame.state.lock().bytes));
        let outcome = self
            .device
            .read(frame.block.0 * self.block_size as u64, &mut bytes)
            .map_err(Error::from)
            .and_then(|()| kind.verify(&bytes, frame.block, &self.checksums));
        settle(shard, &frame, bytes, outcome.is_ok());
        outcome.map(|()| frame)
    }

    /// Starts to read those of these blocks that are not in memory, and does not wait for them: one
    /// request for each run of neighbours, whatever the order in which they are given. One that
    /// cannot be read is forgotten in silence.
    pub(crate) fn prefetch(&self, blocks: impl IntoIterator<Item = (BlockNo, Kind)>) {
        self.fetch(Urgency::Background, blocks);
    }

    /// The same, for blocks of which the caller will wait for one at least.
    pub(crate) fn fetch(
        &self,
        urgency: Urgency,
        blocks: impl IntoIterator<Item = (BlockNo, Kind)>,
    ) {
        let most = PREFETCH_MAX.min(self.frames_max / 2);
        let missing = blocks.into_iter().filter(|(block, _)| !self.holds(*block)).take(most);
        let mut missing: Vec<(BlockNo, Kind)> = missing.collect();
        missing.sort_unstable_by_key(|(block, _)| *block);
        missing.dedup_by_key(|(block, _)| *block);
        let mut run: Vec<Filling> = Vec::new();
        for (block, kind) in missing {
            let shard = self.shard(block);
            let (frame, mine) = self.find_or_insert(shard, block, kind, Status::Filling);
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

    /// Reads neighbours in one request. No lock is held: the completion may come before this
    /// returns.
    fn submit_run(&self, urgency: Urgency, run: Vec<Filling>) {
        let Some(first) = run.first() else { return };
        let offset = first.frame.block.0 * self.block_size as u64;
        let segments = run.iter().map(|filling| Segment::Owned(filling.take_buffer()));
        let segments = segments.collect();
        let landing = Landing {
            run,
            shards: Arc::clone(&self.shards),
            checksums: Arc::clone(&self.checksums),
        };
        self.device.submit(Request {
            operation: Operation::Read,
            offset,
            segments,
            urgency,
            completion: Box::new(move |completed| landing.land(completed)),
        });
    }

    /// How many frames the cache may hold.
    pub(crate) fn frames_max(&self) -> usize {
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

/// What becomes of frames that are on their way. Dropped without an answer, it lets go of them:
/// nobody waits for ever for a request that a device has lost.
struct Landing {
    run: Vec<Filling>,
    shards: Arc<Vec<Shard>>,
    checksums: Arc<Checksums>,
}

impl Landing {
    fn land(mut self, completed: Completed) {
        let read = completed.result.is_ok();
        let mut segments = completed.segments.into_iter();
        for Filling { frame, kind } in std::mem::take(&mut self.run) {
            let bytes = match segments.next() {
                Some(Segment::Owned(bytes)) => bytes,
                _ => Vec::new(),
            };
            let whole = bytes.len() as u32 == self.checksums.superblock.block_size();
            let good = read && whole && kind.verify(&bytes, frame.block, &self.checksums).is_ok();
            settle(&self.shards[shard_of(frame.block)], &frame, bytes, good);
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        for Filling { frame, .. } in self.run.drain(..) {
            settle(&self.shards[shard_of(frame.block)], &frame, Vec::new(), false);
        }
    }
}

/// A frame's filling has ended. One that failed goes before anybody is told, so that who tries
/// again makes another.
fn settle(shard: &Shard, frame: &Arc<Frame>, bytes: Vec<u8>, good: bool) {
    if !good {
        let mut frames = shard.frames.lock();
        let is_this = |there: &Arc<Frame>| Arc::ptr_eq(there, frame);
        if frames.by_block.get(&frame.block).is_some_and(is_this) {
            frames.by_block.remove(&frame.block);
        }
    }
    let mut state = frame.state.lock();
    state.bytes = Arc::new(bytes);
    state.status = if good { Status::Clean } else { Status::Forgotten };
    drop(state);
    shard.changed.wake_all();
}
