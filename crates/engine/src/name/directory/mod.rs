//! Directories over their blocks and the hash index: look-up, insertion, removal, listing, and the
//! packing of a whole directory at once.
//!
//! `linear` scans blocks, `hashed` walks the index, `split` lets it grow, `list` follows the order
//! of readdir, `saved` has all names at once, `keyless` is how encrypted ones are shown, `ahead`
//! reads blocks before they are wanted, and `pack` makes a directory that never has to grow.
//!
//! *Invariants*: every name occurs once. In an indexed directory every name is in the leaf that its
//! hash leads to.
//! *Locking*: the caller has locked the directory's inode: shared to look, exclusively to change.
mod ahead;
pub(crate) mod cookie;
mod hashed;
mod inline;
mod keyless;
mod linear;
mod list;
mod pack;
mod saved;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use inline::move_out;
pub(crate) use keyless::{Legality, Naming, OwnNames};
pub(crate) use list::{Listing, Position, list_from};
pub(crate) use pack::pack;
pub use pack::{NewEntry, Packing};
pub use saved::DirectoryEntry;
pub(crate) use saved::entries;

use hashed::Before;

use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::NodeState;
use crate::inode::known_names::NameTarget;
use crate::inode::mapping;
use crate::inode::operation::Operation;
use crate::inode::table;
use crate::inode::volume::Volume;
use crate::policy::allocation::Purpose;
use crate::space::Reservation;
use crate::store::cache::{BlockKind, Frame, Stage};
use extant_format::directory::{Entry, Form, NAME_MAX};
use extant_format::extent::State;
use extant_format::fold;
use extant_format::hash::{Hasher, NameHash};
use extant_format::inode::{FileType, flags};
use extant_format::superblock::Feature;
use extant_format::{Fault, FileBlock, Ino};
use std::sync::Arc;

