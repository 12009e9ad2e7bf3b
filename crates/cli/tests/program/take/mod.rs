//! Files out of an image, and differences; disks with partitions, compressed or in a container.
//!
//! ```text
//! command      the command, run and read
//! made         images and trees that the tests look at
//! disks        partitions that sfdisk and sgdisk made, and damaged tables
//! containers   gzip, zstd, xz, qemu-img's and img2simg's files, and damaged ones
//! extract      beside the kernel's mount
//! hostile      images that lead elsewhere, folders that do
//! salvage      what is beside a name that no file may have, or beside a circle
//! force        damaged images, read as far as they can be
//! rights       as a user, in a user namespace, under fakeroot
//! casefold     names that know no case
//! flags        what chattr sets, through archives
//! diff         every kind of difference, between every two kinds of trees
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "a signal has to come while a process runs: these tests wait by the host's clock"
)]
mod casefold;
mod command;
mod containers;
mod diff;
mod disks;
mod extract;
mod flags;
mod force;
mod hostile;
mod made;
mod rights;
mod salvage;
