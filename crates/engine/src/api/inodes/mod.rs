//! The file system by inode: what a mount, or a server, works with.
//!
//! [`Filesystem::inodes`] gives a view without a caller, like the calls with paths: what the engine
//! itself forbids is checked, and permissions are not. The view that
//! [`Filesystem::inodes_for`] gives acts for a [`Caller`], and every call checks what Linux would
//! check for a process of that identity.
//!
//! An [`Inode`] is a reference to an inode in memory. It stays valid when names of the inode are
//! made and removed. Once the inode is freed, every call with it fails with `NotFound`, even if its
//! number belongs to another inode by then. It does not keep an inode without a name: an open
//! [`File`](crate::File) does.
//!
//! ```
//! # use extant_block::{MemoryDevice, RealClock};
//! # use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
//! # use extant_engine::preset::Policies;
//! # use extant_engine::{Access, DataKeeping, Filesystem, Options};
//! # use std::sync::Arc;
//! use extant_engine::{Caller, ErrorKind, New, NewKind, Rights};
//!
//! # fn main() -> extant_engine::Result<()> {
//! # let device = Arc::new(MemoryDevice::new(RealClock::new(), 8 << 20));
//! # let identity = Identity {
//! #     uuid: *b"\x1f\x5e\xc2\x07\x9d\x34\x4a\x6b\x8e\x11\x42\xd0\x73\xa9\x58\xec",
//! #     hash_seed: [0x8a3c_51e7, 0x06d2_f94b, 0xb75e_1083, 0x4c91_e62a],
//! #     created_seconds: 1_767_225_600,
//! # };
//! # let wishes = default_wishes(Profile::Ext4, 8 << 20, Some(1024), identity);
//! # let policies: Policies = "modern".parse().unwrap();
//! # format(device.clone(), &FormatOptions::new(wishes), &policies)?;
//! # let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
//! # let options = Options { access, policies, cache_bytes: 4 << 20, data };
//! # let filesystem = Filesystem::open(device.clone(), &options)?;
//! let inodes = filesystem.inodes();
//! let root = inodes.root()?;
//! let new = New { uid: 1000, gid: 1000, permissions: 0o666, umask: 0o027, ..New::default() };
//! let (inode, file) = inodes.create_open(&root, b"diary", &new)?;
//! file.write_all_at(0, b"today\n")?;
//! assert_eq!(inodes.metadata(&inode)?.mode & 0o777, 0o640);
//!
//! let stranger = Caller::user(1001, 1001);
//! let refused = filesystem.inodes_for(&stranger).open(&inode, Rights::READ);
//! assert!(matches!(refused.err().unwrap().kind, ErrorKind::PermissionDenied));
//! inodes.create(&root, b"socket", &New { kind: NewKind::Socket, ..new })?;
//! # drop(file);
//! # filesystem.close()?;
//! # extant_testkit::oracle::example(&|path| device.save(path)).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! *Locking*: none of its own. No lock is held between calls, and none while a function of the
//! caller runs, except by [`Inodes::read_dir`].
mod attributes;
mod copy;
mod directories;
mod files;
mod memory;
mod names;

pub use crate::name::opening::{Existing, OpenOutcome};
pub use directories::Known;
pub use names::{New, NewKind};

use crate::api::filesystem::Filesystem;
use crate::api::room::Statfs;
use crate::error::{ErrorKind, Result};
use crate::flush::Core;
use crate::inode::Node;
use crate::inode::access;
use crate::inode::caller::{Caller, room_of};
use crate::inode::file::Durable;
use crate::name::namespace::Follow;
use crate::space::Room;
use extant_format::Ino;
use std::fmt;
use std::ops::BitOr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A reference to an inode of an open file system. Cheap to clone; shared between threads.
#[derive(Clone)]
pub struct Inode {
    core: Arc<Core>,
    node: Arc<Node>,
}

impl Inode {
    fn new(core: &Arc<Core>, node: Arc<Node>) -> Inode {
        Inode { core: Arc::clone(core), node }
    }

    /// Its number.
    pub fn number(&self) -> Ino {
        self.node.ino
    }

    /// Its generation, which tells it from other inodes that have had or will have its number.
    pub fn generation(&self) -> u32 {
        self.node.generation
    }

    /// Whether it was freed, so that its number may belong to another inode.
    fn is_freed(&self) -> bool {
        self.node.freed.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inode({}, generation {})", self.node.ino.0, self.generation())
    }
}

/// How an object is to be used: any of reading, writing, and executing (a directory: searching).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u16);

impl Rights {
    /// To read bytes or names.
    pub const READ: Rights = Rights(access::READ);
    /// To change bytes or names.
    pub const WRITE: Rights = Rights(access::WRITE);
    /// To run a file; to look names up in a directory.
    pub const EXECUTE: Rights = Rights(access::EXECUTE);
}

impl BitOr for Rights {
    type Output = Rights;
    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// The calls by inode, made for one caller, or without one.
#[derive(Clone, Copy)]
pub struct Inodes<'a> {
    core: &'a Arc<Core>,
    caller: Option<&'a Caller>,
}

impl Inodes<'_> {
    /// Which of the free blocks the caller may take.
    fn room(&self) -> Room {
        room_of(self.caller)
    }
}

