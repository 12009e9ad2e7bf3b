//! How far ahead a stream is read: pure functions of what was read so far. `file` acts.
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
    /// When a read comes to this block, the next window is asked for: it lies inside the present one.
    pub mark: u32,
    /// The first block behind everything that was asked for.
    pub ahead: u32,
    /// How many reads in a row missed what had been read ahead, or hit it: for policies that learn.
    pub misses: u32,
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
    /// Whether the first block is in memory already.
    pub cached: bool,
    /// Bytes of a block.
    pub block_size: u32,
}

/// Decides how far ahead a stream is read. Touches nothing but the stream.
pub trait ReadAhead: Send + Sync {
    /// Told of each read before it is done. What to read into memory besides what is wanted; `None` for nothing. What is in
    /// memory already is left out by the caller.
    fn window(&self, stream: &mut Stream, access: &Access) -> Option<Range<u32>>;
}

/// What is asked for, and no more.
pub struct None;

impl ReadAhead for None {
    fn window(&self, stream: &mut Stream, access: &Access) -> Option<Range<u32>> {
        stream.next = access.block.saturating_add(access.count);
        Option::None
    }
}
