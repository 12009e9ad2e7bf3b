//! QEMU's images as devices that are written where they are.
//!
//! ```text
//! entry    what an L2 table says of a cluster        counts   how often clusters are used
//! state    the tables in memory; where a byte is     survey   whether the counts are right
//! change   where bytes go that are written           commit   the order that outlives a cut
//! medium   the file                                  queue    requests that are submitted
//! backing  the images that one is based on
//! ```
//! A flush of the device makes what was written durable together with what finds it. A cut between
//! two flushes leaves an image that is whole, has all that was flushed, and counts of clusters that
//! are at most too high.
//!
//! *Invariants*: a byte of the file that something durable refers to is written only where the disk
//! has that byte, and nobody else does.
//! *Locking*: `Inner::state` is held shared by reads and by writes that go where their bytes are,
//! exclusively by all that changes where anything is; across I/O. The queue's is a short one.
// tidy: writers because it is a device, below what caches it
mod backing;
mod change;
mod commit;
mod counts;
mod entry;
mod medium;
mod queue;
mod state;
mod survey;
#[cfg(test)]
mod tests;

pub(crate) use backing::{BACKINGS_MAX, backing_at};

use crate::read::error::Error;
use crate::read::qcow2::tables::Place;
use entry::{mask, part_bytes};
use extant_block::capability::{Capabilities, Discards, KnowsHoles};
use extant_block::device::segments_bytes;
use extant_block::{
    BlockDevice, Clock, Completed, DeviceError, DeviceInfo, Operation, Request, Segment,
    SleepRwLock,
};
use queue::Queue;
use state::State;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An image that is written in place.
pub struct Qcow2 {
    inner: Arc<Inner>,
    perform: Arc<dyn Fn(Request) + Send + Sync>,
    queue: Queue,
}

struct Inner {
    clock: Arc<dyn Clock>,
    name: String,
    bytes: AtomicU64,
    state: SleepRwLock<State>,
}

impl Qcow2 {
    /// The disk of an image in a file that can be written and that nobody else writes; the file's
    /// device has to grow where something is written past its end. `backing` is the disk that the
    /// image is based on, where it is based on one.
    ///
    /// # Errors
    /// What is damaged, or not supported, by name. Nothing was written then.
    pub fn open(
        file: Arc<dyn BlockDevice>,
        backing: Option<Arc<dyn BlockDevice>>,
        name: String,
    ) -> Result<Qcow2, Error> {
        let clock = Arc::clone(file.clock());
        let state = State::open(file, backing)?;
        let bytes = AtomicU64::new(state.header.bytes);
        let state = SleepRwLock::new(Arc::clone(&clock), state);
        let inner = Arc::new(Inner { clock: Arc::clone(&clock), name, bytes, state });
        let worker = Arc::clone(&inner);
        let perform = Arc::new(move |mut request: Request| {
            let result = worker.perform(request.operation, request.offset, &mut request.segments);
            request.complete(result);
        });
        Ok(Qcow2 { inner, perform, queue: Queue::new(clock) })
    }

    /// As [`Qcow2::open`], with what the image at this place is based on: in its folder or below.
    ///
    /// # Errors
    /// As [`Qcow2::open`]; what it is based on cannot be read.
    pub fn open_at(file: Arc<dyn BlockDevice>, place: &Path, name: String) -> Result<Qcow2, Error> {
        let clock = Arc::clone(file.clock());
        let backing = backing_at(&clock, &file, place, BACKINGS_MAX)?;
        Qcow2::open(file, backing, name)
    }

    /// Makes the disk larger: what it gets is zeros. It is not made smaller.
    ///
    /// # Errors
    /// The host's; `Unsupported` for an image that cannot be made larger.
    pub fn grow(&self, bytes: u64) -> io::Result<()> {
        let grown = || {
            let mut state = self.inner.state.write();
            state.grow(bytes)?;
            self.inner.bytes.store(state.header.bytes, Ordering::Release);
            Ok(())
        };
        grown().map_err(|source| self.inner.named(Operation::Write, bytes, source))
    }
}

impl Drop for Qcow2 {
    /// What was written and not flushed is found by the next one all the same, if nothing cuts it;
    /// and what was freed is free.
    fn drop(&mut self) {
        const COMMITS: usize = 2;
        let mut state = self.inner.state.write();
        for _ in 0..COMMITS {
            if state.is_dirty() && state.commit().is_err() {
                break;
            }
        }
    }
}

