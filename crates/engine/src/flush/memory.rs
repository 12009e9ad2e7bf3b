//! Memory is kept within its bounds, and room is found.
use super::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::inode::write_back::write_back;
use crate::policy::throttle::Manner;

/// How often an operation that finds no room tries again after what was promised or held was
/// given back.
const ROOM_TRIES_MAX: u32 = 4;

/// Inodes that wait until the replacement of their names is durable, at most.
const REPLACED_MAX: usize = 1024;

impl Core {
    /// Does some work; when it finds no room, once more when what was promised on a guess to others
    /// has been settled, and what was freed may be used again.
    pub(crate) fn with_room<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        let is_full = |outcome: &Result<T>| {
            let full = |error: &Error| {
                matches!(error.kind, ErrorKind::NoSpace { .. } | ErrorKind::NoInodes)
            };
            outcome.as_ref().is_err_and(full)
        };
        let mut outcome = work();
        // Others may take what becomes free meanwhile, or be about to make more free.
        for _ in 0..ROOM_TRIES_MAX {
            let groups = &self.volume().space;
            let is_promised = groups.totals().reserved_blocks > 0 || groups.inodes_in_hand() > 0;
            let is_held = groups.holds_any() || !self.inodes.replaced.lock().is_empty();
            if !is_full(&outcome) || !is_promised && !is_held {
                break;
            }
            self.settle()?;
            if is_held {
                self.inodes.free_replaced()?;
                self.write_metadata()?;
            }
            outcome = work();
        }
        outcome
    }

    /// Keeps memory within its bounds, and asks the policy what a writer owes: called after
    /// operations, with no lock held.
    pub(crate) fn balance(&self) -> Result<()> {
        self.told(self.look_after_memory())
    }

    fn look_after_memory(&self) -> Result<()> {
        if self.volume().pages.is_crowded() {
            self.make_room()?;
        }
        if self.volume().store.cache.is_crowded() && self.is_writable() {
            self.write_metadata()?;
        }
        if self.inodes.replaced.lock().len() > REPLACED_MAX && self.is_writable() {
            self.inodes.free_replaced()?;
        }
        if self.is_writable() && self.volume().dirty_bytes() > 0 {
            self.throttle()?;
        }
        Ok(())
    }

    /// The same behind work that only looked. A failure is not dropped: that of a write has
    /// latched, and who asks to have everything written meets what could not be read again.
    pub(crate) fn balance_after_reading(&self) {
        let _ = self.balance();
    }

    /// Lets go of all pages that are clean; where no limit keeps what is dirty small, that is
    /// written first. After a failure what is dirty stays, and all else can still be read.
    fn make_room(&self) -> Result<()> {
        let writes = self.manner() == Manner::Whole;
        for node in self.inodes.nodes.all() {
            if writes && node.pages.is_dirty() && self.is_writable() {
                write_back(self.volume(), &node)?;
            }
            if node.pages.len() > 0 {
                let state = node.state.write();
                if writes {
                    node.pages.under_way.wait_for(&(0..u64::MAX));
                }
                node.pages.drop_clean(|block| state.dirty.contains(block.into()));
            }
        }
        Ok(())
    }
}
