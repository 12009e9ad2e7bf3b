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

    /// A block was written through the cache.
    pub(super) fn write(&mut self, block: BlockNo) {
        if let Some(known) = self.kept.iter().position(|(kept, _)| *kept == block) {
            self.kept.remove(known);
        }
        if self.kept.len() == KEPT
            && self.kept.pop_front().is_some_and(|(_, content)| content == Content::Changed)
        {
            self.bytes = self.bytes.saturating_add(self.block_size.into());
        }
        self.kept.push_back((block, Content::Changed));
    }

    /// All that is in the cache is written, and stays there.
    pub(super) fn flush(&mut self) {
        for (_, content) in &mut self.kept {
            if std::mem::replace(content, Content::AsOnDisk) == Content::Changed {
                self.bytes = self.bytes.saturating_add(self.block_size.into());
            }
        }
    }

    /// KiB written, without what is in the cache.
    pub(super) fn kib(&self) -> u64 {
        self.bytes >> 10
    }
}
