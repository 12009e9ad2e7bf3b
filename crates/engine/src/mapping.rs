//! FileBlock to a run of BlockNo: indirect blocks or extents, holes.
//!
//! *Invariants*: no block is mapped twice; `sectors` of the inode counts data and map blocks; a map block is reached from
//! one place only.
//! *Locking*: the caller holds the inode (shared to look, exclusively to change).
use crate::allocation::Purpose;
use crate::error::Result;
use crate::group::Reservation;
use crate::inode::NodeState;
use crate::journal::Handle;
use crate::volume::Volume;
use extant_format::extent::State;
use extant_format::{BlockNo, FileBlock, Run};
use std::ops::Range;

/// What lies at a place of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// Nothing, for so many blocks (at least 1; may be cut short of the next mapped block).
    Hole(u32),
    /// A run on the volume.
    Run(Run, State),
}

/// What is mapped at `block`, looking at most `max` blocks (>= 1) ahead. Never longer than `max`.
pub(crate) fn find(volume: &Volume, node: &NodeState, block: FileBlock, max: u32) -> Result<Piece> {
    let _ = (volume, node, block, max);
    todo!()
}

/// Allocates blocks for `block..block + want` (all holes), as the policy wants them, and maps them, map blocks included. Gives
/// what was mapped: at least 1 block, perhaps fewer than wanted. Blocks come out of `reservation`, which holds at least
/// `worst_case` of it. The caller stores the inode.
pub(crate) fn allocate(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    block: FileBlock,
    want: u32,
    purpose: Purpose,
    state: State,
) -> Result<Run> {
    let _ = (handle, reservation, node, block, want, purpose, state);
    todo!()
}

/// Unmaps and frees file blocks `range` (the end may lie beyond the file), and map blocks that become empty. The caller
/// stores the inode. Gives the number of data blocks freed.
pub(crate) fn remove(handle: &Handle<'_>, node: &mut NodeState, range: Range<u64>, purpose: Purpose) -> Result<u64> {
    let _ = (handle, node, range, purpose);
    todo!()
}

/// Blocks that mapping `want` blocks from `block` on may need in all, in the worst case: themselves and their map.
pub(crate) fn worst_case(volume: &Volume, node: &NodeState, block: FileBlock, want: u64) -> u64 {
    let _ = (volume, node, block, want);
    todo!()
}
/// Where block `block` of the file lies, if it is mapped.
pub(crate) fn block_at(volume: &Volume, node: &NodeState, block: FileBlock) -> Result<Option<BlockNo>> {
    let _ = (volume, node, block);
    todo!()
}
