//! File blocks to runs of blocks: by extents or indirect blocks, with holes.
//!
//! *Invariants*: no block is mapped twice. `sectors` of the inode counts data, map and attribute
//! blocks, with bigalloc their [clusters]. A map block is reached from one place only.
//! *Locking*: the caller has locked the inode: shared to look, exclusively to change.
pub(crate) mod clusters;
mod dense;
mod extents;
mod indirect;
pub(crate) mod rewrite;
pub(crate) mod window;

use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::credits;
use crate::inode::node::{Leads, NodeState};
use crate::inode::operation::Operation;
use crate::inode::unfinished::stop_here;
use crate::inode::volume::Volume;
use crate::policy::allocation::{AllocationFacts, Purpose, Route};
use crate::space::{Reservation, Reuse};
use crate::store::cache::{Frame, Stage};
use extant_format::extent::State;
use extant_format::inode::{FileType, flags};
use extant_format::{BlockNo, FileBlock, GroupNo, Run};
use std::ops::Range;
use std::sync::Arc;

/// What is at a place of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// Nothing, for this many blocks: at least 1, and perhaps fewer than the whole hole.
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

/// What is mapped at `block`. Covers at least one and at most `max` (at least 1) blocks.
pub(crate) fn find(volume: &Volume, node: &NodeState, block: FileBlock, max: u32) -> Result<Piece> {
    if node.placed.is_empty() {
        return find_mapped(volume, node, block, max);
    }
    if let Some(run) = node.placed.at(block) {
        let run = Run { length: run.length.min(max), ..run };
        return Ok(Piece::Run(run, State::Written));
    }
    let next = node.placed.next(block.0).map_or(max, |next| next - block.0);
    find_mapped(volume, node, block, max.min(next))
}

/// As [`find`], of the map alone, without blocks that were placed.
///
/// # Errors
/// `Corrupt` for a file that is read elsewhere, because it has no map.
fn find_mapped(volume: &Volume, node: &NodeState, block: FileBlock, max: u32) -> Result<Piece> {
    check_has_map(volume, node)?;
    if node.inode.has_extents() {
        extents::find(volume, node, block, max)
    } else {
        indirect::find(volume, node, block, max)
    }
}

/// Fails if the content is in the inode, where others have their map.
fn check_has_map(volume: &Volume, node: &NodeState) -> Result<()> {
    if !node.inode.is_inline(&volume.store.superblock) {
        return Ok(());
    }
    let (place, value) = (Place::Inode(node.ino), node.inode.flags.into());
    Err(Error::field(place, "inode", "flags", value, "those of one without a map"))
}

/// Fails if a map of indirect blocks would change where maps have to be of extents.
fn check_kind(volume: &Volume, node: &NodeState) -> Result<()> {
    if node.inode.has_extents() || clusters::cluster_blocks(volume) == 1 {
        return Ok(());
    }
    let (place, value) = (Place::Inode(node.ino), node.inode.flags.into());
    Err(Error::field(place, "inode", "flags", value, "those of one without extents, with bigalloc"))
}

/// The block that holds `block` of the file, if it is mapped.
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

/// The map block that points to file block `block`, and the following ones of the file that are
/// clustered with it, `most` in all. Empty if it has none beside it, is in memory, or is one of the
/// first of its file. Reads nothing.
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

/// Allocates blocks for `block..block + want`, which are all holes, as the policy wants them, and
/// maps them. Returns what was mapped: at least 1 block, perhaps fewer than wanted. Blocks,
/// including map blocks, come out of `reservation`, which has at least `worst_case` of them. The
/// caller stores the inode.
pub(crate) fn allocate(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    block: FileBlock,
    want: u32,
    purpose: Purpose,
    state: State,
) -> Result<Run> {
    check_has_map(operation.volume(), node)?;
    check_kind(operation.volume(), node)?;
    let mut grant = Grant { operation, reservation, purpose, state };
    if node.inode.has_extents() {
        extents::allocate(&mut grant, node, block, want)
    } else {
        indirect::allocate(&mut grant, node, block, want)
    }
}

/// Finds a place for some blocks of `block..block + want`, which are all holes, as the policy wants
/// it, without mapping them. They have to be promised, and stay so.
pub(crate) fn place(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    block: FileBlock,
    want: u32,
) -> Result<Run> {
    check_has_map(operation.volume(), node)?;
    let (purpose, state) = (Purpose::Data, State::Written);
    let mut grant = Grant { operation, reservation, purpose, state };
    let mut wish = match node.inode.has_extents() {
        true => extents::wish(&grant, node, block, want)?,
        false => indirect::wish(&grant, node, block, want)?,
    };
    if let Some(before) = block.0.checked_sub(1).map(FileBlock)
        && let Some(run) = node.placed.at(before).or_else(|| node.chosen.at(before))
    {
        wish.previous = Some((before, run.start));
    }
    let mut gap = 0;
    if !node.inode.has_extents() {
        let left = indirect::left_in_leaf(operation.volume(), block);
        wish.want = wish.want.min(left.max(1));
        gap = indirect::maps_before(operation.volume(), node, block)?;
    }
    let run = grant.place(node, wish, gap)?;
    if !node.inode.has_extents() && !indirect::reaches(run) {
        operation.volume().space.unplace(run);
        return Err(operation.volume().space.no_space(run.length.into()));
    }
    Ok(run)
}

