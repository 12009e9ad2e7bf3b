//! What `extant build` ships an image in, judged by the programs that take it: veritysetup, sgdisk
//! and sfdisk, qemu-img, simg2img, bmaptool, zstd, gzip; and by a virtual machine that boots it.
//!
//! ```text
//! fixture   a source, the command, programs run
//! verity    hash trees, in the image, in a partition, in a file
//! tables    partition tables
//! formats   qcow2, Android's sparse format, compression, block maps
//! refused   what does not go together; what is there already
//! boot      a Debian root file system boots in QEMU
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "a virtual machine takes its time: these tests wait by the host's clock"
)]
mod boot;
mod fixture;
mod formats;
mod refused;
mod tables;
mod verity;
