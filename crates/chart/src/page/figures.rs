//! A figure: its title, its sentence, its drawing, and its numbers as a table for those who want
//! them.
use super::markup::Markup;
use super::plot::{Height, Panel, Plot};
use super::scale::{Scale, show};
use super::{bars, grid, histogram, lines, multiples, raster, tables};
use crate::{BarChart, Figure, FigureContent, LineChart, Multiples, Range};
use std::collections::BTreeMap;

/// A table of numbers has no more rows: what is longer is read with the cursor.
const ROWS_MAX: usize = 80;

/// Draws a figure. Nothing is drawn of one that holds nothing.
pub fn draw(figure: &Figure, out: &mut Markup) {
    let marks = figure.content.marks();
    if marks == 0 {
        return;
    }
    out.open("figure", &[("class", class(&figure.content))]);
    out.raw("<figcaption>").element("h4", &[], &figure.title);
    if !figure.line.is_empty() {
        out.element("p", &[], &figure.line);
    }
    out.raw("</figcaption>");
    match &figure.content {
        FigureContent::Bars(chart) => bars::draw(chart, &figure.title, marks, out),
        FigureContent::Grid(chart) => grid::draw(chart, &figure.title, marks, out),
        FigureContent::Multiples(chart) => multiples::draw(chart, &figure.title, out),
        FigureContent::Table(table) => tables::plain(table, out),
        FigureContent::Text(text) => {
            out.open("pre", &[("tabindex", "0"), ("aria-label", &figure.title)])
                .text(text)
                .close("pre");
        }
        content => plot(content, &figure.title, marks, out),
    }
    numbers(&figure.content, out);
    out.close("figure");
}

fn class(content: &FigureContent) -> &'static str {
    match content {
        FigureContent::Stack(_) | FigureContent::Raster(_) | FigureContent::Table(_) => "wide",
        FigureContent::Grid(_) => "maps wide",
        FigureContent::Multiples(_) => "multiples wide",
        FigureContent::Bars(_) | FigureContent::Lines(_) | FigureContent::Histogram(_) => "chart",
        FigureContent::Text(_) => "words",
    }
}

/// What lies over a horizontal axis.
fn plot(content: &FigureContent, title: &str, marks: usize, out: &mut Markup) {
    let Some((x, x_label)) = axis(content) else { return };
    let kind = match content {
        FigureContent::Stack(_) => "stack",
        FigureContent::Raster(_) => "raster",
        FigureContent::Histogram(_) => "histogram",
        _ => "lines",
    };
    let plot =
        Plot { kind, title, x: &x, x_label, marks, panels: panels(content, &x, Height::Medium) };
    plot.draw(out);
}

/// The horizontal axis of a content: that of its first part.
fn axis(content: &FigureContent) -> Option<(Scale, &str)> {
    match content {
        FigureContent::Lines(chart) => Some((lines::x_scale(chart), &chart.x.label)),
        FigureContent::Histogram(chart) => Some((histogram::x_scale(chart), &chart.x.label)),
        FigureContent::Raster(chart) => Some((raster::x_scale(chart), &chart.x.label)),
        FigureContent::Stack(parts) => parts.iter().find_map(axis),
        _ => None,
    }
}

fn panels(content: &FigureContent, x: &Scale, height: Height) -> Vec<Panel> {
    match content {
        FigureContent::Lines(chart) => vec![lines::panel(chart, x, height)],
        FigureContent::Histogram(chart) => histogram::panels(chart, x).into(),
        FigureContent::Raster(chart) => vec![raster::panel(chart, x)],
        FigureContent::Stack(parts) => {
            parts.iter().flat_map(|part| panels(part, x, Height::Short)).collect()
        }
        _ => Vec::new(),
    }
}

/// The numbers of a figure of few, to be opened.
fn numbers(content: &FigureContent, out: &mut Markup) {
    let rows = match content {
        FigureContent::Lines(chart) => of_lines(chart),
        FigureContent::Bars(chart) => of_bars(chart),
        FigureContent::Multiples(chart) => of_multiples(chart),
        _ => return,
    };
    // Nothing else reads out what is in the fields of multiples.
    let is_many = rows.len() > ROWS_MAX && !matches!(content, FigureContent::Multiples(_));
    if rows.len() < 2 || is_many {
        return;
    }
    out.raw("<details class=\"numbers\"><summary>The numbers</summary>");
    tables::of_cells(&rows, out);
    out.raw("</details>");
}

/// A head, and a row for each value of the horizontal axis.
fn of_lines(chart: &LineChart) -> Vec<Vec<String>> {
    let mut by_value: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let count = chart.series.len();
    for (number, series) in chart.series.iter().enumerate() {
        for (at, value) in &series.points {
            let cells = by_value.entry(*at).or_insert_with(|| vec![String::new(); count]);
            cells[number] = show(chart.y.unit, *value);
        }
    }
    let head = [chart.x.label.clone()].into_iter();
    let head = head.chain(chart.series.iter().map(|series| series.name.clone())).collect();
    let rows = by_value.into_iter().map(|(at, cells)| {
        let first = [show(chart.x.unit, at)].into_iter();
        first.chain(cells).collect()
    });
    [head].into_iter().chain(rows).collect()
}

/// A head, and a row for each range.
fn of_multiples(chart: &Multiples) -> Vec<Vec<String>> {
    let head = ["", "", "", "median", "least", "greatest", "values"].map(str::to_owned);
    let cells = |range: &Range| {
        let value = |value| show(chart.value.unit, value);
        let places = [&chart.rows[range.row], &chart.columns[range.column]];
        let mut cells = places.map(String::clone).to_vec();
        cells.push(chart.systems[range.system].clone());
        cells.extend([value(range.median), value(range.least), value(range.greatest)]);
        cells.push(range.count.to_string());
        cells
    };
    [head.to_vec()].into_iter().chain(chart.ranges.iter().map(cells)).collect()
}

fn of_bars(chart: &BarChart) -> Vec<Vec<String>> {
    let head = [String::new()].into_iter();
    let head = head.chain(chart.bars.iter().map(|(words, _)| words.clone())).collect();
    let rows = chart.groups.iter().map(|(words, bars)| {
        let values = bars
            .iter()
            .map(|value| value.map_or_else(String::new, |value| show(chart.value.unit, value)));
        [words.clone()].into_iter().chain(values).collect()
    });
    [head].into_iter().chain(rows).collect()
}
