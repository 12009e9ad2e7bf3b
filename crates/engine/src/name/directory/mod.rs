//! Directories over their blocks and the hash index: look-up, insertion, removal, listing, and the
//! packing of a whole directory at once.
//!
//! `linear` scans blocks, `hashed` walks the index, `split` lets it grow, `list` gives the order of
//! readdir, `ahead` reads what will be wanted, and `pack` makes a directory that never has to grow.
//!
//! *Invariants*: every name stands once; in an indexed directory every name is in the leaf that its
//! hash leads to.
//! *Locking*: the caller holds the directory's inode (shared to look, exclusively to change).
mod ahead;
pub(crate) mod cookie;
mod hashed;
mod linear;
mod list;
mod pack;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use list::{Listing, Position, list_from};
pub(crate) use pack::pack;
pub use pack::{NewEntry, Packing};

use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::NodeState;
use crate::inode::mapping;
use crate::policy::allocation::Purpose;
use crate::space::Reservation;
use crate::store::cache::{Frame, Kind, Stage};
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_format::directory::{Entry, NAME_MAX};
use extant_format::extent::State;
use extant_format::inode::{FileType, flags};
use extant_format::superblock::Feature;
use extant_format::{Fault, FileBlock, Ino};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a name leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) ino: Ino,
    /// `None` where the volume keeps no types.
    pub(crate) file_type: Option<FileType>,
}

/// Finds a name; "." and ".." too. Uses the index where there is one.
pub(crate) fn lookup(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<Option<Found>> {
    let located = Directory { volume, node }.locate(name)?;
    Ok(located.map(|(_, found)| found))
}

/// Blocks (of the directory and of its map) that `insert` of this name may need in the worst case;
/// 0 when it fits where there is room. Exact enough that a full volume still takes names that fit.
/// `DirectoryFull` when no number of blocks would do.
pub(crate) fn insert_need(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<u64> {
    check_name(name)?;
    let directory = Directory { volume, node };
    let blocks = directory.blocks()?;
    let need = if directory.is_indexed() {
        split::need(directory, name)?
    } else if linear::with_room(directory, name.len())?.is_some() {
        0
    } else if directory.becomes_indexed()? {
        2
    } else {
        1
    };
    if need == 0 {
        return Ok(0);
    }
    check_growth(volume, blocks, need)?;
    Ok(mapping::worst_case(volume, node, FileBlock(blocks), u64::from(need)))
}

/// Inserts a name that is not there (the caller looked). A directory that outgrows its first block
/// becomes hashed, where the volume has dir_index; leaves and index nodes split as needed. Updates
/// size and flags of the inode; the caller stores it.
pub(crate) fn insert(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    name: &[u8],
    ino: Ino,
    file_type: FileType,
) -> Result<()> {
    check_name(name)?;
    let volume = handle.volume();
    let entry = NewEntry { name, ino, file_type };
    if (Directory { volume, node }).is_indexed() {
        return split::insert(handle, reservation, node, &entry);
    }
    leave_index(volume, node)?;
    let directory = Directory { volume, node };
    if let Some(frame) = linear::with_room(directory, name.len())? {
        return directory.insert_into(handle, &frame, &entry);
    }
    if directory.becomes_indexed()? {
        split::convert(handle, reservation, node)?;
        return split::insert(handle, reservation, node, &entry);
    }
    let indexed = false;
    append(handle, reservation, node, indexed, |bytes| {
        volume.style.pack(bytes, std::iter::once((name, ino, file_type)));
    })?;
    Ok(())
}

/// Why a name goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Departure {
    /// What it leads to loses a name.
    Removed,
    /// It stands somewhere else already: after a power cut it is in one of the two places.
    Moved,
}

/// Removes a name; `NotFound` when it is not there.
pub(crate) fn remove(
    handle: &Handle<'_>,
    node: &mut NodeState,
    name: &[u8],
    departure: Departure,
) -> Result<()> {
    let volume = handle.volume();
    leave_index(volume, node)?;
    let directory = Directory { volume, node };
    let (frame, _) = directory.locate(name)?.ok_or(ErrorKind::NotFound)?;
    let stage = match departure {
        Departure::Removed => Stage::Names,
        Departure::Moved => Stage::Removals,
    };
    let removed = handle.modify_in(&frame, stage, |bytes| volume.style.remove(bytes, name));
    directory.expect_done(&frame, removed)
}

/// Points an existing name (".." too) at another inode.
pub(crate) fn replace(
    handle: &Handle<'_>,
    node: &mut NodeState,
    name: &[u8],
    ino: Ino,
    file_type: FileType,
) -> Result<()> {
    let volume = handle.volume();
    let directory = Directory { volume, node };
    let (frame, _) = directory.locate(name)?.ok_or(ErrorKind::NotFound)?;
    let replaced = handle.modify(&frame, |bytes| volume.style.replace(bytes, name, ino, file_type));
    directory.expect_done(&frame, replaced)
}

/// Whether a listing of it goes by hash (see `list`).
pub(crate) fn is_by_hash(volume: &Volume, node: &NodeState) -> Result<bool> {
    let directory = Directory { volume, node };
    let blocks = directory.blocks()?;
    Ok(volume.superblock.has(Feature::DIR_INDEX) && (directory.is_indexed() || blocks == 1))
}

/// Whether nothing but "." and ".." is there.
pub(crate) fn is_empty(volume: &Volume, node: &NodeState) -> Result<bool> {
    linear::is_empty(Directory { volume, node })
}

/// What `list` calls for each entry.
pub(crate) type EachName<'a> = dyn FnMut(&[u8], Ino, Option<FileType>) + 'a;

/// Calls `each(name, ino, type)` for every entry, "." and ".." too, in the order of readdir: by
/// hash in volumes with dir_index (as the kernel does, also for one block), else as they stand.
pub(crate) fn list(volume: &Volume, node: &NodeState, each: &mut EachName<'_>) -> Result<()> {
    list_from(volume, node, Position::Start, &mut |entry| {
        each(entry.name, entry.ino, entry.file_type);
        ControlFlow::Continue(())
    })
}

/// The first block of a new directory.
pub(crate) fn create(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    parent: Ino,
) -> Result<()> {
    let (style, ino) = (handle.volume().style, node.ino);
    node.inode.size = 0;
    let indexed = false;
    append(handle, reservation, node, indexed, |bytes| style.initialize_first(bytes, ino, parent))?;
    Ok(())
}

/// A directory to be read.
#[derive(Clone, Copy)]
struct Directory<'a> {
    volume: &'a Volume,
    node: &'a NodeState,
}

