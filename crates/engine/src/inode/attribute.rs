//! Extended attributes of an inode: in its tail and in a block that inodes with the same attributes
//! may share.
//!
//! *Invariants*: a shared block is never changed in place; its reference count is the number of
//! inodes that point to it.
//! *Locking*: the caller holds the inode.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::NodeState;
use crate::inode::permission::check_not_locked;
use crate::space::{Reservation, Reuse};
use crate::store::cache::{Frame, Kind};
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_format::attribute::{self, Attribute, AttributeError};
use extant_format::{BlockNo, Run};
use std::sync::Arc;

/// Whether a set may make a new attribute, or change one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetAttribute {
    /// Either.
    Any,
    /// Fails with `Exists` when it is there.
    Create,
    /// Fails with `NoAttribute` when it is not there.
    Replace,
}

impl From<AttributeError> for Error {
    fn from(error: AttributeError) -> Error {
        match error {
            AttributeError::UnknownPrefix => ErrorKind::AttributeUnsupported,
            AttributeError::BadName => {
                ErrorKind::InvalidArgument("an attribute name that is empty or too long")
            }
            AttributeError::NoRoom => ErrorKind::AttributesTooLarge,
            AttributeError::BadAccessList => {
                ErrorKind::InvalidArgument("not an access control list")
            }
        }
        .into()
    }
}

