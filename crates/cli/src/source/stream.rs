//! Archives that come only once: compressed ones, and pipes. Bodies go to a spool, an unlinked file
//! that holds them end to end without headers and holes; from then on they are ranges of a file
//! like those of a plain archive.
//!
//! Which libraries: flate2 on zlib-rs (510-660 MB/s of the linux-6.1 tree, no C), lzma-rust2 (140
//! MB/s, no C; the C library 165), zstd on the C library (1.3 GB/s; the one in Rust 400).
use super::gzip::Gzip;
use crate::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Cursor, Read, Write};
use std::path::Path;

/// How an archive is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstandard,
    Xz,
    /// Known, but not read: the tool that does.
    Foreign(&'static str),
}

/// Bytes that are enough to know the compression.
pub(super) const MAGIC_BYTES: usize = 6;
/// Decompressed bytes at hand, and spooled bytes before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// Tells by the first bytes.
pub(super) fn compression(start: &[u8]) -> Compression {
    match start {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstandard,
        // A skippable frame before the first.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstandard,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Foreign("bzip2"),
        [0x04, 0x22, 0x4d, 0x18, ..] => Compression::Foreign("lz4"),
        [b'L', b'Z', b'I', b'P', ..] => Compression::Foreign("lzip"),
        [0x1f, 0x9d, ..] => Compression::Foreign("compress"),
        _ => Compression::None,
    }
}

/// A stream of an archive, decompressed, and the spool for its bodies.
pub(super) struct Stream {
    reader: Box<dyn BufRead>,
    spool: BufWriter<File>,
    spooled: u64,
    /// Whether reading to the very end checks something: the sum at the end of a compressed stream.
    compressed: bool,
}

/// Why a stream stopped.
pub(super) enum StreamError {
    /// It ended.
    End,
    /// The archive could not be read, or decompressed.
    Read(io::Error),
    /// The spool could not be written.
    Spool(io::Error),
}

impl Stream {
    /// A stream whose first bytes were read already, into `start`.
    pub(super) fn new(
        file: File,
        start: Vec<u8>,
        folder: Option<&Path>,
    ) -> Result<(Stream, File), Error> {
        let compression = compression(&start);
        let input = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(start).chain(file));
        let reader: Box<dyn BufRead> = match compression {
            Compression::Gzip => buffered(Gzip::new(input)),
            Compression::Xz => buffered(lzma_rust2::XzReader::new(input, true)),
            Compression::Zstandard => {
                let decoder = zstd::stream::read::Decoder::with_buffer(input);
                buffered(decoder.map_err(|error| Error::io("zstd", &error))?)
            }
            Compression::None | Compression::Foreign(_) => Box::new(input),
        };
        let (spool, copy) = spool(folder)?;
        let spool = BufWriter::with_capacity(BUFFER_BYTES, spool);
        Ok((
            Stream { reader, spool, spooled: 0, compressed: compression != Compression::None },
            copy,
        ))
    }

    /// Fills the buffer as far as the stream goes; how far.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.reader.read(&mut buffer[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(error)),
            }
        }
        Ok(done)
    }

    /// Passes over so many bytes, and keeps them in the spool if wanted. Where they start there.
    pub(super) fn pass(&mut self, length: u64, keep: Keep) -> Result<u64, StreamError> {
        let start = self.spooled;
        let mut left = length;
        while left > 0 {
            let piece = match self.reader.fill_buf() {
                Ok([]) => return Err(StreamError::End),
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(read_error(error)),
            };
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            if keep == Keep::Spool {
                self.spool.write_all(&piece[..count]).map_err(StreamError::Spool)?;
                self.spooled += count as u64;
            }
            self.reader.consume(count);
            left -= count as u64;
        }
        Ok(start)
    }

    /// The archive has ended: reads a compressed stream to its end, where its checksum is, and
    /// writes out the spool.
    pub(super) fn finish(&mut self) -> Result<(), StreamError> {
        // A pipe is emptied a little, so that its writer is not killed for the padding behind the
        // archive.
        let mut left: u64 = if self.compressed { u64::MAX } else { 1 << 20 };
        while left > 0 {
            match self.reader.fill_buf() {
                Ok([]) => break,
                Ok(piece) => {
                    let count = piece.len();
                    self.reader.consume(count);
                    left = left.saturating_sub(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(error)),
            }
        }
        self.spool.flush().map_err(StreamError::Spool)
    }
}

/// Whether passed bytes are needed later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Spool,
    Nothing,
}

fn buffered(reader: impl Read + 'static) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, reader))
}

/// A decompressor that meets the end too early says so in its own way.
fn read_error(error: io::Error) -> StreamError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => StreamError::End,
        _ => StreamError::Read(error),
    }
}

/// An unlinked file, twice open: to write, and to read later.
fn spool(folder: Option<&Path>) -> Result<(File, File), Error> {
    let made = match folder {
        Some(folder) => tempfile::tempfile_in(folder),
        None => tempfile::tempfile(),
    };
    let copied = made.and_then(|file| file.try_clone().map(|copy| (file, copy)));
    copied.map_err(|error| spool_error(folder, &error))
}

/// A spool that cannot be made or written.
pub(super) fn spool_error(folder: Option<&Path>, error: &io::Error) -> Error {
    let folder = folder.map_or_else(std::env::temp_dir, Path::to_owned);
    Error::new(format!(
        "{}: the archive's files cannot be kept here: {}",
        folder.display(),
        crate::error::reason(error)
    ))
    .hint(
        "an archive that comes only once needs room for its files twice: set TMPDIR, or unpack \
        it to a plain .tar",
    )
}
