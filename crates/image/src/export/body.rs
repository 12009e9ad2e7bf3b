//! The bytes of files, read ahead by a thread of their own: in the order of the archive, in large
//! pieces, into a few buffers that are used again and again.
//!
//! One thread goes through the plan as the writer does, and finds out where everything is; two
//! others read, a chunk each in turn: where the page cache holds the image, reading is copying, and
//! one processor copies no faster than `dd`. A chunk's parts are, end to end, what the bodies of
//! files need; the writer knows from the plan which file each byte belongs to. Of a file that is
//! not in one piece its map comes first.
//!
//! ```text
//!             +-- loader 0 --+
//!   composer -+              +-> writer     a chunk is filled from several places on the volume,
//!       ^     +-- loader 1 --+     |        read in rising order; places that nearly touch are one
//!       +------ empty chunks ------+        read
//! ```
//! *Invariants*: every whole regular file that is neither empty nor in one piece has exactly one
//! `Map`; the parts that follow it cover its ranges exactly, in order. BodyChunk n goes through
//! loader n mod 2, so that chunks arrive in order. *Locking*: none but that of the channels.
use super::handover::HANDED_BYTES_MIN;
use super::plan::{ExportPlan, Item, Step};
use extant_block::{BlockDevice, Clock, RealClock, Task};
use extant_engine::survey::{Data, ObjectId, Survey};
use extant_format::inode::FileType;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Threads that read.
const LOADERS: usize = 2;
/// Bytes of a chunk, and how many there are.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNKS: usize = 8;
/// What is between two wanted places is read along when it is no longer than this.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// Parts of a chunk, at most.
const PARTS_MAX: usize = 4096;
/// Ranges of one file that are kept. A file in more pieces than this loses its holes from there on:
/// they become zeros.
const RANGES_MAX: usize = 1 << 20;

/// Why something could not be read: words for the user.
pub(super) type Reason = String;

/// A part of what bodies need.
pub(super) enum Part {
    /// Bytes of the chunk.
    Bytes(Range<usize>),
    /// A stretch of the volume, in bytes, that is not in the chunk: the writer hands it over.
    Handed(Range<u64>),
    /// This many zeros.
    Zeros(u64),
    /// The ranges of the next file that hold data, or why they are not known.
    Map(Result<Vec<Range<u64>>, Reason>),
    /// This many bytes that cannot be read.
    Lost(u64, Reason),
}

/// A buffer, and what it holds, or will hold when its spans are read.
#[derive(Default)]
pub(super) struct BodyChunk {
    pub(super) bytes: Vec<u8>,
    pub(super) parts: Vec<Part>,
    spans: Vec<Span>,
}

/// A stretch of the volume, and where it goes in the chunk.
struct Span {
    volume_offset: u64,
    start: usize,
    length: usize,
}

/// What becomes of a long stretch of the volume.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Long {
    /// It is read like any other.
    Read,
    /// It is left to the writer.
    HandOver,
}

/// The writer's end. Dropped early, it stops the others.
pub(super) struct Bodies {
    filled: Vec<Receiver<BodyChunk>>,
    /// From which loader the next chunk comes.
    turn: usize,
    empty: Option<SyncSender<BodyChunk>>,
    tasks: Vec<Task>,
}

