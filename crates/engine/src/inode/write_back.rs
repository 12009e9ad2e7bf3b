//! Writing files' dirty blocks: one inode and one run at a time, with many requests under way.
//!
//! *Invariants*: with data first, an inode's blocks are submitted before its table block, and
//! announced before the map points to them. One call allocates blocks in the order of the file; one
//! that writes a piece goes on where the last one ended. A block is not written again before its
//! last write has ended. The first write error closes the latch.
//! *Locking*: the inode is locked exclusively while its runs are allocated and submitted, but not
//! while they are being written.
use crate::error::Result;
use crate::inode::credits;
use crate::inode::mapping::{self, Piece};
use crate::inode::node::{Leads, Node, NodeState};
use crate::inode::operation::Operation;
use crate::inode::pages::{Found, Pages, Payload};
use crate::inode::placed::{Before, Placement};
use crate::inode::table;
use crate::inode::volume::Volume;
use crate::policy::allocation::Purpose;
use crate::policy::preset::Journal;
use crate::policy::throttle::Manner;
use crate::runs::RunSet;
use crate::space::Reservation;
use crate::store::writes::Write;
use extant_block::{REQUEST_BYTES_MAX, Urgency, blocks_per_request};
use extant_format::extent::State;
use extant_format::{BlockNo, FileBlock, Run};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a file that are submitted at most before its inode is unlocked, where files are written
/// piece by piece.
pub(crate) const PIECE_BYTES: u64 = 4 << 20;

/// Allocates a file's dirty blocks and starts to write them.
pub(crate) fn write_back(volume: &Volume, node: &Node) -> Result<()> {
    write_back_as(volume, node, Urgency::Background)
}

/// As `write_back`, for a caller that waits for the writes next. The device is told, so that it
/// does them before those that no thread waits for; but not by the systems of the posts, whose
/// commits had no such mark.
pub(crate) fn write_back_awaited(volume: &Volume, node: &Node) -> Result<()> {
    let urgency =
        if volume.store.is_of_the_posts() { Urgency::Background } else { Urgency::Awaited };
    write_back_as(volume, node, urgency)
}

fn write_back_as(volume: &Volume, node: &Node, urgency: Urgency) -> Result<()> {
    let mut state = node.state.write();
    write_blocks(volume, &node.pages, &mut state, Part { urgency, ..Part::ALL })?;
    match node.opens.load(Ordering::Acquire) {
        0 => make_map_dense(volume, &mut state),
        _ => Ok(()),
    }
}

/// Makes a map dense. Called when nothing is about to change it, since it takes time in proportion
/// to the length of the map. A map that the device does not give stays as loose as it is.
///
/// # Errors
/// `Corrupt`; what the device returns in the middle of the change, which closes the latch.
pub(crate) fn make_map_dense(volume: &Volume, state: &mut NodeState) -> Result<()> {
    if state.gone || state.density.is_dense() || volume.store.check_writable().is_err() {
        return Ok(());
    }
    let made = volume.change(credits::RUN + credits::INODE, |operation| {
        let _table = table::hold(volume, state.ino)?;
        mapping::make_dense(operation, state)?;
        state.store(operation)
    });
    match made {
        Err(error) if error.is_of_the_device() && !volume.store.latch.is_closed() => Ok(()),
        made => made,
    }
}

/// Makes a map dense that placed blocks have entered. With bigalloc all data enters blocks that
/// read as zeros, so that extents join here, perhaps after the last close; elsewhere few do.
///
/// # Errors
/// As [`make_map_dense`].
pub(crate) fn make_entered_dense(
    volume: &Volume,
    node: &Node,
    state: &mut NodeState,
) -> Result<()> {
    let is_done = state.dirty.is_empty() && state.placed.is_empty();
    let is_idle = is_done && node.opens.load(Ordering::Acquire) == 0;
    match is_idle && volume.space.unit_log2() > 0 {
        true => make_map_dense(volume, state),
        false => Ok(()),
    }
}

/// Dirty runs from which on a file may be scattered: fewer cost little to write twice.
const SCATTERED_RUNS_MIN: u64 = 64;

