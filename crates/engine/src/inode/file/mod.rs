//! A file's bytes: read, write, truncate, allocate, punch, find holes and data.
//!
//! *Invariants*: room for every dirty block, and for the map blocks that a map as it is needs, is
//! promised before its bytes are accepted. So write-back finds the volume full only where others
//! have made the map need more since (`keep_promises`): the file then keeps its dirty blocks. What
//! the last block of a file holds after its end is no content: it is zeroed before the file grows.
//! *Locking*: the inode is locked shared to read and exclusively to change.
mod holes;
pub(crate) mod inline;
pub(crate) mod range;
mod read;
mod remembered;

use crate::error::{Error, ErrorKind, Result};
use crate::inode::access_time;
use crate::inode::credits;
use crate::inode::mapping::{self, Piece};
use crate::inode::node::{Leads, Node, NodeState};
use crate::inode::operation::Operation;
use crate::inode::pages::{Pages, Payload, Stream};
use crate::inode::permission::{check_content, check_not_append, check_not_immutable};
use crate::inode::placed::Before;
use crate::inode::rights::RunRights;
use crate::inode::table;
use crate::inode::unfinished::{pause, remove_orphan, stop_here};
use crate::inode::volume::Volume;
use crate::inode::write_back::{unchoose, write_back_awaited, write_before_commit, write_out};
use crate::policy::allocation::Purpose;
use crate::policy::readahead::LargeReads;
use crate::space::Room;
use crate::store::DataKeeping;
use extant_block::Buffer;
use extant_format::FileBlock;
use extant_format::extent::State;
use extant_format::inode::FileType;
use extant_format::superblock::MappingKind;
use holes::{fill_holes, missing, promise};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The largest size that this file may have, in bytes.
pub(crate) fn size_max(volume: &Volume, state: &NodeState) -> u64 {
    let kind = if state.inode.has_extents() { MappingKind::Extents } else { MappingKind::Indirect };
    volume.store.superblock.max_file_size(kind)
}

