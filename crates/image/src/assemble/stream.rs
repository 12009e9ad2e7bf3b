//! File data on its way into the image: the laid-out pieces come in rising order, and are read and
//! written in large chunks by workers, while the next files are still being laid out.
//!
//! *Invariants*: a chunk is one run of the volume; buffers are made once. The first failure stops
//! everything.
//! *Locking*: one channel to the workers, in a mutex; one mutex held while a chunk is written, no
//! other within it; counters are atomics. The host lets one thread write to a file at a time, and
//! lets the others wait in a loop that takes a processor: here they sleep, and one reads while
//! another writes.
use crate::error::Error;
use crate::progress::Progress;
use crate::source::{BodyReader, Sources};
use crate::tree::{NodeId, Tree};
use extant_block::BlockDevice;
use extant_engine::import::Stretch;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Bytes of a chunk: large enough for the device, small enough to stay in the processor's cache
/// between read and write.
const CHUNK_BYTES: u64 = 512 << 10;
/// Chunks that wait for a worker.
const WAITING_MAX: usize = 64;
/// Threads that read and write.
const WORKERS: usize = 2;
/// The device is asked to make data durable each time this many bytes came, so that little is left
/// at the end.
const FLUSH_BYTES: u64 = 128 << 20;

/// A part of a chunk: whole blocks of one file.
struct Piece {
    node: NodeId,
    file_offset: u64,
    length: u64,
}

/// One run of the volume, and what goes there.
#[derive(Default)]
struct Chunk {
    volume_offset: u64,
    length: u64,
    pieces: Vec<Piece>,
}

/// What workers share.
struct Shared<'a> {
    tree: &'a Tree,
    sources: &'a Sources,
    device: &'a dyn BlockDevice,
    progress: &'a dyn Progress,
    write_error: &'a (dyn Fn(&io::Error) -> Error + Sync),
    chunks: Mutex<Receiver<Chunk>>,
    written: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// Held while a chunk is written.
    writing: Mutex<()>,
}

impl Shared<'_> {
    /// The first failure stops everything.
    fn fail(&self, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Takes stretches of files as they are laid out.
pub struct DataStream<'s> {
    chunk: Chunk,
    sender: Option<SyncSender<Chunk>>,
    failed: &'s AtomicBool,
}

impl DataStream<'_> {
    /// A stream that takes everything and writes nothing: to see how a layout comes out.
    pub fn nowhere(failed: &AtomicBool) -> DataStream<'_> {
        DataStream { chunk: Chunk::default(), sender: None, failed }
    }

    /// A stretch of a file got its place.
    pub fn add(&mut self, node: NodeId, stretch: Stretch) {
        if self.sender.is_none() {
            return;
        }
        let mut done = 0;
        while done < stretch.length {
            let volume_offset = stretch.volume_offset + done;
            let follows = self.chunk.volume_offset + self.chunk.length == volume_offset;
            if !follows || self.chunk.length >= CHUNK_BYTES {
                self.send();
                self.chunk.volume_offset = volume_offset;
            }
            let length = (stretch.length - done).min(CHUNK_BYTES - self.chunk.length);
            self.chunk.pieces.push(Piece { node, file_offset: stretch.file_offset + done, length });
            self.chunk.length += length;
            done += length;
        }
    }

    fn send(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        if chunk.length > 0
            && let Some(sender) = &self.sender
        {
            // Fails only when all workers are gone, which have said why.
            let _ = sender.send(chunk);
        }
    }

    /// Whether a worker failed, so that laying out more has no use.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// Runs `lay_out` with a stream, and returns when everything that the stream was given is written.
///
/// # Errors
/// The first source that could not be read, or the device's first error in the words of
/// `write_error`; else what `lay_out` failed with.
pub fn with_stream<T, E: From<Error>>(
    tree: &Tree,
    sources: &Sources,
    device: &dyn BlockDevice,
    progress: &dyn Progress,
    write_error: &(dyn Fn(&io::Error) -> Error + Sync),
    lay_out: impl FnOnce(&mut DataStream<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let shared = Shared {
        tree,
        sources,
        device,
        progress,
        write_error,
        chunks: Mutex::new(receiver),
        written: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        failure: Mutex::new(None),
        writing: Mutex::new(()),
    };
    // tidy: thread because workers copy on the host's time, and end before this function does
    let outcome = std::thread::scope(|scope| {
        let (flush, flushes) = sync_channel::<()>(1);
        for _ in 0..WORKERS {
            let flush = flush.clone();
            let shared = &shared;
            scope.spawn(move || work(shared, &flush));
        }
        drop(flush);
        let shared = &shared;
        scope.spawn(move || {
            // A host reports a failed flush once: not again when the image is closed.
            // tidy: writers because the data of an import is in no cache
            flushes.iter().for_each(|()| match shared.device.flush() {
                Ok(()) => {}
                Err(error) => shared.fail((shared.write_error)(&error)),
            });
        });
        let mut stream =
            DataStream { chunk: Chunk::default(), sender: Some(sender), failed: &shared.failed };
        let outcome = lay_out(&mut stream);
        if outcome.is_err() {
            shared.failed.store(true, Ordering::Relaxed);
        }
        stream.send();
        outcome
    });
    match shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure.into()),
        None => outcome,
    }
}

fn work(shared: &Shared<'_>, flush: &SyncSender<()>) {
    let mut reader = BodyReader::new(shared.tree, shared.sources);
    let mut buffer = vec![0; CHUNK_BYTES as usize];
    loop {
        let chunk = shared.chunks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(chunk) = chunk else { return };
        if shared.failed.load(Ordering::Relaxed) {
            continue;
        }
        match write_chunk(shared, &mut reader, &mut buffer, &chunk) {
            Ok(()) => {
                if let Err(error) = shared.progress.step(chunk.length) {
                    shared.fail(error);
                    continue;
                }
                let before = shared.written.fetch_add(chunk.length, Ordering::Relaxed);
                if before / FLUSH_BYTES != (before + chunk.length) / FLUSH_BYTES {
                    let _ = flush.try_send(());
                }
            }
            Err(error) => shared.fail(error),
        }
    }
}

fn write_chunk(
    shared: &Shared<'_>,
    reader: &mut BodyReader<'_>,
    buffer: &mut [u8],
    chunk: &Chunk,
) -> Result<(), Error> {
    let buffer = &mut buffer[..chunk.length as usize];
    let mut rest = &mut *buffer;
    for piece in &chunk.pieces {
        let (part, after) = rest.split_at_mut(piece.length as usize);
        reader.read_at(piece.node, piece.file_offset, part)?;
        rest = after;
    }
    let _turn = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
    // tidy: writers because the data of an import is in no cache
    shared.device.write(chunk.volume_offset, buffer).map_err(|error| (shared.write_error)(&error))
}
