//! What a file is like, whatever keeps it: an image, an archive, a folder of the host.
//!
//! ```text
//! access    access lists as text
//! ```
//! The list itself, its rules and its two forms in bytes are [`extant_format::acl`], since images
//! keep one of them.
pub mod access;
