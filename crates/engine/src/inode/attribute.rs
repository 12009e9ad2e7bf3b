//! Extended attributes of an inode: in the rest of its table entry (the tail), and in a block that
//! inodes with the same attributes may share.
//!
//! *Invariants*: a shared block is never changed in place. Its reference count is the number of
//! inodes that point to it.
//! *Locking*: the caller has locked the inode.
mod values;

pub(crate) use values::{check_to_release, know_values, release_values};

use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::NodeState;
use crate::inode::mapping::clusters::cluster_sectors;
use crate::inode::operation::Operation;
use crate::inode::permission::check_not_locked;
use crate::inode::table;
use crate::inode::value;
use crate::inode::volume::Volume;
use crate::space::{Reservation, Reuse};
use crate::store::cache::{BlockKind, Frame};
use extant_format::attribute::{self, Attribute, Distant, List, Placed, ValueInode, Wanted};
use extant_format::inode::FileType;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Fault, Run};
use std::sync::Arc;
use values::{ValuePlan, values_in_block};

/// Whether setting an attribute may create it, or change it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetAttribute {
    /// Creates or changes it.
    Any,
    /// Only creates it: fails with `Exists` if it is there.
    Create,
    /// Only changes it: fails with `NoAttribute` if it is not there.
    Replace,
}

/// An attribute of an inode as it is kept.
struct Kept {
    attribute: Attribute,
    /// Its value has an inode.
    distant: Option<Distant>,
    list: ListPlace,
}

/// Which of an inode's lists has an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ListPlace {
    Tail,
    Block,
}

/// All attributes: those in the tail, then those in the block.
pub(crate) fn list(volume: &Volume, node: &NodeState) -> Result<Vec<Attribute>> {
    Ok(kept(volume, node)?.into_iter().map(|kept| kept.attribute).collect())
}

/// The same, with where each is.
fn kept(volume: &Volume, node: &NodeState) -> Result<Vec<Kept>> {
    let tail = attribute::parse_tail(&node.inode.tail)
        .map_err(|fault| Error::corrupt(Place::Inode(node.ino), fault))?;
    let mut room = DISTANT_BYTES_MAX;
    let place = (ListPlace::Tail, Place::Inode(node.ino));
    let mut attributes = complete(volume, node, tail, place, &mut room)?;
    if node.inode.attribute_block.0 != 0 {
        let (frame, place) = read_block(volume, node)?;
        let block = node.inode.attribute_block;
        let more = attribute::parse_block(&frame.bytes(), block, &volume.store.superblock);
        let more = more.map_err(|fault| Error::corrupt(place, fault))?;
        attributes.extend(complete(volume, node, more, (ListPlace::Block, place), &mut room)?);
    }
    Ok(attributes)
}

/// The encryption context, which no list of attributes shows and no change of them may lose.
///
/// # Errors
/// `Corrupt`; what the device returns.
fn context(volume: &Volume, node: &NodeState) -> Result<Option<Vec<u8>>> {
    if !volume.store.superblock.has(Feature::ENCRYPT) {
        return Ok(None);
    }
    let tail = attribute::parse_tail(&node.inode.tail)
        .map_err(|fault| Error::corrupt(Place::Inode(node.ino), fault))?;
    if tail.context.is_some() || node.inode.attribute_block.0 == 0 {
        return Ok(tail.context);
    }
    let (frame, place) = read_block(volume, node)?;
    let block = node.inode.attribute_block;
    let more = attribute::parse_block(&frame.bytes(), block, &volume.store.superblock);
    Ok(more.map_err(|fault| Error::corrupt(place, fault))?.context)
}

/// What values in inodes of their own may take together, in bytes: a list of a hostile volume may
/// name one a thousand times.
const DISTANT_BYTES_MAX: u32 = 16 << 20;

