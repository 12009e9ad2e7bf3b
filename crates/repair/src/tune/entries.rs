//! Blocks of directories, written with or without the place for a checksum, or a type beside each
//! name.
//!
//! *Invariants*: a directory has the same names afterwards. A block is changed where it is if what
//! is in it has room; else the names of the whole directory are packed anew, with another index.
use super::Freed;
use crate::directories::{self, Directory};
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::index;
use crate::map;
use extant_format::directory::stored::{ChainEnd, EntryShape, IndexTail, StoredIndex};
use extant_format::directory::{Form, IndexPlace, RECORD_MIN, Style};
use extant_format::inode::{Inode, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, FileBlock, Ino, attribute};

/// Bytes of a checksum's place at the end of a leaf.
const TAIL: usize = 12;
/// Bytes of an entry before its name, and where its length is.
const HEADER: usize = 8;
const LENGTH_AT: usize = 4;
/// Where the type of an entry is.
const TYPE_AT: usize = 7;
/// Bytes of an inline directory that have the number of its parent.
const PARENT_BYTES: usize = 4;

/// Whether a directory that is packed anew gets an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Index {
    /// If it had one.
    AsBefore,
    /// It gets none.
    Without,
}

/// How entries of a directory are kept.
fn shape(draft: &Draft, inode: &Inode) -> EntryShape {
    let has_hashes = inode.flags & flags::ENCRYPTED != 0 && inode.flags & flags::CASEFOLDED != 0;
    EntryShape { block_size: draft.block_size(), hash_bytes: if has_hashes { 8 } else { 0 } }
}

/// The blocks of a directory that is not in its inode.
fn blocks(draft: &Draft, inode: &Inode) -> Result<Vec<(u64, BlockNo)>> {
    let runs = map::read(draft, inode)?.runs;
    let of_run = |run: &map::MapRun| {
        let run = *run;
        (0..run.length).map(move |at| (run.file_block + at, BlockNo(run.start + at)))
    };
    Ok(runs.iter().flat_map(of_run).collect())
}

/// Writes the blocks of a directory with the checksums that the draft's superblock has, where
/// `before` had others.
///
/// # Errors
/// The device's; a directory whose names are kept with their hashes has no place for a checksum.
pub(super) fn reseal(
    draft: &mut Draft,
    (ino, inode): (Ino, &Inode),
    before: &Superblock,
    kept: &mut Freed,
) -> Result<()> {
    let style = directories::style(draft);
    let old = Style { checksummed: before.has(Feature::METADATA_CSUM), ..style };
    let form = match draft.superblock.has(Feature::DIR_INDEX) {
        true => Form::of(inode.flags),
        false => Form::Linear,
    };
    let seed = draft.seed(ino, inode);
    let shape = shape(draft, inode);
    let mut written = Vec::new();
    for (at, block) in blocks(draft, inode)? {
        let Some(mut bytes) = draft.read(block)? else { continue };
        let at = FileBlock(u32::try_from(at).unwrap_or(u32::MAX));
        if !with_place(&mut bytes, (at, form), (old, style), shape) {
            if shape.hash_bytes > 0 {
                return Err(Error::Refused(format!(
                    "directory {ino} is encrypted and knows no case, and a block of it has no \
                     place for a checksum"
                )));
            }
            return repack(draft, ino, Index::AsBefore, kept);
        }
        style.seal(&mut bytes, at, form, seed);
        written.push((block, bytes));
    }
    written.iter().try_for_each(|(block, bytes)| draft.write(*block, bytes))
}

/// Makes the place for a checksum in a block, or takes it away. Gives whether it has room.
fn with_place(
    bytes: &mut [u8],
    (at, form): (FileBlock, Form),
    (old, new): (Style, Style),
    shape: EntryShape,
) -> bool {
    let tail = if old.checksummed { IndexTail::Checksum } else { IndexTail::None };
    let place = match form {
        Form::Indexed if at == FileBlock(0) => Some(IndexPlace::Root),
        Form::Indexed if shape.is_node(bytes, tail) => Some(IndexPlace::Node),
        _ => None,
    };
    if old.checksummed == new.checksummed {
        return true;
    }
    match place {
        Some(place) => {
            let stored = StoredIndex::new(bytes, place, tail);
            let entries: Vec<(u32, FileBlock)> =
                stored.entries().map(|(hash, block)| (hash, FileBlock(block))).collect();
            let fits = (1..=new.index_capacity(place)).contains(&entries.len());
            if fits {
                new.set_index(bytes, place, &entries);
            }
            fits
        }
        // What has the shape of a tail may stay in a leaf without checksums.
        None if !new.checksummed => true,
        None => leaf_with_tail(bytes, new, shape),
    }
}

