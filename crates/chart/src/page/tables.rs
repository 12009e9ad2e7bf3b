//! Tables: the first column stays where it is while the others move in their box.
use super::markup::Markup;
use crate::table::{Alignment, Table};

/// Begins a box in which a table scrolls, up to its `<thead>`. `label` names it for who does not
/// see it, `class` is that of the table.
pub fn open(label: &str, class: &str, out: &mut Markup) {
    out.open(
        "div",
        &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", label)],
    );
    out.open("table", &[("class", class)]);
}

/// Ends the table body and the box.
pub fn close(out: &mut Markup) {
    out.close("tbody").close("table").close("div");
}

/// A table of a report.
pub(super) fn plain(table: &Table, out: &mut Markup) {
    open(table.title(), "plain", out);
    out.raw("<thead><tr>");
    let side = |alignment: Alignment| match alignment {
        Alignment::Left => "left",
        Alignment::Right => "right",
    };
    for (words, alignment) in table.columns() {
        out.element("th", &[("scope", "col"), ("class", side(*alignment))], words);
    }
    out.raw("</tr></thead><tbody>");
    for row in table.rows() {
        out.open("tr", &[]);
        for (at, (_, alignment)) in table.columns().iter().enumerate() {
            let words = row.get(at).map_or("", String::as_str);
            match at {
                0 => out.element("th", &[("scope", "row"), ("class", side(*alignment))], words),
                _ => out.element("td", &[("class", side(*alignment))], words),
            };
        }
        out.close("tr");
    }
    close(out);
}

/// Rows of which the first is the head.
pub(super) fn of_cells(rows: &[Vec<String>], out: &mut Markup) {
    let Some((head, rows)) = rows.split_first() else { return };
    open("The numbers of this figure", "plain", out);
    out.raw("<thead><tr>");
    for (at, words) in head.iter().enumerate() {
        out.element(
            "th",
            &[("scope", "col"), ("class", if at == 0 { "left" } else { "right" })],
            words,
        );
    }
    out.raw("</tr></thead><tbody>");
    for row in rows {
        out.open("tr", &[]);
        for (at, words) in row.iter().enumerate() {
            match at {
                0 => out.element("th", &[("scope", "row"), ("class", "left")], words),
                _ => out.element("td", &[("class", "right")], words),
            };
        }
        out.close("tr");
    }
    close(out);
}
