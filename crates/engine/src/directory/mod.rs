//! Directories over their blocks and the hash index: look-up, insertion, removal, listing, and the packing of a whole
//! directory at once.
//!
//! *Invariants*: every name stands once; in an indexed directory every name is in the leaf that its hash leads to.
//! *Locking*: the caller holds the directory's inode (shared to look, exclusively to change).
use crate::error::Result;
use crate::group::Reservation;
use crate::inode::NodeState;
use crate::journal::Handle;
use crate::volume::Volume;
use extant_format::Ino;
use extant_format::inode::FileType;

/// What a name leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) ino: Ino,
    /// `None` where the volume keeps no types.
    pub(crate) file_type: Option<FileType>,
}

/// Finds a name; "." and ".." too. Uses the index where there is one.
pub(crate) fn lookup(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<Option<Found>> {
    let _ = (volume, node, name);
    todo!()
}
/// Blocks (of the directory and of its map) that `insert` of this name may need in the worst case; 0 when it fits where there is room.
/// Exact enough that a full volume still takes names that fit.
pub(crate) fn insert_need(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<u64> {
    let _ = (volume, node, name);
    todo!()
}
/// Inserts a name that is not there (the caller looked). A directory that outgrows its first block becomes hashed, where
/// the volume has dir_index; leaves and index nodes split as needed. Updates size and flags of the inode; the caller stores it.
pub(crate) fn insert(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    name: &[u8],
    ino: Ino,
    file_type: FileType,
) -> Result<()> {
    let _ = (handle, reservation, node, name, ino, file_type);
    todo!()
}
/// Removes a name; `NotFound` when it is not there.
pub(crate) fn remove(handle: &Handle<'_>, node: &mut NodeState, name: &[u8]) -> Result<()> {
    let _ = (handle, node, name);
    todo!()
}
/// Points an existing name (".." too) at another inode.
pub(crate) fn replace(handle: &Handle<'_>, node: &mut NodeState, name: &[u8], ino: Ino, file_type: FileType) -> Result<()> {
    let _ = (handle, node, name, ino, file_type);
    todo!()
}
/// Whether nothing but "." and ".." is there.
pub(crate) fn is_empty(volume: &Volume, node: &NodeState) -> Result<bool> {
    let _ = (volume, node);
    todo!()
}
/// Calls `each(name, ino, type)` for every entry, "." and ".." too, in the order of readdir: by hash in volumes with
/// dir_index (as the kernel does, also for one block), else as they stand.
pub(crate) fn list(volume: &Volume, node: &NodeState, each: &mut dyn FnMut(&[u8], Ino, Option<FileType>)) -> Result<()> {
    let _ = (volume, node, each);
    todo!()
}
/// The first block of a new directory.
pub(crate) fn create(handle: &Handle<'_>, reservation: &mut Reservation<'_>, node: &mut NodeState, parent: Ino) -> Result<()> {
    let _ = (handle, reservation, node, parent);
    todo!()
}

/// An entry of a directory that is made whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) ino: Ino,
    pub(crate) file_type: FileType,
}

/// Makes the whole content of a new, empty directory in one go: entries in the order given (it must be that of `order`), blocks
/// contiguous where the volume has room, leaves packed full, the index built from below. Sets size, flags; the caller stores the inode.
/// `parent` is for "..".
pub(crate) fn pack(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    parent: Ino,
    entries: &mut dyn ExactSizeIterator<Item = NewEntry<'_>>,
) -> Result<()> {
    let _ = (handle, reservation, node, parent, entries);
    todo!()
}
