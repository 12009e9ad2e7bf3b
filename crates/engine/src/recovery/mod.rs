//! Recovery: what a volume needs before it can be used, beyond the blocks that full commits say.
//!
//! ```text
//! fast_commits   changes of inodes and names that Linux logged    orphans   inodes without a name
//! ```
pub(crate) mod fast_commits;
pub(crate) mod orphans;

use crate::error::Result;
use crate::flush::Core;
use crate::store::Options;
use crate::store::budget::DirtyBudget;
use extant_block::BlockDevice;
use std::sync::Arc;

/// Opens a volume, recovered. `shared` as in [`Core::open`].
///
/// # Errors
/// As [`Core::open`].
pub(crate) fn open(
    device: Arc<dyn BlockDevice>,
    options: &Options,
    shared: Option<(&Arc<DirtyBudget>, u32)>,
) -> Result<Core> {
    let core = Core::open(device, options, shared)?;
    if core.is_writable() {
        orphans::finish(&core.inodes)?;
    }
    Ok(core)
}
