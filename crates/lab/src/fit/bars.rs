//! Error bars: how far a value can be changed until what was measured is explained worse, whatever
//! the other values do.
//!
//! A value that others make up for is less well known than it seems when it is changed alone: a
//! longer overhead and shorter seeks take the same time. So where a changed value is excluded, it
//! is tried again with the others changed along, by as much as they make up for it to first order
//! ([`Sensitivity`]); only what is excluded both ways ends the bar. For a value of a list the
//! others are also searched again for a while.
//!
//! Changed values are judged with a draw that is none of the search's: the search has found the
//! values that are best with its own, by chance too.
use super::family::{Scale, within};
use super::score::{distance, resampled};
use super::search::{Search, draws, weight, weighted_mean};
use super::sensitivity::Sensitivity;
use extant_sim::random::Random;

/// The first of the seeds with which bars are judged, and how many show what varies by chance.
const SEEDS: u64 = 41;
const DRAWS: u64 = 4;
/// How often what was measured is drawn anew to see how far the distance varies by chance.
const RESAMPLES: u64 = 16;
/// How many candidates are played for others to follow a value of a list.
const FOLLOWING: usize = 30;
/// A difference of distances that counts, whatever the noise.
const DISTANCE_LEAST: f64 = 0.001;
/// A drive that does not fit tells less: this share of its distance does not count.
const MISFIT: f64 = 0.15;
/// How far from the best value its error bar is looked for, as factors.
const REACH: [f64; 7] = [1.005, 1.02, 1.06, 1.2, 1.7, 3.0, 10.0];

/// What is known of a value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bar {
    /// Smaller values explain the measurements worse; `None`: they do not.
    pub least: Option<f64>,
    /// Larger values explain them worse; `None`: they do not.
    pub most: Option<f64>,
}

impl Bar {
    /// What is known of what is left when another value is taken off this one. Neither is below 0.
    pub fn less(self, other: Bar) -> Bar {
        let least = self.least.zip(other.most).map(|(least, most)| least - most.max(0.0));
        let most = self.most.map(|most| most - other.least.unwrap_or(0.0).max(0.0));
        Bar { least: least.filter(|least| *least > 0.0), most: most.map(|most| most.max(0.0)) }
    }
}

/// Smaller or larger values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Below,
    Above,
}

/// What changed values are held against.
struct Judge<'s, 'a> {
    search: &'s mut Search<'a>,
    best: &'s [f64],
    /// The distance of each phase at the best values.
    base: Vec<f64>,
    /// The same when what was measured is drawn anew, draw by draw.
    noise: Vec<Vec<f64>>,
    sensitivity: Sensitivity,
}

/// The error bars around the best values; empty if these are no valid drive, and unknown of those
/// for which there was no time.
pub fn bars(search: &mut Search<'_>, best: &[f64]) -> Vec<Bar> {
    if search.is_over() {
        return Vec::new();
    }
    search.seeds = (SEEDS..SEEDS + DRAWS).collect();
    let Some(times) = search.times(best, &search.seeds.clone()) else { return Vec::new() };
    let Some(base) = search.distances(best) else { return Vec::new() };
    let noise = noise(&search.measured, &times);
    search.seeds = draws(search.family, SEEDS);
    let sensitivity = Sensitivity::of(search, best, &times[..search.seeds.len()]);
    let mut judge = Judge { search, best, base, noise, sensitivity };
    (0..best.len()).map(|number| judge.bar(number)).collect()
}

/// The distance of each phase when what was measured is drawn anew and the candidate draws anew,
/// draw by draw.
fn noise(measured: &[Vec<u64>], times: &[Vec<Vec<u64>>]) -> Vec<Vec<f64>> {
    let mut random = Random::for_part(1, "noise");
    let mut draw = |(measured, model): (&Vec<u64>, &Vec<u64>)| match measured.is_empty() {
        true => 0.0,
        false => distance(&resampled(measured, &mut random), model),
    };
    let drawn = times.iter().cycle().take(RESAMPLES as usize);
    drawn.map(|times| measured.iter().zip(times).map(&mut draw).collect()).collect()
}

impl Judge<'_, '_> {
    fn bar(&mut self, number: usize) -> Bar {
        let parameter = &self.search.family.parameters[number];
        if parameter.unknown.is_some() || parameter.is_word() {
            return Bar { least: None, most: None };
        }
        let ends = [Side::Below, Side::Above].map(|side| self.side(number, side));
        Bar { least: ends[0], most: ends[1] }
    }

