//! A device with read-ahead across files: after small reads near each other it reads on, and
//! answers following reads from memory.
//!
//! Drives do this with the little memory they have. Where a seek is slow, the host does better with
//! more memory: the files of a directory are adjacent, and a program that reads one file after the
//! other needs the next ones soon. A *region* is a stretch that was read, or read ahead. A read
//! that starts in a region, or shortly after it, counts as the next read of a walk, and a stretch
//! twice as long as the last one is read after it. A region that was not used halves the next
//! stretch. Up to sixteen walks are tracked at a time, so that two trees can be compared.
//!
//! *Invariants*: a region never holds bytes older than a completed write: a write drops every
//! region that it touches, even one still being read, and nothing is read ahead where a write is
//! under way. Large reads go directly to the device.
//! *Locking*: `state` is a short lock, never held while the device is called or a completion runs.
use crate::capability::{Capabilities, Discards, WritesDurably};
use crate::clock::Clock;
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment, Urgency};
use crate::device::{pieces_bytes, segments_bytes, wait_for};
use crate::lock::ShortLock;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// How many walks are tracked at a time.
const REGIONS_MAX: usize = 16;
/// Reads of at least this many bytes go directly to the device.
const LARGE_BYTES: u64 = 256 << 10;
/// A read at most this many bytes after a region still belongs to its walk.
const NEAR_BYTES: u64 = 256 << 10;
/// Length of the first stretch that is read ahead, in bytes.
const FIRST_BYTES: u64 = 64 << 10;

/// Passes requests on, and reads ahead after small reads near each other.
pub struct Neighbours {
    device: Arc<dyn BlockDevice>,
    limits: Limits,
    bytes: u64,
    state: Arc<ShortLock<Walks>>,
}

#[derive(Clone, Copy)]
struct Limits {
    /// The longest stretch that is read ahead, in bytes.
    stretch: u64,
    /// All stretches in memory or being read, in bytes.
    memory: u64,
}

#[derive(Default)]
struct Walks {
    /// The one used last is at the back.
    regions: VecDeque<Region>,
    /// Writes under way.
    writes: Vec<Range<u64>>,
    number_next: u64,
}

struct Region {
    number: u64,
    place: Range<u64>,
    /// Length of the last stretch of this walk.
    stretch: u64,
    content: Content,
    used: bool,
}

enum Content {
    /// Only its place is known.
    Place,
    /// It is being read, and these requests wait for it.
    Coming(Vec<Request>),
    /// It is in memory.
    Here(Arc<Vec<u8>>),
}

/// A stretch that is being read. If it is dropped without a result, the requests that wait for it
/// are dropped too, which reports them as lost.
struct Coming {
    state: Arc<ShortLock<Walks>>,
    device: Arc<dyn BlockDevice>,
    number: u64,
}

impl Drop for Coming {
    fn drop(&mut self) {
        let lost = self.state.lock().lose(self.number);
        drop(lost);
    }
}

/// How a read is done.
enum ReadPath {
    /// From memory.
    Answered(Request, Arc<Vec<u8>>, u64),
    /// It waits for a stretch that is being read.
    Waiting,
    /// From the device, which then reads this region.
    Device(Request, Option<(u64, Range<u64>)>),
}

impl Neighbours {
    /// Reads at most `bytes_max` ahead after a read.
    pub fn new(device: Arc<dyn BlockDevice>, bytes_max: u64) -> Neighbours {
        Neighbours {
            bytes: device.own_bytes(),
            device,
            limits: Limits { stretch: bytes_max, memory: u64::MAX },
            state: Arc::new(ShortLock::default()),
        }
    }

    /// The same, and forgets the walks that were used least recently when more than `memory_max`
    /// bytes are in memory or being read. What does not fit beside all that is being read is not
    /// read ahead.
    #[must_use]
    pub fn within(self, memory_max: u64) -> Neighbours {
        Neighbours { limits: Limits { memory: memory_max, ..self.limits }, ..self }
    }

    /// Bytes that are in memory, or being read.
    pub fn held_bytes(&self) -> u64 {
        self.state.lock().held_bytes()
    }

