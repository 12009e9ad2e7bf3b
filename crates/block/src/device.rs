//! What a device is: requests go in, completions come out.
use crate::clock::Clock;
use std::io;
use std::sync::Arc;

/// What a device says of itself.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name for messages: a path, or "memory".
    pub name: String,
    /// Its size in bytes, when opened (a file device may grow by writes past it when it was opened so).
    pub bytes: u64,
    /// Smallest unit that is written whole: 512 or 4096.
    pub sector_bytes: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

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

/// A piece of the memory of a request. Pieces lie end to end on the device.
#[derive(Debug)]
pub enum Segment {
    /// Bytes that the request owns: the target of reads, or the source of writes.
    Owned(Vec<u8>),
    /// Bytes shared with a cache frame, which copies before it changes them. Writes only.
    Shared(Arc<Vec<u8>>),
    /// So many bytes that are not kept: the laboratory's file data. Reads give nothing, writes store nothing.
    Phantom(usize),
}

/// One request. It owns its memory, and ends through its completion, exactly once, also when it fails.
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// First byte on the device. Requests need not be aligned to sectors on file and memory devices.
    pub offset: u64,
    /// The memory. Empty for `Flush`.
    pub segments: Vec<Segment>,
    /// Nobody waits for this one (read-ahead, write-back): an elevator may put it behind others.
    pub urgency: Urgency,
    /// Called once when it is done, from any thread, with no lock of the device held. It must not block.
    pub completion: Completion,
}

/// Whether somebody waits for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// Somebody is parked on it.
    Awaited,
    /// Read-ahead or write-back.
    Background,
}

/// What a completion is given: the memory back, and how it went.
pub struct Completed {
    /// The request's segments.
    pub segments: Vec<Segment>,
    /// A read past the end is `UnexpectedEof`.
    pub result: io::Result<()>,
}

/// What is called when a request is done.
pub type Completion = Box<dyn FnOnce(Completed) + Send>;

/// A device. Shared by reference between threads; its methods may be called at the same time.
///
/// Contract (one test suite, run by every device): a completed write is seen by every later read; `flush` returns after all
/// writes completed before it are durable; requests under way at the same time have no order; every request completes once.
pub trait BlockDevice: Send + Sync {
    /// What it is.
    fn info(&self) -> DeviceInfo;
    /// The clock on which its waiting is done.
    fn clock(&self) -> &Arc<dyn Clock>;
    /// Starts a request; never blocks on the device.
    fn submit(&self, request: Request);
    /// Reads, and waits for it.
    fn read(&self, _offset: u64, _bytes: &mut [u8]) -> io::Result<()> {
        todo!()
    }
    /// Writes, and waits for it.
    fn write(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        todo!()
    }
    /// Writes pieces end to end, and waits for it.
    fn write_vectored(&self, _offset: u64, _pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        todo!()
    }
    /// Makes all completed writes durable, and waits for it.
    fn flush(&self) -> io::Result<()> {
        todo!()
    }
}
