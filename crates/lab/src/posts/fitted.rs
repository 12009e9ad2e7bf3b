//! What was fitted for a post: what no source gives and was chosen so that a figure comes out.
//!
//! Each value says which rows it decides: those whose verdict changes when it is taken away. A file
//! may say how to take it away; then that can be tried ([`super::without_fitted`]).
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
    Table(Box<Table>),
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
