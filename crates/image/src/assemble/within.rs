//! A volume that is laid out on more bytes than it will have, in a place that ends where it will
//! end: what is after that stays as it is.
//!
//! *Invariants*: the device below ends where the volume will end, so nothing can be written after
//! that. What is written there nevertheless is kept in memory, and gone when the volume is cut.
//!
//! *Locking*: none here.
use extant_block::capability::Capabilities;
use extant_block::{
    BlockDevice, Clock, Completed, DeviceInfo, MemoryDevice, Operation, Request, Segment,
};
use std::io;
use std::sync::Arc;

/// A device, and memory after its end.
pub struct Within {
    front: Arc<dyn BlockDevice>,
    front_bytes: u64,
    rest: MemoryDevice,
    bytes: u64,
}

/// Which of the two holds a range.
enum Side {
    Front,
    /// From this byte of it on.
    Rest(u64),
}

impl Within {
    /// A device of `bytes`, of which the first are those of `front`.
    pub fn new(front: Arc<dyn BlockDevice>, bytes: u64) -> Within {
        let front_bytes = front.info().bytes;
        let rest = bytes.saturating_sub(front_bytes);
        let rest = MemoryDevice::new(Arc::clone(front.clock()), rest);
        Within { front, front_bytes, rest, bytes }
    }

    /// # Errors
    /// `InvalidInput` for a range in both: nothing of a volume crosses its end.
    fn side(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<Side> {
        match offset.checked_sub(self.front_bytes) {
            _ if operation == Operation::Flush => Ok(Side::Front),
            Some(offset) => Ok(Side::Rest(offset)),
            None if bytes <= self.front_bytes - offset => Ok(Side::Front),
            None => {
                let name = self.front.info().name;
                let end = self.front_bytes;
                let text = format!("{name}: {bytes} bytes from {offset} on cross its end at {end}");
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        }
    }
}

impl BlockDevice for Within {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { bytes: self.bytes, ..self.front.info() }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.front.clock()
    }
    fn submit(&self, request: Request) {
        match self.side(request.operation, request.offset, request.bytes()) {
            Ok(Side::Front) => self.front.submit(request),
            Ok(Side::Rest(offset)) => self.rest.submit(Request { offset, ..request }),
            Err(error) => request.complete(Err(error)),
        }
    }
    fn capabilities(&self) -> Capabilities<'_> {
        // Two devices end to end: none of these is of both.
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: None,
            discard: None,
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        let bytes = segments.iter().map(|segment| segment.bytes() as u64).sum();
        match self.side(operation, offset, bytes) {
            Ok(Side::Front) => self.front.transfer(operation, offset, segments),
            Ok(Side::Rest(offset)) => self.rest.transfer(operation, offset, segments),
            Err(error) => Completed { segments, result: Err(error) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::{FileDevice, RealClock};
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_after_the_end_stays() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 12288], 0).unwrap();
        let clock = RealClock::new();
        let copy = file.try_clone().unwrap();
        let front = FileDevice::from_file(clock, copy, "disk".into(), 4096, 4096).unwrap();
        let device = Within::new(Arc::new(front), 16384);
        assert_eq!(device.info().bytes, 16384);
        device.write(0, &[1; 4096]).unwrap();
        device.write(4096, &[2; 8192]).unwrap();
        let mut read = [0; 4096];
        device.read(8192, &mut read).unwrap();
        assert_eq!(read, [2; 4096], "it is as if it were there");
        assert!(device.write(2048, &[3; 4096]).is_err(), "it crosses the end");
        assert!(device.write(12288, &[3; 8192]).is_err(), "it is past the end");
        device.flush().unwrap();
        let mut all = [0; 12288];
        file.read_exact_at(&mut all, 0).unwrap();
        let (before, rest) = all.split_at(4096);
        assert_eq!((before, rest), (&[7; 4096][..], &[[1; 4096], [7; 4096]].concat()[..]));
        assert_eq!(file.metadata().unwrap().len(), 12288);
    }
}
