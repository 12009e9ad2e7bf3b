//! The least time that a machine could take: bytes over the rate of its drive's medium, the least
//! possible seeks, and the processor's work, where that goes on meanwhile.
use extant_sim::drive::DriveInfo;
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
    /// In all: the drive's, or the processor's if that is longer.
    pub nanoseconds: u64,
    /// For bytes under the head at the drive's highest rate.
    pub media_ns: u64,
    /// For repositionings.
    pub seek_ns: u64,
    /// For what the processor has to do, while the drive works.
    pub processor_ns: u64,
}

impl Need {
    /// The least time on a drive.
    pub fn limit(&self, drive: &DriveInfo) -> Limit {
        let bytes = u128::from(self.bytes_read) + u128::from(self.bytes_written);
        let rate = u128::from(drive.media_bytes_per_second.max(1));
        let media_ns = u64::try_from(bytes * 1_000_000_000 / rate).unwrap_or(u64::MAX);
        let seek_ns = self.seeks.saturating_mul(drive.least_seek_ns);
        Limit { nanoseconds: media_ns.saturating_add(seek_ns), media_ns, seek_ns, processor_ns: 0 }
    }
}

impl Limit {
    /// The least time when the processor has so much to do meanwhile.
    #[must_use]
    pub fn beside(self, processor_ns: u64) -> Limit {
        Limit { nanoseconds: self.nanoseconds.max(processor_ns), processor_ns, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_seeks_and_work_that_goes_on_meanwhile() {
        let drive = DriveInfo {
            name: "test".to_owned(),
            bytes: 1 << 30,
            sector_bytes: 512,
            queue_depth: 1,
            media_bytes_per_second: 50_000_000,
            least_seek_ns: 2_000_000,
        };
        let need = Need { bytes_read: 40_000_000, bytes_written: 10_000_000, seeks: 5 };
        let limit = need.limit(&drive);
        assert_eq!((limit.media_ns, limit.seek_ns), (1_000_000_000, 10_000_000));
        assert_eq!(limit.nanoseconds, 1_010_000_000);
        assert_eq!(limit.beside(500_000_000).nanoseconds, 1_010_000_000);
        assert_eq!(limit.beside(2_000_000_000).nanoseconds, 2_000_000_000);
    }
}
