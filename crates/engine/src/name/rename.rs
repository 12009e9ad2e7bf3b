//! Renaming: moving a name, replacing one, exchanging two, leaving a whiteout.
//!
//! *Invariants*: no directory is ever moved below itself. Everything that can fail for want of room
//! is decided first.
//! *Locking*: the rename lock, then the parents (an ancestor first, else the new parent; only a
//! rename locks two, and there is one at a time), then the renamed inodes (by rising number).
use crate::error::{ErrorKind, Result};
use crate::inode::access::{check_may_add, check_may_move, check_may_unlink, check_search};
use crate::inode::attribute;
use crate::inode::caller::{Caller, room_of};
use crate::inode::credits;
use crate::inode::inodes::Inodes;
use crate::inode::node::{Node, NodeState};
use crate::inode::operation::Operation;
use crate::inode::permission::{check_names, check_project};
use crate::inode::table;
use crate::inode::write_back::{make_entered_dense, write_with_names};
use crate::name::beginning::{Beginning, Defaults, Wish};
use crate::name::directory::{self, Departure};
use crate::name::namespace::{
    NewInode, add_subdirectory, check_name, check_subdirectories, drop_subdirectory, group_of,
    leads_to_itself, touch,
};
use crate::space::{Reservation, Room};
use crate::store::cache::Frame;
use extant_block::lock::SleepWriteGuard;
use extant_format::Ino;
use extant_format::inode::{Device, FileType};
use std::sync::Arc;

/// What a rename does at the new name, and at the old one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rename {
    /// Replaces what has the new name.
    Replace,
    /// Fails with `Exists` if the new name exists.
    KeepTarget,
    /// The two names change places.
    Exchange,
    /// Replaces what has the new name, and leaves a whiteout (character device 0, 0) at the old
    /// one.
    Whiteout,
}

/// Blocks of metadata that moving a name changes: a name is added, and a block changed that has the
/// old one; the "..", of two directories that change places; four inodes, and a whiteout with its
/// access lists.
const RENAME: u32 =
    credits::NAME + 1 + 2 + 4 * credits::INODE + credits::NEW_INODE + credits::ATTRIBUTES;

/// What is left at the old name: made like any other object by who renames.
struct Whiteout {
    beginning: Beginning,
    uid: u32,
    gid: u32,
}

/// The two ends of a rename.
struct Ends<'a> {
    from: &'a [u8],
    to: &'a [u8],
    /// The inode that is renamed.
    source: Arc<Node>,
    /// The inode that has the new name, if any.
    target: Option<Arc<Node>>,
}

/// One or two parents, locked exclusively.
struct Parents<'a> {
    from: SleepWriteGuard<'a, NodeState>,
    /// `None` if both are the same directory.
    to: Option<SleepWriteGuard<'a, NodeState>>,
}

impl Parents<'_> {
    fn to(&self) -> &NodeState {
        self.to.as_deref().unwrap_or(&self.from)
    }
    fn to_mut(&mut self) -> &mut NodeState {
        match &mut self.to {
            Some(to) => to,
            None => &mut self.from,
        }
    }
    fn crosses(&self) -> bool {
        self.to.is_some()
    }
}

impl Inodes {
    /// Moves a name.
    pub(crate) fn rename(
        &self,
        from: (&Arc<Node>, &[u8]),
        to: (&Arc<Node>, &[u8]),
        how: Rename,
        caller: Option<&Caller>,
    ) -> Result<()> {
        self.volume.store.check_writable()?;
        check_movable_name(from.1, Rename::Replace)?;
        check_movable_name(to.1, how)?;
        let _still = self.renaming.lock();
        let (above_from, above_to) = (self.ancestors(from.0)?, self.ancestors(to.0)?);
        let mut parents = lock_parents(from.0, to.0, &above_to);
        parents.from.check_directory()?;
        parents.to().check_directory()?;
        check_search(&self.volume, &parents.from, caller)?;
        check_search(&self.volume, parents.to(), caller)?;
        let find = |parent: &NodeState, name: &[u8]| directory::lookup(&self.volume, parent, name);
        let source = find(&parents.from, from.1)?.ok_or(ErrorKind::NotFound)?.ino;
        let target = find(parents.to(), to.1)?.map(|found| found.ino);
        match how {
            Rename::KeepTarget if target.is_some() => return Err(ErrorKind::Exists.into()),
            Rename::Exchange if target.is_none() => return Err(ErrorKind::NotFound.into()),
            _ => {}
        }
        if above_to.contains(&source) {
            return Err(ErrorKind::InvalidArgument("a directory cannot move below itself").into());
        }
        if target.is_some_and(|target| above_from.contains(&target)) {
            let below = ErrorKind::InvalidArgument("a directory cannot move below itself");
            return Err(if how == Rename::Exchange { below } else { ErrorKind::NotEmpty }.into());
        }
        if target == Some(source) {
            return Ok(());
        }
        for parent in [from.0.ino, to.0.ino] {
            if source == parent || target == Some(parent) {
                return Err(leads_to_itself(parent));
            }
        }
        let ends = Ends {
            from: from.1,
            to: to.1,
            source: self.nodes.get(&self.volume, source)?,
            target: target.map(|target| self.nodes.get(&self.volume, target)).transpose()?,
        };
        self.rename_locked(&mut parents, &ends, how, caller)
    }

