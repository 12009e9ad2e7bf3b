//! A sparse device in memory: what was never written reads as zeros and takes no memory.
//!
//! *Invariants*: a missing chunk is all zeros. Chunks are shared between snapshots, and copied
//! before they are changed. A chunk's region is noted before the chunk is there; one that is noted
//! may have no chunks any more.
//!
//! *Locking*: one short lock for each shard of chunks, and one for the regions. At most one is held
//! at a time, except by `snapshot`, which takes all of them, the shards in rising order and then
//! the regions. Concurrent requests are atomic within one chunk, and may be mixed across chunks.
use crate::capability::{Capabilities, Discards, KnowsHoles, Remembers};
use crate::clock::Clock;
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment};
use crate::device::{check_range, pieces_bytes, read_into_shared, segments_bytes};
use crate::error::DeviceError;
use crate::lock::ShortLock;
use crate::order::assert_no_short_lock;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Default size of a chunk in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
const CHUNK_BYTES_MIN: usize = 512;
const CHUNK_BYTES_MAX: usize = 1 << 24;
const SHARDS: usize = 16;
/// Chunks of a region: holes are looked for region by region, and only then chunk by chunk.
const REGION_CHUNKS: u64 = 1024;
const NAME: &str = "memory";

/// Some of the chunks, by their number on the device.
type Shard = FxHashMap<u64, Arc<Vec<u8>>>;

/// A sparse device in memory.
pub struct MemoryDevice {
    clock: Arc<dyn Clock>,
    name: String,
    bytes: u64,
    chunk_bytes: usize,
    /// Chunk `n` is in shard `n % SHARDS`.
    shards: [ShortLock<Shard>; SHARDS],
    /// Numbers of the regions that have, or had, a chunk.
    regions: ShortLock<BTreeSet<u64>>,
}

/// The part of a request in one chunk.
struct ChunkPart {
    chunk: u64,
    in_chunk: Range<usize>,
    in_request: Range<usize>,
}

impl MemoryDevice {
    /// A device of this size (up to 2^60 bytes), all zeros.
    pub fn new(clock: Arc<dyn Clock>, bytes: u64) -> MemoryDevice {
        MemoryDevice::with_chunks(clock, bytes, CHUNK_BYTES)
    }

