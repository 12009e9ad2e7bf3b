//! A distribution of times as reports keep it.
use extant_sim::device::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

impl Distribution {
    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Distribution) -> Distribution {
        let mut steps = BTreeMap::new();
        for (longest, count) in self.steps.iter().chain(&other.steps) {
            *steps.entry(*longest).or_insert(0) += count;
        }
        let mut both = Distribution {
            count: self.count + other.count,
            total_ns: self.total_ns.saturating_add(other.total_ns),
            max_ns: self.max_ns.max(other.max_ns),
            steps: steps.into_iter().collect(),
            ..Distribution::default()
        };
        both.mean_ns = both.total_ns / both.count.max(1);
        both.median_ns = both.permille(500);
        both.p90_ns = both.permille(900);
        both.p99_ns = both.permille(990);
        both.p999_ns = both.permille(999);
        both
    }

    /// The time that N thousandths do not exceed; 0 of none.
    fn permille(&self, permille: u128) -> u64 {
        let rank = (u128::from(self.count) * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (longest, count) in &self.steps {
            seen += u128::from(*count);
            if seen >= rank {
                return (*longest).min(self.max_ns);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_distributions_are_one_of_all_their_times() {
        let (mut one, mut other, mut all) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for value in 0..1000u64 {
            let into = if value % 3 == 0 { &mut one } else { &mut other };
            into.add(value * value);
            all.add(value * value);
        }
        assert_eq!(
            Distribution::from(&one).and(&Distribution::from(&other)),
            Distribution::from(&all)
        );
        assert_eq!(
            Distribution::default().and(&Distribution::from(&one)),
            Distribution::from(&one)
        );
    }
}
