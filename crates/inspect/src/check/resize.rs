//! Pass 1: the inode that maps the descriptor blocks kept for growth.
//!
//! ```text
//! inode 7 -> double indirect -> one block for each reserved descriptor block of group 0 (the block itself)
//!                                  -> the same block of each copy
//! ```
use super::codes::Code;
use super::maps::{self, Kind, Walk};
use super::plan::MapReader;
use super::problem::Problem;
use super::state::State;
use super::superblock::META_BG;
use super::words::u32_at;
use crate::error::Error;
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, indirect};

/// Where the double indirect block stands in the inode.
const DOUBLE: u32 = indirect::DIRECT + 1;

/// Whether inode 7 maps descriptor blocks. Without the feature too, as long as blocks are reserved:
/// that is told of the superblock, and changes nothing.
pub(crate) fn is_used(superblock: &Superblock) -> bool {
    superblock.has(Feature::RESIZE_INODE) || superblock.reserved_gdt_blocks != 0
}

/// Judges inode 7 and its map, and claims its double indirect block; all else that it maps is
/// metadata already.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(state: &State) -> Result<(), Error> {
    let superblock = state.volume.superblock();
    if !is_used(superblock) || superblock.has(META_BG) {
        return Ok(());
    }
    let inode = match state.volume.inode(Ino::RESIZE) {
        Err(Error::Device(error)) => return Err(error.into()),
        result => result.ok(),
    };
    let found = match &inode {
        Some(inode) => match valid(state, inode) {
            Err(Error::Outside { .. }) => Some("what it maps is not on the device"),
            result => result?,
        },
        None => Some("it cannot be read"),
    };
    if let Some(inode) = &inode {
        let mut roots = Vec::new();
        let walk = Walk::new(Ino::RESIZE, Kind::Resize, inode, 0, state);
        maps::roots(state, walk, inode, &mut roots);
        MapReader::default().follow(state, roots)?;
    }
    if found.is_some() && superblock.has(Feature::RESIZE_INODE) {
        state.tell(Problem::new(Code::ResizeInode).ino(Ino::RESIZE));
    }
    Ok(())
}

/// What is wrong with it.
fn valid(state: &State, inode: &Inode) -> Result<Option<&'static str>, Error> {
    let root = BlockNo(indirect::pointer(&inode.block, DOUBLE).into());
    if root.0 == 0 || !state.volume.holds(root) || state.is_metadata(root) {
        return Ok(Some("its double indirect block is not on the volume"));
    }
    let others = (0..15).filter(|index| *index != DOUBLE);
    if others.into_iter().any(|index| indirect::pointer(&inode.block, index) != 0) {
        return Ok(Some("it has other blocks"));
    }
    if inode.file_type() != Some(FileType::Regular) || inode.links == 0 {
        return Ok(Some("it is no file"));
    }
    let superblock = state.volume.superblock();
    // That the others are not on the device is told of the whole.
    let copies = (1_u32..)
        .zip(state.groups.iter().skip(1))
        .map(|(group, _)| GroupNo(group))
        .filter(|group| state.volume.has_super(*group));
    let offsets: Vec<u64> =
        copies.map(|group| u64::from(group.0) * u64::from(superblock.blocks_per_group)).collect();
    let root = state.volume.block("resize inode", root)?;
    let pointers = u64::from(superblock.block_size() / 4);
    let old_blocks = u64::from(superblock.descriptor_blocks());
    // With clusters block 0 is the first one, and the superblock still stands in block 1 of 1 KiB.
    let behind_super = u64::from(superblock.block_size() == 1024) + 1;
    let first = behind_super + old_blocks;
    let mut bytes = vec![0; state.volume.block_size()];
    for block in first..first + u64::from(superblock.reserved_gdt_blocks) {
        let slot = (block - behind_super) % pointers;
        if u64::from(u32_at(&root, usize::try_from(slot * 4).unwrap_or(0))) != block {
            return Ok(Some("a reserved block is missing"));
        }
        state.read("resize inode", BlockNo(block), &mut bytes)?;
        let is_right =
            |(index, offset): (usize, &u64)| u64::from(u32_at(&bytes, index * 4)) == block + offset;
        if !offsets.iter().enumerate().all(is_right) {
            return Ok(Some("a copy of a reserved block is missing"));
        }
    }
    Ok(None)
}
