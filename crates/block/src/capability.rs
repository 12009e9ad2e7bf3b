//! What a device can do beside its requests: one small trait each, none of which it must have.
//!
//! A device tells what it has by [`Capabilities`], which has a field for each. One that is made of
//! another writes that struct out, field by field: a capability that is new or forgotten does not
//! compile. What it may write:
//!
//! ```text
//! below.holes                                the device below answers, at the same bytes
//! below.holes.map(|_| self as _)             this one answers, by what the device below has
//! Some(self)                                 this one has it, whatever is below
//! None                                       nobody has it: callers do what they do without
//! ```
//!
//! *Invariants*: what a device tells of itself does not change while it is there.
use crate::request::Operation;
use std::fs::File;
use std::io;
use std::ops::Range;

/// What a device has of all that devices may have. No `..`: see the head of this module.
#[derive(Clone, Copy)]
pub struct Capabilities<'a> {
    /// It can force one write through its cache.
    pub durable: Option<&'a dyn WritesDurably>,
    /// Bytes may be in the host's memory.
    pub remembers: Option<&'a dyn Remembers>,
    /// It has a queue that fills.
    pub congestion: Option<&'a dyn Congests>,
    /// It knows where it holds nothing.
    pub holes: Option<&'a dyn KnowsHoles>,
    /// It can do something with bytes that are not needed any more.
    pub discard: Option<&'a dyn Discards>,
    /// Its queue tells reads of metadata apart.
    pub metadata: Option<&'a dyn ReadsMetadata>,
    /// The host's file in which its bytes are as it gives them, and the byte of that file at which
    /// it begins: for calls that move bytes without a copy.
    pub host_file: Option<(&'a File, u64)>,
    /// Some of its last bytes are those of another device, which belongs to it.
    pub annex: Option<Annex>,
}

impl Capabilities<'_> {
    /// Of a device that has requests and nothing else. Not for one that is made of another.
    pub const NONE: Capabilities<'static> = Capabilities {
        durable: None,
        remembers: None,
        congestion: None,
        holes: None,
        discard: None,
        metadata: None,
        host_file: None,
        annex: None,
    };
}

/// Where the bytes of a device end, and those of the one behind it begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Annex {
    /// Bytes of the device without the annex.
    pub own_bytes: u64,
    /// The first byte of the annex, which goes to the end: a multiple of 64 KiB, and of any block.
    pub start: u64,
}

/// Forces one write through the cache of a device.
pub trait WritesDurably {
    /// Writes, and returns when this write is durable. Nothing is guaranteed about others.
    ///
    /// # Errors
    /// Those of a write and of a flush.
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Has bytes in memory.
pub trait Remembers {
    /// Reads what the host holds in memory of these bytes, without waiting for any device. Returns
    /// how many bytes from the start on were read: fewer than asked for, or none, if the rest is
    /// not in memory, cannot be read, or the device does not know.
    fn read_remembered(&self, offset: u64, bytes: &mut [u8]) -> usize;
}

/// Has a queue of the host before it, which fills.
pub trait Congests {
    /// Waits until the queue has room for what was submitted in this direction, where a process
    /// that finds it full sleeps (Linux 2.4). Called with no short lock held.
    fn wait_for_room(&self, operation: Operation);
    /// Whether the queue is nearly full in this direction, so that a thread that has other work
    /// leaves it alone (Linux 2.6).
    fn is_congested(&self, operation: Operation) -> bool;
    /// Waits until a request of this direction has ended and the queue is not congested, or until
    /// `deadline`, in nanoseconds of the clock. Called with no short lock held.
    fn wait_for_relief(&self, operation: Operation, deadline: u64);
}

/// Knows where nothing is.
pub trait KnowsHoles {
    /// The first stretch of bytes at or after `offset` that may hold anything but zeros; `None` if
    /// only zeros are left.
    ///
    /// Bytes outside such stretches are known to be zeros without reading them. A stretch may hold
    /// zeros too, and end before the next one begins.
    ///
    /// # Errors
    /// Those of the host.
    fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>>;
}

/// Gives back what keeps bytes.
pub trait Discards {
    /// Tells the device that bytes are not needed any more, so that it may give back what keeps
    /// them, and waits until that is done. They may read as anything until they are written again.
    /// As for a write, it is not known before the next flush whether a power cut undoes it.
    ///
    /// # Errors
    /// `Unsupported` for a device that can do nothing with that; those of a write.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()>;
}

/// Has a queue that tells metadata apart.
pub trait ReadsMetadata {
    /// Reads a directory or an inode, and waits until that is done
    /// ([`Urgency::Metadata`](crate::Urgency::Metadata)).
    ///
    /// # Errors
    /// Those of a read.
    fn read_metadata(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}
