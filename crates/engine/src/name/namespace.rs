//! Names: resolve, create, link, unlink.
//!
//! *Invariants*: an inode's link count is the number of its names, plus for a directory its "." and
//! the ".." of each subdirectory (until dir_nlink makes it 1). Whether a change of names is
//! possible is decided, and room for it promised, before the first byte changes.
//! *Locking*: parent before child; of two parents the ancestor first; two children by rising
//! number.
use crate::error::{Error, ErrorKind, Place, Result};
use crate::inode::access::{check_may_add, check_may_make, check_may_unlink, check_search};
use crate::inode::attribute;
use crate::inode::caller::{Caller, room_of};
use crate::inode::credits;
use crate::inode::inodes::Inodes;
use crate::inode::mapping::{self, Piece};
use crate::inode::node::{Node, NodeState};
use crate::inode::operation::Operation;
use crate::inode::permission::{self, check_not_locked};
use crate::inode::table::{self, next_generation};
use crate::inode::unfinished::{add_orphan, hold_neighbour, remove_orphan};
use crate::inode::volume::Volume;
use crate::name::beginning::{Beginning, Defaults, Wish};
use crate::name::directory::{self, Departure, NewEntry, Sought, Vacancy};
use crate::policy::allocation::Purpose;
use crate::policy::placement::PlacementFacts;
use crate::space::{InodeKind, Reservation};
use crate::store::cache::BlockKind;
use extant_format::directory::NAME_MAX;
use extant_format::extent::State;
use extant_format::inode::{Device, FileType, Inode, LINKS_MAX, flags, mode};
use extant_format::superblock::Feature;
use extant_format::{FileBlock, GroupNo, Ino};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Blocks of metadata that making an inode and its name changes.
const MAKE: u32 = credits::NEW_INODE + credits::ATTRIBUTES + credits::NAME + 2 * credits::INODE;
/// Blocks of metadata that giving an inode a name changes: it may have been an orphan.
const LINK: u32 = credits::NAME + 2 * credits::INODE + credits::ORPHAN;
/// Blocks of metadata that removing a name changes: the block with the name, both inodes, and what
/// the first step of freeing the inode stores.
const UNLINK: u32 = 1 + 2 * credits::INODE + credits::ORPHAN;
/// Symlinks followed at most on the path to a name.
const SYMLINKS_MAX: u32 = 40;

/// Whether a symlink at the end of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// It is, as all on the way are.
    Last,
    /// The symlink itself is meant, unless a slash comes after it.
    NotLast,
}

/// What a new inode should be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewInode<'a> {
    pub(crate) file_type: FileType,
    /// The low twelve bits of the mode.
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Numbers of a device; used for devices only.
    pub(crate) device: Device,
    /// Target of a symlink; used for symlinks only.
    pub(crate) target: &'a [u8],
    /// Whether umask and default access list count.
    pub(crate) defaults: Defaults,
}

impl NewInode<'_> {
    /// What its permissions and access lists depend on.
    pub(crate) fn wish(&self) -> Wish {
        let NewInode { file_type, permissions, defaults, .. } = *self;
        Wish { file_type, permissions, defaults }
    }
}

/// Fails on names that are not valid.
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
    // The name of the root is empty.
    if matches!(name, b"" | b"." | b"..") {
        return Err(ErrorKind::Exists.into());
    }
    check_name(name)
}

/// Fails on names that must not be removed: "." and "..", and the root's, which is empty here.
fn check_removable_name(name: &[u8], kind: InodeKind) -> Result<()> {
    match (name, kind) {
        (b"" | b"." | b"..", InodeKind::Other) => Err(ErrorKind::IsDirectory.into()),
        (b"", _) => Err(ErrorKind::Busy.into()),
        (b".", _) => Err(ErrorKind::InvalidArgument("\".\" cannot be removed").into()),
        (b"..", _) => Err(ErrorKind::NotEmpty.into()),
        _ => check_name(name),
    }
}

/// Counts a subdirectory in the links of a directory. Beyond the limit a hashed directory has 1, if
/// the volume has dir_nlink.
pub(crate) fn add_subdirectory(volume: &Volume, parent: &mut NodeState) {
    if parent.inode.links == 1 {
        return;
    }
    parent.inode.links = parent.inode.links.saturating_add(1);
    let many = parent.inode.links > LINKS_MAX && volume.store.superblock.has(Feature::DIR_NLINK);
    if many && parent.inode.flags & flags::INDEX != 0 {
        parent.inode.links = 1;
    }
}

