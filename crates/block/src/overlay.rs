//! A device whose changes stay beside it, in memory and then in a spool: the device below is only
//! read.
//!
//! ```text
//! read    changed? ---- written ------> memory
//!            +--------- redirected ---> another place of the device below
//!            +--------- no -----------> the device below
//! write   ----------------> memory, up to a limit; then a spool, where there is one
//! ```
//!
//! *Invariants*: a block is in memory or in the spool whole, or not at all. The device below gets
//! no writes and no flushes.
//!
//! *Locking*: the changed blocks are under one short lock, not held while the device below works.
//! It is held while a block goes into the spool, a file of the host that is written through the
//! host's memory.
//! A read that is gathered from several places has a short lock of its own.
use crate::capability::{Capabilities, KnowsHoles};
use crate::clock::Clock;
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment};
use crate::device::{check_range, read_into_shared, segments_bytes};
use crate::error::DeviceError;
use crate::lock::ShortLock;
use crate::order::assert_no_short_lock;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Where a block is that is not in its place on the device below.
#[derive(Clone)]
enum BlockPlace {
    /// Its bytes: a whole block, also where the device ends within its last one.
    Memory(Arc<Vec<u8>>),
    /// From this byte of the device below on.
    Elsewhere(u64),
    /// In the spool, from this byte on: a whole block.
    Spooled(u64),
}

impl BlockPlace {
    fn memory(&self) -> Option<&Arc<Vec<u8>>> {
        match self {
            BlockPlace::Memory(bytes) => Some(bytes),
            BlockPlace::Elsewhere(_) | BlockPlace::Spooled(_) => None,
        }
    }

    /// Whether its bytes are kept: those of the device below are of no account.
    fn is_written(&self) -> bool {
        !matches!(self, BlockPlace::Elsewhere(_))
    }
}

/// What is read after the end of the device below, where an overlay is longer and nothing was
/// written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PastEnd {
    /// The device below is asked, and refuses.
    Unreadable,
    Zeros,
}

/// The changed blocks, by number.
#[derive(Default)]
struct Changed {
    blocks: BTreeMap<u64, BlockPlace>,
    /// How many of them are in memory.
    in_memory: u64,
    /// Bytes of the spool that are in use.
    spooled_bytes: u64,
    /// Blocks that are zeros where they are not changed, whatever the device below has: the first
    /// of each range, and the one after its last.
    zeros: BTreeMap<u64, u64>,
}

impl Changed {
    fn is_written(&self, block: u64) -> bool {
        self.blocks.get(&block).is_some_and(BlockPlace::is_written)
    }

    fn put(&mut self, block: u64, kept: BlockPlace) {
        self.in_memory += u64::from(kept.memory().is_some());
        let before = self.blocks.insert(block, kept);
        self.in_memory -= u64::from(before.is_some_and(|kept| kept.memory().is_some()));
    }
}

/// A device that is read below and changed in memory.
pub struct Overlay {
    device: Arc<dyn BlockDevice>,
    info: DeviceInfo,
    block_bytes: usize,
    blocks_max: u64,
    past_end: PastEnd,
    /// What takes the blocks that the limit leaves out.
    spool: Option<Arc<File>>,
    changed: Arc<ShortLock<Changed>>,
}

impl Overlay {
    /// Nothing is changed yet. Changes are kept in blocks of `block_bytes`, of all of which
    /// together at most `limit_bytes` are kept in memory: a write that needs more is `StorageFull`.
    ///
    /// # Panics
    /// When `block_bytes` is 0.
    pub fn new(device: Arc<dyn BlockDevice>, block_bytes: u32, limit_bytes: u64) -> Overlay {
        assert!(block_bytes > 0, "blocks without bytes");
        let info = DeviceInfo { read_only: false, ..device.info() };
        let blocks_max = limit_bytes / u64::from(block_bytes);
        let block_bytes = block_bytes as usize;
        let past_end = PastEnd::Unreadable;
        Overlay {
            device,
            info,
            block_bytes,
            blocks_max,
            past_end,
            spool: None,
            changed: Arc::default(),
        }
    }

    /// The same, with a file of the host, empty and its alone, for the blocks that the limit leaves
    /// out: a write fails only when the host has no room.
    #[must_use]
    pub fn with_spool(self, spool: File) -> Overlay {
        Overlay { spool: Some(Arc::new(spool)), ..self }
    }

