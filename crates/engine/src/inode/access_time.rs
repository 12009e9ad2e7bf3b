//! Access times: which reads change them, by policy.
//!
//! Reads of bytes, directories and symlinks that a caller asked for are accesses. Looking at
//! attributes is not, and neither is what the engine reads for itself: the walk of a path, an
//! [`Object`](crate::Object), a survey. POSIX leaves open whether following a symlink is an access;
//! Linux counts it, this engine does not.
//!
//! *Invariants*: an access changes the inode in memory and notes it as unstored. Its table block is
//! written with the next write-back, as for any other change. So a read causes no write, and never
//! fails because of one. With `journal=ordered-jbd` the call that reads stores it, as ext3 did: it
//! joins the running transaction, and waits where any change does.
//! *Locking*: the inode is locked exclusively for a moment, after the read has unlocked it.
use crate::inode::inodes::Inodes;
use crate::inode::node::{Node, NodeState};
use crate::inode::volume::Volume;
use crate::policy::preset::AccessTimes;
use extant_format::Ino;
use extant_format::inode::{Inode, Time, flags};

/// Age in seconds at which any access changes the access time: a day, as on Linux.
const STALE_SECONDS: i64 = 24 * 60 * 60;
/// Unstored inodes are stored each time that another 4096 of them wait: they stay in memory.
const WAITING_MAX: usize = 4096;

/// The times of an inode that decide whether its access time changes.
#[derive(Clone, Copy, Debug)]
struct Times {
    access: Time,
    modify: Time,
    change: Time,
}

/// Whether an access at this time changes the access time.
fn is_due(policy: AccessTimes, times: Times, now: Time) -> bool {
    match policy {
        AccessTimes::None => false,
        AccessTimes::Strict => times.access != now,
        AccessTimes::Relative => {
            let age = now.seconds.saturating_sub(times.access.seconds);
            times.access != now
                && (times.access <= times.modify
                    || times.access <= times.change
                    || age >= STALE_SECONDS)
        }
    }
}

fn is_due_for(volume: &Volume, inode: &Inode, now: Time) -> bool {
    let times =
        Times { access: inode.access_time, modify: inode.modify_time, change: inode.change_time };
    inode.flags & flags::NOATIME == 0 && is_due(volume.store.policies.access_times, times, now)
}

/// Whether a read at this moment changes the access time.
pub(crate) fn is_due_now(volume: &Volume, inode: &Inode) -> bool {
    volume.store.policies.access_times != AccessTimes::None
        && is_due_for(volume, inode, volume.store.now())
}

/// Changes the access time if it is due. Returns how many inodes are unstored if this adds one.
fn mark(volume: &Volume, state: &mut NodeState, now: Time) -> Option<usize> {
    if state.gone || !is_due_for(volume, &state.inode, now) {
        return None;
    }
    state.inode.access_time = now;
    volume.unstored.note(state.ino, volume.store.clock.now())
}

impl Inodes {
    /// Notes that a caller read the content of this inode. Called with no lock held. Errors of
    /// storing inodes are not reported to the reader: a failed write has closed the latch, and a
    /// sync reports what could not be read.
    pub(crate) fn note_access(&self, node: &Node) {
        let volume = &self.volume;
        if volume.store.policies.access_times == AccessTimes::None || !self.is_writable() {
            return;
        }
        let now = volume.store.now();
        if !is_due_for(volume, &node.state.read().inode, now) {
            return;
        }
        let waiting = mark(volume, &mut node.state.write(), now);
        if volume.store.waits_for_log() {
            let _ = self.store_late(node);
            return;
        }
        if waiting.is_some_and(|waiting| waiting % WAITING_MAX == 0) {
            let unstored: Vec<Ino> = volume.unstored.inodes.lock().keys().copied().collect();
            let _ = self.store_clustered(self.nodes.of(unstored));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_mount_8() {
        let at = |seconds| Time { seconds, nanoseconds: 5 };
        let now = at(1_000_000);
        // Access, modify and change time; whether it is due under relatime.
        let rows = [
            (at(999_000), at(998_000), at(998_000), false),
            (at(999_000), at(999_000), at(998_000), true),
            (at(999_000), at(998_000), at(999_000), true),
            (at(999_000), at(999_500), at(998_000), true),
            (at(999_000), at(998_000), at(999_500), true),
            (at(1_000_000 - STALE_SECONDS), at(5), at(5), true),
            (at(1_000_001 - STALE_SECONDS), at(5), at(5), false),
            (at(2_000_000), at(5), at(5), false),
            (at(2_000_000), at(2_000_000), at(5), true),
        ];
        for (access, modify, change, due) in rows {
            let times = Times { access, modify, change };
            assert_eq!(is_due(AccessTimes::Relative, times, now), due, "{times:?}");
            assert!(is_due(AccessTimes::Strict, times, now), "{times:?}");
            assert!(!is_due(AccessTimes::None, times, now), "{times:?}");
        }
    }
}
