//! An archive, entry by entry. Headers are made in one buffer, bodies stay in the chunks that they
//! were read into; both go out together, a chunk at a time, without being copied.
//!
//! *Invariants*: a body is as long as its header says, also when it cannot be read; nothing waits
//! in `pieces` when a chunk goes back to its reader.
use super::body::{Long, Shape, read_or_zeros, shape};
use super::handover::PageOutput;
use super::left_out::LeftOut;
use super::parts::{BodyParts, Taken};
use super::plan::{ExportPlan, Item, ItemPath, PATH_BYTES_MAX, Step};
use crate::error::{Error, ErrorKind};
use crate::progress::Progress;
use extant_archive::{Headers, NewContent, NewEntry, append_map, ending, padding, reason};
use extant_engine::survey::ObjectId;
use extant_format::inode::FileType;
use extant_tree::{Described, Facts};
use std::io::{self, IoSlice, Write};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Headers that wait to be written, at most.
const HEADER_BYTES_MAX: usize = 256 << 10;
/// What is copied at once where pages cannot be handed over.
const COPY_BYTES: usize = 64 << 10;
/// Pieces that one call writes.
const PIECES_MAX: usize = 1000;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What is in an archive that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// Writes an archive of all that is planned. What cannot be read on the way is given to `left_out`,
/// which decides whether the archive goes on without it. `progress` is advanced by bytes of bodies.
///
/// # Errors
/// [`ErrorKind::Output`] when the output takes no more; [`ErrorKind::LeftOut`] when `left_out`
/// breaks off.
pub fn write(
    plan: &Arc<ExportPlan>,
    output: &mut dyn Write,
    progress: &dyn Progress,
    left_out: &mut dyn FnMut(LeftOut) -> ControlFlow<()>,
) -> Result<Summary, Error> {
    write_all_items(plan, &mut Output::Writer(output), progress, left_out)
}

/// The same, into an output that takes long pieces from the host's cache without a copy, where the
/// image is a file of the host.
///
/// # Errors
/// As [`write`].
pub fn write_pages(
    plan: &Arc<ExportPlan>,
    pages: &mut PageOutput,
    progress: &dyn Progress,
    left_out: &mut dyn FnMut(LeftOut) -> ControlFlow<()>,
) -> Result<Summary, Error> {
    let summary = write_all_items(plan, &mut Output::Pages(pages), progress, left_out);
    pages.drain();
    summary
}

fn write_all_items(
    plan: &Arc<ExportPlan>,
    output: &mut Output<'_>,
    progress: &dyn Progress,
    left_out: &mut dyn FnMut(LeftOut) -> ControlFlow<()>,
) -> Result<Summary, Error> {
    let long = match output {
        Output::Pages(_) if plan.survey.device().host_file().is_some() => Long::HandOver,
        Output::Pages(_) | Output::Writer(_) => Long::Read,
    };
    let mut archive = Archive {
        plan,
        output,
        progress,
        left_out,
        parts: BodyParts::start(plan, long),
        headers: Headers::default(),
        made: Vec::with_capacity(HEADER_BYTES_MAX * 2),
        pieces: Vec::with_capacity(PIECES_MAX + 8),
        summary: Summary::default(),
    };
    let mut path = ItemPath::default();
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

/// Where an archive goes.
enum Output<'a> {
    Writer(&'a mut dyn Write),
    Pages(&'a mut PageOutput),
}

impl Output<'_> {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Output::Writer(writer) => *writer,
            Output::Pages(pages) => *pages,
        }
    }
}

struct Archive<'a, 'o> {
    plan: &'a ExportPlan,
    output: &'a mut Output<'o>,
    progress: &'a dyn Progress,
    left_out: &'a mut dyn FnMut(LeftOut) -> ControlFlow<()>,
    parts: BodyParts,
    headers: Headers,
    made: Vec<u8>,
    pieces: Vec<Piece>,
    summary: Summary,
}

