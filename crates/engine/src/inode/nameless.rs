//! Inodes without a name: kept while they are open, and freed when they are not. Until they are
//! freed they are orphans, so that a power cut loses no space. One of which a part cannot be read
//! stays an orphan: the name is gone all the same, and each sync tries again to free it.
//!
//! *Locking*: that of `inodes`.
use crate::error::Result;
use crate::inode::inodes::Inodes;
use crate::inode::node::{Node, NodeState};
use crate::inode::operation::Operation;
use crate::inode::table;
use crate::inode::unfinished::{add_orphan, hold_neighbour, pause, remove_orphan, stop_here};
use crate::inode::write_back::{make_map_dense, write_with_names};
use crate::inode::{attribute, credits, file, mapping};
use crate::policy::allocation::Purpose;
use crate::space::InodeKind;
use crate::store::cache::Frame;
use extant_format::Ino;
use extant_format::inode::{FileType, Inode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The last step of freeing an inode: its attributes, its table block and that of the orphan before
/// it, its bitmap.
const FREE: u32 = credits::ATTRIBUTES + credits::INODE + credits::ORPHAN + 1;

/// What became of an inode that was to be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freeing {
    /// It is free.
    Ended,
    /// It stays an orphan, because a part of it cannot be read.
    Left,
}

impl Inodes {
    /// Frees the inodes whose names were replaced, once a sweep has made that durable.
    pub(crate) fn free_replaced(&self) -> Result<()> {
        let replaced = std::mem::take(&mut *self.replaced.lock());
        if replaced.is_empty() {
            return Ok(());
        }
        let written =
            self.volume.space.write_metadata().and_then(|()| self.volume.store.barrier.pass());
        if let Err(error) = written {
            self.replaced.lock().extend(replaced);
            return Err(error);
        }
        for node in replaced {
            self.free_replaced_node(&node)?;
        }
        Ok(())
    }

    fn free_replaced_node(&self, node: &Arc<Node>) -> Result<()> {
        let mut state = node.state.write();
        state.kept_links = None;
        if state.gone {
            return Ok(());
        }
        if node.opens.load(Ordering::Acquire) == 0 {
            return self.free_alone(node, &mut state).map(drop);
        }
        self.volume
            .change(credits::INODE, |operation| self.keep_nameless(operation, node, &mut state))
    }

    /// Tries again to free what could not be freed.
    ///
    /// # Errors
    /// `ReadOnly`; what closed the latch.
    pub(crate) fn free_left(&self) -> Result<()> {
        let left = std::mem::take(&mut *self.unfreed.lock());
        for node in left {
            let mut state = node.state.write();
            let is_free = state.gone || state.inode.links > 0;
            if !is_free && node.opens.load(Ordering::Acquire) == 0 {
                self.free_alone(&node, &mut state)?;
            }
        }
        Ok(())
    }

    /// Frees values of attributes that no attribute has any more.
    ///
    /// # Errors
    /// What closed the latch; what the device returns.
    pub(crate) fn free_values(&self) -> Result<()> {
        while self.is_writable()
            && let Some(ino) = self.volume.released.take()
        {
            match self.free_value(ino) {
                // It stays an orphan, which whoever opens the volume frees.
                Err(error) if error.is_of_the_disk() && self.is_writable() => {}
                freed => freed?,
            }
        }
        Ok(())
    }

    fn free_value(&self, ino: Ino) -> Result<()> {
        let inode = table::load(&self.volume, ino)?;
        // There it has the number of the next orphan.
        let node = self.nodes.insert(&self.volume, ino, Inode { deletion_time: 0, ..inode });
        self.free(&node).map(drop)
    }

    /// Frees inodes that have no name and are still open: once the volume is closed they are
    /// unusable.
    pub(crate) fn free_nameless(&self) -> Result<()> {
        let orphans: Vec<Arc<Node>> = self.nameless.lock().values().cloned().collect();
        for node in orphans {
            let mut state = node.state.write();
            if !state.gone && state.inode.links == 0 {
                self.free_alone(&node, &mut state)?;
            }
            self.nameless.lock().remove(&node.ino);
        }
        Ok(())
    }

    /// Counts an open file as closed. The last one of an inode without a name frees the inode.
    pub(crate) fn release(&self, node: &Arc<Node>) -> Result<()> {
        let mut state = node.state.write();
        let last = node.opens.fetch_sub(1, Ordering::AcqRel) == 1;
        let is_replaced = state.kept_links.is_some();
        if last && state.inode.links == 0 && !is_replaced && !state.gone && self.is_writable() {
            self.nameless.lock().remove(&node.ino);
            return self.free_alone(node, &mut state).map(drop);
        }
        if !self.is_writable() {
            return Ok(());
        }
        if node.rewritten.swap(false, Ordering::AcqRel) && self.volume.store.writes_data_first() {
            write_with_names(&self.volume, &node.pages, &mut state)?;
        }
        if !last {
            return Ok(());
        }
        self.volume.space.close_window(node.ino);
        if state.window.is_some() {
            self.volume.change(credits::RUN, |operation| {
                mapping::window::discard(operation, &mut state)
            })?;
        }
        // Writing back what is dirty changes the map once more, and then makes it dense.
        if state.dirty.is_empty() { make_map_dense(&self.volume, &mut state) } else { Ok(()) }
    }

    /// Frees an inode that has no name, is not open, and is an orphan, as an operation of its own.
    pub(crate) fn free(&self, node: &Arc<Node>) -> Result<Freeing> {
        self.free_alone(node, &mut node.state.write())
    }