impl Inner {
    fn perform(
        &self,
        operation: Operation,
        offset: u64,
        segments: &mut [Segment],
    ) -> io::Result<()> {
        let outcome = || {
            self.check(operation, offset, segments_bytes(segments))?;
            match operation {
                Operation::Flush => self.flush(),
                Operation::Read => {
                    if segments.iter().any(Segment::is_shared) {
                        let words = "a read into shared memory";
                        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
                    }
                    let mut at = offset;
                    for segment in segments {
                        let bytes = segment.bytes() as u64;
                        if let Some(target) = segment.target() {
                            self.read(at, target)?;
                        }
                        at += bytes;
                    }
                    Ok(())
                }
                Operation::Write => {
                    let mut at = offset;
                    for run in segments.chunk_by(|a, b| a.is_phantom() == b.is_phantom()) {
                        let kept = run.iter().filter_map(Segment::content).map(IoSlice::new);
                        self.write(at, &kept.collect::<Vec<_>>())?;
                        at += segments_bytes(run);
                    }
                    Ok(())
                }
            }
        };
        outcome().map_err(|source| self.named(operation, offset, source))
    }

    /// Refuses what is not within the disk.
    fn check(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<()> {
        let end = self.bytes.load(Ordering::Acquire);
        if operation == Operation::Flush
            || offset.checked_add(bytes).is_some_and(|last| last <= end)
        {
            return Ok(());
        }
        let kind = match operation {
            Operation::Write => io::ErrorKind::InvalidInput,
            Operation::Read | Operation::Flush => io::ErrorKind::UnexpectedEof,
        };
        let words = format!("{bytes} bytes reach past the end of the disk at byte {end}");
        Err(io::Error::new(kind, words))
    }

    /// The errors that name the image already are left as they are.
    fn named(&self, operation: Operation, offset: u64, source: io::Error) -> io::Error {
        match source.get_ref().is_some_and(|inner| inner.is::<DeviceError>()) {
            true => source,
            false => DeviceError { device: self.name.clone(), operation, offset, source }.into(),
        }
    }

    fn read(&self, offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        let mut at = offset;
        let mut state = self.state.read();
        while !buffer.is_empty() {
            if !state.has_table(at) {
                drop(state);
                // The rest of it at once, so that nobody can take the table away in between.
                return self.state.write().read(at, buffer);
            }
            let (place, mut left) = state.find(at)?;
            // Clusters that follow each other in the file are read in one go.
            while left < buffer.len() as u64
                && let Place::File(start) = place
                && state.has_table(at + left)
                && let (Place::File(next), more) = state.find(at + left)?
                && next == start + left
            {
                left += more;
            }
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let (piece, rest) = std::mem::take(&mut buffer).split_at_mut(count);
            state.read_place((place, at), piece)?;
            (buffer, at) = (rest, at + count as u64);
            if !buffer.is_empty() {
                // Whoever waits to write comes first.
                drop(state);
                state = self.state.read();
            }
        }
        Ok(())
    }

    /// Writes pieces end to end, cluster by cluster.
    fn write(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        let mut rest = Pieces { pieces, within: 0 };
        let (mut at, mut left) = (offset, extant_block::device::pieces_bytes(pieces));
        while left > 0 {
            let state = self.state.read();
            let there = state.in_place(at, left)?;
            if let Some((start, count)) = there {
                state.medium.write(start, &rest.take(count))?;
                (at, left) = (at + count, left - count);
                continue;
            }
            let size = state.header.cluster_bytes();
            drop(state);
            let count = (size - at % size).min(left);
            let bytes = rest.take(count).concat_bytes();
            self.state.write().put(at, &bytes)?;
            (at, left) = (at + count, left - count);
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let state = self.state.read();
        if !state.is_dirty() {
            return state.medium.flush();
        }
        drop(state);
        self.state.write().commit()
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let discarded = self.check(Operation::Write, offset, bytes);
        let discarded = discarded.and_then(|()| self.state.write().discard(offset..offset + bytes));
        discarded.map_err(|source| match source.kind() {
            io::ErrorKind::Unsupported => source,
            _ => self.named(Operation::Write, offset, source),
        })
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        /// A walk is not one call for each cluster.
        const STRETCHES_MAX: usize = 256;
        let end = self.bytes.load(Ordering::Acquire);
        let mut state = self.state.write();
        let (mut at, mut found) = (offset, None);
        let mut stretches = 0;
        while at < end && stretches < STRETCHES_MAX {
            state.load(at)?;
            let (place, left) = state.find(at)?;
            let next = at.saturating_add(left).min(end);
            match (state.is_nothing(place, at), &mut found) {
                (false, None) => found = Some(at..next),
                (false, Some(range)) => range.end = next,
                (true, Some(_)) => break,
                (true, None) => {}
            }
            stretches += usize::from(found.is_some());
            at = next;
        }
        Ok(found)
    }
}

impl State {
    /// Where bytes go that replace others where they are, and how many of them do.
    fn in_place(&self, at: u64, bytes: u64) -> io::Result<Option<(u64, u64)>> {
        if self.header.autoclear != 0 {
            return Ok(None);
        }
        let (size, of_part) = (self.header.cluster_bytes(), part_bytes(&self.header));
        let mut found: Option<(u64, u64)> = None;
        let (mut at, mut left) = (at, bytes);
        while left > 0 && self.has_table(at) {
            let cluster = self.cluster(at)?;
            let inside = at % size;
            let count = (size - inside).min(left);
            let parts = (inside / of_part) as u32..(inside + count).div_ceil(of_part) as u32;
            if !cluster.is_own || !self.has_own_table(at) || !cluster.has(mask(parts)) {
                break;
            }
            match &mut found {
                None => found = Some((cluster.at + inside, count)),
                Some((start, before)) if *start + *before == cluster.at => *before += count,
                Some(_) => break,
            }
            (at, left) = (at + count, left - count);
        }
        Ok(found)
    }

    /// Whether no snapshot has the table for a byte.
    fn has_own_table(&self, at: u64) -> bool {
        let entry = self.l1.get(self.numbers(at).0);
        entry.is_some_and(|entry| entry & entry::COPIED != 0)
    }
}

/// What is left of pieces.
struct Pieces<'a> {
    pieces: &'a [IoSlice<'a>],
    /// Bytes of the first one that were taken.
    within: usize,
}

