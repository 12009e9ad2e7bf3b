//! The search: a candidate does what the target did, and the values are changed one at a time while
//! the distance gets smaller (coordinate descent with steps of its own for each value).
use super::family::{Family, Scale, within};
use super::recording::Recording;
use super::score::{distance, resampled};
use extant_sim::random::Random;

/// Steps of the search by factors end with this, as a logarithm.
const STEP_LAST: f64 = 0.003;
/// How often what was measured is drawn anew to see how far the distance varies by chance.
const RESAMPLES: u64 = 16;
/// A difference of distances that counts, whatever the noise.
const DISTANCE_LEAST: f64 = 0.001;
/// A drive that does not fit tells less: this share of its distance does not count.
const MISFIT: f64 = 0.15;
/// How far from the best value its error bar is looked for, as factors.
const REACH: [f64; 7] = [1.005, 1.02, 1.06, 1.2, 1.7, 3.0, 10.0];

/// A recording to be explained by a family.
pub struct Search<'a> {
    family: &'a Family,
    recording: &'a Recording,
    measured: Vec<Vec<u64>>,
    seeds: Vec<u64>,
    /// Candidates played so far.
    pub evaluations: usize,
}

/// What is known of a value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bar {
    /// Smaller values explain the measurements worse; `None`: they do not.
    pub least: Option<f64>,
    /// Larger values explain them worse; `None`: they do not.
    pub most: Option<f64>,
}

impl<'a> Search<'a> {
    /// Nothing searched yet. A drive that varies is played with several seeds.
    pub fn new(family: &'a Family, recording: &'a Recording) -> Search<'a> {
        let seeds = if family.kind == "rotating" { vec![1] } else { vec![11, 12] };
        let measured = recording.phases.iter().map(|phase| phase.times()).collect();
        Search { family, recording, measured, seeds, evaluations: 0 }
    }

    /// The times of a candidate, for each phase and seed; `None` if it is no valid drive.
    fn times(&mut self, values: &[f64], seeds: &[u64]) -> Option<Vec<Vec<Vec<u64>>>> {
        let spec = self.family.spec(values)?;
        self.evaluations += 1;
        let of_seed = |seed: &u64| {
            let played = self.recording.play(&spec, *seed, |_| true);
            let pairs = self.recording.phases.iter().zip(played);
            pairs
                .map(|(phase, timings)| phase.compared(&timings).map(|(_, time)| time).collect())
                .collect()
        };
        Some(seeds.iter().map(of_seed).collect())
    }

    /// The distance of a candidate in each phase.
    fn distances(&mut self, values: &[f64]) -> Option<Vec<f64>> {
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
        self.distances(values).map_or(f64::INFINITY, |all| mean(&all))
    }

    /// Changes the values while that brings the candidate nearer; at most that many candidates are
    /// played. Returns the distance.
    pub fn descend(&mut self, values: &mut [f64], evaluations: usize) -> f64 {
        let end = self.evaluations + evaluations;
        let mut best = self.total(values);
        let mut steps: Vec<f64> = self.family.parameters.iter().map(|one| one.step).collect();
        let mut rounds = 0;
        let mut idle = vec![0; values.len()];
        while self.evaluations < end {
            let before = best;
            let mut is_moving = false;
            for number in 0..values.len() {
                let parameter = &self.family.parameters[number];
                if parameter.unknown.is_some()
                    || steps[number] <= 0.0
                    || idle[number] > 1
                    || self.evaluations >= end
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
                if tried == values[number] {
                    break;
                }
                let kept = std::mem::replace(&mut values[number], tried);
                let distance = self.total(values);
                if distance >= nearest {
                    values[number] = kept;
                    break;
                }
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

    /// The error bars around the best values: as far as a value alone can be changed until the
    /// phases that it touches are explained worse than chance accounts for.
    pub fn bars(&mut self, values: &[f64]) -> Vec<Bar> {
        let Some(base) = self.distances(values) else { return Vec::new() };
        let noise = self.noise(values);
        (0..values.len()).map(|number| self.bar(values, number, &base, &noise)).collect()
    }

    /// The distance of each phase when what was measured is drawn anew, draw by draw.
    fn noise(&mut self, values: &[f64]) -> Vec<Vec<f64>> {
        let seeds = self.seeds[..1].to_vec();
        let Some(times) = self.times(values, &seeds) else { return Vec::new() };
        let mut random = Random::for_part(1, "noise");
        let mut draw = |(measured, model): (&Vec<u64>, &Vec<u64>)| match measured.is_empty() {
            true => 0.0,
            false => distance(&resampled(measured, &mut random), model),
        };
        let draws = 0..RESAMPLES;
        draws.map(|_| self.measured.iter().zip(&times[0]).map(&mut draw).collect()).collect()
    }

    fn bar(&mut self, values: &[f64], number: usize, base: &[f64], noise: &[Vec<f64>]) -> Bar {
        let parameter = &self.family.parameters[number];
        let (scale, best) = (parameter.scale, values[number]);
        if parameter.unknown.is_some() || parameter.is_word() {
            return Bar { least: None, most: None };
        }
        let ends = [Side::Below, Side::Above].map(|side| {
            let mut last = best;
            for other in reach(scale, best, side) {
                let mut changed = values.to_vec();
                changed[number] = other;
                if self.is_far(&changed, base, noise) {
                    return Some(self.end(&mut changed, number, (last, other), base, noise));
                }
                last = other;
            }
            None
        });
        Bar { least: ends[0], most: ends[1] }
    }

    fn is_far(&mut self, values: &[f64], base: &[f64], noise: &[Vec<f64>]) -> bool {
        self.distances(values).is_none_or(|all| is_worse(&all, base, noise))
    }

    /// The end of an error bar between a value that is possible and one that is not. Of a list it
    /// is the last possible one.
    fn end(
        &mut self,
        values: &mut [f64],
        number: usize,
        (mut possible, mut far): (f64, f64),
        base: &[f64],
        noise: &[Vec<f64>],
    ) -> f64 {
        if matches!(self.family.parameters[number].scale, Scale::Steps(_)) {
            return possible;
        }
        for _ in 0..2 {
            values[number] = possible.midpoint(far);
            match self.is_far(values, base, noise) {
                true => far = values[number],
                false => possible = values[number],
            }
        }
        far
    }
}

/// Smaller or larger values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Below,
    Above,
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// Whether the phases that a change touched are explained worse, by more than chance accounts for.
fn is_worse(changed: &[f64], base: &[f64], noise: &[Vec<f64>]) -> bool {
    let touched: Vec<usize> =
        (0..base.len()).filter(|phase| (changed[*phase] - base[*phase]).abs() > 1e-4).collect();
    if touched.is_empty() {
        return false;
    }
    let over =
        |all: &[f64]| touched.iter().map(|phase| all[*phase]).sum::<f64>() / touched.len() as f64;
    let draws: Vec<f64> = noise.iter().map(|draw| over(draw)).collect();
    let middle = mean(&draws);
    let spread = (draws.iter().map(|one| (one - middle).powi(2)).sum::<f64>()
        / draws.len().saturating_sub(1).max(1) as f64)
        .sqrt();
    over(changed) - over(base) > 2.0 * spread + DISTANCE_LEAST + MISFIT * over(base)
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
