//! How far ahead a stream is read: pure functions of what was read so far. `file` and `directory`
//! read what they say.
//!
//! ```text
//! linux24   linux26   clustered   on_demand   for blocks of files; on_demand for directories too
//! maps                                        for map blocks
//! ```
//!
//! When a file with blocks of 4 KiB is read one block at a time from its start, the read of the
//! block before the colon makes the policy ask for the blocks after it:
//!
//! ```text
//! 2.4         0: 1-3    1: 4-10   4: 11-23   11: 24-48   24: 49-80   49: 81-112 ...
//! 2.6         0: 1-3    1: 4-11   4: 12-27   12: 28-59   28: 60-91   60: 92-123 ...
//! clustered   0: 1      1: 2-3    2: 4-5      4: 6-9      6: 10-13   10: 14-21 ... up to 32
//! on-demand   0: 1-15   1: 16-79  16: 80-207  80: 208-463 208: 464-975 464: 976-1487 ...
//! ```
mod clustered;
mod linux24;
mod linux26;
mod maps;
mod on_demand;
#[cfg(test)]
mod tests;

pub use clustered::Clustered;
pub use linux24::Linux24;
pub use linux26::Linux26;
pub use maps::{Going, MapReadAhead, MissingMap, is_near};
pub use on_demand::OnDemand;

use std::ops::Range;

/// What a stream of reads remembers between two of them. Each policy uses the fields it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadStream {
    /// The block after the last one read; 0 at the beginning.
    pub next: u32,
    /// The first block of the current window.
    pub start: u32,
    /// Blocks of the current window; 0 if there is none.
    pub size: u32,
    /// A block in the current window. A read of it asks for the next window.
    pub mark: u32,
    /// The first block after everything that was asked for.
    pub ahead: u32,
    /// How many reads have been sequential, for policies that count them.
    pub streak: u32,
    /// How much was read without a jump, under every policy: for map blocks.
    pub going: Going,
}

/// A read of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// First block wanted.
    pub block: u32,
    /// How many blocks are wanted.
    pub count: u32,
    /// Blocks of the file: nothing after them is read.
    pub file_blocks: u32,
    /// Whether the first block is in memory already, or on its way.
    pub cached: bool,
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// The first byte of the file after the call that this read is a part of.
    pub call_end: u64,
}

/// How much of a window is read at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// All of it, wherever it is.
    Scattered,
    /// Only as far as it is contiguous on disk. The caller reports where that ends with
    /// [`ReadStream::cut`].
    Contiguous,
}

/// What happens to large reads (256 KiB and more) of what is not in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LargeReads {
    /// They are kept in memory.
    Keep,
    /// They go directly to the reader, and nothing is read ahead: each is long enough for a seek,
    /// and copying it through memory takes ten times as much CPU.
    Bypass,
}

/// Decides how far ahead a stream is read. Changes only the stream.
pub trait ReadAhead: Send + Sync {
    /// Called for each read before it is done. Returns what to read into memory besides what is
    /// wanted: a range that is not empty, comes after what is wanted, and is within the file; or
    /// `None`. The caller skips what is already in memory.
    fn window(&self, stream: &mut ReadStream, access: &Access) -> Option<Range<u32>>;

    /// How much of a window is read at once.
    fn reach(&self) -> Reach {
        Reach::Scattered
    }

    /// A longer read is split into parts of this many bytes, and the policy is asked for each.
    fn part_bytes(&self) -> u32 {
        128 << 10
    }

    /// What happens to large reads.
    fn large_reads(&self) -> LargeReads {
        LargeReads::Keep
    }
}

/// Reads what is wanted and no more.
pub struct None;

impl ReadAhead for None {
    fn window(&self, stream: &mut ReadStream, access: &Access) -> Option<Range<u32>> {
        stream.next = access.end();
        Option::None
    }

    fn part_bytes(&self) -> u32 {
        1 << 20
    }
}

/// Size of a page in bytes, the unit in which Linux counts windows.
const PAGE_BYTES: u32 = 4096;

impl Access {
    /// The first block after the read.
    pub fn end(&self) -> u32 {
        self.block.saturating_add(self.count)
    }

    /// How many blocks the call wants from the first one of this read on.
    fn blocks_of_call(&self) -> u32 {
        let end = self.call_end.div_ceil(u64::from(self.block_size.max(1)));
        u32::try_from(end.saturating_sub(self.block.into())).unwrap_or(u32::MAX)
    }

    /// How many blocks `bytes` fill; at least 1.
    fn blocks_of(&self, bytes: u32) -> u32 {
        (bytes / self.block_size.max(1)).max(1)
    }

    /// The part of a window that is after what is wanted and within the file.
    fn within_file(&self, window: Range<u32>) -> Option<Range<u32>> {
        let (start, end) = (window.start.max(self.end()), window.end.min(self.file_blocks));
        (start < end).then_some(start..end)
    }
}

impl ReadStream {
    /// Whether a read starts where the last one ended, or in its last block.
    fn continues(&self, access: &Access) -> bool {
        access.block == self.next || access.block.saturating_add(1) == self.next
    }

    /// Whether a read starts in what was asked for, or directly after it.
    fn covers(&self, access: &Access) -> bool {
        self.size > 0 && (self.start..=self.ahead).contains(&access.block)
    }

    /// Notes that a window was read only up to `end`: the next one starts there.
    pub fn cut(&mut self, end: u32) {
        self.ahead = self.ahead.min(end);
    }
}

/// The first window of a stream of Linux 2.6 for this read: two to four times as long as the read.
fn first_window(access: &Access, most: u32) -> u32 {
    let wanted = access.count.max(access.blocks_of(PAGE_BYTES)).min(most);
    let wanted = wanted.next_power_of_two();
    match wanted {
        _ if wanted <= most / 32 => wanted * 4,
        _ if wanted <= most / 4 => wanted * 2,
        _ => most,
    }
}

/// The window after one of `size` blocks in Linux 2.6: four times as long while it is short, then
/// twice.
fn next_window(size: u32, most: u32) -> u32 {
    let factor = if size < most / 16 { 4 } else { 2 };
    size.saturating_mul(factor).min(most)
}
