//! Free blocks are given back to the device (`fstrim`).
//!
//! Only blocks that may be allocated at once are given back: what was freed and is held, since
//! something on disk may still point to it, is not, and neither are blocks that are placed.
//!
//! *Invariants*: while the device works, the blocks are held and promised, so that no file gets
//! them, and no more is promised to others than there is.
//! *Locking*: a group is locked while a run is looked for, and not while the device works.
use super::Space;
use super::bitmaps::BitmapKind;
use crate::error::Result;
use extant_format::bitmap::clear_runs;
use extant_format::{BlockNo, GroupNo};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks that are held at a time, at most: others may want them.
const HELD_BLOCKS_MAX: u32 = 8192;

impl Space {
    /// Gives free blocks of a range back to the device, in runs of at least `minimum` blocks.
    /// Returns how many blocks.
    ///
    /// # Errors
    /// Those of [`Store::discard`](crate::Store::discard); of reading a bitmap.
    pub fn trim(&self, blocks: Range<u64>, minimum: u32) -> Result<u64> {
        let mut trimmed = 0;
        for group in (0..self.group_count()).map(GroupNo) {
            let start = self.store.superblock.group_start(group).0;
            let limit = u64::from(self.limit(group, BitmapKind::Blocks));
            // Whole units that are inside the range.
            let first = self.units(blocks.start.saturating_sub(start)).min(limit);
            let end = self.bit(group, BlockNo(blocks.end)).min(limit);
            let (Ok(first), Ok(end)) = (u32::try_from(first), u32::try_from(end)) else { continue };
            trimmed += self.trim_group(group, first..end, self.units_of(minimum))?;
        }
        Ok(trimmed)
    }

    fn trim_group(&self, group: GroupNo, mut bits: Range<u32>, minimum: u32) -> Result<u64> {
        let mut trimmed = 0;
        // The end of a run that is long enough, of which a part was given back.
        let mut long_until = 0;
        while bits.start < bits.end {
            if self.state(group).lock().free_to_give() == 0 {
                break;
            }
            let mut state = self.lock_loaded(group, BitmapKind::Blocks)?;
            let bytes = match state.slot(BitmapKind::Blocks) {
                Some(frame) => frame.bytes(),
                None => Arc::new(self.uninitialised(group, BitmapKind::Blocks)),
            };
            let seen = state.held_blocks.marked(&bytes);
            let found = clear_runs(&seen, bits.end)
                .map(|(first, length)| first.max(bits.start)..first + length)
                .find(|run| !run.is_empty());
            drop(seen);
            let Some(run) = found else { break };
            bits.start = run.end;
            if run.end > long_until && run.end - run.start < minimum {
                continue;
            }
            long_until = run.end;
            let available = self.counters.available.load(Ordering::Acquire);
            let most = u32::try_from(available / 2).unwrap_or(u32::MAX).min(HELD_BLOCKS_MAX);
            let length = (run.end - run.start).min(most);
            // What is promised to others, to the last block, is left alone.
            if length == 0 {
                continue;
            }
            let Ok(promised) = self.reserve(length.into()) else { continue };
            state.held_blocks.hold(self.store.block_size() as usize, run.start, length);
            drop(state);
            bits.start = run.start + length;
            let held = self.run(group, run.start, length);
            let outcome = self.store.discard(held);
            self.unplace(held);
            drop(promised);
            outcome?;
            trimmed += u64::from(held.length);
        }
        Ok(trimmed)
    }
}
