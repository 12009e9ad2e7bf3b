//! The directories that fast commits change: their names are changed on the volume, one by one.
//!
//! A fast commit says nothing of a directory's blocks, size and links: these follow from the names
//! that are added and removed. A name that is there already, or gone already, is left alone, so
//! that a fast commit can be replayed over its own result.
//!
//! *Locking*: parent before child.
use super::change::wrong;
use crate::error::Result;
use crate::inode::{Inodes, Node, NodeState, attribute, credits, mapping, table};
use crate::name::directory::{self, Departure};
use crate::name::namespace::{add_subdirectory, drop_subdirectory};
use crate::space::{InodeKind, Room};
use extant_format::Ino;
use extant_format::inode::{FileType, Inode, Time, flags};
use extant_format::journal::fast_commit::Entry;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks of metadata that a change of a name changes, with the directory that it makes or frees.
const NAME: u32 =
    credits::NAME + credits::NEW_INODE + credits::ATTRIBUTES + credits::RUN + 3 * credits::INODE;

/// Whether a name was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Changed,
    /// It was as wanted before.
    AsWanted,
}

/// All directories.
pub(super) struct Names<'i> {
    inodes: &'i Inodes,
    /// Inodes of directories that have no name yet.
    fresh: BTreeMap<Ino, Inode>,
    /// How many names the directories have that gained or lost one; others have one.
    names: BTreeMap<Ino, u32>,
    /// The latest time at which an inode of the fast commits changed.
    latest: Time,
}

