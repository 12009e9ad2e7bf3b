//! FileBlock to a run of BlockNo: indirect blocks or extents, holes.
//!
//! *Invariants*: no block is mapped twice; `sectors` of the inode counts data, map and attribute
//! blocks; a map block is reached from one place only.
//! *Locking*: the caller holds the inode (shared to look, exclusively to change).
mod dense;
mod extents;
mod indirect;
pub(crate) mod rewrite;
pub(crate) mod window;

pub(crate) use dense::Looseness;

use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::NodeState;
use crate::policy::allocation::{AllocationFacts, Purpose};
use crate::space::{Reservation, Reuse};
use crate::store::cache::{Frame, Stage};
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_format::extent::State;
use extant_format::{BlockNo, FileBlock, GroupNo, Run};
use std::ops::Range;
use std::sync::Arc;

/// What lies at a place of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// Nothing, for so many blocks (at least 1; may be cut short of the next mapped block).
    Hole(u32),
    /// A run on the volume.
    Run(Run, State),
}

impl Piece {
    /// Blocks of the file that it covers.
    pub(crate) fn length(&self) -> u32 {
        match self {
            Piece::Hole(length) => *length,
            Piece::Run(run, _) => run.length,
        }
    }
}

/// What is mapped at `block`, looking at most `max` blocks (>= 1) ahead. Never longer than `max`.
pub(crate) fn find(volume: &Volume, node: &NodeState, block: FileBlock, max: u32) -> Result<Piece> {
    if node.inode.has_extents() {
        extents::find(volume, node, block, max)
    } else {
        indirect::find(volume, node, block, max)
    }
}

/// Where block `block` of the file lies, if it is mapped.
pub(crate) fn block_at(
    volume: &Volume,
    node: &NodeState,
    block: FileBlock,
) -> Result<Option<BlockNo>> {
    Ok(match find(volume, node, block, 1)? {
        Piece::Hole(_) => None,
        Piece::Run(run, _) => Some(run.start),
    })
}

/// The map block that leads to file block `block` and those that follow it in the file, at most
/// `most` in all, as far as they lie together; none where it lies alone, is in memory, or is one of
/// the first of its file. Reads nothing.
pub(crate) fn clustered_maps(
    volume: &Volume,
    node: &NodeState,
    block: FileBlock,
    most: u32,
) -> Result<Vec<BlockNo>> {
    if node.inode.has_extents() {
        return Ok(Vec::new());
    }
    indirect::clustered_maps(volume, node, block, most)
}

/// Allocates blocks for `block..block + want` (all holes), as the policy wants them, and maps them,
/// map blocks included. Gives what was mapped: at least 1 block, perhaps fewer than wanted. Blocks
/// come out of `reservation`, which holds at least `worst_case` of it. The caller stores the inode.
pub(crate) fn allocate(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    block: FileBlock,
    want: u32,
    purpose: Purpose,
    state: State,
) -> Result<Run> {
    let mut grant = Grant { handle, reservation, purpose, state };
    if node.inode.has_extents() {
        extents::allocate(&mut grant, node, block, want)
    } else {
        indirect::allocate(&mut grant, node, block, want)
    }
}

/// Unmaps and frees file blocks `range` (the end may lie beyond the file), and map blocks that
/// become empty. The caller stores the inode. Gives the number of data blocks freed. Fails for want
/// of room, with nothing changed, only where the range lies inside one extent.
pub(crate) fn remove(
    handle: &Handle<'_>,
    node: &mut NodeState,
    range: Range<u64>,
    purpose: Purpose,
) -> Result<u64> {
    let mut reservation = reserve_removal(handle.volume(), node, &range)?;
    remove_reserved(handle, &mut reservation, node, range, purpose)
}

/// What [`remove`] may need: making two extents of one may split nodes.
pub(crate) fn reserve_removal<'v>(
    volume: &'v Volume,
    node: &NodeState,
    range: &Range<u64>,
) -> Result<Reservation<'v>> {
    let splits =
        !range.is_empty() && node.inode.has_extents() && extents::splits_one(volume, node, range)?;
    volume.groups.reserve(volume, if splits { extents::map_need(volume, node, &[], 1) } else { 0 })
}

/// [`remove`] with the room that it needs.
pub(crate) fn remove_reserved(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    range: Range<u64>,
    purpose: Purpose,
) -> Result<u64> {
    if range.is_empty() {
        return Ok(0);
    }
    if node.inode.has_extents() {
        let mut grant = Grant { handle, reservation, purpose, state: State::Written };
        extents::remove(&mut grant, node, range)
    } else {
        indirect::remove(handle, node, range)
    }
}

