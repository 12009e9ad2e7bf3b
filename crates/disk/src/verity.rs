//! The hash tree of dm-verity: what the kernel checks every block of a read-only volume against.
//!
//! ```text
//! superblock | root: one block of hashes | ... | hashes of the data blocks
//! ```
//! Format version 1, as `veritysetup format` writes it: SHA-256 of salt and block, 128 hashes to a
//! block of 4,096 bytes, unused bytes zero, the level nearest to the root first. From cryptsetup's
//! description of the format; judged by `veritysetup verify`.
use crate::Seed;
use crate::content::read_padded;
use extant_archive::is_zeros;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of a block of data, and of one of hashes.
pub const BLOCK_BYTES: u64 = 4096;
/// Bytes of a hash.
const HASH_BYTES: usize = 32;
/// Hashes of a block.
const FAN_OUT: u64 = BLOCK_BYTES / HASH_BYTES as u64;
/// The longest salt that the superblock holds.
pub const SALT_BYTES_MAX: usize = 256;
/// What a superblock begins with.
const MAGIC: &[u8] = b"verity\0\0";
/// Threads that hash.
const WORKERS: usize = 8;

/// What a tree is made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Hashed before each block; at most [`SALT_BYTES_MAX`] bytes.
    pub salt: Vec<u8>,
    /// The UUID in the superblock of the tree.
    pub uuid: [u8; 16],
}

impl Options {
    /// A salt of 32 bytes and a UUID, made from the seed.
    pub fn new(seed: Seed) -> Options {
        Options { salt: seed.bytes("verity salt").to_vec(), uuid: seed.uuid("verity uuid") }
    }
}

/// A tree that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// The hash that the kernel is given: all the rest follows from it.
    pub root: [u8; HASH_BYTES],
    /// Blocks of data that are hashed.
    pub data_blocks: u64,
    /// Bytes of superblock and tree.
    pub bytes: u64,
}

impl Tree {
    /// The root hash in hexadecimal.
    pub fn root_hash(&self) -> String {
        hexadecimal(&self.root)
    }

    /// Bytes that a tree over so many bytes of data takes, with its superblock.
    pub fn bytes_for(data_bytes: u64) -> u64 {
        let blocks: u64 = levels(data_bytes.div_ceil(BLOCK_BYTES)).iter().sum();
        (1 + blocks) * BLOCK_BYTES
    }
}

/// Bytes in hexadecimal, small letters.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether bytes begin as a tree's superblock does.
pub fn begins_tree(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Blocks of hashes on each level, the one over the data first. One block of data needs none: its
/// own hash is the root.
fn levels(data_blocks: u64) -> Vec<u64> {
    let mut levels = Vec::new();
    let mut blocks = data_blocks;
    while blocks > 1 {
        blocks = blocks.div_ceil(FAN_OUT);
        levels.push(blocks);
    }
    levels
}

/// Hashes `volume`, bytes of `data`, and writes superblock and tree to `tree`, from the byte `at`.
/// Where the volume ends within a block, the rest of that block counts as zeros: the caller makes
/// sure that there are zeros.
///
/// # Errors
/// The host's; `InvalidInput` for a volume without bytes, one that begins elsewhere than at a
/// block, a tree that does, and a salt that is too long.
pub fn write(
    data: &File,
    volume: Range<u64>,
    tree: &File,
    at: u64,
    options: &Options,
) -> io::Result<Tree> {
    let data_blocks = volume.end.saturating_sub(volume.start).div_ceil(BLOCK_BYTES);
    if data_blocks == 0 || !at.is_multiple_of(BLOCK_BYTES) || options.salt.len() > SALT_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let levels = levels(data_blocks);
    let salted = Sha256::new().chain_update(&options.salt);
    let mut below = Level { file: data, start: volume.start, blocks: data_blocks };
    // The levels stand with the smallest first.
    let mut end = at + (1 + levels.iter().sum::<u64>()) * BLOCK_BYTES;
    let bytes = end - at;
    for blocks in levels {
        let start = end - blocks * BLOCK_BYTES;
        let level = Level { file: tree, start, blocks };
        hash_level(&below, &level, &salted)?;
        (below, end) = (level, start);
    }
    let mut block = vec![0; BLOCK_BYTES as usize];
    read_padded(below.file, &mut block, below.start)?;
    let root = salted.chain_update(&block).finalize().into();
    tree.write_all_at(&superblock(data_blocks, options), at)?;
    Ok(Tree { root, data_blocks, bytes })
}

/// Blocks of data, or of hashes.
struct Level<'a> {
    file: &'a File,
    start: u64,
    blocks: u64,
}

