//! Reading: what is wanted is read with one request for each run and waited for. Then what the
//! policy wants ahead is started and not waited for.
//!
//!
//! *Invariants*: a block that is on its way is waited for and not read again. A failed read-ahead
//! is not reported; the block is read again when it is wanted.
//! *Locking*: the inode is locked shared. A thread that changes the file waits for the reads that
//! were asked for, but not for read-ahead.
use crate::error::{Error, Result};
use crate::inode::NodeState;
use crate::inode::mapping::{self, Piece};
use crate::inode::pages::{Failure, Found, PageRead, Pages, Payload, Share, window_end};
use crate::inode::volume::Volume;
use crate::policy::preset::Journal;
use crate::policy::readahead::{Access, LargeReads, MapReadAhead, Reach, ReadStream};
use crate::store::DataKeeping;
use crate::store::cache::BlockKind;
use extant_block::{Buffer, Operation, Request, Segment, ShortLock, Urgency};
use extant_format::extent::State;
use extant_format::indirect::DIRECT;
use extant_format::{BlockNo, FileBlock, Run};
use std::ops::Range;
use std::sync::Arc;

/// A large read is split into parts of this many bytes: one is copied while the next is read.
const CHUNK_BYTES: usize = 2 << 20;
/// Size in bytes from which reads are large: see [`LargeReads`].
pub(super) const LARGE_BYTES_MIN: usize = 256 << 10;

/// Whether a block that is to be changed in part is in memory afterwards. If not, it reads as
/// zeros.
pub(super) fn bring(volume: &Volume, pages: &Pages, state: &NodeState, block: u32) -> Result<bool> {
    let reader = Reader::new(volume, pages, state);
    if reader.arrived(block).is_some() {
        return Ok(true);
    }
    match mapping::find(volume, state, FileBlock(block), 1)? {
        Piece::Run(run, State::Written) => reader.load(block, run.start).map(|_| true),
        _ => Ok(false),
    }
}

/// Whether a block of a file has bytes other than zero from its byte `within` on, in memory or on
/// the disk.
pub(super) fn holds_bytes(
    volume: &Volume,
    pages: &Pages,
    state: &NodeState,
    (block, within): (u32, usize),
) -> Result<bool> {
    let reader = Reader::new(volume, pages, state);
    let found = match reader.arrived(block) {
        Some(found) => found,
        None => match mapping::find(volume, state, FileBlock(block), 1)? {
            Piece::Run(run, State::Written) => reader.load(block, run.start)?,
            _ => return Ok(false),
        },
    };
    let mut bytes = vec![0; reader.block_size - within];
    reader.copy_found(&found, block, within, &mut bytes);
    Ok(bytes.iter().any(|byte| *byte != 0))
}

/// A file that is being read.
pub(super) struct Reader<'a> {
    pub(super) volume: &'a Volume,
    pages: &'a Pages,
    pub(super) state: &'a NodeState,
    pub(super) block_size: usize,
    /// The first byte of the file after the call that reads.
    pub(super) call_end: u64,
}