/// The attributes of a list, with values that are in inodes of their own, of which `room` bytes
/// may be read. Those that are hidden are left out, where the volume may have some.
fn complete(
    volume: &Volume,
    node: &NodeState,
    list: List,
    (which, place): (ListPlace, Place),
    room: &mut u32,
) -> Result<Vec<Kept>> {
    let structure = "extended attribute";
    let has = |feature| volume.store.superblock.has(feature);
    if list.hidden > 0 && !has(Feature::INLINE_DATA) && !has(Feature::ENCRYPT) {
        let (hidden, reason) = (list.hidden as u64, "unknown without inline_data and encrypt");
        return Err(Error::field(place, structure, "count of names", hidden, reason));
    }
    let kept = |attribute| Kept { attribute, distant: None, list: which };
    let mut attributes: Vec<Kept> = list.attributes.into_iter().map(kept).collect();
    for distant in list.distant {
        *room = room.checked_sub(distant.bytes).ok_or_else(|| {
            let reason = "more than a list may have in inodes";
            Error::field(place, structure, "value size", distant.bytes.into(), reason)
        })?;
        let value = value::read(volume, node, &distant, place)?;
        let whole = distant.attribute(&value).map_err(|fault| Error::corrupt(place, fault))?;
        if let Some(kept) = attributes.get_mut(distant.at) {
            (kept.attribute, kept.distant) = (whole, Some(distant));
        }
    }
    Ok(attributes)
}

/// The value of one attribute, where there is one.
pub(crate) fn get(volume: &Volume, node: &NodeState, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let found = list(volume, node)?.into_iter().find(|attribute| attribute.name == name);
    Ok(found.map(|attribute| attribute.value))
}

fn read_block(volume: &Volume, node: &NodeState) -> Result<(Arc<Frame>, Place)> {
    let block = node.inode.attribute_block;
    let place = Place::InodeBlock(node.ino, block);
    if !volume.store.holds_block(block) {
        return Err(Error::field(place, "inode", "attribute block", block.0, "outside the volume"));
    }
    if volume.space.is_metadata(Run { start: block, length: 1 }) {
        let reason = "the volume's own metadata";
        return Err(Error::field(place, "inode", "attribute block", block.0, reason));
    }
    Ok((volume.store.cache.read(block, BlockKind::Attributes)?, place))
}

/// Fails when the inode's attribute block is none, before anything is changed in it: the inode of a
/// damaged volume may point to any block of a file.
fn check_block(volume: &Volume, node: &NodeState) -> Result<()> {
    if node.inode.attribute_block.0 == 0 {
        return Ok(());
    }
    let (frame, place) = read_block(volume, node)?;
    let bytes = frame.bytes();
    let stored = attribute::StoredBlock::new(&bytes);
    let structure = "attribute block";
    if stored.magic() != attribute::MAGIC {
        let found = stored.magic();
        return Err(Error::corrupt(place, Fault::Magic { structure, found }));
    }
    match stored.references() {
        0 => Err(Error::field(place, structure, "number of references", 0, "not 1 or more")),
        _ => Ok(()),
    }
}

/// Sets one attribute.
///
/// # Errors
/// `NotPermitted`, `Exists`, `NoAttribute`; those of a bad name, or of too little room.
pub(crate) fn set(
    operation: &Operation<'_>,
    node: &mut NodeState,
    name: &[u8],
    value: &[u8],
    how: SetAttribute,
) -> Result<()> {
    check_not_locked(node)?;
    attribute::check_name(name)?;
    let mut attributes = list(operation.volume(), node)?;
    let found = attributes.iter_mut().find(|attribute| attribute.name == name);
    match (found, how) {
        (Some(_), SetAttribute::Create) => return Err(ErrorKind::Exists.into()),
        (None, SetAttribute::Replace) => return Err(ErrorKind::NoAttribute.into()),
        (Some(attribute), _) => attribute.value = value.to_vec(),
        (None, _) => attributes.push(Attribute { name: name.to_vec(), value: value.to_vec() }),
    }
    replace_all(operation, node, &attributes)
}

