//! What the drive files of solid-state drives, network volumes and object stores have in common: a
//! size, a depth, latencies.
use super::DriveInfo;
use super::booking::SECOND;
use super::section::{FileError, Section};
use crate::random::Quantiles;
use serde::Serialize;

/// Bytes or operations a second that a model accepts.
pub(super) const RATES: std::ops::RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Most bytes of anything.
pub(super) const MOST_BYTES: u64 = 1 << 62;

/// Keys `capacity_bytes`, `sector_bytes` (512) and `queue_depth`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Medium {
    /// Its size; a multiple of its sector.
    pub capacity_bytes: u64,
    /// Smallest unit; a power of two.
    pub sector_bytes: u32,
    /// How many commands it takes at a time.
    pub queue_depth: u32,
}

impl Medium {
    pub(super) fn from_section(section: &mut Section<'_>) -> Result<Medium, FileError> {
        let sector_bytes = whole_u32(section, "sector_bytes", 512..=65_536, Some(512))?;
        if !sector_bytes.is_power_of_two() {
            return Err(section.error("sector_bytes", "has to be a power of two"));
        }
        let capacity_bytes = section.whole_within("capacity_bytes", 1..=MOST_BYTES, None)?;
        if !capacity_bytes.is_multiple_of(u64::from(sector_bytes)) {
            return Err(
                section.error("capacity_bytes", format!("has to be a multiple of {sector_bytes}"))
            );
        }
        let queue_depth = whole_u32(section, "queue_depth", 1..=65_536, None)?;
        Ok(Medium { capacity_bytes, sector_bytes, queue_depth })
    }

    /// The drive's description. There is nothing to reposition: the least seek is 0.
    pub(super) fn info(&self, name: &str, bytes_per_second: u64) -> DriveInfo {
        DriveInfo {
            name: name.to_owned(),
            bytes: self.capacity_bytes,
            sector_bytes: self.sector_bytes,
            queue_depth: self.queue_depth,
            media_bytes_per_second: bytes_per_second,
            least_seek_ns: 0,
        }
    }

    /// First and last unit of this many bytes that a command touches; what lies past the end is
    /// taken to be at the end.
    pub(super) fn units(
        &self,
        offset: u64,
        bytes: u64,
        unit: u64,
    ) -> std::ops::RangeInclusive<u64> {
        let end = self.capacity_bytes - 1;
        let last = offset.saturating_add(bytes.max(1) - 1).min(end);
        offset.min(end) / unit..=last / unit
    }
}

/// A whole number within bounds that end below 2^32.
pub(super) fn whole_u32(
    section: &mut Section<'_>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
    default: Option<u64>,
) -> Result<u32, FileError> {
    let value = section.whole_within(key, bounds, default)?;
    Ok(u32::try_from(value).unwrap_or(u32::MAX))
}

/// A time that varies log-normally; equal values mean that it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Latency {
    /// Half of the times are shorter.
    pub median_ns: u64,
    /// One in a hundred is longer.
    pub p99_ns: u64,
}

/// The unit of a time in a drive file, which is also how its keys end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Microseconds,
    Milliseconds,
}

impl Unit {
    fn digits(self) -> (u32, &'static str) {
        match self {
            Unit::Microseconds => (3, "us"),
            Unit::Milliseconds => (6, "ms"),
        }
    }

    /// The time of the key `NAME_us` or `NAME_ms` in nanoseconds; at most 100 s.
    pub(super) fn time(
        self,
        section: &mut Section<'_>,
        name: &str,
        default: Option<u64>,
    ) -> Result<u64, FileError> {
        let (digits, end) = self.digits();
        let default = default.map(|time| time.min(100 * SECOND).cast_signed());
        let time = section.decimal_within(
            &format!("{name}_{end}"),
            digits,
            0..=100_000_000_000,
            default,
        )?;
        Ok(time.unsigned_abs())
    }

    /// The keys `NAME_us` and `NAME_p99_us` (absent: no variation), or those that end in `_ms`.
    pub(super) fn latency(
        self,
        section: &mut Section<'_>,
        name: &str,
    ) -> Result<Latency, FileError> {
        let median_ns = self.time(section, name, None)?;
        let tail = format!("{name}_p99");
        let p99_ns = self.time(section, &tail, Some(median_ns))?;
        if p99_ns < median_ns || p99_ns / 1000 > median_ns {
            let key = format!("{tail}_{}", self.digits().1);
            return Err(section.error(&key, "has to be 1 to 1000 times the median"));
        }
        Ok(Latency { median_ns, p99_ns })
    }
}

impl Latency {
    /// The distribution of what is left when this many nanoseconds of it are spent elsewhere.
    pub(super) fn quantiles(self, spent_ns: u64) -> Quantiles {
        let left = |time: u64| time.saturating_sub(spent_ns);
        Quantiles::log_normal(left(self.median_ns), left(self.p99_ns))
    }
}
