//! From an image to a tar archive that holds all of it: pax, deterministic, read in the order of
//! the disk.
//!
//! ```text
//! plan       which names, in which order; what cannot be exported
//! header     a name and what is known of it, as blocks of an archive
//! access     access lists as text
//! body       a thread that reads the bytes of files ahead, in large pieces
//! archive    headers, bodies and what fills the gaps, written without being copied
//! output     the file, pipe or device that takes it
//! ```
//!
//! # The order
//! A directory stands before what is in it, and all that is in it stands together, because GNU tar
//! sets a directory's time when it leaves it. Within a directory names follow each other as their
//! first bytes do on the disk: an image that was filled from a tree, directory by directory, is
//! read from front to back.
//!
//! # What is said how
//! As little as possible: an extended header only for what the old fields cannot hold. Access and
//! change time only where they differ from the modify time; our own reader, as others, takes that
//! for what is not said.
mod access;
mod archive;
mod body;
mod header;
mod output;
mod plan;

pub use archive::{Summary, write};
pub use output::Output;
pub use plan::{Plan, Trouble};

use std::fmt;

/// Something that is left out, or not whole, and why.
#[derive(Debug)]
pub struct LeftOut {
    /// The path in the image, printable, without a leading slash; "/" for the root.
    pub path: String,
    /// The reason.
    pub reason: String,
}

impl LeftOut {
    pub(crate) fn new(path: &[u8], reason: impl fmt::Display) -> LeftOut {
        let path = match path {
            b"" => "/".to_owned(),
            path => crate::error::printable(path),
        };
        LeftOut { path, reason: reason.to_string() }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}