/// Maps a run that was placed, whose blocks are all holes, and marks it as in use. The caller
/// stores the inode.
pub(crate) fn enter(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    block: FileBlock,
    run: Run,
) -> Result<()> {
    let volume = operation.volume();
    check_has_map(volume, node)?;
    volume.space.fix(operation, reservation, run)?;
    node.inode.sectors += u64::from(run.length) * u64::from(volume.store.block_size() / 512);
    let (purpose, state) = (Purpose::Data, State::Written);
    let mut grant = Grant { operation, reservation, purpose, state };
    // Map blocks go where this run is, not where the file has been continued since.
    let stream = node.stream;
    node.stream.next_goal = run.start;
    let entered = match node.inode.has_extents() {
        true => extents::enter(&mut grant, node, block, run),
        false => indirect::enter(&mut grant, node, block, run),
    };
    node.stream = stream;
    entered
}

/// Unmaps and frees the file blocks of `range`, which may extend beyond the file, and map blocks
/// that become empty, in steps (`unfinished::pause`): the caller has stored everything else that it
/// changed. Returns the number of data blocks freed. The caller stores the inode, within the step
/// that this leaves. `NoSpace`, with nothing changed, is possible only if the range is inside one
/// extent. Where a part cannot be read, what comes before it is removed, and the inode is stored
/// (`unfinished::stop_here`).
pub(crate) fn remove(
    operation: &Operation<'_>,
    node: &mut NodeState,
    range: Range<u64>,
    purpose: Purpose,
) -> Result<u64> {
    operation.note_whole();
    match reserve_removal(operation.volume(), node, &range) {
        Ok(mut reservation) => remove_reserved(operation, &mut reservation, node, range, purpose),
        Err(error) => Err(stop_here(operation, node, error)),
    }
}

/// Reserves what [`remove`] may need: splitting one extent in two may split nodes.
pub(crate) fn reserve_removal<'v>(
    volume: &'v Volume,
    node: &NodeState,
    range: &Range<u64>,
) -> Result<Reservation<'v>> {
    let splits =
        !range.is_empty() && node.inode.has_extents() && extents::splits_one(volume, node, range)?;
    volume.space.reserve(if splits { extents::map_need(volume, node, &[], 1) } else { 0 })
}

/// [`remove`], with a reservation made before.
pub(crate) fn remove_reserved(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    range: Range<u64>,
    purpose: Purpose,
) -> Result<u64> {
    // What is in the inode has no blocks.
    if range.is_empty() || node.inode.is_inline(&operation.volume().store.superblock) {
        return Ok(0);
    }
    operation.note_whole();
    let removed = if node.inode.has_extents() {
        let mut grant = Grant { operation, reservation, purpose, state: State::Written };
        extents::remove(&mut grant, node, range)
    } else {
        check_kind(operation.volume(), node).and_then(|()| indirect::remove(operation, node, range))
    };
    removed.map_err(|error| stop_here(operation, node, error))
}

/// Marks allocated blocks that read as zeros as written. All of `block..block + length` is
/// unwritten before.
pub(crate) fn set_written(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    block: FileBlock,
    length: u32,
) -> Result<()> {
    let mut grant = Grant { operation, reservation, purpose: Purpose::Data, state: State::Written };
    extents::set_written(&mut grant, node, block, length)
}

/// Marks the written blocks of a range as unwritten: they read as zeros from now on. For maps of
/// extents only. The caller stores the inode.
///
/// # Errors
/// `Corrupt` for a damaged map; `FileTooLarge`; what the device returns.
pub(crate) fn set_unwritten(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    range: Range<u64>,
) -> Result<()> {
    let narrow = |at: u64| u32::try_from(at).map_err(|_| too_large());
    let range = narrow(range.start)?..narrow(range.end)?;
    let (purpose, state) = (Purpose::Data, State::Unwritten);
    let mut grant = Grant { operation, reservation, purpose, state };
    operation.note_whole();
    extents::set_unwritten(&mut grant, node, range)
        .map_err(|error| stop_here(operation, node, error))
}

