//! A volume that was built anew, as changes of the one that is in its place.
use extant_block::{BlockDevice, Overlay};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Memory for what an overlay changes, in bytes; more is in a file.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Bytes of which it is found out at a time whether they differ.
const PIECE_BYTES: usize = 1 << 20;

/// The blocks of `device` that have other bytes in `built`, up to byte `bytes`, as an overlay.
/// Where neither has anything, nothing is read. What memory has no room for is in `spool`.
///
/// # Errors
/// Those of both devices and of the spool.
pub fn changes(
    device: &Arc<dyn BlockDevice>,
    built: &dyn BlockDevice,
    (block_size, bytes): (u32, u64),
    spool: File,
) -> io::Result<Overlay> {
    let overlay = Overlay::new(Arc::clone(device), block_size, MEMORY_BYTES_MAX).with_spool(spool);
    let size = u64::from(block_size);
    let (mut old, mut new) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let mut at = 0;
    while at < bytes {
        // Where neither has anything, nothing differs.
        let next = |device: &dyn BlockDevice| {
            device.next_data(at).map(|next| next.map_or(bytes, |next| next.start.max(at)))
        };
        let from = next(&**device)?.min(next(built)?);
        at = from / size * size;
        let length = (bytes.saturating_sub(at)).min(PIECE_BYTES as u64) as usize;
        let (old, new) = (&mut old[..length], &mut new[..length]);
        device.read(at, old).and_then(|()| built.read(at, new))?;
        let blocks = old.chunks(block_size as usize).zip(new.chunks(block_size as usize));
        for (number, (old, new)) in (at / size..).zip(blocks) {
            if old != new {
                overlay.put(number, Arc::new(new.to_vec()))?;
            }
        }
        at += length as u64;
    }
    Ok(overlay)
}
