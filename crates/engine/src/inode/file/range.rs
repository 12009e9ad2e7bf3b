//! Ranges of a file that are zeroed, taken out or pushed in; and where data and holes begin.
//!
//! *Invariants*: what can be refused is refused, and room promised, before the first change.
//! Zeroing marks blocks as unwritten, in place: after a power cut a block shows its old bytes or
//! zeros. Collapsing and inserting write a new map (`mapping::rewrite`), which becomes that of the
//! file with the one write of the inode that changes its size too.
//! *Locking*: the inode is held exclusively to change, shared to look.
use super::{
    Size, check_changeable, check_mapped, check_sized, forget_range, missing, note_change,
    size_max, zero_part,
};
use crate::error::{ErrorKind, Result};
use crate::inode::mapping::rewrite::Rewrite;
use crate::inode::mapping::{self, Leads, Piece};
use crate::inode::permission::{self, check_not_append};
use crate::inode::write_back::write_back_locked;
use crate::inode::{Node, NodeState};
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_format::FileBlock;
use extant_format::extent::State;
use std::ops::Range;

/// Fails unless ranges of this file may be changed: it has extents, and is neither immutable nor
/// append-only.
fn check_ranges(volume: &Volume, state: &NodeState, length: u64) -> Result<()> {
    state.check_alive()?;
    if length == 0 {
        return Err(ErrorKind::InvalidArgument("a range of no bytes").into());
    }
    check_not_append(state)?;
    check_changeable(state)?;
    check_sized(state)?;
    if !state.inode.has_extents() {
        return Err(ErrorKind::OperationUnsupported("ranges need a map of extents").into());
    }
    debug_assert!(size_max(volume, state) > 0, "every map has room for something");
    Ok(())
}

/// The blocks of a range whose ends lie between blocks.
fn whole_blocks(volume: &Volume, offset: u64, length: u64) -> Result<Range<u64>> {
    let block_size = u64::from(volume.block_size());
    if !offset.is_multiple_of(block_size) || !length.is_multiple_of(block_size) {
        return Err(ErrorKind::InvalidArgument("not at the boundary of a block").into());
    }
    let end = offset.checked_add(length).ok_or(ErrorKind::FileTooLarge)?;
    Ok(offset / block_size..end / block_size)
}

/// Makes a range read as zeros, with blocks for all of it that need not be written.
pub(crate) fn zero(
    volume: &Volume,
    node: &Node,
    offset: u64,
    length: u64,
    size: Size,
) -> Result<()> {
    volume.check_writable()?;
    let mut state = node.state.write();
    let state = &mut *state;
    check_ranges(volume, state, length)?;
    let end = offset.checked_add(length).ok_or(ErrorKind::FileTooLarge)?;
    if end > size_max(volume, state) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    permission::remove_capability(volume, state)?;
    write_back_locked(volume, &node.pages, state)?;
    state.before_map_change(&Handle::begin(volume, 2)?, Leads::More)?;
    let block_size = u64::from(volume.block_size());
    let whole = offset.div_ceil(block_size)..end / block_size;
    let missing = missing(volume, state, offset / block_size..end.div_ceil(block_size))?;
    let splits = written_runs(volume, state, whole.clone())?;
    let blocks = missing.blocks();
    let need = blocks
        + mapping::map_need(volume, state, &missing.holes, 0)
        + mapping::map_need(volume, state, &[], splits);
    let mut reservation = volume.groups.reserve(volume, need)?;
    super::fill_holes(volume, &mut reservation, state, &missing.holes, State::Unwritten)?;
    zero_edges(volume, node, state, offset..end)?;
    if !whole.is_empty() {
        forget_range(volume, &node.pages, state, whole.clone());
    }
    let handle = Handle::begin(volume, 16)?;
    if !whole.is_empty() {
        mapping::set_unwritten(&handle, &mut reservation, state, whole)?;
    }
    if size == Size::Grow && end > state.inode.size {
        state.inode.size = end;
        volume.note_file_size(end);
    }
    note_change(volume, state);
    state.store(&handle)
}

