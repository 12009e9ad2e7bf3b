//! Writes anew what maps the descriptor blocks that are kept for growth.
//!
//! ```text
//! inode 7 -> double indirect -> each reserved descriptor block of group 0 (the block itself)
//!                                  -> the same block of each copy
//! ```
use crate::draft::{Draft, Result};
use extant_format::inode::{FileType, Inode, Time, flags};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo, Ino, SECTOR_BYTES, indirect};
use std::ops::Range;

/// Which pointer in the inode leads to the double indirect block.
const DOUBLE: u32 = indirect::TREES[1];

/// The block that leads to the map of inode 7; 0 for none.
pub(crate) fn root(inode: &Inode) -> BlockNo {
    BlockNo(indirect::pointer(&inode.block, DOUBLE).into())
}

/// Whether a table or a bitmap of a group is in a range of blocks, which cannot be kept then.
fn has_parts(draft: &Draft, range: Range<u64>) -> Result<bool> {
    let table = u64::from(draft.superblock.inode_table_blocks());
    for group in 0..draft.usage.groups() {
        let Some(of) = draft.descriptor(GroupNo(group))? else { continue };
        let parts = [(of.inode_table.0, table), (of.block_bitmap.0, 1), (of.inode_bitmap.0, 1)];
        let is_within = |(start, length): &(u64, u64)| {
            *start < range.end && start.saturating_add(*length) > range.start
        };
        if parts.iter().any(is_within) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the inode and its map. Gives whether it could: where nothing is kept for growth, or no
/// block is free, the volume loses the feature.
///
/// # Errors
/// The device's.
pub(crate) fn mend(draft: &mut Draft) -> Result<bool> {
    let superblock = draft.superblock.clone();
    let reserved = u64::from(superblock.reserved_gdt_blocks);
    let after_super = superblock.primary_block().0 + 1;
    let first = after_super + u64::from(superblock.descriptor_blocks());
    let end = first.saturating_add(reserved);
    if has_parts(draft, first..end)? {
        return Ok(false);
    }
    let mut inode = match draft.inode(Ino::RESIZE)? {
        Some(inode) if inode.file_type() == Some(FileType::Regular) => inode,
        _ => Inode::new(FileType::Regular.mode_bits() | 0o600, &superblock),
    };
    let root = root(&inode);
    let is_own = draft.usage.holds(root)
        && !draft.usage.is_metadata(root)
        && !draft.usage.is_double(root)
        && root.0 != 0;
    let root = if is_own { Some(root) } else { draft.allocate(superblock.group_start(GroupNo(0))) };
    let Some(root) = root.filter(|_| reserved > 0) else {
        draft.superblock.features.clear(Feature::RESIZE_INODE);
        draft.superblock.reserved_gdt_blocks = 0;
        draft.write_superblock()?;
        draft.clear_inode(Ino::RESIZE)?;
        return Ok(true);
    };
    let copies: Vec<u64> = (1..superblock.group_count())
        .map(GroupNo)
        .filter(|group| superblock.has_super(*group))
        .map(|group| u64::from(group.0) * u64::from(superblock.blocks_per_group))
        .collect();
    let pointers = 1_u64 << indirect::pointers_log2(superblock.block_size_log2);
    let mut roots = vec![0; draft.block_size()];
    let narrow = |block: u64| u32::try_from(block).unwrap_or(0);
    for block in first..end {
        indirect::set_pointer(&mut roots, narrow((block - after_super) % pointers), narrow(block));
        let mut bytes = vec![0; draft.block_size()];
        for (at, offset) in (0..narrow(pointers)).zip(&copies) {
            indirect::set_pointer(&mut bytes, at, narrow(block.saturating_add(*offset)));
        }
        draft.write(BlockNo(block), &bytes)?;
    }
    draft.write(root, &roots)?;
    inode.block.fill(0);
    indirect::set_pointer(&mut inode.block, DOUBLE, narrow(root.0));
    inode.flags &= !(flags::EXTENTS | flags::INLINE_DATA);
    inode.links = 1;
    inode.deletion_time = 0;
    // All that a double indirect tree can have.
    let tree = indirect::tree(2, superblock.block_size_log2);
    let block_bytes = u64::from(superblock.block_size());
    inode.size = tree.end.saturating_mul(block_bytes);
    let blocks = (1 + reserved.saturating_mul(copies.len() as u64 + 1))
        .saturating_mul(draft.usage.cluster_blocks().into());
    inode.sectors = blocks.saturating_mul(block_bytes) / SECTOR_BYTES;
    let now = Time { seconds: draft.now.into(), ..Time::default() };
    (inode.access_time, inode.change_time, inode.modify_time) = (now, now, now);
    draft.write_inode(Ino::RESIZE, &inode)?;
    Ok(true)
}
