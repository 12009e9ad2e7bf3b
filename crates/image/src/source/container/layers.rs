//! Layers, decompressed side by side, and put into the tree in their order.
//!
//! ```text
//! worker   takes the next layer, the base first: blob -> digest -> decompressed -> diff_id
//!          -> entries; bodies go to the layer's spool
//! here     takes the entries of layer 1, then those of layer 2 ..
//! ```
//! So one layer after the other goes into the tree, whatever the order in which they become ready,
//! and the image does not depend on it. Where bodies go into the image as they come, there is one
//! worker.
//!
//! *Invariants*: of each layer that is not taken yet at most [`WAITING_BATCHES`] batches of entries
//! wait; its worker waits then. Layers begin in their order, so the one whose entries are taken
//! always has a worker. A layer ends only after both of its digests were compared.
//! *Locking*: none but that of channels, and one mutex around each hash, which one thread uses.
use super::blob::BlobReader;
use super::digest::{Digest, Hasher};
use super::{LayerSource, about_layer};
use crate::error::Error;
use crate::source::archive::{explain, note_end};
use crate::source::entries::Entries;
use crate::source::intake::{Intake, Whiteouts};
use crate::source::options::ReadOptions;
use crate::source::{Origin, Sources};
use extant_archive::{
    Bodies, BodySink, Content, End, Entry, ErrorKind as ReadErrorKind, ReadError, Reader,
    StreamOptions,
};
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Layers that are decompressed at the same time, on however many processors.
const WORKERS_MAX: usize = 8;
/// Entries of a batch, and bytes of its paths and attributes.
const BATCH_ENTRIES: usize = 256;
const BATCH_BYTES: usize = 64 << 10;
/// Batches of a layer that wait to be taken: 32 MiB of large entries, 130,000 small ones.
const WAITING_BATCHES: usize = 512;

/// What a worker says of its layer.
enum Event {
    /// Where its bodies will be.
    Began(File),
    Batch {
        entries: Vec<Entry>,
        /// Bytes of the layer, decompressed, that were read.
        position: u64,
    },
    /// All of it was read, and is what it should be.
    Ended {
        end: End,
        last_whole: Option<Vec<u8>>,
        bytes: u64,
    },
    Failed(Error),
}

/// The receiver has gone: something else failed.
struct Gone;

/// What all workers share.
struct Shared {
    source: String,
    layers: Vec<LayerSource>,
    next: AtomicUsize,
    cancelled: Arc<AtomicBool>,
    /// Threads that each of them may use besides.
    threads: NonZero<usize>,
    options: ReadOptions,
    bodies: Bodies,
}

/// Puts the layers into the tree; how many bytes they are, decompressed.
///
/// # Errors
/// A layer that is not what it should be, or no archive, by its number; entries that cannot be had.
pub(super) fn lay(
    source: &str,
    layers: Vec<LayerSource>,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<u64, Error> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let most = if intake.options.arrival.is_some() { 1 } else { processors.min(WORKERS_MAX) };
    let workers = layers.len().min(most);
    let cancelled = Arc::new(AtomicBool::new(false));
    let shared = Shared {
        source: source.to_owned(),
        next: AtomicUsize::new(0),
        cancelled: Arc::clone(&cancelled),
        threads: NonZero::new(processors / workers.max(1)).unwrap_or(NonZero::<usize>::MIN),
        options: intake.options.clone(),
        bodies: Bodies::Keep { spool_folder: intake.options.spool_folder.clone() },
        layers,
    };
    let (givers, takers): (Vec<_>, Vec<_>) =
        shared.layers.iter().map(|_| sync_channel::<Event>(WAITING_BATCHES)).unzip();
    let shared = Arc::new(shared);
    let givers = Arc::new(givers);
    for _ in 0..workers {
        let (shared, givers) = (Arc::clone(&shared), Arc::clone(&givers));
        // tidy: thread because layers are read on the host's time, and no experiment reads one
        std::thread::Builder::new()
            .name("layer".into())
            .spawn(move || shared.work(&givers))
            .map_err(|error| Error::io(source, &error))?;
    }
    drop(givers);
    let before = std::mem::replace(&mut intake.whiteouts, Whiteouts::AppliedStrictly);
    let mut bytes = 0;
    let mut taken = Ok(());
    for (layer, events) in shared.layers.iter().zip(takers) {
        let name = format!("{source}: {}", layer.shown());
        match take(&name, &events, intake, sources) {
            Ok(more) => bytes += more,
            Err(error) => taken = Err(error),
        }
        if taken.is_err() {
            break;
        }
        intake.tree.end_layer()?;
    }
    cancelled.store(true, Ordering::Relaxed);
    intake.whiteouts = before;
    taken.map(|()| bytes)
}

