//! Cutting unused blocks off the end of a volume.
use super::Space;
use super::bitmaps::BitmapKind;
use crate::error::{ErrorKind, Result};
use crate::handle::Handle;
use extant_format::bitmap::{clear_runs, set_run};
use extant_format::{BlockNo, GroupNo};
use std::sync::atomic::Ordering;

impl Space {
    /// The number of the block after the last one in use.
    pub fn used_end(&self) -> Result<u64> {
        for group in (0..self.group_count()).rev().map(GroupNo) {
            let length = self.limit(group, BitmapKind::Blocks);
            let runs = self.free_runs(group)?;
            let free_tail = match runs.last() {
                Some((start, free)) if start + free == length => *free,
                _ => 0,
            };
            if free_tail < length {
                let used = self.run(group, 0, length - free_tail);
                return Ok(used.start.0 + u64::from(used.length));
            }
        }
        Ok(self.store.superblock.first_data_block.into())
    }

    /// Makes the volume end at block `end`, which is in its last group. The blocks from there on
    /// have to be free.
    ///
    /// # Errors
    /// `InvalidArgument` if `end` is in another group or inside a cluster (bigalloc), or a block
    /// after it is in use.
    pub fn cut(&self, handle: &Handle<'_>, end: BlockNo) -> Result<()> {
        if !end.0.is_multiple_of(1 << self.unit_log2) {
            return Err(ErrorKind::InvalidArgument("a volume does not end in a cluster").into());
        }
        let last = GroupNo(self.group_count().saturating_sub(1));
        let start = self.store.superblock.group_start(last).0;
        let length = u64::from(self.limit(last, BitmapKind::Blocks));
        let keep = end.0.checked_sub(start).map(|blocks| self.units(blocks));
        let keep = keep.filter(|keep| *keep > 0 && *keep <= length);
        let keep =
            keep.ok_or(ErrorKind::InvalidArgument("a volume is cut within its last group"))? as u32;
        let gone = length as u32 - keep;
        if gone == 0 {
            return Ok(());
        }
        let (mut state, frame) = self.lock_to_change(handle, last, BitmapKind::Blocks)?;
        let is_free = {
            let bytes = frame.bytes();
            clear_runs(&bytes, length as u32)
                .last()
                .is_some_and(|(at, free)| at <= keep && at + free == length as u32)
        };
        if !is_free || u64::from(gone) > self.counters.available.load(Ordering::Acquire) {
            return Err(
                ErrorKind::InvalidArgument("what is cut off a volume has to be free").into()
            );
        }
        let _ = handle.modify_at_once(&frame, |bytes| set_run(bytes, keep, gone));
        state.descriptor.free_blocks = state.descriptor.free_blocks.saturating_sub(gone);
        self.counters.available.fetch_sub(gone.into(), Ordering::AcqRel);
        self.counters.free_blocks.fetch_sub(gone.into(), Ordering::AcqRel);
        self.changed(last, &mut state, BitmapKind::Blocks);
        Ok(())
    }
}
