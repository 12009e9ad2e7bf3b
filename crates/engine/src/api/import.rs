//! A whole tree at once: every inode is made with all its attributes, every directory is packed,
//! and a file's blocks are allocated before its bytes are read.
//!
//! This uses the engine's ordinary allocation, maps and directories, without the rest of a running
//! system: no names are looked up, no inode is kept in memory, nothing is promised to delayed
//! writes.
//!
//! *Invariants*: inodes are numbered in the order in which they are made, from the first free one
//! that is not reserved, without gaps but for those that the caller asks for.
//! *Locking*: one import at a time (`&mut self`), during which nothing else changes the file
//! system.
use crate::api::filesystem::Filesystem;
use crate::error::{Error, ErrorKind, Result};
use crate::flush::Core;
use crate::inode::NodeState;
use crate::inode::attribute;
use crate::inode::credits;
use crate::inode::mapping;
use crate::name::directory::{self, Packing};
use crate::name::namespace::{FAST_SYMLINK_MAX, store_target};
use crate::policy::allocation::Purpose;
use crate::space::{Freed, InodeKind};
use extant_format::attribute::{Attribute, REFERENCE_MAX};
use extant_format::extent::State;
use extant_format::inode::{Device, FileType, Inode, LINKS_MAX, Time, flags};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, FileBlock, Ino};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use crate::name::directory::NewEntry;

/// Everything about a new inode except its content.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    /// The low twelve bits of the mode.
    pub permissions: u16,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Flags of the inode, besides those that its layout needs.
    pub flags: u32,
    /// How many names it will have (a directory: 2, and one for each subdirectory).
    pub links: u32,
    /// When it was last read.
    pub access_time: Time,
    /// When its inode last changed.
    pub change_time: Time,
    /// When its content last changed.
    pub modify_time: Time,
    /// When it was made; stored if the inode has room.
    pub create_time: Time,
    /// Extended attributes, access lists in the form of getxattr.
    pub attributes: &'a [Attribute],
    /// Identifies the list of attributes: equal lists have equal numbers, the empty list has 0.
    pub attribute_list: u32,
}

/// Where a range of a file's data goes, in whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Offset of the first byte on the volume.
    pub volume_offset: u64,
    /// Length in bytes, a multiple of the block size. The last block may extend beyond the end of
    /// the file; the caller fills it with zeros.
    pub length: u64,
}

/// Where a list of attributes is stored: what fits in the inode, and the block with the rest. A new
/// block is made when this one has as many inodes as it may have.
struct SharedAttributes {
    tail: Vec<u8>,
    block: Option<BlockNo>,
    references: u32,
}

/// A tree that is being written into an empty file system.
pub struct Import {
    core: Arc<Core>,
    shared: FxHashMap<u32, SharedAttributes>,
    next: Ino,
    /// The number of the process that makes what follows; the caller's own without one.
    process: Option<u32>,
}

impl Filesystem {
    /// Begins to import a tree into this file system, which mkfs has just made.
    pub fn import(&self) -> Import {
        let first = Ino(self.core.inodes.volume.store.superblock.first_inode);
        Import {
            core: Arc::clone(&self.core),
            shared: FxHashMap::default(),
            next: first,
            process: None,
        }
    }
}

impl Import {
    /// How directories of this volume are packed.
    pub fn packing(&self) -> Packing {
        Packing::of(&self.core.inodes.volume.store.superblock)
    }

    /// Leaves free the inodes before this one that were not given: the next one gets its number, if
    /// it is free.
    pub fn skip_to(&mut self, ino: Ino) {
        self.next = self.next.max(ino);
    }

    /// Values of attributes that need inodes (ea_inode) get the first free ones from this number
    /// on.
    pub fn values_from(&mut self, ino: Ino) {
        self.core.inodes.volume.values_from.store(ino.0, Ordering::Relaxed);
    }

    /// The superblock says of no write from now on that it was later than this, in seconds since
    /// 1970, whatever the clock says. Inodes are stamped by the clock as ever.
    pub fn date_until(&mut self, seconds: u64) {
        self.core.inodes.volume.store.record.date_until(seconds);
    }

