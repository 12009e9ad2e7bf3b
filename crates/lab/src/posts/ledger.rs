//! The posts as a part of a document: a table for each post, with what each row came to before and
//! what it comes to now, and how many values were fitted then and now.
//!
//! What was before is read from the JSON of an earlier run. The part stands between two marks; what
//! is written around them by hand stays.
use super::counts::{Judged, WhoseRow};
use super::fitted::FittedOrigin;
use super::judge::permille;
use super::report::{Class, PostReport, PostTable, PostsReport, Quantity, Row, Scale};
use super::tables::RATIO;
use super::text::{asked, drive, fragile, ours, seeds, shown};
use super::{Verdict, judge};
use extant_chart::{TEXT_WIDTH, wrapped};
use serde_json::Value;
use std::fmt::Write;

/// The line above the part.
pub const BEGIN: &str = "<!-- extant lab posts --table: begin -->";
/// The line below it.
pub const END: &str = "<!-- extant lab posts --table: end -->";

/// What an earlier run came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Before {
    model_version: u64,
    posts: Vec<PostBefore>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct PostBefore {
    number: u64,
    fitted: Option<usize>,
    rows: Vec<RowBefore>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct RowBefore {
    table: String,
    what: String,
    verdict: String,
    /// Columns with their values.
    ours: Vec<(String, Quantity)>,
}

impl Before {
    /// Reads what `extant lab posts --json` printed, perhaps of another version.
    ///
    /// # Errors
    /// One line: it is not that.
    pub fn parse(text: &str) -> Result<Before, String> {
        let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if json["schema"] != super::SCHEMA {
            return Err(format!("is not of schema {}", super::SCHEMA));
        }
        let posts = list(&json["posts"]).iter().map(|post| PostBefore {
            number: post["number"].as_u64().unwrap_or(u64::MAX),
            fitted: fitted_before(post),
            rows: list(&post["tables"]).iter().flat_map(rows_before).collect(),
        });
        let posts = posts.collect();
        Ok(Before { model_version: json["model_version"].as_u64().unwrap_or(0), posts })
    }

    fn post(&self, number: u32) -> Option<&PostBefore> {
        self.posts.iter().find(|post| post.number == u64::from(number))
    }
}

impl PostBefore {
    /// What a row was: in earlier reports a row of ratios had times in its cells, and that of times
    /// another name.
    fn of(&self, table: &str, row: &Row) -> Option<RowBefore> {
        match (&row.class, row.what.strip_suffix(RATIO)) {
            (Class::Ratio { .. }, Some(what)) => {
                let found = self.row(table, &row.what).or_else(|| self.row(table, what));
                found.map(RowBefore::in_ratios)
            }
            (Class::Ratio { .. }, None) => self.row(table, &row.what).map(RowBefore::in_ratios),
            _ => {
                let times = format!("{}: times", row.what);
                self.row(table, &times).or_else(|| self.row(table, &row.what)).cloned()
            }
        }
    }

    /// The row of that name: in that table, or in the only one that has it.
    fn row(&self, table: &str, what: &str) -> Option<&RowBefore> {
        let named: Vec<&RowBefore> = self.rows.iter().filter(|row| row.what == what).collect();
        let there = named.iter().find(|row| row.table == table);
        there.or(named.first().filter(|_| named.len() == 1)).copied()
    }
}

impl RowBefore {
    /// Its times over that of its first column.
    fn in_ratios(&self) -> RowBefore {
        let first = self.ours.first().map(|(_, value)| *value);
        let Some(Quantity::Nanoseconds(first)) = first else { return self.clone() };
        let over = |(name, value): &(String, Quantity)| {
            Some((name.clone(), Quantity::Permille(permille(value.value(), first)?)))
        };
        RowBefore { ours: self.ours.iter().filter_map(over).collect(), ..self.clone() }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Values that were fitted; `None` of an early version, which had words only and did not say where
/// each came from.
fn fitted_before(post: &Value) -> Option<usize> {
    let values = post["fitted_values"].as_array()?;
    Some(values.iter().filter(|value| value["origin"] == "fitted").count())
}

fn rows_before(table: &Value) -> Vec<RowBefore> {
    let columns: Vec<String> =
        list(&table["columns"]).iter().map(|column| word(&column["name"])).collect();
    let row = |row: &Value| RowBefore {
        table: word(&table["title"]),
        what: word(&row["what"]),
        verdict: word(&row["verdict"]),
        ours: columns
            .iter()
            .zip(list(&row["cells"]))
            .filter_map(|(column, cell)| Some((column.clone(), quantity(&cell["ours"])?)))
            .collect(),
    };
    list(&table["rows"]).iter().map(row).collect()
}

fn quantity(value: &Value) -> Option<Quantity> {
    let number = value["value"].as_u64()?;
    match value["unit"].as_str()? {
        "nanoseconds" => Some(Quantity::Nanoseconds(number)),
        "count" => Some(Quantity::Count(number)),
        "permille" => Some(Quantity::Permille(number)),
        _ => None,
    }
}

/// The part, in Markdown.
pub fn part(report: &PostsReport, before: &Before) -> String {
    let scale = match report.scale {
        Scale::Quick => "in quick form",
        Scale::Full => "at the size of the posts",
    };
    let seeds = report.posts.iter().map(|post| post.seeds.len()).max().unwrap_or(1);
    let mut out = format!(
        "Model {}, {scale}, {seeds} {}. A value is the median of the seeds; in brackets stand\n\
         the least and the most. Before is one seed of model {}.\n",
        report.model_version,
        if seeds == 1 { "seed" } else { "seeds" },
        before.model_version
    );
    out.push_str(COUNTS);
    for post in &report.posts {
        out.push_str(&summary(post, before.post(post.number)));
    }
    out.push_str(CLASSES);
    for post in &report.posts {
        out.push_str(&classes(post));
    }
    for post in &report.posts {
        out.push_str(&self::post(post, before.post(post.number)));
    }
    out
}

/// The head of the first table.
const COUNTS: &str = "\nWhat the posts judge, a block of rows once; bounds of our own apart.\n\n\
    | post | judged | agree before | agree now | outside | miss | fragile | our bounds | hold | \
    fitted | chosen | assumed | given |\n\
    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";

/// The head of the second one.
const CLASSES: &str = "\nThe same by what is asked: agree, of all.\n\n\
    | post | exact, in blocks | exact, alone | ratio | time | range or at most | among draws |\n\
    | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";

fn summary(post: &PostReport, before: Option<&PostBefore>) -> String {
    let agreed = before.map(|before| {
        let was = |one: &&Judged<'_>| {
            let agreed = |row: &&Row| {
                before.of(&one.table.title, row).is_some_and(|row| row.verdict == "agrees")
            };
            one.whose == WhoseRow::Post && one.rows.iter().all(agreed)
        };
        post.judged().iter().filter(was).count().to_string()
    });
    let (tally, ours) = (post.tally(WhoseRow::Post), post.tally(WhoseRow::Ours));
    let origins = FittedOrigin::ALL.map(|origin| post.fitted.count(origin).to_string());
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        post.number,
        tally.judged,
        agreed.unwrap_or_else(|| "-".to_owned()),
        tally.agree,
        tally.outside,
        tally.miss,
        tally.fragile,
        ours.judged,
        ours.agree,
        origins.join(" | ")
    )
}

/// How many of each class agree.
fn classes(post: &PostReport) -> String {
    let judged = post.judged();
    let count = |wanted: usize| {
        let of_class = judged.iter().filter(|one| {
            one.whose == WhoseRow::Post && one.rows.first().map(|row| class(row)) == Some(wanted)
        });
        let (mut all, mut agree) = (0, 0);
        for one in of_class {
            all += 1;
            agree += usize::from(one.verdict == Verdict::Agrees);
        }
        if all == 0 { String::new() } else { format!("{agree} of {all}") }
    };
    let counts: Vec<String> = (0..6).map(count).collect();
    format!("| {} | {} |\n", post.number, counts.join(" | "))
}

/// The column of [`CLASSES`] for a row.
fn class(row: &Row) -> usize {
    match row.class {
        Class::Exact if row.block.is_some() => 0,
        Class::Exact => 1,
        Class::Ratio { .. } => 2,
        Class::Absolute { .. } => 3,
        Class::Between { .. } | Class::AtMost => 4,
        _ => 5,
    }
}

fn post(post: &PostReport, before: Option<&PostBefore>) -> String {
    let mut out = format!("\n### Post {}: {}\n\n", post.number, post.title);
    let facts = format!(
        "{}; drive {}; processor {}; {}.\n",
        seeds(&post.seeds),
        drive(&post.drive),
        post.processor,
        post.fitted_count()
    );
    out.push_str(&wrapped(&facts, TEXT_WIDTH, 0));
    let judged = post.judged();
    let (by_post, ours): (Vec<&Judged<'_>>, Vec<&Judged<'_>>) =
        judged.iter().partition(|one| one.whose == WhoseRow::Post);
    let mut last = None;
    for one in by_post {
        if last != Some(&one.table.title) {
            last = Some(&one.table.title);
            let title = cell(&one.table.title);
            let _ = write!(
                out,
                "\n| {title} | post | before | now | asked | verdict |\n\
                 | --- | ---: | ---: | ---: | --- | --- |\n"
            );
        }
        match one.is_block() {
            true => out.push_str(&block(one)),
            false => {
                for row in &one.rows {
                    let was = before.and_then(|before| before.of(&one.table.title, row));
                    out.push_str(&line(one.table, row, was.as_ref()));
                }
            }
        }
    }
    if !ours.is_empty() {
        out.push_str(
            "\n| bounds of our own: the post says nothing of these | now | asked | verdict |\n\
             | --- | ---: | --- | --- |\n",
        );
        for one in ours {
            one.rows.iter().for_each(|row| out.push_str(&bound(one.table, row)));
        }
    }
    out
}

/// A block in a line.
fn block(one: &Judged<'_>) -> String {
    let right = one.rows.iter().filter(|row| judge(row) == Verdict::Agrees).count();
    let all = one.rows.len();
    let (what, words) = (cell(one.what), verdict_words(one.verdict));
    format!("| {what} | {all} rows | | {right} the same | exact, as one | {words} |\n")
}

/// A bound of our own, with what is held to it.
fn bound(table: &PostTable, row: &Row) -> String {
    let cells = table.columns.iter().zip(&row.cells);
    let held: Vec<_> = cells.filter(|(_, cell)| cell.is_held).collect();
    let joined = |words: Vec<String>| cell(&words.join(" / "));
    let names = held.iter().map(|(column, _)| column.name.clone()).collect();
    let now = held.iter().map(|(_, cell)| ours(cell)).collect();
    let mut verdict = match judge(row) {
        Verdict::Agrees => "holds".to_owned(),
        other => verdict_words(other).to_owned(),
    };
    if let Some(words) = fragile(row) {
        let _ = write!(verdict, ", {words}");
    }
    let (what, asked) = (cell(row.what.trim_end()), cell(&asked(&row.class)));
    format!("| {what} ({}) | {} | {asked} | {verdict} |\n", joined(names), joined(now))
}

fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Agrees => "agrees",
        Verdict::Misses => "**misses**",
        Verdict::Warns => "outside",
        Verdict::Shown => "shown",
    }
}

