//! What the reads of a file that follow each other share: what policies see of them, and a window.
//!
//! *Invariants*: a window is used only while the inode has not been locked exclusively since it was
//! filled.
//! *Locking*: each lock is short, and none is held while another is taken.
use crate::policy::readahead::ReadStream;
use crate::ranks;
use extant_block::{Buffer, ShortLock};
use std::ops::Range;

/// What the reads through one open file remember of each other.
pub(crate) struct Stream {
    /// What policies see.
    pub(crate) reads: ShortLock<ReadStream>,
    /// What follows the last small read, if the host had it in memory.
    pub(crate) window: ShortLock<Option<Window>>,
    /// Bytes of the file for which the host is not asked again.
    pub(crate) pause: ShortLock<Range<u64>>,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            reads: ShortLock::ranked(ranks::LAST, ReadStream::default()),
            window: ShortLock::ranked(ranks::LAST, None),
            pause: ShortLock::ranked(ranks::LAST, 0..0),
        }
    }
}

/// A copy of a part of a file, which is kept for the reads that follow.
pub(crate) struct Window {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: Buffer,
    /// How often the inode had been locked exclusively when it was filled.
    pub(crate) exclusive_holds: u64,
}

impl Window {
    /// Copies what it has from an offset in the file on. Returns how many bytes.
    pub(crate) fn copy(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let start = offset.checked_sub(self.offset).and_then(|start| usize::try_from(start).ok());
        let Some(held) = start.and_then(|start| self.bytes.get(start..)) else { return 0 };
        let length = held.len().min(buffer.len());
        buffer[..length].copy_from_slice(&held[..length]);
        length
    }
}
