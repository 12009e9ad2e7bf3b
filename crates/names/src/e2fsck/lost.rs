//! What a copy of the superblock says: where the first one is lost, and where it says other things.
use super::words::Mode;
use super::{LEFT, complain, say};
use crate::dumpe2fs::SIZES;
use extant_block::BlockDevice;
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo};
use extant_inspect::{SuperblockPlace, Volume, open_copy};
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

/// Block and block size of the first copy of the superblock, and what it says.
fn copy(device: &Arc<dyn BlockDevice>) -> Option<(u64, u32, Superblock)> {
    let volume = open_copy(device).ok().flatten()?;
    let SuperblockPlace::Copy { block, block_size } = volume.place() else { return None };
    Some((block.0, block_size, volume.superblock().clone()))
}

/// The first superblock where a count in it or its checksum is wrong, and all else says where
/// everything is.
pub(super) fn corrected(device: &Arc<dyn BlockDevice>) -> Option<Superblock> {
    let volume = Volume::open(Arc::clone(device), SuperblockPlace::Primary).ok()?;
    Some(volume.superblock().clone())
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

/// Whether the first copy of a superblock says that the volume is of another size, has another
/// name, or other features than those that Linux sets as it goes. A copy that is none says nothing.
pub(super) fn differs(device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> bool {
    let groups = 1..superblock.group_count();
    let Some(group) = groups.map(GroupNo).find(|group| superblock.has_super(*group)) else {
        return false;
    };
    let block_size = superblock.block_size();
    let place = SuperblockPlace::Copy { block: superblock.group_start(group), block_size };
    let Ok(volume) = Volume::open(Arc::clone(device), place) else { return false };
    let said = |superblock: &Superblock| {
        let mut features = superblock.features;
        for feature in SET_BY_LINUX {
            features.clear(feature);
        }
        (features, superblock.blocks_count, superblock.inodes_count, superblock.uuid)
    };
    said(volume.superblock()) != said(superblock)
}

/// Features that come and go while a volume is used: copies are not written then.
const SET_BY_LINUX: [Feature; 4] =
    [Feature::LARGE_FILE, Feature::DIR_NLINK, Feature::NEEDS_RECOVERY, Feature::ORPHAN_PRESENT];
