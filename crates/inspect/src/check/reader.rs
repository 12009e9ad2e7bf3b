//! Blocks of a list that is sorted by place, read many at a time: neighbours, and what follows them
//! closely, in one read.
//!
//! *Invariants*: a batch takes at most [`BATCH_BYTES`] (or one block); items are in its order.
//! *Locking*: none; each thread has a reader of its own.
use super::facts::Facts;
use super::options::ReadOrder;
use crate::error::Error;
use extant_format::BlockNo;
use std::ops::Range;

/// Bytes of a batch: few enough to stay in the processor's cache.
const BATCH_BYTES: usize = 512 * 1024;
/// Bytes between two blocks that are rather read than skipped.
const GAP_BYTES: usize = 32 * 1024;

/// Cuts lists into batches, and reads them.
#[derive(Default)]
pub(crate) struct Reader {
    bytes: Vec<u8>,
    /// Where each item of the batch begins in `bytes`; `None` for one that is not on the device.
    items: Vec<Option<usize>>,
    block_size: usize,
}

/// Blocks that are read together, and where their bytes go.
struct Run {
    first: BlockNo,
    blocks: usize,
}

impl Reader {
    /// Cuts a list that is sorted by place: ranges of it that cover all of it.
    pub(crate) fn batches<T>(
        facts: &Facts,
        list: &[T],
        place: fn(&T) -> BlockNo,
    ) -> Vec<Range<usize>> {
        let block_size = facts.volume.block_size();
        let gap = gap_blocks(facts);
        let (mut batches, mut start, mut blocks) = (Vec::new(), 0, 0);
        let mut before: Option<BlockNo> = None;
        for (at, item) in list.iter().enumerate() {
            let block = place(item);
            let more = distance(before, block).filter(|distance| *distance <= gap).unwrap_or(1);
            let bytes = (blocks + more).saturating_mul(block_size);
            if at > start && bytes > BATCH_BYTES {
                batches.push(start..at);
                (start, blocks) = (at, 1);
            } else {
                blocks += more;
            }
            before = Some(block);
        }
        if start < list.len() {
            batches.push(start..list.len());
        }
        batches
    }

    /// Has the blocks of a batch fetched while others are judged.
    pub(crate) fn fetch<T>(facts: &Facts, batch: &[T], place: fn(&T) -> BlockNo) {
        let gap = gap_blocks(facts);
        let blocks = batch.iter().map(place).filter(|block| facts.volume.holds(*block));
        let mut run: Option<(BlockNo, BlockNo)> = None;
        for block in blocks {
            let is_near = |last| distance(Some(last), block).is_some_and(|more| more <= gap);
            run = match run {
                Some((first, last)) if is_near(last) => Some((first, block)),
                Some((first, last)) => {
                    facts.volume.will_read(first, last.0 - first.0 + 1);
                    Some((block, block))
                }
                None => Some((block, block)),
            };
        }
        if let Some((first, last)) = run {
            facts.volume.will_read(first, last.0 - first.0 + 1);
        }
    }

    /// Reads the blocks of a batch; `what` is for the message.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn read<T>(
        &mut self,
        facts: &Facts,
        what: &'static str,
        batch: &[T],
        place: fn(&T) -> BlockNo,
    ) -> Result<(), Error> {
        self.block_size = facts.volume.block_size();
        self.items.clear();
        let gap = gap_blocks(facts);
        let mut runs: Vec<Run> = Vec::new();
        let mut end = 0;
        for block in batch.iter().map(place) {
            if !facts.volume.holds(block) {
                self.items.push(None);
                continue;
            }
            let last = runs.last().map(|run| BlockNo(run.first.0 + run.blocks as u64 - 1));
            match (distance(last, block), runs.last_mut()) {
                (Some(more), Some(run)) if more <= gap => {
                    run.blocks += more;
                    end += more;
                }
                _ => {
                    runs.push(Run { first: block, blocks: 1 });
                    end += 1;
                }
            }
            self.items.push(Some((end - 1) * self.block_size));
        }
        let length = end * self.block_size;
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        let mut rest = self.bytes.as_mut_slice();
        for run in runs {
            let (bytes, after) = rest.split_at_mut(run.blocks * self.block_size);
            facts.read(what, run.first, bytes)?;
            rest = after;
        }
        Ok(())
    }

    /// The block of item `at` of the batch that was read last; empty when it is not on the device.
    pub(crate) fn item(&self, at: usize) -> &[u8] {
        let start = self.items.get(at).copied().flatten();
        let bytes = start.and_then(|start| self.bytes.get(start..start + self.block_size));
        bytes.unwrap_or_default()
    }
}

/// Blocks from one to the next; `None` for the first block, and backwards.
fn distance(before: Option<BlockNo>, block: BlockNo) -> Option<usize> {
    usize::try_from(block.0.checked_sub(before?.0)?).ok()
}

/// The longest distance within one read. In vanilla order blocks are read one by one: only the same
/// block again is not read twice.
fn gap_blocks(facts: &Facts) -> usize {
    match facts.read_order {
        ReadOrder::DiskOrder => (GAP_BYTES / facts.volume.block_size()).max(1),
        ReadOrder::Vanilla => 0,
    }
}
