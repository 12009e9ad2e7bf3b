//! jbd2, as far as a fresh journal needs it: its superblock. Big-endian throughout.

/// What a new journal is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewJournal {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the journal, its superblock included.
    pub blocks: u32,
    /// UUID stored as the first user (zero for an internal journal).
    pub uuid: [u8; 16],
}

/// Writes a version 2 superblock of an empty journal (sequence 1, start 0) over a zeroed block.
pub fn initialize(_bytes: &mut [u8], _journal: &NewJournal) {
    todo!()
}
/// Blocks of the journal that mke2fs makes on a volume of that many blocks; 0 where it makes none.
pub fn default_blocks(_volume_blocks: u64) -> u32 {
    todo!()
}
