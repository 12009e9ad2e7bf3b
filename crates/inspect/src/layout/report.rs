//! What a survey reports.
use super::maps::MapLayout;
use crate::table::TableScan;
use serde::Serialize;

/// How the files of a volume are placed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LayoutReport {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symlinks, sockets, pipes and devices.
    pub others: u64,
    /// Blocks of regular files' data, preallocated ones included.
    pub data_blocks: u64,
    /// Blocks of directories.
    pub directory_blocks: u64,
    /// Indirect blocks and nodes of extent trees.
    pub map_blocks: u64,
    /// Over all regular files; `None` when none has two blocks.
    pub layout_score: Option<f64>,
    /// Regular files with at least one block.
    pub mapped_files: u64,
    /// Those of them in more than one fragment.
    pub fragmented_files: u64,
    /// Fragments of regular files in all.
    pub fragments: u64,
    /// Regular files by their fragments, rising; classes without files are left out.
    pub by_fragments: Vec<FragmentClass>,
    /// How indirect blocks and extent nodes are placed.
    pub maps: MapLayout,
    /// Regular files by size, rising; classes without files are left out.
    pub by_size: Vec<SizeClass>,
    /// The most fragmented regular files, worst first.
    pub most_fragmented: Vec<Fragmented>,
    /// Where files are from their directories.
    pub locality: Locality,
    /// What is free.
    pub free: FreeSpace,
    /// Free runs by length, rising; classes without runs are left out.
    pub free_by_length: Vec<RunClass>,
    /// Things in maps and directories that cannot be.
    pub faults: u64,
    /// What the scan of the inode tables saw.
    pub scan: TableScan,
}

/// Regular files of one size class.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SizeClass {
    /// The blocks of its largest files, a power of two; more than those of the class below.
    pub blocks_max: u64,
    /// How many.
    pub files: u64,
    /// Their fragments.
    pub fragments: u64,
    /// Their layout score.
    pub layout_score: Option<f64>,
}

/// Regular files of one class by fragments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FragmentClass {
    /// The most fragments of its files, a power of two; more than those of the class below.
    pub fragments_max: u64,
    /// How many files.
    pub files: u64,
}

/// Free runs of one length class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RunClass {
    /// The blocks of its longest runs, a power of two; more than those of the class below.
    pub blocks_max: u64,
    /// How many runs.
    pub runs: u64,
    /// Their blocks.
    pub blocks: u64,
}

/// A fragmented file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fragmented {
    /// Its inode.
    pub inode: u32,
    /// One of its names, where names were asked for and it has one. What is not UTF-8 in it is
    /// replaced.
    pub path: Option<String>,
    /// Its fragments.
    pub fragments: u64,
    /// Its blocks.
    pub blocks: u64,
}

/// Where files are from their directories. Every name counts, so a file with two names counts
/// twice.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Locality {
    /// Names, without "." and "..".
    pub names: u64,
    /// Names whose inode is in the group of the directory's inode.
    pub same_group: u64,
    /// Names of things with blocks.
    pub names_with_blocks: u64,
    /// From the first block of the directory to the first of the file, on average.
    pub mean_distance_blocks: Option<f64>,
    /// Of neighbouring names with blocks in a directory, how many pairs rise on the disk: 1 when
    /// the order of the directory is that of the disk.
    pub in_disk_order: Option<f64>,
}

/// What is free, by the bitmaps.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct FreeSpace {
    /// Free blocks.
    pub blocks: u64,
    /// Runs of them; a run ends at a group's end only if the next group does not begin with one.
    pub runs: u64,
    /// Blocks of the longest.
    pub longest_run: u64,
    /// Groups whose bitmap could not be read.
    pub unread_groups: u64,
}
