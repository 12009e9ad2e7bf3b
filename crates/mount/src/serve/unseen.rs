//! Change times that the kernel has not seen.
//!
//! A kernel that gathers writes keeps the times of a file itself, and takes none from a server for
//! an inode that it has. With most changes it puts the time there on its own; with chattr it does
//! not. So once the file is closed it is asked to give up what it has of the inode (from Linux 6.18
//! on), and reads the time when the file is next looked at. An inode that a program still holds
//! open it keeps, and with it the old time, until that one closes it.
//!
//! The kernel may also have an older time to write back, of a write(2) before the change: that one
//! does not take the place of the newer.
//!
//! *Invariants*: an inode is here until the kernel forgets its number or has a newer time. So there
//! are at most as many as the kernel has in memory.
//! *Locking*: one short lock, under which no other is taken.
use extant_block::ShortLock;
use extant_format::inode::Time;
use rustc_hash::FxHashMap;

/// The change times, by the inode's number.
#[derive(Default)]
pub(super) struct Unseen {
    times: ShortLock<FxHashMap<u32, Time>>,
}

impl Unseen {
    /// An inode has changed at a time of which the kernel does not know.
    pub(super) fn note(&self, number: u32, time: Time) {
        self.times.lock().insert(number, time);
    }

    pub(super) fn has(&self, number: u32) -> bool {
        self.times.lock().contains_key(&number)
    }

    /// What becomes the change time of an inode where the kernel has this one.
    pub(super) fn latest(&self, number: u32, known: Time) -> Time {
        let parts = |time: Time| (time.seconds, time.nanoseconds);
        let mut times = self.times.lock();
        match times.get(&number).copied() {
            Some(unseen) if parts(unseen) > parts(known) => unseen,
            _ => {
                times.remove(&number);
                known
            }
        }
    }

    /// The kernel forgot the number.
    pub(super) fn forget(&self, number: u32) {
        self.times.lock().remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Time, Unseen};

    #[test]
    fn the_later_time_counts_until_the_kernel_has_one_that_is_newer() {
        let time = |seconds, nanoseconds| Time { seconds, nanoseconds };
        let unseen = Unseen::default();
        assert_eq!(unseen.latest(12, time(5, 0)), time(5, 0));
        unseen.note(12, time(7, 3));
        assert_eq!(unseen.latest(12, time(7, 2)), time(7, 3));
        assert_eq!(unseen.latest(12, time(-8, 9)), time(7, 3));
        assert!(unseen.has(12) && !unseen.has(13));
        assert_eq!(unseen.latest(12, time(7, 4)), time(7, 4));
        assert!(!unseen.has(12));
        unseen.note(12, time(7, 3));
        unseen.forget(12);
        assert_eq!(unseen.latest(12, time(1, 0)), time(1, 0));
    }
}
