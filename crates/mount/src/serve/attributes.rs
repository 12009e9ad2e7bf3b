//! What stat shows, and what chmod, chown, truncate and utimens change.
use super::Identities;
use super::identities::is_master;
use super::server::{Answer, Answering, Failure, Masks, Server, node_of};
use crate::protocol::numbers::set;
use crate::protocol::{Errno, Request, wire};
use extant_engine::{ErrorKind, Inode, Metadata, MetadataChange, RunRights, SetTime};
use extant_format::inode::mode::{GROUP_EXECUTE, SET_GROUP_ID, SET_USER_ID};
use extant_format::inode::{Device, FileType, Time, flags};

/// The kernel keeps names and attributes for this many seconds: for ever, since nothing but it
/// changes the volume.
pub(super) const FOR_EVER: u64 = u64::MAX;
/// And attributes of directories for a second: an answer that was made before a name was added or
/// removed may reach the kernel after it, which does not notice with directories.
const DIRECTORY_SECONDS: u64 = 1;

/// For how many seconds the kernel keeps these attributes.
fn valid_seconds(metadata: &Metadata) -> u64 {
    match metadata.file_type {
        FileType::Directory => DIRECTORY_SECONDS,
        _ => FOR_EVER,
    }
}

/// Device numbers in the form of the protocol.
pub(super) fn pack(device: Device) -> u32 {
    device.minor & 0xff | (device.major & 0xfff) << 8 | (device.minor & !0xff) << 12
}

/// Device numbers from the form of the protocol.
pub(super) fn unpack(packed: u32) -> Device {
    Device { major: packed >> 8 & 0xfff, minor: packed & 0xff | packed >> 12 & !0xff }
}

impl Server {
    pub(super) fn attributes(&self, metadata: &Metadata) -> wire::Attributes {
        let Metadata { access_time, modify_time, change_time, .. } = metadata;
        let identities = &self.settings.identities;
        wire::Attributes {
            ino: metadata.ino.0.into(),
            size: metadata.size,
            blocks: metadata.sectors,
            access_seconds: access_time.seconds.cast_unsigned(),
            modify_seconds: modify_time.seconds.cast_unsigned(),
            change_seconds: change_time.seconds.cast_unsigned(),
            access_nanoseconds: access_time.nanoseconds,
            modify_nanoseconds: modify_time.nanoseconds,
            change_nanoseconds: change_time.nanoseconds,
            mode: (metadata.mode & !self.settings.masks.of(metadata.file_type)).into(),
            links: metadata.links.into(),
            uid: identities.users.outside(metadata.uid),
            gid: identities.groups.outside(metadata.gid),
            device: metadata.device.map_or(0, pack),
            block_size: self.filesystem.superblock().block_size(),
            flags: 0,
        }
    }

    pub(super) fn entry(&self, metadata: &Metadata) -> wire::Entry {
        wire::Entry {
            node: node_of(metadata.ino),
            generation: metadata.generation.into(),
            entry_seconds: FOR_EVER,
            attribute_seconds: valid_seconds(metadata),
            entry_nanoseconds: 0,
            attribute_nanoseconds: 0,
            attributes: self.attributes(metadata),
        }
    }

    /// By a handle the kernel asks before it takes bytes for its cache.
    pub(super) fn get_attributes(
        &self,
        node: u64,
        handle: Option<u64>,
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        if let Some(handle) = handle {
            self.check_taking(handle)?;
        }
        let found = self.inode(node).and_then(|inode| Ok(self.inodes().metadata(&inode)?));
        let metadata = match found {
            Ok(metadata) => metadata,
            Err(failure) => self.metadata_of_removed(node, failure)?,
        };
        self.answer_attributes(&metadata, to);
        Ok(())
    }

    /// What an inode was like that does not exist any more; the failure for all others.
    fn metadata_of_removed(&self, node: u64, failure: Failure) -> Answer<Metadata> {
        let is_gone =
            matches!(&failure, Failure::Engine(error) if matches!(error.kind, ErrorKind::NotFound));
        let removed = match u32::try_from(node) {
            Ok(number) if is_gone => self.removed.get(number),
            _ => None,
        };
        removed.ok_or(failure)
    }

