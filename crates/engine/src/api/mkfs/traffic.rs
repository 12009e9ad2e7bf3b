//! How much mke2fs writes while it makes a volume, which it stores in the superblock
//! (`s_kbytes_written`).
//!
//! Single blocks go through a cache of eight blocks, so that one which is written twice within a
//! short time counts once; what is still in the cache when the superblock is made is not counted.
use extant_format::BlockNo;
use std::collections::VecDeque;

/// Blocks of the cache.
const KEPT: usize = 8;

/// What has been written so far.
pub(super) struct Traffic {
    block_size: u32,
    bytes: u64,
    /// The blocks in the cache, the one that was used last at the end; and whether it is to be
    /// written.
    kept: VecDeque<(BlockNo, Content)>,
}

/// What the cache has of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    AsOnDisk,
    Changed,
}

impl Traffic {
    pub(super) fn new(block_size: u32) -> Traffic {
        Traffic { block_size, bytes: 0, kept: VecDeque::with_capacity(KEPT) }
    }

    /// Bytes that went past the cache.
    pub(super) fn direct(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn write(&mut self, block: BlockNo) {
        self.used(block, Content::Changed);
    }

    pub(super) fn read(&mut self, block: BlockNo) {
        self.used(block, Content::AsOnDisk);
    }

    fn used(&mut self, block: BlockNo, content: Content) {
        let known = self.kept.iter().position(|(kept, _)| *kept == block);
        let before = known.and_then(|at| self.kept.remove(at)).map(|(_, content)| content);
        if self.kept.len() == KEPT
            && self.kept.pop_front().is_some_and(|(_, content)| content == Content::Changed)
        {
            self.bytes = self.bytes.saturating_add(self.block_size.into());
        }
        let changed = before == Some(Content::Changed) || content == Content::Changed;
        self.kept.push_back((block, if changed { Content::Changed } else { Content::AsOnDisk }));
    }

    /// KiB written, without what is in the cache.
    pub(super) fn kib(&self) -> u64 {
        self.bytes >> 10
    }
}