    /// As `new`, with chunks of `chunk_bytes` (rounded up to a power of two from 512 to 16 MiB):
    /// small chunks for scattered data, large ones for contiguous data.
    pub fn with_chunks(clock: Arc<dyn Clock>, bytes: u64, chunk_bytes: usize) -> MemoryDevice {
        MemoryDevice {
            clock,
            name: NAME.to_owned(),
            bytes,
            chunk_bytes: chunk_bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX).next_power_of_two(),
            shards: Default::default(),
            regions: Default::default(),
        }
    }

    /// The same device with another name than "memory".
    pub fn named(self, name: &str) -> MemoryDevice {
        MemoryDevice { name: name.to_owned(), ..self }
    }

    /// A device that holds these bytes.
    pub fn from_bytes(clock: Arc<dyn Clock>, bytes: &[u8]) -> MemoryDevice {
        let device = MemoryDevice::new(clock, bytes.len() as u64);
        device.store(0, bytes);
        device
    }

    /// An independent device with the same contents. Fast: chunks are copied only when one of the
    /// two changes them.
    pub fn snapshot(&self) -> MemoryDevice {
        let held: Vec<_> = self.shards.iter().map(ShortLock::lock).collect();
        let mut shards: [ShortLock<Shard>; SHARDS] = Default::default();
        for (copy, shard) in shards.iter_mut().zip(&held) {
            *copy.get_mut() = (**shard).clone();
        }
        MemoryDevice {
            clock: Arc::clone(&self.clock),
            name: self.name.clone(),
            bytes: self.bytes,
            chunk_bytes: self.chunk_bytes,
            shards,
            regions: ShortLock::new(self.regions.lock().clone()),
        }
    }

    /// An independent device of another size (up to 2^60 bytes), by another clock, with the same
    /// contents as far as both reach: what is new reads as zeros. Fast, as [`snapshot`] is.
    ///
    /// [`snapshot`]: MemoryDevice::snapshot
    pub fn resized(&self, clock: Arc<dyn Clock>, bytes: u64) -> MemoryDevice {
        let mut device = MemoryDevice { clock, bytes, ..self.snapshot() };
        let (whole, rest) = (bytes / self.chunk_bytes as u64, bytes % self.chunk_bytes as u64);
        for shard in &mut device.shards {
            let shard = shard.get_mut();
            shard.retain(|number, _| *number < whole || (*number == whole && rest > 0));
            // What a later growth uncovers again has to read as zeros.
            if let Some(last) = shard.get_mut(&whole) {
                Arc::make_mut(last)[rest as usize..].fill(0);
            }
        }
        device
    }

    /// Writes its contents to a sparse file. An existing file is replaced.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        self.save_start(path, self.bytes)
    }

    /// As `save`, of the first `bytes` alone: a host's files may be smaller than a device.
    pub fn save_start(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let bytes = bytes.min(self.bytes);
        let failed = |offset| {
            move |source| DeviceError {
                device: path.display().to_string(),
                operation: Operation::Write,
                offset,
                source,
            }
        };
        let file = File::create(path).map_err(failed(0))?;
        file.set_len(bytes).map_err(failed(0))?;
        for (number, chunk) in self.chunks() {
            let offset = number * self.chunk_bytes as u64;
            let length = bytes.saturating_sub(offset).min(self.chunk_bytes as u64) as usize;
            if !is_zero(&chunk[..length]) {
                file.write_all_at(&chunk[..length], offset).map_err(failed(offset))?;
            }
        }
        Ok(())
    }

    /// How many bytes of memory its contents take.
    pub fn resident_bytes(&self) -> u64 {
        let chunks: usize = self.shards.iter().map(|shard| shard.lock().len()).sum();
        chunks as u64 * self.chunk_bytes as u64
    }

    /// All chunks in rising order.
    fn chunks(&self) -> Vec<(u64, Arc<Vec<u8>>)> {
        let mut chunks = Vec::new();
        for shard in &self.shards {
            chunks.extend(shard.lock().iter().map(|(number, chunk)| (*number, Arc::clone(chunk))));
        }
        chunks.sort_unstable_by_key(|(number, _)| *number);
        chunks
    }

    fn shard(&self, chunk: u64) -> &ShortLock<Shard> {
        &self.shards[(chunk % SHARDS as u64) as usize]
    }

    /// Copies from the chunks. The range was checked.
    fn load(&self, offset: u64, bytes: &mut [u8]) {
        for part in parts(offset, bytes.len(), self.chunk_bytes) {
            let target = &mut bytes[part.in_request];
            match self.shard(part.chunk).lock().get(&part.chunk) {
                Some(chunk) => target.copy_from_slice(&chunk[part.in_chunk]),
                None => target.fill(0),
            }
        }
    }

    /// Copies into the chunks. The range was checked.
    fn store(&self, offset: u64, bytes: &[u8]) {
        for part in parts(offset, bytes.len(), self.chunk_bytes) {
            let source = &bytes[part.in_request];
            let mut shard = self.shard(part.chunk).lock();
            if source.len() == self.chunk_bytes && is_zero(source) {
                shard.remove(&part.chunk);
            } else if let Some(chunk) = shard.get_mut(&part.chunk) {
                Arc::make_mut(chunk)[part.in_chunk].copy_from_slice(source);
            } else if !is_zero(source) {
                drop(shard);
                self.regions.lock().insert(part.chunk / REGION_CHUNKS);
                let mut shard = self.shard(part.chunk).lock();
                // Another thread may have made it meanwhile.
                let chunk = shard.entry(part.chunk);
                let chunk = chunk.or_insert_with(|| Arc::new(vec![0; self.chunk_bytes]));
                Arc::make_mut(chunk)[part.in_chunk].copy_from_slice(source);
            }
        }
    }

    fn holds(&self, chunk: u64) -> bool {
        self.shard(chunk).lock().contains_key(&chunk)
    }

    /// The first chunk from this one that is there.
    fn first_chunk(&self, mut from: u64) -> Option<u64> {
        loop {
            let region = *self.regions.lock().range(from / REGION_CHUNKS..).next()?;
            let end = (region + 1) * REGION_CHUNKS;
            let mut chunks = from.max(region * REGION_CHUNKS)..end;
            if let Some(found) = chunks.find(|chunk| self.holds(*chunk)) {
                return Some(found);
            }
            from = end;
        }
    }

    /// As [`BlockDevice::transfer`], but may be called with short locks held.
    ///
    /// # Errors
    /// A range past the end; a read into shared memory.
    pub fn perform(
        &self,
        operation: Operation,
        offset: u64,
        segments: &mut [Segment],
    ) -> io::Result<()> {
        self.check(operation, offset, segments_bytes(segments))?;
        let mut position = offset;
        for segment in segments {
            match operation {
                Operation::Flush => {}
                Operation::Read if segment.is_shared() => {
                    return Err(self.error(operation, position, read_into_shared()));
                }
                Operation::Read => {
                    if let Some(bytes) = segment.target() {
                        self.load(position, bytes);
                    }
                }
                Operation::Write => {
                    if let Some(bytes) = segment.content() {
                        self.store(position, bytes);
                    }
                }
            }
            position += segment.bytes() as u64;
        }
        Ok(())
    }

    /// Checks a request without doing it.
    ///
    /// # Errors
    /// A range past the end.
    pub fn check(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<()> {
        check_range(self.bytes, operation, offset, bytes)
            .map_err(|source| self.error(operation, offset, source))
    }

    fn error(&self, operation: Operation, offset: u64, source: io::Error) -> io::Error {
        DeviceError { device: self.name.clone(), operation, offset, source }.into()
    }
}

