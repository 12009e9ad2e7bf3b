//! Extended attributes. Access lists travel in the form of getxattr(2), with the host's numbers.
use super::server::{Answer, Answering, Server};
use crate::protocol::{Errno, Request, wire};
use extant_engine::{Inode, MetadataChange, SetAttribute};
use extant_format::acl::is_access_list;
use extant_format::inode::mode::SET_GROUP_ID;

/// Flags of setxattr(2).
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

/// Fails as Linux does for names that belong to nothing: the kernel hands all of them on.
fn check_name(name: &[u8]) -> Answer<()> {
    let spaces: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    match spaces.iter().find_map(|space| name.strip_prefix(*space)) {
        Some(b"") => Err(Errno::INVALID.into()),
        None if !is_access_list(name) => Err(Errno::NOT_SUPPORTED.into()),
        _ => Ok(()),
    }
}

/// Answers with bytes, or with their number if `size` is 0.
fn answer(bytes: &[u8], size: u32, to: &mut Answering<'_>) -> Answer<()> {
    match size as usize {
        0 => {
            let size = u32::try_from(bytes.len()).map_err(|_| Errno::RANGE)?;
            to.reply().value(&wire::GetAttribute { size, unused: 0 });
        }
        size if size < bytes.len() => return Err(Errno::RANGE.into()),
        _ => to.reply().bytes(bytes),
    }
    Ok(())
}

impl Server {
    pub(super) fn get_xattr(
        &self,
        node: u64,
        name: &[u8],
        size: u32,
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        check_name(name)?;
        let mut value = self.inodes().attribute(&self.inode(node)?, name)?;
        let identities = &self.settings.identities;
        if is_access_list(name) && !identities.is_same() {
            value = identities.list_outside(&value);
        }
        answer(&value, size, to)
    }

    pub(super) fn list_xattr(
        &self,
        request: &Request<'_>,
        size: u32,
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        // Only the superuser is told of these, as Linux has it.
        let is_told = |name: &[u8]| request.uid == 0 || !name.starts_with(b"trusted.");
        let mut names = Vec::new();
        let attributes = self.inodes().attributes(&self.inode(request.node)?)?;
        for attribute in attributes.iter().filter(|attribute| is_told(&attribute.name)) {
            names.extend_from_slice(&attribute.name);
            names.push(0);
        }
        answer(&names, size, to)
    }

    pub(super) fn set_xattr(
        &self,
        request: &Request<'_>,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Answer<()> {
        let how = match flags & (CREATE | REPLACE) {
            0 => SetAttribute::Any,
            CREATE => SetAttribute::Create,
            REPLACE => SetAttribute::Replace,
            _ => return Err(Errno::INVALID.into()),
        };
        check_name(name)?;
        let identities = &self.settings.identities;
        let inode = self.inode(request.node)?;
        if !is_access_list(name) {
            return Ok(self.inodes().set_attribute(&inode, name, value, how)?);
        }
        let mut value = value.to_vec();
        if !identities.is_same() {
            value = identities.list_inside(&value).ok_or(Errno::INVALID)?;
        }
        self.end_group_id(&inode, request)?;
        self.inodes().set_attribute(&inode, name, &value, how)?;
        // A list changes the mode, which the kernel keeps where one user has the mount.
        self.notices.forget_attributes(request.node);
        Ok(())
    }

    /// Set-group-ID ends when a process that is not in the group sets a list, as with chmod(2).
    fn end_group_id(&self, inode: &Inode, request: &Request<'_>) -> Answer<()> {
        if request.uid == 0 {
            return Ok(());
        }
        let metadata = self.inodes().metadata(inode)?;
        let is_in_group = self.settings.identities.groups.outside(metadata.gid) == request.gid;
        if is_in_group || metadata.mode & SET_GROUP_ID == 0 {
            return Ok(());
        }
        let permissions = Some(metadata.mode & 0o7777 & !SET_GROUP_ID);
        let change = MetadataChange { permissions, ..MetadataChange::default() };
        Ok(self.inodes().set_metadata(inode, &change)?)
    }

    pub(super) fn remove_xattr(&self, node: u64, name: &[u8]) -> Answer<()> {
        check_name(name)?;
        self.inodes().remove_attribute(&self.inode(node)?, name)?;
        if is_access_list(name) {
            self.notices.forget_attributes(node);
        }
        Ok(())
    }
}