/// Whether a file is overwritten here and there: its dirty blocks have places, in many runs that
/// are short beside what a device writes in one request.
pub(crate) fn is_scattered(volume: &Volume, state: &NodeState) -> bool {
    let (runs, bytes) =
        (state.dirty.runs() as u64, state.dirty.len() * u64::from(volume.store.block_size()));
    runs >= SCATTERED_RUNS_MIN
        && state.delayed.is_empty()
        && bytes / runs < REQUEST_BYTES_MAX as u64 / 16
}

/// As `write_back`, for a caller that has locked the inode. Returns once the writes are under way.
pub(crate) fn write_back_locked(
    volume: &Volume,
    pages: &Pages,
    state: &mut NodeState,
) -> Result<()> {
    write_blocks(volume, pages, state, Part::ALL).map(drop)
}

/// Starts to write a piece of a file, of at most `bytes` or one block. Waits for room before it
/// locks the inode. Returns how many bytes were submitted; the next piece starts after them.
pub(crate) fn write_back_piece(volume: &Volume, node: &Node, bytes: u64) -> Result<u64> {
    volume.store.writes.wait_for_room(bytes as usize);
    let block_size = u64::from(volume.store.block_size());
    let mut state = node.state.write();
    // With a journal in the order of the file, so that no map reaches beyond the size.
    let from = match volume.store.journals() {
        true => 0,
        false => node.pages.piece_at.load(Ordering::Acquire),
    };
    let from = state.dirty.next(from).map_or(0, |_| from);
    drop_submitted(volume, &node.pages, &mut state);
    let before = state.dirty.len();
    let part = Part { from, most: (bytes / block_size).max(1), ..Part::ALL };
    let end = write_blocks(volume, &node.pages, &mut state, part)?;
    node.pages.piece_at.store(end, Ordering::Release);
    let written = before - state.dirty.len();
    if state.dirty.is_empty() && node.opens.load(Ordering::Acquire) == 0 {
        make_map_dense(volume, &mut state)?;
    }
    Ok(written * block_size)
}

/// How many runs of a file are remembered as submitted, at most.
const SUBMITTED_RUNS_MAX: usize = 1024;

/// Whether new blocks are dropped once they are written: the device has them in memory, where they
/// are read as fast, and memory that is used again costs less than new memory.
fn forgets_submitted(volume: &Volume) -> bool {
    volume.store.is_remembered
        && volume.store.journal() != Journal::Data
        && volume.store.policies.throttle.manner() == Manner::Pieces
}

/// Drops those blocks of a file whose writes have ended since they were submitted.
fn drop_submitted(volume: &Volume, pages: &Pages, state: &mut NodeState) {
    if !state.submitted.is_empty() {
        pages.drop_submitted(&mut state.submitted, &state.dirty, &volume.store.latch);
    }
}

/// What of a file is written, and whether a thread waits for it.
#[derive(Clone, Copy)]
struct Part {
    /// The first block.
    from: u64,
    /// How many dirty blocks at most.
    most: u64,
    urgency: Urgency,
}

impl Part {
    /// All that is dirty, in the background.
    const ALL: Part = Part { from: 0, most: u64::MAX, urgency: Urgency::Background };
}

/// Writes a part of a file. Returns the block at which it ended.
fn write_blocks(volume: &Volume, pages: &Pages, state: &mut NodeState, part: Part) -> Result<u64> {
    if state.dirty.is_empty() {
        return Ok(part.from);
    }
    state.before_map_change(volume, Leads::More)?;
    volume.change(STEP, |operation| {
        let submitted = submit_some(operation, pages, state, part)
            .inspect_err(|error| volume.store.latch.close(Some(error)));
        volume.pages.count_placed((state.ino, pages), state.placed.len());
        // Stored before the count falls: a thread that finds nothing dirty here finds the map
        // stored.
        let stored = submitted.and_then(|end| state.store_content(operation).map(|()| end));
        volume.pages.count_left(&volume.store, (state.ino, pages), state.dirty.len());
        stored
    })
}

