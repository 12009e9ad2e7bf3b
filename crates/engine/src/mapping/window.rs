//! Preallocation, as ext2 does it: a regular file that grows gets a few blocks more than it asked for. They are in use on the
//! volume and belong to no file block yet; the next request takes them if it would have begun there anyway.
//!
//! *Invariants*: a window is given back before anybody else may look at the volume: on the last close, when the file is cut
//! or freed, and before a sync.
use super::Wish;
use crate::allocation::{Plan, Purpose};
use crate::error::Result;
use crate::group::Reservation;
use crate::inode::NodeState;
use crate::journal::Handle;
use extant_format::inode::FileType;
use extant_format::{BlockNo, Run};

/// Blocks out of the window, where the plan's goal is its first block or the one before. A window elsewhere is given back.
pub(super) fn take(handle: &Handle<'_>, node: &mut NodeState, wish: &Wish, plan: &Plan) -> Result<Option<Run>> {
    let Some(window) = node.window.filter(|_| wish.purpose == Purpose::Data) else {
        return Ok(None);
    };
    if plan.goal != window.start && plan.goal.0 + 1 != window.start.0 {
        discard(handle, node)?;
        return Ok(None);
    }
    let run = Run {
        length: wish.want.min(window.length),
        ..window
    };
    keep(node, window, run.length);
    Ok(Some(run))
}

/// Makes a plan longer by what is to be in hand afterwards, as far as the volume has room.
pub(super) fn lengthen(
    handle: &Handle<'_>,
    node: &NodeState,
    wish: &Wish,
    plan: &mut Plan,
    reservation: &mut Reservation<'_>,
) {
    let regular = node.inode.file_type() == Some(FileType::Regular);
    let wanted = handle.volume().allocation.preallocate();
    if wish.purpose != Purpose::Data || !regular || plan.length >= wanted {
        return;
    }
    if reservation.grow(u64::from(wanted - plan.length)).is_ok() {
        plan.length = wanted;
    }
}

/// Keeps what a run has behind its first `used` blocks.
pub(super) fn keep(node: &mut NodeState, run: Run, used: u32) {
    let rest = run.length.saturating_sub(used);
    node.window = (rest > 0).then(|| Run {
        start: BlockNo(run.start.0 + u64::from(used)),
        length: rest,
    });
}

/// Gives the window back.
pub(crate) fn discard(handle: &Handle<'_>, node: &mut NodeState) -> Result<()> {
    match node.window.take() {
        Some(window) => handle.volume().groups.free(handle, window, Purpose::Data),
        None => Ok(()),
    }
}