    /// As `free`, for a caller that has locked the inode.
    fn free_alone(&self, node: &Arc<Node>, state: &mut NodeState) -> Result<Freeing> {
        let _table = match table::hold(&self.volume, node.ino) {
            Err(error) if error.is_of_the_disk() => return Ok(self.leave(node)),
            held => held?,
        };
        self.volume.change(FREE, |operation| self.free_locked(operation, node, state))
    }

    /// Keeps an orphan that could not be freed.
    fn leave(&self, node: &Arc<Node>) -> Freeing {
        self.unfreed.lock().push(Arc::clone(node));
        Freeing::Left
    }

    /// Frees an inode's blocks, its attributes and its number, in steps. It has no name any more,
    /// and the operation has stored everything else that it changed: if it takes more than one
    /// step, or a part cannot be read, the inode becomes an orphan, and recovery goes on after a
    /// power cut. The caller holds its table block (`table::hold`).
    ///
    /// # Errors
    /// What the device returns in the middle of a step, or for a table block.
    pub(crate) fn free_locked(
        &self,
        operation: &Operation<'_>,
        node: &Arc<Node>,
        state: &mut NodeState,
    ) -> Result<Freeing> {
        if let Some(pages) = node.pages.made() {
            file::forget_all(&self.volume, pages, state);
        }
        self.volume.space.close_window(node.ino);
        operation.note_whole();
        state.is_shrinking = true;
        let freed = self.free_blocks(operation, state);
        let freed = freed.map_err(|error| stop_here(operation, state, error));
        state.is_shrinking = false;
        let (kind, _neighbour) = match freed {
            Err(error) if operation.is_whole() && error.is_of_the_disk() => {
                return Ok(self.leave(node));
            }
            freed => freed?,
        };
        operation.end_count(&mut state.counted)?;
        remove_orphan(operation, state)?;
        state.inode.size = 0;
        state.inode.links = 0;
        let now = self.volume.store.now().seconds.max(1) as u64;
        state.inode.deletion_time = now.min(u64::from(u32::MAX)) as u32;
        state.store_now(operation)?;
        state.gone = true;
        // Before the number is free: after that the table may hold another inode with this number.
        self.nodes.remove(node.ino);
        node.freed.store(true, Ordering::Release);
        self.volume.space.free_inode(operation, node.ino, kind)?;
        Ok(Freeing::Ended)
    }

    /// Frees what an inode's map and its attributes have, up to the last step, which frees the
    /// inode too. Returns what its group has counted it as, and the block that the last step needs
    /// beside its own.
    fn free_blocks(
        &self,
        operation: &Operation<'_>,
        state: &mut NodeState,
    ) -> Result<(InodeKind, Option<Arc<Frame>>)> {
        let file_type = state.file_type()?;
        pause(operation, state, credits::STEP)?;
        mapping::window::discard(operation, state)?;
        let is_mapped = match file_type {
            FileType::Symlink => !state.inode.is_fast_symlink(&self.volume.store.superblock),
            FileType::Regular | FileType::Directory => true,
            _ => false,
        };
        let (purpose, kind) = match file_type {
            FileType::Directory => (Purpose::Directory, InodeKind::Directory),
            _ => (Purpose::Data, InodeKind::Other),
        };
        if is_mapped {
            mapping::remove(operation, state, 0..u64::from(u32::MAX) + 1, purpose)?;
        }
        attribute::release_values(operation, state)?;
        pause(operation, state, FREE)?;
        self.volume.space.check_to_free_inode(state.ino)?;
        let neighbour = hold_neighbour(&self.volume, state.ino)?;
        attribute::release_all(operation, state)?;
        Ok((kind, neighbour))
    }

    /// Makes an open inode without a name an orphan, and stores it.
    pub(crate) fn keep_nameless(
        &self,
        operation: &Operation<'_>,
        node: &Arc<Node>,
        state: &mut NodeState,
    ) -> Result<()> {
        add_orphan(operation, state);
        state.store(operation)?;
        self.nameless.lock().insert(node.ino, Arc::clone(node));
        Ok(())
    }

    /// Lowers the link count of an inode that lost a name. With no name left, the inode is freed,
    /// or kept as an orphan while it is open.
    pub(crate) fn drop_link(
        &self,
        operation: &Operation<'_>,
        node: &Arc<Node>,
        state: &mut NodeState,
    ) -> Result<()> {
        let is_directory = state.file_type()? == FileType::Directory;
        self.volume.store.cache.note_removal(node.ino);
        state.inode.links = if is_directory { 0 } else { state.inode.links.saturating_sub(1) };
        state.inode.change_time = self.volume.store.now();
        if state.inode.links > 0 {
            return state.store(operation);
        }
        if node.opens.load(Ordering::Acquire) > 0 {
            return self.keep_nameless(operation, node, state);
        }
        self.free_locked(operation, node, state).map(drop)
    }

    /// As `drop_link`, for a name that now points to another inode. With data first, an inode that
    /// lost its last name stays on disk until the directory there points to the other one: after a
    /// power cut the name has either the old content or the new.
    pub(crate) fn drop_replaced(
        &self,
        operation: &Operation<'_>,
        node: &Arc<Node>,
        state: &mut NodeState,
    ) -> Result<()> {
        let is_last = state.inode.links <= 1 || state.file_type()? == FileType::Directory;
        if !is_last || !self.volume.store.writes_in_stages() {
            return self.drop_link(operation, node, state);
        }
        state.kept_links = Some(state.inode.links);
        state.inode.links = 0;
        state.inode.change_time = self.volume.store.now();
        state.store(operation)?;
        self.replaced.lock().push(Arc::clone(node));
        Ok(())
    }
}
