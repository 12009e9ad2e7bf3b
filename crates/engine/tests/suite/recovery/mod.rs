//! Volumes that Linux left with a journal to be replayed: fast commits and orphans, recovered by
//! us, and judged by e2fsck, by the kernel's and e2fsck's own recovery, and by the tree that the
//! volume had when it was shut down.
mod cuts;
mod external;
mod fast_commits;
mod hostile;
mod kernel;
mod orphans;
use extant_block::{BlockDevice, FileDevice, RealClock};
use extant_engine::{Access, DataKeeping, Filesystem, Options, Orphans, recovered};
use std::path::Path;
use std::sync::Arc;

fn options(access: Access) -> Options {
    let policies = "modern".parse().expect("a preset");
    Options { access, policies, cache_bytes: 4 << 20, data: DataKeeping::Bytes }
}

fn device(image: &Path, access: extant_block::Access) -> Arc<dyn BlockDevice> {
    let device = FileDevice::open(RealClock::new(), image, access, 0);
    Arc::new(device.expect("the image is opened"))
}

/// Recovers the volume in an image by opening it for writing.
fn recover_by_writing(image: &Path) -> Result<(), String> {
    let device = device(image, extant_block::Access::ReadWrite);
    let filesystem = Filesystem::open(device, &options(Access::ReadWrite));
    filesystem.and_then(Filesystem::close).map_err(|error| error.to_string())
}

/// Makes an image of the volume as programs that only read it see it. Nothing is written to the
/// original.
fn copy_recovered(image: &Path, copy: &Path, orphans: Orphans) -> Result<(), String> {
    let device = device(image, extant_block::Access::ReadOnly);
    let recovered = recovered(device, orphans).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; recovered.device.info().bytes as usize];
    recovered.device.read(0, &mut bytes).map_err(|error| error.to_string())?;
    std::fs::write(copy, bytes).map_err(|error| error.to_string())
}
