//! Distributions: how often which values occurred, by quarters of an octave, and under it the share
//! that is not above each.
use super::markup::Markup;
use super::plot::{Height, Name, Panel, classes, from_above};
use super::scale::{LENGTH, Scale, binary_logarithm, show};
use crate::{Axis, Histogram, Series, Unit};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Thousandths of 2 to the powers 0, 1/4, 1/2, 3/4.
const QUARTERS: [u128; 4] = [1000, 1189, 1414, 1682];

/// The horizontal scale of distributions.
pub(super) fn x_scale(histogram: &Histogram) -> Scale {
    let values =
        || histogram.series.iter().flat_map(|series| series.points.iter().map(|step| step.0));
    let least = edge(quarter(values().min().unwrap_or(1)));
    let greatest = edge(quarter(values().max().unwrap_or(1)) + 1);
    Scale::between(&histogram.x.clone().logarithmic(), least, greatest)
}

/// How often, and under it how many are not above.
pub(super) fn panels(histogram: &Histogram, x: &Scale) -> [Panel; 2] {
    [shares(histogram, x), sums(histogram, x)]
}

/// The number of a quarter of an octave.
fn quarter(value: u64) -> u64 {
    binary_logarithm(value.max(1)) >> 14
}

/// Where it begins.
fn edge(quarter: u64) -> u64 {
    let power = u32::try_from(quarter / 4).unwrap_or(63).min(63);
    let value = (1u128 << power) * QUARTERS[(quarter % 4) as usize] / 1000;
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn total(series: &Series) -> u64 {
    series.points.iter().map(|step| step.1).fold(0, u64::saturating_add)
}

/// A share in thousandths.
fn permille(part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    u64::try_from((u128::from(part) * 1000 + whole / 2) / whole).unwrap_or(1000)
}

fn names(histogram: &Histogram) -> Vec<Name> {
    let series = histogram.series.iter().enumerate();
    let name = |(number, series): (usize, &Series)| Name {
        classes: format!("{} unmarked", classes(number, series.origin)),
        words: series.name.clone(),
    };
    series.map(name).collect()
}

fn shares(histogram: &Histogram, x: &Scale) -> Panel {
    let mut all: Vec<BTreeMap<u64, u64>> = Vec::new();
    for series in &histogram.series {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (longest, count) in &series.points {
            let sum = counts.entry(quarter(*longest)).or_default();
            *sum = sum.saturating_add(*count);
        }
        let whole = total(series);
        all.push(counts.into_iter().map(|(at, count)| (at, permille(count, whole))).collect());
    }
    let values: Vec<u64> = all.iter().flat_map(|counts| counts.values().copied()).collect();
    let greatest = values.iter().max().copied().unwrap_or(1);
    let y = Scale::around(&Axis::new("", Unit::Percent), [0, greatest].into_iter());
    let mut drawing = Markup::default();
    for (number, (series, counts)) in histogram.series.iter().zip(&all).enumerate() {
        let mut path = String::new();
        for (at, share) in counts {
            let (left, right) = (x.place(edge(*at)), x.place(edge(*at + 1)));
            let _ = write!(path, "M{left} 1000V{}H{right}V1000", from_above(y.place(*share)));
        }
        let class = format!("area {}", classes(number, series.origin));
        drawing.open("path", &[("class", &class), ("d", &path)]).close("path");
    }
    Panel {
        label: "share of all, in each quarter of an octave".to_owned(),
        height: Height::Medium,
        ticks: y.ticks(),
        drawing,
        names: names(histogram),
        says: BTreeMap::new(),
    }
}

fn sums(histogram: &Histogram, x: &Scale) -> Panel {
    let y = Scale::between(&Axis::new("", Unit::Percent), 0, 1000);
    let mut drawing = Markup::default();
    let mut by_value: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (number, series) in histogram.series.iter().enumerate() {
        let whole = total(series);
        let (mut path, mut sum) = ("M0 1000".to_owned(), 0u64);
        for (longest, count) in &series.points {
            sum = sum.saturating_add(*count);
            let share = permille(sum, whole);
            let _ = write!(path, "H{}V{}", x.place(*longest), from_above(y.place(share)));
            let words = format!("{} {}", series.name, show(Unit::Percent, share));
            by_value.entry(*longest).or_default().push(words);
        }
        let _ = write!(path, "L{LENGTH} {}", from_above(LENGTH * u64::from(whole > 0)));
        let class = format!("line {}", classes(number, series.origin));
        drawing.open("path", &[("class", &class), ("data-token", "H"), ("d", &path)]).close("path");
    }
    let say = |(value, words): (u64, Vec<String>)| {
        let words = format!("at most {}: {}", show(histogram.x.unit, value), words.join(", "));
        (x.place(value), words)
    };
    Panel {
        label: "share that is not above".to_owned(),
        height: Height::Short,
        ticks: y.ticks(),
        drawing,
        names: names(histogram),
        says: by_value.into_iter().map(say).collect(),
    }
}
