//! Holes of the host's files.
use rustix::fd::BorrowedFd;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::ops::Range;

/// The first stretch of a file of `size` bytes, at or after `at`, that is no hole; `None` if there
/// is none. All that is left, on a file system that knows no holes.
///
/// # Errors
/// The host's.
pub fn next_data(file: BorrowedFd<'_>, at: u64, size: u64) -> Result<Option<Range<u64>>, Errno> {
    if at >= size {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start.max(at),
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => return Ok(Some(at..size)),
        Err(error) => return Err(error),
    };
    let end = seek(file, SeekFrom::Hole(start))?.min(size);
    Ok((start < end).then_some(start..end))
}

/// All stretches of a file of `size` bytes that are no holes, rising.
///
/// # Errors
/// The host's.
pub fn pieces(file: BorrowedFd<'_>, size: u64) -> Result<Vec<Range<u64>>, Errno> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some(piece) = next_data(file, at, size)? {
        at = piece.end;
        pieces.push(piece);
    }
    Ok(pieces)
}