/// Removes one attribute.
///
/// # Errors
/// `NotPermitted`, `NoAttribute`.
pub(crate) fn remove(operation: &Operation<'_>, node: &mut NodeState, name: &[u8]) -> Result<()> {
    check_not_locked(node)?;
    let mut attributes = list(operation.volume(), node)?;
    let before = attributes.len();
    attributes.retain(|attribute| attribute.name != name);
    if attributes.len() == before {
        return Err(ErrorKind::NoAttribute.into());
    }
    replace_all(operation, node, &attributes)
}

/// Makes these the inode's only attributes, but for its encryption context, and stores it. If there
/// is no room, nothing changes. Where a value needs an inode, the operation has changed nothing
/// before but what it may record.
///
/// # Errors
/// `AttributesTooLarge`, `NoSpace`, `NoInodes`; what the device returns.
pub(crate) fn replace_all(
    operation: &Operation<'_>,
    node: &mut NodeState,
    attributes: &[Attribute],
) -> Result<()> {
    let volume = operation.volume();
    node.has_no_capability = false;
    let _table = table::hold(volume, node.ino)?;
    // Read before a block is allocated, and kept in memory.
    let there = match node.inode.attribute_block.0 {
        0 => None,
        _ => Some(read_block(volume, node)?.0),
    };
    let sharing = match there.is_none_or(|frame| attribute::reference_count(&frame.bytes()) <= 1) {
        true => Sharing::Own,
        false => Sharing::Shared,
    };
    if !value::has_values(volume) {
        let placed = place_with(volume, node, attributes, &[])?;
        let needs_block = u64::from(placed.block.is_some() && !is_in_own_block(node, sharing));
        let mut reservation = volume.space.reserve(needs_block)?;
        return store_placed(operation, &mut reservation, node, placed, sharing);
    }
    know_values(volume, node)?;
    let plan = ValuePlan::new(volume, node, attributes, sharing)?;
    let _held = plan.check(volume, node)?;
    // What goes from the block of an inode needs no room, on a full volume either.
    let block = u64::from(!is_in_own_block(node, sharing));
    let mut reservation = volume.space.reserve(plan.blocks(volume, node, attributes)? + block)?;
    let mut made = Vec::with_capacity(plan.new.len());
    let stored = plan
        .make(operation, &mut reservation, node, attributes, &mut made)
        .and_then(|()| plan.store(operation, &mut reservation, node, attributes, &mut made));
    if stored.is_err() {
        // Those that became no one's.
        made.iter_mut()
            .filter(|state| state.inode.links == 0)
            .try_for_each(|state| value::abandon(operation, state))?;
    }
    stored
}

/// Whether other inodes have the attribute block of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sharing {
    /// None has, or there is no block.
    Own,
    Shared,
}

/// Whether the inode has a block for attributes that is not shared.
fn is_in_own_block(node: &NodeState, sharing: Sharing) -> bool {
    sharing == Sharing::Own && node.inode.attribute_block.0 != 0
}

/// Where these attributes go, beside what else the lists have.
fn place_with(
    volume: &Volume,
    node: &NodeState,
    attributes: &[Attribute],
    in_inodes: &[ValueInode],
) -> Result<Placed> {
    let context = context(volume, node)?;
    let wanted = Wanted {
        attributes,
        in_inodes,
        context: context.as_deref(),
        inline_rest: inline_rest(volume, node)?,
    };
    let superblock = &volume.store.superblock;
    let length = node.inode.tail.len();
    // e2fsck takes a symlink that counts blocks for one with a map, unless one is for attributes.
    let is_symlink = node.inode.is_fast_symlink(superblock);
    if !is_symlink || in_inodes.is_empty() {
        let placed = attribute::place_all(&wanted, length, superblock)?;
        return check_inline_symlink(volume, node, placed);
    }
    let placed = attribute::place_all(&wanted, 0, superblock)?;
    Ok(Placed { tail: vec![0; length], ..placed })
}

