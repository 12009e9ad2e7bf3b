//! Inodes: in their table and in memory, their maps, their bytes and attributes.
//!
//! ```text
//! change             size, owner, mode and times in one step, and inode flags
//! attribute_access   extended attributes and access lists, for a caller
//! file               bytes: read, write, cut, allocate, punch; range (zero, collapse, insert),
//!                    remembered (reads of what the host has in memory), inline (content that
//!                    moves out of its inode), holes (room for what is written)
//! write_back         dirty blocks are allocated and submitted
//! attribute          extended attributes
//! access             what a caller may do        access_list  access lists of callers
//! caller             who makes a call
//! permission         what inode flags forbid
//! rights             which rights of a file end when it changes
//! access_time        what reads change
//! nameless           inodes without a name: kept while open, then freed
//! unfinished         long work in steps, and which inodes recovery has to finish
//! inodes             all inodes of an open volume
//! nodes              the inodes in memory           node       one inode in memory
//! pages              blocks of a file in memory     arrivals   blocks being read into it
//! held               what the pages of all files take together
//! resident           the runs in which they are kept     stream   what reads in a row share
//! placed             blocks with a place on the volume and data on their way, in no map yet
//! mapping            file blocks to blocks: extents (removal, merge, unwritten, compact, shift;
//!                    dense, rewrite) or indirect blocks; clusters: those of bigalloc
//! window             blocks in hand for a growing file or directory
//! table              the inode table                unstored   changed inodes not in it yet
//! pages::held        the memory that they take
//! lazy_pages         pages that are made when they are wanted
//! known_names        names that were looked up lately
//! listings           inodes that a directory was listed with, to be read together
//! table_windows      how much of the tables is read at once
//! operation          a handle with its volume       credits    how many blocks it changes
//! volume             store, space, pages, orphans and unstored inodes of one open volume
//! orphans            the list of orphans, as it is on the disk
//! journal            the journal's own inode: the map of the log
//! quota              what each user, group and project has, in the quota files
//! shares             what an inode counts for in them
//! value              values of attributes in inodes of their own
//! released           those that no attribute has any more
//! ```
pub(crate) mod access;
pub(crate) mod access_list;
pub(crate) mod access_time;
pub mod attribute;
pub(crate) mod attribute_access;
pub(crate) mod caller;
pub(crate) mod change;
pub(crate) mod credits;
pub(crate) mod file;
pub(crate) mod inodes;
pub(crate) mod journal;
pub(crate) mod known_names;
mod lazy_pages;
pub(crate) mod listings;
pub(crate) mod mapping;
pub(crate) mod nameless;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod operation;
mod orphans;
pub(crate) mod pages;
pub(crate) mod permission;
pub(crate) mod placed;
pub(crate) mod quota;
mod released;
pub(crate) mod rights;
mod shares;
pub(crate) mod table;
pub(crate) mod table_windows;
pub(crate) mod unfinished;
mod unstored;
pub(crate) mod value;
pub(crate) mod volume;
pub(crate) mod write_back;

pub(crate) use inodes::Inodes;
pub(crate) use node::{Node, NodeState};
pub(crate) use table::load;
pub(crate) use volume::Volume;
