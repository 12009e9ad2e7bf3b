//! A stretch of a device as a device of its own: a partition of a disk.
//!
//! *Invariants*: no request reaches a byte of the device below outside of the stretch, whatever the
//! caller asks for: a range is checked against the stretch before it is moved.
//!
//! *Locking*: none.
use crate::capability::{
    Capabilities, Discards, KnowsHoles, ReadsMetadata, Remembers, WritesDurably,
};
use crate::clock::Clock;
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment};
use crate::device::{check_range, pieces_bytes, segments_bytes};
use crate::error::DeviceError;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Some bytes of a device, from 0 on.
pub struct Window {
    device: Arc<dyn BlockDevice>,
    start: u64,
    bytes: u64,
    name: String,
}

impl Window {
    /// `range` of a device, in bytes, called `name` in messages. What of it is past the end of the
    /// device is cut off.
    pub fn new(device: Arc<dyn BlockDevice>, range: Range<u64>, name: String) -> Window {
        let end = range.end.min(device.info().bytes);
        let start = range.start.min(end);
        Window { device, start, bytes: end - start, name }
    }

    /// Where a range begins on the device below.
    fn moved(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<u64> {
        let refused = |source| {
            let device = self.name.clone();
            io::Error::from(DeviceError { device, operation, offset, source })
        };
        check_range(self.bytes, operation, offset, bytes).map_err(refused)?;
        match operation {
            Operation::Flush => Ok(0),
            Operation::Read | Operation::Write => Ok(self.start + offset),
        }
    }
}

impl BlockDevice for Window {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: self.name.clone(), bytes: self.bytes, ..self.device.info() }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        match self.moved(request.operation, request.offset, request.bytes()) {
            Ok(offset) => self.device.submit(Request { offset, ..request }),
            Err(error) => request.complete(Err(error)),
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.device.capabilities();
        Capabilities {
            durable: below.durable.map(|_| self as _),
            remembers: below.remembers.map(|_| self as _),
            congestion: below.congestion,
            holes: below.holes.map(|_| self as _),
            discard: below.discard.map(|_| self as _),
            metadata: below.metadata.map(|_| self as _),
            host_file: below.host_file.map(|(file, origin)| (file, origin + self.start)),
            // It is behind the whole device, not behind a stretch of it.
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        match self.moved(operation, offset, segments_bytes(&segments)) {
            Ok(offset) => self.device.transfer(operation, offset, segments),
            Err(error) => Completed { segments, result: Err(error) },
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.device.read(self.moved(Operation::Read, offset, bytes.len() as u64)?, bytes)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.device.write(self.moved(Operation::Write, offset, bytes.len() as u64)?, bytes)
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        let start = self.moved(Operation::Write, offset, pieces_bytes(pieces))?;
        self.device.write_vectored(start, pieces)
    }
    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }
}

impl WritesDurably for Window {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.device.write_durable(self.moved(Operation::Write, offset, bytes.len() as u64)?, bytes)
    }
}

impl Remembers for Window {
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        match self.moved(Operation::Read, offset, bytes.len() as u64) {
            Ok(offset) => self.device.read_remembered(offset, bytes),
            Err(_) => 0,
        }
    }
}

impl KnowsHoles for Window {
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        if offset >= self.bytes {
            return Ok(None);
        }
        let data = self.device.next_data(self.start + offset)?;
        let within = |data: Range<u64>| {
            let end = data.end.saturating_sub(self.start).min(self.bytes);
            data.start.saturating_sub(self.start)..end
        };
        Ok(data.map(within).filter(|data| data.start < data.end))
    }
}

impl Discards for Window {
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.device.discard(self.moved(Operation::Write, offset, bytes)?, bytes)
    }
}

impl ReadsMetadata for Window {
    fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = self.moved(Operation::Read, offset, bytes.len() as u64)?;
        self.device.read_metadata(start, bytes)
    }
}
