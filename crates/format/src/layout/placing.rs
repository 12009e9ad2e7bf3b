//! Where bitmaps and inode tables go.
//!
//! A flex group is filled from its first block: all block bitmaps, all inode bitmaps, all tables.
//! What finds a copy of the superblock in its way goes on after it. Without flex_bg every group is
//! a flex group of its own.
//!
//! Places are those of mke2fs 1.47, but for flex groups of more than a hundred groups that are too
//! small for all those bitmaps: there mke2fs sometimes goes back to the start.
use std::collections::BTreeMap;
use std::ops::Range;

use super::{LayoutError, Packing};
use crate::group::GroupDescriptor;
use crate::superblock::{Feature, Superblock};
use crate::{BlockNo, GroupNo};

/// The result: a descriptor for each group, with places only, and all runs in use (first, end),
/// rising and merged.
pub(super) struct Places {
    pub descriptors: Vec<GroupDescriptor>,
    pub used: Vec<(u64, u64)>,
}

/// The blocks of one flex group that are taken: from first block to end, merged.
struct Space {
    start: u64,
    end: u64,
    taken: BTreeMap<u64, u64>,
    /// By length: no such run is free before that block. Nothing is ever given back, so a search
    /// goes on where the last one for that length ended.
    searched: BTreeMap<u64, u64>,
}

impl Space {
    /// The end of the last run that covers any of `at..at + length`.
    fn obstacle(&self, at: u64, length: u64) -> Option<u64> {
        let (_, end) = self.taken.range(..at.saturating_add(length)).next_back()?;
        (*end > at).then_some(*end)
    }

    fn take(&mut self, at: u64, length: u64) {
        let (mut start, mut end) = (at, at.saturating_add(length));
        if let Some((before, _)) =
            self.taken.range(..=at).next_back().filter(|(_, before_end)| **before_end == at)
        {
            start = *before;
        }
        if let Some(next_end) = self.taken.remove(&end) {
            end = next_end;
        }
        self.taken.insert(start, end);
    }

    /// Takes `length` blocks: the first at or after `hint` that are free together, else the first
    /// of all.
    fn allocate(&mut self, hint: Option<u64>, length: u64) -> Option<BlockNo> {
        let at = match hint.and_then(|hint| self.free_from(hint, length)) {
            Some(at) => at,
            None => self.first_free(length)?,
        };
        self.take(at, length);
        Some(BlockNo(at))
    }

    fn free_from(&self, from: u64, length: u64) -> Option<u64> {
        let mut at = from;
        while let Some(end) = self.obstacle(at, length) {
            at = end;
        }
        (at.saturating_add(length) <= self.end).then_some(at)
    }

    fn first_free(&mut self, length: u64) -> Option<u64> {
        let from = self.searched.get(&length).copied().unwrap_or(self.start);
        let found = self.free_from(from, length);
        self.searched.insert(length, found.unwrap_or(self.end));
        found
    }
}

/// With flex_bg bitmaps and tables are at or after `tables_from`, if there is such a block.
pub(super) fn place_groups(
    superblock: &Superblock,
    tables_from: Option<BlockNo>,
    packing: Packing,
    bad_blocks: &[BlockNo],
) -> Result<Places, LayoutError> {
    place_groups_from(superblock, GroupNo(0), tables_from, packing, bad_blocks)
}

/// The groups from `from` on, whose flex group may have earlier ones: all parts are in those that
/// are placed.
pub(super) fn place_groups_from(
    superblock: &Superblock,
    from: GroupNo,
    tables_from: Option<BlockNo>,
    packing: Packing,
    bad_blocks: &[BlockNo],
) -> Result<Places, LayoutError> {
    let tables_from = tables_from.filter(|_| superblock.has(Feature::FLEX_BG));
    let groups = superblock.group_count();
    let flex = match packing {
        Packing::Start if superblock.has(Feature::FLEX_BG) => groups,
        _ => 1u32.checked_shl(superblock.log_groups_per_flex.into()).unwrap_or(1),
    };
    let mut places = Places { descriptors: Vec::with_capacity(groups as usize), used: Vec::new() };
    let mut first = from.0;
    while first < groups {
        let flex_end = first.checked_div(flex).unwrap_or(0).saturating_add(1).saturating_mul(flex);
        let end = flex_end.min(groups);
        let space = with_copies(superblock, first, end, bad_blocks)?;
        place_flex(superblock, space, first..end, flex, tables_from, &mut places)?;
        first = end;
    }
    Ok(places)
}