    fn answer_attributes(&self, metadata: &Metadata, to: &mut Answering<'_>) {
        let attributes = self.attributes(metadata);
        let (valid_seconds, valid_nanoseconds, unused) = (valid_seconds(metadata), 0, 0);
        let reply = wire::AttributesReply { valid_seconds, valid_nanoseconds, unused, attributes };
        to.reply().value(&reply);
    }

    pub(super) fn set_attributes(
        &self,
        request: &Request<'_>,
        arguments: &wire::SetAttributes,
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let inode = match self.inode(request.node) {
            Ok(inode) => inode,
            // The kernel writes back the times of what has no name any more. An error would be that
            // of the next syncfs.
            Err(failure) => {
                let metadata = self.metadata_of_removed(request.node, failure)?;
                self.answer_attributes(&metadata, to);
                return Ok(());
            }
        };
        let change = self.change(&inode, arguments, request)?;
        self.inodes().set_metadata(&inode, &change)?;
        self.answer_attributes(&self.inodes().metadata(&inode)?, to);
        Ok(())
    }

    /// Answers access(2), which the kernel asks for where it judges nothing. One user has all
    /// privileges then; what even the superuser may not do is refused.
    pub(super) fn access(&self, node: u64, mask: u32) -> Answer<()> {
        const EXECUTABLE: u16 = 0o111;
        const EXECUTE: u32 = 1;
        const WRITE: u32 = 2;
        let inode = self.inode(node)?;
        if mask & WRITE != 0 && self.inodes().flags(&inode)? & flags::IMMUTABLE != 0 {
            return Err(Errno::NOT_PERMITTED.into());
        }
        if mask & EXECUTE == 0 {
            return Ok(());
        }
        let metadata = self.inodes().metadata(&inode)?;
        let is_program =
            metadata.file_type == FileType::Directory || metadata.mode & EXECUTABLE != 0;
        if is_program { Ok(()) } else { Err(Errno::ACCESS.into()) }
    }

    /// What a request asks to change.
    fn change(
        &self,
        inode: &Inode,
        arguments: &wire::SetAttributes,
        request: &Request<'_>,
    ) -> Answer<MetadataChange> {
        let has = |flag| arguments.valid & flag != 0;
        let is_touched = is_touched(arguments);
        let time = |to, now, seconds: u64, nanoseconds| {
            let time = Time { seconds: seconds.cast_signed(), nanoseconds };
            match (has(to), has(now)) {
                (_, true) => Some(SetTime::Now),
                (true, false) if is_touched => Some(SetTime::NowBy(time)),
                (true, false) => Some(SetTime::To(time)),
                (false, false) => None,
            }
        };
        let identities = &self.settings.identities;
        let owner = |map: &super::IdMap, number, current: &dyn Fn() -> Answer<u32>| match map
            .inside(number)
        {
            Some(inside) => Ok(inside),
            None if map.outside(current()?) == number => current(),
            // As on a file system that belongs to one user, and on an idmapped mount of Linux.
            None if matches!(map, super::IdMap::All(_)) => Err(Errno::NOT_PERMITTED.into()),
            None => Err(Errno::OVERFLOW.into()),
        };
        let uid = || Ok(self.inodes().metadata(inode)?.uid);
        let gid = || Ok(self.inodes().metadata(inode)?.gid);
        let rights = match has(set::KILL_PRIVILEGES) {
            true => self.ending_rights(inode, request.gid)?,
            false => RunRights::CapabilityEnds,
        };
        let aside = set::HANDLE | set::LOCK_OWNER | set::CHANGE_TIME | set::KILL_PRIVILEGES;
        if arguments.valid & !aside == 0 {
            return self.end_of_rights(inode, arguments, request);
        }
        Ok(MetadataChange {
            permissions: match has(set::MODE) {
                true => Some(self.permissions(inode, arguments.mode)?),
                false => None,
            },
            uid: match has(set::UID) {
                true => Some(owner(&identities.users, arguments.uid, &uid)?),
                false => None,
            },
            gid: match has(set::GID) {
                true => Some(owner(&identities.groups, arguments.gid, &gid)?),
                false => None,
            },
            size: has(set::SIZE).then_some(arguments.size),
            access_time: time(
                set::ACCESS_TIME,
                set::ACCESS_NOW,
                arguments.access_seconds,
                arguments.access_nanoseconds,
            ),
            modify_time: time(
                set::MODIFY_TIME,
                set::MODIFY_NOW,
                arguments.modify_seconds,
                arguments.modify_nanoseconds,
            ),
            change_time: has(set::CHANGE_TIME).then(|| self.change_time(inode, arguments)),
            run_rights: Some(rights),
        })
    }

