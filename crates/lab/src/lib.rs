//! The laboratory: the engine that ships, on a drive in virtual time.
//!
//! A scenario names drives, file systems with their policies, and processes with steps. It runs on
//! the virtual clock and the drives of `extant-sim`, with the calls of a mount, and gives a report.
//! One seed gives one report, byte for byte.
//!
//! ```text
//! page       reports as pages: their sections, tables and figures
//! spread     several seeds: medians, ranges, and orders that hang on the seed
//! observations   results as CSV, JSON Lines and Parquet
//! parquet    tables in files of Parquet
//! posts      the mailing list posts: their figures, our runs, and how far they agree
//! traces     a trace on a drive: a time for each request, or sums
//! asked      what the words of a user name
//! capsule    scenarios with all that they refer to, and what they gave, in a file
//! scenario   TOML files, their steps, and what runs them
//! results    figures computed from measures
//! setup      policies and machines by the same words
//! session    what programs asked of a mount, lived again
//! ageing     months of use of a volume, and what they do to it
//! fit        a drive file from a real device: probes, and a search
//! refused    why something is not done
//! wanted     whether long work is still wanted
//! figures    figures of what a run recorded
//! report     what a run gives, as text and JSON
//! fields     keys of all kinds in TOML files
//! quantity   sizes and times as words
//! ```
//!
//! A module uses those below it only.
pub mod ageing;
pub mod asked;
pub mod capsule;
pub mod fields;
pub mod figures;
pub mod fit;
pub mod observations;
pub mod page;
pub mod parquet;
pub mod posts;
pub mod quantity;
pub mod refused;
pub mod report;
pub mod results;
pub mod scenario;
pub mod session;
pub mod setup;
pub mod spread;
pub mod traces;
pub mod wanted;
