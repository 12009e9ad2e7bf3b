//! Images that are not ours: made by mke2fs, filled by the kernel, for a reader to prove itself on.
//!
//! Every fixture is a row of the matrix (kind, block size, inode size, features) with the same
//! population: all that a tree can hold, and the traces of a life (removed, renamed, fragmented).
//! The content comes from a seed. Where the kernel cannot mount the block size, mke2fs fills the
//! image itself, from a folder, with what it can carry.

mod populate;

pub use populate::{Room, populate};

use std::path::{Path, PathBuf};

use crate::command::{self, is_root, program};
use crate::compare::{Field, Grain, Options};
use crate::oracle::{self, Access, kernel_mounts_block_size, mount_loop};
use crate::scratch::Scratch;
use crate::walk::{Depth, Entry, walk};

/// One row of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixture {
    /// `ext4-b1024-i256-orphan_file`
    pub name: String,
    /// `ext2`, `ext3` or `ext4`: the profile of mke2fs.
    pub kind: &'static str,
    /// Bytes in a block.
    pub block_size: u32,
    /// Bytes in an inode.
    pub inode_size: u32,
    /// Words for `-O`, beyond the profile's own; or empty.
    pub features: &'static str,
}

/// An image and what must be read from it.
#[derive(Clone, Debug)]
pub struct Made {
    /// The image; clean, unmounted.
    pub image: PathBuf,
    /// What its tree holds, with SHA-256 sums.
    pub expected: Vec<Entry>,
    /// How a reading is compared with that.
    pub options: Options,
}

/// What fills an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filler {
    /// The kernel, through a loop mount: everything can be compared.
    Kernel,
    /// `mke2fs -d`: no block size is too large for it.
    Mke2fs,
}

/// Features beyond the profile of ext4, each alone (or with what it needs).
const FEATURES: &[&str] = &[
    "^metadata_csum",
    "^metadata_csum,uninit_bg",
    "metadata_csum_seed",
    "orphan_file",
    "^flex_bg",
    "^64bit",
    "^dir_index",
    "^extent,^64bit",
    "^has_journal",
    "^huge_file",
    "^resize_inode",
];

/// Every fixture, in a fixed order.
pub fn all() -> impl Iterator<Item = Fixture> {
    let mut rows = Vec::new();
    let mut row = |kind, block_size, inode_size, features: &'static str| {
        let words = if features.is_empty() {
            String::new()
        } else {
            format!("-{}", features.replace(['^', ','], "-"))
        };
        let name = format!("{kind}-b{block_size}-i{inode_size}{}", words.replace("--", "-no-"));
        rows.push(Fixture { name, kind, block_size, inode_size, features });
    };
    for (kind, sizes) in [("ext2", &[1024, 2048, 4096]), ("ext3", &[1024, 2048, 4096])] {
        for size in sizes {
            row(kind, *size, 128, "");
            row(kind, *size, 256, "");
        }
    }
    for size in [1024, 2048, 4096] {
        for inode_size in [128, 256, 512, 1024] {
            row("ext4", size, inode_size, "");
        }
    }
    for features in FEATURES {
        row("ext4", 1024, 256, features);
        row("ext4", 4096, 256, features);
    }
    for size in [8192, 16384, 32768, 65536] {
        row("ext2", size, 128, "");
        row("ext4", size, 256, "");
    }
    rows.into_iter()
}

impl Fixture {
    /// The words for mke2fs, without the image.
    pub fn mke2fs_args(&self) -> Vec<String> {
        let mut words: Vec<String> =
            ["-q", "-F", "-t", self.kind, "-b"].iter().map(|word| (*word).into()).collect();
        words.push(self.block_size.to_string());
        words.extend(["-I".into(), self.inode_size.to_string()]);
        words.extend(
            ["-N", "6000", "-L", "fixture", "-U", "6f4c7a51-93f0-4c7e-8a1d-2b6f0e5d9c31"]
                .map(String::from),
        );
        words.extend([
            "-E".into(),
            "hash_seed=0b8f3f0e-7a57-4d0b-9c61-5a3f1f6b2d44,lazy_itable_init=0".into(),
        ]);
        if !self.features.is_empty() {
            words.extend(["-O".into(), self.features.into()]);
        }
        words
    }

