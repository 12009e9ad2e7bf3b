//! Blocks that a device does not give back: what `mke2fs -c` looks for, and with `-c -c` by writing
//! all of them.
use crate::error::{Error, Result};
use extant_block::{BlockDevice, REQUEST_BYTES_MAX};
use extant_format::BlockNo;
use std::collections::BTreeSet;
use std::io;

/// What badblocks(8) writes in its write-mode test, one after the other. The last one leaves zeros.
const PATTERNS: [u8; 4] = [0xaa, 0x55, 0xff, 0x00];

/// Reads the first `blocks` blocks of a device, of `block_size` bytes each. Returns those that
/// cannot be read, rising; nothing is written, and what they hold does not matter.
pub fn unreadable_blocks(device: &dyn BlockDevice, block_size: u32, blocks: u64) -> Vec<BlockNo> {
    let size = u64::from(block_size);
    let together = (REQUEST_BYTES_MAX as u64 / size.max(1)).max(1);
    let mut bytes = vec![0; (together * size) as usize];
    let mut bad = Vec::new();
    let mut at = 0;
    while at < blocks {
        let count = together.min(blocks - at);
        let whole = &mut bytes[..(count * size) as usize];
        if device.read(at * size, whole).is_err() {
            // One by one, which of them it is.
            for (number, block) in (at..).zip(whole.chunks_mut(block_size as usize)) {
                if device.read(number * size, block).is_err() {
                    bad.push(BlockNo(number));
                }
            }
        }
        at += count;
    }
    bad
}

/// Writes patterns over the first `blocks` blocks of a device, of `block_size` bytes each, and
/// reads them back. Returns those that cannot be written or read, or read as something else,
/// rising. What the device held there is lost; the other blocks read as zeros.
///
/// # Errors
/// What the device refuses to every write: it is full, or read-only.
pub fn failing_blocks(
    device: &dyn BlockDevice,
    block_size: u32,
    blocks: u64,
) -> Result<Vec<BlockNo>> {
    let size = block_size.max(1) as usize;
    let together = (REQUEST_BYTES_MAX / size).max(1);
    let mut bytes = vec![0; together * size];
    let mut bad = BTreeSet::new();
    for pattern in PATTERNS {
        for at in (0..blocks).step_by(together) {
            bytes.fill(pattern);
            let count = (blocks - at).min(together as u64) as usize;
            write_pattern(device, at, size, &bytes[..count * size], &mut bad)?;
        }
        // What the host could not bring to the device reads as something else.
        refusal(device.flush())?;
        for at in (0..blocks).step_by(together) {
            let count = (blocks - at).min(together as u64) as usize;
            let whole = &mut bytes[..count * size];
            let is_there = |read: io::Result<()>, bytes: &[u8]| {
                read.is_ok() && bytes.iter().all(|byte| *byte == pattern)
            };
            if is_there(device.read_anew(at * size as u64, whole), whole) {
                continue;
            }
            for (number, block) in (at..).zip(whole.chunks_mut(size)) {
                if !is_there(device.read_anew(number * size as u64, block), block) {
                    bad.insert(BlockNo(number));
                }
            }
        }
    }
    Ok(bad.into_iter().collect())
}

/// Writes blocks from block `at` on, one by one where they cannot be written together, and notes
/// those that cannot be written.
fn write_pattern(
    device: &dyn BlockDevice,
    at: u64,
    size: usize,
    bytes: &[u8],
    bad: &mut BTreeSet<BlockNo>,
) -> Result<()> {
    if refusal(device.write(at * size as u64, bytes))?.is_some() {
        return Ok(());
    }
    for (number, block) in (at..).zip(bytes.chunks(size)) {
        if refusal(device.write(number * size as u64, block))?.is_none() {
            bad.insert(BlockNo(number));
        }
    }
    Ok(())
}

/// `None` for what a bad block may answer; what has nothing to do with a block is an error.
fn refusal(done: io::Result<()>) -> Result<Option<()>> {
    use io::ErrorKind::{
        FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    const OF_ALL: [io::ErrorKind; 5] =
        [FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull];
    match done {
        Ok(()) => Ok(Some(())),
        Err(error) if OF_ALL.contains(&error.kind()) => Err(Error::from(error)),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::capability::Capabilities;
    use extant_block::{Clock, DeviceInfo, MemoryDevice, RealClock, Request};
    use std::sync::Arc;

    /// Of 2000 KiB, with a byte that is stuck, one that cannot be written, and one that is full.
    struct Worn {
        device: MemoryDevice,
        stuck: u64,
        unwritten: u64,
        full: u64,
    }

    impl BlockDevice for Worn {
        fn info(&self) -> DeviceInfo {
            self.device.info()
        }
        fn clock(&self) -> &Arc<dyn Clock> {
            self.device.clock()
        }
        fn submit(&self, request: Request) {
            self.device.submit(request);
        }
        fn capabilities(&self) -> Capabilities<'_> {
            self.device.capabilities()
        }
        fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            let range = offset..offset + bytes.len() as u64;
            if range.contains(&self.unwritten) {
                return Err(rustix::io::Errno::IO.into());
            }
            if range.contains(&self.full) {
                return Err(rustix::io::Errno::NOSPC.into());
            }
            let mut bytes = bytes.to_vec();
            if range.contains(&self.stuck) {
                // One bit, which is set whatever is written.
                bytes[(self.stuck - offset) as usize] |= 4;
            }
            self.device.write(offset, &bytes)
        }
    }

    #[test]
    fn blocks_that_do_not_keep_what_is_written_are_found() {
        let device = MemoryDevice::new(RealClock::new(), 2000 << 10);
        device.write(0, &[7; 2000 << 10]).unwrap();
        let mut worn = Worn { device, stuck: 1500 << 10, unwritten: (3 << 10) + 5, full: u64::MAX };
        let found = failing_blocks(&worn, 1024, 2000).unwrap();
        assert_eq!(found, [3, 1500].map(BlockNo));
        let mut bytes = vec![0; 2000 << 10];
        worn.device.read(0, &mut bytes).unwrap();
        bytes[3 << 10..4 << 10].fill(0);
        bytes[1500 << 10] &= !4;
        assert!(bytes.iter().all(|byte| *byte == 0), "zeros are left");
        assert_eq!(failing_blocks(&worn, 4096, 500).unwrap(), [0, 375].map(BlockNo));
        worn.full = 1 << 20;
        assert!(failing_blocks(&worn, 1024, 2000).is_err(), "no room is no bad block");
        assert_eq!(failing_blocks(&worn, 1024, 1000).unwrap(), [BlockNo(3)]);
    }

    #[test]
    fn what_cannot_be_read_is_told_block_by_block() {
        // After its end a device gives nothing back.
        let device = MemoryDevice::new(RealClock::new(), 2000 << 10);
        assert_eq!(unreadable_blocks(&device, 1024, 2000), []);
        assert_eq!(unreadable_blocks(&device, 1024, 2002), [2000, 2001].map(BlockNo));
        assert_eq!(unreadable_blocks(&device, 4096, 501), [BlockNo(500)]);
    }
}
