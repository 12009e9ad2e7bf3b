//! The classic map: direct pointers and up to three levels of indirect blocks.
use super::{
    Grant, Piece, Wish, change_map, check_block, check_map_block, free_at_once_max, free_map_block,
    free_run, too_large,
};
use crate::error::{ErrorKind, Result};
use crate::inode::credits;
use crate::inode::node::{Leads, NodeState};
use crate::inode::operation::Operation;
use crate::inode::unfinished::{pause, record};
use crate::inode::volume::Volume;
use crate::policy::allocation::Purpose;
use crate::policy::preset::Mount;
use crate::policy::readahead::{MapReadAhead, MissingMap, is_near};
use crate::store::cache::{BlockKind, Frame};
use extant_block::Urgency;
use extant_format::extent::State;
use extant_format::indirect::{DIRECT, Path, path, pointer, set_pointer};
use extant_format::{BlockNo, FileBlock, Run};
use std::ops::Range;
use std::sync::Arc;

fn pointers_log2(volume: &Volume) -> u8 {
    volume.store.superblock.block_size_log2 - 2
}

/// How many file blocks a pointer reaches that is `levels` above the data: 1 for a pointer to data.
fn span(volume: &Volume, levels: usize) -> u64 {
    1u64 << (u32::from(pointers_log2(volume)) * levels as u32)
}

fn read_map(volume: &Volume, node: &NodeState, block: u32) -> Result<Arc<Frame>> {
    check_block(volume, node, BlockNo(block.into()))?;
    volume.store.cache.read(BlockNo(block.into()), BlockKind::Plain)
}

/// Pointers of the last map block on a path, from the path's last index on.
struct Slots {
    bytes: Arc<Vec<u8>>,
    first: u32,
    end: u32,
}

impl Slots {
    fn at(&self, index: u32) -> u32 {
        pointer(&self.bytes, index)
    }
}

pub(super) fn find(volume: &Volume, node: &NodeState, block: FileBlock, max: u32) -> Result<Piece> {
    let Some(path) = path(block, volume.store.superblock.block_size_log2) else {
        return Ok(Piece::Hole(max));
    };
    let slots = match slots(volume, node, &path)? {
        Ok(slots) => slots,
        Err(hole) => return Ok(Piece::Hole(hole.min(u64::from(max)) as u32)),
    };
    let end = slots.end.min(slots.first.saturating_add(max));
    let start = slots.at(slots.first);
    let same = |index: &u32| {
        let expected = if start == 0 { Some(0) } else { start.checked_add(index - slots.first) };
        Some(slots.at(*index)) == expected
    };
    let length = 1 + (slots.first + 1..end).take_while(same).count() as u32;
    if start == 0 {
        return Ok(Piece::Hole(length));
    }
    check_block(volume, node, BlockNo(start.into()))?;
    check_block(volume, node, BlockNo(u64::from(start) + u64::from(length) - 1))?;
    Ok(Piece::Run(Run { start: BlockNo(start.into()), length }, State::Written))
}

/// The slots at the end of a path, or the length of the hole that a missing map block makes.
fn slots(
    volume: &Volume,
    node: &NodeState,
    path: &Path,
) -> Result<std::result::Result<Slots, u64>> {
    if path.depth == 1 {
        let bytes = Arc::new(node.inode.block.to_vec());
        return Ok(Ok(Slots { bytes, first: path.index[0], end: DIRECT }));
    }
    let mut next = pointer(&node.inode.block, path.index[0]);
    let mut parent: Option<Arc<Vec<u8>>> = None;
    for step in 1..path.depth {
        if next == 0 {
            return Ok(Err(rest_of_subtree(volume, path, step)));
        }
        if volume.store.policies.map_read_ahead == MapReadAhead::Neighbours {
            fetch_neighbours(volume, node, parent.as_deref(), path.index[step - 1]);
        }
        let bytes = read_map(volume, node, next)?.bytes();
        if step + 1 == path.depth {
            return Ok(Ok(Slots {
                bytes,
                first: path.index[step],
                end: 1 << pointers_log2(volume),
            }));
        }
        next = pointer(&bytes, path.index[step]);
        parent = Some(bytes);
    }
    Ok(Err(1))
}

