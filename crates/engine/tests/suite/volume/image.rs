//! Volumes in image files that others made, too: opened, and judged by e2fsck and the kernel.
use super::reading;

use extant_block::file::Access as DeviceAccess;
use extant_block::{FileDevice, RealClock};
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_testkit::compare::{self, Field};
use extant_testkit::oracle::{self, mount_loop};
use extant_testkit::walk::{Depth, walk};
use std::path::Path;
use std::sync::Arc;

/// How a volume is opened under these policies, with 24 MiB of memory.
pub fn options(policies: &str, access: Access) -> Options {
    let policies = policies.parse().expect("policies");
    Options { access, policies, cache_bytes: 24 << 20, data: DataKeeping::Bytes }
}

/// Opens the volume in an image, for reading alone or to be written.
pub fn open_as(image: &Path, policies: &str, access: Access) -> Filesystem {
    let of_device = match access {
        Access::ReadOnly => DeviceAccess::ReadOnly,
        Access::ReadWrite => DeviceAccess::ReadWrite,
    };
    let device = FileDevice::open(RealClock::new(), image, of_device, 0).expect("the image opens");
    Filesystem::open(Arc::new(device), &options(policies, access)).expect("the volume opens")
}

/// Opens the volume in an image to be written.
pub fn open(image: &Path, policies: &str) -> Filesystem {
    open_as(image, policies, Access::ReadWrite)
}

/// e2fsck finds nothing, and the kernel sees what the engine sees.
pub fn judge(image: &Path, what: &str) {
    oracle::e2fsck(image).unwrap_or_else(|error| panic!("{what}: {error}"));
    judge_content(image, what);
}

/// The kernel sees what the engine sees: every byte, and attributes with their values.
pub fn judge_content(image: &Path, what: &str) {
    let volume = open_as(image, "modern", Access::ReadOnly);
    let found = reading::entries(&volume).expect("reads");
    volume.close().expect("closes");
    let mounted = mount_loop(image, oracle::Access::ReadOnly, "").expect("mounts");
    let mut options = compare::Options::same_image();
    options.fields.remove(&Field::Holes);
    let depth = Depth { sha256: true, ..options.depth() };
    let kernel = walk(mounted.path(), depth, &options.excluded).expect("walks");
    mounted.unmount().expect("unmounts");
    let differences = compare::entries(&found, &kernel, &options);
    let sentences: Vec<String> = differences.iter().take(9).map(ToString::to_string).collect();
    assert!(sentences.is_empty(), "{what}: {}", sentences.join("\n"));
}
