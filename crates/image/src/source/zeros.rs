//! Which blocks of files are zeros, where the files are read in place: looked for while the tree is
//! still being read, by threads that it does not wait for.
//!
//! Whether a block may be one is seen by a few bytes of it: those of nearly all blocks are not
//! zeros, and nothing else of them is read. The bytes around the end of a block tell that of two
//! blocks with one call of the host, which is most of what the search costs.
//!
//! *Invariants*: what is found depends on the bytes alone. What cannot be read counts as data: it
//! is reported where it is read for the image.
//! *Locking*: the queue of the workers is a channel in a mutex, held while one part is taken.
use super::body::read_volume;
use crate::error::Error;
use crate::tree::{Growing, NodeBody, NodeId, Segment};
use extant_archive::{SwapAreas, Zeros, is_swap_area_by, is_zeros};
use extant_block::BlockDevice;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a file that one worker looks at.
const PART_BYTES: u64 = 32 << 20;
/// Parts that wait for a worker; where more are found, the tree's own thread looks at one.
const WAITING_MAX: usize = 32;
/// More workers would wait for memory.
const WORKERS_MAX: usize = 3;
/// Bytes that are looked at first, of a block or around its end.
const PROBE_BYTES: usize = 64;
/// Bytes that are read at once where zeros were found.
const CHUNK_BYTES: usize = 64 << 10;

/// Where the bytes of files are.
#[derive(Clone)]
pub(super) enum Bytes {
    File(Arc<File>),
    Volume(Arc<dyn BlockDevice>),
}

impl Bytes {
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Bytes::File(file) => file.read_exact_at(bytes, at),
            Bytes::Volume(device) => read_volume(&**device, at, bytes),
        }
    }
}

/// Looks for zeros in files that are read where they are.
pub(super) struct Search {
    zeros: Zeros,
    queue: Option<Queue>,
    /// How many parts there were.
    parts: u64,
}

/// What the workers take from, and what they found.
struct Queue {
    give: SyncSender<Part>,
    take: Arc<Mutex<Receiver<Part>>>,
    find: Sender<Found>,
    found: Receiver<Found>,
}

/// A part of a file: some of its segments.
struct Part {
    node: NodeId,
    number: u64,
    file: Bytes,
    /// Where in `file` the segments' places count from.
    start: u64,
    /// Where the file's first bytes are, and how many.
    head: (u64, u64),
    segments: Vec<Segment>,
}

/// The data of a part.
struct Found {
    node: NodeId,
    number: u64,
    segments: Vec<Segment>,
    /// Bytes of zeros.
    left_out: u64,
}

impl Search {
    pub(super) fn new(zeros: Zeros) -> Search {
        Search { zeros, queue: None, parts: 0 }
    }

    /// Whether a file of this many bytes is looked at.
    pub(super) fn concerns(&self, bytes: u64) -> bool {
        self.zeros.concern(bytes)
    }

    /// Has the body of a regular file looked at; `file` is what it is read from.
    pub(super) fn add(&mut self, node: NodeId, file: &Bytes, tree: &Growing) {
        let body = tree.body(node);
        let (start, length) = match body {
            NodeBody::Empty => return,
            NodeBody::File { length, .. } => (0, length),
            NodeBody::Range { offset, length, .. } | NodeBody::Sparse { offset, length, .. } => {
                (offset, length)
            }
        };
        if !self.zeros.concern(length) {
            return;
        }
        let is_own = matches!(body, NodeBody::File { .. });
        let place =
            |it: Segment| Segment { packed: if is_own { it.offset } else { it.packed }, ..it };
        let segments: Vec<Segment> = tree.data_segments(node).map(place).collect();
        let head = match segments.first() {
            Some(first) if first.offset == 0 => (start + first.packed, first.length),
            _ => (start, 0),
        };
        for segments in parts(segments, self.zeros.block_bytes.into()) {
            let (number, file) = (self.parts, file.clone());
            self.parts += 1;
            let zeros = self.zeros;
            let queue = self.queue.get_or_insert_with(|| Queue::start(zeros));
            queue.add(Part { node, number, file, start, head, segments }, &zeros);
        }
    }

