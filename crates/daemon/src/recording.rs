//! What a mount asks of its device, recorded for the laboratory.
//!
//! *Locking*: the records are under one short lock, not held while the device works.
// tidy: writers because this is a device, which passes on what it is asked
use extant_block::capability::{Capabilities, Remembers, WritesDurably};
use extant_block::device::{Completed, DeviceInfo, Operation, Request, Segment, segments_bytes};
use extant_block::{BlockDevice, Clock, ShortLock};
use extant_sim::trace::{TraceError, TraceFormat, TraceRecord, write};
use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests that are kept, at most: 320 MiB of them.
const RECORDS_MAX: usize = 8 << 20;

/// What a trace counts in.
const SECTOR_BYTES: u64 = 512;

/// One request. A flush has no bytes.
#[derive(Clone, Copy)]
struct Record {
    arrival_ns: u64,
    completion_ns: u64,
    offset: u64,
    bytes: u64,
    operation: Operation,
}

/// Passes requests on, and records when each came and ended. Reads that the host answers from
/// memory, without a request, are recorded too: another machine has to read them.
pub struct Recorded {
    device: Arc<dyn BlockDevice>,
    records: Arc<Records>,
}

/// What was recorded.
#[derive(Default)]
pub struct Records {
    kept: ShortLock<Vec<Record>>,
    left_out: AtomicU64,
}

impl Records {
    fn add(&self, record: Record) {
        let mut kept = self.kept.lock();
        match kept.len() < RECORDS_MAX {
            true => kept.push(record),
            false => drop(self.left_out.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Requests that came when no more were kept.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Writes all of them as the kernel's block layer does.
    ///
    /// # Errors
    /// The writer's; a place that the format cannot hold.
    pub fn write(&self, writer: &mut dyn Write) -> Result<(), TraceError> {
        let records: Vec<TraceRecord> = self.kept.lock().iter().map(plain).collect();
        write(TraceFormat::Blktrace, &records, "disk", writer)
    }
}

fn plain(record: &Record) -> TraceRecord {
    let Record { arrival_ns, completion_ns, operation, .. } = *record;
    // A trace counts in sectors: those that it touches.
    let offset = record.offset / SECTOR_BYTES * SECTOR_BYTES;
    let end = record.offset.saturating_add(record.bytes).next_multiple_of(SECTOR_BYTES);
    let bytes = if record.bytes == 0 { 0 } else { end - offset };
    // The host's queue is not seen from here.
    TraceRecord::plain(operation, offset, bytes, [arrival_ns, arrival_ns, completion_ns])
}

impl Recorded {
    /// Records what goes to this device.
    pub fn new(device: Arc<dyn BlockDevice>) -> (Recorded, Arc<Records>) {
        let records = Arc::new(Records::default());
        (Recorded { device, records: Arc::clone(&records) }, records)
    }

    fn note<T>(
        &self,
        operation: Operation,
        offset: u64,
        bytes: u64,
        work: impl FnOnce() -> T,
    ) -> T {
        let arrival_ns = self.clock().now();
        let result = work();
        let completion_ns = self.clock().now();
        self.records.add(Record { arrival_ns, completion_ns, offset, bytes, operation });
        result
    }
}

impl BlockDevice for Recorded {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        let (records, clock) = (Arc::clone(&self.records), Arc::clone(self.clock()));
        let arrival_ns = clock.now();
        let (operation, offset, bytes) = (request.operation, request.offset, request.bytes());
        let Request { segments, urgency, completion, .. } = request;
        let completion = Box::new(move |completed: Completed| {
            let completion_ns = clock.now();
            records.add(Record { arrival_ns, completion_ns, offset, bytes, operation });
            completion(completed);
        });
        self.device.submit(Request { operation, offset, segments, urgency, completion });
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.device.capabilities();
        // One forced write is one record, whatever it takes below; reads of metadata are reads;
        // what is read from the host's file itself would have no record. Traces have no discards.
        Capabilities {
            durable: Some(self),
            remembers: below.remembers.map(|_| self as _),
            congestion: below.congestion,
            holes: below.holes,
            discard: below.discard,
            metadata: None,
            host_file: None,
            annex: below.annex,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        let bytes = segments_bytes(&segments);
        self.note(operation, offset, bytes, || self.device.transfer(operation, offset, segments))
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        self.note(Operation::Read, offset, length, || self.device.read(offset, bytes))
    }
    fn write_vectored(&self, offset: u64, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.note(Operation::Write, offset, length, || self.device.write_vectored(offset, pieces))
    }
    fn flush(&self) -> io::Result<()> {
        self.note(Operation::Flush, 0, 0, || self.device.flush())
    }
}

impl WritesDurably for Recorded {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        self.note(Operation::Write, offset, length, || self.device.write_durable(offset, bytes))
    }
}

impl Remembers for Recorded {
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        let length = bytes.len() as u64;
        let (arrival_ns, read) = (self.clock().now(), self.device.read_remembered(offset, bytes));
        // Fewer bytes ask whether there is anything.
        if read as u64 >= SECTOR_BYTES {
            let (completion_ns, bytes) = (self.clock().now(), length.min(read as u64));
            let operation = Operation::Read;
            self.records.add(Record { arrival_ns, completion_ns, offset, bytes, operation });
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::{MemoryDevice, RealClock};
    use extant_sim::trace::read;

    #[test]
    fn what_is_asked_is_written_as_a_block_trace() {
        let memory = Arc::new(MemoryDevice::new(RealClock::new(), 1 << 20));
        let (device, records) = Recorded::new(memory);
        device.write(4096, &[1; 8192]).unwrap();
        device.flush().unwrap();
        device.read(5000, &mut [0; 3000]).unwrap();
        assert_eq!(device.read_remembered(0, &mut [0]), 1);
        let segments = vec![Segment::Owned(vec![0; 512])];
        device.transfer(Operation::Read, 0, segments).result.unwrap();
        let mut bytes = Vec::new();
        records.write(&mut bytes).unwrap();
        let seen: Vec<_> = read(TraceFormat::Blktrace, &bytes)
            .unwrap()
            .iter()
            .map(|record| (record.operation, record.offset, record.bytes))
            .collect();
        let expected = [
            (Operation::Write, 4096, 8192),
            (Operation::Flush, 0, 0),
            (Operation::Read, 4608, 3584),
            (Operation::Read, 0, 512),
        ];
        assert_eq!((seen.as_slice(), records.left_out()), (&expected[..], 0));
    }
}
