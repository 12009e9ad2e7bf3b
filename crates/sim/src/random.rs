//! Randomness that a seed decides: the same numbers on every machine, in every build.
//!
//! [`Random`] is xoshiro256** (Blackman and Vigna 2018), filled by splitmix64; integers only. A
//! [`Quantiles`] table turns its numbers into times of a given distribution. The table is computed
//! once, with the four basic operations and the square root of IEEE 754 alone (whose results a
//! machine has no say in) instead of the host's `ln` and `exp` (whose last bit is the host's).
use std::ops::Range;
use std::sync::LazyLock;

/// A seeded generator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        let mut stir = seed;
        let state = std::array::from_fn(|_| splitmix64(&mut stir));
        Random { state }
    }

    /// A generator of its own for a part with a name, so that what one part draws never shifts what
    /// another gets.
    pub fn for_part(seed: u64, part: &str) -> Random {
        let start = seed ^ 0x6578_7461_6e74_6c61;
        Random::new(part.bytes().fold(start, |hash, byte| mix(hash ^ u64::from(byte))))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let state = &mut self.state;
        let result = state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// Uniform in `0..n` without bias (Lemire 2019); 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let biased = n.wrapping_neg() % n.max(1);
            while (product as u64) < biased {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform in the range; its start when it is empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Puts them in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// One step of splitmix64 (Steele, Lea and Flood 2014).
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix_bits(*state)
}

/// Scatters 64 bits: neighbours come out unrelated. For hashing positions, not for drawing.
pub fn mix(value: u64) -> u64 {
    mix_bits(value.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

fn mix_bits(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Steps of the body of a table: probabilities i/1024.
const STEPS: usize = 1024;

/// The inverse of a distribution as integers: 1,024 steps over all, and the last of them once more
/// in 1,024 steps, so that one in a million is as right as the median. Linear between the steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quantiles {
    /// At (i + 0.0)/1024; the first at 2^-20. Empty for a constant.
    body: Box<[u64]>,
    /// At 1023/1024 + i/2^20; the last at 1 - 2^-21.
    tail: Box<[u64]>,
    /// The value at one half.
    median: u64,
}

impl Quantiles {
    /// Always this.
    pub fn constant(value: u64) -> Quantiles {
        Quantiles { body: Box::default(), tail: Box::default(), median: value }
    }

    /// Log-normal by its median and its 99th percentile: a constant when they are equal. `p99`
    /// below the median is taken for the median.
    pub fn log_normal(median: u64, p99: u64) -> Quantiles {
        if median == 0 || p99 <= median {
            return Quantiles::constant(median);
        }
        let sigma = logarithm(p99 as f64 / median as f64) / normal_quantile(0.99);
        let at = |normal: &f64| rounded(median as f64 * exponential(sigma * normal));
        // The same for every table; finding them takes far longer than what is done with them, and
        // a search for a drive makes tables by the thousand.
        static NORMAL: LazyLock<[Vec<f64>; 2]> = LazyLock::new(|| {
            [body().map(normal_quantile).collect(), tail().map(normal_quantile).collect()]
        });
        let [body, tail] = NORMAL.each_ref().map(|all| all.iter().map(at).collect());
        Quantiles { body, tail, median }
    }

    /// Exponential by its mean.
    pub fn exponential(mean: u64) -> Quantiles {
        let at = |probability: f64| -(mean as f64) * logarithm(1.0 - probability);
        let median = at(0.5) as u64;
        let at = |probability: f64| rounded(at(probability));
        Quantiles { body: body().map(at).collect(), tail: tail().map(at).collect(), median }
    }

    /// The value that half of the draws stay below.
    pub fn median(&self) -> u64 {
        self.median
    }

    /// One value.
    pub fn draw(&self, random: &mut Random) -> u64 {
        if self.body.is_empty() {
            return self.median;
        }
        let bits = random.next_u64();
        let step = (bits >> 54) as usize;
        match self.body.get(step + 1) {
            Some(&next) => between(self.body[step], next, bits << 10),
            None => {
                let step = (bits >> 44) as usize % STEPS;
                between(self.tail[step], self.tail[step + 1], bits << 20)
            }
        }
    }
}

/// The nearest whole number of a positive value.
fn rounded(value: f64) -> u64 {
    (value + 0.5) as u64
}

/// The probabilities of the body of a table.
fn body() -> impl Iterator<Item = f64> {
    (0..STEPS).map(|i| within(i as f64 / STEPS as f64))
}

/// Those of its tail.
fn tail() -> impl Iterator<Item = f64> {
    let steps = STEPS as f64;
    (0..=STEPS).map(move |i| within((steps - 1.0 + i as f64 / steps) / steps))
}

/// Neither 0 nor 1, which have no quantile.
fn within(probability: f64) -> f64 {
    let least = 1.0 / (STEPS * STEPS) as f64;
    probability.clamp(least, 1.0 - least / 2.0)
}

/// From one to the other by a fraction of 2^64.
fn between(from: u64, to: u64, fraction: u64) -> u64 {
    from + ((u128::from(to.saturating_sub(from)) * u128::from(fraction)) >> 64) as u64
}

/// Natural logarithm of a positive number: halved into 0.7..1.4, then the series of artanh.
fn logarithm(value: f64) -> f64 {
    let mut rest = value;
    let mut halvings = 0.0;
    while rest > std::f64::consts::SQRT_2 && halvings < 2000.0 {
        rest /= 2.0;
        halvings += 1.0;
    }
    while rest < std::f64::consts::FRAC_1_SQRT_2 && halvings > -2000.0 {
        rest *= 2.0;
        halvings -= 1.0;
    }
    let ratio = (rest - 1.0) / (rest + 1.0);
    let square = ratio * ratio;
    let series = (0..16).rev().fold(0.0, |sum, k| sum * square + 1.0 / (2 * k + 1) as f64);
    2.0 * ratio * series + halvings * std::f64::consts::LN_2
}

/// e to this power, for |power| up to some hundreds: the series on a 1024th, squared ten times.
fn exponential(power: f64) -> f64 {
    let small = power / 1024.0;
    let series = (1..=12).rev().fold(1.0, |sum, k| 1.0 + sum * small / k as f64);
    (0..10).fold(series, |value, _| value * value)
}

/// The quantile of the standard normal distribution for 0 < probability < 1 (Abramowitz and Stegun
/// 26.2.23, then one step of Newton's method on the distribution itself).
fn normal_quantile(probability: f64) -> f64 {
    if probability < 0.5 {
        return -normal_quantile(1.0 - probability);
    }
    let t = (-2.0 * logarithm(1.0 - probability)).sqrt();
    let top = 2.515517 + t * (0.802853 + t * 0.010328);
    let bottom = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308));
    let guess = t - top / bottom;
    (0..2).fold(guess, |x, _| x - (normal_distribution(x) - probability) / normal_density(x))
}

fn normal_density(x: f64) -> f64 {
    exponential(-x * x / 2.0) * 0.398_942_280_401_432_7
}

/// The standard normal distribution for 0 <= x < 8 or so: 1/2 + density * (x + x^3/3 + x^5/15 +
/// ...).
fn normal_distribution(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for odd in (3..200).step_by(2) {
        term *= x * x / f64::from(odd);
        sum += term;
    }
    0.5 + normal_density(x) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generators_are_the_published_ones() {
        let mut state = 1234567;
        let first: Vec<u64> = (0..3).map(|_| splitmix64(&mut state)).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
        let mut random = Random { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| random.next_u64()).collect();
        assert_eq!(first, [11520, 0, 1509978240, 1215971899390074240]);
    }

    #[test]
    fn below_is_uniform_and_never_reaches_its_bound() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        assert_eq!(random.within(5..5), 5);
        assert!((0..1000).all(|_| random.below(u64::MAX) < u64::MAX));
    }

    #[test]
    fn a_shuffle_keeps_what_it_shuffles() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_basic_functions_agree_with_the_hosts() {
        for i in 1..4000 {
            let x = f64::from(i) / 100.0;
            assert!((logarithm(x) - x.ln()).abs() < 1e-12 * (1.0 + x.ln().abs()), "ln {x}");
            assert!((exponential(x - 20.0) / (x - 20.0).exp() - 1.0).abs() < 1e-11, "exp {x}");
        }
        let quantiles = [
            (0.5, 0.0),
            (0.9, 1.2815515655),
            (0.99, 2.3263478740),
            (0.999, 3.0902323062),
            (0.01, -2.3263478740),
        ];
        for (probability, quantile) in quantiles {
            assert!((normal_quantile(probability) - quantile).abs() < 1e-9, "{probability}");
        }
        assert!((normal_quantile(1.0 - 1e-6) - 4.753424309).abs() < 1e-6);
    }

    #[test]
    fn the_tables_have_the_quantiles_that_they_were_asked_for() {
        let table = Quantiles::log_normal(30_000_000, 150_000_000);
        let mut random = Random::new(3);
        let mut drawn: Vec<u64> = (0..200_000).map(|_| table.draw(&mut random)).collect();
        drawn.sort_unstable();
        let near = |got: u64, want: u64, percent: u64| got.abs_diff(want) * 100 <= want * percent;
        assert!(near(drawn[100_000], 30_000_000, 1), "{}", drawn[100_000]);
        assert!(near(drawn[198_000], 150_000_000, 3), "{}", drawn[198_000]);
        let mean = Quantiles::exponential(1_000_000);
        let sum: u64 = (0..200_000).map(|_| mean.draw(&mut random)).sum();
        assert!(near(sum / 200_000, 1_000_000, 1), "{}", sum / 200_000);
        assert_eq!(Quantiles::log_normal(5, 5).draw(&mut random), 5);
    }
}
