//! Small multiples: fields in rows and columns, in each a line for every system, from its least
//! value to its greatest, with a dot at the median. One drawing, for a page and as a file.
use super::markup::Markup;
use super::scale::{LENGTH, Scale, show};
use crate::{Multiples, Range, wrapped};
use std::fmt::Write;

/// Lengths in the units of the drawing: points of a screen.
const FIELD_WIDTH: u64 = 200;
const SYSTEM_HEIGHT: u64 = 13;
const FIELD_MARGIN: u64 = 6;
const GAP: u64 = 16;
/// Left free at the left edge.
const EDGE: u64 = 8;
/// Words are folded so that they have this width at least.
const HEAD_WIDTH: u64 = 480;
const LINE: u64 = 18;
/// What a letter takes, at most, on average.
const LETTER: u64 = 7;
/// Names are cut after so many letters.
const LETTERS_MAX: usize = 28;
/// As many hues as the style has; then they come again.
const HUES: usize = 8;

/// What a file of SVG carries in the place of a page's style.
const STYLE: &str = "\
svg{background:#fff}\
text{font:11px system-ui,'DejaVu Sans',sans-serif;fill:#5a5f66}text.name{fill:#1c1e21}\
path{fill:none}.grid{stroke:#ece9e2}.edge{stroke:#e3dfd6}\
.range{stroke-width:2;stroke-linecap:round}.dot{stroke-width:7;stroke-linecap:round}\
.h0{stroke:#1d6fa5}.h1{stroke:#c2571a}.h2{stroke:#3b8247}.h3{stroke:#7c4fa3}\
.h4{stroke:#b8303c}.h5{stroke:#16837f}.h6{stroke:#98780d}.h7{stroke:#5b6470}";

/// How a file begins that was written here, and may be replaced by another picture.
pub const SVG_BEGINNING: &str =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a picture of extant -->\n";

/// A file of SVG under a title and a sentence.
///
/// # Panics
/// A range is of a row, a column or a system that is not there.
#[must_use]
pub fn svg(chart: &Multiples, title: &str, line: &str) -> String {
    let mut out = Markup::default();
    out.raw(SVG_BEGINNING);
    drawing(chart, title, &[title, line], "class=\"multiples\"", STYLE, &mut out);
    out.raw("\n");
    out.into_html()
}

/// Draws it into a page, which has the title already.
pub(super) fn draw(chart: &Multiples, title: &str, out: &mut Markup) {
    drawing(chart, title, &[], "role=\"img\"", "", out);
}

/// Where everything is.
struct Place {
    /// Over everything, line by line.
    heads: Vec<String>,
    /// Names of the rows, at the left.
    left: u64,
    /// The first field.
    top: u64,
    field_height: u64,
    width: u64,
    height: u64,
}

