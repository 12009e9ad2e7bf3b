//! Ranges of a file: zeroing, collapsing and inserting them, and finding data and holes.
//!
//! *Invariants*: what can be refused is refused, and room promised, before the map changes. Zeroing
//! marks blocks as unwritten, in place: after a power cut a block has its old bytes or zeros.
//! Collapsing and inserting write a new map (`mapping::rewrite`), to which the inode points with
//! the same write that changes its size.
//! *Locking*: the inode is locked exclusively to change it, shared to read.
use super::holes::{fill_holes, missing};
use super::{
    Size, WRITE, allocate, check_changeable, check_mapped, check_sized, finish_cut, forget_range,
    inline, note_change, punch, size_max, zero_after_end, zero_part,
};
use crate::error::{ErrorKind, Result};
use crate::inode::credits;
use crate::inode::mapping::rewrite::{self, Rewrite, Shift};
use crate::inode::mapping::{self, Piece};
use crate::inode::node::{Leads, Node, NodeState};
use crate::inode::operation::Operation;
use crate::inode::permission::check_not_append;
use crate::inode::rights::RunRights;
use crate::inode::table;
use crate::inode::unfinished::pause;
use crate::inode::volume::Volume;
use crate::inode::write_back::write_out;
use crate::space::Room;
use extant_format::FileBlock;
use extant_format::extent::State;
use std::ops::Range;

/// What becomes of a range of a file, as `fallocate(2)` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeChange {
    /// Its holes get blocks that read as zeros (no mode, FALLOC_FL_KEEP_SIZE).
    Allocate(Size),
    /// It becomes a hole (FALLOC_FL_PUNCH_HOLE). The size stays.
    PunchHole,
    /// It reads as zeros, and has blocks (FALLOC_FL_ZERO_RANGE).
    Zero(Size),
    /// It is taken out, and what follows moves to its start (FALLOC_FL_COLLAPSE_RANGE).
    Collapse,
    /// A hole of its length moves what is there, and after it, up (FALLOC_FL_INSERT_RANGE).
    Insert,
}

/// Changes a range of a file. `rights` says what becomes of the rights that it is run with.
pub(crate) fn change(
    volume: &Volume,
    node: &Node,
    (offset, length): (u64, u64),
    (change, rights, room): (RangeChange, RunRights, Room),
) -> Result<()> {
    match change {
        RangeChange::Allocate(size) => allocate(volume, node, offset, length, (size, rights, room)),
        RangeChange::PunchHole => punch(volume, node, offset, length, rights),
        RangeChange::Zero(size) => zero(volume, node, offset, length, (size, rights, room)),
        RangeChange::Collapse => collapse(volume, node, offset, length, rights),
        RangeChange::Insert => insert(volume, node, offset, length, rights),
    }
}

/// Fails unless ranges of this file may be changed: it has extents, and is neither immutable nor
/// append-only. Content that is in its inode moves out.
fn check_ranges(volume: &Volume, node: &Node, state: &mut NodeState, length: u64) -> Result<()> {
    state.check_alive()?;
    if length == 0 {
        return Err(ErrorKind::InvalidArgument("a range of no bytes").into());
    }
    check_not_append(state)?;
    check_changeable(volume, state)?;
    check_sized(state)?;
    inline::move_out(volume, node, state, Room::Whole)?;
    if !state.inode.has_extents() {
        return Err(ErrorKind::OperationUnsupported("ranges need a map of extents").into());
    }
    debug_assert!(size_max(volume, state) > 0, "every map has room for something");
    Ok(())
}

/// The blocks of a range; fails unless it consists of whole blocks, with bigalloc of whole
/// clusters: what is moved keeps its place in them.
fn whole_blocks(volume: &Volume, offset: u64, length: u64) -> Result<Range<u64>> {
    let block_size = u64::from(volume.store.block_size());
    if !offset.is_multiple_of(block_size) || !length.is_multiple_of(block_size) {
        return Err(ErrorKind::InvalidArgument("not at the boundary of a block").into());
    }
    let cluster_size = block_size * mapping::clusters::cluster_blocks(volume);
    if !offset.is_multiple_of(cluster_size) || !length.is_multiple_of(cluster_size) {
        return Err(ErrorKind::InvalidArgument("not at the boundary of a cluster").into());
    }
    let end = offset.checked_add(length).ok_or(ErrorKind::FileTooLarge)?;
    Ok(offset / block_size..end / block_size)
}

