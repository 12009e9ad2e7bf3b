//! How well files are placed: fragments, the layout score, and the distance from directories to
//! their files.
//!
//! The layout score is that of Smith and Seltzer, "A Comparison of FFS Disk Allocation Policies"
//! (USENIX 1996): of all blocks but the first of each file, the share that follows the block
//! before it in the file without a gap. 1 is perfect. A *fragment* is kinder to indirect maps: a
//! gap that the file's own map blocks fill exactly does not end one.
//!
//! *Invariants*: memory is one number for each inode with blocks; runs are counted as they come and
//! never kept.
//!
//! ```text
//! survey: every inode, every map      maps      how map blocks are placed
//!         then every directory        locality  how far files are
//!         then every bitmap           free
//! report and text: what comes out     grid      cells of a picture
//! ```
mod free;
mod grid;
mod locality;
mod maps;
mod report;
mod text;

pub use grid::{CELLS_MAX, Cell, LayoutMap, group_map, layout_map};
pub use maps::MapLayout;
pub use report::{
    FragmentClass, Fragmented, FreeSpace, LayoutReport, Locality, RunClass, SizeClass,
};

use crate::error::Error;
use crate::map::{self, Claimed, Visit};
use crate::paths::PathTable;
use crate::table::{TableScan, each_inode};
use crate::volume::Volume;
use extant_format::inode::{FileType, Inode};
use extant_format::{BlockNo, Ino, Run};
use free::free_space;
use locality::Directories;
use maps::{Distances, Grouping, ratio};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What is asked of a survey.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SurveyOptions {
    /// How many of the most fragmented files are listed; at most 65,536.
    pub worst_files: usize,
    /// Whether they are listed by name.
    pub paths: Paths,
}

/// Whether files are listed by name: the names of all directories are kept for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paths {
    /// Inode numbers only.
    Unknown,
    /// With a path.
    Found,
}

impl Default for SurveyOptions {
    fn default() -> SurveyOptions {
        SurveyOptions { worst_files: 10, paths: Paths::Unknown }
    }
}

const WORST_MAX: usize = 1 << 16;

/// The layout of one file, counted run by run.
#[derive(Clone, Copy, Debug, Default)]
struct FileLayout {
    first: Option<BlockNo>,
    blocks: u64,
    /// Blocks that follow the one before them without a gap.
    adjacent: u64,
    fragments: u64,
    /// After the last data block.
    end: Option<u64>,
    /// After the last data block, and after map blocks that follow it without a gap.
    expected: Option<u64>,
}

impl FileLayout {
    fn run(&mut self, run: Run) {
        let length = u64::from(run.length);
        self.first.get_or_insert(run.start);
        self.blocks += length;
        self.adjacent += length - u64::from(self.end != Some(run.start.0));
        self.fragments += u64::from(self.expected != Some(run.start.0));
        self.end = Some(run.start.0.saturating_add(length));
        self.expected = self.end;
    }

    fn map_block(&mut self, block: BlockNo) {
        if self.expected == Some(block.0) {
            self.expected = Some(block.0 + 1);
        }
    }
}

/// Sums over files.
#[derive(Clone, Copy, Default)]
struct Sum {
    files: u64,
    fragments: u64,
    adjacent: u64,
    successors: u64,
}

impl Sum {
    fn add(&mut self, file: &FileLayout) {
        self.files += 1;
        self.fragments += file.fragments;
        self.adjacent += file.adjacent;
        self.successors += file.blocks - 1;
    }

    fn score(&self) -> Option<f64> {
        ratio(self.adjacent, self.successors)
    }
}

/// What the first pass over the inode tables gathers.
#[derive(Default)]
struct Survey {
    claimed: Claimed,
    files: u64,
    directories: u64,
    others: u64,
    directory_blocks: u64,
    map_blocks: u64,
    faults: u64,
    total: Sum,
    data_blocks: u64,
    fragmented_files: u64,
    by_size: BTreeMap<u64, Sum>,
    by_fragments: BTreeMap<u64, u64>,
    distances: Distances,
    worst_max: usize,
    /// Worst first, at most as many as are asked for.
    worst: Vec<Fragmented>,
    /// The first block of each inode.
    first_blocks: Vec<(Ino, BlockNo)>,
    directory_inodes: Vec<Ino>,
}

/// [`survey_with`] the default options.
///
/// # Errors
/// As [`survey_with`].
pub fn survey(volume: &Volume) -> Result<LayoutReport, Error> {
    survey_with(volume, &SurveyOptions::default())
}

