//! One group in memory: bitmaps and counters under one short lock, and the search for free runs.
//!
//! *Invariants*: a group's counters equal what its bitmaps say, once loaded; `free_blocks` of the volume less its
//! reservations is never negative.
//! *Locking*: each group's state is under a short lock; bitmaps are loaded (which waits) before it is taken. Group locks are
//! never nested.
use crate::allocation::{Plan, Purpose};
use crate::error::Result;
use crate::journal::Handle;
use crate::volume::Volume;
use extant_format::group::GroupDescriptor;
use extant_format::{GroupNo, Ino, Run};

/// Blocks promised to one operation out of the volume's free ones. What is not used goes back when it is dropped.
pub(crate) struct Reservation<'a> {
    volume: &'a Volume,
    blocks: u64,
}

impl Reservation<'_> {
    /// Blocks still promised.
    pub(crate) fn remaining(&self) -> u64 {
        let _ = self.volume;
        self.blocks
    }
    /// Promises more blocks to the same operation, or says `NoSpace`. (The mapping calls this when an estimate was short.)
    pub(crate) fn grow(&mut self, _blocks: u64) -> Result<()> {
        todo!()
    }
    /// Moves `blocks` of it into the keeping of somebody else (delayed data), who gives them back with `Groups::release`.
    pub(crate) fn take(&mut self, _blocks: u64) {
        todo!()
    }
}

/// All groups of a volume.
pub(crate) struct Groups {}

impl Groups {
    /// Reads all descriptors (parse verifies them). Bitmaps are loaded when first needed.
    pub(crate) fn open(_superblock: &extant_format::superblock::Superblock, _read: impl FnMut(extant_format::BlockNo) -> Result<std::sync::Arc<Vec<u8>>>) -> Result<Groups> {
        todo!()
    }
    /// How many groups.
    pub(crate) fn len(&self) -> u32 {
        todo!()
    }
    /// The descriptor as it stands now.
    pub(crate) fn descriptor(&self, _group: GroupNo) -> GroupDescriptor {
        todo!()
    }
    /// Promises blocks, or says `NoSpace`. This is where ENOSPC is decided.
    pub(crate) fn reserve<'a>(&self, _volume: &'a Volume, _blocks: u64) -> Result<Reservation<'a>> {
        todo!()
    }
    /// Gives promised blocks back that were taken out of a reservation.
    pub(crate) fn release(&self, _blocks: u64) {
        todo!()
    }
    /// Turns blocks that were taken (delayed) into a reservation again, to be used by `allocate`.
    pub(crate) fn adopt<'a>(&self, _volume: &'a Volume, _blocks: u64) -> Reservation<'a> {
        todo!()
    }
    /// Allocates one run of 1..=plan.length blocks as the plan wants it, out of the reservation. Marks them in the bitmap, counts
    /// them. Fails only when the disk lies (a reservation guarantees room) or cannot be read.
    pub(crate) fn allocate(&self, _handle: &Handle<'_>, _reservation: &mut Reservation<'_>, _plan: &Plan) -> Result<Run> {
        todo!()
    }
    /// Frees a run (it may cross groups). A block that is free already, or that is the volume's own metadata, is `Corrupt`
    /// and nothing is freed.
    pub(crate) fn free(&self, _handle: &Handle<'_>, _run: Run, _purpose: Purpose) -> Result<()> {
        todo!()
    }
    /// Allocates an inode: the first free one in the group at or after `from`, else in the next groups cyclically. Counts a
    /// directory if it is one. `NoInodes` when there is none. The inode's table block is to be initialised by the caller when `fresh`.
    pub(crate) fn allocate_inode(&self, _handle: &Handle<'_>, _group: GroupNo, _from: u32, _kind: InodeKind) -> Result<Ino> {
        todo!()
    }
    /// Frees an inode number.
    pub(crate) fn free_inode(&self, _handle: &Handle<'_>, _ino: Ino, _kind: InodeKind) -> Result<()> {
        todo!()
    }
    /// Whether the inode is marked in use in its bitmap.
    pub(crate) fn inode_in_use(&self, _volume: &Volume, _ino: Ino) -> Result<bool> {
        todo!()
    }
    /// Free blocks on the volume, promised ones included; free inodes; directories.
    pub(crate) fn totals(&self) -> Totals {
        todo!()
    }
    /// Writes changed descriptors, with the checksums of their bitmaps, into their frames: before a sync or commit.
    pub(crate) fn store(&self, _handle: &Handle<'_>) -> Result<()> {
        todo!()
    }
    /// The facts that policies ask for, of one group.
    pub(crate) fn facts(&self, _group: GroupNo) -> crate::placement::GroupFacts {
        todo!()
    }
    /// Free runs of a group, rising, as (first block in the group, length).
    pub(crate) fn free_runs(&self, _volume: &Volume, _group: GroupNo) -> Result<Vec<(u32, u32)>> {
        todo!()
    }
}

/// Sums over all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Free blocks, those promised to delayed writes included.
    pub free_blocks: u64,
    /// Promised blocks.
    pub reserved_blocks: u64,
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories.
    pub directories: u32,
}

/// What an inode is allocated for: directories are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InodeKind {
    /// A directory.
    Directory,
    /// Anything else.
    Other,
}
