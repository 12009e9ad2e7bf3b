//! The file of orphans (feature orphan_file): inodes that are deleted but still open, or being
//! truncated, one block independent of the next.
//!
//! ```text
//! block  | number of an inode, or 0: 4 | ... | magic: 4 | checksum: 4 |
//! ```
use crate::checksum::crc32c;
use crate::stored::u32_at;
use crate::superblock::{Feature, Superblock};
use crate::{BlockNo, Ino};

/// Bytes at the end of a block: a magic number and the checksum.
const TAIL: usize = 8;
const MAGIC: u32 = 0x0b10_ca04;

/// Makes a block of the file an empty one, at its place. `inode_seed` is that of the file. Bytes
/// that are too short for the tail are left as they are.
pub fn initialize(bytes: &mut [u8], block: BlockNo, inode_seed: u32, superblock: &Superblock) {
    let Some((body, tail)) = bytes.split_last_chunk_mut::<TAIL>() else { return };
    body.fill(0);
    let [m0, m1, m2, m3] = MAGIC.to_le_bytes();
    let [c0, c1, c2, c3] = checksum(body, block, inode_seed, superblock).to_le_bytes();
    *tail = [m0, m1, m2, m3, c0, c1, c2, c3];
}

/// The orphans in a block of the file; `None` without its magic number or with a wrong checksum,
/// which is 0 without metadata_csum. `inode_seed` is that of the file, `block` its place.
pub fn orphans(
    bytes: &[u8],
    block: BlockNo,
    inode_seed: u32,
    superblock: &Superblock,
) -> Option<Vec<Ino>> {
    let (body, tail) = bytes.split_at_checked(bytes.len().saturating_sub(TAIL))?;
    let computed = checksum(body, block, inode_seed, superblock);
    let (magic, stored) = (u32_at(tail, 0), u32_at(tail, size_of::<u32>()));
    if magic != MAGIC || stored != computed {
        return None;
    }
    let (words, _) = body.as_chunks::<4>();
    let numbers = words.iter().map(|word| Ino(u32::from_le_bytes(*word)));
    Some(numbers.filter(|ino| ino.0 != 0).collect())
}

/// Over the file's inode, the block's number and the numbers in it; 0 without metadata_csum.
fn checksum(body: &[u8], block: BlockNo, inode_seed: u32, superblock: &Superblock) -> u32 {
    match superblock.has(Feature::METADATA_CSUM) {
        true => crc32c(crc32c(inode_seed, &block.0.to_le_bytes()), body),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_block_is_sound_at_its_place_only() {
        for features in [&[Feature::METADATA_CSUM][..], &[]] {
            let mut superblock = Superblock::empty();
            features.iter().for_each(|feature| superblock.features.set(*feature));
            let mut bytes = vec![7; 1024];
            initialize(&mut bytes, BlockNo(40), 5, &superblock);
            assert_eq!(orphans(&bytes, BlockNo(40), 5, &superblock), Some(Vec::new()));
            let elsewhere = orphans(&bytes, BlockNo(41), 5, &superblock);
            assert_eq!(elsewhere.is_none(), !features.is_empty());
            bytes.pop();
            assert_eq!(orphans(&bytes, BlockNo(40), 5, &superblock), None);
        }
    }
}
