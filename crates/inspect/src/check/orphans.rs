//! Pass 0: inodes that were deleted while somebody had them open, or that are being truncated: the
//! list of orphans, and the file of orphans that is there for the same.
//!
//! ```text
//! each block of the file: | number of an inode, or 0: 4 | ... | magic: 4 | checksum: 4 |
//! ```
use super::codes::Code;
use super::problem::Problem;
use super::state::State;
use super::words::u32_at;
use crate::error::Error;
use crate::map::block_at;
use extant_format::checksum::{crc32c, inode_seed};
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::Feature;
use extant_format::{FileBlock, Ino};
use std::collections::BTreeSet;

/// Bytes at the end of a block of the file of orphans, and the first four of them.
const TAIL: usize = 8;
const MAGIC: u32 = 0x0b10_ca04;

/// Collects the inodes on the list whose head is in the superblock. Ends at the first that cannot
/// be one, and at one that was met before.
///
/// # Errors
/// When the device fails.
pub(crate) fn collect(state: &mut State) -> Result<(), Error> {
    let first_inode = state.volume.superblock().first_inode;
    let mut next = Ino(state.volume.superblock().last_orphan);
    let mut listed = BTreeSet::new();
    while next.0 != 0 {
        let inode = match state.volume.inode(next) {
            Ok(inode) if next.0 >= first_inode && inode.mode != 0 && !listed.contains(&next) => {
                inode
            }
            Err(Error::Device(error)) => return Err(error.into()),
            _ => {
                state.tell(Problem::new(Code::OrphanList).ino(next));
                break;
            }
        };
        listed.insert(next);
        if inode.links == 0 {
            state.orphans.insert(next);
        }
        next = Ino(inode.deletion_time);
    }
    collect_file(state, &mut listed)?;
    for ino in &state.orphans {
        state.tell(Problem::new(Code::OrphanDeleted).ino(*ino));
    }
    if !listed.is_empty() {
        state.tell(Problem::new(Code::OrphansWait).found(listed.len() as u64));
    }
    state.truncated = listed.difference(&state.orphans).copied().collect();
    Ok(())
}

/// Collects the inodes in the file of orphans. Ends at the first block that is damaged, or that
/// holds orphans although the superblock says that there are none.
fn collect_file(state: &mut State, listed: &mut BTreeSet<Ino>) -> Result<(), Error> {
    let superblock = state.volume.superblock().clone();
    if !superblock.has(Feature::ORPHAN_FILE) {
        return Ok(());
    }
    let ino = Ino(superblock.orphan_file_inode);
    let file = match state.volume.inode(ino) {
        Err(Error::Device(error)) => return Err(error.into()),
        inode => inode.ok(),
    };
    let Some(file) =
        file.filter(|file| file.file_type() == Some(FileType::Regular) && file.links > 0)
    else {
        state.tell(Problem::new(Code::OrphanFile).ino(ino).file_block(0));
        return Ok(());
    };
    let block_size = u64::from(superblock.block_size());
    // A file of more blocks than there are has a hole, or a block twice.
    let blocks = file.size.div_ceil(block_size).min(state.volume.present_blocks());
    let seed = inode_seed(superblock.checksum_seed, ino, file.generation);
    let before = listed.len();
    for number in 0..u32::try_from(blocks).unwrap_or(u32::MAX) {
        let entries = match entries(state, &file, number, seed)? {
            Some(entries) if superblock.has(Feature::ORPHAN_PRESENT) => entries,
            Some(entries) if entries.is_empty() && file.size.is_multiple_of(block_size) => continue,
            _ => {
                state.tell(Problem::new(Code::OrphanFile).ino(ino).file_block(number.into()));
                break;
            }
        };
        for entry in entries {
            let inode = state.volume.inode(entry).ok();
            let inode = inode.filter(|inode| inode.mode != 0 && entry.0 >= superblock.first_inode);
            match inode {
                Some(inode) if listed.insert(entry) && inode.links == 0 => {
                    state.orphans.insert(entry);
                }
                Some(_) => {}
                None => state.tell(Problem::new(Code::OrphanList).ino(entry)),
            }
        }
    }
    if superblock.has(Feature::ORPHAN_PRESENT) && listed.len() == before {
        state.tell(Problem::new(Code::OrphansWithoutFile));
    }
    Ok(())
}

/// The numbers in a block of the file of orphans; `None` for a block that is none.
fn entries(state: &State, file: &Inode, number: u32, seed: u32) -> Result<Option<Vec<Ino>>, Error> {
    let place = block_at(&state.volume, file, FileBlock(number))?;
    let Some(place) = place.filter(|place| state.volume.holds(*place)) else {
        return Ok(None);
    };
    let bytes = state.volume.block("orphan file", place)?;
    let (body, tail) = bytes.split_at(bytes.len().saturating_sub(TAIL));
    let computed = if state.volume.superblock().has(Feature::METADATA_CSUM) {
        crc32c(crc32c(seed, &place.0.to_le_bytes()), body)
    } else {
        0
    };
    let is_sound = u32_at(tail, 0) == MAGIC && u32_at(tail, 4) == computed;
    let (words, _) = body.as_chunks::<4>();
    let numbers = words.iter().map(|word| Ino(u32::from_le_bytes(*word)));
    Ok(is_sound.then(|| numbers.filter(|ino| ino.0 != 0).collect()))
}