/// Starts to read the map block that `parent` (none: the inode) has at `index`, if it is not in
/// memory and is in a cluster, with its neighbours there: those that `parent` leads to as well, or
/// else the blocks around it, whatever they are. Does not wait. What cannot be read is left out.
fn fetch_neighbours(volume: &Volume, node: &NodeState, parent: Option<&Vec<u8>>, index: u32) {
    let at = |index: u32| match parent {
        Some(bytes) => pointer(bytes, index),
        None => pointer(&node.inode.block, index),
    };
    let (block, mapped) = (at(index), 1u32 << pointers_log2(volume));
    if volume.store.cache.holds(BlockNo(block.into())) {
        return;
    }
    let missing = MissingMap { block, index, pointers: mapped, mapped };
    let siblings = if parent.is_some() { missing.siblings(at) } else { index..index + 1 };
    let together: Vec<u32> = match parent {
        Some(_) if siblings.len() > 1 => siblings.map(at).collect(),
        None if is_clustered_root(at, index, mapped) => missing.surroundings().collect(),
        _ => return,
    };
    let blocks = together.into_iter().map(|block| BlockNo(block.into()));
    let blocks = blocks.filter(|block| check_block(volume, node, *block).is_ok());
    let blocks = blocks.map(|block| (block, BlockKind::Unclaimed));
    volume.store.cache.fetch(Urgency::Awaited, blocks);
}

/// Whether a map block that the inode itself leads to is in a cluster. Beside its data, the first
/// one is near the last of the direct blocks, and the second one is further away from the first
/// than that one maps.
fn is_clustered_root(at: impl Fn(u32) -> u32, index: u32, mapped: u32) -> bool {
    if index > DIRECT {
        return is_near(at(index - 1), at(index), mapped);
    }
    let last = (0..DIRECT).rev().map(&at).find(|block| *block != 0);
    last.is_some_and(|last| !is_near(last, at(index), mapped))
}

/// Indirect blocks of the double tree that are read alone, so that a file which ends there is read
/// as if there were no clusters.
const FIRST_FEW: u32 = 2;

/// See [`super::clustered_maps`]. Two map blocks are clustered if they are fewer blocks apart than
/// one of them maps.
pub(super) fn clustered_maps(
    volume: &Volume,
    node: &NodeState,
    block: FileBlock,
    most: u32,
) -> Result<Vec<BlockNo>> {
    let mut together = Vec::new();
    let Some(path) = path(block, volume.store.superblock.block_size_log2) else {
        return Ok(together);
    };
    // Only trees of two or three levels have indirect blocks that follow each other.
    let Some(above) = path.depth.checked_sub(2).filter(|step| *step >= 1) else {
        return Ok(together);
    };
    let mut next = pointer(&node.inode.block, path.index[0]);
    for step in 1..above {
        if next == 0 || !volume.store.cache.holds_filled(BlockNo(next.into())) {
            return Ok(together);
        }
        next = pointer(&read_map(volume, node, next)?.bytes(), path.index[step]);
    }
    if next == 0 || !volume.store.cache.holds_filled(BlockNo(next.into())) {
        return Ok(together);
    }
    let parent = read_map(volume, node, next)?.bytes();
    let (first, pointers) = (path.index[above], 1u32 << pointers_log2(volume));
    let is_early = above == 1 && first < FIRST_FEW;
    let at = |index: u32| BlockNo(pointer(&parent, index).into());
    if is_early || at(first).0 == 0 || volume.store.cache.holds(at(first)) {
        return Ok(together);
    }
    let is_near =
        |one: BlockNo, other: BlockNo| other.0 != 0 && one.0.abs_diff(other.0) < pointers.into();
    together.push(at(first));
    for index in first + 1..pointers.min(first.saturating_add(most)) {
        if !is_near(at(index - 1), at(index)) || check_block(volume, node, at(index)).is_err() {
            break;
        }
        together.push(at(index));
    }
    let is_alone = together.len() == 1 && (first == 0 || !is_near(at(first), at(first - 1)));
    if is_alone || check_block(volume, node, at(first)).is_err() {
        together.clear();
    }
    Ok(together)
}

/// File blocks from the path's place to the end of the subtree whose root, at `step`, is missing.
fn rest_of_subtree(volume: &Volume, path: &Path, step: usize) -> u64 {
    let before: u64 = (step..path.depth)
        .map(|at| u64::from(path.index[at]) * span(volume, path.depth - 1 - at))
        .sum();
    span(volume, path.depth - step) - before
}

