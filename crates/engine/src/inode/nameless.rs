//! Inodes without a name: kept while they are open, freed when they are not, and linked on disk so
//! that a power cut in between loses no space.
//!
//! *Locking*: that of `inodes`.
use crate::error::{ErrorKind, Result};
use crate::inode::inodes::Inodes;
use crate::inode::node::{Node, NodeState};
use crate::inode::operation::Operation;
use crate::inode::write_back::{make_map_dense, write_with_names};
use crate::inode::{attribute, credits, file, mapping, table};
use crate::policy::allocation::Purpose;
use crate::space::InodeKind;
use extant_format::Ino;
use extant_format::inode::FileType;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks of metadata that freeing an inode changes, apart from its map, which is counted run by
/// run: its table block, its bitmap, its attributes and a window.
const FREE: u32 = credits::INODE + 1 + credits::ATTRIBUTES + 2;

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
            return self.free_alone(node, &mut state);
        }
        self.volume.change(credits::INODE, |operation| state.store(operation))?;
        self.orphans.lock().insert(node.ino, Arc::clone(node));
        Ok(())
    }

    /// Links the inodes without a name on disk, so that a program that opens the volume after a
    /// power cut can free them.
    ///
    /// # Errors
    /// Those of reading their table blocks.
    pub(crate) fn chain_orphans(&self) -> Result<()> {
        let orphans: Vec<Arc<Node>> = self.orphans.lock().values().cloned().collect();
        // From the end, so that each one points to an inode that was an orphan when it was looked
        // at.
        let mut next = 0;
        for node in orphans.into_iter().rev() {
            let mut state = node.state.write();
            if state.gone || state.inode.links > 0 {
                continue;
            }
            // An inode that already points there, on disk too, is not written again.
            let is_unstored = self.volume.unstored.inodes.lock().contains_key(&node.ino);
            if state.inode.deletion_time != next || is_unstored {
                state.inode.deletion_time = next;
                self.volume.change(credits::INODE, |operation| state.store_now(operation))?;
            }
            next = node.ino.0;
        }
        self.set_last_orphan(next)
    }

    /// Sets the head of the list of inodes without a name.
    fn set_last_orphan(&self, ino: u32) -> Result<()> {
        self.volume.store.change(0, |handle| {
            handle.change_superblock(|changes| changes.last_orphan = ino);
            Ok(())
        })
    }

    /// Frees inodes that have no name and are still open: once the volume is closed they are
    /// unusable.
    pub(crate) fn free_nameless(&self) -> Result<()> {
        let orphans: Vec<Arc<Node>> = self.orphans.lock().values().cloned().collect();
        for node in orphans {
            let mut state = node.state.write();
            if !state.gone && state.inode.links == 0 {
                self.free_alone(&node, &mut state)?;
            }
            self.orphans.lock().remove(&node.ino);
        }
        Ok(())
    }

    /// Frees the inodes that a crash left without a name, and completes truncations that it
    /// interrupted.
    pub(crate) fn free_old_orphans(&self) -> Result<()> {
        let mut next = self.volume.store.superblock.last_orphan;
        let mut left = self.volume.store.superblock.inodes_count;
        while next != 0 && left > 0 {
            left -= 1;
            let ino = Ino(next);
            let inode = table::load(&self.volume, ino)?;
            if !self.volume.store.superblock.is_usable(ino) || inode.file_type().is_none() {
                return Err(ErrorKind::NeedsRecovery.into());
            }
            if !self.volume.space.inode_in_use(ino)? {
                break; // It was freed after the last sync.
            }
            next = inode.deletion_time;
            let (size, links, file_type) = (inode.size, inode.links, inode.file_type());
            let node = self.nodes.insert(&self.volume, ino, inode);
            node.state.write().inode.deletion_time = 0;
            if links == 0 {
                self.free(&node)?;
            } else if file_type == Some(FileType::Regular) {
                file::set_size(&self.volume, &node, size)?;
            }
        }
        self.set_last_orphan(0)
    }

    /// Counts an open file as closed. The last one of an inode without a name frees the inode.
    pub(crate) fn release(&self, node: &Arc<Node>) -> Result<()> {
        let mut state = node.state.write();
        let last = node.opens.fetch_sub(1, Ordering::AcqRel) == 1;
        let is_replaced = state.kept_links.is_some();
        if last && state.inode.links == 0 && !is_replaced && !state.gone && self.is_writable() {
            self.orphans.lock().remove(&node.ino);
            return self.free_alone(node, &mut state);
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

    /// Frees an inode that has no name and is not open, as an operation of its own.
    fn free(&self, node: &Arc<Node>) -> Result<()> {
        self.free_alone(node, &mut node.state.write())
    }

    /// As `free`, for a caller that has locked the inode.
    fn free_alone(&self, node: &Node, state: &mut NodeState) -> Result<()> {
        self.volume.change(FREE, |operation| self.free_locked(operation, node, state))
    }

    /// Frees an inode's blocks, its attributes and its number.
    ///
    /// # Errors
    /// `Corrupt` for its map or attributes; what the device returns.
    pub(crate) fn free_locked(
        &self,
        operation: &Operation<'_>,
        node: &Node,
        state: &mut NodeState,
    ) -> Result<()> {
        let volume = &self.volume;
        let file_type = state.file_type()?;
        operation.need(FREE);
        file::forget_all(volume, &node.pages, state);
        volume.space.close_window(node.ino);
        mapping::window::discard(operation, state)?;
        let is_mapped = match file_type {
            FileType::Symlink => !state.inode.is_fast_symlink(&volume.store.superblock),
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
        operation.need(FREE);
        attribute::release(operation, state)?;
        state.inode.size = 0;
        state.inode.links = 0;
        let now = volume.store.now().seconds.max(1) as u64;
        state.inode.deletion_time = now.min(u64::from(u32::MAX)) as u32;
        state.store_now(operation)?;
        state.gone = true;
        // Before the number is free: after that the table may hold another inode with this number.
        self.nodes.remove(node.ino);
        volume.space.free_inode(operation, node.ino, kind)
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
        state.inode.links = if is_directory { 0 } else { state.inode.links.saturating_sub(1) };
        state.inode.change_time = self.volume.store.now();
        if state.inode.links > 0 {
            return state.store(operation);
        }
        if node.opens.load(Ordering::Acquire) > 0 {
            state.store(operation)?;
            self.orphans.lock().insert(node.ino, Arc::clone(node));
            return Ok(());
        }
        self.free_locked(operation, node, state)
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
