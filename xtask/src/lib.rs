//! What the project does to itself: judges its own sources, measures, shows itself, and puts a word
//! of the command line in front of the kit that its tests use.
//!
//! ```text
//! gates     suites (the tests and their time), tidy (the house rules), licenses
//! tables    bench/{input, build, read, check, limits, layout, lab}, demo
//!           measure (time and memory)   sheet (printed, and kept for a document)
//! commands  for `extant_testkit`: diff_walk, fixtures, tools
//! ```

pub mod bench;
pub mod demo;
pub mod diff_walk;
pub mod fixtures;
pub mod licenses;
pub mod measure;
pub mod sheet;
pub mod suites;
pub mod tidy;
pub mod tools;

use extant_testkit::{archive, command, compare, oracle, repository, scratch, walk};
