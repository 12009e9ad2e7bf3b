//! What is known of the check before, so that the next one reads what changed alone.
use crate::error::Error;
use extant_block::{BlockDevice, Overlay};
use extant_format::BlockNo;
use extant_inspect::{CheckOptions, CheckReport, Usage, examine_again};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A check whose problems were mended, with the blocks that the overlay had before that.
pub(crate) struct Earlier {
    pub(crate) report: CheckReport,
    pub(crate) usage: Usage,
    pub(crate) blocks: Vec<(u64, Arc<Vec<u8>>)>,
}

/// The blocks of an overlay, as it is now, that were not in it before, or were others: each with
/// what was there.
fn differing(
    before: &[(u64, Arc<Vec<u8>>)],
    overlay: &Overlay,
) -> Result<BTreeMap<BlockNo, Vec<u8>>, Error> {
    let was: BTreeMap<u64, &Arc<Vec<u8>>> = before.iter().map(|(at, it)| (*at, it)).collect();
    let mut differing = BTreeMap::new();
    // A block that was written once stays so.
    for (at, now) in overlay.changed() {
        let before = match was.get(&at) {
            Some(before) if **before == now => continue,
            Some(before) => before.to_vec(),
            None => below(overlay, at, now.len())?,
        };
        differing.insert(BlockNo(at), before);
    }
    Ok(differing)
}

/// What the device under an overlay has at a block; zeros past its end.
fn below(overlay: &Overlay, block: u64, length: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; length];
    let offset = block.saturating_mul(length as u64);
    let there = overlay.device().info().bytes.saturating_sub(offset);
    let there = usize::try_from(there).map_or(length, |there| there.min(length));
    if let Some(bytes) = bytes.get_mut(..there).filter(|bytes| !bytes.is_empty()) {
        overlay.device().read(offset, bytes)?;
    }
    Ok(bytes)
}

/// Checks what is in the overlay: by what changed alone, where that is enough to know all.
///
/// # Errors
/// The device fails.
pub(crate) fn examine(
    overlay: &Arc<Overlay>,
    how: &CheckOptions,
    earlier: Option<Earlier>,
) -> Result<(CheckReport, Option<Usage>), Error> {
    let over = Arc::clone(overlay) as Arc<dyn BlockDevice>;
    // The numbers of blocks are the overlay's, and blocks in the spool are not compared.
    let is_known = |earlier: &Earlier| {
        let block_size = earlier.usage.superblock().block_size() as usize;
        overlay.spooled_bytes() == 0 && overlay.block_bytes() == block_size
    };
    match earlier.filter(is_known) {
        Some(Earlier { report, usage, blocks }) => {
            let changed = differing(&blocks, overlay)?;
            Ok(examine_again(over, how, (&report, usage), &changed)?)
        }
        None => Ok(extant_inspect::examine(over, how)?),
    }
}
