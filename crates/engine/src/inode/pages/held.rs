//! The memory that blocks of files take, counted where it is taken and given back.
//!
//! *Invariants*: what is counted is what all [`Share`]s of a volume have together. Blocks without
//! bytes count nothing, so that the laboratory's volumes are never full because of them.
//! *Locking*: none: one number.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pieces that would be smaller than this are halved.
const SMALL_PIECE_BYTES: usize = 64 << 10;

/// The memory that blocks of files take on one volume, and how much they may take, in bytes.
pub(crate) struct Held {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Held {
    /// Nothing is held; at most `bytes_max` may be.
    pub(crate) fn new(bytes_max: usize) -> Arc<Held> {
        Arc::new(Held { bytes: AtomicUsize::new(0), bytes_max })
    }

    /// How much may be held, in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The most that one call brings at once, in bytes: what several threads bring at a time is
    /// still a small part of what may be held. Of little memory that is less, since there a request
    /// is much.
    pub(crate) fn piece_bytes(&self) -> usize {
        match self.bytes_max / 16 {
            little if little < SMALL_PIECE_BYTES => little / 2,
            piece => piece,
        }
    }

    /// Takes `bytes` of it; `None` if they would be too many. Of several threads that ask at a time
    /// each gets what the others have left.
    pub(crate) fn take(self: &Arc<Held>, bytes: usize) -> Option<Share> {
        let with = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.bytes_max);
        let taken = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        taken.is_ok().then(|| Share { held: Some(Arc::clone(self)), bytes })
    }

    /// Whether `more` bytes would be too many.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.bytes.load(Ordering::Relaxed).saturating_add(more) > self.bytes_max
    }
}

/// A part of what is held, by one owner; given back when it is dropped.
#[derive(Default)]
pub(crate) struct Share {
    /// `None` counts nothing.
    held: Option<Arc<Held>>,
    bytes: usize,
}

impl Share {
    /// Has `bytes` of it.
    pub(crate) fn new(held: &Arc<Held>, bytes: usize) -> Share {
        held.bytes.fetch_add(bytes, Ordering::Relaxed);
        Share { held: Some(Arc::clone(held)), bytes }
    }

    /// What it has, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        if let Some(held) = &self.held {
            held.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Gives some of it back.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.bytes, "{bytes} bytes of {} are given back", self.bytes);
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(held) = &self.held {
            held.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}