impl Archive<'_, '_> {
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
            Err(reason) => return self.leave_out(LeftOut::new(path, reason)),
        };
        let Some(facts) = survey.facts(item.object) else {
            return Ok(());
        };
        if path.len() > PATH_BYTES_MAX {
            self.leave_out(LeftOut::new(
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
                    self.header(item.object, &facts, path, NewContent::File { size: facts.size })?;
                    self.body(path, facts.size)?;
                    self.pad(facts.size)
                }
                (FileType::Symlink, _) => self.symlink(item.object, &facts, path),
                (FileType::Directory, _) => {
                    self.summary.directories += 1;
                    self.header(item.object, &facts, path, NewContent::Directory)
                }
                (file_type, _) => {
                    self.summary.specials += 1;
                    let content = match file_type {
                        FileType::CharacterDevice => NewContent::CharacterDevice(facts.device),
                        FileType::BlockDevice => NewContent::BlockDevice(facts.device),
                        _ => NewContent::Fifo,
                    };
                    self.header(item.object, &facts, path, content)
                }
            },
        }
    }

    /// Something is left out: goes on without it, or ends the archive.
    fn leave_out(&mut self, left_out: LeftOut) -> Result<(), Error> {
        let message = left_out.to_string();
        match (self.left_out)(left_out) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::new(message).of(ErrorKind::LeftOut)),
        }
    }

    fn link(&mut self, item: &Item, facts: &Facts, path: &[u8]) -> Result<(), Error> {
        let mut target = Vec::new();
        self.plan.path(self.plan.first_name(item.object), &mut target);
        if target.len() > PATH_BYTES_MAX {
            return self.leave_out(LeftOut::new(path, "a link to a path that is too long"));
        }
        self.summary.hard_links += 1;
        let content = NewContent::HardLink { target: &target };
        self.append(&NewEntry { path, described: &(*facts).into(), content })
    }

    fn symlink(&mut self, object: ObjectId, facts: &Facts, path: &[u8]) -> Result<(), Error> {
        match self.plan.survey.target(object) {
            Err(error) => self.leave_out(LeftOut::new(path, error)),
            Ok(target) => {
                self.summary.symlinks += 1;
                self.header(object, facts, path, NewContent::Symlink { target: &target })
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
        append_map(ranges, facts.size, &mut map);
        let data = ranges.iter().map(|range| range.end - range.start).sum();
        let stored = map.len() as u64 + data;
        self.summary.files += 1;
        self.header(object, facts, path, NewContent::Sparse { size: facts.size, stored })?;
        self.push_made(&map)?;
        self.body(path, data)?;
        self.pad(data)
    }

    fn header(
        &mut self,
        object: ObjectId,
        facts: &Facts,
        path: &[u8],
        content: NewContent<'_>,
    ) -> Result<(), Error> {
        let attributes = match self.plan.survey.attributes(object) {
            Ok(attributes) => attributes,
            Err(error) => {
                self.leave_out(LeftOut::new(
                    path,
                    format_args!("its extended attributes are left out: {error}"),
                ))?;
                Vec::new()
            }
        };
        let described = Described { facts: *facts, attributes };
        self.append(&NewEntry { path, described: &described, content })
    }

    fn append(&mut self, entry: &NewEntry<'_>) -> Result<(), Error> {
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

    /// Adds a piece; writes what waits when there is much of it.
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
        self.zeros(padding(size))
    }

    fn flush(&mut self) -> Result<(), Error> {
        let (made, body) = (&self.made, self.parts.bytes());
        let slice = |piece: &Piece| match piece {
            Piece::Made(range) => IoSlice::new(&made[range.clone()]),
            Piece::Body(range) => IoSlice::new(&body[range.clone()]),
            Piece::Zeros(length) => IoSlice::new(&ZEROS[..*length]),
        };
        let mut slices: Vec<IoSlice<'_>> = self.pieces.iter().map(slice).collect();
        write_all(self.output.writer(), &mut slices)?;
        self.pieces.clear();
        self.made.clear();
        Ok(())
    }

    /// The map that comes next.
    fn map(&mut self) -> Result<Result<Vec<Range<u64>>, String>, Error> {
        self.keep_chunk()?;
        self.parts.map()
    }

    /// Writes what waits before the chunk that it is in is exchanged.
    fn keep_chunk(&mut self) -> Result<(), Error> {
        match self.parts.is_used_up() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Adds `length` bytes of the parts that come next.
    fn body(&mut self, path: &[u8], length: u64) -> Result<(), Error> {
        self.summary.data_bytes += length;
        let (mut left, mut lost) = (length, None);
        while left > 0 {
            match self.take(&mut left)? {
                Taken::Bytes(range) => self.push(Piece::Body(range))?,
                Taken::Handed(range) => {
                    if let Some(reason) = self.hand_over(range)? {
                        lost.get_or_insert(reason);
                    }
                }
                Taken::Zeros(count) => self.zeros(count)?,
                Taken::Lost(count, reason) => {
                    self.zeros(count)?;
                    lost.get_or_insert(reason);
                }
            }
        }
        self.progress.step(length)?;
        match lost {
            None => Ok(()),
            Some(reason) => {
                let reason =
                    format_args!("bytes that cannot be read are zeros in the archive: {reason}");
                self.leave_out(LeftOut::new(path, reason))
            }
        }
    }

    /// Hands a stretch of the volume over; what the output does not take so is copied. Why bytes of
    /// it are zeros in the archive, if some are.
    fn hand_over(&mut self, range: Range<u64>) -> Result<Option<String>, Error> {
        self.flush()?;
        let device = self.plan.survey.device();
        let mut at = range.start;
        if let Output::Pages(pages) = self.output {
            at += pages.take(device, at, range.end - at);
        }
        self.summary.bytes += range.end - range.start;
        let (mut buffer, mut lost) = (Vec::new(), None);
        while at < range.end {
            let count = (range.end - at).min(COPY_BYTES as u64) as usize;
            buffer.resize(count, 0);
            lost = lost.or(read_or_zeros(device, at, &mut buffer));
            write_all(self.output.writer(), &mut [IoSlice::new(&buffer)])?;
            at += count as u64;
        }
        Ok(lost)
    }

    fn skip_body(&mut self, mut left: u64) -> Result<(), Error> {
        while left > 0 {
            self.take(&mut left)?;
        }
        Ok(())
    }

    /// The next bytes, at most `left`, which is reduced by their number.
    fn take(&mut self, left: &mut u64) -> Result<Taken, Error> {
        self.keep_chunk()?;
        self.parts.take(left)
    }

    /// What follows the last entry.
    fn end(mut self) -> Result<Summary, Error> {
        self.zeros(ending(self.summary.bytes))?;
        self.flush()?;
        Ok(self.summary)
    }
}

/// Writes all of the pieces.
fn write_all(output: &mut dyn Write, mut pieces: &mut [IoSlice<'_>]) -> Result<(), Error> {
    let failed = |error: io::Error| Error::new(reason(&error)).of(ErrorKind::Output(error));
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        match output.write_vectored(pieces) {
            Ok(0) => return Err(failed(io::ErrorKind::WriteZero.into())),
            Ok(bytes) => IoSlice::advance_slices(&mut pieces, bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// Whether there is no hole.
fn is_whole(ranges: &[Range<u64>], size: u64) -> bool {
    matches!(ranges, [only] if only.start == 0 && only.end == size)
}

fn length(piece: &Piece) -> usize {
    match piece {
        Piece::Made(range) | Piece::Body(range) => range.len(),
        Piece::Zeros(length) => *length,
    }
}
