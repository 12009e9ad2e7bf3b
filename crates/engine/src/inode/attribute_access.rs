//! Extended attributes for a caller: which it may see and change, and the two that are access
//! lists, whose change is a change of the mode.
//!
//! *Invariants*: an access list that says no more than a mode can is not stored. The mode of an
//! object with a list agrees with the list.
//! *Locking*: the caller has locked the inode.
use crate::error::{ErrorKind, Result};
use crate::inode::NodeState;
use crate::inode::access::{self, Use, check_attribute, check_owner};
use crate::inode::access_list;
use crate::inode::attribute::{self, SetAttribute};
use crate::inode::caller::{Caller, Privileges};
use crate::inode::operation::Operation;
use crate::inode::permission::check_not_locked;
use crate::inode::volume::Volume;
use extant_format::acl::{ACCESS, AccessList, DEFAULT, is_access_list};
use extant_format::attribute::Attribute;
use extant_format::inode::FileType;
use extant_format::inode::mode::SET_GROUP_ID;

const PREFIXES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];

/// The value of one attribute.
///
/// # Errors
/// `NoAttribute`, also for what this caller may not see; `PermissionDenied` if it may not read
/// the object; `AttributeUnsupported`.
pub(crate) fn get(
    volume: &Volume,
    state: &NodeState,
    name: &[u8],
    caller: Option<&Caller>,
) -> Result<Vec<u8>> {
    if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(ErrorKind::AttributeUnsupported.into());
    }
    if !is_access_list(name) {
        check_attribute(volume, state, (name, Use::Look), caller)?;
    } else if state.file_type()? == FileType::Symlink {
        return Err(ErrorKind::OperationUnsupported("symlinks have no access list").into());
    }
    attribute::get(volume, state, name)?.ok_or_else(|| ErrorKind::NoAttribute.into())
}

/// All attributes that this caller may know of.
pub(crate) fn list(
    volume: &Volume,
    state: &NodeState,
    caller: Option<&Caller>,
) -> Result<Vec<Attribute>> {
    let mut attributes = attribute::list(volume, state)?;
    if caller.is_some_and(|caller| !caller.has(Privileges::ADMINISTER)) {
        attributes.retain(|attribute| !attribute.name.starts_with(b"trusted."));
    }
    Ok(attributes)
}

/// Sets one attribute. An access list sets the mode too, whether there is one already or not.
///
/// # Errors
/// As for `attribute::set`, and what the caller may not do.
pub(crate) fn set(
    operation: &Operation<'_>,
    state: &mut NodeState,
    (name, value, how): (&[u8], &[u8], SetAttribute),
    caller: Option<&Caller>,
) -> Result<()> {
    if is_access_list(name) {
        let list = if value.is_empty() { None } else { access_list::parse(value)? };
        return set_access_list(operation, state, name, list, caller);
    }
    check_attribute(operation.volume(), state, (name, Use::Change), caller)?;
    attribute::set(operation, state, name, value, how)
}

/// Removes one attribute. An access list need not be there.
pub(crate) fn remove(
    operation: &Operation<'_>,
    state: &mut NodeState,
    name: &[u8],
    caller: Option<&Caller>,
) -> Result<()> {
    if is_access_list(name) {
        return set_access_list(operation, state, name, None, caller);
    }
    check_attribute(operation.volume(), state, (name, Use::Change), caller)?;
    attribute::remove(operation, state, name)
}

fn set_access_list(
    operation: &Operation<'_>,
    state: &mut NodeState,
    name: &[u8],
    list: Option<AccessList>,
    caller: Option<&Caller>,
) -> Result<()> {
    let volume = operation.volume();
    check_not_locked(state)?;
    let file_type = state.file_type()?;
    if file_type == FileType::Symlink {
        return Err(ErrorKind::OperationUnsupported("symlinks have no access list").into());
    }
    if name == DEFAULT && file_type != FileType::Directory {
        return match list {
            Some(_) => Err(ErrorKind::PermissionDenied.into()),
            None => Ok(()),
        };
    }
    check_owner(state, caller)?;
    list.as_ref().map_or(Ok(()), access_list::check)?;
    let before = attribute::list(volume, state)?;
    let mut after = before.clone();
    after.retain(|attribute| attribute.name != name);
    let mut mode = state.inode.mode;
    if let Some(list) = list.as_ref().filter(|_| name == ACCESS) {
        mode = mode & !0o777 | list.permissions().unwrap_or(0);
        if !access::keeps_set_group_id(state.inode.gid, caller) {
            mode &= !SET_GROUP_ID;
        }
    }
    if let Some(list) = list.filter(|list| name == DEFAULT || !list.is_minimal()) {
        after.push(Attribute { name: name.to_vec(), value: list.to_attribute() });
    }
    let inode = state.inode.clone();
    state.inode.mode = mode;
    state.inode.change_time = volume.store.now();
    let stored = match before == after {
        true => state.store(operation),
        false => attribute::replace_all(operation, state, &after),
    };
    stored.inspect_err(|_| state.inode = inode)
}
