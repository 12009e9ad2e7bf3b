//! The mounted file system.
pub mod allocation;
mod cache;
mod directory;
pub mod error;
mod group;
mod inode;
mod journal;
mod mapping;
mod pages;
pub mod placement;
pub mod preset;
mod runs;
mod volume;

pub use error::{Error, ErrorKind, Result};
