//! From a tree to an image: how large it has to be, where everything goes, and the writing of it.
//!
//! ```text
//! digest     a number for the tree: UUID and hash seed
//! order      inode numbers, and with them the order of everything
//! kept       what inodes cannot hold of times
//! need       blocks of each kind
//! inodes     how many inodes: the content's, those asked for, those of free room
//! plan       the volume's size, its metadata in front, its data behind
//! write      mkfs, then the tree, then what is left over is cut off; one size after the other until it fits
//! fill       the tree through the engine
//! stream     file data, read and written by workers meanwhile
//! ```
pub mod digest;
mod fill;
pub mod inodes;
pub mod kept;
pub mod need;
pub mod order;
pub mod plan;
pub mod stream;
pub mod write;

use extant_format::layout::Wishes;
use extant_format::superblock::Superblock;

/// A superblock that agrees with these wishes in all that structures ask of one (block size,
/// features, inode size).
pub fn sample_superblock(wishes: &Wishes) -> Superblock {
    let mut superblock = Superblock::empty();
    superblock.features = wishes.features;
    superblock.block_size_log2 = wishes.block_size.trailing_zeros() as u8;
    superblock.inode_size = wishes.inode_size;
    superblock.hash_seed = wishes.hash_seed;
    superblock.hash_version = wishes.hash_version;
    superblock.uuid = wishes.uuid;
    if wishes.inode_size > 128 {
        (superblock.min_extra_isize, superblock.want_extra_isize) = (32, 32);
    }
    superblock
}
