//! Where the bytes of a file are, run by run, up to the end of the file.
use super::{Content, FileRun, ObjectId, Survey};
use crate::error::{Error, Place, Result};
use crate::inode::NodeState;
use crate::inode::mapping::{self, Piece};
use crate::inode::table;
use crate::inode::volume::Volume;
use extant_format::attribute::inline_rest;
use extant_format::extent::State;
use extant_format::inode::{BASE_SIZE, FileType, MAP_OFFSET, MAP_SIZE};
use extant_format::{BlockNo, FileBlock};

/// A range of a file that holds data. What is between two ranges reads as zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Offset of the first byte on the volume.
    pub volume_offset: u64,
    /// Length in bytes, at least 1; never beyond the end of the file.
    pub length: u64,
}

/// The ranges of a file that hold data, in order. An error is the last item.
pub struct Pieces<'a> {
    survey: &'a Survey,
    object: ObjectId,
    source: Source<'a>,
}

enum Source<'a> {
    Kept(std::slice::Iter<'a, FileRun>),
    One(Option<FileRun>),
    Map(Box<Walk>),
    /// Parts of an inode.
    Inline(std::vec::IntoIter<Data>),
    /// The map has not been read.
    Unread,
    Ended,
}

/// A map that is being followed.
struct Walk {
    state: NodeState,
    next: u32,
    end: u32,
    /// How many more blocks it may lead to: at most as many as the volume has.
    left: u64,
    /// How many runs it has led to.
    runs: u64,
}

/// How many runs of a file are accepted from any map. If there are more, the device is asked how
/// much data it holds.
const RUNS_FEW: u64 = 1 << 16;

impl Survey {
    /// Where a file's data is; empty for anything but a regular file.
    pub fn data(&self, id: ObjectId) -> Pieces<'_> {
        let object = self.record(id);
        let is_file = FileType::from_mode(object.mode) == Some(FileType::Regular);
        let source = match object.content {
            _ if !is_file || object.size == 0 => Source::Ended,
            Content::Run { start, length } => {
                Source::One(Some(FileRun { block: 0, length, start }))
            }
            Content::Runs { first, count } => {
                let runs = self.runs.get(first as usize..first as usize + count as usize);
                Source::Kept(runs.unwrap_or_default().iter())
            }
            Content::Mapped { .. } | Content::Inline => Source::Unread,
            _ => Source::Ended,
        };
        Pieces { survey: self, object: id, source }
    }

    /// The one range that is the whole file; `None` if the file is empty, or has holes or several
    /// ranges.
    pub fn whole(&self, id: ObjectId) -> Option<Data> {
        let object = self.record(id);
        match object.content {
            Content::Run { start, length } => {
                let data = self.stretch(id, FileRun { block: 0, length, start })?;
                (data.length == object.size).then_some(data)
            }
            _ => None,
        }
    }

    /// A run, cut at the end of the file.
    fn stretch(&self, id: ObjectId, run: FileRun) -> Option<Data> {
        let block_size = u64::from(self.block_size());
        let file_offset = u64::from(run.block) * block_size;
        let left = self.record(id).size.checked_sub(file_offset).filter(|left| *left > 0)?;
        Some(Data {
            file_offset,
            volume_offset: run.start.0 * block_size,
            length: left.min(u64::from(run.length) * block_size),
        })
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Data>;

    fn next(&mut self) -> Option<Result<Data>> {
        let run = match &mut self.source {
            Source::Kept(runs) => runs.next().copied(),
            Source::One(run) => run.take(),
            Source::Ended => None,
            Source::Inline(parts) => return parts.next().map(Ok),
            Source::Unread => match self.begin() {
                Ok(source) => {
                    self.source = source;
                    return self.next();
                }
                Err(error) => return self.fail(error),
            },
            Source::Map(walk) => match walk.step(self.survey) {
                Ok(run) => run,
                Err(error) => return self.fail(error),
            },
        };
        let data = run.and_then(|run| self.survey.stretch(self.object, run));
        if data.is_none() {
            self.source = Source::Ended;
        }
        data.map(Ok)
    }
}

impl Pieces<'_> {
    fn fail(&mut self, error: Error) -> Option<Result<Data>> {
        self.source = Source::Ended;
        Some(Err(error))
    }

    fn begin(&self) -> Result<Source<'static>> {
        let state = self.survey.state(self.object)?;
        if state.inode.is_inline(&self.survey.core.inodes.volume.store.superblock) {
            return Ok(Source::Inline(inline_parts(self.survey, &state)?.into_iter()));
        }
        let blocks = state.inode.size.div_ceil(u64::from(self.survey.block_size()));
        let end = u32::try_from(blocks).unwrap_or(u32::MAX);
        let left = self.survey.core.inodes.volume.store.superblock.blocks_count;
        Ok(Source::Map(Box::new(Walk { state, next: 0, end, left, runs: 0 })))
    }
}

/// Where the inode table has the bytes of a file.
fn inline_parts(survey: &Survey, state: &NodeState) -> Result<Vec<Data>> {
    let inode = &state.inode;
    let wrong = |fault| Error::corrupt(Place::Inode(state.ino), fault);
    let rest = inline_rest(&inode.tail).map_err(wrong)?.unwrap_or_default();
    let (block, offset) = table::place(&survey.core.inodes.volume, state.ino)?;
    let start = block.0 * u64::from(survey.block_size()) + offset as u64;
    let tail = start + BASE_SIZE as u64 + u64::from(inode.extra_isize);
    let parts = [
        (0, start + MAP_OFFSET as u64, MAP_SIZE),
        (MAP_SIZE as u64, tail + rest.start as u64, rest.len()),
    ];
    let parts = parts.into_iter().map(|(file_offset, volume_offset, bytes)| {
        let length = inode.size.saturating_sub(file_offset).min(bytes as u64);
        Data { file_offset, volume_offset, length }
    });
    Ok(parts.filter(|part| part.length > 0).collect())
}

impl Walk {
    /// The next run that holds data.
    fn step(&mut self, survey: &Survey) -> Result<Option<FileRun>> {
        while self.next < self.end {
            let block = self.next;
            let piece = mapping::find(
                &survey.core.inodes.volume,
                &self.state,
                FileBlock(block),
                self.end - block,
            )?;
            self.next = block.saturating_add(piece.length().max(1));
            let Piece::Run(run, state) = piece else { continue };
            self.left =
                self.left.checked_sub(run.length.into()).ok_or_else(|| self.too_many(run.start))?;
            self.runs += 1;
            if self.runs > RUNS_FEW && self.runs > runs_max(&survey.core.inodes.volume)? {
                return Err(self.too_many(run.start));
            }
            if state == State::Written {
                return Ok(Some(FileRun { block, length: run.length, start: run.start }));
            }
        }
        Ok(None)
    }

    fn too_many(&self, block: BlockNo) -> Error {
        let place = Place::InodeBlock(self.state.ino, block);
        Error::field(
            place,
            "block map",
            "count of blocks",
            self.next.into(),
            "more than the volume has: some are in it twice",
        )
    }
}

/// How many runs all map blocks of a volume can lead to: map blocks are not zeros, and each is in
/// one map once.
fn runs_max(volume: &Volume) -> Result<u64> {
    let pointers = u64::from(volume.store.block_size() / 4);
    Ok(volume.store.held_blocks()?.saturating_mul(pointers))
}
