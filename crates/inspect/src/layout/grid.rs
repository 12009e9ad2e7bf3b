//! What is where: the blocks of a volume in cells, for a picture.
//!
//! Every block that is in use and neither data, nor of a map, nor of a directory counts as
//! metadata: copies of superblock and descriptors, bitmaps, inode tables, the journal, extended
//! attributes.
//!
//! *Invariants*: the cells cover the volume without gap or overlap; in each, the counts add up to
//! its blocks, whatever the volume claims. Memory is that of the cells and of the map blocks in
//! use.
use super::each_file;
use crate::error::Error;
use crate::map::{self, Claimed, Visit};
use crate::volume::Volume;
use extant_format::BlockNo;
use extant_format::inode::FileType;
use serde::Serialize;
use std::ops::ControlFlow;

/// The most cells that are made.
pub const CELLS_MAX: usize = 1 << 20;

/// What the blocks of one cell are used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cell {
    /// Its first block.
    pub first: u64,
    /// Its blocks; at least 1.
    pub blocks: u64,
    /// Free ones, by the bitmaps.
    pub free: u64,
    /// Data of files and long targets of symlinks.
    pub data: u64,
    /// Indirect blocks and nodes of extent trees.
    pub map: u64,
    /// Blocks of directories.
    pub directory: u64,
    /// Everything else.
    pub metadata: u64,
}

/// What the blocks of a volume are used for, cell by cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LayoutMap {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the volume, those before the first group included.
    pub blocks: u64,
    /// Blocks of a group.
    pub blocks_per_group: u32,
    /// Groups of the volume.
    pub groups: u32,
    /// Cells of each group, where cells do not cross groups.
    pub cells_per_group: Option<u32>,
    /// Rising.
    pub cells: Vec<Cell>,
}

/// The whole volume in `cells` cells of nearly the same length: at least one, at most
/// [`CELLS_MAX`], and no more than there are blocks.
///
/// # Errors
/// When the device fails. What cannot be believed is left out, and its blocks count as metadata.
pub fn layout_map(volume: &Volume, cells: usize) -> Result<LayoutMap, Error> {
    let blocks = volume.superblock().blocks_count;
    let count = (cells.clamp(1, CELLS_MAX) as u64).min(blocks.max(1));
    // 20 bits of cells and at most 48 of blocks: no overflow in 128.
    let bound = |cell: u64| {
        u64::try_from(u128::from(blocks) * u128::from(cell) / u128::from(count)).unwrap_or(blocks)
    };
    let cells = (0..count).map(|cell| (bound(cell), bound(cell + 1))).collect();
    fill(volume, cells, None)
}

/// Each group in `cells_per_group` cells, the last group in as many as it needs: for a picture with
/// a row for each group. Where that would be more than [`CELLS_MAX`] cells, each
/// group gets fewer.
///
/// # Errors
/// As [`layout_map`].
pub fn group_map(volume: &Volume, cells_per_group: u32) -> Result<LayoutMap, Error> {
    let superblock = volume.superblock();
    let per_group = superblock.blocks_per_group.max(1);
    let groups = volume.present_groups();
    let most = (CELLS_MAX as u64 / u64::from(groups.max(1))).max(1);
    let wanted = cells_per_group.clamp(1, per_group).min(u32::try_from(most).unwrap_or(u32::MAX));
    let width = u64::from(per_group.div_ceil(wanted));
    let mut cells = Vec::new();
    for group in (0..groups).map(extant_format::GroupNo) {
        let first = superblock.group_start(group).0;
        let end = first.saturating_add(superblock.group_length(group).into());
        let starts = (first..end).step_by(usize::try_from(width).unwrap_or(usize::MAX));
        cells.extend(starts.map(|start| (start, (start + width).min(end))));
    }
    let cells_per_group = u64::from(per_group).div_ceil(width);
    fill(volume, cells, Some(u32::try_from(cells_per_group).unwrap_or(u32::MAX)))
}

fn fill(
    volume: &Volume,
    bounds: Vec<(u64, u64)>,
    cells_per_group: Option<u32>,
) -> Result<LayoutMap, Error> {
    let superblock = volume.superblock();
    let mut grid = Grid::new(&bounds);
    grid.add_free(volume)?;
    grid.add_files(volume)?;
    Ok(LayoutMap {
        block_size: superblock.block_size(),
        blocks: superblock.blocks_count,
        blocks_per_group: superblock.blocks_per_group,
        groups: superblock.group_count(),
        cells_per_group,
        cells: grid.finish(),
    })
}

/// Cells that are being filled.
struct Grid(Vec<Cell>);

impl Grid {
    fn new(bounds: &[(u64, u64)]) -> Grid {
        let cell = |(first, end): &(u64, u64)| Cell {
            first: *first,
            blocks: end.saturating_sub(*first),
            ..Cell::default()
        };
        Grid(bounds.iter().map(cell).collect())
    }

    /// Counts a run in the cells that it touches.
    fn add(&mut self, first: u64, length: u64, count: fn(&mut Cell) -> &mut u64) {
        let end = first.saturating_add(length);
        let from = self.0.partition_point(|cell| cell.first + cell.blocks <= first);
        for cell in self.0.get_mut(from..).unwrap_or_default() {
            if cell.first >= end {
                break;
            }
            let shared = end.min(cell.first + cell.blocks).saturating_sub(cell.first.max(first));
            let counter = count(cell);
            *counter = counter.saturating_add(shared);
        }
    }

    fn add_free(&mut self, volume: &Volume) -> Result<(), Error> {
        for group in volume.groups() {
            match group {
                Ok(group) => {
                    let runs = group.free_block_runs.iter();
                    runs.for_each(|run| self.add(run.first, run.count(), |cell| &mut cell.free));
                }
                Err(error @ (Error::Device(_) | Error::TooManyGroups { .. })) => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn add_files(&mut self, volume: &Volume) -> Result<(), Error> {
        let mut claimed = Claimed::default();
        each_file(volume, &mut |_, inode| {
            let count: fn(&mut Cell) -> &mut u64 = match inode.file_type() {
                Some(FileType::Directory) => |cell| &mut cell.directory,
                _ => |cell| &mut cell.data,
            };
            map::walk(volume, inode, &mut claimed, &mut |visit| {
                match visit {
                    Visit::Run { run, .. } => self.add(run.start.0, run.length.into(), count),
                    Visit::MapBlock(BlockNo(block)) => self.add(block, 1, |cell| &mut cell.map),
                    Visit::Fault(_) => {}
                }
                ControlFlow::Continue(())
            })
        })?;
        Ok(())
    }

    /// The rest is metadata. On a volume that contradicts itself, what was counted first is
    /// believed.
    fn finish(mut self) -> Vec<Cell> {
        for cell in &mut self.0 {
            let mut left = cell.blocks;
            for count in [&mut cell.free, &mut cell.map, &mut cell.directory, &mut cell.data] {
                *count = (*count).min(left);
                left -= *count;
            }
            cell.metadata = left;
        }
        self.0
    }
}