impl Directory<'_> {
    /// How many blocks it has. No directory has more than its volume: all loops over blocks end.
    fn blocks(self) -> Result<u32> {
        let (size, block_size) = (self.node.inode.size, u64::from(self.volume.block_size()));
        let blocks = size / block_size;
        let reason = if !size.is_multiple_of(block_size) {
            "not a multiple of the block size"
        } else if blocks > self.volume.superblock.blocks_count {
            "larger than the volume"
        } else if let Ok(blocks) = u32::try_from(blocks) {
            return Ok(blocks);
        } else {
            "larger than a directory can be"
        };
        Err(Error::field(Place::Inode(self.node.ino), "directory", "size", size, reason))
    }

    /// Whether it has an index that counts.
    fn is_indexed(self) -> bool {
        self.volume.superblock.has(Feature::DIR_INDEX) && self.node.inode.flags & flags::INDEX != 0
    }

    /// Whether it gets an index when it outgrows the blocks that it has.
    fn becomes_indexed(self) -> Result<bool> {
        Ok(self.volume.superblock.has(Feature::DIR_INDEX) && self.blocks()? == 1)
    }

    /// Reads one of its blocks.
    fn read(self, block: FileBlock) -> Result<Arc<Frame>> {
        let Some(number) = mapping::block_at(self.volume, self.node, block)? else {
            let place = Place::Inode(self.node.ino);
            return Err(Error::field(place, "directory", "block", block.0.into(), "a hole"));
        };
        let indexed = self.node.inode.flags & flags::INDEX != 0;
        self.volume.cache.read(number, kind(self.node, block, indexed))
    }

    fn corrupt(self, frame: &Frame, fault: Fault) -> Error {
        Error::corrupt(Place::InodeBlock(self.node.ino, frame.block()), fault)
    }

    fn field(
        self,
        frame: &Frame,
        structure: &'static str,
        field: &'static str,
        value: u32,
        why: &'static str,
    ) -> Error {
        Error::field(
            Place::InodeBlock(self.node.ino, frame.block()),
            structure,
            field,
            value.into(),
            why,
        )
    }

    /// What an entry leads to, once its inode number is known to be one.
    fn found(self, frame: &Frame, entry: &Entry<'_>) -> Result<Found> {
        if entry.ino.0 == 0 || entry.ino.0 > self.volume.superblock.inodes_count {
            return Err(self.field(
                frame,
                "directory entry",
                "inode number",
                entry.ino.0,
                "outside the volume",
            ));
        }
        Ok(Found { ino: entry.ino, file_type: entry.file_type })
    }

    /// Finds a name in one block.
    fn find_in(self, frame: &Arc<Frame>, name: &[u8]) -> Result<Option<(Arc<Frame>, Found)>> {
        let bytes = frame.bytes();
        let entry =
            self.volume.style.find(&bytes, name).map_err(|fault| self.corrupt(frame, fault))?;
        entry.map(|entry| Ok((Arc::clone(frame), self.found(frame, &entry)?))).transpose()
    }

    /// Finds a name, and the block that it stands in.
    fn locate(self, name: &[u8]) -> Result<Option<(Arc<Frame>, Found)>> {
        if !self.is_indexed() {
            return linear::locate(self, name);
        }
        if is_dot(name) {
            return self.find_in(&self.read(FileBlock(0))?, name);
        }
        hashed::locate(self, name)
    }

    /// Inserts into a block that was seen to have room.
    fn insert_into(
        self,
        handle: &Handle<'_>,
        frame: &Arc<Frame>,
        entry: &NewEntry<'_>,
    ) -> Result<()> {
        let style = self.volume.style;
        let done = handle
            .modify(frame, |bytes| style.insert(bytes, entry.name, entry.ino, entry.file_type));
        self.expect_done(frame, done)
    }

    /// A change was tried where it had been seen to be possible: only a block that two inodes share
    /// can refuse it.
    fn expect_done(self, frame: &Frame, done: std::result::Result<bool, Fault>) -> Result<()> {
        match done {
            Ok(true) => Ok(()),
            Ok(false) => {
                let ino = self.node.ino.0;
                Err(self.field(
                    frame,
                    "directory block",
                    "inode",
                    ino,
                    "not the only one to change it",
                ))
            }
            Err(fault) => Err(self.corrupt(frame, fault)),
        }
    }
}

fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

fn check_name(name: &[u8]) -> Result<()> {
    match name.len() {
        0 => Err(ErrorKind::InvalidName.into()),
        1..=NAME_MAX => Ok(()),
        _ => Err(ErrorKind::NameTooLong.into()),
    }
}

fn kind(node: &NodeState, block: FileBlock, indexed: bool) -> Kind {
    Kind::Directory { ino: node.ino, seed: node.seed, block, indexed }
}

/// Without dir_index an index is not kept up, so a directory that still has one loses it with its
/// first change, as in ext2. With checksums that would leave blocks whose checksum stands in the
/// wrong place.
fn leave_index(volume: &Volume, node: &mut NodeState) -> Result<()> {
    if volume.superblock.has(Feature::DIR_INDEX) || node.inode.flags & flags::INDEX == 0 {
        return Ok(());
    }
    if volume.style.checksummed {
        let place = Place::Inode(node.ino);
        let value = node.inode.flags.into();
        return Err(Error::field(
            place,
            "directory",
            "flags",
            value,
            "of an index on a volume without dir_index",
        ));
    }
    node.inode.flags &= !flags::INDEX;
    Ok(())
}

/// A directory's size has 32 bits (largedir is not supported).
fn check_growth(volume: &Volume, blocks: u32, more: u32) -> Result<()> {
    let size = (u64::from(blocks) + u64::from(more)) * u64::from(volume.block_size());
    if size > u64::from(u32::MAX) {
        return Err(ErrorKind::DirectoryFull.into());
    }
    Ok(())
}

/// Adds a block at the end.
fn append(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    indexed: bool,
    fill: impl FnOnce(&mut [u8]),
) -> Result<(FileBlock, Arc<Frame>)> {
    let volume = handle.volume();
    let blocks = Directory { volume, node }.blocks()?;
    check_growth(volume, blocks, 1)?;
    let block = FileBlock(blocks);
    let run =
        mapping::allocate(handle, reservation, node, block, 1, Purpose::Directory, State::Written)?;
    node.inode.size += u64::from(volume.block_size());
    Ok((block, handle.create(run.start, kind(node, block, indexed), fill)))
}
