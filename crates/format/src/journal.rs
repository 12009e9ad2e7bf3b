//! jbd2, as far as a fresh journal needs it: its superblock. Big-endian throughout.
use zerocopy::big_endian::U32;
use zerocopy::{FromZeros, Immutable, IntoBytes};

const MAGIC: u32 = 0xc03b_3998;
/// The type of a block that holds a superblock of version 2.
const SUPERBLOCK_V2: u32 = 4;

/// The head of a journal superblock; the rest of its 1,024 bytes is zero in a fresh journal without
/// features.
#[derive(FromZeros, IntoBytes, Immutable)]
#[repr(C)]
struct RawJournal {
    magic: U32,
    block_type: U32,
    block_sequence: U32,
    block_size: U32,
    blocks: U32,
    /// First block of the log itself.
    first: U32,
    /// The first commit that is expected.
    sequence: U32,
    /// Where the log starts; 0 when it is empty.
    start: U32,
    error: U32,
    compat: U32,
    incompat: U32,
    ro_compat: U32,
    uuid: [u8; 16],
    users: U32,
}

/// What a new journal is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewJournal {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the journal, its superblock included.
    pub blocks: u32,
    /// The journal's own UUID; mke2fs gives an internal journal that of the volume.
    pub uuid: [u8; 16],
}

/// Writes a version 2 superblock of an empty journal (sequence 1, start 0) over a zeroed block.
pub fn initialize(bytes: &mut [u8], journal: &NewJournal) {
    let mut raw = RawJournal::new_zeroed();
    raw.magic = MAGIC.into();
    raw.block_type = SUPERBLOCK_V2.into();
    raw.block_size = journal.block_size.into();
    raw.blocks = journal.blocks.into();
    raw.first = 1.into();
    raw.sequence = 1.into();
    raw.uuid = journal.uuid;
    raw.users = 1.into();
    for (to, from) in bytes.iter_mut().zip(raw.as_bytes()) {
        *to = *from;
    }
}

/// Blocks of the journal that mke2fs makes on a volume of that many blocks; 0 where it makes none.
pub fn default_blocks(volume_blocks: u64) -> u32 {
    const KI: u64 = 1024;
    match volume_blocks {
        0..2_048 => 0,
        2_048..32_768 => 1_024,
        _ if volume_blocks < 256 * KI => 4_096,
        _ if volume_blocks < 512 * KI => 8_192,
        _ if volume_blocks < 4_096 * KI => 16_384,
        _ if volume_blocks < 8_192 * KI => 32_768,
        _ if volume_blocks < 16_384 * KI => 65_536,
        _ if volume_blocks < 32_768 * KI => 131_072,
        _ => 262_144,
    }
}
