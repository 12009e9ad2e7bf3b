//! Recovery: what a volume needs before it can be used, beyond the blocks that full commits say.
//!
//! ```text
//! fast_commits   changes of inodes and names that Linux logged    orphans   inodes without a name
//! ```
pub(crate) mod fast_commits;
pub(crate) mod orphans;

use crate::error::{ErrorKind, Result};
use crate::flush::Core;
use crate::policy::preset::{DataOrder, Journal, Policies};
use crate::store::budget::DirtyBudget;
use crate::store::{Access, DataKeeping, Options};
use extant_block::BlockDevice;
use extant_format::journal::fast_commit::Change;
use std::sync::Arc;

/// Memory for metadata while a volume is recovered, in bytes.
const CACHE_BYTES: usize = 16 << 20;

/// How the volume is opened on which changes are made that are not journalled: nothing there has to
/// survive a power cut.
fn unjournalled() -> Result<Options> {
    let unknown = |_| ErrorKind::InvalidArgument("there is no preset of this name");
    let mut policies: Policies = "modern".parse().map_err(unknown)?;
    policies.journal = Journal::None;
    policies.data_order = DataOrder::Unordered;
    let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
    Ok(Options { access, policies, cache_bytes: CACHE_BYTES, data })
}

/// Makes the changes of fast commits on a device, which holds the volume as the full commits left
/// it.
///
/// # Errors
/// As [`fast_commits::replay`]; the device is then of no use.
fn replay_fast_commits(device: Arc<dyn BlockDevice>, changes: &[Change]) -> Result<()> {
    let core = Core::open(device, &unjournalled()?, None)?;
    orphans::adopt(&core.inodes)?;
    fast_commits::replay(&core.inodes, changes)?;
    core.close()
}

#[cfg(test)]
#[test]
fn dev() {
    use extant_block::FileDevice;
    for image in std::env::var("FC_IMAGES").unwrap_or_default().split_whitespace() {
        let area = std::fs::read(format!("{image}.fc")).unwrap();
        let seq: u32 = std::fs::read_to_string(format!("{image}.seq")).unwrap().trim().parse().unwrap();
        let mut reader = extant_format::journal::fast_commit::Reader::new(extant_format::journal::Sequence(seq));
        let bytes = std::fs::read(image).unwrap();
        let bs = 1024usize << bytes[1024 + 24];
        for block in area.chunks(bs) {
            if !reader.read(block) {
                break;
            }
        }
        let found = reader.finish();
        eprintln!("{image}: {} changes, {} commits, {:?}", found.changes.len(), found.commits, found.end);
        let device = Arc::new(FileDevice::open(extant_block::RealClock::new(), image.as_ref(), extant_block::Access::ReadWrite, 0).unwrap());
        if let Err(error) = replay_fast_commits(device.clone(), &found.changes) { eprintln!("{image}: {error}"); continue; }
        let core = Core::open(device, &unjournalled().unwrap(), None).unwrap();
        eprintln!("{:?}", orphans::finish(&core.inodes).map_err(|e| e.to_string()));
        core.close().unwrap();
    }
}

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
