//! A device that is the journal of another volume (`mke2fs -O journal_dev`): an ext superblock that
//! says so, and after it an empty journal that is no volume's yet. Who makes a volume with it, or
//! gives it to one (`mke2fs -J device=`, `tune2fs -J device=`), puts the volume's UUID there.
//!
//! ```text
//! | 1,024 bytes | superblock | rest of its block | superblock of the journal | log ............ |
//! ```
use super::tables::clear_ends;
use super::{Contents, FormatOptions};
use crate::error::{Error, ErrorKind, Result};
use extant_block::BlockDevice;
use extant_format::journal::{self, BLOCKS_MIN, NewJournal};
use extant_format::layout::{LayoutError, Wishes};
use extant_format::superblock::{
    Feature, Features, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock, state,
};

/// Makes a device a journal of `options.wishes.blocks` blocks. Of the options it takes sizes, UUID,
/// label, time, marks, and what the device holds.
///
/// # Errors
/// Before anything is written: `Layout` for a block size that no volume has, or too few blocks or
/// too many; `ReadOnly`, `InvalidArgument` for a device that is too small. What the device returns.
pub fn format_journal_device(device: &dyn BlockDevice, options: &FormatOptions) -> Result<()> {
    let superblock = plan_journal_device(options)?;
    let Wishes { block_size, blocks, .. } = options.wishes;
    let size = u64::from(block_size);
    let info = device.info();
    if info.read_only {
        return Err(ErrorKind::ReadOnly.into());
    }
    if blocks.saturating_mul(size) > info.bytes {
        let reason = "the journal would be larger than its device";
        return Err(ErrorKind::InvalidArgument(reason).into());
    }
    if options.contents == Contents::Unknown {
        clear_ends(device, &superblock)?;
        zero(device, size, blocks)?;
    }
    let first = superblock.primary_block().0 + 1;
    let mut bytes = vec![0; block_size as usize];
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    let uuid = superblock.uuid;
    let new = NewJournal { block_size, blocks, uuid, fast_commit_blocks: 0 };
    journal::initialize_device(&mut bytes, &new, u32::try_from(first + 1).unwrap_or(2));
    device.write(first * size, &bytes)?;
    device.write(SUPERBLOCK_OFFSET, &superblock.encode())?;
    device.flush().map_err(Error::from)
}

/// The superblock of such a device, as [`format_journal_device`] stores it.
///
/// # Errors
/// `Layout`, as there.
pub fn plan_journal_device(options: &FormatOptions) -> Result<Superblock> {
    let wishes = &options.wishes;
    let refuse = |reason: String| Err(ErrorKind::Layout(LayoutError(reason)).into());
    let Wishes { block_size, blocks, .. } = *wishes;
    if !block_size.is_power_of_two() || !(1024..=65536).contains(&block_size) {
        return refuse(format!(
            "block size {block_size}: it must be a power of two from 1024 to 65536"
        ));
    }
    if !(BLOCKS_MIN..=u64::from(u32::MAX)).contains(&blocks) {
        return refuse(format!(
            "a journal of {blocks} blocks: it must have {BLOCKS_MIN} to {}",
            u32::MAX
        ));
    }
    let mut superblock = Superblock::empty();
    superblock.features = Features::of(&[Feature::JOURNAL_DEV]);
    superblock.block_size_log2 = u8::try_from(block_size.trailing_zeros()).unwrap_or(10);
    superblock.blocks_count = blocks;
    superblock.first_data_block = u32::from(block_size == 1024);
    // As on a volume, though they mean nothing here.
    superblock.blocks_per_group = block_size.saturating_mul(8).min((1 << 16) - 8);
    superblock.inode_size = wishes.inode_size;
    if wishes.inode_size > 128 {
        (superblock.min_extra_isize, superblock.want_extra_isize) = (32, 32);
    }
    superblock.hash_seed = wishes.hash_seed;
    superblock.hash_version = wishes.hash_version;
    superblock.default_mount_options = wishes.marks.mount_options;
    superblock.max_mount_count = -1;
    superblock.checked_seconds = wishes.created_seconds;
    superblock.clear_flags();
    superblock.uuid = wishes.uuid;
    superblock.label = wishes.label;
    superblock.state = state::CLEAN;
    superblock.errors_behavior = wishes.marks.errors_behavior;
    superblock.creator_os = wishes.marks.creator_os;
    superblock.created_seconds = wishes.created_seconds;
    superblock.written_seconds = wishes.created_seconds;
    Ok(superblock)
}

/// Makes everything after the superblocks zeros: what was there would be read as a log.
fn zero(device: &dyn BlockDevice, block_size: u64, blocks: u64) -> Result<()> {
    const PIECE: u64 = 1 << 20;
    let zeros = vec![0; PIECE as usize];
    let end = blocks.saturating_mul(block_size);
    let mut at = SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE as u64;
    while at < end {
        let length = PIECE.min(end - at);
        device.write(at, zeros.get(..length as usize).unwrap_or(&zeros))?;
        at += length;
    }
    Ok(())
}
