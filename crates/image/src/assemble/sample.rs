//! A superblock for what asks one before there is a volume.
use extant_format::layout::Wishes;
use extant_format::superblock::{Feature, Superblock};

/// A superblock that agrees with these wishes in all that structures ask of one (block size,
/// features, inode size).
pub fn sample_superblock(wishes: &Wishes) -> Superblock {
    let mut superblock = Superblock::empty();
    superblock.features = wishes.features;
    superblock.block_size_log2 = wishes.block_size.trailing_zeros() as u8;
    if superblock.has(Feature::BIGALLOC) {
        superblock.set_cluster_log2(wishes.cluster_log2());
    }
    superblock.inode_size = wishes.inode_size;
    superblock.hash_seed = wishes.hash_seed;
    superblock.hash_version = wishes.hash_version;
    superblock.uuid = wishes.uuid;
    if wishes.inode_size > 128 {
        (superblock.min_extra_isize, superblock.want_extra_isize) = (32, 32);
    }
    superblock
}
