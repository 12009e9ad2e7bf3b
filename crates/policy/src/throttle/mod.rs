//! When dirty blocks are written, and by which thread: pure functions of facts. `flush::admission`
//! and `flush::flusher` do what they say; the [`DirtyBudget`] counts.
mod bdflush;
mod bufdaemon;
mod fraction;
mod global;
mod inline;
mod kupdate;
mod per_device;
mod proportional;
mod write_behind;

pub use bdflush::Bdflush;
pub use bufdaemon::Bufdaemon;
pub use fraction::Fraction;
pub use global::Global;
pub use inline::Inline;
pub use kupdate::Kupdate;
pub use per_device::PerDevice;
pub use proportional::Proportional;
pub use write_behind::WriteBehind;

/// The unit in which the systems of the posts count memory, in bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Size of a write request at most, and of what a hard limit admits at once, in bytes.
pub const REQUEST_BYTES_MAX: u64 = extant_block::REQUEST_BYTES_MAX as u64;

/// Bytes that are dirty in memory, or are about to be, in one of three states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Not being written yet.
    pub dirty_bytes: u64,
    /// Being written.
    pub writing_bytes: u64,
    /// Admitted, and not dirty yet.
    pub pledged_bytes: u64,
}

impl Load {
    /// The sum of the three.
    pub fn total(&self) -> u64 {
        self.dirty_bytes.saturating_add(self.writing_bytes).saturating_add(self.pledged_bytes)
    }

    /// Adds each of the three.
    pub fn add(&mut self, other: Load) {
        self.dirty_bytes += other.dirty_bytes;
        self.writing_bytes += other.writing_bytes;
        self.pledged_bytes += other.pledged_bytes;
    }

    /// Takes each of the three away, down to 0.
    pub fn sub(&mut self, other: Load) {
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
    /// Its share of recently completed write-back on all devices.
    pub share: Fraction,
    /// How fast it has been writing lately, in bytes a second.
    pub write_rate: u64,
    /// The last result of [`Throttle::task_rate`]: how fast each of its writers may write before
    /// its position is taken into account, in bytes a second.
    pub task_rate: u64,
    /// How many of its writers are stopped.
    pub waiting: u32,
}

/// What a policy may know of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskFacts {
    /// Its share of what all writers made dirty lately.
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
    /// Size of a block of the volume, in bytes.
    pub block_bytes: u64,
    /// All three states, on all devices. Policies that write whole files do not use it.
    pub all: Load,
    /// The device that the writer writes to.
    pub device: DeviceFacts,
    /// The writer.
    pub task: TaskFacts,
}

/// What a writer has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterAdvice {
    /// Go on, with an empty account.
    Proceed,
    /// Go on; what was made dirty stays on the account.
    OnAccount,
    /// Go on; the flusher has work.
    WakeFlusher,
    /// First write this many bytes, oldest first, and wait for them.
    WriteBack(u64),
    /// Start to write this many bytes of this device, oldest first, waiting only for room in its
    /// queue; then ask again.
    WriteOwn(u64),
    /// Start to write this many bytes of what is dirty on this volume, oldest first, waiting only
    /// for room in the device's queue; then go on.
    StartOldest(u64),
    /// The same, wake the flusher, and wait until one write has ended; then go on.
    StartOldestAndWait(u64),
    /// Sleep for this many nanoseconds, then ask again.
    Pause(u64),
    /// Wait until a write has ended on any device, at most this many nanoseconds, then ask again.
    /// The flusher has work.
    Wait(u64),
}

/// What a policy may know when the flusher asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlusherFacts {
    /// Nanoseconds of the clock.
    pub now: u64,
    /// As for writers.
    pub dirty_bytes: u64,
    /// As for writers.
    pub memory_bytes: u64,
    /// As for writers.
    pub block_bytes: u64,
    /// When the flusher last looked for old blocks.
    pub last_look: u64,
    /// As for writers.
    pub all: Load,
    /// The flusher's device: it writes nothing else.
    pub device: DeviceFacts,
    /// Whether its last advice was to write because of how much is dirty.
    pub is_at_work: bool,
}

