//! Inodes: in their table and in memory, their maps, their bytes and attributes.
//!
//! ```text
//! file         bytes: read, write, truncate, allocate, punch        access_time  what reads change
//! write_back   dirty blocks get their places, and are submitted     rights       owner, mode, flags
//! attribute    extended attributes                                  permission   what flags forbid
//! mapping      file blocks to blocks: extents, indirect blocks
//! nameless     inodes without a name    inodes     all of an open volume
//! node         an inode in memory       nodes      those in memory
//! pages        blocks of a file in memory, on their way in and out
//! table        the inode table      unstored   what it does not know yet     credits   how many blocks change
//! operation    a handle, with the volume that it changes
//! volume       store, space, pages and unstored inodes of one open volume
//! ```
pub(crate) mod access_time;
pub mod attribute;
pub(crate) mod credits;
pub(crate) mod file;
pub(crate) mod inodes;
pub(crate) mod mapping;
mod nameless;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod operation;
pub(crate) mod pages;
pub(crate) mod permission;
pub(crate) mod rights;
pub(crate) mod table;
mod unstored;
pub(crate) mod volume;
pub(crate) mod write_back;

pub(crate) use inodes::Inodes;
pub(crate) use node::{Node, NodeState};
pub(crate) use table::load;
pub(crate) use volume::Volume;
