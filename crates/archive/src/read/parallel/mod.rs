//! Compressed streams that consist of parts of their own, decompressed by several threads.
//!
//! ```text
//! zstandard   frames, of which pzstd writes many: they are found by the lengths of their blocks
//! xz          blocks, of which `xz -T` writes many: an index at the end of a file says where
//! ```
//! Gzip has neither: how long a member is only its decompression shows.
//!
//! *Invariants*: parts come out in the order in which they went in, so what is read does not depend
//! on the number of threads. A part decompresses to at most [`PART_BYTES_MAX`]; at most
//! `threads + 1` are in memory.
//! *Locking*: the queue of the workers is a channel in a mutex.
mod xz;
mod zstandard;

pub(super) use xz::Blocks;
pub(super) use zstandard::Frames;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A part that decompresses to more is read by one thread, as a stream.
const PART_BYTES_MAX: u64 = 32 << 20;
/// More threads would need more memory than they are worth.
const THREADS_MAX: usize = 8;

/// A part that can be decompressed without what is before it, and the most bytes that it becomes.
pub(super) struct Part {
    bytes: Vec<u8>,
    bytes_max: usize,
}

/// What comes next in a stream.
pub(super) enum Next {
    Part(Part),
    /// From here on the stream has to be read by one thread.
    Rest(Box<dyn Read + Send>),
    End,
}

/// Finds the parts of a stream.
pub(super) trait Split: Send {
    /// What comes next. Not called again after [`Next::Rest`], [`Next::End`] or an error.
    ///
    /// # Errors
    /// Those of the input; `UnexpectedEof` within a part.
    fn next(&mut self) -> io::Result<Next>;
    /// How a part is decompressed.
    fn decoder(&self) -> Decoder;
}

/// Decompresses one part.
///
/// # Errors
/// `InvalidData` or the library's; more bytes than the part may become.
type Decoder = fn(&Part) -> io::Result<Vec<u8>>;

/// A part with the worker, and where its bytes go.
struct Work {
    part: Part,
    done: SyncSender<io::Result<Vec<u8>>>,
}

/// The decompressed bytes of a stream.
pub(super) struct Parallel {
    split: Box<dyn Split>,
    /// Begun when the first part comes; `None` after the last.
    workers: Option<SyncSender<Work>>,
    threads: usize,
    /// Parts under way, in their order.
    waiting: VecDeque<Receiver<io::Result<Vec<u8>>>>,
    current: io::Cursor<Vec<u8>>,
    /// What follows the parts; nothing is asked of `split` then.
    after: Option<After>,
}

enum After {
    Rest(Box<dyn Read + Send>),
    Error(io::Error),
    End,
}

impl Parallel {
    /// A stream that is decompressed by that many threads; by as many as the host has processors
    /// for if `None`.
    pub(super) fn new(split: impl Split + 'static, threads: Option<NonZero<usize>>) -> Parallel {
        let processors = threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, NonZero::get),
            NonZero::get,
        );
        Parallel {
            split: Box::new(split),
            workers: None,
            threads: processors.min(THREADS_MAX),
            waiting: VecDeque::new(),
            current: io::Cursor::default(),
            after: None,
        }
    }

    /// Hands out parts until there is work for every thread.
    fn hand_out(&mut self) -> io::Result<()> {
        while self.after.is_none() && self.waiting.len() <= self.threads {
            match self.split.next() {
                Ok(Next::Part(part)) => {
                    let workers = match &self.workers {
                        Some(workers) => workers,
                        None => self.workers.insert(start(self.threads, self.split.decoder())?),
                    };
                    let (done, bytes) = sync_channel(1);
                    let gone = |_| io::Error::other("the decompressing threads have ended");
                    workers.send(Work { part, done }).map_err(gone)?;
                    self.waiting.push_back(bytes);
                }
                Ok(Next::Rest(rest)) => self.after = Some(After::Rest(rest)),
                Ok(Next::End) => self.after = Some(After::End),
                Err(error) => self.after = Some(After::Error(error)),
            }
        }
        Ok(())
    }
}

impl Read for Parallel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.current.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.current = io::Cursor::default();
            self.hand_out()?;
            if let Some(part) = self.waiting.pop_front() {
                let gone = |_| io::Error::other("a decompressing thread has ended");
                self.current = io::Cursor::new(part.recv().map_err(gone)??);
                continue;
            }
            return match self.after.replace(After::End) {
                Some(After::Error(error)) => Err(error),
                Some(After::Rest(mut rest)) => {
                    let read = rest.read(buffer);
                    self.after = Some(After::Rest(rest));
                    read
                }
                Some(After::End) | None => Ok(0),
            };
        }
    }
}

/// Starts the workers; they end when their queue does.
fn start(threads: usize, decoder: Decoder) -> io::Result<SyncSender<Work>> {
    let (give, take) = sync_channel::<Work>(threads + 1);
    let take = Arc::new(Mutex::new(take));
    for _ in 0..threads {
        let take = Arc::clone(&take);
        let work = move || {
            loop {
                let work = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(Work { part, done }) = work else { return };
                // The reader may be gone.
                let _ = done.send(decoder(&part));
            }
        };
        // tidy: thread because an archive is read on the host's time, and no experiment reads one
        std::thread::Builder::new().name("decompress-part".into()).spawn(work)?;
    }
    Ok(give)
}
