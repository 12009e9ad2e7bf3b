//! How sources are read.
use super::arrival::Arrival;
use super::exclude::Exclude;
use super::platform::Platform;
use super::pretended::Pretended;
use crate::rules::Rules;
use crate::tree::Layers;
use extant_archive::{SwapAreas, Zeros};
use std::path::PathBuf;

/// With [`Holes::Auto`], files from this length on are looked at.
const HOLES_FROM_BYTES: u64 = 1 << 20;
/// Bytes of a block unless something else is said.
const BLOCK_BYTES: u32 = 4096;

/// A user and a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Of every file.
    pub uid: u32,
    /// Of every file.
    pub gid: u32,
}

/// Ids that are shifted. `from + count - 1` and `to + count - 1` are at most `u32::MAX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdMap {
    /// First id that is mapped.
    pub from: u32,
    /// What it becomes.
    pub to: u32,
    /// How many are mapped.
    pub count: u32,
}

/// What happens to a file that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnTrouble {
    /// It is an error, which ends everything.
    #[default]
    Stop,
    /// It is left out and named.
    Skip,
}

/// Whether what is mounted below a source directory is part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mounts {
    /// It is.
    #[default]
    Cross,
    /// Mount points are empty directories.
    Stay,
}

/// Which times of a file are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Times {
    /// The modify time, in place of the others too: reading a tree or copying it changes nothing.
    #[default]
    Modify,
    /// Access and change time too, where the source has them.
    All,
}

/// Which zeros of files are holes of the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Holes {
    /// Those that are holes of the source.
    #[default]
    AsSource,
    /// Those, and whole blocks of zeros of files of at least 1 MiB that are no swap areas.
    Auto,
    /// Those, and whole blocks of zeros of every file.
    Always,
    /// None: holes of the source are blocks of zeros.
    Never,
}

impl Holes {
    /// Which zeros are looked for, in blocks of this many bytes.
    pub(super) fn zeros(self, block_bytes: u32) -> Option<Zeros> {
        let (file_bytes_min, swap_areas) = match self {
            Holes::AsSource | Holes::Never => return None,
            Holes::Auto => (HOLES_FROM_BYTES, SwapAreas::Kept),
            Holes::Always => (1, SwapAreas::Ordinary),
        };
        Some(Zeros { file_bytes_min, block_bytes, swap_areas })
    }
}

/// What happens to an archive that ends otherwise than with two blocks of zeros, after a whole
/// entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ArchiveEnd {
    /// It is taken as it is, with a notice.
    #[default]
    Lenient,
    /// It is refused: it may have been cut off.
    Strict,
}

/// What becomes of a source that is a container image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Containers {
    /// Its layers are laid over each other.
    #[default]
    Image,
    /// It is a source like others: its blobs are files.
    Files,
}

/// How sources are read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// What is left out.
    pub exclude: Exclude,
    /// The owner of every file, in place of its own.
    pub owner: Option<Owner>,
    /// How users are shifted: the first map that holds an id counts.
    pub map_users: Vec<IdMap>,
    /// How groups are shifted, likewise.
    pub map_groups: Vec<IdMap>,
    /// What becomes of a source that shows by itself to be a container image.
    pub containers: Containers,
    /// What a container image has to run on; of several, that of this machine if `None`.
    pub platform: Option<Platform>,
    /// Whether whiteouts are applied.
    pub layers: Layers,
    /// No time is later than this (SOURCE_DATE_EPOCH), in seconds since 1970.
    pub newest: Option<i64>,
    /// What happens to a file that cannot be read.
    pub on_trouble: OnTrouble,
    /// Whether what is mounted below a source directory is part of it.
    pub mounts: Mounts,
    /// Which times are kept.
    pub times: Times,
    /// Which zeros are holes.
    pub holes: Holes,
    /// Bytes of a block of the image, which is the least that can be a hole: a power of two.
    pub block_bytes: u32,
    /// What happens to an archive without its end.
    pub archive_end: ArchiveEnd,
    /// Where files of compressed archives and pipes are kept while the image is built; the host's
    /// folder for temporary files if `None`.
    pub spool_folder: Option<PathBuf>,
    /// Takes the bodies of archives as they come, so that they are in the image before its size is
    /// known; they are kept until the image is written if `None`.
    pub arrival: Option<Arrival>,
    /// What fakeroot pretended about the files of directories.
    pub pretended: Option<Pretended>,
    /// What files of rules give, in their order.
    pub rules: Vec<Rules>,
    /// Device and inode number of files that are never part of a source: the image itself.
    pub never: Vec<(u64, u64)>,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            exclude: Exclude::default(),
            owner: None,
            map_users: Vec::new(),
            map_groups: Vec::new(),
            containers: Containers::default(),
            platform: None,
            layers: Layers::default(),
            newest: None,
            on_trouble: OnTrouble::default(),
            mounts: Mounts::default(),
            times: Times::default(),
            holes: Holes::default(),
            block_bytes: BLOCK_BYTES,
            archive_end: ArchiveEnd::default(),
            spool_folder: None,
            arrival: None,
            pretended: None,
            rules: Vec::new(),
            never: Vec::new(),
        }
    }
}

impl ReadOptions {
    /// Which zeros are looked for.
    pub(super) fn zeros(&self) -> Option<Zeros> {
        self.holes.zeros(self.block_bytes)
    }
}

impl IdMap {
    /// The id that the first map which holds `id` makes of it; `id` itself where none does.
    pub fn apply(maps: &[IdMap], id: u32) -> u32 {
        let hit = maps
            .iter()
            .find(|map| id.checked_sub(map.from).is_some_and(|distance| distance < map.count));
        hit.map_or(id, |map| (id - map.from).saturating_add(map.to))
    }
}