    /// Waits for what is under way, and gives the tree what was found.
    ///
    /// # Errors
    /// More pieces than a tree can number.
    pub(super) fn finish(self, tree: &mut Growing) -> Result<(), Error> {
        let Some(Queue { give, take, find, found }) = self.queue else { return Ok(()) };
        drop(give);
        work(&take, &find, &self.zeros);
        drop(find);
        let mut found: Vec<Found> = found.iter().collect();
        found.sort_unstable_by_key(|part| part.number);
        if found.len() as u64 != self.parts {
            return Err(Error::new("a thread that looks for zeros has ended"));
        }
        for parts in found.chunk_by(|one, next| one.node == next.node) {
            let [first, ..] = parts else { continue };
            if parts.iter().all(|part| part.left_out == 0) {
                continue;
            }
            let mut segments: Vec<Segment> = Vec::new();
            for segment in parts.iter().flat_map(|part| &part.segments) {
                match segments.last_mut() {
                    Some(last) if follows(last, segment) => last.length += segment.length,
                    _ => segments.push(*segment),
                }
            }
            tree.set_segments(first.node, &segments)?;
        }
        Ok(())
    }
}

fn follows(last: &Segment, next: &Segment) -> bool {
    let end = |at: u64| at.checked_add(last.length);
    end(last.offset) == Some(next.offset) && end(last.packed) == Some(next.packed)
}

impl Queue {
    /// Begins workers; where the host makes none, everything is looked at by who finds it.
    fn start(zeros: Zeros) -> Queue {
        let (give, take) = sync_channel(WAITING_MAX);
        let (find, found) = channel();
        let take = Arc::new(Mutex::new(take));
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        for _ in 0..processors.saturating_sub(1).clamp(1, WORKERS_MAX) {
            let (take, find) = (Arc::clone(&take), find.clone());
            // tidy: thread because files are looked at on the host's time, and no experiment does
            let begun = std::thread::Builder::new()
                .name("zeros".into())
                .spawn(move || work(&take, &find, &zeros));
            if begun.is_err() {
                break;
            }
        }
        Queue { give, take, find, found }
    }

    fn add(&self, part: Part, zeros: &Zeros) {
        if let Err(TrySendError::Full(part) | TrySendError::Disconnected(part)) =
            self.give.try_send(part)
        {
            let _ = self.find.send(look(part, zeros));
        }
    }
}

/// Looks at parts until no more come.
fn work(take: &Mutex<Receiver<Part>>, find: &Sender<Found>, zeros: &Zeros) {
    loop {
        let part = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(part) = part else { return };
        if find.send(look(part, zeros)).is_err() {
            return;
        }
    }
}

