//! A journal on a device of its own (`mke2fs -O journal_dev`): whose it is, and where its blocks
//! are once that device is behind the volume's.
//!
//! ```text
//! device   | 1,024 bytes | ext superblock: 1,024 | .. | journal superblock | unused | log ...... |
//!          | block 0, with small blocks 0 and 1       | the next block     |        | to the end |
//! journal  | block 0 is the journal superblock, block n is block n of the device                 |
//! ```
//!
//! The ext superblock has the feature `journal_dev`, the UUID by which a volume names the device,
//! and sizes; nothing else of it counts. The journal superblock has the UUIDs of the volumes whose
//! journal it is: one, as no program writes a journal of several.
use crate::error::{Error, shown};
use crate::joined::Joined;
use crate::volume::read_volume;
use extant_block::BlockDevice;
use extant_format::journal::{JournalSuperblock, MAGIC, SUPERBLOCK_BYTES, StoredJournal};
use extant_format::superblock::{
    Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, StoredSuperblock, Superblock, has_magic,
};
use extant_format::{BlockNo, Run};
use std::sync::Arc;

/// The volume on a device with the device of its journal behind it, so that all that looks for a
/// journal finds it. Nothing is written.
///
/// # Errors
/// `NotItsJournal` for a device that is not that of the volume's journal, or a volume that has its
/// journal in itself, or none; a superblock of one of the two that cannot be used; the devices'.
pub fn join(
    volume: Arc<dyn BlockDevice>,
    journal: Arc<dyn BlockDevice>,
) -> Result<Arc<dyn BlockDevice>, Error> {
    let superblock = read_volume(&*volume)?;
    let wrong = |reason: &str| Err(Error::NotItsJournal(reason.to_owned()));
    if !superblock.has(Feature::HAS_JOURNAL) {
        return wrong("the volume has no journal");
    }
    if superblock.journal_inode != 0 {
        return wrong("the volume has its journal in itself");
    }
    let joined: Arc<dyn BlockDevice> = Arc::new(Joined::new(volume, journal));
    runs(&*joined, &superblock)?;
    Ok(joined)
}

/// Where the blocks of a volume's journal are that is on the device behind it: their places on the
/// joined device, in the order of the journal. `None` where there is no device behind it.
///
/// # Errors
/// As [`join`].
pub fn runs(device: &dyn BlockDevice, volume: &Superblock) -> Result<Option<Vec<Run>>, Error> {
    let Some(annex) = device.capabilities().annex else { return Ok(None) };
    let size = u64::from(volume.block_size());
    let bytes = device.info().bytes.saturating_sub(annex.start);
    let blocks = judge_device(device, volume, annex.start, bytes)?;
    // The superblock of the device is in the first block that has room for it after 1,024 bytes.
    let first = SUPERBLOCK_OFFSET / size + 1;
    let mut head = [0; SUPERBLOCK_BYTES];
    device.read(annex.start.saturating_add(first * size), &mut head)?;
    judge_users(&head, volume)?;
    let journal = JournalSuperblock::parse(&head)?;
    if u64::from(journal.first) <= first {
        let reason = "its log begins in its superblock".to_owned();
        return Err(Error::NotItsJournal(reason));
    }
    let start = annex.start / size;
    let rest = u32::try_from(blocks.saturating_sub(1)).unwrap_or(u32::MAX);
    Ok(Some(vec![
        Run { start: BlockNo(start + first), length: 1 },
        Run { start: BlockNo(start + 1), length: rest },
    ]))
}

/// Judges the ext superblock of the device behind a volume, which has this many bytes from `start`
/// on. How many blocks of the volume's size it has.
fn judge_device(
    device: &dyn BlockDevice,
    volume: &Superblock,
    start: u64,
    bytes: u64,
) -> Result<u64, Error> {
    let size = u64::from(volume.block_size());
    let wrong = |reason: String| Err(Error::NotItsJournal(reason));
    let mut head = [0; SUPERBLOCK_OFFSET as usize + SUPERBLOCK_SIZE];
    if bytes < (SUPERBLOCK_OFFSET / size + 2) * size {
        return wrong("it is too small for a journal".to_owned());
    }
    device.read(start, &mut head)?;
    let (_, superblock) = head.split_at(SUPERBLOCK_OFFSET as usize);
    let stored = match superblock.first_chunk() {
        Some(superblock) if has_magic(&head) => StoredSuperblock::new(superblock),
        _ => return wrong("it has no superblock".to_owned()),
    };
    if !stored.features().has(Feature::JOURNAL_DEV) {
        return wrong("it is a volume, not a device for a journal".to_owned());
    }
    let (wanted, found) = (volume.journal_uuid(), stored.uuid());
    if found != wanted {
        let (wanted, found) = (shown(&wanted), shown(&found));
        return wrong(format!("it has the UUID {found}, and the volume names {wanted}"));
    }
    if 1_u64.checked_shl(stored.block_size_log2()) != Some(size) {
        return wrong("its blocks have another size than the volume's".to_owned());
    }
    match stored.blocks_count() {
        blocks if blocks.checked_mul(size).is_none_or(|needed| needed > bytes) => {
            wrong(format!("it is cut short: it should have {blocks} blocks of {size} bytes"))
        }
        blocks => Ok(blocks),
    }
}

/// Judges whose journal it is, by its superblock.
fn judge_users(head: &[u8; SUPERBLOCK_BYTES], volume: &Superblock) -> Result<(), Error> {
    let wrong = |reason: String| Err(Error::NotItsJournal(reason));
    let stored = match StoredJournal::new(head) {
        Some(stored) if stored.magic() == MAGIC => stored,
        _ => return wrong("it has no superblock of a journal".to_owned()),
    };
    let mut users = stored.user_ids();
    match (stored.users(), users.next()) {
        (1, Some(user)) if user == volume.uuid => Ok(()),
        (1, Some(user)) => wrong(format!("it is the journal of the volume {}", shown(&user))),
        (0, _) => wrong("it is the journal of no volume yet".to_owned()),
        (count, _) => wrong(format!("it is the journal of {count} volumes at once")),
    }
}
