//! Which rights of a file end when it changes: set-user-ID, set-group-ID and capabilities.
//!
//! They end where the kernel removes them for a process without privileges: without a caller the
//! engine cannot tell on whose behalf it makes the change, and a program must not keep its owner's
//! rights with content from someone else.
//!
//! *Locking*: the caller has locked the inode exclusively.
use crate::error::Result;
use crate::inode::attribute;
use crate::inode::node::NodeState;
use crate::inode::operation::Operation;

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;
/// The attribute that holds the capabilities of a program.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

/// The mode of a file without set-user-ID. Set-group-ID is removed as well if the group may execute
/// the file: otherwise that bit means something else.
pub(crate) fn without_set_id(mode: u16) -> u16 {
    match mode & GROUP_EXECUTE {
        0 => mode & !SET_USER_ID,
        _ => mode & !(SET_USER_ID | SET_GROUP_ID),
    }
}

/// Removes the capabilities that a file is run with. Called before its content changes, because the
/// remaining attributes may need room. Returns whether there were any.
///
/// # Errors
/// `NoSpace`; `Corrupt` for attributes that cannot be read; what the device returns.
pub(crate) fn remove_capability(operation: &Operation<'_>, state: &mut NodeState) -> Result<bool> {
    let mut attributes = attribute::list(operation.volume(), state)?;
    let before = attributes.len();
    attributes.retain(|attribute| attribute.name != CAPABILITY);
    if attributes.len() == before {
        return Ok(false);
    }
    attribute::replace_all(operation, state, &attributes)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_ids_go_as_the_kernel_has_them_go() {
        // Bits before and after, as a kernel mount of Linux 6.18 showed them.
        let rows = [
            (0o106755, 0o100755),
            (0o106745, 0o102745),
            (0o102745, 0o102745),
            (0o102755, 0o100755),
            (0o104644, 0o100644),
            (0o106666, 0o102666),
            (0o101777, 0o101777),
            (0o016777, 0o010777),
        ];
        for (before, after) in rows {
            assert_eq!(without_set_id(before), after, "{before:o}");
        }
    }
}
