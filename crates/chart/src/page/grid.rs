//! Maps of fields: how a volume is used, before and after.
use super::markup::Markup;
use crate::{Grid, Hue};
use serde::Serialize;
use std::fmt::Write;

/// The most kinds whose fields the script can tell apart: they are written as letters.
const KINDS_MAX: usize = 26;

#[derive(Serialize)]
struct Maps<'a> {
    columns: u16,
    field: &'a str,
    kinds: Vec<&'a str>,
    maps: Vec<Fields<'a>>,
}

#[derive(Serialize)]
struct Fields<'a> {
    name: &'a str,
    /// A letter a field: `a` is the first kind.
    fields: String,
}

fn hue(hue: Hue) -> &'static str {
    match hue {
        Hue::Empty => "empty",
        Hue::Faint => "faint",
        Hue::Blue => "h0",
        Hue::Orange => "h1",
        Hue::Green => "h2",
        Hue::Purple => "h3",
        Hue::Red => "h4",
        Hue::Teal => "h5",
        Hue::Yellow => "h6",
    }
}

/// Draws it; `marks` is how many fields there are.
pub(super) fn draw(grid: &Grid, title: &str, marks: usize, out: &mut Markup) {
    out.open("ul", &[("class", "names")]);
    for (words, colour) in &grid.kinds {
        out.raw("<li><svg class=\"key\" viewBox=\"0 0 28 12\" aria-hidden=\"true\">");
        out.open("path", &[("class", &format!("fields {}", hue(*colour))), ("d", "M8 6h12")])
            .close("path");
        out.raw("</svg>").element("span", &[], words).raw("</li>");
    }
    out.close("ul");
    let label = format!("{title}. Arrow keys move from field to field.");
    let marks = marks.to_string();
    out.open(
        "div",
        &[
            ("class", "plot grid"),
            ("tabindex", "0"),
            ("role", "group"),
            ("aria-label", &label),
            ("data-kind", "grid"),
            ("data-count", &marks),
        ],
    );
    for (words, fields) in &grid.maps {
        map(grid, words, fields, out);
    }
    out.data(&data(grid)).close("div");
    let field = format!("A field is {}.", grid.field);
    out.element("p", &[("class", "x-label")], &field);
    out.raw("<output class=\"readout\" aria-live=\"polite\"></output>");
}

fn map(grid: &Grid, words: &str, fields: &[u8], out: &mut Markup) {
    let columns = usize::from(grid.columns.max(1));
    let rows = fields.len().div_ceil(columns).max(1);
    out.raw("<div class=\"map\">").element("p", &[("class", "y-label")], words);
    out.raw("<div class=\"field\">");
    let box_ = format!("0 0 {columns} {rows}");
    out.open(
        "svg",
        &[("viewBox", &box_), ("aria-hidden", "true"), ("shape-rendering", "crispEdges")],
    );
    for (number, (_, colour)) in grid.kinds.iter().enumerate() {
        let mut path = String::new();
        for (row, line) in fields.chunks(columns).enumerate() {
            let mut at = 0;
            for run in line.chunk_by(|one, other| one == other) {
                if usize::from(run[0]) == number {
                    let _ = write!(path, "M{at} {row}.5h{}", run.len());
                }
                at += run.len();
            }
        }
        let class = format!("fields {}", hue(*colour));
        if !path.is_empty() {
            out.open("path", &[("class", &class), ("data-token", "h"), ("d", &path)]).close("path");
        }
    }
    out.raw("</svg></div></div>");
}

fn data(grid: &Grid) -> Maps<'_> {
    let letter = |kind: &u8| char::from(b'a' + (*kind).min(KINDS_MAX as u8 - 1));
    Maps {
        columns: grid.columns.max(1),
        field: &grid.field,
        kinds: grid.kinds.iter().map(|(words, _)| words.as_str()).collect(),
        maps: grid
            .maps
            .iter()
            .map(|(name, fields)| Fields { name, fields: fields.iter().map(letter).collect() })
            .collect(),
    }
}
