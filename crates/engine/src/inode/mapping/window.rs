//! Blocks in hand. Where the allocation policy preallocates, a regular file that grows gets a few
//! blocks more than it asked for, as in ext2. So does a directory where its growth is contiguous.
//! These blocks are marked in use on the volume and belong to no file block yet; with a journal
//! they are only held back in memory. A file's next
//! request takes them if it would have started there anyway; a directory's always does, because it
//! grows only at its end.
//!
//! The first block of a directory is allocated alone: most directories never need a second one.
//!
//! *Invariants*: a window is given back before other programs can look at the volume: on the last
//! close, when the file is cut or freed, and before a sync. An inode that has one stays in memory.
//! At most [`DIRECTORIES_MAX`] directories have one.
//! *Locking*: the caller has locked the inode exclusively.
use super::Wish;
use crate::error::Result;
use crate::inode::NodeState;
use crate::inode::operation::Operation;
use crate::inode::volume::Volume;
use crate::policy::allocation::{
    AllocationFacts, AllocationPlan, Purpose, Search, next_window_blocks,
};
use crate::policy::preset::Growth;
use crate::space::{Reservation, Reuse};
use extant_format::inode::FileType;
use extant_format::{BlockNo, Run};

/// Once this many inodes have blocks in hand, directories grow by single blocks until the next
/// sync.
const DIRECTORIES_MAX: u32 = 4096;

/// Takes blocks out of the window. A file's window is given back if it is neither at the plan's
/// goal nor directly after it.
pub(super) fn take(
    operation: &Operation<'_>,
    node: &mut NodeState,
    wish: &Wish,
    plan: &AllocationPlan,
) -> Result<Option<Run>> {
    let Some(window) = node.window else { return Ok(None) };
    match wish.purpose {
        Purpose::Map | Purpose::Attribute => return Ok(None),
        Purpose::Data if plan.goal != window.start && plan.goal.0 + 1 != window.start.0 => {
            discard(operation, node)?;
            return Ok(None);
        }
        Purpose::Data | Purpose::Directory => {}
    }
    let run = Run { length: wish.want.min(window.length), ..window };
    keep(operation.volume(), node, window, run.length);
    if operation.volume().store.journals() {
        // The blocks were promised twice: to the window, and to what they are taken for.
        operation.volume().space.release_kept(run.length.into());
    }
    Ok(Some(run))
}

/// Adjusts a plan to the policy for the growth of directories.
pub(super) fn grow(
    volume: &Volume,
    node: &NodeState,
    facts: &AllocationFacts,
    plan: &mut AllocationPlan,
) {
    if volume.store.policies.growth == Growth::Reservation
        && volume.space.unit_log2() == 0
        && is_growing_directory(node, facts.purpose)
    {
        plan.search = Search::Window { owner: node.ino, blocks: next_window_blocks(facts.window) };
    }
}

/// Whether it is for a directory that already has a block. A directory that is made as a whole has
/// size 0 until it is complete.
fn is_growing_directory(node: &NodeState, purpose: Purpose) -> bool {
    purpose == Purpose::Directory && node.inode.size > 0
}

/// Lengthens a plan by the blocks to have in hand afterwards, as far as the volume has room.
pub(super) fn lengthen(
    operation: &Operation<'_>,
    node: &NodeState,
    wish: &Wish,
    plan: &mut AllocationPlan,
    reservation: &mut Reservation<'_>,
) {
    let wanted = wanted(operation.volume(), node, wish);
    if plan.length < wanted && reservation.grow(u64::from(wanted - plan.length)).is_ok() {
        plan.length = wanted;
    }
}

/// With a journal: makes the free blocks after a run that was given the inode's window. They are
/// held back in memory alone, so that a power cut loses none.
pub(super) fn keep_after(volume: &Volume, node: &mut NodeState, wish: &Wish, run: Run) {
    let more = wanted(volume, node, wish).saturating_sub(run.length);
    if more > 0 && node.window.is_none() {
        let window = volume.space.place_after(run, more);
        set(volume, node, window);
    }
}

/// How many blocks to take at once for a wish; 0 where nothing is kept in hand.
fn wanted(volume: &Volume, node: &NodeState, wish: &Wish) -> u32 {
    if volume.space.unit_log2() > 0 {
        // The rest of a cluster is in hand as it is.
        return 0;
    }
    let regular = node.inode.file_type() == Some(FileType::Regular);
    match (wish.purpose, volume.store.policies.growth) {
        (Purpose::Data, _) if regular => volume.store.policies.allocation.preallocate(),
        (purpose, Growth::Contiguous(blocks))
            if is_growing_directory(node, purpose)
                && volume.space.inodes_in_hand() < DIRECTORIES_MAX =>
        {
            blocks
        }
        _ => 0,
    }
}

/// Makes the rest of a run, after its first `used` blocks, the inode's window.
pub(super) fn keep(volume: &Volume, node: &mut NodeState, run: Run, used: u32) {
    let rest = run.length.saturating_sub(used);
    let window =
        (rest > 0).then(|| Run { start: BlockNo(run.start.0 + u64::from(used)), length: rest });
    set(volume, node, window);
}

fn set(volume: &Volume, node: &mut NodeState, window: Option<Run>) -> Option<Run> {
    let before = std::mem::replace(&mut node.window, window);
    volume.space.count_in_hand(before, node.window);
    before
}

/// Frees the blocks in hand.
pub(crate) fn discard(operation: &Operation<'_>, node: &mut NodeState) -> Result<()> {
    match set(operation.volume(), node, None) {
        Some(window) if operation.volume().store.journals() => {
            let space = &operation.volume().space;
            space.unplace(window);
            space.release_kept(window.length.into());
            Ok(())
        }
        // The disk never pointed to these blocks, and nothing was written to them.
        Some(window) => operation.volume().space.free_data(operation, window, Reuse::AtOnce),
        None => Ok(()),
    }
}
