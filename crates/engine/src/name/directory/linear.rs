//! Directories without an index: every block is searched, in order.
use super::keyless::{Legality, Naming, OwnNames};
use super::{Directory, NameTarget, is_dot};
use crate::error::Result;
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
    let blocks = directory.blocks()?;
    for block in 0..blocks {
        directory.read_for_lookup(block, blocks);
        let frame = directory.read(FileBlock(block))?;
        for entry in directory.volume.store.style.entries(&frame.bytes()) {
            let entry = entry.map_err(|fault| directory.corrupt(&frame, fault))?;
            if !is_dot(entry.name) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
