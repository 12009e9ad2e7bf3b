//! The check: whether a volume is what its own metadata says it is. Read-only.
//!
//! ```text
//! pass 0  superblock, groups, journal   where everything is; what cannot be believed is replaced by a copy
//! pass 1  inodes, maps, attributes      each inode, each block that it claims     --> claims, facts, directory blocks
//!      1b duplicates                    only when a block was claimed twice
//! pass 2  directories, index            each directory block, in disk order       --> links counted, parents
//! pass 3  connectivity                  is everything reached from the root?
//! pass 4  links                         do the link counts agree?
//! pass 5  bitmaps                       do bitmaps and counters agree with the claims?
//! ```
//!
//! Problems are data ([`Problem`]): a [`Code`] with its [`Rule`] (sentence, severity, what a repair
//! would do) and the place. The report is the same whatever the number of threads.
mod attribute_list;
mod attributes;
mod bitmaps;
mod claims;
mod codes;
mod connectivity;
mod directories;
mod duplicates;
mod entries;
mod groups;
mod index;
mod inline;
mod inodes;
mod journal;
mod leftover;
mod links;
mod maps;
mod mounts;
mod orphans;
mod plan;
mod problem;
mod progress;
mod quota;
mod reader;
mod resize;
mod special;
mod state;
mod superblock;
mod tree;
mod twice;
mod words;
mod work;

pub use codes::{CODES, Code, Rule};
pub use problem::{Pass, Problem, Repair, Severity};
pub use progress::{Listener, Progress};

pub(crate) use claims::Claims;
pub(crate) use superblock::{Corrections, parse_corrected};

use crate::error::Error;
use extant_block::BlockDevice;
use problem::{Found, Sink};
use serde::Serialize;
use state::State;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

/// In which order the disk is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Plan {
    /// Inode tables in large pieces; map blocks of many files sorted across levels, neighbours in
    /// one read.
    #[default]
    DiskOrder,
    /// As checkers of ext2 and ext3 did: tables 8 blocks at a time, 256 inodes sorted by their
    /// first indirect block, map blocks one by one.
    Vanilla,
}

/// How a volume is checked.
#[derive(Clone)]
pub struct CheckOptions {
    /// In which order the disk is read.
    pub plan: Plan,
    /// Threads of the device's clock that share the work.
    pub threads: NonZeroU32,
    /// Who is told how far it is.
    pub progress: Option<Listener>,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { plan: Plan::DiskOrder, threads: NonZeroU32::MIN, progress: None }
    }
}

/// What a check found. As JSON it is `{"schema": 1, ...}` with these fields; fields may be added
/// within a schema.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// The version of this shape: 1.
    pub schema: u32,
    /// e2fsck's exit code, see [`exit_code`](CheckReport::exit_code).
    pub exit_code: u8,
    /// What is wrong, in order: by pass, then by place. Bounded: see `omitted`.
    pub problems: Vec<Problem>,
    /// Problems that were found but are not kept.
    pub omitted: u64,
    /// How many of each code, by its name.
    pub counts: BTreeMap<&'static str, u64>,
    /// What is on the volume, as it was counted.
    pub summary: Summary,
}

/// What is on the volume, as it was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Summary {
    /// Inodes of the volume.
    pub inodes: u64,
    /// Those in use, reserved ones included.
    pub inodes_used: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks of the volume.
    pub blocks: u64,
    /// Those in use.
    pub blocks_used: u64,
}

impl CheckReport {
    /// As e2fsck: 0 nothing is wrong (advice apart), 4 there are problems, 8 nothing could be
    /// checked, 12 there are problems and what lies behind them could not be judged.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.exit_code == 0
    }
}

/// Checks a volume.
///
/// # Errors
/// When the device fails. What stands on it is never an error: it is a problem of the report.
pub fn check(device: Arc<dyn BlockDevice>, options: &CheckOptions) -> Result<CheckReport, Error> {
    let mut options = options.clone();
    if options.plan == Plan::Vanilla {
        // The era's checkers have one thread.
        options.threads = NonZeroU32::MIN;
    }
    let mut state = match prepare(&device, &options)? {
        Prepared::Ready(state) => state,
        Prepared::Unusable(problems) => return Ok(report(problems.take(), Summary::default())),
    };
    run(&state)?;
    if options.threads.get() > 1 && (state.order_matters() || state.claims.any_double()) {
        // Who claims a block first decides what follows: once more, by one thread, in the order of
        // the disk.
        options.threads = NonZeroU32::MIN;
        if let Prepared::Ready(again) = prepare(&device, &options)? {
            state = again;
            run(&state)?;
        }
    }
    let summary = bitmaps::summary(&state);
    Ok(report(state.problems.take(), summary))
}

/// What pass 0 comes to.
enum Prepared {
    Ready(Arc<State>),
    Unusable(Sink),
}

/// Pass 0.
fn prepare(device: &Arc<dyn BlockDevice>, options: &CheckOptions) -> Result<Prepared, Error> {
    let problems = Sink::default();
    let Some(volume) = superblock::open(device, &problems)? else {
        return Ok(Prepared::Unusable(problems));
    };
    superblock::judge(&volume, &problems);
    let (volume, groups) = groups::believable(volume, device, &problems)?;
    mounts::judge(&volume, &problems)?;
    journal::judge(&volume, &problems)?;
    if problems.has(Severity::Fatal) {
        return Ok(Prepared::Unusable(problems));
    }
    let clock = Arc::clone(device.clock());
    let mut state = State::new(Arc::new(volume), groups, options.clone(), clock);
    state.problems = problems;
    state.metadata =
        groups::judge(&state.volume, &mut state.groups, &state.claims, &state.problems)?;
    orphans::collect(&mut state)?;
    Ok(Prepared::Ready(Arc::new(state)))
}

/// The passes behind pass 0.
fn run(state: &Arc<State>) -> Result<(), Error> {
    inodes::run(state)?;
    if state.claims.any_double() {
        duplicates::run(state)?;
    }
    directories::run(state)?;
    connectivity::run(state)?;
    links::run(state)?;
    bitmaps::run(state)?;
    quota::judge(state)
}

/// Found problems, in order, with the exit code that they come to.
fn report(found: Found, summary: Summary) -> CheckReport {
    let worst = found.counts.keys().map(|code| code.rule().severity).max();
    let exit_code = match worst {
        None | Some(Severity::Advice) => 0,
        Some(Severity::Error) => 4,
        Some(Severity::Stopping) => 12,
        Some(Severity::Fatal) => 8,
    };
    let all: u64 = found.counts.values().sum();
    CheckReport {
        schema: 1,
        exit_code,
        omitted: all - found.problems.len() as u64,
        problems: found.problems.into_iter().collect(),
        counts: found.counts.iter().map(|(code, count)| (code.rule().name, *count)).collect(),
        summary,
    }
}
