//! Checksums of everything, and what else is in every block of metadata: written as the superblock
//! has them now.
//!
//! *Invariants*: where a bit of a group says that something of it was never written, that stays so
//! as long as descriptors have checksums; else it is written, and what was never used is zeros.
use super::Freed;
use super::entries;
use super::plan::Plan;
use crate::bitmaps::{self, Marked};
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::{growth_map, map};
use extant_format::group::{BLOCK_UNINIT, INODE_UNINIT, INODE_ZEROED};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, attribute, extent, mount_block, orphan_file};
use std::collections::BTreeSet;
use std::ops::Range;

/// Writes everything that the fields of the superblock decide, which are new in the draft. Notes
/// blocks that are not needed any more, and what has to be zeros before anything is written.
///
/// # Errors
/// The device's; something has no place for a checksum, or may not be without a feature.
pub(super) fn rewrite(
    draft: &mut Draft,
    before: &Superblock,
    plan: &Plan,
    (kept, zeros): (&mut Freed, &mut Vec<Range<u64>>),
) -> Result<()> {
    allowed(draft, plan)?;
    if plan.rewrites_sums {
        if before.checksum_seed != draft.superblock.checksum_seed
            && before.has(Feature::EA_INODE)
            && !draft.usage.values().is_empty()
        {
            return Err(Error::Refused(
                "values of attributes that are inodes are hashed by the UUID: with -O \
                 metadata_csum_seed another UUID changes nothing of them"
                    .into(),
            ));
        }
        descriptors(draft, before)?;
        if before.has_descriptor_checksums() && !draft.superblock.has_descriptor_checksums() {
            all_written(draft, zeros)?;
        }
        if before.has(Feature::METADATA_CSUM) || draft.has_checksums() {
            inodes(draft, before, kept)?;
            of_volume(draft)?;
        }
    }
    if plan.is_set(Feature::FILETYPE) || plan.is_cleared(Feature::FILETYPE) {
        for ino in directories(draft) {
            entries::set_types(draft, ino)?;
        }
    }
    if plan.is_cleared(Feature::DIR_INDEX) {
        for ino in directories(draft) {
            let inode = draft.inode(ino)?;
            if inode.is_some_and(|inode| inode.flags & flags::INDEX != 0) {
                entries::repack(draft, ino, entries::Index::Without, kept)?;
            }
        }
    }
    if plan.is_set(Feature::SPARSE_SUPER) && draft.superblock.has(Feature::RESIZE_INODE) {
        growth_map::mend(draft)?;
    }
    Ok(())
}

/// Every directory.
fn directories(draft: &Draft) -> Vec<Ino> {
    let inodes = (1..=draft.superblock.inodes_count).map(Ino);
    inodes.filter(|ino| draft.usage.file_type(*ino) == Some(FileType::Directory)).collect()
}

/// Refuses what something of the volume needs.
fn allowed(draft: &Draft, plan: &Plan) -> Result<()> {
    if plan.is_cleared(Feature::CASEFOLD) {
        for ino in directories(draft) {
            let inode = draft.inode(ino)?;
            if inode.is_some_and(|inode| inode.flags & flags::CASEFOLDED != 0) {
                return Err(Error::Refused(format!(
                    "Cannot disable casefold feature: directory {ino} has the flag for it"
                )));
            }
        }
    }
    if plan.is_cleared(Feature::LARGE_FILE) {
        const LARGE: u64 = 1 << 31;
        for ino in (1..=draft.superblock.inodes_count).map(Ino) {
            // The map of blocks kept for growth counts, too: it is as long as a map can be.
            let is_file = draft.usage.file_type(ino) == Some(FileType::Regular);
            if is_file && draft.inode(ino)?.is_some_and(|inode| inode.size >= LARGE) {
                return Err(Error::Refused(format!(
                    "Clearing filesystem feature 'large_file' not supported: the file in inode \
                     {ino} has 2 GiB or more{}",
                    if ino == Ino::RESIZE { ", and goes with -O ^resize_inode" } else { "" }
                )));
            }
        }
    }
    if plan.is_cleared(Feature::FLEX_BG) {
        let superblock = &draft.superblock;
        let table = u64::from(superblock.inode_table_blocks());
        for group in (0..superblock.group_count()).map(GroupNo) {
            let Some(of) = draft.descriptor(group)? else { continue };
            let start = superblock.group_start(group).0;
            let end = start.saturating_add(superblock.group_length(group).into());
            let parts = [(of.block_bitmap.0, 1), (of.inode_bitmap.0, 1), (of.inode_table.0, table)];
            let is_in = |(at, blocks): (u64, u64)| at >= start && at.saturating_add(blocks) <= end;
            if !parts.into_iter().all(is_in) {
                return Err(Error::Refused(
                    "Clearing the flex_bg flag would cause the the filesystem to be inconsistent."
                        .into(),
                ));
            }
        }
    }
    Ok(())
}

