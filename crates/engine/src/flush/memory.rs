//! Memory is kept within its bounds, and room on the volume is found.
use super::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::inode::Node;
use crate::inode::file::{self, Done};
use crate::inode::pages::{Share, Stream};
use crate::inode::write_back::{Wait, write_back};
use crate::policy::throttle::Manner;
use crate::store::DataKeeping;
use crate::store::budget::Pledge;

/// How often at most an operation that finds no room is tried again after room was given back.
const ROOM_TRIES_MAX: u32 = 4;

/// How often at most memory is asked for again after some was given back: other threads may have
/// taken that. Then a call goes on without, since nobody may wait for memory for ever.
const MEMORY_TRIES_MAX: u32 = 3;

/// Inodes kept at most until the replacement of their names is durable.
const REPLACED_MAX: usize = 1024;

impl Core {
    /// Does some work. If it finds no room, tries again after giving back what was promised to
    /// other files and making what was freed reusable.
    pub(crate) fn with_room<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        let is_full = |outcome: &Result<T>| {
            let full = |error: &Error| {
                matches!(error.kind, ErrorKind::NoSpace { .. } | ErrorKind::NoInodes)
            };
            outcome.as_ref().is_err_and(full)
        };
        let mut outcome = work();
        // Other threads may use room that was given back, or be about to give back more.
        for _ in 0..ROOM_TRIES_MAX {
            if !is_full(&outcome) {
                break;
            }
            let groups = &self.volume().space;
            let is_promised = groups.totals().reserved_blocks > 0 || groups.inodes_in_hand() > 0;
            self.inodes.free_values()?;
            let is_held = groups.holds_any() || !self.inodes.replaced.lock().is_empty();
            if !is_promised && !is_held {
                // Another thread may have given back what it held after the last try, as the
                // flusher does for what it has written: this try sees all of that.
                return work();
            }
            self.submit_dirty()?;
            self.inodes.enter_maps(Wait::ForAll)?;
            if is_held {
                self.inodes.free_replaced()?;
                self.write_metadata()?;
            }
            outcome = work();
        }
        outcome
    }

    /// Keeps memory within its bounds, and does what the policy asks of a writer. Called after
    /// operations, with no lock held.
    pub(crate) fn balance(&self) -> Result<()> {
        self.report(self.check_memory())
    }

    fn check_memory(&self) -> Result<()> {
        if self.volume().pages.is_crowded() {
            self.make_room()?;
        }
        if self.volume().store.cache.is_crowded() && self.is_writable() {
            self.write_metadata()?;
        }
        if self.volume().store.cache.is_full() {
            self.make_room_for_frames()?;
        }
        if self.inodes.nodes.is_crowded() {
            self.make_room_for_nodes()?;
        }
        if self.inodes.replaced.lock().len() > REPLACED_MAX && self.is_writable() {
            self.inodes.free_replaced()?;
        }
        self.inodes.free_values()?;
        if self.is_writable() && self.volume().dirty_bytes() > 0 {
            self.throttle()?;
        }
        Ok(())
    }

    /// As `balance`, after a call that only read. Its errors need not be reported here: a failed
    /// write has closed the latch, and the next sync fails on what could not be read.
    pub(crate) fn balance_after_reading(&self) {
        let _ = self.balance();
    }

    /// Takes memory for blocks of files that a call is about to bring, `bytes` of them, until what
    /// is returned is dropped. If there is not enough, drops clean pages; if that does not help,
    /// writes dirty ones first. Called with no lock held. After a failure dirty pages stay, and
    /// everything else can still be read, whatever that takes.
    ///
    /// # Errors
    /// What a write-back meets.
    pub(crate) fn take_memory(&self, bytes: usize) -> Result<Share> {
        let pages = &self.volume().pages;
        if pages.data == DataKeeping::Phantom {
            return Ok(Share::default());
        }
        let bytes = bytes.min(pages.held.piece_bytes() * 2);
        for _ in 0..MEMORY_TRIES_MAX {
            if let Some(share) = pages.held.take(bytes) {
                return Ok(share);
            }
            self.report(self.drop_pages(bytes))?;
        }
        Ok(pages.held.take(bytes).unwrap_or_else(|| Share::new(&pages.held, bytes)))
    }

    /// How much of a call that has `left` bytes to read or write at this offset is brought into
    /// memory before memory is asked for again. It ends at the end of a block.
    pub(crate) fn piece_in_memory(&self, offset: u64, left: usize) -> usize {
        let pages = &self.volume().pages;
        let block = u64::from(self.volume().store.block_size());
        let most = (pages.held.piece_bytes() as u64).max(block);
        if pages.data == DataKeeping::Phantom || left as u64 <= most {
            return left;
        }
        let end = offset.saturating_add(most);
        let piece = (end - end % block).saturating_sub(offset).max(1);
        usize::try_from(piece).unwrap_or(usize::MAX).min(left)
    }

    /// Reads as [`file::read`] does, no more at once than memory is asked for.
    pub(crate) fn read_in_pieces(
        &self,
        node: &Node,
        stream: &Stream,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<Done> {
        let mut all = Done { bytes: 0, is_access_due: false };
        loop {
            let at = offset.saturating_add(all.bytes as u64);
            let piece = self.piece_in_memory(at, buffer.len() - all.bytes);
            // Beside it, what is read ahead. A failure to write has closed the latch; what is asked
            // for can be read nevertheless.
            let memory = self.take_memory(piece.saturating_mul(2));
            let part = &mut buffer[all.bytes..all.bytes + piece];
            let read = file::read(self.volume(), node, stream, at, part);
            drop(memory);
            // Fewer bytes than asked would mean that the file ends there.
            let done = read?;
            all.is_access_due |= done.is_access_due;
            all.bytes += done.bytes;
            if done.bytes < piece || all.bytes == buffer.len() {
                return Ok(all);
            }
        }
    }

    /// Waits until `bytes` of a file may be made dirty, and takes memory for them.
    ///
    /// # Errors
    /// As for [`Core::admit`]; what a write-back meets.
    pub(crate) fn admit_bytes(&self, bytes: usize) -> Result<(Share, Pledge<'_>)> {
        let share = self.take_memory(bytes)?;
        Ok((share, self.admit(bytes as u64)?))
    }

    fn drop_pages(&self, bytes: usize) -> Result<()> {
        let pages = &self.volume().pages;
        pages.note_checked();
        self.make_room()?;
        // A little more than is needed now, so that the next call need not do this again.
        if pages.held.is_full(bytes + pages.held.bytes_max() / 8) && self.is_writable() {
            self.submit_dirty()?;
            self.volume().store.writes.wait()?;
            self.make_room()?;
        }
        Ok(())
    }

    /// Evicts blocks of metadata. What is committed is brought to its place for that, and then what
    /// is dirty: the threads that do so in the background may be late.
    fn make_room_for_frames(&self) -> Result<()> {
        let store = &self.volume().store;
        store.cache.shrink();
        if store.cache.is_full() && self.is_writable() {
            store.checkpoint()?;
            store.cache.shrink();
        }
        if store.cache.is_full() && self.is_writable() {
            self.write_metadata()?;
            store.checkpoint()?;
            store.cache.shrink();
        }
        Ok(())
    }

    /// Writes what keeps inodes in memory, and evicts them. Small files are many inodes before they
    /// are much data: those that wait for their maps to be entered do not even count as dirty.
    fn make_room_for_nodes(&self) -> Result<()> {
        self.inodes.nodes.begin_to_make_room();
        let written = match self.is_writable() {
            true => self.submit_dirty().and_then(|()| {
                self.volume().store.writes.wait()?;
                self.inodes.enter_maps(Wait::ForAll)
            }),
            false => Ok(()),
        };
        self.inodes.nodes.make_room(self.volume());
        written
    }

    /// Drops all clean pages. If no limit keeps the amount of dirty pages small, writes these
    /// first. After a failure dirty pages stay, and everything else can still be read.
    fn make_room(&self) -> Result<()> {
        let writes = self.manner() == Manner::Whole;
        for node in self.inodes.nodes.with_pages() {
            if writes && node.pages.is_dirty() && self.is_writable() {
                write_back(self.volume(), &node)?;
            }
            if !node.pages.is_empty() {
                let state = node.state.write();
                if writes {
                    node.pages.under_way.wait_for(&(0..u64::MAX));
                }
                node.pages.drop_clean(&state.dirty);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::checkpoint_tests::{formatted, options};
    use super::ErrorKind;
    use crate::Filesystem;
    use extant_block::RealClock;
    use std::cell::Cell;

    /// Another thread gives back what it held after the first try and before the look at what is
    /// promised: nothing is promised then, and there is room.
    #[test]
    fn room_that_is_given_back_between_try_and_look_is_found() {
        let filesystem = Filesystem::open(formatted(RealClock::new()), &options()).unwrap();
        let tries = Cell::new(0);
        let found = filesystem.core.with_room(|| match tries.replace(tries.get() + 1) {
            0 => Err(ErrorKind::NoSpace { wanted_blocks: 1, free_blocks: 0 }.into()),
            _ => Ok(()),
        });
        assert!(found.is_ok(), "{found:?}");
        let full = filesystem.core.with_room(|| {
            tries.set(tries.get() + 1);
            Err::<(), _>(ErrorKind::NoSpace { wanted_blocks: 1, free_blocks: 0 }.into())
        });
        assert!(full.is_err());
        assert_eq!(tries.get(), 4, "a full volume is tried twice");
        filesystem.close().unwrap();
    }
}
