//! Which values of an inode's attributes are in inodes of their own (`ea_inode`): which stay, which
//! are made, and which are let go.
//!
//! A value in an inode stays there as long as it does not change. Where inode and block have no
//! room for the others, new ones go into inodes, the largest first, and then those that were there.
//!
//! *Invariants*: what has to be read is read, and room for what is new promised, before the first
//! change. An inode counts the blocks of its values as its own, and so do the quota files.
//! *Locking*: as in `attribute`.
use super::{
    DISTANT_BYTES_MAX, ListPlace, Sharing, check_block, drop_sharer, fill_block, kept, leave_block,
    place_with, read_block, store_placed,
};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::operation::Operation;
use crate::inode::shares::Share;
use crate::inode::unfinished::pause;
use crate::inode::value;
use crate::inode::volume::Volume;
use crate::inode::{NodeState, credits};
use crate::space::Reservation;
use crate::store::cache::Frame;
use extant_format::attribute::{self, Attribute, VALUE_MAX, ValueInode, ValueRef};
use extant_format::inode::ValueFacts;
use extant_format::{Fault, Ino};
use std::sync::Arc;

/// Values that one change of attributes makes, at most.
const NEW_MAX: usize = 4;
/// References that one step changes, at most.
const AT_ONCE: usize = 16;
/// One step in which values of an inode that is being freed are let go: its attribute block, itself
/// and the orphan before it, and the values.
const LET_GO: u32 =
    credits::ATTRIBUTES + credits::INODE + credits::ORPHAN + AT_ONCE as u32 * value::REFERENCE;
/// The last step of a change of attributes: what each may change.
const STORE_MAX: u32 =
    credits::CHANGE + NEW_MAX as u32 * value::ADOPT + 2 * AT_ONCE as u32 * value::REFERENCE;

const _: () = assert!(STORE_MAX <= credits::STEP_MAX && LET_GO <= credits::STEP_MAX);

/// What a change of an inode's attributes does with values in inodes.
pub(super) struct ValuePlan {
    /// Of the block that there is.
    sharing: Sharing,
    /// Values that stay, by the numbers of their attributes, rising.
    stay: Vec<ValueInode>,
    /// Numbers of attributes whose values get inodes.
    pub(super) new: Vec<usize>,
    /// References that end, and those that a block of the inode's own adds to a shared one's.
    dropped: Vec<ValueRef>,
    added: Vec<ValueRef>,
    /// Values of a shared block, which lose a reference if it is not shared any more by then.
    in_block: usize,
    /// Sectors of those that the inode has no more.
    sectors_less: u64,
}

impl ValuePlan {
    /// The plan for making these the attributes of an inode.
    ///
    /// # Errors
    /// `AttributesTooLarge`; `Corrupt`; what the device returns.
    pub(super) fn new(
        volume: &Volume,
        node: &NodeState,
        attributes: &[Attribute],
        sharing: Sharing,
    ) -> Result<ValuePlan> {
        let before = kept(volume, node)?;
        let mut plan = ValuePlan {
            sharing,
            stay: Vec::new(),
            new: Vec::new(),
            dropped: Vec::new(),
            added: Vec::new(),
            in_block: 0,
            sectors_less: 0,
        };
        let mut is_there = vec![false; attributes.len()];
        for kept in &before {
            let at = attributes.iter().position(|attribute| *attribute == kept.attribute);
            if let Some(is_there) = at.and_then(|at| is_there.get_mut(at)) {
                *is_there = true;
            }
            let Some(distant) = &kept.distant else { continue };
            let value = ValueRef { ino: distant.ino, bytes: distant.bytes };
            let is_shared = kept.list == ListPlace::Block && sharing == Sharing::Shared;
            plan.in_block += usize::from(is_shared);
            match at {
                Some(at) => plan.stay.push(distant.kept(at)),
                None => plan.sectors_less += value::sectors(volume, value.bytes),
            }
            match (at, is_shared) {
                (Some(_), true) => plan.added.push(value),
                (None, false) => plan.dropped.push(value),
                (Some(_), false) | (None, true) => {}
            }
        }
        plan.stay.sort_unstable_by_key(|value| value.at);
        plan.choose(&is_there, volume, node, attributes)?;
        Ok(plan)
    }