impl<'i> Names<'i> {
    pub(super) fn new(inodes: &'i Inodes) -> Names<'i> {
        let (fresh, names) = (BTreeMap::new(), BTreeMap::new());
        Names { inodes, fresh, names, latest: Time::default() }
    }

    /// Whether this is a directory: on the volume, or known and without a name yet.
    pub(super) fn has(&self, ino: Ino) -> Result<bool> {
        if self.fresh.contains_key(&ino) {
            return Ok(true);
        }
        let volume = &self.inodes.volume;
        Ok(volume.space.inode_in_use(ino)?
            && table::load(volume, ino)?.file_type() == Some(FileType::Directory))
    }

    /// Whether this is a directory that has its number in use.
    pub(super) fn is_on_volume(&self, ino: Ino) -> Result<bool> {
        Ok(!self.fresh.contains_key(&ino) && self.has(ino)?)
    }

    /// Notes a time at which an inode changed. The directories that are changed from here on get
    /// it, if it is later than theirs: their own times are not in a fast commit.
    pub(super) fn note_time(&mut self, time: Time) {
        self.latest = self.latest.max(time);
    }

    /// A directory's inode is like this from here on, but for its size, its map and its links.
    pub(super) fn set_inode(&mut self, ino: Ino, inode: Inode) -> Result<()> {
        if !self.is_on_volume(ino)? {
            self.fresh.insert(ino, inode);
            return Ok(());
        }
        let volume = &self.inodes.volume;
        let node = self.inodes.nodes.get(volume, ino)?;
        let mut state = node.state.write();
        let old = &mut state.inode;
        if inode.generation != old.generation {
            let why = "not that of the directory with this number";
            return Err(wrong(ino, "generation", inode.generation.into(), why));
        }
        (old.mode, old.uid, old.gid, old.project) =
            (inode.mode, inode.uid, inode.gid, inode.project);
        (old.access_time, old.modify_time) = (inode.access_time, inode.modify_time);
        (old.change_time, old.create_time) = (inode.change_time, inode.create_time);
        let own = flags::INDEX | flags::EXTENTS | flags::INLINE_DATA;
        old.flags = inode.flags & !own | old.flags & own;
        old.version = inode.version;
        volume.change(credits::INODE, |work| state.store_now(work))
    }

    /// Adds a name for an inode that is in use, or will be.
    pub(super) fn add(&mut self, name: &Entry, file_type: FileType) -> Result<Outcome> {
        let parent = self.directory(name.parent)?;
        let mut parent = parent.state.write();
        let volume = &self.inodes.volume;
        if let Some(there) = directory::lookup(volume, &parent, &name.name)? {
            return match there.ino == name.ino {
                true => Ok(Outcome::AsWanted),
                false => {
                    let why = "not the one that the name has on the volume";
                    Err(wrong(name.parent, "inode of a name", name.ino.0.into(), why))
                }
            };
        }
        directory::move_out(volume, &mut parent, Room::Whole)?;
        let need = directory::insert_need(volume, &parent, &name.name)?;
        let mut reservation = volume.space.reserve(need)?;
        volume.change(NAME, |work| {
            directory::insert(
                work,
                &mut reservation,
                &mut parent,
                &name.name,
                name.ino,
                file_type,
            )?;
            work.need(NAME);
            if file_type == FileType::Directory {
                add_subdirectory(volume, &mut parent);
            }
            touch(&mut parent, self.latest);
            parent.store_now(work)
        })?;
        Ok(Outcome::Changed)
    }

    /// Removes a name, if it is that of the inode.
    pub(super) fn remove(&mut self, name: &Entry, file_type: FileType) -> Result<Outcome> {
        let parent = self.directory(name.parent)?;
        let mut parent = parent.state.write();
        let volume = &self.inodes.volume;
        let there = directory::lookup(volume, &parent, &name.name)?;
        if there.is_none_or(|there| there.ino != name.ino) {
            return Ok(Outcome::AsWanted);
        }
        volume.change(NAME, |work| {
            directory::remove(work, &mut parent, &name.name, Departure::Removed)?;
            if file_type == FileType::Directory {
                drop_subdirectory(volume, &mut parent);
            }
            touch(&mut parent, self.latest);
            parent.store_now(work)
        })?;
        Ok(Outcome::Changed)
    }

    /// Makes a directory that has no name yet, with "." and "..". Does nothing for one that is
    /// there.
    pub(super) fn make(&mut self, ino: Ino, parent: Ino) -> Result<()> {
        let Some(inode) = self.fresh.remove(&ino) else { return Ok(()) };
        let inodes = self.inodes;
        let volume = &inodes.volume;
        if inode.attribute_block.0 != 0 {
            let why = "not part of a fast commit";
            return Err(wrong(ino, "attribute block", inode.attribute_block.0, why));
        }
        let mut state = NodeState::fresh(volume, ino, inode);
        state.inode.flags &= !flags::INDEX;
        state.inode.links = 2;
        state.inode.sectors = 0;
        state.inode.deletion_time = 0;
        mapping::initialize(&mut state);
        // A first block, and what maps it.
        let mut reservation = volume.space.reserve(2)?;
        volume.change(NAME, |work| {
            volume.space.claim_inode(work, ino, InodeKind::Directory)?;
            directory::create(work, &mut reservation, &mut state, parent)?;
            work.need(NAME);
            state.store_now(work)
        })?;
        inodes.nodes.insert_state(volume, state);
        self.names.insert(ino, 0);
        Ok(())
    }

    /// Counts a name that a directory has gained. One that was moved has another "..".
    pub(super) fn moved_to(&mut self, ino: Ino, parent: Ino) -> Result<()> {
        *self.names.entry(ino).or_insert(1) += 1;
        let node = self.directory(ino)?;
        let mut state = node.state.write();
        let volume = &self.inodes.volume;
        if directory::lookup(volume, &state, b"..")?.is_some_and(|above| above.ino == parent) {
            return Ok(());
        }
        volume.change(NAME, |work| {
            directory::replace(work, &mut state, b"..", parent, FileType::Directory)?;
            state.store_now(work)
        })
    }

    /// Counts a name that a directory has lost. With the last one it goes.
    pub(super) fn drop_name(&mut self, ino: Ino) -> Result<()> {
        let names = self.names.entry(ino).or_insert(1);
        *names = names.saturating_sub(1);
        if *names > 0 {
            return Ok(());
        }
        self.names.remove(&ino);
        let node = self.directory(ino)?;
        let inodes = self.inodes;
        let mut state = node.state.write();
        if !directory::is_empty(&inodes.volume, &state)? {
            return Err(wrong(ino, "links", 0, "not those of a directory with names"));
        }
        attribute::check_to_release(&inodes.volume, &state)?;
        inodes.volume.change(NAME, |work| inodes.free_locked(work, &node, &mut state)).map(drop)
    }

    fn directory(&self, ino: Ino) -> Result<Arc<Node>> {
        let node = self.inodes.nodes.get(&self.inodes.volume, ino)?;
        node.state.read().check_directory()?;
        Ok(node)
    }
}

fn touch(directory: &mut NodeState, time: Time) {
    let inode = &mut directory.inode;
    inode.modify_time = inode.modify_time.max(time);
    inode.change_time = inode.change_time.max(time);
    inode.version = inode.version.wrapping_add(1);
}
