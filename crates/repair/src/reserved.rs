//! How many blocks are kept for descriptors to come, where the number in the superblock reaches
//! into tables or bitmaps.
//!
//! One wrong number makes all of them look wrong, and what is kept is written anew: it has to be
//! settled before anything is moved.
use crate::error::Error;
use crate::growth_map;
use crate::places::{COPIES_MAX, copy_groups, descriptors};
use extant_block::{BlockDevice, Overlay};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, Superblock};
use extant_format::{BlockNo, Ino, indirect};
use extant_inspect::{SuperblockPlace, Volume};
use std::sync::Arc;

/// So many parts of groups where descriptors to come should be say that it is the number which is
/// wrong, if nothing else says what is.
const PARTS_LEAST: usize = 3;

/// Sets the number right by a copy of the superblock, by the map of inode 7, or by the room that
/// there is. Gives whether it did: not where nothing is in the way, and not where what is in the
/// way is wrong itself.
///
/// # Errors
/// The device's.
pub(crate) fn settle(overlay: &Arc<Overlay>) -> Result<bool, Error> {
    let device = Arc::clone(overlay) as Arc<dyn BlockDevice>;
    let Ok(volume) = Volume::open(Arc::clone(&device), SuperblockPlace::Primary) else {
        return Ok(false);
    };
    let superblock = volume.superblock();
    let stored = superblock.reserved_gdt_blocks;
    if stored == 0 || superblock.has(Feature::META_BG) {
        return Ok(false);
    }
    let Some(parts) = parts(&volume) else { return Ok(false) };
    let first = first(superblock);
    let in_the_way = |number: u16| {
        let end = first.saturating_add(number.into());
        parts.iter().filter(|(start, length)| *start < end && start + length > first).count()
    };
    if in_the_way(stored) == 0 {
        return Ok(false);
    }
    let copies = copy_groups(superblock).take(COPIES_MAX).filter_map(|group| {
        let block_size = superblock.block_size();
        let place = SuperblockPlace::Copy { block: superblock.group_start(group), block_size };
        let copy = Volume::open(Arc::clone(&device), place).ok()?;
        let is_same = copy.superblock().blocks_count == superblock.blocks_count;
        is_same.then(|| copy.superblock().reserved_gdt_blocks)
    });
    let mapped = mapped(overlay, &volume)?;
    let mut others = copies.chain(mapped).filter(|other| *other != stored && *other > 0);
    let after = parts.iter().map(|(start, _)| *start).filter(|start| *start >= first).min();
    let room = after.and_then(|end| u16::try_from(end - first).ok());
    let number = match others.find(|other| in_the_way(*other) == 0) {
        Some(other) => Some(other),
        None => room.filter(|_| in_the_way(stored) >= PARTS_LEAST),
    };
    let Some(number) = number else { return Ok(false) };
    let mut settled = superblock.clone();
    settled.reserved_gdt_blocks = number;
    // tidy: writers because it is an overlay in memory
    overlay.write(SUPERBLOCK_OFFSET, &settled.encode())?;
    Ok(true)
}

/// The first block that may be kept: after the descriptors that there are.
fn first(superblock: &Superblock) -> u64 {
    let after_super = superblock.primary_block().0.saturating_add(1);
    after_super.saturating_add(superblock.descriptor_blocks().into())
}

/// First blocks and lengths of all tables of inodes and bitmaps; `None` where a descriptor cannot
/// be read.
fn parts(volume: &Volume) -> Option<Vec<(u64, u64)>> {
    let table = u64::from(volume.superblock().inode_table_blocks());
    let of = |of: extant_format::group::GroupDescriptor| {
        [(of.inode_table, table), (of.block_bitmap, 1), (of.inode_bitmap, 1)]
    };
    let all = descriptors(volume)?.into_iter().flat_map(of);
    Some(all.map(|(block, length)| (block.0.min(1 << 48), length)).collect())
}

/// How many blocks the map of inode 7 leads to, one after another; `None` where it leads to none.
fn mapped(overlay: &Overlay, volume: &Volume) -> Result<Option<u16>, Error> {
    let superblock = volume.superblock();
    let Ok(inode) = volume.inode(Ino::RESIZE) else { return Ok(None) };
    let root = growth_map::root(&inode);
    let block_size = u64::from(superblock.block_size());
    let end = root.0.saturating_add(1).saturating_mul(block_size);
    if root == BlockNo(0) || root.0 >= superblock.blocks_count || end > overlay.info().bytes {
        return Ok(None);
    }
    let mut bytes = vec![0; superblock.block_size() as usize];
    overlay.read(root.0 * block_size, &mut bytes)?;
    let pointers = 1_u64 << indirect::pointers_log2(superblock.block_size_log2);
    let (after_super, first) = (superblock.primary_block().0 + 1, first(superblock));
    let leads = |block: &u64| {
        let slot = u32::try_from((block - after_super) % pointers).unwrap_or(0);
        u64::from(indirect::pointer(&bytes, slot)) == *block
    };
    let count = (first..first + pointers).take_while(leads).count();
    Ok(u16::try_from(count).ok().filter(|count| *count > 0))
}
