//! When writers may make blocks dirty: they ask the policy, and do what it says.
//!
//! *Locking*: a thread waits here with no lock held: before it locks an inode, or after it has
//! unlocked it.
use super::Core;
use super::changes::{Changed, WhenCongested};
use crate::error::{ErrorKind, Result};
use crate::policy::throttle::{Manner, TaskFacts, WriterAdvice, WriterFacts};
use crate::store::budget::{Answer, Pledge, Stop};
use std::sync::atomic::Ordering;

/// Roughly how much a call makes dirty that changes names or inodes, in bytes: some blocks of
/// directories, tables and bitmaps.
const CALL_BYTES: u64 = 32 << 10;

impl Core {
    /// When the policy is asked: before each piece of a write, or after the whole call.
    pub(crate) fn manner(&self) -> Manner {
        self.volume().store.policies.throttle.manner()
    }

    /// How much of a call that has `left` bytes to write at this offset is made dirty at once.
    pub(crate) fn piece(&self, offset: u64, left: usize) -> usize {
        let left = self.piece_in_memory(offset, left);
        if self.manner() == Manner::Whole {
            return left;
        }
        let block = u64::from(self.volume().store.block_size());
        let piece = self.volume().store.seat.piece_bytes().max(block);
        // It ends at the end of a block, so that no block is changed twice.
        let end = offset.saturating_add(piece);
        let piece = (end - end % block).saturating_sub(offset).max(1);
        usize::try_from(piece).unwrap_or(usize::MAX).min(left)
    }

