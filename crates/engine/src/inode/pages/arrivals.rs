//! Blocks of a file that are being read into memory.
//!
//! ```text
//!            claim                   finish: read
//! (absent) ---------> on its way -------------------> a page
//!    ^                    |
//!    +--------------------+   finish: failed or lost; a thread that needs the block reads it alone
//!    +--------------------+   cancel: written or cut meanwhile; late bytes are dropped
//! ```
//!
//! *Invariants*: a block is read by one request at a time. A block that was written or cut after
//! its read began never gets the bytes of that read.
//! *Locking*: `coming`, then the lock of the pages, both short. Completions take no other lock, so
//! a thread that has locked the inode may wait here.
use crate::inode::pages::{PageMap, Payload, Residents, Share, Stream};
use crate::ranks;
use extant_block::{Clock, Completed, Segment, ShortLock, WaitQueue};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The blocks on their way into the pages of one file.
pub(crate) struct Arrivals {
    coming: ShortLock<Coming>,
    arrived: WaitQueue,
    /// The reads that come through no open file.
    pub(crate) stream: Stream,
}

#[derive(Default)]
struct Coming {
    /// Runs that do not overlap, by their first block.
    runs: BTreeMap<u32, Claim>,
    requests: u64,
}

/// Blocks that a request reads.
#[derive(Clone, Copy)]
struct Claim {
    end: u32,
    request: u64,
}

/// The first error of the reads that a caller waits for.
pub(crate) type Failure = Arc<ShortLock<Option<io::Error>>>;

/// A read under way. If it is dropped without having completed, its blocks are no longer on their
/// way, so a request that a device lost is not waited for forever.
pub(crate) struct PageRead {
    arrivals: Arc<Arrivals>,
    pages: Arc<PageMap>,
    request: u64,
    blocks: Range<u32>,
    failure: Option<Failure>,
    /// The memory that is being filled, until it is that of pages.
    pub(crate) share: Share,
}

impl Arrivals {
    /// Nothing on its way.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Arc<Arrivals> {
        Arc::new(Arrivals {
            coming: ShortLock::ranked(ranks::ARRIVALS, Coming::default()),
            arrived: WaitQueue::new(Arc::clone(clock)),
            stream: Stream::default(),
        })
    }

    /// Claims those blocks of a range that are neither in memory nor on their way. The caller reads
    /// each returned run, of `most` blocks at most.
    pub(crate) fn claim(
        self: &Arc<Self>,
        pages: &Arc<PageMap>,
        range: Range<u32>,
        most: u32,
        failure: Option<&Failure>,
    ) -> Vec<PageRead> {
        let mut coming = self.coming.lock();
        let missing = coming.missing(pages, range);
        let cut = missing.into_iter().flat_map(|run| {
            let starts = run.clone().step_by(most.max(1) as usize);
            starts.map(move |start| start..run.end.min(start.saturating_add(most)))
        });
        let claimed = cut.map(|blocks| {
            coming.requests += 1;
            let request = coming.requests;
            coming.runs.insert(blocks.start, Claim { end: blocks.end, request });
            PageRead {
                arrivals: Arc::clone(self),
                pages: Arc::clone(pages),
                request,
                blocks,
                failure: failure.cloned(),
                share: Share::default(),
            }
        });
        claimed.collect()
    }

    /// The runs of a range that are neither in memory nor on their way.
    pub(crate) fn missing(&self, pages: &PageMap, range: Range<u32>) -> Vec<Range<u32>> {
        self.coming.lock().missing(pages, range)
    }

    /// The first block of a range that is on its way.
    pub(crate) fn next(&self, range: Range<u32>) -> Option<u32> {
        self.coming.lock().next(range)
    }

    /// Waits until a block is no longer on its way.
    pub(crate) fn wait_for(&self, block: u32) {
        self.arrived
            .wait_until(&self.coming, |coming| coming.end_of(block).is_none().then_some(()));
    }

    /// Discards what is on its way into a range that is about to be written or cut.
    pub(crate) fn cancel(&self, range: Range<u64>) {
        let mut coming = self.coming.lock();
        let Ok(start) = u32::try_from(range.start) else { return };
        let end = u32::try_from(range.end).unwrap_or(u32::MAX);
        if coming.next(start..end).is_none() {
            return;
        }
        coming.remove(start..end, |_| true);
        drop(coming);
        self.arrived.wake_all();
    }
}

