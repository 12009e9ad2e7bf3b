//! What goes in and what comes out: a request with its memory, and its completion.
use crate::buffer::Buffer;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Fill the segments.
    Read,
    /// Store the segments.
    Write,
    /// Make all completed writes durable.
    Flush,
}

/// A part of a request's memory. Parts are stored end to end on the device.
#[derive(Debug)]
pub enum Segment {
    /// Bytes that the request owns: the target of reads, or the source of writes.
    Owned(Vec<u8>),
    /// Bytes shared with a cache frame, which copies them before a change. For writes only.
    Shared(Arc<Vec<u8>>),
    /// Pooled memory that the request owns: the target of reads, or the source of writes. It may
    /// have any content before a read.
    Pooled(Buffer),
    /// A part of memory shared with pages of a file, which copy it before a change. For writes
    /// only.
    Part(Arc<Buffer>, Range<usize>),
    /// This many bytes that are not kept: file data in the laboratory. Reads return nothing, writes
    /// store nothing.
    Phantom(usize),
}

impl Segment {
    /// How many bytes of the device it covers.
    pub fn bytes(&self) -> usize {
        match self {
            Segment::Owned(bytes) => bytes.len(),
            Segment::Shared(bytes) => bytes.len(),
            Segment::Pooled(buffer) => buffer.len(),
            Segment::Part(_, range) => range.len(),
            Segment::Phantom(bytes) => *bytes,
        }
    }

    /// The bytes that a write stores; `None` for phantoms.
    pub fn content(&self) -> Option<&[u8]> {
        match self {
            Segment::Owned(bytes) => Some(bytes),
            Segment::Shared(bytes) => Some(bytes),
            Segment::Pooled(buffer) => Some(buffer),
            Segment::Part(buffer, range) => Some(buffer.get(range.clone()).unwrap_or_default()),
            Segment::Phantom(_) => None,
        }
    }

    /// The bytes that a read fills, all of them; `None` for phantoms, and for shared memory.
    pub fn target(&mut self) -> Option<&mut [u8]> {
        match self {
            Segment::Owned(bytes) => Some(bytes),
            Segment::Pooled(buffer) => Some(buffer),
            Segment::Shared(_) | Segment::Part(..) | Segment::Phantom(_) => None,
        }
    }

    /// Whether it is memory that others use too, which no read may fill.
    pub fn is_shared(&self) -> bool {
        matches!(self, Segment::Shared(_) | Segment::Part(..))
    }

    /// Whether it has no bytes.
    pub fn is_phantom(&self) -> bool {
        matches!(self, Segment::Phantom(_))
    }
}

/// How many bytes of the device the segments cover.
pub fn segments_bytes(segments: &[Segment]) -> u64 {
    segments.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.bytes() as u64))
}

/// One request. It owns its memory, and ends by calling its completion exactly once, even on
/// failure.
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// First byte on the device. File and memory devices do not require alignment to sectors.
    pub offset: u64,
    /// The memory. Empty for `Flush`.
    pub segments: Vec<Segment>,
    /// Whether a thread waits for it. If not (read-ahead, write-back), an elevator may put it after
    /// others.
    pub urgency: Urgency,
    /// Called once when it is done, from any thread, with no lock of the device held. It must not
    /// block.
    pub completion: Completion,
}

impl Request {
    /// How many bytes of the device it covers.
    pub fn bytes(&self) -> u64 {
        segments_bytes(&self.segments)
    }
    /// The bytes of the device that it covers.
    pub(crate) fn place(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes())
    }
    /// Ends it: returns its memory and the result to the completion.
    pub fn complete(self, result: io::Result<()>) {
        (self.completion)(Completed { segments: self.segments, result });
    }
}

/// Whether a thread waits for a request, and what for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// A thread waits for a directory or an inode: what it wants to read comes after. Some
    /// elevators prefer these (`READ_META` of Linux 2.6.19 and later).
    Metadata,
    /// A thread waits for it.
    Awaited,
    /// Read-ahead or write-back.
    Background,
}

impl Urgency {
    /// Whether a thread waits.
    pub fn is_awaited(self) -> bool {
        self != Urgency::Background
    }
}

/// What a completion gets: the memory of the request, and its result.
#[derive(Debug)]
pub struct Completed {
    /// The request's segments.
    pub segments: Vec<Segment>,
    /// Whether it succeeded. A read past the end is `UnexpectedEof`.
    pub result: io::Result<()>,
}

impl Completed {
    /// Copies what a read into one owned segment brought.
    ///
    /// # Errors
    /// The read's own; that the device with this name gave other memory back.
    pub fn copy_to(self, bytes: &mut [u8], name: &str) -> io::Result<()> {
        self.result?;
        match self.segments.first() {
            Some(Segment::Owned(read)) if read.len() == bytes.len() => {
                bytes.copy_from_slice(read);
                Ok(())
            }
            _ => Err(io::Error::other(format!("{name}: gave other memory back"))),
        }
    }
}

/// What is called when a request is done.
pub type Completion = Box<dyn FnOnce(Completed) + Send>;

/// Refuses a range that is not within a device of `device_bytes`.
pub(crate) fn check_range(
    device_bytes: u64,
    operation: Operation,
    offset: u64,
    bytes: u64,
) -> io::Result<()> {
    if operation == Operation::Flush
        || offset.checked_add(bytes).is_some_and(|end| end <= device_bytes)
    {
        return Ok(());
    }
    let kind = match operation {
        Operation::Write => io::ErrorKind::InvalidInput,
        Operation::Read | Operation::Flush => io::ErrorKind::UnexpectedEof,
    };
    Err(io::Error::new(
        kind,
        format!("{bytes} bytes reach past the end of the device at byte {device_bytes}"),
    ))
}

/// How many bytes pieces hold.
pub fn pieces_bytes(pieces: &[io::IoSlice<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// The error for a read into shared memory.
pub(crate) fn read_into_shared() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a read into shared memory")
}