/// How many blocks (with bigalloc: clusters) mapping `want` blocks from `block` on needs in the
/// worst case: themselves and their map.
pub(crate) fn worst_case(volume: &Volume, node: &NodeState, block: FileBlock, want: u64) -> u64 {
    let hole = u64::from(block.0)..u64::from(block.0).saturating_add(want);
    let holes = std::slice::from_ref(&hole);
    clusters::data_need(volume, node, holes).saturating_add(map_need(volume, node, holes, 0))
}

/// How many map blocks filling these holes (rising), and splitting `splits` extents at two places,
/// need in the worst case.
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
    extant_format::indirect::blocks_needed(ranges, volume.store.superblock.block_size_log2)
}

/// How many map blocks this many extents more need in the worst case, wherever in a file with
/// extents they come to be.
pub(crate) fn split_need(volume: &Volume, node: &NodeState, extents: u64) -> u64 {
    extents::split_need(volume, node, extents)
}

/// Makes an extent tree as dense as e2fsck expects. The caller stores the inode.
pub(crate) fn make_dense(operation: &Operation<'_>, node: &mut NodeState) -> Result<()> {
    if node.inode.has_extents() { dense::make_dense(operation, node) } else { Ok(()) }
}

/// Makes the inode's map that of a new, empty file.
pub(crate) fn initialize(node: &mut NodeState) {
    node.inode.block = [0; 60];
    if node.inode.has_extents() {
        extant_format::extent::initialize(&mut node.inode.block, 0);
    }
}

/// What an allocation works with.
struct Grant<'a, 'v, 'r> {
    operation: &'a Operation<'v>,
    reservation: &'a mut Reservation<'r>,
    purpose: Purpose,
    state: State,
}

/// What an allocation asks for, and what the policy should know about it.
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
        self.operation.volume()
    }

    /// Asks the policy for a place, allocates there, and counts the blocks in the inode.
    fn take(&mut self, node: &mut NodeState, wish: Wish) -> Result<Run> {
        let volume = self.volume();
        if clusters::cluster_blocks(volume) > 1 {
            return self.take_clusters(node, wish);
        }
        // The estimate may have been too low, or map blocks may have used what was meant for data.
        let short = u64::from(wish.want).saturating_sub(self.reservation.remaining());
        if short > 0 && self.reservation.grow(short).is_err() && self.reservation.remaining() == 0 {
            self.reservation.grow(1)?;
        }
        let facts = facts(volume, node, wish);
        let mut plan = volume.store.policies.allocation.plan(&facts);
        window::grow(volume, node, &facts, &mut plan);
        let run = match window::take(self.operation, node, &wish, &plan)? {
            Some(run) if volume.store.journals() => {
                volume.space.fix(self.operation, self.reservation, run)?;
                run
            }
            Some(run) => run,
            None if volume.store.journals() => {
                let room = u32::try_from(self.reservation.remaining()).unwrap_or(u32::MAX);
                plan.length = plan.length.min(wish.want).min(room).max(1);
                let route = volume.store.policies.map_blocks.route(&facts, &plan);
                let run = volume.space.allocate(self.operation, self.reservation, &plan, route)?;
                window::keep_after(volume, node, &wish, run);
                run
            }
            None => {
                let room = u32::try_from(self.reservation.remaining()).unwrap_or(u32::MAX);
                plan.length = plan.length.min(wish.want).min(room).max(1);
                window::lengthen(self.operation, node, &wish, &mut plan, self.reservation);
                let route = volume.store.policies.map_blocks.route(&facts, &plan);
                let given =
                    volume.space.allocate(self.operation, self.reservation, &plan, route)?;
                let run = Run { length: given.length.min(wish.want), ..given };
                if given.length > run.length {
                    window::keep(volume, node, given, run.length);
                }
                run
            }
        };
        node.inode.sectors += u64::from(run.length) * u64::from(volume.store.block_size() / 512);
        self.tell_policy(node, &wish, &facts, run);
        Ok(run)
    }

    /// Asks the policy for a place, and holds it back, without marking it as in use. `gap` blocks
    /// before it are left for map blocks that will lead to it, where these go beside the data.
    fn place(&mut self, node: &mut NodeState, wish: Wish, gap: u32) -> Result<Run> {
        let volume = self.volume();
        let facts = facts(volume, node, wish);
        let mut plan = volume.store.policies.allocation.plan(&facts);
        window::grow(volume, node, &facts, &mut plan);
        let run = match window::take(self.operation, node, &wish, &plan)? {
            Some(run) => run,
            None => {
                plan.length = plan.length.min(wish.want).max(1);
                let route = volume.store.policies.map_blocks.route(&facts, &plan);
                if route == Route::Anywhere {
                    plan.goal.0 = plan.goal.0.saturating_add(gap.into());
                }
                let run = volume.space.place(self.operation, &plan, route)?;
                window::keep_after(volume, node, &wish, run);
                run
            }
        };
        self.tell_policy(node, &wish, &facts, run);
        Ok(run)
    }

    /// Tells the policy what was given.
    fn tell_policy(&self, node: &mut NodeState, wish: &Wish, facts: &AllocationFacts, run: Run) {
        let volume = self.volume();
        // The policy's cursor does not follow into a cluster.
        if wish.purpose != Purpose::Map || !volume.space.is_in_cluster(run.start) {
            volume.store.policies.allocation.given(facts, run);
        }
        if wish.purpose != Purpose::Map {
            node.stream = volume.store.policies.allocation.remembered(facts, run);
        }
    }
}