    fn rename_locked(
        &self,
        parents: &mut Parents<'_>,
        ends: &Ends<'_>,
        how: Rename,
        caller: Option<&Caller>,
    ) -> Result<()> {
        let volume = &self.volume;
        let (mut source, mut target) = lock_children(&ends.source, ends.target.as_ref());
        check_may_unlink(volume, &parents.from, &source, caller)?;
        match &target {
            Some(target) => check_may_unlink(volume, parents.to(), target, caller)?,
            None => check_may_add(volume, parents.to(), caller)?,
        }
        check_names(volume, &parents.from)?;
        check_names(volume, parents.to())?;
        if parents.crosses() {
            check_may_move(volume, &source, caller)?;
            if let Some(target) = target.as_deref().filter(|_| how == Rename::Exchange) {
                check_may_move(volume, target, caller)?;
            }
        }
        check_project(volume, parents.to(), &source)?;
        if let Some(target) = target.as_deref().filter(|_| how == Rename::Exchange) {
            check_project(volume, &parents.from, target)?;
        }
        match (&mut target, how) {
            (Some(target), Rename::Exchange) => self.exchange(parents, ends, &mut source, target),
            _ => {
                let whiteout = match how {
                    Rename::Whiteout => Some(self.whiteout_of(&parents.from, caller)?),
                    _ => None,
                };
                let target = target.as_deref_mut();
                self.replace(parents, ends, &mut source, target, (whiteout, room_of(caller)))
            }
        }
    }

    /// The numbers of the directories above a directory, starting with itself. Fails after more
    /// steps than the volume has inodes: then they form a circle. Each step holds the node, since
    /// its number may be given to a file as soon as the directory is removed. For the same reason
    /// the caller, when both parents are locked, uses the numbers only if neither parent was
    /// removed.
    fn ancestors(&self, directory: &Arc<Node>) -> Result<Vec<Ino>> {
        let mut above = vec![directory.ino];
        let mut at = Arc::clone(directory);
        while at.ino != Ino::ROOT {
            let parent = self.lookup(&at, b"..", None)?.ok_or(ErrorKind::NotFound)?;
            if above.len() > self.volume.store.superblock.inodes_count as usize {
                return Err(ErrorKind::SymlinkLoop.into());
            }
            above.push(parent.ino);
            at = parent;
        }
        Ok(above)
    }

    fn replace(
        &self,
        parents: &mut Parents<'_>,
        ends: &Ends<'_>,
        source: &mut NodeState,
        target: Option<&mut NodeState>,
        (whiteout, room): (Option<Whiteout>, Room),
    ) -> Result<()> {
        let volume = &self.volume;
        let source_type = source.file_type()?;
        let moves_directory = source_type == FileType::Directory;
        let mut need = whiteout.as_ref().map_or(0, |whiteout| whiteout.beginning.blocks());
        if let Some(target) = &target {
            self.check_replaceable(source_type, target)?;
        }
        if parents.crosses() && volume.store.writes_in_stages() {
            // A sweep writes inodes before names: the old name would go before the new one is
            // there.
            directory::move_out(volume, &mut parents.from, room)?;
        }
        if target.is_none() {
            directory::move_out(volume, parents.to_mut(), room)?;
            need += directory::insert_need(volume, parents.to(), ends.to)?;
        }
        if moves_directory && parents.crosses() && target.is_none() {
            check_subdirectories(volume, parents.to())?;
        }
        self.check_parent_entry(source)?;
        if target.is_some() && volume.store.writes_data_first() {
            // A program that writes a new file and renames it over the old one wants one of the two
            // after a power cut. So the new one's data is submitted before the name changes.
            write_with_names(volume, &ends.source.pages, source)?;
            make_entered_dense(volume, &ends.source, source)?;
        }
        let mut reservation = volume.space.reserve_within(need, room)?;
        volume.space.check_may_allocate(group_of(volume, parents.to().ino), need)?;
        let _held = self.hold_changed(parents, ends, source, target.as_deref())?;
        volume.change(RENAME, |operation| {
            let whiteout = whiteout.as_ref();
            volume.store.cache.note_removal(source.ino);
            self.move_name(operation, &mut reservation, parents, ends, source, whiteout)?;
            if moves_directory {
                self.move_directory(operation, parents, source, target.as_deref())?;
            }
            source.inode.change_time = volume.store.now();
            source.store(operation)?;
            self.store_parents(operation, parents)?;
            match (target, &ends.target) {
                (Some(target), Some(node)) => self.drop_replaced(operation, node, target),
                _ => Ok(()),
            }
        })
    }

