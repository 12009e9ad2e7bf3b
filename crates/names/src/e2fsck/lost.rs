//! A volume whose superblock is lost: what a copy of it says.
use super::words::Mode;
use super::{LEFT, complain, say};
use crate::dumpe2fs::SIZES;
use extant_block::BlockDevice;
use extant_format::BlockNo;
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
    let (block, block_size) = copy(&device)?;
    complain(&format!("{name}: Superblock invalid, trying backup blocks..."));
    complain(&format!(
        "{shown}: the superblock is lost; block {block}, of {block_size} bytes, has a copy \
         (e2fsck -b {block} -B {block_size}; extant extract --force-read {shown} DIR reads by it)"
    ));
    if mode != Mode::Read {
        complain(&format!(
            "{name}: {shown}: nothing was changed: problems are found here, and not mended yet"
        ));
    }
    say(&format!("\n{shown}: ********** WARNING: Filesystem still has errors **********\n\n"));
    Some(LEFT)
}

/// Block and block size of the first copy of the superblock: that of the second group, at its
/// place for a size of blocks.
fn copy(device: &Arc<dyn BlockDevice>) -> Option<(u64, u32)> {
    let candidates = SIZES.into_iter().map(|block_size| {
        let group_blocks = u64::from(block_size) * 8;
        (group_blocks + u64::from(block_size == 1024), block_size)
    });
    candidates.into_iter().find(|(block, block_size)| {
        let place = SuperblockPlace::Copy { block: BlockNo(*block), block_size: *block_size };
        Volume::open(Arc::clone(device), place).is_ok()
    })
}