fn line(table: &PostTable, row: &Row, was: Option<&RowBefore>) -> String {
    let cells = table.columns.iter().zip(&row.cells);
    let posted: Vec<_> = cells.filter(|(_, cell)| cell.posted.is_some()).collect();
    let joined = |words: Vec<String>| cell(&words.join(" / "));
    let names = posted.iter().map(|(column, _)| column.name.clone()).collect();
    let figures = posted.iter().map(|(_, cell)| shown(cell.posted)).collect();
    let now = posted.iter().map(|(_, cell)| ours(cell)).collect();
    let then = posted.iter().map(|(column, _)| {
        let found = was.and_then(|was| was.ours.iter().find(|(name, _)| *name == column.name));
        found.map_or_else(|| "-".to_owned(), |(_, value)| shown(Some(*value)))
    });
    let mut verdict = verdict_words(judge(row)).to_owned();
    let same = was.is_some_and(|was| was.verdict == judge(row).word());
    if let Some(was) = was.filter(|_| !same) {
        let words = if was.verdict == "warns" { "outside" } else { &was.verdict };
        let _ = write!(verdict, " (before: {words})");
    }
    if let Some(words) = fragile(row) {
        let _ = write!(verdict, ", {words}");
    }
    let drawn = row.class == Class::Drawn;
    if let Some(range) = row.cells.iter().find_map(|cell| cell.range).filter(|_| drawn) {
        let _ = write!(verdict, ", {} of {} draws", range.as_posted, range.values);
    }
    format!(
        "| {} ({}) | {} | {} | {} | {} | {verdict} |\n",
        cell(row.what.trim_end()),
        joined(names),
        joined(figures),
        joined(then.collect()),
        joined(now),
        cell(&asked(&row.class))
    )
}

