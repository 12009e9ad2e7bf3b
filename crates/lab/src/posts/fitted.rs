//! What was fitted for a post: what no source gives and was chosen so that a figure comes out.
//!
//! Each value says which rows it decides: those whose verdict changes when it is taken away. A file
//! may say how to take it away; then that can be tried ([`super::without_fitted`]).
use super::file::Post;
use super::report::{PostReport, Row};
use super::{Verdict, judge};
use crate::scenario::Changes;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// A value that the post does not give.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, Serialize)]
#[serde(from = "Written")]
pub struct Fitted {
    /// What it is, and what it was fitted to.
    pub what: String,
    /// Where it comes from.
    pub origin: FittedOrigin,
    /// The value, with its unit.
    pub value: Option<String>,
    /// What stands in its place when it is taken away.
    pub neutral: Option<String>,
    /// Names of the rows whose verdict changes when it is taken away.
    pub decides: Vec<String>,
    /// How to take it away.
    #[serde(skip)]
    pub(super) without: Option<Without>,
}

/// Where a value comes from that the post does not give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FittedOrigin {
    /// It was chosen so that a figure of the post comes out.
    #[default]
    Fitted,
    /// It is one of several that could have been: a drive of the year.
    Chosen,
    /// It is usual, or follows from something else; no figure was looked at.
    Assumed,
}

/// What is run in place of a fitted value.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Without {
    /// The runs in which it is taken away; all if none is named.
    #[serde(default)]
    pub(super) runs: Vec<String>,
    /// What is different in their scenarios.
    #[serde(default)]
    pub(super) change: Changes,
    /// Words in the policies of systems, and what stands in their place.
    #[serde(default)]
    pub(super) policies: BTreeMap<String, String>,
}

/// A value as a file has it: words alone, or a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Words(String),
    Table(Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    what: String,
    #[serde(default)]
    origin: FittedOrigin,
    value: Option<String>,
    neutral: Option<String>,
    #[serde(default)]
    decides: Vec<String>,
    without: Option<Without>,
}

impl From<Written> for Fitted {
    fn from(written: Written) -> Fitted {
        match written {
            Written::Words(what) => Fitted { what, ..Fitted::default() },
            Written::Table(table) => Fitted {
                what: table.what,
                origin: table.origin,
                value: table.value,
                neutral: table.neutral,
                decides: table.decides,
                without: table.without,
            },
        }
    }
}

impl From<&str> for Fitted {
    fn from(what: &str) -> Fitted {
        Fitted { what: what.to_owned(), ..Fitted::default() }
    }
}

impl Without {
    /// Whether the run of that name is another without the value.
    pub(super) fn is_in(&self, run: &str) -> bool {
        self.runs.is_empty() || self.runs.iter().any(|name| name == run)
    }

    /// Policies without the value.
    pub(super) fn policies(&self, words: &str) -> String {
        let replaced = |words: String, (from, to): (&String, &String)| words.replace(from, to);
        self.policies.iter().fold(words.to_owned(), replaced)
    }
}

/// All of a post. As JSON two lists: `fitted`, the words alone, and `fitted_values`, all of each.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FittedValues(pub Vec<Fitted>);

impl Serialize for FittedValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut both = serializer.serialize_struct("FittedValues", 2)?;
        let words: Vec<&str> = self.0.iter().map(|value| value.what.as_str()).collect();
        both.serialize_field("fitted", &words)?;
        both.serialize_field("fitted_values", &self.0)?;
        both.end()
    }
}

impl PostReport {
    /// Rows whose post has a figure that ours is held against.
    pub fn rows_decided(&self) -> usize {
        self.rows().filter(|row| judge(row) != Verdict::Shown).count()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.tables.iter().flat_map(|table| &table.rows)
    }

    /// How many values of each origin there are beside how many rows, in words.
    pub fn fitted_count(&self) -> String {
        let count = |origin: FittedOrigin| {
            self.fitted.0.iter().filter(|value| value.origin == origin).count()
        };
        let mut words = format!("{} fitted", count(FittedOrigin::Fitted));
        let others = [(FittedOrigin::Chosen, "chosen"), (FittedOrigin::Assumed, "assumed")];
        for (origin, word) in others {
            match count(origin) {
                0 => {}
                some => words.push_str(&format!(", {some} {word}")),
            }
        }
        format!("{words}, beside {} rows decided", self.rows_decided())
    }

    /// The words of each value, in a line.
    pub fn fitted_words(&self) -> String {
        let words = self.fitted.0.iter().map(|value| match value.origin {
            FittedOrigin::Fitted => value.what.clone(),
            FittedOrigin::Chosen => format!("{} (chosen)", value.what),
            FittedOrigin::Assumed => format!("{} (assumed)", value.what),
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
    /// Rows with another verdict; `None` if the file does not say how to take the value away.
    pub changed: Option<Vec<ChangedRow>>,
}

impl FittedEffect {
    /// In words: the value, the rows that its file says it decides, and those that change.
    pub fn to_text(&self) -> String {
        let mut text = format!("post {}: {}\n", self.post, self.fitted.what);
        if !self.fitted.decides.is_empty() {
            let rows = self.fitted.decides.join("; ");
            text.push_str(&format!("  its file says that it decides: {rows}\n"));
        }
        let neutral = self.fitted.neutral.as_deref();
        let neutral = neutral.map_or_else(String::new, |words| format!(" ({words})"));
        match self.changed.as_deref() {
            None => text.push_str("  its file does not say how to take it away\n"),
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

/// The runs that the file names are there.
///
/// # Errors
/// The first that is not.
pub(super) fn check(post: &Post) -> Result<(), String> {
    let named = post.fitted.iter().filter_map(|value| value.without.as_ref());
    for run in named.flat_map(|without| &without.runs) {
        if !post.run.iter().any(|known| known.name == *run) {
            return Err(format!("{run:?}: there is no such run"));
        }
    }
    Ok(())
}