impl Bodies {
    /// Starts reading.
    pub(super) fn start(plan: Arc<ExportPlan>, long: Long) -> Bodies {
        let clock = RealClock::new();
        let (empty, take) = sync_channel(CHUNKS);
        for _ in 0..CHUNKS {
            // There is room for all of them.
            let _ = empty.try_send(BodyChunk::default());
        }
        let (mut filled, mut give, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..LOADERS {
            let (to_loader, from_composer) = sync_channel(CHUNKS);
            let (to_writer, from_loader) = sync_channel(CHUNKS);
            let survey = Arc::clone(&plan.survey);
            let body = move || load(&survey, &from_composer, &to_writer);
            tasks.push(clock.spawn(&format!("loader-{number}"), Box::new(body)));
            filled.push(from_loader);
            give.push(to_loader);
        }
        let body = move || {
            let mut composer = Composer {
                survey: &plan.survey,
                chunk: BodyChunk::default(),
                long,
                used: 0,
                turn: 0,
                give,
                take,
            };
            // It ends early only when the writer has ended.
            let _ = composer
                .take_next()
                .and_then(|()| plan.items.iter().try_for_each(|item| composer.item(item)));
            let _ = composer.flush();
        };
        tasks.push(clock.spawn("composer", Box::new(body)));
        Bodies { filled, turn: 0, empty: Some(empty), tasks }
    }

    /// The next chunk; `None` after the last.
    pub(super) fn next(&mut self) -> Option<BodyChunk> {
        let chunk = self.filled.get(self.turn)?.recv().ok();
        self.turn = (self.turn + 1) % LOADERS;
        chunk
    }

    /// A chunk that is used up.
    pub(super) fn give_back(&mut self, chunk: BodyChunk) {
        if let Some(empty) = &self.empty {
            // There is room for all of them; the composer may have ended.
            let _ = empty.try_send(chunk);
        }
    }
}

impl Drop for Bodies {
    fn drop(&mut self) {
        self.filled.clear();
        drop(self.empty.take());
        self.tasks.drain(..).for_each(Task::join);
    }
}

/// What a loader does: reads what the chunks that come are to hold.
fn load(survey: &Survey, take: &Receiver<BodyChunk>, give: &SyncSender<BodyChunk>) {
    while let Ok(mut chunk) = take.recv() {
        chunk.read(survey);
        if give.send(chunk).is_err() {
            return;
        }
    }
}

/// What is lost at once where it cannot be read.
const SECTOR_BYTES: usize = 4096;

/// Reads a stretch of a device. Sectors that cannot be read are zeros; the first reason, if some
/// are.
pub(crate) fn read_or_zeros(device: &dyn BlockDevice, at: u64, bytes: &mut [u8]) -> Option<String> {
    device.read(at, bytes).err()?;
    let mut lost = None;
    for (number, sector) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
        if let Err(error) = device.read(at + (number * SECTOR_BYTES) as u64, sector) {
            sector.fill(0);
            lost.get_or_insert_with(|| error.to_string());
        }
    }
    lost
}

impl BodyChunk {
    fn read(&mut self, survey: &Survey) {
        let length = self.spans.iter().map(|span| span.start + span.length).max().unwrap_or(0);
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        self.spans.sort_unstable_by_key(|span| span.volume_offset);
        for span in std::mem::take(&mut self.spans) {
            let bytes = &mut self.bytes[span.start..span.start + span.length];
            if survey.device().read(span.volume_offset, bytes).is_err() {
                self.read_in_parts(survey, &span);
            }
        }
    }

    /// A span that cannot be read at once: its sectors one by one, and what cannot be read even so
    /// is lost.
    fn read_in_parts(&mut self, survey: &Survey, span: &Span) {
        for part in std::mem::take(&mut self.parts) {
            let Part::Bytes(range) = part else {
                self.parts.push(part);
                continue;
            };
            // A part may be of several spans: those of a body in pieces follow each other here.
            let begin = range.start.max(span.start).min(range.end);
            let end = range.end.min(span.start + span.length).max(begin);
            self.parts.extend((range.start < begin).then_some(Part::Bytes(range.start..begin)));
            let mut start = begin;
            while start < end {
                let offset = span.volume_offset + (start - span.start) as u64;
                // To the end of the sector, wherever in it this begins.
                let length = (SECTOR_BYTES - offset as usize % SECTOR_BYTES).min(end - start);
                let part =
                    match survey.device().read(offset, &mut self.bytes[start..start + length]) {
                        Ok(()) => Part::Bytes(start..start + length),
                        Err(error) => Part::Lost(length as u64, error.to_string()),
                    };
                self.parts.push(part);
                start += length;
            }
            self.parts.extend((end < range.end).then_some(Part::Bytes(end..range.end)));
        }
    }
}

/// The writer, or a loader, has ended.
struct Ended;

struct Composer<'a> {
    survey: &'a Survey,
    chunk: BodyChunk,
    long: Long,
    /// Bytes of the chunk that have a part already.
    used: usize,
    /// Which loader gets the chunk.
    turn: usize,
    give: Vec<SyncSender<BodyChunk>>,
    take: Receiver<BodyChunk>,
}

/// Whether the body of an item is in no chunk, in one piece, or comes after a map.
pub(crate) enum Shape {
    None,
    Whole(Data),
    Mapped,
}

/// The shape of a body: composer and writer both go by it.
pub(crate) fn shape(survey: &Survey, object: ObjectId, step: Step) -> Shape {
    if step == Step::Link
        || survey.file_type(object) != Some(FileType::Regular)
        || survey.size(object) == 0
    {
        return Shape::None;
    }
    survey.whole(object).map_or(Shape::Mapped, Shape::Whole)
}

