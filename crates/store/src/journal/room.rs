//! How much one transaction may hold. Operations say what they need at most before they begin, so
//! that a transaction always fits into the log.
//!
//! *Invariants*: `credits` is the sum of what the open handles were granted. A transaction is
//! at most a quarter of the log and half of the cache, plus what open handles asked for in the
//! middle of their work.
use super::Log;
use std::sync::atomic::Ordering;

impl Log {
    /// Grants an operation that begins this many blocks. Fails if the running transaction has no
    /// room for them, beside its `dirty` blocks; an empty one always has.
    #[must_use]
    pub(crate) fn try_join(&self, credits: u32, dirty: u64) -> bool {
        let granted = self.credits.fetch_update(Ordering::AcqRel, Ordering::Acquire, |granted| {
            let used = dirty.saturating_add(granted.into());
            let fits = used.saturating_add(credits.into()) <= self.transaction_max;
            (fits || used == 0).then(|| granted.saturating_add(credits))
        });
        granted.is_ok()
    }

    /// Grants blocks to an operation that cannot wait for room.
    pub(crate) fn join(&self, credits: u32) {
        self.change_credits(|granted| granted.saturating_add(credits));
    }

    /// Blocks that an operation may change which does not wait for room: with a transaction that is
    /// full they fit into the log.
    pub(crate) fn operation_max(&self) -> u64 {
        self.log_blocks() / 2
    }

    /// Takes back what was granted.
    pub(crate) fn leave(&self, credits: u32) {
        let before = self.change_credits(|granted| granted.saturating_sub(credits));
        debug_assert!(credits <= before, "{credits} credits of {before} end");
    }

    /// Changes what open handles may still change, and returns what that was before.
    fn change_credits(&self, change: impl Fn(u32) -> u32) -> u32 {
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        let before = self.credits.fetch_update(set, get, |granted| Some(change(granted)));
        before.unwrap_or_else(|unchanged| unchanged)
    }

    /// Whether operations had better go on in the next transaction.
    pub(crate) fn is_full(&self, dirty: u64) -> bool {
        let credits = self.credits.load(Ordering::Acquire);
        dirty.saturating_add(credits.into()) > self.transaction_max
    }

    /// Whether the log has room for a transaction of `dirty` blocks and what handles may add.
    pub(super) fn has_room(&self, dirty: u64) -> bool {
        let state = self.state.lock();
        let credits = self.credits.load(Ordering::Acquire);
        let copies = dirty.saturating_add(credits.into()).saturating_add(GROUPS);
        let copies = usize::try_from(copies).unwrap_or(usize::MAX);
        let wanted = self.format.transaction_blocks(copies, state.revoked.len());
        wanted < state.free as usize && u64::from(state.free) > self.log_blocks() / 4
    }

    /// Whether it is time to write committed blocks to their place: less than half of the log is
    /// free, or they take up more than a quarter of the cache.
    pub fn wants_checkpoint(&self) -> bool {
        let state = self.state.lock();
        u64::from(state.free) < self.log_blocks() / 2 || state.pending.len() > self.pending_max
    }

    pub(super) fn log_blocks(&self) -> u64 {
        self.geometry.log_blocks().into()
    }
}

/// Blocks of group descriptors, and that of the superblock, which join a transaction when it is
/// frozen: a guess at how many.
pub(super) const GROUPS: u64 = 8;
