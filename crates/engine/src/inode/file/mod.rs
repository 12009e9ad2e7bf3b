//! A file's bytes: read, write, truncate, allocate, punch, find holes and data.
//!
//! *Invariants*: room for every dirty block is promised before its bytes are taken, so that
//! write-back never meets a full disk; bytes behind the end of a file, in its last block, are zero
//! on the disk.
//! *Locking*: the inode is held shared to read and exclusively to change.
mod arrivals;
pub(crate) mod range;
mod read;

pub(crate) use arrivals::Arrivals;
pub(crate) use read::read;

use crate::error::{ErrorKind, Result};
use crate::inode::mapping::{self, Leads, Piece};
use crate::inode::pages::{Pages, Payload};
use crate::inode::permission::{self, check_not_append, check_not_immutable};
use crate::inode::write_back::{write_back, write_back_locked};
use crate::inode::{Node, NodeState};
use crate::policy::allocation::Purpose;
use crate::space::Reservation;
use crate::store::handle::Handle;
use crate::volume::{DataKeeping, Volume};
use extant_format::FileBlock;
use extant_format::extent::State;
use extant_format::inode::FileType;
use extant_format::superblock::MappingKind;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The largest size that this file may have.
pub(crate) fn size_max(volume: &Volume, state: &NodeState) -> u64 {
    let kind = if state.inode.has_extents() { MappingKind::Extents } else { MappingKind::Indirect };
    volume.superblock.max_file_size(kind)
}

/// Fails unless the inode has a map of bytes.
fn check_mapped(state: &NodeState) -> Result<()> {
    state.check_alive()?;
    match state.file_type()? {
        FileType::Directory => Err(ErrorKind::IsDirectory.into()),
        FileType::Regular | FileType::Symlink => Ok(()),
        _ => Err(ErrorKind::InvalidArgument("not a regular file").into()),
    }
}

/// Fails unless the inode has a size that may be set.
pub(crate) fn check_sized(state: &NodeState) -> Result<()> {
    match state.file_type()? {
        FileType::Directory => Err(ErrorKind::IsDirectory.into()),
        FileType::Regular => Ok(()),
        _ => Err(ErrorKind::InvalidArgument("not a regular file").into()),
    }
}

fn check_changeable(state: &NodeState) -> Result<()> {
    state.check_alive()?;
    check_not_immutable(state)?;
    check_mapped(state)
}

/// The content changed: so do its times, and nobody runs it with another's rights any more.
fn note_change(volume: &Volume, state: &mut NodeState) {
    let now = volume.now();
    state.inode.modify_time = now;
    state.inode.change_time = now;
    state.inode.mode = permission::without_set_id(state.inode.mode);
}

