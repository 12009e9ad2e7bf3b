//! A device, and another one behind it that belongs to it: a volume and the device of its journal.
//!
//! ```text
//! | own bytes ........ | gap | annex ........ |
//! 0                          a multiple of the largest block
//! ```
//!
//! *Invariants*: a request is one of the own bytes or one of the annex, and reaches that device
//! alone; what touches both, or the gap, is refused as a range past the end is. A flush makes both
//! durable.
//!
//! *Locking*: none.
// tidy: writers because it is a device, and hands on what it is asked to write
use extant_block::device::{pieces_bytes, segments_bytes};
use extant_block::{
    Annex, BlockDevice, Capabilities, Clock, Completed, DeviceError, DeviceInfo, Discards,
    KnowsHoles, Operation, ReadsMetadata, Remembers, Request, Segment, WritesDurably,
};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Blocks of no volume are larger: the annex begins with one of any size.
const BLOCK_BYTES_MAX: u64 = 65_536;

/// Two devices as one.
pub struct Joined {
    own: Arc<dyn BlockDevice>,
    behind: Arc<dyn BlockDevice>,
    annex: Annex,
    bytes: u64,
}

/// The device that a request goes to, and its first byte there.
struct Aim<'a> {
    device: &'a Arc<dyn BlockDevice>,
    offset: u64,
}

impl Joined {
    /// `own` with `behind` as its annex. Both are on the same clock, and neither has an annex.
    pub fn new(own: Arc<dyn BlockDevice>, behind: Arc<dyn BlockDevice>) -> Joined {
        let own_bytes = own.info().bytes;
        let annex = Annex { own_bytes, start: own_bytes.next_multiple_of(BLOCK_BYTES_MAX) };
        let bytes = annex.start.saturating_add(behind.info().bytes);
        Joined { own, behind, annex, bytes }
    }

    /// Where a range of bytes is.
    fn aim(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<Aim<'_>> {
        let within = offset.checked_sub(self.annex.start);
        let (device, offset, length) = match within {
            Some(within) => (&self.behind, within, self.bytes - self.annex.start),
            None => (&self.own, offset, self.annex.own_bytes),
        };
        if offset.checked_add(bytes).is_some_and(|end| end <= length) {
            return Ok(Aim { device, offset });
        }
        let kind = match operation {
            Operation::Write => io::ErrorKind::InvalidInput,
            Operation::Read | Operation::Flush => io::ErrorKind::UnexpectedEof,
        };
        let said = format!("{bytes} bytes reach past the end of the device at byte {length}");
        let (source, device) = (io::Error::new(kind, said), device.info().name);
        Err(DeviceError { device, operation, offset, source }.into())
    }
}

impl BlockDevice for Joined {
    fn info(&self) -> DeviceInfo {
        let (own, behind) = (self.own.info(), self.behind.info());
        DeviceInfo {
            bytes: self.bytes,
            sector_bytes: own.sector_bytes.max(behind.sector_bytes),
            read_only: own.read_only || behind.read_only,
            name: own.name,
        }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.own.clock()
    }
    fn submit(&self, request: Request) {
        if request.operation == Operation::Flush {
            return self.own.submit(flush_of_both(request, Arc::clone(&self.behind)));
        }
        match self.aim(request.operation, request.offset, request.bytes()) {
            Ok(Aim { device, offset }) => device.submit(Request { offset, ..request }),
            Err(error) => request.complete(Err(error)),
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let (own, behind) = (self.own.capabilities(), self.behind.capabilities());
        Capabilities {
            durable: own.durable.and(behind.durable).map(|_| self as _),
            remembers: own.remembers.map(|_| self as _),
            // The journal's queue is another one.
            congestion: own.congestion,
            holes: own.holes.map(|_| self as _),
            discard: own.discard.map(|_| self as _),
            metadata: own.metadata.map(|_| self as _),
            // The annex is in no file that the own bytes are in.
            host_file: None,
            annex: Some(self.annex),
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        if operation == Operation::Flush {
            return Completed { segments, result: self.flush() };
        }
        match self.aim(operation, offset, segments_bytes(&segments)) {
            Ok(Aim { device, offset }) => device.transfer(operation, offset, segments),
            Err(error) => Completed { segments, result: Err(error) },
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let aim = self.aim(Operation::Read, offset, bytes.len() as u64)?;
        aim.device.read(aim.offset, bytes)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let aim = self.aim(Operation::Write, offset, bytes.len() as u64)?;
        aim.device.write(aim.offset, bytes)
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        let aim = self.aim(Operation::Write, offset, pieces_bytes(pieces))?;
        aim.device.write_vectored(aim.offset, pieces)
    }
    fn flush(&self) -> io::Result<()> {
        // What could not be made durable on one device may be on the other.
        let own = self.own.flush();
        self.behind.flush().and(own)
    }
}

/// A flush of the first device that goes on to the second.
fn flush_of_both(request: Request, behind: Arc<dyn BlockDevice>) -> Request {
    let Request { operation, offset, segments, urgency, completion } = request;
    let then = move |own: Completed| {
        let Completed { segments, result } = own;
        behind.submit(Request {
            operation,
            offset,
            segments,
            urgency,
            completion: Box::new(move |both: Completed| {
                let Completed { segments, result: second } = both;
                completion(Completed { segments, result: result.and(second) });
            }),
        });
    };
    Request { operation, offset, segments, urgency, completion: Box::new(then) }
}

impl WritesDurably for Joined {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let aim = self.aim(Operation::Write, offset, bytes.len() as u64)?;
        aim.device.write_durable(aim.offset, bytes)
    }
}

impl Remembers for Joined {
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        match self.aim(Operation::Read, offset, bytes.len() as u64) {
            Ok(aim) => aim.device.read_remembered(aim.offset, bytes),
            Err(_) => 0,
        }
    }
}

impl KnowsHoles for Joined {
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let start = self.annex.start;
        if offset < self.annex.own_bytes
            && let Some(data) = self.own.next_data(offset)?
        {
            return Ok(Some(data));
        }
        let data = self.behind.next_data(offset.saturating_sub(start))?;
        Ok(data.map(|data| data.start + start..data.end + start))
    }
}

impl Discards for Joined {
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let aim = self.aim(Operation::Write, offset, bytes)?;
        aim.device.discard(aim.offset, bytes)
    }
}

impl ReadsMetadata for Joined {
    fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let aim = self.aim(Operation::Read, offset, bytes.len() as u64)?;
        aim.device.read_metadata(aim.offset, bytes)
    }
}
