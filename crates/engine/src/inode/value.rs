//! Values of attributes in inodes of their own (`ea_inode`): made, counted, and let go.
//!
//! ```text
//! make: an inode without a link, and its bytes, step by step ---> adopt: a link, one reference
//!       |                                                              |  add, drop_reference
//!       | abandon                                   the last one is dropped: no link
//!       v                                                              v
//!    an orphan ----------------------------------------------------> `Released`, to be freed
//! ```
//!
//! A new value is an orphan from the first step that is recorded until the entry that has it is; so
//! is one that no entry has any more, until it is freed, by an operation of its own.
//!
//! *Invariants*: a value has as many references as entries on the disk have it; a list that several
//! inodes share counts once. Its blocks are metadata, in the cache of frames and in the log. No
//! `Node` of it is in memory but while it is freed.
//! *Locking*: the caller has locked the inode that has the attribute. Several may have one value,
//! so what is counted in its place in the table changes under the frame's lock.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::mapping::clusters::cluster_sectors;
use crate::inode::node::NodeState;
use crate::inode::operation::Operation;
use crate::inode::table::{self, next_generation, table_frame};
use crate::inode::unfinished::{add_orphan, hold_neighbour, remove_orphan};
use crate::inode::volume::Volume;
use crate::inode::{credits, mapping};
use crate::policy::allocation::Purpose;
use crate::space::{InodeKind, Reservation};
use crate::store::cache::{BlockKind, Frame};
use extant_format::attribute::{Distant, ValueRef};
use extant_format::checksum::crc32c;
use extant_format::extent::State;
use extant_format::inode::{FileType, Inode, ValueFacts, flags};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Fault, FileBlock, GroupNo, Ino};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const STRUCTURE: &str = "extended attribute";

/// Blocks of a value that one step writes, at most.
const PIECE: u32 = 12;
/// What one step of making a value changes: its map, a piece of it, its inode.
const MAKE_STEP: u32 = credits::RUN + PIECE + credits::INODE;
/// The first step: a number, too.
const BEGIN: u32 = MAKE_STEP + credits::NEW_INODE;
/// Making a value that of an entry: its inode, and the orphan before it.
pub(crate) const ADOPT: u32 = credits::INODE + credits::ORPHAN;
/// One reference more, or one fewer.
pub(crate) const REFERENCE: u32 = credits::INODE;

const _: () = assert!(BEGIN <= credits::STEP_MAX);

/// Whether attributes of the volume may have values in inodes.
pub(crate) fn has_values(volume: &Volume) -> bool {
    volume.store.superblock.has(Feature::EA_INODE)
}

/// Blocks that a value of so many bytes has. Each inode whose attribute it is counts them as its
/// own.
pub(crate) fn blocks(volume: &Volume, bytes: u32) -> u64 {
    u64::from(bytes.div_ceil(volume.store.block_size()))
}

/// The same in sectors: whole clusters, as for content.
pub(crate) fn sectors(volume: &Volume, bytes: u32) -> u64 {
    volume.space.units(blocks(volume, bytes)) * cluster_sectors(volume)
}

/// Whether Lustre made a value of this inode: it has one owner, which it names, and no count.
fn is_of_lustre(owner: &NodeState, value: &Inode) -> bool {
    value.modify_time.seconds == i64::from(owner.ino.0)
        && value.generation == owner.inode.generation
}

/// The inode of a value that an entry of `owner` has.
///
/// # Errors
/// `Corrupt`: without the feature; no such inode, or another one; what the device returns.
fn load(volume: &Volume, owner: &NodeState, value: ValueRef, place: Place) -> Result<Inode> {
    let ino = value.ino;
    let wrong = |reason| Error::field(place, STRUCTURE, "value's inode", ino.0.into(), reason);
    let superblock = &volume.store.superblock;
    if !has_values(volume) {
        return Err(wrong("not 0 without ea_inode"));
    }
    if ino == owner.ino || ino.0 < superblock.first_inode || ino.0 > superblock.inodes_count {
        return Err(wrong("none that may hold a value"));
    }
    let inode = table::load(volume, ino)?;
    if inode.flags & flags::EA_INODE == 0 || inode.file_type() != Some(FileType::Regular) {
        return Err(wrong("none that holds a value"));
    }
    if inode.size != u64::from(value.bytes) {
        return Err(wrong("one of another size than the entry says"));
    }
    Ok(inode)
}

