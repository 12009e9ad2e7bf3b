//! What a file held goes.
use std::fs::File;

/// Makes a range of a file a hole, which reads as zeros; whether the host did.
pub fn punch(file: &File, offset: u64, length: u64) -> bool {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, offset, length).is_ok()
}
