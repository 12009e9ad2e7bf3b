//! How large the leaf is that everything with a device builds on.

use super::source::{Place, Source};

/// The leaf: a change of it builds the crates above it again.
const LEAF: &str = "crates/block/src/";
/// Its lines without tests. What only a laboratory or tests need belongs to `sim`. A sixth of it is
/// read-ahead in front of a device (`neighbours`, `paced`): that goes first, to a crate of its own,
/// when it grows again.
pub const LEAF_LINES_MAX: usize = 7100;

/// The leaf, if it has grown.
pub fn grown(sources: &[Source]) -> Vec<Place> {
    let leaf = sources.iter().filter(|source| source.path.starts_with(LEAF) && source.is_rust());
    let code = |source: &Source| {
        let lines = 1..=source.text.lines().count();
        lines.filter(|line| !source.is_test_line(*line)).count()
    };
    let lines: usize = leaf.map(code).sum();
    let is_grown = lines > LEAF_LINES_MAX;
    let place = Place {
        path: format!("{LEAF}lib.rs"),
        line: 1,
        sentence: format!("the crate has {lines} lines of code, the limit is {LEAF_LINES_MAX}"),
    };
    is_grown.then_some(place).into_iter().collect()
}
