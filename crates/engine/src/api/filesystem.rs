//! The file system as a library user sees it: paths in, `std::fs`-like values out.
//!
//! *Invariants*: errors of calls by path carry that path; those of an open [`File`] have none.
//! *Locking*: none of its own.
use crate::error::{Error, ErrorKind, Result};
use crate::flush::{self, Core};
use crate::inode::attribute::{self, SetAttribute};
use crate::inode::change::{self, Change, FlagChange};
use crate::inode::credits;
use crate::inode::file::range::RangeChange;
use crate::inode::file::{self, Durable, Size};
use crate::inode::pages::Stream;
use crate::inode::rights::RunRights;
use crate::inode::volume::Volume;
use crate::inode::{Node, NodeState};
use crate::name::beginning::Defaults;
use crate::name::directory::{self, DirectoryEntry};
use crate::name::namespace::{Follow, NewInode};
use crate::name::rename::Rename;
use crate::recovery::{self, Holding};
use crate::space::Room;
use crate::store::budget::DirtyBudget;
use crate::store::journal::JournalCounts;
use crate::store::{DataKeeping, Options};
use extant_block::BlockDevice;
use extant_format::Ino;
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType, Time};
use extant_format::superblock::Superblock;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An open ext2, ext3 or ext4 file system. Clones are cheap, share one file system, and may be used
/// from several threads.
///
/// Changes are written in the background if the policy has a flusher, when memory runs short, and
/// by [`Filesystem::sync`] and [`Filesystem::close`]. Dropping it writes nothing: a file system
/// opened for writing has to be closed.
#[derive(Clone)]
pub struct Filesystem {
    pub(crate) core: Arc<Core>,
}

/// What `stat` returns about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Inode number.
    pub ino: Ino,
    /// Type, also part of `mode`.
    pub file_type: FileType,
    /// Type and permissions as in `st_mode`.
    pub mode: u16,
    /// How many names it has.
    pub links: u16,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// How much it occupies, including its map and attributes and what is promised to blocks that
    /// were not written yet, in units of 512 bytes.
    pub sectors: u64,
    /// When it was last read.
    pub access_time: Time,
    /// When its inode last changed.
    pub change_time: Time,
    /// When its content last changed.
    pub modify_time: Time,
    /// When it was made, if the inode has room for that.
    pub create_time: Option<Time>,
    /// Device numbers, for devices only.
    pub device: Option<Device>,
    /// Inode flags as `lsattr` shows them.
    pub flags: u32,
    /// Distinguishes it from earlier inodes with its number.
    pub generation: u32,
}

