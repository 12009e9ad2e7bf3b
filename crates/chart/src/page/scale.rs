//! Values on an axis: where they are, which of them are named, and how they are written. Whole
//! numbers only: the same values give the same bytes on every machine.
use crate::{Axis, AxisScale, Unit};

/// The length of every axis, in the units of our drawings.
pub(super) const LENGTH: u64 = 1000;

/// What is left free at the ends of an axis of marks.
const ROOM: u64 = 40;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// From values to places.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    unit: Unit,
    scale: AxisScale,
    first: u64,
    /// Above `first`.
    last: u64,
    /// Free at both ends, in the units of [`LENGTH`].
    room: u64,
}

/// A value that is named on an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tick {
    pub(super) place: u64,
    pub(super) words: String,
}

impl Scale {
    /// A scale on which all values have room. A linear one begins at 0, unless `values` are all
    /// near each other.
    pub(super) fn around(axis: &Axis, values: impl Iterator<Item = u64> + Clone) -> Scale {
        let greatest = values.clone().max().unwrap_or(1).max(1);
        let least = match axis.scale {
            AxisScale::Logarithmic => values.filter(|value| *value > 0).min().unwrap_or(1),
            AxisScale::Linear => values.min().unwrap_or(0),
        };
        match axis.scale {
            AxisScale::Logarithmic => Scale::between(axis, least, greatest),
            AxisScale::Linear if least > greatest / 5 * 3 && least < greatest => {
                let step = step(axis.unit, greatest - least, 4);
                Scale::between(
                    axis,
                    least / step * step,
                    greatest.div_ceil(step).saturating_mul(step),
                )
            }
            AxisScale::Linear => {
                let step = step(axis.unit, greatest, 4);
                Scale::between(axis, 0, greatest.div_ceil(step).saturating_mul(step))
            }
        }
    }

    /// A scale from a value to another.
    pub(super) fn between(axis: &Axis, first: u64, last: u64) -> Scale {
        let first = match axis.scale {
            AxisScale::Logarithmic => first.max(1),
            AxisScale::Linear => first,
        };
        Scale {
            unit: axis.unit,
            scale: axis.scale,
            first: first.min(u64::MAX - 1),
            last: last.max(first.saturating_add(1)),
            room: 0,
        }
    }

    /// The same with room before its first value and after its last, so that no mark is on the
    /// edge of the field.
    pub(super) fn with_room(self) -> Scale {
        Scale { room: ROOM, ..self }
    }

    /// The value at its beginning.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Where a value lies: from 0 to [`LENGTH`]; what is outside, at the nearest end.
    pub(super) fn place(&self, value: u64) -> u64 {
        let value = value.clamp(self.first, self.last);
        let (at, whole) = match self.scale {
            AxisScale::Linear => (value - self.first, self.last - self.first),
            AxisScale::Logarithmic => {
                let first = binary_logarithm(self.first);
                (binary_logarithm(value) - first, binary_logarithm(self.last) - first)
            }
        };
        let whole = u128::from(whole.max(1));
        let length = LENGTH - 2 * self.room;
        let place = (u128::from(at) * u128::from(length) + whole / 2) / whole;
        self.room + place.min(length.into()) as u64
    }

