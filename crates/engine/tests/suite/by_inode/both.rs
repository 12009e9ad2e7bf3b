//! One volume twice: mounted by the kernel, and open.
use crate::volume::{self, Specification};
use extant_block::{MemoryDevice, RealClock};
use extant_engine::Filesystem;
use extant_testkit::oracle::{Access, Mounted, mount_loop};
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A volume that `fill` has filled, mounted from an image and open.
pub struct Both {
    mounted: Mounted,
    pub volume: Filesystem,
    specification: Specification,
    device: Arc<MemoryDevice>,
    folder: Scratch,
}

/// Whether comparisons can be made here.
pub fn can_compare() -> bool {
    extant_testkit::oracle::require("e2fsck")
        && extant_testkit::oracle::require("setpriv")
        && extant_testkit::oracle::can_mount()
}

impl Both {
    pub fn new(specification: &Specification, fill: impl FnOnce(&Filesystem)) -> Both {
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        fill(&volume);
        volume.close().expect("closes");
        let folder = Scratch::new("by-inode");
        let image = folder.join("volume.img");
        device.save(&image).expect("saves");
        Both {
            mounted: mount_loop(&image, Access::ReadWrite, "").expect("mounts"),
            volume: specification.open(&device).expect("opens"),
            specification: *specification,
            device,
            folder,
        }
    }

    /// A path of the kernel's mount.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.mounted.path().join(name)
    }

    /// Ends both: e2fsck has nothing to say of the engine's. Gives the volumes as they are on their
    /// devices, the kernel's and the engine's, open again.
    pub fn finish(self) -> (Filesystem, Filesystem) {
        self.mounted.unmount().expect("unmounts");
        self.volume.close().expect("closes");
        let image = self.folder.join("volume.img");
        volume::judge(&self.device).unwrap_or_else(|said| panic!("{said}"));
        let bytes = std::fs::read(&image).expect("reads");
        let kernels = Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes));
        let open = |device| self.specification.open(device).expect("opens");
        (open(&kernels), open(&self.device))
    }
}