    /// Chooses those whose values get inodes: among attributes that are new, or have a new value,
    /// and then among those that are there (`is_there`).
    fn choose(
        &mut self,
        is_there: &[bool],
        volume: &Volume,
        node: &NodeState,
        attributes: &[Attribute],
    ) -> Result<()> {
        let length = |at: &usize| attributes.get(*at).map_or(0, |attribute| attribute.value.len());
        let mut candidates: Vec<usize> = (0..attributes.len()).collect();
        candidates.retain(|at| length(at) > 0 && !self.stay.iter().any(|value| value.at == *at));
        if candidates.iter().any(|at| length(at) > VALUE_MAX as usize) {
            return Err(ErrorKind::ValueTooLong.into());
        }
        // The first one is the last.
        candidates.sort_by_key(|at| (is_there.get(*at) == Some(&false), length(at)));
        let mut places = self.stay.clone();
        loop {
            let error = match place_with(volume, node, attributes, &places) {
                Ok(_) => break,
                Err(error) => error,
            };
            let next = candidates.pop().filter(|_| self.new.len() < NEW_MAX);
            let (Some(at), ErrorKind::AttributesTooLarge) = (next, &error.kind) else {
                return Err(error);
            };
            self.new.push(at);
            places.push(ValueInode { at, ino: Ino(1), bytes: 0, hash: 0 });
            places.sort_unstable_by_key(|value| value.at);
        }
        let bytes = self.stay.iter().map(|value| u64::from(value.bytes)).sum::<u64>()
            + self.new.iter().map(|at| length(at) as u64).sum::<u64>();
        match bytes > DISTANT_BYTES_MAX.into() {
            true => Err(ErrorKind::AttributesTooLarge.into()),
            false => Ok(()),
        }
    }

    /// Fails if values that lose or gain a reference are none, and brings what that changes into
    /// memory, where it stays as long as the result is kept.
    ///
    /// # Errors
    /// `Corrupt`; `OperationUnsupported` for too many of them; what the device returns.
    pub(super) fn check(
        &self,
        volume: &Volume,
        node: &NodeState,
    ) -> Result<Vec<Option<Arc<Frame>>>> {
        if self.dropped.len() + self.added.len() > AT_ONCE || self.in_block > AT_ONCE {
            let what = "so many values in inodes are not changed at once";
            return Err(ErrorKind::OperationUnsupported(what).into());
        }
        check_all(volume, node, self.dropped.iter().chain(&self.added))
    }

