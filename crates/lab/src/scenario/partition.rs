//! Ways to look at a device: a part of it, a way to it that can be cut, and what is on a simulated
//! one without waiting for its drive.
use extant_block::capability::{Capabilities, KnowsHoles, ReadsMetadata};
use extant_block::{
    BlockDevice, Clock, Completed, DeviceInfo, MemoryDevice, Operation, Request, Segment,
};
use extant_sim::device::SimDevice;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes of a device from one on.
pub(super) struct Partition {
    device: Arc<dyn BlockDevice>,
    offset: u64,
    bytes: u64,
}

impl Partition {
    /// So many bytes from `offset` on; the device has them.
    pub(super) fn new(device: Arc<dyn BlockDevice>, offset: u64, bytes: u64) -> Partition {
        Partition { device, offset, bytes }
    }

    fn check(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<()> {
        if operation == Operation::Flush
            || offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
        {
            return Ok(());
        }
        let kind = match operation {
            Operation::Write => io::ErrorKind::InvalidInput,
            Operation::Read | Operation::Flush => io::ErrorKind::UnexpectedEof,
        };
        let message = format!(
            "{bytes} bytes at {offset} reach past the end of the partition at byte {}",
            self.bytes
        );
        Err(io::Error::new(kind, message))
    }
}

impl BlockDevice for Partition {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { bytes: self.bytes, ..self.device.info() }
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }

    fn submit(&self, mut request: Request) {
        match self.check(request.operation, request.offset, request.bytes()) {
            Err(error) => request.complete(Err(error)),
            Ok(()) => {
                request.offset += self.offset;
                self.device.submit(request);
            }
        }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.device.capabilities();
        // Drives have no more than these, and what is on them knows its holes.
        Capabilities {
            durable: None,
            remembers: None,
            congestion: below.congestion,
            holes: below.holes.map(|_| self as _),
            discard: None,
            metadata: below.metadata.map(|_| self as _),
            host_file: None,
            annex: below.annex,
        }
    }

    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        let bytes = extant_block::device::segments_bytes(&segments);
        match self.check(operation, offset, bytes) {
            Err(error) => Completed { segments, result: Err(error) },
            Ok(()) => self.device.transfer(operation, self.offset + offset, segments),
        }
    }
}

impl KnowsHoles for Partition {
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        if offset >= self.bytes {
            return Ok(None);
        }
        let data = self.device.next_data(self.offset + offset)?;
        let within = |data: Range<u64>| {
            let end = data.end.saturating_sub(self.offset).min(self.bytes);
            data.start.saturating_sub(self.offset)..end
        };
        Ok(data.map(within).filter(|data| data.start < data.end))
    }
}

impl ReadsMetadata for Partition {
    fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.check(Operation::Read, offset, bytes.len() as u64)?;
        self.device.read_metadata(self.offset + offset, bytes)
    }
}

/// A way to a device, until it is pulled: what used it before a power cut must not reach the drive
/// after it.
pub(super) struct Cable {
    device: Arc<dyn BlockDevice>,
    is_pulled: AtomicBool,
}

impl Cable {
    /// To this device.
    pub(super) fn new(device: Arc<dyn BlockDevice>) -> Cable {
        Cable { device, is_pulled: AtomicBool::new(false) }
    }

    /// From now on every request fails.
    pub(super) fn pull(&self) {
        self.is_pulled.store(true, Ordering::Relaxed);
    }

    fn check(&self) -> io::Result<()> {
        match self.is_pulled.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the power was cut")),
            false => Ok(()),
        }
    }
}

impl BlockDevice for Cable {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }

    fn submit(&self, request: Request) {
        match self.check() {
            Err(error) => request.complete(Err(error)),
            Ok(()) => self.device.submit(request),
        }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.device.capabilities();
        // Drives have no more than these.
        Capabilities {
            durable: None,
            remembers: None,
            congestion: below.congestion,
            holes: None,
            discard: None,
            metadata: below.metadata.map(|_| self as _),
            host_file: None,
            annex: below.annex,
        }
    }

    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        match self.check() {
            Err(error) => Completed { segments, result: Err(error) },
            Ok(()) => self.device.transfer(operation, offset, segments),
        }
    }
}

impl ReadsMetadata for Cable {
    fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.check()?;
        self.device.read_metadata(offset, bytes)
    }
}

/// What is on a simulated device, at once: for making and judging file systems outside of what is
/// measured.
pub(super) struct Contents(pub(super) Arc<SimDevice>);

impl Contents {
    fn memory(&self) -> &MemoryDevice {
        self.0.contents()
    }
}

impl BlockDevice for Contents {
    fn info(&self) -> DeviceInfo {
        self.memory().info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.memory().clock()
    }
    fn submit(&self, request: Request) {
        self.memory().submit(request);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        // What is made outside of a run is made by requests. Who judges a volume need not read
        // tables that were never written.
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: Some(self.memory()),
            discard: None,
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        self.memory().transfer(operation, offset, segments)
    }
}
