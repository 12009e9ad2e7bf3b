//! Whether a row agrees with its post.
use super::Row;
use serde::Serialize;

/// What a row came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It agrees as its class asks.
    Agrees,
    /// An exact row or a ratio that does not: a failure.
    Misses,
    /// An absolute row that does not: a warning.
    Warns,
    /// There is nothing to compare.
    Shown,
}

/// Judges a row.
pub fn judge(row: &Row) -> Verdict {
    let _ = row;
    Verdict::Shown
}
