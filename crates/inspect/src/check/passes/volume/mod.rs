//! Pass 0: where everything is. What cannot be believed is replaced by a copy.
//!
//! ```text
//! superblock   the first one or a copy, its fields and features
//! groups       descriptors, and the blocks that metadata has
//! mounts       the block that records mounts
//! journal      its inode and its superblock
//! orphans      inodes that wait to be freed
//! ```
mod groups;
mod journal;
mod mounts;
mod orphans;
mod superblock;

use crate::check::facts::Facts;
use crate::check::options::CheckOptions;
use crate::check::sink::Sink;
use crate::error::Error;
use extant_block::BlockDevice;
use std::sync::Arc;

/// What pass 0 comes to.
pub(crate) enum Prepared {
    /// The other passes can run.
    Ready(Arc<Facts>),
    /// They cannot; these problems say why.
    Unusable(Sink),
}

/// Runs the pass.
///
/// # Errors
/// When the device fails.
pub(crate) fn prepare(
    device: &Arc<dyn BlockDevice>,
    options: &CheckOptions,
) -> Result<Prepared, Error> {
    let problems = Sink::default();
    let Some(volume) = superblock::open(device, &problems)? else {
        return Ok(Prepared::Unusable(problems));
    };
    superblock::judge(&volume, &problems);
    let (volume, groups) = groups::believable(volume, device, &problems)?;
    mounts::judge(&volume, &problems)?;
    journal::judge(&volume, &problems)?;
    if problems.ends_check() {
        return Ok(Prepared::Unusable(problems));
    }
    let clock = Arc::clone(device.clock());
    let mut facts = Facts::new(volume, groups, problems, options, clock);
    facts.metadata =
        groups::judge(&facts.volume, &mut facts.groups, &facts.claims, &facts.problems)?;
    facts.orphans = orphans::collect(&facts)?;
    Ok(Prepared::Ready(Arc::new(facts)))
}
