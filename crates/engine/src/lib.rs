//! The mounted file system.
pub mod allocation;
pub mod attribute;
mod cache;
mod core;
mod directory;
pub mod error;
mod file;
mod filesystem;
mod group;
mod inode;
mod journal;
mod mapping;
mod namespace;
mod pages;
pub mod placement;
pub mod preset;
mod rename;
mod runs;
mod volume;
mod writeback;

pub use error::{Error, ErrorKind, Result};
pub use attribute::SetAttribute;
pub use file::Size;
pub use filesystem::{Change, DirectoryEntry, File, Filesystem, Metadata, Statfs};
pub use namespace::LINKS_MAX;
pub use rename::Rename;
pub use volume::{Access, DataKeeping, Options};