/// Finds a name, also "." and "..": as it is known, or with the index if there is one.
pub(crate) fn lookup(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<Option<NameTarget>> {
    Ok(find(volume, node, name)?.map(|found| found.target))
}

/// A name that is there.
pub(crate) struct Found {
    pub(crate) target: NameTarget,
    /// The block that has it, if that is known.
    frame: Option<Arc<Frame>>,
}

/// As `lookup`, for a caller that may remove the name: it is not searched for again.
pub(crate) fn find(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<Option<Found>> {
    if let Some(known) = volume.names.get(node.serial, name) {
        return Ok(known.map(|target| Found { target, frame: None }));
    }
    let located = Directory { volume, node }.locate(name)?;
    learn(volume, node, name, located.as_ref().map(|(_, target)| *target));
    Ok(located.map(|(frame, target)| Found { target, frame: Some(frame) }))
}

/// Brings the block with a name into memory, where it stays as long as the result is kept: the name
/// may be known without it.
///
/// # Errors
/// As for `lookup`.
pub(crate) fn hold(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<Option<Arc<Frame>>> {
    Ok(Directory { volume, node }.locate(name)?.map(|(frame, _)| frame))
}

/// A look-up for a caller that makes the name if it is not there.
///
/// # Errors
/// As for `lookup`.
pub(crate) fn seek(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<Sought> {
    let directory = Directory { volume, node };
    let known = volume.names.get(node.serial, name);
    if let Some(Some(target)) = known {
        return Ok(Sought::There(target));
    }
    let before = if known.is_some() { Before::Absent } else { Before::Nothing };
    let sought = match before {
        before if directory.is_indexed() && !is_dot(name) => hashed::seek(directory, name, before)?,
        Before::Absent => Sought::Vacant(Vacancy::default()),
        Before::Nothing => match directory.locate(name)? {
            Some((_, target)) => Sought::There(target),
            None => Sought::Vacant(Vacancy::default()),
        },
    };
    // That a name is absent is not worth a note: it will be there soon.
    if let Sought::There(target) = &sought {
        learn(volume, node, name, Some(*target));
    }
    Ok(sought)
}

/// What a look-up for a change has found.
pub(crate) enum Sought {
    There(NameTarget),
    Vacant(Vacancy),
}

/// Where a name belongs that is not there. Valid until the directory changes or is unlocked.
#[derive(Default)]
pub(crate) struct Vacancy {
    /// In an indexed directory, if it was looked for.
    way: Option<Way>,
}

/// The way to a leaf in which a name belongs.
struct Way {
    path: hashed::Path,
    leaf: Arc<Frame>,
    /// The leaf surely has room for the name.
    has_room: bool,
}

/// Notes what a look-up has found. A name that is too long is not asked for again.
fn learn(volume: &Volume, node: &NodeState, name: &[u8], target: Option<NameTarget>) {
    if name.len() <= NAME_MAX {
        volume.names.learn(node.serial, name, target);
    }
}

/// How many blocks `insert` of this name needs in the worst case, for the directory and its map. 0
/// if a block has room. Exact enough that a full volume still accepts names that fit.
///
/// # Errors
/// `DirectoryFull` if no number of blocks would be enough.
pub(crate) fn insert_need(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<u64> {
    insert_need_at(volume, node, name, &Vacancy::default())
}

/// As `insert_need`, for a name that was sought.
///
/// # Errors
/// As for `insert_need`.
pub(crate) fn insert_need_at(
    volume: &Volume,
    node: &NodeState,
    name: &[u8],
    vacancy: &Vacancy,
) -> Result<u64> {
    check_name(name)?;
    let directory = Directory { volume, node };
    directory.check_in_blocks()?;
    let blocks = directory.blocks()?;
    let need = if directory.is_indexed() {
        match &vacancy.way {
            Some(way) if way.has_room => 0,
            Some(way) => split::need_on(directory, &way.path, &way.leaf, name)?,
            None => split::need(directory, name)?,
        }
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

/// Inserts a name that is not there (the caller has looked). On volumes with dir_index, a directory
/// that outgrows its first block becomes indexed; leaves and index nodes split as needed. Updates
/// size and flags of the inode; the caller stores it.
pub(crate) fn insert(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    name: &[u8],
    ino: Ino,
    file_type: FileType,
) -> Result<()> {
    let entry = NewEntry { name, ino, file_type };
    insert_at(operation, reservation, node, &entry, &Vacancy::default())
}

/// As `insert`, for a name that was sought.
pub(crate) fn insert_at(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    entry: &NewEntry<'_>,
    vacancy: &Vacancy,
) -> Result<()> {
    check_name(entry.name)?;
    let volume = operation.volume();
    volume.names.forget(node.serial, entry.name);
    insert_unknown(operation, reservation, node, entry, vacancy)?;
    learn(volume, node, entry.name, Some(target_of(volume, entry.ino, entry.file_type)));
    Ok(())
}

/// What a look-up finds after a name was inserted or replaced.
fn target_of(volume: &Volume, ino: Ino, file_type: FileType) -> NameTarget {
    NameTarget { ino, file_type: volume.store.style.typed.then_some(file_type) }
}

fn insert_unknown(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    entry: &NewEntry<'_>,
    vacancy: &Vacancy,
) -> Result<()> {
    let volume = operation.volume();
    let NewEntry { name, ino, file_type } = *entry;
    if (Directory { volume, node }).is_indexed() {
        if let Some(Way { leaf, .. }) = &vacancy.way {
            let style = volume.store.style;
            match operation.modify(leaf, |bytes| style.insert(bytes, name, ino, file_type)) {
                Ok(true) => return Ok(()),
                // The leaf has no room: it is split, which changes it too.
                Ok(false) => {}
                Err(fault) => return Err(Directory { volume, node }.corrupt(leaf, fault)),
            }
        }
        return split::insert(operation, reservation, node, entry);
    }
    Directory { volume, node }.check_in_blocks()?;
    leave_index(volume, node)?;
    let directory = Directory { volume, node };
    if let Some(frame) = linear::with_room(directory, name.len())? {
        return directory.insert_into(operation, &frame, entry);
    }
    if directory.becomes_indexed()? {
        split::convert(operation, reservation, node)?;
        return split::insert(operation, reservation, node, entry);
    }
    append(operation, reservation, node, Form::Linear, |bytes| {
        volume.store.style.pack(bytes, std::iter::once((name, ino, file_type)));
    })?;
    Ok(())
}

/// Why a name is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Departure {
    /// The inode loses a name.
    Removed,
    /// It is in another directory already: after a power cut it has to be in at least one of them.
    Moved,
}

/// Removes a name.
///
/// # Errors
/// `NotFound` if it is not there.
pub(crate) fn remove(
    operation: &Operation<'_>,
    node: &mut NodeState,
    name: &[u8],
    departure: Departure,
) -> Result<()> {
    let directory = Directory { volume: operation.volume(), node };
    let (frame, _) = directory.locate(name)?.ok_or(ErrorKind::NotFound)?;
    remove_from(operation, node, name, &frame, departure)
}

/// As `remove`, for a name that was found since the directory was locked and last changed.
pub(crate) fn remove_found(
    operation: &Operation<'_>,
    node: &mut NodeState,
    name: &[u8],
    found: &Found,
    departure: Departure,
) -> Result<()> {
    match &found.frame {
        Some(frame) => remove_from(operation, node, name, frame, departure),
        None => remove(operation, node, name, departure),
    }
}

fn remove_from(
    operation: &Operation<'_>,
    node: &mut NodeState,
    name: &[u8],
    frame: &Arc<Frame>,
    departure: Departure,
) -> Result<()> {
    let volume = operation.volume();
    volume.names.forget(node.serial, name);
    if (Directory { volume, node }).is_inline() {
        return inline::remove(volume, node, name);
    }
    leave_index(volume, node)?;
    let directory = Directory { volume, node };
    let stage = match departure {
        Departure::Removed => Stage::Names,
        Departure::Moved => Stage::Removals,
    };
    let stored = linear::stored_name(directory, frame, name)?;
    let name = stored.as_deref().unwrap_or(name);
    let removed = operation.modify_in(frame, stage, |bytes| volume.store.style.remove(bytes, name));
    directory.expect_done(frame, removed)
}

/// Points an existing name, also "..", to another inode.
pub(crate) fn replace(
    operation: &Operation<'_>,
    node: &mut NodeState,
    name: &[u8],
    ino: Ino,
    file_type: FileType,
) -> Result<()> {
    let volume = operation.volume();
    volume.names.forget(node.serial, name);
    if (Directory { volume, node }).is_inline() {
        inline::replace(volume, node, name, (ino, file_type))?;
    } else {
        let directory = Directory { volume, node };
        let (frame, _) = directory.locate(name)?.ok_or(ErrorKind::NotFound)?;
        let style = volume.store.style;
        let replaced = operation.modify(&frame, |bytes| style.replace(bytes, name, ino, file_type));
        directory.expect_done(&frame, replaced)?;
    }
    learn(volume, node, name, Some(target_of(volume, ino, file_type)));
    Ok(())
}

/// How the names of a directory are shown to readers.
///
/// # Errors
/// `Corrupt`, what the device returns: for an index whose root says how names are hashed.
pub(crate) fn naming(volume: &Volume, node: &NodeState) -> Result<Naming> {
    Naming::of(Directory { volume, node })
}

/// Whether it is listed by hash (see `list`). Encrypted names that know no case are not: their
/// hashes need the key.
pub(crate) fn is_by_hash(volume: &Volume, node: &NodeState) -> Result<bool> {
    let directory = Directory { volume, node };
    if node.inode.flags & flags::CASEFOLDED != 0
        && node.inode.is_encrypted(&volume.store.superblock)
    {
        return Ok(false);
    }
    let blocks = directory.blocks()?;
    let has_index = volume.store.superblock.has(Feature::DIR_INDEX);
    Ok(has_index && (directory.is_indexed() || blocks == 1))
}

/// Whether there is no name but "." and "..".
pub(crate) fn is_empty(volume: &Volume, node: &NodeState) -> Result<bool> {
    linear::is_empty(Directory { volume, node })
}

/// What `list` calls for each entry.
#[cfg(test)]
pub(crate) type EachName<'a> = dyn FnMut(&[u8], Ino, Option<FileType>) + 'a;

/// Calls `each(name, ino, type)` for every entry, including "." and "..", in the order of readdir:
/// by hash on volumes with dir_index (as in the kernel, even for one block), otherwise in the order
/// of the blocks.
#[cfg(test)]
pub(crate) fn list(volume: &Volume, node: &NodeState, each: &mut EachName<'_>) -> Result<()> {
    list_from(volume, node, Position::Start, &mut |entry| {
        each(entry.name, entry.ino, entry.file_type);
        std::ops::ControlFlow::Continue(())
    })
}

/// Makes the first block of a new directory.
pub(crate) fn create(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    parent: Ino,
) -> Result<()> {
    let (style, ino) = (operation.volume().store.style, node.ino);
    node.inode.size = 0;
    append(operation, reservation, node, Form::Linear, |bytes| {
        style.initialize_first(bytes, ino, parent)
    })?;
    Ok(())
}

/// A directory that is read.
#[derive(Clone, Copy)]
struct Directory<'a> {
    volume: &'a Volume,
    node: &'a NodeState,
}

impl Directory<'_> {
    /// How many blocks it has. Fails if that is more than its volume has, so all loops over blocks
    /// end.
    fn blocks(self) -> Result<u32> {
        if self.is_inline() {
            return Ok(1);
        }
        let (size, block_size) = (self.node.inode.size, u64::from(self.volume.store.block_size()));
        let blocks = size / block_size;
        let reason = if !size.is_multiple_of(block_size) {
            "not a multiple of the block size"
        } else if blocks > self.volume.store.superblock.blocks_count {
            "larger than the volume"
        } else if let Ok(blocks) = u32::try_from(blocks) {
            return Ok(blocks);
        } else {
            "larger than a directory can be"
        };
        Err(Error::field(Place::Inode(self.node.ino), "directory", "size", size, reason))
    }

    /// Whether its names are in its inode.
    fn is_inline(self) -> bool {
        self.node.inode.is_inline(&self.volume.store.superblock)
    }

    /// Fails if its names are in its inode, where none is added.
    fn check_in_blocks(self) -> Result<()> {
        if !self.is_inline() {
            return Ok(());
        }
        let (place, value) = (Place::Inode(self.node.ino), self.node.inode.flags.into());
        Err(Error::field(place, "directory", "flags", value, "those of names in the inode"))
    }

    /// Whether its names know no case.
    fn is_without_case(self) -> bool {
        self.node.inode.flags & flags::CASEFOLDED != 0
            && self.volume.store.superblock.has(Feature::CASEFOLD)
    }

    /// Whether it has an index that is to be used.
    fn is_indexed(self) -> bool {
        !self.is_inline()
            && self.volume.store.superblock.has(Feature::DIR_INDEX)
            && self.node.inode.flags & flags::INDEX != 0
    }

    /// Whether it becomes indexed when it outgrows its blocks.
    fn becomes_indexed(self) -> Result<bool> {
        Ok(self.volume.store.superblock.has(Feature::DIR_INDEX) && self.blocks()? == 1)
    }

    /// Reads one of its blocks. Names in an inode are read as if they were in a block.
    fn read(self, block: FileBlock) -> Result<Arc<Frame>> {
        if let Some(bytes) = inline_block(self.volume, self.node)? {
            let (table, _) = table::place(self.volume, self.node.ino)?;
            return Ok(Frame::apart(table, bytes));
        }
        let Some(number) = mapping::block_at(self.volume, self.node, block)? else {
            let place = Place::Inode(self.node.ino);
            return Err(Error::field(place, "directory", "block", block.0.into(), "a hole"));
        };
        self.volume
            .store
            .cache
            .read(number, kind(self.node, block, Form::of(self.node.inode.flags)))
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

    /// What an entry points to. Fails if its inode number is not valid.
    fn found(self, frame: &Frame, entry: &Entry<'_>) -> Result<NameTarget> {
        if entry.ino.0 == 0 || entry.ino.0 > self.volume.store.superblock.inodes_count {
            return Err(self.field(
                frame,
                "directory entry",
                "inode number",
                entry.ino.0,
                "outside the volume",
            ));
        }
        Ok(NameTarget { ino: entry.ino, file_type: entry.file_type })
    }

    /// Finds a name in one block.
    fn find_in(self, frame: &Arc<Frame>, name: &[u8]) -> Result<Option<(Arc<Frame>, NameTarget)>> {
        let bytes = frame.bytes();
        let entry = self
            .volume
            .store
            .style
            .find(&bytes, name)
            .map_err(|fault| self.corrupt(frame, fault))?;
        entry.map(|entry| Ok((Arc::clone(frame), self.found(frame, &entry)?))).transpose()
    }

    /// Finds a name, and the block that contains it.
    fn locate(self, name: &[u8]) -> Result<Option<(Arc<Frame>, NameTarget)>> {
        if self.node.inode.is_encrypted(&self.volume.store.superblock) && !is_dot(name) {
            return linear::locate_shown(self, |shown| shown == name);
        }
        if self.is_without_case() && !is_dot(name) {
            return self.locate_without_case(name);
        }
        if !self.is_indexed() {
            return linear::locate(self, name);
        }
        if is_dot(name) {
            return self.find_in(&self.read(FileBlock(0))?, name);
        }
        hashed::locate(self, name)
    }

    /// Finds a name, or else the first that is the same without case.
    fn locate_without_case(self, name: &[u8]) -> Result<Option<(Arc<Frame>, NameTarget)>> {
        if self.is_indexed() {
            let found = hashed::locate_folded(self, name)?;
            // Whoever made the index may know more letters than we do, but the same of ASCII.
            if found.is_some() || name.is_ascii() {
                return Ok(found);
            }
        }
        match linear::locate(self, name)? {
            Some(exact) => Ok(Some(exact)),
            None => linear::locate_shown(self, |shown| fold::is_same(shown, name)),
        }
    }

    /// The hash of a name by which it is found and listed.
    fn hash_of(self, hasher: &Hasher, name: &[u8]) -> NameHash {
        let is_encrypted = self.node.inode.is_encrypted(&self.volume.store.superblock);
        match self.is_without_case() && !is_encrypted {
            true => hasher.hash_folded(name),
            false => hasher.hash(name),
        }
    }

    /// Inserts into a block that is known to have room.
    fn insert_into(
        self,
        operation: &Operation<'_>,
        frame: &Arc<Frame>,
        entry: &NewEntry<'_>,
    ) -> Result<()> {
        let style = self.volume.store.style;
        let done = operation
            .modify(frame, |bytes| style.insert(bytes, entry.name, entry.ino, entry.file_type));
        self.expect_done(frame, done)
    }

    /// Fails if a change was refused that should have been possible, which happens only if two
    /// inodes share the block.
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

/// The one block that a directory with names in its inode would have; `None` for any other.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn inline_block(volume: &Volume, node: &NodeState) -> Result<Option<Vec<u8>>> {
    let Some(data) = node.inline_data(volume)? else { return Ok(None) };
    let bytes = volume.store.style.block_of_inline(node.ino, &data);
    bytes.map(Some).map_err(|fault| Error::corrupt(Place::Inode(node.ino), fault))
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

/// The kind of a block of this directory.
fn kind(node: &NodeState, block: FileBlock, form: Form) -> BlockKind {
    BlockKind::Directory { ino: node.ino, seed: node.seed, block, form }
}

/// Drops the index of a directory before its first change on a volume without dir_index, where it
/// is not maintained, as in ext2. Fails on volumes with checksums, where these would then be in the
/// wrong place.
fn leave_index(volume: &Volume, node: &mut NodeState) -> Result<()> {
    if volume.store.superblock.has(Feature::DIR_INDEX) || node.inode.flags & flags::INDEX == 0 {
        return Ok(());
    }
    if volume.store.style.checksummed {
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

/// Fails if the directory would need more than 32 bits of size (largedir is not supported).
fn check_growth(volume: &Volume, blocks: u32, more: u32) -> Result<()> {
    let size = (u64::from(blocks) + u64::from(more)) * u64::from(volume.store.block_size());
    if size > u64::from(u32::MAX) {
        return Err(ErrorKind::DirectoryFull.into());
    }
    Ok(())
}

/// Adds a block at the end of a directory.
fn append(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    form: Form,
    fill: impl FnOnce(&mut [u8]),
) -> Result<(FileBlock, Arc<Frame>)> {
    let volume = operation.volume();
    let blocks = Directory { volume, node }.blocks()?;
    check_growth(volume, blocks, 1)?;
    let block = FileBlock(blocks);
    let run = mapping::allocate(
        operation,
        reservation,
        node,
        block,
        1,
        Purpose::Directory,
        State::Written,
    )?;
    node.inode.size += u64::from(volume.store.block_size());
    Ok((block, operation.create(run.start, kind(node, block, form), fill)))
}
