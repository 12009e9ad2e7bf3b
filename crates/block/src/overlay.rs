//! A device whose changes stay in memory: the device below is only read.
//!
//! ```text
//! read    changed? ---- yes --> memory
//!            +--------- no ---> the device below
//! write   ----------------> memory, up to a limit
//! ```
//!
//! *Invariants*: a block is in memory whole or not at all. The device below gets reads alone.
//!
//! *Locking*: the changed blocks are under one short lock, not held while the device below works.
use crate::clock::Clock;
use crate::device::{BlockDevice, Completed, DeviceInfo, Operation, Request, Segment};
use crate::device::{check_range, read_into_shared, segments_bytes};
use crate::error::DeviceError;
use crate::lock::ShortLock;
use crate::order::assert_no_short_lock;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of blocks, by number. The last block of a device may be shorter on it than here.
type Blocks = BTreeMap<u64, Arc<Vec<u8>>>;

/// A device that is read below and changed in memory.
pub struct Overlay {
    device: Arc<dyn BlockDevice>,
    info: DeviceInfo,
    block_bytes: usize,
    blocks_max: u64,
    changed: Arc<ShortLock<Blocks>>,
}

impl Overlay {
    /// Nothing is changed yet. Changes are kept in blocks of `block_bytes`, of all of which
    /// together at most `limit_bytes` are kept in memory: a write that needs more is `StorageFull`.
    ///
    /// # Panics
    /// When `block_bytes` is 0.
    pub fn new(device: Arc<dyn BlockDevice>, block_bytes: u32, limit_bytes: u64) -> Overlay {
        assert!(block_bytes > 0, "blocks without bytes");
        let info = DeviceInfo { read_only: false, ..device.info() };
        let blocks_max = limit_bytes / u64::from(block_bytes);
        let block_bytes = block_bytes as usize;
        Overlay { device, info, block_bytes, blocks_max, changed: Arc::default() }
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// The blocks that were written, by rising number, with their bytes: whole blocks, also where
    /// the device ends within its last one.
    pub fn changed(&self) -> Vec<(u64, Arc<Vec<u8>>)> {
        let changed = self.changed.lock();
        changed.iter().map(|(block, bytes)| (*block, Arc::clone(bytes))).collect()
    }

    /// Puts a whole block in memory, shared with the caller until one of them changes it.
    ///
    /// # Errors
    /// A block that the device does not have, bytes that are not one block, or the limit.
    pub fn put(&self, block: u64, bytes: Arc<Vec<u8>>) -> io::Result<()> {
        let offset = block.saturating_mul(self.block_bytes as u64);
        if bytes.len() != self.block_bytes || offset >= self.info.bytes {
            let wrong = io::Error::new(io::ErrorKind::InvalidInput, "no block of the device");
            return Err(self.error(Operation::Write, offset, wrong));
        }
        let mut changed = self.changed.lock();
        self.make_room(&changed, u64::from(!changed.contains_key(&block)), offset)?;
        changed.insert(block, bytes);
        Ok(())
    }

    fn make_room(&self, changed: &Blocks, more: u64, offset: u64) -> io::Result<()> {
        if changed.len() as u64 + more <= self.blocks_max {
            return Ok(());
        }
        let limit = self.blocks_max * self.block_bytes as u64;
        let full = io::Error::new(
            io::ErrorKind::StorageFull,
            format!("changes need more than {limit} bytes of memory"),
        );
        Err(self.error(Operation::Write, offset, full))
    }

    fn error(&self, operation: Operation, offset: u64, source: io::Error) -> io::Error {
        DeviceError { device: self.info.name.clone(), operation, offset, source }.into()
    }

    fn check(&self, operation: Operation, offset: u64, bytes: u64) -> io::Result<()> {
        check_range(self.info.bytes, operation, offset, bytes)
            .map_err(|source| self.error(operation, offset, source))
    }

    /// Numbers of the blocks that a range of bytes touches.
    fn blocks_of(&self, offset: u64, bytes: u64) -> Range<u64> {
        let size = self.block_bytes as u64;
        if bytes == 0 {
            return 0..0;
        }
        offset / size..(offset + bytes).div_ceil(size)
    }

    /// The changed blocks in a range.
    fn changed_in(&self, offset: u64, bytes: u64) -> Vec<(u64, Arc<Vec<u8>>)> {
        let changed = self.changed.lock();
        let range = changed.range(self.blocks_of(offset, bytes));
        range.map(|(block, bytes)| (*block, Arc::clone(bytes))).collect()
    }

    /// Whether a write has to know what a block holds on the device: one that no piece covers whole
    /// and that is not in memory.
    fn needs_device(&self, offset: u64, segments: &[Segment]) -> bool {
        let changed = self.changed.lock();
        let mut at = offset;
        segments.iter().any(|segment| {
            let (start, bytes) = (at, segment.bytes() as u64);
            at += bytes;
            let size = self.block_bytes as u64;
            let is_cut = |block: u64| block * size < start || (block + 1) * size > start + bytes;
            let mut ends = edges(self.blocks_of(start, bytes));
            let is_kept = !matches!(segment, Segment::Phantom(_));
            is_kept && ends.any(|block| is_cut(block) && !changed.contains_key(&block))
        })
    }

    /// Stores the pieces of a write. `below` is what the device holds from the byte `from` on,
    /// where a block is covered in part.
    fn store(&self, offset: u64, segments: &[Segment], from: u64, below: &[u8]) -> io::Result<()> {
        let mut changed = self.changed.lock();
        let touched = self.blocks_of(offset, segments_bytes(segments));
        let known = changed.range(touched.clone()).count() as u64;
        self.make_room(&changed, touched.end - touched.start - known, offset)?;
        let mut at = offset;
        for segment in segments {
            let bytes = match segment {
                Segment::Owned(bytes) => bytes,
                Segment::Shared(bytes) => {
                    let is_block = bytes.len() == self.block_bytes;
                    if is_block && at.is_multiple_of(self.block_bytes as u64) {
                        changed.insert(at / self.block_bytes as u64, Arc::clone(bytes));
                        at += bytes.len() as u64;
                        continue;
                    }
                    bytes.as_ref()
                }
                Segment::Phantom(length) => {
                    at += *length as u64;
                    continue;
                }
            };
            for block in self.blocks_of(at, bytes.len() as u64) {
                let to = changed
                    .entry(block)
                    .or_insert_with(|| Arc::new(self.block_below(block, from, below)));
                let to: &mut Vec<u8> = Arc::make_mut(to);
                overlay_bytes(to, block * self.block_bytes as u64, bytes, at);
            }
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// A block as the device has it, as far as `below` (from the byte `from` on) holds it.
    fn block_below(&self, block: u64, from: u64, below: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; self.block_bytes];
        overlay_bytes(&mut bytes, block * self.block_bytes as u64, below, from);
        bytes
    }

    /// Ends a write whose blocks are covered in part once the device has given what it holds.
    fn write_after_read(&self, request: Request) {
        let size = self.block_bytes as u64;
        let touched = self.blocks_of(request.offset, request.bytes());
        let from = touched.start * size;
        let length = (touched.end * size).min(self.info.bytes) - from;
        let this = self.handle();
        self.device.submit(Request {
            operation: Operation::Read,
            offset: from,
            segments: vec![Segment::Owned(vec![0; length as usize])],
            urgency: request.urgency,
            completion: Box::new(move |read| {
                let result = read.result.and_then(|()| match read.segments.first() {
                    Some(Segment::Owned(below)) => {
                        this.store(request.offset, &request.segments, from, below)
                    }
                    _ => Err(io::Error::other("the device gave other memory back")),
                });
                request.complete(result);
            }),
        });
    }

    /// Reads from the device, and puts what is changed over it.
    fn read_through(&self, mut request: Request, changed: Vec<(u64, Arc<Vec<u8>>)>) {
        let (offset, size) = (request.offset, self.block_bytes as u64);
        let patch = move |segments: &mut [Segment]| patch(segments, offset, size, &changed);
        if self.is_all_changed(offset, request.bytes()) {
            let result = patch(&mut request.segments)
                .map_err(|source| self.error(Operation::Read, offset, source));
            return request.complete(result);
        }
        let Request { operation, segments, urgency, completion, .. } = request;
        self.device.submit(Request {
            operation,
            offset,
            segments,
            urgency,
            completion: Box::new(move |mut read: Completed| {
                if read.result.is_ok() {
                    read.result = patch(&mut read.segments);
                }
                completion(read);
            }),
        });
    }

    /// Whether no byte of a range is to be read from the device.
    fn is_all_changed(&self, offset: u64, bytes: u64) -> bool {
        let touched = self.blocks_of(offset, bytes);
        let changed = self.changed.lock().range(touched.clone()).count() as u64;
        changed == touched.end - touched.start
    }

    /// The same overlay, for a completion that outlives a borrow.
    fn handle(&self) -> Overlay {
        Overlay {
            device: Arc::clone(&self.device),
            info: self.info.clone(),
            block_bytes: self.block_bytes,
            blocks_max: self.blocks_max,
            changed: Arc::clone(&self.changed),
        }
    }
}

/// The first and the last number of a range.
fn edges(range: Range<u64>) -> impl Iterator<Item = u64> {
    let last = range.end.checked_sub(1).filter(|last| *last > range.start);
    range.clone().next().into_iter().chain(last)
}

/// Copies what two stretches of bytes have in common from one (at byte `from_at` of the device)
/// into the other (at `to_at`).
fn overlay_bytes(to: &mut [u8], to_at: u64, from: &[u8], from_at: u64) {
    let start = to_at.max(from_at);
    let end = (to_at + to.len() as u64).min(from_at + from.len() as u64);
    if start < end {
        let length = (end - start) as usize;
        let (to_start, from_start) = ((start - to_at) as usize, (start - from_at) as usize);
        to[to_start..][..length].copy_from_slice(&from[from_start..][..length]);
    }
}

/// Puts changed blocks over the memory of a read at a byte offset.
fn patch(
    segments: &mut [Segment],
    offset: u64,
    block_bytes: u64,
    changed: &[(u64, Arc<Vec<u8>>)],
) -> io::Result<()> {
    let mut at = offset;
    for segment in segments {
        let length = segment.bytes() as u64;
        match segment {
            Segment::Owned(bytes) => {
                let first = changed.partition_point(|(block, _)| (block + 1) * block_bytes <= at);
                let rest = changed[first..].iter();
                for (block, from) in rest.take_while(|it| it.0 * block_bytes < at + length) {
                    overlay_bytes(bytes, at, from, block * block_bytes);
                }
            }
            Segment::Shared(_) => return Err(read_into_shared()),
            Segment::Phantom(_) => {}
        }
        at += length;
    }
    Ok(())
}

impl BlockDevice for Overlay {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        self.device.clock()
    }
    fn submit(&self, request: Request) {
        let (offset, bytes) = (request.offset, request.bytes());
        if let Err(error) = self.check(request.operation, offset, bytes) {
            return request.complete(Err(error));
        }
        match request.operation {
            Operation::Flush => request.complete(Ok(())),
            Operation::Read => match self.changed_in(offset, bytes) {
                changed if changed.is_empty() => self.device.submit(request),
                changed => self.read_through(request, changed),
            },
            Operation::Write if self.needs_device(offset, &request.segments) => {
                self.write_after_read(request);
            }
            Operation::Write => {
                let result = self.store(offset, &request.segments, offset, &[]);
                request.complete(result);
            }
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        assert_no_short_lock();
        self.check(Operation::Read, offset, bytes.len() as u64)?;
        let changed = self.changed_in(offset, bytes.len() as u64);
        let touched = self.blocks_of(offset, bytes.len() as u64);
        if (changed.len() as u64) < touched.end - touched.start {
            self.device.read(offset, bytes)?;
        }
        for (block, from) in &changed {
            overlay_bytes(bytes, offset, from, block * self.block_bytes as u64);
        }
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        assert_no_short_lock();
        Ok(())
    }
    /// A changed block may be anything; elsewhere the device below knows.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        if offset >= self.info.bytes {
            return Ok(None);
        }
        let size = self.block_bytes as u64;
        let below = self.device.next_data(offset)?;
        let changed = self.changed.lock();
        let first = changed.range(offset / size..).next().map(|(block, _)| block * size);
        let Some(start) = first else { return Ok(below) };
        let memory = start.max(offset)..(start + size).min(self.info.bytes);
        Ok(match below {
            Some(below) if below.start <= memory.start => Some(below),
            _ => Some(memory),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;
    use crate::memory::MemoryDevice;

    fn overlay(bytes: u64, limit: u64) -> (Arc<MemoryDevice>, Overlay) {
        let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
        (Arc::clone(&device), Overlay::new(device, 1024, limit))
    }

    #[test]
    fn changes_stay_in_memory_by_whole_blocks_up_to_the_limit() {
        let (device, overlay) = overlay(10_000, 3 * 1024);
        device.write(0, &[1; 10_000]).expect("it is inside");
        overlay.write(1000, &[2; 100]).expect("it is inside");
        overlay.write(9_900, &[3; 100]).expect("the last block is short");
        let changed = overlay.changed();
        assert_eq!(changed.iter().map(|(block, _)| *block).collect::<Vec<_>>(), [0, 1, 9]);
        assert!(changed.iter().all(|(_, bytes)| bytes.len() == 1024));
        let error = overlay.write(5000, &[4]).expect_err("it is the fourth block");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        overlay.write(1099, &[5; 2]).expect("its block is there");
        let mut bytes = vec![0; 10_000];
        overlay.read(0, &mut bytes).expect("it is inside");
        let expected =
            [(999, 1), (1000, 2), (1098, 2), (1099, 5), (1100, 5), (1101, 1), (9_899, 1)];
        for (at, value) in expected.into_iter().chain([(9_900, 3), (9_999, 3)]) {
            assert_eq!(bytes[at], value, "byte {at}");
        }
        device.read(0, &mut bytes).expect("it is inside");
        assert!(bytes.iter().all(|byte| *byte == 1), "the device was written");
    }

    #[test]
    fn a_block_that_is_put_is_shared_and_has_to_be_one() {
        let (_, overlay) = overlay(4096, 1 << 20);
        let block = Arc::new(vec![7; 1024]);
        overlay.put(3, Arc::clone(&block)).expect("the last block");
        assert!(Arc::ptr_eq(&overlay.changed()[0].1, &block));
        overlay.write(3072, &[8]).expect("it is inside");
        assert_eq!((block[0], overlay.changed()[0].1[0]), (7, 8));
        assert!(overlay.put(4, Arc::clone(&block)).is_err(), "there is no block 4");
        assert!(overlay.put(0, Arc::new(vec![7; 1023])).is_err(), "it is too short");
    }

    #[test]
    fn data_is_where_either_has_it() {
        let (device, overlay) = overlay(1 << 20, 1 << 20);
        let device_data = device.next_data(0).expect("memory");
        overlay.write(500_000, &[1]).expect("it is inside");
        let found = overlay.next_data(499_000).expect("memory");
        match device_data {
            None => assert_eq!(found, Some(499_712..500_736)),
            Some(_) => assert!(found.is_some_and(|found| found.contains(&500_000))),
        }
    }
}
