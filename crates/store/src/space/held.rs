//! Blocks and inodes that were freed and must not be reused yet, because something on disk may
//! still point to them.
//!
//! If a block is given to another file before the disk has forgotten its old owner, a power cut
//! leaves the new owner's bytes under the old one's name. So, with data first, what is freed counts
//! as free in the bitmap and in all counters, but every search skips it until the change that freed
//! it is durable:
//!
//! ```text
//!            free             publish            take_freed           reuse
//! (in use) --------> held ---------------> published ---------> taken -------> (free)
//!                     nothing in memory points     a sweep begins      it is durable
//!                     to it any more
//! ```
//!
//! Blocks that were placed for data and are in no map yet (`inode::placed`) are held in the same
//! way. They are counted as promised, not as held.
//!
//! *Invariants*: a held bit is clear in its bitmap. Held blocks are neither available nor promised.
//! *Locking*: the bits of a group are under that group's lock; `published` is a short lock under
//! which no other is taken.
use super::Space;
use crate::error::ErrorKind;
use crate::ranks;
use extant_block::ShortLock;
use extant_format::bitmap::{clear_run, next_clear, set_run};
use extant_format::{Ino, Run};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// When freed blocks may be allocated again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reuse {
    /// At once: nothing on disk ever pointed to them.
    AtOnce,
    /// Once the change that freed them is durable, if the volume writes data first.
    WhenDurable,
}

/// The held bits of one of a group's bitmaps.
#[derive(Default)]
pub(super) struct HeldBits {
    /// As long as the bitmap, or empty.
    bits: Vec<u8>,
    count: u32,
}

impl HeldBits {
    pub(super) fn hold(&mut self, bitmap_bytes: usize, first: u32, length: u32) {
        self.bits.resize(bitmap_bytes, 0);
        let _ = set_run(&mut self.bits, first, length);
        self.count = self.count.saturating_add(length);
    }

    /// How many bits are held.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Whether all of these are held.
    pub(super) fn holds(&self, first: u32, length: u32) -> bool {
        next_clear(&self.bits, first, first.saturating_add(length)).is_none()
    }

    pub(super) fn release(&mut self, first: u32, length: u32) {
        let _ = clear_run(&mut self.bits, first, length);
        self.count = self.count.saturating_sub(length);
        if self.count == 0 {
            self.bits = Vec::new();
        }
    }

    /// The bitmap as a search sees it, with held bits marked as used.
    pub(super) fn marked<'b>(&self, bitmap: &'b [u8]) -> Cow<'b, [u8]> {
        if self.count == 0 {
            return Cow::Borrowed(bitmap);
        }
        let marked = bitmap.iter().zip(&self.bits).map(|(used, held)| used | held);
        Cow::Owned(marked.collect())
    }
}

/// Freed, and pointed to by nothing in memory any more.
#[derive(Default)]
pub struct Freed {
    /// Blocks that may be given again.
    pub blocks: Vec<Run>,
    /// Inodes that may be given again.
    pub inodes: Vec<Ino>,
}

impl Freed {
    /// Whether it has neither blocks nor inodes.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.inodes.is_empty()
    }
}

/// Counts over all groups, and what waits for a sweep.
pub(super) struct Held {
    /// Number of held blocks.
    pub(super) blocks: AtomicU64,
    /// Number of held inodes.
    pub(super) inodes: AtomicU64,
    /// Freed by operations that have ended, and not taken by a sweep yet.
    published: ShortLock<Freed>,
    /// Whether the device is told of freed blocks (`discard`).
    discards: AtomicBool,
}

impl Default for Held {
    /// Nothing.
    fn default() -> Held {
        Held {
            blocks: AtomicU64::new(0),
            inodes: AtomicU64::new(0),
            published: ShortLock::ranked(ranks::LAST, Freed::default()),
            discards: AtomicBool::new(false),
        }
    }
}

impl Space {
    /// Leaves freed blocks to the next sweep: the operation has changed everything that pointed to
    /// them.
    pub fn publish_blocks(&self, blocks: Vec<Run>) {
        if !blocks.is_empty() {
            self.held.published.lock().blocks.extend(blocks);
        }
    }

    pub(super) fn publish_inode(&self, ino: Ino) {
        self.held.inodes.fetch_add(1, Ordering::AcqRel);
        self.held.published.lock().inodes.push(ino);
    }

    /// Takes what the sweep that begins now makes reusable.
    pub(crate) fn take_freed(&self) -> Freed {
        std::mem::take(&mut *self.held.published.lock())
    }

    /// Leaves what was taken to a later sweep, after a failure.
    pub(crate) fn put_back(&self, freed: Freed) {
        let mut published = self.held.published.lock();
        published.blocks.extend(freed.blocks);
        published.inodes.extend(freed.inodes);
    }

    /// Whether anything that was freed cannot be allocated yet.
    pub fn holds_any(&self) -> bool {
        self.held.blocks.load(Ordering::Acquire) > 0 || self.held.inodes.load(Ordering::Acquire) > 0
    }

    /// From now on the device is told of blocks that were freed, when that is durable.
    pub fn discard_from_now_on(&self) {
        self.held.discards.store(true, Ordering::Release);
    }

    /// Gives freed blocks back to the device before they can be allocated again. A device that can
    /// do nothing with that is not told again; other failures are no harm: nothing points to them.
    fn discard_freed(&self, run: Run) {
        if !self.held.discards.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = self.store.discard(run)
            && matches!(error.kind, ErrorKind::OperationUnsupported(_))
        {
            self.held.discards.store(false, Ordering::Release);
        }
    }

    /// Makes blocks and inodes available again: on disk nothing points to them any more.
    pub fn reuse(&self, freed: Freed) {
        for run in freed.blocks {
            self.discard_freed(self.whole_units(run));
            // They are inside the volume: freeing them has checked that.
            for part in self.parts(run).unwrap_or_default() {
                let mut state = self.state(part.group).lock();
                state.held_blocks.release(part.first, part.length);
                state.may_have_joined(part.length);
                drop(state);
                self.held.blocks.fetch_sub(part.length.into(), Ordering::AcqRel);
                self.counters.available.fetch_add(part.length.into(), Ordering::AcqRel);
            }
        }
        for ino in freed.inodes {
            if let Some((group, index)) = self.store.superblock.group_of_inode(ino) {
                let mut state = self.state(group).lock();
                state.held_inodes.release(index, 1);
                state.free_inodes_from = state.free_inodes_from.min(index);
                drop(state);
                self.held.inodes.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}
