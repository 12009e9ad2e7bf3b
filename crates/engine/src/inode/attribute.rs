//! Extended attributes of an inode: in the rest of its table entry (the tail), and in a block that
//! inodes with the same attributes may share.
//!
//! *Invariants*: a shared block is never changed in place. Its reference count is the number of
//! inodes that point to it.
//! *Locking*: the caller has locked the inode.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::NodeState;
use crate::inode::mapping::clusters::cluster_sectors;
use crate::inode::mapping::{self, Piece};
use crate::inode::operation::Operation;
use crate::inode::permission::check_not_locked;
use crate::inode::table;
use crate::inode::volume::Volume;
use crate::space::{Reservation, Reuse};
use crate::store::cache::{BlockKind, Frame};
use extant_format::attribute::{self, Attribute, Distant, List, Wanted};
use extant_format::checksum::crc32c;
use extant_format::extent::State;
use extant_format::inode::{FileType, flags};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Fault, FileBlock, Run};
use std::sync::Arc;

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

/// All attributes: those in the tail, then those in the block.
pub(crate) fn list(volume: &Volume, node: &NodeState) -> Result<Vec<Attribute>> {
    let tail = attribute::parse_tail(&node.inode.tail)
        .map_err(|fault| Error::corrupt(Place::Inode(node.ino), fault))?;
    let mut room = DISTANT_BYTES_MAX;
    let mut attributes = complete(volume, node, tail, Place::Inode(node.ino), &mut room)?;
    if node.inode.attribute_block.0 != 0 {
        let (frame, place) = read_block(volume, node)?;
        let block = node.inode.attribute_block;
        let more = attribute::parse_block(&frame.bytes(), block, &volume.store.superblock);
        let more = more.map_err(|fault| Error::corrupt(place, fault))?;
        attributes.extend(complete(volume, node, more, place, &mut room)?);
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
/// may be read. Those that are hidden are left out, where the volume may have some: it is not
/// written then.
fn complete(
    volume: &Volume,
    node: &NodeState,
    list: List,
    place: Place,
    room: &mut u32,
) -> Result<Vec<Attribute>> {
    let structure = "extended attribute";
    let has = |feature| volume.store.superblock.has(feature);
    if list.hidden > 0 && !has(Feature::INLINE_DATA) && !has(Feature::ENCRYPT) {
        let (hidden, reason) = (list.hidden as u64, "unknown without inline_data and encrypt");
        return Err(Error::field(place, structure, "count of names", hidden, reason));
    }
    let mut attributes = list.attributes;
    for distant in &list.distant {
        let (ino, bytes) = (distant.ino, distant.bytes);
        if !has(Feature::EA_INODE) {
            let reason = "not 0 without ea_inode";
            return Err(Error::field(place, structure, "value's inode", ino.0.into(), reason));
        }
        *room = room.checked_sub(bytes).ok_or_else(|| {
            let reason = "more than a list may have in inodes";
            Error::field(place, structure, "value size", bytes.into(), reason)
        })?;
        let value = distant_value(volume, node, distant, place)?;
        let whole = distant.attribute(&value).map_err(|fault| Error::corrupt(place, fault))?;
        if let Some(attribute) = attributes.get_mut(distant.at) {
            *attribute = whole;
        }
    }
    Ok(attributes)
}

/// A value in an inode of its own. Where Lustre made it, it has no hash, but says whose it is.
///
/// # Errors
/// `Corrupt`: no such inode, or another one; what the device returns.
fn distant_value(
    volume: &Volume,
    node: &NodeState,
    distant: &Distant,
    place: Place,
) -> Result<Vec<u8>> {
    let structure = "extended attribute";
    let ino = distant.ino;
    let wrong = |reason| Error::field(place, structure, "value's inode", ino.0.into(), reason);
    let superblock = &volume.store.superblock;
    if ino == node.ino || ino.0 < superblock.first_inode || ino.0 > superblock.inodes_count {
        return Err(wrong("none that may hold a value"));
    }
    let state = NodeState::new(volume, ino, table::load(volume, ino)?);
    let inode = &state.inode;
    if inode.flags & flags::EA_INODE == 0 || inode.file_type() != Some(FileType::Regular) {
        return Err(wrong("none that holds a value"));
    }
    if inode.size != u64::from(distant.bytes) {
        return Err(wrong("one of another size than the entry says"));
    }
    let block_size = volume.store.block_size();
    let mut value = vec![0; distant.bytes as usize];
    for (block, part) in (0..).zip(value.chunks_mut(block_size as usize)) {
        if let Piece::Run(run, State::Written) = mapping::find(volume, &state, FileBlock(block), 1)?
        {
            let bytes = volume.store.cache.read(run.start, BlockKind::Plain)?.bytes();
            part.copy_from_slice(&bytes[..part.len()]);
        }
    }
    let hash = crc32c(superblock.checksum_seed, &value);
    // An inode of a value keeps its hash in place of the access time.
    let stored = inode.access_time.seconds.cast_unsigned() as u32;
    let is_of_lustre = inode.modify_time.seconds == i64::from(node.ino.0)
        && inode.generation == node.inode.generation;
    match stored == hash && distant.is_hash_of(hash) || is_of_lustre {
        true => Ok(value),
        false => Err(Error::corrupt(
            Place::Inode(ino),
            Fault::Checksum { structure: "value of an attribute", stored, computed: hash },
        )),
    }
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
///
/// # Errors
/// `Corrupt`; what reading the block meets.
pub(crate) fn check_block(volume: &Volume, node: &NodeState) -> Result<()> {
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
/// is no room, nothing changes.
///
/// # Errors
/// `AttributesTooLarge`, `NoSpace`; what the device returns.
pub(crate) fn replace_all(
    operation: &Operation<'_>,
    node: &mut NodeState,
    attributes: &[Attribute],
) -> Result<()> {
    let volume = operation.volume();
    node.has_no_capability = false;
    let _table = table::hold(volume, node.ino)?;
    let context = context(volume, node)?;
    let wanted = Wanted {
        attributes,
        context: context.as_deref(),
        inline_rest: inline_rest(volume, node)?,
        ..Wanted::default()
    };
    let placed = attribute::place_all(&wanted, node.inode.tail.len(), &volume.store.superblock)?;
    // Read before a block is allocated, and kept in memory.
    let there = match node.inode.attribute_block.0 {
        0 => None,
        _ => Some(read_block(volume, node)?.0),
    };
    let own = there.is_some_and(|frame| attribute::reference_count(&frame.bytes()) <= 1);
    match placed.block {
        None => release(operation, node)?,
        Some(bytes) if own => {
            let (frame, _) = read_block(volume, node)?;
            operation.modify(&frame, |old| fill_block(volume, old, &bytes, frame.block()));
        }
        Some(bytes) => {
            let block = allocate_block(operation, node)?;
            release(operation, node)?;
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

fn allocate_block(operation: &Operation<'_>, node: &NodeState) -> Result<BlockNo> {
    let mut reservation = operation.volume().space.reserve(1)?;
    allocate_reserved(operation, &mut reservation, node)
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

/// Drops the inode's reference to its attribute block, and frees the block if it was the last.
pub(crate) fn release(operation: &Operation<'_>, node: &mut NodeState) -> Result<()> {
    let block = node.inode.attribute_block;
    if block.0 == 0 {
        return Ok(());
    }
    let volume = operation.volume();
    check_block(volume, node)?;
    let (frame, _) = read_block(volume, node)?;
    if attribute::reference_count(&frame.bytes()) <= 1 {
        volume.space.check_to_free(Run { start: block, length: 1 })?;
    }
    // Read and lowered in one step: another inode may drop its reference at the same time.
    let shared = operation.modify(&frame, |bytes| {
        let count = attribute::reference_count(bytes);
        if count > 1 {
            attribute::set_reference_count(bytes, count - 1, block, &volume.store.superblock);
        }
        count > 1
    });
    if !shared {
        let run = Run { start: block, length: 1 };
        volume.space.free_metadata(operation, run, Reuse::WhenDurable)?;
        node.note_freed(volume, run);
    }
    node.inode.attribute_block = BlockNo(0);
    node.inode.sectors = node.inode.sectors.saturating_sub(cluster_sectors(volume));
    Ok(())
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
