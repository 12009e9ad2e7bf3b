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

/// The orphans in a block of the file; `None` without its magic number or with a wrong checksum,
/// which is 0 without metadata_csum. `inode_seed` is that of the file, `block` its place.
pub fn orphans(
    bytes: &[u8],
    block: BlockNo,
    inode_seed: u32,
    superblock: &Superblock,
) -> Option<Vec<Ino>> {
    let (body, tail) = bytes.split_at_checked(bytes.len().saturating_sub(TAIL))?;
    let computed = if superblock.has(Feature::METADATA_CSUM) {
        crc32c(crc32c(inode_seed, &block.0.to_le_bytes()), body)
    } else {
        0
    };
    let (magic, stored) = (u32_at(tail, 0), u32_at(tail, size_of::<u32>()));
    if magic != MAGIC || stored != computed {
        return None;
    }
    let (words, _) = body.as_chunks::<4>();
    let numbers = words.iter().map(|word| Ino(u32::from_le_bytes(*word)));
    Some(numbers.filter(|ino| ino.0 != 0).collect())
}
