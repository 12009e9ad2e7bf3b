//! Lines over an axis: few measurements with marks, or sums over intervals.
use super::markup::Markup;
use super::plot::{Height, Name, Panel, classes, from_above};
use super::scale::{LENGTH, Scale, show};
use crate::{LineChart, LineStyle, Series};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The horizontal scale of a chart.
pub(super) fn x_scale(chart: &LineChart) -> Scale {
    let values = chart.series.iter().flat_map(|series| series.points.iter().map(|point| point.0));
    let values: Vec<u64> = values.collect();
    let (first, last) = (values.iter().min(), values.iter().max());
    match (chart.style, first, last) {
        // Time begins where it begins, and ends where it ends.
        (LineStyle::Steps | LineStyle::Plain, Some(first), Some(last)) => {
            Scale::between(&chart.x, *first, *last)
        }
        _ => Scale::around(&chart.x, values.iter().copied()).with_room(),
    }
}

/// The chart over a horizontal scale.
pub(super) fn panel(chart: &LineChart, x: &Scale, height: Height) -> Panel {
    let values = chart.series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let y = Scale::around(&chart.y, values.collect::<Vec<u64>>().into_iter()).with_room();
    let mut drawing = Markup::default();
    for (number, series) in chart.series.iter().enumerate() {
        let classes = classes(number, series.origin);
        match chart.style {
            LineStyle::Marked => marked(series, &classes, x, &y, &mut drawing),
            LineStyle::Steps => steps(series, &classes, x, &y, &mut drawing),
            LineStyle::Plain => plain(series, &classes, x, &y, &mut drawing),
        }
    }
    let style = match chart.style {
        LineStyle::Marked => "",
        LineStyle::Steps | LineStyle::Plain => " unmarked",
    };
    let names = chart.series.iter().enumerate().map(|(number, series)| Name {
        classes: format!("{}{style}", classes(number, series.origin)),
        words: series.name.clone(),
    });
    Panel {
        label: label(&chart.y.label, &y),
        height,
        ticks: y.ticks(),
        names: names.collect(),
        says: says(chart, x),
        drawing,
    }
}

/// What the axis shows, and where it begins if that is not at 0.
fn label(words: &str, y: &Scale) -> String {
    match (y.first(), y.ticks().first()) {
        (0 | 1, _) | (_, None) => words.to_owned(),
        (_, Some(tick)) => format!("{words} (from {})", tick.words),
    }
}

fn marked(series: &Series, classes: &str, x: &Scale, y: &Scale, out: &mut Markup) {
    let places =
        || series.points.iter().map(|(at, value)| (x.place(*at), from_above(y.place(*value))));
    let mut line = String::new();
    let mut marks = String::new();
    for (across, down) in places() {
        let _ = write!(line, "{}{across} {down}", if line.is_empty() { 'M' } else { 'L' });
        let _ = write!(marks, "M{across} {down}h0");
    }
    out.open("path", &[("class", &format!("line {classes}")), ("d", &line)]).close("path");
    out.open("path", &[("class", &format!("mark {classes}")), ("data-token", "M"), ("d", &marks)]);
    out.close("path");
    out.open("path", &[("class", &format!("core {classes}")), ("d", &marks)]).close("path");
}

fn steps(series: &Series, classes: &str, x: &Scale, y: &Scale, out: &mut Markup) {
    let mut path = String::new();
    for (number, (at, value)) in series.points.iter().enumerate() {
        let down = from_above(y.place(*value));
        let _ = match number {
            0 => write!(path, "M{} {down}", x.place(*at)),
            _ => write!(path, "V{down}"),
        };
        let end = series.points.get(number + 1).map_or(LENGTH, |next| x.place(next.0));
        let _ = write!(path, "H{end}");
    }
    let class = format!("line {classes}");
    out.open("path", &[("class", &class), ("data-token", "H"), ("d", &path)]).close("path");
}

fn plain(series: &Series, classes: &str, x: &Scale, y: &Scale, out: &mut Markup) {
    let mut path = String::new();
    for (at, value) in &series.points {
        let letter = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{} {}", x.place(*at), from_above(y.place(*value)));
    }
    let class = format!("line {classes}");
    out.open("path", &[("class", &class), ("data-token", "ML"), ("d", &path)]).close("path");
}

/// For each value of the horizontal axis those of all series that have one there.
fn says(chart: &LineChart, x: &Scale) -> BTreeMap<u64, String> {
    let mut by_value: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for series in &chart.series {
        for (at, value) in &series.points {
            let words = format!("{} {}", series.name, show(chart.y.unit, *value));
            by_value.entry(*at).or_default().push(words);
        }
    }
    let mut says = BTreeMap::new();
    for (at, words) in by_value {
        let first = format!("{} {}: ", chart.x.label, show(chart.x.unit, at));
        let words = format!("{}{}", first.trim_start(), words.join(", "));
        let said: &mut String = says.entry(x.place(at)).or_default();
        match said.is_empty() {
            true => *said = words,
            false => *said = format!("{said} · {words}"),
        }
    }
    says
}
