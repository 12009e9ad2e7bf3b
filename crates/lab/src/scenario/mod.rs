//! Scenarios: TOML files that name drives, file systems with their policies, and processes with
//! steps.
//!
//! ```toml
//! name = "untar"
//! line = "a source tree is unpacked, and read back by tar, cold"
//! seed = 1
//! memory = "768M"
//!
//! [[drive]]
//! name = "disk"
//! model = "ide-2001-7200"
//!
//! [[filesystem]]
//! name = "home"
//! drive = "disk"
//! size = "2G"
//! profile = "ext2"
//! preset = "linux-2.4"
//! policies = { placement = "parent" }
//!
//! [[process]]
//! name = "tar"
//! filesystem = "home"
//! steps = [
//!     { step = "untar", at = "/linux", measure = "untar, sync",
//!       tree = { rule = "source", files = 10100, directories = 600, bytes = "133M" } },
//!     { step = "sync", measure = "untar, sync" },
//!     { step = "remount" },
//!     { step = "tar", at = "/linux", to = "zero" },
//! ]
//! ```
//!
//! # Keys
//! docs/LAB.md has every key of a file; [`step::KINDS`] is the table of steps and their keys. Sizes
//! are numbers of bytes or strings with a unit (`"4K"` is 4,096 bytes, `"21GB"` 21e9); times are
//! strings with a unit. A key that is not known is refused.
//!
//! The same rule gives the same tree wherever it stands in a file: the seed is the scenario's.
//!
//! [`parse`] checks all that can be checked without running; [`run`](fn@run) runs it. A run divides
//! counts of files, bytes, pieces and calls by [`RunOptions::scale`]; repetitions and listings it
//! leaves as they are.
//!
//! ```text
//! run             runs a scenario, gives a report
//! summary         the report of a run                 machine    drives, file systems
//! prepare         a scenario as it is run: what cannot be is refused before it starts
//! process         what a process does, step by step: making, filling, placing, placing_trees,
//!                 inode_order, walk, by_directory, files (choosing: which), stream, checking,
//!                 power, ageing
//! rows            how far a process has got: rows of the report, stages of trees
//! world           what the processes of a run share   mount      a file system that is open
//! time            virtual or real                     partition  parts of a device
//! image           an image as the contents of a drive
//! options         how a scenario is run              processor  what its work costs
//! builtin         the scenarios that are built in
//! file            the file as a whole: drives, file systems, processes
//! format          the volume of a file system, of today or of its preset's time
//! results         what a file computes from its measures
//! changes         other values than those of the file
//! step            what steps do (files: single ones); parse: how a file says it: making, walking,
//!                 streams, volumes
//! tree            trees by rule (names, sizes), and from a listing
//! error           what goes wrong
//! ```
mod ageing;
mod builtin;
mod by_directory;
mod changes;
mod checking;
mod choosing;
mod error;
mod file;
mod files;
mod filling;
mod format;
mod image;
mod inode_order;
mod machine;
mod making;
mod mount;
mod options;
mod partition;
mod placing;
mod placing_trees;
mod power;
mod prepare;
mod process;
mod processor;
mod results;
mod rows;
mod run;
pub mod step;
mod stream;
mod summary;
mod time;
pub mod tree;
mod walk;
mod world;

pub(crate) use builtin::of_post;
pub use builtin::{BUILTINS, Builtin, POST_SCENARIOS, builtin};
pub use changes::{Changes, Setting, Settings};
pub use error::ScenarioError;
pub use file::{find, load, parse, parse_changed};
pub(crate) use format::of_its_time;
pub use options::{Existing, Layouts, Prepared, RunOptions, Target};
#[cfg(test)]
pub(crate) use prepare::charged;
pub use processor::{PROCESSORS, Processor, processor};
pub use run::{Left, Outcome, run};

use crate::results::ResultEntry;
use crate::session::FileRecord;
use crate::setup::Setup;
use extant_engine::mkfs::FormatOptions;
use extant_sim::drive::file::DriveSpec;
use extant_sim::queue::ElevatorChoice;
use std::path::PathBuf;
use std::sync::Arc;