impl Metadata {
    /// `block_size` is the volume's, in bytes.
    pub(crate) fn new(state: &NodeState, block_size: u32) -> Result<Metadata> {
        let (ino, inode) = (state.ino, &state.inode);
        let mode = || {
            Error::field(
                crate::error::Place::Inode(ino),
                "inode",
                "mode",
                inode.mode.into(),
                "not a file type",
            )
        };
        let file_type = inode.file_type().ok_or_else(mode)?;
        let is_device = file_type.is_device();
        let promised = state.delayed.len() + state.placed.new_blocks();
        Ok(Metadata {
            ino,
            file_type,
            mode: inode.mode,
            links: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            size: inode.size,
            // As Linux does: what is promised counts, so that a new file is not taken for a hole.
            sectors: inode.sectors + promised * u64::from(block_size / 512),
            access_time: inode.access_time,
            change_time: inode.change_time,
            modify_time: inode.modify_time,
            create_time: inode.create_time,
            device: is_device.then(|| inode.device()),
            flags: inode.flags,
            generation: inode.generation,
        })
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

impl Filesystem {
    /// Opens the file system on a device.
    ///
    /// # Errors
    /// `NotExt`; `Unsupported` with the names of features; `NeedsRecovery`; `Corrupt` with the
    /// place; what the device returns.
    pub fn open(device: Arc<dyn BlockDevice>, options: &Options) -> Result<Filesystem> {
        Filesystem::start(recovery::open(device, options, None, Holding::Ours)?, options)
    }

    /// As [`Filesystem::open`], for a caller that keeps other machines from the volume itself
    /// ([`hold`](crate::hold)), or has just made it.
    ///
    /// # Errors
    /// As [`Filesystem::open`], but `Held`.
    pub fn open_held(device: Arc<dyn BlockDevice>, options: &Options) -> Result<Filesystem> {
        Filesystem::start(recovery::open(device, options, None, Holding::Callers)?, options)
    }

    /// Opens one of several file systems that share memory, and with it one limit on dirty blocks.
    /// `number` identifies the device: volumes on one device use the same number. The budget's
    /// clock is used.
    ///
    /// # Errors
    /// As [`Filesystem::open`].
    pub fn open_within(
        device: Arc<dyn BlockDevice>,
        options: &Options,
        budget: &Arc<DirtyBudget>,
        number: u32,
    ) -> Result<Filesystem> {
        let shared = Some((budget, number));
        Filesystem::start(recovery::open(device, options, shared, Holding::Ours)?, options)
    }

    fn start(core: Core, options: &Options) -> Result<Filesystem> {
        let core = Arc::new(core);
        if let Err(error) = flush::start_threads(&core, options) {
            // The volume is as it was found; that there is no thread is the reason.
            let _ = core.close();
            return Err(ErrorKind::Device(error).into());
        }
        Ok(Filesystem { core })
    }

    /// The superblock as it was when the file system was opened, or when it has grown last.
    pub fn superblock(&self) -> &Superblock {
        &self.core.inodes.volume.store.superblock
    }

    /// What the journal has done since the file system was opened; `None` if changes do not go
    /// through one.
    pub fn journal_counts(&self) -> Option<JournalCounts> {
        self.core.inodes.volume.store.log().map(|log| log.counts())
    }

    /// Writes everything that changed and waits until it is durable.
    pub fn sync(&self) -> Result<()> {
        self.core.sync()
    }

    /// Makes durable what a path leads to, and all that was done before: a file with its data, a
    /// directory with its names. Symlinks are followed. Without a journal that is the metadata of
    /// the whole volume.
    pub fn sync_path(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let node = self.at(path, |core| core.inodes.resolve(bytes(path), Follow::Last))?;
        self.core.sync_node(&node, Durable::All).map_err(|error| error.at(path))
    }

    /// Gives free space between two bytes of the volume back to the device (FITRIM): runs of at
    /// least `minimum` bytes, of blocks that nothing on disk points to. Returns how many bytes.
    /// What is durable stays so.
    ///
    /// # Errors
    /// `OperationUnsupported` if the device can do nothing with that; `InvalidArgument` for a range
    /// after the end of the volume, or of less than a block, and for a minimum above a group;
    /// `ReadOnly`; `Corrupt`; what the device returns.
    pub fn trim(&self, start: u64, length: u64, minimum: u64) -> Result<u64> {
        self.core.trim(start, length, minimum)
    }

    /// Writes everything, gives the volume the state (clean or not) that it was found in, and
    /// waits. Later changes through clones fail with `ReadOnly`.
    pub fn close(self) -> Result<()> {
        self.core.close()
    }

    /// Runs work that only reads. Errors of keeping memory within its bounds afterwards are not the
    /// reader's.
    pub(crate) fn at<T>(&self, path: &Path, work: impl Fn(&Core) -> Result<T>) -> Result<T> {
        let result = self.answer(path, work);
        self.core.balance_after_reading();
        result
    }

    fn answer<T>(&self, path: &Path, work: impl Fn(&Core) -> Result<T>) -> Result<T> {
        let volume = &self.core.inodes.volume;
        volume.store.clock.charge(volume.store.policies.costs.call_ns);
        self.core.with_room(|| work(&self.core)).map_err(|error| error.at(path))
    }

    /// Runs work that changes something.
    fn change_at<T>(&self, path: &Path, work: impl Fn(&Core) -> Result<T>) -> Result<T> {
        let pledge = self.core.admit_call().map_err(|error| error.at(path))?;
        let result = self.answer(path, work);
        drop(pledge);
        self.core.balance()?;
        let result = result?;
        self.core.write_through()?;
        Ok(result)
    }

    /// What `stat` returns; symlinks are followed.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.stat(path.as_ref(), Follow::Last)
    }

    /// What `lstat` returns.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.stat(path.as_ref(), Follow::NotLast)
    }

