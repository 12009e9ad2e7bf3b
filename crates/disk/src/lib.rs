//! Disks around volumes. Read: their partitions, and the forms that they are kept in. Written: a
//! hash tree for dm-verity, a partition table, the map of blocks for bmaptool, the same forms.
//!
//! This crate knows no file system. What writes is given a file with the bytes of a disk, and which
//! of them matter ([`Content`]); it adds to that file, or writes another one. The same input gives
//! the same bytes: what other programs draw at random (salts, GUIDs) is made from a [`Seed`].
//!
//! What is written comes from libraries where there are good ones. What is read comes from a
//! stranger, and is read by code of ours, bounded and judged by damage: `gpt` reads neither the
//! copy at the end by itself nor logical partitions, and `imago` neither zstd nor images whose
//! tables lie. A table that is there is changed in its place by code of ours, too: `gpt` writes
//! partitions without the gaps between their numbers.
//!
//! ```
//! use extant_disk::{Content, Seed, verity};
//! use std::fs::File;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("disk.img");
//! # std::fs::write(&path, vec![1; 1 << 20])?;
//! let file = File::options().read(true).write(true).open(&path)?;
//! let options = verity::Options::new(Seed([7; 16]));
//! let tree = verity::write(&file, 0..1 << 20, &file, 1 << 20, &options)?;
//! println!("{} bytes, root hash {}", tree.bytes, tree.root_hash());
//! # Ok(()) }
//! ```
//!
//! # The rooms
//! ```text
//! partitions  where the volumes of a disk are: partitions/gpt, partitions/mbr; partitions/refit:
//!             another end for one
//! read        disks in other forms than a plain file
//! in_place    images of QEMU, written where they are
//! verity      the hash tree of dm-verity, as veritysetup has it
//! table       a GPT or an MBR around one volume and its hash tree
//! block_map   what bmaptool reads to write a disk image without its free blocks
//! sparse      the sparse format of Android, which fastboot takes
//! qcow2       the format of QEMU
//! content     which bytes of a disk matter; pieces of it that are zeros
//! seed        salts and GUIDs that are the same every time
//! ```
pub mod block_map;
mod content;
pub mod in_place;
mod partitions;
pub mod qcow2;
pub mod read;
mod seed;
pub mod sparse;
pub mod table;
pub mod verity;

pub use content::Content;
pub use partitions::{Partition, PartitionTable, Refit, Scheme, Sectors, end_at, partitions};
pub use seed::Seed;