impl Composer<'_> {
    fn item(&mut self, item: &Item) -> Result<(), Ended> {
        match shape(self.survey, item.object, item.step) {
            Shape::None => Ok(()),
            Shape::Whole(data) => self.add(data.volume_offset, data.length),
            Shape::Mapped => self.mapped(item.object),
        }
    }

    fn mapped(&mut self, object: ObjectId) -> Result<(), Ended> {
        match self.ranges(object) {
            Err(reason) => self.push(Part::Map(Err(reason))),
            Ok(ranges) => {
                self.push(Part::Map(Ok(ranges.clone())))?;
                self.data(object, &ranges)
            }
        }
    }

    /// Where a file holds data: stretches that touch are one.
    fn ranges(&self, object: ObjectId) -> Result<Vec<Range<u64>>, Reason> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for data in self.survey.data(object) {
            let data = data.map_err(|error| error.to_string())?;
            let end = data.file_offset + data.length;
            let is_full = ranges.len() == RANGES_MAX;
            match ranges.last_mut() {
                Some(last) if last.end >= data.file_offset => last.end = last.end.max(end),
                Some(last) if is_full => {
                    last.end = self.survey.size(object);
                    break;
                }
                _ => ranges.push(data.file_offset..end),
            }
        }
        Ok(ranges)
    }

    /// Everything in these ranges.
    fn data(&mut self, object: ObjectId, ranges: &[Range<u64>]) -> Result<(), Ended> {
        let survey = self.survey;
        let mut ranges = ranges.iter().cloned();
        let mut left = ranges.next().unwrap_or(0..0);
        for data in survey.data(object) {
            let data = match data {
                Ok(data) => data,
                Err(error) => {
                    let lost = (left.end - left.start)
                        + ranges.map(|range| range.end - range.start).sum::<u64>();
                    return self.push(Part::Lost(lost, error.to_string()));
                }
            };
            if left.is_empty() {
                left = ranges.next().unwrap_or(data.file_offset..data.file_offset);
            }
            self.zeros(data.file_offset - left.start)?;
            self.add(data.volume_offset, data.length)?;
            left.start = data.file_offset + data.length;
        }
        self.zeros(left.end - left.start)
    }

    fn zeros(&mut self, length: u64) -> Result<(), Ended> {
        match length {
            0 => Ok(()),
            _ => self.push(Part::Zeros(length)),
        }
    }

    fn push(&mut self, part: Part) -> Result<(), Ended> {
        self.chunk.parts.push(part);
        match self.chunk.parts.len() < PARTS_MAX {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// Adds a stretch of the volume to what is to be read.
    fn add(&mut self, volume_offset: u64, length: u64) -> Result<(), Ended> {
        let (mut offset, end) = (volume_offset, volume_offset + length);
        if self.long == Long::HandOver && length >= HANDED_BYTES_MIN {
            return self.push(Part::Handed(offset..end));
        }
        while offset < end {
            let room = CHUNK_BYTES - self.used;
            let gap = self
                .chunk
                .spans
                .last()
                .and_then(|span| offset.checked_sub(span.volume_offset + span.length as u64));
            // A gap that would fill the chunk is no gain.
            let gap = gap
                .filter(|gap| *gap <= GAP_BYTES_MAX)
                .map(|gap| gap as usize)
                .filter(|gap| gap * 2 < room);
            let room = room - gap.unwrap_or(0);
            if room == 0 {
                self.flush()?;
                continue;
            }
            let taken = (end - offset).min(room as u64) as usize;
            match (gap, self.chunk.spans.last_mut()) {
                (Some(gap), Some(span)) => {
                    span.length += gap + taken;
                    self.used += gap;
                }
                _ => self.chunk.spans.push(Span {
                    volume_offset: offset,
                    start: self.used,
                    length: taken,
                }),
            }
            self.push_bytes(taken)?;
            offset += taken as u64;
        }
        Ok(())
    }

    fn push_bytes(&mut self, length: usize) -> Result<(), Ended> {
        let range = self.used..self.used + length;
        self.used += length;
        match self.chunk.parts.last_mut() {
            // The writer looks only at how long things are.
            Some(Part::Bytes(last)) if last.end == range.start => {
                last.end = range.end;
                Ok(())
            }
            _ => self.push(Part::Bytes(range)),
        }
    }

    /// Hands the chunk over to be read.
    fn flush(&mut self) -> Result<(), Ended> {
        if self.chunk.parts.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        self.give.get(self.turn).ok_or(Ended)?.send(chunk).map_err(|_| Ended)?;
        self.turn = (self.turn + 1) % LOADERS;
        self.take_next()
    }

    fn take_next(&mut self) -> Result<(), Ended> {
        self.chunk = self.take.recv().map_err(|_| Ended)?;
        self.chunk.parts.clear();
        self.used = 0;
        Ok(())
    }
}