pub(super) fn allocate(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    block: FileBlock,
    want: u32,
) -> Result<Run> {
    let volume = grant.volume();
    let path = path(block, volume.store.superblock.block_size_log2).ok_or_else(too_large)?;
    let mut map: Option<Arc<Frame>> = None;
    for step in 1..path.depth {
        map = Some(descend(grant, node, map.as_ref(), path.index[step - 1], block)?);
    }
    let index = path.index[path.depth - 1];
    let bytes =
        map.as_ref().map_or_else(|| Arc::new(node.inode.block.to_vec()), |frame| frame.bytes());
    let end = if map.is_some() { 1 << pointers_log2(volume) } else { DIRECT };
    let free = (index..end.min(index.saturating_add(want)))
        .take_while(|at| pointer(&bytes, *at) == 0)
        .count() as u32;
    let previous = (0..index).rev().find_map(|at| match pointer(&bytes, at) {
        0 => None,
        found => Some((FileBlock(block.0 - (index - at)), BlockNo(found.into()))),
    });
    drop(bytes);
    let map_block = map.as_ref().map(|frame| frame.block());
    let wish =
        Wish { purpose: grant.purpose, file_block: block, want: free.max(1), previous, map_block };
    let run = grant.take(node, wish)?;
    check_reach(grant, node, run)?;
    let store = |bytes: &mut [u8]| {
        (0..run.length).for_each(|at| set_pointer(bytes, index + at, run.start.0 as u32 + at));
    };
    match &map {
        None => store(&mut node.inode.block),
        Some(frame) => change_map(grant.operation, node, frame, Leads::More, store),
    }
    Ok(run)
}

/// What to ask the policy for, without making map blocks.
pub(super) fn wish(
    grant: &Grant<'_, '_, '_>,
    node: &NodeState,
    block: FileBlock,
    want: u32,
) -> Result<Wish> {
    let volume = grant.volume();
    let path = path(block, volume.store.superblock.block_size_log2).ok_or_else(too_large)?;
    let mut map_block = None;
    let mut next = pointer(&node.inode.block, path.index[0]);
    for step in 1..path.depth {
        if next == 0 {
            break;
        }
        map_block = Some(BlockNo(next.into()));
        next = pointer(&read_map(volume, node, next)?.bytes(), path.index[step]);
    }
    let previous = match block.0.checked_sub(1).map(FileBlock) {
        None => None,
        Some(before) => super::block_at(volume, node, before)?.map(|at| (before, at)),
    };
    Ok(Wish { purpose: grant.purpose, file_block: block, want, previous, map_block })
}

/// How many blocks of the file, from this one on, the same map block leads to.
pub(super) fn left_in_leaf(volume: &Volume, block: FileBlock) -> u32 {
    path(block, volume.store.superblock.block_size_log2).map_or(1, |path| {
        let end = if path.depth == 1 { DIRECT } else { 1 << pointers_log2(volume) };
        end - path.index[path.depth - 1]
    })
}

/// How many map blocks will be made for this block and lead to no block before it.
pub(super) fn maps_before(volume: &Volume, node: &NodeState, block: FileBlock) -> Result<u32> {
    let path = path(block, volume.store.superblock.block_size_log2).ok_or_else(too_large)?;
    let mut next = pointer(&node.inode.block, path.index[0]);
    let mut made = 0;
    for step in 1..path.depth {
        let is_first = path.index[step..path.depth].iter().all(|index| *index == 0);
        if next == 0 {
            made += u32::from(is_first);
            continue;
        }
        next = pointer(&read_map(volume, node, next)?.bytes(), path.index[step]);
    }
    Ok(made)
}

/// Maps a run that was placed.
pub(super) fn enter(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    block: FileBlock,
    run: Run,
) -> Result<()> {
    let volume = grant.volume();
    let mut at = 0;
    while at < run.length {
        let block = FileBlock(block.0 + at);
        let path = path(block, volume.store.superblock.block_size_log2).ok_or_else(too_large)?;
        let mut map: Option<Arc<Frame>> = None;
        for step in 1..path.depth {
            map = Some(descend(grant, node, map.as_ref(), path.index[step - 1], block)?);
        }
        let index = path.index[path.depth - 1];
        let end = if map.is_some() { 1 << pointers_log2(volume) } else { DIRECT };
        let count = (run.length - at).min(end - index);
        let first = run.start.0 as u32 + at;
        let store = |bytes: &mut [u8]| {
            (0..count).for_each(|slot| set_pointer(bytes, index + slot, first + slot));
        };
        match &map {
            None => store(&mut node.inode.block),
            Some(frame) => change_map(grant.operation, node, frame, Leads::More, store),
        }
        at += count;
    }
    Ok(())
}

/// Whether pointers with 32 bits reach a run.
pub(super) fn reaches(run: Run) -> bool {
    u32::try_from(run.start.0 + u64::from(run.length) - 1).is_ok()
}

