//! Names by inode: look up, create, link, rename, remove.
use super::{Existing, Inode, Inodes, Rights};
use crate::api::filesystem::File;
use crate::error::{ErrorKind, Result};
use crate::inode::Node;
use crate::inode::file::Durable;
use crate::name::beginning::Defaults;
use crate::name::namespace::{Follow, NewInode};
use crate::name::opening::OpenOutcome;
use crate::name::rename::Rename;
use extant_format::inode::{Device, FileType};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a new object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewKind<'a> {
    /// An empty file.
    #[default]
    File,
    /// An empty directory.
    Directory,
    /// A symlink with this target: at least one byte, none of them zero, and less than a block.
    Symlink(&'a [u8]),
    /// A pipe with a name.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice(Device),
    /// A block device.
    BlockDevice(Device),
}

/// How a new object begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct New<'a> {
    /// Its type, with a symlink's target or a device's numbers.
    pub kind: NewKind<'a>,
    /// Owner.
    pub uid: u32,
    /// Group; a directory with set-group-ID gives its own instead.
    pub gid: u32,
    /// The low twelve bits of the mode, before umask and default access list. A symlink has 0777.
    pub permissions: u16,
    /// Bits removed from the permissions, unless the directory has a default access list, which
    /// then counts instead.
    pub umask: u16,
}

impl<'a> New<'a> {
    fn inode(&self) -> NewInode<'a> {
        let device = match self.kind {
            NewKind::CharacterDevice(device) | NewKind::BlockDevice(device) => device,
            _ => Device::default(),
        };
        let target: &[u8] = if let NewKind::Symlink(target) = self.kind { target } else { b"" };
        let file_type = match self.kind {
            NewKind::File => FileType::Regular,
            NewKind::Directory => FileType::Directory,
            NewKind::Symlink(_) => FileType::Symlink,
            NewKind::Fifo => FileType::Fifo,
            NewKind::Socket => FileType::Socket,
            NewKind::CharacterDevice(_) => FileType::CharacterDevice,
            NewKind::BlockDevice(_) => FileType::BlockDevice,
        };
        NewInode {
            file_type,
            permissions: self.permissions,
            uid: self.uid,
            gid: self.gid,
            device,
            target,
            defaults: Defaults::Apply { umask: self.umask },
        }
    }

    /// Fails unless it is to be a file: only files are opened.
    fn check_file(&self) -> Result<()> {
        match self.kind {
            NewKind::File => Ok(()),
            _ => Err(ErrorKind::InvalidArgument("only files are opened").into()),
        }
    }
}

