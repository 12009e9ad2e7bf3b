//! A file's blocks in memory, keyed by their place in the file, so that they can exist before they
//! are allocated.
//!
//! ```text
//!            claim                finish: read            write           submit_run
//! (absent) ---------> on its way --------------> clean ---------> dirty ------------> under way
//!   | ^ ^                 |                      ^ |               ^ ^                    |
//!   | | +-- failed, lost -+                      | |               | +-- write: copied ---+
//!   | |     or cancel                            +-|---------------|------- end ----------+
//!   | +--- drop_clean, drop_submitted, drop_range -+               |
//!   +-------------- write, add ------------------------------------+
//! ```
//!
//! *Invariants*: what is in memory of a block is all of it. A dirty page is in the inode's `dirty`
//! set. Pages that are dirty or under way, or whose write has failed, are not dropped, because the
//! device may still return the older bytes.
//! *Locking*: the map is under a short lock. Which pages are dirty is known under the inode's lock;
//! here they are only counted.
mod arrivals;
mod held;
mod resident;
mod stream;

pub(crate) use arrivals::{Arrivals, Failure, PageRead};
pub(crate) use held::{Held, Share};
pub(crate) use resident::{Found, Payload, window_end};
pub(crate) use stream::{Stream, Window};

use crate::ranks;
use crate::runs::RunSet;
use crate::store::latch::Latch;
use crate::store::{DataKeeping, Store};
use extant_block::{Clock, Segment, ShortLock, WaitQueue};
use extant_format::Ino;
use resident::Residents;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Which files have dirty blocks on one volume and how many these are, and how many blocks came
/// into memory lately. The counts change under the locks of the inodes.
pub(crate) struct VolumePages {
    /// Whether files' bytes are kept.
    pub(crate) data: DataKeeping,
    dirty: AtomicU64,
    dirty_inodes: Listed,
    placed_inodes: Listed,
    /// Pages read or written since memory was last checked.
    recent: AtomicUsize,
    recent_max: usize,
    /// The memory that they take.
    pub(crate) held: Arc<Held>,
}

/// Inodes that have something, each with the number of nodes that have it: a number may be given to
/// another inode while a file that had it is still open.
struct Listed(ShortLock<BTreeMap<Ino, u32>>);

impl Listed {
    fn new() -> Listed {
        Listed(ShortLock::ranked(ranks::LAST, BTreeMap::new()))
    }

    /// Their numbers, rising.
    fn inodes(&self) -> Vec<Ino> {
        self.0.lock().keys().copied().collect()
    }

    /// Notes that one had it or not before, and has it or not now.
    fn note(&self, ino: Ino, (before, now): (bool, bool)) {
        match (before, now) {
            (false, true) => *self.0.lock().entry(ino).or_default() += 1,
            (true, false) => {
                let mut inodes = self.0.lock();
                if let Some(nodes) = inodes.get_mut(&ino) {
                    *nodes -= 1;
                    if *nodes == 0 {
                        inodes.remove(&ino);
                    }
                }
            }
            _ => {}
        }
    }
}

impl VolumePages {
    /// No pages. Memory is to be checked each time that `recent_max` pages came into it, and when
    /// more than `bytes_max` bytes would be held.
    pub(crate) fn new(data: DataKeeping, recent_max: usize, bytes_max: usize) -> VolumePages {
        let held = Held::new(bytes_max);
        let (dirty, recent) = (AtomicU64::new(0), AtomicUsize::new(0));
        let (dirty_inodes, placed_inodes) = (Listed::new(), Listed::new());
        VolumePages { data, dirty, dirty_inodes, placed_inodes, recent, recent_max, held }
    }

    /// The inodes with dirty blocks, rising.
    pub(crate) fn dirty_inodes(&self) -> Vec<Ino> {
        self.dirty_inodes.inodes()
    }

    /// The inodes with blocks that are placed and not in the map yet, rising.
    pub(crate) fn placed_inodes(&self) -> Vec<Ino> {
        self.placed_inodes.inodes()
    }

    /// Notes how many runs of a file's blocks are placed and not in the map yet.
    pub(crate) fn count_placed(&self, (ino, pages): (Ino, &Pages), runs: usize) {
        let before = pages.placed.swap(runs, Ordering::AcqRel);
        self.placed_inodes.note(ino, (before > 0, runs > 0));
    }

