//! The superblock, or what a copy of it says: at its usual places, or wherever one says itself that
//! it belongs.
use super::losses::Lines;
use crate::error::Result;
use crate::recovery::read_any;
use extant_block::{BlockDevice, Holes};
use extant_format::GroupNo;
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};

/// Groups that have a copy on most volumes.
const GROUPS_WITH_COPIES: [u64; 12] = [1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343];
/// Where a superblock has the number of its group.
const GROUP_NUMBER: usize = 0x5a;
/// Where it has what it is known by.
const MAGIC: usize = 0x38;
/// A group of any size of blocks of 4 KiB is shorter than this, with several to spare; copies in
/// groups of another size are looked for up to here.
const SEARCHED_BYTES_MAX: u64 = 1 << 30;
/// Bytes that are searched at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// log2 of the blocks of the largest cluster that is looked for: more than mke2fs makes.
const CLUSTER_LOG2_MAX: u32 = 12;

/// The primary superblock; if it cannot be used, a copy; if there is none, the primary one with
/// what follows from its other fields corrected.
///
/// # Errors
/// There is neither.
pub(super) fn superblock(device: &dyn BlockDevice, lines: &mut Lines) -> Result<Superblock> {
    let fault = match read_any(device) {
        Ok(superblock) => return Ok(superblock),
        Err(error) => error,
    };
    if let Some((group, mut superblock)) = usual(device).or_else(|| searched(device)) {
        lines.mended(format!("superblock: {}: group {group}'s copy is used", fault.kind));
        // A copy does not say whether the journal has to be replayed.
        let has_it = superblock.journal_inode != 0 || device.capabilities().annex.is_some();
        if superblock.has(Feature::HAS_JOURNAL) && has_it {
            superblock.features.set(Feature::NEEDS_RECOVERY);
        }
        return Ok(superblock);
    }
    let mut bytes = [0; SUPERBLOCK_SIZE];
    if device.read(SUPERBLOCK_OFFSET, &mut bytes).is_err() {
        return Err(fault);
    }
    let (superblock, _) = Superblock::parse_corrected(&bytes)?;
    lines.lost(format!("superblock: {}, and has no copy: used as it is", fault.kind));
    Ok(superblock)
}

/// A copy where mke2fs puts them, with its group.
fn usual(device: &dyn BlockDevice) -> Option<(u64, Superblock)> {
    // A group has as many clusters as a block has bits: blocks, but for bigalloc.
    let sizes = (0..=CLUSTER_LOG2_MAX)
        .flat_map(|cluster| (0..7).map(move |log2| (1024_u64 << log2, cluster)));
    for (block_size, cluster_log2) in sizes {
        for group in GROUPS_WITH_COPIES {
            let first = u64::from(block_size == 1024 && cluster_log2 == 0);
            let offset = (((group * block_size * 8) << cluster_log2) + first) * block_size;
            if let Some(superblock) = copy_at(device, offset, group)
                && u64::from(superblock.block_size()) == block_size
                && superblock.cluster_log2() == cluster_log2
            {
                return Some((group, superblock));
            }
        }
    }
    None
}

/// The first copy that is where it says that it is, in groups of whatever size it says (mke2fs
/// -g), with its group. What is in a file that is an image itself is somewhere else.
fn searched(device: &dyn BlockDevice) -> Option<(u64, Superblock)> {
    let end = device.own_bytes().min(SEARCHED_BYTES_MAX);
    let (mut holes, mut bytes) = (Holes::default(), Vec::new());
    let mut at = 0;
    while at < end {
        // Whatever is between two pieces of data is not read.
        let data = holes.next_data(device, at).unwrap_or(at);
        at = (data - data % PIECE_BYTES).max(at);
        let length = PIECE_BYTES.min(end.saturating_sub(at));
        bytes.resize(length as usize, 0);
        let is_read = length > 0 && device.read(at, &mut bytes).is_ok();
        for (index, piece) in bytes.chunks_exact(SUPERBLOCK_SIZE).enumerate() {
            let is_one = piece[MAGIC..MAGIC + 2] == [0x53, 0xef];
            let offset = at + (index * SUPERBLOCK_SIZE) as u64;
            if is_read
                && is_one
                && let Some(found) = copy_in_place(piece, offset)
            {
                return Some(found);
            }
        }
        at = at.saturating_add(PIECE_BYTES);
    }
    None
}

/// The superblock in these bytes, at this byte of the device, if the group that it says it is in
/// begins there.
fn copy_in_place(bytes: &[u8], offset: u64) -> Option<(u64, Superblock)> {
    let superblock = Superblock::parse_any(bytes.first_chunk()?).ok()?;
    let number = u16::from_le_bytes([bytes[GROUP_NUMBER], bytes[GROUP_NUMBER + 1]]);
    let group = GroupNo(number.into());
    let place = superblock.group_start(group).0.checked_mul(superblock.block_size().into())?;
    let is_it = number > 0 && u32::from(number) < superblock.group_count() && place == offset;
    is_it.then_some((number.into(), superblock))
}

fn copy_at(device: &dyn BlockDevice, offset: u64, group: u64) -> Option<Superblock> {
    if offset.saturating_add(SUPERBLOCK_SIZE as u64) > device.own_bytes() {
        return None;
    }
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(offset, &mut bytes).ok()?;
    let number = u16::from_le_bytes([bytes[GROUP_NUMBER], bytes[GROUP_NUMBER + 1]]);
    (u64::from(number) == group).then(|| Superblock::parse_any(&bytes).ok()).flatten()
}
