//! The inode table: where inodes are on the disk, and how they are read.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::listings::With;
use crate::inode::table_windows::BLOCKS_MIN;
use crate::inode::volume::Volume;
use crate::policy::preset::{InodeCreation, TableReadAhead};
use crate::store::cache::{BlockKind, Frame};
use extant_block::Urgency;
use extant_format::inode::Inode;
use extant_format::{BlockNo, GroupNo, Ino};
use std::ops::Range;
use std::sync::Arc;

/// Where an inode is: its table block, and its byte offset in it.
pub(crate) fn place(volume: &Volume, ino: Ino) -> Result<(BlockNo, usize)> {
    let (group, index) = volume.store.superblock.group_of_inode(ino).ok_or(ErrorKind::NotFound)?;
    let byte = u64::from(index) * u64::from(volume.store.superblock.inode_size);
    let block_size = u64::from(volume.store.block_size());
    let table = volume.space.inode_table(group);
    Ok((BlockNo(table.0 + byte / block_size), (byte % block_size) as usize))
}

pub(super) fn table_frame(volume: &Volume, ino: Ino) -> Result<(Arc<Frame>, usize)> {
    let (block, offset) = place(volume, ino)?;
    if volume.store.policies.table_read_ahead == TableReadAhead::Learned {
        volume.table_windows.want(block.0);
    }
    if let Some(frame) = volume.store.cache.find(block, BlockKind::Plain) {
        return Ok((frame, offset));
    }
    if let Some((group, _)) = volume.store.superblock.group_of_inode(ino) {
        read_around(volume, group, block, ino);
    }
    Ok((volume.store.cache.read_table(block)?, offset))
}

/// Brings the table block of an inode into memory, where it stays as long as the result is kept, so
/// that storing the inode reads nothing. `None` where inodes are stored late, and in the systems of
/// the posts, which read it when they stored the inode.
///
/// # Errors
/// Those of reading it.
pub(crate) fn hold(volume: &Volume, ino: Ino) -> Result<Option<Arc<Frame>>> {
    if volume.store.stores_inodes_late() || volume.store.is_of_the_posts() {
        return Ok(None);
    }
    let (block, _) = place(volume, ino)?;
    match volume.store.cache.find(block, BlockKind::Plain) {
        Some(frame) => Ok(Some(frame)),
        None => table_frame(volume, ino).map(|(frame, _)| Some(frame)),
    }
}

/// Reads an inode from its table block, verifying its checksum.
pub(crate) fn load(volume: &Volume, ino: Ino) -> Result<Inode> {
    let (frame, offset) = table_frame(volume, ino)?;
    let bytes = frame.copy(offset, usize::from(volume.store.superblock.inode_size));
    Inode::parse(&bytes, ino, &volume.store.superblock)
        .map_err(|fault| Error::corrupt(Place::Inode(ino), fault))
}

/// The generation of a new inode, which distinguishes it from earlier ones with its number: one
/// more than the last one's. If its table block is not in memory and inodes are stored late, the
/// current time in seconds.
pub(crate) fn next_generation(volume: &Volume, ino: Ino) -> Result<u32> {
    let store = &volume.store;
    let (block, _) = place(volume, ino)?;
    if store.stores_inodes_late() && !store.cache.holds_filled(block) {
        if store.policies.inode_creation == InodeCreation::PreRead {
            store.cache.prefetch(std::iter::once((block, BlockKind::Plain)));
        }
        return Ok(store.clock.wall().seconds as u32);
    }
    Ok(load(volume, ino).map_or(0, |old| old.generation).wrapping_add(1))
}

/// Reads the blocks around a table block that is not in memory, as the policy says, in one request,
/// and those of inodes that are wanted after this one. Does not wait: the caller reads the block
/// itself next.
fn read_around(volume: &Volume, group: GroupNo, block: BlockNo, ino: Ino) {
    let policy = volume.store.policies.table_read_ahead;
    if policy == TableReadAhead::None || volume.store.cache.holds(block) {
        return;
    }
    let blocks = match policy {
        TableReadAhead::None => return,
        TableReadAhead::Around(blocks) => blocks,
        TableReadAhead::Learned => match volume.listings.with(ino) {
            With::Window => volume.table_windows.blocks(),
            With::Listed(others) => return read_together(volume, ino, &others),
        },
    };
    let around = window(volume, group, block, blocks);
    if policy == TableReadAhead::Learned {
        let along = around.clone().filter(|at| *at != block.0);
        volume.table_windows.bring(along.filter(|at| !volume.store.cache.holds(BlockNo(*at))));
    }
    let blocks = around.map(|at| (BlockNo(at), BlockKind::Plain));
    volume.store.cache.fetch(Urgency::Metadata, blocks);
}

/// Reads the shortest windows around several inodes, in the order of the disk.
fn read_together(volume: &Volume, ino: Ino, others: &[Ino]) {
    let windows = std::iter::once(&ino).chain(others).filter_map(|ino| {
        let (group, _) = volume.store.superblock.group_of_inode(*ino)?;
        Some(window(volume, group, place(volume, *ino).ok()?.0, BLOCKS_MIN))
    });
    let blocks = windows.flatten().map(|at| (BlockNo(at), BlockKind::Plain));
    volume.store.cache.fetch(Urgency::Metadata, blocks);
}

/// The numbers of the aligned blocks around a block of a group's table, as far as inodes there are
/// in use.
fn window(volume: &Volume, group: GroupNo, block: BlockNo, blocks: u32) -> Range<u64> {
    let descriptor = volume.space.descriptor(group);
    let superblock = &volume.store.superblock;
    let used_inodes = superblock.inodes_per_group.saturating_sub(descriptor.unused_inodes);
    let bytes = u64::from(used_inodes) * u64::from(superblock.inode_size);
    let used = bytes.div_ceil(u64::from(volume.store.block_size()));
    let table = descriptor.inode_table.0;
    let around = around(block.0.saturating_sub(table), blocks.into(), used);
    table.saturating_add(around.start)..table.saturating_add(around.end)
}

/// The aligned blocks around one, as far as inodes there are in use: all in terms of the table.
fn around(block: u64, blocks: u64, used: u64) -> Range<u64> {
    let first = block - block % blocks.max(1);
    first..first.saturating_add(blocks).min(used).max(block + 1)
}

#[cfg(test)]
mod tests {
    use super::around;

    #[test]
    fn as_far_as_inodes_are_in_use_and_always_the_one_that_is_wanted() {
        let rows = [
            ((0, 8, 512), 0..8),
            ((7, 8, 512), 0..8),
            ((8, 8, 512), 8..16),
            ((9, 8, 11), 8..11),
            ((509, 8, 510), 504..510),
            ((20, 8, 3), 16..21),
            ((0, 32, 1), 0..1),
            ((5, 1, 512), 5..6),
            ((5, 0, 512), 5..6),
        ];
        for ((block, blocks, used), expected) in rows {
            assert_eq!(
                around(block, blocks, used),
                expected,
                "block {block}, {blocks} around, {used} used"
            );
        }
    }
}
