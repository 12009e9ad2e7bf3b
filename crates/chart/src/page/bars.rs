//! Bars in groups. On a linear axis they are bars; by powers, where a length means nothing, they
//! are marks on a line.
use super::markup::Markup;
use super::plot::{classes, percent};
use super::scale::{Scale, show};
use crate::{AxisScale, BarChart, Origin};
use serde::Serialize;
use std::fmt::Write;

/// Room for a bar, in the units of the drawing: its own height.
const BAR: usize = 10;

#[derive(Serialize)]
struct Rows {
    rows: Vec<String>,
}

/// Draws it; `marks` is how many bars there are.
pub(super) fn draw(chart: &BarChart, title: &str, marks: usize, out: &mut Markup) {
    let values = chart.groups.iter().flat_map(|group| group.1.iter().flatten().copied());
    let values: Vec<u64> = values.collect();
    let scale = match chart.value.scale {
        AxisScale::Linear => Scale::around(&chart.value, values.iter().copied().chain([0])),
        AxisScale::Logarithmic => Scale::around(&chart.value, values.iter().copied()).with_room(),
    };
    names(chart, out);
    let label = format!("{title}. Arrow keys move from row to row.");
    let marks = marks.to_string();
    out.open(
        "div",
        &[
            ("class", "plot bars"),
            ("tabindex", "0"),
            ("role", "group"),
            ("aria-label", &label),
            ("data-kind", "bars"),
            ("data-count", &marks),
        ],
    );
    let ticks = scale.ticks();
    let down: String = ticks.iter().map(|tick| format!("M{} 0V1000", tick.place)).collect();
    for (words, bars) in &chart.groups {
        row(chart, (words, bars), &scale, &down, out);
    }
    out.open("div", &[("class", "x"), ("aria-hidden", "true")]);
    for tick in &ticks {
        let edge = match tick.place {
            0..60 => "first",
            941.. => "last",
            _ => "",
        };
        out.element(
            "span",
            &[("class", edge), ("style", &format!("left:{}", percent(tick.place)))],
            &tick.words,
        );
    }
    out.close("div");
    out.data(&Rows { rows: chart.groups.iter().map(|group| say(chart, group)).collect() });
    out.close("div").element("p", &[("class", "x-label")], &chart.value.label);
    out.raw("<output class=\"readout\" aria-live=\"polite\"></output>");
}

fn look(chart: &BarChart, number: usize) -> String {
    let (_, origin) = &chart.bars[number];
    // A post's bar has the colour of the bar of ours that follows it.
    let hue = chart.bars[..number].iter().filter(|bar| bar.1 == Origin::Ours).count();
    classes(hue, *origin)
}

fn names(chart: &BarChart, out: &mut Markup) {
    out.open("ul", &[("class", "names")]);
    for (number, (words, _)) in chart.bars.iter().enumerate() {
        out.raw("<li><svg class=\"key\" viewBox=\"0 0 28 12\" aria-hidden=\"true\">");
        shape(chart, number, "M2 6H26", "M14 6h0", Marks::Key, out);
        out.raw("</svg>").element("span", &[], words).raw("</li>");
    }
    out.close("ul");
}

/// What a mark stands for.
#[derive(Clone, Copy)]
enum Marks {
    /// A value.
    Data,
    /// A name in the key.
    Key,
}

fn shape(chart: &BarChart, number: usize, bar: &str, dot: &str, marks: Marks, out: &mut Markup) {
    let look = look(chart, number);
    let token: &[(&str, &str)] = match marks {
        Marks::Data => &[("data-token", "M")],
        Marks::Key => &[],
    };
    let mut path = |kind: &str, d: &str, token: &[(&str, &str)]| {
        let class = format!("{kind} {look}");
        let mut attributes = vec![("class", class.as_str())];
        attributes.extend_from_slice(token);
        attributes.push(("d", d));
        out.open("path", &attributes).close("path");
    };
    match chart.value.scale {
        AxisScale::Linear => path("bar", bar, token),
        AxisScale::Logarithmic => {
            path("mark", dot, token);
            path("core", dot, &[]);
        }
    }
}

fn row(
    chart: &BarChart,
    (words, bars): (&str, &[Option<u64>]),
    scale: &Scale,
    down: &str,
    out: &mut Markup,
) {
    let count = bars.len().max(1);
    let per_bar = match chart.value.scale {
        AxisScale::Linear => BAR,
        AxisScale::Logarithmic => BAR * 2 / 3,
    };
    let height = format!("height:{}px", (count * per_bar).max(16) + 6);
    out.raw("<div class=\"row\">").element("span", &[("class", "what")], words);
    out.open("div", &[("class", "field"), ("style", &height)]);
    out.raw("<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
    out.open("path", &[("class", "grid"), ("d", down)]).close("path");
    for (number, value) in bars.iter().enumerate().take(chart.bars.len()) {
        let Some(value) = value else { continue };
        let middle = (2 * number + 1) * 1000 / (2 * count);
        let place = scale.place(*value);
        let bar = format!("M0 {middle}H{place}");
        shape(chart, number, &bar, &format!("M{place} {middle}h0"), Marks::Data, out);
    }
    out.raw("</svg></div></div>");
}

fn say(chart: &BarChart, (words, bars): &(String, Vec<Option<u64>>)) -> String {
    let mut said = format!("{words}: ");
    let pairs =
        chart.bars.iter().zip(bars).filter_map(|((name, _), value)| Some((name, (*value)?)));
    for (number, (name, value)) in pairs.enumerate() {
        let between = if number == 0 { "" } else { ", " };
        let _ = write!(said, "{between}{name} {}", show(chart.value.unit, value));
    }
    said
}