/// Fails where a symlink with its target in the inode would get an attribute block: e2fsck would
/// take that for a block of nobody's.
fn check_inline_symlink(volume: &Volume, node: &NodeState, placed: Placed) -> Result<Placed> {
    let inode = &node.inode;
    let is_inline_symlink =
        inode.is_inline(&volume.store.superblock) && inode.file_type() == Some(FileType::Symlink);
    match is_inline_symlink && inode.attribute_block.0 == 0 && placed.block.is_some() {
        true => Err(ErrorKind::AttributesTooLarge.into()),
        false => Ok(placed),
    }
}

/// Stores attributes where they go.
fn store_placed(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    placed: Placed,
    sharing: Sharing,
) -> Result<()> {
    let volume = operation.volume();
    let values = match sharing {
        Sharing::Own => ValuesOfBlock::Counted,
        Sharing::Shared => ValuesOfBlock::Dropped,
    };
    match placed.block {
        None => release(operation, node, values)?,
        Some(bytes) if is_in_own_block(node, sharing) => {
            let (frame, _) = read_block(volume, node)?;
            operation.modify(&frame, |old| fill_block(volume, old, &bytes, frame.block()));
        }
        Some(bytes) => {
            let block = allocate_reserved(operation, reservation, node)?;
            release(operation, node, values)?;
            operation
                .create(block, BlockKind::Attributes, |new| fill_block(volume, new, &bytes, block));
            point_to(volume, node, block);
        }
    }
    node.inode.tail = placed.tail;
    node.inode.change_time = volume.store.now();
    node.store(operation)
}

/// The second part of inline data, which no change of attributes may lose.
///
/// # Errors
/// `Corrupt`; `OperationUnsupported` for another attribute that no system call gives.
fn inline_rest<'n>(volume: &Volume, node: &'n NodeState) -> Result<Option<&'n [u8]>> {
    if !volume.store.superblock.has(Feature::INLINE_DATA) {
        return Ok(None);
    }
    let tail = &node.inode.tail;
    let wrong = |fault| Error::corrupt(Place::Inode(node.ino), fault);
    let rest = attribute::inline_rest(tail).map_err(wrong)?;
    if attribute::parse_tail(tail).map_err(wrong)?.hidden > usize::from(rest.is_some()) {
        let what = "an encryption context without the feature is not written again";
        return Err(ErrorKind::OperationUnsupported(what).into());
    }
    let is_inline = node.inode.is_inline(&volume.store.superblock);
    Ok(rest.filter(|_| is_inline).and_then(|range| tail.get(range)))
}

/// Fills an attribute block and seals it: its checksum is verified even before it is written.
fn fill_block(volume: &Volume, target: &mut [u8], bytes: &[u8], block: BlockNo) {
    target.copy_from_slice(bytes);
    attribute::seal_block(target, block, &volume.store.superblock);
}

fn point_to(volume: &Volume, node: &mut NodeState, block: BlockNo) {
    node.inode.attribute_block = block;
    node.inode.sectors += cluster_sectors(volume);
}

fn allocate_reserved(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &NodeState,
) -> Result<BlockNo> {
    let volume = operation.volume();
    let facts = crate::inode::mapping::attribute_facts(volume, node);
    let plan = volume.store.policies.allocation.plan(&facts);
    let plan = crate::policy::allocation::AllocationPlan { length: 1, ..plan };
    let route = volume.store.policies.map_blocks.route(&facts, &plan);
    let run = volume.space.allocate(operation, reservation, &plan, route)?;
    volume.store.policies.allocation.given(&facts, run);
    Ok(run.start)
}

/// Drops all attributes of an inode that is being freed, which has let go those in inodes
/// ([`release_values`]).
///
/// # Errors
/// `Corrupt`; what the device returns.
pub(crate) fn release_all(operation: &Operation<'_>, node: &mut NodeState) -> Result<()> {
    release(operation, node, ValuesOfBlock::Counted)
}