    fn submit_read(&self, request: Request) {
        let way = self.state.lock().way(request, self.limits, self.bytes);
        match way {
            ReadPath::Waiting => {}
            ReadPath::Answered(request, bytes, start) => answer(request, &bytes, start),
            ReadPath::Device(request, stretch) => {
                self.device.submit(request);
                if let Some((number, place)) = stretch {
                    self.read_stretch(number, place);
                }
            }
        }
    }

    fn read_stretch(&self, number: u64, place: Range<u64>) {
        let coming =
            Coming { state: Arc::clone(&self.state), device: Arc::clone(&self.device), number };
        let length = usize::try_from(place.end - place.start).unwrap_or(0);
        self.device.submit(Request {
            operation: Operation::Read,
            offset: place.start,
            segments: vec![Segment::Owned(vec![0; length])],
            urgency: Urgency::Background,
            completion: Box::new(move |completed| {
                landed(&coming.state, &*coming.device, number, completed)
            }),
        });
    }

    fn submit_write(&self, request: Request) {
        let place = request.offset..request.offset.saturating_add(request.bytes());
        self.state.lock().begin_write(&place);
        let state = Arc::clone(&self.state);
        let completion = request.completion;
        self.device.submit(Request {
            completion: Box::new(move |completed| {
                state.lock().end_write(&place);
                completion(completed);
            }),
            ..request
        });
    }

    /// Copies bytes that are in memory. Returns whether they were.
    fn copy(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let found = self.state.lock().here(&(offset..offset.saturating_add(bytes.len() as u64)));
        let Some((held, start)) = found else { return false };
        let at = (offset - start) as usize;
        bytes.copy_from_slice(&held[at..at + bytes.len()]);
        true
    }
}

/// A stretch was read, or has failed: completes the requests that wait for it, or passes them on.
fn landed(state: &ShortLock<Walks>, device: &dyn BlockDevice, number: u64, completed: Completed) {
    let bytes = match (completed.result, completed.segments.into_iter().next()) {
        (Ok(()), Some(Segment::Owned(bytes))) => Some(Arc::new(bytes)),
        _ => None,
    };
    let Some((waiting, start)) = state.lock().land(number, bytes.clone()) else {
        return;
    };
    for request in waiting {
        match &bytes {
            Some(bytes) => answer(request, bytes, start),
            None => device.submit(request),
        }
    }
}

/// Fills a request from bytes that begin at `start` of the device, and completes it.
fn answer(mut request: Request, bytes: &[u8], start: u64) {
    let mut at = (request.offset - start) as usize;
    for segment in &mut request.segments {
        let length = segment.bytes();
        if let Some(target) = segment.target() {
            target.copy_from_slice(&bytes[at..at + length]);
        }
        at += length;
    }
    request.complete(Ok(()));
}

impl Walks {
    fn way(&mut self, request: Request, limits: Limits, device_bytes: u64) -> ReadPath {
        let place = request.offset..request.offset.saturating_add(request.bytes());
        if place.end - place.start >= LARGE_BYTES
            || place.is_empty()
            || request.segments.iter().any(Segment::is_shared)
        {
            return ReadPath::Device(request, None);
        }
        if let Some(at) = self.find(|region| region.holds(&place)) {
            let region = self.touch(at);
            region.used = true;
            return match &mut region.content {
                Content::Here(bytes) => {
                    ReadPath::Answered(request, Arc::clone(bytes), region.place.start)
                }
                Content::Coming(waiting) => {
                    waiting.push(request);
                    ReadPath::Waiting
                }
                Content::Place => ReadPath::Device(request, None),
            };
        }
        let behind = self.behind(&place, limits.stretch.min(limits.memory), device_bytes);
        let stretch = behind.end.saturating_sub(behind.start);
        // What is being read cannot be forgotten.
        let busy = self.writes.iter().any(|write| overlap(write, &behind))
            || self.coming_bytes().saturating_add(stretch) > limits.memory;
        let number = self.number_next;
        self.number_next += 1;
        let (kept, content) = if behind.is_empty() || busy {
            (place, Content::Place)
        } else {
            (behind, Content::Coming(Vec::new()))
        };
        let read = matches!(content, Content::Coming(_)).then(|| (number, kept.clone()));
        self.regions.push_back(Region { number, place: kept, stretch, content, used: false });
        self.forget_beyond(limits.memory);
        ReadPath::Device(request, read)
    }