/// Starts to write the one block that the content of an inode moves out to, and stores the inode:
/// with it in its map, or as it was where blocks enter the map later ([`enter_map`]).
///
/// # Errors
/// Those of writing, which close the latch.
pub(crate) fn submit_moved(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
) -> Result<()> {
    let volume = operation.volume();
    submit_some(operation, pages, state, Part::ALL)
        .inspect_err(|error| volume.store.latch.close(Some(error)))?;
    volume.pages.count_placed((state.ino, pages), state.placed.len());
    volume.pages.count_left(&volume.store, (state.ino, pages), state.dirty.len());
    if let Some(log) = volume.store.log().filter(|_| state.moving.is_none()) {
        // Whatever the journal promises of new data: this was durable in the inode.
        let under_way = Arc::clone(&pages.under_way);
        log.wait_for_data(Box::new(move || under_way.wait_for(&(0..1))));
    }
    state.store_now(operation)
}

/// Starts to write a dirty block that has a place, and has the running transaction wait for it.
/// Volumes without a journal write it later.
pub(crate) fn write_before_commit(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    block: u64,
) -> Result<()> {
    let volume = operation.volume();
    let (Some(log), Ok(number)) = (volume.store.log(), u32::try_from(block)) else {
        return Ok(());
    };
    let has_place = matches!(
        mapping::find(volume, state, FileBlock(number), 1)?,
        Piece::Run(_, State::Written)
    );
    if !has_place || !state.dirty.contains(block) {
        return Ok(());
    }
    submit_some(operation, pages, state, Part { from: block, most: 1, ..Part::ALL })
        .inspect_err(|error| volume.store.latch.close(Some(error)))?;
    volume.pages.count_placed((state.ino, pages), state.placed.len());
    volume.pages.count_left(&volume.store, (state.ino, pages), state.dirty.len());
    let under_way = Arc::clone(&pages.under_way);
    log.wait_for_data(Box::new(move || under_way.wait_for(&(block..block + 1))));
    Ok(())
}

/// Blocks of metadata that allocating one run and storing the inode change.
const STEP: u32 = credits::RUN + credits::INODE;

/// Blocks of data that one step of an operation puts into the journal, at most.
const LOGGED_AT_ONCE: u32 = 32;

/// Bytes that a handle submits at most where a commit that waits for it makes others wait: the
/// largest request of Linux 2.6.
const JBD_REQUEST_BYTES: u32 = 512 << 10;

/// Puts blocks of a file into the running transaction, with `journal=data`: from here on they are
/// frames like those of metadata.
fn log_run(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    block: FileBlock,
    run: Run,
) {
    let volume = operation.volume();
    let block_size = volume.store.block_size() as usize;
    for at in 0..run.length {
        let found = pages.at(block.0 + at);
        operation.overwrite(BlockNo(run.start.0 + u64::from(at)), |target| {
            let Some(Found { blocks, payload: Payload::Bytes(bytes) }) = found else { return };
            let start = (block.0 + at - blocks.start) as usize * block_size;
            target.copy_from_slice(&bytes[start..start + block_size]);
        });
    }
    let bytes = u64::from(run.length) * u64::from(volume.store.block_size());
    volume.store.seat.write_begins(bytes);
    volume.store.seat.write_ended(bytes);
    state.note_logged_data(volume);
}

/// Submits dirty blocks. Those submitted are neither dirty nor promised any more, even if an error
/// follows.
fn submit_some(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    part: Part,
) -> Result<u64> {
    let volume = operation.volume();
    let promised = state.delayed.len() + state.promised_map;
    let mut reservation = volume.space.adopt(promised);
    state.promised_map = 0;
    let outcome = submit_runs(operation, &mut reservation, pages, state, part);
    state.assert_consistent();
    let kept = keep_promises(volume, &mut reservation, state);
    outcome.and_then(|end| kept.map(|()| end))
}

