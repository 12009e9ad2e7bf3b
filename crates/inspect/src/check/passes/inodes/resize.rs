//! Pass 1: the inode that maps the descriptor blocks kept for growth.
//!
//! ```text
//! inode 7 -> double indirect -> each reserved descriptor block of group 0 (the block itself)
//!                                  -> the same block of each copy
//! ```
use crate::check::codes::Code;
use crate::check::facts::Facts;
use crate::check::maps::pool::MapReader;
use crate::check::maps::{self, Claiming, MapKind, Mapped};
use crate::check::problem::Problem;
use crate::error::Error;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, indirect};
use std::collections::BTreeSet;

/// Which pointer in the inode leads to the double indirect block.
const DOUBLE: u32 = indirect::TREES[1];

/// Whether inode 7 maps descriptor blocks. Without the feature too, as long as blocks are reserved:
/// that is reported of the superblock, and changes nothing.
pub(crate) fn is_used(superblock: &Superblock) -> bool {
    superblock.has(Feature::RESIZE_INODE) || superblock.reserved_gdt_blocks != 0
}

/// Whether blocks of inode 7 were claimed for it.
pub(crate) fn has_map(superblock: &Superblock, inode: &Inode) -> bool {
    is_used(superblock) && !superblock.has(Feature::META_BG) && !has_no_pointers(inode)
}

/// Judges inode 7 and its map, and claims its double indirect block; all else that it maps is
/// metadata already.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(facts: &Facts) -> Result<(), Error> {
    let superblock = facts.volume.superblock();
    if !is_used(superblock) || superblock.has(Feature::META_BG) {
        return Ok(());
    }
    let inode = match facts.volume.inode(Ino::RESIZE) {
        Err(Error::Device(error)) => return Err(error.into()),
        result => result.ok(),
    };
    let found = match &inode {
        Some(inode) => match valid(facts, inode) {
            Err(Error::Outside { .. }) => Some("what it maps is not on the device"),
            result => result?,
        },
        None => Some("it cannot be read"),
    };
    if let Some(inode) = inode.as_ref().filter(|inode| has_no_pointers(inode)) {
        if inode.has_extents() {
            let code = match superblock.has(Feature::EXTENTS) {
                true => Code::ExtentRoot,
                false => Code::ExtentsWithoutFeature,
            };
            facts.report(Problem::new(code).ino(Ino::RESIZE));
        }
        if inode.sectors != 0 {
            let problem = Problem::new(Code::SectorCount).ino(Ino::RESIZE);
            facts.report(problem.found(inode.sectors).expected(0_u64));
        }
    } else if let Some(inode) = &inode {
        let mut roots = Vec::new();
        let claiming = Claiming::new(facts);
        let map = Mapped::new(Ino::RESIZE, MapKind::Resize, inode, 0);
        maps::roots(&claiming, map, inode, &mut roots);
        MapReader::default().follow(&claiming, roots)?;
    }
    if found.is_some() && superblock.has(Feature::RESIZE_INODE) {
        facts.report(Problem::new(Code::ResizeInode).ino(Ino::RESIZE));
    }
    Ok(())
}

/// Whether it says that what is in it is no map, or extents, which it never has.
fn has_no_pointers(inode: &Inode) -> bool {
    inode.flags & (flags::EXTENTS | flags::INLINE_DATA) != 0
}

/// What is wrong with it.
fn valid(facts: &Facts, inode: &Inode) -> Result<Option<&'static str>, Error> {
    if has_no_pointers(inode) {
        return Ok(Some("it has no pointers"));
    }
    let root = BlockNo(indirect::pointer(&inode.block, DOUBLE).into());
    if root.0 == 0 || !facts.volume.holds(root) || facts.metadata.holds(root) {
        return Ok(Some("its double indirect block is not on the volume"));
    }
    let others = (0..indirect::ROOTS).filter(|index| *index != DOUBLE);
    if others.into_iter().any(|index| indirect::pointer(&inode.block, index) != 0) {
        return Ok(Some("it has other blocks"));
    }
    if inode.file_type() != Some(FileType::Regular) || inode.links == 0 {
        return Ok(Some("it is no file"));
    }
    let superblock = facts.volume.superblock();
    // That others are not on the device is reported of the whole volume.
    let copies = (1_u32..)
        .zip(facts.groups.iter().skip(1))
        .map(|(group, _)| GroupNo(group))
        .filter(|group| facts.volume.has_super(*group));
    let offsets: Vec<u64> =
        copies.map(|group| u64::from(group.0) * u64::from(superblock.blocks_per_group)).collect();
    let root = facts.volume.block("resize inode", root)?;
    let pointers = 1_u64 << indirect::pointers_log2(superblock.block_size_log2);
    let old_blocks = u64::from(superblock.descriptor_blocks());
    // With clusters block 0 is the first one, and the superblock is still in block 1 of 1 KiB.
    let after_super = superblock.primary_block().0 + 1;
    let first = after_super + old_blocks;
    let mut bytes = vec![0; facts.volume.block_size()];
    let reserved = first..first + u64::from(superblock.reserved_gdt_blocks);
    let slots: BTreeSet<u64> =
        reserved.clone().map(|block| (block - after_super) % pointers).collect();
    let mut stored = (0_u64..).zip(indirect::pointers(&root));
    if stored.any(|(slot, pointer)| pointer != 0 && !slots.contains(&slot)) {
        return Ok(Some("it has other blocks"));
    }
    for block in reserved {
        let slot = (block - after_super) % pointers;
        let pointer = indirect::pointer(&root, u32::try_from(slot).unwrap_or(0));
        if u64::from(pointer) != block {
            return Ok(Some("a reserved block is missing"));
        }
        facts.read("resize inode", BlockNo(block), &mut bytes)?;
        // A pointer that there is no room for counts as 0.
        let mut stored = indirect::pointers(&bytes).map(u64::from);
        if !offsets.iter().all(|offset| stored.next().unwrap_or(0) == block + offset) {
            return Ok(Some("a copy of a reserved block is missing"));
        }
    }
    Ok(None)
}