    /// Brings into memory what the rename changes, for as long as the result is kept: it must not
    /// find in the middle that a block cannot be read.
    fn hold_changed(
        &self,
        parents: &Parents<'_>,
        ends: &Ends<'_>,
        source: &NodeState,
        target: Option<&NodeState>,
    ) -> Result<Vec<Arc<Frame>>> {
        let volume = &self.volume;
        let mut held = vec![directory::hold(volume, &parents.from, ends.from)?];
        if target.is_some() {
            held.push(directory::hold(volume, parents.to(), ends.to)?);
        }
        for moving in [Some(source), target].into_iter().flatten() {
            held.push(table::hold(volume, moving.ino)?);
            if moving.file_type()? == FileType::Directory {
                held.push(directory::hold(volume, moving, b"..")?);
            }
        }
        held.push(table::hold(volume, parents.from.ino)?);
        held.push(table::hold(volume, parents.to().ino)?);
        Ok(held.into_iter().flatten().collect())
    }

    /// Moves the name from the old place to the new one.
    fn move_name(
        &self,
        operation: &Operation<'_>,
        reservation: &mut Reservation<'_>,
        parents: &mut Parents<'_>,
        ends: &Ends<'_>,
        source: &NodeState,
        whiteout: Option<&Whiteout>,
    ) -> Result<()> {
        let whiteout = match whiteout {
            Some(new) => {
                Some(self.whiteout(operation, reservation, (&parents.from, ends.from), new)?)
            }
            None => None,
        };
        let file_type = source.file_type()?;
        match &ends.target {
            Some(_) => {
                directory::replace(operation, parents.to_mut(), ends.to, source.ino, file_type)?
            }
            None => {
                directory::insert(
                    operation,
                    reservation,
                    parents.to_mut(),
                    ends.to,
                    source.ino,
                    file_type,
                )?;
            }
        }
        match whiteout {
            Some(ino) => {
                directory::replace(
                    operation,
                    &mut parents.from,
                    ends.from,
                    ino,
                    FileType::CharacterDevice,
                )?;
            }
            None => directory::remove(operation, &mut parents.from, ends.from, Departure::Moved)?,
        }
        Ok(())
    }

    /// Fails before anything changes if the ".." of a directory that moves cannot be changed.
    fn check_parent_entry(&self, moving: &NodeState) -> Result<()> {
        if moving.file_type()? == FileType::Directory {
            directory::lookup(&self.volume, moving, b"..")?.ok_or(ErrorKind::NotFound)?;
        }
        Ok(())
    }

    /// Fails unless a name of `source_type` may replace `target`.
    fn check_replaceable(&self, source_type: FileType, target: &NodeState) -> Result<()> {
        let is_directory = |file_type| file_type == FileType::Directory;
        match (is_directory(source_type), is_directory(target.file_type()?)) {
            (true, false) => Err(ErrorKind::NotDirectory.into()),
            (false, true) => Err(ErrorKind::IsDirectory.into()),
            (true, true) if !directory::is_empty(&self.volume, target)? => {
                Err(ErrorKind::NotEmpty.into())
            }
            _ => attribute::check_to_release(&self.volume, target),
        }
    }

    /// Updates the ".." of a directory that moved, and the link counts of its parents. The new
    /// parent loses the link of a directory that was replaced.
    fn move_directory(
        &self,
        operation: &Operation<'_>,
        parents: &mut Parents<'_>,
        source: &mut NodeState,
        replaced: Option<&NodeState>,
    ) -> Result<()> {
        let volume = &self.volume;
        if parents.crosses() {
            let parent = parents.to().ino;
            directory::replace(operation, source, b"..", parent, FileType::Directory)?;
            drop_subdirectory(volume, &mut parents.from);
            if replaced.is_none() {
                add_subdirectory(volume, parents.to_mut());
            }
        } else if replaced.is_some() {
            drop_subdirectory(volume, &mut parents.from);
        }
        Ok(())
    }