/// Marks allocated blocks that read as zeros as written. All of `block..block + length` is
/// unwritten now.
pub(crate) fn set_written(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    block: FileBlock,
    length: u32,
) -> Result<()> {
    let mut grant = Grant { handle, reservation, purpose: Purpose::Data, state: State::Written };
    extents::set_written(&mut grant, node, block, length)
}

/// Marks the written blocks of a range as unwritten: they read as zeros from now on. For maps of
/// extents only. The caller stores the inode.
pub(crate) fn set_unwritten(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    range: Range<u64>,
) -> Result<()> {
    let narrow = |at: u64| u32::try_from(at).map_err(|_| too_large());
    let range = narrow(range.start)?..narrow(range.end)?;
    let mut grant = Grant { handle, reservation, purpose: Purpose::Data, state: State::Unwritten };
    extents::set_unwritten(&mut grant, node, range)
}

/// Blocks that mapping `want` blocks from `block` on may need in all, in the worst case: themselves
/// and their map.
pub(crate) fn worst_case(volume: &Volume, node: &NodeState, block: FileBlock, want: u64) -> u64 {
    let hole = u64::from(block.0)..u64::from(block.0).saturating_add(want);
    want.saturating_add(map_need(volume, node, std::slice::from_ref(&hole), 0))
}

/// Map blocks that filling these holes (rising) may need, and splitting `splits` extents at two
/// places, in the worst case.
pub(crate) fn map_need(
    volume: &Volume,
    node: &NodeState,
    holes: &[Range<u64>],
    splits: u64,
) -> u64 {
    if node.inode.has_extents() {
        return extents::map_need(volume, node, holes, splits);
    }
    let narrow = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
    let ranges = holes.iter().map(|hole| narrow(hole.start)..narrow(hole.end));
    extant_format::indirect::blocks_needed(ranges, volume.superblock.block_size_log2)
}

/// Makes a map as dense as it has to be. The caller stores the inode.
pub(crate) fn settle(handle: &Handle<'_>, node: &mut NodeState) -> Result<()> {
    if node.inode.has_extents() { dense::settle(handle, node) } else { Ok(()) }
}

/// The map of a new, empty file in `i_block`.
pub(crate) fn initialize(node: &mut NodeState) {
    node.inode.block = [0; 60];
    if node.inode.has_extents() {
        extant_format::extent::initialize(&mut node.inode.block, 0);
    }
}

/// What an allocation is done with.
struct Grant<'a, 'v, 'r> {
    handle: &'a Handle<'v>,
    reservation: &'a mut Reservation<'r>,
    purpose: Purpose,
    state: State,
}

/// Where an allocation is wanted.
#[derive(Clone, Copy)]
struct Wish {
    purpose: Purpose,
    file_block: FileBlock,
    want: u32,
    previous: Option<(FileBlock, BlockNo)>,
    map_block: Option<BlockNo>,
}

impl<'v> Grant<'_, 'v, '_> {
    fn volume(&self) -> &'v Volume {
        self.handle.volume()
    }

    /// Asks the policy where, and the groups whether; counts the blocks to the inode.
    fn take(&mut self, node: &mut NodeState, wish: Wish) -> Result<Run> {
        let volume = self.volume();
        // An estimate may have been short, or map blocks may have taken what was meant for data.
        let short = u64::from(wish.want).saturating_sub(self.reservation.remaining());
        if short > 0 && self.reservation.grow(short).is_err() && self.reservation.remaining() == 0 {
            self.reservation.grow(1)?;
        }
        let facts = facts(volume, node, wish);
        let mut plan = volume.allocation.plan(&facts);
        window::grow(volume, node, &facts, &mut plan);
        let run = match window::take(self.handle, node, &wish, &plan)? {
            Some(run) => run,
            None => {
                let room = u32::try_from(self.reservation.remaining()).unwrap_or(u32::MAX);
                plan.length = plan.length.min(wish.want).min(room).max(1);
                window::lengthen(self.handle, node, &wish, &mut plan, self.reservation);
                let route = volume.policies.map_blocks.route(&facts, &plan);
                let given = volume.groups.allocate(self.handle, self.reservation, &plan, route)?;
                let run = Run { length: given.length.min(wish.want), ..given };
                if given.length > run.length {
                    window::keep(volume, node, given, run.length);
                }
                run
            }
        };
        // A cursor does not follow into a cluster.
        if wish.purpose != Purpose::Map || !volume.groups.is_in_cluster(run.start) {
            volume.allocation.given(&facts, run);
        }
        node.inode.sectors += u64::from(run.length) * u64::from(volume.block_size() / 512);
        if wish.purpose != Purpose::Map {
            node.stream = volume.allocation.remembered(&facts, run);
        }
        Ok(run)
    }
}

