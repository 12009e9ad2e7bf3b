//! A superblock that a cut has torn: its flags and its checksum are in two sectors.
use super::{RawSuperblock, SUPERBLOCK_SIZE, Superblock, state};
use crate::superblock::Feature;
use zerocopy::{FromBytes, IntoBytes};

impl Superblock {
    /// Reads a superblock whose checksum fits when `needs_recovery`, the error flag or both are
    /// changed: a store that changed nothing else, of which one sector is there. It is as if that
    /// store had not begun, but for the checksum: it needs recovery, and may have errors. `None`
    /// for any other.
    pub fn parse_torn(bytes: &[u8; SUPERBLOCK_SIZE]) -> Option<Superblock> {
        let Feature::Incompat(recover) = Feature::NEEDS_RECOVERY else { return None };
        [(recover, 0), (0, state::ERRORS), (recover, state::ERRORS)].into_iter().find_map(
            |(recover, errors)| {
                let mut raw = RawSuperblock::read_from_bytes(bytes).ok()?;
                raw.incompat = (raw.incompat.get() ^ recover).into();
                raw.state = (raw.state.get() ^ errors).into();
                let torn: [u8; SUPERBLOCK_SIZE] = raw.as_bytes().try_into().ok()?;
                let mut superblock = Superblock::parse_any(&torn).ok()?;
                superblock.features.set(Feature::NEEDS_RECOVERY);
                superblock.state |= errors;
                Some(superblock)
            },
        )
    }

    /// Reads a superblock that needs recovery whatever its checksum says: a store of it may have
    /// been torn anywhere. What a journal is found by never changes, and is in both of its sectors
    /// as before; the rest is only good once a copy in the journal has taken its place. `None` for
    /// any other.
    pub fn parse_unsealed(bytes: &[u8; SUPERBLOCK_SIZE]) -> Option<Superblock> {
        let mut raw = RawSuperblock::read_from_bytes(bytes).ok()?;
        raw.checksum = raw.computed_checksum().into();
        let sealed: [u8; SUPERBLOCK_SIZE] = raw.as_bytes().try_into().ok()?;
        let superblock = Superblock::parse_any(&sealed).ok()?;
        superblock.has(Feature::NEEDS_RECOVERY).then_some(superblock)
    }
}