    /// How many blocks are dirty.
    pub(crate) fn dirty_blocks(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Counts pages that came into memory, or memory that takes as much.
    pub(crate) fn count(&self, pages: usize) {
        self.recent.fetch_add(pages, Ordering::Relaxed);
    }

    /// Notes that memory was checked just now.
    pub(crate) fn note_checked(&self) {
        self.recent.store(0, Ordering::Relaxed);
    }

    /// Whether enough pages came into memory to check it. If so, starts to count from zero.
    pub(crate) fn is_crowded(&self) -> bool {
        let crowded = self.recent.load(Ordering::Relaxed) > self.recent_max;
        if crowded {
            self.recent.store(0, Ordering::Relaxed);
        }
        crowded
    }

    /// Notes that a file has `now` dirty blocks.
    pub(crate) fn count_dirty(&self, store: &Store, (ino, pages): (Ino, &Pages), now: u64) {
        let before = pages.count_dirty(now, store.clock.now());
        self.dirty_inodes.note(ino, (before > 0, now > 0));
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
    pub(crate) fn count_left(&self, store: &Store, (ino, pages): (Ino, &Pages), now: u64) {
        let clock_now = store.clock.now();
        let before = pages.count_dirty(now, clock_now);
        self.dirty_inodes.note(ino, (before > 0, now > 0));
        self.dirty.fetch_sub(before.saturating_sub(now), Ordering::Relaxed);
        store.seat.submitted();
        if now > 0 {
            pages.renew(clock_now);
        }
    }
}

/// File blocks whose writes are under way, and those whose writes have failed. The former are
/// neither written again nor freed before that; the latter stay in memory, because the device may
/// hold what they were before.
pub(crate) struct UnderWay {
    runs: ShortLock<Writing>,
    changed: WaitQueue,
}

#[derive(Default)]
struct Writing {
    under_way: RunSet,
    failed: RunSet,
}

impl UnderWay {
    fn new(clock: &Arc<dyn Clock>) -> Arc<UnderWay> {
        Arc::new(UnderWay {
            runs: ShortLock::ranked(ranks::LAST, Writing::default()),
            changed: WaitQueue::new(Arc::clone(clock)),
        })
    }

    /// Notes that the write of a range begins.
    pub(crate) fn begin(&self, range: Range<u64>) {
        let blocks = range.end - range.start;
        let new = self.runs.lock().under_way.insert(range);
        debug_assert_eq!(new, blocks, "a block is submitted whose last write has not ended");
    }

    /// Notes that the write of a range has ended so.
    pub(crate) fn end<E>(&self, range: Range<u64>, result: &Result<(), E>) {
        let mut runs = self.runs.lock();
        if result.is_err() {
            runs.failed.insert(range.clone());
        }
        runs.under_way.remove(range);
        drop(runs);
        self.changed.wake_all();
    }

    /// Waits until no write of this range is under way.
    pub(crate) fn wait_for(&self, range: &Range<u64>) {
        self.changed.wait_until(&self.runs, |runs| {
            let next = runs.under_way.next(range.start);
            next.is_none_or(|next| next.start >= range.end).then_some(())
        });
    }

    /// Whether no write of this range is under way.
    pub(crate) fn is_idle(&self, range: &Range<u64>) -> bool {
        let runs = self.runs.lock();
        runs.under_way.next(range.start).is_none_or(|next| next.start >= range.end)
    }

    /// Whether every write has ended, and none has failed.
    fn is_done(&self) -> bool {
        let runs = self.runs.lock();
        runs.under_way.is_empty() && runs.failed.is_empty()
    }
}

/// The blocks in memory, shared with the reads that bring them.
pub(crate) type PageMap = ShortLock<Residents>;

/// What a file with blocks in memory takes beside them, and beside its node.
pub(crate) const PAGES_BYTES: usize = 1024;

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
    /// Bytes that were read and are not kept, of the last reads that followed each other: when
    /// they are read again they are kept.
    pub(crate) read_once: ShortLock<Range<u64>>,
}

impl Pages {
    /// No pages, whose memory is counted by this share.
    pub(crate) fn new(clock: &Arc<dyn Clock>, share: Share) -> Pages {
        let residents = Residents::counted(share);
        Pages {
            pages: Arc::new(ShortLock::ranked(ranks::INNER, residents)),
            arrivals: Arrivals::new(clock),
            dirty: AtomicU64::new(0),
            dirty_since: AtomicU64::new(0),
            under_way: UnderWay::new(clock),
            placed: AtomicUsize::new(0),
            covered_by: Arc::default(),
            piece_at: AtomicU64::new(0),
            read_once: ShortLock::ranked(ranks::LAST, 0..0),
        }
    }

    /// Memory that the blocks take, in bytes, and what is kept beside them.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.lock().room()
    }

    /// Whether no page is dirty or being written, none could not be written, and all that have a
    /// place are in the map.
    pub(crate) fn is_clean(&self) -> bool {
        !self.is_dirty() && self.under_way.is_done() && !self.has_placed()
    }

    /// Whether blocks are placed and not in the map yet.
    pub(crate) fn has_placed(&self) -> bool {
        self.placed.load(Ordering::Acquire) > 0
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

    /// Whether no block is in memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.lock().is_empty()
    }

    /// The run in memory that holds a block.
    pub(crate) fn at(&self, block: u32) -> Option<Found> {
        self.pages.lock().at(block)
    }

    /// The map itself, for the reads that fill it.
    pub(crate) fn map(&self) -> &Arc<PageMap> {
        &self.pages
    }

