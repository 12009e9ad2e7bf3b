//! The table of a post: what it says, what we have, and how the two compare.
//!
//! A window of 1,300 pixels shows the whole width of each: what has no room beside the names of the
//! rows continues in a table below, under the same names.
use crate::posts::text::{asked, fragile, hundredths, note, number, ours, shown, time};
use crate::posts::{Class, PostTable, Row, TableForm, Verdict, judge};
use extant_chart::page::{Markup, close_table as close, open_table as open};

/// What columns of numbers may take together, in pixels: of a window of 1,300 what is beside them,
/// the contents of the page and the names of the rows, is taken off.
const ROOM: usize = 660;
/// Pixels of a digit, and of what is around a cell.
const DIGIT: usize = 8;
const AROUND: usize = 24;
/// The verdict and what was asked, which stand in the first part.
const VERDICT: usize = 210;

/// What stands side by side, under one head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A system without a figure of the post.
    Alone(usize),
    /// A system: the post, ours, and the ratio.
    Beside(usize),
    /// `modern` over the best other column, and over the limit.
    Modern,
}

/// What stands beside the rows of a post's table: only what some row has.
struct Shape {
    parts: Vec<Part>,
    has_best: bool,
    has_limit: bool,
}

impl Shape {
    fn of(table: &PostTable) -> Shape {
        let posted = table.posted_columns();
        let columns = posted.iter().enumerate();
        let parts = columns.map(|(column, is_posted)| match is_posted {
            true => Part::Beside(column),
            false => Part::Alone(column),
        });
        let has_best = table.rows.iter().any(|row| table.over_best_permille(row).is_some());
        let has_limit = table.rows.iter().any(|row| row.limit.is_some());
        let modern = (has_best || has_limit).then_some(Part::Modern);
        Shape { parts: parts.chain(modern).collect(), has_best, has_limit }
    }

    /// The parts that stand beside each other, table by table.
    fn blocks(&self, table: &PostTable) -> Vec<&[Part]> {
        let mut blocks = Vec::new();
        let (mut first, mut used) = (0, VERDICT);
        for (at, part) in self.parts.iter().enumerate() {
            let width = self.width(table, *part);
            if at > first && used + width > ROOM {
                blocks.push(&self.parts[first..at]);
                (first, used) = (at, 0);
            }
            used += width;
        }
        blocks.push(&self.parts[first..]);
        blocks
    }

    /// How wide a part is at least, in pixels: as its longest words are, for lines break between
    /// words.
    fn width(&self, table: &PostTable, part: Part) -> usize {
        let longest = |words: &str| {
            words.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0)
        };
        let cells = |column: usize, of: &dyn Fn(&Row, usize) -> String| {
            let rows = table.rows.iter();
            rows.map(|row| longest(&of(row, column))).max().unwrap_or(0) * DIGIT + AROUND
        };
        let cell = |row: &Row, column: usize| row.cells.get(column).copied().unwrap_or_default();
        let model = |row: &Row, column: usize| ours(&cell(row, column));
        let posted = |row: &Row, column: usize| shown(cell(row, column).posted);
        let name = |column: usize| {
            let name = table.columns.get(column).map_or("", |column| column.name.as_str());
            longest(name) * DIGIT + AROUND
        };
        match part {
            Part::Alone(column) => cells(column, &model).max(name(column)),
            Part::Beside(column) => {
                let least = 5 * DIGIT + AROUND;
                let all = cells(column, &model).max(least) + cells(column, &posted).max(least);
                (all + least).max(name(column))
            }
            Part::Modern => {
                let count = usize::from(self.has_best) + 2 * usize::from(self.has_limit);
                count * (6 * DIGIT + AROUND)
            }
        }
    }
}

/// A table of a post: what it says, what we have and how the two stand to each other, side by side
/// for each system, in as many parts as its width asks for. `id` begins the names of its notes.
pub(super) fn of_post(table: &PostTable, id: &str, out: &mut Markup) {
    let shape = Shape::of(table);
    let class = match table.form {
        TableForm::Rows => "rows",
        TableForm::Stem => "rows stem",
    };
    let mut notes: Vec<String> = Vec::new();
    for (number, parts) in shape.blocks(table).into_iter().enumerate() {
        let label = match number {
            0 => table.title.clone(),
            _ => format!("{}, continued", table.title),
        };
        open(&label, class, out);
        heads(table, &shape, (number, parts), out);
        for row in &table.rows {
            let note = note(row).map(|note| self::number(&mut notes, note));
            begin(row, (number, note.map(|note| (id, note))), out);
            parts.iter().for_each(|part| cells(table, row, &shape, *part, out));
            out.close("tr");
        }
        close(out);
    }
    if !notes.is_empty() {
        out.raw("<ol class=\"notes\">");
        for (at, words) in notes.iter().enumerate() {
            out.element("li", &[("id", &format!("{id}-note-{}", at + 1))], words);
        }
        out.close("ol");
    }
    out.raw("<details class=\"policies\"><summary>What each column is</summary><dl>");
    for column in &table.columns {
        out.element("dt", &[], &column.name)
            .raw("<dd>")
            .element("code", &[], &column.policies)
            .raw("</dd>");
    }
    out.raw("</dl></details>");
}

