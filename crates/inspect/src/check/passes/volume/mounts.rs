//! Pass 0: the block by which several machines agree which of them mounts a volume (feature mmp).
//!
//! *Invariants*: one block is read, and only where it is on the volume.
use crate::check::codes::Code;
use crate::check::problem::Problem;
use crate::check::sink::Sink;
use crate::error::Error;
use crate::volume::Volume;
use extant_format::mount_block::StoredMountBlock;
use extant_format::superblock::Feature;

/// Judges the block that records mounts.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(volume: &Volume, problems: &Sink) -> Result<(), Error> {
    let superblock = volume.superblock();
    if !superblock.has(Feature::MMP) {
        return Ok(());
    }
    let block = volume.stored().mmp_block();
    let problem = |code| Problem::new(code).block(block);
    if block.0 <= superblock.first_data_block.into() || !volume.holds(block) {
        problems.add(problem(Code::MountBlock));
        return Ok(());
    }
    let bytes = volume.block("mount block", block)?;
    let mount_block = StoredMountBlock::new(&bytes);
    if !mount_block.is_sound(superblock) {
        problems.add(problem(Code::MountBlock));
    } else if mount_block.is_held_by_checker() {
        problems.add(problem(Code::MountBlockHeld).found(mount_block.sequence()));
    }
    Ok(())
}
