//! Builds ext2, ext3 and ext4 images from directories and tar archives, exports images to tar, and
//! extracts them to folders: without root, without mounting, the same bytes for the same input.
//!
//! # An image from a directory
//! ```
//! use extant_engine::mkfs::Profile;
//! use extant_image::assemble::{BuildOptions, Destination, Job, Place};
//! use extant_image::source::{ReadOptions, Source, collect};
//! use std::fs::File;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (rootfs, image) = (folder.path().join("rootfs"), folder.path().join("disk.img"));
//! # std::fs::create_dir(&rootfs)?;
//! # std::fs::write(rootfs.join("hello"), "hello\n")?;
//! let collected = collect([Source::from(&rootfs)], &ReadOptions::default(), &())?;
//! let file = File::options().read(true).write(true).create_new(true).open(&image)?;
//! let name = image.display().to_string();
//! let destination = Destination { medium: &file, name, place: Place::Whole };
//! let job = Job::new(&collected, &BuildOptions::new(Profile::Ext4), &destination)?;
//! let built = job.build(&())?;
//! println!("{} blocks, {} free", built.blocks, built.free_blocks);
//! # assert_eq!(file.metadata()?.len(), built.bytes());
//! # drop(file);
//! # extant_testkit::oracle::example(&|path| std::fs::copy(&image, path).map(drop))?;
//! # Ok(()) }
//! ```
//! Sources may be several, directories and archives: they are laid over each other in their order.
//! In place of `&()` goes a [`Progress`], which hears how far things are. What could not be
//! kept, or may surprise, is in [`source::Collected::notices`] and [`assemble::Job::note_times`];
//! nothing is ever printed.
//!
//! # An archive from an image
//! ```
//! use extant_block::{FileDevice, RealClock, file};
//! use extant_engine::{Access, DataKeeping, Filesystem, Options};
//! use extant_image::export::{ExportPlan, write};
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use extant_image::{assemble::*, source::*};
//! # let folder = tempfile::tempdir()?;
//! # let image = folder.path().join("disk.img");
//! # let collected = collect([Source::from(folder.path())], &ReadOptions::default(), &())?;
//! # let file = std::fs::File::options().read(true).write(true).create_new(true).open(&image)?;
//! # let destination = Destination { medium: &file, name: "disk.img".into(), place: Place::Whole };
//! # let options = BuildOptions::new(extant_engine::mkfs::Profile::Ext2);
//! # Job::new(&collected, &options, &destination)?.build(&())?;
//! # drop(file); // which is claimed for writing as long as it is open
//! # extant_testkit::oracle::example(&|path| std::fs::copy(&image, path).map(drop))?;
//! let device = FileDevice::open(RealClock::new(), &image, file::Access::ReadOnly, 0)?;
//! let options = Options {
//!     access: Access::ReadOnly,
//!     policies: "modern".parse()?,
//!     cache_bytes: 32 << 20,
//!     data: DataKeeping::Bytes,
//! };
//! let filesystem = Filesystem::open(Arc::new(device), &options)?;
//! let plan = Arc::new(ExportPlan::new(Arc::new(filesystem.survey()?), &[])?);
//! let mut archive = Vec::new();
//! let summary = write(&plan, &mut archive, &(), &mut |left_out| {
//!     println!("{left_out}");
//!     ControlFlow::Continue(())
//! })?;
//! # assert_eq!(summary.bytes, archive.len() as u64);
//! # Ok(()) }
//! ```
//!
//! # The rooms
//! ```text
//! export    from an image to a tar archive: in which order, in which words
//! extract   from an image to a folder of the host
//! difference   what differs between images, folders and archives
//! normalize a volume laid out anew, with the options that it has
//! assemble  from the tree to the image: its size, its order, its writing
//! source    what an image is built from: directories and tar archives, laid over each other
//! rules     owners, modes, labels and more that files of rules give
//! tree      the merged tree of all sources, in memory
//! notice    what a user should know although nothing failed: counted, the first few by name
//! error     why it cannot be done; progress: how far it is; date: a time as text
//! ```
pub mod assemble;
pub mod date;
pub mod difference;
mod error;
pub mod export;
pub mod extract;
pub mod normalize;
pub mod notice;
mod progress;
pub mod rules;
pub mod source;
pub mod tree;

pub use error::{ContainerFault, Error, ErrorKind, Linkage, Scope};
pub use progress::Progress;