    fn stat(&self, path: &Path, follow: Follow) -> Result<Metadata> {
        self.at(path, |core| {
            let node = core.inodes.resolve(bytes(path), follow)?;
            let state = node.state.read();
            state.check_alive()?;
            Metadata::new(&state, core.inodes.volume.store.block_size())
        })
    }

    /// The names in a directory, without "." and "..", in the order of readdir. One that no file
    /// may have is among them as what it is written as: see [`DirectoryEntry::stored`].
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<Vec<DirectoryEntry>> {
        let path = path.as_ref();
        self.at(path, |core| {
            let node = core.inodes.resolve(bytes(path), Follow::Last)?;
            let state = node.state.read();
            state.check_directory()?;
            let entries = directory::entries(&core.inodes.volume, &state)?;
            let volume = &core.inodes.volume;
            volume.store.clock.charge(volume.store.policies.costs.name_ns * entries.len() as u64);
            drop(state);
            core.inodes.note_access(&node);
            Ok(entries)
        })
    }

    fn make(&self, path: &Path, new: &NewInode<'_>) -> Result<Arc<Node>> {
        self.change_at(path, |core| {
            let (parent, name) = core.inodes.resolve_parent(bytes(path))?;
            if name.is_empty() {
                return Err(ErrorKind::Exists.into());
            }
            core.inodes.make(&parent, name, new, None)
        })
    }

    /// Makes a directory with these permissions, owned by root.
    pub fn create_dir(&self, path: impl AsRef<Path>, permissions: u16) -> Result<()> {
        let new = NewInode { permissions, ..blank(FileType::Directory) };
        self.make(path.as_ref(), &new).map(drop)
    }