/// The bytes of a value. Where Lustre made it, it has no hash, but says whose it is.
///
/// # Errors
/// As [`load`]; `Corrupt` for another hash.
pub(crate) fn read(
    volume: &Volume,
    owner: &NodeState,
    distant: &Distant,
    place: Place,
) -> Result<Vec<u8>> {
    let (ino, bytes) = (distant.ino, distant.bytes);
    let inode = load(volume, owner, ValueRef { ino, bytes }, place)?;
    let is_of_lustre = is_of_lustre(owner, &inode);
    let stored = ValueFacts::of(&inode).hash;
    let state = NodeState::new(volume, ino, inode);
    let block_size = volume.store.block_size();
    let mut value = vec![0; distant.bytes as usize];
    for (block, part) in (0..).zip(value.chunks_mut(block_size as usize)) {
        let piece = mapping::find(volume, &state, FileBlock(block), 1)?;
        if let mapping::Piece::Run(run, State::Written) = piece {
            let bytes = volume.store.cache.read(run.start, BlockKind::Plain)?.bytes();
            part.copy_from_slice(&bytes[..part.len()]);
        }
    }
    let computed = hash(volume, &value);
    match stored == computed && distant.is_hash_of(computed) || is_of_lustre {
        true => Ok(value),
        false => Err(Error::corrupt(
            Place::Inode(ino),
            Fault::Checksum { structure: "value of an attribute", stored, computed },
        )),
    }
}

/// The hash of a value.
pub(crate) fn hash(volume: &Volume, value: &[u8]) -> u32 {
    crc32c(volume.store.superblock.checksum_seed, value)
}

/// Fails unless a reference to this value can be dropped; has what that changes in memory for as
/// long as the result is kept.
///
/// # Errors
/// As [`load`]; `Corrupt` for one without references.
pub(crate) fn check(
    volume: &Volume,
    owner: &NodeState,
    value: ValueRef,
    place: Place,
) -> Result<Option<Arc<Frame>>> {
    let inode = load(volume, owner, value, place)?;
    let references = ValueFacts::of(&inode).references;
    if !is_of_lustre(owner, &inode) && (references == 0 || inode.links == 0) {
        let (structure, field) = ("value of an attribute", "number of references");
        let reason = "not as many as entries have it: run e2fsck";
        return Err(Error::field(Place::Inode(value.ino), structure, field, references, reason));
    }
    table::hold(volume, value.ino)
}

/// Makes an inode of a value, out of room that is reserved: [`need`]. It has no link and is no
/// one's yet: [`adopt`] or [`abandon`] comes next. The operation has changed nothing so far but
/// what it may record.
///
/// # Errors
/// `NoInodes`, `NoSpace`; what the device returns. Nothing is left of it.
pub(crate) fn make(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    owner: &NodeState,
    value: &[u8],
) -> Result<NodeState> {
    let volume = operation.volume();
    operation.next_step(BEGIN, || Ok(()))?;
    let superblock = &volume.store.superblock;
    let (group, from) = match volume.values_from.load(Ordering::Relaxed) {
        0 => (superblock.group_of_inode(owner.ino).map_or(GroupNo(0), |(group, _)| group), 0),
        from => superblock.group_of_inode(Ino(from)).ok_or(ErrorKind::NoInodes)?,
    };
    let was_whole = operation.is_whole();
    let ino = volume.space.allocate_inode(operation, group, from, InodeKind::Other)?;
    let begun = table::hold(volume, ino).and_then(|held| Ok((held, next_generation(volume, ino)?)));
    let (_table, generation) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            volume.space.free_inode(operation, ino, InodeKind::Other)?;
            if was_whole {
                operation.note_whole();
            }
            return Err(error);
        }
    };
    let mut inode = Inode { generation, ..Inode::new(0o100_600, superblock) };
    (inode.uid, inode.gid) = (owner.inode.uid, owner.inode.gid);
    inode.flags = flags::EA_INODE;
    if superblock.has(Feature::EXTENTS) {
        inode.flags |= flags::EXTENTS;
    }
    inode.size = value.len() as u64;
    inode.modify_time = volume.store.now();
    inode.create_time = inode.create_time.map(|_| inode.modify_time);
    ValueFacts { hash: hash(volume, value), references: 0 }.store(&mut inode);
    let mut state = NodeState::fresh(volume, ino, inode);
    mapping::initialize(&mut state);
    match fill(operation, reservation, &mut state, value) {
        Ok(()) => Ok(state),
        Err(error) => {
            abandon(operation, &mut state)?;
            Err(error)
        }
    }
}

/// Blocks that a value needs, in the worst case.
pub(crate) fn need(volume: &Volume, owner: &NodeState, bytes: u32) -> u64 {
    let blocks = blocks(volume, bytes);
    let mut inode = Inode::new(0o100_600, &volume.store.superblock);
    inode.flags |= owner.inode.flags & flags::EXTENTS;
    if volume.store.superblock.has(Feature::EXTENTS) {
        inode.flags |= flags::EXTENTS;
    }
    let mut state = NodeState::fresh(volume, owner.ino, inode);
    mapping::initialize(&mut state);
    mapping::worst_case(volume, &state, FileBlock(0), blocks)
}