    /// About four to seven values that a reader can count with.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let values = match self.scale {
            AxisScale::Linear => self.even_values(),
            AxisScale::Logarithmic => self.power_values(),
        };
        let tick =
            |value: u64| Tick { place: self.place(value), words: trimmed(&show(self.unit, value)) };
        values.into_iter().map(tick).collect()
    }

    fn even_values(&self) -> Vec<u64> {
        let step = step(self.unit, self.last - self.first, 5);
        let first = self.first.div_ceil(step);
        let values = (first..).map_while(|number| number.checked_mul(step));
        values.take_while(|value| *value <= self.last).take(12).collect()
    }

    fn power_values(&self) -> Vec<u64> {
        let is_binary = self.unit == Unit::Bytes;
        let (base, factors): (u64, &[u64]) = if is_binary { (2, &[1]) } else { (10, &[1, 2, 5]) };
        let powers: Vec<u64> =
            std::iter::successors(Some(1u64), |power| power.checked_mul(base)).collect();
        let within = |value: &u64| (self.first..=self.last).contains(value);
        let all = |factors: &[u64], every: usize| -> Vec<u64> {
            let chosen = powers.iter().step_by(every);
            let values = chosen
                .flat_map(|power| factors.iter().filter_map(|factor| power.checked_mul(*factor)));
            values.filter(within).collect()
        };
        let dense = all(factors, 1);
        if dense.len() <= 7 {
            return dense;
        }
        let sparse = (1..).map(|every| all(&[1], every)).find(|values| values.len() <= 7);
        sparse.unwrap_or_default()
    }
}

/// The distance between named values, so that about `count` of them fill a range.
fn step(unit: Unit, range: u64, count: u64) -> u64 {
    let wanted = (range / count).max(1);
    let times = [
        MINUTE,
        2 * MINUTE,
        5 * MINUTE,
        10 * MINUTE,
        15 * MINUTE,
        30 * MINUTE,
        HOUR,
        2 * HOUR,
        6 * HOUR,
        12 * HOUR,
    ];
    match unit {
        Unit::Bytes => wanted.checked_next_power_of_two().unwrap_or(wanted),
        Unit::Nanoseconds if wanted > 45 * SECOND => {
            let found = times.iter().find(|step| **step >= wanted).copied();
            found.unwrap_or_else(|| wanted.div_ceil(24 * HOUR).saturating_mul(24 * HOUR))
        }
        _ => round_number(wanted),
    }
}

/// The next of 1, 2, 5, 10, 20...
fn round_number(wanted: u64) -> u64 {
    let powers = std::iter::successors(Some(1u64), |power| power.checked_mul(10));
    let mut numbers = powers
        .flat_map(|power| [1u64, 2, 5].into_iter().filter_map(move |one| one.checked_mul(power)));
    numbers.find(|number| *number >= wanted).unwrap_or(wanted)
}

/// The binary logarithm of a number from 1 up, in 65,536ths: one bit after the other by squaring.
pub(super) fn binary_logarithm(value: u64) -> u64 {
    let whole = u64::from(63 - value.max(1).leading_zeros());
    // From 1 to 2, in 63 bits after the point.
    let mut rest = u128::from(value.max(1)) << (63 - whole);
    let mut fraction = 0;
    for _ in 0..16 {
        rest = (rest * rest) >> 63;
        let is_two = rest >= 1 << 64;
        fraction = fraction << 1 | u64::from(is_two);
        rest >>= u32::from(is_two);
    }
    whole << 16 | fraction
}

/// A value in the words of its unit, with three digits.
pub fn show(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Nanoseconds => time(value),
        Unit::Bytes => binary(value),
        Unit::BytesPerSecond => decimal(
            value,
            &[(1_000_000_000, " GB/s"), (1_000_000, " MB/s"), (1000, " kB/s")],
            " B/s",
        ),
        Unit::Count => grouped(value),
        Unit::PerSecond => format!("{} /s", grouped(value)),
        Unit::Permille => digits(value, 1000, 3),
        Unit::PartsPerMillion => digits(value, 1_000_000, 4),
        Unit::Percent => format!("{} %", digits(value, 10, 1)),
        Unit::Days => match value {
            1 => "1 day".to_owned(),
            days => format!("{} days", grouped(days)),
        },
    }
}

fn time(value: u64) -> String {
    match value {
        0 => "0 s".to_owned(),
        1..1000 => format!("{value} ns"),
        1000..1_000_000 => format!("{} µs", significant(value, 1000)),
        1_000_000..SECOND => format!("{} ms", significant(value, 1_000_000)),
        SECOND..600_000_000_000 => format!("{} s", significant(value, SECOND)),
        600_000_000_000..18_000_000_000_000 => format!("{} min", significant(value, MINUTE)),
        _ => format!("{} h", significant(value, HOUR)),
    }
}

