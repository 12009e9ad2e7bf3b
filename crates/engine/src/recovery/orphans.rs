//! Orphans that a power cut left: inodes without a name, which are freed, and files whose
//! truncation had begun, which are cut to their size.
//!
//! They are on a list (from the superblock through the deletion time of each) or in the file of
//! orphans (feature orphan_file), which has a place for each that is not 0. Both are read and
//! checked before anything changes: what is damaged is left to e2fsck.
use crate::error::{Error, Place, Result};
use crate::inode::{Inodes, NodeState, Volume, credits, file, mapping, table};
use crate::store::cache::{BlockKind, Frame};
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, FileBlock, Ino, orphan_file};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// How many orphans there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OrphanCounts {
    /// Inodes without a name, which were freed.
    pub freed: u64,
    /// Files that were cut to their size.
    pub truncated: u64,
}

/// A block of the file of orphans that has entries.
struct Listed {
    block: BlockNo,
    frame: Arc<Frame>,
}

/// Frees and truncates all orphans of a volume, and empties the list and the file.
///
/// # Errors
/// `Corrupt` if the list or the file is damaged: nothing has changed then. What the device returns.
pub(crate) fn finish(inodes: &Inodes) -> Result<OrphanCounts> {
    let volume = &inodes.volume;
    let superblock = &volume.store.superblock;
    let mut seen = FxHashSet::default();
    let listed = list(volume, &mut seen)?;
    let (filed, blocks, seed) = match superblock.has(Feature::ORPHAN_PRESENT) {
        true => entries(volume, &mut seen)?,
        false => (Vec::new(), Vec::new(), 0),
    };
    let mut counts = OrphanCounts::default();
    for (ino, inode) in listed.into_iter().chain(filed) {
        end(inodes, ino, inode, &mut counts)?;
    }
    for Listed { block, frame } in blocks {
        volume.change(credits::INODE, |operation| {
            operation.modify(&frame, |bytes| {
                orphan_file::initialize(bytes, block, seed, superblock);
            });
            Ok(())
        })?;
    }
    if superblock.last_orphan != 0 {
        inodes.set_last_orphan(0)?;
    }
    if superblock.has(Feature::ORPHAN_PRESENT) {
        volume.change(0, |operation| {
            operation.change_superblock(|changes| changes.orphan_present = false);
            Ok(())
        })?;
    }
    Ok(counts)
}

/// Frees or truncates one orphan.
fn end(inodes: &Inodes, ino: Ino, inode: Inode, counts: &mut OrphanCounts) -> Result<()> {
    let (size, links, file_type) = (inode.size, inode.links, inode.file_type());
    let node = inodes.nodes.insert(&inodes.volume, ino, inode);
    node.state.write().inode.deletion_time = 0;
    if links == 0 {
        counts.freed += 1;
        return inodes.free(&node);
    }
    if file_type == Some(FileType::Regular) {
        counts.truncated += 1;
        return file::set_size(&inodes.volume, &node, size);
    }
    let mut state = node.state.write();
    inodes.volume.change(credits::INODE, |operation| state.store(operation))
}

/// The list that the superblock begins, in its order.
fn list(volume: &Volume, seen: &mut FxHashSet<Ino>) -> Result<Vec<(Ino, Inode)>> {
    let mut orphans = Vec::new();
    let mut next = volume.store.superblock.last_orphan;
    while next != 0 {
        let ino = Ino(next);
        let Some(inode) = orphan(volume, ino, seen)? else {
            break; // It was freed after the list was last written, and so were those after it.
        };
        next = inode.deletion_time;
        orphans.push((ino, inode));
    }
    Ok(orphans)
}

/// An inode that is said to be an orphan; `None` if it is free.
///
/// # Errors
/// `Corrupt` if it cannot be one, or was met before.
fn orphan(volume: &Volume, ino: Ino, seen: &mut FxHashSet<Ino>) -> Result<Option<Inode>> {
    let wrong =
        |why| Error::field(Place::Superblock, "list of orphans", "inode", ino.0.into(), why);
    let superblock = &volume.store.superblock;
    if !superblock.is_usable(ino) || ino == Ino::ROOT || ino.0 == superblock.orphan_file_inode {
        return Err(wrong("not one that can be an orphan: run e2fsck"));
    }
    if !volume.space.inode_in_use(ino)? {
        return Ok(None);
    }
    if !seen.insert(ino) {
        return Err(wrong("on it twice: run e2fsck"));
    }
    let inode = table::load(volume, ino)?;
    if inode.file_type().is_none() {
        return Err(wrong("not a file or directory: run e2fsck"));
    }
    Ok(Some(inode))
}

/// What the file of orphans lists, its blocks with entries, and the seed of their checksums.
#[allow(clippy::type_complexity)] // once, and each part is named by its user
fn entries(
    volume: &Volume,
    seen: &mut FxHashSet<Ino>,
) -> Result<(Vec<(Ino, Inode)>, Vec<Listed>, u32)> {
    let ino = Ino(volume.store.superblock.orphan_file_inode);
    let wrong =
        |field, value, why| Error::field(Place::Inode(ino), "file of orphans", field, value, why);
    let state = NodeState::new(volume, ino, table::load(volume, ino)?);
    if state.inode.file_type() != Some(FileType::Regular) || state.inode.links == 0 {
        return Err(wrong("mode", state.inode.mode.into(), "not that of a file: run e2fsck"));
    }
    let blocks = state.inode.size.div_ceil(volume.store.block_size().into());
    if blocks > volume.store.held_blocks()?.max(1) {
        return Err(wrong("size", state.inode.size, "larger than the device: run e2fsck"));
    }
    let (mut orphans, mut listed) = (Vec::new(), Vec::new());
    for number in 0..u32::try_from(blocks).unwrap_or(u32::MAX) {
        let Some(block) = mapping::block_at(volume, &state, FileBlock(number))? else {
            return Err(wrong("block", number.into(), "a hole: run e2fsck"));
        };
        let frame = volume.store.cache.read(block, BlockKind::Plain)?;
        let superblock = &volume.store.superblock;
        let inos = orphan_file::orphans(&frame.bytes(), block, state.seed, superblock);
        let Some(inos) = inos else {
            return Err(wrong("block", number.into(), "damaged: run e2fsck"));
        };
        if !inos.is_empty() {
            listed.push(Listed { block, frame });
        }
        for ino in inos {
            if let Some(inode) = orphan(volume, ino, seen)? {
                orphans.push((ino, inode));
            }
        }
    }
    Ok((orphans, listed, state.seed))
}
