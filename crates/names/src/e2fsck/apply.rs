//! What recovery, a check and -E discard change of a volume where nothing is wrong.
// tidy: writers because the volume is closed, and locked
use super::{Subject, lost, mend};
use crate::in_place::{self, InPlace};
use crate::{complain, say};
use extant_block::{BlockDevice, Clock, RealClock};
use extant_engine::{
    Access, DataKeeping, ErrorKind, Filesystem, Options, OrphanCounts, cache_for_blocks,
    free_orphans, mkfs, recover,
};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, state};
use extant_host::error::Error;
use extant_host::{image, journal, recovery};
use extant_inspect::Summary;
use std::path::Path;
use std::sync::Arc;

/// Memory for the blocks of a volume whose free blocks are given back.
const CACHE_BYTES: usize = 32 << 20;

/// What the superblock counted as free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counters {
    Right,
    Mended,
}

/// Replays the journal, frees orphans, and notes what was found in a check, on the disk.
pub(super) fn apply(
    subject: &Subject<'_>,
    orphans: Option<OrphanCounts>,
    found: Option<&Summary>,
) -> Result<Counters, Error> {
    let (shown, failed) = (&subject.shown, |error| image::failure(subject.path, error));
    let needs_recovery = subject.superblock.has(Feature::NEEDS_RECOVERY);
    if !needs_recovery && orphans.is_none() && found.is_none() {
        return Ok(Counters::Right);
    }
    let volume = InPlace::open(subject.path)?;
    let device = journal::write(subject.path, subject.journal, Arc::clone(&volume.device))?;
    let change = |device: &Arc<dyn BlockDevice>| {
        if needs_recovery {
            say(&format!("{shown}: recovering journal\n"));
            recover(device).map_err(failed)?;
        }
        if needs_recovery || orphans.is_some() {
            let freed = free_orphans(device).map_err(failed)?;
            if let Some(finished) = freed.map(recovery::orphans_finished) {
                let what = finished.as_deref().unwrap_or("none left");
                say(&format!("{shown}: orphans: {what}\n"));
            }
        }
        let Some(found) = found else { return Ok(Counters::Right) };
        let noted = note(&**device, subject.path, found)?;
        let superblock = in_place::superblock(&**device, subject.path)?;
        if lost::differs(device, &superblock) {
            mkfs::renew_copies(&**device).map_err(failed)?;
        }
        Ok(noted)
    };
    match &subject.undo {
        None => change(&device),
        Some(_) => mend::with_undo(subject, (&volume, device), change),
    }
}

/// The superblock says that the volume is clean, was checked now, and has as much free as was
/// found.
fn note(device: &dyn BlockDevice, path: &Path, found: &Summary) -> Result<Counters, Error> {
    let mut superblock = in_place::superblock(device, path)?;
    let now = RealClock::new().wall().seconds.max(0).cast_unsigned();
    superblock.state |= state::CLEAN;
    superblock.state &= !state::ERRORS;
    superblock.mount_count = 0;
    superblock.checked_seconds = now;
    superblock.written_seconds = now;
    let (blocks, inodes) = (superblock.free_blocks, superblock.free_inodes);
    let free_inodes = found.inodes.saturating_sub(found.inodes_used);
    superblock.free_blocks = found.blocks.saturating_sub(found.blocks_used);
    superblock.free_inodes = u32::try_from(free_inodes).unwrap_or(superblock.free_inodes);
    let written = device.write(SUPERBLOCK_OFFSET, &superblock.encode());
    written
        .and_then(|()| device.flush())
        .map_err(|error| Error::io(path.display(), &error).hint("the check was not noted"))?;
    Ok(match (superblock.free_blocks, superblock.free_inodes) == (blocks, inodes) {
        true => Counters::Right,
        false => Counters::Mended,
    })
}

/// -E discard: the blocks that are free go back to the device or the file, which then reads as
/// zeros there.
///
/// # Errors
/// The host's. A device that can do nothing with it is no failure.
pub(super) fn discard(subject: &Subject<'_>) -> Result<(), Error> {
    if subject.undo.is_some() {
        complain(&format!("{}: -z: free blocks are not given back", subject.shown));
        return Ok(());
    }
    let failed = |error| image::failure(subject.path, error);
    let volume = InPlace::open(subject.path)?;
    let options = Options {
        access: Access::ReadWrite,
        policies: image::default_policies()?,
        cache_bytes: cache_for_blocks(CACHE_BYTES),
        data: DataKeeping::Bytes,
    };
    let filesystem = match Filesystem::open(Arc::clone(&volume.device), &options) {
        Ok(filesystem) => filesystem,
        Err(extant_engine::Error {
            kind: ErrorKind::Unsupported(_) | ErrorKind::NotWritten(_),
            ..
        }) => {
            complain(&format!("{}: free blocks are not given back", subject.shown));
            return Ok(());
        }
        Err(error) => return Err(failed(error)),
    };
    let trimmed = filesystem.trim(0, u64::MAX, 0);
    filesystem.close().map_err(failed)?;
    match trimmed {
        Err(extant_engine::Error { kind: ErrorKind::OperationUnsupported(_), .. }) => {
            complain(&format!("{}: the device keeps free blocks", subject.shown));
            Ok(())
        }
        trimmed => trimmed.map(drop).map_err(failed),
    }
}

/// Whether there is a directory for what is lost; also where that cannot be told.
pub(super) fn has_lost_found(device: &Arc<dyn BlockDevice>) -> bool {
    let Ok(policies) = image::default_policies() else { return true };
    let options = Options {
        access: Access::ReadOnly,
        policies,
        cache_bytes: cache_for_blocks(CACHE_BYTES),
        data: DataKeeping::Bytes,
    };
    let Ok(volume) = Filesystem::open(Arc::clone(device), &options) else { return true };
    let found = volume.symlink_metadata("/lost+found");
    !found.is_err_and(|error| matches!(error.kind, ErrorKind::NotFound))
}
