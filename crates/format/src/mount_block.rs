//! The block by which several machines agree which of them mounts a volume (feature mmp).
//!
//! ```text
//! | magic: 4 | sequence: 4 | seconds: 8 | node name: 64 | device name: 32 | interval: 2 | 0 ... | checksum: 4 at 1020 |
//! ```
use crate::checksum::crc32c;
use crate::stored::u32_at;
use crate::superblock::{Feature, Superblock};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};

const MAGIC: u32 = 0x004d_4d50;
/// The sequence number when no machine has the volume.
const SEQUENCE_CLEAN: u32 = 0xff4d_4d50;
/// The highest sequence number that a mount counts up to. Numbers above it are of checkers.
const SEQUENCE_MAX: u32 = 0xe24d_4d4f;
/// Bytes of the block that mean something.
pub const MOUNT_BLOCK_SIZE: usize = size_of::<RawMountBlock>();

/// The block as it is on the disk; only offsets are taken of it.
#[repr(C)]
struct RawMountBlock {
    magic: U32,
    sequence: U32,
    seconds: U64,
    node_name: [u8; 64],
    device_name: [u8; 32],
    interval: U16,
    padding: U16,
    reserved: [U32; 226],
    checksum: U32,
}

/// The block as it is stored, nothing checked.
#[derive(Clone, Copy)]
pub struct StoredMountBlock<'a>(&'a [u8]);

impl<'a> StoredMountBlock<'a> {
    /// Of the bytes of the block.
    pub fn new(bytes: &'a [u8]) -> StoredMountBlock<'a> {
        StoredMountBlock(bytes)
    }

    /// The sequence number: what the machine that has the volume is at.
    pub fn sequence(self) -> u32 {
        u32_at(self.0, offset_of!(RawMountBlock, sequence))
    }

    /// Whether a checker has the volume.
    pub fn is_held_by_checker(self) -> bool {
        self.sequence() > SEQUENCE_MAX && self.sequence() != SEQUENCE_CLEAN
    }

    /// Whether a machine or a checker has the volume, or had it when it ended.
    pub fn is_held(self) -> bool {
        self.sequence() != SEQUENCE_CLEAN
    }

    /// The machine that wrote it last.
    pub fn node_name(self) -> &'a [u8] {
        self.name(offset_of!(RawMountBlock, node_name), 64)
    }

    /// What that machine calls the device.
    pub fn device_name(self) -> &'a [u8] {
        self.name(offset_of!(RawMountBlock, device_name), 32)
    }

    /// When it was written last, in seconds since 1970 by that machine's clock.
    pub fn seconds(self) -> u64 {
        const AT: usize = offset_of!(RawMountBlock, seconds);
        let [low, high] = [AT, AT.saturating_add(4)].map(|at| u64::from(u32_at(self.0, at)));
        high << 32 | low
    }

    /// For how long others have to look at it, in seconds, to see that it is not written.
    pub fn interval_seconds(self) -> u16 {
        const AT: usize = offset_of!(RawMountBlock, interval);
        u32_at(self.0, AT) as u16
    }

    fn name(self, at: usize, bytes: usize) -> &'a [u8] {
        let name = self.0.get(at..at.saturating_add(bytes)).unwrap_or_default();
        name.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Whether it has the magic number and, with metadata_csum, the right checksum.
    pub fn is_sound(self, superblock: &Superblock) -> bool {
        const CHECKSUM: usize = offset_of!(RawMountBlock, checksum);
        let covered = self.0.get(..CHECKSUM).unwrap_or_default();
        let computed = crc32c(superblock.checksum_seed, covered);
        let is_sealed =
            !superblock.has(Feature::METADATA_CSUM) || u32_at(self.0, CHECKSUM) == computed;
        u32_at(self.0, offset_of!(RawMountBlock, magic)) == MAGIC && is_sealed
    }
}

/// What a new volume's block says.
#[derive(Clone, Copy, Debug)]
pub struct NewMountBlock<'a> {
    /// When it was written, in seconds since 1970.
    pub seconds: u64,
    /// The machine that wrote it; 64 bytes of it are kept.
    pub node_name: &'a [u8],
    /// What it called the device; 32 bytes of it are kept.
    pub device_name: &'a [u8],
    /// How often a mount looks at it.
    pub interval_seconds: u16,
}

/// The sequence number of a mount that begins, of any number.
pub fn first_sequence(number: u32) -> u32 {
    number.checked_rem(SEQUENCE_MAX).unwrap_or(0).saturating_add(1)
}

/// The sequence number after this one of a mount.
pub fn next_sequence(sequence: u32) -> u32 {
    if sequence >= SEQUENCE_MAX { 1 } else { sequence.saturating_add(1) }
}

/// Makes a block of zeros one that says that no machine has the volume. Bytes that are too short
/// are filled as far as they go.
pub fn initialize(bytes: &mut [u8], new: &NewMountBlock<'_>, superblock: &Superblock) {
    hold(bytes, SEQUENCE_CLEAN, new, superblock);
}

/// Makes a block say that a machine has the volume, and is at this sequence number. Bytes that are
/// too short are filled as far as they go.
pub fn hold(bytes: &mut [u8], sequence: u32, new: &NewMountBlock<'_>, superblock: &Superblock) {
    // Names are shorter than what was there: zeros follow them.
    let padded = |name: &[u8], room: usize| -> Vec<u8> {
        name.iter().copied().chain(std::iter::repeat(0)).take(room).collect()
    };
    put(bytes, offset_of!(RawMountBlock, magic), &MAGIC.to_le_bytes());
    put(bytes, offset_of!(RawMountBlock, seconds), &new.seconds.to_le_bytes());
    put(bytes, offset_of!(RawMountBlock, node_name), &padded(new.node_name, 64));
    put(bytes, offset_of!(RawMountBlock, device_name), &padded(new.device_name, 32));
    put(bytes, offset_of!(RawMountBlock, interval), &new.interval_seconds.to_le_bytes());
    set_sequence(bytes, sequence, superblock);
}

/// Makes a block say that no machine has the volume any more; who had it last stays.
pub fn release(bytes: &mut [u8], superblock: &Superblock) {
    set_sequence(bytes, SEQUENCE_CLEAN, superblock);
}

fn set_sequence(bytes: &mut [u8], sequence: u32, superblock: &Superblock) {
    const CHECKSUM: usize = offset_of!(RawMountBlock, checksum);
    put(bytes, offset_of!(RawMountBlock, sequence), &sequence.to_le_bytes());
    if superblock.has(Feature::METADATA_CSUM) {
        let covered = bytes.get(..CHECKSUM).unwrap_or_default();
        let sum = crc32c(superblock.checksum_seed, covered).to_le_bytes();
        put(bytes, CHECKSUM, &sum);
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(value) {
        *to = *from;
    }
}

const _: () = assert!(size_of::<RawMountBlock>() == 1024);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_of_mounts_are_never_those_of_checkers() {
        for number in [0, 1, SEQUENCE_MAX - 1, SEQUENCE_MAX, SEQUENCE_CLEAN, u32::MAX] {
            let first = first_sequence(number);
            assert!((1..=SEQUENCE_MAX).contains(&first), "{number:#x}");
            assert!((1..=SEQUENCE_MAX).contains(&next_sequence(first)), "{number:#x}");
            assert_ne!(next_sequence(first), first);
        }
    }
}
