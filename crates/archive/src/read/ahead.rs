//! A reader that a thread of its own reads ahead of its consumer: decompressing takes one
//! processor while another writes what was decompressed before.
//!
//! *Invariants*: buffers arrive in the order in which they were read. The end of the stream is an
//! empty buffer; a thread that ends without one has failed, so nothing is ever cut off silently.
//! *Locking*: none but that of the channels. The thread is not waited for: it may be reading from
//! a pipe in which nothing comes, and it ends at the first buffer that is not taken.
use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes of a buffer: it stays in the processor's cache between its two threads.
const BUFFER_BYTES: usize = 256 << 10;
/// Buffers there are.
const BUFFERS: usize = 8;

/// The consumer's end.
pub(super) struct Ahead {
    filled: Receiver<io::Result<Vec<u8>>>,
    empty: SyncSender<Vec<u8>>,
    buffer: Vec<u8>,
    consumed: usize,
    state: AheadState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AheadState {
    Open,
    /// The stream ended, or an error was reported.
    Ended,
}

impl Ahead {
    /// Begins to read ahead.
    ///
    /// # Errors
    /// The host makes no thread.
    pub(super) fn new(reader: impl Read + Send + 'static) -> io::Result<Ahead> {
        let (empty, take) = sync_channel(BUFFERS);
        let (give, filled) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            // There is room for all of them.
            let _ = empty.try_send(Vec::new());
        }
        // tidy: thread because an archive is read on the host's time, and no experiment reads one
        std::thread::Builder::new()
            .name("decompress".into())
            .spawn(move || read_on(reader, &take, &give))?;
        Ok(Ahead { filled, empty, buffer: Vec::new(), consumed: 0, state: AheadState::Open })
    }

    /// Exchanges the buffer that is used up.
    fn exchange(&mut self) -> io::Result<()> {
        // The thread may have ended.
        let _ = self.empty.try_send(std::mem::take(&mut self.buffer));
        self.consumed = 0;
        self.state = AheadState::Ended;
        let gone = |_| io::Error::other("the thread that reads the archive has ended");
        self.buffer = self.filled.recv().map_err(gone)??;
        if !self.buffer.is_empty() {
            self.state = AheadState::Open;
        }
        Ok(())
    }
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.consumed >= self.buffer.len() && self.state == AheadState::Open {
            self.exchange()?;
        }
        Ok(self.buffer.get(self.consumed..).unwrap_or_default())
    }
    fn consume(&mut self, count: usize) {
        self.consumed = self.consumed.saturating_add(count).min(self.buffer.len());
    }
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let count = piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&piece[..count]);
        self.consume(count);
        Ok(count)
    }
}

/// What the thread does: fills buffers until the end, an error, or the consumer's end.
fn read_on(
    mut reader: impl Read,
    take: &Receiver<Vec<u8>>,
    give: &SyncSender<io::Result<Vec<u8>>>,
) {
    while let Ok(mut buffer) = take.recv() {
        buffer.resize(BUFFER_BYTES, 0);
        let (length, failure) = fill(&mut reader, &mut buffer);
        buffer.truncate(length);
        let is_last = length == 0 || failure.is_some();
        // What came before an error counts.
        if (length > 0 || failure.is_none()) && give.send(Ok(buffer)).is_err() {
            return;
        }
        if let Some(error) = failure {
            let _ = give.send(Err(error));
        }
        if is_last {
            return;
        }
    }
}

/// Reads until the buffer is full, the stream ends, or it comes in small pieces as from a pipe; how
/// many bytes, and the error after them.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut done = 0;
    while done < buffer.len() {
        match reader.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives bytes, then fails or panics.
    struct Broken {
        left: usize,
        end: fn() -> io::Result<usize>,
    }

    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.left == 0 {
                return (self.end)();
            }
            let count = self.left.min(buffer.len()).min(1000);
            buffer[..count].fill(7);
            self.left -= count;
            Ok(count)
        }
    }

    #[test]
    fn everything_arrives_in_order() {
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n / 777) as u8).collect();
        let mut read = Vec::new();
        Ahead::new(io::Cursor::new(bytes.clone())).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == bytes);
    }

    #[test]
    fn an_error_comes_after_the_bytes_before_it_and_once() {
        let end = || Err(io::ErrorKind::UnexpectedEof.into());
        let mut ahead = Ahead::new(Broken { left: 300_000, end }).unwrap();
        let mut read = Vec::new();
        let error = ahead.read_to_end(&mut read).unwrap_err();
        assert_eq!((read.len(), error.kind()), (300_000, io::ErrorKind::UnexpectedEof));
        assert_eq!(ahead.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_thread_that_panics_is_no_end() {
        let end = || panic!("as a decoder might");
        let mut ahead = Ahead::new(Broken { left: 10, end }).unwrap();
        assert!(ahead.read_to_end(&mut Vec::new()).is_err());
    }

    #[test]
    fn a_reader_that_was_dropped_is_not_waited_for() {
        let end = || Ok(0);
        drop(Ahead::new(Broken { left: 1 << 40, end }).unwrap());
    }
}
