//! A transaction becomes durable.
//!
//! *Locking*: `cache.sweep` is held for the whole commit, the gate only while frames are frozen.
use super::transaction::Transaction;
use super::{Log, Logged, Pending};
use crate::Store;
use crate::cache::Sealed;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Handle;
use extant_format::journal::commit::{self, CommitTime};
use extant_format::journal::{Sequence, TransactionChecksum};
use extant_policy::preset::Journal;
use std::sync::atomic::Ordering;

impl Store {
    /// Commits the running transaction, unless the transaction `through` is durable already: then
    /// another thread has done it, and `None` is returned. First `late` stores what was kept
    /// outside of frames so far; its result is returned.
    ///
    /// # Errors
    /// Those of `late`; the first write error, which closes the latch.
    pub(crate) fn commit<T>(
        &self,
        log: &Log,
        through: Sequence,
        late: impl FnOnce(&Handle<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let _one = self.cache.lock_sweep();
        if log.is_committed(through) {
            return Ok(None);
        }
        if !log.has_room(self.cache.dirty_frames()) {
            log.checkpoint(self)?;
        }
        let closed = self.gate.close();
        self.check_writable()?;
        let stored = late(&Handle::of_sweep(self))?;
        let frozen = self.cache.freeze_all();
        let (transaction, awaited) = log.lock(&frozen);
        drop(closed);
        let data = match log.mode {
            // Twice, as for a sweep in stages.
            Journal::OrderedJbd => self.writes.wait().and_then(|()| self.writes.wait()),
            _ => {
                awaited.into_iter().for_each(|wait| wait());
                self.latch.check()
            }
        };
        let is_empty = frozen.is_empty() && transaction.revoked.is_empty();
        let outcome = match is_empty {
            true => data.map(|()| None),
            false => data.and_then(|()| log.write(self, &transaction)),
        };
        let outcome = outcome.inspect_err(|error| self.latch.close(Some(error)));
        let (outcome, written) = match outcome {
            Ok(written) => (Ok(()), written),
            Err(error) => (Err(error), None),
        };
        // Before a checkpoint knows of the frames.
        self.cache.end_freeze(&frozen, &outcome);
        outcome?;
        if let Some(written) = written {
            let replaced = log.committed(&transaction, written);
            self.cache.note_copies_gone(replaced);
        }
        log.call();
        Ok(Some(stored))
    }
}

/// Where a transaction is in the log.
#[derive(Clone, Copy)]
struct Written {
    /// The block of the log after its commit block.
    end: u32,
    /// How many blocks it takes.
    blocks: u32,
}

impl Log {
    /// Ends the running transaction: later changes belong to the next one. Called while the gate is
    /// closed.
    fn lock<'f>(&self, frozen: &'f [Sealed]) -> (Transaction<'f>, Vec<super::Awaited>) {
        let mut state = self.state.lock();
        let sequence = state.running;
        let revoked: Vec<_> = std::mem::take(&mut state.revoked).into_iter().collect();
        for block in &revoked {
            state.copies.remove(block);
        }
        for (frame, _) in frozen {
            state.copies.insert(frame.block(), sequence);
        }
        if !frozen.is_empty() || !revoked.is_empty() {
            state.running = sequence.next();
            self.running.store(state.running.0, Ordering::Release);
        }
        state.changed_since = None;
        self.changed.store(0, Ordering::Release);
        let awaited = std::mem::take(&mut state.awaited);
        (Transaction { sequence, frozen, revoked }, awaited)
    }

    /// Writes a transaction to the log, and waits until it is durable.
    fn write(&self, store: &Store, transaction: &Transaction<'_>) -> Result<Option<Written>> {
        let blocks = transaction.blocks(self);
        let total = blocks.len() as u32 + 1;
        if self.state.lock().free <= total {
            self.checkpoint(store)?;
        }
        let (head, free) = {
            let state = self.state.lock();
            (state.head, state.free)
        };
        if free <= total {
            return Err(too_large(total, free));
        }
        let commit_at = self.after(head, blocks.len() as u32);
        if store.waits_for_log() {
            store.cache.begin_logging(transaction.frozen);
        }
        self.submit(store, head, &blocks)?;
        self.writes.wait()?;
        // A commit block that is durable before the log blocks that it vouches for would have
        // replay write what the log held before: so the log is flushed first.
        store.barrier.pass()?;
        let bytes = self.commit_block(store, transaction.sequence);
        self.write_commit(store, commit_at, bytes)?;
        Ok(Some(Written { end: self.after(commit_at, 1), blocks: total }))
    }

    /// The commit block of a transaction, with the time that it is now.
    fn commit_block(&self, store: &Store, sequence: Sequence) -> Vec<u8> {
        let wall = store.clock.wall();
        let time = CommitTime {
            seconds: wall.seconds.max(0).cast_unsigned(),
            nanoseconds: wall.nanoseconds,
        };
        commit::encode(&self.format, sequence, time, TransactionChecksum::default())
    }

    /// Notes that a transaction is durable. Returns how many blocks that were kept are not any
    /// more, because they were freed or there is a newer one.
    fn committed(&self, transaction: &Transaction<'_>, written: Written) -> usize {
        let Written { end, blocks } = written;
        let sequence = transaction.sequence;
        let mut state = self.state.lock();
        debug_assert_eq!(sequence, state.committed.next(), "transactions commit in their order");
        state.committed = sequence;
        state.head = end;
        state.free -= blocks;
        state.logged.push_back(Logged { sequence, end, blocks });
        let (mut in_flight, mut replaced) = (false, 0);
        for block in &transaction.revoked {
            // A block that is freed must not be written to its place any more.
            let was_kept = state.pending.remove(block).is_some();
            replaced += usize::from(was_kept);
            in_flight |= was_kept && state.in_flight.is_some();
        }
        for (frame, bytes) in transaction.frozen {
            let (frame, bytes) = (frame.clone(), bytes.clone());
            let before = state.pending.insert(frame.block(), Pending { frame, bytes, sequence });
            replaced += usize::from(before.is_some());
        }
        drop(state);
        let mut counts = self.counts.lock();
        counts.commits += 1;
        counts.log_blocks += u64::from(blocks);
        drop(counts);
        if in_flight {
            // Nor may a write of it be under way when it is given to another file.
            self.ended.wait_until(&self.state, |state| state.in_flight.is_none().then_some(()));
        }
        self.ended.wake_all();
        replaced
    }
}

/// The error for a transaction that is larger than the log: operations have changed more than they
/// said.
fn too_large(blocks: u32, free: u32) -> Error {
    ErrorKind::Device(std::io::Error::other(format!(
        "a transaction of {blocks} blocks does not fit into {free} free blocks of the journal"
    )))
    .into()
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