/// Makes a range read as zeros and allocates blocks for all of it, without writing them.
fn zero(
    volume: &Volume,
    node: &Node,
    offset: u64,
    length: u64,
    (size, rights, room): (Size, RunRights, Room),
) -> Result<()> {
    volume.store.check_writable()?;
    let mut state = node.state.write();
    let state = &mut *state;
    check_ranges(volume, node, state, length)?;
    let end = offset.checked_add(length).ok_or(ErrorKind::FileTooLarge)?;
    if end > size_max(volume, state) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    finish_cut(volume, node, state)?;
    write_out(volume, &node.pages, state)?;
    state.before_map_change(volume, Leads::More)?;
    let _table = table::hold(volume, state.ino)?;
    let block_size = u64::from(volume.store.block_size());
    let whole = offset.div_ceil(block_size)..end / block_size;
    volume.change(WRITE, |operation| {
        rights.end_capability(operation, state)?;
        let missing = missing(volume, state, offset / block_size..end.div_ceil(block_size))?;
        let splits = written_runs(volume, state, whole.clone())?;
        let need = mapping::clusters::data_need(volume, state, &missing.holes)
            + mapping::map_need(volume, state, &missing.holes, splits);
        let mut reservation = volume.space.reserve_within(need, room)?;
        fill_holes(operation, &mut reservation, state, &missing.holes, State::Unwritten)?;
        zero_edges(operation, node, state, offset..end)?;
        if !whole.is_empty() {
            forget_range(volume, &node.pages, state, whole.clone());
            mapping::set_unwritten(operation, &mut reservation, state, whole)?;
        }
        pause(operation, state, credits::STEP)?;
        if size == Size::Grow && end > state.inode.size {
            zero_after_end(operation, &node.pages, state)?;
            state.inode.size = end;
            operation.note_size(end);
        }
        note_change(volume, state, rights);
        state.store(operation)
    })
}

/// Zeroes the parts of blocks at the ends of a range.
fn zero_edges(
    operation: &Operation<'_>,
    node: &Node,
    state: &mut NodeState,
    bytes: Range<u64>,
) -> Result<()> {
    let block_size = u64::from(operation.volume().store.block_size());
    let (first, last) = (bytes.start.div_ceil(block_size), bytes.end / block_size);
    if first > last {
        return zero_part(operation, &node.pages, state, bytes);
    }
    zero_part(operation, &node.pages, state, bytes.start..first * block_size)?;
    zero_part(operation, &node.pages, state, last * block_size..bytes.end)
}

/// Counts the written runs of a range: each may split its extent at both ends.
fn written_runs(volume: &Volume, state: &NodeState, range: Range<u64>) -> Result<u64> {
    let (mut at, mut runs) = (range.start, 0);
    while at < range.end {
        let block = u32::try_from(at).map_err(|_| ErrorKind::FileTooLarge)?;
        let max = (range.end - at).min(u64::from(u32::MAX)) as u32;
        let piece = mapping::find(volume, state, FileBlock(block), max)?;
        runs += u64::from(matches!(piece, Piece::Run(_, State::Written)));
        at += u64::from(piece.length().max(1));
    }
    Ok(runs)
}

/// Removes a range: what comes after it moves to its start, and the file becomes shorter.
fn collapse(
    volume: &Volume,
    node: &Node,
    offset: u64,
    length: u64,
    rights: RunRights,
) -> Result<()> {
    volume.store.check_writable()?;
    let mut state = node.state.write();
    let state = &mut *state;
    check_ranges(volume, node, state, length)?;
    let blocks = whole_blocks(volume, offset, length)?;
    if offset.saturating_add(length) >= state.inode.size {
        return Err(ErrorKind::InvalidArgument("the range reaches the end of the file").into());
    }
    let size = state.inode.size - length;
    rearrange(volume, node, state, (offset, size), &Shift::Collapse(blocks), rights)
}

