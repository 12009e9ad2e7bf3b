//! Calls on the fields of an inode: metadata, flags, extended attributes.
use super::{Inode, Inodes};
use crate::api::filesystem::Metadata;
use crate::error::Result;
use crate::inode::attribute::SetAttribute;
use crate::inode::change::{self, FlagChange, MetadataChange};
use crate::inode::{NodeState, access, attribute_access, credits};
use extant_format::attribute::Attribute;
use extant_format::superblock::Feature;

impl Inodes<'_> {
    /// What `stat` returns.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt`, for an inode without a type.
    pub fn metadata(&self, inode: &Inode) -> Result<Metadata> {
        let node = self.node(inode)?;
        self.look(|core| {
            let state = node.state.read();
            state.check_alive()?;
            Metadata::new(&state, core.inodes.volume.store.block_size())
        })
    }

    /// Changes size, owner, permissions and times in one step. An access list follows the
    /// permissions, as chmod changes it.
    ///
    /// # Errors
    /// With nothing changed: `NotPermitted` for immutable and append-only objects and for what
    /// needs the owner or a privilege,
    /// `PermissionDenied` for a size or the present time, `OperationUnsupported` for permissions
    /// of a symlink, `IsDirectory` and `InvalidArgument` for the size of what is no file,
    /// `FileTooLarge`. Then `NoSpace`, when nothing or the size alone has changed; `Corrupt`; what
    /// the device returns.
    pub fn set_metadata(&self, inode: &Inode, wanted: &MetadataChange) -> Result<()> {
        let node = self.node(inode)?;
        self.change(|core| change::apply(&core.inodes.volume, node, wanted, self.caller))
    }

    /// Inode flags as `lsattr` shows them: numbers of [`extant_format::inode::flags`].
    ///
    /// # Errors
    /// `NotFound`.
    pub fn flags(&self, inode: &Inode) -> Result<u32> {
        self.metadata(inode).map(|metadata| metadata.flags)
    }

    /// Sets and clears inode flags of a file or a directory, as `chattr` does.
    ///
    /// # Errors
    /// `OperationUnsupported` for other flags than [`FlagChange`] names, or another object;
    /// `NotPermitted` for any change of an immutable one that leaves it immutable, and for a caller
    /// that does not own it, or lacks the privilege to lock it.
    pub fn change_flags(&self, inode: &Inode, wanted: FlagChange) -> Result<()> {
        self.change_flags_as(inode, |_| wanted)
    }

    /// Sets all inode flags to those of a word, as `FS_IOC_SETFLAGS` takes it: those that no
    /// program can change, such as the one for an index, stay as they are.
    ///
    /// # Errors
    /// As for [`Inodes::change_flags`].
    pub fn set_flags(&self, inode: &Inode, word: u32) -> Result<()> {
        self.change_flags_as(inode, |state| change::flags_asked_for(state, word))
    }

    fn change_flags_as(
        &self,
        inode: &Inode,
        wanted: impl Fn(&NodeState) -> FlagChange,
    ) -> Result<()> {
        let node = self.node(inode)?;
        self.change(|core| {
            let mut state = node.state.write();
            state.check_alive()?;
            let wanted = wanted(&state);
            let before = state.inode.flags;
            let after = before & !wanted.clear | wanted.set;
            access::check_flags(&state, (before, after), self.caller)?;
            core.volume().change(credits::INODE, |operation| {
                change::change_flags(operation, node, &mut state, wanted)
            })
        })
    }

    /// The project that an object belongs to; 0 on a volume without projects.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn project(&self, inode: &Inode) -> Result<u32> {
        let node = self.node(inode)?;
        self.look(|core| {
            let state = node.state.read();
            state.check_alive()?;
            let has_projects = core.volume().store.superblock.has(Feature::PROJECT);
            Ok(if has_projects { state.inode.project } else { 0 })
        })
    }

    /// Gives an object to another project (the feature `project`). Objects that are made in a
    /// directory with the flag for that belong to its project, and it takes no others.
    ///
    /// # Errors
    /// `OperationUnsupported` on a volume without projects, and for an inode without room for the
    /// number; `NotPermitted` for a caller that does not own it, and for an immutable object;
    /// `NotFound`; what the device returns.
    pub fn set_project(&self, inode: &Inode, project: u32) -> Result<()> {
        let node = self.node(inode)?;
        self.change(|core| {
            let mut state = node.state.write();
            state.check_alive()?;
            access::check_owner(&state, self.caller)?;
            core.volume().change(credits::INODE, |operation| {
                change::set_project(operation, &mut state, project)
            })
        })
    }

    /// The value of one extended attribute, an access list in the form of `getxattr`.
    ///
    /// # Errors
    /// `NoAttribute`, also for `trusted.*` and `user.*` that this caller may not know of;
    /// `PermissionDenied`; `AttributeUnsupported`; `Corrupt`; what the device returns.
    pub fn attribute(&self, inode: &Inode, name: &[u8]) -> Result<Vec<u8>> {
        let node = self.node(inode)?;
        self.look(|core| {
            let state = node.state.read();
            state.check_alive()?;
            attribute_access::get(&core.inodes.volume, &state, name, self.caller)
        })
    }

    /// All extended attributes, but `trusted.*` for a caller that may not know of them.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt`; what the device returns.
    pub fn attributes(&self, inode: &Inode) -> Result<Vec<Attribute>> {
        let node = self.node(inode)?;
        self.look(|core| {
            let state = node.state.read();
            state.check_alive()?;
            attribute_access::list(&core.inodes.volume, &state, self.caller)
        })
    }

    /// Sets an extended attribute. Setting the access list of an object sets its mode; a list that
    /// says no more than a mode can is not kept.
    ///
    /// # Errors
    /// `Exists` or `NoAttribute` as `how` has it (an access list is always set);
    /// `AttributesTooLarge`, `NoSpace`, `AttributeUnsupported`, `InvalidArgument`;
    /// `OperationUnsupported` for an access list of a symlink; `PermissionDenied`, also for the
    /// default list of anything but a directory, `NotPermitted`; `Corrupt`; what the device
    /// returns.
    pub fn set_attribute(
        &self,
        inode: &Inode,
        name: &[u8],
        value: &[u8],
        how: SetAttribute,
    ) -> Result<()> {
        let node = self.node(inode)?;
        self.change(|core| {
            let mut state = node.state.write();
            state.check_alive()?;
            core.volume().change(credits::CHANGE, |operation| {
                attribute_access::set(operation, &mut state, (name, value, how), self.caller)
            })
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, but not for access lists; else as for [`Inodes::set_attribute`].
    pub fn remove_attribute(&self, inode: &Inode, name: &[u8]) -> Result<()> {
        let node = self.node(inode)?;
        self.change(|core| {
            let mut state = node.state.write();
            state.check_alive()?;
            core.volume().change(credits::CHANGE, |operation| {
                attribute_access::remove(operation, &mut state, name, self.caller)
            })
        })
    }
}