/// The blocking methods never wait. They still check for short locks, as every device does, because
/// a caller tested in memory has to be correct on a disk.
impl BlockDevice for MemoryDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.name.clone(),
            bytes: self.bytes,
            sector_bytes: 512,
            read_only: false,
        }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
    /// Done at once on this thread, because memory never blocks.
    fn submit(&self, mut request: Request) {
        let result = self.perform(request.operation, request.offset, &mut request.segments);
        request.complete(result);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: Some(self),
            congestion: None,
            holes: Some(self),
            discard: Some(self),
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, mut segments: Vec<Segment>) -> Completed {
        assert_no_short_lock();
        let result = self.perform(operation, offset, &mut segments);
        Completed { segments, result }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        assert_no_short_lock();
        self.check(Operation::Read, offset, bytes.len() as u64)?;
        self.load(offset, bytes);
        Ok(())
    }
    fn write_vectored(&self, offset: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        assert_no_short_lock();
        self.check(Operation::Write, offset, pieces_bytes(pieces))?;
        let mut position = offset;
        for piece in pieces {
            self.store(position, piece);
            position += piece.len() as u64;
        }
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        assert_no_short_lock();
        Ok(())
    }
}

impl Remembers for MemoryDevice {
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize {
        self.read(offset, bytes).map_or(0, |()| bytes.len())
    }
}

impl KnowsHoles for MemoryDevice {
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let chunk_bytes = self.chunk_bytes as u64;
        let beyond = offset >= self.bytes;
        let Some(first) = self.first_chunk(offset / chunk_bytes).filter(|_| !beyond) else {
            return Ok(None);
        };
        let most = first + REGION_CHUNKS;
        let end = (first + 1..most).find(|chunk| !self.holds(*chunk)).unwrap_or(most);
        let end = end.saturating_mul(chunk_bytes).min(self.bytes);
        Ok(Some(offset.max(first * chunk_bytes)..end))
    }
}

impl Discards for MemoryDevice {
    /// They read as zeros afterwards, and whole chunks take no memory.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        assert_no_short_lock();
        self.check(Operation::Write, offset, bytes)?;
        let zeros = vec![0; self.chunk_bytes.clamp(1, 1 << 20)];
        let (mut at, end) = (offset, offset.saturating_add(bytes));
        while at < end {
            // Up to the end of a chunk, so that the next ones are whole.
            let within = at % self.chunk_bytes as u64;
            let length = (self.chunk_bytes as u64 - within).min(end - at).min(zeros.len() as u64);
            self.store(at, &zeros[..length as usize]);
            at += length;
        }
        Ok(())
    }
}

/// Splits a range of the device at the borders of chunks.
fn parts(offset: u64, length: usize, chunk_bytes: usize) -> impl Iterator<Item = ChunkPart> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let left = length - done;
        let position = offset + done as u64;
        let start = (position % chunk_bytes as u64) as usize;
        let bytes = left.min(chunk_bytes - start);
        let part = ChunkPart {
            chunk: position / chunk_bytes as u64,
            in_chunk: start..start + bytes,
            in_request: done..done + bytes,
        };
        done += bytes;
        (left > 0).then_some(part)
    })
}