fn binary(value: u64) -> String {
    const WORDS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (63 - value.max(1).leading_zeros()) / 10;
    match power {
        0 => format!("{value} B"),
        power => format!("{} {}", significant(value, 1 << (10 * power)), WORDS[power as usize]),
    }
}

fn decimal(value: u64, units: &[(u64, &str)], rest: &str) -> String {
    match units.iter().find(|(unit, _)| value >= *unit) {
        Some((unit, words)) => format!("{}{words}", significant(value, *unit)),
        None => format!("{value}{rest}"),
    }
}

/// A number with narrow spaces between thousands.
pub(super) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut words = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.len() > 4 {
            words.push('\u{202f}');
        }
        words.push(digit);
    }
    words
}

/// A value over a unit with three digits, those after the point rounded.
fn significant(value: u64, unit: u64) -> String {
    let places = match value / unit {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    digits(value, unit, places)
}

/// A value over a unit with this many digits after the point.
fn digits(value: u64, unit: u64, places: u32) -> String {
    let power = 10u128.pow(places);
    let unit = u128::from(unit);
    let scaled = (u128::from(value) * power + unit / 2) / unit;
    match places {
        0 => grouped(u64::try_from(scaled).unwrap_or(u64::MAX)),
        places => format!("{}.{:0width$}", scaled / power, scaled % power, width = places as usize),
    }
}

/// Without noughts at the end of the number: for ticks, which are round.
fn trimmed(words: &str) -> String {
    let (number, unit) = words.split_once(' ').unwrap_or((words, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    match unit {
        "" => number.to_owned(),
        unit => format!("{number} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_book() {
        assert_eq!(binary_logarithm(1), 0);
        assert_eq!(binary_logarithm(1 << 40), 40 << 16);
        assert_eq!(binary_logarithm(10), 217_705);
        assert_eq!(binary_logarithm(u64::MAX) >> 16, 63);
    }

    #[test]
    fn ticks_are_round_few_and_in_order() {
        for unit in [
            Unit::Nanoseconds,
            Unit::Bytes,
            Unit::BytesPerSecond,
            Unit::Count,
            Unit::Permille,
            Unit::Days,
        ] {
            for power in 0..63 {
                for axis in [Axis::new("", unit), Axis::new("", unit).logarithmic()] {
                    let values = [1, 3 << power, u64::MAX >> (63 - power)];
                    let scale = Scale::around(&axis, values.into_iter());
                    let ticks = scale.ticks();
                    assert!((1..=12).contains(&ticks.len()), "{axis:?} {power}: {ticks:?}");
                    assert!(ticks.is_sorted_by_key(|tick| tick.place), "{ticks:?}");
                    assert!(ticks.iter().all(|tick| tick.place <= LENGTH));
                }
            }
        }
    }

    #[test]
    fn values_have_three_digits_and_the_unit_that_suits_them() {
        let shown = [
            show(Unit::Nanoseconds, 34_834_999),
            show(Unit::Nanoseconds, 172_030_000_000),
            show(Unit::Nanoseconds, 7_200_000_000_000),
            show(Unit::Bytes, 1536),
            show(Unit::Bytes, 400 << 30),
            show(Unit::BytesPerSecond, 34_200_000),
            show(Unit::Count, 1_234_567),
            show(Unit::Permille, 850),
            show(Unit::Percent, 855),
        ];
        let thousands = "1\u{202f}234\u{202f}567";
        let wanted = [
            "34.8 ms",
            "172 s",
            "120 min",
            "1.50 KiB",
            "400 GiB",
            "34.2 MB/s",
            thousands,
            "0.850",
            "85.5 %",
        ];
        assert_eq!(shown, wanted);
        let scale = Scale::between(&Axis::new("", Unit::Nanoseconds), 0, 10 * SECOND);
        let words: Vec<String> = scale.ticks().into_iter().map(|tick| tick.words).collect();
        assert_eq!(words, ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]);
    }
}
