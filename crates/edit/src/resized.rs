//! A volume that has another size in memory, written: all, or nothing. Where it ends with its
//! image, that gets another length, too.
//!
//! *Invariants*: the image is longer before the log is begun, and shorter after all is in place.
//! What is cut off is less than a block of zeros, or was the volume's.
use crate::ahead::Ahead;
use crate::e2undo;
use crate::error::Result;
use crate::redo::Identity;
use crate::undo::{self, Applied, Keep};
use extant_block::{BlockDevice, Overlay};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What is to be written.
pub struct Sized<'a> {
    /// The volume as it is to be, over its device.
    pub overlay: &'a Overlay,
    /// What is written to free blocks before.
    pub ahead: &'a Ahead,
    /// Bytes of its blocks.
    pub block_size: u32,
    /// Its bytes before.
    pub bytes_before: u64,
    /// Its bytes as it is to be.
    pub bytes_after: u64,
}

/// An image that can have another length.
pub trait Length {
    /// Gives it this many bytes, and gives the bytes of the volume then.
    ///
    /// # Errors
    /// The host's.
    fn set(&self, image_bytes: u64) -> io::Result<Arc<dyn BlockDevice>>;
}

/// Where it is written.
pub struct Target<'a> {
    /// The volume's bytes as they are.
    pub device: &'a Arc<dyn BlockDevice>,
    /// The image's length, where the volume ends with it and that can change.
    pub length: Option<&'a dyn Length>,
    /// Where the log is.
    pub log: &'a Path,
    /// Which image it is.
    pub identity: Identity,
    /// A file of what was there before, for e2undo; the image does not become shorter then.
    pub e2undo: Option<&'a Path>,
}

/// Writes it. Nothing is kept for an undo but by e2undo, and an undo of before is gone.
///
/// # Errors
/// As [`undo::apply_after`] and [`e2undo::write`]; the image cannot be made longer.
pub fn apply(sized: &Sized<'_>, target: &Target<'_>) -> Result<Applied> {
    let &Target { log, identity, length, .. } = target;
    let before = identity.offset.saturating_add(sized.bytes_before);
    let after = identity.offset.saturating_add(sized.bytes_after);
    let image_bytes = identity.image_bytes;
    let failed = |error: io::Error| extant_engine::Error::from(error);
    let grown = length.filter(|_| after > image_bytes);
    let (device, identity) = match grown {
        Some(length) => (
            length.set(after).map_err(failed)?,
            Identity { image_bytes: after, offset: identity.offset },
        ),
        None => (Arc::clone(target.device), identity),
    };
    let overlay = sized.overlay.over(Arc::clone(&device));
    let kept = target.e2undo.map(|path| {
        e2undo::write(&overlay, sized.block_size, path, identity.offset).map(|kept| (path, kept))
    });
    let applied = kept.transpose().and_then(|kept| {
        let place = (log, &identity);
        let written =
            undo::apply_after(sized.ahead, &overlay, sized.block_size, place, Keep::Nothing);
        if let (Some((path, 1..)), Err(_), false) = (kept, &written, log.exists()) {
            // Nothing was written: there is nothing to take back.
            drop(std::fs::remove_file(path));
        }
        written
    });
    if let (Err(_), Some(length), false) = (&applied, grown, log.exists()) {
        // Nothing has happened: it is as long as it was.
        drop(length.set(image_bytes));
    }
    let applied = applied?;
    let cut = length.filter(|_| after < before && target.e2undo.is_none());
    if let Some(length) = cut {
        let rest = before.saturating_sub(identity.offset);
        if is_nothing(&*device, rest, sized.block_size).map_err(failed)? {
            // tidy: writers because the volume is closed, and has its size
            length.set(after).and_then(|device| device.flush()).map_err(failed)?;
        }
    }
    Ok(applied)
}

/// Whether what is past a byte of a device is less than a block, and zeros: a disk of another
/// program may have its own there.
fn is_nothing(device: &dyn BlockDevice, start: u64, block_size: u32) -> io::Result<bool> {
    let bytes = device.own_bytes().saturating_sub(start);
    if bytes >= block_size.into() {
        return Ok(false);
    }
    let mut rest = vec![0; bytes as usize];
    device.read(start, &mut rest)?;
    Ok(rest.iter().all(|byte| *byte == 0))
}
