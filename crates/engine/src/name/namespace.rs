//! Names: resolve, create, link, rename, unlink.
//!
//! *Invariants*: an inode's link count is the number of its names (and, of a directory, of its ".."
//! from below, until dir_nlink says 1); every change of names is decided, and room for it promised,
//! before the first byte changes.
//! *Locking*: parent before child; two parents ancestor first; two children by rising number.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::flush::Core;
use crate::inode::access::{check_may_add, check_may_make, check_may_unlink, check_search};
use crate::inode::caller::Caller;
use crate::inode::mapping::{self, Piece};
use crate::inode::permission::{self, check_not_locked};
use crate::inode::{Node, NodeState};
use crate::name::beginning::{Beginning, Defaults, Wish};
use crate::name::directory::{self, Departure};
use crate::policy::allocation::Purpose;
use crate::policy::placement::PlacementFacts;
use crate::space::{InodeKind, Reservation};
use crate::store::cache::Kind;
use crate::store::handle::Handle;
use crate::volume::Volume;
use extant_format::directory::NAME_MAX;
use extant_format::extent::State;
use extant_format::inode::{Device, FileType, Inode, flags};
use extant_format::superblock::Feature;
use extant_format::{FileBlock, GroupNo, Ino};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most links of an inode; directories beyond it say 1 with dir_nlink.
pub const LINKS_MAX: u16 = 65_000;
/// Most symlinks on the way to a name.
const SYMLINKS_MAX: u32 = 40;

/// Whether a symlink at the end of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follow {
    Last,
    NotLast,
}

/// What a new inode is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewInode<'a> {
    pub(crate) file_type: FileType,
    /// The low twelve bits of the mode.
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Of devices.
    pub(crate) device: Device,
    /// Of symlinks.
    pub(crate) target: &'a [u8],
    /// Whether umask and default access list count.
    pub(crate) defaults: Defaults,
}

impl NewInode<'_> {
    /// What decides how it begins.
    pub(crate) fn wish(&self) -> Wish {
        let NewInode { file_type, permissions, defaults, .. } = *self;
        Wish { file_type, permissions, defaults }
    }
}

/// Fails on names that cannot be.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(ErrorKind::InvalidName.into());
    }
    if name.len() > NAME_MAX {
        return Err(ErrorKind::NameTooLong.into());
    }
    Ok(())
}

pub(crate) fn check_new_name(name: &[u8]) -> Result<()> {
    // The root's own name is empty.
    if matches!(name, b"" | b"." | b"..") {
        return Err(ErrorKind::Exists.into());
    }
    check_name(name)
}

/// Fails on names that stay: those of a directory itself, of the one above, and of the root, which
/// is empty here.
fn check_removable_name(name: &[u8], kind: InodeKind) -> Result<()> {
    match (name, kind) {
        (b"" | b"." | b"..", InodeKind::Other) => Err(ErrorKind::IsDirectory.into()),
        (b"", _) => Err(ErrorKind::Busy.into()),
        (b".", _) => Err(ErrorKind::InvalidArgument("\".\" cannot be removed").into()),
        (b"..", _) => Err(ErrorKind::NotEmpty.into()),
        _ => check_name(name),
    }
}

/// One link more for a subdirectory; a hashed directory beyond the limit says 1, if the volume has
/// dir_nlink.
pub(crate) fn add_subdirectory(volume: &Volume, parent: &mut NodeState) {
    if parent.inode.links == 1 {
        return;
    }
    parent.inode.links = parent.inode.links.saturating_add(1);
    let many = parent.inode.links > LINKS_MAX && volume.superblock.has(Feature::DIR_NLINK);
    if many && parent.inode.flags & flags::INDEX != 0 {
        parent.inode.links = 1;
    }
}

pub(crate) fn check_subdirectories(volume: &Volume, parent: &NodeState) -> Result<()> {
    let unlimited =
        volume.superblock.has(Feature::DIR_NLINK) && parent.inode.flags & flags::INDEX != 0;
    if parent.inode.links >= LINKS_MAX && !unlimited {
        return Err(ErrorKind::TooManyLinks.into());
    }
    Ok(())
}

pub(crate) fn drop_subdirectory(parent: &mut NodeState) {
    if parent.inode.links > 2 {
        parent.inode.links -= 1;
    }
}

