//! The device's own cache, flushed only if something was written since the last flush; with
//! `barrier=none` never: completed writes then count as durable, which a power cut may disprove.
//!
//! *Invariants*: a write is noted once it has completed, before the threads that wait for it are
//! woken, so a flush that starts afterwards covers it. A flush that fails closes the latch with its
//! cause: the frames and pages it should have made durable are already clean, so a second flush
//! would succeed without having saved anything.
//! *Locking*: `flushing` is a sleeping lock, the last one in the order. Only the latch is locked
//! while it is held.
use crate::error::{Error, Result};
use crate::latch::Latch;
use crate::ranks;
use extant_block::{BlockDevice, SleepLock};
use extant_policy::preset::Flushes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Keeps track of whether the device holds writes that a power cut could undo.
pub struct Barrier {
    device: Arc<dyn BlockDevice>,
    latch: Arc<Latch>,
    flushes: Flushes,
    /// Held during a flush. A second caller waits for the flush and then has nothing left to do.
    flushing: SleepLock<()>,
    /// A write has completed since the last flush began.
    unflushed: AtomicBool,
    /// Number of the last flush that began, and of the last one that ended.
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Barrier {
    /// A barrier for a device that nothing was written to yet.
    pub(crate) fn new(
        device: &Arc<dyn BlockDevice>,
        latch: &Arc<Latch>,
        flushes: Flushes,
    ) -> Arc<Barrier> {
        Arc::new(Barrier {
            flushes,
            device: Arc::clone(device),
            latch: Arc::clone(latch),
            flushing: SleepLock::new(Arc::clone(device.clock()), ()).ranked(ranks::FLUSHING),
            unflushed: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        })
    }

    /// Whether the device is asked to flush.
    pub(crate) fn flushes(&self) -> bool {
        self.flushes == Flushes::Sent
    }

    /// Notes that a write has completed.
    pub fn note_written(&self) {
        self.unflushed.store(true, Ordering::Release);
    }

    /// Whether a write has completed since the last flush began.
    pub fn has_unflushed(&self) -> bool {
        self.unflushed.load(Ordering::Acquire)
    }

    /// Returns when all writes that have completed are durable. Does not ask the device if nothing
    /// was written since the last flush.
    ///
    /// # Errors
    /// What the device returns, which closes the latch; what closed the latch before.
    pub fn pass(&self) -> Result<()> {
        let _flushing = self.flushing.lock();
        if !self.unflushed.swap(false, Ordering::AcqRel) {
            return self.latch.check();
        }
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let flushed = match self.flushes {
            Flushes::Sent => self.device.flush().map_err(Error::from),
            Flushes::Left => self.latch.check(),
        };
        flushed.inspect_err(|error| self.latch.close(Some(error)))?;
        self.ended.store(number, Ordering::Release);
        Ok(())
    }

    /// The number of the next flush: it covers a write that has completed.
    pub fn next(&self) -> u64 {
        self.begun.load(Ordering::Acquire) + 1
    }

    /// As `pass`, if the flush with this number has not ended yet.
    ///
    /// # Errors
    /// As for [`Barrier::pass`].
    pub fn pass_to(&self, number: u64) -> Result<()> {
        match self.ended.load(Ordering::Acquire) >= number {
            true => self.latch.check(),
            false => self.pass(),
        }
    }
}
