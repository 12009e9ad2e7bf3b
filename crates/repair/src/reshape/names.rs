//! Numbers of inodes, where names and attributes have them.
use crate::directories::style;
use crate::draft::{Draft, Result};
use crate::map::MapRun;
use extant_format::directory::Form;
use extant_format::directory::stored::EntryShape;
use extant_format::inode::{Inode, flags};
use extant_format::superblock::Superblock;
use extant_format::{BlockNo, FileBlock, Ino, attribute};
use std::collections::BTreeMap;

/// Bytes of an inline directory that have the number of its parent.
const PARENT_BYTES: usize = 4;

/// Bytes after each name in which its hash is kept.
fn hash_bytes(inode: &Inode) -> usize {
    match inode.flags & flags::ENCRYPTED != 0 && inode.flags & flags::CASEFOLDED != 0 {
        true => 8,
        false => 0,
    }
}

/// Changes numbers in a chain of entries. Gives whether any was.
fn renumber_chain(
    bytes: &mut [u8],
    start: usize,
    shape: EntryShape,
    renumbered: &BTreeMap<Ino, Ino>,
) -> bool {
    let mut changes = Vec::new();
    shape.walk(bytes, start, &mut |entry| {
        if let Some(to) = renumbered.get(&Ino(entry.ino)) {
            changes.push((entry.offset, *to));
        }
    });
    for (offset, to) in &changes {
        if let Some(place) = bytes.get_mut(*offset..offset.saturating_add(4)) {
            place.copy_from_slice(&to.0.to_le_bytes());
        }
    }
    !changes.is_empty()
}

/// Changes numbers in the blocks of a directory that has this number now, and seals them.
///
/// # Errors
/// The device's.
pub(super) fn renumber_blocks(
    draft: &Draft,
    (ino, inode): (Ino, &Inode),
    runs: &[MapRun],
    renumbered: &BTreeMap<Ino, Ino>,
) -> Result<()> {
    let style = style(draft);
    let seed = draft.seed(ino, inode);
    let form = Form::of(inode.flags);
    let shape = EntryShape { block_size: draft.block_size(), hash_bytes: hash_bytes(inode) };
    let is_moved = renumbered.values().any(|to| *to == ino);
    for run in runs {
        for at in 0..run.length {
            let block = BlockNo(run.start + at);
            let Some(mut bytes) = draft.read(block)? else { continue };
            if renumber_chain(&mut bytes, 0, shape, renumbered) || is_moved {
                let number = u32::try_from(run.file_block + at).unwrap_or(u32::MAX);
                style.seal(&mut bytes, FileBlock(number), form, seed);
                draft.write(block, &bytes)?;
            }
        }
    }
    Ok(())
}

/// Changes numbers in a directory that is in its inode.
pub(super) fn renumber_inline(
    superblock: &Superblock,
    inode: &mut Inode,
    renumbered: &BTreeMap<Ino, Ino>,
) {
    let shape =
        EntryShape { block_size: superblock.block_size() as usize, hash_bytes: hash_bytes(inode) };
    let parent = inode.block.first_chunk::<PARENT_BYTES>().map(|it| Ino(u32::from_le_bytes(*it)));
    if let Some(to) = parent.and_then(|parent| renumbered.get(&parent))
        && let Some(place) = inode.block.first_chunk_mut::<PARENT_BYTES>()
    {
        *place = to.0.to_le_bytes();
    }
    renumber_chain(&mut inode.block, PARENT_BYTES, shape, renumbered);
    if let Ok(Some(rest)) = attribute::inline_rest(&inode.tail)
        && let Some(bytes) = inode.tail.get_mut(rest)
    {
        renumber_chain(bytes, 0, shape, renumbered);
    }
}

/// Changes numbers of inodes that are values, in a list of attributes whose entries begin at byte
/// `start`. Gives whether any was.
pub(super) fn renumber_values(
    list: &mut [u8],
    start: usize,
    renumbered: &BTreeMap<Ino, Ino>,
) -> bool {
    !renumbered.is_empty()
        && attribute::renumber_values(list, start, &|ino| renumbered.get(&ino).copied())
}
