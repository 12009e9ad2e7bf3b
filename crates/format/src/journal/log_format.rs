//! What the features of a journal decide about the blocks of its log.
use super::{HEADER_BYTES, Sequence, put};
use crate::Fault;
use crate::checksum::crc32c;

/// Bytes of the journal's UUID, which follow a tag that does not share that of the tag before.
pub(super) const UUID_BYTES: usize = 16;
/// Bytes of the checksum at the end of descriptors and revoke blocks.
const TAIL_BYTES: usize = 4;
/// Bytes of a revoke block before its numbers: the header, and how many bytes are in use.
pub(super) const REVOKE_HEADER_BYTES: usize = HEADER_BYTES + size_of::<u32>();

/// How wide the numbers of blocks are in tags and revoke blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockNumbers {
    /// 32 bits.
    Narrow,
    /// 64 bits (feature 64bit of the journal).
    Wide,
}

/// Which checksums a log has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// None.
    None,
    /// Version 1: commit blocks have a crc32 of the transaction.
    Version1,
    /// Version 2: each block has a crc32c; tags keep 16 bits of it.
    Version2,
    /// Version 3: each block has a crc32c.
    Version3,
}

/// How the blocks of a log are written: what [`JournalSuperblock::log_format`] gives.
///
/// [`JournalSuperblock::log_format`]: super::JournalSuperblock::log_format
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFormat {
    /// Bytes of a block.
    pub block_size: u32,
    /// How wide numbers of blocks are.
    pub block_numbers: BlockNumbers,
    /// Which checksums blocks have.
    pub checksums: Checksums,
    /// The journal's UUID, with which checksums of versions 2 and 3 begin.
    pub uuid: [u8; UUID_BYTES],
}

impl LogFormat {
    /// Bytes of a tag without a UUID: 8 or 12; 10 or 14 in version 2; 16 in version 3.
    pub fn tag_bytes(&self) -> usize {
        match (self.checksums, self.block_numbers) {
            (Checksums::Version3, _) => 16,
            (Checksums::Version2, BlockNumbers::Wide) => 14,
            (Checksums::Version2, BlockNumbers::Narrow) => 10,
            (_, BlockNumbers::Wide) => 12,
            (_, BlockNumbers::Narrow) => 8,
        }
    }

    /// How many tags fit in a descriptor, the first of which has a UUID.
    #[allow(clippy::arithmetic_side_effects)] // no tag has 0 bytes
    pub fn tags_per_descriptor(&self) -> usize {
        self.body_end().saturating_sub(HEADER_BYTES + UUID_BYTES) / self.tag_bytes()
    }

    /// How many numbers of blocks fit in a revoke block.
    #[allow(clippy::arithmetic_side_effects)] // no number has 0 bytes
    pub fn revokes_per_block(&self) -> usize {
        self.body_end().saturating_sub(REVOKE_HEADER_BYTES) / self.revoke_bytes()
    }

    /// Blocks that the log needs for a transaction: descriptors, copies, revoke blocks and the
    /// commit block.
    #[allow(clippy::arithmetic_side_effects)] // divisors are at least 1, and sums are of counts
    pub fn transaction_blocks(&self, copies: usize, revokes: usize) -> usize {
        let descriptors = copies.div_ceil(self.tags_per_descriptor().max(1));
        let revoke_blocks = revokes.div_ceil(self.revokes_per_block().max(1));
        copies.saturating_add(descriptors).saturating_add(revoke_blocks).saturating_add(1)
    }

    /// The checksum of a copy in the log (escaped, if it is), as version 3 stores it; version 2
    /// stores its low 16 bits.
    pub fn copy_checksum(&self, sequence: Sequence, copy: &[u8]) -> u32 {
        crc32c(crc32c(self.seed(), &sequence.0.to_be_bytes()), copy)
    }

    /// Whether blocks have checksums of their own: versions 2 and 3.
    pub fn has_block_checksums(&self) -> bool {
        matches!(self.checksums, Checksums::Version2 | Checksums::Version3)
    }

    /// What the crc32c of the journal's blocks starts with.
    pub fn seed(&self) -> u32 {
        crc32c(!0, &self.uuid)
    }

    /// Bytes of a number in a revoke block.
    pub(super) fn revoke_bytes(&self) -> usize {
        match self.block_numbers {
            BlockNumbers::Narrow => size_of::<u32>(),
            BlockNumbers::Wide => size_of::<u64>(),
        }
    }

    /// Where the tags or numbers of a block end: at its checksum, or with the block.
    pub(super) fn body_end(&self) -> usize {
        let tail = if self.has_block_checksums() { TAIL_BYTES } else { 0 };
        (self.block_size as usize).saturating_sub(tail)
    }

    /// Stores the checksum at the end of a descriptor or revoke block.
    pub(super) fn seal(&self, block: &mut [u8]) {
        if self.has_block_checksums() {
            let checksum = self.tail_checksum(block);
            put(block, self.body_end(), &checksum.to_be_bytes());
        }
    }

    /// Checks the length and the checksum of a descriptor or revoke block.
    pub(super) fn check_tail(&self, structure: &'static str, block: &[u8]) -> Result<(), Fault> {
        self.check_length(structure, block)?;
        if !self.has_block_checksums() {
            return Ok(());
        }
        let tail = block.get(self.body_end()..).and_then(|tail| tail.first_chunk());
        let stored = tail.map_or(0, |tail| u32::from_be_bytes(*tail));
        let computed = self.tail_checksum(block);
        if stored != computed {
            return Err(Fault::Checksum { structure, stored, computed });
        }
        Ok(())
    }

    /// Refuses bytes that are not one block.
    pub(super) fn check_length(&self, structure: &'static str, block: &[u8]) -> Result<(), Fault> {
        if block.len() == self.block_size as usize {
            return Ok(());
        }
        let (field, reason) = ("length", "not that of a block");
        Err(Fault::Field { structure, field, value: block.len() as u64, reason })
    }

    /// Over the whole block, with zeros for the checksum.
    fn tail_checksum(&self, block: &[u8]) -> u32 {
        let body = block.get(..self.body_end()).unwrap_or(block);
        crc32c(crc32c(self.seed(), body), &[0; TAIL_BYTES])
    }
}