impl Place {
    fn of(chart: &Multiples, heads: &[&str]) -> Place {
        let longest = |names: &[String]| names.iter().map(|name| cut(name).chars().count()).max();
        let left = longest(&chart.rows).unwrap_or(0) as u64 * LETTER + EDGE + GAP;
        let field_height = chart.systems.len() as u64 * SYSTEM_HEIGHT + 2 * FIELD_MARGIN;
        let columns = chart.columns.len() as u64;
        let width = (left + columns * (FIELD_WIDTH + GAP)).max(HEAD_WIDTH);
        let letters = ((width - EDGE) / LETTER) as usize;
        let heads: Vec<String> = heads
            .iter()
            .flat_map(|head| {
                wrapped(head, letters, 0).lines().map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        let keys = chart.systems.iter().filter(|name| !name.is_empty()).count();
        let top = (heads.len() + keys + 2) as u64 * LINE;
        let rows = chart.rows.len() as u64;
        let height = top + rows * (field_height + FIELD_MARGIN) + 3 * LINE;
        Place { heads, left, top, field_height, width, height }
    }

    fn field(&self, row: usize, column: usize) -> (u64, u64) {
        let x = self.left + column as u64 * (FIELD_WIDTH + GAP);
        (x, self.top + row as u64 * (self.field_height + FIELD_MARGIN))
    }
}

fn drawing(
    chart: &Multiples,
    title: &str,
    heads: &[&str],
    attribute: &str,
    style: &str,
    out: &mut Markup,
) {
    let place = Place::of(chart, heads);
    let Place { width, height, .. } = place;
    out.raw(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
        width=\"{width}\" height=\"{height}\" {attribute}>"
    ));
    out.element("title", &[], title);
    if !style.is_empty() {
        out.raw("<style>").raw(style).raw("</style>");
    }
    let mut at = LINE;
    for head in &place.heads {
        text(EDGE, at, "name", head, out);
        at += LINE;
    }
    // One without a name needs no key.
    let named = chart.systems.iter().enumerate().filter(|(_, name)| !name.is_empty());
    for (number, name) in named {
        path("dot", number, &format!("M{} {}h0", EDGE + 4, at - 4), "", out);
        text(EDGE + GAP, at, "name", name, out);
        at += LINE;
    }
    for (column, name) in chart.columns.iter().enumerate() {
        text(place.field(0, column).0, place.top - 6, "name", &cut(name), out);
    }
    for (row, name) in chart.rows.iter().enumerate() {
        let (_, y) = place.field(row, 0);
        text(EDGE, y + place.field_height / 2 + 4, "name", &cut(name), out);
    }
    for column in 0..chart.columns.len() {
        fields(chart, column, &place, out);
    }
    let below = place.height - LINE / 2;
    text(place.left, below, "", &chart.value.label, out);
    out.raw("</svg>");
}

/// The fields of a column, their scale under them.
fn fields(chart: &Multiples, column: usize, place: &Place, out: &mut Markup) {
    let own = || chart.ranges.iter().filter(|range| range.column == column);
    let values = own().flat_map(|range| [range.least, range.greatest]);
    let scale = Scale::around(&chart.value, values).with_room();
    let ticks = scale.ticks();
    let (left, _) = place.field(0, column);
    let across = |value: u64| left + value * FIELD_WIDTH / LENGTH;
    for row in 0..chart.rows.len() {
        let (x, y) = place.field(row, column);
        let (width, height) = (FIELD_WIDTH, place.field_height);
        let lines = ticks.iter().fold(String::new(), |mut lines, tick| {
            let _ = write!(lines, "M{} {y}v{height}", across(tick.place));
            lines
        });
        plain("grid", &lines, out);
        plain("edge", &format!("M{x} {y}h{width}v{height}h-{width}z"), out);
    }
    for range in own() {
        let (_, y) = place.field(range.row, column);
        let y = y + FIELD_MARGIN + range.system as u64 * SYSTEM_HEIGHT + SYSTEM_HEIGHT / 2;
        let from = across(scale.place(range.least));
        let to = across(scale.place(range.greatest));
        let said = said(chart, range);
        path("range", range.system, &format!("M{from} {y}H{to}"), &said, out);
        let middle = across(scale.place(range.median));
        path("dot", range.system, &format!("M{middle} {y}h0"), &said, out);
    }
    let (_, below) = place.field(chart.rows.len(), 0);
    // Names that would lie over each other are left out.
    let mut free = 0;
    for tick in &ticks {
        let half = tick.words.chars().count() as u64 * LETTER / 2;
        let middle = across(tick.place);
        let from = middle.saturating_sub(half);
        if from >= free {
            text(from, below + LINE / 2 + 2, "", &tick.words, out);
            free = middle + half + LETTER;
        }
    }
}

/// A range in words: what a cursor over it shows.
fn said(chart: &Multiples, range: &Range) -> String {
    let value = |value| show(chart.value.unit, value);
    let mut words = chart.systems[range.system].clone();
    for place in [&chart.rows[range.row], &chart.columns[range.column]] {
        if !place.is_empty() {
            let _ = write!(words, ", {place}");
        }
    }
    let _ = write!(words, ": {}", value(range.median));
    if range.count > 1 {
        let (least, greatest) = (value(range.least), value(range.greatest));
        let _ = write!(words, " ({least} to {greatest}, {} values)", range.count);
    }
    words
}

fn cut(name: &str) -> String {
    match name.chars().count() > LETTERS_MAX {
        true => name.chars().take(LETTERS_MAX - 1).chain(['\u{2026}']).collect(),
        false => name.to_owned(),
    }
}

fn text(x: u64, y: u64, class: &str, words: &str, out: &mut Markup) {
    let (x, y) = (x.to_string(), y.to_string());
    out.element("text", &[("x", &x), ("y", &y), ("class", class)], words);
}

fn plain(class: &str, d: &str, out: &mut Markup) {
    out.open("path", &[("class", class), ("d", d)]).close("path");
}

fn path(kind: &str, system: usize, d: &str, said: &str, out: &mut Markup) {
    out.open("path", &[("class", &format!("{kind} h{}", system % HUES)), ("d", d)]);
    if !said.is_empty() {
        out.element("title", &[], said);
    }
    out.close("path");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Figure, Unit};

