//! When dirty blocks are written, and by whom: pure functions of facts. `admission`, `flusher` and
//! `writeback` act; the [`DirtyBudget`] counts.
mod bdflush;
mod fraction;
mod global;
mod inline;
mod per_device;
mod proportional;
mod write_behind;

pub use bdflush::Bdflush;
pub use fraction::Fraction;
pub use global::Global;
pub use inline::Inline;
pub use per_device::PerDevice;
pub use proportional::Proportional;
pub use write_behind::WriteBehind;

/// The unit in which the systems of the posts count memory.
pub const PAGE_BYTES: u64 = 4096;
/// No write request is larger; no more than this is let through at once by a hard limit.
pub const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Bytes that are dirty in memory, in one of three ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Waiting for write-back.
    pub dirty_bytes: u64,
    /// Under write-back.
    pub writing_bytes: u64,
    /// Let through, and not dirty yet.
    pub pledged_bytes: u64,
}

impl Load {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.dirty_bytes.saturating_add(self.writing_bytes).saturating_add(self.pledged_bytes)
    }

    pub(crate) fn add(&mut self, other: Load) {
        self.dirty_bytes += other.dirty_bytes;
        self.writing_bytes += other.writing_bytes;
        self.pledged_bytes += other.pledged_bytes;
    }

    pub(crate) fn sub(&mut self, other: Load) {
        self.dirty_bytes = self.dirty_bytes.saturating_sub(other.dirty_bytes);
        self.writing_bytes = self.writing_bytes.saturating_sub(other.writing_bytes);
        self.pledged_bytes = self.pledged_bytes.saturating_sub(other.pledged_bytes);
    }
}

/// What a policy may know of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceFacts {
    /// What is dirty there.
    pub load: Load,
    /// Its part of the write-back that ended lately, on all devices.
    pub share: Fraction,
    /// Bytes a second that it writes, as seen lately.
    pub write_rate: u64,
    /// Bytes a second that each of its writers is allowed before its position counts: what
    /// [`Throttle::task_rate`] gave last.
    pub task_rate: u64,
    /// Writers that are held back there.
    pub waiting: u32,
}

/// What a policy may know of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskFacts {
    /// Its part of what was made dirty lately, by all.
    pub share: Fraction,
    /// Bytes on its account: made dirty since it was last told to proceed.
    pub dirtied_bytes: u64,
    /// Nanoseconds since then.
    pub since_ns: u64,
    /// Bytes that it is about to make dirty.
    pub wanted_bytes: u64,
    /// Bytes that it has written itself since it was stopped.
    pub written_bytes: u64,
    /// Nanoseconds since it was stopped.
    pub stopped_ns: u64,
}

/// What a policy may know when a writer asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriterFacts {
    /// Bytes of files and metadata that are dirty, on all devices that share the memory.
    pub dirty_bytes: u64,
    /// Bytes of memory that may hold them.
    pub memory_bytes: u64,
    /// The same with what is being written. Whole-file policies do not look at it.
    pub all: Load,
    /// The device that the writer writes to.
    pub device: DeviceFacts,
    /// The writer.
    pub task: TaskFacts,
}

/// What a writer has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterAdvice {
    /// Go on, with an account that is empty.
    Proceed,
    /// Go on; what was made dirty stays on the account.
    OnAccount,
    /// Go on; the flusher has work.
    WakeFlusher,
    /// Write so many bytes first, oldest first, and wait for them.
    WriteBack(u64),
    /// Start to write so many bytes of this device, oldest first, waiting only for room in its
    /// queue; then ask again.
    WriteOwn(u64),
    /// Sleep for so many nanoseconds, then ask again.
    Pause(u64),
    /// Wait until a write has ended on any device, or so many nanoseconds, then ask again.
    Wait(u64),
}

/// What a policy may know when a flusher asks what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlusherFacts {
    /// Nanoseconds of the clock.
    pub now: u64,
    /// As for writers.
    pub dirty_bytes: u64,
    /// As for writers.
    pub memory_bytes: u64,
    /// When the flusher last looked for old blocks.
    pub last_look: u64,
    /// As for writers.
    pub all: Load,
    /// The flusher's device: it writes nothing else.
    pub device: DeviceFacts,
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

