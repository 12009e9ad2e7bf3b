//! Whether a file or device holds something that a new file system would destroy.
//!
//! A superblock or a partition table is named. Where there is none, any byte that is not zero
//! counts. Holes are skipped, so a sparse file is looked at from end to end; of data that is all
//! zeros a bounded part is read.
use crate::error::Error;
use crate::recognise;
use extant_block::file::Access;
use extant_block::{BlockDevice, FileDevice, RealClock};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Where partition tools begin the first partition.
pub(crate) const FIRST_PARTITION: u64 = 1 << 20;
/// Bytes that are read at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of data of a file that are read, from its first data on.
const FILE_BYTES: u64 = 64 << 20;
/// Bytes of a device that are read: one that was wiped has old bytes further in.
const DEVICE_BYTES: u64 = 1 << 20;
/// Where the first copy of the superblock is with blocks of 4 KiB: further in than what is read.
const FIRST_COPY: u64 = 128 << 20;

/// What is looked at: a file is looked at more thoroughly than a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A regular file, any byte of which may be of use.
    File,
    /// A block device.
    Device,
}

/// Refuses a file or device that holds something within `range`, in bytes. What is beyond its end
/// is empty.
///
/// # Errors
/// What it holds, and at which byte; the host's.
pub fn check_empty(image: &Path, range: Range<u64>, medium: Medium) -> Result<(), Error> {
    let failed = |error: io::Error| Error::io(image.display(), &error);
    let device = FileDevice::open(RealClock::new(), image, Access::ReadOnly, 0).map_err(failed)?;
    let range = range.start..range.end.min(device.info().bytes);
    if range.is_empty() {
        return Ok(());
    }
    let refused = |held: &str| Error::new(format!("{}: holds {held}", image.display()));
    for (start, place) in
        [(0, String::new()), (FIRST_PARTITION, at_byte(range.start + FIRST_PARTITION))]
    {
        let start = range.start.saturating_add(start);
        if start >= range.end {
            break;
        }
        if let Some(name) = recognise::held(&recognise::head(&device, start)) {
            return Err(refused(&format!("{name}{place}")).hint("--force writes over it"));
        }
    }
    match first_byte(&device, &range, medium).map_err(failed)? {
        Some(at) => Err(refused(&format!("data{}", at_byte(at))).hint("--force writes over it")),
        None => Ok(()),
    }
}

fn at_byte(byte: u64) -> String {
    format!(" at byte {byte}")
}

/// The first byte that is not zero, of those that are looked at.
fn first_byte(
    device: &dyn BlockDevice,
    range: &Range<u64>,
    medium: Medium,
) -> io::Result<Option<u64>> {
    let mut left = match medium {
        Medium::File => FILE_BYTES,
        Medium::Device => DEVICE_BYTES,
    };
    let mut at = range.start;
    while left > 0 {
        let Some(data) = device.next_data(at)?.filter(|data| data.start < range.end) else {
            return Ok(None);
        };
        let start = data.start.max(at);
        let piece = start..data.end.min(range.end).min(start + PIECE_BYTES.min(left));
        if let Some(found) = not_zero(device, &piece)? {
            return Ok(Some(found));
        }
        left -= piece.end - piece.start;
        at = piece.end;
        if at >= range.end {
            return Ok(None);
        }
    }
    if medium == Medium::Device {
        return Ok(None);
    }
    for start in [FIRST_COPY.saturating_add(range.start), range.end.saturating_sub(PIECE_BYTES)] {
        let start = start.max(at).min(range.end);
        let piece = start..range.end.min(start + PIECE_BYTES);
        if let Some(found) = not_zero(device, &piece)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn not_zero(device: &dyn BlockDevice, piece: &Range<u64>) -> io::Result<Option<u64>> {
    let length = piece.end.saturating_sub(piece.start).min(PIECE_BYTES);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    device.read(piece.start, &mut bytes)?;
    let found = bytes.iter().position(|byte| *byte != 0);
    Ok(found.map(|index| piece.start + index as u64))
}