    /// Forgets the oldest walks while there are too many, or too much of them is in memory.
    fn forget_beyond(&mut self, memory_max: u64) {
        while self.regions.len() > REGIONS_MAX || self.held_bytes() > memory_max {
            let idle = |region: &Region| !matches!(region.content, Content::Coming(_));
            let Some(oldest) = self.regions.iter().position(idle) else { return };
            self.regions.remove(oldest);
        }
    }

    fn coming_bytes(&self) -> u64 {
        let coming =
            self.regions.iter().filter(|region| matches!(region.content, Content::Coming(_)));
        coming.map(|region| region.place.end - region.place.start).sum()
    }

    fn held_bytes(&self) -> u64 {
        let held = self.regions.iter().filter(|region| !matches!(region.content, Content::Place));
        held.map(|region| region.place.end - region.place.start).sum()
    }

    /// What is read ahead after a read: the next stretch of its walk, or what is between it and a
    /// walk that started shortly after it. Excludes what is in memory.
    fn behind(&mut self, place: &Range<u64>, bytes_max: u64, device_bytes: u64) -> Range<u64> {
        let start = place.end;
        let end = match self.find(|region| region.is_before(place)) {
            Some(at) => start.saturating_add(self.next_stretch(at, bytes_max)),
            None => self
                .find(|region| region.is_behind(place))
                .map_or(start, |at| self.regions[at].place.start),
        };
        let held = self.regions.iter().filter(|region| !matches!(region.content, Content::Place));
        let next = held.map(|region| region.place.start).filter(|held| *held >= start).min();
        start..end.min(next.unwrap_or(device_bytes)).min(device_bytes)
    }

    /// Length of what is read after the next read of a walk. The region before it is no longer
    /// needed.
    fn next_stretch(&mut self, at: usize, bytes_max: u64) -> u64 {
        let Some(last) = self.regions.get(at) else { return 0 };
        let stretch = match (&last.content, last.used) {
            (Content::Place, _) => last.stretch.clamp(FIRST_BYTES, bytes_max.max(FIRST_BYTES)),
            (_, true) => last.stretch.saturating_mul(2),
            (_, false) => last.stretch / 2,
        };
        if !matches!(last.content, Content::Coming(_)) {
            self.regions.remove(at);
        }
        if stretch < FIRST_BYTES { 0 } else { stretch.min(bytes_max) }
    }

    fn find(&self, wanted: impl Fn(&Region) -> bool) -> Option<usize> {
        self.regions.iter().rposition(wanted)
    }

    /// Makes a region the one used last.
    fn touch(&mut self, at: usize) -> &mut Region {
        let last = self.regions.len() - 1;
        self.regions.make_contiguous()[at..].rotate_left(1);
        &mut self.regions[last]
    }

    fn here(&mut self, place: &Range<u64>) -> Option<(Arc<Vec<u8>>, u64)> {
        let at = self.find(|region| region.holds(place))?;
        let region = self.touch(at);
        let Content::Here(bytes) = &region.content else {
            return None;
        };
        region.used = true;
        Some((Arc::clone(bytes), region.place.start))
    }

    /// Stores a stretch that was read, or drops it if that failed. Returns the requests that wait
    /// for it.
    fn land(&mut self, number: u64, bytes: Option<Arc<Vec<u8>>>) -> Option<(Vec<Request>, u64)> {
        let at = self.regions.iter().position(|region| region.number == number)?;
        let region = &mut self.regions[at];
        let start = region.place.start;
        let after = bytes.map_or(Content::Place, Content::Here);
        let failed = matches!(after, Content::Place);
        let before = std::mem::replace(&mut region.content, after);
        if failed || region.place.is_empty() {
            self.regions.remove(at);
        }
        match before {
            Content::Coming(waiting) => Some((waiting, start)),
            _ => None,
        }
    }

