//! What a program calls.
pub(crate) mod directory_stream;
pub(crate) mod filesystem;
pub mod import;
pub mod inodes;
pub mod mkfs;
pub(crate) mod object;
pub mod survey;
