//! Frames that are passed over: zstd and lz4 have the same.
use std::io::{self, Read};

/// Passes over such a frame: its mark, its length in four bytes, and its content.
///
/// # Errors
/// Those of the input; `UnexpectedEof` within the frame.
pub(super) fn skip(input: &mut impl Read) -> io::Result<()> {
    let mut head = [0; 8];
    input.read_exact(&mut head)?;
    let [_, _, _, _, length @ ..] = head;
    let length = u64::from(u32::from_le_bytes(length));
    match io::copy(&mut input.take(length), &mut io::sink())? == length {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