    /// What is made from now on is as if the process with this number made it: where first blocks
    /// go may depend on it.
    pub fn as_process(&mut self, number: u32) {
        self.process = Some(number);
    }

    /// Makes a directory with all its names, and returns its inode number. `parent` is the number
    /// of the directory above.
    ///
    /// # Errors
    /// `NoInodes`, `NoSpace`, `DirectoryFull`, `TooManyLinks`, attributes that do not fit.
    pub fn directory(
        &mut self,
        new: &NewNode<'_>,
        parent: Ino,
        names: &mut dyn ExactSizeIterator<Item = NewEntry<'_>>,
    ) -> Result<Ino> {
        let mut state = self.inode(FileType::Directory, new)?;
        self.fill_directory(&mut state, new, parent, names)?;
        Ok(state.ino)
    }

    /// Gives the root directory its attributes and all its names. `keep` of `names` are those that
    /// mkfs made (lost+found).
    ///
    /// # Errors
    /// As `directory`.
    pub fn root(
        &mut self,
        new: &NewNode<'_>,
        names: &mut dyn ExactSizeIterator<Item = NewEntry<'_>>,
    ) -> Result<()> {
        let core = Arc::clone(&self.core);
        let volume = &core.inodes.volume;
        core.inodes.nodes.remove(Ino::ROOT);
        let mut state = NodeState::new(volume, Ino::ROOT, crate::inode::load(volume, Ino::ROOT)?);
        let all = 0..u64::from(u32::MAX) + 1;
        volume.change(credits::RUN, |operation| {
            mapping::remove(operation, &mut state, all, Purpose::Directory)
        })?;
        // The volume is not in use yet, so these blocks can be allocated again at once.
        let freed = Freed { blocks: state.take_freed(), ..Freed::default() };
        freed.blocks.iter().for_each(|run| volume.store.forget_run(*run));
        volume.space.reuse(freed);
        let mut inode = self.fresh(FileType::Directory, new)?;
        inode.generation = state.inode.generation;
        let counted = state.counted.take();
        state = NodeState::fresh(volume, Ino::ROOT, inode);
        state.counted = counted;
        self.place_attributes(&mut state, new)?;
        self.fill_directory(&mut state, new, Ino::ROOT, names)
    }

    /// Gives a directory that mkfs made (lost+found) other attributes. Its content stays.
    pub fn redress(&mut self, ino: Ino, new: &NewNode<'_>) -> Result<()> {
        let core = Arc::clone(&self.core);
        core.inodes.nodes.remove(ino);
        let mut state =
            NodeState::new(&core.inodes.volume, ino, crate::inode::load(&core.inodes.volume, ino)?);
        let file_type = state.file_type()?;
        let fresh = self.fresh(file_type, new)?;
        state.inode = Inode {
            size: state.inode.size,
            sectors: state.inode.sectors,
            block: state.inode.block,
            flags: state.inode.flags,
            generation: state.inode.generation,
            ..fresh
        };
        self.place_attributes(&mut state, new)?;
        self.store(&mut state)
    }

    /// Makes a regular file of `size` bytes. `data` are the ranges of bytes that hold data, rising;
    /// the rest are holes. Calls `placed` for each run of blocks, in the order of the file: the
    /// caller writes the bytes there.
    ///
    /// # Errors
    /// `NoInodes`, `NoSpace`, `FileTooLarge`, `TooManyLinks`, attributes that do not fit.
    pub fn file(
        &mut self,
        new: &NewNode<'_>,
        size: u64,
        data: &mut dyn Iterator<Item = Range<u64>>,
        placed: &mut dyn FnMut(Stretch),
    ) -> Result<Ino> {
        let core = Arc::clone(&self.core);
        let volume = &core.inodes.volume;
        let mut state = self.inode(FileType::Regular, new)?;
        if size > crate::inode::file::size_max(volume, &state) {
            return Err(ErrorKind::FileTooLarge.into());
        }
        mapping::initialize(&mut state);
        state.inode.size = size;
        let block_size = u64::from(volume.store.block_size());
        let mut pending: Option<Range<u64>> = None;
        for range in data {
            let blocks = range.start / block_size..range.end.min(size).div_ceil(block_size);
            match &mut pending {
                Some(last) if blocks.start <= last.end => last.end = last.end.max(blocks.end),
                _ => {
                    let ready = pending.replace(blocks);
                    self.place_data(&mut state, ready, placed)?;
                }
            }
        }
        self.place_data(&mut state, pending, placed)?;
        self.store(&mut state)?;
        Ok(state.ino)
    }

