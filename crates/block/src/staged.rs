//! A device that is written as a whole or not at all: what it means to its reader stays as it is
//! until the caller brings the held blocks to their places.
//!
//! ```text
//! write   to blocks that were free ----> the device below, at once
//!         to all others ---------------> held: memory, up to a limit; then a spool
//! read    held? ---- yes --------------> what is held
//!           +------- no ---------------> the device below
//! flush   -----------------------------> nothing: nothing is promised yet
//! ```
//!
//! The content of a block that is free means nothing to anyone. So writes to those need no second
//! place, and a large new file is written once.
//!
//! *Invariants*: no block of the device below changes but those that were free at the beginning.
//! None of these is ever held. After [`Staged::end`] nothing is written any more.
//!
//! *Locking*: a short lock for the list of what was passed on, held while a range enters it; a
//! write that goes both ways has another; the overlay that holds the blocks has its own.
use crate::capability::Capabilities;
use crate::clock::Clock;
use crate::device::{BlockDevice, DeviceInfo, Operation, Request, Segment, check_range};
use crate::error::DeviceError;
use crate::lock::ShortLock;
use crate::overlay::Overlay;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A device under a change that is all or nothing.
pub struct Staged {
    device: Arc<dyn BlockDevice>,
    held: Overlay,
    /// Blocks that were free, as disjoint ranges by rising number.
    free: Vec<Range<u64>>,
    block_bytes: u64,
    /// Bytes that went to the device below.
    passed_bytes: AtomicU64,
    /// The blocks that they went to: disjoint ranges that do not meet, the end of each by its
    /// beginning.
    passed: ShortLock<BTreeMap<u64, u64>>,
    ended: AtomicBool,
}

/// What a part of a write is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Blocks that were free.
    Free,
    /// Blocks that were in use.
    Used,
}