    /// Blocks that new values need, at most.
    ///
    /// # Errors
    /// Those of a bad access list.
    pub(super) fn blocks(
        &self,
        volume: &Volume,
        node: &NodeState,
        attributes: &[Attribute],
    ) -> Result<u64> {
        let mut blocks = 0;
        for attribute in self.new.iter().filter_map(|at| attributes.get(*at)) {
            let bytes = attribute::value_on_disk(attribute)?.len();
            blocks += value::need(volume, node, u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        Ok(blocks)
    }

    /// Makes the new values, in the order of `new`. Those of `made` are there when it fails, too.
    ///
    /// # Errors
    /// `NoSpace`, `NoInodes`; what the device returns.
    pub(super) fn make(
        &self,
        operation: &Operation<'_>,
        reservation: &mut Reservation<'_>,
        node: &NodeState,
        attributes: &[Attribute],
        made: &mut Vec<NodeState>,
    ) -> Result<()> {
        for attribute in self.new.iter().filter_map(|at| attributes.get(*at)) {
            if let Some(last) = made.last_mut() {
                // The steps of the next one may be recorded.
                value::record(operation, last)?;
            }
            let bytes = attribute::value_on_disk(attribute)?;
            made.push(value::make(operation, reservation, node, &bytes)?);
        }
        Ok(())
    }

    /// Stores the attributes, with the values that were made: the last step.
    ///
    /// # Errors
    /// Those of storing them, with nothing changed but by a device that fails.
    pub(super) fn store(
        &self,
        operation: &Operation<'_>,
        reservation: &mut Reservation<'_>,
        node: &mut NodeState,
        attributes: &[Attribute],
        made: &mut [NodeState],
    ) -> Result<()> {
        let volume = operation.volume();
        let changed = self.dropped.len() + self.added.len() + self.in_block;
        let more = made.len() as u32 * value::ADOPT + changed as u32 * value::REFERENCE;
        match made.is_empty() {
            true => operation.need_beside(more),
            false => operation.next_step(credits::CHANGE + more, || {
                made.last_mut().map_or(Ok(()), |last| value::record(operation, last))
            })?,
        }
        let mut in_inodes = self.stay.clone();
        let mut sectors_more = 0;
        for (at, state) in self.new.iter().zip(&*made) {
            let Some(attribute) = attributes.get(*at) else { continue };
            let bytes = u32::try_from(state.inode.size).unwrap_or(u32::MAX);
            let value_hash = ValueFacts::of(&state.inode).hash;
            let hash = attribute::hash_of_entry(&attribute.name, value_hash)?;
            in_inodes.push(ValueInode { at: *at, ino: state.ino, bytes, hash });
            sectors_more += value::sectors(volume, bytes);
        }
        in_inodes.sort_unstable_by_key(|value| value.at);
        let placed = place_with(volume, node, attributes, &in_inodes)?;
        let before = (node.inode.sectors, node.values());
        node.inode.sectors = before.0.saturating_sub(self.sectors_less) + sectors_more;
        node.set_values(before.1.map(|_| in_inodes.len() as u32));
        let stored = store_placed(operation, reservation, node, placed, self.sharing);
        if stored.is_err() {
            node.inode.sectors = before.0;
            node.set_values(before.1);
            return stored;
        }
        made.iter_mut().try_for_each(|state| value::adopt(operation, state))?;
        self.added.iter().try_for_each(|value| value::add_reference(operation, value.ino))?;
        self.dropped.iter().try_for_each(|value| value::drop_reference(operation, node, value.ino))
    }
}

/// As [`value::check`], of several.
fn check_all<'a>(
    volume: &Volume,
    node: &NodeState,
    values: impl IntoIterator<Item = &'a ValueRef>,
) -> Result<Vec<Option<Arc<Frame>>>> {
    let place = Place::Inode(node.ino);
    values.into_iter().map(|value| value::check(volume, node, *value, place)).collect()
}

fn corrupt(node: &NodeState, fault: Fault) -> Error {
    Error::corrupt(Place::Inode(node.ino), fault)
}

/// The values in inodes that the block of an inode has.
///
/// # Errors
/// `Corrupt`; what the device returns.
pub(super) fn values_in_block(volume: &Volume, node: &NodeState) -> Result<Vec<ValueRef>> {
    let (frame, _) = read_block(volume, node)?;
    attribute::values_in_block(&frame.bytes()).map_err(|fault| corrupt(node, fault))
}

/// The values in inodes that an inode has, without its block if `block` is 0.
fn all_values(volume: &Volume, node: &NodeState) -> Result<Vec<ValueRef>> {
    let tail = attribute::values_in_tail(&node.inode.tail);
    let mut values = tail.map_err(|fault| corrupt(node, fault))?;
    if node.inode.attribute_block.0 != 0 {
        values.extend(values_in_block(volume, node)?);
    }
    Ok(values)
}

/// Counts the values of an inode, where quotas do: before its owner or its attributes change, and
/// before it is freed.
///
/// # Errors
/// `Corrupt`; what the device returns.
pub(crate) fn know_values(volume: &Volume, node: &mut NodeState) -> Result<()> {
    if node.values().is_some() || volume.quotas.is_none() || !value::has_values(volume) {
        return Ok(());
    }
    let count = u32::try_from(all_values(volume, node)?.len()).unwrap_or(u32::MAX);
    if let Some(account) = node.counted.as_deref_mut() {
        account.values = Some(count);
        if let Share::Of(_, _, inodes) = &mut account.share {
            *inodes = inodes.saturating_add(count);
        }
    }
    Ok(())
}

/// Fails if an inode's attributes could not be let go, before anything is changed: its block is
/// none, or a value in an inode is none.
///
/// # Errors
/// `Corrupt`; what the device returns.
pub(crate) fn check_to_release(volume: &Volume, node: &NodeState) -> Result<()> {
    check_block(volume, node)?;
    if value::has_values(volume) {
        check_all(volume, node, &all_values(volume, node)?)?;
    }
    Ok(())
}

/// Lets go the values in inodes of an inode that is being freed, in steps. Its block is then its
/// own and has none, or it has left it.
///
/// # Errors
/// `Corrupt`, between two steps; what the device returns.
pub(crate) fn release_values(operation: &Operation<'_>, node: &mut NodeState) -> Result<()> {
    let volume = operation.volume();
    if !value::has_values(volume) {
        return Ok(());
    }
    know_values(volume, node)?;
    loop {
        let taken = attribute::take_from_tail(&node.inode.tail, AT_ONCE);
        let (taken, tail) = taken.map_err(|fault| corrupt(node, fault))?;
        if taken.is_empty() {
            break;
        }
        let _held = check_all(volume, node, &taken)?;
        pause(operation, node, LET_GO)?;
        node.inode.tail = tail;
        let_go(operation, node, &taken)?;
    }
    if node.inode.attribute_block.0 == 0 {
        return Ok(());
    }
    let values = values_in_block(volume, node)?;
    if values.is_empty() {
        return Ok(());
    }
    pause(operation, node, LET_GO)?;
    if drop_sharer(operation, node)? {
        discount(volume, node, &values);
        leave_block(volume, node);
        node.store(operation)?;
        operation.note_whole();
        return Ok(());
    }
    operation.note_whole();
    loop {
        let (frame, _) = read_block(volume, node)?;
        let taken = attribute::take_from_block(&frame.bytes(), AT_ONCE);
        let (taken, bytes) = taken.map_err(|fault| corrupt(node, fault))?;
        if taken.is_empty() {
            return Ok(());
        }
        let _held = check_all(volume, node, &taken)?;
        pause(operation, node, LET_GO)?;
        operation.modify(&frame, |old| fill_block(volume, old, &bytes, frame.block()));
        let_go(operation, node, &taken)?;
    }
}

/// Drops references that the lists of an inode have no more, and stores it.
fn let_go(operation: &Operation<'_>, node: &mut NodeState, values: &[ValueRef]) -> Result<()> {
    discount(operation.volume(), node, values);
    values.iter().try_for_each(|value| value::drop_reference(operation, node, value.ino))?;
    node.store(operation)?;
    operation.note_whole();
    Ok(())
}

/// Takes values out of what an inode counts.
fn discount(volume: &Volume, node: &mut NodeState, values: &[ValueRef]) {
    let sectors = values.iter().map(|value| value::sectors(volume, value.bytes)).sum();
    node.inode.sectors = node.inode.sectors.saturating_sub(sectors);
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    node.set_values(node.values().map(|known| known.saturating_sub(count)));
}
