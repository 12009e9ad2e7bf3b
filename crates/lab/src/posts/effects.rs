//! What fitted values decide: how many there are beside how many rows, and which rows change when
//! one is taken away.
use super::counts::WhoseRow;
use super::fitted::{Fitted, FittedOrigin};
use super::judge::judge;
use super::report::{PostReport, Row};
use super::verdict::Verdict;
use serde::Serialize;

impl PostReport {
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.tables.iter().flat_map(|table| &table.rows)
    }

    /// How many values of each origin there are beside how much is judged, in words.
    pub fn fitted_count(&self) -> String {
        let counts = FittedOrigin::ALL.map(|origin| (self.fitted.count(origin), origin.word()));
        let shown = counts.iter().filter(|(count, word)| *count > 0 || *word == "fitted");
        let words: Vec<String> = shown.map(|(count, word)| format!("{count} {word}")).collect();
        let (post, ours) = (self.tally(WhoseRow::Post), self.tally(WhoseRow::Ours));
        let bounds = match ours.judged {
            0 => String::new(),
            count => format!(", and {count} by bounds of our own"),
        };
        format!("{}, beside {} judged by the post{bounds}", words.join(", "), post.judged)
    }

    /// The words of each value with its origin, in a line.
    pub fn fitted_words(&self) -> String {
        let words = self.fitted.0.iter().map(|value| {
            let what = match &value.value {
                Some(number) => format!("{}: {number}", value.what),
                None => value.what.clone(),
            };
            format!("{what} ({}: {})", value.origin.word(), value.source)
        });
        match self.fitted.0.is_empty() {
            true => "nothing".to_owned(),
            false => words.collect::<Vec<_>>().join("; "),
        }
    }
}

/// What the rows of a post come to without one of its fitted values.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FittedEffect {
    /// The post.
    pub post: u32,
    /// The value.
    pub fitted: Fitted,
    /// Rows with another verdict; `None` if the value cannot be taken away.
    pub changed: Option<Vec<ChangedRow>>,
}

impl FittedEffect {
    /// In words: the value, the rows that its file says it decides, and those that change.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "post {}: {} ({}: {})\n",
            self.post,
            self.fitted.what,
            self.fitted.origin.word(),
            self.fitted.source
        );
        if !self.fitted.decides.is_empty() {
            let rows = self.fitted.decides.join("; ");
            text.push_str(&format!("  its file says that it decides: {rows}\n"));
        }
        let neutral = self.fitted.neutral.as_deref();
        let neutral = neutral.map_or_else(String::new, |words| format!(" ({words})"));
        match self.changed.as_deref() {
            None => text.push_str("  it cannot be taken away\n"),
            Some([]) => text.push_str(&format!("  without it{neutral} no row changes\n")),
            Some(rows) => {
                let count = rows.len();
                text.push_str(&format!("  without it{neutral} {count} rows change:\n"));
                for row in rows {
                    let (with, without) = (row.with.word(), row.without.word());
                    let line = format!("{}: {}: {with}, without it {without}", row.table, row.row);
                    text.push_str(&format!("    {line}\n"));
                }
            }
        }
        text
    }
}

/// A row that comes to another verdict.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ChangedRow {
    /// Its table.
    pub table: String,
    /// Its name.
    pub row: String,
    /// With the value.
    pub with: Verdict,
    /// Without it.
    pub without: Verdict,
}

/// The rows that differ in their verdict.
pub(super) fn changed(with: &PostReport, without: &PostReport) -> Vec<ChangedRow> {
    let mut all = Vec::new();
    for (table, other) in with.tables.iter().zip(&without.tables) {
        for (row, other) in table.rows.iter().zip(&other.rows) {
            let (before, after) = (judge(row), judge(other));
            if before != after {
                all.push(ChangedRow {
                    table: table.title.clone(),
                    row: row.what.clone(),
                    with: before,
                    without: after,
                });
            }
        }
    }
    all
}
