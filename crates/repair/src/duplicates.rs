//! Gives each file its own copy of blocks that several have.
//!
//! The first file by number keeps a block, a directory that is itself before all others, and so
//! does the first place in a file; what metadata of the volume has is kept by nobody. Inode 7 keeps
//! the block that leads to its map before everybody: where that is no map it has another by then.
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::growth_map;
use crate::map::{self, MapRun, OnMetadata};
use extant_format::attribute::{self, StoredBlock};
use extant_format::inode::{FileType, Inode};
use extant_format::{BlockNo, Ino};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks of maps that more than one file has, and the files. What is below such a block is counted
/// once by a check, and yet is of all: none of them may write to it, and what is said of the others
/// is said of a part of their map.
#[derive(Default)]
pub(crate) struct SharedNodes {
    pub(crate) blocks: BTreeSet<BlockNo>,
    pub(crate) files: BTreeSet<Ino>,
}

/// Those of these files.
///
/// # Errors
/// The device's.
pub(crate) fn shared_nodes(draft: &Draft, files: impl Iterator<Item = Ino>) -> Result<SharedNodes> {
    let (mut owners, mut shared) = (BTreeMap::new(), SharedNodes::default());
    for ino in files.collect::<BTreeSet<Ino>>() {
        let Some(inode) = draft.inode(ino)? else { continue };
        if !map::is_mapped(&inode, &draft.superblock) {
            continue;
        }
        for block in map::read_with(draft, &inode, OnMetadata::Kept)?.nodes {
            let owner = *owners.entry(block).or_insert(ino);
            if owner != ino {
                shared.blocks.insert(block);
                shared.files.extend([owner, ino]);
            }
        }
    }
    Ok(shared)
}

/// Files in the order in which they keep what they share: inode 7, directories whose first entry
/// is themselves, which no copy of a directory has, then the others.
///
/// # Errors
/// The device's.
pub(crate) fn in_order(draft: &Draft, files: BTreeSet<Ino>) -> Result<Vec<Ino>> {
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for ino in files {
        match ino == Ino::RESIZE || is_itself(draft, ino)? {
            true => first.push(ino),
            false => others.push(ino),
        }
    }
    first.append(&mut others);
    first.sort_by_key(|ino| *ino != Ino::RESIZE);
    Ok(first)
}

fn is_itself(draft: &Draft, ino: Ino) -> Result<bool> {
    let is_directory = |inode: &Inode| inode.file_type() == Some(FileType::Directory);
    let Some(inode) = draft.inode(ino)?.filter(is_directory) else { return Ok(false) };
    if !map::is_mapped(&inode, &draft.superblock) {
        return Ok(false);
    }
    let runs = map::read_with(draft, &inode, OnMetadata::Kept)?.runs;
    let Some(run) = runs.first().filter(|run| run.file_block == 0) else { return Ok(false) };
    let bytes = draft.read(BlockNo(run.start))?.unwrap_or_default();
    Ok(bytes.first_chunk().is_some_and(|number| u32::from_le_bytes(*number) == ino.0))
}

/// Copies the shared blocks of one file, but for those that nobody `kept` yet. Gives whether it
/// could.
///
/// # Errors
/// The device's; no block is free.
pub(crate) fn mend(draft: &mut Draft, ino: Ino, kept: &mut BTreeSet<u64>) -> Result<bool> {
    let Some(mut inode) = draft.inode(ino)? else { return Ok(false) };
    if ino == Ino::RESIZE {
        let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
        kept.insert(growth_map::root(&inode).0 / cluster * cluster);
        return Ok(true);
    }
    let attributes = inode.attribute_block;
    let is_of_volume = draft.usage.is_metadata(attributes);
    if attributes.0 != 0 && is_of_volume && !is_attributes(draft, attributes)? {
        // They are lost, which is another problem.
        return Ok(false);
    }
    let is_double = attributes.0 != 0 && draft.usage.is_double(attributes);
    if attributes.0 != 0 && is_of_volume || is_double && !kept.insert(attributes.0) {
        inode.attribute_block = copied_attributes(draft, attributes)?;
    }
    let translator = inode.translator(&draft.superblock);
    if translator.0 != 0 && draft.usage.holds(translator) {
        let is_shared = draft.usage.is_double(translator) && !kept.insert(translator.0);
        if is_shared || draft.usage.is_metadata(translator) {
            inode.set_translator(copied(draft, translator)?);
        }
    }
    if map::is_mapped(&inode, &draft.superblock) {
        let mut found = map::read_with(draft, &inode, OnMetadata::Kept)?;
        let (mut runs, mut placed) = (Vec::new(), None);
        for run in &found.runs {
            split(draft, *run, (kept, &mut placed), &mut runs)?;
        }
        found.runs = runs;
        map::write(draft, ino, &mut inode, &found)?;
    }
    draft.write_inode(ino, &inode)?;
    Ok(true)
}