/// Puts one layer into the tree; how many bytes it is, decompressed.
fn take(
    name: &str,
    events: &Receiver<Event>,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<u64, Error> {
    let ended = |_| Error::new(format!("{name}: the thread that reads it has ended"));
    let kept = match events.recv().map_err(ended)? {
        Event::Began(kept) => kept,
        Event::Failed(error) => return Err(error),
        Event::Batch { .. } | Event::Ended { .. } => {
            return Err(Error::new(format!("{name}: has no spool")));
        }
    };
    let source = sources.add(Origin::Bytes { file: kept, name: name.to_owned() })?;
    let sink_source = match intake.options.arrival {
        None => source,
        Some(_) => sources.add(Origin::Arrived { name: name.to_owned() })?,
    };
    let mut entries = Entries::new(intake, source, sink_source, name);
    let mut before = 0;
    loop {
        match events.recv().map_err(ended)? {
            Event::Batch { entries: batch, position } => {
                for entry in batch {
                    entries.add(entry)?;
                }
                entries.intake.progress.step(position.saturating_sub(before))?;
                before = position;
            }
            Event::Ended { end, last_whole, bytes } => {
                note_end(end, last_whole.as_deref(), name, entries.intake)?;
                return Ok(bytes);
            }
            Event::Failed(error) => return Err(error),
            Event::Began(_) => {}
        }
    }
}

impl Shared {
    /// Reads layers until none is left.
    fn work(&self, givers: &[SyncSender<Event>]) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let (Some(layer), Some(give)) = (self.layers.get(number), givers.get(number)) else {
                return;
            };
            if self.cancelled.load(Ordering::Relaxed) {
                return;
            }
            match self.scan(layer, give) {
                Ok(Ok(())) => {}
                Ok(Err(Gone)) => return,
                Err(error) => {
                    // The receiver may be gone; then something else failed before.
                    let _ = give.send(Event::Failed(error));
                    return;
                }
            }
        }
    }

    /// Reads one layer and hands on what is in it.
    fn scan(
        &self,
        layer: &LayerSource,
        give: &SyncSender<Event>,
    ) -> Result<Result<(), Gone>, Error> {
        // A plain layer is hashed once: its bytes are those that are decompressed.
        let digest = layer.digest.as_ref().filter(|digest| **digest != layer.diff_id);
        let stored = Tally::new(digest.map(Digest::hasher));
        let unpacked = Tally::new(Some(layer.diff_id.hasher()));
        let source = Watched {
            reader: layer.blob.reader(),
            tally: stored.clone(),
            cancelled: Arc::clone(&self.cancelled),
        };
        let observed = unpacked.clone();
        let sink = self.options.arrival.clone();
        let options = StreamOptions {
            sink: sink.map(|arrival| Box::new(arrival) as Box<dyn BodySink>),
            observer: Some(Box::new(move |bytes| observed.add(bytes))),
            threads: Some(self.threads),
        };
        let reader = Reader::with_options(source, &self.bodies, options);
        let mut reader = reader.map_err(|error| self.explain(layer, error))?;
        reader.leave_out(self.options.zeros());
        if let Err(gone) = self.hand_on(layer, &mut reader, give)? {
            return Ok(Err(gone));
        }
        let bytes = self.judge(layer, &stored, &unpacked)?;
        let end = reader.end().unwrap_or(End::Marked);
        let last_whole = reader.last_whole().map(<[u8]>::to_vec);
        Ok(give.send(Event::Ended { end, last_whole, bytes }).map_err(|_| Gone))
    }

    /// Compares what was read with what the layer has to be; how many bytes it is, decompressed.
    fn judge(&self, layer: &LayerSource, stored: &Tally, unpacked: &Tally) -> Result<u64, Error> {
        let (read, digest) = stored.finish();
        if read < layer.blob.size() {
            let left = layer.blob.size() - read;
            let what = format!("has {left} bytes after the end of what is compressed in it");
            return Err(self.damaged(layer, what));
        }
        if let (Some(has), Some(wanted)) = (&digest, &layer.digest)
            && has != wanted
        {
            return Err(about_layer(&self.source, layer, format!("has the digest {has}")));
        }
        let (bytes, has) = unpacked.finish();
        let wanted = &layer.diff_id;
        if let Some(has) = has.filter(|has| has != wanted) {
            return Err(self.damaged(
                layer,
                format!("has the digest {has}, decompressed, and the configuration says {wanted}"),
            ));
        }
        // It says that it is plain, and is not.
        if layer.digest.is_some() && digest.is_none() && bytes != layer.blob.size() {
            return Err(self.damaged(layer, "is compressed, but has the digest of a plain layer"));
        }
        Ok(bytes)
    }

    /// Hands on all entries of a layer.
    fn hand_on(
        &self,
        layer: &LayerSource,
        reader: &mut Reader,
        give: &SyncSender<Event>,
    ) -> Result<Result<(), Gone>, Error> {
        let kept = match reader.body_file() {
            Some(kept) => kept.try_clone(),
            None => Err(io::ErrorKind::Unsupported.into()),
        };
        let kept = kept.map_err(|error| Error::io(&self.source, &error))?;
        if give.send(Event::Began(kept)).is_err() {
            return Ok(Err(Gone));
        }
        let (mut batch, mut weight) = (Vec::with_capacity(BATCH_ENTRIES), 0);
        loop {
            let next = reader.next_entry().map_err(|error| self.explain(layer, error))?;
            let is_last = next.is_none();
            if let Some(entry) = next {
                weight += weight_of(&entry);
                batch.push(entry);
            }
            if is_last || batch.len() >= BATCH_ENTRIES || weight >= BATCH_BYTES {
                weight = 0;
                let entries = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_ENTRIES));
                let position = reader.position();
                if give.send(Event::Batch { entries, position }).is_err() {
                    return Ok(Err(Gone));
                }
            }
            if is_last {
                return Ok(Ok(()));
            }
        }
    }

    /// Why a layer cannot be read: that its digest is wrong says more than what that leads to.
    fn explain(&self, layer: &LayerSource, error: ReadError) -> Error {
        let name = format!("{}: {}", self.source, layer.shown());
        match &error.kind {
            ReadErrorKind::Spool(_) | ReadErrorKind::Sink(_) => {
                explain(&name, &self.options, error)
            }
            ReadErrorKind::NotAnArchive => self.damaged(layer, "is not a tar archive"),
            _ => {
                let failure = explain(&name, &self.options, error);
                match self.wrong_digest(layer) {
                    Some(wrong) => wrong,
                    None => failure,
                }
            }
        }
    }

    fn damaged(&self, layer: &LayerSource, what: impl std::fmt::Display) -> Error {
        let wrong = self.wrong_digest(layer);
        wrong.unwrap_or_else(|| about_layer(&self.source, layer, what))
    }

    /// Reads a layer once more, for its digest alone; the failure if that is wrong.
    fn wrong_digest(&self, layer: &LayerSource) -> Option<Error> {
        let digest = layer.digest.as_ref()?;
        let mut hasher = digest.hasher();
        let mut reader = layer.blob.reader();
        let mut buffer = vec![0; 256 << 10];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => hasher.update(&buffer[..count]),
                Err(error) => return Some(Error::io(&self.source, &error)),
            }
        }
        let has = hasher.finish();
        (has != *digest).then(|| about_layer(&self.source, layer, format!("has the digest {has}")))
    }
}