impl Coming {
    fn end_of(&self, block: u32) -> Option<u32> {
        let (_, claim) = self.runs.range(..=block).next_back()?;
        (claim.end > block).then_some(claim.end)
    }

    fn next(&self, range: Range<u32>) -> Option<u32> {
        match self.end_of(range.start) {
            Some(_) if !range.is_empty() => Some(range.start),
            _ if range.is_empty() => None,
            _ => self.runs.range(range).next().map(|(block, _)| *block),
        }
    }

    /// Removes the blocks of a range that certain requests read. Returns them.
    fn remove(&mut self, range: Range<u32>, whose: impl Fn(u64) -> bool) -> Vec<Range<u32>> {
        let mut removed = Vec::new();
        let mut at = range.start;
        while let Some(block) = self.next(at..range.end) {
            let Some((&first, &claim)) = self.runs.range(..=block).next_back() else { break };
            at = claim.end.min(range.end);
            if !whose(claim.request) {
                continue;
            }
            self.runs.remove(&first);
            if first < block {
                self.runs.insert(first, Claim { end: block, ..claim });
            }
            if at < claim.end {
                self.runs.insert(at, claim);
            }
            removed.push(block..at);
        }
        removed
    }

    fn missing(&self, pages: &PageMap, range: Range<u32>) -> Vec<Range<u32>> {
        let pages = pages.lock();
        let mut missing = Vec::new();
        let mut at = range.start;
        while at < range.end {
            if let Some(end) = pages.end_of(at).or_else(|| self.end_of(at)) {
                at = end;
                continue;
            }
            let next = [pages.next(at..range.end), self.next(at..range.end)];
            let end = next.into_iter().flatten().min().unwrap_or(range.end);
            missing.push(at..end);
            at = end;
        }
        missing
    }
}

impl PageRead {
    pub(crate) fn blocks(&self) -> Range<u32> {
        self.blocks.clone()
    }

    /// Ends the request. Blocks that were written or cut in the meantime are left out.
    pub(crate) fn complete(mut self, completed: Completed, block_size: usize) {
        let segments = match completed.result {
            Ok(()) => completed.segments,
            Err(error) => {
                if let Some(failure) = &self.failure {
                    failure.lock().get_or_insert(error);
                }
                Vec::new()
            }
        };
        self.finish(segments, block_size);
    }

    fn finish(&mut self, segments: Vec<Segment>, block_size: usize) {
        let blocks = std::mem::replace(&mut self.blocks, 0..0);
        let brought = brought(blocks.start, segments, block_size);
        let mut coming = self.arrivals.coming.lock();
        let mut pages = self.pages.lock();
        let wanted = coming.remove(blocks, |request| request == self.request);
        add(&mut pages, &wanted, brought, block_size);
        drop(pages);
        drop(coming);
        self.arrivals.arrived.wake_all();
    }
}

impl Drop for PageRead {
    fn drop(&mut self) {
        if !self.blocks.is_empty() {
            self.finish(Vec::new(), 1);
        }
    }
}

/// Adjacent blocks that were read.
struct Brought {
    blocks: Range<u32>,
    payload: Payload,
}

/// What a request's memory holds, if its first block is `block`.
fn brought(mut block: u32, segments: Vec<Segment>, block_size: usize) -> Vec<Brought> {
    let mut brought = Vec::with_capacity(segments.len());
    for segment in segments {
        let start = block;
        block = start.saturating_add((segment.bytes() / block_size) as u32);
        let payload = match segment {
            Segment::Pooled(buffer) => Payload::Bytes(Arc::new(buffer)),
            Segment::Phantom(_) => Payload::Phantom,
            // Not the memory that was submitted: treat the rest as not read.
            Segment::Owned(_) | Segment::Shared(_) | Segment::Part(..) => break,
        };
        brought.push(Brought { blocks: start..block, payload });
    }
    brought
}

/// Adds what was read of the wanted runs.
fn add(pages: &mut Residents, wanted: &[Range<u32>], brought: Vec<Brought>, block_size: usize) {
    for Brought { blocks, payload } in brought {
        for run in wanted {
            let part = run.start.max(blocks.start)..run.end.min(blocks.end);
            if !part.is_empty() {
                pages.add(part, (blocks.start, &payload), block_size);
            }
        }
    }
}