    /// Makes a symlink to `target`.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let new = NewInode {
            permissions: 0o777,
            target: bytes(target.as_ref()),
            ..blank(FileType::Symlink)
        };
        self.make(path.as_ref(), &new).map(drop)
    }

    /// Makes a fifo, socket, device or empty file.
    pub fn make_node(
        &self,
        path: impl AsRef<Path>,
        file_type: FileType,
        permissions: u16,
        device: Device,
    ) -> Result<()> {
        if matches!(file_type, FileType::Directory | FileType::Symlink) {
            return Err(Error::from(ErrorKind::NotPermitted(
                "directories and symlinks are made otherwise",
            ))
            .at(path));
        }
        self.make(path.as_ref(), &NewInode { permissions, device, ..blank(file_type) }).map(drop)
    }

    /// The target of a symlink.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        self.at(path, |core| {
            let node = core.inodes.resolve(bytes(path), Follow::NotLast)?;
            let target = core.inodes.read_link(&node)?;
            core.inodes.note_access(&node);
            Ok(target)
        })
    }

    /// Adds a name for an object. Symlinks are not followed.
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (original, link) = (original.as_ref(), link.as_ref());
        let node =
            self.at(original, |core| core.inodes.resolve(bytes(original), Follow::NotLast))?;
        self.change_at(link, |core| {
            let (parent, name) = core.inodes.resolve_parent(bytes(link))?;
            core.inodes.link(&node, &parent, name, None)
        })
    }

    /// Moves a name, and does at both ends what `how` says.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>, how: Rename) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let (from_parent, from_name) =
            self.at(from, |core| core.inodes.resolve_parent(bytes(from)))?;
        self.change_at(to, |core| {
            let (to_parent, to_name) = core.inodes.resolve_parent(bytes(to))?;
            let ends = ((&from_parent, from_name), (&to_parent, to_name));
            core.inodes.rename(ends.0, ends.1, how, None).map_err(|error| {
                let is_gone = matches!(core.inodes.lookup(&from_parent, from_name, None), Ok(None));
                match error.kind {
                    ErrorKind::NotFound if is_gone => error.at(from),
                    _ => error,
                }
            })
        })
    }

    /// Removes a name of anything but a directory.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.change_at(path, |core| {
            let (parent, name) = core.inodes.resolve_parent(bytes(path))?;
            core.inodes.unlink(&parent, name, None)
        })
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.change_at(path, |core| {
            let (parent, name) = core.inodes.resolve_parent(bytes(path))?;
            core.inodes.remove_directory(&parent, name, None)
        })
    }

    /// Opens a file for reading and writing.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let node = self.at(path, |core| core.inodes.resolve(bytes(path), Follow::Last))?;
        self.open_node(node).map_err(|error| error.at(path))
    }

    /// Makes a file, or cuts an existing one to nothing, and opens it.
    pub fn create_file(&self, path: impl AsRef<Path>, permissions: u16) -> Result<File> {
        let path = path.as_ref();
        let new = NewInode { permissions, ..blank(FileType::Regular) };
        let node = match self.make(path, &new) {
            Err(Error { kind: ErrorKind::Exists, .. }) => {
                let node = self.at(path, |core| core.inodes.resolve(bytes(path), Follow::Last))?;
                self.change_at(path, |core| file::set_size(&core.inodes.volume, &node, 0))?;
                node
            }
            made => made?,
        };
        self.open_node(node).map_err(|error| error.at(path))
    }

    fn open_node(&self, node: Arc<Node>) -> Result<File> {
        if node.state.read().file_type()? == FileType::Directory {
            return Err(ErrorKind::IsDirectory.into());
        }
        self.core.inodes.hold(&node)?;
        Ok(File::of_held(&self.core, node))
    }

    /// Reads a whole file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let file = self.open_file(path.as_ref())?;
        let size = file.metadata()?.size;
        let too_large = || Error::from(ErrorKind::FileTooLarge).at(path.as_ref());
        let mut content = Vec::new();
        content
            .try_reserve_exact(usize::try_from(size).map_err(|_| too_large())?)
            .map_err(|_| too_large())?;
        content.resize(size as usize, 0);
        let length = file.read_at(0, &mut content).map_err(|error| error.at(path.as_ref()))?;
        if content.is_empty() {
            // Reading no bytes at all is not an access. This read found that the file is empty.
            self.core.inodes.note_access(&file.node);
        }
        content.truncate(length);
        Ok(content)
    }

    /// Makes a file, or cuts an existing one to nothing, and writes its content.
    pub fn write(&self, path: impl AsRef<Path>, content: &[u8]) -> Result<()> {
        let file = self.create_file(path.as_ref(), 0o644)?;
        file.write_all_at(0, content).map_err(|error| error.at(path.as_ref()))
    }

    /// Changes owner, permissions or times. Symlinks are not followed. Unless it is a directory, a
    /// new owner or group removes set-user-ID, set-group-ID (if the group may execute it) and
    /// capabilities. If permissions are given too, they are set afterwards.
    ///
    /// # Errors
    /// `NotPermitted` for an immutable or append-only object.
    pub fn change(&self, path: impl AsRef<Path>, change: &Change) -> Result<()> {
        let path = path.as_ref();
        self.change_at(path, |core| {
            let node = core.inodes.resolve(bytes(path), Follow::NotLast)?;
            let mut state = node.state.write();
            core.inodes
                .volume
                .change(credits::CHANGE, |operation| change::by_path(operation, &mut state, change))
        })
    }

    /// Sets and clears inode flags of a regular file or a directory, as `chattr` does. Symlinks are
    /// not followed.
    ///
    /// # Errors
    /// `OperationUnsupported` for flags not listed at [`FlagChange`], or another kind of object;
    /// `NotPermitted` for a change of an immutable object that leaves it immutable.
    pub fn change_flags(&self, path: impl AsRef<Path>, change: FlagChange) -> Result<()> {
        let path = path.as_ref();
        self.change_at(path, |core| {
            let node = core.inodes.resolve(bytes(path), Follow::NotLast)?;
            let mut state = node.state.write();
            let volume = &core.inodes.volume;
            volume.change(credits::CHANGE, |operation| {
                change::change_flags(operation, &node, &mut state, change)
            })
        })
    }

    /// All extended attributes, access lists in the form of `getxattr`. Symlinks are not followed.
    pub fn attributes(&self, path: impl AsRef<Path>) -> Result<Vec<Attribute>> {
        let path = path.as_ref();
        self.at(path, |core| {
            let node = core.inodes.resolve(bytes(path), Follow::NotLast)?;
            let state = node.state.read();
            state.check_alive()?;
            attribute::list(&core.inodes.volume, &state)
        })
    }

    /// Sets an extended attribute. The value is stored as it is. Unlike
    /// [`Inodes::set_attribute`](crate::Inodes::set_attribute), this does not change the mode when
    /// it sets an access list.
    pub fn set_attribute(
        &self,
        path: impl AsRef<Path>,
        name: &[u8],
        value: &[u8],
        how: SetAttribute,
    ) -> Result<()> {
        let path = path.as_ref();
        self.change_at(path, |core| {
            let node = core.inodes.resolve(bytes(path), Follow::NotLast)?;
            let mut state = node.state.write();
            state.check_alive()?;
            let volume = &core.inodes.volume;
            volume.change(credits::CHANGE, |operation| {
                attribute::set(operation, &mut state, name, value, how)
            })
        })
    }

    /// Removes an extended attribute.
    pub fn remove_attribute(&self, path: impl AsRef<Path>, name: &[u8]) -> Result<()> {
        let path = path.as_ref();
        self.change_at(path, |core| {
            let node = core.inodes.resolve(bytes(path), Follow::NotLast)?;
            let mut state = node.state.write();
            state.check_alive()?;
            let volume = &core.inodes.volume;
            volume
                .change(credits::CHANGE, |operation| attribute::remove(operation, &mut state, name))
        })
    }

    /// Free runs of a group, rising, as (block number on the volume, number of blocks).
    pub fn free_runs(
        &self,
        group: extant_format::GroupNo,
    ) -> Result<Vec<(extant_format::BlockNo, u32)>> {
        let volume = &self.core.inodes.volume;
        let start = volume.store.superblock.group_start(group).0;
        let runs = volume.space.free_runs(group)?;
        // Runs of clusters (bigalloc); the last one may reach beyond the volume.
        let log2 = volume.store.superblock.cluster_log2();
        let volume_end = volume.store.superblock.blocks_count;
        Ok(runs
            .into_iter()
            .map(|(at, length)| {
                let first = start + (u64::from(at) << log2);
                let end = first.saturating_add(u64::from(length) << log2).min(volume_end);
                (extant_format::BlockNo(first), (end - first) as u32)
            })
            .collect())
    }
}

