//! A device in memory, sparse: what was never written reads as zeros and takes no room.
use crate::clock::Clock;
use crate::device::{BlockDevice, DeviceInfo, Request};
use std::sync::Arc;

/// A sparse device in memory.
pub struct MemoryDevice {
    _clock: Arc<dyn Clock>,
}

impl MemoryDevice {
    /// All zeros, of that size (up to 2^60 bytes).
    pub fn new(clock: Arc<dyn Clock>, _bytes: u64) -> MemoryDevice {
        MemoryDevice { _clock: clock }
    }
    /// Holding these bytes.
    pub fn from_bytes(_clock: Arc<dyn Clock>, _bytes: &[u8]) -> MemoryDevice {
        todo!()
    }
    /// Writes what it holds to a file, sparse.
    pub fn save(&self, _path: &std::path::Path) -> std::io::Result<()> {
        todo!()
    }
}

impl BlockDevice for MemoryDevice {
    fn info(&self) -> DeviceInfo {
        todo!()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self._clock
    }
    fn submit(&self, _request: Request) {
        todo!()
    }
}
