//! What the project does to itself: judges its own sources, measures, shows itself, and puts a word
//! of the command line in front of the kit that its tests use.
//!
//! ```text
//! suites      the tests, and the time of each crate's; guide: its tables in CONTRIBUTING.md
//! turnaround  how long a change of a crate takes to be tested; alone: what each test costs
//! tidy        the house rules, read from the sources
//! shape       lines, files, functions, comments, assertions: the house counted
//! licenses    what every dependency may be used for
//! dist        what others install: packages, a static command, libextant, a wheel; published:
//!             crates
//! shipped     how that is compiled, which the tests of the release profile are, too
//! bench       tables of speed and memory; measure: one program, timed
//!             bench::{input, engine, build, memory, read, extract, check, layout, lab, limits,
//!             mount, oci}: a kind of table each; bench::mount::{rows, systems}: what is run, and
//!             on what
//! sheet       what is printed, and kept for a document
//! crash       power cuts: the command of `extant_crash`
//! instructions  what two builds of the command execute for the same work
//! fuzz        bytes that nobody wrote: the command of `extant_fuzz`
//! damage      the test `mutations` of `inspect`, on as many as asked for
//! demo        a real tree becomes an image and comes out again
//! diff_walk, fixtures, tools    commands for `extant_testkit`
//! api         the public items of the crate for programs, as a list
//! header      what C includes, made of the sources; installed: programs of the registry
//! proofs      what others say of a mount: suites, loads, real programs, power cuts
//! python      the Python package, built and tested in a fresh environment
//! kernel_journals                the test of that name in `engine`, on as many as asked for
//! ```

pub mod alone;
pub mod api;
pub mod bench;
pub mod crash;
pub mod damage;
pub mod demo;
pub mod diff_walk;
pub mod dist;
pub mod fixtures;
pub mod fuzz;
pub mod guide;
pub mod header;
pub mod installed;
pub mod instructions;
pub mod kernel_journals;
pub mod licenses;
pub mod measure;
pub mod proofs;
pub mod published;
pub mod python;
pub mod shape;
pub mod sheet;
pub mod shipped;
pub mod suites;
pub mod tidy;
pub mod tools;
pub mod turnaround;

use extant_testkit::{archive, command, compare, oracle, repository, scratch, walk};
