//! The passes, in the order in which they run. Each reads the facts of those before it and adds its
//! own; none calls a later one.
//!
//! ```text
//! volume        pass 0   where everything is
//! inodes        pass 1   inodes, maps, attributes
//! duplicates    pass 1b  owners of blocks that were claimed twice; walks the inodes again
//! directories   pass 2   directory blocks, their entries and indexes
//! connectivity  pass 3   the way from each directory to the root
//! links         pass 4   link counts
//! bitmaps       pass 5   bitmaps and counters
//! quota         pass 5   quota files; pass 1 adds up for it
//! ```
pub(crate) mod bitmaps;
pub(crate) mod connectivity;
pub(crate) mod directories;
pub(crate) mod duplicates;
pub(crate) mod inodes;
pub(crate) mod links;
pub(crate) mod quota;
pub(crate) mod volume;
