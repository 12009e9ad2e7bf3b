//! Names: directories, and what is done with the names in them.
//!
//! ```text
//! rename      renames, exchanges, replacement      opening    files that are open from the start
//! namespace   look-up, creation, links, removal    beginning  what a new object begins with
//! directory   entries in blocks and the hash index: linear, hashed, split, list, cookie, ahead,
//!             pack, saved (names that no file may have), keyless (names as readers see them),
//!             inline (names in the inode of their directory)
//! ```
pub(crate) mod beginning;
pub(crate) mod directory;
pub(crate) mod namespace;
pub(crate) mod opening;
pub(crate) mod rename;
