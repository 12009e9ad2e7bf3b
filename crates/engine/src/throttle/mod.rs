//! When dirty blocks are written, and by whom: pure functions of facts. `writeback` acts.
mod bdflush;
mod inline;
mod write_behind;

pub use bdflush::Bdflush;
pub use inline::Inline;
pub use write_behind::WriteBehind;

/// What a policy may know when a writer has made blocks dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterFacts {
    /// Bytes of files and metadata that are dirty, on all devices that share the memory.
    pub dirty_bytes: u64,
    /// Bytes of memory that may hold them.
    pub memory_bytes: u64,
}

/// What a writer has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterAdvice {
    /// Go on.
    Proceed,
    /// Go on; the flusher has work.
    WakeFlusher,
    /// Write so many bytes first, oldest first, and wait for them.
    WriteBack(u64),
    /// Sleep for so many nanoseconds, then ask again.
    Pause(u64),
}

/// What a policy may know when a flusher asks what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlusherFacts {
    /// Nanoseconds of the clock.
    pub now: u64,
    /// As for writers.
    pub dirty_bytes: u64,
    /// As for writers.
    pub memory_bytes: u64,
    /// When the flusher last looked for old blocks.
    pub last_look: u64,
}

/// What a flusher has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlusherAdvice {
    /// Write so many bytes, oldest first, then ask again.
    Write(u64),
    /// Write what became dirty before this time, then ask again.
    WriteOlderThan(u64),
    /// Sleep until this time, or until a writer wakes it.
    SleepUntil(u64),
}

/// Decides when writers wait and what flushers write. Reads facts, touches nothing.
pub trait Throttle: Send + Sync {
    /// Whether a volume has a flusher of its own.
    fn has_flusher(&self) -> bool;
    /// What somebody has to do who has made blocks dirty.
    fn writer(&self, facts: &WriterFacts) -> WriterAdvice;
    /// What a flusher has to do next.
    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice;
}

/// A share of memory in percent.
fn percent(memory_bytes: u64, share: u64) -> u64 {
    memory_bytes / 100 * share
}
