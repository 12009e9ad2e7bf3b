//! Room for what is written: what of a range has no blocks yet gets a promise of them, or blocks.
//!
//! *Locking*: the caller has locked the inode exclusively.
use crate::error::{ErrorKind, Result};
use crate::inode::credits;
use crate::inode::mapping::{self, Piece};
use crate::inode::node::NodeState;
use crate::inode::operation::Operation;
use crate::inode::unfinished::pause;
use crate::inode::volume::Volume;
use crate::inode::write_back::choose;
use crate::policy::allocation::Purpose;
use crate::space::{Reservation, Room};
use extant_format::FileBlock;
use extant_format::extent::State;
use std::ops::Range;

/// What a range of a file needs before it can be written.
pub(super) struct Missing {
    pub(super) holes: Vec<Range<u64>>,
    /// How many stretches of blocks are allocated but read as zeros. Writing them may split their
    /// extents.
    unwritten: u64,
}

/// What a range needs. Dirty blocks need nothing: it was promised or allocated.
pub(super) fn missing(volume: &Volume, state: &NodeState, range: Range<u64>) -> Result<Missing> {
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
        let after = at + u64::from(piece.length());
        match (piece, missing.holes.last_mut()) {
            (Piece::Hole(_), Some(hole)) if hole.end == at => hole.end = after,
            (Piece::Hole(_), _) => missing.holes.push(at..after),
            (Piece::Run(_, State::Unwritten), _) => missing.unwritten += 1,
            (Piece::Run(..), _) => {}
        }
        at = after;
    }
    Ok(missing)
}

/// Promises room for a write, or allocates it at once if the policy says so. This decides ENOSPC.
///
/// With bigalloc what is a hole is always allocated at once, and reads as zeros until its data is
/// written: no promise has to say which of the blocks that wait share a cluster.
pub(super) fn promise(
    operation: &Operation<'_>,
    state: &mut NodeState,
    range: Range<u64>,
    room: Room,
) -> Result<()> {
    let volume = operation.volume();
    let Missing { holes, unwritten } = missing(volume, state, range)?;
    if holes.is_empty() && unwritten == 0 {
        return Ok(());
    }
    if volume.space.unit_log2() > 0 && volume.store.delays_allocation() {
        return allocate_clusters(operation, state, &holes, room);
    }
    let blocks = mapping::clusters::data_need(volume, state, &holes);
    let new_map = mapping::map_need(volume, state, &holes, 0);
    let split_map = match volume.store.delays_allocation() || !state.inode.has_extents() {
        true => mapping::map_need(volume, state, &holes, unwritten).saturating_sub(new_map),
        // What is filled now takes the room in the map that was enough for what waits.
        false => waiting_need(volume, state, &holes).saturating_sub(state.promised_map),
    };
    let need = blocks + new_map + split_map;
    let mut reservation = volume.space.reserve_within(need, room)?;
    // The splits happen at write-back, whatever the policy.
    reservation.take(split_map);
    state.promised_map += split_map;
    if volume.store.delays_allocation() {
        reservation.take(blocks + new_map);
        state.promised_map += new_map;
        for hole in &holes {
            state.delayed.insert(hole.clone());
        }
        if volume.store.chooses_at_write() && !state.inode.has_extents() {
            choose(operation, &mut reservation, state, &holes);
        }
        return Ok(());
    }
    fill_holes(operation, &mut reservation, state, &holes, State::Written)
}

/// As [`promise`], with bigalloc. What is promised to splits is what all that waits to be written
/// needs, since the clusters of many small writes would soon be the whole volume.
fn allocate_clusters(
    operation: &Operation<'_>,
    state: &mut NodeState,
    holes: &[Range<u64>],
    room: Room,
) -> Result<()> {
    let volume = operation.volume();
    let more = waiting_need(volume, state, holes).saturating_sub(state.promised_map);
    let need = mapping::clusters::data_need(volume, state, holes)
        + mapping::map_need(volume, state, holes, 0);
    let mut reservation = volume.space.reserve_within(need + more, room)?;
    reservation.take(more);
    state.promised_map += more;
    fill_holes(operation, &mut reservation, state, holes, State::Unwritten)
}