pub(crate) fn check_subdirectories(volume: &Volume, parent: &NodeState) -> Result<()> {
    let unlimited =
        volume.store.superblock.has(Feature::DIR_NLINK) && parent.inode.flags & flags::INDEX != 0;
    if parent.inode.links >= LINKS_MAX && !unlimited {
        return Err(ErrorKind::TooManyLinks.into());
    }
    Ok(())
}

/// Fails for an inode that may have no further name.
fn check_may_be_linked(state: &NodeState) -> Result<()> {
    if state.gone || state.inode.links == 0 && !state.may_be_named {
        return Err(ErrorKind::NotFound.into());
    }
    check_not_locked(state)?;
    if state.inode.links >= LINKS_MAX {
        return Err(ErrorKind::TooManyLinks.into());
    }
    Ok(())
}

/// Takes a subdirectory, which lost its name or moved, out of the links of a directory.
pub(crate) fn drop_subdirectory(volume: &Volume, parent: &mut NodeState) {
    if parent.inode.links > 2 {
        volume.store.cache.note_removal(parent.ino);
        parent.inode.links -= 1;
    }
}

pub(crate) fn touch(volume: &Volume, directory: &mut NodeState) {
    let now = volume.store.now();
    directory.inode.modify_time = now;
    directory.inode.change_time = now;
    directory.inode.version = directory.inode.version.wrapping_add(1);
}

impl Inodes {
    /// The node that a path leads to. Paths start at the root, with or without a slash.
    pub(crate) fn resolve(&self, path: &[u8], follow: Follow) -> Result<Arc<Node>> {
        self.resolve_from(self.nodes.get(&self.volume, Ino::ROOT)?, path, follow)
    }