    fn exchange(
        &self,
        parents: &mut Parents<'_>,
        ends: &Ends<'_>,
        source: &mut NodeState,
        target: &mut NodeState,
    ) -> Result<()> {
        let volume = &self.volume;
        let (source_type, target_type) = (source.file_type()?, target.file_type()?);
        let is_directory = |file_type| file_type == FileType::Directory;
        let (moves, comes) = (is_directory(source_type), is_directory(target_type));
        if parents.crosses() && moves && !comes {
            check_subdirectories(volume, parents.to())?;
        }
        if parents.crosses() && comes && !moves {
            check_subdirectories(volume, &parents.from)?;
        }
        self.check_parent_entry(source)?;
        self.check_parent_entry(target)?;
        let _held = self.hold_changed(parents, ends, source, Some(target))?;
        volume.change(RENAME, |operation| {
            directory::replace(operation, parents.to_mut(), ends.to, source.ino, source_type)?;
            directory::replace(operation, &mut parents.from, ends.from, target.ino, target_type)?;
            if parents.crosses() {
                let (from, to) = (parents.from.ino, parents.to().ino);
                if moves {
                    directory::replace(operation, source, b"..", to, FileType::Directory)?;
                }
                if comes {
                    directory::replace(operation, target, b"..", from, FileType::Directory)?;
                }
                if moves && !comes {
                    drop_subdirectory(volume, &mut parents.from);
                    add_subdirectory(volume, parents.to_mut());
                }
                if comes && !moves {
                    drop_subdirectory(volume, parents.to_mut());
                    add_subdirectory(volume, &mut parents.from);
                }
            }
            let now = volume.store.now();
            for state in [source, target] {
                volume.store.cache.note_removal(state.ino);
                state.inode.change_time = now;
                state.store(operation)?;
            }
            self.store_parents(operation, parents)
        })
    }

    /// What a whiteout of this caller in this directory is like. Without a caller it is root's.
    fn whiteout_of(&self, parent: &NodeState, caller: Option<&Caller>) -> Result<Whiteout> {
        let file_type = FileType::CharacterDevice;
        let defaults = match caller {
            Some(_) => Defaults::Apply { umask: 0 },
            None => Defaults::Ignore,
        };
        let wish = Wish { file_type, permissions: 0, defaults };
        let beginning = Beginning::of(&self.volume, parent, wish, caller)?;
        let (uid, gid) = caller.map_or((0, 0), |caller| (caller.uid, caller.gid));
        Ok(Whiteout { beginning, uid, gid })
    }

    fn whiteout(
        &self,
        operation: &Operation<'_>,
        reservation: &mut Reservation<'_>,
        (parent, name): (&NodeState, &[u8]),
        whiteout: &Whiteout,
    ) -> Result<Ino> {
        let new = NewInode {
            file_type: FileType::CharacterDevice,
            permissions: whiteout.beginning.permissions(),
            uid: whiteout.uid,
            gid: whiteout.gid,
            device: Device { major: 0, minor: 0 },
            target: b"",
            defaults: Defaults::Ignore,
        };
        let mut state = self.new_inode(operation, reservation, parent, name, &new)?;
        whiteout.beginning.apply(operation, reservation, &mut state)?;
        state.inode.links = 1;
        state.store(operation)?;
        let ino = state.ino;
        self.nodes.insert(&self.volume, ino, state.inode);
        Ok(ino)
    }

    fn store_parents(&self, operation: &Operation<'_>, parents: &mut Parents<'_>) -> Result<()> {
        touch(&self.volume, &mut parents.from);
        parents.from.store(operation)?;
        if let Some(to) = &mut parents.to {
            touch(&self.volume, to);
            to.store(operation)?;
        }
        Ok(())
    }
}

/// Fails on names that must not move, and on names that are not valid.
fn check_movable_name(name: &[u8], how: Rename) -> Result<()> {
    match (name, how) {
        (b"" | b"." | b"..", Rename::KeepTarget) => Err(ErrorKind::Exists.into()),
        (b"" | b"." | b"..", _) => Err(ErrorKind::Busy.into()),
        _ => check_name(name),
    }
}

/// Locks both parents: an ancestor of the other one first.
fn lock_parents<'n>(from: &'n Node, to: &'n Node, above_to: &[Ino]) -> Parents<'n> {
    if from.ino == to.ino {
        return Parents { from: from.state.write(), to: None };
    }
    if above_to.contains(&from.ino) {
        let first = from.state.write();
        return Parents { from: first, to: Some(to.state.write()) };
    }
    let first = to.state.write();
    Parents { from: from.state.write(), to: Some(first) }
}

type Children<'n> = (SleepWriteGuard<'n, NodeState>, Option<SleepWriteGuard<'n, NodeState>>);

/// Locks the two renamed inodes, by rising number.
fn lock_children<'n>(source: &'n Arc<Node>, target: Option<&'n Arc<Node>>) -> Children<'n> {
    match target {
        Some(target) if target.ino < source.ino => {
            let second = target.state.write();
            (source.state.write(), Some(second))
        }
        Some(target) => {
            let first = source.state.write();
            (first, Some(target.state.write()))
        }
        None => (source.state.write(), None),
    }
}
