//! What the project does to itself: tidy, oracles, benchmark tables.
fn main() {}
