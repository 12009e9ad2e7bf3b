//! Sweeps: many jobs of the command `extant`, planned from a matrix, run by processes, collected as
//! a table.
//!
//! A job is one line of JSON: a kind, the words of a command line, the files that it reads with
//! their digests, our version, its limits. Its *id* is the digest of all that decides its result,
//! and its result is one file of that name, written whole or not at all. So a job that is run
//! twice, by two runs or on two machines, does no harm, and who is cut goes on by running all
//! again.
//!
//! ```text
//! pool        a run: worker processes, their limits, retries
//! process     one worker process, seen from the run: pipes, memory, its end
//! worker      the other end: reads jobs, runs them, writes results
//! status      how far a directory is
//! compare     results side by side, by keys of the matrix
//! collect     results become a table; table: columns, cells, CSV and JSON Lines
//! directory   results, failures, plans and locks of a sweep; whole: files written whole
//! plan        a matrix becomes jobs
//! assemble    one combination of values becomes the words of a command line
//! matrix      the file: axes, zips, filters; reader: TOML with lines; values: lists and ranges
//! kinds       the table of what can be a job
//! references  files that a file of the laboratory refers to
//! vocabulary  what the command line has to say about words
//! memory      what a process holds, and how it is kept from more
//! inputs      digests of files and folders, and whether they changed
//! job         a job as a line
//! error       one line, and a hint
//! ```
//!
//! A module uses those below it only. Nothing here knows a command: `extant-cli` gives its words
//! ([`vocabulary::Vocabulary`]) and runs them ([`worker::Commands`]).
pub mod assemble;
pub mod collect;
pub mod compare;
pub mod directory;
pub mod error;
pub mod inputs;
pub mod job;
pub mod kinds;
pub mod matrix;
pub mod memory;
pub mod plan;
pub mod pool;
pub mod process;
pub mod references;
pub mod status;
pub mod table;
pub mod vocabulary;
pub mod whole;
pub mod worker;

/// The version that jobs and workers have to be of.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