fn facts(volume: &Volume, node: &NodeState, wish: Wish) -> AllocationFacts {
    let superblock = &volume.store.superblock;
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
        file_blocks: node.inode.size.div_ceil(u64::from(volume.store.block_size())),
        previous: wish.previous,
        map_block: wish.map_block,
        stream: node.stream,
        window: volume.space.window(node.ino),
        process: node.writer,
    }
}

/// Subtracts units of the bitmaps from the inode's count.
fn discount(volume: &Volume, node: &mut NodeState, units: u64) {
    let sectors = units * clusters::cluster_sectors(volume);
    node.inode.sectors = node.inode.sectors.saturating_sub(sectors);
}

/// Changes a map block.
fn change_map<R>(
    operation: &Operation<'_>,
    node: &mut NodeState,
    frame: &Arc<Frame>,
    leads: Leads,
    change: impl FnOnce(&mut [u8]) -> R,
) -> R {
    let stage = match leads {
        Leads::More => Stage::Maps,
        Leads::Fewer => Stage::Removals,
    };
    // Noted for new blocks too: a sweep that has frozen the inode may be about to take them.
    node.note_map_change(operation.volume(), leads);
    operation.modify_in(frame, stage, change)
}

/// Fails if a map block cannot be freed: as [`free_map_block`], before anything changes.
fn check_map_block(volume: &Volume, node: &NodeState, block: BlockNo) -> Result<()> {
    check_block(volume, node, block)?;
    volume.space.check_to_free(Run { start: block, length: 1 })
}

/// Frees a map block.
fn free_map_block(operation: &Operation<'_>, node: &mut NodeState, block: BlockNo) -> Result<()> {
    let volume = operation.volume();
    check_block(volume, node, block)?;
    let run = Run { start: block, length: 1 };
    volume.space.free_metadata(operation, run, Reuse::WhenDurable)?;
    node.note_freed(volume, run);
    discount(volume, node, 1);
    Ok(())
}

/// Frees blocks with content: data of a file, names of a directory, the target of a symlink, the
/// value of an attribute; with bigalloc whole clusters. The run touches at most [`credits::GROUPS`]
/// groups: see
/// [`free_at_once_max`].
fn free_run(operation: &Operation<'_>, node: &mut NodeState, run: Run) -> Result<()> {
    let volume = operation.volume();
    let reuse = Reuse::WhenDurable;
    let is_value = node.inode.flags & flags::EA_INODE != 0;
    match node.inode.file_type() {
        Some(FileType::Regular) if !is_value => volume.space.free_data(operation, run, reuse)?,
        _ => volume.space.free_metadata(operation, run, reuse)?,
    }
    node.note_freed(volume, run);
    discount(volume, node, volume.space.units(run.length.into()));
    Ok(())
}

/// The longest run that one step frees, in blocks: wherever it begins, it touches no more groups
/// than [`credits::GROUPS`].
fn free_at_once_max(volume: &Volume) -> u64 {
    u64::from(credits::GROUPS - 2) * u64::from(volume.store.superblock.blocks_per_group)
}

/// Fails if a file's data would be written over the volume's own metadata, whatever its map says.
pub(crate) fn check_data(volume: &Volume, node: &NodeState, run: Run) -> Result<()> {
    if volume.space.is_metadata(run) {
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

/// Fails unless a pointer leads into the volume and not to its own metadata.
fn check_block(volume: &Volume, node: &NodeState, block: BlockNo) -> Result<()> {
    let reason = match volume.store.holds_block(block) {
        false => "outside the volume",
        true if volume.space.is_metadata(Run { start: block, length: 1 }) => {
            "the volume's own metadata"
        }
        true => return Ok(()),
    };
    Err(Error::field(Place::Inode(node.ino), "block map", "pointer to block", block.0, reason))
}

/// The error for a file block beyond the reach of its map.
fn too_large() -> Error {
    ErrorKind::FileTooLarge.into()
}

/// What an allocation policy is told about a block for extended attributes.
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
