//! How an archive ends: two blocks of zeros, as the standard has it, or less than that.
//!
//! Nothing is lost when an archive ends after a whole entry without its mark, and every other tar
//! reads such an archive. But one that was cut off there looks the same: the caller learns it, and
//! decides. Within an entry an archive is cut off, which is always an error.
use super::header::Header;
use super::input::Input;
use super::members::TrailingBytes;
use crate::block::BLOCK_BYTES;
use crate::error::ErrorKind;

/// Bytes after the end that are looked at, in a file and in a pipe: as many as the largest record
/// that tapes had.
const LOOKED_AT_BYTES: usize = 1 << 20;

/// What was found where an entry could begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Two blocks of zeros, and nothing but zeros after them.
    Marked,
    /// The last byte, or less than two blocks of zeros.
    Unmarked,
    /// Zeros, and after them a block that is a header: another archive, or more of this one.
    ThenArchive,
    /// Zeros, and after them something else.
    ThenBytes,
    /// As it should be, but after the last member that gzip or bzip2 compressed there is something
    /// that is none.
    PackedThenBytes,
    /// The entry that ends an archive of cpio, and after it something else than zeros.
    TrailerThenBytes,
}

impl End {
    /// A sentence without a subject; `None` for an end as it should be.
    pub fn sentence(self) -> Option<&'static str> {
        match self {
            End::Marked => None,
            End::Unmarked => Some("does not end with two blocks of zeros"),
            End::ThenArchive => {
                Some("has more entries after the zeros that end it, which are not read")
            }
            End::PackedThenBytes => Some("has bytes after its compressed data, which are not read"),
            End::TrailerThenBytes => {
                Some("has bytes after the entry that ends it, which are not read")
            }
            End::ThenBytes => Some("has bytes after the zeros that end it, which are not read"),
        }
    }
}

/// Judges what follows a first block of zeros, as far as it is looked at.
pub(super) fn after_zeros(input: &mut Input) -> Result<End, ErrorKind> {
    let mut block = [0; BLOCK_BYTES];
    let mut end = End::Unmarked;
    for _ in 0..LOOKED_AT_BYTES / BLOCK_BYTES {
        let length = match input.read(&mut block) {
            Err(error) if end == End::Marked && is_trailing(&error) => {
                return Ok(End::PackedThenBytes);
            }
            read => read?,
        };
        if block[..length].iter().any(|byte| *byte != 0) {
            let is_header = length == BLOCK_BYTES && Header::parse(&block).is_some();
            return Ok(if is_header { End::ThenArchive } else { End::ThenBytes });
        }
        if length < BLOCK_BYTES {
            break;
        }
        end = End::Marked;
    }
    Ok(end)
}

/// Judges what follows the entry that ends an archive of cpio, as far as it is looked at.
pub(super) fn after_trailer(input: &mut Input) -> Result<End, ErrorKind> {
    let mut block = [0; BLOCK_BYTES];
    for _ in 0..LOOKED_AT_BYTES / BLOCK_BYTES {
        let length = match input.read(&mut block) {
            Err(error) if is_trailing(&error) => return Ok(End::PackedThenBytes),
            read => read?,
        };
        if block[..length].iter().any(|byte| *byte != 0) {
            return Ok(End::TrailerThenBytes);
        }
        if length < BLOCK_BYTES {
            break;
        }
    }
    Ok(End::Marked)
}

/// The archive has ended in that way: reads the rest of its stream. How it ended with the rest.
pub(super) fn finish(input: &mut Input, end: End) -> Result<End, ErrorKind> {
    match input.finish() {
        Err(error) if end != End::Unmarked && is_trailing(&error) => {
            // Nothing comes after an error of a stream: what is kept of it is still to be finished.
            input.finish()?;
            Ok(if end == End::Marked { End::PackedThenBytes } else { end })
        }
        finished => finished.map(|()| end),
    }
}

/// Whether an archive whose end was seen lacks nothing, though its stream cannot be read on.
fn is_trailing(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Read(error) if TrailingBytes::are_why(error))
}