/// Submits a part of a file. The blocks submitted are not dirty any more, so that the size that a
/// step stores counts them. Returns the block at which it ended.
fn submit_runs(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    part: Part,
) -> Result<u64> {
    let (mut at, mut left) = (part.from, part.most);
    while let Some(run) = state.dirty.next(at).filter(|_| left > 0) {
        at = run.start;
        let end = run.end.min(at.saturating_add(left));
        while at < end {
            let block = FileBlock(at as u32);
            let want = (end - at).min(u64::from(u32::MAX)) as u32;
            let store = &operation.volume().store;
            let (credits, want) = match store.journal() {
                Journal::Data => (STEP + LOGGED_AT_ONCE, want.min(LOGGED_AT_ONCE)),
                // Each page had a handle of its own, in which it could sleep in the device's queue,
                // and the pages of one request merge.
                Journal::OrderedJbd if store.chooses_at_write() => {
                    (STEP, want.min(JBD_REQUEST_BYTES / store.block_size()))
                }
                _ => (STEP, want),
            };
            operation.breathe(credits, || state.store(operation))?;
            operation.need(credits);
            let is_new = state.delayed.contains(at);
            let placed = place(operation, reservation, state, block, want)?;
            match operation.volume().store.journal() {
                Journal::Data => log_run(operation, pages, state, block, placed),
                _ => submit_run(operation.volume(), pages, block, placed, part.urgency),
            }
            let range = at..at + u64::from(placed.length);
            // What is overwritten in place may be overwritten again.
            if is_new && forgets_submitted(operation.volume()) {
                state.submitted.insert(range.clone());
            }
            if state.submitted.runs() >= SUBMITTED_RUNS_MAX {
                drop_submitted(operation.volume(), pages, state);
                // The others stay as clean blocks do.
                state.submitted = RunSet::default();
            }
            state.dirty.remove(range.clone());
            state.delayed.remove(range.clone());
            at = range.end;
        }
        left = left.saturating_sub(at - run.start);
    }
    Ok(at)
}

/// Finds places for blocks that are being written, which are all promised holes, as the systems of
/// 2007 did in the call that wrote them: between what other files and directories got before and
/// after. In memory alone, so that no map leads to what is not written. A block that gets no place
/// here gets one at write-back.
pub(crate) fn choose(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    state: &mut NodeState,
    holes: &[Range<u64>],
) {
    for hole in holes {
        let mut at = hole.start;
        while at < hole.end {
            let Ok(block) = u32::try_from(at).map(FileBlock) else { return };
            let want = u32::try_from(hole.end - at).unwrap_or(u32::MAX);
            operation.need(STEP);
            let Ok(run) = mapping::place(operation, reservation, state, block, want) else {
                return;
            };
            state.chosen.insert(block, run);
            at += u64::from(run.length.max(1));
        }
    }
}

/// Gives back the places that were chosen in a range. Their blocks stay promised.
pub(crate) fn unchoose(volume: &Volume, state: &mut NodeState, range: Range<u64>) {
    for run in state.chosen.take(range) {
        volume.space.unplace(run);
    }
}

/// Maps a stretch of blocks whose places were chosen, or allocates blocks up to the next ones that
/// have a place.
fn place_in_map(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    state: &mut NodeState,
    block: FileBlock,
    length: u32,
) -> Result<Run> {
    if let Some(chosen) = state.chosen.at(block) {
        // As much as one or two map blocks point to.
        let most = operation.volume().store.block_size() / 4;
        let run = Run { length: chosen.length.min(length).min(most.max(1)), ..chosen };
        state.chosen.take(block.0.into()..u64::from(block.0) + u64::from(run.length));
        return mapping::enter(operation, reservation, state, block, run).map(|()| run);
    }
    let next = state.chosen.next(block.0).map_or(u32::MAX, |next| next - block.0);
    let (want, purpose) = (length.min(next), Purpose::Data);
    mapping::allocate(operation, reservation, state, block, want, purpose, State::Written)
}

/// Keeps what is promised to blocks that are still dirty. If that is impossible nothing stays
/// promised, so that no more is given back later than was promised.
fn keep_promises(
    volume: &Volume,
    reservation: &mut Reservation<'_>,
    state: &mut NodeState,
) -> Result<()> {
    if state.dirty.is_empty() && state.placed.is_empty() {
        return Ok(());
    }
    let data = state.delayed.len();
    if let Err(error) = reservation.grow(data.saturating_sub(reservation.remaining())) {
        state.delayed.remove(0..u64::MAX);
        unchoose(volume, state, 0..u64::MAX);
        return Err(error);
    }
    state.promised_map = reservation.remaining() - data;
    reservation.take(reservation.remaining());
    Ok(())
}

