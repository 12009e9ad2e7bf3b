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
use crate::inode::pages::{PageMap, Payload};
use crate::policy::readahead::ReadStream;
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
    /// Read-ahead state of reads that come through no open file.
    pub(crate) stream: ShortLock<ReadStream>,
}

#[derive(Default)]
struct Coming {
    /// The number of the request that reads a block.
    request_of: BTreeMap<u32, u64>,
    requests: u64,
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
}

impl Arrivals {
    /// Nothing on its way.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Arc<Arrivals> {
        Arc::new(Arrivals {
            coming: ShortLock::ranked(ranks::ARRIVALS, Coming::default()),
            arrived: WaitQueue::new(Arc::clone(clock)),
            stream: ShortLock::ranked(ranks::LAST, ReadStream::default()),
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
            let brought = blocks.clone().map(|block| (block, request));
            coming.request_of.extend(brought);
            PageRead {
                arrivals: Arc::clone(self),
                pages: Arc::clone(pages),
                request,
                blocks,
                failure: failure.cloned(),
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
        self.coming.lock().request_of.range(range).next().map(|(block, _)| *block)
    }

    /// Waits until a block is no longer on its way.
    pub(crate) fn wait_for(&self, block: u32) {
        self.arrived.wait_until(&self.coming, |coming| {
            (!coming.request_of.contains_key(&block)).then_some(())
        });
    }

    /// Discards what is on its way into a range that is about to be written or cut.
    pub(crate) fn cancel(&self, range: Range<u64>) {
        let mut coming = self.coming.lock();
        if coming.request_of.is_empty() {
            return;
        }
        let Ok(start) = u32::try_from(range.start) else { return };
        let in_range = |block: &u32| u64::from(*block) < range.end;
        let gone = coming.request_of.range(start..).map(|(block, _)| *block);
        let gone: Vec<u32> = gone.take_while(in_range).collect();
        for block in gone {
            coming.request_of.remove(&block);
        }
        drop(coming);
        self.arrived.wake_all();
    }
}

impl Coming {
    fn missing(&self, pages: &PageMap, range: Range<u32>) -> Vec<Range<u32>> {
        let pages = pages.lock();
        let mut runs: Vec<Range<u32>> = Vec::new();
        let mut present = pages.range(range.clone()).map(|(block, _)| *block).peekable();
        let mut coming = self.request_of.range(range.clone()).map(|(block, _)| *block).peekable();
        for block in range {
            let is_present = present.next_if_eq(&block).is_some();
            let is_coming = coming.next_if_eq(&block).is_some();
            match runs.last_mut() {
                _ if is_present || is_coming => {}
                Some(run) if run.end == block => run.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }
}

impl PageRead {
    pub(crate) fn blocks(&self) -> Range<u32> {
        self.blocks.clone()
    }

    /// Ends the request. Blocks that were written or cut in the meantime are left out.
    pub(crate) fn complete(mut self, completed: Completed, block_size: usize) {
        let payloads = match completed.result {
            Ok(()) => payloads(completed.segments, block_size),
            Err(error) => {
                if let Some(failure) = &self.failure {
                    failure.lock().get_or_insert(error);
                }
                Vec::new()
            }
        };
        self.finish(payloads);
    }

    fn finish(&mut self, payloads: Vec<Payload>) {
        let blocks = std::mem::replace(&mut self.blocks, 0..0);
        let mut payloads = payloads.into_iter();
        let mut coming = self.arrivals.coming.lock();
        let mut pages = self.pages.lock();
        for block in blocks {
            let payload = payloads.next();
            if coming.request_of.get(&block) != Some(&self.request) {
                continue;
            }
            coming.request_of.remove(&block);
            if let Some(payload) = payload {
                pages.entry(block).or_insert(payload);
            }
        }
        drop(pages);
        drop(coming);
        self.arrivals.arrived.wake_all();
    }
}

impl Drop for PageRead {
    fn drop(&mut self) {
        if !self.blocks.is_empty() {
            self.finish(Vec::new());
        }
    }
}

/// Turns a request's memory into pages: one for a segment of bytes, several for a segment without
/// bytes.
fn payloads(segments: Vec<Segment>, block_size: usize) -> Vec<Payload> {
    let mut payloads = Vec::new();
    for segment in segments {
        match segment {
            Segment::Owned(bytes) if bytes.len() == block_size => {
                payloads.push(Payload::Bytes(Arc::new(bytes)))
            }
            Segment::Phantom(bytes) => {
                payloads.extend((0..bytes / block_size).map(|_| Payload::Phantom))
            }
            // Not the memory that was submitted: treat the rest as not read.
            Segment::Owned(_) | Segment::Shared(_) => break,
        }
    }
    payloads
}
