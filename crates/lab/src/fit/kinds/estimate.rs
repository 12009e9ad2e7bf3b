//! Estimates that are read directly off the recording.
use crate::fit::recording::{Phase, Recording};
use crate::fit::score::quantile_of;
use extant_block::Operation;

/// A quantile of the times of a phase, in nanoseconds; `None` when it was not run.
pub fn quantile(recording: &Recording, phase: &str, share: f64) -> Option<f64> {
    let times = recording.phase(phase)?.times();
    (!times.is_empty()).then(|| quantile_of(&times, share))
}

/// The median and the 99th percentile over it.
pub fn latency(recording: &Recording, phase: &str) -> Option<(f64, f64)> {
    let median = quantile(recording, phase, 0.5)?.max(1.0);
    let high = quantile(recording, phase, 0.99)?;
    Some((median, (high / median).clamp(1.001, 900.0)))
}

/// What flushes that had something to do took: median and 99th percentile over it.
pub fn flushes(recording: &Recording) -> Option<(f64, f64)> {
    let times = recording.phase("flush-4k")?.times_of(Operation::Flush);
    let median = (!times.is_empty()).then(|| quantile_of(&times, 0.5))?.max(1.0);
    Some((median, (quantile_of(&times, 0.99) / median).clamp(1.001, 900.0)))
}

/// By how many bytes a second a single request gets longer, from the medians of two sizes.
pub fn single_rate(recording: &Recording, small: &str, large: &str) -> Option<f64> {
    let (small, large) = (recording.phase(small)?, recording.phase(large)?);
    let bytes = large.requests.first()?.bytes.saturating_sub(small.requests.first()?.bytes);
    let median = |phase: &Phase| quantile_of(&phase.times(), 0.5);
    let longer = median(large) - median(small);
    Some((bytes as f64 * 1e9 / longer.max(1.0)).clamp(1e5, 1e12))
}

/// The highest rate of all phases whose names begin so, in bytes a second.
pub fn highest_rate(recording: &Recording, beginning: &str) -> f64 {
    recording.phases_of(beginning).map(|phase| phase.bytes_per_s(0)).fold(0.0, f64::max)
}

/// The highest rate in requests a second, and the depth from which on it is reached within a tenth.
pub fn plateau(recording: &Recording, bytes: &str) -> (f64, u32) {
    let rate = |phase: &&Phase| {
        let each = phase.requests.first().map_or(1, |request| request.bytes.max(1));
        (phase.depth, phase.bytes_per_s(0) / each as f64)
    };
    let ending = format!("-{bytes}");
    let of_size = recording.phases.iter().filter(|one| {
        one.name.ends_with(&ending)
            && ["random-", "depth-"].iter().any(|word| one.name.starts_with(word))
    });
    let mut rates: Vec<(u32, f64)> = of_size.map(|phase| rate(&phase)).collect();
    rates.sort_by_key(|(depth, _)| *depth);
    let most = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let depth = rates.iter().find(|(_, rate)| *rate > 0.9 * most).map_or(1, |(depth, _)| *depth);
    (most, depth)
}

/// Of a long run: the rate of its last half in requests a second.
pub fn late_rate(recording: &Recording, phase: &str) -> Option<f64> {
    let phase = recording.phase(phase)?;
    let half = phase.timings.len() / 2;
    let (from, to) = (phase.timings.get(half)?.start_ns, phase.timings.last()?.start_ns);
    Some((phase.timings.len() - 1 - half) as f64 * 1e9 / to.saturating_sub(from).max(1) as f64)
}