/// Where a run of dirty blocks is written: where it already is, or where it is allocated now.
fn place(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    state: &mut NodeState,
    block: FileBlock,
    want: u32,
) -> Result<Run> {
    let volume = operation.volume();
    let enters_later = volume.store.journal() == Journal::Ordered;
    match mapping::find(volume, state, block, want)? {
        Piece::Run(run, State::Unwritten) if enters_later => {
            mapping::check_data(volume, state, run)?;
            state.placed.insert(block, Placement { run, before: Before::Unwritten });
            note_placed(volume);
            Ok(run)
        }
        // With bigalloc there are none: see `file::promise`.
        Piece::Hole(length) if enters_later && volume.space.unit_log2() == 0 => {
            let run = mapping::place(operation, reservation, state, block, length)?;
            debug_assert!(run.length <= length, "{run:?} is longer than the hole");
            reservation.take(run.length.into());
            state.placed.insert(block, Placement { run, before: Before::Hole });
            note_placed(volume);
            Ok(run)
        }
        Piece::Run(placed, State::Written) => {
            mapping::check_data(volume, state, placed)?;
            if enters_later
                && state.placed.at(block).is_none()
                && state.grows_into(volume, block, placed)
            {
                state.placed.insert(block, Placement { run: placed, before: Before::Written });
                note_placed(volume);
            }
            Ok(placed)
        }
        Piece::Run(placed, State::Unwritten) => {
            mapping::set_written(operation, reservation, state, block, placed.length)?;
            Ok(placed)
        }
        Piece::Hole(length) => {
            let placed = place_in_map(operation, reservation, state, block, length)?;
            state.moving = None;
            Ok(placed)
        }
    }
}

/// Has the thread that commits in time look later: what was placed has to enter the map by then.
fn note_placed(volume: &Volume) {
    if let Some(log) = volume.store.log() {
        log.note_change(&*volume.store.clock);
    }
}

/// Whether writes under way are waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Until they have ended.
    ForAll,
    /// No: what is under way enters the map later.
    ForNone,
    /// By the commit of the transaction in which they enter the map.
    AtCommit,
}

/// Maps the blocks that were placed and whose data is written.
///
/// # Errors
/// What closed the latch, if data could not be written; `Corrupt`; what the device returns.
pub(crate) fn enter_map(
    volume: &Volume,
    pages: &Pages,
    state: &mut NodeState,
    wait: Wait,
) -> Result<()> {
    if state.placed.is_empty() {
        return Ok(());
    }
    let ranges = ranges_to_enter(volume, pages, state, wait);
    // A write that has failed has closed it.
    volume.store.check_writable()?;
    if ranges.is_empty() {
        return Ok(());
    }
    volume.change(STEP, |operation| {
        let entered = ranges.into_iter().try_for_each(|range| {
            enter_range(operation, pages, state, range, wait)
                .inspect_err(|error| volume.store.latch.close(Some(error)))
        });
        if state.placed.is_empty() && state.dirty.is_empty() {
            volume.space.release_kept(std::mem::take(&mut state.promised_map));
        }
        volume.pages.count_placed((state.ino, pages), state.placed.len());
        entered.and_then(|()| {
            operation.need(STEP);
            state.store_content(operation)
        })
    })
}

/// What of the blocks that were placed may enter the map. After the size in the table it grows in
/// the order of the file: no block enters before those between it and that size.
fn ranges_to_enter(
    volume: &Volume,
    pages: &Pages,
    state: &NodeState,
    wait: Wait,
) -> Vec<Range<u64>> {
    let mut ranges = state.placed.ranges();
    let from = state.table_size() / u64::from(volume.store.block_size());
    let mut limit = state.dirty.next(from).map_or(u64::MAX, |run| run.start);
    match wait {
        Wait::ForAll => ranges.iter().for_each(|range| pages.under_way.wait_for(range)),
        Wait::ForNone => ranges.retain(|range| {
            let is_idle = pages.under_way.is_idle(range);
            if !is_idle && range.end > from {
                limit = limit.min(range.start.max(from));
            }
            is_idle
        }),
        Wait::AtCommit => {}
    }
    ranges.iter_mut().for_each(|range| range.end = range.end.min(limit));
    ranges.retain(|range| !range.is_empty());
    ranges
}

