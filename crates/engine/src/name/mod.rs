//! Names: directories, and what is done with the names in them.
//!
//! ```text
//! namespace   look-up, creation, links, removal        rename   renames, exchanges, replacement
//! directory   entries in blocks and the hash index: linear, hashed, split, list, ahead, pack
//! ```
pub(crate) mod directory;
pub(crate) mod namespace;
pub(crate) mod rename;