/// What becomes of the values in inodes that a block has, when it is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ValuesOfBlock {
    /// It has none any more, or the caller counts them.
    Counted,
    /// They lose a reference: few, as many as the operation said.
    Dropped,
}

/// Drops the inode's reference to its attribute block, and frees the block if it was the last.
fn release(operation: &Operation<'_>, node: &mut NodeState, values: ValuesOfBlock) -> Result<()> {
    let block = node.inode.attribute_block;
    if block.0 == 0 {
        return Ok(());
    }
    let volume = operation.volume();
    let (frame, _) = read_block(volume, node)?;
    if attribute::reference_count(&frame.bytes()) <= 1 {
        volume.space.check_to_free(Run { start: block, length: 1 })?;
    }
    if !drop_sharer(operation, node)? {
        if values == ValuesOfBlock::Dropped && value::has_values(volume) {
            for value in values_in_block(volume, node)? {
                value::drop_reference(operation, node, value.ino)?;
            }
        }
        let run = Run { start: block, length: 1 };
        volume.space.free_metadata(operation, run, Reuse::WhenDurable)?;
        node.note_freed(volume, run);
    }
    leave_block(volume, node);
    Ok(())
}

/// Lowers the count of a block that others have too. Says whether others have it.
fn drop_sharer(operation: &Operation<'_>, node: &NodeState) -> Result<bool> {
    let volume = operation.volume();
    check_block(volume, node)?;
    let (frame, _) = read_block(volume, node)?;
    let block = frame.block();
    // Read and lowered in one step: another inode may drop its reference at the same time.
    Ok(operation.modify(&frame, |bytes| {
        let count = attribute::reference_count(bytes);
        if count > 1 {
            attribute::set_reference_count(bytes, count - 1, block, &volume.store.superblock);
        }
        count > 1
    }))
}

/// The inode has no attribute block any more.
fn leave_block(volume: &Volume, node: &mut NodeState) {
    node.inode.attribute_block = BlockNo(0);
    node.inode.sectors = node.inode.sectors.saturating_sub(cluster_sectors(volume));
}

/// Gives a new inode the attributes of an existing one: its tail, and another reference to its
/// block.
pub(crate) fn share(
    operation: &Operation<'_>,
    node: &mut NodeState,
    tail: &[u8],
    block: Option<BlockNo>,
) -> Result<()> {
    let volume = operation.volume();
    node.has_no_capability = false;
    node.inode.tail = tail.to_vec();
    let Some(block) = block else { return Ok(()) };
    let frame = volume.store.cache.read(block, BlockKind::Attributes)?;
    operation.modify(&frame, |bytes| {
        let count = attribute::reference_count(bytes);
        attribute::set_reference_count(bytes, count + 1, block, &volume.store.superblock);
    });
    point_to(volume, node, block);
    Ok(())
}

/// Gives a new inode attributes that no other inode has. Returns the block with those that are not
/// in its tail.
pub(crate) fn place_new(
    operation: &Operation<'_>,
    node: &mut NodeState,
    placed: &attribute::Placed,
) -> Result<Option<BlockNo>> {
    let blocks = u64::from(placed.block.is_some());
    let mut reservation = operation.volume().space.reserve(blocks)?;
    place_new_reserved(operation, &mut reservation, node, placed)
}

/// As `place_new`, with room for one block promised by the caller, where `placed` has one.
pub(crate) fn place_new_reserved(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    placed: &attribute::Placed,
) -> Result<Option<BlockNo>> {
    node.has_no_capability = false;
    node.inode.tail.clone_from(&placed.tail);
    let Some(bytes) = &placed.block else { return Ok(None) };
    let block = allocate_reserved(operation, reservation, node)?;
    operation.create(block, BlockKind::Attributes, |new| {
        fill_block(operation.volume(), new, bytes, block)
    });
    point_to(operation.volume(), node, block);
    Ok(Some(block))
}
