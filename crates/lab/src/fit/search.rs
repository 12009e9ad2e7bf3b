//! The search: a candidate does what the target did, and the values are changed one at a time while
//! the distance gets smaller (coordinate descent with steps of its own for each value).
use super::family::{Family, Scale, within};
use super::recording::Recording;
use super::score::distance;
use super::watch::Watching;

/// Steps of the search by factors end with this, as a logarithm.
const STEP_LAST: f64 = 0.003;
/// A search that ends above this share of the distance with which it began is the last one.
const GAIN_LEAST: f64 = 0.95;
/// The first of the seeds with which candidates are played.
const SEEDS: u64 = 11;
/// A phase of so many requests counts half as much as a long one.
const REQUESTS_HALF: f64 = 16.0;

/// A recording to be explained by a family.
pub struct Search<'a> {
    pub(super) family: &'a Family,
    recording: &'a Recording,
    pub(super) measured: Vec<Vec<u64>>,
    pub(super) seeds: Vec<u64>,
    watch: &'a dyn Watching,
    /// A value that stays as it is.
    held: Option<usize>,
    /// Candidates played so far.
    pub evaluations: usize,
}

impl<'a> Search<'a> {
    /// Nothing searched yet.
    pub fn new(
        family: &'a Family,
        recording: &'a Recording,
        watch: &'a dyn Watching,
    ) -> Search<'a> {
        let seeds = draws(family, SEEDS);
        let measured = recording.phases.iter().map(|phase| phase.times()).collect();
        Search { family, recording, measured, seeds, watch, held: None, evaluations: 0 }
    }

    /// The times of a candidate, for each phase and seed; `None` if it is no valid drive.
    pub(super) fn times(&mut self, values: &[f64], seeds: &[u64]) -> Option<Vec<Vec<Vec<u64>>>> {
        let spec = self.family.spec(values)?;
        self.evaluations += 1;
        self.watch.tick();
        let of_seed = |seed: &u64| {
            let played = self.recording.play(&spec, *seed, |_| true);
            let pairs = self.recording.phases.iter().zip(played);
            pairs
                .map(|(phase, timings)| phase.compared(&timings).map(|(_, time)| time).collect())
                .collect()
        };
        Some(seeds.iter().map(of_seed).collect())
    }

    /// Whether the time is over: nothing more is tried.
    pub(super) fn is_over(&self) -> bool {
        self.watch.is_over()
    }

    /// The distance of a candidate in each phase.
    pub(super) fn distances(&mut self, values: &[f64]) -> Option<Vec<f64>> {
        let seeds = self.seeds.clone();
        let times = self.times(values, &seeds)?;
        let mean = |(number, measured): (usize, &Vec<u64>)| {
            let sum: f64 = times.iter().map(|phases| distance(measured, &phases[number])).sum();
            sum / times.len() as f64
        };
        Some(self.measured.iter().enumerate().map(mean).collect())
    }

    /// The distance of a candidate over all phases; infinite if it is no valid drive.
    pub fn total(&mut self, values: &[f64]) -> f64 {
        self.distances(values).map_or(f64::INFINITY, |all| self.mean(&all))
    }

    /// The mean over phases by their weights.
    fn mean(&self, all: &[f64]) -> f64 {
        let weights = self.measured.iter().map(|measured| weight(measured.len()));
        weighted_mean(all.iter().copied().zip(weights))
    }

    /// Changes the values while that brings the candidate nearer; at most that many candidates are
    /// played. What came to rest while others were wrong is looked at again: it begins anew until
    /// that helps no longer, with other draws each time, so that none is followed for its luck.
    /// Returns the distance.
    pub fn descend(&mut self, values: &mut [f64], evaluations: usize) -> f64 {
        let end = self.evaluations + evaluations;
        loop {
            let before = self.total(values);
            let best = self.descend_once(values, before, end);
            if self.evaluations >= end || self.is_over() || best > before * GAIN_LEAST {
                return best;
            }
            self.seeds.iter_mut().for_each(|seed| *seed += 2);
        }
    }

    /// Lets the others follow a value that stays as it is.
    pub fn follow(&mut self, values: &mut [f64], held: usize, evaluations: usize) {
        self.held = Some(held);
        let before = self.total(values);
        self.descend_once(values, before, self.evaluations + evaluations);
        self.held = None;
    }

    /// The same once, until so many candidates have been played.
    fn descend_once(&mut self, values: &mut [f64], mut best: f64, end: usize) -> f64 {
        let mut steps: Vec<f64> = self.family.parameters.iter().map(|one| one.step).collect();
        let mut rounds = 0;
        let mut idle = vec![0; values.len()];
        while self.evaluations < end && !self.is_over() {
            let before = best;
            let mut is_moving = false;
            for number in 0..values.len() {
                let parameter = &self.family.parameters[number];
                if parameter.unknown.is_some()
                    || steps[number] <= 0.0
                    || idle[number] > 1
                    || self.held == Some(number)
                    || self.evaluations >= end
                    || self.is_over()
                {
                    continue;
                }
                let found = self.improve(values, number, (steps[number], rounds), best);
                match found {
                    Some(distance) => best = distance,
                    None if steps[number] <= STEP_LAST => idle[number] += 1,
                    None => steps[number] *= 0.4,
                }
                is_moving |= found.is_some() || idle[number] < 2;
            }
            rounds += 1;
            if !is_moving || best >= before && steps.iter().all(|step| *step <= STEP_LAST) {
                break;
            }
        }
        best
    }

    /// Tries one value larger and smaller; goes on in the direction that helps.
    fn improve(
        &mut self,
        values: &mut [f64],
        number: usize,
        (step, round): (f64, u32),
        best: f64,
    ) -> Option<f64> {
        let (old, mut nearest) = (values[number], best);
        let mut is_better = false;
        for other in neighbours(self.family.parameters[number].scale, old, step, round) {
            let mut tried = other;
            let mut found = false;
            // A direction that helped is followed, with longer steps each time.
            for times in 1..=4 {
                if tried == values[number] || self.is_over() {
                    break;
                }
                let changed = self.family.changed(values, number, tried);
                let distance = self.total(&changed);
                if distance >= nearest {
                    break;
                }
                values.copy_from_slice(&changed);
                (nearest, found) = (distance, true);
                tried = match self.family.parameters[number].scale {
                    scale @ Scale::Ratio(..) => {
                        within(scale, tried * (other / old).powi(times + 1))
                    }
                    scale @ Scale::Linear(..) => {
                        within(scale, tried + (other - old) * f64::from(times + 1))
                    }
                    _ => break,
                };
            }
            is_better |= found;
            // Of a list, every candidate is looked at.
            if found && !self.family.parameters[number].is_listed() {
                break;
            }
        }
        is_better.then_some(nearest)
    }
}