    /// The change time that the kernel has, or a later one that it has not seen.
    fn change_time(&self, inode: &Inode, arguments: &wire::SetAttributes) -> Time {
        let seconds = arguments.change_seconds.cast_signed();
        let known = Time { seconds, nanoseconds: arguments.change_nanoseconds };
        self.unseen.latest(inode.number().0, known)
    }

    /// The permissions that a program asks for, and those that it is not shown as they are.
    fn permissions(&self, inode: &Inode, mode: u32) -> Answer<u16> {
        let asked = (mode & 0o7777) as u16;
        if self.settings.masks == Masks::default() {
            return Ok(asked);
        }
        let metadata = self.inodes().metadata(inode)?;
        let mask = self.settings.masks.of(metadata.file_type);
        Ok(asked & !mask | metadata.mode & mask)
    }

    /// What is asked for by naming nothing: a chown that changes neither number, or a change of the
    /// content that the kernel makes itself. Both end the rights that a file is run with; the first
    /// one is for the owner alone, if there are any. It comes with a change time from kernels that
    /// keep times, and the other one from a program that has the file open for writing.
    fn end_of_rights(
        &self,
        inode: &Inode,
        arguments: &wire::SetAttributes,
        request: &Request<'_>,
    ) -> Answer<MetadataChange> {
        let metadata = self.inodes().metadata(inode)?;
        if metadata.file_type != FileType::Regular {
            return Ok(MetadataChange::default());
        }
        let Identities { users, groups } = &self.settings.identities;
        let group = groups.outside(metadata.gid);
        let is_stranger = request.uid != 0 && request.gid != group;
        let ends_group = metadata.mode & GROUP_EXECUTE != 0 || is_stranger;
        let ending = SET_USER_ID | if ends_group { SET_GROUP_ID } else { 0 };
        let permissions = metadata.mode & 0o7777 & !ending;
        let is_chown =
            arguments.valid & set::CHANGE_TIME != 0 || !self.writers.has(inode.number().0);
        let is_owner = is_master(request.uid) || request.uid == users.outside(metadata.uid);
        if is_chown && !is_owner && permissions != metadata.mode & 0o7777 {
            return Err(Errno::NOT_PERMITTED.into());
        }
        // A chown to the owner that it has ends its capabilities.
        let (permissions, uid) = (Some(permissions), Some(metadata.uid));
        Ok(MetadataChange { permissions, uid, ..MetadataChange::default() })
    }

    pub(super) fn stat_fs(&self) -> wire::StatFsReply {
        let room = self.filesystem.statfs();
        // As Linux has it: the tables of the volume are not part of its size.
        let overhead = self.filesystem.overhead_blocks();
        wire::StatFsReply {
            blocks: room.blocks.saturating_sub(overhead).max(room.free_blocks),
            free_blocks: room.free_blocks,
            available_blocks: room.available_blocks,
            files: room.inodes.into(),
            free_files: room.free_inodes.into(),
            block_size: room.block_size,
            name_length: 255,
            fragment_size: room.block_size,
            ..wire::StatFsReply::default()
        }
    }
}

/// Whether both times become the current one. A kernel that keeps times itself says so of the time
/// of access alone; that of modification is then the time of the change, which a program that names
/// a time cannot know beforehand.
fn is_touched(arguments: &wire::SetAttributes) -> bool {
    let needed = set::ACCESS_NOW | set::MODIFY_TIME | set::CHANGE_TIME;
    let modified = (arguments.modify_seconds, arguments.modify_nanoseconds);
    let changed = (arguments.change_seconds, arguments.change_nanoseconds);
    arguments.valid & needed == needed && modified == changed
}

#[cfg(test)]
mod tests {
    use super::{Device, pack, unpack};

    #[test]
    fn device_numbers_are_packed_as_the_kernel_does() {
        let device = Device { major: 0xabc, minor: 0x12345 };
        assert_eq!(pack(device), 0x123a_bc45);
        for (major, minor) in [(0, 0), (8, 1), (259, 255), (4095, 0xf_ffff)] {
            let device = Device { major, minor };
            assert_eq!(unpack(pack(device)), device);
        }
    }
}
