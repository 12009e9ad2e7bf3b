//! Inodes: in their table and in memory, their maps, their bytes and attributes.
//!
//! ```text
//! file         bytes: read (file/read), write, truncate, allocate, punch
//! write_back   dirty blocks are allocated and submitted
//! attribute    extended attributes
//! rights       changes of owner, mode, times and flags
//! permission   what inode flags forbid, which rights end with a change
//! access_time  what reads change
//! nameless     inodes without a name: kept while open, then freed
//! inodes       all inodes of an open volume
//! nodes        the inodes in memory           node       one inode in memory
//! pages        blocks of a file in memory     arrivals   blocks being read into it
//! mapping      file blocks to blocks: extents (merge, dense) or indirect blocks
//! window       blocks in hand for a growing file or directory
//! table        the inode table                unstored   changed inodes that are not in it yet
//! operation    a handle with its volume       credits    how many blocks an operation changes
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
