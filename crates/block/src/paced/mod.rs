//! Read-ahead across files that follows the device.
//!
//! [`Neighbours`] reads stretches of at most some length, one at a time: on a disk enough, since a
//! seek costs no more than such a stretch. Where a device answers late and has a high rate, as an
//! object store has, most of the time would be spent waiting. So the device's reads are timed
//! (`timed`, `pace`). While the least latency times the rate is worth no more than the longest
//! stretch, reads are those of [`Neighbours`], exactly; once it is worth more, walks have windows
//! of that many bytes (`walks`), in pieces that come side by side, for as long as the device is
//! open.
//!
//! ```text
//!   Paced    --- writes, flushes, and reads while the device is near ---> Neighbours
//!     |                                                                       |
//!     +--- reads once the device is far away ---------> Timed <---------------+
//! ```
//!
//! *Invariants*: a piece never holds bytes older than a completed write: a write drops every piece
//! that it touches, even one still being read, and nothing is read ahead where a write is under
//! way. A read of which all bytes are on their way waits for them and is not sent.
//! *Locking*: `state` is a short lock, never held while a device is called or a completion runs.
mod pace;
#[cfg(test)]
mod tests;
mod timed;
mod walks;

use crate::capability::{Capabilities, Discards, WritesDurably};
use crate::clock::Clock;
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment, Urgency};
use crate::device::{pieces_bytes, segments_bytes, wait_for};
use crate::lock::{ShortGuard, ShortLock};
use crate::neighbours::Neighbours;
use pace::Worth;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use timed::Timed;
use walks::{Held, Released, Stretch, Walks, Whereabouts};

/// How far is read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest stretch while the device is near, in bytes, and what a window may always have.
    pub stretch_bytes_max: u64,
    /// Bytes that windows may take together.
    pub memory_bytes: u64,
}

/// Passes requests on, and reads ahead after small reads near each other.
pub struct Paced {
    timed: Arc<Timed>,
    near: Neighbours,
    stretch_bytes_max: u64,
    state: Arc<ShortLock<State>>,
}

struct State {
    is_far: bool,
    walks: Walks,
}

/// A piece that is being read. If it is dropped without a result, the reads that wait for it are
/// passed on to the device.
struct Coming {
    state: Arc<ShortLock<State>>,
    timed: Arc<Timed>,
    number: u64,
    bytes: Option<Arc<Vec<u8>>>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        let released = self.state.lock().walks.land(self.number, self.bytes.take());
        end_waiting(&self.timed, released);
    }
}

impl Paced {
    /// Reads ahead within these limits.
    pub fn new(device: Arc<dyn BlockDevice>, limits: Limits) -> Paced {
        let walks = Walks::new(&limits, device.own_bytes());
        let timed = Arc::new(Timed::new(device));
        let stretch_bytes_max = limits.stretch_bytes_max;
        let near = Neighbours::new(Arc::clone(&timed) as Arc<dyn BlockDevice>, stretch_bytes_max);
        Paced {
            near: near.within(limits.memory_bytes),
            timed,
            stretch_bytes_max,
            state: Arc::new(ShortLock::new(State { is_far: false, walks })),
        }
    }

    /// Bytes that are in memory, or being read.
    pub fn held_bytes(&self) -> u64 {
        let walks = self.state.lock().walks.held_bytes();
        walks + self.near.held_bytes()
    }

    /// The walks, and what the device is worth, once it is far away.
    fn far(&self) -> Option<(ShortGuard<'_, State>, Worth)> {
        let worth = self.timed.worth();
        let mut state = self.state.lock();
        state.is_far |= worth.window_bytes > self.stretch_bytes_max;
        state.is_far.then_some((state, worth))
    }

    fn submit_read(&self, request: Request) {
        let Some((mut state, worth)) = self.far() else { return self.near.submit(request) };
        let (found, ahead) = state.walks.read(&request.place(), &worth);
        match found {
            Whereabouts::Here(held) => {
                drop(state);
                self.read_ahead(ahead);
                answer(request, &held);
            }
            Whereabouts::Coming => {
                state.walks.wait(request);
                drop(state);
                self.read_ahead(ahead);
            }
            Whereabouts::Device => {
                drop(state);
                // What is wanted goes first, and what follows it at once after it.
                self.timed.submit(request);
                self.read_ahead(ahead);
            }
        }
    }