/// All attributes: those of the tail, then those of the block.
pub(crate) fn list(volume: &Volume, node: &NodeState) -> Result<Vec<Attribute>> {
    let mut attributes = attribute::parse_tail(&node.inode.tail)
        .map_err(|fault| Error::corrupt(Place::Inode(node.ino), fault))?;
    if node.inode.attribute_block.0 != 0 {
        let (frame, place) = read_block(volume, node)?;
        let block = node.inode.attribute_block;
        let more = attribute::parse_block(&frame.bytes(), block, &volume.superblock);
        attributes.extend(more.map_err(|fault| Error::corrupt(place, fault))?);
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
    if !volume.holds_block(block) {
        return Err(Error::field(place, "inode", "attribute block", block.0, "outside the volume"));
    }
    Ok((volume.cache.read(block, Kind::Attributes)?, place))
}

/// Sets one attribute.
pub(crate) fn set(
    volume: &Volume,
    node: &mut NodeState,
    name: &[u8],
    value: &[u8],
    how: SetAttribute,
) -> Result<()> {
    check_not_locked(node)?;
    attribute::check_name(name)?;
    let mut attributes = list(volume, node)?;
    let found = attributes.iter_mut().find(|attribute| attribute.name == name);
    match (found, how) {
        (Some(_), SetAttribute::Create) => return Err(ErrorKind::Exists.into()),
        (None, SetAttribute::Replace) => return Err(ErrorKind::NoAttribute.into()),
        (Some(attribute), _) => attribute.value = value.to_vec(),
        (None, _) => attributes.push(Attribute { name: name.to_vec(), value: value.to_vec() }),
    }
    replace_all(volume, node, &attributes)
}

/// Removes one attribute.
pub(crate) fn remove(volume: &Volume, node: &mut NodeState, name: &[u8]) -> Result<()> {
    check_not_locked(node)?;
    let mut attributes = list(volume, node)?;
    let before = attributes.len();
    attributes.retain(|attribute| attribute.name != name);
    if attributes.len() == before {
        return Err(ErrorKind::NoAttribute.into());
    }
    replace_all(volume, node, &attributes)
}

/// Keeps exactly these attributes, and stores the inode. Nothing has changed when it fails for want
/// of room.
pub(crate) fn replace_all(
    volume: &Volume,
    node: &mut NodeState,
    attributes: &[Attribute],
) -> Result<()> {
    let placed = attribute::place(attributes, node.inode.tail.len(), &volume.superblock)?;
    let handle = Handle::begin(volume, 4)?;
    let own = node.inode.attribute_block.0 != 0 && {
        let (frame, _) = read_block(volume, node)?;
        attribute::reference_count(&frame.bytes()) <= 1
    };
    match placed.block {
        None => release(&handle, node)?,
        Some(bytes) if own => {
            let (frame, _) = read_block(volume, node)?;
            handle.modify(&frame, |old| fill_block(volume, old, &bytes, frame.block()));
        }
        Some(bytes) => {
            let block = allocate_block(&handle, node)?;
            release(&handle, node)?;
            handle.create(block, Kind::Attributes, |new| fill_block(volume, new, &bytes, block));
            point_to(volume, node, block);
        }
    }
    node.inode.tail = placed.tail;
    node.inode.change_time = volume.now();
    node.store(&handle)
}

/// Whoever reads the block verifies its checksum, also before it is written.
fn fill_block(volume: &Volume, target: &mut [u8], bytes: &[u8], block: BlockNo) {
    target.copy_from_slice(bytes);
    attribute::seal_block(target, block, &volume.superblock);
}

fn point_to(volume: &Volume, node: &mut NodeState, block: BlockNo) {
    node.inode.attribute_block = block;
    node.inode.sectors += u64::from(volume.block_size() / 512);
}

fn allocate_block(handle: &Handle<'_>, node: &NodeState) -> Result<BlockNo> {
    let mut reservation = handle.volume().groups.reserve(handle.volume(), 1)?;
    allocate_reserved(handle, &mut reservation, node)
}

fn allocate_reserved(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &NodeState,
) -> Result<BlockNo> {
    let volume = handle.volume();
    let facts = crate::inode::mapping::attribute_facts(volume, node);
    let plan = volume.allocation.plan(&facts);
    let plan = crate::policy::allocation::Plan { length: 1, ..plan };
    let route = volume.policies.map_blocks.route(&facts, &plan);
    let run = volume.groups.allocate(handle, reservation, &plan, route)?;
    volume.allocation.given(&facts, run);
    Ok(run.start)
}

/// Lets go of the attribute block: one reference less, or freed.
pub(crate) fn release(handle: &Handle<'_>, node: &mut NodeState) -> Result<()> {
    let block = node.inode.attribute_block;
    if block.0 == 0 {
        return Ok(());
    }
    let volume = handle.volume();
    let (frame, _) = read_block(volume, node)?;
    // Read and counted down in one step: another inode may let go of the same block now.
    let shared = handle.modify(&frame, |bytes| {
        let count = attribute::reference_count(bytes);
        if count > 1 {
            attribute::set_reference_count(bytes, count - 1, block, &volume.superblock);
        }
        count > 1
    });
    if !shared {
        let run = Run { start: block, length: 1 };
        volume.groups.free(handle, run, Reuse::WhenDurable)?;
        node.note_freed(volume, run);
    }
    node.inode.attribute_block = BlockNo(0);
    node.inode.sectors = node.inode.sectors.saturating_sub(u64::from(volume.block_size() / 512));
    Ok(())
}

/// A new inode takes attributes that another one has already: its tail, and one reference more to
/// its block.
pub(crate) fn share(
    handle: &Handle<'_>,
    node: &mut NodeState,
    tail: &[u8],
    block: Option<BlockNo>,
) -> Result<()> {
    let volume = handle.volume();
    node.inode.tail = tail.to_vec();
    let Some(block) = block else { return Ok(()) };
    let frame = volume.cache.read(block, Kind::Attributes)?;
    handle.modify(&frame, |bytes| {
        let count = attribute::reference_count(bytes);
        attribute::set_reference_count(bytes, count + 1, block, &volume.superblock);
    });
    point_to(volume, node, block);
    Ok(())
}

/// A new inode takes attributes that nobody has yet; gives the block that holds what its tail does
/// not.
pub(crate) fn place_new(
    handle: &Handle<'_>,
    node: &mut NodeState,
    placed: &attribute::Placed,
) -> Result<Option<BlockNo>> {
    let blocks = u64::from(placed.block.is_some());
    let mut reservation = handle.volume().groups.reserve(handle.volume(), blocks)?;
    place_new_reserved(handle, &mut reservation, node, placed)
}

/// The same with the room that it needs: one block where `placed` has one.
pub(crate) fn place_new_reserved(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    placed: &attribute::Placed,
) -> Result<Option<BlockNo>> {
    node.inode.tail.clone_from(&placed.tail);
    let Some(bytes) = &placed.block else { return Ok(None) };
    let block = allocate_reserved(handle, reservation, node)?;
    handle.create(block, Kind::Attributes, |new| fill_block(handle.volume(), new, bytes, block));
    point_to(handle.volume(), node, block);
    Ok(Some(block))
}
