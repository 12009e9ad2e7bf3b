//! Inodes of another size: their tables get longer, where they are or where there is room.
//!
//! ```text
//! choose    a place for each table: free blocks, or some that can be cleared
//! evacuate  what files have in those moves
//! copy      every inode, with zeros after the bytes that it had
//! ```
//!
//! *Invariants*: a new table has nothing of the old one of another group in it, so that each can be
//! read until it is written anew; what was in use on the device gets its zeros by the log.
use super::shrink::evacuate;
use super::{Placed, ResizeOptions, Resized, change};
use crate::bitmaps::Marked;
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::map;
use extant_block::BlockDevice;
use extant_format::group::INODE_ZEROED;
use extant_format::inode::Inode;
use extant_format::inode::StoredInode;
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the fixed fields that every inode has, and where their size is kept after these.
const BASE_BYTES: usize = 128;

/// Gives the inodes of a volume another size in memory, larger than theirs. `fields` changes what
/// else its superblock says.
///
/// # Errors
/// The device's; the volume is not clean, or has no room for longer tables.
pub(crate) fn with_inode_size(
    device: Arc<dyn BlockDevice>,
    size: u16,
    fields: &dyn Fn(&mut Superblock),
    options: ResizeOptions,
) -> Result<Resized> {
    let before = extant_engine::read_superblock(&*device)?;
    let mut after = before.clone();
    let more = say(&mut after, size, fields);
    let enlarge = |draft: &mut Draft, after: &Superblock| {
        let placed = enlarge(draft, after)?;
        say(&mut draft.superblock, size, fields);
        draft.superblock.written_seconds = draft.now.into();
        draft.write_superblock()?;
        Ok(placed)
    };
    let free = before.free_blocks;
    let done = change(device, (before, after), options, Marked::Lazily, enlarge);
    done.map_err(|error| match error {
        Error::NoRoom => Error::Refused(format!(
            "tables of inodes of {size} bytes take {more} blocks more, and there is no room for \
             them, with {free} blocks free (extant resize IMAGE +10% makes some)"
        )),
        error => error,
    })
}

/// Lets a superblock say that inodes have another size, and the rest. Gives how many blocks more
/// their tables take.
fn say(superblock: &mut Superblock, size: u16, fields: &dyn Fn(&mut Superblock)) -> u64 {
    let before = superblock.inode_table_blocks();
    fields(superblock);
    superblock.inode_size = size;
    // The first drivers know one size only.
    superblock.revision = superblock.revision.max(1);
    let more = u64::from(superblock.inode_table_blocks().saturating_sub(before));
    let more = more.saturating_mul(superblock.group_count().into());
    let counted = u64::from(superblock.overhead_clusters());
    superblock.set_overhead_clusters(match superblock.cluster_log2() {
        0 if counted > 0 => u32::try_from(counted.saturating_add(more)).unwrap_or(0),
        _ => 0,
    });
    more
}

/// Makes all inodes as large as `after` has them.
fn enlarge(draft: &mut Draft, after: &Superblock) -> Result<Placed> {
    let mut choice = Choice::of(draft, after)?;
    let groups = draft.superblock.group_count();
    let together = match draft.superblock.has(Feature::FLEX_BG) {
        true => 1_u32.checked_shl(draft.superblock.log_groups_per_flex.into()).unwrap_or(u32::MAX),
        false => 1,
    };
    let mut first = 0;
    while first < groups {
        let end = first.saturating_add(together).min(groups);
        choice.flex_group(draft, first..end)?;
        first = end;
    }
    let Choice { mut tables, mut wanted, .. } = choice;
    wanted.sort_unstable_by_key(|range| range.start);
    let (moves, moved_blocks) = match wanted.is_empty() {
        true => (Vec::new(), 0),
        false => evacuate(draft, joined(&wanted))?,
    };
    let mut zeros = Vec::new();
    for group in (0..groups).map(GroupNo) {
        if let Some(table) = tables.remove(&group) {
            copy(draft, (group, table), after, &mut zeros)?;
        }
    }
    Ok(Placed { moves, moved_blocks, zeros })
}

/// Rising ranges, of which those that overlap or touch are one.
fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range.clone()),
        }
    }
    joined
}

/// A table as it is to be.
struct Table {
    start: u64,
    /// What of it was free on the device.
    free: Vec<Range<u64>>,
}

/// What can be done with a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Free,
    /// It is a file's, which can have another one.
    Movable,
    /// It is of the old table of the group.
    Own,
    Stays,
}

/// Places of tables, while they are chosen.
struct Choice {
    /// Blocks of a table before, and as it is to be.
    before: u64,
    blocks: u64,
    tables: BTreeMap<GroupNo, Table>,
    /// The ends of new tables by their starts.
    chosen: BTreeMap<u64, u64>,
    /// Blocks that no table can have: they are bad.
    bad: BTreeSet<u64>,
    /// Whole clusters of blocks that files have and that tables get.
    wanted: Vec<Range<u64>>,
    /// There are no free runs as long as this.
    longest: u64,
    /// Groups in which no table has room.
    full: BTreeSet<GroupNo>,
}

