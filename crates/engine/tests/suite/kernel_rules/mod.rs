//! Rules of Linux that the engine keeps, each compared with a kernel mount of the same volume, call
//! by call: what immutable and append-only forbid, which rights end with a change, which reads
//! change access times.
//!
//! As root only: without a mount there is nothing to compare with. The tables of `permission` and
//! `access_time` are tested everywhere.
mod access_times;
mod call;
mod flags;
mod privileges;
use crate::volume;

use extant_block::{MemoryDevice, RealClock};
use extant_engine::Filesystem;
use extant_engine::mkfs::Profile;
use extant_testkit::oracle::{Access, Mounted, mount_loop};
use extant_testkit::scratch::Scratch;
use std::sync::Arc;
use volume::{MIB, Specification};

/// A volume that `fill` has filled: mounted from an image, and open.
struct Both {
    mounted: Mounted,
    volume: Filesystem,
    device: Arc<MemoryDevice>,
    _folder: Scratch,
}

fn both(policies: &'static str, options: &str, fill: impl FnOnce(&Filesystem)) -> Both {
    let specification = Specification {
        inodes: 20_000,
        policies,
        ..Specification::new(Profile::Ext4, 1024, 32 * MIB)
    };
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    fill(&volume);
    volume.close().expect("closes");
    let folder = Scratch::new("kernel-rules");
    let image = folder.join("volume.img");
    device.save(&image).expect("saves");
    Both {
        mounted: mount_loop(&image, Access::ReadWrite, options).expect("mounts"),
        volume: specification.open(&device).expect("opens"),
        device,
        _folder: folder,
    }
}

impl Both {
    /// Ends both; e2fsck has nothing to say of the engine's volume.
    fn finish(self) {
        self.mounted.unmount().expect("unmounts");
        self.volume.close().expect("closes");
        volume::judge(&self.device).unwrap_or_else(|said| panic!("{said}"));
    }
}
