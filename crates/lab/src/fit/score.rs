//! How far two lists of times are from each other.
use extant_sim::random::Random;
use serde::Serialize;

/// How well a model agrees with what was measured, as shares of the measured mean or percentile.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Agreement {
    /// How many requests.
    pub requests: usize,
    /// Mean of the measured times, in nanoseconds.
    pub measured_mean_ns: f64,
    /// Mean of the model's times, in nanoseconds.
    pub model_mean_ns: f64,
    /// The model's mean over the measured one, less 1.
    pub mean_error: f64,
    /// The demerit of Ruemmler and Wilkes (1994): the root mean square of the distance of the two
    /// sorted lists, over the measured mean.
    pub demerit: f64,
    /// The model's 99th percentile over the measured one, less 1.
    pub p99_error: f64,
}

/// How many quantiles the demerit looks at.
const QUANTILES: usize = 1000;

fn mean(times: &[u64]) -> f64 {
    let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
    sum as f64 / times.len().max(1) as f64
}

fn sorted(times: &[u64]) -> Vec<u64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times
}

/// The time that this share of the sorted times do not exceed; 0 of none.
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// The median; 0 of none.
pub fn median(times: &[u64]) -> f64 {
    quantile(&sorted(times), 0.5) as f64
}

/// The quantile of times in any order.
pub fn quantile_of(times: &[u64], share: f64) -> f64 {
    quantile(&sorted(times), share) as f64
}

impl Agreement {
    /// Of two lists, of which neither is empty; `None` otherwise.
    pub fn of(measured: &[u64], model: &[u64]) -> Option<Agreement> {
        if measured.is_empty() || model.is_empty() {
            return None;
        }
        let (theirs, ours) = (sorted(measured), sorted(model));
        let (measured_mean, model_mean) = (mean(measured), mean(model));
        let distances = (1..QUANTILES).map(|step| {
            let share = step as f64 / QUANTILES as f64;
            (quantile(&ours, share) as f64 - quantile(&theirs, share) as f64).powi(2)
        });
        let demerit = (distances.sum::<f64>() / (QUANTILES - 1) as f64).sqrt();
        let p99 = |times: &[u64]| quantile(times, 0.99) as f64;
        Some(Agreement {
            requests: measured.len(),
            measured_mean_ns: measured_mean,
            model_mean_ns: model_mean,
            mean_error: model_mean / measured_mean.max(1.0) - 1.0,
            demerit: demerit / measured_mean.max(1.0),
            p99_error: p99(&ours) / p99(&theirs).max(1.0) - 1.0,
        })
    }
}

/// The distance of two lists of the same length: that of the means and half the mean distance of
/// the sorted times, over the larger mean, so that no phase outweighs all others. 0 where nothing
/// was measured.
pub fn distance(measured: &[u64], model: &[u64]) -> f64 {
    if measured.is_empty() || model.len() != measured.len() {
        return 0.0;
    }
    let (theirs, ours) = (sorted(measured), sorted(model));
    let apart: f64 = theirs.iter().zip(&ours).map(|(one, other)| one.abs_diff(*other) as f64).sum();
    let (theirs, ours) = (mean(&theirs), mean(&ours));
    (apart / measured.len() as f64 / 2.0 + (theirs - ours).abs()) / theirs.max(ours).max(1.0)
}

/// As many times, drawn from these with repetition.
pub fn resampled(times: &[u64], random: &mut Random) -> Vec<u64> {
    times.iter().map(|_| times[random.below(times.len() as u64) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_agree_and_a_shift_is_its_share() {
        let measured: Vec<u64> = (1..=1000).map(|time| time * 1000).collect();
        let same = Agreement::of(&measured, &measured).expect("not empty");
        assert_eq!((same.mean_error, same.demerit, same.p99_error), (0.0, 0.0, 0.0));
        let longer: Vec<u64> = measured.iter().map(|time| time + 50_050).collect();
        let shifted = Agreement::of(&measured, &longer).expect("not empty");
        // The mean is 500,500 ns, so that the shift is a tenth of it, everywhere.
        assert!((shifted.mean_error - 0.1).abs() < 1e-9, "{shifted:?}");
        assert!((shifted.demerit - 0.1).abs() < 1e-9, "{shifted:?}");
        assert!((shifted.p99_error - 50_050.0 / 991_000.0).abs() < 1e-9, "{shifted:?}");
        assert!((distance(&measured, &longer) - 1.5 * 50_050.0 / 550_550.0).abs() < 1e-9);
        assert_eq!(Agreement::of(&[], &measured), None);
        assert_eq!(distance(&[], &[]), 0.0);
    }
}
