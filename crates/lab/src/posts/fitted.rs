//! What a post does not give: every value that was put in its place, with where it comes from.
//!
//! A value is *fitted* when it was chosen by its result. Each says what it is, its origin and its
//! source, and which rows it decides: those whose verdict changes when it is taken away. A file may
//! say how to take it away; then that can be tried ([`super::without_fitted`]).
use crate::scenario::Changes;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// A value that the post does not give.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// What it is.
    pub what: String,
    /// Where it comes from.
    pub origin: FittedOrigin,
    /// Who says so, or to what it was fitted.
    pub source: String,
    /// The value, with its unit.
    pub value: Option<String>,
    /// What stands in its place when it is taken away.
    pub neutral: Option<String>,
    /// Names of the rows whose verdict changes when it is taken away.
    #[serde(default)]
    pub decides: Vec<String>,
    /// How to take it away.
    #[serde(skip_serializing)]
    pub(super) without: Option<Without>,
}

/// Where a value comes from that the post does not give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FittedOrigin {
    /// It was chosen by its result: so that a figure of the post comes out.
    #[default]
    Fitted,
    /// It is one of several that could have been, by the year or the text: no result was looked at.
    Chosen,
    /// It is usual, or follows from something else; no figure was looked at.
    Assumed,
    /// It is computed from a figure of the post, which therefore is no result.
    Given,
}

impl Fitted {
    /// One of which no more is known.
    pub fn new(what: &str, origin: FittedOrigin, source: &str) -> Fitted {
        Fitted { what: what.to_owned(), origin, source: source.to_owned(), ..Fitted::default() }
    }
}

impl FittedOrigin {
    /// All of them, in the order in which they are counted.
    pub const ALL: [FittedOrigin; 4] =
        [FittedOrigin::Fitted, FittedOrigin::Chosen, FittedOrigin::Assumed, FittedOrigin::Given];

    /// As the JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            FittedOrigin::Fitted => "fitted",
            FittedOrigin::Chosen => "chosen",
            FittedOrigin::Assumed => "assumed",
            FittedOrigin::Given => "given",
        }
    }
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
    /// Another processor than the post's: "none" takes no time.
    pub(super) processor: Option<String>,
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

/// All of a post. As JSON two lists: `fitted`, the words of those that were fitted, and
/// `fitted_values`, all of each value, whatever its origin.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FittedValues(pub Vec<Fitted>);

impl FittedValues {
    /// How many have that origin.
    pub fn count(&self, origin: FittedOrigin) -> usize {
        self.0.iter().filter(|value| value.origin == origin).count()
    }
}

impl Serialize for FittedValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut both = serializer.serialize_struct("FittedValues", 2)?;
        let fitted = self.0.iter().filter(|value| value.origin == FittedOrigin::Fitted);
        let words: Vec<&str> = fitted.map(|value| value.what.as_str()).collect();
        both.serialize_field("fitted", &words)?;
        both.serialize_field("fitted_values", &self.0)?;
        both.end()
    }
}