fn blank(file_type: FileType) -> NewInode<'static> {
    NewInode {
        file_type,
        permissions: 0,
        uid: 0,
        gid: 0,
        device: Device::default(),
        target: b"",
        defaults: Defaults::Ignore,
    }
}

/// An open file. Reads and writes through [`std::io::Read`], [`std::io::Write`] and
/// [`std::io::Seek`], or at offsets from many threads.
pub struct File {
    pub(crate) core: Arc<Core>,
    pub(crate) node: Arc<Node>,
    position: u64,
    /// What read-ahead remembers of earlier reads.
    stream: Stream,
    /// Which free blocks may be taken through it.
    pub(crate) room: Room,
}

impl File {
    /// An open file of a node that already counts it (see `Inodes::hold`).
    pub(crate) fn of_held(core: &Arc<Core>, node: Arc<Node>) -> File {
        let (core, stream, room) = (Arc::clone(core), Stream::default(), Room::Whole);
        File { core, node, position: 0, stream, room }
    }

    /// The same file for one who may take this much.
    pub(crate) fn within(mut self, room: Room) -> File {
        self.room = room;
        self
    }

    /// Whether the blocks that the volume reserves may be taken through it, as its opener may.
    pub fn takes_reserved(&self) -> bool {
        self.room == Room::Whole
    }

