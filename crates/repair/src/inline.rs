//! Mends directories that are in their inodes: entries that cannot be, chains that break.
//!
//! Nothing of them moves: what an entry is to have has to fit where it is.
use crate::directories::{self, Kept};
use crate::draft::{Draft, Result};
use extant_format::directory::stored::{ChainEnd, EntryShape};
use extant_format::directory::{HEADER, Style};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::{Ino, attribute};
use extant_inspect::{Code, Problem};

/// Whether the content of an inode is in it.
///
/// # Errors
/// The device's.
pub(crate) fn is_inline(draft: &Draft, ino: Ino) -> Result<bool> {
    Ok(draft.inode(ino)?.is_some_and(|inode| inode.flags & flags::INLINE_DATA != 0))
}

/// Mends the problems of a directory whose entries are in its inode. Gives whether it did.
///
/// # Errors
/// The device's.
pub(crate) fn mend(draft: &Draft, ino: Ino, problems: &[&Problem]) -> Result<bool> {
    let Some(mut inode) = draft.inode(ino)? else { return Ok(false) };
    let style = directories::style(draft);
    let mut is_done = true;
    for problem in problems {
        let name = problem.name.as_deref().unwrap_or_default();
        if name == b".." {
            if let Some(place) = inode.block.first_chunk_mut::<4>() {
                *place = Ino::ROOT.0.to_le_bytes();
            }
            continue;
        }
        if is_of_name(problem.code) {
            is_done &= legalize(&style, &mut inode, problems);
            continue;
        }
        let rest = attribute::inline_rest(&inode.tail).ok().flatten();
        let mut is_mended = false;
        let (_, first) = inode.block.split_at_mut(4);
        let second = rest.and_then(|range| inode.tail.get_mut(range));
        for part in std::iter::once(first).chain(second) {
            let target = problem.other.unwrap_or(Ino(0));
            is_mended |= if problem.code == Code::DirectoryChain {
                rejoined(&style, part)
            } else if directories::removes(problem.code) {
                style.remove_inline(part, name).unwrap_or(false)
            } else if matches!(problem.code, Code::EntryType | Code::EntryTyped) {
                let kind = draft.usage.file_type(target).unwrap_or(FileType::Regular);
                style.replace(part, name, target, kind).unwrap_or(false)
            } else {
                false
            };
        }
        is_done &= is_mended;
    }
    draft.write_inode(ino, &inode)?;
    Ok(is_done)
}

/// Takes an inode out of a directory whose entries are in its inode. Gives whether it was in it.
///
/// # Errors
/// The device's.
pub(crate) fn forget(draft: &Draft, parent: Ino, ino: Ino) -> Result<bool> {
    let is_inline = |inode: &Inode| inode.flags & flags::INLINE_DATA != 0;
    let Some(mut inode) = draft.inode(parent)?.filter(is_inline) else { return Ok(false) };
    let style = directories::style(draft);
    let shape = EntryShape { block_size: style.block_size as usize, hash_bytes: 0 };
    let rest = attribute::inline_rest(&inode.tail).ok().flatten();
    let (_, first) = inode.block.split_at_mut(4);
    let second = rest.and_then(|range| inode.tail.get_mut(range));
    let mut is_changed = false;
    for part in std::iter::once(first).chain(second) {
        let mut names = Vec::new();
        shape.walk(part, 0, &mut |entry| {
            if entry.ino == ino.0 {
                names.push(entry.name.to_vec());
            }
        });
        for name in names {
            is_changed |= style.remove_inline(part, &name).unwrap_or(false);
        }
    }
    if is_changed {
        draft.write_inode(parent, &inode)?;
    }
    Ok(is_changed)
}

/// Whether a problem is that a name cannot be as it is.
fn is_of_name(code: Code) -> bool {
    matches!(code, Code::EntryNameIllegal | Code::EntryNameEncoding | Code::EntryTwice)
}

/// An entry in an inode: its part, the byte at which it begins, and the bytes to the next one.
struct Place {
    part: usize,
    offset: usize,
    length: usize,
}

/// Gives names in an inode that cannot be, or are there twice, others, each in its place. Gives
/// whether all had room.
fn legalize(style: &Style, inode: &mut Inode, problems: &[&Problem]) -> bool {
    let shape = EntryShape { block_size: style.block_size as usize, hash_bytes: 0 };
    let rest = attribute::inline_rest(&inode.tail).ok().flatten();
    let (mut entries, mut places) = (Vec::new(), Vec::new());
    let second = rest.clone().and_then(|range| inode.tail.get(range));
    let (_, first) = inode.block.split_at(4);
    for (part, bytes) in std::iter::once(first).chain(second).enumerate() {
        shape.walk(bytes, 0, &mut |entry| {
            if entry.ino != 0 && !entry.name.is_empty() {
                let kind = FileType::from_entry_code(entry.code).unwrap_or(FileType::Regular);
                entries.push(Kept { ino: Ino(entry.ino), name: entry.name.to_vec(), kind });
                places.push(Place { part, offset: entry.offset, length: entry.length });
            }
        });
    }
    directories::legalize(&mut entries, inode, problems);
    let mut has_room = true;
    for (entry, place) in entries.iter().zip(places) {
        let (_, first) = inode.block.split_at_mut(4);
        let bytes = match place.part {
            0 => Some(first),
            _ => rest.clone().and_then(|range| inode.tail.get_mut(range)),
        };
        let end = place.offset.saturating_add(place.length);
        let record = bytes.and_then(|bytes| bytes.get_mut(place.offset..end));
        let split = record.and_then(|record| record.split_at_mut_checked(HEADER));
        let name = split.and_then(|(header, rest)| {
            let length = u8::try_from(entry.name.len()).ok()?;
            Some((header.get_mut(6)?, length, rest.get_mut(..entry.name.len())?))
        });
        match name {
            Some((stored, length, name)) => {
                *stored = length;
                name.copy_from_slice(&entry.name);
            }
            None => has_room = false,
        }
    }
    has_room
}

/// Joins a chain of entries that is broken: what is between the last entry and the next one that
/// looks like one, or the end, becomes part of the last. Gives whether it was broken.
fn rejoined(style: &Style, part: &mut [u8]) -> bool {
    let shape = EntryShape { block_size: style.block_size as usize, hash_bytes: 0 };
    let mut is_changed = false;
    loop {
        let mut last = None;
        let end = shape.walk(part, 0, &mut |entry| last = Some(entry.offset));
        let ChainEnd::Broken(at) = end else { return is_changed };
        let next = directories::plausible(part, at.saturating_add(4)).unwrap_or(part.len());
        let from = last.unwrap_or(at);
        let length = u16::try_from(next.saturating_sub(from)).unwrap_or(0);
        let Some(header) = part.get_mut(from..from.saturating_add(HEADER)) else {
            return is_changed;
        };
        if last.is_none() {
            // An entry that is not used.
            header.fill(0);
        }
        if let Some(place) = header.get_mut(4..6) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        is_changed = true;
    }
}
