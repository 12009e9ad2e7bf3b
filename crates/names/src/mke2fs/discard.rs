//! What a file held where a volume comes goes, and what is around that stays.
use super::Failure;
use super::decide::Decision;
use super::words::Request;
use extant_engine::mkfs::Contents;
use extant_host::target::Target;
use std::fs::File;
use std::io;

/// Whether what is there goes before the volume comes.
pub fn discards(request: &Request, decision: &Decision) -> bool {
    decision.extended.discard != Some(false) && !request.keep
}

/// Makes a file long enough, and discards what it held where the volume is to be, unless that is to
/// stay. What it holds before the volume and after it stays.
pub fn prepare(
    request: &Request,
    decision: &Decision,
    target: &Target,
    end: u64,
) -> Result<Contents, Failure> {
    if target.device_bytes.is_some() {
        return Ok(Contents::Unknown);
    }
    let failed = |error: io::Error| target.write_error(&error);
    let offset = decision.extended.offset;
    let length = target.file.metadata().map_err(failed)?.len();
    let held = length.min(end).saturating_sub(offset);
    let is_empty = held == 0 || (discards(request, decision) && punch(&target.file, offset, held));
    if length < end {
        target.file.set_len(end).map_err(failed)?;
    }
    Ok(if is_empty { Contents::Zeros } else { Contents::Unknown })
}

/// Makes a range of a file a hole, which reads as zeros; whether the host did.
fn punch(file: &File, offset: u64, length: u64) -> bool {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, offset, length).is_ok()
}