/// Fails unless the inode's content is reached through a map.
fn check_mapped(state: &NodeState) -> Result<()> {
    state.check_alive()?;
    match state.file_type()? {
        FileType::Directory => Err(ErrorKind::IsDirectory.into()),
        FileType::Regular => Ok(()),
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

fn check_changeable(volume: &Volume, state: &NodeState) -> Result<()> {
    state.check_alive()?;
    check_not_immutable(state)?;
    check_mapped(state)?;
    check_content(volume, state)
}

/// What a read did.
pub(crate) struct Done {
    /// How many bytes it returned; 0 at the end of the file.
    pub(crate) bytes: usize,
    /// Whether the access time has to change, if it was a caller who read.
    pub(crate) is_access_due: bool,
}

/// Reads at `offset` as the next read of a stream: what the host has in memory from there, the rest
/// through pages.
pub(crate) fn read(
    volume: &Volume,
    node: &Node,
    stream: &Stream,
    offset: u64,
    buffer: &mut [u8],
) -> Result<Done> {
    let state = node.state.read();
    check_mapped(&state)?;
    let length = state.inode.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
    state.check_not_encrypted(volume)?;
    if let Some(data) = state.inline_data(volume)? {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
        let there = &data[from..data.len().min(from.saturating_add(length))];
        let (kept, zeros) = buffer[..length].split_at_mut(there.len());
        kept.copy_from_slice(there);
        zeros.fill(0);
        let is_access_due = access_time::is_due_now(volume, &state.inode);
        return Ok(Done { bytes: length, is_access_due });
    }
    let policy = &volume.store.policies.file_read_ahead;
    let mut reader = read::Reader::new(volume, &node.pages, &state);
    reader.call_end = offset.saturating_add(length as u64);
    let takes_whole = policy.large_reads() == LargeReads::Bypass && length >= read::LARGE_BYTES_MIN;
    let part_bytes = if takes_whole { usize::MAX } else { policy.part_bytes() as usize };
    let mut done = remembered::read(&reader, node, stream, offset, &mut buffer[..length]);
    while done < length {
        let end = reader.part_end(offset, done, length, part_bytes);
        reader.read_part(&stream.reads, offset + done as u64, &mut buffer[done..end])?;
        done = end;
    }
    // When it has been read, not before: reading takes time.
    Ok(Done { bytes: length, is_access_due: access_time::is_due_now(volume, &state.inode) })
}

/// Notes that the content changed: sets its times, and the mode that is left.
fn note_change(volume: &Volume, state: &mut NodeState, rights: RunRights) {
    let now = volume.store.now();
    state.inode.modify_time = now;
    state.inode.change_time = now;
    state.inode.mode = rights.mode_after(state.inode.mode);
}

/// Writes at `offset`. Returns how many bytes were written: fewer than given only at the largest
/// size that a file may have. Where the rights stay, so do the times, and the file may be immutable
/// by now: all of that was judged when the bytes were written to the cache they come from.
pub(crate) fn write(
    volume: &Volume,
    node: &Node,
    offset: u64,
    bytes: &[u8],
    (rights, room): (RunRights, Room),
) -> Result<usize> {
    volume.store.check_writable()?;
    let mut state = node.state.write();
    if rights == RunRights::Stay {
        check_mapped(&state)?;
        check_content(volume, &state)?;
    } else {
        check_changeable(volume, &state)?;
        if offset != state.inode.size {
            check_not_append(&state)?;
        }
    }
    if bytes.is_empty() {
        return Ok(0);
    }
    inline::move_out(volume, node, &mut state, room)?;
    let length_max = size_max(volume, &state).saturating_sub(offset);
    if length_max == 0 {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let bytes = &bytes[..bytes.len().min(usize::try_from(length_max).unwrap_or(usize::MAX))];
    if offset + bytes.len() as u64 > state.inode.size {
        finish_cut(volume, node, &mut state)?;
    }
    if volume.space.unit_log2() > 0 {
        state.before_map_change(volume, Leads::More)?;
    }
    let _table = table::hold(volume, state.ino)?;
    state.writer = volume.store.clock.process_number();
    volume.change(WRITE, |operation| {
        let lost_rights = rights.end_capability(operation, &mut state)?;
        if offset > state.inode.size {
            zero_after_end(operation, &node.pages, &mut state)?;
        }
        write_locked(operation, &node.pages, &mut state, offset, (bytes, room))?;
        if rights != RunRights::Stay {
            note_change(volume, &mut state, rights);
        }
        if offset + bytes.len() as u64 > state.inode.size {
            state.inode.size = offset + bytes.len() as u64;
            operation.note_size(state.inode.size);
        }
        match lost_rights {
            true => state.store(operation),
            false => state.store_content(operation),
        }
    })?;
    Ok(bytes.len())
}

/// Blocks of metadata that a change of bytes starts with, since attributes may have to go. What it
/// allocates or frees is counted run by run.
const WRITE: u32 = credits::CHANGE;

/// Copies the bytes into pages, after promising or allocating room. The caller sets size and times.
fn write_locked(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    offset: u64,
    (bytes, room): (&[u8], Room),
) -> Result<()> {
    let volume = operation.volume();
    let block_size = u64::from(volume.store.block_size());
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
    promise(operation, state, range.clone(), room)?;
    match volume.pages.data {
        DataKeeping::Bytes => pages.write(block_size as usize, offset, bytes),
        DataKeeping::Phantom => {
            let blocks = range.start as u32..range.end as u32;
            pages.add(blocks, &Payload::Phantom, block_size as usize);
        }
    }
    volume.pages.count((range.end - range.start) as usize);
    state.dirty.insert(range);
    volume.pages.count_dirty(&volume.store, (state.ino, pages), state.dirty.len());
    Ok(())
}

/// Brings a block that will be changed in part into memory.
fn load_for_change(volume: &Volume, pages: &Pages, state: &NodeState, block: u64) -> Result<()> {
    let Ok(block) = u32::try_from(block) else {
        return Err(ErrorKind::FileTooLarge.into());
    };
    if !read::bring(volume, pages, state, block)? {
        let block_size = volume.store.block_size() as usize;
        let zeros = match volume.pages.data {
            DataKeeping::Bytes => Payload::Bytes(Arc::new(Buffer::zeros(block_size))),
            DataKeeping::Phantom => Payload::Phantom,
        };
        pages.add(block..block.saturating_add(1), &zeros, block_size);
    }
    Ok(())
}

/// Drops the pages of a range, and gives back what was promised to them.
fn forget_range(volume: &Volume, pages: &Pages, state: &mut NodeState, range: Range<u64>) {
    let given_up = state.delayed.remove(range.clone());
    volume.space.release_kept(given_up);
    state.dirty.remove(range.clone());
    state.submitted.remove(range.clone());
    unchoose(volume, state, range.clone());
    pages.under_way.wait_for(&range);
    for (_, placement) in state.placed.take(range.clone()) {
        if placement.before == Before::Hole {
            volume.space.unplace(placement.run);
            volume.space.release_kept(placement.run.length.into());
        }
    }
    volume.pages.count_placed((state.ino, pages), state.placed.len());
    if state.dirty.is_empty() && state.placed.is_empty() {
        volume.space.release_kept(std::mem::take(&mut state.promised_map));
    }
    pages.drop_range(range);
    volume.pages.count_dirty(&volume.store, (state.ino, pages), state.dirty.len());
}

/// Drops all pages of a file that is being freed, and gives back what was promised to it.
pub(crate) fn forget_all(volume: &Volume, pages: &Pages, state: &mut NodeState) {
    forget_range(volume, pages, state, 0..u64::MAX);
}

/// Sets the size in bytes: cuts the file, or extends it with a hole.
pub(crate) fn set_size(volume: &Volume, node: &Node, size: u64) -> Result<()> {
    volume.store.check_writable()?;
    let mut state = node.state.write();
    let mode = RunRights::End.mode_after(state.inode.mode);
    set_size_locked(volume, node, &mut state, size, (mode, RunRights::End))
}

/// Extends a file with a hole, unless it is longer than `known` bytes by now: then another thread
/// has written there meanwhile, and nothing changes.
pub(crate) fn extend(
    volume: &Volume,
    node: &Node,
    (known, size): (u64, u64),
    rights: RunRights,
) -> Result<()> {
    volume.store.check_writable()?;
    let mut state = node.state.write();
    if state.inode.size > known {
        return Ok(());
    }
    let mode = rights.mode_after(state.inode.mode);
    set_size_locked(volume, node, &mut state, size, (mode, rights))
}

/// As [`set_size`], for a caller that has locked the inode, and says which mode it has afterwards,
/// and what becomes of capabilities. All are stored together. Runs operations of its own.
pub(crate) fn set_size_locked(
    volume: &Volume,
    node: &Node,
    state: &mut NodeState,
    size: u64,
    (mode, rights): (u16, RunRights),
) -> Result<()> {
    check_changeable(volume, state)?;
    check_not_append(state)?;
    match size {
        0 => inline::empty(volume, node, state)?,
        _ => inline::move_out(volume, node, state, Room::Whole)?,
    }
    if size > size_max(volume, state) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    if size > state.inode.size {
        finish_cut(volume, node, state)?;
    }
    if size > 0 && size < state.inode.size {
        state.before_map_change(volume, Leads::Fewer)?;
    }
    let _table = table::hold(volume, state.ino)?;
    if size <= state.inode.size {
        let cut = size / u64::from(volume.store.block_size())..u64::MAX;
        node.pages.under_way.wait_for(&cut);
    }
    volume.change(WRITE, |operation| {
        rights.end_capability(operation, state)?;
        if size == 0 && state.inode.size > 0 {
            node.rewritten.store(true, Ordering::Release);
        }
        if size <= state.inode.size {
            zero_tail(operation, &node.pages, state, size)?;
            // The size is stored first, so that no size on disk counts the blocks that are cut off.
            if state.table_size() > size {
                state.inode.size = size;
                state.store(operation)?;
            }
            // Even if the size stays: blocks allocated after the end are freed, as in the kernel.
            match cut(operation, &node.pages, state, size) {
                // The file is as long as was asked for. The rest goes later.
                Err(_) if state.is_cut_unfinished => {}
                cut => cut?,
            }
        } else {
            zero_after_end(operation, &node.pages, state)?;
        }
        state.inode.size = size;
        operation.note_size(size);
        note_change(volume, state, RunRights::Stay);
        state.inode.mode = mode;
        state.store(operation)
    })
}

/// Removes what comes after `size`, and takes the inode off the list of orphans. Where a part
/// cannot be read, the inode stays there, stored with its new size: then the cut is unfinished.
///
/// # Errors
/// `Corrupt` for the map; what the device returns.
fn cut(operation: &Operation<'_>, pages: &Pages, state: &mut NodeState, size: u64) -> Result<()> {
    state.is_shrinking = true;
    let outcome = shrink(operation, pages, state, size)
        .and_then(|()| remove_orphan(operation, state))
        .map_err(|error| stop_here(operation, state, error));
    state.is_shrinking = false;
    let is_left = |error: &Error| operation.is_whole() && error.is_of_the_disk();
    state.is_cut_unfinished = outcome.as_ref().is_err_and(is_left);
    outcome
}

/// Removes what an unfinished cut has left after the end. Called before the file grows, which would
/// show it again, and before the volume is closed, with no operation open.
///
/// # Errors
/// As for [`cut`].
pub(crate) fn finish_cut(volume: &Volume, node: &Node, state: &mut NodeState) -> Result<()> {
    if !state.is_cut_unfinished {
        return Ok(());
    }
    cut_rest(volume, node, state)
}

/// Removes all blocks after the end of a file, and takes it off the list of orphans. Its content
/// stays as it is, also what its last block has after the end.
///
/// # Errors
/// As for [`cut`].
pub(crate) fn cut_rest(volume: &Volume, node: &Node, state: &mut NodeState) -> Result<()> {
    let _table = table::hold(volume, state.ino)?;
    let size = state.inode.size;
    volume.change(WRITE, |operation| {
        cut(operation, &node.pages, state, size)?;
        state.store(operation)
    })
}

/// Removes what comes after `size`, in steps: with the first that is recorded, the inode becomes an
/// orphan. Leaves credits for the last step, in which the caller makes it none.
fn shrink(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    size: u64,
) -> Result<()> {
    let volume = operation.volume();
    let block_size = u64::from(volume.store.block_size());
    let range = size.div_ceil(block_size)..u64::from(u32::MAX) + 1;
    forget_range(volume, pages, state, range.clone());
    volume.space.close_window(state.ino);
    // A step that is recorded has the new size, to which recovery cuts the file.
    state.inode.size = size;
    pause(operation, state, credits::STEP)?;
    mapping::window::discard(operation, state)?;
    mapping::remove(operation, state, range, Purpose::Data)?;
    pause(operation, state, credits::STEP)
}

/// Zeroes what a block holds after `size`. With a journal these zeros are on the disk before the
/// size is, so that a file that grows again after a power cut does not show what was cut off.
fn zero_tail(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    size: u64,
) -> Result<()> {
    let volume = operation.volume();
    let block_size = u64::from(volume.store.block_size());
    zero_part(operation, pages, state, size..size.next_multiple_of(block_size))?;
    if size.is_multiple_of(block_size) || !volume.store.journals() {
        return Ok(());
    }
    write_before_commit(operation, pages, state, size / block_size)
}

/// Before a file grows past the block of its end: what that block holds after the end is to read as
/// zeros. A power cut leaves bytes there that were written and of which the size was not, and so do
/// other programs.
fn zero_after_end(operation: &Operation<'_>, pages: &Pages, state: &mut NodeState) -> Result<()> {
    let volume = operation.volume();
    let block_size = u64::from(volume.store.block_size());
    let size = state.inode.size;
    if size.is_multiple_of(block_size) || volume.pages.data == DataKeeping::Phantom {
        return Ok(());
    }
    let Ok(block) = u32::try_from(size / block_size) else { return Ok(()) };
    let within = (size % block_size) as usize;
    match read::holds_bytes(volume, pages, state, (block, within))? {
        true => zero_tail(operation, pages, state, size),
        false => Ok(()),
    }
}

/// Zeroes bytes within one block, if it holds any data.
fn zero_part(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    bytes: Range<u64>,
) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let volume = operation.volume();
    let block_size = u64::from(volume.store.block_size());
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
        write_locked(operation, pages, state, bytes.start, (&zeros, Room::Whole))?;
    }
    Ok(())
}

/// Whether allocating beyond the end changes the size of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// The file grows to include what was allocated.
    Grow,
    /// The size stays as it is.
    Keep,
}