/// Cuts the segments of a file into parts, between two blocks.
fn parts(segments: Vec<Segment>, block: u64) -> Vec<Vec<Segment>> {
    let mut parts = vec![Vec::new()];
    let mut left = PART_BYTES;
    for mut segment in segments {
        while segment.length > 0 {
            let to_block = (block - segment.offset % block) % block;
            let length = segment.length.min(to_block.saturating_add(left / block * block));
            let now = Segment { length, ..segment };
            if let (Some(part), true) = (parts.last_mut(), length > 0) {
                part.push(now);
            }
            segment.offset += length;
            segment.packed += length;
            segment.length -= length;
            left = left.saturating_sub(length);
            if segment.length > 0 || left < block {
                parts.push(Vec::new());
                left = PART_BYTES;
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Which blocks of a part are data.
fn look(part: Part, zeros: &Zeros) -> Found {
    let Part { node, number, file, start, head, segments } = part;
    if zeros.swap_areas == SwapAreas::Kept && is_swap_area(&file, head) {
        return Found { node, number, segments, left_out: 0 };
    }
    let before: u64 = segments.iter().map(|segment| segment.length).sum();
    let mut look = Look {
        file: &file,
        start,
        block: zeros.block_bytes.into(),
        chunk: vec![0; CHUNK_BYTES.max(zeros.block_bytes as usize)],
        found: Vec::new(),
    };
    for segment in segments {
        look.segment(segment);
    }
    let after: u64 = look.found.iter().map(|segment| segment.length).sum();
    Found { node, number, segments: look.found, left_out: before.saturating_sub(after) }
}

fn is_swap_area(file: &Bytes, (start, length): (u64, u64)) -> bool {
    is_swap_area_by(|at, mark| {
        let end = at + mark.len() as u64;
        end <= length && file.read_exact_at(mark, start + at).is_ok()
    })
}

/// A look at one part.
struct Look<'a> {
    file: &'a Bytes,
    start: u64,
    block: u64,
    chunk: Vec<u8>,
    found: Vec<Segment>,
}

impl Look<'_> {
    fn segment(&mut self, mut rest: Segment) {
        let mut is_known_data = false;
        while rest.length > 0 {
            let length = self.block_of(rest.offset).min(rest.length);
            let (is_data, is_next_data) = match is_known_data {
                true => (true, false),
                false => self.around_end(&rest, length),
            };
            is_known_data = is_next_data;
            if is_data || !self.may_be_zeros(&rest, length) {
                rest = self.keep(rest, length);
                continue;
            }
            is_known_data = false;
            // One block, and after one of zeros as many as fit.
            let mut count = length;
            loop {
                let Some(ended) = self.chunk(&mut rest, count) else {
                    // What cannot be read is data.
                    rest = self.keep(rest, rest.length);
                    break;
                };
                if ended == Kind::Data || rest.length == 0 {
                    break;
                }
                let whole = self.chunk.len() as u64 / self.block * self.block;
                count = whole.min(rest.length);
            }
        }
    }

    /// Bytes from a place of the file to the end of its block.
    fn block_of(&self, offset: u64) -> u64 {
        self.block - offset % self.block
    }

    /// Whether the bytes around the end of a block show data: of the block, and of the next one.
    fn around_end(&self, rest: &Segment, length: u64) -> (bool, bool) {
        let mut probe = [0; PROBE_BYTES];
        let half = PROBE_BYTES / 2;
        if length.min(rest.length - length) < half as u64 {
            return (false, false);
        }
        let at = self.start + rest.packed + length - half as u64;
        if self.file.read_exact_at(&mut probe, at).is_err() {
            return (false, false);
        }
        let (before, after) = probe.split_at(half);
        (!is_zeros(before), !is_zeros(after))
    }

    fn may_be_zeros(&self, rest: &Segment, length: u64) -> bool {
        let mut probe = [0; PROBE_BYTES];
        let inside = (length / 4).min(length.saturating_sub(PROBE_BYTES as u64));
        let count = PROBE_BYTES.min(usize::try_from(length).unwrap_or(PROBE_BYTES));
        let probe = &mut probe[..count];
        let read = self.file.read_exact_at(probe, self.start + rest.packed + inside);
        read.is_ok() && is_zeros(probe)
    }

    /// Reads that many bytes and judges their blocks: what the last of them was, `None` if they
    /// cannot be read.
    fn chunk(&mut self, rest: &mut Segment, count: u64) -> Option<Kind> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let bytes = &mut chunk[..count as usize];
        let read = self.file.read_exact_at(bytes, self.start + rest.packed);
        let mut kind = None;
        if read.is_ok() {
            let mut bytes = &*bytes;
            while !bytes.is_empty() {
                let length = self.block_of(rest.offset).min(bytes.len() as u64);
                let (block, later) = bytes.split_at(length as usize);
                let is_hole = is_zeros(block);
                *rest = match is_hole {
                    true => advanced(*rest, length),
                    false => self.keep(*rest, length),
                };
                kind = Some(if is_hole { Kind::Zeros } else { Kind::Data });
                bytes = later;
            }
        }
        self.chunk = chunk;
        kind
    }

    /// Takes the next bytes for data; what is left.
    fn keep(&mut self, rest: Segment, length: u64) -> Segment {
        let kept = Segment { length, ..rest };
        match self.found.last_mut() {
            Some(last) if follows(last, &kept) => last.length += length,
            _ => self.found.push(kept),
        }
        advanced(rest, length)
    }
}

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Zeros,
    Data,
}

fn advanced(rest: Segment, length: u64) -> Segment {
    Segment {
        offset: rest.offset + length,
        packed: rest.packed + length,
        length: rest.length - length,
    }
}
