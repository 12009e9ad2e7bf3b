//! Pass 0: the block by which several machines agree who mounts a volume (feature mmp).
//!
//! *Invariants*: one block is read, and only where it lies on the volume.
use super::codes::Code;
use super::problem::{Problem, Sink};
use super::superblock::MULTIPLE_MOUNTS;
use super::words::u32_at;
use crate::error::Error;
use crate::fields;
use crate::volume::Volume;
use extant_format::BlockNo;
use extant_format::checksum::crc32c;
use extant_format::superblock::Feature;

const MAGIC: u32 = 0x004d_4d50;
/// Bytes that the checksum covers; it follows them.
const COVERED: usize = 1020;
/// Sequence numbers: nobody has the volume; the highest that a mount counts up to. Above it are
/// checkers.
const CLEAN: u32 = 0xff4d_4d50;
const SEQUENCE_MAX: u32 = 0xe24d_4d4f;

/// Judges the block that tells of mounts.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(volume: &Volume, problems: &Sink) -> Result<(), Error> {
    let superblock = volume.superblock();
    if !superblock.has(MULTIPLE_MOUNTS) {
        return Ok(());
    }
    let block = BlockNo(volume.fields().u64(fields::MMP_BLOCK));
    let problem = |code| Problem::new(code).block(block);
    if block.0 <= superblock.first_data_block.into() || !volume.holds(block) {
        problems.add(problem(Code::MountBlock));
        return Ok(());
    }
    let bytes = volume.block("mount block", block)?;
    let computed = crc32c(superblock.checksum_seed, bytes.get(..COVERED).unwrap_or_default());
    let is_sealed = !superblock.has(Feature::METADATA_CSUM) || u32_at(&bytes, COVERED) == computed;
    let sequence = u32_at(&bytes, 4);
    if u32_at(&bytes, 0) != MAGIC || !is_sealed {
        problems.add(problem(Code::MountBlock));
    } else if sequence > SEQUENCE_MAX && sequence != CLEAN {
        problems.add(problem(Code::MountBlockHeld).found(sequence));
    }
    Ok(())
}
