//! A device with read-ahead across files: after small reads near each other it reads on, and
//! answers following reads from memory.
//!
//! Drives do this with the little memory they have. Where a seek or a round trip is slow, the host
//! does better with more memory: the files of a directory are adjacent, and a program that reads
//! one file after the other needs the next ones soon. A read near the last one is the next read of
//! a *walk* (`walks`), and what follows it is read in pieces, further and further while the walk
//! uses what it gets. How far depends on the device: what comes during the latency of a read is the
//! most that helps, and both numbers are learned while reading (`pace`). Up to sixteen walks are
//! tracked at a time, so that two trees can be compared.
//!
//! *Invariants*: a piece never holds bytes older than a completed write: a write drops every piece
//! that it touches, even one still being read, and nothing is read ahead where a write is under
//! way. A read of which all bytes are on their way waits for them and is not sent.
//! *Locking*: `state` is a short lock, never held while the device is called or a completion runs.
mod pace;
#[cfg(test)]
mod tests;
mod walks;

use crate::clock::Clock;
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment, Urgency};
use crate::device::{pieces_bytes, segments_bytes, wait_for};
use crate::lock::ShortLock;
use pace::Sent;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use walks::{Held, Released, Stretch, Walks, Whereabouts};

/// Passes requests on, and reads ahead after small reads near each other.
pub struct Neighbours {
    device: Arc<dyn BlockDevice>,
    state: Arc<ShortLock<Walks>>,
}

/// A read that was sent. If it is dropped, it has ended.
struct Measured {
    state: Arc<ShortLock<Walks>>,
    clock: Arc<dyn Clock>,
    sent: Sent,
}

impl Drop for Measured {
    fn drop(&mut self) {
        let now_ns = self.clock.now();
        self.state.lock().pace.end(self.sent, now_ns);
    }
}

/// A piece that is being read. If it is dropped without a result, the reads that wait for it are
/// passed on to the device.
struct Coming {
    state: Arc<ShortLock<Walks>>,
    device: Arc<dyn BlockDevice>,
    number: u64,
    bytes: Option<Arc<Vec<u8>>>,
    /// Ended before the reads that wait are answered.
    measured: Option<Measured>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        drop(self.measured.take());
        let released = self.state.lock().land(self.number, self.bytes.take());
        end_waiting(&*self.device, released);
    }
}

impl Neighbours {
    /// Reads ahead with at most `memory_bytes` of memory.
    pub fn new(device: Arc<dyn BlockDevice>, memory_bytes: u64) -> Neighbours {
        let walks = Walks::new(memory_bytes, device.info().bytes);
        Neighbours { device, state: Arc::new(ShortLock::new(walks)) }
    }

    fn submit_read(&self, request: Request) {
        if request.segments.iter().any(Segment::is_shared) {
            return self.device.submit(request);
        }
        let now_ns = self.clock().now();
        let mut state = self.state.lock();
        let (found, ahead) = state.read(&request.place(), now_ns);
        match found {
            Whereabouts::Here(held) => {
                drop(state);
                self.read_ahead(ahead);
                answer(request, &held);
            }
            Whereabouts::Coming => {
                state.wait(request);
                drop(state);
                self.read_ahead(ahead);
            }
            Whereabouts::Device(sent) => {
                drop(state);
                self.submit_measured(request, sent);
                self.read_ahead(ahead);
            }
        }
    }

    /// Has the device read, and learns from it.
    fn submit_measured(&self, request: Request, sent: Sent) {
        let measured = self.measured(sent);
        let completion = request.completion;
        let completion = Box::new(move |completed| {
            drop(measured);
            completion(completed);
        });
        self.device.submit(Request { completion, ..request });
    }

    fn measured(&self, sent: Sent) -> Measured {
        Measured { state: Arc::clone(&self.state), clock: Arc::clone(self.device.clock()), sent }
    }

    fn read_ahead(&self, stretches: Vec<Stretch>) {
        for Stretch { number, place, sent } in stretches {
            let mut coming = Coming {
                state: Arc::clone(&self.state),
                device: Arc::clone(&self.device),
                number,
                bytes: None,
                measured: Some(self.measured(sent)),
            };
            let length = usize::try_from(place.end - place.start).unwrap_or(0);
            self.device.submit(Request {
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
        let released = self.state.lock().begin_write(place);
        end_waiting(&*self.device, released);
    }

    fn submit_write(&self, request: Request) {
        let place = request.place();
        self.begin_write(&place);
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

    /// Reads from the device into the caller's memory, with what to read ahead.
    fn read_device(
        &self,
        offset: u64,
        bytes: &mut [u8],
        sent: Sent,
        ahead: Vec<Stretch>,
    ) -> io::Result<()> {
        if ahead.is_empty() {
            let measured = self.measured(sent);
            let read = self.device.read(offset, bytes);
            drop(measured);
            return read;
        }
        // What is wanted goes first, and what follows it at once after it.
        let submit = |request| {
            self.submit_measured(request, sent);
            self.read_ahead(ahead);
        };
        let memory = vec![Segment::Owned(vec![0; bytes.len()])];
        take(wait_for(self.clock(), submit, Operation::Read, offset, memory), bytes)
    }
}

/// Ends the reads that waited.
fn end_waiting(device: &dyn BlockDevice, released: Released) {
    for (request, held) in released.answered {
        answer(request, &held);
    }
    for request in released.passed_on {
        device.submit(request);
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

/// Takes what a request read.
fn take(completed: Completed, bytes: &mut [u8]) -> io::Result<()> {
    completed.result?;
    match completed.segments.first() {
        Some(Segment::Owned(read)) if read.len() == bytes.len() => bytes.copy_from_slice(read),
        _ => return Err(io::Error::other("the device kept a request's memory")),
    }
    Ok(())
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
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        let place = offset..offset.saturating_add(segments_bytes(&segments));
        match operation {
            Operation::Read => {
                wait_for(self.clock(), |request| self.submit(request), operation, offset, segments)
            }
            Operation::Flush => self.device.transfer(operation, offset, segments),
            Operation::Write => {
                self.begin_write(&place);
                let completed = self.device.transfer(operation, offset, segments);
                self.state.lock().end_write(&place);
                completed
            }
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let place = offset..offset.saturating_add(bytes.len() as u64);
        let now_ns = self.clock().now();
        let (found, ahead) = self.state.lock().read(&place, now_ns);
        match found {
            Whereabouts::Here(held) => {
                self.read_ahead(ahead);
                copy(&held, offset, bytes);
                Ok(())
            }
            Whereabouts::Coming => {
                self.read_ahead(ahead);
                let memory = vec![Segment::Owned(vec![0; bytes.len()])];
                take(self.transfer(Operation::Read, offset, memory), bytes)
            }
            Whereabouts::Device(sent) => self.read_device(offset, bytes, sent, ahead),
        }
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        let place = offset..offset.saturating_add(pieces_bytes(pieces));
        self.begin_write(&place);
        let written = self.device.write_vectored(offset, pieces);
        self.state.lock().end_write(&place);
        written
    }
    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        self.device.next_data(offset)
    }
}