    fn read_ahead(&self, stretches: Vec<Stretch>) {
        for Stretch { number, place } in stretches {
            let mut coming = Coming {
                state: Arc::clone(&self.state),
                timed: Arc::clone(&self.timed),
                number,
                bytes: None,
            };
            let length = usize::try_from(place.end - place.start).unwrap_or(0);
            self.timed.submit(Request {
                operation: Operation::Read,
                offset: place.start,
                segments: vec![Segment::Owned(vec![0; length])],
                // Its reader comes to it next, and waits.
                urgency: Urgency::Awaited,
                completion: Box::new(move |completed| {
                    coming.bytes = match (completed.result, completed.segments.into_iter().next()) {
                        (Ok(()), Some(Segment::Owned(bytes))) if bytes.len() == length => {
                            Some(Arc::new(bytes))
                        }
                        _ => None,
                    };
                    drop(coming);
                }),
            });
        }
    }

    fn begin_write(&self, place: &Range<u64>) {
        let released = self.state.lock().walks.begin_write(place);
        end_waiting(&self.timed, released);
    }

    fn submit_write(&self, request: Request) {
        let place = request.place();
        self.begin_write(&place);
        let state = Arc::clone(&self.state);
        let completion = request.completion;
        self.near.submit(Request {
            completion: Box::new(move |completed| {
                state.lock().walks.end_write(&place);
                completion(completed);
            }),
            ..request
        });
    }
}

/// Ends the reads that waited.
fn end_waiting(timed: &Timed, released: Released) {
    for (request, held) in released.answered {
        answer(request, &held);
    }
    for request in released.passed_on {
        timed.submit(request);
    }
}

/// Fills a request from bytes that are held, and completes it.
fn answer(mut request: Request, held: &[Held]) {
    let mut offset = request.offset;
    for segment in &mut request.segments {
        if let Some(target) = segment.target() {
            copy(held, offset, target);
        }
        offset += segment.bytes() as u64;
    }
    request.complete(Ok(()));
}

/// Copies what is held from `offset` on.
fn copy(held: &[Held], offset: u64, mut target: &mut [u8]) {
    let mut at = offset;
    for Held { start, bytes } in held {
        let from = usize::try_from(at.saturating_sub(*start)).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(from..) else { continue };
        let length = bytes.len().min(target.len());
        let (part, rest) = target.split_at_mut(length);
        part.copy_from_slice(&bytes[..length]);
        (at, target) = (at + length as u64, rest);
    }
}

impl BlockDevice for Paced {
    fn info(&self) -> DeviceInfo {
        self.timed.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.timed.clock()
    }
    fn submit(&self, request: Request) {
        match request.operation {
            Operation::Read if request.segments.iter().any(Segment::is_shared) => {
                self.timed.submit(request)
            }
            Operation::Read => self.submit_read(request),
            Operation::Write => self.submit_write(request),
            Operation::Flush => self.near.submit(request),
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.near.capabilities();
        // As for `Neighbours`: what is read for walks is nobody's metadata.
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
        match operation {
            Operation::Read => {
                wait_for(self.clock(), |request| self.submit(request), operation, offset, segments)
            }
            Operation::Flush => self.near.transfer(operation, offset, segments),
            Operation::Write => {
                let place = offset..offset.saturating_add(segments_bytes(&segments));
                self.begin_write(&place);
                let completed = self.near.transfer(operation, offset, segments);
                self.state.lock().walks.end_write(&place);
                completed
            }
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let place = offset..offset.saturating_add(bytes.len() as u64);
        let Some((mut state, worth)) = self.far() else { return self.near.read(offset, bytes) };
        if let Some(held) = state.walks.held(&place) {
            let (_, ahead) = state.walks.read(&place, &worth);
            drop(state);
            self.read_ahead(ahead);
            copy(&held, offset, bytes);
            return Ok(());
        }
        drop(state);
        let memory = vec![Segment::Owned(vec![0; bytes.len()])];
        let completed = self.transfer(Operation::Read, offset, memory);
        completed.result?;
        match completed.segments.first() {
            Some(Segment::Owned(read)) if read.len() == bytes.len() => bytes.copy_from_slice(read),
            _ => return Err(io::Error::other("the device kept a request's memory")),
        }
        Ok(())
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        let place = offset..offset.saturating_add(pieces_bytes(pieces));
        self.begin_write(&place);
        let written = self.near.write_vectored(offset, pieces);
        self.state.lock().walks.end_write(&place);
        written
    }
    fn flush(&self) -> io::Result<()> {
        self.near.flush()
    }
}

impl WritesDurably for Paced {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = offset..offset.saturating_add(bytes.len() as u64);
        self.begin_write(&place);
        let written = self.near.write_durable(offset, bytes);
        self.state.lock().walks.end_write(&place);
        written
    }
}

impl Discards for Paced {
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let place = offset..offset.saturating_add(bytes);
        self.begin_write(&place);
        let discarded = self.near.discard(offset, bytes);
        self.state.lock().walks.end_write(&place);
        discarded
    }
}
