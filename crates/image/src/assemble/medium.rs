//! What an image is written to: a file of the host, memory, or anything that a caller has.
//!
//! *Locking*: the memory of an image is under one short lock, which is held to take or replace it,
//! never while it is read or written.
use extant_block::{BlockDevice, Clock, FileDevice, MemoryDevice, RealClock, ShortLock, Window};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// What takes the bytes of an image. A build may begin again with another size, so it is emptied
/// and written more than once.
pub trait Medium: Sync {
    /// Gives it this length in bytes. What is new reads as zeros, also what had been cut off
    /// before. Not called for a [`Place::Part`](super::Place::Part).
    ///
    /// # Errors
    /// Those of the host; `Unsupported` where the length cannot change.
    fn set_length(&self, bytes: u64) -> io::Result<()>;

    /// The bytes from `origin` on as a device of this many bytes, which is called `name` in
    /// messages and tells the time by `clock`.
    ///
    /// # Errors
    /// Those of the host; bytes that it does not have.
    fn device(
        &self,
        clock: &Arc<dyn Clock>,
        name: &str,
        origin: u64,
        bytes: u64,
    ) -> io::Result<Arc<dyn BlockDevice>>;
}

impl Medium for File {
    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
    fn device(
        &self,
        clock: &Arc<dyn Clock>,
        name: &str,
        origin: u64,
        bytes: u64,
    ) -> io::Result<Arc<dyn BlockDevice>> {
        let (clock, file) = (Arc::clone(clock), self.try_clone()?);
        Ok(Arc::new(FileDevice::from_file(clock, file, name.to_owned(), bytes, origin)?))
    }
}

/// Memory that becomes as long as the image. Zeros take none of it.
pub struct InMemory {
    device: ShortLock<Arc<MemoryDevice>>,
}

impl Default for InMemory {
    fn default() -> InMemory {
        let empty = MemoryDevice::new(RealClock::new(), 0);
        InMemory { device: ShortLock::new(Arc::new(empty)) }
    }
}

/// With what a device holds.
impl From<MemoryDevice> for InMemory {
    fn from(device: MemoryDevice) -> InMemory {
        InMemory { device: ShortLock::new(Arc::new(device)) }
    }
}

impl InMemory {
    /// What it holds now.
    pub fn device(&self) -> Arc<MemoryDevice> {
        Arc::clone(&self.device.lock())
    }
}

impl Medium for InMemory {
    fn set_length(&self, bytes: u64) -> io::Result<()> {
        let before = self.device();
        let clock = Arc::clone(before.clock());
        *self.device.lock() = Arc::new(before.resized(clock, bytes));
        Ok(())
    }
    fn device(
        &self,
        clock: &Arc<dyn Clock>,
        name: &str,
        origin: u64,
        bytes: u64,
    ) -> io::Result<Arc<dyn BlockDevice>> {
        let before = InMemory::device(self);
        let device = Arc::new(before.resized(Arc::clone(clock), before.info().bytes));
        *self.device.lock() = Arc::clone(&device);
        let end = origin.saturating_add(bytes);
        Ok(Arc::new(Window::new(device, origin..end, name.to_owned())))
    }
}
