//! Allocating and freeing inode numbers.
use super::bitmaps::BitmapKind;
use super::{GroupState, InodeKind, Space};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::handle::Handle;
use extant_format::bitmap::{clear_run, next_clear, next_set, set_run, test};
use extant_format::group::INODE_ZEROED;
use extant_format::{BlockNo, GroupNo, Ino};
use extant_policy::preset::InodeCreation;
use std::sync::atomic::Ordering;

impl Space {
    /// Allocates an inode: the first free one in the group at or after index `from`, else the first
    /// in the following groups, wrapping around. If its table block holds nothing of value, the
    /// block is zeroed without being read, so the caller finds zeros in the slot, or an inode that
    /// was freed.
    ///
    /// # Errors
    /// `NoInodes`; `Corrupt`; what the device returns.
    pub fn allocate_inode(
        &self,
        handle: &Handle<'_>,
        group: GroupNo,
        from: u32,
        kind: InodeKind,
    ) -> Result<Ino> {
        let _lock = self.lock_superblock();
        let first = if group.0 < self.group_count() { group } else { GroupNo(0) };
        let mut from = from;
        let mut unreadable = None;
        for group in self.cyclic(first).chain([first]) {
            match self.take_inode(handle, group, from, kind) {
                Ok(Some(ino)) => return Ok(ino),
                Ok(None) => {}
                Err(error) if error.is_of_the_device() => unreadable = unreadable.or(Some(error)),
                Err(error) => return Err(error),
            }
            from = 0;
        }
        Err(unreadable.unwrap_or_else(|| ErrorKind::NoInodes.into()))
    }

    /// The lowest index in a group that is not reserved.
    fn lowest(&self, group: GroupNo) -> u32 {
        let before = u64::from(group.0) * u64::from(self.store.superblock.inodes_per_group);
        let reserved = u64::from(self.store.superblock.first_inode.saturating_sub(1));
        u32::try_from(reserved.saturating_sub(before)).unwrap_or(u32::MAX)
    }

    fn take_inode(
        &self,
        handle: &Handle<'_>,
        group: GroupNo,
        from: u32,
        kind: InodeKind,
    ) -> Result<Option<Ino>> {
        let state = self.state(group).lock();
        if state.descriptor.free_inodes == 0 {
            return Ok(None);
        }
        let state = self.load_to_change(handle, state, group, BitmapKind::Inodes)?;
        let (mut state, frame) = self.ready_to_change(handle, state, group, BitmapKind::Inodes)?;
        let bits = frame.bytes();
        let per_group = self.store.superblock.inodes_per_group;
        let lowest = self.lowest(group);
        let seen = state.held_inodes.marked(&bits);
        let first = from.max(lowest).max(state.free_inodes_from);
        let found = next_clear(&seen, first, per_group);
        debug_assert_eq!(found, next_clear(&seen, from.max(lowest), per_group), "{group}");
        drop(seen);
        let is_lowest = from.max(lowest) <= state.free_inodes_from.max(lowest);
        let Some(index) = found else { return Ok(None) };
        self.initialise_blocks(handle, &mut state, group)?;
        self.prepare_table(handle, &state, &bits, index);
        drop(bits);
        let _ = handle.modify_at_once(&frame, |bytes| set_run(bytes, index, 1));
        if is_lowest {
            state.free_inodes_from = index + 1;
        }
        self.count_inode(&mut state, index, kind);
        self.changed(group, &mut state, BitmapKind::Inodes);
        // Fits: the number of inodes is groups times inodes_per_group, and fits.
        Ok(Some(Ino(group.0 * per_group + index + 1)))
    }

    pub(super) fn count_inode(&self, state: &mut GroupState, index: u32, kind: InodeKind) {
        let descriptor = &mut state.descriptor;
        descriptor.free_inodes = descriptor.free_inodes.saturating_sub(1);
        self.counters.free_inodes.fetch_sub(1, Ordering::AcqRel);
        if self.store.superblock.has_descriptor_checksums() {
            let after =
                self.store.superblock.inodes_per_group.saturating_sub(index.saturating_add(1));
            descriptor.unused_inodes = descriptor.unused_inodes.min(after);
        }
        match kind {
            InodeKind::Directory => {
                descriptor.used_directories = descriptor.used_directories.saturating_add(1);
                state.debt = state.debt.saturating_add(1);
                self.counters.directories.fetch_add(1, Ordering::AcqRel);
            }
            InodeKind::Other => state.debt = state.debt.saturating_sub(1),
        }
    }