/// Maps what was placed in a range, step by step.
fn enter_range(
    operation: &Operation<'_>,
    pages: &Pages,
    state: &mut NodeState,
    range: Range<u64>,
    wait: Wait,
) -> Result<()> {
    let volume = operation.volume();
    let most = match state.inode.has_extents() {
        true => volume.store.superblock.blocks_per_group,
        false => volume.store.block_size() / 4,
    };
    let mut at = range.start;
    while at < range.end {
        operation.breathe(STEP, || state.store(operation))?;
        operation.need(STEP);
        let end = range.end.min(at + u64::from(most.max(1)));
        if let Some(log) = volume.store.log().filter(|_| wait == Wait::AtCommit) {
            let under_way = Arc::clone(&pages.under_way);
            let piece = at..end;
            log.wait_for_data(Box::new(move || under_way.wait_for(&piece)));
        }
        for (block, placement) in state.placed.take(at..end) {
            let Placement { run, before } = placement;
            let new = if before == Before::Hole { run.length.into() } else { 0 };
            let mut reservation = volume.space.adopt(new + state.promised_map);
            let entered = match before {
                Before::Hole => mapping::enter(operation, &mut reservation, state, block, run),
                Before::Unwritten => {
                    mapping::set_written(operation, &mut reservation, state, block, run.length)
                }
                Before::Written => Ok(()),
            };
            state.promised_map = reservation.remaining();
            reservation.take(state.promised_map);
            entered?;
            state.moving = None;
        }
        at = end;
    }
    Ok(())
}

/// Writes a file's dirty blocks, waits for them, and maps them, so that the map says everything.
/// Called before it changes in other ways. No operation is open.
pub(crate) fn write_out(volume: &Volume, pages: &Pages, state: &mut NodeState) -> Result<()> {
    write_back_locked(volume, pages, state)?;
    enter_map(volume, pages, state, Wait::ForAll)
}

/// Has a file's dirty blocks written before the running transaction is durable, so that a change
/// of names in it finds them on the disk.
pub(crate) fn write_with_names(
    volume: &Volume,
    pages: &Pages,
    state: &mut NodeState,
) -> Result<()> {
    write_back_locked(volume, pages, state)?;
    enter_map(volume, pages, state, Wait::AtCommit)
}

fn submit_run(volume: &Volume, pages: &Pages, block: FileBlock, run: Run, urgency: Urgency) {
    let block_size = volume.store.block_size() as usize;
    let per_request = blocks_per_request(block_size) as u32;
    let mut at = 0;
    while at < run.length {
        let count = per_request.min(run.length - at);
        let first = block.0 + at;
        let range = u64::from(first)..u64::from(first) + u64::from(count);
        pages.under_way.wait_for(&range);
        let offset = (run.start.0 + u64::from(at)) * block_size as u64;
        let segments = pages.segments(first..first + count, block_size);
        pages.under_way.begin(range.clone());
        let bytes = u64::from(count) * block_size as u64;
        volume.store.seat.write_begins(bytes);
        let ended = end_of(pages, volume, range, bytes);
        let write = Write { offset, segments, urgency };
        volume.store.writes.write(&*volume.store.traffic, write, ended);
        at += count;
    }
}

/// The completion of the write of a range.
fn end_of(
    pages: &Pages,
    volume: &Volume,
    range: Range<u64>,
    bytes: u64,
) -> impl FnOnce(&io::Result<()>) + Send + 'static {
    let (under_way, seat) = (Arc::clone(&pages.under_way), Arc::clone(&volume.store.seat));
    let (barrier, covered_by) = (Arc::clone(&volume.store.barrier), Arc::clone(pages.covered_by()));
    move |result| {
        covered_by.fetch_max(barrier.next(), Ordering::AcqRel);
        under_way.end(range, result);
        seat.write_ended(bytes);
    }
}
