//! A volume gets longer while it is used.
//!
//! ```text
//! a step: plan | what is past the old end | flush | one transaction | commit, checkpoint | copies
//! ```
//!
//! *Invariants*: a cut leaves the volume as it was or as it is after a step; all of the growth is
//! one step where the journal has room for it in one transaction. One thread grows it at a time.
//! *Locking*: none is held while another thread may want it: `growing` is asked for, never waited
//! for.
use super::Core;
use crate::error::{ErrorKind, Result};
use std::sync::atomic::Ordering;

impl Core {
    /// See [`Filesystem::grow`](crate::Filesystem::grow).
    pub(crate) fn grow(&self, blocks: u64) -> Result<()> {
        if self.growing.swap(true, Ordering::AcqRel) {
            return Err(ErrorKind::Busy.into());
        }
        let grown = self.grow_in_steps(blocks);
        self.growing.store(false, Ordering::Release);
        self.report(grown)
    }

    fn grow_in_steps(&self, blocks: u64) -> Result<()> {
        let volume = self.volume();
        while let Some(mut growth) = volume.space.plan_growth(blocks)? {
            volume.space.write_ahead(&mut growth)?;
            // The new end may be seen by the next program before anything of what is in it.
            volume.store.barrier.pass()?;
            let credits = growth.credits();
            volume.store.change(credits, |handle| volume.space.grow(handle, growth))?;
            volume.space.sync()?;
            // A kernel that replays it counts the groups before, by the superblock in its place.
            volume.store.checkpoint()?;
            volume.space.write_copies()?;
            volume.store.barrier.pass()?;
        }
        Ok(())
    }
}
