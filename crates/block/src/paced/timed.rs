//! A device whose reads are timed.
//!
//! *Locking*: `pace` is a short lock under which no other is taken; it is not held while the device
//! is called.
use super::pace::{Pace, Sent, Worth};
use crate::capability::Capabilities;
use crate::clock::Clock;
use crate::device::segments_bytes;
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment};
use crate::lock::ShortLock;
use std::io;
use std::sync::Arc;

/// Passes everything on, and learns from reads.
pub(super) struct Timed {
    device: Arc<dyn BlockDevice>,
    pace: Arc<ShortLock<Pace>>,
}

/// A read under way. If it is dropped, it has ended.
struct UnderWay {
    pace: Arc<ShortLock<Pace>>,
    clock: Arc<dyn Clock>,
    sent: Sent,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let now_ns = self.clock.now();
        self.pace.lock().end(self.sent, now_ns);
    }
}

impl Timed {
    /// Nothing is known of the device yet.
    pub(super) fn new(device: Arc<dyn BlockDevice>) -> Timed {
        Timed { device, pace: Arc::new(ShortLock::new(Pace::default())) }
    }

    /// What is known of it now.
    pub(super) fn worth(&self) -> Worth {
        self.pace.lock().worth()
    }

    fn begin(&self, bytes: u64) -> UnderWay {
        let now_ns = self.clock().now();
        let sent = self.pace.lock().send(bytes, now_ns);
        UnderWay { pace: Arc::clone(&self.pace), clock: Arc::clone(self.clock()), sent }
    }
}

impl BlockDevice for Timed {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        if request.operation != Operation::Read {
            return self.device.submit(request);
        }
        let under_way = self.begin(request.bytes());
        let completion = request.completion;
        let completion = Box::new(move |completed| {
            drop(under_way);
            completion(completed);
        });
        self.device.submit(Request { completion, ..request });
    }
    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.device.capabilities();
        // Reads of metadata are timed as any other.
        Capabilities {
            durable: below.durable,
            remembers: below.remembers,
            congestion: below.congestion,
            holes: below.holes,
            discard: below.discard,
            metadata: None,
            host_file: below.host_file,
            annex: below.annex,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        let reads = operation == Operation::Read;
        let under_way = reads.then(|| self.begin(segments_bytes(&segments)));
        let completed = self.device.transfer(operation, offset, segments);
        drop(under_way);
        completed
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let under_way = self.begin(bytes.len() as u64);
        let read = self.device.read(offset, bytes);
        drop(under_way);
        read
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        self.device.write_vectored(offset, pieces)
    }
    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }
}