    /// Makes a symlink.
    ///
    /// # Errors
    /// `NameTooLong` if the target does not fit in a block; as `file` otherwise.
    pub fn symlink(&mut self, new: &NewNode<'_>, target: &[u8]) -> Result<Ino> {
        let core = Arc::clone(&self.core);
        let volume = &core.inodes.volume;
        if target.len() >= volume.store.block_size() as usize {
            return Err(ErrorKind::NameTooLong.into());
        }
        let mut state = self.inode(FileType::Symlink, new)?;
        let slow = target.len() >= FAST_SYMLINK_MAX;
        if slow && volume.store.superblock.has(Feature::EXTENTS) {
            state.inode.flags |= flags::EXTENTS;
        }
        let mut reservation = volume.space.reserve(u64::from(slow))?;
        volume.change(credits::RUN + 1, |operation| {
            store_target(operation, &mut reservation, &mut state, target)
        })?;
        self.store(&mut state)?;
        Ok(state.ino)
    }

    /// Makes a device, fifo or socket.
    ///
    /// # Errors
    /// As `file`.
    pub fn special(
        &mut self,
        new: &NewNode<'_>,
        file_type: FileType,
        device: Device,
    ) -> Result<Ino> {
        let mut state = self.inode(file_type, new)?;
        if file_type.is_device() {
            state.inode.set_device(device);
        }
        self.store(&mut state)?;
        Ok(state.ino)
    }

    /// Keeps memory within its bounds; the caller should call it now and then.
    pub fn balance(&self) -> Result<()> {
        self.core.balance()
    }

    /// The number of the block after the last one in use, which is where the volume could end.
    ///
    /// # Errors
    /// Those of reading bitmaps.
    pub fn used_end(&self) -> Result<u64> {
        let volume = &self.core.inodes.volume;
        volume.space.used_end()
    }

    /// Makes the volume end at block `blocks`, which has to be in its last group and after
    /// everything in use.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not.
    pub fn cut(&mut self, blocks: u64) -> Result<()> {
        self.core.cut(blocks)
    }

    fn place_data(
        &self,
        state: &mut NodeState,
        blocks: Option<Range<u64>>,
        placed: &mut dyn FnMut(Stretch),
    ) -> Result<()> {
        let Some(blocks) = blocks else { return Ok(()) };
        let volume = &self.core.inodes.volume;
        let block_size = u64::from(volume.store.block_size());
        let need = mapping::clusters::data_need(volume, state, std::slice::from_ref(&blocks));
        let mut reservation = volume.space.reserve(need)?;
        let mut at = blocks.start;
        while at < blocks.end {
            let block =
                FileBlock(u32::try_from(at).map_err(|_| Error::from(ErrorKind::FileTooLarge))?);
            let want = u32::try_from(blocks.end - at).unwrap_or(u32::MAX);
            let purpose = Purpose::Data;
            let written = State::Written;
            let run = volume.change(credits::RUN, |operation| {
                mapping::allocate(operation, &mut reservation, state, block, want, purpose, written)
            })?;
            placed(Stretch {
                file_offset: at * block_size,
                volume_offset: run.start.0 * block_size,
                length: u64::from(run.length) * block_size,
            });
            at += u64::from(run.length);
        }
        Ok(())
    }

    fn fill_directory(
        &self,
        state: &mut NodeState,
        new: &NewNode<'_>,
        parent: Ino,
        names: &mut dyn ExactSizeIterator<Item = NewEntry<'_>>,
    ) -> Result<()> {
        let volume = &self.core.inodes.volume;
        if volume.store.superblock.has(Feature::EXTENTS) {
            state.inode.flags |= flags::EXTENTS;
        }
        mapping::initialize(state);
        let mut reservation = volume.space.reserve(1)?;
        volume.change(credits::NAME, |operation| {
            directory::pack(operation, &mut reservation, state, parent, names)
        })?;
        state.inode.links = match u16::try_from(new.links) {
            Ok(links) if links < LINKS_MAX => links,
            _ if volume.store.superblock.has(Feature::DIR_NLINK) => 1,
            _ => return Err(ErrorKind::TooManyLinks.into()),
        };
        self.store(state)
    }