impl Staged {
    /// A change over the device below `held`, whose blocks are those of the volume. `free` says
    /// which of them were free: disjoint ranges by rising number.
    ///
    /// # Panics
    /// In debug builds, if the ranges are empty, meet or fall.
    pub fn new(held: Overlay, free: Vec<Range<u64>>) -> Staged {
        debug_assert!(free.iter().all(|range| !range.is_empty()), "an empty range");
        debug_assert!(free.windows(2).all(|pair| pair[0].end <= pair[1].start), "out of order");
        let (device, block_bytes) = (Arc::clone(held.device()), held.block_bytes() as u64);
        let (passed_bytes, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let passed = ShortLock::new(BTreeMap::new());
        Staged { device, held, free, block_bytes, passed_bytes, passed, ended }
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Numbers of the blocks that are held, rising.
    pub fn held(&self) -> Vec<u64> {
        self.held.written()
    }

    /// Bytes that were written to free blocks of the device below.
    pub fn passed_bytes(&self) -> u64 {
        self.passed_bytes.load(Ordering::Acquire)
    }

    /// The blocks that were free and were written, in whole or in part: disjoint ranges, rising.
    pub fn passed(&self) -> Vec<Range<u64>> {
        self.passed.lock().iter().map(|(start, end)| *start..*end).collect()
    }

    /// Notes that blocks were written.
    fn note_passed(&self, blocks: Range<u64>) {
        let mut passed = self.passed.lock();
        let Range { mut start, mut end } = blocks;
        // What it meets becomes part of it.
        while let Some((first, last)) = passed.range(..=end).next_back().map(|one| (*one.0, *one.1))
        {
            if last < start {
                break;
            }
            passed.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        passed.insert(start, end);
    }

    /// Refuses every later write: the change is given up, or its blocks are being brought to their
    /// places.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// The first part of the bytes from `offset` to `end` that is of one kind, and where it ends.
    fn part(&self, offset: u64, end: u64) -> (Part, u64) {
        let block = offset / self.block_bytes;
        let next = self.free.partition_point(|range| range.end <= block);
        match self.free.get(next) {
            Some(range) if range.contains(&block) => {
                (Part::Free, range.end.saturating_mul(self.block_bytes).min(end))
            }
            Some(range) => (Part::Used, range.start.saturating_mul(self.block_bytes).min(end)),
            None => (Part::Used, end),
        }
    }

    fn submit_to(&self, part: Part, request: Request) {
        match part {
            Part::Free => {
                self.passed_bytes.fetch_add(request.bytes(), Ordering::AcqRel);
                let end = request.offset.saturating_add(request.bytes());
                let blocks = request.offset / self.block_bytes..end.div_ceil(self.block_bytes);
                self.note_passed(blocks);
                self.device.submit(request);
            }
            Part::Used => self.held.submit(request),
        }
    }

    /// A write that goes both ways: parts of it, which end it together.
    fn split(&self, request: Request, end: u64) {
        let (start, urgency) = (request.offset, request.urgency);
        let mut parts = Vec::new();
        let mut at = start;
        while at < end {
            let (part, stop) = self.part(at, end);
            let range = (at - start) as usize..(stop - start) as usize;
            parts.push((part, at, cut(&request.segments, range)));
            at = stop;
        }
        let gathering = Gathering { request, left: parts.len(), error: None };
        let gathering = Arc::new(ShortLock::new(Some(gathering)));
        for (part, offset, segments) in parts {
            let gathering = Arc::clone(&gathering);
            let completion = move |done: crate::device::Completed| gather(&gathering, done.result);
            self.submit_to(
                part,
                Request {
                    operation: Operation::Write,
                    offset,
                    segments,
                    urgency,
                    completion: Box::new(completion),
                },
            );
        }
    }
}

/// A range of the bytes of segments, copied.
fn cut(segments: &[Segment], range: Range<usize>) -> Vec<Segment> {
    let mut at = 0;
    let mut parts = Vec::new();
    for segment in segments {
        let length = segment.bytes();
        let start = range.start.max(at) - at;
        let end = range.end.clamp(at, at + length) - at;
        if start < end {
            parts.push(match segment.content().and_then(|bytes| bytes.get(start..end)) {
                Some(bytes) => Segment::Owned(bytes.to_vec()),
                None => Segment::Phantom(end - start),
            });
        }
        at += length;
    }
    parts
}

/// A write of which parts are under way.
struct Gathering {
    request: Request,
    left: usize,
    error: Option<io::Error>,
}

/// Takes the result of a part; the last one ends the write.
fn gather(gathering: &ShortLock<Option<Gathering>>, result: io::Result<()>) {
    let mut slot = gathering.lock();
    let Some(state) = slot.as_mut() else { return };
    state.left -= 1;
    if let Err(error) = result {
        state.error.get_or_insert(error);
    }
    let whole = if state.left == 0 { slot.take() } else { None };
    drop(slot);
    if let Some(Gathering { request, error, .. }) = whole {
        request.complete(error.map_or(Ok(()), Err));
    }
}

impl BlockDevice for Staged {
    fn info(&self) -> DeviceInfo {
        self.held.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.held.clock()
    }
    fn submit(&self, request: Request) {
        if request.operation == Operation::Flush {
            return request.complete(Ok(()));
        }
        let (offset, bytes) = (request.offset, request.bytes());
        let name = || self.device.info().name;
        let failed = |source| {
            let operation = request.operation;
            Err(DeviceError { device: name(), operation, offset, source }.into())
        };
        if let Err(source) = check_range(self.held.info().bytes, request.operation, offset, bytes) {
            let failure = failed(source);
            return request.complete(failure);
        }
        if request.operation == Operation::Read {
            return self.held.submit(request);
        }
        if self.ended.load(Ordering::Acquire) {
            let failure = failed(io::Error::other("the change has ended"));
            return request.complete(failure);
        }
        match self.part(offset, offset + bytes) {
            (part, stop) if stop == offset + bytes => self.submit_to(part, request),
            _ => self.split(request, offset + bytes),
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.held.capabilities();
        // Nothing of the change may be given back or forced before its end.
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: below.holes,
            discard: None,
            metadata: None,
            host_file: None,
            annex: below.annex,
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.held.read(offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;
    use crate::memory::MemoryDevice;

    fn staged(free: Vec<Range<u64>>) -> (Arc<MemoryDevice>, Staged) {
        let device = Arc::new(MemoryDevice::new(RealClock::new(), 16 * 1024));
        device.write(0, &[1; 16 * 1024]).expect("it is inside");
        let below = Arc::clone(&device) as Arc<dyn BlockDevice>;
        (device, Staged::new(Overlay::new(below, 1024, 1 << 20), free))
    }

    #[test]
    fn only_free_blocks_are_written_below() {
        let (device, staged) = staged(vec![2..4, 6..7, 7..8]);
        staged.write(1024, &[2; 8 * 1024]).expect("it is inside");
        staged.write(3000, &[3; 60]).expect("within free blocks");
        staged.flush().expect("nothing to do");
        let mut seen = vec![0; 16 * 1024];
        staged.read(0, &mut seen).expect("it is inside");
        let mut below = vec![0; 16 * 1024];
        device.read(0, &mut below).expect("it is inside");
        for block in 0..16_usize {
            let written = (1..9).contains(&block);
            let is_free = [2, 3, 6, 7].contains(&block);
            let at = block * 1024;
            assert_eq!(seen[at], if written { 2 } else { 1 }, "block {block}");
            assert_eq!(below[at], if written && is_free { 2 } else { 1 }, "block {block}");
        }
        assert_eq!((seen[3000], seen[3059], seen[3060]), (3, 3, 2));
        assert_eq!(staged.held(), [1, 4, 5, 8]);
        assert_eq!(staged.passed_bytes(), 4 * 1024 + 60);
        assert_eq!(staged.passed(), [2..4, 6..8]);
    }

    #[test]
    fn what_was_passed_on_is_known_in_whatever_order_it_came() {
        let (_, staged) = staged(std::iter::once(0..16).collect());
        for block in [3_u64, 9, 1, 2, 10, 3, 8, 14] {
            staged.write(block * 1024 + 5, &[2; 100]).expect("it is inside");
        }
        assert_eq!(staged.passed(), [1..4, 8..11, 14..15]);
        staged.write(1024, &[2; 13 * 1024]).expect("it is inside");
        assert_eq!(staged.passed(), std::iter::once(1..15).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_written_after_the_end() {
        let (device, staged) = staged(std::iter::once(0..1).collect());
        staged.end();
        let error = staged.write(0, &[2; 1024]).expect_err("it has ended");
        assert!(error.to_string().contains("has ended"), "{error}");
        assert!(staged.write(1024, &[2]).is_err());
        let mut byte = [0];
        device.read(0, &mut byte).expect("it is inside");
        assert_eq!(byte, [1]);
        let beyond = staged.write(16 * 1024, &[2]).expect_err("past the end");
        assert_eq!(beyond.kind(), io::ErrorKind::InvalidInput);
    }
}
