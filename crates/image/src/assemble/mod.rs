//! From a tree to an image: how large it has to be, where everything goes, and the writing of it.
//!
//! ```text
//! prepare    what an image is to be like, and from there to a job
//! job        all that is known before the first byte is written
//! write      mkfs, then the tree, then the rest is cut off; one size after the other until it
//!            fits
//! fill       the tree through the engine
//! goals      where the allocator looks for data that is on the volume already
//! stream     file data, read and written by workers meanwhile
//! plan       the volume's size, its metadata in front, its data after it
//! inodes     how many inodes: the content's, those asked for, those of free room
//! need       blocks of each kind
//! kept       what inodes cannot hold of times and sizes
//! order      inode numbers, and with them the order of everything
//! digest     a number for the tree: UUID and hash seed
//! room       room and inodes to leave free
//! sample     a superblock before there is a volume
//! medium     what takes the bytes: a file, memory, or what a caller has
//! within     a destination that ends before the bytes on which a volume is laid out
//! ```
pub mod digest;
mod fill;
mod goals;
mod inodes;
mod job;
mod kept;
mod medium;
mod need;
mod order;
mod plan;
mod prepare;
mod room;
mod sample;
mod stream;
mod within;
mod write;

pub use job::{Built, Destination, Job, Place};
pub use medium::{InMemory, Medium};
pub use order::LostFolder;
pub use plan::FlexGroups;
pub use prepare::{BLOCK_SIZE, BuildOptions, DATED_LATEST, SmallJournal};

pub use room::{FreeInodes, ImageSize, Room};