    /// Waits until a call may begin that changes anything but a file's bytes.
    pub(crate) fn admit_call(&self) -> Result<Pledge<'_>> {
        self.admit(CALL_BYTES)
    }

    /// Waits until `bytes` may be made dirty.
    ///
    /// # Errors
    /// `ReadOnly` while the volume is being closed, or after that; the failure that closed the
    /// latch; what a write-back meets that the writer has to do itself.
    pub(crate) fn admit(&self, bytes: u64) -> Result<Pledge<'_>> {
        self.report(self.wait_for_room(bytes))
    }

    fn wait_for_room(&self, bytes: u64) -> Result<Pledge<'_>> {
        if self.closing.load(Ordering::Acquire) {
            return Err(ErrorKind::ReadOnly.into());
        }
        let volume = self.volume();
        if self.manner() == Manner::Whole || volume.store.check_writable().is_err() {
            return Ok(Pledge::none());
        }
        let mut stop = Stop::default();
        loop {
            let falls = volume.store.seat.falls();
            let advice = match volume.store.seat.ask(bytes, stop) {
                Answer::Go(pledge) => {
                    self.call_flusher_if_much();
                    return Ok(pledge);
                }
                Answer::Stop(advice) => advice,
            };
            stop.since.get_or_insert(volume.store.clock.now());
            self.flusher.call();
            self.follow(advice, falls, &mut stop)?;
            volume.store.check_writable()?;
        }
    }

    fn call_flusher_if_much(&self) {
        let seat = &self.volume().store.seat;
        if seat.dirty_bytes() > seat.limits().background_bytes {
            self.flusher.tell();
        }
    }

    /// Does what the policy advises a stopped writer, by facts that are at least as young as
    /// `falls`.
    fn follow(&self, advice: WriterAdvice, falls: u64, stop: &mut Stop) -> Result<()> {
        let seat = &self.volume().store.seat;
        match advice {
            WriterAdvice::WriteOwn(bytes) => match self.write_own(bytes)? {
                // Everything dirty has an older write under way.
                0 => seat.wait(falls, WAIT_NS),
                written => stop.written_bytes += written,
            },
            // The flusher has failed: the writer writes itself, and gets the error.
            WriterAdvice::Wait(_) if self.flusher.is_stuck() => {
                self.write_own(u64::MAX)?;
                seat.wait(falls, WAIT_NS);
            }
            WriterAdvice::Wait(nanoseconds) => seat.wait(falls, nanoseconds),
            WriterAdvice::Pause(nanoseconds) => self.pause(nanoseconds),
            WriterAdvice::WriteBack(bytes) => self.write_some(bytes)?,
            WriterAdvice::StartOldest(bytes) => {
                self.write_oldest(bytes)?;
            }
            WriterAdvice::StartOldestAndWait(bytes) => self.write_oldest_and_wait(bytes)?,
            WriterAdvice::Proceed | WriterAdvice::OnAccount | WriterAdvice::WakeFlusher => {}
        }
        Ok(())
    }

    fn pause(&self, nanoseconds: u64) {
        let clock = &self.volume().store.clock;
        let deadline = clock.now().saturating_add(nanoseconds);
        while clock.now() < deadline {
            clock.park(Some(deadline));
        }
    }

    /// Called after a call has made blocks dirty: does what the policy asks of the writer.
    pub(crate) fn throttle(&self) -> Result<()> {
        if self.manner() == Manner::Pieces {
            self.call_flusher_if_much();
            return Ok(());
        }
        let volume = self.volume();
        let mut stop = Stop::default();
        loop {
            let falls = volume.store.seat.falls();
            let dirtied_bytes = volume.store.seat.take_account();
            let now = volume.store.clock.now();
            let stopped_ns = stop.since.map_or(0, |since| now.saturating_sub(since).max(1));
            let facts = WriterFacts {
                dirty_bytes: volume.dirty_bytes() + volume.store.seat.dirty_bytes_of_others(),
                memory_bytes: volume.store.seat.memory_bytes(),
                block_bytes: volume.store.block_size().into(),
                task: TaskFacts { dirtied_bytes, stopped_ns, ..TaskFacts::default() },
                ..WriterFacts::default()
            };
            match volume.store.policies.throttle.writer(&facts) {
                WriterAdvice::Proceed | WriterAdvice::OnAccount => return Ok(()),
                WriterAdvice::WakeFlusher => {
                    self.flusher.call();
                    return Ok(());
                }
                WriterAdvice::WriteBack(bytes) | WriterAdvice::WriteOwn(bytes) => {
                    return self.write_some(bytes);
                }
                WriterAdvice::StartOldest(bytes) => return self.write_oldest(bytes).map(drop),
                WriterAdvice::StartOldestAndWait(bytes) => {
                    return self.write_oldest_and_wait(bytes);
                }
                WriterAdvice::Pause(nanoseconds) => self.pause(nanoseconds),
                WriterAdvice::Wait(_) if self.flusher.is_stuck() => {
                    return self.write_some(u64::MAX);
                }
                WriterAdvice::Wait(nanoseconds) => {
                    self.flusher.call();
                    volume.store.seat.wait(falls, nanoseconds);
                    volume.store.check_writable()?;
                }
            }
            stop.since.get_or_insert(now);
        }
    }

    /// Starts to write `bytes`, oldest first, has the flusher do so too, and waits until one write
    /// has ended, of metadata or of files.
    fn write_oldest_and_wait(&self, bytes: u64) -> Result<()> {
        self.write_oldest(bytes)?;
        self.flusher.call();
        let store = &self.volume().store;
        if !store.writes.wait_for_one() {
            store.cache.wait_for_one();
        }
        store.latch.check()
    }

    fn write_some(&self, bytes: u64) -> Result<()> {
        let mut changes = self.changes();
        if changes.is_empty() {
            self.write_metadata()?;
        } else {
            self.write_changes(&mut changes, bytes)?;
        }
        self.volume().store.cache.wait()?;
        self.volume().store.writes.wait()
    }

    /// Starts to write `bytes` of this volume, oldest first. Returns how many bytes. The next call
    /// continues where this one ended.
    fn write_own(&self, bytes: u64) -> Result<u64> {
        let mut changes = std::mem::take(&mut *self.backlog.lock());
        if changes.is_empty() {
            changes = self.changes();
        }
        if changes.is_empty() {
            // With data first, writing metadata waits for the device. That is left to the flusher,
            // unless it failed, so that a writer is not held up longer than its policy says.
            let has_flusher =
                self.volume().store.policies.throttle.has_flusher() && !self.flusher.is_stuck();
            if self.volume().store.keeps_order() && has_flusher {
                self.flusher.call();
                return Ok(0);
            }
            return self.start_metadata();
        }
        // A writer sleeps in the queue, whatever flushers do.
        let outcome = self.write_pieces(&mut changes, bytes, WhenCongested::Sleeps);
        let mut backlog = self.backlog.lock();
        if backlog.is_empty() {
            *backlog = changes;
        }
        outcome
    }
}

/// How long a thread waits for writes under way, in nanoseconds, if it finds nothing to write
/// although something is dirty.
const WAIT_NS: u64 = 100_000_000;

/// Files and blocks that were dirty when it was filled, and were not written since.
pub(crate) type Backlog = std::collections::VecDeque<Changed>;
