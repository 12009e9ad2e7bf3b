//! Bytes of a closed volume that nothing reads become holes, or zeros.
//!
//! *Invariants*: nothing outside of the ranges given is written; after success all of them read as
//! zeros.
use extant_block::BlockDevice;
use std::io;
use std::ops::Range;

/// Bytes that are looked at in one go.
const PIECE_BYTES: u64 = 1 << 20;

/// What takes the place of bytes that nothing reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emptying {
    /// Nothing: a hole of the file, or blocks that the device gives back; zeros where it cannot.
    Holes,
    /// Zeros are written where anything else is.
    Zeros,
}

/// Whether bytes are emptied, or only counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// They are emptied, durably.
    All,
    /// Nothing is written.
    Nothing,
}

/// How many bytes of ranges are no holes yet, or no zeros: those that are emptied.
///
/// # Errors
/// The device's; what was emptied before that is.
pub fn empty(
    device: &dyn BlockDevice,
    ranges: &[Range<u64>],
    (emptying, doing): (Emptying, Doing),
) -> io::Result<u64> {
    let mut emptied = 0_u64;
    for range in ranges {
        let mut at = range.start;
        while let Some(data) = next_data(device, at..range.end)? {
            at = data.end;
            let bytes = match (emptying, doing) {
                (Emptying::Holes, Doing::Nothing) => data.end - data.start,
                (Emptying::Holes, Doing::All) => hole(device, data)?,
                (Emptying::Zeros, _) => zeros(device, data, doing)?,
            };
            emptied = emptied.saturating_add(bytes);
        }
    }
    if doing == Doing::All && emptied > 0 {
        // tidy: writers because the volume is closed, and nothing reads what was written
        device.flush()?;
    }
    Ok(emptied)
}

/// The first stretch of a range that is no hole.
fn next_data(device: &dyn BlockDevice, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
    if range.start >= range.end {
        return Ok(None);
    }
    let found = device.next_data(range.start)?;
    let found = found.map(|data| data.start.max(range.start)..data.end.min(range.end));
    Ok(found.filter(|data| data.start < data.end))
}

/// Gives a stretch back, and makes sure that zeros are in its place.
fn hole(device: &dyn BlockDevice, data: Range<u64>) -> io::Result<u64> {
    let bytes = data.end - data.start;
    match device.discard(data.start, bytes) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            return zeros(device, data, Doing::All);
        }
        discarded => discarded?,
    }
    // What is given back may read as anything.
    let mut at = data.start;
    while let Some(left) = next_data(device, at..data.end)? {
        at = left.end;
        zeros(device, left, Doing::All)?;
    }
    Ok(bytes)
}

/// Writes zeros to those pieces of a stretch that are none.
fn zeros(device: &dyn BlockDevice, data: Range<u64>, doing: Doing) -> io::Result<u64> {
    let mut piece = Vec::new();
    let (mut at, mut written) = (data.start, 0_u64);
    while at < data.end {
        let length = (data.end - at).min(PIECE_BYTES);
        piece.resize(usize::try_from(length).unwrap_or(0), 0);
        device.read(at, &mut piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            written = written.saturating_add(length);
            if doing == Doing::All {
                piece.fill(0);
                // tidy: writers because the volume is closed, and nothing reads these bytes
                device.write(at, &piece)?;
            }
        }
        at = at.saturating_add(length);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::{MemoryDevice, RealClock};

    #[test]
    fn what_is_named_is_emptied_and_nothing_beside_it() {
        for emptying in [Emptying::Holes, Emptying::Zeros] {
            let device = MemoryDevice::from_bytes(RealClock::new(), &vec![7; 5 << 20]);
            let ranges = [1000..3000, (1 << 20)..(1 << 20) + 1, (2 << 20) + 5..(5 << 20) - 5];
            let count: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            let counted = empty(&device, &ranges, (emptying, Doing::Nothing)).unwrap();
            assert_eq!(counted, count, "{emptying:?}");
            assert_eq!(empty(&device, &ranges, (emptying, Doing::All)).unwrap(), count);
            let mut bytes = vec![0; 5 << 20];
            device.read(0, &mut bytes).unwrap();
            for (at, byte) in (0_u64..).zip(&bytes) {
                let is_emptied = ranges.iter().any(|range| range.contains(&at));
                assert_eq!(*byte, if is_emptied { 0 } else { 7 }, "{emptying:?}: byte {at}");
            }
            let again = empty(&device, &ranges, (Emptying::Zeros, Doing::Nothing)).unwrap();
            assert_eq!(again, 0);
        }
    }
}