    /// Runs work that changes the file.
    fn changing<T>(&self, work: impl Fn(&Volume) -> Result<T>) -> Result<T> {
        let volume = &self.core.inodes.volume;
        self.core.with_room(|| work(volume))
    }

    /// As `changing`, for work that makes few blocks dirty.
    pub(crate) fn changing_map(&self, work: impl Fn(&Volume) -> Result<()>) -> Result<()> {
        let pledge = self.core.admit_call()?;
        self.changing(work)?;
        drop(pledge);
        self.core.balance()?;
        self.sync_if_asked()
    }

    /// Makes what was written durable, if the file's flags say so.
    fn sync_if_asked(&self) -> Result<()> {
        match self.node.synchronous.load(Ordering::Relaxed) {
            true => self.sync_as(Durable::Data),
            false => Ok(()),
        }
    }

    /// Charges the clock for a call that copies `bytes`.
    fn charge(&self, bytes: usize) {
        let volume = &self.core.inodes.volume;
        let costs = &volume.store.policies.costs;
        volume.store.clock.charge(costs.call_ns + costs.kib_ns * bytes as u64 / 1024);
    }

    /// What `fstat` returns.
    pub fn metadata(&self) -> Result<Metadata> {
        let state = self.node.state.read();
        state.check_alive()?;
        Metadata::new(&state, self.core.inodes.volume.store.block_size())
    }

