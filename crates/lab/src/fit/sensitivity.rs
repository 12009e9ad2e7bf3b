//! How the times of all phases change with each value, and by how much the others make up for one.
//!
//! To first order: each value is changed once, and the others follow it so that the weighted sum of
//! squares of what is left is least. Phases weigh by how far their means vary by chance; a value
//! that hardly shows follows hardly, since what it seems to do may be chance.
use super::family::{Family, Scale, within};
use super::search::{Search, weight};

/// The first change of a value, in steps of its search.
const STEPS: f64 = 2.0;
/// The least, as a logarithm.
const STEP_LEAST: f64 = 0.001;
/// A mean is not known better than to this share.
const MEAN_LEAST: f64 = 0.003;

/// What each value does.
pub struct Sensitivity {
    /// By value: how far it was changed, and what that did to the mean of each phase, as a multiple
    /// of what the mean varies by. `None`: it cannot be changed, or was read off.
    effects: Vec<Option<Effect>>,
}

struct Effect {
    change: f64,
    phases: Vec<f64>,
}

impl Sensitivity {
    /// Around the best values, whose times are those.
    pub fn of(search: &mut Search<'_>, best: &[f64], times: &[Vec<Vec<u64>>]) -> Sensitivity {
        let spreads: Vec<f64> = search.measured.iter().map(|times| spread(times)).collect();
        let means = means(times);
        let effects = (0..best.len()).map(|number| {
            let value = changed(search.family, best, number)?;
            let values = search.family.changed(best, number, value);
            let times = search.times(&values, &search.seeds.clone())?;
            let pairs = self::means(&times).into_iter().zip(&means).zip(&spreads);
            let phases = pairs.map(|((changed, mean), spread)| (changed - mean) / spread);
            Some(Effect { change: value - best[number], phases: phases.collect() })
        });
        Sensitivity { effects: effects.collect() }
    }

    /// The values with that one changed, and the others so that they make up for it; `None` where
    /// nothing is known of it.
    pub fn compensated(
        &self,
        family: &Family,
        best: &[f64],
        number: usize,
        value: f64,
    ) -> Option<Vec<f64>> {
        let own = self.effects[number].as_ref()?;
        let others: Vec<(usize, &Effect)> = self
            .effects
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != number && follows(family, *other))
            .filter_map(|(other, effect)| effect.as_ref().map(|effect| (other, effect)))
            .collect();
        let wanted = (value - best[number]) / own.change;
        let mut matrix: Vec<Vec<f64>> = Vec::with_capacity(others.len());
        let chance = own.phases.len() as f64;
        for (row, (_, one)) in others.iter().enumerate() {
            let mut line: Vec<f64> =
                others.iter().map(|(_, other)| product(&one.phases, &other.phases)).collect();
            line[row] += chance;
            line.push(-product(&one.phases, &own.phases) * wanted);
            matrix.push(line);
        }
        let mut values = best.to_vec();
        values[number] = value;
        for ((other, effect), times) in others.iter().zip(solved(matrix)) {
            let scale = family.parameters[*other].scale;
            values[*other] = within(scale, best[*other] + times * effect.change);
        }
        rising(family, &mut values);
        Some(values)
    }
}

/// Whether a value follows others.
fn follows(family: &Family, number: usize) -> bool {
    let parameter = &family.parameters[number];
    parameter.step > 0.0 && !parameter.is_listed()
}

/// A longer seek takes no less time than a shorter one.
fn rising(family: &Family, values: &mut [f64]) {
    let mut least = 0.0;
    for (parameter, value) in family.parameters.iter().zip(values) {
        if parameter.table == "seek" {
            *value = value.max(least);
            least = *value;
        }
    }
}

fn changed(family: &Family, best: &[f64], number: usize) -> Option<f64> {
    let parameter = &family.parameters[number];
    let value = best[number];
    let step = (parameter.step * STEPS).max(STEP_LEAST);
    let other = match parameter.scale {
        Scale::Words(_) => return None,
        scale @ Scale::Linear(_, _, unit) => {
            let up = within(scale, value + step * unit * STEPS);
            if up > value { up } else { within(scale, value - step * unit * STEPS) }
        }
        scale @ Scale::Ratio(..) => {
            let up = within(scale, value * step.exp());
            if up > value { up } else { within(scale, value * (-step).exp()) }
        }
        Scale::Steps(steps) => {
            let above = steps.iter().find(|step| **step > value);
            *above.or_else(|| steps.iter().rev().find(|step| **step < value))?
        }
    };
    (other != value).then_some(other)
}

/// The mean of each phase over the seeds.
fn means(times: &[Vec<Vec<u64>>]) -> Vec<f64> {
    let phases = times.first().map_or(0, Vec::len);
    let of_phase = |phase: usize| {
        let all = times.iter().map(|phases| mean(&phases[phase]));
        all.sum::<f64>() / times.len().max(1) as f64
    };
    (0..phases).map(of_phase).collect()
}

fn mean(times: &[u64]) -> f64 {
    times.iter().map(|time| *time as f64).sum::<f64>() / times.len().max(1) as f64
}

/// How far the mean of a phase varies by chance; more for few requests.
fn spread(times: &[u64]) -> f64 {
    let (count, mean) = (times.len().max(1) as f64, mean(times));
    let squares = times.iter().map(|time| (*time as f64 - mean).powi(2)).sum::<f64>();
    let of_mean = (squares / count).sqrt() / count.sqrt();
    (of_mean + MEAN_LEAST * mean).max(1.0) / weight(times.len()).max(f64::MIN_POSITIVE)
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// The solution of linear equations; the last column is the right-hand side. The matrix is positive
/// definite, so that no pivot is needed.
fn solved(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let count = matrix.len();
    for row in 0..count {
        let (above, below) = matrix.split_at_mut(row + 1);
        let Some(pivot) = above.last() else { continue };
        for line in below {
            let share = line[row] / pivot[row];
            for (value, above) in line.iter_mut().zip(pivot).skip(row) {
                *value -= share * above;
            }
        }
    }
    let mut solution = vec![0.0; count];
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|other| matrix[row][other] * solution[other]).sum();
        solution[row] = (matrix[row][count] - known) / matrix[row][row];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved() {
        let solution = solved(vec![vec![4.0, 1.0, 6.0], vec![1.0, 3.0, 7.0]]);
        assert!((solution[0] - 1.0).abs() < 1e-12 && (solution[1] - 2.0).abs() < 1e-12);
    }
}
