//! A journal's superblock that was checked, and what changes in it while the journal is used.
use super::{
    BlockNumbers, Checksums, LogFormat, MAGIC, RawJournal, SUPERBLOCK_BYTES, SUPERBLOCK_V1,
    SUPERBLOCK_V2, Sequence, StoredJournal, VERSION_1_BYTES, compat, incompat, put,
};
use crate::Fault;
use crate::checksum::crc32c;
use crate::superblock::{Feature, Superblock};
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

const STRUCTURE: &str = "journal superblock";
/// Bytes of a block: the least and the most that a volume can have.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 1024..=65_536;

/// A journal's superblock, in which everything is possible.
///
/// `sequence`, `start`, `error`, `head` and the features change while the journal is used:
/// [`store`](Self::store) writes them, and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalSuperblock {
    /// Whether it is of version 2, and so has features, a UUID and a checksum.
    pub has_features: bool,
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the journal, its superblock and those for fast commits included.
    pub blocks: u32,
    /// The first block of the log, at least 1.
    pub first: u32,
    /// The first transaction that is expected in the log.
    pub sequence: Sequence,
    /// Where the log begins, from `first` to before `log_end()`; 0 when it is empty.
    pub start: u32,
    /// The error that stopped the journal, as Linux numbers it; 0 for none.
    pub error: i32,
    /// Compatible features: bits of [`compat`].
    pub compat: u32,
    /// Incompatible features: bits of [`incompat`], all of them known.
    pub incompat: u32,
    /// The journal's own UUID.
    pub uuid: [u8; 16],
    /// Where the log ended when it was last emptied; 0 where nothing is known.
    pub head: u32,
    /// Blocks at the end that are kept for fast commits; 0 without that feature.
    pub fast_commit_blocks: u32,
}

impl JournalSuperblock {
    /// Of the first block of a journal, or at least its first [`SUPERBLOCK_BYTES`] bytes.
    ///
    /// # Errors
    /// Too few bytes, no magic number, a wrong checksum, a feature that is not known, or a field
    /// that is not possible.
    pub fn parse(bytes: &[u8]) -> Result<JournalSuperblock, Fault> {
        let field =
            |field, value, reason| Fault::Field { structure: STRUCTURE, field, value, reason };
        let stored = StoredJournal::new(bytes)
            .ok_or_else(|| field("length", bytes.len() as u64, "less than 1024 bytes"))?;
        if stored.magic() != MAGIC {
            return Err(Fault::Magic { structure: STRUCTURE, found: stored.magic() });
        }
        let has_features = match stored.block_type() {
            SUPERBLOCK_V1 => false,
            SUPERBLOCK_V2 => true,
            other => return Err(field("type", other.into(), "neither 3 nor 4")),
        };
        let of_version_2 = |value: u32| if has_features { value } else { 0 };
        let (compat, incompat) = (of_version_2(stored.compat()), of_version_2(stored.incompat()));
        check_features(stored, incompat, of_version_2(stored.ro_compat()))?;
        let has_checksum = incompat & (incompat::CHECKSUM_V2 | incompat::CHECKSUM_V3) != 0;
        if has_checksum {
            let (stored, computed) = (stored.checksum(), stored.computed_checksum());
            if stored != computed {
                return Err(Fault::Checksum { structure: STRUCTURE, stored, computed });
            }
        }
        let fast_commit_blocks = match incompat & incompat::FAST_COMMIT {
            0 => 0,
            _ => stored.fast_commit_blocks_or_usual(),
        };
        let journal = JournalSuperblock {
            has_features,
            block_size: stored.block_size(),
            blocks: stored.blocks(),
            first: stored.first(),
            sequence: Sequence(stored.sequence()),
            start: stored.start(),
            error: stored.error(),
            compat,
            incompat,
            uuid: if has_features { stored.uuid() } else { [0; 16] },
            head: of_version_2(stored.head()),
            fast_commit_blocks,
        };
        journal.check()?;
        Ok(journal)
    }

    /// Whether a feature (a bit of [`incompat`]) is set.
    pub fn has(&self, feature: u32) -> bool {
        self.incompat & feature != 0
    }

    /// Whether it holds no transactions.
    pub fn is_empty(&self) -> bool {
        self.start == 0
    }

    /// The block after the last one of the log.
    pub fn log_end(&self) -> u32 {
        self.blocks.saturating_sub(self.fast_commit_blocks)
    }

    /// The blocks for fast commits, which begin one block after the log's end: Linux leaves one
    /// unused.
    pub fn fast_commit_area(&self) -> std::ops::Range<u32> {
        match self.fast_commit_blocks {
            0 => self.blocks..self.blocks,
            _ => self.log_end().saturating_add(1)..self.blocks,
        }
    }

    /// Blocks of the log, at least 1.
    pub fn log_blocks(&self) -> u32 {
        self.log_end().saturating_sub(self.first)
    }

    /// The block `distance` blocks after a block of the log, which is a ring.
    #[allow(clippy::arithmetic_side_effects)] // a log has at least one block
    pub fn after(&self, block: u32, distance: u32) -> u32 {
        let offset = u64::from(block.saturating_sub(self.first)) + u64::from(distance);
        let around = u32::try_from(offset % u64::from(self.log_blocks().max(1)));
        self.first.saturating_add(around.unwrap_or_default())
    }

