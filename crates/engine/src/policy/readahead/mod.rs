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
//! 2.4         0: 1-3    1: 4-9    4: 10-21   10: 22-45   22: 46-76   46: 77-107 ...
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
pub use maps::{Going, MapReadAhead};
pub use on_demand::OnDemand;

use std::ops::Range;

/// What a stream of reads remembers between two of them. Policies keep in it what they need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stream {
    /// The block behind the last one read; 0 at the beginning.
    pub next: u32,
    /// Where the present window begins and how many blocks it has; 0 where there is none.
    pub start: u32,
    /// See above.
    pub size: u32,
    /// When a read comes to this block, the next window is asked for: it lies inside the present
    /// one.
    pub mark: u32,
    /// The first block behind everything that was asked for.
    pub ahead: u32,
    /// How long reads have gone on where the ones before ended: for policies that count.
    pub streak: u32,
    /// How long it has gone on, whatever the policy: for map blocks.
    pub going: Going,
}

/// A read of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// First block wanted.
    pub block: u32,
    /// How many.
    pub count: u32,
    /// Blocks of the file: nothing behind is asked for.
    pub file_blocks: u32,
    /// Whether the first block is in memory already, or on its way.
    pub cached: bool,
    /// Bytes of a block.
    pub block_size: u32,
}

/// How much of a window is read at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// All of it, wherever it lies.
    Scattered,
    /// No more than lies in one piece on the disk. The stream is told where that ended:
    /// [`Stream::cut`].
    Contiguous,
}

/// What happens to large reads (256 KiB and more) of what is not in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LargeReads {
    /// They pass through memory, and are found there again.
    Keep,
    /// They go straight to the reader, and nothing is read behind them: each is long enough for the
    /// price of a seek, and to copy it through memory costs ten times the CPU.
    Bypass,
}

/// Decides how far ahead a stream is read. Touches nothing but the stream.
pub trait ReadAhead: Send + Sync {
    /// Told of each read before it is done. What to read into memory besides what is wanted: never
    /// empty, behind what is wanted and within the file; `None` for nothing. What is in memory
    /// already is left out by the caller.
    fn window(&self, stream: &mut Stream, access: &Access) -> Option<Range<u32>>;

    /// How much of a window is read at once.
    fn reach(&self) -> Reach {
        Reach::Scattered
    }

    /// A longer read is taken in parts of so many bytes; the policy is asked for each.
    fn part_bytes(&self) -> u32 {
        128 << 10
    }

    /// What happens to large reads.
    fn large_reads(&self) -> LargeReads {
        LargeReads::Keep
    }
}

/// What is asked for, and no more.
pub struct None;

impl ReadAhead for None {
    fn window(&self, stream: &mut Stream, access: &Access) -> Option<Range<u32>> {
        stream.next = access.end();
        Option::None
    }

    fn part_bytes(&self) -> u32 {
        1 << 20
    }
}

/// Bytes of a page: the unit in which windows were counted.
const PAGE_BYTES: u32 = 4096;

impl Access {
    /// The first block behind it.
    pub fn end(&self) -> u32 {
        self.block.saturating_add(self.count)
    }

    /// How many blocks hold so many bytes; at least 1.
    fn blocks_of(&self, bytes: u32) -> u32 {
        (bytes / self.block_size.max(1)).max(1)
    }

    /// The part of a window that lies behind what is wanted and within the file.
    fn within_file(&self, window: Range<u32>) -> Option<Range<u32>> {
        let (start, end) = (window.start.max(self.end()), window.end.min(self.file_blocks));
        (start < end).then_some(start..end)
    }
}

impl Stream {
    /// Whether a read goes on where the last one ended, or in the block in which it ended.
    fn continues(&self, access: &Access) -> bool {
        access.block == self.next || access.block.saturating_add(1) == self.next
    }

    /// Whether a read begins in what was asked for, or right behind it.
    fn covers(&self, access: &Access) -> bool {
        self.size > 0 && (self.start..=self.ahead).contains(&access.block)
    }

    /// A window was read up to here only: the next one begins here.
    pub fn cut(&mut self, end: u32) {
        self.ahead = self.ahead.min(end);
    }
}

/// The first window of a stream of Linux 2.6, for a read of so many blocks: two to four times the
/// read.
fn first_window(access: &Access, most: u32) -> u32 {
    let wanted = access.count.max(access.blocks_of(PAGE_BYTES)).min(most);
    let wanted = wanted.next_power_of_two();
    match wanted {
        _ if wanted <= most / 32 => wanted * 4,
        _ if wanted <= most / 4 => wanted * 2,
        _ => most,
    }
}

/// The window behind one of so many blocks, in Linux 2.6: four times as long while it is short,
/// then twice.
fn next_window(size: u32, most: u32) -> u32 {
    let factor = if size < most / 16 { 4 } else { 2 };
    size.saturating_mul(factor).min(most)
}