impl<'a> Pieces<'a> {
    /// Takes so many bytes.
    fn take(&mut self, bytes: u64) -> Vec<IoSlice<'a>> {
        let (mut left, mut taken) = (bytes as usize, Vec::new());
        while left > 0
            && let Some(first) = self.pieces.first()
        {
            let there = &first[self.within..];
            let count = there.len().min(left);
            if count > 0 {
                taken.push(IoSlice::new(&there[..count]));
            }
            left -= count;
            self.within += count;
            if self.within == first.len() {
                (self.pieces, self.within) = (&self.pieces[1..], 0);
            }
        }
        taken
    }
}

/// Pieces as one.
trait ConcatBytes {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl ConcatBytes for Vec<IoSlice<'_>> {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|piece| piece.iter().copied()).collect()
    }
}

impl BlockDevice for Qcow2 {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.inner.name.clone(),
            bytes: self.inner.bytes.load(Ordering::Acquire),
            sector_bytes: 512,
            read_only: false,
        }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }
    fn submit(&self, request: Request) {
        self.queue.submit(request, &self.perform);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: Some(self),
            discard: Some(self),
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, mut segments: Vec<Segment>) -> Completed {
        let result = self.inner.perform(operation, offset, &mut segments);
        Completed { segments, result }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let read = self.inner.check(Operation::Read, offset, bytes.len() as u64);
        let read = read.and_then(|()| self.inner.read(offset, bytes));
        read.map_err(|source| self.inner.named(Operation::Read, offset, source))
    }
    fn write_vectored(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes = extant_block::device::pieces_bytes(pieces);
        let written = self.inner.check(Operation::Write, offset, bytes);
        let written = written.and_then(|()| self.inner.write(offset, pieces));
        written.map_err(|source| self.inner.named(Operation::Write, offset, source))
    }
    fn flush(&self) -> io::Result<()> {
        self.inner.flush().map_err(|source| self.inner.named(Operation::Flush, 0, source))
    }
}

impl KnowsHoles for Qcow2 {
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let found = self.inner.next_data(offset);
        found.map_err(|source| self.inner.named(Operation::Read, offset, source))
    }
}

impl Discards for Qcow2 {
    /// Clusters that are wholly in it are given back.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.inner.discard(offset, bytes)
    }
}