    /// Zeroes table blocks that come into use and were never written, and the inode's own block if
    /// no other inode is in it, so that it need not be read. Called under the group's lock before
    /// the bit is set, when no other thread can have put an inode there.
    pub(super) fn prepare_table(
        &self,
        handle: &Handle<'_>,
        state: &GroupState,
        bits: &[u8],
        index: u32,
    ) {
        let superblock = &self.store.superblock;
        let per_block = (superblock.block_size() / u32::from(superblock.inode_size)).max(1);
        let block = index / per_block;
        let place =
            |block: u32| BlockNo(state.descriptor.inode_table.0.saturating_add(block.into()));
        let used = superblock.inodes_per_group.saturating_sub(state.descriptor.unused_inodes);
        let first_unused = used.div_ceil(per_block);
        if state.descriptor.flags & INODE_ZEROED == 0
            && first_unused <= block
            && superblock.has_descriptor_checksums()
        {
            for block in first_unused..=block {
                handle.overwrite(place(block), |_| {});
            }
            return;
        }
        let is_read = self.store.policies.inode_creation == InodeCreation::Read;
        if is_read || self.store.stores_inodes_late() {
            return;
        }
        let alone =
            next_set(bits, block * per_block, (block * per_block).saturating_add(per_block))
                .is_none();
        if alone && !self.store.cache.holds(place(block)) {
            handle.overwrite(place(block), |_| {});
        }
    }

    /// Fails if an inode number cannot be freed, and has its bitmap in memory otherwise. Called
    /// before anything changes that leads to it.
    ///
    /// # Errors
    /// As [`Space::free_inode`]; what the device returns.
    pub fn check_to_free_inode(&self, ino: Ino) -> Result<()> {
        if ino.0 < self.store.superblock.first_inode {
            return Err(not_to_be_freed(ino, "reserved"));
        }
        match self.inode_in_use(ino)? {
            true => Ok(()),
            false => Err(not_to_be_freed(ino, "free already")),
        }
    }

    /// Frees an inode number that no name points to any more.
    ///
    /// # Errors
    /// `Corrupt` if it is already free, or reserved.
    pub fn free_inode(&self, handle: &Handle<'_>, ino: Ino, kind: InodeKind) -> Result<()> {
        let wrong = |reason| not_to_be_freed(ino, reason);
        let (group, index) =
            self.store.superblock.group_of_inode(ino).ok_or_else(|| wrong("outside the volume"))?;
        self.check_to_free_inode(ino)?;
        let _lock = self.lock_superblock();
        let (mut state, frame) = self.lock_to_change(handle, group, BitmapKind::Inodes)?;
        if !test(&frame.bytes(), index) {
            return Err(wrong("free already"));
        }
        let _ = handle.modify_at_once(&frame, |bytes| clear_run(bytes, index, 1));
        state.descriptor.free_inodes = state.descriptor.free_inodes.saturating_add(1);
        state.free_inodes_from = state.free_inodes_from.min(index);
        if kind == InodeKind::Directory && state.descriptor.used_directories > 0 {
            state.descriptor.used_directories -= 1;
            self.counters.directories.fetch_sub(1, Ordering::AcqRel);
        }
        let is_held = self.store.keeps_order();
        if is_held {
            state.held_inodes.hold(self.store.superblock.block_size() as usize, index, 1);
        }
        self.changed(group, &mut state, BitmapKind::Inodes);
        drop(state);
        self.counters.free_inodes.fetch_add(1, Ordering::AcqRel);
        if is_held {
            self.publish_inode(ino);
        }
        Ok(())
    }

    /// Whether the inode is marked in use in its bitmap.
    pub fn inode_in_use(&self, ino: Ino) -> Result<bool> {
        let Some((group, index)) = self.store.superblock.group_of_inode(ino) else {
            return Ok(false);
        };
        Ok(test(&self.look(group, BitmapKind::Inodes)?, index))
    }
}

fn not_to_be_freed(ino: Ino, reason: &'static str) -> Error {
    Error::field(Place::Inode(ino), "inode bitmap", "inode", ino.0.into(), reason)
}
