//! A volume whose superblock is lost: what a copy of it says.
use super::words::Mode;
use super::{LEFT, complain, say};
use crate::dumpe2fs::SIZES;
use extant_block::BlockDevice;
use extant_format::BlockNo;
use extant_format::superblock::Superblock;
use extant_inspect::{SuperblockPlace, Volume};
use std::sync::Arc;

/// The exit code where a copy of the superblock is left; `None` where e2fsck gives up too: there is
/// none, or it is asked to mend what needs no answer (-p).
pub(super) fn judged(
    name: &str,
    shown: &str,
    (device, mode): (Arc<dyn BlockDevice>, Mode),
) -> Option<u8> {
    if mode == Mode::Preen {
        return None;
    }
    let (block, block_size, _) = copy(&device)?;
    complain(&format!("{name}: Superblock invalid, trying backup blocks..."));
    complain(&format!(
        "{shown}: the superblock is lost; block {block}, of {block_size} bytes, has a copy \
         (e2fsck -b {block} -B {block_size}; extant extract --force-read {shown} DIR reads by it)"
    ));
    say(&format!("\n{shown}: ********** WARNING: Filesystem still has errors **********\n\n"));
    Some(LEFT)
}

/// The superblock by which a volume is mended (-y).
pub(super) fn superblock(device: &Arc<dyn BlockDevice>, name: &str) -> Option<Superblock> {
    let (.., superblock) = copy(device)?;
    complain(&format!("{name}: Superblock invalid, trying backup blocks..."));
    Some(superblock)
}

/// Block and block size of the first copy of the superblock, and what it says: that of the second
/// group, at its place for a size of blocks.
fn copy(device: &Arc<dyn BlockDevice>) -> Option<(u64, u32, Superblock)> {
    SIZES.into_iter().find_map(|block_size| {
        let group_blocks = u64::from(block_size) * 8;
        let block = group_blocks + u64::from(block_size == 1024);
        let place = SuperblockPlace::Copy { block: BlockNo(block), block_size };
        let volume = Volume::open(Arc::clone(device), place).ok()?;
        Some((block, block_size, volume.superblock().clone()))
    })
}

/// -b: the superblock at a block, as the first one is to be, and its place; of any size of blocks
/// if none was given. `None` where there is none.
pub(super) fn named(
    device: &Arc<dyn BlockDevice>,
    (block, block_size): (u64, Option<u32>),
) -> Option<(SuperblockPlace, Superblock)> {
    let sizes = SIZES.into_iter().filter(|size| block_size.is_none_or(|only| only == *size));
    sizes.into_iter().find_map(|block_size| {
        let place = SuperblockPlace::Copy { block: BlockNo(block), block_size };
        let volume = Volume::open(Arc::clone(device), place).ok()?;
        let mut superblock = volume.superblock().clone();
        superblock.group_number = 0;
        (superblock.block_size() == block_size).then_some((place, superblock))
    })
}