/// Writes all descriptors, with the checksums of their bitmaps.
fn descriptors(draft: &mut Draft, before: &Superblock) -> Result<()> {
    for group in (0..draft.superblock.group_count()).map(GroupNo) {
        let Some(mut of) = draft.descriptor(group)? else { continue };
        if !before.has_descriptor_checksums() {
            // Without checksums there was nothing that was never written.
            of.flags = INODE_ZEROED;
            of.unused_inodes = 0;
        }
        (of.block_bitmap_checksum, of.inode_bitmap_checksum) = (0, 0);
        if of.flags & BLOCK_UNINIT == 0
            && let Some(bitmap) = draft.read(of.block_bitmap)?
        {
            of.seal_block_bitmap(&bitmap, &draft.superblock);
        }
        if of.flags & INODE_UNINIT == 0
            && let Some(bitmap) = draft.read(of.inode_bitmap)?
        {
            of.seal_inode_bitmap(&bitmap, &draft.superblock);
        }
        draft.write_descriptor(group, &of)?;
    }
    Ok(())
}

/// Writes what was never written: bitmaps, and zeros over inodes that were never used.
fn all_written(draft: &mut Draft, zeros: &mut Vec<Range<u64>>) -> Result<()> {
    let size = u64::from(draft.superblock.inode_size);
    let block_size = draft.block_size() as u64;
    for group in (0..draft.superblock.group_count()).map(GroupNo) {
        let Some(of) = draft.descriptor(group)? else { continue };
        let all = draft.superblock.inodes_per_group;
        let unused = if of.flags & INODE_UNINIT != 0 { all } else { of.unused_inodes.min(all) };
        let table = of.inode_table.0;
        let first = u64::from(all - unused) * size;
        let end = table + u64::from(draft.superblock.inode_table_blocks());
        let whole = table + first.div_ceil(block_size);
        if !first.is_multiple_of(block_size)
            && let Some(mut bytes) = draft.read(BlockNo(table + first / block_size))?
        {
            if let Some(rest) = bytes.get_mut((first % block_size) as usize..) {
                rest.fill(0);
            }
            draft.write(BlockNo(table + first / block_size), &bytes)?;
        }
        if whole < end && !draft.is_hole(whole..end)? {
            draft.let_zeros(whole..end);
            zeros.push(whole..end);
        }
        bitmaps::write(draft, group, Marked::Freed)?;
    }
    Ok(())
}

/// Writes every inode that may have been written, and what it leads to.
fn inodes(draft: &mut Draft, before: &Superblock, kept: &mut Freed) -> Result<()> {
    let mut met = BTreeSet::new();
    let per_group = draft.superblock.inodes_per_group;
    let per_block = (draft.block_size() / usize::from(draft.superblock.inode_size)).max(1) as u32;
    let size = usize::from(draft.superblock.inode_size);
    for group in 0..draft.superblock.group_count() {
        let Some(of) = draft.descriptor(GroupNo(group))? else { continue };
        let count = draft.written_inodes(&of);
        for block in 0..count.div_ceil(per_block) {
            let place = BlockNo(of.inode_table.0 + u64::from(block));
            let Some(mut bytes) = draft.read(place)? else { continue };
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            let first = group * per_group + block * per_block + 1;
            let mut used = Vec::new();
            for (raw, ino) in bytes.chunks_exact_mut(size).zip((first..).map(Ino)) {
                Inode::seal(raw, ino, &draft.superblock);
                if draft.usage.is_used(ino) {
                    used.push(ino);
                }
            }
            draft.write(place, &bytes)?;
            for ino in used {
                file(draft, ino, before, (&mut met, kept))?;
            }
        }
    }
    Ok(())
}

/// Writes what an inode leads to: nodes of its map, its attributes, its entries.
fn file(
    draft: &mut Draft,
    ino: Ino,
    before: &Superblock,
    (met, kept): (&mut BTreeSet<BlockNo>, &mut Freed),
) -> Result<()> {
    let Some(inode) = draft.inode(ino)? else { return Ok(()) };
    let seed = draft.seed(ino, &inode);
    let block = inode.attribute_block;
    if block.0 != 0
        && met.insert(block)
        && let Some(mut bytes) = draft.read(block)?
    {
        attribute::seal_block(&mut bytes, block, &draft.superblock);
        draft.write(block, &bytes)?;
    }
    if !map::is_mapped(&inode, &draft.superblock) {
        return Ok(());
    }
    if inode.has_extents() && draft.has_checksums() {
        for node in map::read(draft, &inode)?.nodes {
            if let Some(mut bytes) = draft.read(node)? {
                extent::seal(&mut bytes, seed);
                draft.write(node, &bytes)?;
            }
        }
    }
    if inode.file_type() == Some(FileType::Directory) {
        entries::reseal(draft, (ino, &inode), before, kept)?;
    }
    Ok(())
}

/// Writes what the superblock leads to: the file of orphans, and the block that records mounts.
fn of_volume(draft: &mut Draft) -> Result<()> {
    let ino = Ino(draft.superblock.orphan_file_inode);
    if draft.superblock.has(Feature::ORPHAN_FILE)
        && let Some(inode) = draft.inode(ino)?
    {
        let seed = draft.seed(ino, &inode);
        for run in map::read(draft, &inode)?.runs {
            for block in (run.start..run.start + run.length).map(BlockNo) {
                let mut bytes = vec![0; draft.block_size()];
                orphan_file::initialize(&mut bytes, block, seed, &draft.superblock);
                draft.write(block, &bytes)?;
            }
        }
    }
    let block = draft.superblock.mount_block();
    if draft.superblock.has(Feature::MMP)
        && let Some(mut bytes) = draft.read(block)?
    {
        mount_block::release(&mut bytes, &draft.superblock);
        draft.write(block, &bytes)?;
    }
    Ok(())
}