    /// How the blocks of its log are written.
    pub fn log_format(&self) -> LogFormat {
        let checksums = match () {
            () if self.has(incompat::CHECKSUM_V3) => Checksums::Version3,
            () if self.has(incompat::CHECKSUM_V2) => Checksums::Version2,
            () if self.compat & compat::CHECKSUM != 0 => Checksums::Version1,
            () => Checksums::None,
        };
        let block_numbers = match self.has(incompat::SIXTY_FOUR_BIT) {
            true => BlockNumbers::Wide,
            false => BlockNumbers::Narrow,
        };
        LogFormat { block_size: self.block_size, block_numbers, checksums, uuid: self.uuid }
    }

    /// Sets the features that Linux sets when it mounts such a volume for writing: revoke; 64bit if
    /// the volume has it; version 3 of checksums on volumes with metadata_csum, none on others.
    /// Features that change how blocks are read: the log has to be empty.
    pub fn adopt_features(&mut self, volume: &Superblock) {
        let checksums = incompat::CHECKSUM_V2 | incompat::CHECKSUM_V3 | incompat::ASYNC_COMMIT;
        self.compat &= !compat::CHECKSUM;
        self.incompat &= !checksums;
        self.incompat |= incompat::REVOKE;
        if volume.has(Feature::SIXTY_FOUR_BIT) {
            self.incompat |= incompat::SIXTY_FOUR_BIT;
        }
        if volume.has(Feature::METADATA_CSUM) {
            self.incompat |= incompat::CHECKSUM_V3;
        }
    }

    /// Stores what changes (`sequence`, `start`, `error`, `head`, the features) in the bytes that
    /// it was parsed from, with the checksum. A superblock of version 1 becomes one of version 2
    /// when it has been given a feature, as Linux does it. Bytes that are too few are left as they
    /// are.
    pub fn store(&self, bytes: &mut [u8]) {
        let Ok((raw, _)) = RawJournal::mut_from_prefix(bytes) else { return };
        raw.sequence = self.sequence.0.into();
        raw.start = self.start.into();
        raw.error = self.error.into();
        if !self.has_features {
            if self.compat == 0 && self.incompat == 0 {
                return;
            }
            raw.block_type = SUPERBLOCK_V2.into();
            put(raw.as_mut_bytes(), VERSION_1_BYTES, &[0; SUPERBLOCK_BYTES - VERSION_1_BYTES]);
        }
        raw.compat = self.compat.into();
        raw.incompat = self.incompat.into();
        raw.head = self.head.into();
        let has_checksum = self.log_format().has_block_checksums();
        raw.checksum_type = if has_checksum { super::CHECKSUM_CRC32C } else { 0 };
        raw.checksum = U32::ZERO;
        if has_checksum {
            let checksum = crc32c(!0, raw.as_bytes());
            raw.checksum = checksum.into();
        }
    }

    fn check(&self) -> Result<(), Fault> {
        let field = |field, value: u32, reason| {
            Err(Fault::Field { structure: STRUCTURE, field, value: value.into(), reason })
        };
        if !BLOCK_BYTES.contains(&self.block_size) || !self.block_size.is_power_of_two() {
            return field("block size", self.block_size, "not a power of two from 1024 to 65536");
        }
        if self.first == 0 {
            return field("first block", self.first, "that of the superblock");
        }
        if self.fast_commit_blocks >= self.blocks {
            return field("fast-commit blocks", self.fast_commit_blocks, "as many as the journal");
        }
        if self.first >= self.log_end() {
            return field("first block", self.first, "past the end of the log");
        }
        if self.start != 0 && !(self.first..self.log_end()).contains(&self.start) {
            return field("start", self.start, "outside of the log");
        }
        Ok(())
    }
}

/// Refuses features that are not known, and two kinds of checksums at once.
fn check_features(stored: StoredJournal<'_>, incompat: u32, ro_compat: u32) -> Result<(), Fault> {
    let field = |field, value: u32, reason| {
        Err(Fault::Field { structure: STRUCTURE, field, value: value.into(), reason })
    };
    let unknown = incompat & !incompat::KNOWN;
    if unknown != 0 {
        return field("incompatible features", unknown, "not known");
    }
    if ro_compat != 0 {
        return field("features for reading only", ro_compat, "not known");
    }
    let blocks = incompat & (incompat::CHECKSUM_V2 | incompat::CHECKSUM_V3);
    let both = incompat::CHECKSUM_V2 | incompat::CHECKSUM_V3;
    if blocks == both {
        return field("incompatible features", incompat, "two versions of checksums");
    }
    if blocks != 0 && stored.compat() & compat::CHECKSUM != 0 {
        return field("compatible features", stored.compat(), "another version of checksums");
    }
    if blocks != 0 && stored.checksum_type() != super::CHECKSUM_CRC32C {
        return field("checksum type", stored.checksum_type().into(), "not crc32c");
    }
    Ok(())
}