/// Allocates blocks that read as zeros for all holes of a range.
pub(crate) fn allocate(
    volume: &Volume,
    node: &Node,
    offset: u64,
    length: u64,
    (size, rights, room): (Size, RunRights, Room),
) -> Result<()> {
    volume.store.check_writable()?;
    let mut state = node.state.write();
    check_changeable(volume, &state)?;
    check_not_append(&state)?;
    let Some(end) = offset.checked_add(length) else {
        return Err(ErrorKind::FileTooLarge.into());
    };
    if length == 0 {
        return Err(ErrorKind::InvalidArgument("nothing to allocate").into());
    }
    inline::move_out(volume, node, &mut state, room)?;
    if !state.inode.has_extents() {
        return Err(
            ErrorKind::OperationUnsupported("blocks that read as zeros need extents").into()
        );
    }
    if end > size_max(volume, &state) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    finish_cut(volume, node, &mut state)?;
    write_out(volume, &node.pages, &mut state)?;
    state.before_map_change(volume, Leads::More)?;
    let _table = table::hold(volume, state.ino)?;
    volume.change(WRITE, |operation| {
        rights.end_capability(operation, &mut state)?;
        let block_size = u64::from(volume.store.block_size());
        let range = offset / block_size..end.div_ceil(block_size);
        let missing = missing(volume, &state, range)?;
        let need = mapping::clusters::data_need(volume, &state, &missing.holes)
            + mapping::map_need(volume, &state, &missing.holes, 0);
        let mut reservation = volume.space.reserve_within(need, room)?;
        let unwritten = State::Unwritten;
        fill_holes(operation, &mut reservation, &mut state, &missing.holes, unwritten)?;
        pause(operation, &mut state, credits::STEP)?;
        if size == Size::Grow && end > state.inode.size {
            zero_after_end(operation, &node.pages, &mut state)?;
            state.inode.size = end;
            operation.note_size(end);
        }
        note_change(volume, &mut state, rights);
        state.store(operation)
    })
}