    /// The same, as long as this, where the device below is shorter: what it does not have cannot
    /// be read until it is written.
    #[must_use]
    pub fn lengthened(mut self, bytes: u64) -> Overlay {
        self.info.bytes = self.info.bytes.max(bytes);
        self
    }

    /// As [`Overlay::lengthened`], but what the device below does not have is zeros until it is
    /// written: a device as it will be once it has grown.
    #[must_use]
    pub fn grown(self, bytes: u64) -> Overlay {
        Overlay { past_end: PastEnd::Zeros, ..self.lengthened(bytes) }
    }

    /// The same changes over another device, which has at least the bytes of this one: one that was
    /// grown meanwhile. Both share what is changed later.
    #[must_use]
    pub fn over(&self, device: Arc<dyn BlockDevice>) -> Overlay {
        let info = DeviceInfo { read_only: false, ..device.info() };
        Overlay { device, info, ..self.handle() }
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// The blocks that were written and are in memory, by rising number, with their bytes: whole
    /// blocks, also where the device ends within its last one. Those that are redirected, and those
    /// in the spool, are not among them.
    pub fn changed(&self) -> Vec<(u64, Arc<Vec<u8>>)> {
        let changed = self.changed.lock();
        let blocks = changed.blocks.iter();
        blocks.filter_map(|(block, kept)| Some((*block, Arc::clone(kept.memory()?)))).collect()
    }

    /// Bytes of the spool that are in use: 0 while all that was written is in memory.
    pub fn spooled_bytes(&self) -> u64 {
        self.changed.lock().spooled_bytes
    }

    /// Numbers of the blocks that were written, rising, in memory and in the spool.
    pub fn written(&self) -> Vec<u64> {
        let changed = self.changed.lock();
        let blocks = changed.blocks.iter().filter(|(_, kept)| kept.is_written());
        blocks.map(|(block, _)| *block).collect()
    }

    /// Puts a whole block in memory, shared with the caller until one of them changes it.
    ///
    /// # Errors
    /// A block that the device does not have, bytes that are not one block, or the limit.
    pub fn put(&self, block: u64, bytes: Arc<Vec<u8>>) -> io::Result<()> {
        let offset = block.saturating_mul(self.size());
        if bytes.len() != self.block_bytes || offset >= self.info.bytes {
            let wrong = io::Error::new(io::ErrorKind::InvalidInput, "no block of the device");
            return Err(self.error(Operation::Write, offset, wrong));
        }
        let mut changed = self.changed.lock();
        self.make_room(&changed, u64::from(!changed.is_written(block)), offset)?;
        self.keep(&mut changed, block, bytes)
    }

    /// Keeps a whole block in memory, or in the spool where memory is full. The caller has made
    /// room.
    fn keep(&self, changed: &mut Changed, block: u64, bytes: Arc<Vec<u8>>) -> io::Result<()> {
        let before = changed.blocks.get(&block);
        let place = match (&self.spool, before) {
            (Some(_), Some(BlockPlace::Spooled(place))) => *place,
            (Some(_), before)
                if changed.in_memory >= self.blocks_max
                    && before.and_then(BlockPlace::memory).is_none() =>
            {
                changed.spooled_bytes
            }
            _ => {
                changed.put(block, BlockPlace::Memory(bytes));
                return Ok(());
            }
        };
        if let Some(spool) = &self.spool {
            let failed = |error| self.error(Operation::Write, block * self.size(), error);
            spool.write_all_at(&bytes, place).map_err(failed)?;
        }
        changed.spooled_bytes = changed.spooled_bytes.max(place + self.size());
        changed.put(block, BlockPlace::Spooled(place));
        Ok(())
    }

    /// A block as it was kept, with its bytes in memory if they are in the spool.
    fn loaded(&self, kept: &BlockPlace) -> io::Result<BlockPlace> {
        match (kept, &self.spool) {
            (BlockPlace::Spooled(place), Some(spool)) => {
                let mut bytes = vec![0; self.block_bytes];
                spool.read_exact_at(&mut bytes, *place)?;
                Ok(BlockPlace::Memory(Arc::new(bytes)))
            }
            (kept, _) => Ok(kept.clone()),
        }
    }

    /// Lets a whole block be read from another place of the device below, from a byte on, until it
    /// is written. What is there must not change meanwhile. Takes nothing of the limit.
    ///
    /// # Errors
    /// A block or a place that the device does not have whole.
    pub fn redirect(&self, block: u64, offset: u64) -> io::Result<()> {
        self.check(Operation::Read, block.saturating_mul(self.size()), self.size())?;
        self.check(Operation::Read, offset, self.size())?;
        self.changed.lock().put(block, BlockPlace::Elsewhere(offset));
        Ok(())
    }

    /// Lets blocks be read as zeros, until they are written, whatever the device below has there.
    /// They are not among those that were written, and take nothing of the limit: who brings the
    /// changes to the device writes zeros there before.
    pub fn let_zeros(&self, blocks: Range<u64>) {
        if blocks.start < blocks.end {
            self.changed.lock().zeros.insert(blocks.start, blocks.end);
        }
    }

    fn make_room(&self, changed: &Changed, more: u64, offset: u64) -> io::Result<()> {
        let fits = changed.in_memory.saturating_add(more) <= self.blocks_max;
        if fits || self.spool.is_some() {
            return Ok(());
        }
        let limit = self.blocks_max * self.size();
        let full = io::Error::new(
            io::ErrorKind::StorageFull,
            format!("changes need more than {limit} bytes of memory"),
        );
        Err(self.error(Operation::Write, offset, full))
    }

    fn error(&self, operation: Operation, offset: u64, source: io::Error) -> io::Error {
        DeviceError { device: self.info.name.clone(), operation, offset, source }.into()
    }

    fn check(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<()> {
        check_range(self.info.bytes, operation, offset, bytes)
            .map_err(|source| self.error(operation, offset, source))
    }

    fn size(&self) -> u64 {
        self.block_bytes as u64
    }

    /// Numbers of the blocks that a range of bytes touches.
    fn blocks_of(&self, offset: u64, bytes: u64) -> Range<u64> {
        if bytes == 0 {
            return 0..0;
        }
        offset / self.size()..(offset + bytes).div_ceil(self.size())
    }

    /// The changed blocks in a range, those of the spool in memory.
    fn changed_in(&self, offset: u64, bytes: u64) -> io::Result<Vec<(u64, BlockPlace)>> {
        let changed = self.changed.lock();
        let range = changed.blocks.range(self.blocks_of(offset, bytes));
        let found: Vec<(u64, BlockPlace)> =
            range.map(|(block, kept)| (*block, kept.clone())).collect();
        drop(changed);
        let failed = |error| self.error(Operation::Read, offset, error);
        let loaded = found.iter().map(|(block, kept)| Ok((*block, self.loaded(kept)?)));
        loaded.collect::<io::Result<_>>().map_err(failed)
    }

    /// The stretches of the device below that hold a range in which the blocks given are changed;
    /// none when all of it is in memory. Otherwise blocks in memory are among them, in their old
    /// place.
    fn stretches(&self, offset: u64, bytes: u64, changed: &[(u64, BlockPlace)]) -> Vec<Stretch> {
        let touched = self.blocks_of(offset, bytes);
        let in_memory = changed.iter().filter(|(_, kept)| kept.memory().is_some()).count() as u64;
        let mut stretches: Vec<Stretch> = Vec::new();
        if in_memory == touched.end - touched.start {
            return stretches;
        }
        let zeros = self.zeros_in(touched.clone());
        let is_zeros = |block: u64| zeros.iter().any(|range: &Range<u64>| range.contains(&block));
        let mut changed = changed.iter().peekable();
        for block in touched {
            let kept = changed.next_if(|(number, _)| *number == block).map(|(_, kept)| kept);
            if kept.is_none() && is_zeros(block) {
                continue;
            }
            let place = block * self.size();
            let start = place.max(offset);
            let length = (place + self.size()).min(offset + bytes) - start;
            let from = match kept {
                Some(BlockPlace::Elsewhere(elsewhere)) => elsewhere + (start - place),
                _ => start,
            };
            match stretches.last_mut() {
                Some(last) if last.from + last.length == from && last.at + last.length == start => {
                    last.length += length;
                }
                _ => stretches.push(Stretch { at: start, from, length }),
            }
        }
        if self.past_end == PastEnd::Zeros {
            let end = self.device.info().bytes;
            stretches.retain_mut(|stretch| {
                stretch.length = stretch.length.min(end.saturating_sub(stretch.from));
                stretch.length > 0
            });
        }
        stretches
    }

    /// The ranges of blocks that are zeros where they are not changed, as far as they are in this
    /// one.
    fn zeros_in(&self, blocks: Range<u64>) -> Vec<Range<u64>> {
        let changed = self.changed.lock();
        let before = changed.zeros.range(..blocks.end).rev();
        let within = before.map(|(start, end)| *start..*end);
        within.take_while(|range| range.end > blocks.start).collect()
    }

    /// Whether a range has bytes that are zeros whatever the device below has, or that it does not
    /// have.
    fn has_zeros(&self, offset: u64, bytes: u64) -> bool {
        self.past_end == PastEnd::Zeros && offset + bytes > self.device.info().bytes
            || !self.zeros_in(self.blocks_of(offset, bytes)).is_empty()
    }

    /// Whether a write has to know what a block held: one that no piece covers whole and that is
    /// not in memory.
    fn needs_device(&self, offset: u64, segments: &[Segment]) -> bool {
        let changed = self.changed.lock();
        let mut at = offset;
        segments.iter().any(|segment| {
            let (start, bytes) = (at, segment.bytes() as u64);
            at += bytes;
            let size = self.size();
            let is_cut = |block: u64| block * size < start || (block + 1) * size > start + bytes;
            let mut ends = edges(self.blocks_of(start, bytes));
            !segment.is_phantom() && ends.any(|block| is_cut(block) && !changed.is_written(block))
        })
    }

    /// Stores the pieces of a write. `below` is what was there from the byte `from` on, where a
    /// block is covered in part.
    fn store(&self, offset: u64, segments: &[Segment], from: u64, below: &[u8]) -> io::Result<()> {
        let mut changed = self.changed.lock();
        let touched = self.blocks_of(offset, segments_bytes(segments));
        let known = changed.blocks.range(touched.clone());
        let known = known.filter(|(_, kept)| kept.is_written()).count() as u64;
        self.make_room(&changed, touched.end - touched.start - known, offset)?;
        let mut at = offset;
        for segment in segments {
            match segment {
                Segment::Shared(bytes)
                    if bytes.len() == self.block_bytes && at.is_multiple_of(self.size()) =>
                {
                    self.keep(&mut changed, at / self.size(), Arc::clone(bytes))?;
                }
                _ => {
                    if let Some(bytes) = segment.content() {
                        self.store_piece(&mut changed, at, bytes, (from, below))?;
                    }
                }
            }
            at += segment.bytes() as u64;
        }
        Ok(())
    }

    fn store_piece(
        &self,
        changed: &mut Changed,
        at: u64,
        piece: &[u8],
        (from, below): (u64, &[u8]),
    ) -> io::Result<()> {
        for block in self.blocks_of(at, piece.len() as u64) {
            let place = block * self.size();
            let mut bytes = match changed.blocks.get_mut(&block) {
                Some(BlockPlace::Memory(bytes)) => {
                    overlay_bytes(Arc::make_mut(bytes).as_mut_slice(), place, piece, at);
                    continue;
                }
                Some(spooled @ BlockPlace::Spooled(_)) => match self.loaded(spooled)? {
                    BlockPlace::Memory(bytes) => Arc::unwrap_or_clone(bytes),
                    _ => return Err(other_memory()),
                },
                _ => {
                    let mut bytes = vec![0; self.block_bytes];
                    overlay_bytes(&mut bytes, place, below, from);
                    bytes
                }
            };
            overlay_bytes(&mut bytes, place, piece, at);
            self.keep(changed, block, Arc::new(bytes))?;
        }
        Ok(())
    }

    /// Ends a write whose blocks are covered in part once what they hold has been read.
    fn write_after_read(&self, request: Request) {
        let touched = self.blocks_of(request.offset, request.bytes());
        let from = touched.start * self.size();
        let length = (touched.end * self.size()).min(self.info.bytes) - from;
        let this = self.handle();
        self.submit(Request {
            operation: Operation::Read,
            offset: from,
            segments: vec![Segment::Owned(vec![0; length as usize])],
            urgency: request.urgency,
            completion: Box::new(move |read| {
                let result = read.result.and_then(|()| match read.segments.first() {
                    Some(Segment::Owned(below)) => {
                        this.store(request.offset, &request.segments, from, below)
                    }
                    _ => Err(other_memory()),
                });
                request.complete(result);
            }),
        });
    }

    /// Reads from the device below, and puts what is in memory over it.
    fn read_through(&self, mut request: Request, changed: Vec<(u64, BlockPlace)>) {
        let offset = request.offset;
        if self.has_zeros(offset, request.bytes()) {
            request.segments.iter_mut().filter_map(Segment::target).for_each(|it| it.fill(0));
        }
        let stretches = self.stretches(offset, request.bytes(), &changed);
        if stretches.is_empty() {
            let result = patch(&mut request.segments, offset, self.size(), &changed)
                .map_err(|source| self.error(Operation::Read, offset, source));
            return request.complete(result);
        }
        let (urgency, left, size) = (request.urgency, stretches.len(), self.size());
        let parts = Vec::with_capacity(left);
        let gathering = Gathering { request, changed, size, parts, left, error: None };
        let gathering = Arc::new(ShortLock::new(Some(gathering)));
        for Stretch { at, from, length } in stretches {
            let gathering = Arc::clone(&gathering);
            self.device.submit(Request {
                operation: Operation::Read,
                offset: from,
                segments: vec![Segment::Owned(vec![0; length as usize])],
                urgency,
                completion: Box::new(move |read| gather(&gathering, at, read)),
            });
        }
    }

    /// The same overlay, for a completion that outlives a borrow.
    fn handle(&self) -> Overlay {
        Overlay {
            device: Arc::clone(&self.device),
            info: self.info.clone(),
            block_bytes: self.block_bytes,
            blocks_max: self.blocks_max,
            past_end: self.past_end,
            spool: self.spool.clone(),
            changed: Arc::clone(&self.changed),
        }
    }
}

/// A part of a read, for the byte `at`: `length` bytes that are at `from` on the device below.
struct Stretch {
    at: u64,
    from: u64,
    length: u64,
}

/// A read of which parts are under way.
struct Gathering {
    request: Request,
    changed: Vec<(u64, BlockPlace)>,
    /// Bytes of a block.
    size: u64,
    /// What has come, and for which byte.
    parts: Vec<(u64, Vec<u8>)>,
    left: usize,
    error: Option<io::Error>,
}

/// Takes a part of a read; the last one ends it.
fn gather(gathering: &ShortLock<Option<Gathering>>, at: u64, read: Completed) {
    let mut slot = gathering.lock();
    let Some(state) = slot.as_mut() else { return };
    state.left -= 1;
    match (read.result, read.segments.into_iter().next()) {
        (Ok(()), Some(Segment::Owned(bytes))) => state.parts.push((at, bytes)),
        (Ok(()), _) => state.error = Some(other_memory()),
        (Err(error), _) => state.error = Some(error),
    }
    let whole = if state.left == 0 { slot.take() } else { None };
    drop(slot);
    let Some(Gathering { mut request, changed, size, parts, error, .. }) = whole else { return };
    let mut position = request.offset;
    for segment in &mut request.segments {
        if let Some(bytes) = segment.target() {
            parts.iter().for_each(|(at, part)| overlay_bytes(bytes, position, part, *at));
        }
        position += segment.bytes() as u64;
    }
    let offset = request.offset;
    let result = error.map_or(Ok(()), Err);
    let result = result.and_then(|()| patch(&mut request.segments, offset, size, &changed));
    request.complete(result);
}

fn other_memory() -> io::Error {
    io::Error::other("the device gave other memory back")
}

/// The first and the last number of a range.
fn edges(range: Range<u64>) -> impl Iterator<Item = u64> {
    let last = range.end.checked_sub(1).filter(|last| *last > range.start);
    range.clone().next().into_iter().chain(last)
}

/// Copies what two stretches of bytes have in common from one (at byte `from_at` of the device)
/// into the other (at `to_at`).
fn overlay_bytes(to: &mut [u8], to_at: u64, from: &[u8], from_at: u64) {
    let start = to_at.max(from_at);
    let end = (to_at + to.len() as u64).min(from_at + from.len() as u64);
    if start < end {
        let length = (end - start) as usize;
        let (to_start, from_start) = ((start - to_at) as usize, (start - from_at) as usize);
        to[to_start..][..length].copy_from_slice(&from[from_start..][..length]);
    }
}

/// Puts blocks that are in memory over the memory of a read at a byte offset.
fn patch(
    segments: &mut [Segment],
    offset: u64,
    block_bytes: u64,
    changed: &[(u64, BlockPlace)],
) -> io::Result<()> {
    let mut at = offset;
    for segment in segments {
        let length = segment.bytes() as u64;
        if segment.is_shared() {
            return Err(read_into_shared());
        }
        if let Some(bytes) = segment.target() {
            let first = changed.partition_point(|(block, _)| (block + 1) * block_bytes <= at);
            let rest = changed[first..].iter();
            for (block, kept) in rest.take_while(|it| it.0 * block_bytes < at + length) {
                if let BlockPlace::Memory(from) = kept {
                    overlay_bytes(bytes, at, from, block * block_bytes);
                }
            }
        }
        at += length;
    }
    Ok(())
}

impl BlockDevice for Overlay {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        let (offset, bytes) = (request.offset, request.bytes());
        if let Err(error) = self.check(request.operation, offset, bytes) {
            return request.complete(Err(error));
        }
        match request.operation {
            Operation::Flush => request.complete(Ok(())),
            Operation::Read => match self.changed_in(offset, bytes) {
                Ok(changed) if changed.is_empty() && !self.has_zeros(offset, bytes) => {
                    self.device.submit(request);
                }
                Ok(changed) => self.read_through(request, changed),
                Err(error) => request.complete(Err(error)),
            },
            Operation::Write if self.needs_device(offset, &request.segments) => {
                self.write_after_read(request);
            }
            Operation::Write => {
                let result = self.store(offset, &request.segments, offset, &[]);
                request.complete(result);
            }
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        // What was changed is in memory alone: there is nothing to give back, force or hand over.
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: Some(self),
            discard: None,
            metadata: None,
            host_file: None,
            annex: self.device.capabilities().annex,
        }
    }
    fn will_read(&self, offset: u64, bytes: u64) {
        self.device.will_read(offset, bytes);
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        assert_no_short_lock();
        let length = bytes.len() as u64;
        self.check(Operation::Read, offset, length)?;
        let changed = self.changed_in(offset, length)?;
        if self.has_zeros(offset, length) {
            bytes.fill(0);
        }
        for Stretch { at, from, length } in self.stretches(offset, length, &changed) {
            self.device.read(from, &mut bytes[(at - offset) as usize..][..length as usize])?;
        }
        for (block, kept) in &changed {
            if let BlockPlace::Memory(from) = kept {
                overlay_bytes(bytes, offset, from, block * self.size());
            }
        }
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        assert_no_short_lock();
        Ok(())
    }
}

impl KnowsHoles for Overlay {
    /// A changed block may be anything; elsewhere the device below knows.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        if offset >= self.info.bytes {
            return Ok(None);
        }
        let size = self.size();
        let below = match offset < self.device.info().bytes {
            true => self.device.next_data(offset)?,
            false => None,
        };
        let changed = self.changed.lock();
        let first = changed.blocks.range(offset / size..).next();
        let Some(start) = first.map(|(block, _)| block * size) else { return Ok(below) };
        let memory = start.max(offset)..(start + size).min(self.info.bytes);
        Ok(match below {
            Some(below) if below.start <= memory.start => Some(below),
            _ => Some(memory),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;
    use crate::memory::MemoryDevice;

    fn overlay(bytes: u64, limit: u64) -> (Arc<MemoryDevice>, Overlay) {
        let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
        (Arc::clone(&device), Overlay::new(device, 1024, limit))
    }

    #[test]
    fn changes_stay_in_memory_by_whole_blocks_up_to_the_limit() {
        let (device, overlay) = overlay(10_000, 3 * 1024);
        device.write(0, &[1; 10_000]).expect("it is inside");
        overlay.write(1000, &[2; 100]).expect("it is inside");
        overlay.write(9_900, &[3; 100]).expect("the last block is short");
        let changed = overlay.changed();
        assert_eq!(changed.iter().map(|(block, _)| *block).collect::<Vec<_>>(), [0, 1, 9]);
        assert!(changed.iter().all(|(_, bytes)| bytes.len() == 1024));
        let error = overlay.write(5000, &[4]).expect_err("it is the fourth block");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        overlay.write(1099, &[5; 2]).expect("its block is there");
        let mut bytes = vec![0; 10_000];
        overlay.read(0, &mut bytes).expect("it is inside");
        let expected =
            [(999, 1), (1000, 2), (1098, 2), (1099, 5), (1100, 5), (1101, 1), (9_899, 1)];
        for (at, value) in expected.into_iter().chain([(9_900, 3), (9_999, 3)]) {
            assert_eq!(bytes[at], value, "byte {at}");
        }
        device.read(0, &mut bytes).expect("it is inside");
        assert!(bytes.iter().all(|byte| *byte == 1), "the device was written");
    }

    #[test]
    fn a_block_that_is_put_is_shared_and_has_to_be_one() {
        let (_, overlay) = overlay(4096, 1 << 20);
        let block = Arc::new(vec![7; 1024]);
        overlay.put(3, Arc::clone(&block)).expect("the last block");
        assert!(Arc::ptr_eq(&overlay.changed()[0].1, &block));
        overlay.write(3072, &[8]).expect("it is inside");
        assert_eq!((block[0], overlay.changed()[0].1[0]), (7, 8));
        assert!(overlay.put(4, Arc::clone(&block)).is_err(), "there is no block 4");
        assert!(overlay.put(0, Arc::new(vec![7; 1023])).is_err(), "it is too short");
    }

    #[test]
    fn a_redirected_block_is_read_elsewhere_until_it_is_written() {
        let (device, overlay) = overlay(10 * 1024, 2 * 1024);
        for block in 0..10_u8 {
            device.write(u64::from(block) * 1024, &[block; 1024]).expect("it is inside");
        }
        overlay.redirect(1, 5 * 1024).expect("both are there");
        overlay.redirect(2, 6 * 1024).expect("both are there");
        overlay.redirect(8, 0).expect("both are there");
        overlay.write(3 * 1024, &[33; 1024]).expect("one block of memory");
        let expect = |expected: [u8; 10]| {
            let mut bytes = vec![0; 9 * 1024];
            overlay.read(512, &mut bytes).expect("it is inside");
            let segments = vec![Segment::Owned(vec![0; 1000]), Segment::Owned(vec![0; 8216])];
            let read = overlay.transfer(Operation::Read, 512, segments);
            read.result.expect("it is inside");
            let mut same = Vec::new();
            for segment in &read.segments {
                let Segment::Owned(part) = segment else { panic!("other memory") };
                same.extend_from_slice(part);
            }
            assert!(same == bytes);
            for (block, value) in expected.iter().enumerate() {
                let at = (block * 1024).saturating_sub(512);
                assert_eq!(bytes[at], *value, "block {block}");
            }
        };
        expect([0, 5, 6, 33, 4, 5, 6, 7, 0, 9]);
        assert_eq!(overlay.changed().len(), 1);
        overlay.write(2 * 1024 + 512, &[22; 512]).expect("a part of a redirected block");
        expect([0, 5, 6, 33, 4, 5, 6, 7, 0, 9]);
        let changed = overlay.changed();
        assert_eq!((changed[0].0, changed[0].1[0], changed[0].1[512]), (2, 6, 22));
        let full = overlay.write(1024, &[1]).expect_err("the limit");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(overlay.redirect(10, 0).is_err() && overlay.redirect(0, 10 * 1024).is_err());
        overlay.redirect(2, 9 * 1024).expect("both are there");
        expect([0, 5, 9, 33, 4, 5, 6, 7, 0, 9]);
        overlay.write(1024, &[1; 1024]).expect("there is room again");
    }

    #[test]
    fn data_is_where_either_has_it() {
        let (device, overlay) = overlay(1 << 20, 1 << 20);
        let below: &dyn BlockDevice = &device;
        let device_data = below.next_data(0).expect("memory");
        overlay.write(500_000, &[1]).expect("it is inside");
        let found = overlay.next_data(499_000).expect("memory");
        match device_data {
            None => assert_eq!(found, Some(499_712..500_736)),
            Some(_) => assert!(found.is_some_and(|found| found.contains(&500_000))),
        }
    }
}