/// Words as a cell of a table.
fn cell(words: &str) -> String {
    words.replace('|', "\\|").replace('\n', " ")
}

/// A document with the part between its marks replaced.
///
/// # Errors
/// One line: the marks are not there, once each and in order.
pub fn put_into(document: &str, part: &str) -> Result<String, String> {
    let wrong = || format!("has to have the lines {BEGIN} and {END}, once each");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(wrong)?;
    let (_, after) = rest.split_once(END).ok_or_else(wrong)?;
    if after.contains(BEGIN) || after.contains(END) {
        return Err(wrong());
    }
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", part.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_between_its_marks_only() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let put = put_into(&document, "new\n").unwrap();
        assert_eq!(put, format!("a\n{BEGIN}\n\nnew\n\n{END}\nb\n"));
        assert_eq!(put_into(&put, "new\n").unwrap(), put);
        assert!(put_into("a", "b").is_err());
        assert!(put_into(&format!("{END} {BEGIN}"), "b").is_err());
    }

    #[test]
    fn what_was_before_is_found_by_table_and_row() {
        let row = |verdict: &str, value: u64| {
            serde_json::json!({"what": "r", "verdict": verdict,
                "cells": [{"ours": {"unit": "count", "value": value}}]})
        };
        let table = |title: &str, row: Value| {
            let columns = [serde_json::json!({"name": "c"})];
            serde_json::json!({"title": title, "columns": columns, "rows": [row]})
        };
        let json = serde_json::json!({"schema": "extant-lab-posts/1", "model_version": 1,
            "posts": [{"number": 3, "fitted": ["a", "b"],
                "tables": [table("t", row("agrees", 1)), table("u", row("misses", 2))]}]});
        let before = Before::parse(&json.to_string()).unwrap();
        let post = before.post(3).unwrap();
        // Words alone do not say that a value was fitted.
        assert_eq!((post.fitted, before.model_version), (None, 1));
        let found = post.row("u", "r").unwrap();
        assert_eq!((found.verdict.as_str(), found.ours[0].1), ("misses", Quantity::Count(2)));
        // Two tables have it, and neither is this one.
        assert_eq!(post.row("v", "r"), None);
        assert!(Before::parse("{}").is_err() && Before::parse("{").is_err());
    }
}