    /// Adds those blocks of a range that are not in memory, and cancels what is on its way there.
    pub(crate) fn add(&self, range: Range<u32>, payload: &Payload, block_size: usize) {
        self.arrivals.cancel(range.start.into()..range.end.into());
        self.pages.lock().add(range.clone(), (range.start, payload), block_size);
    }

    /// The first block of a range that is in memory.
    pub(crate) fn next(&self, range: Range<u32>) -> Option<u32> {
        self.pages.lock().next(range)
    }

    /// Copies bytes into the blocks at an offset in the file. What else these blocks hold, if they
    /// were not in memory, becomes zeros. What a write is using is copied first.
    pub(crate) fn write(&self, block_size: usize, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        self.arrivals.cancel(offset / block_size as u64..end.div_ceil(block_size as u64));
        self.pages.lock().write(block_size, offset, bytes);
    }

    /// The memory of a range, for a write. Blocks that are not in memory are zeros.
    pub(crate) fn segments(&self, range: Range<u32>, block_size: usize) -> Vec<Segment> {
        self.pages.lock().segments(range, block_size)
    }

    /// Drops the blocks of a range, and cancels what is on its way there.
    pub(crate) fn drop_range(&self, range: Range<u64>) {
        let Ok(start) = u32::try_from(range.start) else { return };
        let end = u32::try_from(range.end).unwrap_or(u32::MAX);
        self.arrivals.cancel(range);
        self.pages.lock().remove(start..end);
    }

    /// Drops the blocks of a set that are neither dirty nor being written, and leaves in the set
    /// those that are being written. After a failure nothing is dropped: what could not be written
    /// is in memory alone.
    pub(crate) fn drop_submitted(&self, submitted: &mut RunSet, dirty: &RunSet, latch: &Latch) {
        let mut pages = self.pages.lock();
        let under_way = &self.under_way.runs.lock().under_way;
        // A write that fails closes it before it ends.
        if latch.is_closed() {
            return;
        }
        let mut left = RunSet::default();
        let mut at = 0;
        while let Some(run) = submitted.next(at) {
            at = run.end;
            let mut from = run.start;
            while from < run.end {
                let next = [dirty.next(from), under_way.next(from)];
                let busy = next.into_iter().flatten().min_by_key(|busy| busy.start);
                let busy = busy.unwrap_or(run.end..run.end);
                let end = busy.start.min(run.end);
                pages.remove(from as u32..end as u32);
                from = busy.end.clamp(end, run.end).max(end);
                if under_way.contains(busy.start) {
                    left.insert(end..from);
                }
            }
        }
        *submitted = left;
    }

    /// Drops the blocks that are neither dirty nor being written, and whose writes have not failed.
    pub(crate) fn drop_clean(&self, dirty: &RunSet) {
        let mut pages = self.pages.lock();
        let Writing { under_way, failed } = &*self.under_way.runs.lock();
        pages.keep(&[dirty, under_way, failed]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::RealClock;

    #[test]
    fn after_a_failure_nothing_that_was_submitted_goes() {
        let clock: Arc<dyn Clock> = RealClock::new();
        let (pages, latch) = (Pages::new(&clock, Share::default()), Latch::new(&clock));
        pages.write(16, 0, &[7; 64]);
        let mut submitted = RunSet::default();
        submitted.insert(0..4);
        latch.close(Some(&std::io::Error::from_raw_os_error(5).into()));
        pages.drop_submitted(&mut submitted, &RunSet::default(), &latch);
        for block in 0..4 {
            assert!(pages.at(block).is_some(), "block {block}, which the device may not have");
        }
    }

    #[test]
    fn of_what_was_submitted_goes_what_is_neither_dirty_nor_under_way() {
        const BLOCKS: u64 = 64;
        // A multiplier that reaches every combination of the three sets in short and long runs.
        for seed in 1..200_u64 {
            let is_in = |set: u64, block: u64| {
                let run = block / (1 + seed % 5);
                (run.wrapping_mul(seed * 2 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (60 + set))
                    & 1
                    == 1
            };
            let clock: Arc<dyn Clock> = RealClock::new();
            let pages = Pages::new(&clock, Share::default());
            let [mut submitted, mut dirty] = [RunSet::default(), RunSet::default()];
            for block in 0..BLOCKS {
                pages.write(16, block * 16, &[block as u8; 16]);
                if is_in(0, block) {
                    submitted.insert(block..block + 1);
                }
                if is_in(1, block) {
                    dirty.insert(block..block + 1);
                }
                if is_in(2, block) {
                    pages.under_way.begin(block..block + 1);
                }
            }
            pages.drop_submitted(&mut submitted, &dirty, &Latch::new(&clock));
            for block in 0..BLOCKS {
                let goes = is_in(0, block) && !is_in(1, block) && !is_in(2, block);
                assert_eq!(pages.at(block as u32).is_none(), goes, "{seed}: block {block}");
                if is_in(0, block) && is_in(2, block) && !is_in(1, block) {
                    assert!(submitted.contains(block), "{seed}: block {block} goes later");
                }
            }
        }
    }
}
