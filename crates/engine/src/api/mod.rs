//! What a program calls.
//!
//! ```text
//! filesystem        an open file system: paths and open files
//! directory_stream  listing a directory that may change meanwhile
//! inodes            the calls by inode that a mount needs: names, directories, files, copy (from
//!                   one file to another), attributes, memory
//! memory_use        how much memory it takes
//! object            an inode without a path, to be read
//! room              how much of it is used
//! import            a whole tree into an empty volume
//! survey            a whole volume, read in the order of the disk
//! mkfs              an empty file system: profile (defaults), tables; its first files through the
//!                   engine (files) or as mke2fs has them: draft (the volume in memory), classic
//!                   (the files), quota, traffic (what mke2fs counts as written); super_only
//!                   (superblocks alone), journal_device (no volume, a journal of one), bad_blocks
//! ```
pub(crate) mod directory_stream;
pub(crate) mod filesystem;
pub mod import;
pub mod inodes;
pub(crate) mod memory_use;
pub mod mkfs;
pub(crate) mod object;
pub(crate) mod room;
pub mod survey;