/// Gives a value its blocks.
fn fill(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    state: &mut NodeState,
    value: &[u8],
) -> Result<()> {
    let volume = operation.volume();
    let block_size = volume.store.block_size() as usize;
    let mut left = value;
    let mut at = FileBlock(0);
    while !left.is_empty() {
        if at.0 > 0 {
            operation.next_step(MAKE_STEP, || record(operation, state))?;
        }
        let want = u32::try_from(left.len().div_ceil(block_size)).unwrap_or(u32::MAX).min(PIECE);
        let (purpose, written) = (Purpose::Data, State::Written);
        let run = mapping::allocate(operation, reservation, state, at, want, purpose, written)?;
        for block in run.start.0..run.start.0.saturating_add(run.length.into()) {
            let (part, rest) = left.split_at(block_size.min(left.len()));
            operation.create(BlockNo(block), BlockKind::Plain, |bytes| {
                bytes.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
            });
            left = rest;
        }
        at = FileBlock(at.0.saturating_add(run.length));
    }
    mapping::window::discard(operation, state)?;
    volume.space.close_window(state.ino);
    Ok(())
}

/// Stores a value that no entry on the disk has: it is an orphan.
///
/// # Errors
/// Those of reading its table block.
pub(crate) fn record(operation: &Operation<'_>, state: &mut NodeState) -> Result<()> {
    add_orphan(operation, state);
    state.store_now(operation)
}

/// Gives up a value that no entry has: it is freed later.
///
/// # Errors
/// Those of reading its table block.
pub(crate) fn abandon(operation: &Operation<'_>, state: &mut NodeState) -> Result<()> {
    mapping::window::discard(operation, state)?;
    operation.volume().space.close_window(state.ino);
    record(operation, state)?;
    operation.note_whole();
    operation.volume().released.note(state.ino);
    Ok(())
}

/// Makes a new value that of one entry, which the same step stores.
///
/// # Errors
/// Those of reading table blocks.
pub(crate) fn adopt(operation: &Operation<'_>, state: &mut NodeState) -> Result<()> {
    let _neighbour = hold_neighbour(operation.volume(), state.ino)?;
    state.inode.links = 1;
    let facts = ValueFacts { references: 1, ..ValueFacts::of(&state.inode) };
    facts.store(&mut state.inode);
    remove_orphan(operation, state)?;
    state.store_now(operation)
}

/// Changes what a value counts in its place in the table. Returns what `change` does.
fn change_facts<R>(
    operation: &Operation<'_>,
    ino: Ino,
    change: impl FnOnce(&mut Inode) -> R,
) -> Result<R> {
    let volume = operation.volume();
    let superblock = &volume.store.superblock;
    let (frame, offset) = table_frame(volume, ino)?;
    let range = offset..offset + usize::from(superblock.inode_size);
    operation.wait_for_log(&frame);
    operation.modify_at_once(&frame, |bytes| {
        let bytes = bytes.get_mut(range).ok_or(ErrorKind::NotFound)?;
        let parsed = Inode::parse(bytes, ino, superblock);
        let mut inode = parsed.map_err(|fault| Error::corrupt(Place::Inode(ino), fault))?;
        let changed = change(&mut inode);
        inode.encode(bytes, ino, superblock);
        Ok(changed)
    })
}

/// One entry more has a value.
///
/// # Errors
/// Those of reading its table block.
pub(crate) fn add_reference(operation: &Operation<'_>, ino: Ino) -> Result<()> {
    change_facts(operation, ino, |inode| {
        let facts = ValueFacts::of(inode);
        let references = facts.references.saturating_add(1);
        ValueFacts { references, ..facts }.store(inode);
    })
}

/// One entry of `owner` fewer has a value. The last one leaves an orphan, to be freed.
///
/// # Errors
/// Those of reading its table block: the caller keeps what [`check`] returned.
pub(crate) fn drop_reference(operation: &Operation<'_>, owner: &NodeState, ino: Ino) -> Result<()> {
    let volume = operation.volume();
    let is_last = change_facts(operation, ino, |inode| {
        if inode.links == 0 {
            return false;
        }
        let facts = ValueFacts::of(inode);
        let left = match is_of_lustre(owner, inode) {
            true => 0,
            false => facts.references.saturating_sub(1),
        };
        ValueFacts { references: left, ..facts }.store(inode);
        if left == 0 {
            inode.links = 0;
        }
        left == 0
    })?;
    if !is_last {
        return Ok(());
    }
    volume.orphans.insert(ino, |head| {
        operation.change_superblock(|changes| changes.last_orphan = head);
    });
    let (frame, offset) = table_frame(volume, ino)?;
    let superblock = &volume.store.superblock;
    let range = offset..offset + usize::from(superblock.inode_size);
    operation.wait_for_log(&frame);
    volume.orphans.store(ino, |next| {
        operation.modify_at_once(&frame, |bytes| {
            let Some(bytes) = bytes.get_mut(range) else { return Ok::<(), Error>(()) };
            let inode = Inode::parse(bytes, ino, superblock)
                .map_err(|fault| Error::corrupt(Place::Inode(ino), fault))?;
            let next = next.unwrap_or(0);
            Inode { deletion_time: next, ..inode }.encode(bytes, ino, superblock);
            Ok(())
        })
    })?;
    volume.released.note(ino);
    Ok(())
}