/// A scenario, checked: every name in it is known.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file, as errors name it.
    pub file: String,
    /// What it is called.
    pub name: String,
    /// One line about it.
    pub line: String,
    /// Everything random comes from this.
    pub seed: u64,
    /// How many processors compute at a time.
    pub processors: u32,
    /// What all file systems are charged for, whatever their presets; by default each for the
    /// processor of its preset's time.
    pub processor: Option<&'static Processor>,
    /// Drives; at least one.
    pub drives: Vec<DriveEntry>,
    /// File systems.
    pub filesystems: Vec<FilesystemEntry>,
    /// Processes; at least one.
    pub processes: Vec<ProcessEntry>,
    /// What is computed from their rows.
    pub results: Vec<ResultEntry>,
}

/// A drive of a scenario.
#[derive(Clone, Debug)]
pub struct DriveEntry {
    /// Its name in the scenario.
    pub name: String,
    /// Where it is in the file.
    pub line: usize,
    /// What it is.
    pub spec: DriveSpec,
    /// The order of the host's queue; by default that of the first file system's preset.
    pub elevator: Option<ElevatorChoice>,
    /// How many requests of each direction the host's queue takes; by default as the first file
    /// system's preset says.
    pub requests: Option<u32>,
    /// The largest command; by default the drive's.
    pub merge_bytes: Option<u64>,
    /// How long an idle device waits for more; by default 3 ms.
    pub plug_ns: Option<u64>,
    /// Which of its values were fitted to a measurement rather than known: for the report.
    pub fitted: Vec<String>,
}

/// A file system of a scenario.
#[derive(Clone, Debug)]
pub struct FilesystemEntry {
    /// Its name in the scenario.
    pub name: String,
    /// Where it is in the file.
    pub line: usize,
    /// Number of its drive.
    pub drive: usize,
    /// First byte on the drive.
    pub offset: u64,
    /// Where its content comes from.
    pub origin: Origin,
    /// Its policies, and the machine of its drive if it is the first there.
    pub setup: Setup,
    /// Memory for its cache, in bytes.
    pub memory_bytes: u64,
    /// Whether file data is kept.
    pub data: Data,
    /// What has happened to it before the first process.
    pub aged: Option<Aged>,
}

/// The past of a file system.
#[derive(Clone, Debug)]
pub enum Aged {
    /// It was used as a profile says.
    Life(step::AgeAction),
    /// Programs asked this of it.
    Session(Arc<Vec<FileRecord>>),
}

/// Where a file system's content comes from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// It is made anew.
    Format(Box<FormatOptions>),
    /// It is a copy of an image; the file is never changed.
    Image(PathBuf),
}

/// Whether file data is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data {
    /// Only its places: data reads as zeros.
    Phantom,
    /// All of it.
    Bytes,
}

/// A process of a scenario, or several that do the same.
#[derive(Clone, Debug)]
pub struct ProcessEntry {
    /// Its name in the scenario.
    pub name: String,
    /// Where it is in the file.
    pub line: usize,
    /// What it works on.
    pub place: Workplace,
    /// When it starts.
    pub start: Start,
    /// Whether the time of each of its calls is in the report, one by one.
    pub samples: Samples,
    /// How many there are; `{n}` in paths is the number of each, from 0.
    pub copies: u32,
    /// What it does.
    pub steps: Vec<step::Step>,
}

/// What a process works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workplace {
    /// The file system of that number.
    Filesystem(usize),
    /// The bare drive of that number.
    Drive(usize),
}

/// Whether the time of each call of a process is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Samples {
    /// Only how they are distributed.
    #[default]
    Summed,
    /// Each, up to a million of a kind.
    Kept,
}

/// When a process starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At this time, in nanoseconds from the start of the scenario.
    At(u64),
    /// When the process of that number (and all its copies) ended.
    After(usize),
}
