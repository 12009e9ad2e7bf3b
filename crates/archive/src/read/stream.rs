//! Archives that come only once: compressed ones, and pipes. Bodies go to a spool, a file without a
//! name that holds them end to end without headers and holes; from then on they are ranges of a
//! file like those of a plain archive.
//!
//! A thread of its own decompresses (`ahead`), several where the stream has parts (`parallel`),
//! while this one writes the spool.
use super::ahead::Ahead;
use super::compression::{Compression, compression, decompressed};
use super::parallel::{Blocks, Parallel};
use crate::entry::Keeper;
use crate::error::ErrorKind;
use crate::zeros::{Sieve, Zeros};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Cursor, Read, Write};
use std::num::NonZero;
use std::ops::Range;

/// Compressed bytes at hand, and spooled bytes before they are written.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes of padding that are read from a pipe after its archive, so that its writer is not killed
/// for them.
const PIPE_REST_BYTES: u64 = 1 << 20;

/// A stream of an archive, decompressed, and the spool for its bodies.
pub(super) struct SpooledStream {
    reader: Ahead,
    kept: BodyStore,
    /// Bytes after the archive that are read: all of a compressed stream, because a checksum is at
    /// its end, and all of what is observed.
    rest_bytes: u64,
}

/// Where bodies go.
struct BodyStore {
    /// `None` where bodies are not kept.
    spool: Option<BufWriter<File>>,
    spooled_bytes: u64,
    /// Where bodies without holes of the archive go in place of the spool.
    sink: Option<Box<dyn BodySink>>,
}

impl BodyStore {
    /// A body of at most this many bytes begins: where.
    fn begin(&mut self, length: u64, keep: Keep) -> Result<u64, ErrorKind> {
        match &mut self.sink {
            Some(sink) if keep == Keep::Sink && length > 0 => {
                sink.begin(length).map_err(ErrorKind::Sink)
            }
            _ => Ok(self.spooled_bytes),
        }
    }

    /// More bytes of it.
    fn store(&mut self, bytes: &[u8], keep: Keep) -> Result<(), ErrorKind> {
        match (keep, &mut self.spool, &mut self.sink) {
            (Keep::Sink, _, Some(sink)) => sink.write(bytes).map_err(ErrorKind::Sink),
            (Keep::Spool | Keep::Sink, Some(spool), _) => {
                spool.write_all(bytes).map_err(ErrorKind::Spool)?;
                self.spooled_bytes += bytes.len() as u64;
                Ok(())
            }
            _ => Ok(()),
        }
    }
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
    /// A body of at most this many bytes, at least 1, begins; zeros of it may be left out.
    /// Returns what [`crate::Body::offset`] is to be.
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
        let reader = decompressed(compression, input, threads);
        let reader = Ahead::new(Observed { reader, observer });
        let mut stream = SpooledStream::begin(reader?, rest_bytes, spool);
        stream.kept.sink = sink;
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
        stream.kept.sink = sink;
        Ok(stream)
    }

    fn begin(reader: Ahead, rest_bytes: u64, spool: Option<File>) -> SpooledStream {
        let spool = spool.map(|file| BufWriter::with_capacity(BUFFER_BYTES, file));
        let kept = BodyStore { spool, spooled_bytes: 0, sink: None };
        SpooledStream { reader, kept, rest_bytes }
    }

    /// All that follows the archive is read.
    pub(super) fn read_to_end_after(&mut self) {
        self.rest_bytes = u64::MAX;
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

    /// Passes over that many bytes, and keeps them if wanted. Where they start there.
    pub(super) fn pass(&mut self, length: u64, keep: Keep) -> Result<u64, ErrorKind> {
        let start = self.kept.begin(length, keep)?;
        let kept = &mut self.kept;
        each(&mut self.reader, length, &mut |piece| kept.store(piece, keep))?;
        Ok(start)
    }

    /// Passes over the stored pieces of a file and keeps them without blocks of zeros: where what
    /// is kept starts, and its pieces.
    pub(super) fn sift(
        &mut self,
        pieces: &[Range<u64>],
        keep: Keep,
        zeros: &Zeros,
    ) -> Result<(u64, Vec<Range<u64>>), ErrorKind> {
        let stored = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let start = self.kept.begin(stored, keep)?;
        let kept = &mut self.kept;
        let mut store = |bytes: &[u8]| kept.store(bytes, keep);
        let mut sieve = Sieve::new(zeros);
        for piece in pieces {
            sieve.skip_to(piece.start, &mut store)?;
            let length = piece.end - piece.start;
            each(&mut self.reader, length, &mut |bytes| sieve.add(bytes, &mut store))?;
        }
        Ok((start, sieve.finish(&mut store)?))
    }

    /// What takes a body that is kept in this way.
    pub(super) fn keeper(&self, keep: Keep) -> Keeper {
        match self.kept.sink {
            Some(_) if keep == Keep::Sink => Keeper::Sink,
            _ => Keeper::File,
        }
    }

    /// Writes out the spool.
    pub(super) fn flush(&mut self) -> Result<(), ErrorKind> {
        match &mut self.kept.spool {
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
        if let Some(sink) = &mut self.kept.sink {
            sink.finish().map_err(ErrorKind::Sink)?;
        }
        self.flush()
    }
}

/// The next bytes of a stream, that many, piece by piece.
fn each(
    reader: &mut Ahead,
    length: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<(), ErrorKind>,
) -> Result<(), ErrorKind> {
    let mut left = length;
    while left > 0 {
        let piece = match reader.fill_buf() {
            Ok([]) => return Err(ErrorKind::Truncated),
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(read_error(error)),
        };
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        take(&piece[..count])?;
        reader.consume(count);
        left -= count as u64;
    }
    Ok(())
}

/// A decompressor reports an end that comes too early as an error of its own kind.
fn read_error(error: io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
        _ => ErrorKind::Read(error),
    }
}
