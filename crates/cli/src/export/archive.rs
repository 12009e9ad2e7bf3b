//! An archive, entry by entry. Headers are made in one buffer, bodies stay in the chunks that they
//! were read into; both go out together, a chunk at a time, without being copied.
//!
//! *Invariants*: what is said of the length of a body is what follows, also when it cannot be read;
//! nothing waits in `pieces` when a chunk goes back to its reader.
use super::body::{Bodies, Chunk, Part, Shape, shape};
use super::header::{self, BLOCK, Entry, Headers, Kind};
use super::plan::{Item, PATH_BYTES_MAX, Plan, Step};
use super::{LeftOut, Output};
use crate::error::Error;
use crate::progress::Progress;
use extant_engine::survey::{Facts, ObjectId};
use extant_format::attribute::Attribute;
use extant_format::inode::FileType;
use serde::Serialize;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Headers that wait to be written, at most.
const HEADER_BYTES_MAX: usize = 256 << 10;
/// Pieces that one call writes.
const PIECES_MAX: usize = 1000;
/// An archive is filled up to a multiple of this, as tar does it.
const RECORD_BYTES: u64 = 10 << 10;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What an archive came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Entries of all kinds.
    pub entries: u64,
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symlinks.
    pub symlinks: u64,
    /// Further names of files that are in the archive under another.
    pub hard_links: u64,
    /// Devices and fifos.
    pub specials: u64,
    /// Bytes of bodies.
    pub data_bytes: u64,
    /// Bytes of the archive.
    pub bytes: u64,
}

/// Writes an archive of all that is planned. What is found wrong on the way is told to `trouble`;
/// an error that it gives back ends the archive.
///
/// # Errors
/// The output takes no more, or `trouble` ended it.
pub fn write(
    plan: &Arc<Plan>,
    output: &mut Output,
    progress: &Progress,
    trouble: &mut dyn FnMut(LeftOut) -> Result<(), Error>,
) -> Result<Summary, Error> {
    let mut archive = Archive {
        plan,
        output,
        progress,
        trouble,
        bodies: Bodies::start(Arc::clone(plan)),
        chunk: Chunk::default(),
        part: 0,
        taken: 0,
        headers: Headers::default(),
        made: Vec::with_capacity(HEADER_BYTES_MAX * 2),
        pieces: Vec::with_capacity(PIECES_MAX + 8),
        summary: Summary::default(),
    };
    let mut path = Path::default();
    for item in &plan.items {
        path.step_to(plan, item);
        archive.item(item, &path.bytes)?;
    }
    archive.end()
}

/// A piece of the archive that waits to be written.
enum Piece {
    /// Of the headers.
    Made(Range<usize>),
    /// Of the chunk.
    Body(Range<usize>),
    Zeros(usize),
}

struct Archive<'a> {
    plan: &'a Plan,
    output: &'a mut Output,
    progress: &'a Progress,
    trouble: &'a mut dyn FnMut(LeftOut) -> Result<(), Error>,
    bodies: Bodies,
    /// What is being used up: the part, and how much of it is taken.
    chunk: Chunk,
    part: usize,
    taken: u64,
    headers: Headers,
    made: Vec<u8>,
    pieces: Vec<Piece>,
    summary: Summary,
}