fn is_zero(bytes: &[u8]) -> bool {
    // In pieces, so that the compiler compares many bytes at once, and bytes other than zero are
    // found early.
    bytes.chunks(256).all(|piece| piece.iter().fold(0, |any, byte| any | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    #[test]
    fn small_chunks_take_little_room_for_scattered_blocks_and_none_for_zeros() {
        let device =
            MemoryDevice::with_chunks(RealClock::new(), 400 << 30, 4096).named("scattered");
        for block in 0..1000_u64 {
            device.write((block * 100_000) << 12, &[1; 4096]).expect("it is inside");
        }
        assert_eq!(device.resident_bytes(), 4096 * 1000);
        device.write(0, &[0; 4096]).expect("it is inside");
        device.write(100_000 << 12, &[0; 4095]).expect("it is inside");
        assert_eq!(device.resident_bytes(), 4096 * 999);
        let mut bytes = [7; 4097];
        device.read((100_000 << 12) - 1, &mut bytes).expect("it is inside");
        assert_eq!((bytes[..4096].iter().sum::<u8>(), bytes[4096]), (0, 1));
        let error = device.write(400 << 30, &[1]).expect_err("it is past the end");
        assert!(error.to_string().starts_with("scattered: "), "{error}");
    }

    #[test]
    fn holes_are_what_was_never_written_or_written_as_zeros() {
        let chunk = 4096;
        let device = MemoryDevice::with_chunks(RealClock::new(), 400 << 30, 4096);
        assert_eq!(device.next_data(0).expect("memory"), None);
        // Two chunks in a row, one far away that goes again, and a piece of the last one.
        device.write(3 * chunk + 100, &[1; 4096]).expect("it is inside");
        device.write(90_000 * chunk, &[1; 4096]).expect("it is inside");
        device.write((400 << 30) - 10, &[1; 10]).expect("it is inside");
        device.write(90_000 * chunk, &[0; 4096]).expect("it is inside");
        let copy = device.snapshot();
        for device in [&device, &copy] {
            let next = |at| device.next_data(at).expect("memory");
            assert_eq!(next(0), Some(3 * chunk..5 * chunk));
            assert_eq!(next(3 * chunk + 50), Some(3 * chunk + 50..5 * chunk));
            assert_eq!(next(5 * chunk), Some((400 << 30) - chunk..400 << 30));
            assert_eq!(next(400 << 30), None);
            assert_eq!(crate::held_bytes(device).expect("memory"), 3 * chunk);
        }
        let cut = device.resized(RealClock::new(), 4 * chunk + 7);
        assert_eq!(cut.next_data(0).expect("memory"), Some(3 * chunk..4 * chunk + 7));
        assert_eq!(cut.next_data(4 * chunk + 7).expect("memory"), None);
    }

    #[test]
    fn what_was_cut_off_reads_as_zeros_when_it_grows_again() {
        for chunk_bytes in [512, 4096, 65_536] {
            let device = MemoryDevice::with_chunks(RealClock::new(), 100_000, chunk_bytes);
            device.write(0, &[7; 100_000]).expect("it is inside");
            for kept in [0, 1, 512, 4095, 4096, 65_536, 99_999] {
                let cut = device.resized(RealClock::new(), kept);
                assert_eq!(cut.info().bytes, kept);
                assert!(cut.read(kept, &mut [0]).is_err(), "{kept}");
                let grown = cut.resized(RealClock::new(), 200_000);
                let mut bytes = vec![1; 200_000];
                grown.read(0, &mut bytes).expect("it is inside");
                let (front, rest) = bytes.split_at(kept as usize);
                assert!(front.iter().all(|byte| *byte == 7), "{chunk_bytes}, {kept}");
                assert!(rest.iter().all(|byte| *byte == 0), "{chunk_bytes}, {kept}");
            }
            let mut whole = vec![0; 100_000];
            device.read(0, &mut whole).expect("it is inside");
            assert!(whole.iter().all(|byte| *byte == 7), "the first one is as it was");
        }
    }

    #[test]
    fn any_chunk_size_holds_the_same_bytes() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|index| (index % 251) as u8).collect();
        for chunk_bytes in [0, 1000, 4096, 65_536, usize::MAX] {
            let device = MemoryDevice::with_chunks(RealClock::new(), 200_000, chunk_bytes);
            device.write(777, &bytes).expect("it is inside");
            let mut back = vec![0; bytes.len()];
            device.read(777, &mut back).expect("it is inside");
            assert!(back == bytes, "chunks of {chunk_bytes}");
        }
    }
}