impl Filesystem {
    /// The calls by inode, without any check of permissions.
    pub fn inodes(&self) -> Inodes<'_> {
        Inodes { core: &self.core, caller: None }
    }

    /// The inode that a path leads to. Symlinks on the way are followed, one at the end is not.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `SymlinkLoop`; `Corrupt`; what the device returns.
    pub fn inode(&self, path: impl AsRef<Path>) -> Result<Inode> {
        let path = path.as_ref();
        let bytes = path.as_os_str().as_bytes();
        let node = self.at(path, |core| core.inodes.resolve(bytes, Follow::NotLast))?;
        Ok(Inode::new(&self.core, node))
    }

    /// From now on the device is told of the blocks of each file that is removed or cut, once that
    /// is durable (`discard` of ext4). A device that can do nothing with that is told once. On
    /// volumes whose freed blocks may be reused at once, nothing is told.
    pub fn discard_freed(&self) {
        self.core.inodes.volume.space.discard_from_now_on();
    }

    /// The calls by inode, made for a caller.
    pub fn inodes_for<'a>(&'a self, caller: &'a Caller) -> Inodes<'a> {
        Inodes { core: &self.core, caller: Some(caller) }
    }
}

impl Inodes<'_> {
    /// The root directory.
    ///
    /// # Errors
    /// `Corrupt`; what the device returns.
    pub fn root(&self) -> Result<Inode> {
        self.look(|core| core.inodes.nodes.get(&core.inodes.volume, Ino::ROOT))
            .map(|node| self.of(node))
    }

    /// The inode with this number and generation, for callers that keep numbers.
    ///
    /// # Errors
    /// `NotFound` if no inode in use has the number, `Stale` if another one has it now;
    /// `Corrupt`; what the device returns.
    pub fn get(&self, number: Ino, generation: u32) -> Result<Inode> {
        let node = self.look(|core| {
            if !core.inodes.volume.store.superblock.is_usable(number) {
                return Err(ErrorKind::NotFound.into());
            }
            core.inodes.nodes.get(&core.inodes.volume, number)
        })?;
        node.state.read().check_alive()?;
        let inode = self.of(node);
        match inode.generation() == generation {
            true => Ok(inode),
            false => Err(ErrorKind::Stale.into()),
        }
    }

    /// The inode that has this number now, for a mount, whose numbers of nodes are those of inodes.
    /// One that is in memory takes a look at a table and no lock on the inode.
    ///
    /// # Errors
    /// `NotFound` if no inode in use has the number; `Corrupt`; what the device returns.
    pub fn by_number(&self, number: Ino) -> Result<Inode> {
        let volume = &self.core.inodes.volume;
        if !volume.store.superblock.is_usable(number) {
            return Err(ErrorKind::NotFound.into());
        }
        let inode = self.of(self.core.inodes.nodes.get(volume, number)?);
        match inode.is_freed() {
            true => Err(ErrorKind::NotFound.into()),
            false => Ok(inode),
        }
    }

    /// Fails unless the caller may use an object in all of these ways, as in `access(2)`.
    ///
    /// # Errors
    /// `PermissionDenied`; `NotPermitted` for writing what is immutable; `NotFound`.
    pub fn access(&self, inode: &Inode, rights: Rights) -> Result<()> {
        let node = self.node(inode)?;
        self.look(|core| {
            let state = node.state.read();
            state.check_alive()?;
            access::check(&core.inodes.volume, &state, self.caller, rights.0)
        })
    }

    /// Room on the volume.
    pub fn statfs(&self) -> Statfs {
        Filesystem { core: Arc::clone(self.core) }.statfs()
    }

    /// Writes everything that changed and waits until the device has it.
    ///
    /// # Errors
    /// What the device returns; after that nothing more is written.
    pub fn sync(&self) -> Result<()> {
        self.core.sync()
    }

    /// Makes one inode durable, and all that was done before: a file with its data, a directory
    /// with its names. Without a journal that is the metadata of the whole volume.
    ///
    /// # Errors
    /// What the device returns; after that nothing more is written.
    pub fn sync_inode(&self, inode: &Inode) -> Result<()> {
        self.core.sync_node(self.node(inode)?, Durable::All)
    }

    fn of(&self, node: Arc<Node>) -> Inode {
        Inode::new(self.core, node)
    }

    /// The node of a reference; fails if that belongs to another file system.
    fn node<'i>(&self, inode: &'i Inode) -> Result<&'i Arc<Node>> {
        match Arc::ptr_eq(self.core, &inode.core) {
            true => Ok(&inode.node),
            false => Err(ErrorKind::InvalidArgument("an inode of another volume").into()),
        }
    }

    /// Work that only looks.
    fn look<T>(&self, work: impl Fn(&Core) -> Result<T>) -> Result<T> {
        let result = self.answer(work);
        self.core.balance_after_reading();
        result
    }

    /// Work that changes something.
    fn change<T>(&self, work: impl Fn(&Core) -> Result<T>) -> Result<T> {
        let pledge = self.core.admit_call()?;
        let result = self.answer(work);
        drop(pledge);
        self.core.balance()?;
        let result = result?;
        self.core.write_through()?;
        Ok(result)
    }

    fn answer<T>(&self, work: impl Fn(&Core) -> Result<T>) -> Result<T> {
        let volume = &self.core.inodes.volume;
        volume.store.clock.charge(volume.store.policies.costs.call_ns);
        self.core.with_room(|| work(self.core))
    }
}
