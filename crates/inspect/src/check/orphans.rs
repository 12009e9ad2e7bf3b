//! Pass 0: inodes that were deleted while somebody had them open, or that are being truncated: the list of orphans.
use super::codes::Code;
use super::problem::Problem;
use super::state::State;
use crate::error::Error;
use extant_format::Ino;

/// Collects the inodes on the list whose head is in the superblock. Ends at the first that cannot be one, and at one that
/// was met before.
///
/// # Errors
/// When the device fails.
pub(crate) fn collect(state: &mut State) -> Result<(), Error> {
    let first_inode = state.volume.superblock().first_inode;
    let mut next = Ino(state.volume.superblock().last_orphan);
    let mut listed = std::collections::BTreeSet::new();
    while next.0 != 0 {
        let inode = match state.volume.inode(next) {
            Ok(inode) if next.0 >= first_inode && inode.mode != 0 && !listed.contains(&next) => inode,
            Err(Error::Device(error)) => return Err(error.into()),
            _ => {
                state.tell(Problem::new(Code::OrphanList).ino(next));
                break;
            }
        };
        listed.insert(next);
        if inode.links == 0 {
            state.orphans.insert(next);
        }
        next = Ino(inode.deletion_time);
    }
    for ino in &state.orphans {
        state.tell(Problem::new(Code::OrphanDeleted).ino(*ino));
    }
    if !listed.is_empty() {
        state.tell(Problem::new(Code::OrphansWait).found(listed.len() as u64));
    }
    state.truncated = listed.difference(&state.orphans).copied().collect();
    Ok(())
}