/// Reads all inodes, all maps and all directories, and reports how files are placed.
///
/// # Errors
/// When the device fails. What is wrong on the volume is counted.
pub fn survey_with(volume: &Volume, options: &SurveyOptions) -> Result<LayoutReport, Error> {
    let mut survey = Survey { worst_max: options.worst_files.min(WORST_MAX), ..Survey::default() };
    let scan = each_file(volume, &mut |ino, inode| survey.add(volume, ino, inode))?;
    survey.first_blocks.sort_unstable();
    survey.directory_inodes.sort_unstable();
    let wanted = match options.paths {
        Paths::Unknown => Vec::new(),
        Paths::Found => survey.worst.iter().map(|file| Ino(file.inode)).collect(),
    };
    let mut names = PathTable::of(wanted);
    let locality = Directories::read(volume, &mut survey, &mut names)?;
    for file in &mut survey.worst {
        file.path =
            names.path(Ino(file.inode)).map(|path| String::from_utf8_lossy(&path).into_owned());
    }
    let (free, free_by_length) = free_space(volume)?;
    let superblock = volume.superblock();
    let grouping = Grouping {
        first: superblock.first_data_block.into(),
        blocks_per_group: superblock.blocks_per_group.into(),
        block_size: superblock.block_size().into(),
    };
    let by_size = survey.by_size.iter();
    let by_fragments = survey.by_fragments.iter();
    Ok(LayoutReport {
        files: survey.files,
        directories: survey.directories,
        others: survey.others,
        data_blocks: survey.data_blocks,
        directory_blocks: survey.directory_blocks,
        map_blocks: survey.map_blocks,
        layout_score: survey.total.score(),
        mapped_files: survey.total.files,
        fragmented_files: survey.fragmented_files,
        fragments: survey.total.fragments,
        by_fragments: by_fragments
            .map(|(fragments_max, files)| FragmentClass {
                fragments_max: *fragments_max,
                files: *files,
            })
            .collect(),
        by_size: by_size.map(|(blocks_max, sum)| size_class(*blocks_max, sum)).collect(),
        maps: MapLayout::new(survey.claimed.blocks().collect(), &survey.distances, grouping),
        most_fragmented: survey.worst,
        locality,
        free,
        free_by_length,
        faults: survey.faults,
        scan,
    })
}

/// Visits every inode of users: not the journal, the resize inode and the like. An error of the
/// visitor ends it.
fn each_file(
    volume: &Volume,
    visit: &mut dyn FnMut(Ino, &Inode) -> Result<(), Error>,
) -> Result<TableScan, Error> {
    let mut failed = None;
    let scan = each_inode(volume, &mut |ino, inode| {
        if !volume.superblock().is_usable(ino) {
            return ControlFlow::Continue(());
        }
        match visit(ino, inode) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(scan), Err)
}

fn size_class(blocks_max: u64, sum: &Sum) -> SizeClass {
    SizeClass { blocks_max, files: sum.files, fragments: sum.fragments, layout_score: sum.score() }
}

impl Survey {
    fn add(&mut self, volume: &Volume, ino: Ino, inode: &Inode) -> Result<(), Error> {
        let mut file = FileLayout::default();
        let (map_blocks, faults, distances) =
            (&mut self.map_blocks, &mut self.faults, &mut self.distances);
        map::walk(volume, inode, &mut self.claimed, &mut |visit| {
            match visit {
                Visit::Run { run, .. } => {
                    file.run(run);
                    distances.data(run.start);
                }
                Visit::MapBlock(block) => {
                    *map_blocks += 1;
                    file.map_block(block);
                    distances.map_block(block);
                }
                Visit::Fault(_) => *faults += 1,
            }
            ControlFlow::Continue(())
        })?;
        self.distances.end_file();
        if let Some(first) = file.first {
            self.first_blocks.push((ino, first));
        }
        match inode.file_type() {
            Some(FileType::Regular) => self.add_file(ino, &file),
            Some(FileType::Directory) => {
                self.directories += 1;
                self.directory_inodes.push(ino);
                self.directory_blocks += file.blocks;
            }
            Some(_) => self.others += 1,
            None => self.faults += 1,
        }
        Ok(())
    }

    fn add_file(&mut self, ino: Ino, file: &FileLayout) {
        self.files += 1;
        if file.blocks == 0 {
            return;
        }
        self.data_blocks = self.data_blocks.saturating_add(file.blocks);
        self.total.add(file);
        self.by_size
            .entry(file.blocks.checked_next_power_of_two().unwrap_or(u64::MAX))
            .or_default()
            .add(file);
        let class = file.fragments.checked_next_power_of_two().unwrap_or(u64::MAX);
        *self.by_fragments.entry(class).or_default() += 1;
        if file.fragments < 2 {
            return;
        }
        self.fragmented_files += 1;
        // Equal ones stay in the order of the disk.
        let at = self.worst.partition_point(|other| other.fragments >= file.fragments);
        self.worst.insert(
            at,
            Fragmented { inode: ino.0, path: None, fragments: file.fragments, blocks: file.blocks },
        );
        self.worst.truncate(self.worst_max);
    }

    /// Whether an inode that is in use is a directory.
    fn is_directory(&self, ino: Ino) -> bool {
        self.directory_inodes.binary_search(&ino).is_ok()
    }

    fn first_block(&self, ino: Ino) -> Option<BlockNo> {
        let at = self.first_blocks.binary_search_by_key(&ino, |(ino, _)| *ino).ok()?;
        self.first_blocks.get(at).map(|(_, block)| *block)
    }
}
