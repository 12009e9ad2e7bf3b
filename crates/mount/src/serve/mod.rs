//! Answers to the requests of a kernel, by calls of the engine.
//!
//! ```text
//! server       which call answers which request
//! names        look up, make, link, rename, remove
//! files        open files: read, write, allocate, sync
//! directories  listings
//! attributes   what stat shows and chmod, chown, truncate and utimens change
//! xattrs       extended attributes
//! ioctls       flags, projects, trim
//! growth       the volume gets longer
//! length       what it ends with, which may become longer
//! removed      the last state of inodes that were removed while the kernel knows them
//! handles      numbers of open files
//! writers      which files are open for writing
//! seeks        searches for data and holes in files that are being written
//! notices      what the server tells the kernel without being asked
//! reserve      who may take the blocks that a volume reserves
//! unseen       change times that the kernel has not seen
//! identities   users and groups of the volume as those of the host
//! watch        what an observer is told
//! ```
//! Each request is answered once, by the part it is handed to.
mod attributes;
mod directories;
mod files;
mod growth;
mod handles;
mod identities;
mod ioctls;
mod length;
mod names;
mod notices;
mod removed;
mod reserve;
mod seeks;
mod server;
mod unseen;
mod watch;
mod writers;
mod xattrs;

use crate::protocol::{Reply, Request};
pub use identities::{IdMap, IdRange, Identities};
pub use length::{Length, Room};
pub use reserve::Reserve;
pub use server::{Masks, Server, Settings, Trimming, Xattrs};
pub use watch::{Outcome, Watch};

/// Bytes that are read for one request, at most.
const READ_MAX: usize = 1 << 20;
/// Bytes that one request copies, at most.
const COPY_MAX: u64 = 16 << 20;

/// Answers requests, from several threads at a time.
pub trait Serve: Send + Sync {
    /// Answers one request (other than `Init`, which the session answers). `space` is a buffer of
    /// the thread's own, for what is read: its content is of no use before and afterwards.
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>, space: &mut Vec<u8>);
}