/// Writes at `offset`; gives how many bytes, fewer than asked only at the largest size a file may
/// have.
pub(crate) fn write(volume: &Volume, node: &Node, offset: u64, bytes: &[u8]) -> Result<usize> {
    volume.check_writable()?;
    let mut state = node.state.write();
    check_changeable(&state)?;
    if offset != state.inode.size {
        check_not_append(&state)?;
    }
    if bytes.is_empty() {
        return Ok(0);
    }
    let room = size_max(volume, &state).saturating_sub(offset);
    if room == 0 {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
    permission::remove_capability(volume, &mut state)?;
    write_locked(volume, &node.pages, &mut state, offset, bytes)?;
    note_change(volume, &mut state);
    if offset + bytes.len() as u64 > state.inode.size {
        state.inode.size = offset + bytes.len() as u64;
        volume.note_file_size(state.inode.size);
    }
    state.store(&Handle::begin(volume, 2)?)?;
    Ok(bytes.len())
}

/// Takes the bytes into pages, with room promised or given. Size and times are the caller's.
fn write_locked(
    volume: &Volume,
    pages: &Pages,
    state: &mut NodeState,
    offset: u64,
    bytes: &[u8],
) -> Result<()> {
    let block_size = u64::from(volume.block_size());
    let end = offset + bytes.len() as u64;
    let range = offset / block_size..end.div_ceil(block_size);
    if !offset.is_multiple_of(block_size)
        || range.end == range.start + 1 && !end.is_multiple_of(block_size)
    {
        load_for_change(volume, pages, state, range.start)?;
    }
    if !end.is_multiple_of(block_size) && range.end > range.start + 1 {
        load_for_change(volume, pages, state, range.end - 1)?;
    }
    promise(volume, state, range.clone())?;
    let mut at = 0;
    while at < bytes.len() {
        let position = offset + at as u64;
        let within = (position % block_size) as usize;
        let length = (bytes.len() - at).min(block_size as usize - within);
        let block = (position / block_size) as u32;
        match volume.data {
            DataKeeping::Bytes => {
                pages.write(block, block_size as usize, within, &bytes[at..at + length])
            }
            DataKeeping::Phantom => pages.insert(block, Payload::Phantom),
        }
        at += length;
    }
    volume.count_pages((range.end - range.start) as usize);
    state.dirty.insert(range);
    volume.note_dirty(pages, state);
    Ok(())
}

/// Brings a block that is changed in part into memory.
fn load_for_change(volume: &Volume, pages: &Pages, state: &NodeState, block: u64) -> Result<()> {
    let Ok(block) = u32::try_from(block) else {
        return Err(ErrorKind::FileTooLarge.into());
    };
    if read::page(volume, pages, state, block)?.is_none() {
        let zeros = match volume.data {
            DataKeeping::Bytes => Payload::Bytes(Arc::new(vec![0; volume.block_size() as usize])),
            DataKeeping::Phantom => Payload::Phantom,
        };
        pages.insert(block, zeros);
    }
    Ok(())
}

/// What a range of a file lacks before it can be written.
struct Missing {
    holes: Vec<Range<u64>>,
    /// Stretches of blocks that are allocated and read as zeros: writing them may split their
    /// extents.
    unwritten: u64,
}

impl Missing {
    fn blocks(&self) -> u64 {
        self.holes.iter().map(|hole| hole.end - hole.start).sum()
    }
}

/// What a range lacks. Blocks that are dirty have what they need, or it is promised to them.
fn missing(volume: &Volume, state: &NodeState, range: Range<u64>) -> Result<Missing> {
    let mut missing = Missing { holes: Vec::new(), unwritten: 0 };
    let mut at = range.start;
    while at < range.end {
        let dirty = state.dirty.next(at);
        if let Some(dirty) = &dirty
            && dirty.start == at
        {
            at = dirty.end;
            continue;
        }
        let Ok(block) = u32::try_from(at) else {
            return Err(ErrorKind::FileTooLarge.into());
        };
        let end = dirty.map_or(range.end, |dirty| dirty.start.min(range.end));
        let max = (end - at).min(u64::from(u32::MAX)) as u32;
        let piece = mapping::find(volume, state, FileBlock(block), max)?;
        let behind = at + u64::from(piece.length());
        match (piece, missing.holes.last_mut()) {
            (Piece::Hole(_), Some(hole)) if hole.end == at => hole.end = behind,
            (Piece::Hole(_), _) => missing.holes.push(at..behind),
            (Piece::Run(_, State::Unwritten), _) => missing.unwritten += 1,
            (Piece::Run(..), _) => {}
        }
        at = behind;
    }
    Ok(missing)
}

/// Promises room for a write, or gives the blocks at once where the policy does. This decides
/// ENOSPC.
fn promise(volume: &Volume, state: &mut NodeState, range: Range<u64>) -> Result<()> {
    let Missing { holes, unwritten } = missing(volume, state, range)?;
    if holes.is_empty() && unwritten == 0 {
        return Ok(());
    }
    let blocks: u64 = holes.iter().map(|hole| hole.end - hole.start).sum();
    let new_map = mapping::map_need(volume, state, &holes, 0);
    let split_map = mapping::map_need(volume, state, &[], unwritten);
    let mut reservation = volume.groups.reserve(volume, blocks + new_map + split_map)?;
    // Stretches are split when they are written back, whatever the policy.
    reservation.take(split_map);
    state.promised_map += split_map;
    if volume.delays_allocation() {
        reservation.take(blocks + new_map);
        state.promised_map += new_map;
        for hole in holes {
            state.delayed.insert(hole);
        }
        return Ok(());
    }
    fill_holes(volume, &mut reservation, state, &holes, State::Written)
}

/// Gives blocks to all of these holes, or, if it fails, to none.
fn fill_holes(
    volume: &Volume,
    reservation: &mut Reservation<'_>,
    state: &mut NodeState,
    holes: &[Range<u64>],
    written: State,
) -> Result<()> {
    let handle = Handle::begin(volume, 16)?;
    let mut filled = Vec::new();
    for hole in holes {
        let mut at = hole.start;
        while at < hole.end {
            let (block, want) =
                (FileBlock(at as u32), (hole.end - at).min(u64::from(u32::MAX)) as u32);
            match mapping::allocate(
                &handle,
                reservation,
                state,
                block,
                want,
                Purpose::Data,
                written,
            ) {
                Ok(run) => {
                    filled.push(at..at + u64::from(run.length));
                    at += u64::from(run.length);
                }
                Err(error) => {
                    // Nothing was written to them yet: what they hold belongs to somebody else.
                    for range in filled {
                        mapping::remove(&handle, state, range, Purpose::Data)?;
                    }
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Gives back what was promised to blocks that will not be written.
fn forget_range(volume: &Volume, pages: &Pages, state: &mut NodeState, range: Range<u64>) {
    let given_up = state.delayed.remove(range.clone());
    volume.groups.release(given_up);
    state.dirty.remove(range.clone());
    if state.dirty.is_empty() {
        volume.groups.release(std::mem::take(&mut state.promised_map));
    }
    pages.under_way.wait_for(&range);
    pages.drop_range(range);
    volume.note_dirty(pages, state);
}

/// Gives back everything that is promised to a file that goes away.
pub(crate) fn forget_all(volume: &Volume, pages: &Pages, state: &mut NodeState) {
    forget_range(volume, pages, state, 0..u64::MAX);
}

/// Sets the size: cuts the file, or lets it end in a hole.
pub(crate) fn set_size(volume: &Volume, node: &Node, size: u64) -> Result<()> {
    volume.check_writable()?;
    set_size_locked(volume, node, &mut node.state.write(), size)
}

/// The same for a caller who holds the inode.
pub(crate) fn set_size_locked(
    volume: &Volume,
    node: &Node,
    state: &mut NodeState,
    size: u64,
) -> Result<()> {
    check_changeable(state)?;
    check_not_append(state)?;
    if size > size_max(volume, state) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    permission::remove_capability(volume, state)?;
    if size == 0 && state.inode.size > 0 {
        node.rewritten.store(true, Ordering::Release);
    }
    if size > 0 && size < state.inode.size {
        state.before_map_change(&Handle::begin(volume, 2)?, Leads::Fewer)?;
    }
    if size <= state.inode.size {
        // The size goes first: no size on the disk counts on what is cut off.
        if state.table_size() > size {
            state.inode.size = size;
            state.store(&Handle::begin(volume, 2)?)?;
        }
        // Also where the size stays: blocks that were allocated behind the end go, as in the
        // kernel.
        shrink(volume, &node.pages, state, size)?;
    }
    state.inode.size = size;
    volume.note_file_size(size);
    note_change(volume, state);
    state.store(&Handle::begin(volume, 2)?)
}

fn shrink(volume: &Volume, pages: &Pages, state: &mut NodeState, size: u64) -> Result<()> {
    let block_size = u64::from(volume.block_size());
    zero_part(volume, pages, state, size..size.next_multiple_of(block_size))?;
    let range = size.div_ceil(block_size)..u64::from(u32::MAX) + 1;
    forget_range(volume, pages, state, range.clone());
    let handle = Handle::begin(volume, 8)?;
    volume.groups.close_window(state.ino);
    mapping::window::discard(&handle, state)?;
    mapping::remove(&handle, state, range, Purpose::Data)?;
    Ok(())
}

/// Zeros bytes within one block, if it holds any data.
fn zero_part(
    volume: &Volume,
    pages: &Pages,
    state: &mut NodeState,
    bytes: Range<u64>,
) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let block_size = u64::from(volume.block_size());
    let block = bytes.start / block_size;
    let Ok(number) = u32::try_from(block) else {
        return Ok(());
    };
    let in_memory = state.dirty.contains(block);
    let on_disk = matches!(
        mapping::find(volume, state, FileBlock(number), 1)?,
        Piece::Run(_, State::Written)
    );
    if in_memory || on_disk {
        let zeros = vec![0; (bytes.end - bytes.start) as usize];
        write_locked(volume, pages, state, bytes.start, &zeros)?;
    }
    Ok(())
}

/// Whether allocation beyond the end makes the file longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// The file grows to cover what was allocated.
    Grow,
    /// The size stays.
    Keep,
}

/// Allocates blocks that read as zeros for all holes of a range.
pub(crate) fn allocate(
    volume: &Volume,
    node: &Node,
    offset: u64,
    length: u64,
    size: Size,
) -> Result<()> {
    volume.check_writable()?;
    let mut state = node.state.write();
    check_changeable(&state)?;
    check_not_append(&state)?;
    let Some(end) = offset.checked_add(length) else {
        return Err(ErrorKind::FileTooLarge.into());
    };
    if length == 0 {
        return Err(ErrorKind::InvalidArgument("nothing to allocate").into());
    }
    if !state.inode.has_extents() {
        return Err(
            ErrorKind::OperationUnsupported("blocks that read as zeros need extents").into()
        );
    }
    if end > size_max(volume, &state) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    permission::remove_capability(volume, &mut state)?;
    write_back_locked(volume, &node.pages, &mut state)?;
    state.before_map_change(&Handle::begin(volume, 2)?, Leads::More)?;
    let block_size = u64::from(volume.block_size());
    let range = offset / block_size..end.div_ceil(block_size);
    let missing = missing(volume, &state, range)?;
    let need = missing.blocks() + mapping::map_need(volume, &state, &missing.holes, 0);
    let mut reservation = volume.groups.reserve(volume, need)?;
    fill_holes(volume, &mut reservation, &mut state, &missing.holes, State::Unwritten)?;
    if size == Size::Grow && end > state.inode.size {
        state.inode.size = end;
        volume.note_file_size(end);
    }
    note_change(volume, &mut state);
    state.store(&Handle::begin(volume, 2)?)
}

/// Bytes of a page of Linux on most machines.
const PAGE_BYTES: u64 = 4096;

/// Makes a hole: whole blocks are freed, the rest is zeroed. The size stays.
pub(crate) fn punch(volume: &Volume, node: &Node, offset: u64, length: u64) -> Result<()> {
    volume.check_writable()?;
    let mut state = node.state.write();
    check_changeable(&state)?;
    check_not_append(&state)?;
    if length == 0 {
        return Err(ErrorKind::InvalidArgument("nothing to punch").into());
    }
    permission::remove_capability(volume, &mut state)?;
    let block_size = u64::from(volume.block_size());
    // As in Linux: what reaches past the end of the file takes the rest of its last page with it.
    let last = state.inode.size.next_multiple_of(block_size.max(PAGE_BYTES));
    let end = match offset.saturating_add(length) {
        end if end > state.inode.size => last,
        end => end,
    };
    if offset < state.inode.size {
        punch_range(volume, &node.pages, &mut state, offset..end)?;
    }
    note_change(volume, &mut state);
    state.store(&Handle::begin(volume, 2)?)
}

fn punch_range(
    volume: &Volume,
    pages: &Pages,
    state: &mut NodeState,
    bytes: Range<u64>,
) -> Result<()> {
    let block_size = u64::from(volume.block_size());
    let (first_whole, end_whole) = (bytes.start.div_ceil(block_size), bytes.end / block_size);
    if first_whole > end_whole {
        return zero_part(volume, pages, state, bytes);
    }
    // Room for a split extent is promised before anything changes.
    let whole = first_whole..end_whole;
    write_back_locked(volume, pages, state)?;
    state.before_map_change(&Handle::begin(volume, 2)?, Leads::Fewer)?;
    let mut reservation = mapping::reserve_removal(volume, state, &whole)?;
    zero_part(volume, pages, state, bytes.start..first_whole * block_size)?;
    zero_part(volume, pages, state, end_whole * block_size..bytes.end)?;
    forget_range(volume, pages, state, whole.clone());
    let handle = Handle::begin(volume, 8)?;
    mapping::remove_reserved(&handle, &mut reservation, state, whole, Purpose::Data)?;
    Ok(())
}

/// The next byte at or after `offset` that may hold data, and where that data ends; `None` when
/// only a hole is left.
pub(crate) fn next_data(volume: &Volume, node: &Node, offset: u64) -> Result<Option<Range<u64>>> {
    let state = node.state.read();
    check_mapped(&state)?;
    let block_size = u64::from(volume.block_size());
    let size = state.inode.size;
    if offset >= size {
        return Ok(None);
    }
    let blocks = size.div_ceil(block_size);
    let mut at = offset / block_size;
    let mut data: Option<Range<u64>> = None;
    while at < blocks {
        let Ok(block) = u32::try_from(at) else { break };
        let dirty = state.dirty.next(at);
        let (has_data, behind) = match &dirty {
            Some(run) if run.start == at => (true, run.end.min(blocks)),
            _ => {
                let end = dirty.map_or(blocks, |run| run.start.min(blocks));
                let max = (end - at).min(u64::from(u32::MAX)) as u32;
                let piece = mapping::find(volume, &state, FileBlock(block), max)?;
                (matches!(piece, Piece::Run(_, State::Written)), at + u64::from(piece.length()))
            }
        };
        match (&mut data, has_data) {
            (None, true) => data = Some(at..behind),
            (Some(data), true) => data.end = behind,
            (Some(_), false) => break,
            (None, false) => {}
        }
        at = behind;
    }
    Ok(data.map(|data| (data.start * block_size).max(offset)..(data.end * block_size).min(size)))
}

/// Writes a file's blocks and its inode, and waits until the device has them.
pub(crate) fn sync(volume: &Volume, node: &Node) -> Result<()> {
    write_back(volume, node)?;
    let mut state = node.state.write();
    if volume.unstored.lock().contains_key(&node.ino) {
        state.store_now(&Handle::begin(volume, 2)?)?;
    }
    drop(state);
    volume.sync_metadata()
}
