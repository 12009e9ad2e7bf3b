//! The order in which changed blocks go to their places on a device: whatever a cut leaves, nobody
//! takes a volume for clean that is not as before or as it is to be.
//!
//! ```text
//! the superblock says "not clean" | flush | all others | flush | the journal | flush
//!   | the superblock as it is to be | flush
//! ```
//!
//! The journal comes after what was replayed from it, since it says then that it is empty. A
//! superblock that says "not clean" before, or that nobody reads, is not written first, and neither
//! is one that is all that changes.
// tidy: writers because the volume is closed, and locked
use crate::differing::{Differing, block_bytes, written};
use extant_block::{BlockDevice, Overlay};
use extant_format::journal::MAGIC as JOURNAL_MAGIC;
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock, state};
use extant_journal::transaction::Blocks;
use std::io;

/// The block that has the superblock, in blocks of a size.
pub(crate) fn superblock_block(block_size: u32) -> u64 {
    SUPERBLOCK_OFFSET / u64::from(block_size)
}

/// The superblock of a device, saying that the volume is not clean; `None` where it says so, or is
/// none that a mount takes.
///
/// # Errors
/// The device's.
pub(crate) fn unclean(device: &dyn BlockDevice) -> io::Result<Option<[u8; SUPERBLOCK_SIZE]>> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(SUPERBLOCK_OFFSET, &mut bytes)?;
    let Ok(mut superblock) = Superblock::parse_any(&bytes) else { return Ok(None) };
    if superblock.state & state::CLEAN == 0 {
        return Ok(None);
    }
    superblock.state &= !state::CLEAN;
    Ok(Some(superblock.encode()))
}

/// Brings blocks to their places on the device of a volume that nobody has open, in the order that
/// is said above, and makes them durable.
///
/// # Errors
/// The device's, or those of where the blocks are kept.
pub(crate) fn bring(
    device: &dyn BlockDevice,
    block_size: u32,
    blocks: &dyn Blocks,
) -> io::Result<()> {
    let write = |number: u64, bytes: &[u8]| {
        let length = block_bytes(device, number, block_size);
        device.write(number * u64::from(block_size), &bytes[..length.min(bytes.len())])
    };
    let first = superblock_block(block_size);
    let (last, others): (Vec<usize>, Vec<usize>) =
        (0..blocks.len()).partition(|at| blocks.number(*at) == first);
    let marked = if others.is_empty() { None } else { unclean(device)? };
    let mut before = [0; SUPERBLOCK_SIZE];
    if let Some(marked) = &marked {
        device.read(SUPERBLOCK_OFFSET, &mut before)?;
        device.write(SUPERBLOCK_OFFSET, marked)?;
        device.flush()?;
    }
    let mut of_journal = Vec::new();
    for at in others {
        let bytes = blocks.bytes(at)?;
        match bytes.starts_with(&JOURNAL_MAGIC.to_be_bytes()) {
            true => of_journal.push(at),
            false => write(blocks.number(at), &bytes)?,
        }
    }
    device.flush()?;
    if !of_journal.is_empty() {
        of_journal.iter().try_for_each(|at| write(blocks.number(*at), &blocks.bytes(*at)?))?;
        device.flush()?;
    }
    match last.first() {
        Some(at) => write(first, &blocks.bytes(*at)?)?,
        None if marked.is_some() => device.write(SUPERBLOCK_OFFSET, &before)?,
        None => return Ok(()),
    }
    device.flush()
}

/// Writes the changes of an overlay to its device, which has no place for a log. A cut leaves a
/// volume that is checked again, and whose journal is replayed again.
///
/// # Errors
/// The device's.
pub fn write_directly(overlay: &Overlay) -> Result<(), extant_engine::Error> {
    let (device, block_size) = (overlay.device(), overlay.block_bytes() as u32);
    let changed = Differing::of(device, overlay, written(overlay, block_size), block_size)?;
    Ok(bring(&**device, block_size, &changed)?)
}