impl Archive<'_> {
    fn item(&mut self, item: &Item, path: &[u8]) -> Result<(), Error> {
        let survey = &self.plan.survey;
        let shape = shape(survey, item.object, item.step);
        // The map has to be taken even if nothing comes of the file.
        let ranges = match &shape {
            Shape::Mapped => Some(self.map()?),
            _ => None,
        };
        let ranges = match ranges.transpose() {
            Ok(ranges) => ranges,
            Err(reason) => return (self.trouble)(LeftOut::new(path, reason)),
        };
        let Some(facts) = survey.facts(item.object) else {
            return Ok(());
        };
        if path.len() > PATH_BYTES_MAX {
            (self.trouble)(LeftOut::new(
                path,
                format_args!("a path of more than {PATH_BYTES_MAX} bytes"),
            ))?;
            return match ranges {
                Some(ranges) => {
                    self.skip_body(ranges.iter().map(|range| range.end - range.start).sum())
                }
                None if matches!(shape, Shape::Whole(_)) => self.skip_body(facts.size),
                None => Ok(()),
            };
        }
        match item.step {
            Step::Link => self.link(item, &facts, path),
            Step::Whole => match (facts.file_type, ranges) {
                (FileType::Regular, Some(ranges)) if !is_whole(&ranges, facts.size) => {
                    self.sparse(item.object, &facts, path, &ranges)
                }
                (FileType::Regular, _) => {
                    self.summary.files += 1;
                    self.header(item.object, &facts, path, Kind::File { size: facts.size })?;
                    self.body(path, facts.size)?;
                    self.pad(facts.size)
                }
                (FileType::Symlink, _) => self.symlink(item.object, &facts, path),
                (FileType::Directory, _) => {
                    self.summary.directories += 1;
                    self.header(item.object, &facts, path, Kind::Directory)
                }
                _ => {
                    self.summary.specials += 1;
                    self.header(item.object, &facts, path, Kind::Special)
                }
            },
        }
    }

    fn link(&mut self, item: &Item, facts: &Facts, path: &[u8]) -> Result<(), Error> {
        let mut target = Vec::new();
        self.plan.path(self.plan.first_name(item.object), &mut target);
        if target.len() > PATH_BYTES_MAX {
            return (self.trouble)(LeftOut::new(path, "a link to a path that is too long"));
        }
        self.summary.hard_links += 1;
        self.append(&Entry { path, facts, kind: Kind::Link { target: &target }, attributes: &[] })
    }

    fn symlink(&mut self, object: ObjectId, facts: &Facts, path: &[u8]) -> Result<(), Error> {
        match self.plan.survey.target(object) {
            Err(error) => (self.trouble)(LeftOut::new(path, error)),
            Ok(target) => {
                self.summary.symlinks += 1;
                self.header(object, facts, path, Kind::Symlink { target: &target })
            }
        }
    }

    fn sparse(
        &mut self,
        object: ObjectId,
        facts: &Facts,
        path: &[u8],
        ranges: &[Range<u64>],
    ) -> Result<(), Error> {
        let mut map = Vec::new();
        header::append_map(ranges, facts.size, &mut map);
        let data = ranges.iter().map(|range| range.end - range.start).sum();
        let stored = map.len() as u64 + data;
        self.summary.files += 1;
        self.header(object, facts, path, Kind::Sparse { size: facts.size, stored })?;
        self.push_made(&map)?;
        self.body(path, data)?;
        self.pad(data)
    }

    fn header(
        &mut self,
        object: ObjectId,
        facts: &Facts,
        path: &[u8],
        kind: Kind<'_>,
    ) -> Result<(), Error> {
        let attributes: Vec<Attribute> = match self.plan.survey.attributes(object) {
            Ok(attributes) => attributes,
            Err(error) => {
                (self.trouble)(LeftOut::new(
                    path,
                    format_args!("its extended attributes are left out: {error}"),
                ))?;
                Vec::new()
            }
        };
        self.append(&Entry { path, facts, kind, attributes: &attributes })
    }

    fn append(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        let start = self.made.len();
        self.headers.append(entry, &mut self.made);
        self.summary.entries += 1;
        self.push(Piece::Made(start..self.made.len()))
    }

    fn push_made(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let start = self.made.len();
        self.made.extend_from_slice(bytes);
        self.push(Piece::Made(start..self.made.len()))
    }

    /// Adds a piece; what grew too much is written.
    fn push(&mut self, piece: Piece) -> Result<(), Error> {
        self.summary.bytes += length(&piece) as u64;
        match (&piece, self.pieces.last_mut()) {
            (Piece::Made(next), Some(Piece::Made(last))) if last.end == next.start => {
                last.end = next.end
            }
            _ => self.pieces.push(piece),
        }
        match self.pieces.len() >= PIECES_MAX || self.made.len() >= HEADER_BYTES_MAX {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn zeros(&mut self, mut count: u64) -> Result<(), Error> {
        while count > 0 {
            let piece = count.min(ZEROS.len() as u64);
            self.push(Piece::Zeros(piece as usize))?;
            count -= piece;
        }
        Ok(())
    }

    fn pad(&mut self, size: u64) -> Result<(), Error> {
        self.zeros(header::padding(size) as u64)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let (made, body) = (&self.made, &self.chunk.bytes);
        let slice = |piece: &Piece| match piece {
            Piece::Made(range) => IoSlice::new(&made[range.clone()]),
            Piece::Body(range) => IoSlice::new(&body[range.clone()]),
            Piece::Zeros(length) => IoSlice::new(&ZEROS[..*length]),
        };
        let mut slices: Vec<IoSlice<'_>> = self.pieces.iter().map(slice).collect();
        self.output.write(&mut slices)?;
        self.pieces.clear();
        self.made.clear();
        Ok(())
    }

    /// The part that is next; a chunk that is used up is exchanged for the next one.
    fn next_part(&mut self) -> Result<&mut Part, Error> {
        while self.part >= self.chunk.parts.len() {
            self.flush()?;
            self.bodies.give_back(std::mem::take(&mut self.chunk));
            let ended = || Error::new("the reader of the image ended too early");
            (self.chunk, self.part, self.taken) = (self.bodies.next().ok_or_else(ended)?, 0, 0);
        }
        Ok(&mut self.chunk.parts[self.part])
    }

    /// The map that stands next.
    fn map(&mut self) -> Result<Result<Vec<Range<u64>>, String>, Error> {
        let map = match self.next_part()? {
            Part::Map(map) => std::mem::replace(map, Ok(Vec::new())),
            _ => return Err(Error::new("the reader of the image is out of step")),
        };
        (self.part, self.taken) = (self.part + 1, 0);
        Ok(map)
    }

    /// Adds so many bytes of the parts that stand next.
    fn body(&mut self, path: &[u8], length: u64) -> Result<(), Error> {
        self.summary.data_bytes += length;
        let (mut left, mut lost) = (length, None);
        while left > 0 {
            match self.take(&mut left)? {
                Taken::Bytes(range) => self.push(Piece::Body(range))?,
                Taken::Zeros(count) => self.zeros(count)?,
                Taken::Lost(count, reason) => {
                    self.zeros(count)?;
                    lost.get_or_insert(reason);
                }
            }
        }
        self.progress.advance(length);
        match lost {
            None => Ok(()),
            Some(reason) => {
                let reason =
                    format_args!("bytes that cannot be read are zeros in the archive: {reason}");
                (self.trouble)(LeftOut::new(path, reason))
            }
        }
    }

    fn skip_body(&mut self, mut left: u64) -> Result<(), Error> {
        while left > 0 {
            self.take(&mut left)?;
        }
        Ok(())
    }

    /// The next bytes, at most `left`, which becomes less by as many.
    fn take(&mut self, left: &mut u64) -> Result<Taken, Error> {
        let taken = self.taken;
        let part = self.next_part()?;
        let available = match part {
            Part::Bytes(range) => range.len() as u64,
            Part::Zeros(count) | Part::Lost(count, _) => *count,
            Part::Map(_) => return Err(Error::new("the reader of the image is out of step")),
        };
        // A part that was begun belongs to this chunk; else none of it is taken yet.
        let taken = if taken < available { taken } else { 0 };
        let count = (available - taken).min(*left);
        let piece = match part {
            Part::Bytes(range) => {
                let start = range.start + taken as usize;
                Taken::Bytes(start..start + count as usize)
            }
            Part::Lost(_, reason) => Taken::Lost(count, reason.clone()),
            Part::Zeros(_) | Part::Map(_) => Taken::Zeros(count),
        };
        *left -= count;
        self.taken = taken + count;
        if self.taken == available {
            (self.part, self.taken) = (self.part + 1, 0);
        }
        Ok(piece)
    }

    /// What follows the last entry.
    fn end(mut self) -> Result<Summary, Error> {
        self.zeros(2 * BLOCK as u64)?;
        let over = self.summary.bytes % RECORD_BYTES;
        self.zeros((RECORD_BYTES - over) % RECORD_BYTES)?;
        self.flush()?;
        Ok(self.summary)
    }
}

/// Whether there is no hole.
fn is_whole(ranges: &[Range<u64>], size: u64) -> bool {
    matches!(ranges, [only] if only.start == 0 && only.end == size)
}

/// A stretch of a body.
enum Taken {
    /// Of the chunk.
    Bytes(Range<usize>),
    Zeros(u64),
    Lost(u64, String),
}

fn length(piece: &Piece) -> usize {
    match piece {
        Piece::Made(range) | Piece::Body(range) => range.len(),
        Piece::Zeros(length) => *length,
    }
}

/// The path of the entry that is written, made from that of the entry before it where that is less
/// work.
#[derive(Default)]
struct Path {
    bytes: Vec<u8>,
    /// Which directory the entry stands in, and how long that one's path is.
    directory: Option<ObjectId>,
    directory_length: usize,
    /// The entry.
    object: Option<ObjectId>,
}

impl Path {
    fn step_to(&mut self, plan: &Plan, item: &Item) {
        let Some(name) = item.name else {
            *self = Path { object: Some(item.object), ..Path::default() };
            return;
        };
        let directory = Some(plan.survey.directory_of(name));
        if directory == self.object {
            self.directory_length = self.bytes.len();
        } else if directory == self.directory {
            self.bytes.truncate(self.directory_length);
        } else {
            let above = plan.survey.directory_of(name);
            plan.path(plan.first_name(above), &mut self.bytes);
            self.directory_length = self.bytes.len();
        }
        (self.directory, self.object) = (directory, Some(item.object));
        if !self.bytes.is_empty() {
            self.bytes.push(b'/');
        }
        self.bytes.extend_from_slice(plan.survey.name(name));
    }
}