/// Writes the blocks of `level`: the hashes of the blocks of `below`.
fn hash_level(below: &Level<'_>, level: &Level<'_>, salted: &Sha256) -> io::Result<()> {
    let next = AtomicU64::new(0);
    let failure: Mutex<Option<io::Error>> = Mutex::new(None);
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get().min(WORKERS));
    let work = || {
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < level.blocks
        {
            if let Err(error) = hash_block(below, level, number, salted) {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                next.store(level.blocks, Ordering::Relaxed);
            }
        }
    };
    // tidy: thread because a disk is hashed on the host's time, and no experiment hashes one
    std::thread::scope(|scope| {
        for _ in 1..workers.min(usize::try_from(level.blocks).unwrap_or(usize::MAX)) {
            // tidy: thread because a disk is hashed on the host's time, and no experiment does it
            scope.spawn(work);
        }
        work();
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Writes one block of hashes.
fn hash_block(
    below: &Level<'_>,
    level: &Level<'_>,
    number: u64,
    salted: &Sha256,
) -> io::Result<()> {
    let first = number * FAN_OUT;
    let count = FAN_OUT.min(below.blocks - first);
    let mut bytes = vec![0; (count * BLOCK_BYTES) as usize];
    read_padded(below.file, &mut bytes, below.start + first * BLOCK_BYTES)?;
    let mut hashes = [0; BLOCK_BYTES as usize];
    let mut of_zeros: Option<[u8; HASH_BYTES]> = None;
    let blocks = bytes.chunks_exact(BLOCK_BYTES as usize);
    for (block, hash) in blocks.zip(hashes.chunks_exact_mut(HASH_BYTES)) {
        let digest = || salted.clone().chain_update(block).finalize().into();
        let digest = match is_zeros(block) {
            true => *of_zeros.get_or_insert_with(digest),
            false => digest(),
        };
        hash.copy_from_slice(&digest);
    }
    level.file.write_all_at(&hashes, level.start + number * BLOCK_BYTES)
}

/// The block that tells what the tree was made with.
fn superblock(data_blocks: u64, options: &Options) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_BYTES as usize);
    block.extend_from_slice(MAGIC);
    block.extend_from_slice(&1_u32.to_le_bytes()); // the version of this block
    block.extend_from_slice(&1_u32.to_le_bytes()); // the salt comes before the data
    block.extend_from_slice(&options.uuid);
    block.extend_from_slice(b"sha256");
    block.resize(64, 0);
    block.extend_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
    block.extend_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
    block.extend_from_slice(&data_blocks.to_le_bytes());
    block.extend_from_slice(&(options.salt.len() as u16).to_le_bytes());
    block.resize(88, 0);
    block.extend_from_slice(&options.salt);
    block.resize(BLOCK_BYTES as usize, 0);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_end_with_one_block() {
        let cases: [(u64, &[u64]); 6] = [
            (1, &[]),
            (2, &[1]),
            (128, &[1]),
            (129, &[2, 1]),
            (16_384, &[128, 1]),
            (16_385, &[129, 2, 1]),
        ];
        for (blocks, expected) in cases {
            assert_eq!(levels(blocks), expected, "{blocks}");
        }
        assert_eq!(Tree::bytes_for(129 * BLOCK_BYTES), 4 * BLOCK_BYTES);
    }

    #[test]
    fn a_changed_bit_changes_the_root() {
        let file = tempfile::tempfile().unwrap();
        let bytes = 300 * BLOCK_BYTES;
        file.write_all_at(&vec![3; 1000], 200 * BLOCK_BYTES).unwrap();
        let options = Options::new(Seed([1; 16]));
        let root = || write(&file, 0..bytes, &file, bytes, &options).unwrap().root;
        let before = root();
        assert_eq!(before, root());
        file.write_all_at(&[1], bytes - 1).unwrap();
        assert_ne!(before, root());
    }
}
