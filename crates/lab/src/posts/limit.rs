//! The least time that a drive could take: bytes over the rate of its medium, and the least possible seeks.
use crate::drive::DriveInfo;
use serde::Serialize;

/// What a piece of work asks of a drive at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Need {
    /// Bytes that have to be read.
    pub bytes_read: u64,
    /// Bytes that have to be written.
    pub bytes_written: u64,
    /// Repositionings that no layout saves.
    pub seeks: u64,
}

/// The least time, and what it is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Limit {
    /// In all.
    pub nanoseconds: u64,
    /// For bytes under the head at the drive's highest rate.
    pub media_ns: u64,
    /// For repositionings.
    pub seek_ns: u64,
}

impl Need {
    /// The least time on a drive.
    pub fn limit(&self, drive: &DriveInfo) -> Limit {
        let bytes = u128::from(self.bytes_read) + u128::from(self.bytes_written);
        let rate = u128::from(drive.media_bytes_per_second.max(1));
        let media_ns = u64::try_from(bytes * 1_000_000_000 / rate).unwrap_or(u64::MAX);
        let seek_ns = self.seeks.saturating_mul(drive.least_seek_ns);
        Limit {
            nanoseconds: media_ns.saturating_add(seek_ns),
            media_ns,
            seek_ns,
        }
    }
}