/// Places the groups of `numbers`.
fn place_flex(
    superblock: &Superblock,
    mut space: Space,
    numbers: Range<u32>,
    flex: u32,
    tables_from: Option<BlockNo>,
    places: &mut Places,
) -> Result<(), LayoutError> {
    let Range { start: first, end } = numbers;
    let least = tables_from.unwrap_or(BlockNo(0));
    let placed =
        |at: Option<BlockNo>| at.filter(|at| *at >= least).ok_or_else(|| no_room(superblock));
    let table_blocks = u64::from(superblock.inode_table_blocks());
    // Room for the bitmaps of the others. mke2fs leaves room for a whole flex group where one group
    // is alone.
    let count = end.saturating_sub(first);
    let is_alone = count == 1 && tables_from.is_none();
    let gap = u64::from(if is_alone { flex } else { count });
    let mut last: Option<GroupDescriptor> = None;
    for _ in first..end {
        let after = |place: fn(&GroupDescriptor) -> BlockNo, by: u64| {
            last.map(|last| place(&last).0.saturating_add(by))
        };
        let hint = after(|group| group.block_bitmap, 1).or(tables_from.map(|from| from.0));
        let block_bitmap = placed(space.allocate(hint, 1))?;
        let hint =
            after(|group| group.inode_bitmap, 1).unwrap_or(block_bitmap.0.saturating_add(gap));
        let inode_bitmap = placed(space.allocate(Some(hint), 1))?;
        let hint = after(|group| group.inode_table, table_blocks)
            .unwrap_or(inode_bitmap.0.saturating_add(gap));
        let inode_table = placed(space.allocate(Some(hint), table_blocks))?;
        let descriptor = GroupDescriptor {
            block_bitmap,
            inode_bitmap,
            inode_table,
            ..GroupDescriptor::default()
        };
        places.descriptors.push(descriptor);
        last = Some(descriptor);
    }
    append(&mut places.used, space.taken);
    Ok(())
}

fn no_room(superblock: &Superblock) -> LayoutError {
    LayoutError(format!(
        "{} groups of {} blocks have no room together for inode tables of {} blocks each",
        superblock.group_count(),
        superblock.blocks_per_group,
        superblock.inode_table_blocks()
    ))
}

/// A flex group that holds nothing but the copies of superblock and descriptors, and blocks that
/// are kept from use.
fn with_copies(
    superblock: &Superblock,
    first: u32,
    end: u32,
    bad_blocks: &[BlockNo],
) -> Result<Space, LayoutError> {
    let last = GroupNo(end.saturating_sub(1));
    let space_end =
        superblock.group_start(last).0.saturating_add(superblock.group_length(last).into());
    let start = superblock.group_start(GroupNo(first)).0;
    let mut space =
        Space { start, end: space_end, taken: BTreeMap::new(), searched: BTreeMap::new() };
    for group in (first..end).map(GroupNo) {
        let start = superblock.group_start(group).0;
        // Clusters of 1 KiB blocks begin at block 0, and the superblock is still in block 1.
        let before =
            if group.0 == 0 { superblock.primary_block().0.saturating_sub(start) } else { 0 };
        let length = before.saturating_add(superblock.super_overhead(group).into());
        if length > 0 {
            space.take(start, length);
        }
    }
    let here = bad_blocks.iter().filter(|bad| (space.start..space.end).contains(&bad.0));
    for bad in here.collect::<Vec<_>>() {
        if space.obstacle(bad.0, 1).is_some() {
            return Err(LayoutError(format!(
                "block {} is bad, and a superblock or descriptors have to be there",
                bad.0
            )));
        }
        space.take(bad.0, 1);
    }
    Ok(space)
}

/// Adds the runs of the next flex group, joined with the last one where they touch.
fn append(used: &mut Vec<(u64, u64)>, taken: BTreeMap<u64, u64>) {
    for (start, end) in taken {
        match used.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => used.push((start, end)),
        }
    }
}
