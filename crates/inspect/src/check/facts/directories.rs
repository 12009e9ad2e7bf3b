//! The directories that pass 1 finds, for pass 2.
//!
//! *Invariants*: the number of blocks is bounded by what the device can hold of them, whatever the
//! maps of directories claim.
//! *Locking*: one short lock around each list, held for a push.
use super::Facts;
use crate::check::codes::Code;
use crate::check::problem::Problem;
use extant_block::ShortLock;
use extant_format::{BlockNo, Ino};
use std::sync::OnceLock;

/// Bytes of directories that are judged on any device. Above them the device is asked how much data
/// it holds.
const UNASKED_BYTES: u64 = 64 << 20;

/// A block of a directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DirectoryBlock {
    /// Its place on the volume. First, so that sorted means by place.
    pub(crate) block: BlockNo,
    pub(crate) ino: Ino,
    pub(crate) file_block: u32,
    /// Of the inode: the checksums of its blocks depend on it.
    pub(crate) generation: u32,
}

/// The directories that were found.
#[derive(Default)]
pub(crate) struct Directories {
    blocks: ShortLock<Vec<DirectoryBlock>>,
    inline: ShortLock<Vec<Ino>>,
    /// Blocks that the device holds data in, once that was asked.
    held: OnceLock<u64>,
}

impl Directories {
    /// Adds a directory whose content is in its inode.
    pub(crate) fn add_inline(&self, ino: Ino) {
        self.inline.lock().push(ino);
    }

    /// Puts back what was taken.
    pub(crate) fn put_back(&self, blocks: &[DirectoryBlock], inline: &[Ino]) {
        self.blocks.lock().extend_from_slice(blocks);
        self.inline.lock().extend_from_slice(inline);
    }

    /// All blocks, by their place; leaves none.
    pub(crate) fn take_blocks(&self) -> Vec<DirectoryBlock> {
        let mut blocks = std::mem::take(&mut *self.blocks.lock());
        blocks.sort_unstable();
        blocks
    }

    /// All directories in inodes, rising; leaves none.
    pub(crate) fn take_inline(&self) -> Vec<Ino> {
        let mut inline = std::mem::take(&mut *self.inline.lock());
        inline.sort_unstable();
        inline
    }
}

impl Facts {
    /// Adds blocks of directories; empties the list. Reports when there are more than the device
    /// can hold: a block of a directory is not zeros.
    pub(crate) fn add_directory_blocks(&self, added: &mut Vec<DirectoryBlock>) {
        let most = self.volume.present_blocks().saturating_mul(2);
        let unasked = UNASKED_BYTES / self.volume.block_size() as u64;
        let after = (self.directories.blocks.lock().len() + added.len()) as u64;
        let most = match after > unasked {
            true => most.min(unasked.saturating_add(self.held_blocks().saturating_mul(2))),
            false => most,
        };
        let mut blocks = self.directories.blocks.lock();
        let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(blocks.len());
        let is_cut = room < added.len();
        blocks.extend(added.drain(..added.len().min(room)));
        drop(blocks);
        added.clear();
        if is_cut {
            // Which blocks are left out depends on which thread comes first.
            self.set_order_matters();
            self.report(Problem::new(Code::DirectoriesTooBig).found(most));
        }
    }

    /// Blocks that the device holds data in, about.
    fn held_blocks(&self) -> u64 {
        // What the device cannot say is no bound. When it fails, so does reading from it.
        let held = || self.volume.held_blocks().unwrap_or(u64::MAX);
        *self.directories.held.get_or_init(held)
    }
}