    fn chart() -> Multiples {
        let range = |row, column, system, least, greatest| Range {
            row,
            column,
            system,
            least,
            median: least,
            greatest,
            count: 2,
        };
        Multiples {
            value: Axis::new("elapsed <time>", Unit::Nanoseconds),
            rows: vec!["disk & co".into(), "flash".into()],
            columns: vec!["read".into(), "walk".into()],
            systems: vec!["old".into(), "new".into()],
            ranges: vec![
                range(0, 0, 0, 1_000_000, 2_000_000),
                range(1, 0, 1, 500_000, 4_000_000),
                range(1, 1, 0, 7_000_000_000, 7_000_000_000),
            ],
        }
    }

    /// The numbers of the path that has these words.
    fn numbers(svg: &str, kind: &str, words: &str) -> Vec<u64> {
        let end = svg.find(&format!("<title>{words}")).expect("what it says");
        let begin = svg[..end].rfind("<path").expect("its path");
        let own = &svg[begin..end];
        assert!(own.contains(kind), "{own}");
        let d = own.split(" d=\"").nth(1).expect("a way");
        let digits = d.split(|letter: char| !letter.is_ascii_digit());
        digits.filter_map(|digits| digits.parse().ok()).collect()
    }

    #[test]
    fn a_range_is_as_long_as_its_values_in_the_scale_of_its_column() {
        let svg = svg(&chart(), "title", "line");
        // The scale of the first column ends at 4 ms: a quarter of it, and seven eighths, but for
        // the room at its ends.
        let long = numbers(&svg, "range", "new, flash, read: 500 µs (500 µs to 4.00 ms");
        let short = numbers(&svg, "range", "old, disk &amp; co, read");
        let (long, short) = (long[2] - long[0], short[2] - short[0]);
        assert!(long.abs_diff(short * 7 / 2) <= 3, "{long} {short}");
        let point = numbers(&svg, "range", "old, flash, walk");
        assert_eq!(point[0], point[2]);
    }

    #[test]
    fn a_file_has_its_own_style_and_words_are_escaped() {
        let svg = svg(&chart(), "a<b", "\"quoted\"");
        assert!(svg.starts_with("<?xml") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a&lt;b") && svg.contains("elapsed &lt;time&gt;"));
        assert_eq!(svg.matches("<svg").count(), 1);
        assert!(svg.contains("<style>"));
        let figure = Figure::new("a<b", chart());
        let page = super::super::of_figures("page", "", &[figure]);
        assert!(!page.contains("<style>svg{") && page.contains("new, flash, read"));
        assert!(page.contains("The numbers"));
    }
}