/// Bytes of a page of memory, as Linux has them on most machines.
const PAGE_BYTES: u64 = 4096;

/// Makes a hole: whole blocks are freed, bytes in other blocks are zeroed. The size stays.
pub(crate) fn punch(
    volume: &Volume,
    node: &Node,
    offset: u64,
    length: u64,
    rights: RunRights,
) -> Result<()> {
    volume.store.check_writable()?;
    let mut state = node.state.write();
    check_changeable(volume, &state)?;
    check_not_append(&state)?;
    if length == 0 {
        return Err(ErrorKind::InvalidArgument("nothing to punch").into());
    }
    inline::move_out(volume, node, &mut state, Room::Whole)?;
    let block_size = u64::from(volume.store.block_size());
    let size = state.inode.size;
    let asked = offset.saturating_add(length);
    // As in Linux: a hole that reaches past the end of the file takes the rest of its last page.
    let rounded = size.checked_next_multiple_of(block_size.max(PAGE_BYTES)).unwrap_or(u64::MAX);
    let bytes = offset..if asked > size { rounded } else { asked };
    let whole = bytes.start.div_ceil(block_size)..bytes.end / block_size;
    let is_inside = offset < size;
    let frees = is_inside && whole.start <= whole.end;
    if frees {
        write_out(volume, &node.pages, &mut state)?;
        state.before_map_change(volume, Leads::Fewer)?;
    }
    let _table = table::hold(volume, state.ino)?;
    volume.change(WRITE, |operation| {
        rights.end_capability(operation, &mut state)?;
        if frees {
            punch_blocks(operation, &node.pages, &mut state, bytes, whole)?;
        } else if is_inside {
            zero_part(operation, &node.pages, &mut state, bytes)?;
        }
        note_change(volume, &mut state, rights);
        state.store(operation)
    })
}

