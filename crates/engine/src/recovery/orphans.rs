//! Orphans that a power cut left: inodes without a name, which are freed, and files whose
//! truncation had begun, which are cut to their size.
//!
//! They are on a list (from the superblock through the deletion time of each) or in the file of
//! orphans (feature orphan_file), which has a place for each that is not 0. Both are read and
//! checked before anything changes: what is damaged is left to e2fsck.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::nameless::Freeing;
use crate::inode::unfinished::remove_orphan;
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

/// Reads the list of a volume that was just opened, so that orphans that come and go change it in
/// the right place. Returns its inodes, in its order.
///
/// # Errors
/// `Corrupt` if the list leads to what is no orphan, or to one twice; what the device returns.
pub(crate) fn adopt(inodes: &Inodes) -> Result<Vec<Ino>> {
    let list = read_list(&inodes.volume)?;
    inodes.volume.orphans.adopt(&list);
    Ok(list)
}

/// Reads the list and the file of orphans, and changes nothing.
///
/// # Errors
/// As [`finish`].
pub(crate) fn check(inodes: &Inodes) -> Result<()> {
    let listed = read_list(&inodes.volume)?;
    read_file(&inodes.volume, &listed).map(drop)
}

fn read_list(volume: &Volume) -> Result<Vec<Ino>> {
    let mut seen = FxHashSet::default();
    let mut list = Vec::new();
    let mut next = volume.store.superblock.last_orphan;
    while next != 0 {
        let ino = Ino(next);
        let Some(inode) = orphan(volume, ino, &mut seen)? else {
            break; // Without a journal it may have been freed after the superblock was written.
        };
        next = inode.deletion_time;
        list.push(ino);
    }
    Ok(list)
}

/// The file of orphans, if the volume says that there are some in it.
fn read_file(volume: &Volume, listed: &[Ino]) -> Result<Option<OrphanFile>> {
    match volume.store.superblock.has(Feature::ORPHAN_PRESENT) {
        true => OrphanFile::read(volume, listed).map(Some),
        false => Ok(None),
    }
}

/// Frees and truncates all orphans of a volume that was just opened, and empties the list and the
/// file. Each is an operation of its own, after which the others are still listed.
///
/// # Errors
/// `Corrupt` if the list or the file is damaged: nothing has changed then. What the device returns.
pub(crate) fn finish(inodes: &Inodes) -> Result<OrphanCounts> {
    let volume = &inodes.volume;
    let superblock = &volume.store.superblock;
    let listed = adopt(inodes)?;
    let file = read_file(volume, &listed)?;
    let mut counts = OrphanCounts::default();
    let filed = file.iter().flat_map(|file| file.orphans.iter());
    for ino in listed.iter().chain(filed) {
        end(inodes, *ino, &mut counts)?;
    }
    inodes.free_values()?;
    if let Some(file) = file {
        file.clear(volume)?;
    }
    if listed.is_empty() && superblock.last_orphan != 0 {
        volume.change(0, |operation| {
            operation.change_superblock(|changes| changes.last_orphan = 0);
            Ok(())
        })?;
    }
    Ok(counts)
}

/// Frees or truncates one orphan.
fn end(inodes: &Inodes, ino: Ino, counts: &mut OrphanCounts) -> Result<()> {
    let mut inode = table::load(&inodes.volume, ino)?;
    inode.deletion_time = 0;
    let (size, links, file_type) = (inode.size, inode.links, inode.file_type());
    let node = inodes.nodes.insert(&inodes.volume, ino, inode);
    if links == 0 {
        // One of which a part cannot be read stays on the list.
        counts.freed += u64::from(inodes.free(&node)? == Freeing::Ended);
        return Ok(());
    }
    if node.state.read().check_not_encrypted(&inodes.volume).is_err()
        && file_type == Some(FileType::Regular)
    {
        // Without the key the end of its last block cannot be zeroed; it is of no reader's concern.
        let mut state = node.state.write();
        file::cut_rest(&inodes.volume, &node, &mut state)?;
        counts.truncated += u64::from(!state.is_cut_unfinished);
        return Ok(());
    }
    if file_type == Some(FileType::Regular) {
        match file::set_size(&inodes.volume, &node, size) {
            // It was made immutable, or is larger than a file can be: its blocks stay as they are.
            Err(Error { kind: ErrorKind::NotPermitted(_) | ErrorKind::FileTooLarge, .. }) => {}
            outcome => {
                counts.truncated += u64::from(!node.state.read().is_cut_unfinished);
                return outcome;
            }
        }
    }
    let mut state = node.state.write();
    inodes.volume.change(credits::INODE + credits::ORPHAN, |operation| {
        remove_orphan(operation, &state)?;
        state.store(operation)
    })
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

/// The file of orphans of a volume that says that there are some in it.
struct OrphanFile {
    orphans: Vec<Ino>,
    /// Its blocks that have entries.
    blocks: Vec<(BlockNo, Arc<Frame>)>,
    /// Seed of the checksums of its blocks.
    seed: u32,
}

impl OrphanFile {
    /// Reads and checks the file.
    fn read(volume: &Volume, listed: &[Ino]) -> Result<OrphanFile> {
        let superblock = &volume.store.superblock;
        let ino = Ino(superblock.orphan_file_inode);
        let wrong = |field, value, why| {
            Error::field(Place::Inode(ino), "file of orphans", field, value, why)
        };
        let state = NodeState::new(volume, ino, table::load(volume, ino)?);
        if state.inode.file_type() != Some(FileType::Regular) || state.inode.links == 0 {
            return Err(wrong("mode", state.inode.mode.into(), "not that of a file: run e2fsck"));
        }
        let count = state.inode.size.div_ceil(volume.store.block_size().into());
        if count > volume.store.held_blocks()?.max(1) {
            return Err(wrong("size", state.inode.size, "larger than the device: run e2fsck"));
        }
        let mut seen: FxHashSet<Ino> = listed.iter().copied().collect();
        let mut file = OrphanFile { orphans: Vec::new(), blocks: Vec::new(), seed: state.seed };
        for number in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            let Some(block) = mapping::block_at(volume, &state, FileBlock(number))? else {
                return Err(wrong("block", number.into(), "a hole: run e2fsck"));
            };
            let frame = volume.store.cache.read(block, BlockKind::Plain)?;
            let entries = orphan_file::orphans(&frame.bytes(), block, state.seed, superblock);
            let Some(entries) = entries else {
                return Err(wrong("block", number.into(), "damaged: run e2fsck"));
            };
            if !entries.is_empty() {
                file.blocks.push((block, frame));
            }
            for ino in entries {
                if orphan(volume, ino, &mut seen)?.is_some() {
                    file.orphans.push(ino);
                }
            }
        }
        Ok(file)
    }

    /// Takes all entries away, and the flag that says that there are some.
    fn clear(self, volume: &Volume) -> Result<()> {
        for (block, frame) in self.blocks {
            volume.change(1, |operation| {
                operation.modify(&frame, |bytes| {
                    orphan_file::initialize(bytes, block, self.seed, &volume.store.superblock);
                });
                Ok(())
            })?;
        }
        volume.change(0, |operation| {
            operation.change_superblock(|changes| changes.orphan_present = false);
            Ok(())
        })
    }
}
