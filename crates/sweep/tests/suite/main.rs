//! What the crate is tested for without a command of ours: plans over a vocabulary that the test
//! has, and runs whose workers are shell scripts that do what goes wrong.
//!
//! ```text
//! plans        matrices: counts, orders, and each mistake with its line
//! runs         workers that do their work, die, grow, hang or are something else
//! directories  two runs, plans that are none, results that are not whole
//! fixture      the vocabulary, plans and scripts
//! ```
mod directories;
mod fixture;
mod plans;
mod runs;