impl Inodes<'_> {
    /// The inode of a name in a directory, also of "." and "..".
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NameTooLong`; `PermissionDenied` if the directory may not be
    /// searched; `Corrupt`; what the device returns.
    pub fn lookup(&self, parent: &Inode, name: &[u8]) -> Result<Inode> {
        let parent = self.node(parent)?;
        let found = self.look(|core| core.inodes.lookup(parent, name, self.caller))?;
        found.map(|node| self.of(node)).ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// The inode that a path leads to from a directory on: symlinks on the way are followed, from
    /// the directory that they are in. A path of no bytes is the directory itself.
    ///
    /// # Errors
    /// As for [`Inodes::lookup`], for no caller; `SymlinkLoop`.
    pub fn resolve(&self, from: &Inode, path: &[u8], follow: Follow) -> Result<Inode> {
        let from = self.node(from)?;
        self.look(|core| core.inodes.resolve_from(Arc::clone(from), path, follow))
            .map(|node| self.of(node))
    }

    /// Makes an object and its name.
    ///
    /// # Errors
    /// `Exists`; `PermissionDenied`, `NotPermitted`; `NoSpace`, `NoInodes`, `DirectoryFull`,
    /// `TooManyLinks`, `AttributesTooLarge` (the inherited access lists do not fit), with nothing
    /// changed; `InvalidName`, `NameTooLong`, `NotDirectory`, `NotFound`; `Corrupt`; what the
    /// device answers.
    pub fn create(&self, parent: &Inode, name: &[u8], new: &New<'_>) -> Result<Inode> {
        let (parent, new) = (self.node(parent)?, new.inode());
        let node = self.change(|core| core.inodes.make(parent, name, &new, self.caller))?;
        self.sync_if_asked(parent)?;
        Ok(self.of(node))
    }

    /// Makes a file and opens it, in one step: no other call can remove it in between. The new file
    /// is open whatever its permissions are.
    ///
    /// # Errors
    /// As for [`Inodes::create`]; `InvalidArgument` for anything but a file.
    pub fn create_open(&self, parent: &Inode, name: &[u8], new: &New<'_>) -> Result<(Inode, File)> {
        let (inode, file, _) =
            self.open_or_create(parent, name, new, (Existing::Refuse, Rights::default()))?;
        Ok((inode, file))
    }

    /// Opens the file of a name, or makes it, in one step; returns which. If the file was there,
    /// the caller needs these rights to it.
    ///
    /// # Errors
    /// As for [`Inodes::create`]; `IsDirectory`, and `Exists` for anything but a file, or for a
    /// file that is to be refused; `InvalidArgument` for anything new but a file.
    pub fn open_or_create(
        &self,
        parent: &Inode,
        name: &[u8],
        new: &New<'_>,
        (existing, rights): (Existing, Rights),
    ) -> Result<(Inode, File, OpenOutcome)> {
        new.check_file()?;
        if existing == Existing::Open && !self.core.is_writable() {
            return self.open_found(parent, name, rights);
        }
        let (parent, new) = (self.node(parent)?, new.inode());
        let (node, outcome) = self.change(|core| {
            core.inodes.make_open(parent, name, (&new, existing), (self.caller, rights.0))
        })?;
        let file = File::of_held(self.core, Arc::clone(&node)).within(self.room());
        if outcome == OpenOutcome::Made {
            self.sync_if_asked(parent)?;
        }
        Ok((self.of(node), file, outcome))
    }

    /// Opens a file of a volume that cannot be changed.
    fn open_found(
        &self,
        parent: &Inode,
        name: &[u8],
        rights: Rights,
    ) -> Result<(Inode, File, OpenOutcome)> {
        let inode = self.lookup(parent, name).map_err(|error| match error.kind {
            ErrorKind::NotFound => ErrorKind::ReadOnly.into(),
            _ => error,
        })?;
        let file = self.open(&inode, rights)?;
        Ok((inode, file, OpenOutcome::Found))
    }

    /// Makes a file without a name, and opens it (O_TMPFILE). It is freed when it is closed, or
    /// after a power cut, unless [`Inodes::link`] gives it a name before.
    ///
    /// # Errors
    /// As for [`Inodes::create`]; `InvalidArgument` for anything but a file.
    pub fn create_nameless(&self, directory: &Inode, new: &New<'_>) -> Result<(Inode, File)> {
        new.check_file()?;
        let (directory, new) = (self.node(directory)?, new.inode());
        let node = self.change(|core| core.inodes.make_nameless(directory, &new, self.caller))?;
        let file = File::of_held(self.core, Arc::clone(&node)).within(self.room());
        Ok((self.of(node), file))
    }

    /// Gives an object another name, or its first one if it was made without.
    ///
    /// # Errors
    /// `NotFound` for an object whose last name was removed; `NotPermitted` for directories and
    /// what is immutable or append-only; `TooManyLinks`; as for [`Inodes::create`].
    pub fn link(&self, inode: &Inode, parent: &Inode, name: &[u8]) -> Result<()> {
        let (node, parent) = (self.node(inode)?, self.node(parent)?);
        self.change(|core| core.inodes.link(node, parent, name, self.caller))?;
        self.sync_if_asked(parent)
    }

    /// A symlink's target.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else; `NotFound`; `Corrupt`; what the device returns.
    pub fn read_link(&self, inode: &Inode) -> Result<Vec<u8>> {
        let node = self.node(inode)?;
        self.look(|core| {
            let target = core.inodes.read_link(node)?;
            core.inodes.note_access(node);
            Ok(target)
        })
    }

    /// Removes a name of anything but a directory. The object is freed once it has no name and is
    /// not open.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`; `PermissionDenied`, `NotPermitted` (a sticky directory, an object
    /// that is immutable or append-only); `Corrupt`; what the device returns.
    pub fn unlink(&self, parent: &Inode, name: &[u8]) -> Result<()> {
        let parent = self.node(parent)?;
        self.change(|core| core.inodes.unlink(parent, name, self.caller))?;
        self.sync_if_asked(parent)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As for [`Inodes::unlink`], without `IsDirectory`; `NotDirectory`; `NotEmpty`, also for "..";
    /// `InvalidArgument` for "."; `Busy` for the root.
    pub fn remove_directory(&self, parent: &Inode, name: &[u8]) -> Result<()> {
        let parent = self.node(parent)?;
        self.change(|core| core.inodes.remove_directory(parent, name, self.caller))?;
        self.sync_if_asked(parent)
    }

    /// Moves a name.
    ///
    /// # Errors
    /// As for [`Inodes::unlink`] and [`Inodes::create`]; `InvalidArgument` if a directory would
    /// come below itself.
    pub fn rename(
        &self,
        (from, from_name): (&Inode, &[u8]),
        (to, to_name): (&Inode, &[u8]),
        how: Rename,
    ) -> Result<()> {
        let (from, to) = (self.node(from)?, self.node(to)?);
        self.change(|core| core.inodes.rename((from, from_name), (to, to_name), how, self.caller))?;
        self.sync_if_asked(from)?;
        self.sync_if_asked(to)
    }

    /// Makes the names in a directory durable, if its flags say so.
    fn sync_if_asked(&self, directory: &Node) -> Result<()> {
        match directory.synchronous.load(Ordering::Relaxed) {
            true => self.core.sync_node(directory, Durable::All),
            false => Ok(()),
        }
    }
}