fn facts(volume: &Volume, node: &NodeState, wish: Wish) -> AllocationFacts {
    let superblock = &volume.superblock;
    let group = superblock.group_of_inode(node.ino).map_or(GroupNo(0), |(group, _)| group);
    AllocationFacts {
        ino: node.ino,
        file_type: node.inode.file_type(),
        group,
        group_start: superblock.group_start(group),
        groups_per_flex: 1u32.checked_shl(superblock.log_groups_per_flex.into()).unwrap_or(1),
        blocks_per_group: superblock.blocks_per_group,
        first_data_block: superblock.first_data_block,
        blocks: superblock.blocks_count,
        purpose: wish.purpose,
        file_block: wish.file_block,
        want: wish.want,
        file_blocks: node.inode.size.div_ceil(u64::from(volume.block_size())),
        previous: wish.previous,
        map_block: wish.map_block,
        stream: node.stream,
        window: volume.groups.window(node.ino),
    }
}

/// Counts blocks out of the inode.
fn discount(volume: &Volume, node: &mut NodeState, blocks: u64) {
    let sectors = blocks * u64::from(volume.block_size() / 512);
    node.inode.sectors = node.inode.sectors.saturating_sub(sectors);
}

/// What a change of a map block does to the file: in which stage of a sweep it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leads {
    /// It leads to more blocks, or to the same.
    More,
    /// It leads to fewer.
    Fewer,
}

/// Changes a block of a map.
fn change_map<R>(
    handle: &Handle<'_>,
    node: &mut NodeState,
    frame: &Arc<Frame>,
    leads: Leads,
    change: impl FnOnce(&mut [u8]) -> R,
) -> R {
    let stage = match leads {
        Leads::More => Stage::Maps,
        Leads::Fewer => Stage::Removals,
    };
    // Noted of new blocks too: a sweep that has frozen the inode may be about to take them.
    node.note_map_change(handle.volume(), leads);
    handle.modify_in(frame, stage, change)
}

/// Frees a map block: never to be written again.
fn free_map_block(handle: &Handle<'_>, node: &mut NodeState, block: BlockNo) -> Result<()> {
    let volume = handle.volume();
    check_block(volume, node, block)?;
    let run = Run { start: block, length: 1 };
    volume.groups.free(handle, run, Reuse::WhenDurable)?;
    node.note_freed(volume, run);
    discount(volume, node, 1);
    Ok(())
}

/// Frees blocks of the file itself.
fn free_run(handle: &Handle<'_>, node: &mut NodeState, run: Run) -> Result<()> {
    let volume = handle.volume();
    volume.groups.free(handle, run, Reuse::WhenDurable)?;
    node.note_freed(volume, run);
    discount(volume, node, run.length.into());
    Ok(())
}

/// Blocks that a file's bytes go to must not be the volume's own, whatever its map says.
pub(crate) fn check_data(volume: &Volume, node: &NodeState, run: Run) -> Result<()> {
    if volume.groups.is_metadata(run) {
        let place = Place::Inode(node.ino);
        return Err(Error::field(
            place,
            "block map",
            "run at block",
            run.start.0,
            "the volume's own metadata",
        ));
    }
    Ok(())
}

/// A pointer has to lead into the volume, and not to its own metadata.
fn check_block(volume: &Volume, node: &NodeState, block: BlockNo) -> Result<()> {
    let reason = match volume.holds_block(block) {
        false => "outside the volume",
        true if volume.groups.is_metadata(Run { start: block, length: 1 }) => {
            "the volume's own metadata"
        }
        true => return Ok(()),
    };
    Err(Error::field(Place::Inode(node.ino), "block map", "pointer to block", block.0, reason))
}

/// A file block beyond what its map can reach.
fn too_large() -> Error {
    ErrorKind::FileTooLarge.into()
}

/// What a policy is told of a block for extended attributes.
pub(crate) fn attribute_facts(volume: &Volume, node: &NodeState) -> AllocationFacts {
    let wish = Wish {
        purpose: Purpose::Attribute,
        file_block: FileBlock(0),
        want: 1,
        previous: None,
        map_block: None,
    };
    facts(volume, node, wish)
}
