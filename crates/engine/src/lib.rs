//! ext2, ext3 and ext4 in user space: the mounted file system, on any
//! [`extant_block::BlockDevice`].
//!
//! [`mkfs::format`] makes an empty file system, [`Filesystem::open`] opens one. Paths, names and
//! errors follow `std::fs`; an error of a call by path carries the path that was asked for, and one
//! of the disk the inode, block or group at fault. What a mount needs instead of paths is in
//! [`inodes`]: calls by inode, with permissions checked if they are made for a caller.
//!
//! ```
//! use extant_block::{MemoryDevice, RealClock};
//! use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
//! use extant_engine::preset::Policies;
//! use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options};
//! use std::sync::Arc;
//!
//! # fn main() -> extant_engine::Result<()> {
//! // A volume of 64 MiB in memory; a file is opened with `extant_block::FileDevice::open` instead.
//! let bytes = 64 << 20;
//! let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
//! // What tells the volume from others: a program draws it at random, and asks its clock.
//! let identity = Identity {
//!     uuid: *b"\x1f\x5e\xc2\x07\x9d\x34\x4a\x6b\x8e\x11\x42\xd0\x73\xa9\x58\xec",
//!     hash_seed: [0x8a3c_51e7, 0x06d2_f94b, 0xb75e_1083, 0x4c91_e62a],
//!     created_seconds: 1_767_225_600,
//! };
//! let wishes = default_wishes(Profile::Ext4, bytes, Some(4096), identity);
//! let policies: Policies = "modern".parse().unwrap();
//! format(device.clone(), &FormatOptions::new(wishes), &policies)?;
//!
//! let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
//! let options = Options { access, policies, cache_bytes: 16 << 20, data };
//! let filesystem = Filesystem::open(device.clone(), &options)?;
//! filesystem.create_dir("/etc", 0o755)?;
//! filesystem.write("/etc/hostname", b"extant\n")?;
//! filesystem.symlink("hostname", "/etc/name")?;
//! assert_eq!(filesystem.read("/etc/name")?, b"extant\n");
//!
//! let error = filesystem.metadata("/etc/passwd").unwrap_err();
//! assert!(matches!(error.kind, ErrorKind::NotFound));
//! assert_eq!(error.to_string(), "/etc/passwd: no such file or directory");
//!
//! // Dropping it writes nothing. This writes everything, and marks the volume clean.
//! filesystem.close()?;
//! # extant_testkit::oracle::example(&|path| device.save(path)).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! Each folder is a layer and draws its own map; it uses only those below it.
//!
//! ```text
//! api      what a program calls: paths and open files (filesystem), inodes, import, survey, mkfs
//! recovery what a power cut left: fast commits, orphans; what can be read of a damaged volume
//! flush    when dirty blocks are written: writers, the flusher, memory
//! name     directories; links, names and renames
//! inode    inodes: table, bytes, maps from file blocks to blocks, attributes
//! ---      crates below this one
//! store    everything between the engine and the device, and the groups: bitmaps, free blocks and
//!          inodes, promises; with errors, runs, the ranks of locks, mistakes that tests make
//! policy   pure functions of facts, chosen by name
//! ```
//!
//! # Locks
//!
//! [`extant_store::ranks`] has their order, which debug builds judge at each lock that is taken.
//! Allocation needs no lock on the superblock: free space is one atomic counter of blocks that are
//! not promised, and exact counts are kept by the groups.
mod api;
mod flush;
mod inode;
#[cfg(test)]
mod mutations;
mod name;
mod recovery;
#[cfg(test)]
mod steps;

use extant_policy as policy;
use extant_store as store;
pub use extant_store::{error, seeded};
use extant_store::{ranks, runs, space};

pub use api::directory_stream::{DirectoryStream, record_bytes};
pub use api::filesystem::{File, Filesystem, Metadata};
pub use api::inodes::{Existing, Inode, Inodes, Known, New, NewKind, OpenOutcome, Rights};
pub use api::memory_use::MemoryUse;
pub use api::object::{FileRun, Object};
pub use api::room::Statfs;
pub use api::{import, inodes, mkfs, survey};
pub use error::{Error, ErrorKind, Result};
pub use inode::attribute::{self, SetAttribute};
pub use inode::caller::{Caller, Privileges, Reads};
pub use inode::change::{Change, FlagChange, MetadataChange, SetTime};
pub use inode::file::Size;
pub use inode::file::range::RangeChange;
pub use inode::rights::RunRights;
pub use name::directory::cookie::Entry;
pub use name::directory::{DirectoryEntry, Packing};
pub use name::namespace::Follow;
pub use name::rename::Rename;
pub use policy::{allocation, placement, preset, readahead};
pub use recovery::{
    Judged, Loss, OrphanCounts, Orphans, Recovered, RecoveryReport, Salvaged, free_orphans, hold,
    judged, recover, recover_held, recovered, salvaged, unreplayed, without_orphans,
};
pub use store::journal::JournalCounts;
pub use store::mount_hold::MountHold;
pub use store::superblock::{check_written, read_superblock};
pub use store::{Access, DataKeeping, Options, cache_for_blocks, least_cache_bytes};

/// When dirty blocks are written, and by which thread: the policies, and the budget that asks them.
pub mod throttle {
    pub use crate::policy::throttle::*;
    pub use crate::store::budget::DirtyBudget;
}
