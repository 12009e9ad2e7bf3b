//! A device that records its requests. For tests and measurements: the trace grows until it is
//! taken.
//!
//! *Locking*: the trace is under one short lock, not held while the device works.
use crate::capability::Capabilities;
use crate::clock::Clock;
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment};
use crate::device::{pieces_bytes, segments_bytes};
use crate::lock::ShortLock;
use std::io;
use std::sync::Arc;

/// One recorded request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it was submitted, in nanoseconds of the clock.
    pub at: u64,
    /// What it asked for.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Sums over all requests so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Requests to read.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Requests to flush.
    pub flushes: u64,
}

/// Records every request in the order of submission, failed ones too, and passes it on.
pub struct Traced<D> {
    device: D,
    trace: ShortLock<Trace>,
}

#[derive(Default)]
struct Trace {
    records: Vec<Record>,
    counters: Counters,
}

impl<D: BlockDevice> Traced<D> {
    /// Traces what goes to this device.
    pub fn new(device: D) -> Traced<D> {
        Traced { device, trace: ShortLock::default() }
    }
    /// The device that requests are passed to.
    pub fn device(&self) -> &D {
        &self.device
    }
    /// What was recorded since the last call.
    pub fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut self.trace.lock().records)
    }
    /// The sums since the beginning.
    pub fn counters(&self) -> Counters {
        self.trace.lock().counters
    }

    fn record(&self, operation: Operation, offset: u64, bytes: u64) {
        let at = self.device.clock().now();
        let mut trace = self.trace.lock();
        trace.records.push(Record { at, operation, offset, bytes });
        let counters = &mut trace.counters;
        match operation {
            Operation::Read => {
                counters.reads += 1;
                counters.bytes_read = counters.bytes_read.saturating_add(bytes);
            }
            Operation::Write => {
                counters.writes += 1;
                counters.bytes_written = counters.bytes_written.saturating_add(bytes);
            }
            Operation::Flush => counters.flushes += 1,
        }
    }
}

impl<D: BlockDevice> BlockDevice for Traced<D> {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        self.record(request.operation, request.offset, request.bytes());
        self.device.submit(request);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.device.capabilities();
        // Everything else would not be in the trace.
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: below.holes,
            discard: below.discard,
            metadata: None,
            host_file: None,
            annex: below.annex,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        self.record(operation, offset, segments_bytes(&segments));
        self.device.transfer(operation, offset, segments)
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.record(Operation::Read, offset, bytes.len() as u64);
        self.device.read(offset, bytes)
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        self.record(Operation::Write, offset, pieces_bytes(pieces));
        self.device.write_vectored(offset, pieces)
    }
    fn flush(&self) -> io::Result<()> {
        self.record(Operation::Flush, 0, 0);
        self.device.flush()
    }
}
