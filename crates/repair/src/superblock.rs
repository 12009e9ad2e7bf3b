//! Mends the superblock and group descriptors.
use crate::draft::{Draft, Result};
use extant_format::inode::{BASE_SIZE, EXTRA_SIZE_MIN};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo, Ino};
use extant_inspect::{Code, Problem};

/// Bytes of extra fields that inodes have today.
const EXTRA_SIZE: u16 = 32;

/// Mends one problem of the superblock or of a descriptor. Gives whether it did.
///
/// # Errors
/// The device's.
pub(crate) fn mend(draft: &mut Draft, problem: &Problem) -> Result<bool> {
    if problem.group.is_some() {
        return mend_group(draft, problem);
    }
    let superblock = &mut draft.superblock;
    let room = superblock.inode_size.saturating_sub(BASE_SIZE as u16);
    let extra_size = EXTRA_SIZE.min(room).max(EXTRA_SIZE_MIN.min(room));
    match problem.code {
        // As it was corrected, or as the copy has it: it is written anew.
        Code::SuperblockDamaged | Code::SuperblockChecksum | Code::InodeCount => {}
        // Without the feature nothing but this says that there ever was one.
        Code::ExternalJournal if !superblock.has(Feature::HAS_JOURNAL) => {
            superblock.set_external_journal([0; 16], 0);
        }
        Code::ReservedBlocks => superblock.reserved_blocks = superblock.blocks_count / 20,
        Code::ResizeWithMetaGroups => {
            superblock.features.clear(Feature::RESIZE_INODE);
            superblock.reserved_gdt_blocks = 0;
            draft.clear_inode(Ino::RESIZE)?;
        }
        Code::TwoChecksums => superblock.features.clear(Feature::UNINIT_BG),
        Code::WideWithoutExtents => superblock.features.set(Feature::EXTENTS),
        Code::SeedWithoutChecksums => superblock.features.clear(Feature::CSUM_SEED),
        Code::ReservedDescriptors => superblock.reserved_gdt_blocks = 0,
        Code::RequiredExtraSize => superblock.min_extra_isize = extra_size,
        Code::WantedExtraSize => superblock.want_extra_isize = extra_size,
        Code::Encoding => superblock.set_encoding((1, 0)),
        Code::OrphansWithoutFile => superblock.features.clear(Feature::ORPHAN_PRESENT),
        Code::OrphanList => superblock.last_orphan = 0,
        Code::ExtentsWithoutFeature => superblock.features.set(Feature::EXTENTS),
        // Without an attribute that says how it is the flag of the inode that is wrong.
        Code::EncryptedWithoutFeature
            if problem.ino.is_some_and(|ino| draft.usage.has_policy(ino)) =>
        {
            superblock.features.set(Feature::ENCRYPT);
        }
        Code::LargeFile => superblock.features.set(Feature::LARGE_FILE),
        Code::FreeBlocks => superblock.free_blocks = problem.expected.unwrap_or(0),
        Code::FreeInodes => {
            let free = problem.expected.and_then(|free| u32::try_from(free).ok());
            superblock.free_inodes = free.unwrap_or(0);
        }
        _ => return Ok(false),
    }
    draft.write_superblock()?;
    Ok(true)
}

/// Mends one problem of a group's descriptor.
fn mend_group(draft: &mut Draft, problem: &Problem) -> Result<bool> {
    let group = problem.group.unwrap_or(GroupNo(0));
    let Some(mut stored) = draft.descriptor(group)? else { return Ok(false) };
    match problem.code {
        Code::DescriptorsDamaged => {
            for number in 0..draft.usage.groups() {
                let Some(believed) = draft.usage.descriptor(GroupNo(number)) else { break };
                let believed = *believed;
                draft.write_descriptor(GroupNo(number), &believed)?;
            }
            return Ok(true);
        }
        // Written as it is, which gives it the right one.
        Code::DescriptorChecksum => {}
        Code::UninitWithoutChecksums => stored.flags = 0,
        Code::UnusedWithoutChecksums | Code::UnusedInodes | Code::RootNeverUsed => {
            stored.unused_inodes = 0;
            stored.flags &= !extant_format::group::INODE_UNINIT;
        }
        Code::UsedNeverUsed => {
            // Those that were never used are not known: all are read from now on.
            stored.unused_inodes = 0;
            stored.flags &= !extant_format::group::INODE_UNINIT;
        }
        Code::BlockBitmapPlace
        | Code::InodeBitmapPlace
        | Code::BlockBitmapConflict
        | Code::InodeBitmapConflict => return relocate(draft, group, problem.code),
        Code::InodeTablePlace | Code::InodeTableConflict => return new_table(draft, group),
        _ => return Ok(false),
    }
    draft.write_descriptor(group, &stored)?;
    draft.stale.insert(group);
    Ok(true)
}

/// Gives a group an empty table of inodes where blocks are free.
fn new_table(draft: &mut Draft, group: GroupNo) -> Result<bool> {
    let blocks = u64::from(draft.superblock.inode_table_blocks());
    let goal = draft.superblock.group_start(group);
    let Some(start) = draft.allocate_run(goal, blocks) else { return Ok(false) };
    let Some(mut stored) = draft.descriptor(group)? else { return Ok(false) };
    let empty = vec![0; draft.block_size()];
    for at in 0..blocks {
        draft.write(BlockNo(start.0.saturating_add(at)), &empty)?;
    }
    stored.inode_table = start;
    stored.unused_inodes = 0;
    draft.write_descriptor(group, &stored)?;
    draft.stale.insert(group);
    Ok(true)
}

/// Gives a group another block for a bitmap, which is filled by who writes bitmaps.
fn relocate(draft: &mut Draft, group: GroupNo, code: Code) -> Result<bool> {
    let goal = draft.superblock.group_start(group);
    let Some(block) = draft.allocate(goal) else { return Ok(false) };
    let Some(mut stored) = draft.descriptor(group)? else { return Ok(false) };
    let empty = vec![0; draft.block_size()];
    draft.write(block, &empty)?;
    match code {
        Code::BlockBitmapPlace | Code::BlockBitmapConflict => stored.block_bitmap = block,
        _ => stored.inode_bitmap = block,
    }
    draft.write_descriptor(group, &stored)?;
    draft.stale.insert(group);
    Ok(true)
}