/// The seeds of a candidate, from that one on: what varies by itself is played twice.
pub(super) fn draws(family: &Family, first: u64) -> Vec<u64> {
    let count = if family.kind == "rotating" { 1 } else { 2 };
    (first..first + count).collect()
}

/// How much a phase of that many requests counts: the time of a single one is chance where it is
/// that of a seek and a turn.
pub(super) fn weight(requests: usize) -> f64 {
    requests as f64 / (requests as f64 + REQUESTS_HALF)
}

/// The mean of numbers with weights; 0 of none.
pub(super) fn weighted_mean(all: impl Iterator<Item = (f64, f64)>) -> f64 {
    let add = |(sum, weights): (f64, f64), (one, weight): (f64, f64)| {
        (sum + weight * one, weights + weight)
    };
    let (sum, weights) = all.fold((0.0, 0.0), add);
    sum / f64::max(weights, f64::MIN_POSITIVE)
}

/// The values to try around one.
fn neighbours(scale: Scale, value: f64, step: f64, round: u32) -> Vec<f64> {
    match scale {
        Scale::Ratio(..) => {
            [step.exp(), (-step).exp()].map(|factor| within(scale, value * factor)).to_vec()
        }
        Scale::Linear(_, _, unit) => {
            [step, -step].map(|step| within(scale, value + step * 4.0 * unit)).to_vec()
        }
        Scale::Steps(steps) => {
            // The first time every one: what is far away may fit where what is near does not.
            if round == 0 {
                return steps.iter().copied().filter(|one| *one != value).collect();
            }
            let at = steps.iter().position(|one| *one >= value).unwrap_or(0);
            let near = [at + 1, at.wrapping_sub(1), at + 2, at.wrapping_sub(2)];
            near.iter().filter_map(|at| steps.get(*at).copied()).collect()
        }
        Scale::Words(words) => {
            (0..words.len()).map(|word| word as f64).filter(|word| *word != value).collect()
        }
    }
}