    /// How large the image is: room for the population and, with large blocks, for the smallest
    /// journal.
    pub fn size_mib(&self) -> u64 {
        match self.block_size {
            0..=4096 => 64,
            4097..=16384 => 128,
            _ => 320,
        }
    }

    /// What can fill it here; `None` where that would be the kernel, which does not let us.
    pub fn filler(&self) -> Option<Filler> {
        if !is_root() {
            return None;
        }
        Some(if kernel_mounts_block_size(self.block_size) {
            Filler::Kernel
        } else {
            Filler::Mke2fs
        })
    }

    /// Whether it can be made here; if not, a line says why.
    pub fn is_possible(&self) -> bool {
        oracle::require("mke2fs") && oracle::can_mount()
    }

    /// Makes the image in `folder`.
    ///
    /// # Errors
    /// mke2fs, the kernel or e2fsck refuse.
    pub fn make(&self, folder: &Path) -> Result<Made, String> {
        let image = folder.join(format!("{}.img", self.name));
        match self.filler() {
            Some(Filler::Kernel) => self.fill_by_kernel(image),
            Some(Filler::Mke2fs) => self.fill_by_mke2fs(image),
            None => Err("only root can mount".into()),
        }
    }

    fn mke2fs(&self, image: &Path, more: &[&Path]) -> Result<(), String> {
        let mut mke2fs = program("mke2fs");
        mke2fs.args(self.mke2fs_args());
        for tree in more {
            mke2fs.arg("-d").arg(tree);
        }
        mke2fs.arg(image).arg(format!("{}M", self.size_mib()));
        command::output(&mut mke2fs).map(|_| ())
    }

    fn fill_by_kernel(&self, image: PathBuf) -> Result<Made, String> {
        self.mke2fs(&image, &[])?;
        let mounted = mount_loop(&image, Access::ReadWrite, "")?;
        populate(mounted.path(), &self.room())?;
        mounted.unmount()?;
        oracle::e2fsck(&image)?;
        // Read from a fresh mount: what is on the disk counts, not what the kernel still remembers.
        let mounted = mount_loop(&image, Access::ReadOnly, "")?;
        let expected = expected(mounted.path())?;
        mounted.unmount()?;
        let mut options = Options::same_image();
        options.fields.remove(&Field::Holes);
        Ok(Made { image, expected, options })
    }

    fn fill_by_mke2fs(&self, image: PathBuf) -> Result<Made, String> {
        let folder = image.parent().unwrap_or(Path::new("."));
        let tree = Scratch::inside(folder, "tree");
        populate(tree.path(), &Room { carried: Filler::Mke2fs, ..self.room() })?;
        self.mke2fs(&image, &[tree.path()])?;
        // mke2fs leaves large directories without an index; e2fsck gives them one (and exits with 0
        // or 1).
        let status = program("e2fsck")
            .args(["-fyD"])
            .arg(&image)
            .output()
            .map_err(|error| error.to_string())?
            .status;
        if !matches!(status.code(), Some(0 | 1)) {
            return Err(format!("e2fsck -fyD {}: {status}", image.display()));
        }
        oracle::e2fsck(&image)?;
        let expected = expected(tree.path())?;
        let mut options = Options::copy();
        options.grain = Grain::Second;
        Ok(Made { image, expected, options: options.without("lost+found") })
    }

    fn room(&self) -> Room {
        let has_extents = self.kind == "ext4" && !self.features.contains("^extent");
        Room { block_size: self.block_size, has_extents, carried: Filler::Kernel, seed: 1 }
    }
}

fn expected(tree: &Path) -> Result<Vec<Entry>, String> {
    // Every sum is of the whole file, so that a reader can be compared that knows nothing of our
    // digest.
    walk(
        tree,
        Depth { sha256: true, digest: true, holes: true },
        &std::collections::BTreeSet::new(),
    )
}
