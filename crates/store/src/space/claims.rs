//! Blocks and inodes that are marked in use because a record says which ones they are, not because
//! a search found them free.
use super::bitmaps::BitmapKind;
use super::{InodeKind, Space};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::handle::Handle;
use extant_format::bitmap::{clear_runs, set_run, test};
use extant_format::{Ino, Run};
use std::sync::atomic::Ordering;

impl Space {
    /// How many bitmaps hold the bits of a run, at most.
    pub fn bitmaps_of(&self, run: Run) -> u32 {
        run.length / self.store.superblock.blocks_per_group.max(1) + 2
    }

    /// Marks the free blocks of a run, and of the units that it touches, as in use. Returns them,
    /// rising; the others were in use before.
    ///
    /// # Errors
    /// `Corrupt` if the run leaves the volume or touches its own metadata; what the device returns.
    pub fn claim_blocks(&self, handle: &Handle<'_>, run: Run) -> Result<Vec<Run>> {
        let run = self.whole_units(run);
        if self.is_metadata(run) {
            let (place, why) = (Place::Block(run.start), "the volume's own metadata");
            return Err(Error::field(place, "claimed run", "start", run.start.0, why));
        }
        let mut claimed = Vec::new();
        for part in self.parts(run)? {
            let (mut state, frame) = self.lock_to_change(handle, part.group, BitmapKind::Blocks)?;
            let end = part.first.saturating_add(part.length);
            let free: Vec<(u32, u32)> = clear_runs(&frame.bytes(), end)
                .filter_map(|(first, length)| {
                    let from = first.max(part.first);
                    let to = first.saturating_add(length);
                    (from < to).then(|| (from, to - from))
                })
                .collect();
            let count = free.iter().map(|(_, length)| *length).sum::<u32>();
            let mut reservation = self.reserve(count.into())?;
            for (first, length) in free {
                let _ = handle.modify_at_once(&frame, |bytes| set_run(bytes, first, length));
                claimed.push(self.run(part.group, first, length));
            }
            if count > 0 {
                state.descriptor.free_blocks = state.descriptor.free_blocks.saturating_sub(count);
                self.counters.free_blocks.fetch_sub(count.into(), Ordering::AcqRel);
                self.changed(part.group, &mut state, BitmapKind::Blocks);
                self.used(&mut reservation, count);
            }
        }
        Ok(claimed)
    }

    /// Marks an inode number as in use, unless it is. Its slot in the table keeps what it holds, or
    /// is zeroed where the table was never written.
    ///
    /// # Errors
    /// `NotFound` if the volume has no such inode; `Corrupt`; what the device returns.
    pub fn claim_inode(&self, handle: &Handle<'_>, ino: Ino, kind: InodeKind) -> Result<()> {
        let place = self.store.superblock.group_of_inode(ino);
        let (group, index) = place.ok_or(ErrorKind::NotFound)?;
        let (mut state, frame) = self.lock_to_change(handle, group, BitmapKind::Inodes)?;
        let bits = frame.bytes();
        if test(&bits, index) {
            return Ok(());
        }
        self.initialise_blocks(handle, &mut state, group)?;
        self.prepare_table(handle, &state, &bits, index);
        drop(bits);
        let _ = handle.modify_at_once(&frame, |bytes| set_run(bytes, index, 1));
        self.count_inode(&mut state, index, kind);
        self.changed(group, &mut state, BitmapKind::Inodes);
        Ok(())
    }
}