impl Reader<'_> {
    pub(super) fn new<'a>(
        volume: &'a Volume,
        pages: &'a Pages,
        state: &'a NodeState,
    ) -> Reader<'a> {
        Reader { volume, pages, state, block_size: volume.store.block_size() as usize, call_end: 0 }
    }

    /// Where the next part of a read ends: at the end of a block, unless it is the last part.
    pub(super) fn part_end(&self, offset: u64, done: usize, length: usize, most: usize) -> usize {
        let within = (offset + done as u64) % self.block_size as u64;
        let most = (most / self.block_size).max(1).saturating_mul(self.block_size);
        done.saturating_add(most - within as usize).min(length)
    }

    /// How much of a large read is brought at once, in bytes.
    fn chunk_bytes(&self) -> usize {
        CHUNK_BYTES.min(self.most_at_once())
    }

    /// How much may be brought at once, in bytes. Blocks without bytes take no memory.
    fn most_at_once(&self) -> usize {
        match self.volume.pages.data {
            DataKeeping::Bytes => (2 * self.volume.pages.held.piece_bytes()).max(self.block_size),
            DataKeeping::Phantom => usize::MAX,
        }
    }

    /// The blocks that contain these bytes; `None` if they are beyond what a file can have.
    pub(super) fn blocks(&self, offset: u64, bytes: usize) -> Option<Range<u32>> {
        let block_size = self.block_size as u64;
        let end = (offset + bytes as u64).div_ceil(block_size);
        Some(u32::try_from(offset / block_size).ok()?..u32::try_from(end).ok()?)
    }

    pub(super) fn read_part(
        &self,
        stream: &ShortLock<ReadStream>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        let Some(wanted) = self.blocks(offset, buffer.len()) else {
            buffer.fill(0);
            return Ok(());
        };
        let policy = &self.volume.store.policies.file_read_ahead;
        let bypasses =
            buffer.len() >= LARGE_BYTES_MIN && policy.large_reads() == LargeReads::Bypass;
        let found = self.pages.at(wanted.start);
        let access = self.access(&wanted, found.as_ref());
        let mut noted = stream.lock();
        noted.going.note(&access);
        let maps = self.next_maps(&mut noted, &wanted);
        let window = match bypasses {
            true => {
                noted.next = wanted.end;
                None
            }
            false => policy.window(&mut noted, &access),
        };
        drop(noted);
        self.fetch_maps(maps, stream, &wanted, Urgency::Awaited);
        if bypasses {
            return self.copy(offset, buffer, &Source::Straight);
        }
        // Most reads are of what one run holds.
        if let Some(found) = found.filter(|found| found.blocks.end >= wanted.end) {
            if let Some(window) = window {
                self.fetch_ahead(stream, window);
            }
            let within = (offset % self.block_size as u64) as usize;
            self.copy_found(&found, wanted.start, within, buffer);
            return Ok(());
        }
        let mut done = 0;
        let mut failure = self.fetch_wanted(
            offset,
            &buffer[..self.part_end(offset, 0, buffer.len(), self.chunk_bytes())],
        )?;
        while done < buffer.len() {
            let end = self.part_end(offset, done, buffer.len(), self.chunk_bytes());
            let next_end = self.part_end(offset, end, buffer.len(), self.chunk_bytes());
            let next = match &window {
                _ if end < buffer.len() => {
                    self.fetch_wanted(offset + end as u64, &buffer[end..next_end])?
                }
                Some(window) => self.fetch_ahead(stream, window.clone()),
                None => Failure::default(),
            };
            self.copy(offset + done as u64, &mut buffer[done..end], &Source::Pages(failure))?;
            (done, failure) = (end, next);
        }
        Ok(())
    }

    /// Starts to read the map blocks for a range of the file that will be wanted now.
    pub(super) fn read_maps(&self, stream: &ShortLock<ReadStream>, range: &Range<u32>) {
        let maps = self.next_maps(&mut stream.lock(), range);
        self.fetch_maps(maps, stream, range, Urgency::Awaited);
    }

    /// The next map blocks to read for a range of the file: the first block that they map, and how
    /// many they are at most.
    fn next_maps(&self, stream: &mut ReadStream, range: &Range<u32>) -> Option<(u32, u32)> {
        if self.volume.store.policies.map_read_ahead == MapReadAhead::None {
            return None;
        }
        let block_size = self.volume.store.block_size();
        stream.going.maps(range, block_size, block_size / 4, DIRECT)
    }

    /// Starts to read the map blocks for a range of the file, these and what follows them, and
    /// others that are clustered with them.
    fn fetch_maps(
        &self,
        mut maps: Option<(u32, u32)>,
        stream: &ShortLock<ReadStream>,
        range: &Range<u32>,
        urgency: Urgency,
    ) {
        let volume = self.volume;
        while let Some((block, most)) = maps {
            // An error in the map is reported when the map is followed.
            let clustered = mapping::clustered_maps(volume, self.state, FileBlock(block), most)
                .unwrap_or_default();
            let clustered = clustered.into_iter().map(|block| (block, BlockKind::Plain));
            volume.store.cache.fetch(urgency, clustered);
            maps = self.next_maps(&mut stream.lock(), range);
        }
    }

    /// The access as policies see it. `found` is what is in memory of its first block.
    fn access(&self, wanted: &Range<u32>, found: Option<&Found>) -> Access {
        let blocks = self.state.inode.size.div_ceil(self.block_size as u64);
        let first = wanted.start..wanted.start.saturating_add(1);
        Access {
            block: wanted.start,
            count: wanted.end - wanted.start,
            file_blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
            cached: found.is_some() || self.pages.arrivals.next(first).is_some(),
            block_size: self.volume.store.block_size(),
            file_bytes: self.state.inode.size,
            call_end: self.call_end.max(u64::from(wanted.start) * self.block_size as u64),
        }
    }

    fn fetch_wanted(&self, offset: u64, part: &[u8]) -> Result<Failure> {
        let failure = Failure::default();
        if let Some(blocks) = self.blocks(offset, part.len()) {
            self.fetch(blocks, Some(&failure))?;
        }
        Ok(failure)
    }

    /// Starts to read a window. Errors are reported when its blocks are wanted.
    fn fetch_ahead(&self, stream: &ShortLock<ReadStream>, mut window: Range<u32>) -> Failure {
        if self.volume.store.policies.file_read_ahead.reach() == Reach::Contiguous {
            let most = window.end - window.start;
            let contiguous =
                match mapping::find(self.volume, self.state, FileBlock(window.start), most) {
                    Ok(Piece::Run(run, State::Written)) => run.length,
                    _ => 0,
                };
            window.end = window.start + contiguous;
            stream.lock().cut(window.end);
        }
        let most = u32::try_from(self.most_at_once() / self.block_size).unwrap_or(u32::MAX);
        if window.end - window.start > most {
            window.end = window.start + most;
            stream.lock().cut(window.end);
        }
        // The maps of this window are read before it, those of the next one after it.
        let fetch_maps = |range: &Range<u32>| {
            let maps = self.next_maps(&mut stream.lock(), range);
            self.fetch_maps(maps, stream, range, Urgency::Background);
        };
        fetch_maps(&window);
        let next = window.end..window.end.saturating_add(window.end - window.start);
        let _ = self.fetch(window, None);
        fetch_maps(&next);
        Failure::default()
    }

    /// Starts to read what is missing of a range, with one request for each run on disk. `failure`
    /// is given if the caller will wait for the blocks.
    fn fetch(&self, range: Range<u32>, failure: Option<&Failure>) -> Result<()> {
        let mut gathered: Option<(u32, Run)> = None;
        for gap in self.pages.arrivals.missing(self.pages.map(), range) {
            let mut at = gap.start;
            while at < gap.end {
                let piece = mapping::find(self.volume, self.state, FileBlock(at), gap.end - at)?;
                let length = piece.length().max(1);
                if let Piece::Run(run, State::Written) = piece {
                    match &mut gathered {
                        Some((first, before))
                            if *first + before.length == at && follows(before, &run) =>
                        {
                            before.length += run.length;
                        }
                        _ => self.submit_gathered(gathered.replace((at, run)), failure),
                    }
                }
                at = at.saturating_add(length);
            }
        }
        self.submit_gathered(gathered, failure);
        Ok(())
    }

    /// Starts to read a run, except for blocks that another thread has begun to read meanwhile.
    fn submit_gathered(&self, gathered: Option<(u32, Run)>, failure: Option<&Failure>) {
        let Some((block, run)) = gathered else { return };
        // After a failure the journal alone has what is newer: it is taken from there, block by
        // block, when it is wanted.
        if self.volume.bring_in_place(run).is_err() {
            return;
        }
        let range = block..block.saturating_add(run.length);
        let most = extant_block::blocks_per_request(self.block_size) as u32;
        let arrivals = &self.pages.arrivals;
        for reading in arrivals.claim(self.pages.map(), range, most, failure) {
            let blocks = reading.blocks();
            let start = run.start.0 + u64::from(blocks.start - block);
            let count = (blocks.end - blocks.start) as usize;
            self.volume.pages.count(count);
            let urgency = if failure.is_some() { Urgency::Awaited } else { Urgency::Background };
            self.submit(BlockNo(start), urgency, reading);
        }
    }

    fn submit(&self, start: BlockNo, urgency: Urgency, mut reading: PageRead) {
        let block_size = self.block_size;
        if self.volume.pages.data == DataKeeping::Bytes {
            let bytes = reading.blocks().len() * block_size;
            reading.share = Share::new(&self.volume.pages.held, bytes);
        }
        let segments = self.segments(reading.blocks());
        self.volume.store.traffic.submit(Request {
            operation: Operation::Read,
            offset: start.0 * block_size as u64,
            segments,
            urgency,
            completion: Box::new(move |completed| reading.complete(completed, block_size)),
        });
    }

    /// Memory to read blocks into, in pieces as pages keep them.
    fn segments(&self, blocks: Range<u32>) -> Vec<Segment> {
        if self.volume.pages.data == DataKeeping::Phantom {
            return vec![Segment::Phantom(blocks.len() * self.block_size)];
        }
        let mut segments = Vec::new();
        let mut at = blocks.start;
        while at < blocks.end {
            let end = window_end(at, self.block_size).min(blocks.end);
            let bytes = (end - at) as usize * self.block_size;
            segments.push(Segment::Pooled(Buffer::unfilled(bytes)));
            at = end;
        }
        segments
    }

    /// Fills the buffer from pages and holes, and from the disk what is in neither.
    fn copy(&self, offset: u64, buffer: &mut [u8], source: &Source) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let Ok(block) = u32::try_from(at / self.block_size as u64) else {
                buffer[done..].fill(0);
                return Ok(());
            };
            let within = (at % self.block_size as u64) as usize;
            let rest = &mut buffer[done..];
            done += match self.arrived(block) {
                Some(found) => self.copy_found(&found, block, within, rest),
                None => self.copy_missing(block, within, rest, source)?,
            };
        }
        Ok(())
    }

    /// The run in memory that holds a block; waits if the block is on its way.
    fn arrived(&self, block: u32) -> Option<Found> {
        self.pages.at(block).or_else(|| {
            self.pages.arrivals.wait_for(block);
            self.pages.at(block)
        })
    }

    /// Copies as much as the run has from a byte of a block on. Returns how many bytes.
    fn copy_found(&self, found: &Found, block: u32, within: usize, buffer: &mut [u8]) -> usize {
        let blocks = (found.blocks.end - block) as usize;
        let length = buffer.len().min(blocks.saturating_mul(self.block_size) - within);
        let target = &mut buffer[..length];
        match &found.payload {
            Payload::Bytes(bytes) => {
                let start = (block - found.blocks.start) as usize * self.block_size + within;
                target.copy_from_slice(&bytes[start..start + length]);
            }
            Payload::Phantom => target.fill(0),
        }
        length
    }

    /// Copies what is in no page: a hole, or a block whose read failed.
    fn copy_missing(
        &self,
        block: u32,
        within: usize,
        buffer: &mut [u8],
        source: &Source,
    ) -> Result<usize> {
        let wanted = (within + buffer.len()).div_ceil(self.block_size) as u32;
        let end = self.next_in_memory(block.saturating_add(1)..block.saturating_add(wanted));
        let piece = mapping::find(self.volume, self.state, FileBlock(block), end - block)?;
        let covered = (piece.length() as usize * self.block_size - within).min(buffer.len());
        match (piece, source) {
            (Piece::Run(run, State::Written), Source::Straight)
                if within == 0
                    && covered >= LARGE_BYTES_MIN
                    && self.volume.bring_in_place(run).is_ok() =>
            {
                let whole = covered / self.block_size * self.block_size;
                self.read_straight(run.start, &mut buffer[..whole])?;
                Ok(whole)
            }
            (Piece::Run(run, State::Written), _) => {
                if let Source::Pages(failure) = source
                    && let Some(error) = failure.lock().take()
                {
                    return Err(error.into());
                }
                let found = self.load(block, run.start)?;
                Ok(self.copy_found(&found, block, within, buffer))
            }
            _ => {
                buffer[..covered].fill(0);
                Ok(covered)
            }
        }
    }

    /// The first block of a range that is in memory or on its way, or the end of the range.
    pub(super) fn next_in_memory(&self, range: Range<u32>) -> u32 {
        if range.is_empty() {
            return range.start;
        }
        let (page, coming) =
            (self.pages.next(range.clone()), self.pages.arrivals.next(range.clone()));
        page.into_iter().chain(coming).min().unwrap_or(range.end)
    }

    fn read_straight(&self, start: BlockNo, buffer: &mut [u8]) -> Result<()> {
        let offset = start.0 * self.block_size as u64;
        match self.volume.pages.data {
            DataKeeping::Bytes => self.volume.store.traffic.read(offset, buffer)?,
            DataKeeping::Phantom => {
                let segments = vec![Segment::Phantom(buffer.len())];
                self.volume.store.traffic.transfer(Operation::Read, offset, segments).result?;
                buffer.fill(0);
            }
        }
        Ok(())
    }

    /// Reads one block into a page, and waits for it.
    fn load(&self, block: u32, start: BlockNo) -> Result<Found> {
        let run = Run { start, length: 1 };
        if self.volume.store.journal() == Journal::Data && self.volume.store.cache.is_newer(run) {
            // An operation may be open here, which a commit would wait for.
            let frame = self.volume.store.cache.read(start, BlockKind::Plain)?;
            let payload = Payload::Bytes(Arc::new(Buffer::from(&frame.bytes()[..])));
            let blocks = block..block.saturating_add(1);
            self.pages.add(blocks.clone(), &payload, self.block_size);
            return Ok(Found { blocks, payload });
        }
        let (range, failure) = (block..block.saturating_add(1), Failure::default());
        for reading in self.pages.arrivals.claim(self.pages.map(), range, 1, Some(&failure)) {
            self.volume.pages.count(1);
            self.submit(start, Urgency::Awaited, reading);
        }
        let page = self.arrived(block);
        let failed = failure.lock().take();
        page.ok_or_else(|| failed.map_or_else(lost, Error::from))
    }
}

/// How a read gets what is not in memory.
enum Source {
    /// Directly into the caller's buffer.
    Straight,
    /// Into pages, which has been tried: what is still missing failed with this error, unless
    /// another thread's read failed.
    Pages(Failure),
}

fn follows(before: &Run, run: &Run) -> bool {
    before.start.0 + u64::from(before.length) == run.start.0
}

fn lost() -> Error {
    std::io::Error::other("the device lost a request").into()
}
