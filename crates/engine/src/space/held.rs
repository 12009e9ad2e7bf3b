//! What was freed and may not be given again yet: something on the disk may still lead to it.
//!
//! A block that is given to another file before the disk has forgotten its old owner would show the
//! new owner's bytes under the old one's name after a power cut. So, where data comes first, what
//! is freed is free in the bitmap and in all counts, and held back from every search, until the
//! change that freed it is durable:
//!
//! ```text
//! free ---> held ---- the inode is stored: published ---> a sweep begins: taken ---> it is durable: reused
//! ```
//!
//! *Invariants*: a held bit is clear in its bitmap; the blocks that are held are neither available
//! nor promised. *Locking*: bits of a group under that group's lock; what is published under a
//! short lock that is last.
use super::Space;
use crate::ranks;
use extant_block::ShortLock;
use extant_format::bitmap::{clear_run, set_run};
use extant_format::{Ino, Run};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether what is freed may be given to somebody else at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reuse {
    /// Nothing on the disk ever led to it.
    AtOnce,
    /// When the change that freed it is durable, if the volume keeps that order.
    WhenDurable,
}

/// Bits of a group that are held.
#[derive(Default)]
pub(super) struct HeldBits {
    /// As long as a bitmap, or empty.
    bits: Vec<u8>,
    count: u32,
}

impl HeldBits {
    pub(super) fn hold(&mut self, bitmap_bytes: usize, first: u32, length: u32) {
        self.bits.resize(bitmap_bytes, 0);
        let _ = set_run(&mut self.bits, first, length);
        self.count = self.count.saturating_add(length);
    }

    fn release(&mut self, first: u32, length: u32) {
        let _ = clear_run(&mut self.bits, first, length);
        self.count = self.count.saturating_sub(length);
        if self.count == 0 {
            self.bits = Vec::new();
        }
    }

    /// A bitmap as a search sees it: what is held is marked as used.
    pub(super) fn marked<'b>(&self, bitmap: &'b [u8]) -> Cow<'b, [u8]> {
        if self.count == 0 {
            return Cow::Borrowed(bitmap);
        }
        let marked = bitmap.iter().zip(&self.bits).map(|(used, held)| used | held);
        Cow::Owned(marked.collect())
    }
}

/// What was freed by operations that have ended.
#[derive(Default)]
pub(crate) struct Freed {
    pub(crate) blocks: Vec<Run>,
    pub(crate) inodes: Vec<Ino>,
}

impl Freed {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.inodes.is_empty()
    }
}

/// What all groups together hold.
pub(super) struct Held {
    /// Blocks that are held.
    pub(super) blocks: AtomicU64,
    /// Inodes that are held.
    pub(super) inodes: AtomicU64,
    /// Freed by operations that have ended, and not taken by a sweep yet.
    published: ShortLock<Freed>,
}

impl Default for Held {
    /// Nothing.
    fn default() -> Held {
        Held {
            blocks: AtomicU64::new(0),
            inodes: AtomicU64::new(0),
            published: ShortLock::ranked(ranks::LAST, Freed::default()),
        }
    }
}

impl Space {
    /// An operation that freed these blocks has changed everything that led to them.
    pub(crate) fn publish_blocks(&self, blocks: Vec<Run>) {
        if !blocks.is_empty() {
            self.held.published.lock().blocks.extend(blocks);
        }
    }

    pub(super) fn publish_inode(&self, ino: Ino) {
        self.held.inodes.fetch_add(1, Ordering::AcqRel);
        self.held.published.lock().inodes.push(ino);
    }

    /// What a sweep that begins now makes fit for use.
    pub(crate) fn take_freed(&self) -> Freed {
        std::mem::take(&mut *self.held.published.lock())
    }

    /// Leaves what was taken to a later sweep.
    pub(crate) fn put_back(&self, freed: Freed) {
        let mut published = self.held.published.lock();
        published.blocks.extend(freed.blocks);
        published.inodes.extend(freed.inodes);
    }

    /// Whether anything that was freed cannot be given yet.
    pub(crate) fn holds_any(&self) -> bool {
        self.held.blocks.load(Ordering::Acquire) > 0 || self.held.inodes.load(Ordering::Acquire) > 0
    }

    /// The disk has forgotten that these were in use.
    pub(crate) fn reuse(&self, freed: Freed) {
        for run in freed.blocks {
            // They lie inside the volume: they were freed.
            for part in self.parts(run).unwrap_or_default() {
                let mut state = self.state(part.group).lock();
                state.held_blocks.release(part.first, part.length);
                state.may_have_joined(part.length);
                drop(state);
                self.held.blocks.fetch_sub(part.length.into(), Ordering::AcqRel);
                self.available.fetch_add(part.length.into(), Ordering::AcqRel);
            }
        }
        for ino in freed.inodes {
            if let Some((group, index)) = self.store.superblock.group_of_inode(ino) {
                self.state(group).lock().held_inodes.release(index, 1);
                self.held.inodes.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}
