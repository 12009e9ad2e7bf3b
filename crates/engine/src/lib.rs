//! ext2, ext3 and ext4 in user space: the mounted file system, on any
//! [`extant_block::BlockDevice`].
//!
//! [`mkfs::format`] makes an empty file system, [`Filesystem::open`] opens one. Paths, names and
//! errors follow `std::fs`; every error carries the path that was asked for, and the inode, block
//! or group where the disk is at fault. What a mount needs instead of paths is in [`inodes`]: calls
//! by inode, made for a caller whose permissions are checked.
//!
//! ```
//! use extant_block::{MemoryDevice, RealClock};
//! use extant_engine::mkfs::{FormatOptions, Profile, default_wishes, format};
//! use extant_engine::preset::Policies;
//! use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options};
//! use std::sync::Arc;
//!
//! # fn main() -> extant_engine::Result<()> {
//! // A volume of 64 MiB in memory; a file is opened with `extant_block::FileDevice::open` instead.
//! let bytes = 64 << 20;
//! let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
//! let mut wishes = default_wishes(Profile::Ext4, bytes, Some(4096));
//! wishes.blocks = bytes / 4096;
//! let policies: Policies = "modern".parse().unwrap();
//! format(device.clone(), &FormatOptions::new(wishes), &policies)?;
//!
//! let options = Options { access: Access::ReadWrite, policies, cache_bytes: 16 << 20, data: DataKeeping::Bytes };
//! let filesystem = Filesystem::open(device, &options)?;
//! filesystem.create_dir("/etc", 0o755)?;
//! filesystem.write("/etc/hostname", b"extant\n")?;
//! filesystem.symlink("hostname", "/etc/name")?;
//! assert_eq!(filesystem.read("/etc/name")?, b"extant\n");
//!
//! let error = filesystem.metadata("/etc/passwd").unwrap_err();
//! assert!(matches!(error.kind, ErrorKind::NotFound));
//! assert_eq!(error.to_string(), "/etc/passwd: no such file or directory");
//!
//! // Nothing is on the device for certain before this.
//! filesystem.close()
//! # }
//! ```
//!
//! # Layers
//!
//! ```text
//! filesystem              paths and open files                    import     a whole tree at once
//! inodes                  the same by inode, for a caller         survey     a whole volume in the order of the disk
//! namespace, rename       names, links                            mkfs       an empty volume
//! file, attribute         bytes, ranges, extended attributes      change     owner, mode, size, times in one step
//! access, access_list     what a caller may do                    access_time  what reads change
//! permission              what flags forbid, which rights end
//! directory, mapping      names to inodes, file blocks to blocks
//! inode, group            the inode table, bitmaps and counters   placement, allocation: where things go (policies)
//! journal                 handles: every change of metadata
//! cache, pages            blocks of metadata, blocks of files     writeback  when they are written
//! volume                  what all of them share
//! ```
//!
//! # Locks
//!
//! Order: rename lock > inode (parent before child, then rising number) > journal handle > group >
//! cache shard > frame > device queue. The first three are sleeping locks on the clock and may be
//! held across I/O; the rest are short. There is no lock on the superblock in the allocation path:
//! free space is one atomic promise, exact counts live in the groups.
mod api;
pub mod error;
mod flush;
mod inode;
mod name;
mod policy;
mod runs;
mod space;
mod store;
mod volume;

pub use api::directory_stream::{DirectoryStream, record_bytes};
pub use api::filesystem::{Change, DirectoryEntry, File, Filesystem, FlagChange, Metadata, Statfs};
pub use api::inodes::{
    Existing, Inode, Inodes, Known, New, NewKind, OpenOutcome, Remembered, Rights,
};
pub use api::object::{FileRun, Object};
pub use api::{import, inodes, mkfs, survey};
pub use error::{Error, ErrorKind, Result};
pub use inode::attribute::{self, SetAttribute};
pub use inode::caller::{Caller, Privileges};
pub use inode::change::{MetadataChange, SetTime};
pub use inode::file::Size;
pub use name::directory::Packing;
pub use name::directory::cookie::Entry;
pub use name::namespace::LINKS_MAX;
pub use name::rename::Rename;
pub use policy::{allocation, placement, preset, readahead, throttle};
pub use volume::{Access, DataKeeping, Options, read_superblock};
