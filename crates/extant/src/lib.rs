//! ext2, ext3 and ext4 images for programs: opened, read, built, changed and checked, without root
//! and without a mount.
//!
//! An *image* is bytes: a path, an open file, memory, or a device of the program ([`Image`]). A
//! *volume* is the file system in it, open ([`Volume`]).
//!
//! # Read
//! ```no_run
//! fn main() -> extant::Result<()> {
//!     let volume = extant::Volume::open("disk.img")?;
//!     println!("{}", String::from_utf8_lossy(&volume.read("/etc/hostname")?));
//!     for entry in volume.walk("/etc")? {
//!         let entry = entry?;
//!         println!("{:>10} {}", entry.metadata.size, entry.path.display());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Build, in memory
//! ```
//! use extant::{Builder, Memory, NewFile, Profile};
//!
//! fn main() -> extant::Result<()> {
//!     let memory = Memory::new();
//!     let builder = Builder::new().profile(Profile::Ext2).free(1 << 20).files(|files| {
//!         files.add("/etc/hostname", NewFile::file("extant\n"))
//!     })?;
//!     let built = builder.build_memory(&memory)?;
//!     assert_eq!(memory.len(), built.bytes);
//! #   extant_testkit::oracle::example(&|path| std::fs::write(path, memory.to_vec())).unwrap();
//!     Ok(())
//! }
//! ```
//!
//! # Change, all or nothing
//! ```no_run
//! fn main() -> extant::Result<()> {
//!     let change = extant::Transaction::begin("disk.img")?;
//!     change.write("/etc/hostname", "other\n")?;
//!     change.remove_all("/var/cache")?;
//!     change.commit() // dropped, nothing has happened
//! }
//! ```
//!
//! # Write as a mount does, and check
//! ```no_run
//! fn main() -> extant::Result<()> {
//!     let volume = extant::Options::new().write(true).open("disk.img")?;
//!     volume.write("/var/log/started", "now\n")?;
//!     volume.sync_path("/var/log/started")?;
//!     volume.close()?; // an error here is one of the writes
//!     assert!(extant::check("disk.img")?.is_clean());
//!     Ok(())
//! }
//! ```
//!
//! # What holds for all of it
//! - **Reading writes nothing**, not even a time or a mount count; a journal that waits is replayed
//!   in memory.
//! - **Writing claims the image** as the commands and the mount do: one that is mounted or open
//!   elsewhere is [`InUse`](ErrorKind::InUse).
//! - **No error of a write is lost** to who calls [`Volume::close`]. What is dropped is closed too,
//!   but nobody hears of an error.
//! - **Bytes are hostile.** Whatever is in an image gives an [`Error`], never a panic.
//! - All types are owned, `Send` and `Sync` where a program needs it, and borrow nothing.
//!
//! # The rooms
//! ```text
//! build         Builder: an image from folders, archives and files; files: those of the program
//! check         whether a volume is what it says; mending: repaired, undone, made ready for use;
//!               resizing: another size; trimming: without what was deleted, or laid out anew;
//!               tuning: another label, UUID, features, journal
//! comparing     what differs between volumes, folders and archives
//! transaction   changes that are whole or not at all; copying: files that go in
//! taking        what is in a volume, as an archive or a folder
//! volume        an open volume; file: an open file; walk: a tree, entry after entry
//! options       how a volume is opened; opening: from the image to the bytes of its volume
//! image         where the bytes are: Image, Memory, Device
//! error         what went wrong
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod build;
mod check;
mod comparing;
mod copying;
mod error;
mod file;
mod files;
mod image;
mod mending;
mod opening;
mod options;
mod resizing;
mod taking;
mod transaction;
mod trimming;
mod tuning;
mod volume;
mod walk;

pub use build::{Builder, Built};
pub use check::{
    CheckListener, CheckProgress, Code, LayoutReport, Problem, Report, Severity, check,
};
pub use comparing::{Difference, DifferenceKind, Here, Ignored, Tree, Which, diff};
pub use copying::{Copied, CopyOptions, Kept};
pub use error::{Error, ErrorKind, Result};
pub use file::File;
pub use files::{Files, NewFile};
pub use image::{Device, Image, Memory};
pub use mending::{Change, CheckWhen, Healed, KeepUndo, Repaired, Scope, Written};
pub use options::Options;
pub use resizing::{NewSize, Resized};
pub use taking::{Present, Taken};
pub use transaction::Transaction;
pub use trimming::{Scrub, Trimmed};
pub use tuning::{Changed, JournalWish, QuotaFile, Tuned, Tuning, UuidWish, Wanted, tunings};
pub use volume::Volume;
pub use walk::{Entry, Walk};

pub use extant_engine::mkfs::Profile;
pub use extant_engine::{Metadata, Statfs};
pub use extant_format::Ino;
pub use extant_format::attribute::Attribute;
pub use extant_format::inode::{Device as DeviceNumbers, FileType, Time};
pub use extant_format::superblock::{Feature, HashVersion};
pub use extant_image::Progress;
pub use extant_image::source::ContainerForm;

/// The example of README.md, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
