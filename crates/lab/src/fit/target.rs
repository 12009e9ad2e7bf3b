//! What is probed: something that takes requests at a depth and says how long each took.
use extant_block::Operation;
use std::io;

/// A request of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeRequest {
    /// Read, write or flush. Writes go to the part that may be written, from byte 0 on.
    pub operation: Operation,
    /// First byte; a multiple of the sector.
    pub offset: u64,
    /// How many; a multiple of the sector, 0 of a flush.
    pub bytes: u64,
    /// How long the device is left alone before it, in nanoseconds. Only at depth one.
    pub rest_ns: u64,
}

impl ProbeRequest {
    /// A read, right after the request before it.
    pub fn read(offset: u64, bytes: u64) -> ProbeRequest {
        ProbeRequest { operation: Operation::Read, offset, bytes, rest_ns: 0 }
    }

    /// A write, right after the request before it.
    pub fn write(offset: u64, bytes: u64) -> ProbeRequest {
        ProbeRequest { operation: Operation::Write, ..ProbeRequest::read(offset, bytes) }
    }

    /// A flush of what was written.
    pub fn flush() -> ProbeRequest {
        ProbeRequest { operation: Operation::Flush, ..ProbeRequest::read(0, 0) }
    }

    /// The same, after the device was left alone.
    pub fn after(self, rest_ns: u64) -> ProbeRequest {
        ProbeRequest { rest_ns, ..self }
    }
}

/// When a request was issued and when it ended, in nanoseconds of the target's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Issued.
    pub start_ns: u64,
    /// Ended.
    pub end_ns: u64,
}

impl Timing {
    /// How long it took.
    pub fn elapsed_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What is known of a target before it is probed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetFacts {
    /// As reports call it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The smallest unit, a power of two.
    pub sector_bytes: u32,
    /// How many bytes may be written; 0: none.
    pub write_bytes: u64,
}

/// Something that can be probed: a drive in virtual time, a file or device of the host, a device in
/// the process.
pub trait ProbeTarget {
    /// What it is.
    fn facts(&self) -> TargetFacts;

    /// The time of its clock in nanoseconds.
    fn now(&self) -> u64;

    /// Does the requests in their order, `depth` at a time: each is issued when one before it ended
    /// (a closed loop). None is issued at `deadline_ns` or later; the timings are those of the
    /// requests that were issued, in their order.
    ///
    /// # Errors
    /// Those of the device.
    fn run(
        &mut self,
        requests: &[ProbeRequest],
        depth: u32,
        deadline_ns: u64,
    ) -> io::Result<Vec<Timing>>;
}