/// Where a cluster of a file is put.
struct Placed {
    of_file: u64,
    /// Its first block on the volume.
    to: u64,
}

/// Adds the parts of a run: what is kept, and copies of what is not. A file has whole clusters:
/// what is in the same one as the run before goes where that went.
fn split(
    draft: &mut Draft,
    run: MapRun,
    (kept, placed): (&mut BTreeSet<u64>, &mut Option<Placed>),
    runs: &mut Vec<MapRun>,
) -> Result<()> {
    let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
    for at in 0..run.length {
        let block = run.start.saturating_add(at);
        let of_file = run.file_block.saturating_add(at) / cluster;
        let (first, offset) = (block / cluster * cluster, block % cluster);
        if placed.as_ref().is_none_or(|placed| placed.of_file != of_file) {
            let is_shared = draft.usage.is_double(BlockNo(block)) && !kept.insert(first);
            let is_metadata = (first..first.saturating_add(cluster))
                .any(|it| draft.usage.is_metadata(BlockNo(it)));
            let to = match is_shared || is_metadata {
                true => allocated(draft, BlockNo(block))?.0,
                false => first,
            };
            *placed = Some(Placed { of_file, to });
        }
        let to = placed.as_ref().map_or(first, |placed| placed.to);
        let start = to.saturating_add(offset);
        if to != first {
            let bytes = draft.read(BlockNo(block))?;
            let bytes = bytes.unwrap_or_else(|| vec![0; draft.block_size()]);
            draft.write(BlockNo(start), &bytes)?;
        }
        let part =
            MapRun { file_block: run.file_block.saturating_add(at), start, length: 1, ..run };
        let follows = |last: &&mut MapRun| {
            last.file_block.saturating_add(last.length) == part.file_block
                && last.start.saturating_add(last.length) == part.start
        };
        match runs.last_mut().filter(follows) {
            Some(last) => last.length = last.length.saturating_add(1),
            None => runs.push(part),
        }
    }
    Ok(())
}

fn allocated(draft: &mut Draft, goal: BlockNo) -> Result<BlockNo> {
    let full = || Error::Refused("no free block is left for the copy of a shared one".into());
    draft.allocate(goal).ok_or_else(full)
}

fn copied(draft: &mut Draft, block: BlockNo) -> Result<BlockNo> {
    let copy = allocated(draft, block)?;
    let bytes = draft.read(block)?.unwrap_or_else(|| vec![0; draft.block_size()]);
    draft.write(copy, &bytes)?;
    Ok(copy)
}

fn is_attributes(draft: &Draft, block: BlockNo) -> Result<bool> {
    let bytes = draft.read(block)?;
    Ok(bytes.is_some_and(|bytes| StoredBlock::new(&bytes).magic() == attribute::MAGIC))
}

fn copied_attributes(draft: &mut Draft, block: BlockNo) -> Result<BlockNo> {
    let copy = copied(draft, block)?;
    if let Some(mut bytes) = draft.read(copy)? {
        attribute::set_reference_count(&mut bytes, 1, copy, &draft.superblock);
        draft.write(copy, &bytes)?;
    }
    Ok(copy)
}