    /// Makes an inode with the next number.
    fn inode(&mut self, file_type: FileType, new: &NewNode<'_>) -> Result<NodeState> {
        let inode = self.fresh(file_type, new)?;
        let volume = &self.core.inodes.volume;
        let kind =
            if file_type == FileType::Directory { InodeKind::Directory } else { InodeKind::Other };
        let (group, index) =
            volume.store.superblock.group_of_inode(self.next).ok_or(ErrorKind::NoInodes)?;
        let ino = volume.change(credits::NEW_INODE, |operation| {
            volume.space.allocate_inode(operation, group, index, kind)
        })?;
        if ino < self.next {
            return Err(ErrorKind::NoInodes.into());
        }
        self.next = Ino(ino.0.saturating_add(1));
        let mut state = NodeState::fresh(volume, ino, inode);
        state.writer = self.process.unwrap_or(state.writer);
        self.place_attributes(&mut state, new)?;
        Ok(state)
    }

    fn fresh(&self, file_type: FileType, new: &NewNode<'_>) -> Result<Inode> {
        let volume = &self.core.inodes.volume;
        let mut inode = Inode::new(
            file_type.mode_bits() | (new.permissions & 0o7777),
            &volume.store.superblock,
        );
        (inode.uid, inode.gid) = (new.uid, new.gid);
        inode.flags |= new.flags;
        inode.access_time = new.access_time;
        inode.change_time = new.change_time;
        inode.modify_time = new.modify_time;
        inode.create_time = inode.create_time.map(|_| new.create_time);
        inode.links = match u16::try_from(new.links) {
            Ok(links) if links <= LINKS_MAX => links,
            _ if file_type == FileType::Directory => 1,
            _ => return Err(ErrorKind::TooManyLinks.into()),
        };
        if file_type == FileType::Regular && volume.store.superblock.has(Feature::EXTENTS) {
            inode.flags |= flags::EXTENTS;
        }
        Ok(inode)
    }

    fn place_attributes(&mut self, state: &mut NodeState, new: &NewNode<'_>) -> Result<()> {
        if new.attribute_list == 0 {
            return Ok(());
        }
        let volume = &self.core.inodes.volume;
        if let Some(shared) = self.shared.get_mut(&new.attribute_list)
            && shared.references < REFERENCE_MAX
        {
            shared.references += 1;
            let (tail, block) = (&shared.tail, shared.block);
            return volume.change(credits::ATTRIBUTES, |operation| {
                attribute::share(operation, state, tail, block)
            });
        }
        let (tail, superblock) = (state.inode.tail.len(), &volume.store.superblock);
        let distant = extant_format::attribute::distant(new.attributes, tail, superblock)?;
        if !distant.is_empty() {
            // Values in inodes are no other file's, nor is a list that has them.
            volume.change(credits::CHANGE, |operation| {
                attribute::replace_all(operation, state, new.attributes)
            })?;
            // Counted with the inode when that is stored at last.
            state.set_values(u32::try_from(distant.len()).ok());
            return Ok(());
        }
        let placed = extant_format::attribute::place(new.attributes, tail, superblock)?;
        let block = volume.change(credits::ATTRIBUTES, |operation| {
            attribute::place_new(operation, state, &placed)
        })?;
        let shared = SharedAttributes { tail: placed.tail, block, references: 1 };
        self.shared.insert(new.attribute_list, shared);
        Ok(())
    }

    /// Stores an inode that is complete, and frees what it has in hand.
    fn store(&self, state: &mut NodeState) -> Result<()> {
        let volume = &self.core.inodes.volume;
        volume.space.close_window(state.ino);
        volume.change(credits::STEP, |operation| {
            mapping::window::discard(operation, state)?;
            operation.note_size(state.inode.size);
            state.store_now(operation)
        })
    }
}
