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
mod grid;
mod maps;
mod paths;
mod text;

pub use grid::{CELLS_MAX, Cell, LayoutMap, group_map, layout_map};
pub use maps::MapLayout;

use self::maps::{Distances, Grouping};
use self::paths::{NameOf, PathTable};
use crate::error::Error;
use crate::map::{self, Claimed, Visit};
use crate::table::{TableScan, each_inode};
use crate::volume::Volume;
use extant_format::directory::Style;
use extant_format::directory::stored::is_dots;
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino, Run};
use serde::Serialize;
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

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
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
        file.path = names.path(Ino(file.inode));
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

/// The second pass: what directories hold.
struct Directories<'a> {
    volume: &'a Volume,
    survey: &'a Survey,
    paths: &'a mut PathTable,
    style: Style,
    names: u64,
    same_group: u64,
    distances: u64,
    distance_sum: f64,
    pairs: u64,
    rising: u64,
    faults: u64,
}

impl<'a> Directories<'a> {
    fn read(
        volume: &'a Volume,
        survey: &'a mut Survey,
        paths: &'a mut PathTable,
    ) -> Result<Locality, Error> {
        let superblock = volume.superblock();
        let style = Style {
            block_size: superblock.block_size(),
            typed: superblock.has(Feature::FILETYPE),
            checksummed: superblock.has(Feature::METADATA_CSUM),
        };
        let mut pass = Directories {
            volume,
            survey,
            paths,
            style,
            names: 0,
            same_group: 0,
            distances: 0,
            distance_sum: 0.0,
            pairs: 0,
            rising: 0,
            faults: 0,
        };
        let mut claimed = [Claimed::default(), Claimed::default()];
        each_file(volume, &mut |ino, inode| match inode.file_type() {
            Some(FileType::Directory) => pass.directory(ino, inode, &mut claimed),
            _ => Ok(()),
        })?;
        let locality = Locality {
            names: pass.names,
            same_group: pass.same_group,
            names_with_blocks: pass.distances,
            mean_distance_blocks: (pass.distances > 0)
                .then(|| pass.distance_sum / pass.distances as f64),
            in_disk_order: ratio(pass.rising, pass.pairs),
        };
        let faults = pass.faults;
        survey.faults += faults;
        Ok(locality)
    }

    /// Reads a directory's blocks up to the first that is none: a map that is wrong about its size
    /// ends there. Blocks are claimed like those of maps, so that two directories over the same
    /// blocks cost no more than one.
    fn directory(
        &mut self,
        ino: Ino,
        inode: &Inode,
        claimed: &mut [Claimed; 2],
    ) -> Result<(), Error> {
        let volume = self.volume;
        let [maps, data] = claimed;
        let mut before = None;
        let mut failed = None;
        let walked = map::walk(volume, inode, maps, &mut |visit| {
            let Visit::Run { run, .. } = visit else {
                return ControlFlow::Continue(());
            };
            for block in (run.start.0..run.start.0.saturating_add(run.length.into())).map(BlockNo) {
                if !data.claim(block) || !volume.holds(block) {
                    self.faults += 1;
                    return ControlFlow::Break(());
                }
                match volume.block("directory", block) {
                    Ok(bytes) => self.block(ino, &bytes, &mut before)?,
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        walked?;
        failed.map_or(Ok(()), Err)
    }

    fn block(
        &mut self,
        directory: Ino,
        bytes: &[u8],
        before: &mut Option<BlockNo>,
    ) -> ControlFlow<()> {
        for entry in self.style.entries(bytes) {
            let Ok(entry) = entry else {
                self.faults += 1;
                return ControlFlow::Break(());
            };
            if entry.ino.0 != 0 && !is_dots(entry.name) {
                self.name(directory, entry.ino, before);
                let kind = match self.survey.is_directory(entry.ino) {
                    true => NameOf::Directory,
                    false => NameOf::Other,
                };
                self.paths.note(directory, entry.ino, entry.name, kind);
            }
        }
        ControlFlow::Continue(())
    }

    fn name(&mut self, directory: Ino, ino: Ino, before: &mut Option<BlockNo>) {
        let superblock = self.volume.superblock();
        let group = |ino| superblock.group_of_inode(ino).map(|(group, _)| group);
        let Some(home) = group(ino) else {
            self.faults += 1;
            return;
        };
        self.names += 1;
        self.same_group += u64::from(group(directory) == Some(home));
        let (Some(from), Some(to)) =
            (self.survey.first_block(directory), self.survey.first_block(ino))
        else {
            return;
        };
        self.distances += 1;
        self.distance_sum += from.0.abs_diff(to.0) as f64;
        if let Some(before) = before.replace(to) {
            self.pairs += 1;
            self.rising += u64::from(before < to);
        }
    }
}

/// What is free, and the classes of its runs. A run is counted when the next one begins.
fn free_space(volume: &Volume) -> Result<(FreeSpace, Vec<RunClass>), Error> {
    let mut free = FreeSpace::default();
    let mut classes: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut count = |blocks: u64| {
        if blocks > 0 {
            let class = classes.entry(blocks.checked_next_power_of_two().unwrap_or(u64::MAX));
            let (runs, sum) = class.or_default();
            (*runs, *sum) = (*runs + 1, *sum + blocks);
        }
    };
    let (mut end, mut length) = (None, 0);
    for group in volume.groups() {
        let group = match group {
            Ok(group) => group,
            Err(error @ (Error::Device(_) | Error::TooManyGroups { .. })) => return Err(error),
            Err(_) => break,
        };
        free.unread_groups += u64::from(!group.problems.is_empty());
        for run in &group.free_block_runs {
            free.blocks += run.count();
            if end == Some(run.first) {
                length += run.count();
            } else {
                count(length);
                free.runs += 1;
                length = run.count();
            }
            end = Some(run.last + 1);
            free.longest_run = free.longest_run.max(length);
        }
    }
    count(length);
    let class = |(blocks_max, (runs, blocks))| RunClass { blocks_max, runs, blocks };
    Ok((free, classes.into_iter().map(class).collect()))
}
