//! Blocks that a device does not give back: what `mke2fs -c` looks for.
use extant_block::{BlockDevice, REQUEST_BYTES_MAX};
use extant_format::BlockNo;

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

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::{MemoryDevice, RealClock};

    #[test]
    fn what_cannot_be_read_is_told_block_by_block() {
        // After its end a device gives nothing back.
        let device = MemoryDevice::new(RealClock::new(), 2000 << 10);
        assert_eq!(unreadable_blocks(&device, 1024, 2000), []);
        assert_eq!(unreadable_blocks(&device, 1024, 2002), [2000, 2001].map(BlockNo));
        assert_eq!(unreadable_blocks(&device, 4096, 501), [BlockNo(500)]);
    }
}
