//! A device that fails when it is told to. For tests.
//!
//! The model: a failed request does nothing at all: it neither stores a part nor fills memory. All
//! others are passed on. Requests are counted from 1, as they arrive.
//!
//! *Locking*: the plan is under one short lock, not held while the device works.
use extant_block::capability::{Capabilities, Discards, Remembers};
use extant_block::device::{pieces_bytes, segments_bytes};
use extant_block::{
    BlockDevice, Clock, Completed, DeviceError, DeviceInfo, Operation, Request, Segment, ShortLock,
};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The n-th write fails (EIO).
    NthWrite(u64),
    /// All writes after the n-th fail (EIO).
    WritesAfter(u64),
    /// The n-th read fails (EIO).
    NthRead(u64),
    /// All reads after the n-th fail (EIO).
    ReadsAfter(u64),
    /// Reads that touch these bytes fail (EIO).
    ReadsIn(Range<u64>),
    /// Writes fail once all of them together would exceed this many bytes (ENOSPC).
    FullAfter(u64),
    /// Flushes fail (EIO).
    Flushes,
}

/// Fails chosen requests, and passes on the others.
pub struct Faulty<D> {
    device: D,
    plan: ShortLock<Plan>,
}

#[derive(Default)]
struct Plan {
    faults: Vec<Fault>,
    reads: u64,
    writes: u64,
    bytes_written: u64,
}

impl<D: BlockDevice> Faulty<D> {
    /// A device that does not fail yet.
    pub fn new(device: D) -> Faulty<D> {
        Faulty { device, plan: ShortLock::default() }
    }
    /// The device that requests are passed to.
    pub fn device(&self) -> &D {
        &self.device
    }
    /// Adds a fault. Reads and writes made before are counted too.
    pub fn add(&self, fault: Fault) {
        self.plan.lock().faults.push(fault);
    }
    /// Removes all faults, and counts from the beginning.
    pub fn repair(&self) {
        *self.plan.lock() = Plan::default();
    }
    /// How many reads there were since the last repair, those that failed included.
    pub fn reads(&self) -> u64 {
        self.plan.lock().reads
    }

    /// How many writes there were since the last repair, those that failed and discards included.
    pub fn writes(&self) -> u64 {
        self.plan.lock().writes
    }

    fn below(&self) -> &(dyn BlockDevice + '_) {
        &self.device
    }

    fn admit(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<()> {
        let failed = self.plan.lock().meet(operation, offset, bytes);
        let Some(errno) = failed else { return Ok(()) };
        Err(DeviceError {
            device: self.device.info().name,
            operation,
            offset,
            source: errno.into(),
        }
        .into())
    }
}

impl Plan {
    /// Counts a request, and returns how it fails, if it does.
    fn meet(&mut self, operation: Operation, offset: u64, bytes: u64) -> Option<Errno> {
        match operation {
            Operation::Read => self.reads += 1,
            Operation::Write => self.writes += 1,
            Operation::Flush => {}
        }
        let end = offset.saturating_add(bytes);
        let written = self.bytes_written.saturating_add(bytes);
        let failed = self.faults.iter().find_map(|fault| match (operation, fault) {
            (Operation::Write, Fault::NthWrite(number)) => {
                (self.writes == *number).then_some(Errno::IO)
            }
            (Operation::Write, Fault::WritesAfter(number)) => {
                (self.writes > *number).then_some(Errno::IO)
            }
            (Operation::Write, Fault::FullAfter(limit)) => {
                (written > *limit).then_some(Errno::NOSPC)
            }
            (Operation::Read, Fault::NthRead(number)) => {
                (self.reads == *number).then_some(Errno::IO)
            }
            (Operation::Read, Fault::ReadsAfter(number)) => {
                (self.reads > *number).then_some(Errno::IO)
            }
            (Operation::Read, Fault::ReadsIn(bad)) => {
                (offset < bad.end && bad.start < end).then_some(Errno::IO)
            }
            (Operation::Flush, Fault::Flushes) => Some(Errno::IO),
            _ => None,
        });
        if operation == Operation::Write && failed.is_none() {
            self.bytes_written = written;
        }
        failed
    }
}

impl<D: BlockDevice> BlockDevice for Faulty<D> {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        match self.admit(request.operation, request.offset, request.bytes()) {
            Ok(()) => self.device.submit(request),
            Err(error) => request.complete(Err(error)),
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.device.capabilities();
        // A write that is forced is a write and a flush, each of which may fail.
        Capabilities {
            durable: None,
            remembers: below.remembers.map(|_| self as _),
            congestion: None,
            holes: None,
            discard: below.discard.map(|_| self as _),
            metadata: None,
            host_file: None,
            annex: below.annex,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        match self.admit(operation, offset, segments_bytes(&segments)) {
            Ok(()) => self.device.transfer(operation, offset, segments),
            Err(error) => Completed { segments, result: Err(error) },
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.admit(Operation::Read, offset, bytes.len() as u64)?;
        self.device.read(offset, bytes)
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        self.admit(Operation::Write, offset, pieces_bytes(pieces))?;
        self.device.write_vectored(offset, pieces)
    }
    fn flush(&self) -> io::Result<()> {
        self.admit(Operation::Flush, 0, 0)?;
        self.device.flush()
    }
}

impl<D: BlockDevice> Remembers for Faulty<D> {
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        match self.admit(Operation::Read, offset, bytes.len() as u64) {
            Ok(()) => self.below().read_remembered(offset, bytes),
            Err(_) => 0,
        }
    }
}

impl<D: BlockDevice> Discards for Faulty<D> {
    /// Fails as a write does, and counts as one.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.admit(Operation::Write, offset, 0)?;
        self.below().discard(offset, bytes)
    }
}