    /// Reads at an offset. Returns the number of bytes read: fewer than asked only at the end.
    /// Changes the access time as the policy says.
    ///
    /// # Errors
    /// `NotFound` if the file had no name when the volume was closed; `Corrupt`; what the device
    /// returns.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let done = self.core.read_in_pieces(&self.node, &self.stream, offset, buffer)?;
        self.charge(done.bytes);
        if done.is_access_due && !buffer.is_empty() {
            self.core.inodes.note_access(&self.node);
        }
        self.core.balance_after_reading();
        Ok(done.bytes)
    }

    /// Writes at an offset. Returns the number of bytes written: fewer than given at the largest
    /// size that a file may have, or when an error ended the call after its first piece (the next
    /// call reports it). Like every change of the content, removes set-user-ID, set-group-ID (if
    /// the group may execute the file) and capabilities.
    ///
    /// # Errors
    /// `NotPermitted` for an immutable file, and for an append-only one unless the offset is its
    /// size; `NoSpace`, `FileTooLarge`, `ReadOnly`; `Corrupt`; what the device returns.
    pub fn write_at(&self, offset: u64, content: &[u8]) -> Result<usize> {
        self.write_at_as(offset, content, RunRights::End)
    }

    /// As [`File::write_at`], and says what becomes of the rights that the file is run with.
    ///
    /// # Errors
    /// As for [`File::write_at`].
    pub fn write_at_as(&self, offset: u64, content: &[u8], rights: RunRights) -> Result<usize> {
        let length = self.write_pieces(offset, content, rights)?;
        self.charge(length);
        self.core.balance()?;
        self.core.write_new_maps()?;
        self.sync_if_asked()?;
        Ok(length)
    }

    /// Writes what a cache above this file system has kept: a program wrote it there before. So
    /// neither times nor rights change, and the file may have become immutable or append-only.
    ///
    /// # Errors
    /// As for [`File::write_at`], without `NotPermitted`.
    pub fn write_back(&self, offset: u64, content: &[u8]) -> Result<usize> {
        self.write_at_as(offset, content, RunRights::Stay)
    }

    /// Writes as much at a time as the policy allows. After the first piece, an error only ends the
    /// call; the next call reports it.
    fn write_pieces(&self, offset: u64, content: &[u8], rights: RunRights) -> Result<usize> {
        let mut done = 0;
        loop {
            let at = offset.saturating_add(done as u64);
            let piece = self.core.piece(at, content.len() - done);
            let bytes = &content[done..done + piece];
            let written = self.core.admit_bytes(piece).and_then(|pledge| {
                let manner = (rights, self.room);
                let write = |volume: &Volume| file::write(volume, &self.node, at, bytes, manner);
                let written = self.changing(write);
                drop(pledge);
                written
            });
            match written {
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
                Ok(length) => done += length,
            }
            if done == content.len()
                || at.saturating_add(piece as u64) > offset.saturating_add(done as u64)
            {
                return Ok(done);
            }
        }
    }

    /// Writes all of it at an offset.
    pub fn write_all_at(&self, offset: u64, content: &[u8]) -> Result<()> {
        // In pieces, so that a large content does not take the same amount of memory again.
        for (at, piece) in content.chunks(1 << 20).enumerate() {
            let offset = offset + ((at as u64) << 20);
            let mut done = 0;
            // A short write does not say why. The next one reports it, unless it gets further.
            while done < piece.len() {
                match self.write_at(offset + done as u64, &piece[done..])? {
                    0 => return Err(ErrorKind::FileTooLarge.into()),
                    written => done += written,
                }
            }
        }
        Ok(())
    }

    /// Sets the size in bytes.
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.changing_map(|volume| file::set_size(volume, &self.node, size))
    }

    /// Allocates blocks that read as zeros (files with extents only).
    pub fn allocate(&self, offset: u64, length: u64, size: Size) -> Result<()> {
        self.change_range(offset, length, RangeChange::Allocate(size), RunRights::End)
    }

    /// Makes a hole; the size stays.
    pub fn punch_hole(&self, offset: u64, length: u64) -> Result<()> {
        self.change_range(offset, length, RangeChange::PunchHole, RunRights::End)
    }

    /// The next range of data at or after an offset, in bytes; `None` if only a hole is left.
    pub fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        file::next_data(&self.core.inodes.volume, &self.node, offset)
    }

    /// Writes this file's data, and waits until it is durable together with its inode and all that
    /// was done before. Without a journal that is the metadata of the whole volume.
    pub fn sync(&self) -> Result<()> {
        self.sync_as(Durable::All)
    }

    /// The same; `what` says whether the inode's own attributes matter.
    pub(crate) fn sync_as(&self, what: Durable) -> Result<()> {
        self.core.sync_node(&self.node, what)
    }

    /// Whether the bytes of files are kept at all (see [`DataKeeping`]).
    pub fn keeps_bytes(&self) -> bool {
        self.core.inodes.volume.pages.data == DataKeeping::Bytes
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // No one is left to return an error to. Most errors close the latch. Damage that is found
        // before the first change does not, and then an inode without a name may stay.
        let _ = self.core.inodes.release(&self.node);
    }
}

impl std::io::Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.read_at(self.position, buffer)?;
        self.position += length as u64;
        Ok(length)
    }
}

impl std::io::Write for File {
    fn write(&mut self, content: &[u8]) -> std::io::Result<usize> {
        let length = self.write_at(self.position, content)?;
        self.position += length as u64;
        Ok(length)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Seek for File {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        let position = match to {
            std::io::SeekFrom::Start(offset) => Some(offset),
            std::io::SeekFrom::Current(delta) => self.position.checked_add_signed(delta),
            std::io::SeekFrom::End(delta) => self.metadata()?.size.checked_add_signed(delta),
        };
        let invalid = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
        self.position = position.ok_or_else(invalid)?;
        Ok(self.position)
    }
}
