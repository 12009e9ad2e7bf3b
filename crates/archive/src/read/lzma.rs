//! The form of lzma that was before xz, `.lzma`: properties, the size of the dictionary and of the
//! content, and no checksum.
use lzma_rust2::LzmaReader;
use std::io::{self, Read};

/// More memory is not used, in KiB. `lzma -9` needs 65 MiB.
const MEMORY_KIB_MAX: u32 = 512 << 10;

/// Whether these are the first bytes of such a stream. It has no mark: properties that every writer
/// gives it, and a dictionary of 2^n or 2^n + 2^(n-1) bytes, are taken for one, as xz takes them.
pub(super) fn begins(first: &[u8]) -> bool {
    let [0x5d, a, b, c, d, ..] = *first else { return false };
    let size = u32::from_le_bytes([a, b, c, d]);
    let without_lowest = size & size.wrapping_sub(1);
    let is_one_and_a_half = without_lowest != 0 && without_lowest >> 1 == size ^ without_lowest;
    size >= 4096 && (without_lowest == 0 || is_one_and_a_half || size == u32::MAX)
}

/// What such a stream holds. Nothing is read before it is asked for bytes.
pub(super) struct Lzma<R> {
    input: Option<R>,
    /// `None` before the first byte and after the last.
    reader: Option<LzmaReader<R>>,
}

impl<R: Read> Lzma<R> {
    pub(super) fn new(input: R) -> Lzma<R> {
        Lzma { input: Some(input), reader: None }
    }
}

impl<R: Read> Read for Lzma<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(input) = self.input.take() {
            let mut reader =
                LzmaReader::new_mem_limit(input, MEMORY_KIB_MAX, None).map_err(damaged)?;
            // What is damaged is seen at the end at the latest, as far as the form shows it.
            reader.set_relaxed_end_condition(false);
            self.reader = Some(reader);
        }
        let Some(reader) = &mut self.reader else { return Ok(0) };
        let count = reader.read(buffer).map_err(damaged)?;
        if count == 0 && !buffer.is_empty() {
            let (mut input, mut rest) = match self.reader.take() {
                Some(reader) => reader.into_parts(),
                None => return Ok(0),
            };
            // Zeros of a tape may follow.
            while rest.iter().all(|byte| *byte == 0) {
                rest.clear();
                if (&mut input).take(64 << 10).read_to_end(&mut rest)? == 0 {
                    return Ok(0);
                }
            }
            let message = "invalid data after the end of lzma";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(count)
    }
}

/// An error of the kind that the others have.
fn damaged(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
            io::Error::new(io::ErrorKind::InvalidData, "invalid lzma data")
        }
        io::ErrorKind::OutOfMemory => {
            io::Error::new(io::ErrorKind::InvalidData, "lzma data that needs too much memory")
        }
        _ => error,
    }
}