/// Fails if a run is beyond the reach of pointers with 32 bits.
fn check_reach(grant: &Grant<'_, '_, '_>, node: &mut NodeState, run: Run) -> Result<()> {
    if reaches(run) {
        return Ok(());
    }
    free_run(grant.operation, node, run)?;
    let free_blocks = grant.volume().space.totals().free_blocks;
    Err(ErrorKind::NoSpace { wanted_blocks: run.length.into(), free_blocks }.into())
}

/// The map block that a pointer leads to; makes one if there is none.
fn descend(
    grant: &mut Grant<'_, '_, '_>,
    node: &mut NodeState,
    parent: Option<&Arc<Frame>>,
    index: u32,
    block: FileBlock,
) -> Result<Arc<Frame>> {
    let volume = grant.volume();
    let found = match parent {
        None => pointer(&node.inode.block, index),
        Some(frame) => pointer(&frame.bytes(), index),
    };
    if found != 0 {
        return read_map(volume, node, found);
    }
    let previous = match block.0.checked_sub(1) {
        None => None,
        Some(before) => {
            super::block_at(volume, node, FileBlock(before))?.map(|at| (FileBlock(before), at))
        }
    };
    let map_block = parent.map(|frame| frame.block());
    let run = grant.take(
        node,
        Wish { purpose: Purpose::Map, file_block: block, want: 1, previous, map_block },
    )?;
    check_reach(grant, node, run)?;
    let frame = grant.operation.create(run.start, BlockKind::Plain, |_| {});
    if volume.store.policies.mount == Mount::SyncMaps {
        volume.unstored.maps.lock().insert(run.start);
    }
    match parent {
        None => set_pointer(&mut node.inode.block, index, run.start.0 as u32),
        Some(parent) => change_map(grant.operation, node, parent, Leads::More, |bytes| {
            set_pointer(bytes, index, run.start.0 as u32)
        }),
    }
    Ok(frame)
}

/// A removal in progress, which frees blocks in runs.
///
/// Pointers to what is freed are cleared late: a map block that loses all of them is not changed
/// but freed. Where the removal pauses, or stops at what cannot be read, those that are left are
/// cleared first.
struct Removal<'a, 'v> {
    operation: &'a Operation<'v>,
    /// Blocks to be freed. What pointed to them is in `levels`, or cleared.
    pending: Option<Run>,
    /// The map blocks on the way to the pointer that is looked at, from the root.
    levels: Vec<MapBlock>,
    /// The longest run that one step frees.
    most: u64,
    freed: u64,
    /// Something could not be read, and was left.
    has_met_unreadable: bool,
}

/// A map block of a removal in progress.
struct MapBlock {
    frame: Arc<Frame>,
    /// Pointers to what was freed, or is pending.
    cleared: Vec<u32>,
}

/// Blocks that freeing a run changes, with the map blocks on the way that become empty, and storing
/// what is left: the run's bitmaps, the map blocks or their bitmaps, the inode.
const STEP: u32 = credits::GROUPS + 2 * 3 + credits::INODE;

impl Removal<'_, '_> {
    /// Adds a block to those to be freed. What was added before may be recorded as gone.
    fn add(&mut self, node: &mut NodeState, block: u32) -> Result<()> {
        let block = BlockNo(block.into());
        self.check_data(node, block)?;
        self.freed += 1;
        match &mut self.pending {
            Some(run)
                if run.start.0 + u64::from(run.length) == block.0
                    && u64::from(run.length) < self.most =>
            {
                run.length += 1
            }
            _ => {
                self.flush(node)?;
                self.pause(node)?;
                self.pending = Some(Run { start: block, length: 1 });
            }
        }
        Ok(())
    }

    /// Fails if a data block cannot be freed. Looks at its bitmap where that may be another one
    /// than that of the block before it: the others are looked at when all of them are freed.
    fn check_data(&mut self, node: &NodeState, block: BlockNo) -> Result<()> {
        let volume = self.operation.volume();
        let group = |block| volume.store.superblock.group_of_block(block);
        let is_next = |run: Run| {
            run.start.0 + u64::from(run.length) == block.0 && group(run.start) == group(block)
        };
        let checked = check_block(volume, node, block).and_then(|()| match self.pending {
            Some(run) if is_next(run) => Ok(()),
            _ => volume.space.check_to_free(Run { start: block, length: 1 }),
        });
        self.has_met_unreadable |= checked.is_err();
        checked
    }