    /// The end on one side; `None` where nothing within reach is excluded.
    fn side(&mut self, number: usize, side: Side) -> Option<f64> {
        let parameter = &self.search.family.parameters[number];
        let (best, is_listed) = (self.best[number], parameter.is_listed());
        let reach = reach(parameter.scale, best, side);
        let (mut possible, mut excluded) = (0, reach.len());
        while possible < excluded {
            if self.search.is_over() {
                return None;
            }
            let middle = possible.midpoint(excluded);
            match self.is_excluded(number, reach[middle]) {
                true => excluded = middle,
                false => possible = middle + 1,
            }
        }
        let far = *reach.get(excluded)?;
        // From one of a list to the next one it is too far for the first order. Where the others
        // can follow it, they are taken to follow it on.
        if is_listed && self.is_followed(number, far) {
            return None;
        }
        let last = if excluded == 0 { best } else { reach[excluded - 1] };
        Some(if is_listed { last } else { self.end(number, (last, far)) })
    }

    /// Whether that value explains worse what was measured, alone and with the others changed
    /// along.
    fn is_excluded(&mut self, number: usize, value: f64) -> bool {
        let alone = self.search.family.changed(self.best, number, value);
        self.is_far(&alone) && {
            let family = self.search.family;
            let along = self.sensitivity.compensated(family, self.best, number, value);
            along.is_none_or(|along| self.is_far(&along))
        }
    }

    /// Whether the others can be searched so that this value is possible.
    fn is_followed(&mut self, number: usize, value: f64) -> bool {
        let family = self.search.family;
        let along = self.sensitivity.compensated(family, self.best, number, value);
        let mut along = along.unwrap_or_else(|| family.changed(self.best, number, value));
        self.search.follow(&mut along, number, FOLLOWING);
        !self.is_far(&along)
    }

    fn is_far(&mut self, values: &[f64]) -> bool {
        self.search.distances(values).is_none_or(|changed| self.is_worse(&changed))
    }

    /// Whether the phases that a change touched are explained worse, by more than chance accounts
    /// for.
    fn is_worse(&self, changed: &[f64]) -> bool {
        let touched: Vec<usize> = (0..self.base.len())
            .filter(|phase| (changed[*phase] - self.base[*phase]).abs() > 1e-4)
            .collect();
        if touched.is_empty() {
            return false;
        }
        let weights = |phase: &usize| weight(self.search.measured[*phase].len());
        let over =
            |all: &[f64]| weighted_mean(touched.iter().map(|phase| (all[*phase], weights(phase))));
        let draws: Vec<f64> = self.noise.iter().map(|draw| over(draw)).collect();
        let middle = draws.iter().sum::<f64>() / draws.len().max(1) as f64;
        let spread = (draws.iter().map(|one| (one - middle).powi(2)).sum::<f64>()
            / draws.len().saturating_sub(1).max(1) as f64)
            .sqrt();
        let base = over(&self.base);
        over(changed) - base > 2.0 * spread + DISTANCE_LEAST + MISFIT * base
    }

    /// The end of an error bar between a value that is possible and one that is not.
    fn end(&mut self, number: usize, (possible, far): (f64, f64)) -> f64 {
        let middle = possible.midpoint(far);
        match self.is_excluded(number, middle) {
            true => middle,
            false => far,
        }
    }
}

/// The values at which the end of an error bar may be, from the best one outwards.
fn reach(scale: Scale, best: f64, side: Side) -> Vec<f64> {
    let mut found: Vec<f64> = match scale {
        Scale::Steps(steps) => {
            let mut steps = steps.to_vec();
            if side == Side::Below {
                steps.reverse();
            }
            steps
        }
        Scale::Linear(_, _, unit) => {
            let sign = if side == Side::Above { unit } else { -unit };
            REACH.iter().map(|factor| within(scale, best + (factor - 1.0) * sign)).collect()
        }
        _ => {
            let power = if side == Side::Above { 1 } else { -1 };
            REACH.iter().map(|factor| within(scale, best * factor.powi(power))).collect()
        }
    };
    found.retain(|value| if side == Side::Above { *value > best } else { *value < best });
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_known_as_well_as_both_parts() {
        let bar = |least, most| Bar { least, most };
        let sum = bar(Some(1.0), Some(1.5));
        assert_eq!(sum.less(bar(Some(0.25), Some(0.5))), bar(Some(0.5), Some(1.25)));
        // Of the other nothing is known: it may be all of the sum, or none of it.
        assert_eq!(sum.less(bar(None, None)), bar(None, Some(1.5)));
        assert_eq!(sum.less(bar(Some(-0.5), Some(2.0))), bar(None, Some(1.5)));
    }
}