/// Inserts a hole: what is at the offset and after it moves up, and the file becomes longer.
fn insert(volume: &Volume, node: &Node, offset: u64, length: u64, rights: RunRights) -> Result<()> {
    volume.store.check_writable()?;
    let mut state = node.state.write();
    let state = &mut *state;
    check_ranges(volume, node, state, length)?;
    let blocks = whole_blocks(volume, offset, length)?;
    let size = state.inode.size.checked_add(length).ok_or(ErrorKind::FileTooLarge)?;
    if size > size_max(volume, state) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    if offset >= state.inode.size {
        return Err(ErrorKind::InvalidArgument("the range begins after the file").into());
    }
    rearrange(volume, node, state, (offset, size), &Shift::Insert(blocks), rights)
}

/// Changes the map after an offset, and the size, with one write of the inode; in steps, if a
/// journal has no room for that.
fn rearrange(
    volume: &Volume,
    node: &Node,
    state: &mut NodeState,
    (offset, size): (u64, u64),
    shift: &Shift,
    rights: RunRights,
) -> Result<()> {
    finish_cut(volume, node, state)?;
    write_out(volume, &node.pages, state)?;
    let _table = table::hold(volume, state.ino)?;
    volume.change(WRITE, |operation| {
        rights.end_capability(operation, state)?;
        let mut map = Rewrite::read(volume, state)?;
        map.shift(shift)?;
        let is_long = operation.works_in_steps() && map.is_long(volume, state);
        let need = if is_long { 0 } else { map.need(volume, state) };
        let mut reservation = volume.space.reserve(need)?;
        // Everything is written back: what is dropped here is on the device.
        let moved = offset / u64::from(volume.store.block_size());
        forget_range(volume, &node.pages, state, moved..u64::MAX);
        volume.space.close_window(state.ino);
        pause(operation, state, credits::STEP)?;
        mapping::window::discard(operation, state)?;
        match is_long {
            true => rewrite::shift_in_steps(operation, state, (shift, size))?,
            false => map.apply(operation, &mut reservation, state)?,
        }
        // With the map: a step that stored one without the other would be a file that never was.
        state.inode.size = size;
        pause(operation, state, credits::STEP)?;
        operation.note_size(size);
        note_change(volume, state, rights);
        state.store(operation)
    })
}

/// Whether a part of a file has data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Written blocks, and dirty ones.
    Data,
    /// No blocks, or blocks that read as zeros.
    Hole,
}

/// The first byte at or after an offset with this content; `None` from the end of the file on, and
/// if no data follows. The end of the file counts as a hole.
pub(crate) fn seek(
    volume: &Volume,
    node: &Node,
    offset: u64,
    wanted: Content,
) -> Result<Option<u64>> {
    let state = node.state.read();
    check_mapped(&state)?;
    let block_size = u64::from(volume.store.block_size());
    let size = state.inode.size;
    if offset >= size {
        return Ok(None);
    }
    if state.inode.is_inline(&volume.store.superblock) {
        return Ok(Some(if wanted == Content::Data { offset } else { size }));
    }
    let blocks = size.div_ceil(block_size);
    let mut at = offset / block_size;
    while at < blocks {
        let (content, end) = stretch(volume, &state, at..blocks)?;
        if content == wanted {
            return Ok(Some((at * block_size).max(offset)));
        }
        at = end;
    }
    Ok((wanted == Content::Hole).then_some(size))
}

/// The content that a range of blocks begins with, and the block where that ends.
fn stretch(volume: &Volume, state: &NodeState, range: Range<u64>) -> Result<(Content, u64)> {
    let Ok(block) = u32::try_from(range.start) else {
        return Ok((Content::Hole, range.end));
    };
    let dirty = state.dirty.next(range.start);
    if let Some(run) = &dirty
        && run.start == range.start
    {
        return Ok((Content::Data, run.end.min(range.end)));
    }
    let end = dirty.map_or(range.end, |run| run.start.min(range.end));
    let max = (end - range.start).min(u64::from(u32::MAX)) as u32;
    let piece = mapping::find(volume, state, FileBlock(block), max)?;
    let content = match piece {
        Piece::Run(_, State::Written) => Content::Data,
        Piece::Run(_, State::Unwritten) | Piece::Hole(_) => Content::Hole,
    };
    Ok((content, range.start + u64::from(piece.length().max(1))))
}