/// How many map blocks all that waits to be written may need, this write among it, once these holes
/// are filled.
fn waiting_need(volume: &Volume, state: &NodeState, holes: &[Range<u64>]) -> u64 {
    // A stretch of what waits splits an extent that reads as zeros at both ends, at most.
    let stretches = (state.dirty.runs() + state.placed.len()) as u64 + 1;
    // On a volume that is nearly full each unit of a hole may become an extent of its own.
    let size = mapping::clusters::cluster_blocks(volume);
    let units = |hole: &Range<u64>| hole.end.div_ceil(size) - hole.start / size;
    let filled: u64 = holes.iter().filter(|hole| !hole.is_empty()).map(units).sum();
    mapping::split_need(volume, state, 2 * stretches + filled)
}

/// Allocates blocks for all of these holes, or for none of them if it fails. Blocks that read as
/// zeros are allocated in steps, and the caller has stored what else it changed. Others are not: no
/// step may be recorded before their data is written. Volumes with data first never allocate these
/// here, so the credits that they need are bounded by the size of one call.
pub(super) fn fill_holes(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    state: &mut NodeState,
    holes: &[Range<u64>],
    written: State,
) -> Result<()> {
    let mut filled = Vec::new();
    for hole in holes {
        let mut at = hole.start;
        while at < hole.end {
            let (block, want) =
                (FileBlock(at as u32), (hole.end - at).min(u64::from(u32::MAX)) as u32);
            match written {
                State::Unwritten => pause(operation, state, credits::STEP)?,
                State::Written => operation.need(credits::STEP),
            }
            // What was filled is in the inode, which is stored if the next one fails.
            operation.note_whole();
            match mapping::allocate(
                operation,
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
                    let was_whole = operation.is_whole();
                    // Nothing was written to the new blocks: they may still hold another file's
                    // data.
                    for range in filled {
                        mapping::remove(operation, state, range, Purpose::Data)?;
                    }
                    // The root of the map may have changed, and blocks were freed.
                    state.store(operation)?;
                    if was_whole {
                        operation.note_whole();
                    }
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::placed::{Before, Placement};
    use crate::store::{Access, DataKeeping, Options};
    use extant_block::{BlockDevice, MemoryDevice, RealClock};
    use extant_format::inode::{Inode, flags};
    use extant_format::{BlockNo, Ino, Run};
    use extant_testkit::command::run;
    use std::slice::from_ref;
    use std::sync::Arc;

    fn volume() -> Volume {
        let folder = extant_testkit::scratch::Scratch::new("holes");
        let image = folder.join("image").display().to_string();
        let words = ["-q", "-F", "-t", "ext4", "-b", "1024", &*image, "8M"];
        run("mke2fs", &words).expect("mke2fs makes it");
        let bytes = std::fs::read(&image).expect("reads");
        let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes));
        let policies = "modern,journal=none".parse().expect("a preset");
        let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
        let options = Options { access, policies, cache_bytes: 16 << 20, data };
        Volume::open(device as Arc<dyn BlockDevice>, &options, None).expect("opens")
    }

    /// What was submitted and is not in the map yet splits extents as what is dirty does; and each
    /// block of a hole may become an extent.
    #[test]
    fn all_that_waits_is_counted() {
        if !extant_testkit::oracle::require("mke2fs") {
            return;
        }
        let volume = volume();
        let mut inode = Inode::new(0o100_644, &volume.store.superblock);
        inode.flags |= flags::EXTENTS;
        let mut state = NodeState::new(&volume, Ino(12), inode);
        mapping::initialize(&mut state);
        let place = |state: &mut NodeState, at: u32| {
            let run = Run { start: BlockNo(3000 + u64::from(at)), length: 1 };
            state.placed.insert(FileBlock(at), Placement { run, before: Before::Unwritten });
        };
        // An inode has room for four extents, and what is written now may need two.
        assert_eq!(waiting_need(&volume, &state, &[]), 0);
        place(&mut state, 10);
        assert_eq!(waiting_need(&volume, &state, &[]), 0);
        place(&mut state, 20);
        assert_eq!(waiting_need(&volume, &state, &[]), 1);
        state.placed = Default::default();
        assert_eq!(waiting_need(&volume, &state, from_ref(&(40..42))), 0);
        assert_eq!(waiting_need(&volume, &state, from_ref(&(40..43))), 1);
        state.dirty.insert(50..51);
        assert_eq!(waiting_need(&volume, &state, from_ref(&(40..41))), 1);
    }
}