impl Choice {
    fn of(draft: &Draft, after: &Superblock) -> Result<Choice> {
        let mut bad = BTreeSet::new();
        if let Some(inode) = draft.inode(Ino::BAD_BLOCKS)?.filter(|it| it.block != [0; 60]) {
            for run in map::read(draft, &inode)?.runs {
                bad.extend(run.start..run.start.saturating_add(run.length));
            }
        }
        Ok(Choice {
            before: draft.superblock.inode_table_blocks().into(),
            blocks: after.inode_table_blocks().into(),
            tables: BTreeMap::new(),
            chosen: BTreeMap::new(),
            bad,
            wanted: Vec::new(),
            longest: u64::MAX,
            full: BTreeSet::new(),
        })
    }

    /// Chooses the tables of groups that may have them anywhere, or of one group.
    fn flex_group(&mut self, draft: &mut Draft, groups: Range<u32>) -> Result<()> {
        let is_flexible = draft.superblock.has(Feature::FLEX_BG);
        let starts = groups.clone().filter_map(|group| self.old_table(draft, GroupNo(group)));
        let mut goal = starts.map(|table| table.start).min().unwrap_or(0);
        let count = u64::from(groups.end - groups.start);
        if is_flexible
            && let Some(start) = self.free_run(draft, goal, self.blocks.saturating_mul(count))
        {
            for (group, at) in groups.zip(0..) {
                self.set_free(GroupNo(group), start + at * self.blocks);
            }
            return Ok(());
        }
        for group in groups.clone().map(GroupNo) {
            let own = self.old_table(draft, group).ok_or(Error::NoRoom)?;
            if is_flexible && let Some(start) = self.free_run(draft, goal, self.blocks) {
                self.set_free(group, start);
                goal = start + self.blocks;
                continue;
            }
            let near = (groups.start..groups.end).map(GroupNo);
            let all = (0..draft.superblock.group_count()).map(GroupNo);
            let elsewhere = near.chain(all).filter(|_| is_flexible);
            let start = [group].into_iter().chain(elsewhere).find_map(|at| {
                let place = self.window(draft, at, &own);
                if place.is_none() {
                    self.full.insert(at);
                }
                place
            });
            self.set_cleared(draft, group, (start.ok_or(Error::NoRoom)?, &own));
        }
        Ok(())
    }

    fn old_table(&self, draft: &Draft, group: GroupNo) -> Option<Range<u64>> {
        let start = draft.usage.descriptor(group)?.inode_table.0;
        Some(start..start.saturating_add(self.before))
    }

    /// Takes a run of free blocks, if there is one.
    fn free_run(&mut self, draft: &mut Draft, goal: u64, blocks: u64) -> Option<u64> {
        if blocks >= self.longest {
            return None;
        }
        let found = draft.allocate_run(BlockNo(goal), blocks);
        if found.is_none() {
            self.longest = blocks;
        }
        found.map(|start| start.0)
    }

    /// Puts a table to blocks that were free.
    fn set_free(&mut self, group: GroupNo, start: u64) {
        let end = start.saturating_add(self.blocks);
        self.chosen.insert(start, end);
        let free = std::iter::once(start..end).collect();
        self.tables.insert(group, Table { start, free });
    }

    /// Puts a table to blocks of which some are files'.
    fn set_cleared(&mut self, draft: &Draft, group: GroupNo, (start, own): (u64, &Range<u64>)) {
        let end = start.saturating_add(self.blocks);
        let cluster = u64::from(draft.usage.cluster_blocks()).max(1);
        let mut free: Vec<Range<u64>> = Vec::new();
        for block in start..end {
            match self.block(draft, block, own) {
                Block::Free => match free.last_mut().filter(|last| last.end == block) {
                    Some(last) => last.end = block + 1,
                    None => free.push(block..block + 1),
                },
                Block::Movable => {
                    let first = block / cluster * cluster;
                    match self.wanted.last_mut().filter(|last| last.end >= first) {
                        Some(last) if last.start <= first => last.end = first + cluster,
                        _ => self.wanted.push(first..first + cluster),
                    }
                }
                Block::Own | Block::Stays => {}
            }
        }
        free.iter().for_each(|range| draft.usage.take(BlockNo(range.start), length(range)));
        self.chosen.insert(start, end);
        self.tables.insert(group, Table { start, free });
    }

    fn block(&self, draft: &Draft, block: u64, own: &Range<u64>) -> Block {
        let is_chosen = self.chosen.range(..=block).next_back().is_some_and(|it| block < *it.1);
        if is_chosen || self.bad.contains(&block) {
            return Block::Stays;
        }
        if own.contains(&block) {
            return Block::Own;
        }
        match (draft.usage.is_free(BlockNo(block), 1), draft.usage.is_metadata(BlockNo(block))) {
            (true, _) => Block::Free,
            (false, true) => Block::Stays,
            (false, false) => Block::Movable,
        }
    }

