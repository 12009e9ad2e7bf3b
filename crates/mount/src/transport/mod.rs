//! How requests come from the kernel and replies go back.
//!
//! ```text
//! device      /dev/fuse: one message a read, one reply a write
//! attach      puts the file system into the tree of directories: by mount(2), or by fusermount3
//! options     what is asked of a mount, and the words for it
//! fusermount  the set-user program that mounts for users
//! detach      takes it out again
//! connection  the kernel's side of a mount, which can be ended from outside
//! error       why one of these failed, and what can be done
//! ```
//!
//! *Invariants*: a reply is handed over whole, in one call. After `receive` returned
//! [`Received::Unmounted`] or [`Received::Aborted`], it returns nothing else.
//!
//! *Locking*: none. A transport may be used by several threads at once.
//!
//! FUSE over io_uring (Linux 6.14) would be a second implementation. It needs a ring with entries
//! of 128 bytes for each processor, entries registered with buffers of their own (so that a request
//! arrives in the transport's memory, and `receive` hands out a part of it instead of filling the
//! caller's), and a reply that is committed together with the fetch of the next request on the same
//! ring: `send` keeps what it was given until then, and `receive` of that thread submits both. The
//! first request (INIT), those without a reply and interrupts still come from /dev/fuse.
mod attach;
mod connection;
mod detach;
mod device;
mod error;
mod fusermount;
mod options;

use std::io::{self, IoSlice};

pub use attach::{Attached, attach};
pub use detach::detach;
pub use device::FuseDevice;
pub use error::{AttachError, DetachError};
pub use options::{Audience, Covering, Detach, Flag, Kind, Options};

/// What `receive` found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// A request of this many bytes is at the start of the buffer.
    Message(usize),
    /// None: a signal came, or the request was withdrawn before it was read. Ask again.
    Interrupted,
    /// The file system was unmounted. No request will come.
    Unmounted,
    /// The connection was ended from outside, with requests that were never answered. No request
    /// will come.
    Aborted,
}

/// The way to the kernel, for one mount.
pub trait Transport: Send + Sync {
    /// Waits for a request and copies it to the start of `buffer`, which must hold the largest one:
    /// a header and a write of the negotiated size.
    ///
    /// # Errors
    /// Those of the host. `InvalidInput`: the buffer is too small.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received>;

    /// As `receive`, but if there is no request it returns `None` at once.
    ///
    /// # Errors
    /// As `receive`.
    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<Received>>;

    /// Sends one reply, whose parts follow each other. A reply to a request that was withdrawn, or
    /// whose mount is gone, is dropped without an error.
    ///
    /// # Errors
    /// The kernel does not accept the reply; the program that made the request then still waits for
    /// one, unless a later reply is refused with the same words.
    fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<()>;

    /// Whether a request waits to be received. Returns at once.
    fn is_pending(&self) -> bool;

    /// Has the kernel read ahead this many KiB of a file at most, once the greeting is over. Where
    /// the host does not let this program say so, it stays as it is.
    fn widen_read_ahead(&self, kib: u32) {
        let _ = kib;
    }

    /// Ends the connection: requests that are not answered fail with an error, and `receive`
    /// returns [`Received::Aborted`] or [`Received::Unmounted`] to all who wait in it.
    ///
    /// # Errors
    /// The host does not allow it.
    fn abort(&self) -> io::Result<()>;
}