/// Zeros the parts of blocks at the ends of a range.
fn zero_edges(
    volume: &Volume,
    node: &Node,
    state: &mut NodeState,
    bytes: Range<u64>,
) -> Result<()> {
    let block_size = u64::from(volume.block_size());
    let (first, last) = (bytes.start.div_ceil(block_size), bytes.end / block_size);
    if first > last {
        return zero_part(volume, &node.pages, state, bytes);
    }
    zero_part(volume, &node.pages, state, bytes.start..first * block_size)?;
    zero_part(volume, &node.pages, state, last * block_size..bytes.end)
}

/// Stretches of a range that are mapped and written: each may split its extent at both ends.
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

/// Takes a range out: what comes after it moves to its start, and the file becomes shorter.
pub(crate) fn collapse(volume: &Volume, node: &Node, offset: u64, length: u64) -> Result<()> {
    volume.check_writable()?;
    let mut state = node.state.write();
    let state = &mut *state;
    check_ranges(volume, state, length)?;
    let blocks = whole_blocks(volume, offset, length)?;
    if offset.saturating_add(length) >= state.inode.size {
        return Err(ErrorKind::InvalidArgument("the range reaches the end of the file").into());
    }
    let size = state.inode.size - length;
    rearrange(volume, node, state, (offset, size), |map| {
        map.collapse(blocks);
        Ok(())
    })
}

/// Pushes a hole in: what is at the offset and after it moves up, and the file becomes longer.
pub(crate) fn insert(volume: &Volume, node: &Node, offset: u64, length: u64) -> Result<()> {
    volume.check_writable()?;
    let mut state = node.state.write();
    let state = &mut *state;
    check_ranges(volume, state, length)?;
    let blocks = whole_blocks(volume, offset, length)?;
    let size = state.inode.size.checked_add(length).ok_or(ErrorKind::FileTooLarge)?;
    if size > size_max(volume, state) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    if offset >= state.inode.size {
        return Err(ErrorKind::InvalidArgument("the range begins after the file").into());
    }
    rearrange(volume, node, state, (offset, size), |map| {
        map.insert(blocks.start, blocks.end - blocks.start)
    })
}

/// Changes the map from an offset on, and the size, at once.
fn rearrange(
    volume: &Volume,
    node: &Node,
    state: &mut NodeState,
    (offset, size): (u64, u64),
    change: impl FnOnce(&mut Rewrite) -> Result<()>,
) -> Result<()> {
    permission::remove_capability(volume, state)?;
    write_back_locked(volume, &node.pages, state)?;
    let mut map = Rewrite::read(volume, state)?;
    change(&mut map)?;
    let mut reservation = volume.groups.reserve(volume, map.need(volume, state))?;
    // Everything is written back: what is dropped here is what the device has.
    let moved = offset / u64::from(volume.block_size());
    forget_range(volume, &node.pages, state, moved..u64::MAX);
    volume.groups.close_window(state.ino);
    let handle = Handle::begin(volume, 16)?;
    mapping::window::discard(&handle, state)?;
    map.apply(&handle, &mut reservation, state)?;
    state.inode.size = size;
    volume.note_file_size(size);
    note_change(volume, state);
    state.store(&handle)
}

/// What a stretch of a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Written blocks, and what waits to be written.
    Data,
    /// Nothing, or blocks that read as zeros.
    Hole,
}

/// The first byte at or after an offset where a stretch of this kind begins; `None` from the end of
/// the file on, where `Data` has none either. The end of the file is the last hole.
pub(crate) fn seek(
    volume: &Volume,
    node: &Node,
    offset: u64,
    wanted: Content,
) -> Result<Option<u64>> {
    let state = node.state.read();
    check_mapped(&state)?;
    let block_size = u64::from(volume.block_size());
    let size = state.inode.size;
    if offset >= size {
        return Ok(None);
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

/// What a range of blocks begins with, and where that ends.
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
