//! A device that is the journal of another volume (`mke2fs -O journal_dev`): it has a superblock,
//! and is no volume.
use crate::error::Error;
use crate::info::{VolumeInfo, of_journal_device};
use extant_block::BlockDevice;
use extant_format::journal::{MAGIC, SUPERBLOCK_BYTES, StoredJournal};
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};

/// What such a device says of itself: `None` where the device is something else. The `journal` is
/// `None`, with a problem, where there is none after the superblock.
///
/// # Errors
/// When the device fails.
pub fn journal_device(device: &dyn BlockDevice) -> Result<Option<VolumeInfo>, Error> {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    if SUPERBLOCK_OFFSET + SUPERBLOCK_SIZE as u64 > device.own_bytes() {
        return Ok(None);
    }
    device.read(SUPERBLOCK_OFFSET, &mut bytes)?;
    let Some(superblock) = Superblock::parse_journal_device(&bytes) else { return Ok(None) };
    let size = u64::from(superblock.block_size());
    let place = (superblock.primary_block().0 + 1) * size;
    let mut head = [0; SUPERBLOCK_BYTES];
    let is_there = place + SUPERBLOCK_BYTES as u64 <= device.own_bytes();
    if is_there {
        device.read(place, &mut head)?;
    }
    let stored = StoredJournal::new(&head).filter(|stored| stored.magic() == MAGIC);
    let journal = stored.map(|_| &head[..]);
    Ok(Some(of_journal_device(&superblock, &bytes, journal)))
}