    /// Reads a map block that may be freed.
    fn read(&mut self, node: &NodeState, block: u32) -> Result<Arc<Frame>> {
        let volume = self.operation.volume();
        let frame = check_map_block(volume, node, BlockNo(block.into()))
            .and_then(|()| read_map(volume, node, block));
        self.has_met_unreadable |= frame.is_err();
        frame
    }

    /// After something that could not be read: frees what was found before it, so that nothing is
    /// half done.
    fn stop(&mut self, node: &mut NodeState) -> Result<()> {
        self.operation.note_midway();
        self.flush(node)?;
        self.clear_pointers(node);
        self.operation.note_whole();
        Ok(())
    }

    fn flush(&mut self, node: &mut NodeState) -> Result<()> {
        match self.pending.take() {
            Some(run) => free_run(self.operation, node, run),
            None => Ok(()),
        }
    }

    /// Ends a step, after a flush.
    fn pause(&mut self, node: &mut NodeState) -> Result<()> {
        let operation = self.operation;
        operation.next_step(STEP, || {
            self.clear_pointers(node);
            record(operation, node)
        })
    }

    /// Clears the pointers to what was freed in map blocks that stay for now.
    fn clear_pointers(&mut self, node: &mut NodeState) {
        for level in &mut self.levels {
            let cleared = std::mem::take(&mut level.cleared);
            if !cleared.is_empty() {
                change_map(self.operation, node, &level.frame, Leads::Fewer, |bytes| {
                    cleared.iter().for_each(|index| set_pointer(bytes, *index, 0))
                });
            }
        }
    }

    /// Frees what is in `range` (counted from the subtree's first file block) below the map block
    /// `block`. Returns true if nothing is left below it and it was freed itself.
    fn subtree(
        &mut self,
        node: &mut NodeState,
        block: u32,
        levels: usize,
        range: Range<u64>,
    ) -> Result<bool> {
        let volume = self.operation.volume();
        let frame = self.read(node, block)?;
        let bytes = frame.bytes();
        let below = span(volume, levels - 1);
        let count = 1u32 << pointers_log2(volume);
        let depth = self.levels.len();
        self.levels.push(MapBlock { frame, cleared: Vec::new() });
        let mut kept = false;
        for index in 0..count {
            let found = pointer(&bytes, index);
            if found == 0 {
                continue;
            }
            let start = u64::from(index) * below;
            let (from, to) = (range.start.max(start), range.end.min(start + below));
            let gone =
                from < to && self.entry(node, found, levels - 1, from - start..to - start)?;
            match self.levels.get_mut(depth) {
                Some(here) if gone => here.cleared.push(index),
                _ => kept = true,
            }
        }
        drop(bytes);
        if !kept {
            self.flush(node)?;
            self.pause(node)?;
            self.levels.truncate(depth);
            free_map_block(self.operation, node, BlockNo(block.into()))?;
            return Ok(true);
        }
        self.clear_pointers(node);
        self.levels.truncate(depth);
        Ok(false)
    }

    /// Frees what is in `range`, slot by slot of the inode.
    fn remove(&mut self, node: &mut NodeState, range: Range<u64>) -> Result<()> {
        let mut start = 0u64;
        for slot in 0..DIRECT + 3 {
            let levels = slot.saturating_sub(DIRECT - 1) as usize;
            let length = span(self.operation.volume(), levels);
            let (from, to) = (range.start.max(start), range.end.min(start + length));
            let found = pointer(&node.inode.block, slot);
            if found != 0
                && from < to
                && self.entry(node, found, levels, from - start..to - start)?
            {
                self.operation.note_midway();
                set_pointer(&mut node.inode.block, slot, 0);
            }
            start += length;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        node: &mut NodeState,
        block: u32,
        levels: usize,
        range: Range<u64>,
    ) -> Result<bool> {
        if levels == 0 {
            self.add(node, block)?;
            return Ok(true);
        }
        self.subtree(node, block, levels, range)
    }
}

pub(super) fn remove(
    operation: &Operation<'_>,
    node: &mut NodeState,
    range: Range<u64>,
) -> Result<u64> {
    let (levels, most) = (Vec::new(), free_at_once_max(operation.volume()));
    let (pending, freed, has_met_unreadable) = (None, 0, false);
    let mut removal = Removal { operation, pending, levels, most, freed, has_met_unreadable };
    pause(operation, node, STEP)?;
    if let Err(error) = removal.remove(node, range) {
        if removal.has_met_unreadable {
            removal.stop(node)?;
        }
        return Err(error);
    }
    removal.flush(node)?;
    operation.note_whole();
    pause(operation, node, credits::STEP)?;
    Ok(removal.freed)
}
