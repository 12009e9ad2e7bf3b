//! Which parts of a device hold data. The rest is known to be zeros without reading it.
//!
//! A table of inodes or a bitmap that was never written is a hole of a sparse image, and a
//! superblock may claim terabytes of them.
//!
//! [`KnowsHoles`](crate::KnowsHoles) asks the device; [`Holes`] remembers the last answer.
//!
//! *Invariants*: what is reported as a hole is zeros. One answer of the device is remembered, so
//! queries in the order of the disk cost one call for each stretch of data.
//! *Locking*: none; each thread has its own.
use crate::device::BlockDevice;
use std::io;
use std::ops::Range;

/// The last answer of a device.
#[derive(Clone, Debug, Default)]
pub struct Holes {
    /// Bytes that the answer covers: a hole, then data.
    known: Range<u64>,
    /// Where the data of `known` begins.
    data: u64,
}

impl Holes {
    /// The first bytes at or after `from` that may be data, up to the next hole; an empty range
    /// past the end if there are none.
    ///
    /// # Errors
    /// Those of the device.
    pub fn next_stretch(&mut self, device: &dyn BlockDevice, from: u64) -> io::Result<Range<u64>> {
        if !self.known.contains(&from) {
            let data = device.next_data(from)?.unwrap_or(u64::MAX..u64::MAX);
            self.known = from..data.end;
            self.data = data.start;
        }
        Ok(self.data.max(from)..self.known.end)
    }

    /// The first byte at or after `from` that may be data; `u64::MAX` if there is none.
    ///
    /// # Errors
    /// Those of the device.
    pub fn next_data(&mut self, device: &dyn BlockDevice, from: u64) -> io::Result<u64> {
        Ok(self.next_stretch(device, from)?.start)
    }

    /// Whether a range is known to be zeros. An empty range is.
    ///
    /// # Errors
    /// Those of the device.
    pub fn is_hole(&mut self, device: &dyn BlockDevice, bytes: Range<u64>) -> io::Result<bool> {
        Ok(bytes.is_empty() || self.next_data(device, bytes.start)? >= bytes.end)
    }
}

/// How many bytes of a device may be anything but zeros.
///
/// # Errors
/// Those of the device.
pub fn held_bytes(device: &dyn BlockDevice) -> io::Result<u64> {
    let (mut held, mut at) = (0_u64, 0);
    while let Some(data) = device.next_data(at)?.filter(|data| data.end > at) {
        held = held.saturating_add(data.end - data.start);
        at = data.end;
    }
    Ok(held)
}
