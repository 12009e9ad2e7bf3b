//! What a row came to, as a word.
use serde::Serialize;

/// What a row came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It agrees as its class asks.
    Agrees,
    /// An exact row, a ratio or a bound that does not: a failure.
    Misses,
    /// An absolute row that does not: a warning.
    Warns,
    /// There is nothing to compare.
    Shown,
}

impl Verdict {
    /// As the JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Misses => "misses",
            Verdict::Warns => "warns",
            Verdict::Shown => "shown",
        }
    }
}
