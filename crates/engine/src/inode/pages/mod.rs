//! A file's blocks in memory, keyed by their place in the file, so that they can exist before they
//! are allocated.
//!
//! ```text
//!            claim                finish: read            write           submit_run
//! (absent) ---------> on its way --------------> clean ---------> dirty ------------> under way
//!   | ^ ^                 |                      ^ |               ^ ^                    |
//!   | | +-- failed, lost -+                      | |               | +-- write: copied ---+
//!   | |     or cancel                            +-|---------------|------- end ----------+
//!   | +------------ drop_clean, drop_range --------+               |
//!   +-------------- write, insert ---------------------------------+
//! ```
//!
//! *Invariants*: a page holds a whole block. A dirty page is in the inode's `dirty` set. Pages that
//! are dirty or under way are not dropped, because the device may still return the older bytes.
//! *Locking*: the map is under a short lock. Which pages are dirty is known under the inode's lock;
//! here they are only counted.
mod arrivals;

pub(crate) use arrivals::{Arrivals, Failure, PageRead};

use crate::ranks;
use crate::runs::RunSet;
use crate::store::{DataKeeping, Store};
use extant_block::{Clock, ShortLock, WaitQueue};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many blocks of files are dirty, and came into memory lately, on one volume. The counts
/// change under the locks of the inodes.
pub(crate) struct PageCounts {
    /// Whether files' bytes are kept.
    pub(crate) data: DataKeeping,
    dirty: AtomicU64,
    /// Pages read or written since memory was last checked.
    recent: AtomicUsize,
    recent_max: usize,
}

impl PageCounts {
    /// No pages. Memory is to be checked each time that `recent_max` pages came into it.
    pub(crate) fn new(data: DataKeeping, recent_max: usize) -> PageCounts {
        let (dirty, recent) = (AtomicU64::new(0), AtomicUsize::new(0));
        PageCounts { data, dirty, recent, recent_max }
    }

    /// How many blocks are dirty.
    pub(crate) fn dirty_blocks(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Counts pages that came into memory.
    pub(crate) fn count(&self, pages: usize) {
        self.recent.fetch_add(pages, Ordering::Relaxed);
    }

    /// Whether enough pages came into memory to check it, while so many blocks of memory are used
    /// for something else. If so, starts to count from zero.
    pub(crate) fn is_crowded(&self, used: usize) -> bool {
        let recent = self.recent.load(Ordering::Relaxed);
        let recent_max = match self.data {
            DataKeeping::Bytes => self.recent_max.saturating_sub(used).max(self.recent_max / 4),
            // They take no memory.
            DataKeeping::Phantom => self.recent_max,
        };
        let crowded = recent > recent_max;
        if crowded {
            self.recent.store(0, Ordering::Relaxed);
        }
        crowded
    }

    /// Notes that a file has `now` dirty blocks.
    pub(crate) fn count_dirty(&self, store: &Store, pages: &Pages, now: u64) {
        let before = pages.count_dirty(now, store.clock.now());
        let block_size = u64::from(store.block_size());
        if now >= before {
            self.dirty.fetch_add(now - before, Ordering::Relaxed);
            store.seat.dirtied((now - before) * block_size);
        } else {
            self.dirty.fetch_sub(before - now, Ordering::Relaxed);
            store.seat.forgotten((before - now) * block_size);
        }
    }

    /// Notes that a file has `now` dirty blocks left after others were submitted, which the budget
    /// has counted as being written.
    pub(crate) fn count_left(&self, store: &Store, pages: &Pages, now: u64) {
        let clock_now = store.clock.now();
        let before = pages.count_dirty(now, clock_now);
        self.dirty.fetch_sub(before.saturating_sub(now), Ordering::Relaxed);
        if now > 0 {
            pages.renew(clock_now);
        }
    }
}

/// The content of a block of a file.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// Its bytes, shared with writes under way.
    Bytes(Arc<Vec<u8>>),
    /// No bytes: in the laboratory, data has a place and a state but no content. Reads as zeros.
    Phantom,
}

/// File blocks whose writes are under way. They are neither written again nor freed before that.
pub(crate) struct UnderWay {
    runs: ShortLock<RunSet>,
    changed: WaitQueue,
}

impl UnderWay {
    fn new(clock: &Arc<dyn Clock>) -> Arc<UnderWay> {
        Arc::new(UnderWay {
            runs: ShortLock::ranked(ranks::LAST, RunSet::default()),
            changed: WaitQueue::new(Arc::clone(clock)),
        })
    }

    /// Notes that the write of a range begins.
    pub(crate) fn begin(&self, range: Range<u64>) {
        let blocks = range.end - range.start;
        let new = self.runs.lock().insert(range);
        debug_assert_eq!(new, blocks, "a block is submitted whose last write has not ended");
    }

    /// Notes that the write of a range has ended.
    pub(crate) fn end(&self, range: Range<u64>) {
        self.runs.lock().remove(range);
        self.changed.wake_all();
    }

    /// Waits until no write of this range is under way.
    pub(crate) fn wait_for(&self, range: &Range<u64>) {
        self.changed.wait_until(&self.runs, |runs| {
            let next = runs.next(range.start);
            next.is_none_or(|next| next.start >= range.end).then_some(())
        });
    }

    /// Whether no write of this range is under way.
    pub(crate) fn is_idle(&self, range: &Range<u64>) -> bool {
        self.runs.lock().next(range.start).is_none_or(|next| next.start >= range.end)
    }