    /// Where a table of a group, whose old one is `own`, can be in a group: at its old place if it
    /// can grow there, else where the fewest blocks move.
    fn window(&self, draft: &Draft, within: GroupNo, own: &Range<u64>) -> Option<u64> {
        let start = draft.superblock.group_start(within).0;
        let end = start.saturating_add(draft.superblock.group_length(within).into());
        let is_own = start <= own.start && own.end <= end;
        if self.full.contains(&within) && !is_own {
            return None;
        }
        let in_place = own.start..own.start.saturating_add(self.blocks);
        let may_be = |block: u64| self.block(draft, block, own) != Block::Stays;
        if is_own && in_place.end <= end && in_place.clone().all(may_be) {
            return Some(in_place.start);
        }
        // The blocks that files have, since the last block that stays.
        let (mut since, mut moving) = (start, 0_u64);
        let mut best: Option<(u64, u64)> = None;
        let is_moving = |block: u64| self.block(draft, block, own) == Block::Movable;
        for block in start..end {
            match self.block(draft, block, own) {
                Block::Stays => {
                    (since, moving) = (block + 1, 0);
                    continue;
                }
                Block::Movable => moving += 1,
                Block::Free | Block::Own => {}
            }
            if block + 1 - since > self.blocks {
                moving -= u64::from(is_moving(since));
                since += 1;
            }
            let is_whole = block + 1 - since == self.blocks;
            if is_whole && best.is_none_or(|(least, _)| moving < least) {
                best = Some((moving, since));
            }
        }
        best.map(|(_, since)| since)
    }
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Writes the table of a group at its new place, from what it has by now. Notes what has to be
/// zeros before the change is written.
fn copy(
    draft: &Draft,
    (group, table): (GroupNo, Table),
    after: &Superblock,
    zeros: &mut Vec<Range<u64>>,
) -> Result<()> {
    let Some(mut of) = draft.descriptor(group)? else { return Ok(()) };
    let block_size = draft.block_size();
    let sizes = [draft.superblock.inode_size, after.inode_size].map(usize::from);
    let per_block = (block_size / sizes[0]).max(1) as u32;
    let factor = (sizes[1] / sizes[0]).max(1) as u64;
    let written = u64::from(draft.written_inodes(&of).div_ceil(per_block));
    let mut old = Vec::new();
    for at in 0..written {
        old.push(draft.read(BlockNo(of.inode_table.0 + at))?.unwrap_or_default());
    }
    let end = table.start + u64::from(after.inode_table_blocks());
    let first = group.0.saturating_mul(after.inodes_per_group);
    let extra = Inode::new(0, after).extra_isize;
    for (at, bytes) in (0_u64..).zip(old) {
        let here = table.start + at * factor;
        let range = here..(here + factor).min(end);
        if bytes.iter().all(|byte| *byte == 0) {
            let_zeros(draft, range, &table.free, zeros)?;
            continue;
        }
        let number = first + at as u32 * per_block + 1;
        let mut larger = Vec::with_capacity(bytes.len() * factor as usize);
        for (raw, ino) in bytes.chunks_exact(sizes[0]).zip((number..).map(Ino)) {
            let mut inode = raw.to_vec();
            inode.resize(sizes[1], 0);
            if sizes[0] == BASE_BYTES && StoredInode::new(raw).links() != 0 {
                inode[BASE_BYTES..BASE_BYTES + 2].copy_from_slice(&extra.to_le_bytes());
            }
            Inode::seal(&mut inode, ino, after);
            larger.extend(inode);
        }
        for (block, bytes) in range.zip(larger.chunks(block_size)) {
            draft.write(BlockNo(block), bytes)?;
        }
    }
    let rest = (table.start + written * factor).min(end)..end;
    if !rest.is_empty() && !draft.is_hole(rest)? {
        // The kernel that mounts the volume fills it.
        of.flags &= !INODE_ZEROED;
    }
    of.inode_table = BlockNo(table.start);
    draft.write_descriptor(group, &of)
}

/// Lets blocks be zeros: those that were free on the device before anything else is written.
fn let_zeros(
    draft: &Draft,
    range: Range<u64>,
    free: &[Range<u64>],
    zeros: &mut Vec<Range<u64>>,
) -> Result<()> {
    for block in range {
        if !free.iter().any(|range| range.contains(&block)) {
            draft.write(BlockNo(block), &vec![0; draft.block_size()])?;
            continue;
        }
        if draft.is_hole(block..block + 1)? {
            continue;
        }
        draft.let_zeros(block..block + 1);
        match zeros.last_mut().filter(|last| last.end == block) {
            Some(last) => last.end = block + 1,
            None => zeros.push(block..block + 1),
        }
    }
    Ok(())
}
