//! A distribution of times as reports keep it.
use crate::device::Histogram;
use serde::{Deserialize, Serialize};

/// How often which times occurred: a time is known to an eighth of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total_ns: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// Half are not longer.
    pub median_ns: u64,
    /// 90 in 100 are not longer.
    pub p90_ns: u64,
    /// 99 in 100 are not longer.
    pub p99_ns: u64,
    /// 999 in 1,000 are not longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Steps that have values: the longest time of each, and how many. Rising.
    pub steps: Vec<(u64, u64)>,
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Distribution {
        Distribution {
            count: histogram.count(),
            total_ns: u64::try_from(histogram.sum()).unwrap_or(u64::MAX),
            mean_ns: histogram.mean(),
            median_ns: histogram.permille(500),
            p90_ns: histogram.permille(900),
            p99_ns: histogram.permille(990),
            p999_ns: histogram.permille(999),
            max_ns: histogram.max(),
            steps: histogram.steps().collect(),
        }
    }
}
