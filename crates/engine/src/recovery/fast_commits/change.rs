//! What a fast commit says, checked: the one door between the log's bytes and what is changed.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::Volume;
use crate::inode::mapping::clusters::is_in_place;
use extant_format::directory::NAME_MAX;
use extant_format::extent::Extent;
use extant_format::inode::{BASE_SIZE, FileType, Inode, StoredInode, flags};
use extant_format::journal::fast_commit::{Change, Entry};
use extant_format::superblock::MappingKind;
use extant_format::{FileBlock, Ino, Run};
use std::ops::Range;

/// Inode flags of features that this engine does not have: the bytes in the map are no map.
const FOREIGN: u32 =
    flags::INLINE_DATA | flags::EA_INODE | flags::ENCRYPTED | flags::VERITY | flags::CASEFOLDED;

/// The error for an impossible value in a fast commit.
pub(super) fn wrong(ino: Ino, field: &'static str, value: u64, why: &'static str) -> Error {
    Error::field(Place::Inode(ino), "fast commit", field, value, why)
}

/// Fails if it cannot be a change of this volume.
///
/// # Errors
/// `Corrupt`, with the inode.
pub(super) fn check(volume: &Volume, change: &Change) -> Result<()> {
    match change {
        Change::Inode { ino, bytes } => check_inode(volume, *ino, bytes),
        Change::AddRange { ino, extent } => check_extent(volume, *ino, extent),
        Change::DeleteRange { ino, first, length } => {
            check_ino(volume, *ino)?;
            check_range(*ino, &range_of(*first, *length))
        }
        Change::Create(name) | Change::Link(name) | Change::Unlink(name) => {
            check_name(volume, name)
        }
    }
}

/// A range of file blocks.
pub(super) fn range_of(first: FileBlock, length: u32) -> Range<u64> {
    let first = u64::from(first.0);
    first..first + u64::from(length)
}

/// The inode that a fast commit holds the bytes of.
///
/// # Errors
/// `Corrupt` if its mode has no type.
pub(super) fn decode(volume: &Volume, ino: Ino, bytes: &[u8]) -> Result<(Inode, FileType)> {
    let inode = Inode::decode(bytes, &volume.store.superblock);
    let no_type = || wrong(ino, "mode", inode.mode.into(), "not a file type");
    let file_type = inode.file_type().ok_or_else(no_type)?;
    Ok((inode, file_type))
}

fn check_ino(volume: &Volume, ino: Ino) -> Result<()> {
    let superblock = &volume.store.superblock;
    if !superblock.is_usable(ino) || ino.0 == superblock.orphan_file_inode {
        return Err(wrong(ino, "inode", ino.0.into(), "not one that a file or directory can have"));
    }
    Ok(())
}

fn check_inode(volume: &Volume, ino: Ino, bytes: &[u8]) -> Result<()> {
    check_ino(volume, ino)?;
    let most = usize::from(volume.store.superblock.inode_size);
    if !(BASE_SIZE..=most).contains(&bytes.len()) {
        return Err(wrong(ino, "bytes of an inode", bytes.len() as u64, "not what an inode has"));
    }
    let stored = StoredInode::new(bytes);
    if !stored.is_extra_size_possible() {
        let extra = stored.extra_size().into();
        return Err(wrong(ino, "extra size", extra, "not what fits"));
    }
    let (inode, _) = decode(volume, ino, bytes)?;
    if inode.flags & FOREIGN != 0 {
        let features = vec![format!("inode flags {:#x} in a fast commit", inode.flags & FOREIGN)];
        return Err(ErrorKind::Unsupported(features).into());
    }
    let kind = if inode.has_extents() { MappingKind::Extents } else { MappingKind::Indirect };
    if inode.size > volume.store.superblock.max_file_size(kind) {
        return Err(wrong(ino, "size", inode.size, "larger than a file can be"));
    }
    Ok(())
}

fn check_range(ino: Ino, range: &Range<u64>) -> Result<()> {
    // The last block that a map can have is 2^32 - 2.
    if range.end > u64::from(u32::MAX) {
        return Err(wrong(ino, "file block", range.start, "not the start of a range of a file"));
    }
    Ok(())
}

fn check_extent(volume: &Volume, ino: Ino, extent: &Extent) -> Result<()> {
    check_ino(volume, ino)?;
    check_range(ino, &range_of(extent.file_block, extent.length))?;
    let end = extent.start.0.checked_add(extent.length.into());
    let is_inside = end.is_some_and(|end| end <= volume.store.superblock.blocks_count);
    if !volume.store.holds_block(extent.start) || !is_inside {
        return Err(wrong(ino, "start of a range", extent.start.0, "outside the volume"));
    }
    if !is_in_place(volume, extent.file_block.0.into(), extent.start) {
        let why = "at another place in its cluster than in the file's";
        return Err(wrong(ino, "start of a range", extent.start.0, why));
    }
    if volume.space.is_metadata(Run { start: extent.start, length: extent.length }) {
        let why = "where the volume's own metadata is";
        return Err(wrong(ino, "start of a range", extent.start.0, why));
    }
    Ok(())
}

fn check_name(volume: &Volume, name: &Entry) -> Result<()> {
    check_ino(volume, name.ino)?;
    check_ino(volume, name.parent)?;
    let is_possible = (1..=NAME_MAX).contains(&name.name.len())
        && !matches!(name.name.as_slice(), b"." | b"..")
        && !name.name.iter().any(|byte| matches!(byte, b'/' | 0));
    if !is_possible {
        let length = name.name.len() as u64;
        return Err(wrong(name.ino, "name of bytes", length, "not one that a file can have"));
    }
    if name.ino == Ino::ROOT || name.ino == name.parent {
        return Err(wrong(name.ino, "name in inode", name.parent.0.into(), "a loop"));
    }
    Ok(())
}
