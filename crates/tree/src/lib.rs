//! What a file is like, whatever keeps it: an image, an archive, a folder of the host.
//!
//! ```text
//! facts     type, owner, mode, times, size; extended attributes
//! access    access lists as text
//! flags     what chattr sets, as text
//! magic     the bytes by which formats of files are known
//! host      files and folders of the host: what they are like, and making them
//! ```
//! The access list itself, its rules and its two forms in bytes are [`extant_format::acl`], since
//! images keep one of them.
pub mod access;
mod facts;
pub mod flags;
pub mod host;
pub mod magic;

pub use facts::{Described, Facts};
pub use host::Links;
