//! Names: look up, make, link, rename, remove.
use super::attributes::{FOR_EVER, unpack};
use super::files::Caching;
use super::server::{Answer, Answering, Failure, Server, node_of};
use crate::protocol::numbers::of;
use crate::protocol::{Errno, Operation, Request, wire};
use extant_engine::{
    Caller, Error, ErrorKind, Existing, File, Inode, Metadata, New, NewKind, Rename,
};
use extant_format::inode::FileType;
use zerocopy::IntoBytes;

/// Bits of open(2) that this module needs.
const EXCLUSIVE: u32 = 0o200;

impl Server {
    /// Finds a name in a directory. `.` and `..` are asked for where the kernel has forgotten a
    /// node of which a program has a handle (open_by_handle_at(2), an export): `.` is the node
    /// itself, of whatever type, and the kernel compares the generation.
    pub(super) fn lookup(&self, parent: u64, name: &[u8], to: &mut Answering<'_>) -> Answer<()> {
        if matches!(name, b"." | b"..") {
            return self.lookup_by_handle(parent, name, to);
        }
        let inodes = self.inodes();
        match inodes.lookup(&self.inode(parent)?, name) {
            Ok(inode) => self.answer_entry(&inodes.metadata(&inode)?, to),
            Err(Error { kind: ErrorKind::NotFound, .. }) => {
                // No node: the kernel remembers that the name is free.
                let entry = wire::Entry { entry_seconds: FOR_EVER, ..wire::Entry::default() };
                to.reply().value(&entry);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn lookup_by_handle(&self, node: u64, name: &[u8], to: &mut Answering<'_>) -> Answer<()> {
        let stale = |failure| match failure {
            // A free number has no inode, and the kernel would take ENOENT for a name that is free.
            Failure::Engine(Error { kind: ErrorKind::NotFound, .. }) => Errno::STALE.into(),
            failure => failure,
        };
        let found = || -> Answer<Metadata> {
            let inode = self.inode(node)?;
            match name {
                b".." => Ok(self.inodes().metadata(&self.inodes().lookup(&inode, name)?)?),
                _ => Ok(self.inodes().metadata(&inode)?),
            }
        };
        let metadata = found().map_err(stale)?;
        // Removed, but for programs that have it open.
        if metadata.links == 0 {
            return Err(Errno::STALE.into());
        }
        self.answer_entry(&metadata, to);
        Ok(())
    }

    pub(super) fn forget(&self, node: u64) {
        if let Ok(number) = u32::try_from(node) {
            self.removed.forget(number);
            self.unseen.forget(number);
        }
    }

    fn answer_entry(&self, metadata: &Metadata, to: &mut Answering<'_>) {
        to.node = Some(node_of(metadata.ino));
        to.reply().value(&self.entry(metadata));
    }

    /// Answers with an object that was just made: its number is not that of a removed one.
    fn answer_new(&self, inode: &Inode, to: &mut Answering<'_>) -> Answer<()> {
        let metadata = self.inodes().metadata(inode)?;
        self.removed.forget(metadata.ino.0);
        self.answer_entry(&metadata, to);
        Ok(())
    }

    /// How what a request makes begins.
    fn new_object<'n>(
        &self,
        request: &Request<'_>,
        parent: &Inode,
        (kind, mode, umask): (NewKind<'n>, u32, u32),
    ) -> Answer<New<'n>> {
        let identities = &self.settings.identities;
        let parent = || self.inodes().metadata(parent).ok();
        let uid = identities.users.of_new(request.uid, || parent().map(|parent| parent.uid));
        let gid = identities.groups.of_new(request.gid, || parent().map(|parent| parent.gid));
        let (Some(uid), Some(gid)) = (uid, gid) else { return Err(Errno::OVERFLOW.into()) };
        let (permissions, umask) = ((mode & 0o7777) as u16, (umask & 0o777) as u16);
        Ok(New { kind, uid, gid, permissions, umask })
    }

    pub(super) fn make(&self, request: &Request<'_>, to: &mut Answering<'_>) -> Answer<()> {
        let (name, wanted) = match &request.operation {
            Operation::SymbolicLink { name, target } => {
                (name, (NewKind::Symlink(target), 0o777, 0))
            }
            Operation::MakeDirectory { arguments, name } => {
                (name, (NewKind::Directory, arguments.mode, arguments.umask))
            }
            Operation::MakeNode { arguments, name } => {
                let device = unpack(arguments.device);
                let kind = match FileType::from_mode((arguments.mode & 0xffff) as u16) {
                    Some(FileType::Regular) => NewKind::File,
                    Some(FileType::Fifo) => NewKind::Fifo,
                    Some(FileType::Socket) => NewKind::Socket,
                    Some(FileType::CharacterDevice) => NewKind::CharacterDevice(device),
                    Some(FileType::BlockDevice) => NewKind::BlockDevice(device),
                    _ => return Err(Errno::INVALID.into()),
                };
                (name, (kind, arguments.mode, arguments.umask))
            }
            _ => return Err(Errno::NOT_IMPLEMENTED.into()),
        };
        let parent = self.inode(request.node)?;
        let new = self.new_object(request, &parent, wanted)?;
        let inode = self.inodes_for(request).create(&parent, name, &new)?;
        self.answer_new(&inode, to)
    }

    pub(super) fn create(
        &self,
        request: &Request<'_>,
        arguments: &wire::Create,
        name: &[u8],
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let parent = self.inode(request.node)?;
        let wanted = (NewKind::File, arguments.mode, arguments.umask);
        let new = self.new_object(request, &parent, wanted)?;
        let existing = match arguments.flags & EXCLUSIVE {
            0 => Existing::Open,
            _ => Existing::Refuse,
        };
        // With rights: an immutable file that is there is not opened for writing.
        let rights = super::files::rights_of(arguments.flags);
        let (inode, file, outcome) =
            self.inodes_for(request).open_or_create(&parent, name, &new, (existing, rights))?;
        let mut caching = Caching::Kept;
        if outcome == extant_engine::OpenOutcome::Found {
            let open = wire::Open { flags: arguments.flags, open_flags: arguments.open_flags };
            caching = self.check_open(&inode, &open)?;
            self.truncate_opened(&inode, &open, request.gid)?;
        }
        self.answer_open_entry(&inode, (file, arguments.flags, caching), to)
    }

    pub(super) fn create_nameless(
        &self,
        request: &Request<'_>,
        arguments: &wire::Create,
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let parent = self.inode(request.node)?;
        let wanted = (NewKind::File, arguments.mode, arguments.umask);
        let new = self.new_object(request, &parent, wanted)?;
        let (inode, file) = self.inodes_for(request).create_nameless(&parent, &new)?;
        self.answer_open_entry(&inode, (file, arguments.flags, Caching::Kept), to)
    }

    fn answer_open_entry(
        &self,
        inode: &Inode,
        (file, flags, caching): (File, u32, Caching),
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let metadata = self.inodes().metadata(inode)?;
        self.removed.forget(metadata.ino.0);
        let entry = self.entry(&metadata);
        let open = self.opened(file, flags, caching);
        to.node = Some(entry.node);
        to.reply().parts(&[entry.as_bytes(), open.as_bytes()]);
        Ok(())
    }

    pub(super) fn link(
        &self,
        request: &Request<'_>,
        linked: u64,
        name: &[u8],
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let inode = self.inode(linked)?;
        self.inodes_for(request).link(&inode, &self.inode(request.node)?, name)?;
        self.answer_entry(&self.inodes().metadata(&inode)?, to);
        Ok(())
    }

    /// What will be removed with a name, if it is the last one.
    fn last_of(&self, parent: &Inode, name: &[u8]) -> Option<Metadata> {
        let inodes = self.inodes();
        let metadata = inodes.metadata(&inodes.lookup(parent, name).ok()?).ok()?;
        let is_last = metadata.links <= 1 || metadata.file_type == FileType::Directory;
        is_last.then_some(metadata)
    }

    pub(super) fn unlink(&self, parent: u64, name: &[u8], to: &mut Answering<'_>) -> Answer<()> {
        let parent = self.inode(parent)?;
        let last = self.last_of(&parent, name);
        self.inodes().unlink(&parent, name)?;
        last.into_iter().for_each(|metadata| self.removed.remember(metadata));
        to.reply().done();
        Ok(())
    }

    pub(super) fn remove_directory(
        &self,
        parent: u64,
        name: &[u8],
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let parent = self.inode(parent)?;
        let last = self.last_of(&parent, name);
        self.inodes().remove_directory(&parent, name)?;
        last.into_iter().for_each(|metadata| self.removed.remember(metadata));
        to.reply().done();
        Ok(())
    }

    pub(super) fn rename(
        &self,
        request: &Request<'_>,
        name: &[u8],
        (to, to_name): (u64, &[u8]),
        flags: u32,
    ) -> Answer<()> {
        let how = match flags {
            0 => Rename::Replace,
            of::RENAME_KEEP_TARGET => Rename::KeepTarget,
            of::RENAME_EXCHANGE => Rename::Exchange,
            of::RENAME_WHITEOUT => Rename::Whiteout,
            _ => return Err(Errno::INVALID.into()),
        };
        let (from, to) = (self.inode(request.node)?, self.inode(to)?);
        let replaced = match how {
            Rename::Replace | Rename::Whiteout => self.last_of(&to, to_name),
            Rename::KeepTarget | Rename::Exchange => None,
        };
        match how {
            // A new object, which belongs to who asks.
            Rename::Whiteout => {
                let new = self.new_object(request, &from, (NewKind::File, 0, 0))?;
                let caller = Caller { uid: new.uid, gid: new.gid, ..Caller::root() };
                let inodes = self.filesystem.inodes_for(&caller);
                inodes.rename((&from, name), (&to, to_name), how)?;
            }
            _ => self.inodes_for(request).rename((&from, name), (&to, to_name), how)?,
        }
        let is_gone = |metadata: &Metadata| self.inodes().by_number(metadata.ino).is_err();
        replaced.into_iter().filter(is_gone).for_each(|metadata| self.removed.remember(metadata));
        Ok(())
    }
}
