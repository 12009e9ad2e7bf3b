//! Bytes that can be read at any place, as a device that refuses writes.
//!
//! A request that is submitted is done on the caller's thread: decompressing a cluster takes the
//! processor, not a disk.
//!
//! *Invariants*: a read within the disk fills all of its memory or fails.
//! *Locking*: none here; a content may have short locks of its own.
use extant_block::capability::{Capabilities, KnowsHoles};
use extant_block::{
    BlockDevice, Clock, Completed, DeviceError, DeviceInfo, Operation, Request, Segment,
};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What a disk holds.
pub(crate) trait Content: Send + Sync {
    /// Its size in bytes.
    fn bytes(&self) -> u64;
    /// Fills the buffer from byte `offset` on; both are within the disk.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// As [`KnowsHoles::next_data`].
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>>;
}

/// A content as a device.
pub(crate) struct Disk<C> {
    clock: Arc<dyn Clock>,
    content: C,
    name: String,
}

impl<C: Content> Disk<C> {
    pub(crate) fn new(clock: Arc<dyn Clock>, content: C, name: String) -> Disk<C> {
        Disk { clock, content, name }
    }

    fn perform(
        &self,
        operation: Operation,
        offset: u64,
        segments: &mut [Segment],
    ) -> io::Result<()> {
        let outcome = || {
            match operation {
                Operation::Flush => return Ok(()),
                Operation::Write => return Err(io::ErrorKind::ReadOnlyFilesystem.into()),
                Operation::Read => {}
            }
            if segments.iter().any(Segment::is_shared) {
                let message = "a read into shared memory";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            let mut at = offset;
            for segment in segments {
                let bytes = segment.bytes() as u64;
                self.check(at, bytes)?;
                if let Some(target) = segment.target() {
                    self.content.read(at, target)?;
                }
                at += bytes;
            }
            Ok(())
        };
        outcome().map_err(|source| self.named(operation, offset, source))
    }

    fn check(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let end = self.content.bytes();
        match offset.checked_add(bytes).is_some_and(|last| last <= end) {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{bytes} bytes reach past the end of the disk at byte {end}"),
            )),
        }
    }

    fn named(&self, operation: Operation, offset: u64, source: io::Error) -> io::Error {
        DeviceError { device: self.name.clone(), operation, offset, source }.into()
    }
}

impl<C: Content> BlockDevice for Disk<C> {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.name.clone(),
            bytes: self.content.bytes(),
            sector_bytes: 512,
            read_only: true,
        }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
    fn submit(&self, mut request: Request) {
        let result = self.perform(request.operation, request.offset, &mut request.segments);
        request.complete(result);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: Some(self),
            discard: None,
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, mut segments: Vec<Segment>) -> Completed {
        let result = self.perform(operation, offset, &mut segments);
        Completed { segments, result }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let read = self.check(offset, bytes.len() as u64);
        let read = read.and_then(|()| self.content.read(offset, bytes));
        read.map_err(|source| self.named(Operation::Read, offset, source))
    }
}

impl<C: Content> KnowsHoles for Disk<C> {
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        if offset >= self.content.bytes() {
            return Ok(None);
        }
        let found = self.content.next_data(offset);
        found.map_err(|source| self.named(Operation::Read, offset, source))
    }
}

/// What a container is kept in.
pub(crate) trait Stored {
    /// Its bytes.
    fn stored_bytes(&self) -> io::Result<u64>;
    /// Fills a buffer; `UnexpectedEof` where it ends before.
    fn read_stored(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Stored for File {
    fn stored_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
    fn read_stored(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl Stored for Arc<dyn BlockDevice> {
    fn stored_bytes(&self) -> io::Result<u64> {
        Ok(self.info().bytes)
    }
    fn read_stored(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read(offset, buffer)
    }
}

/// Fills a buffer from a file; `UnexpectedEof` where it ends before.
pub(crate) fn read_exact(file: &impl Stored, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    file.read_stored(offset, buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the file ends before the {} bytes from byte {offset} on", buffer.len()),
        ),
        _ => error,
    })
}

/// A field of a header, big-endian.
pub(crate) fn big_32(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    word.map_or(0, |word| u32::from_be_bytes(*word))
}

/// The same, of 64 bits.
pub(crate) fn big_64(bytes: &[u8], at: usize) -> u64 {
    u64::from(big_32(bytes, at)) << 32 | u64::from(big_32(bytes, at + 4))
}