/// How a policy's advice is asked for and followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// A writer is asked after each call, files are written whole, and full memory is written and
    /// let go.
    Whole,
    /// A writer is asked before each piece of a call, files are written piece by piece, and full
    /// memory lets go of what is clean: the limit alone decides how much is dirty.
    Pieces,
}

/// From where on the flusher works, and where writers stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The flusher works above so many bytes.
    pub background_bytes: u64,
    /// Writers stop above so many bytes.
    pub limit_bytes: u64,
}

impl Limits {
    /// Shares of the memory; the background is below the limit in any case.
    fn of(memory_bytes: u64, background_percent: u64, limit_percent: u64) -> Limits {
        let limit_bytes = percent(memory_bytes, limit_percent).max(PAGE_BYTES);
        let background_bytes = percent(memory_bytes, background_percent);
        Limits {
            background_bytes: if background_bytes < limit_bytes {
                background_bytes
            } else {
                limit_bytes / 2
            },
            limit_bytes,
        }
    }
}

/// What one device did in a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Period {
    /// Bytes that were made dirty.
    pub dirtied_bytes: u64,
    /// How long it was, in nanoseconds.
    pub length_ns: u64,
}

/// Decides when writers wait and what flushers write. Reads facts, touches nothing.
pub trait Throttle: Send + Sync {
    /// Whether a volume has a flusher of its own.
    fn has_flusher(&self) -> bool;
    /// What somebody has to do who has made blocks dirty, or is about to.
    fn writer(&self, facts: &WriterFacts) -> WriterAdvice;
    /// What a flusher has to do next.
    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice;
    /// How it is asked.
    fn manner(&self) -> Manner {
        Manner::Whole
    }
    /// The limits for so much memory.
    fn limits(&self, memory_bytes: u64) -> Limits {
        Limits::of(memory_bytes, 10, 40)
    }
    /// Bytes of one piece of a call, at most.
    fn piece_bytes(&self, _facts: &WriterFacts) -> u64 {
        u64::MAX
    }
    /// Bytes a second that each writer of a device is allowed from now on, after a period. Called
    /// while writers are held back.
    fn task_rate(&self, facts: &WriterFacts, _period: &Period) -> u64 {
        facts.device.task_rate
    }
}

/// A share of memory in percent.
fn percent(memory_bytes: u64, share: u64) -> u64 {
    memory_bytes / 100 * share
}

/// Whether a piece may be made dirty under a hard limit: there is room for it, or nothing of the
/// device is dirty, so that a device makes progress whatever others do. A part of the limit is kept
/// for metadata, which is not asked for piece by piece.
fn has_room(facts: &WriterFacts, limit_bytes: u64) -> bool {
    let total = facts.all.total().saturating_add(facts.task.wanted_bytes);
    total <= limit_bytes - limit_bytes / 64 || facts.device.load.total() == 0
}

/// A piece that a hard limit lets through often enough.
fn piece_under(limit_bytes: u64, piece_bytes: u64) -> u64 {
    let part = (limit_bytes / 16).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
    piece_bytes.min(part).min(REQUEST_BYTES_MAX)
}

/// The flushers of Linux 2.6 and later: every 5 s they write what is 30 s old. If `batch_bytes` is
/// given, because much is dirty or writers wait, they write that much at a time.
fn flusher_of_2_6(facts: &FlusherFacts, batch_bytes: Option<u64>) -> FlusherAdvice {
    const INTERVAL_NS: u64 = 5_000_000_000;
    const AGE_NS: u64 = 30_000_000_000;
    if facts.now.saturating_sub(facts.last_look) >= INTERVAL_NS {
        FlusherAdvice::WriteOlderThan(facts.now.saturating_sub(AGE_NS))
    } else if let Some(bytes) = batch_bytes.filter(|_| facts.device.load.dirty_bytes > 0) {
        FlusherAdvice::Write(bytes)
    } else {
        FlusherAdvice::SleepUntil(facts.last_look.saturating_add(INTERVAL_NS))
    }
}
