//! The last state of inodes whose last name was removed while the kernel still knows their number:
//! a program may have one as its working directory, or hold it open in a way of which a server is
//! not told (a named pipe, O_PATH), and asks for its attributes.
//!
//! *Invariants*: an inode is here from the removal of its last name (as its links were just before:
//! of two names that go at the same time both may have been taken for the last) until the kernel
//! forgets its number, or the number is used again. So there are at most as many as the kernel has
//! in memory.
//! *Locking*: one short lock, under which no other is taken.
use extant_block::ShortLock;
use extant_engine::Metadata;
use rustc_hash::FxHashMap;

/// Inodes that were removed, by number.
#[derive(Default)]
pub(super) struct Removed {
    inodes: ShortLock<FxHashMap<u32, Metadata>>,
}

impl Removed {
    /// Remembers what an inode was like, now without names.
    pub(super) fn remember(&self, metadata: Metadata) {
        let metadata = Metadata { links: 0, ..metadata };
        self.inodes.lock().insert(metadata.ino.0, metadata);
    }

    pub(super) fn get(&self, number: u32) -> Option<Metadata> {
        self.inodes.lock().get(&number).cloned()
    }

    /// The kernel forgot the number, or it belongs to another inode now.
    pub(super) fn forget(&self, number: u32) {
        self.inodes.lock().remove(&number);
    }
}
