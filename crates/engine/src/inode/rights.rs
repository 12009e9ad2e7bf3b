//! Which rights of a file end when it changes: set-user-ID, set-group-ID and capabilities.
//!
//! They end where the kernel removes them for a process without privileges, unless the call says
//! otherwise: without a caller the engine cannot tell on whose behalf it makes the change, and a
//! program must not keep its owner's rights with content from someone else. A kernel above a mount
//! can tell, and says so with each call ([`RunRights`]).
//!
//! *Invariants*: `NodeState::has_no_capability` is only true of an inode without capabilities; what
//! replaces attributes clears it.
//! *Locking*: the caller has locked the inode exclusively.
use crate::error::Result;
use crate::inode::attribute;
use crate::inode::node::NodeState;
use crate::inode::operation::Operation;
use extant_format::inode::mode::{GROUP_EXECUTE, SET_GROUP_ID, SET_USER_ID};

/// The attribute that holds the capabilities of a program.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

/// What a change of a file's content does to the rights that the file is run with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunRights {
    /// Set-user-ID, set-group-ID (if the group may execute the file) and capabilities end: a
    /// process without privileges made the change.
    #[default]
    End,
    /// As [`RunRights::End`], and set-group-ID ends also if the group may not execute the file: the
    /// process is not in the file's group.
    EndForStranger,
    /// Capabilities end, and the mode stays: a process made the change that may keep it
    /// (CAP_FSETID).
    CapabilityEnds,
    /// All stay, and so do the times: a kernel writes its cache back. It has judged the change and
    /// set the times when its cache was changed, perhaps before these rights were given.
    Stay,
}

impl RunRights {
    /// The mode of a file after the change.
    pub(crate) fn mode_after(self, mode: u16) -> u16 {
        match self {
            RunRights::End => without_set_id(mode),
            RunRights::EndForStranger => mode & !(SET_USER_ID | SET_GROUP_ID),
            RunRights::CapabilityEnds | RunRights::Stay => mode,
        }
    }

    /// Removes the capabilities, if they end. Called before the content changes, because the
    /// remaining attributes may need room. Returns whether there were any.
    ///
    /// # Errors
    /// `NoSpace`; `Corrupt` for attributes that cannot be read; what the device returns.
    pub(crate) fn end_capability(
        self,
        operation: &Operation<'_>,
        state: &mut NodeState,
    ) -> Result<bool> {
        match self {
            RunRights::Stay => Ok(false),
            RunRights::End | RunRights::EndForStranger | RunRights::CapabilityEnds => {
                remove_capability(operation, state)
            }
        }
    }
}

/// The mode of a file without set-user-ID. Set-group-ID is removed as well if the group may execute
/// the file: otherwise that bit means something else.
pub(crate) fn without_set_id(mode: u16) -> u16 {
    match mode & GROUP_EXECUTE {
        0 => mode & !SET_USER_ID,
        _ => mode & !(SET_USER_ID | SET_GROUP_ID),
    }
}

/// Removes the capabilities that a file is run with. Returns whether there were any. The attributes
/// are looked at once, until they change.
///
/// # Errors
/// As for [`RunRights::end_capability`].
pub(crate) fn remove_capability(operation: &Operation<'_>, state: &mut NodeState) -> Result<bool> {
    if state.has_no_capability {
        return Ok(false);
    }
    let mut attributes = attribute::list(operation.volume(), state)?;
    let before = attributes.len();
    attributes.retain(|attribute| attribute.name != CAPABILITY);
    let had_one = attributes.len() != before;
    if had_one {
        attribute::replace_all(operation, state, &attributes)?;
        // The inode is stored without them, whatever follows.
        operation.note_whole();
    }
    state.has_no_capability = true;
    Ok(had_one)
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
        // Of a process that is not in the file's group.
        assert_eq!(RunRights::EndForStranger.mode_after(0o107244), 0o101244);
    }
}
