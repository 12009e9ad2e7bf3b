//! The file with the image, as a device: read past its end, made longer, and flushed.
//!
//! *Invariants*: once a flush has failed nothing is written: the host may have forgotten what it
//! was to keep, and what refers to that must not follow.
//! *Locking*: none; it belongs to the state of the image.
use extant_block::BlockDevice;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The file becomes longer by so much at least: what it gets is a hole.
const STEP_BYTES: u64 = 1 << 20;
const SECTOR: [u8; 512] = [0; 512];

/// The file of an image.
pub(super) struct Medium {
    pub(super) below: Arc<dyn BlockDevice>,
    bytes: AtomicU64,
    has_failed: AtomicBool,
}

impl Medium {
    pub(super) fn new(below: Arc<dyn BlockDevice>) -> Medium {
        let bytes = AtomicU64::new(below.info().bytes);
        Medium { below, bytes, has_failed: AtomicBool::new(false) }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Reads; what is past the end is zeros.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let there = self.bytes().saturating_sub(at).min(buffer.len() as u64) as usize;
        buffer[there..].fill(0);
        match there {
            0 => Ok(()),
            _ => self.below.read(at, &mut buffer[..there]),
        }
    }

    pub(super) fn write(&self, at: u64, pieces: &[io::IoSlice<'_>]) -> io::Result<()> {
        self.check()?;
        // tidy: writers because it is the device of the image's file
        self.below.write_vectored(at, pieces)
    }

    /// Makes the file at least so long.
    pub(super) fn lengthen(&self, end: u64) -> io::Result<()> {
        if end <= self.bytes() {
            return Ok(());
        }
        let end = end.saturating_add(STEP_BYTES).next_multiple_of(STEP_BYTES);
        let lengthened = self.write(end - SECTOR.len() as u64, &[io::IoSlice::new(&SECTOR)]);
        lengthened.map_err(|error| match error.kind() {
            // A block device ends where it ends.
            io::ErrorKind::InvalidInput => io::ErrorKind::StorageFull.into(),
            _ => error,
        })?;
        self.bytes.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    /// Makes all that was written durable.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.check()?;
        // tidy: writers because it is the device of the image's file
        let flushed = self.below.flush();
        if flushed.is_err() {
            self.has_failed.store(true, Ordering::Release);
        }
        flushed
    }

    /// Gives back what keeps bytes; a host that cannot keeps them.
    pub(super) fn give_back(&self, at: u64, bytes: u64) {
        let bytes = bytes.min(self.bytes().saturating_sub(at));
        if bytes > 0 && self.check().is_ok() {
            let _ = self.below.discard(at, bytes);
        }
    }

    fn check(&self) -> io::Result<()> {
        match self.has_failed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(io::Error::other("an earlier flush failed: nothing is written any more")),
        }
    }
}
