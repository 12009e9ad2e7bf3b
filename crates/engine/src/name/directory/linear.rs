//! Directories without an index: every block is searched, in order.
use super::keyless::{Legality, Naming, OwnNames};
use super::{Directory, NameTarget, is_dot};
use crate::error::{ErrorKind, Result};
use crate::store::cache::Frame;
use extant_format::FileBlock;
use std::sync::Arc;

pub(super) fn locate(
    directory: Directory<'_>,
    name: &[u8],
) -> Result<Option<(Arc<Frame>, NameTarget)>> {
    let blocks = directory.blocks()?;
    for block in 0..blocks {
        directory.read_for_lookup(block, blocks);
        let frame = directory.read(FileBlock(block))?;
        if let Some(located) = directory.find_in(&frame, name)? {
            return Ok(Some(located));
        }
    }
    Ok(None)
}

/// Finds the first name that is wanted, of all that readers are shown, but "." and "..". Works for
/// indexed directories too.
pub(super) fn locate_shown(
    directory: Directory<'_>,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<Option<(Arc<Frame>, NameTarget)>> {
    let naming = Naming::of(directory)?;
    let blocks = directory.blocks()?;
    for block in 0..blocks {
        directory.read_for_lookup(block, blocks);
        let frame = directory.read(FileBlock(block))?;
        let bytes = frame.bytes();
        let mut own = OwnNames::of(FileBlock(block));
        for entry in directory.volume.store.style.all_entries(&bytes) {
            let entry = entry.map_err(|fault| directory.corrupt(&frame, fault))?;
            let legality = own.legality(entry.name);
            let (shown, legality) = naming.shown(&bytes, &entry, legality);
            if legality == Legality::Legal && !is_dot(&shown) && is_wanted(&shown) {
                return Ok(Some((Arc::clone(&frame), directory.found(&frame, &entry)?)));
            }
        }
    }
    Ok(None)
}

/// The bytes on disk of a name that an encrypted directory shows in another form; `None` for a name
/// that is shown as it is.
///
/// # Errors
/// `NotFound`; `Corrupt`, also for a second "." or "..": the first one would be changed.
pub(super) fn stored_name(
    directory: Directory<'_>,
    frame: &Frame,
    name: &[u8],
) -> Result<Option<Vec<u8>>> {
    let naming = Naming::of(directory)?;
    if matches!(naming, Naming::Plain) || is_dot(name) {
        return Ok(None);
    }
    let bytes = frame.bytes();
    for entry in directory.volume.store.style.all_entries(&bytes) {
        let entry = entry.map_err(|fault| directory.corrupt(frame, fault))?;
        let (shown, _) = naming.shown(&bytes, &entry, Legality::Illegal);
        if shown != name {
            continue;
        }
        if is_dot(entry.name) {
            let (at, reason) = (entry.offset as u32, "that of a second \".\" or \"..\"");
            return Err(directory.field(frame, "directory entry", "offset", at, reason));
        }
        return Ok(Some(entry.name.to_vec()));
    }
    Err(ErrorKind::NotFound.into())
}

/// The first block with room for a name of this length.
pub(super) fn with_room(
    directory: Directory<'_>,
    name_length: usize,
) -> Result<Option<Arc<Frame>>> {
    let blocks = directory.blocks()?;
    for block in 0..blocks {
        directory.read_for_lookup(block, blocks);
        let frame = directory.read(FileBlock(block))?;
        let room = directory.volume.store.style.has_room(&frame.bytes(), name_length);
        if room.map_err(|fault| directory.corrupt(&frame, fault))? {
            return Ok(Some(frame));
        }
    }
    Ok(None)
}

/// Whether there is no name but "." and "..". Works for indexed directories too, because roots and
/// nodes show no other names.
pub(super) fn is_empty(directory: Directory<'_>) -> Result<bool> {
    // Encrypted names may have any bytes.
    let is_encrypted = directory.node.inode.is_encrypted(&directory.volume.store.superblock);
    let blocks = directory.blocks()?;
    for block in 0..blocks {
        directory.read_for_lookup(block, blocks);
        let frame = directory.read(FileBlock(block))?;
        let (style, bytes) = (directory.volume.store.style, frame.bytes());
        let entries = match is_encrypted {
            true => style.all_entries(&bytes),
            false => style.entries(&bytes),
        };
        for entry in entries {
            let entry = entry.map_err(|fault| directory.corrupt(&frame, fault))?;
            if !is_dot(entry.name) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
