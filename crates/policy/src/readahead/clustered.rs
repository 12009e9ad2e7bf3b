//! Read-ahead of FreeBSD, by clusters: as far as a file is contiguous on disk, up to MAXPHYS (128
//! KiB) at a time.
//!
//! As McKusick, Bostic, Karels and Quarterman describe it ("The Design and Implementation of the
//! 4.4BSD Operating System", section 8.3, and McVoy and Kleiman, "Extent-like Performance from a
//! UNIX File System", 1991, where it comes from): the more has been read in sequence, the further
//! ahead it reads. FreeBSD counts a step for each sequential read, or for each 16 KiB of it, up to
//! 127, and reads as many blocks ahead. A read of the first block of the last cluster asks for the
//! next one.
use super::{Access, Reach, ReadAhead, ReadStream};
use std::ops::Range;

const CLUSTER_BYTES_MAX: u32 = 128 << 10;
const STEP_BYTES: u64 = 16 << 10;
const STEPS_MAX: u32 = 127;

/// Contiguous clusters of at most 128 KiB, as many blocks ahead as steps were made in sequence.
pub struct Clustered;

impl ReadAhead for Clustered {
    fn window(&self, stream: &mut ReadStream, access: &Access) -> Option<Range<u32>> {
        let goes_on = stream.continues(access);
        stream.next = access.end();
        if !goes_on {
            (stream.streak, stream.size) = (0, 0);
            return None;
        }
        let bytes = u64::from(access.count) * u64::from(access.block_size);
        let steps = bytes.div_ceil(STEP_BYTES).clamp(1, u64::from(STEPS_MAX)) as u32;
        stream.streak = (stream.streak + steps).min(STEPS_MAX);
        if stream.size > 0 && access.end() <= stream.mark {
            return None;
        }
        let from =
            if stream.covers(access) { stream.ahead.max(access.end()) } else { access.end() };
        let last = access.end().saturating_add(stream.streak);
        let most = from.saturating_add(access.blocks_of(CLUSTER_BYTES_MAX));
        let cluster = access.within_file(from..last.min(most))?;
        stream.start = access.block;
        (stream.mark, stream.ahead) = (cluster.start, cluster.end);
        stream.size = cluster.end - cluster.start;
        Some(cluster)
    }

    fn reach(&self) -> Reach {
        Reach::Contiguous
    }
}
