//! Pass 0: inodes that were deleted while they were open, or that are being truncated: the list of
//! orphans, and the file of orphans that serves the same end.
use crate::check::codes::Code;
use crate::check::facts::{Facts, Orphans};
use crate::check::problem::Problem;
use crate::error::Error;
use crate::map::block_at;
use extant_format::checksum::inode_seed;
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::Feature;
use extant_format::{FileBlock, Ino, orphan_file};
use std::collections::BTreeSet;

/// Collects the inodes on the list whose head is in the superblock. Ends at the first that cannot
/// be one, and at one that was met before.
///
/// # Errors
/// When the device fails.
pub(crate) fn collect(facts: &Facts) -> Result<Orphans, Error> {
    let first_inode = facts.volume.superblock().first_inode;
    let mut next = Ino(facts.volume.superblock().last_orphan);
    let (mut listed, mut deleted) = (BTreeSet::new(), BTreeSet::new());
    while next.0 != 0 {
        let inode = match facts.volume.inode(next) {
            Ok(inode) if next.0 >= first_inode && inode.mode != 0 && !listed.contains(&next) => {
                inode
            }
            Err(Error::Device(error)) => return Err(error.into()),
            _ => {
                facts.report(Problem::new(Code::OrphanList).ino(next));
                break;
            }
        };
        listed.insert(next);
        if inode.links == 0 {
            deleted.insert(next);
        }
        next = Ino(inode.deletion_time);
    }
    collect_file(facts, &mut listed, &mut deleted)?;
    for ino in &deleted {
        facts.report(Problem::new(Code::OrphanDeleted).ino(*ino));
    }
    if !listed.is_empty() {
        facts.report(Problem::new(Code::OrphansWait).found(listed.len() as u64));
    }
    let truncated = listed.difference(&deleted).copied().collect();
    Ok(Orphans { deleted, truncated })
}

/// Collects the inodes in the file of orphans. Ends at the first block that is damaged, or that
/// holds orphans although the superblock says that there are none.
fn collect_file(
    facts: &Facts,
    listed: &mut BTreeSet<Ino>,
    deleted: &mut BTreeSet<Ino>,
) -> Result<(), Error> {
    let superblock = facts.volume.superblock();
    if !superblock.has(Feature::ORPHAN_FILE) {
        return Ok(());
    }
    let ino = Ino(superblock.orphan_file_inode);
    let file = match facts.volume.inode(ino) {
        Err(Error::Device(error)) => return Err(error.into()),
        inode => inode.ok(),
    };
    let Some(file) =
        file.filter(|file| file.file_type() == Some(FileType::Regular) && file.links > 0)
    else {
        facts.report(Problem::new(Code::OrphanFile).ino(ino).file_block(0));
        return Ok(());
    };
    let block_size = u64::from(superblock.block_size());
    // A file of more blocks than there are has a hole, or a block twice.
    let blocks = file.size.div_ceil(block_size).min(facts.volume.present_blocks());
    let seed = inode_seed(superblock.checksum_seed, ino, file.generation);
    let before = listed.len();
    for number in 0..u32::try_from(blocks).unwrap_or(u32::MAX) {
        let entries = match entries(facts, &file, number, seed)? {
            Some(entries) if superblock.has(Feature::ORPHAN_PRESENT) => entries,
            Some(entries) if entries.is_empty() && file.size.is_multiple_of(block_size) => continue,
            _ => {
                facts.report(Problem::new(Code::OrphanFile).ino(ino).file_block(number.into()));
                break;
            }
        };
        for entry in entries {
            let inode = match facts.volume.inode(entry) {
                Err(error @ Error::Device(_)) => return Err(error),
                inode => inode.ok(),
            };
            let inode = inode.filter(|inode| inode.mode != 0 && entry.0 >= superblock.first_inode);
            match inode {
                Some(inode) if listed.insert(entry) && inode.links == 0 => {
                    deleted.insert(entry);
                }
                Some(_) => {}
                None => facts.report(Problem::new(Code::OrphanList).ino(entry)),
            }
        }
    }
    if superblock.has(Feature::ORPHAN_PRESENT) && listed.len() == before {
        facts.report(Problem::new(Code::OrphansWithoutFile));
    }
    Ok(())
}

/// The numbers in a block of the file of orphans; `None` for a block that is none.
fn entries(facts: &Facts, file: &Inode, number: u32, seed: u32) -> Result<Option<Vec<Ino>>, Error> {
    let place = block_at(&facts.volume, file, FileBlock(number))?;
    let Some(place) = place.filter(|place| facts.volume.holds(*place)) else {
        return Ok(None);
    };
    let bytes = facts.volume.block("orphan file", place)?;
    Ok(orphan_file::orphans(&bytes, place, seed, facts.volume.superblock()))
}