/// Frees the blocks `whole`, and zeroes the other bytes of `bytes`.
fn punch_blocks(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    bytes: Range<u64>,
    whole: Range<u64>,
) -> Result<()> {
    let volume = operation.volume();
    let block_size = u64::from(volume.store.block_size());
    // Room for a split extent is promised before anything changes.
    let mut reservation = mapping::reserve_removal(volume, state, &whole)?;
    zero_part(operation, pages, state, bytes.start..whole.start * block_size)?;
    zero_part(operation, pages, state, whole.end * block_size..bytes.end)?;
    forget_range(volume, pages, state, whole.clone());
    mapping::remove_reserved(operation, &mut reservation, state, whole, Purpose::Data)?;
    pause(operation, state, credits::STEP)
}

/// The next range of bytes at or after `offset` that may hold data; `None` if only a hole is left.
pub(crate) fn next_data(volume: &Volume, node: &Node, offset: u64) -> Result<Option<Range<u64>>> {
    let state = node.state.read();
    check_mapped(&state)?;
    let block_size = u64::from(volume.store.block_size());
    let size = state.inode.size;
    if offset >= size {
        return Ok(None);
    }
    if state.inode.is_inline(&volume.store.superblock) {
        return Ok(Some(offset..size));
    }
    let blocks = size.div_ceil(block_size);
    let mut at = offset / block_size;
    let mut data: Option<Range<u64>> = None;
    while at < blocks {
        let Ok(block) = u32::try_from(at) else { break };
        let dirty = state.dirty.next(at);
        let (has_data, after) = match &dirty {
            Some(run) if run.start == at => (true, run.end.min(blocks)),
            _ => {
                let end = dirty.map_or(blocks, |run| run.start.min(blocks));
                let max = (end - at).min(u64::from(u32::MAX)) as u32;
                let piece = mapping::find(volume, &state, FileBlock(block), max)?;
                (matches!(piece, Piece::Run(_, State::Written)), at + u64::from(piece.length()))
            }
        };
        match (&mut data, has_data) {
            (None, true) => data = Some(at..after),
            (Some(data), true) => data.end = after,
            (Some(_), false) => break,
            (None, false) => {}
        }
        at = after;
    }
    Ok(data.map(|data| (data.start * block_size).max(offset)..(data.end * block_size).min(size)))
}

/// What a sync of one inode makes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durable {
    /// Its data, and what is needed to read that again.
    Data,
    /// That, and its inode.
    All,
}

/// Writes a file's blocks and its inode, and waits until they are durable.
pub(crate) fn sync(volume: &Volume, node: &Node, what: Durable) -> Result<()> {
    write_back_awaited(volume, node)?;
    if volume.store.journals() {
        node.pages.under_way.wait_for(&(0..u64::MAX));
        volume.store.latch.check()?;
        let mut state = node.state.write();
        // What another thread has written meanwhile would keep later blocks out of the map.
        write_out(volume, &node.pages, &mut state)?;
        let transaction = match what {
            Durable::Data => state.mapped_in,
            Durable::All => state.changed_in,
        };
        drop(state);
        if let Some(transaction) = transaction {
            volume.space.commit(transaction)?;
        }
        let covered_by = node.pages.covered_by().load(Ordering::Acquire);
        return volume.store.barrier.pass_to(covered_by);
    }
    let mut state = node.state.write();
    if volume.unstored.inodes.lock().contains_key(&node.ino) {
        volume.change(credits::INODE, |operation| state.store_now(operation))?;
    }
    drop(state);
    volume.space.sync_for_inode()
}