/// Makes the last bytes of a leaf the place of a checksum, by what the last entry does not need;
/// else by packing its entries. Gives whether it has room.
fn leaf_with_tail(bytes: &mut [u8], new: Style, shape: EntryShape) -> bool {
    let mut last = None;
    let mut kept = Vec::new();
    let end = shape.walk(bytes, 0, &mut |entry| {
        let used = match entry.ino {
            0 => RECORD_MIN,
            _ => {
                (HEADER + entry.name.len()).next_multiple_of(4)
                    + if is_dot(entry.name) { 0 } else { shape.hash_bytes }
            }
        };
        last = Some((entry.offset, entry.length, used));
        if entry.ino != 0 {
            let kind = extant_format::inode::FileType::from_entry_code(entry.code);
            kept.push((entry.name.to_vec(), Ino(entry.ino), kind, entry.code));
        }
    });
    match (end, last) {
        (ChainEnd::Tail, _) => return true,
        (ChainEnd::Broken(_), _) | (_, None) => return false,
        (ChainEnd::Block, Some((offset, length, used))) if length >= used + TAIL => {
            set_length(bytes, offset, length - TAIL);
            let start = bytes.len().saturating_sub(TAIL);
            let tail = bytes.get_mut(start..).unwrap_or_default();
            for (to, from) in tail.iter_mut().zip([0, 0, 0, 0, 12, 0, 0, 0xde, 0, 0, 0, 0]) {
                *to = from;
            }
            return true;
        }
        (ChainEnd::Block, Some(_)) => {}
    }
    let size: usize = kept.iter().map(|(name, ..)| new.entry_size(name.len())).sum();
    let is_known = kept.iter().all(|(_, _, kind, code)| kind.is_some() || *code == 0);
    if shape.hash_bytes > 0 || size > new.leaf_capacity() || !is_known {
        return false;
    }
    let regular = extant_format::inode::FileType::Regular;
    let entries =
        kept.iter().map(|(name, ino, kind, _)| (&name[..], *ino, kind.unwrap_or(regular)));
    new.pack(bytes, entries);
    true
}

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Sets how long an entry is: in blocks of 64 KiB lengths that 16 bits do not hold are rotated.
fn set_length(bytes: &mut [u8], offset: usize, length: usize) {
    let stored = (length & 0xfffc) | (length >> 16 & 3);
    let stored = u16::try_from(stored).unwrap_or(u16::MAX).to_le_bytes();
    for (to, from) in bytes.iter_mut().skip(offset + LENGTH_AT).zip(stored) {
        *to = from;
    }
}

/// Packs the names of a directory anew. Notes the blocks that it had: it may not need all of them.
///
/// # Errors
/// The device's; no block is free.
pub(super) fn repack(draft: &mut Draft, ino: Ino, wanted: Index, kept: &mut Freed) -> Result<()> {
    let refused = || {
        Error::Refused(format!("directory {ino} cannot be written anew, and nothing is written"))
    };
    let Some(before) = draft.inode(ino)? else { return Ok(()) };
    let of_map = |draft: &Draft| -> Result<map::FileMap> {
        let inode = draft.inode(ino)?.ok_or_else(refused)?;
        map::read(draft, &inode)
    };
    let map = of_map(draft)?;
    let held = map::footprint(draft, &map);
    kept.extend(map.runs.iter().map(|run| (BlockNo(run.start), run.length)));
    kept.extend(map.nodes.iter().map(|node| (*node, 1)));
    let Some(mut directory) = Directory::open(draft, ino)? else { return Err(refused()) };
    if !directory.repack(draft)? {
        return Err(Error::Refused("no free block is left for a directory".into()));
    }
    if wanted == Index::AsBefore && before.flags & flags::INDEX != 0 {
        index::build(draft, ino)?;
    }
    let holds = map::footprint(draft, &of_map(draft)?);
    let mut inode = draft.inode(ino)?.ok_or_else(refused)?;
    inode.sectors = before.sectors.saturating_add(holds).saturating_sub(held);
    draft.write_inode(ino, &inode)
}

/// Writes the type of each file beside its name, or none, as the superblock has it.
///
/// # Errors
/// The device's.
pub(super) fn set_types(draft: &mut Draft, ino: Ino) -> Result<()> {
    let Some(mut inode) = draft.inode(ino)? else { return Ok(()) };
    let shape = shape(draft, &inode);
    if inode.flags & flags::INLINE_DATA != 0 {
        type_chain(draft, &mut inode.block, PARENT_BYTES, shape);
        if let Ok(Some(rest)) = attribute::inline_rest(&inode.tail)
            && let Some(bytes) = inode.tail.get_mut(rest)
        {
            type_chain(draft, bytes, 0, shape);
        }
        return draft.write_inode(ino, &inode);
    }
    let (style, form) = (directories::style(draft), Form::of(inode.flags));
    let seed = draft.seed(ino, &inode);
    for (at, block) in blocks(draft, &inode)? {
        let Some(mut bytes) = draft.read(block)? else { continue };
        type_chain(draft, &mut bytes, 0, shape);
        let at = FileBlock(u32::try_from(at).unwrap_or(u32::MAX));
        style.seal(&mut bytes, at, form, seed);
        draft.write(block, &bytes)?;
    }
    Ok(())
}

/// Sets the types in a chain of entries.
fn type_chain(draft: &Draft, bytes: &mut [u8], start: usize, shape: EntryShape) {
    let is_typed = draft.superblock.has(Feature::FILETYPE);
    let mut codes = Vec::new();
    shape.walk(bytes, start, &mut |entry| {
        let kind = draft.usage.file_type(Ino(entry.ino)).filter(|_| is_typed && entry.ino != 0);
        codes.push((entry.offset, kind.map_or(0, |kind| kind.entry_code())));
    });
    for (offset, code) in codes {
        if let Some(byte) = bytes.get_mut(offset + TYPE_AT) {
            *byte = code;
        }
    }
}
