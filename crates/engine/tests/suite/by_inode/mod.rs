//! The calls by inode: references, names, open files without a name, cookies, ranges, access lists
//! and permissions; where a rule is Linux's, compared with a kernel mount of the same volume.
//!
//! Comparisons run as root only; what needs no kernel is tested everywhere.
mod attacks;
mod both;
mod caller;
mod cookies;
mod copies;
mod lists;
mod mounted;
mod names;
mod permissions;
mod projects;
mod ranges;
use crate::volume;

use extant_block::{MemoryDevice, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{Filesystem, Inode};
use std::sync::Arc;
use volume::{MIB, Specification};

/// Kinds of volumes that differ in how names, maps and attributes are kept.
const KINDS: [(Profile, u32, u16, &str); 5] = [
    (Profile::Ext4, 1024, 256, ""),
    (Profile::Ext2, 1024, 128, ""),
    (Profile::Ext3, 4096, 256, ""),
    (Profile::Ext4, 4096, 256, "^dir_index"),
    (Profile::Ext4, 1024, 128, "^metadata_csum"),
];

fn specification(kind: (Profile, u32, u16, &'static str), bytes: u64) -> Specification {
    let (profile, block_size, inode_size, features) = kind;
    let inodes = 20_000;
    Specification { inode_size, features, inodes, ..Specification::new(profile, block_size, bytes) }
}

/// A fresh volume that is open.
fn fresh(specification: &Specification) -> (Arc<MemoryDevice>, Filesystem) {
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    (device, volume)
}

/// Closes a volume; e2fsck has nothing to say of it.
fn finish(device: &MemoryDevice, volume: Filesystem) {
    volume.close().expect("closes");
    if extant_testkit::oracle::require("e2fsck") {
        volume::judge(device).unwrap_or_else(|said| panic!("{said}"));
    }
}

/// What a path leads to, found without a caller.
fn at(volume: &Filesystem, path: &str) -> Inode {
    let inodes = volume.inodes();
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.fold(inodes.root().expect("a root"), |inode, part| {
        inodes.lookup(&inode, part.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error}"))
    })
}

/// Bytes of a volume for tests that fill no disk.
const BYTES: u64 = 32 * MIB;