    /// Drops a stretch that was lost. Returns the requests that wait for it.
    fn lose(&mut self, number: u64) -> Option<(Vec<Request>, u64)> {
        let is_coming = |region: &Region| {
            region.number == number && matches!(region.content, Content::Coming(_))
        };
        if self.regions.iter().any(is_coming) { self.land(number, None) } else { None }
    }

    fn begin_write(&mut self, place: &Range<u64>) {
        self.writes.push(place.clone());
        for region in &mut self.regions {
            if overlap(&region.place, place) {
                // Later reads must not use its content. Requests that wait already were submitted
                // before the write, and may get it.
                region.place.end = region.place.start;
            }
        }
        let gone = |region: &Region| {
            region.place.is_empty() && !matches!(region.content, Content::Coming(_))
        };
        self.regions.retain(|region| !gone(region));
    }

    fn end_write(&mut self, place: &Range<u64>) {
        if let Some(at) = self.writes.iter().position(|write| write == place) {
            self.writes.swap_remove(at);
        }
    }
}

impl Region {
    fn holds(&self, place: &Range<u64>) -> bool {
        !matches!(self.content, Content::Place)
            && self.place.start <= place.start
            && place.end <= self.place.end
    }

    /// Whether a read of this place would be the next of its walk.
    fn is_before(&self, place: &Range<u64>) -> bool {
        self.place.start <= place.start && place.start <= self.place.end.saturating_add(NEAR_BYTES)
    }

    /// Whether a read of this place is shortly before it: names in the order of a hash jump back
    /// and forth.
    fn is_behind(&self, place: &Range<u64>) -> bool {
        place.end <= self.place.start && self.place.start <= place.end.saturating_add(NEAR_BYTES)
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl BlockDevice for Neighbours {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        match request.operation {
            Operation::Read => self.submit_read(request),
            Operation::Write => self.submit_write(request),
            Operation::Flush => self.device.submit(request),
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.device.capabilities();
        // What is read for walks is nobody's metadata, and no reader sleeps in the queue for it.
        Capabilities {
            durable: below.durable.map(|_| self as _),
            remembers: below.remembers,
            congestion: None,
            holes: below.holes,
            discard: below.discard.map(|_| self as _),
            metadata: None,
            host_file: below.host_file,
            annex: below.annex,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        let place = offset..offset.saturating_add(segments_bytes(&segments));
        match operation {
            Operation::Read => {
                wait_for(self.clock(), |request| self.submit(request), operation, offset, segments)
            }
            Operation::Flush => self.device.transfer(operation, offset, segments),
            Operation::Write => {
                self.state.lock().begin_write(&place);
                let completed = self.device.transfer(operation, offset, segments);
                self.state.lock().end_write(&place);
                completed
            }
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if bytes.len() as u64 >= LARGE_BYTES {
            return self.device.read(offset, bytes);
        }
        if self.copy(offset, bytes) {
            return Ok(());
        }
        let length = bytes.len();
        let completed =
            self.transfer(Operation::Read, offset, vec![Segment::Owned(vec![0; length])]);
        completed.result?;
        match completed.segments.into_iter().next() {
            Some(Segment::Owned(read)) if read.len() == length => bytes.copy_from_slice(&read),
            _ => return Err(io::Error::other("the device kept a request's memory")),
        }
        Ok(())
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        let place = offset..offset.saturating_add(pieces_bytes(pieces));
        self.state.lock().begin_write(&place);
        let written = self.device.write_vectored(offset, pieces);
        self.state.lock().end_write(&place);
        written
    }
    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }
}

impl WritesDurably for Neighbours {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = offset..offset.saturating_add(bytes.len() as u64);
        self.state.lock().begin_write(&place);
        let written = self.device.write_durable(offset, bytes);
        self.state.lock().end_write(&place);
        written
    }
}

impl Discards for Neighbours {
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let place = offset..offset.saturating_add(bytes);
        self.state.lock().begin_write(&place);
        let discarded = self.device.discard(offset, bytes);
        self.state.lock().end_write(&place);
        discarded
    }
}