    fn contains(&self, block: u32) -> bool {
        self.runs.lock().contains(block.into())
    }

    fn is_empty(&self) -> bool {
        self.runs.lock().is_empty()
    }
}

/// Pages by file block, shared with the reads that fill them.
pub(crate) type PageMap = ShortLock<BTreeMap<u32, Payload>>;

/// The blocks of one file in memory.
pub(crate) struct Pages {
    pages: Arc<PageMap>,
    /// Blocks that are being read into the pages.
    pub(crate) arrivals: Arc<Arrivals>,
    dirty: AtomicU64,
    /// Since when something is dirty, in nanoseconds of the clock.
    dirty_since: AtomicU64,
    pub(crate) under_way: Arc<UnderWay>,
    /// How many runs of blocks are placed, and not in the map yet.
    placed: AtomicUsize,
    /// The number of the first flush that makes all completed writes durable.
    covered_by: Arc<AtomicU64>,
    /// The file block at which the next piece of a write-back starts.
    pub(crate) piece_at: AtomicU64,
}

impl Pages {
    /// No pages.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Pages {
        Pages {
            pages: Arc::new(ShortLock::ranked(ranks::INNER, BTreeMap::new())),
            arrivals: Arrivals::new(clock),
            dirty: AtomicU64::new(0),
            dirty_since: AtomicU64::new(0),
            under_way: UnderWay::new(clock),
            placed: AtomicUsize::new(0),
            covered_by: Arc::default(),
            piece_at: AtomicU64::new(0),
        }
    }

    /// Whether no page is dirty or being written, and all that have a place are in the map.
    pub(crate) fn is_clean(&self) -> bool {
        !self.is_dirty() && self.under_way.is_empty() && !self.has_placed()
    }

    /// Whether blocks are placed and not in the map yet.
    pub(crate) fn has_placed(&self) -> bool {
        self.placed.load(Ordering::Acquire) > 0
    }

    /// Sets how many runs of blocks are placed and not in the map yet.
    pub(crate) fn count_placed(&self, runs: usize) {
        self.placed.store(runs, Ordering::Release);
    }

    /// The number of the first flush that makes all completed writes durable.
    pub(crate) fn covered_by(&self) -> &Arc<AtomicU64> {
        &self.covered_by
    }

    /// Whether any page is dirty.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire) > 0
    }

    /// How many pages are dirty.
    pub(crate) fn dirty_blocks(&self) -> u64 {
        self.dirty.load(Ordering::Acquire)
    }

    /// Notes that a part of what was dirty is being written: the rest counts as dirty since `now`.
    pub(crate) fn renew(&self, now: u64) {
        self.dirty_since.store(now, Ordering::Release);
    }

    /// Since when something is dirty, in nanoseconds of the clock.
    pub(crate) fn dirty_since(&self) -> u64 {
        self.dirty_since.load(Ordering::Acquire)
    }

    /// Sets how many blocks are dirty, and returns how many were.
    pub(crate) fn count_dirty(&self, blocks: u64, now: u64) -> u64 {
        let before = self.dirty.swap(blocks, Ordering::AcqRel);
        if before == 0 {
            self.dirty_since.store(now, Ordering::Release);
        }
        before
    }

    /// How many pages are in memory.
    pub(crate) fn len(&self) -> usize {
        self.pages.lock().len()
    }

    pub(crate) fn get(&self, block: u32) -> Option<Payload> {
        self.pages.lock().get(&block).cloned()
    }

    /// The map itself, for the reads that fill it.
    pub(crate) fn map(&self) -> &Arc<PageMap> {
        &self.pages
    }

    pub(crate) fn insert(&self, block: u32, payload: Payload) {
        self.arrivals.cancel(block.into()..u64::from(block) + 1);
        self.pages.lock().insert(block, payload);
    }

    /// The first block of a range that is in memory.
    pub(crate) fn next(&self, range: Range<u32>) -> Option<u32> {
        self.pages.lock().range(range).next().map(|(block, _)| *block)
    }

    /// Copies bytes into a page, which starts as zeros if it is not there. The page is copied first
    /// if a write is using it.
    pub(crate) fn write(&self, block: u32, block_size: usize, at: usize, bytes: &[u8]) {
        self.arrivals.cancel(block.into()..u64::from(block) + 1);
        let mut pages = self.pages.lock();
        let page = pages.entry(block).or_insert_with(|| Payload::Bytes(Arc::new(Vec::new())));
        let Payload::Bytes(page) = page else { return };
        let page = Arc::make_mut(page);
        if page.is_empty() && at == 0 && bytes.len() == block_size {
            page.extend_from_slice(bytes);
            return;
        }
        page.resize(block_size, 0);
        page[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Drops the pages of a range, and cancels what is on its way there.
    pub(crate) fn drop_range(&self, range: Range<u64>) {
        let Ok(start) = u32::try_from(range.start) else { return };
        self.arrivals.cancel(range.clone());
        let mut pages = self.pages.lock();
        let mut after = match u32::try_from(range.end) {
            Ok(end) => {
                let mut tail = pages.split_off(&start);
                let kept = tail.split_off(&end);
                drop(tail);
                kept
            }
            Err(_) => {
                pages.split_off(&start);
                BTreeMap::new()
            }
        };
        pages.append(&mut after);
    }

    /// Drops the pages that are neither dirty nor being written.
    pub(crate) fn drop_clean(&self, is_dirty: impl Fn(u32) -> bool) {
        self.pages.lock().retain(|block, _| is_dirty(*block) || self.under_way.contains(*block));
    }
}