pub(crate) fn touch(volume: &Volume, directory: &mut NodeState) {
    let now = volume.now();
    directory.inode.modify_time = now;
    directory.inode.change_time = now;
    directory.inode.version = directory.inode.version.wrapping_add(1);
}

impl Core {
    /// The node that a path leads to. Paths begin at the root, with or without a slash.
    pub(crate) fn resolve(&self, path: &[u8], follow: Follow) -> Result<Arc<Node>> {
        let mut parts: Vec<Vec<u8>> = split(path).rev().map(<[u8]>::to_vec).collect();
        let mut node = self.nodes.get(&self.volume, Ino::ROOT)?;
        let mut symlinks = 0;
        while let Some(part) = parts.pop() {
            let next = self.lookup(&node, &part, None)?.ok_or(ErrorKind::NotFound)?;
            let is_last = parts.is_empty() && !path.ends_with(b"/");
            let is_symlink = next.state.read().file_type()? == FileType::Symlink;
            if !is_symlink || (is_last && follow == Follow::NotLast) {
                node = next;
                continue;
            }
            symlinks += 1;
            if symlinks > SYMLINKS_MAX {
                return Err(ErrorKind::SymlinkLoop.into());
            }
            let target = self.read_link(&next)?;
            if target.first() == Some(&b'/') {
                node = self.nodes.get(&self.volume, Ino::ROOT)?;
            }
            parts.extend(split(&target).rev().map(<[u8]>::to_vec));
        }
        if path.ends_with(b"/") {
            node.state.read().check_directory()?;
        }
        Ok(node)
    }

