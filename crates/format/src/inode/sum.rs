//! The checksum of an inode.
use super::{BASE_SIZE, RawExtra, RawInode, reach};
use crate::Ino;
use crate::checksum::crc32c;
use crate::superblock::Superblock;
use zerocopy::{Immutable, IntoBytes};

/// Where the two halves of the checksum are.
const CHECKSUM_LOW: usize = std::mem::offset_of!(RawInode, checksum_low);
const CHECKSUM_HIGH: usize = BASE_SIZE + std::mem::offset_of!(RawExtra, checksum_high);

/// How much of its checksum an inode keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChecksumWidth {
    /// The low 16 bits.
    Low,
    /// All 32 bits.
    Full,
}

impl ChecksumWidth {
    /// By the size of the extra fields.
    pub(super) fn of(extra_isize: u16) -> ChecksumWidth {
        match extra_isize >= reach::CHECKSUM {
            true => ChecksumWidth::Full,
            false => ChecksumWidth::Low,
        }
    }
}

/// Bytes of an inode's number and generation, which its checksum begins with.
const SEED_BYTES: usize = 8;
/// Bytes of an inode that are copied for its checksum: most have no more.
const COPIED_BYTES: usize = 256;

/// The number and the generation of an inode and its first bytes, as its checksum has them: in one
/// piece, at a place where words begin.
#[derive(IntoBytes, Immutable)]
#[repr(C, align(8))]
struct Summed {
    ino: [u8; 4],
    generation: [u8; 4],
    inode: [u8; COPIED_BYTES],
}

/// The checksum of a whole inode, its own fields taken as zero; 16 bits where the high half has no
/// room.
pub(super) fn checksum(
    bytes: &[u8],
    width: ChecksumWidth,
    ino: Ino,
    generation: u32,
    superblock: &Superblock,
) -> u32 {
    // One call over a copy: six over the pieces between the fields take three times as long, and
    // inodes are checked by the million.
    let (head, rest) = bytes.split_at(bytes.len().min(COPIED_BYTES));
    let mut summed = Summed {
        ino: ino.0.to_le_bytes(),
        generation: generation.to_le_bytes(),
        inode: [0; COPIED_BYTES],
    };
    let (copied, _) = summed.inode.split_at_mut(head.len());
    copied.copy_from_slice(head);
    let fields = match width {
        ChecksumWidth::Low => [CHECKSUM_LOW].as_slice(),
        ChecksumWidth::Full => [CHECKSUM_LOW, CHECKSUM_HIGH].as_slice(),
    };
    for at in fields {
        if let Some(field) = copied.get_mut(*at..at.saturating_add(2)) {
            field.fill(0);
        }
    }
    let length = SEED_BYTES.saturating_add(head.len());
    let sum = crc32c(superblock.checksum_seed, summed.as_bytes().get(..length).unwrap_or_default());
    let sum = if rest.is_empty() { sum } else { crc32c(sum, rest) };
    match width {
        ChecksumWidth::Low => sum & 0xffff,
        ChecksumWidth::Full => sum,
    }
}