fn heads(table: &PostTable, shape: &Shape, (block, parts): (usize, &[Part]), out: &mut Markup) {
    out.raw("<thead><tr><th rowspan=\"2\" scope=\"col\" class=\"left\">measured</th>");
    if block == 0 {
        out.raw(
            "<th rowspan=\"2\" scope=\"col\" class=\"left\">verdict</th><th rowspan=\"2\" \
             scope=\"col\" class=\"left\">asked</th>",
        );
    }
    let group = |span: usize, name: &str, out: &mut Markup| {
        let span = span.to_string();
        out.element("th", &[("colspan", &span), ("scope", "colgroup"), ("class", "group")], name);
    };
    for part in parts {
        let name = |column: &usize| table.columns.get(*column).map_or("", |one| one.name.as_str());
        match part {
            Part::Beside(column) => group(3, name(column), out),
            Part::Alone(column) => {
                out.element(
                    "th",
                    &[("rowspan", "2"), ("scope", "col"), ("class", "right group")],
                    name(column),
                );
            }
            Part::Modern => {
                let count = usize::from(shape.has_best) + 2 * usize::from(shape.has_limit);
                group(count, "modern over", out);
            }
        }
    }
    out.raw("</tr><tr>");
    for part in parts {
        match part {
            Part::Alone(_) => {}
            Part::Beside(_) => {
                out.raw(
                    "<th scope=\"col\" class=\"right group\">post</th><th scope=\"col\" \
                     class=\"right\">model</th><th scope=\"col\" class=\"right\">ratio</th>",
                );
            }
            Part::Modern => {
                if shape.has_best {
                    out.raw("<th scope=\"col\" class=\"right group\">the best</th>");
                }
                if shape.has_limit {
                    out.raw(
                        "<th scope=\"col\" class=\"right\">the limit</th><th scope=\"col\" \
                         class=\"right\">which is</th>",
                    );
                }
            }
        }
    }
    out.raw("</tr></thead><tbody>");
}

/// A verdict as a mark and a word: never by colour alone.
pub(super) fn verdict(row: &Row) -> (&'static str, &'static str, &'static str) {
    match (&row.class, judge(row)) {
        (Class::NotModelled { .. }, _) => ("left-out", "○", "not modelled"),
        (Class::Bound { .. } | Class::BoundByFirst, Verdict::Agrees) => ("bound", "≤", "holds"),
        (_, Verdict::Agrees) => ("agrees", "✓", "agrees"),
        (_, Verdict::Misses) => ("misses", "✗", "misses"),
        (_, Verdict::Warns) => ("warns", "!", "outside"),
        (_, Verdict::Shown) => ("shown", "·", "shown"),
    }
}

/// The name of a row; in the first part with its verdict and what was asked.
fn begin(row: &Row, (block, note): (usize, Option<(&str, usize)>), out: &mut Markup) {
    let (class, mark, word) = verdict(row);
    match block {
        0 => out.open("tr", &[("class", class)]),
        _ => out.open("tr", &[]),
    };
    out.open("th", &[("scope", "row"), ("class", "left")]).text(&row.what);
    if block > 0 {
        out.close("th");
        return;
    }
    if let Some((id, note)) = note {
        out.raw(" ");
        let to = format!("#{id}-note-{note}");
        let label = format!("note {note}");
        out.element(
            "a",
            &[("class", "note"), ("href", &to), ("aria-label", &label)],
            &note.to_string(),
        );
    }
    out.raw("</th><td>").open("span", &[("class", &format!("verdict {class}"))]);
    out.element("b", &[("aria-hidden", "true")], mark).raw(" ").text(word).raw("</span>");
    if let Some(words) = fragile(row) {
        out.raw(" ").element("small", &[], &words);
    }
    out.raw("</td>").element("td", &[("class", "left asked")], &asked(&row.class));
}

fn cells(table: &PostTable, row: &Row, shape: &Shape, part: Part, out: &mut Markup) {
    let cell = |column: usize| row.cells.get(column).copied().unwrap_or_default();
    let ratio = |permille: Option<u64>| {
        permille.map_or_else(String::new, |ratio| format!("×{}", hundredths(ratio)))
    };
    match part {
        Part::Alone(column) => {
            out.element("td", &[("class", "right group model")], &ours(&cell(column)));
        }
        Part::Beside(column) => {
            let cell = cell(column);
            out.element("td", &[("class", "right group post")], &shown(cell.posted));
            out.element("td", &[("class", "right model")], &ours(&cell));
            out.element("td", &[("class", "right ratio")], &ratio(cell.ratio_permille()));
        }
        Part::Modern => {
            if shape.has_best {
                let over = ratio(table.over_best_permille(row));
                out.element("td", &[("class", "right group ratio")], &over);
            }
            if shape.has_limit {
                let over = ratio(table.over_limit_permille(row));
                out.element("td", &[("class", "right ratio")], &over);
                let limit = row.limit.map(|limit| time(limit.nanoseconds)).unwrap_or_default();
                out.element("td", &[("class", "right limit")], &limit);
            }
        }
    }
}