    /// The directory that holds the last name of a path, and that name.
    pub(crate) fn resolve_parent<'p>(&self, path: &'p [u8]) -> Result<(Arc<Node>, &'p [u8])> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let path = &path[..end];
        let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let parent = self.resolve(&path[..cut], Follow::Last)?;
        parent.state.read().check_directory()?;
        Ok((parent, &path[cut..]))
    }

    /// Finds one name in a directory, and brings what it leads to into memory while the name
    /// stands: afterwards the number may belong to another inode.
    pub(crate) fn lookup(
        &self,
        directory: &Node,
        name: &[u8],
        caller: Option<&Caller>,
    ) -> Result<Option<Arc<Node>>> {
        let state = directory.state.read();
        state.check_directory()?;
        check_search(&self.volume, &state, caller)?;
        if name.len() > NAME_MAX {
            return Err(ErrorKind::NameTooLong.into());
        }
        let found = directory::lookup(&self.volume, &state, name)?;
        found.map(|found| self.nodes.get(&self.volume, found.ino)).transpose()
    }

    /// A symlink's target.
    pub(crate) fn read_link(&self, node: &Node) -> Result<Vec<u8>> {
        let state = node.state.read();
        state.check_alive()?;
        if state.file_type()? != FileType::Symlink {
            return Err(ErrorKind::InvalidArgument("not a symbolic link").into());
        }
        let size = state.inode.size;
        if state.inode.is_fast_symlink(&self.volume.superblock) {
            return Ok(state.inode.block.get(..size as usize).unwrap_or_default().to_vec());
        }
        long_target(&self.volume, &state)
    }

    /// Makes an inode and its name. Without a caller no permission is checked.
    pub(crate) fn make(
        &self,
        parent: &Node,
        name: &[u8],
        new: &NewInode<'_>,
        caller: Option<&Caller>,
    ) -> Result<Arc<Node>> {
        check_new_name(name)?;
        self.volume.check_writable()?;
        let mut parent = parent.state.write();
        parent.check_directory()?;
        check_search(&self.volume, &parent, caller)?;
        if directory::lookup(&self.volume, &parent, name)?.is_some() {
            return Err(ErrorKind::Exists.into());
        }
        self.make_in(&mut parent, name, new, caller)
    }

    /// Makes an inode and its name in a directory that is held and was seen not to have the name.
    pub(crate) fn make_in(
        &self,
        parent: &mut NodeState,
        name: &[u8],
        new: &NewInode<'_>,
        caller: Option<&Caller>,
    ) -> Result<Arc<Node>> {
        let volume = &self.volume;
        check_may_add(volume, parent, caller)?;
        check_may_make(new.file_type, caller)?;
        if new.file_type == FileType::Directory {
            check_subdirectories(volume, parent)?;
        }
        let beginning = Beginning::of(volume, parent, new.wish(), caller)?;
        let new = &NewInode { permissions: beginning.permissions(), ..*new };
        let own_blocks = own_blocks(volume, new)? + beginning.blocks();
        let need = directory::insert_need(volume, parent, name)? + own_blocks;
        let mut reservation = volume.groups.reserve(volume, need)?;
        let handle = Handle::begin(volume, 16)?;
        let mut state = self.new_inode(&handle, &mut reservation, parent, name, new)?;
        beginning.apply(&handle, &mut reservation, &mut state)?;
        state.inode.links = if new.file_type == FileType::Directory { 2 } else { 1 };
        // Before the name: a sweep that takes the name finds the inode that it leads to.
        state.store(&handle)?;
        directory::insert(&handle, &mut reservation, parent, name, state.ino, new.file_type)?;
        if new.file_type == FileType::Directory {
            add_subdirectory(volume, parent);
        }
        touch(volume, parent);
        parent.store(&handle)?;
        Ok(self.nodes.insert(volume, state.ino, state.inode))
    }

    /// Allocates and fills a new inode, without links; directories get their first block, long
    /// symlinks their target.
    pub(crate) fn new_inode(
        &self,
        handle: &Handle<'_>,
        reservation: &mut Reservation<'_>,
        parent: &NodeState,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<NodeState> {
        let volume = &self.volume;
        let (group, kind) = self.place(parent, name, new.file_type)?;
        let ino = volume.groups.allocate_inode(handle, group, 0, kind)?;
        let generation = volume.next_generation(ino)?;
        let mut state =
            NodeState::new(volume, ino, fresh_inode(volume, generation, &parent.inode, new));
        state.seed = volume.inode_seed(ino, generation);
        match new.file_type {
            FileType::Directory => {
                mapping::initialize(&mut state);
                directory::create(handle, reservation, &mut state, parent.ino)?;
            }
            FileType::Symlink => store_target(handle, reservation, &mut state, new.target)?,
            FileType::Regular => mapping::initialize(&mut state),
            FileType::CharacterDevice | FileType::BlockDevice => state.inode.set_device(new.device),
            FileType::Fifo | FileType::Socket => {}
        }
        Ok(state)
    }

    /// Asks the policy for a group.
    fn place(
        &self,
        parent: &NodeState,
        name: &[u8],
        file_type: FileType,
    ) -> Result<(GroupNo, InodeKind)> {
        let volume = &self.volume;
        let superblock = &volume.superblock;
        let totals = volume.groups.totals();
        let groups = |group| volume.groups.facts(group);
        let facts = PlacementFacts {
            groups: &groups,
            group_count: volume.groups.len(),
            inodes_per_group: superblock.inodes_per_group,
            blocks_per_group: superblock.blocks_per_group,
            block_size: superblock.block_size(),
            groups_per_flex: 1u32.checked_shl(superblock.log_groups_per_flex.into()).unwrap_or(1),
            free_blocks: totals.free_blocks,
            free_inodes: totals.free_inodes.into(),
            directories: totals.directories.into(),
            blocks: superblock.blocks_count,
            parent: superblock.group_of_inode(parent.ino).map_or(GroupNo(0), |(group, _)| group),
            parent_is_top: parent.ino == Ino::ROOT
                || parent.inode.flags & flags::TOP_DIRECTORY != 0,
            name_hash: volume.hasher.hash(name).major,
        };
        let (group, kind) = match file_type {
            FileType::Directory => (volume.placement.directory(&facts), InodeKind::Directory),
            _ => (volume.placement.inode(&facts), InodeKind::Other),
        };
        Ok((group.ok_or(ErrorKind::NoInodes)?, kind))
    }

    /// One more name for an inode that is no directory; the first one for what was made without.
    pub(crate) fn link(
        &self,
        node: &Node,
        parent: &Node,
        name: &[u8],
        caller: Option<&Caller>,
    ) -> Result<()> {
        check_new_name(name)?;
        let volume = &self.volume;
        volume.check_writable()?;
        // A type never changes. A directory is not locked behind another one that may lie below it.
        let file_type = node.state.read().file_type()?;
        let mut parent = parent.state.write();
        parent.check_directory()?;
        check_search(volume, &parent, caller)?;
        if directory::lookup(volume, &parent, name)?.is_some() {
            return Err(ErrorKind::Exists.into());
        }
        check_may_add(volume, &parent, caller)?;
        if file_type == FileType::Directory {
            return Err(ErrorKind::NotPermitted("a directory cannot have a second name").into());
        }
        let mut state = node.state.write();
        if state.gone || state.inode.links == 0 && !state.may_be_named {
            return Err(ErrorKind::NotFound.into());
        }
        check_not_locked(&state)?;
        if state.inode.links >= LINKS_MAX {
            return Err(ErrorKind::TooManyLinks.into());
        }
        let mut reservation =
            volume.groups.reserve(volume, directory::insert_need(volume, &parent, name)?)?;
        let handle = Handle::begin(volume, 16)?;
        if state.inode.links == 0 {
            // No longer an orphan: on the disk that field leads to the next one.
            self.orphans.lock().remove(&state.ino);
            state.inode.deletion_time = 0;
            state.may_be_named = false;
        }
        state.inode.links += 1;
        state.inode.change_time = volume.now();
        // Before the name, as for a new inode.
        state.store(&handle)?;
        directory::insert(&handle, &mut reservation, &mut parent, name, state.ino, file_type)?;
        touch(volume, &mut parent);
        parent.store(&handle)
    }

    /// Removes a name of anything but a directory.
    pub(crate) fn unlink(&self, parent: &Node, name: &[u8], caller: Option<&Caller>) -> Result<()> {
        self.remove_name(parent, name, InodeKind::Other, caller)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(
        &self,
        parent: &Node,
        name: &[u8],
        caller: Option<&Caller>,
    ) -> Result<()> {
        self.remove_name(parent, name, InodeKind::Directory, caller)
    }

    fn remove_name(
        &self,
        parent: &Node,
        name: &[u8],
        kind: InodeKind,
        caller: Option<&Caller>,
    ) -> Result<()> {
        check_removable_name(name, kind)?;
        let volume = &self.volume;
        volume.check_writable()?;
        let mut parent = parent.state.write();
        parent.check_directory()?;
        check_search(volume, &parent, caller)?;
        let found = directory::lookup(volume, &parent, name)?.ok_or(ErrorKind::NotFound)?;
        if found.ino == parent.ino {
            return Err(leads_to_itself(parent.ino));
        }
        let node = self.nodes.get(volume, found.ino)?;
        let mut child = node.state.write();
        check_may_unlink(volume, &parent, &child, caller)?;
        let is_directory = child.file_type()? == FileType::Directory;
        match kind {
            InodeKind::Other if is_directory => return Err(ErrorKind::IsDirectory.into()),
            InodeKind::Directory if !is_directory => return Err(ErrorKind::NotDirectory.into()),
            InodeKind::Directory if !directory::is_empty(volume, &child)? => {
                return Err(ErrorKind::NotEmpty.into());
            }
            _ => {}
        }
        let handle = Handle::begin(volume, 16)?;
        directory::remove(&handle, &mut parent, name, Departure::Removed)?;
        if is_directory {
            drop_subdirectory(&mut parent);
        }
        touch(volume, &mut parent);
        parent.store(&handle)?;
        self.drop_link(&handle, &node, &mut child)
    }

    /// An inode lost a name: counts it, and frees the inode, or keeps it as an orphan while it is
    /// open.
    pub(crate) fn drop_link(
        &self,
        handle: &Handle<'_>,
        node: &Arc<Node>,
        state: &mut NodeState,
    ) -> Result<()> {
        let is_directory = state.file_type()? == FileType::Directory;
        state.inode.links = if is_directory { 0 } else { state.inode.links.saturating_sub(1) };
        state.inode.change_time = self.volume.now();
        if state.inode.links > 0 {
            return state.store(handle);
        }
        if node.opens.load(Ordering::Acquire) > 0 {
            state.store(handle)?;
            self.orphans.lock().insert(node.ino, Arc::clone(node));
            return Ok(());
        }
        self.free_locked(node, state)
    }

    /// An inode lost a name to another inode. Where data comes first, one that has no name any more
    /// stays as it is on the disk until the directory there leads to the other one: after a power
    /// cut the name has the old content or the new.
    pub(crate) fn drop_replaced(
        &self,
        handle: &Handle<'_>,
        node: &Arc<Node>,
        state: &mut NodeState,
    ) -> Result<()> {
        let is_last = state.inode.links <= 1 || state.file_type()? == FileType::Directory;
        if !is_last || !self.volume.writes_data_first() {
            return self.drop_link(handle, node, state);
        }
        state.kept_links = Some(state.inode.links);
        state.inode.links = 0;
        state.inode.change_time = self.volume.now();
        state.store(handle)?;
        self.replaced.lock().push(Arc::clone(node));
        Ok(())
    }
}

/// A name, other than ".", that leads to the directory it stands in.
pub(crate) fn leads_to_itself(directory: Ino) -> Error {
    Error::field(
        Place::Inode(directory),
        "directory entry",
        "inode",
        directory.0.into(),
        "the directory itself",
    )
}

/// The parts of a path: no empty ones, no ".".
fn split(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// Blocks that a new inode needs at once.
pub(crate) fn own_blocks(volume: &Volume, new: &NewInode<'_>) -> Result<u64> {
    match new.file_type {
        FileType::Directory => Ok(1),
        FileType::Symlink if new.target.is_empty() => Err(ErrorKind::NotFound.into()),
        FileType::Symlink if new.target.contains(&0) => {
            Err(ErrorKind::InvalidArgument("a NUL in a target").into())
        }
        FileType::Symlink if new.target.len() >= volume.block_size() as usize => {
            Err(ErrorKind::NameTooLong.into())
        }
        FileType::Symlink if new.target.len() >= FAST_SYMLINK_MAX => Ok(1),
        _ => Ok(0),
    }
}

/// Targets shorter than this are kept in the inode.
pub(crate) const FAST_SYMLINK_MAX: usize = 60;

fn fresh_inode(volume: &Volume, generation: u32, parent: &Inode, new: &NewInode<'_>) -> Inode {
    let mut inode =
        Inode::new(new.file_type.mode_bits() | (new.permissions & 0o7777), &volume.superblock);
    inode.uid = new.uid;
    inode.gid = new.gid;
    inode.flags |= permission::inherited_flags(parent.flags, new.file_type);
    let inherits_group = parent.mode & 0o2000 != 0;
    if inherits_group {
        inode.gid = parent.gid;
        if new.file_type == FileType::Directory {
            inode.mode |= 0o2000;
        }
    }
    let now = volume.now();
    inode.access_time = now;
    inode.change_time = now;
    inode.modify_time = now;
    if inode.create_time.is_some() {
        inode.create_time = Some(now);
    }
    inode.generation = generation;
    let maps = matches!(new.file_type, FileType::Regular | FileType::Directory)
        || new.file_type == FileType::Symlink && new.target.len() >= FAST_SYMLINK_MAX;
    if maps && volume.superblock.has(Feature::EXTENTS) {
        inode.flags |= flags::EXTENTS;
    }
    inode
}

/// The target of a symlink that is kept in a block: at most a block's bytes, whatever the inode's
/// size says.
///
/// # Errors
/// `Corrupt` when the symlink has no block, or one that serves another purpose; what the device
/// answers.
pub(crate) fn long_target(volume: &Volume, state: &NodeState) -> Result<Vec<u8>> {
    let block = match mapping::find(volume, state, FileBlock(0), 1)? {
        Piece::Run(run, State::Written) => run.start,
        Piece::Run(_, State::Unwritten) | Piece::Hole(_) => {
            let (place, size) = (Place::Inode(state.ino), state.inode.size);
            return Err(Error::field(
                place,
                "symlink",
                "size",
                size,
                "has no block with its target",
            ));
        }
    };
    let bytes = volume.cache.read(block, Kind::Plain)?.bytes();
    let length = usize::try_from(state.inode.size).unwrap_or(usize::MAX);
    Ok(bytes.get(..length).unwrap_or(&bytes).to_vec())
}

/// Keeps a symlink's target: in the inode, or in a block. The block is metadata like a directory's:
/// it is read and written through the cache, with the inode that leads to it.
pub(crate) fn store_target(
    handle: &Handle<'_>,
    reservation: &mut Reservation<'_>,
    state: &mut NodeState,
    target: &[u8],
) -> Result<()> {
    state.inode.size = target.len() as u64;
    if target.len() < FAST_SYMLINK_MAX {
        state.inode.block = [0; 60];
        state.inode.block[..target.len()].copy_from_slice(target);
        return Ok(());
    }
    mapping::initialize(state);
    let run = mapping::allocate(
        handle,
        reservation,
        state,
        FileBlock(0),
        1,
        Purpose::Data,
        State::Written,
    )?;
    handle.create(run.start, Kind::Plain, |bytes| {
        if let Some(start) = bytes.get_mut(..target.len()) {
            start.copy_from_slice(target);
        }
    });
    Ok(())
}
