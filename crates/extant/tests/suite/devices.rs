//! Devices of a program: bytes behind a lock, which fail after so many writes.
use extant::Device;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A disk that takes so many writes and then none.
pub struct Disk {
    bytes: Mutex<Vec<u8>>,
    /// Writes that are still taken.
    left: AtomicU64,
    pub flushes: AtomicU64,
}

impl Disk {
    pub fn new(bytes: Vec<u8>, writes: u64) -> Arc<Disk> {
        let (bytes, left) = (Mutex::new(bytes), AtomicU64::new(writes));
        Arc::new(Disk { bytes, left, flushes: AtomicU64::new(0) })
    }

    /// One that never fails.
    pub fn whole(bytes: Vec<u8>) -> Arc<Disk> {
        Disk::new(bytes, u64::MAX)
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    pub fn is_broken(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }
}

impl Device for Disk {
    fn len(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let held = self.bytes.lock().unwrap();
        let at = offset as usize;
        bytes.copy_from_slice(&held[at..at + bytes.len()]);
        Ok(())
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let take = |left: u64| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        taken.map_err(|_| io::Error::from_raw_os_error(5))?;
        let at = offset as usize;
        self.bytes.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        match self.is_broken() {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }
}

/// What is only read needs neither writes nor flushes.
pub struct ReadOnly(pub Vec<u8>);

impl Device for ReadOnly {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(&self.0[offset as usize..][..bytes.len()]);
        Ok(())
    }
}
