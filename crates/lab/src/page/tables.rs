//! The table of a post: what it says, what we have, and how the two compare.
use crate::posts::text::{asked, fragile, hundredths, note, number, ours, shown, time};
use crate::posts::{Class, PostTable, Row, TableForm, Verdict, judge};
use extant_chart::page::{Markup, close_table as close, open_table as open};

/// What stands beside the rows of a post's table: only what some row has.
struct Shape {
    posted: Vec<bool>,
    has_best: bool,
    has_limit: bool,
}

impl Shape {
    fn of(table: &PostTable) -> Shape {
        Shape {
            posted: table.posted_columns(),
            has_best: table.rows.iter().any(|row| table.over_best_permille(row).is_some()),
            has_limit: table.rows.iter().any(|row| row.limit.is_some()),
        }
    }
}

/// A table of a post: what it says, what we have and how the two stand to each other, side by side
/// for each system. `id` begins the names of its notes.
pub(super) fn of_post(table: &PostTable, id: &str, out: &mut Markup) {
    let shape = Shape::of(table);
    let class = match table.form {
        TableForm::Rows => "rows",
        TableForm::Stem => "rows stem",
    };
    open(&table.title, class, out);
    heads(table, &shape, out);
    let mut notes: Vec<String> = Vec::new();
    for row in &table.rows {
        let note = note(row).map(|note| number(&mut notes, note));
        self::row(table, row, &shape, note.map(|note| (id, note)), out);
    }
    close(out);
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

fn heads(table: &PostTable, shape: &Shape, out: &mut Markup) {
    out.raw(
        "<thead><tr><th rowspan=\"2\" scope=\"col\" class=\"left\">measured</th><th \
        rowspan=\"2\" scope=\"col\" class=\"left\">verdict</th>",
    );
    for (column, is_posted) in table.columns.iter().zip(&shape.posted) {
        match is_posted {
            true => out.element(
                "th",
                &[("colspan", "3"), ("scope", "colgroup"), ("class", "group")],
                &column.name,
            ),
            false => out.element(
                "th",
                &[("rowspan", "2"), ("scope", "col"), ("class", "right group")],
                &column.name,
            ),
        };
    }
    let count = usize::from(shape.has_best) + 2 * usize::from(shape.has_limit);
    if count > 0 {
        let count = count.to_string();
        out.element(
            "th",
            &[("colspan", &count), ("scope", "colgroup"), ("class", "group")],
            "modern over",
        );
    }
    out.raw("<th rowspan=\"2\" scope=\"col\" class=\"left group\">asked</th></tr><tr>");
    for _ in shape.posted.iter().filter(|is_posted| **is_posted) {
        out.raw(
            "<th scope=\"col\" class=\"right group\">post</th><th scope=\"col\" \
            class=\"right\">model</th><th scope=\"col\" class=\"right\">ratio</th>",
        );
    }
    if shape.has_best {
        out.raw("<th scope=\"col\" class=\"right group\">the best</th>");
    }
    if shape.has_limit {
        out.raw(
            "<th scope=\"col\" class=\"right\">the limit</th><th scope=\"col\" \
            class=\"right\">which is</th>",
        );
    }
    out.raw("</tr></thead><tbody>");
}

/// A verdict as a mark and a word: never by colour alone.
pub(super) fn verdict(row: &Row) -> (&'static str, &'static str, &'static str) {
    match (&row.class, judge(row)) {
        (Class::NotModelled { .. }, _) => ("left-out", "○", "not modelled"),
        (_, Verdict::Agrees) => ("agrees", "✓", "agrees"),
        (_, Verdict::Misses) => ("misses", "✗", "misses"),
        (_, Verdict::Warns) => ("warns", "!", "outside"),
        (_, Verdict::Shown) => ("shown", "·", "shown"),
    }
}

fn row(table: &PostTable, row: &Row, shape: &Shape, note: Option<(&str, usize)>, out: &mut Markup) {
    let (class, mark, word) = verdict(row);
    out.open("tr", &[("class", class)]);
    out.open("th", &[("scope", "row"), ("class", "left")]).text(&row.what);
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
    out.raw("</td>");
    for (column, is_posted) in shape.posted.iter().enumerate() {
        let cell = row.cells.get(column).copied().unwrap_or_default();
        if *is_posted {
            let ratio = cell
                .ratio_permille()
                .map_or_else(String::new, |ratio| format!("×{}", hundredths(ratio)));
            out.element("td", &[("class", "right group post")], &shown(cell.posted));
            out.element("td", &[("class", "right model")], &ours(&cell));
            out.element("td", &[("class", "right ratio")], &ratio);
        } else {
            out.element("td", &[("class", "right group model")], &ours(&cell));
        }
    }
    let ratio = |permille: Option<u64>| {
        permille.map_or_else(String::new, |ratio| format!("×{}", hundredths(ratio)))
    };
    if shape.has_best {
        out.element("td", &[("class", "right group ratio")], &ratio(table.over_best_permille(row)));
    }
    if shape.has_limit {
        out.element("td", &[("class", "right ratio")], &ratio(table.over_limit_permille(row)));
        let limit = row.limit.map(|limit| time(limit.nanoseconds)).unwrap_or_default();
        out.element("td", &[("class", "right limit")], &limit);
    }
    out.element("td", &[("class", "left group asked")], &asked(&row.class)).close("tr");
}
