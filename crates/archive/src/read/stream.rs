//! Archives that come only once: compressed ones, and pipes. Bodies go to a spool, a file without a
//! name that holds them end to end without headers and holes; from then on they are ranges of a
//! file like those of a plain archive.
//!
//! A thread of its own decompresses (`ahead`), several where the stream has parts (`parallel`),
//! while this one writes the spool.
//!
//! Which libraries: flate2 on zlib-rs (510-660 MB/s of the linux-6.1 tree, no C), lzma-rust2 (140
//! MB/s, no C; the C library 165), zstd on the C library (1.3 GB/s; the one in Rust 400).
use super::ahead::Ahead;
use super::gzip::Gzip;
use super::parallel::{Blocks, Frames, Parallel};
use crate::error::ErrorKind;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Cursor, Read, Write};
use std::num::NonZero;

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
/// Compressed bytes at hand, and spooled bytes before they are written.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes of padding that are read from a pipe after its archive, so that its writer is not killed
/// for them.
const PIPE_REST_BYTES: u64 = 1 << 20;

/// The compression, by the first bytes of a file.
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
pub(super) struct SpooledStream {
    reader: Ahead,
    /// `None` where bodies are not kept.
    spool: Option<BufWriter<File>>,
    spooled_bytes: u64,
    /// Where bodies without holes go in place of the spool.
    sink: Option<Box<dyn BodySink>>,
    /// Bytes after the archive that are read: all of a compressed stream, because a checksum is at
    /// its end, and all of what is observed.
    rest_bytes: u64,
}

/// Sees the bytes of an archive, decompressed, all of them and in their order, on the thread that
/// decompresses.
pub type Observer = Box<dyn FnMut(&[u8]) + Send>;

/// How an archive is read that comes only once.
#[derive(Default)]
pub struct StreamOptions {
    /// Takes bodies without holes in place of the spool.
    pub sink: Option<Box<dyn BodySink>>,
    /// Sees every byte, up to the end of what follows the archive too.
    pub observer: Option<Observer>,
    /// Threads that decompress; as many as the host has processors for if `None`.
    pub threads: Option<NonZero<usize>>,
}

/// A decompressed stream that is observed.
struct Observed<R> {
    reader: R,
    observer: Option<Observer>,
}

impl<R: Read> Read for Observed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if let Some(observer) = &mut self.observer {
            observer(&buffer[..count]);
        }
        Ok(count)
    }
}

/// Whether passed bytes are needed later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Spool,
    /// The sink takes them; without one, the spool.
    Sink,
    Nothing,
}

/// Takes the bodies of an archive as they come, in place of a spool.
pub trait BodySink: Send {
    /// A body of this many bytes, at least 1, begins. Returns what [`crate::Body::offset`] is to
    /// be.
    ///
    /// # Errors
    /// It cannot be kept.
    fn begin(&mut self, bytes: u64) -> io::Result<u64>;
    /// More bytes of the body that began last.
    ///
    /// # Errors
    /// They cannot be kept.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// The archive has ended.
    ///
    /// # Errors
    /// What came before cannot be kept.
    fn finish(&mut self) -> io::Result<()>;
}

impl SpooledStream {
    /// A stream whose first bytes were read already, into `start`.
    ///
    /// # Errors
    /// The decompressor, or its thread, cannot be made.
    pub(super) fn new(
        rest: impl Read + Send + 'static,
        start: Vec<u8>,
        spool: Option<File>,
        options: StreamOptions,
    ) -> io::Result<SpooledStream> {
        let compression = compression(&start);
        let StreamOptions { sink, observer, threads } = options;
        let rest_bytes = match (compression, &observer) {
            (Compression::None | Compression::Foreign(_), None) => PIPE_REST_BYTES,
            _ => u64::MAX,
        };
        let input = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(start).chain(rest));
        let reader = match compression {
            Compression::Gzip => Ahead::new(Observed { reader: Gzip::new(input), observer }),
            Compression::Xz => {
                let reader = lzma_rust2::XzReader::new(input, true);
                Ahead::new(Observed { reader, observer })
            }
            Compression::Zstandard => {
                let reader = Parallel::new(Frames::new(input), threads);
                Ahead::new(Observed { reader, observer })
            }
            Compression::None | Compression::Foreign(_) => {
                Ahead::new(Observed { reader: input, observer })
            }
        };
        let mut stream = SpooledStream::begin(reader?, rest_bytes, spool);
        stream.sink = sink;
        Ok(stream)
    }

    /// A file of xz whose blocks are known.
    ///
    /// # Errors
    /// The host makes no thread.
    pub(super) fn of_blocks(
        blocks: Blocks,
        spool: Option<File>,
        sink: Option<Box<dyn BodySink>>,
    ) -> io::Result<SpooledStream> {
        let reader = Ahead::new(Parallel::new(blocks, None))?;
        let mut stream = SpooledStream::begin(reader, u64::MAX, spool);
        stream.sink = sink;
        Ok(stream)
    }

    fn begin(reader: Ahead, rest_bytes: u64, spool: Option<File>) -> SpooledStream {
        let spool = spool.map(|file| BufWriter::with_capacity(BUFFER_BYTES, file));
        SpooledStream { reader, spool, spooled_bytes: 0, sink: None, rest_bytes }
    }

    /// Fills the buffer as far as the stream goes; how far.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ErrorKind> {
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

    /// Passes over that many bytes, and keeps them in the spool if wanted. Where they start there.
    pub(super) fn pass(&mut self, length: u64, keep: Keep) -> Result<u64, ErrorKind> {
        let keep = match keep {
            Keep::Sink if self.sink.is_none() => Keep::Spool,
            keep => keep,
        };
        let start = match &mut self.sink {
            Some(sink) if keep == Keep::Sink && length > 0 => {
                sink.begin(length).map_err(ErrorKind::Sink)?
            }
            _ => self.spooled_bytes,
        };
        let mut left = length;
        while left > 0 {
            let piece = match self.reader.fill_buf() {
                Ok([]) => return Err(ErrorKind::Truncated),
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(read_error(error)),
            };
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            match (keep, &mut self.spool, &mut self.sink) {
                (Keep::Spool, Some(spool), _) => {
                    spool.write_all(&piece[..count]).map_err(ErrorKind::Spool)?;
                    self.spooled_bytes += count as u64;
                }
                (Keep::Sink, _, Some(sink)) => {
                    sink.write(&piece[..count]).map_err(ErrorKind::Sink)?;
                }
                _ => {}
            }
            self.reader.consume(count);
            left -= count as u64;
        }
        Ok(start)
    }

    /// Writes out the spool.
    pub(super) fn flush(&mut self) -> Result<(), ErrorKind> {
        match &mut self.spool {
            Some(spool) => spool.flush().map_err(ErrorKind::Spool),
            None => Ok(()),
        }
    }

    /// The archive has ended: reads what follows it, and writes out the spool.
    pub(super) fn finish(&mut self) -> Result<(), ErrorKind> {
        let mut left = self.rest_bytes;
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
        if let Some(sink) = &mut self.sink {
            sink.finish().map_err(ErrorKind::Sink)?;
        }
        self.flush()
    }
}

/// A decompressor reports an end that comes too early as an error of its own kind.
fn read_error(error: io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
        _ => ErrorKind::Read(error),
    }
}