/// What a flusher has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlusherAdvice {
    /// Write this many bytes, oldest first, then ask again.
    Write(u64),
    /// The same, but files that are overwritten here and there can wait: more of what is next to
    /// it may come, and the same blocks again.
    WriteLong(u64),
    /// Write what became dirty before this time, then ask again.
    WriteOlderThan(u64),
    /// Start to write this many bytes, oldest first, as they became dirty, without storing inodes;
    /// then ask again.
    WriteOldest(u64),
    /// Store all changed inodes and descriptors into their blocks, then start to write what became
    /// dirty before this time, as [`FlusherAdvice::WriteOldest`] does; then ask again.
    Update(u64),
    /// Wait until at most this many bytes are being written, then ask again.
    WaitForWrites(u64),
    /// Sleep until this time, or until a writer wakes it.
    SleepUntil(u64),
}

/// In which order a sync writes what is dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncOrder {
    /// What changed, in the order of [`Manner`], each file with its inode.
    WithInodes,
    /// All dirty blocks by age, without waiting; then all changed inodes go into their table
    /// blocks, which are only marked dirty; then all blocks again, waiting. Where the volume has a
    /// journal, or writes data first, that would break its order: there it is `WithInodes`.
    BuffersThenInodes,
}

/// When a policy is asked, and in which units its advice is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// A writer asks after each call, and files are written whole. When memory is full, dirty pages
    /// are written before clean ones are dropped.
    Whole,
    /// A writer asks before each piece of a call, and files are written piece by piece. When memory
    /// is full, only clean pages are dropped: the limit alone decides how much is dirty.
    Pieces,
}

/// When the flusher works, and when writers stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The flusher works above this many dirty bytes.
    pub background_bytes: u64,
    /// Writers stop above this many dirty bytes.
    pub limit_bytes: u64,
}

impl Limits {
    /// Shares of the memory, with the background always below the limit.
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

/// What one device did during one period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Period {
    /// Bytes that were made dirty.
    pub dirtied_bytes: u64,
    /// How long it was, in nanoseconds.
    pub length_ns: u64,
}

/// Decides when writers wait and what flushers write. Reads facts and changes nothing.
pub trait Throttle: Send + Sync {
    /// Whether a volume has a flusher of its own.
    fn has_flusher(&self) -> bool {
        true
    }
    /// What a writer has to do that has made blocks dirty, or is about to.
    fn writer(&self, facts: &WriterFacts) -> WriterAdvice;
    /// What a flusher has to do next.
    fn flusher(&self, facts: &FlusherFacts) -> FlusherAdvice;
    /// When it is asked.
    fn manner(&self) -> Manner {
        Manner::Whole
    }
    /// In which order a sync writes.
    fn sync_order(&self) -> SyncOrder {
        SyncOrder::WithInodes
    }
    /// The limits for `memory_bytes` of memory.
    fn limits(&self, memory_bytes: u64) -> Limits {
        Limits::of(memory_bytes, 10, 40)
    }
    /// Size of a piece of a call, in bytes.
    fn piece_bytes(&self, _facts: &WriterFacts) -> u64 {
        u64::MAX
    }
    /// How fast each writer of a device may write from now on, in bytes a second. Called after a
    /// period in which writers were stopped.
    fn task_rate(&self, facts: &WriterFacts, _period: &Period) -> u64 {
        facts.device.task_rate
    }
}

/// A share of memory in percent.
fn percent(memory_bytes: u64, share: u64) -> u64 {
    memory_bytes / 100 * share
}

/// Whether a piece may be made dirty under a hard limit: there is room for it, or nothing of the
/// device is dirty, so that every device makes progress. 1/64 of the limit is kept for metadata,
/// which is not asked for piece by piece.
fn has_room(facts: &WriterFacts, limit_bytes: u64) -> bool {
    let total = facts.all.total().saturating_add(facts.task.wanted_bytes);
    total <= limit_bytes - limit_bytes / 64 || facts.device.load.total() == 0
}

/// Size of a piece that a hard limit admits often enough: a sixteenth of the limit at most.
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
