//! Writes the bitmaps and counters of groups as the check found them.
use crate::draft::{Draft, Result};
use extant_format::group::{BLOCK_UNINIT, INODE_UNINIT};
use extant_format::{GroupNo, bitmap};
use extant_inspect::ExpectedBits;

/// Writes the bitmaps and counters of the groups that the edits of a draft left behind.
///
/// # Errors
/// The device's.
pub(crate) fn write_stale(draft: &Draft, marked: Marked) -> Result<()> {
    draft.stale.iter().try_for_each(|group| write(draft, *group, marked))
}

/// Writes both bitmaps of a group, and what its descriptor counts.
///
/// # Errors
/// The device's.
pub(crate) fn write(draft: &Draft, group: GroupNo, marked: Marked) -> Result<()> {
    let Some(mut descriptor) = draft.descriptor(group)? else { return Ok(()) };
    let mut blocks = draft.usage.block_bits(group);
    let mut inodes = draft.usage.inode_bits(group);
    // Directories that were made since the check.
    for at in draft.given_in(group) {
        if let Some(word) = inodes.words.get_mut(at as usize / 64) {
            *word |= 1 << (at % 64);
            inodes.directories = inodes.directories.saturating_add(1);
        }
    }
    if marked == Marked::Kept {
        let is_written = |flag: u16| descriptor.flags & flag == 0;
        if is_written(BLOCK_UNINIT) {
            keep(&mut blocks, draft.read(descriptor.block_bitmap)?);
        }
        if is_written(INODE_UNINIT) {
            keep(&mut inodes, draft.read(descriptor.inode_bitmap)?);
        }
    }
    descriptor.free_blocks = blocks.free();
    descriptor.free_inodes = inodes.free();
    descriptor.used_directories = inodes.directories;
    let is_unused = inodes.words.iter().all(|word| *word == 0);
    let stays = marked == Marked::Lazily && descriptor.flags & INODE_UNINIT != 0 && is_unused;
    descriptor.flags &= !BLOCK_UNINIT;
    if !stays {
        descriptor.flags &= !INODE_UNINIT;
    }
    // Inodes after the last one in use stay never used, if they were.
    let last = inodes.words.iter().rposition(|word| *word != 0);
    let used = last.map_or(0, |at| {
        let word = inodes.words.get(at).copied().unwrap_or(0);
        (at as u32).saturating_mul(64).saturating_add(64 - word.leading_zeros())
    });
    let unused = draft.superblock.inodes_per_group.saturating_sub(used);
    descriptor.unused_inodes = match draft.superblock.has_descriptor_checksums() {
        true => descriptor.unused_inodes.min(unused),
        false => 0,
    };
    let is_there = |place| draft.may_be_bitmap(place);
    if is_there(descriptor.block_bitmap) {
        let bytes = bytes(&blocks, draft.block_size());
        draft.write(descriptor.block_bitmap, &bytes)?;
        descriptor.seal_block_bitmap(&bytes, &draft.superblock);
    }
    if is_there(descriptor.inode_bitmap) && !stays {
        let bytes = bytes(&inodes, draft.block_size());
        draft.write(descriptor.inode_bitmap, &bytes)?;
        descriptor.seal_inode_bitmap(&bytes, &draft.superblock);
    }
    draft.write_descriptor(group, &descriptor)
}

/// What becomes of bits that are set, and of which nothing is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marked {
    /// They stay: something else is wrong, that may need them.
    Kept,
    Freed,
    /// They are freed; inodes of a group that were never used stay so.
    Lazily,
}

/// Sets the bits that are set in a stored bitmap.
fn keep(bits: &mut ExpectedBits, stored: Option<Vec<u8>>) {
    let Some(stored) = stored else { return };
    for at in (0..bits.count).filter(|at| bitmap::test(&stored, *at)) {
        if let Some(word) = bits.words.get_mut(at as usize / 64) {
            *word |= 1 << (at % 64);
        }
    }
}

/// The block of a bitmap: all after its end is set.
fn bytes(bits: &ExpectedBits, block_size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = bits.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(block_size, 0);
    let count = bits.count as usize;
    for at in count..block_size * 8 {
        if let Some(byte) = bytes.get_mut(at / 8) {
            *byte |= 1 << (at % 8);
        }
    }
    bytes
}