    /// The node that a path leads to, which starts at a directory; at the root after a symlink to
    /// an absolute path.
    pub(crate) fn resolve_from(
        &self,
        from: Arc<Node>,
        path: &[u8],
        follow: Follow,
    ) -> Result<Arc<Node>> {
        // What is left of the path. After a symlink, its target comes first.
        let mut left = Cow::Borrowed(path);
        let mut node = from;
        let mut symlinks = 0;
        let mut at = 0;
        while let Some(part) = next_part(&left, at) {
            let name = left.get(part.clone()).unwrap_or_default();
            let next = self.lookup(&node, name, None)?.ok_or(ErrorKind::NotFound)?;
            at = part.end;
            let is_symlink = next.file_type()? == FileType::Symlink;
            let is_last = || next_part(&left, at).is_none() && !path.ends_with(b"/");
            if !is_symlink || follow == Follow::NotLast && is_last() {
                node = next;
                continue;
            }
            symlinks += 1;
            if symlinks > SYMLINKS_MAX {
                return Err(ErrorKind::SymlinkLoop.into());
            }
            let mut target = self.read_link(&next)?;
            if target.first() == Some(&b'/') {
                node = self.nodes.get(&self.volume, Ino::ROOT)?;
            }
            target.push(b'/');
            target.extend_from_slice(left.get(at..).unwrap_or_default());
            (left, at) = (Cow::Owned(target), 0);
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

    /// Finds a name in a directory, and loads its inode before the directory is unlocked:
    /// afterwards the number may belong to another inode.
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

    /// The target of a symlink.
    pub(crate) fn read_link(&self, node: &Node) -> Result<Vec<u8>> {
        let state = node.state.read();
        state.check_alive()?;
        if state.file_type()? != FileType::Symlink {
            return Err(ErrorKind::InvalidArgument("not a symbolic link").into());
        }
        state.check_not_encrypted(&self.volume)?;
        if let Some(target) = state.inline_data(&self.volume)? {
            return Ok(target);
        }
        let size = state.inode.size;
        if state.inode.is_fast_symlink(&self.volume.store.superblock) {
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
        self.volume.store.check_writable()?;
        let mut parent = parent.state.write();
        parent.check_directory()?;
        check_search(&self.volume, &parent, caller)?;
        match directory::seek(&self.volume, &parent, name)? {
            Sought::There(_) => Err(ErrorKind::Exists.into()),
            Sought::Vacant(vacancy) => self.make_in(&mut parent, (name, &vacancy), new, caller),
        }
    }

    /// Makes an inode and its name in a locked directory that does not have the name.
    pub(crate) fn make_in(
        &self,
        parent: &mut NodeState,
        (name, vacancy): (&[u8], &Vacancy),
        new: &NewInode<'_>,
        caller: Option<&Caller>,
    ) -> Result<Arc<Node>> {
        let volume = &self.volume;
        check_may_add(volume, parent, caller)?;
        permission::check_names(volume, parent)?;
        check_may_make(new.file_type, caller)?;
        if new.file_type == FileType::Directory {
            check_subdirectories(volume, parent)?;
        }
        let beginning = Beginning::of(volume, parent, new.wish(), caller)?;
        let new = &NewInode { permissions: beginning.permissions(), ..*new };
        let own_blocks = own_blocks(volume, new)? + beginning.blocks();
        directory::move_out(volume, parent, room_of(caller))?;
        let need = directory::insert_need_at(volume, parent, name, vacancy)? + own_blocks;
        let mut reservation = volume.space.reserve_within(need, room_of(caller))?;
        volume.space.check_may_allocate(group_of(volume, parent.ino), need)?;
        let _table = table::hold(volume, parent.ino)?;
        volume.change(MAKE, |operation| {
            let mut state = self.new_inode(operation, &mut reservation, parent, name, new)?;
            beginning.apply(operation, &mut reservation, &mut state)?;
            state.inode.links = if new.file_type == FileType::Directory { 2 } else { 1 };
            // Before the name: a sweep that contains the name contains the inode too.
            state.store(operation)?;
            let entry = NewEntry { name, ino: state.ino, file_type: new.file_type };
            directory::insert_at(operation, &mut reservation, parent, &entry, vacancy)?;
            if new.file_type == FileType::Directory {
                add_subdirectory(volume, parent);
            }
            touch(volume, parent);
            parent.store(operation)?;
            Ok(self.nodes.insert(volume, state.ino, state.inode))
        })
    }

    /// Allocates a new inode without links and fills it: a directory gets its first block, a long
    /// symlink its target.
    pub(crate) fn new_inode(
        &self,
        operation: &Operation<'_>,
        reservation: &mut Reservation<'_>,
        parent: &NodeState,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<NodeState> {
        let volume = &self.volume;
        let inode = fresh_inode(volume, 0, &parent.inode, new);
        operation.prepare_quotas([inode.uid, inode.gid, inode.project])?;
        let (group, kind) = self.place(parent, name, new.file_type)?;
        let was_whole = operation.is_whole();
        let ino = volume.space.allocate_inode(operation, group, 0, kind)?;
        if let Err(error) = table::hold(volume, ino) {
            // Its place in the table cannot be read: the number is given back.
            volume.space.free_inode(operation, ino, kind)?;
            if was_whole {
                operation.note_whole();
            }
            return Err(error);
        }
        let generation = next_generation(volume, ino)?;
        let mut state = NodeState::fresh(volume, ino, Inode { generation, ..inode });
        state.seed = volume.store.inode_seed(ino, generation);
        match new.file_type {
            FileType::Directory => {
                mapping::initialize(&mut state);
                directory::create(operation, reservation, &mut state, parent.ino)?;
            }
            FileType::Symlink => store_target(operation, reservation, &mut state, new.target)?,
            FileType::Regular => mapping::initialize(&mut state),
            FileType::CharacterDevice | FileType::BlockDevice => state.inode.set_device(new.device),
            FileType::Fifo | FileType::Socket => {}
        }
        Ok(state)
    }

    /// Asks the policy in which group a new inode belongs. Returns the group, and what the group
    /// has to count the inode as.
    fn place(
        &self,
        parent: &NodeState,
        name: &[u8],
        file_type: FileType,
    ) -> Result<(GroupNo, InodeKind)> {
        let volume = &self.volume;
        let superblock = &volume.store.superblock;
        let totals = volume.space.totals();
        let groups = |group| volume.space.facts(group);
        let facts = PlacementFacts {
            groups: &groups,
            group_count: volume.space.group_count(),
            inodes_per_group: superblock.inodes_per_group,
            blocks_per_group: superblock.blocks_per_group,
            block_size: superblock.block_size(),
            groups_per_flex: 1u32.checked_shl(superblock.log_groups_per_flex.into()).unwrap_or(1),
            free_blocks: totals.free_blocks,
            free_inodes: totals.free_inodes.into(),
            directories: totals.directories.into(),
            blocks: superblock.blocks_count,
            parent: group_of(volume, parent.ino),
            parent_inode: parent.ino,
            parent_is_top: parent.ino == Ino::ROOT
                || parent.inode.flags & flags::TOP_DIRECTORY != 0,
            name_hash: volume.store.hasher.hash(name).major,
        };
        let (group, kind) = match file_type {
            FileType::Directory => {
                (volume.store.policies.placement.directory(&facts), InodeKind::Directory)
            }
            _ => (volume.store.policies.placement.inode(&facts), InodeKind::Other),
        };
        Ok((group.ok_or(ErrorKind::NoInodes)?, kind))
    }

    /// Adds a name for an inode that is not a directory: one more, or the first one of an inode
    /// that was made without.
    pub(crate) fn link(
        &self,
        node: &Node,
        parent: &Node,
        name: &[u8],
        caller: Option<&Caller>,
    ) -> Result<()> {
        check_new_name(name)?;
        let volume = &self.volume;
        volume.store.check_writable()?;
        // The type of an inode never changes. This keeps from locking a directory that may be below
        // the other one.
        let file_type = node.state.read().file_type()?;
        let mut parent = parent.state.write();
        parent.check_directory()?;
        check_search(volume, &parent, caller)?;
        if directory::lookup(volume, &parent, name)?.is_some() {
            return Err(ErrorKind::Exists.into());
        }
        check_may_add(volume, &parent, caller)?;
        permission::check_names(volume, &parent)?;
        if file_type == FileType::Directory {
            return Err(ErrorKind::NotPermitted("a directory cannot have a second name").into());
        }
        let mut state = node.state.write();
        check_may_be_linked(&state)?;
        permission::check_project(volume, &parent, &state)?;
        directory::move_out(volume, &mut parent, room_of(caller))?;
        let need = directory::insert_need(volume, &parent, name)?;
        let mut reservation = volume.space.reserve_within(need, room_of(caller))?;
        volume.space.check_may_allocate(group_of(volume, parent.ino), need)?;
        let _tables = (table::hold(volume, parent.ino)?, table::hold(volume, state.ino)?);
        let _neighbour = hold_neighbour(volume, state.ino)?;
        let was_nameless = state.inode.links == 0;
        let before = state.inode.change_time;
        let linked = volume.change(LINK, |operation| {
            if state.inode.links == 0 {
                remove_orphan(operation, &state)?;
            }
            state.inode.links += 1;
            state.inode.change_time = volume.store.now();
            // Before the name, as for a new inode.
            state.store(operation)?;
            directory::insert(
                operation,
                &mut reservation,
                &mut parent,
                name,
                state.ino,
                file_type,
            )?;
            touch(volume, &mut parent);
            parent.store(operation)
        });
        match linked {
            Ok(()) if was_nameless => {
                self.nameless.lock().remove(&state.ino);
                state.may_be_named = false;
            }
            Ok(()) => {}
            Err(_) => {
                state.inode.change_time = before;
                // The error is that of the link, whether this can be stored or not.
                let _ = self.take_link_back(&mut state);
            }
        }
        linked
    }

    /// Takes back the link that an inode was given for a name that could not be made.
    fn take_link_back(&self, state: &mut NodeState) -> Result<()> {
        state.inode.links -= 1;
        self.volume.change(credits::INODE, |operation| {
            if state.inode.links == 0 {
                add_orphan(operation, state);
            }
            state.store(operation)
        })
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
        volume.store.check_writable()?;
        let mut parent = parent.state.write();
        parent.check_directory()?;
        check_search(volume, &parent, caller)?;
        let found = directory::find(volume, &parent, name)?.ok_or(ErrorKind::NotFound)?;
        if found.target.ino == parent.ino {
            return Err(leads_to_itself(parent.ino));
        }
        let node = self.nodes.get(volume, found.target.ino)?;
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
        if is_directory || child.inode.links <= 1 {
            attribute::check_to_release(volume, &child)?;
        }
        let _tables = (table::hold(volume, parent.ino)?, table::hold(volume, child.ino)?);
        volume.change(UNLINK, |operation| {
            directory::remove_found(operation, &mut parent, name, &found, Departure::Removed)?;
            if is_directory {
                drop_subdirectory(volume, &mut parent);
            }
            touch(volume, &mut parent);
            parent.store(operation)?;
            self.drop_link(operation, &node, &mut child)
        })
    }
}

/// The group of an inode.
pub(crate) fn group_of(volume: &Volume, ino: Ino) -> GroupNo {
    volume.store.superblock.group_of_inode(ino).map_or(GroupNo(0), |(group, _)| group)
}

/// The error for a name other than "." that leads to the directory containing it.
pub(crate) fn leads_to_itself(directory: Ino) -> Error {
    Error::field(
        Place::Inode(directory),
        "directory entry",
        "inode",
        directory.0.into(),
        "the directory itself",
    )
}

/// Where the next part of a path is, at or after a byte of it: parts that are empty, or ".", are
/// left out.
fn next_part(path: &[u8], from: usize) -> Option<Range<usize>> {
    let mut start = from;
    while start < path.len() {
        let rest = path.get(start..)?;
        let length = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        if length > 0 && rest.get(..length) != Some(b".") {
            return Some(start..start + length);
        }
        start += length + 1;
    }
    None
}

/// Blocks that a new inode needs from the start.
pub(crate) fn own_blocks(volume: &Volume, new: &NewInode<'_>) -> Result<u64> {
    match new.file_type {
        FileType::Directory => Ok(1),
        FileType::Symlink if new.target.is_empty() => Err(ErrorKind::NotFound.into()),
        FileType::Symlink if new.target.contains(&0) => {
            Err(ErrorKind::InvalidArgument("a NUL in a target").into())
        }
        FileType::Symlink if new.target.len() >= volume.store.block_size() as usize => {
            Err(ErrorKind::NameTooLong.into())
        }
        FileType::Symlink if new.target.len() >= FAST_SYMLINK_MAX => Ok(1),
        _ => Ok(0),
    }
}

/// Targets shorter than this are kept in the inode, in bytes.
pub(crate) const FAST_SYMLINK_MAX: usize = 60;

fn fresh_inode(volume: &Volume, generation: u32, parent: &Inode, new: &NewInode<'_>) -> Inode {
    let mut inode = Inode::new(
        new.file_type.mode_bits() | (new.permissions & 0o7777),
        &volume.store.superblock,
    );
    inode.uid = new.uid;
    inode.gid = new.gid;
    inode.flags |= permission::inherited_flags(parent.flags, new.file_type);
    inode.project = permission::inherited_project(volume, parent);
    let inherits_group = parent.mode & mode::SET_GROUP_ID != 0;
    if inherits_group {
        inode.gid = parent.gid;
        if new.file_type == FileType::Directory {
            inode.mode |= mode::SET_GROUP_ID;
        }
    }
    let now = volume.store.now();
    inode.access_time = now;
    inode.change_time = now;
    inode.modify_time = now;
    if inode.create_time.is_some() {
        inode.create_time = Some(now);
    }
    inode.generation = generation;
    let maps = matches!(new.file_type, FileType::Regular | FileType::Directory)
        || new.file_type == FileType::Symlink && new.target.len() >= FAST_SYMLINK_MAX;
    if maps && volume.store.superblock.has(Feature::EXTENTS) {
        inode.flags |= flags::EXTENTS;
    }
    inode
}

/// The target of a symlink that is kept in a block, at most one block's bytes, whatever the size in
/// the inode.
///
/// # Errors
/// `Corrupt` if the symlink has no block, or one in use for another purpose; what the device
/// returns.
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
    let bytes = volume.store.cache.read(block, BlockKind::Plain)?.bytes();
    let length = usize::try_from(state.inode.size).unwrap_or(usize::MAX);
    Ok(bytes.get(..length).unwrap_or(&bytes).to_vec())
}

/// Stores a symlink's target in the inode or in a block. Like a directory's, that block is
/// metadata: it is read and written through the cache.
pub(crate) fn store_target(
    operation: &Operation<'_>,
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
        operation,
        reservation,
        state,
        FileBlock(0),
        1,
        Purpose::Data,
        State::Written,
    )?;
    operation.create(run.start, BlockKind::Plain, |bytes| {
        if let Some(start) = bytes.get_mut(..target.len()) {
            start.copy_from_slice(target);
        }
    });
    Ok(())
}