/// About as many bytes as an entry takes besides its fixed part.
fn weight_of(entry: &Entry) -> usize {
    let path = entry.path.as_ref().map_or(0, Vec::len);
    let attributes = entry.described.iter().flat_map(|described| &described.attributes);
    let attributes = attributes.map(|attribute| attribute.name.len() + attribute.value.len());
    let content = match &entry.content {
        Content::File(body) => body.pieces.as_ref().map_or(0, |pieces| pieces.len() * 16),
        Content::Symlink { target } | Content::HardLink { target } => target.len(),
        _ => 0,
    };
    path + content + attributes.sum::<usize>()
}

/// Bytes that passed, counted and hashed. Copies are the same one.
#[derive(Clone)]
struct Tally(Arc<Mutex<(u64, Option<Hasher>)>>);

impl Tally {
    fn new(hasher: Option<Hasher>) -> Tally {
        Tally(Arc::new(Mutex::new((0, hasher))))
    }

    fn add(&self, bytes: &[u8]) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tally.0 += bytes.len() as u64;
        if let Some(hasher) = &mut tally.1 {
            hasher.update(bytes);
        }
    }

    /// How many there were, and their digest.
    fn finish(&self) -> (u64, Option<Digest>) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (tally.0, tally.1.take().map(Hasher::finish))
    }
}

/// The stored bytes of a layer on their way to the decompressor.
struct Watched {
    reader: BlobReader,
    tally: Tally,
    cancelled: Arc<AtomicBool>,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(io::Error::other("something else failed"));
        }
        let count = self.reader.read(buffer)?;
        self.tally.add(&buffer[..count]);
        Ok(count)
    }
}
