//! The device's own cache: flushed when something was written since the last flush, and not
//! otherwise.
//!
//! *Invariants*: a write is noted after it has completed and before anybody who waits for it goes
//! on, so that a flush that begins afterwards covers it. A flush that fails closes the latch with
//! its cause: what was written is clean by then, and a second try would succeed with nothing to
//! show for it. *Locking*: `flushing` is a sleeping lock, the last of them; nothing else is taken
//! while it is held.
use crate::error::{Error, Result};
use crate::ranks;
use crate::store::latch::Latch;
use extant_block::{BlockDevice, SleepLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Knows whether the device holds writes that a power cut could undo.
pub(crate) struct Barrier {
    device: Arc<dyn BlockDevice>,
    latch: Arc<Latch>,
    /// Held during a flush: a second caller waits for it, and then finds nothing left to flush.
    flushing: SleepLock<()>,
    /// A write has completed since the last flush began.
    unflushed: AtomicBool,
}

impl Barrier {
    /// Nothing was written yet.
    pub(crate) fn new(device: &Arc<dyn BlockDevice>, latch: &Arc<Latch>) -> Arc<Barrier> {
        Arc::new(Barrier {
            device: Arc::clone(device),
            latch: Arc::clone(latch),
            flushing: SleepLock::new(Arc::clone(device.clock()), ()).ranked(ranks::FLUSHING),
            unflushed: AtomicBool::new(false),
        })
    }

    /// A write has completed.
    pub(crate) fn note_written(&self) {
        self.unflushed.store(true, Ordering::Release);
    }

    /// Whether a write has completed since the last flush began.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.unflushed.load(Ordering::Acquire)
    }

    /// Returns when all writes that have completed are durable. Asks the device only if there are
    /// any.
    ///
    /// # Errors
    /// What the device answers; what closed the latch before.
    pub(crate) fn pass(&self) -> Result<()> {
        let _flushing = self.flushing.lock();
        if !self.unflushed.swap(false, Ordering::AcqRel) {
            return self.latch.check();
        }
        self.device.flush().map_err(|error| {
            let error = Error::from(error);
            self.latch.close(Some(&error));
            error
        })
    }
}
